"""What ``truncate`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.fields import Bool, Choices, Int, Lsn, SizeBytes, Text, Time, Vlsn, record
from engine.format.entry_types import type_name
from engine.format.vlsn import NULL_VLSN
from engine.rescue.truncation import CutCommit, TruncationPlan


@record()
class CutCommitRow(NamedTuple):
    """A Commit that goes."""

    lsn: Annotated[Lsn, "where it stands"]
    txn: Annotated[Int, "id of its transaction"]
    time: Annotated[Time, "when"]
    vlsn: Annotated[Vlsn, "its VLSN; null outside a stream"]


@record()
class CutDatabase(NamedTuple):
    """A database with records after the cut."""

    name: Annotated[Text, "the database"]
    records: Annotated[Int, "records written to it after the cut"]


@record("truncated")
class TruncationResult(NamedTuple):
    """What was cut off, or would be."""

    environment: Annotated[Text, "its directory"]
    changed: Annotated[Bool, "something was cut off, or would be"]
    dry_run: Annotated[Bool, "nothing was changed"]
    point: Annotated[Text, "the point that was asked for"]
    point_lsn: Annotated[Lsn, "its position: the first byte after the part that is kept"]
    end_lsn: Annotated[Lsn, "where the log ends now, or would: the next entry goes there"]
    end_lsn_before: Annotated[Lsn, "where it ended before"]
    snapped: Annotated[Text | None, "why it does not end at the point; null when it does"]
    last_lsn: Annotated[Lsn, "the last entry that stays"]
    last_type: Annotated[Text, "its type"]
    cut_file: Annotated[Text, "the file that the log ends in"]
    removed_files: Annotated[Sequence[Text], "files after it; they are saved completely"]
    cut_bytes: Annotated[SizeBytes, "bytes that go"]
    entries: Annotated[Int, "entries that go"]
    commits: Annotated[Int, "Commits that go"]
    aborts: Annotated[Int, "Aborts that go"]
    databases: Annotated[Sequence[CutDatabase], "databases that records were written to after the cut"]
    first_commit: Annotated[CutCommitRow | None, "the first Commit that goes; null when none does"]
    last_commit: Annotated[CutCommitRow | None, "the last one"]
    first_vlsn: Annotated[Vlsn, "the first VLSN that goes; null when none does"]
    last_vlsn: Annotated[Vlsn, "the last one"]
    kept_vlsn: Annotated[Vlsn, "the last VLSN that stays"]
    dtvlsn: Annotated[Int, "the highest durable VLSN that the part that goes names; 0 without one"]
    durable_commits: Annotated[Int, "Commits that go although a majority of the group is known to have them"]
    commits_after_damage: Annotated[
        Int,
        "intact Commits that are removed: they come after damage in the last file, which recovery does not read",
    ]
    rejoins: Annotated[
        Text | None,
        "whether the group accepts the node again: as it is, or by a network restore; null without a group",
        Choices(("yes", "with-restore")),
    ]
    plan: Annotated[Text, "names this plan for --plan"]
    backup: Annotated[Text | None, "where the old bytes were saved; null when nothing was"]
    saved_bytes: Annotated[SizeBytes, "how many"]


def truncated(
    env: str, point: str, plan: TruncationPlan, *, dry_run: bool, backup: str | None, saved_bytes: int
) -> TruncationResult:
    """What a truncation did, or would do."""
    cut, content = plan.cut, plan.content
    return TruncationResult(
        environment=env,
        changed=plan.changes,
        dry_run=dry_run,
        point=point,
        point_lsn=cut.asked_lsn,
        end_lsn=cut.end_lsn,
        end_lsn_before=cut.log_end_lsn,
        snapped=cut.snapped or None,
        last_lsn=cut.last_lsn,
        last_type=type_name(cut.last_type),
        cut_file=plan.cut_file.path,
        removed_files=[file.path for file in plan.removed],
        cut_bytes=content.size_bytes,
        entries=content.entries,
        commits=content.commits,
        aborts=content.aborts,
        databases=[CutDatabase(name=name, records=count) for name, count in content.records.items()],
        first_commit=_commit(content.first_commit),
        last_commit=_commit(content.last_commit),
        first_vlsn=content.first_vlsn,
        last_vlsn=content.last_vlsn,
        kept_vlsn=plan.last_vlsn,
        dtvlsn=content.dtvlsn,
        durable_commits=content.durable,
        commits_after_damage=content.after_damage,
        rejoins=plan.rejoins,
        plan=plan.token,
        backup=backup,
        saved_bytes=saved_bytes,
    )


def vlsns_text(plan: TruncationPlan) -> str:
    """The removed VLSNs in words for a message; empty if there are none."""
    content = plan.content
    return "" if content.first_vlsn == NULL_VLSN else f"VLSNs {content.first_vlsn} to {content.last_vlsn}"


def _commit(found: CutCommit | None) -> CutCommitRow | None:
    if found is None:
        return None
    return CutCommitRow(lsn=found.lsn, txn=found.txn, time=found.time_ms, vlsn=found.vlsn)
