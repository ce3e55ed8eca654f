"""Output records of ``vlsn check`` and ``vlsn rebuild`` in addition to findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

from engine.fields import Bool, Int, Like, SizeBytes, Text, Vlsn, record
from engine.verify.report import Finding
from engine.vlsn.vlsn_range import VLSNRange
from jetool.commands.vlsn.rows import Landmarks, range_of_index
from jetool.output.verdicts import VerdictFields

if TYPE_CHECKING:
    from engine.vlsn.index import VLSNIndex


@record("summary")
class IndexCheck(NamedTuple):
    """What was checked."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    errors: Annotated[Int, "findings that are damage"]
    warnings: Annotated[Int, "findings to examine"]
    notes: Annotated[Int, "findings that explain"]
    first: Annotated[Vlsn, "first VLSN of the index as recovery leaves it; null without one"]
    last: Annotated[Vlsn, "last VLSN"]
    mappings: Annotated[Int, "VLSNs whose LSN the index keeps, each compared with the log"]


@record("rebuilt")
class Rebuilt(NamedTuple):
    """The new index."""

    environment: Annotated[Text, "its directory"]
    changed: Annotated[Bool, "the index was rebuilt; false when the old index was right"]
    dry_run: Annotated[Bool, "nothing was changed"]
    reasons: Annotated[Sequence[Text], "what was wrong with the old index"]
    before: Annotated[Landmarks | None, "its range as recovery would leave it; null when that was refused"]
    after: Annotated[Landmarks | None, "range of the new one"]
    buckets: Annotated[Int, "buckets of the new one"]
    mappings: Annotated[Int, "VLSNs whose LSN it keeps"]
    missing: Annotated[Sequence[Text], "VLSNs that the log lacks; the index begins after the last of them"]
    backup: Annotated[Text | None, "where the old bytes were saved; null when nothing was"]
    saved_bytes: Annotated[SizeBytes, "how many"]


class RebuiltIndex(NamedTuple):
    """A new index.

    Attributes:
        range, buckets, mappings: the content of the index.
        gaps: VLSNs that the log lacks, first and last.
        backup, saved_bytes: directory and number of the saved bytes; None and 0 if nothing was saved.
    """

    range: VLSNRange
    buckets: int
    mappings: int
    gaps: tuple[tuple[int, int], ...]
    backup: str | None
    saved_bytes: int


def size_of(index: VLSNIndex) -> tuple[int, int]:
    """The number of buckets and of mappings in an index."""
    buckets = list(index.buckets())
    return len(buckets), sum(len(bucket.mappings()) for bucket in buckets)


def rebuilt(
    env: str, wrong: list[Finding], old: VLSNIndex | None, made: RebuiltIndex | None, *, dry_run: bool
) -> Rebuilt:
    """What a rebuild did.

    Arguments:
        env: the environment.
        wrong: why.
        old: the previous index; None if opening for writing was refused.
        made: the new index; None if the old one was kept.
        dry_run: nothing was changed.
    """
    before = None if old is None else range_of_index(old.range)
    buckets, mappings = (0, 0) if old is None else size_of(old)
    return Rebuilt(
        environment=env,
        changed=made is not None,
        dry_run=dry_run,
        reasons=[finding.message for finding in wrong],
        before=before,
        after=before if made is None else range_of_index(made.range),
        buckets=buckets if made is None else made.buckets,
        mappings=mappings if made is None else made.mappings,
        missing=[] if made is None else [f"{first}..{last}" for first, last in made.gaps],
        backup=None if made is None else made.backup,
        saved_bytes=0 if made is None else made.saved_bytes,
    )
