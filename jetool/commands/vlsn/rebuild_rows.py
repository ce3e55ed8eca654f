"""What ``vlsn check`` and ``vlsn rebuild`` print beside findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from engine.verify.report import Finding
from engine.vlsn.vlsn_range import VLSNRange
from jetool.commands.vlsn.rows import LANDMARKS, range_of_index
from jetool.output.shape import Field, Row, Shape

if TYPE_CHECKING:
    from engine.vlsn.index import VLSNIndex

SUMMARY: Final = Shape(
    "summary",
    "What was checked.",
    (
        Field("errors", "int", "findings that are damage"),
        Field("warnings", "int", "findings to look at"),
        Field("notes", "int", "findings that explain"),
        Field("first", "vlsn", "first VLSN of the index as recovery leaves it; null without one"),
        Field("last", "vlsn", "last VLSN"),
        Field("mappings", "int", "VLSNs whose LSN the index keeps, each compared with the log"),
    ),
)
REBUILT: Final = Shape(
    "rebuilt",
    "The new index.",
    (
        Field("environment", "text", "its directory"),
        Field("changed", "bool", "the index was made anew; false when the old one was right"),
        Field("dry_run", "bool", "nothing was changed"),
        Field("reasons", "texts", "what was wrong with the old one"),
        Field("before", "record", "its range as recovery would leave it; null when that was refused", null=True,
              fields=LANDMARKS),
        Field("after", "record", "range of the new one", null=True, fields=LANDMARKS),
        Field("buckets", "int", "buckets of the new one"),
        Field("mappings", "int", "VLSNs whose LSN it keeps"),
        Field("missing", "texts", "VLSNs that the log lacks; the index begins after the last of them"),
        Field("backup", "text", "where the old bytes were saved; null when nothing was", null=True),
        Field("saved_bytes", "size_bytes", "how many"),
    ),
)  # fmt: skip


class RebuiltIndex(NamedTuple):
    """A new index.

    Attributes:
        range, buckets, mappings: what is in it.
        gaps: VLSNs that the log lacks, first and last.
        backup, saved_bytes: where the old bytes are; None and 0 when nothing was saved.
    """

    range: VLSNRange
    buckets: int
    mappings: int
    gaps: tuple[tuple[int, int], ...]
    backup: str | None
    saved_bytes: int


def size_of(index: VLSNIndex) -> tuple[int, int]:
    """How many buckets an index has, and how many mappings are in them."""
    buckets = list(index.buckets())
    return len(buckets), sum(len(bucket.mappings()) for bucket in buckets)


def rebuilt_row(
    env: str, wrong: list[Finding], old: VLSNIndex | None, made: RebuiltIndex | None, *, dry_run: bool
) -> Row:
    """What a rebuild did.

    Arguments:
        env: the environment.
        wrong: why.
        old: the index before, None when opening for writing was refused.
        made: the new one; None when the old one was left.
        dry_run: nothing was changed.
    """
    before = None if old is None else range_of_index(old.range)
    after = before if made is None else range_of_index(made.range)
    kept = (0, 0) if old is None else size_of(old)
    sizes = kept if made is None else (made.buckets, made.mappings)
    gaps = [] if made is None else [f"{first}..{last}" for first, last in made.gaps]
    saved = (None, 0) if made is None else (made.backup, made.saved_bytes)
    reasons = [finding.message for finding in wrong]
    return REBUILT.row((env, made is not None, dry_run, reasons, before, after, *sizes, gaps, *saved))
