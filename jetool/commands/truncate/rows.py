"""What ``truncate`` prints."""

from __future__ import annotations

from typing import Final

from engine.format.entry_types import type_name
from engine.format.vlsn import NULL_VLSN
from engine.rescue.truncation import CutCommit, TruncationPlan
from jetool.output.shape import Field, Row, Shape, row_of

_COMMIT: Final = (
    Field("lsn", "lsn", "where it stands"),
    Field("txn", "int", "id of its transaction"),
    Field("time", "time", "when"),
    Field("vlsn", "vlsn", "its VLSN; null outside a stream"),
)
_DATABASE: Final = (
    Field("name", "text", "the database"),
    Field("records", "int", "records written to it after the cut"),
)
TRUNCATED: Final = Shape(
    "truncated",
    "What was cut off, or would be.",
    (
        Field("environment", "text", "its directory"),
        Field("changed", "bool", "something was cut off, or would be"),
        Field("dry_run", "bool", "nothing was changed"),
        Field("point", "text", "the point that was asked for"),
        Field("point_lsn", "lsn", "where it is: the first byte after what it keeps"),
        Field("end_lsn", "lsn", "where the log ends now, or would: the next entry goes there"),
        Field("end_lsn_before", "lsn", "where it ended before"),
        Field("snapped", "text", "why it does not end at the point; null when it does", null=True),
        Field("last_lsn", "lsn", "the last entry that stays"),
        Field("last_type", "text", "its type"),
        Field("cut_file", "text", "the file that the log ends in"),
        Field("removed_files", "texts", "files after it; they are saved whole"),
        Field("cut_bytes", "size_bytes", "bytes that go"),
        Field("entries", "int", "entries that go"),
        Field("commits", "int", "Commits that go"),
        Field("aborts", "int", "Aborts that go"),
        Field("databases", "records", "databases that records were written to after the cut", fields=_DATABASE),
        Field("first_commit", "record", "the first Commit that goes; null when none does", null=True, fields=_COMMIT),
        Field("last_commit", "record", "the last one", null=True, fields=_COMMIT),
        Field("first_vlsn", "vlsn", "the first VLSN that goes; null when none does"),
        Field("last_vlsn", "vlsn", "the last one"),
        Field("kept_vlsn", "vlsn", "the last VLSN that stays"),
        Field("dtvlsn", "int", "the highest durable VLSN that the part that goes names; 0 without one"),
        Field("durable_commits", "int", "Commits that go although a majority of the group is known to have them"),
        Field(
            "commits_after_damage",
            "int",
            "Commits that go although they are intact: they stand after damage in the last file, where recovery does "
            "not see them",
        ),
        Field(
            "rejoins",
            "text",
            "whether the group takes the node back: as it is, or by a network restore; null without a group",
            null=True,
            choices=("yes", "with-restore"),
        ),
        Field("plan", "text", "names this plan for --plan"),
        Field("backup", "text", "where the old bytes were saved; null when nothing was", null=True),
        Field("saved_bytes", "size_bytes", "how many"),
    ),
)


def truncated_row(
    env: str, point: str, plan: TruncationPlan, *, dry_run: bool, backup: str | None, saved_bytes: int
) -> Row:
    """What a truncation did, or would do."""
    cut, content = plan.cut, plan.content
    return TRUNCATED.row(
        (
            env, plan.changes, dry_run, point, cut.asked_lsn, cut.end_lsn, cut.log_end_lsn, cut.snapped or None,
            cut.last_lsn, type_name(cut.last_type), plan.cut_file.path, [file.path for file in plan.removed],
            content.size_bytes, content.entries, content.commits, content.aborts,
            [row_of(_DATABASE, one) for one in content.records.items()], _commit(content.first_commit),
            _commit(content.last_commit), content.first_vlsn, content.last_vlsn, plan.last_vlsn, content.dtvlsn,
            content.durable, content.after_damage, plan.rejoins, plan.token, backup, saved_bytes,
        )
    )  # fmt: skip


def vlsns_text(plan: TruncationPlan) -> str:
    """The VLSNs that go, for a message; empty when none does."""
    content = plan.content
    return "" if content.first_vlsn == NULL_VLSN else f"VLSNs {content.first_vlsn} to {content.last_vlsn}"


def _commit(found: CutCommit | None) -> Row | None:
    return None if found is None else row_of(_COMMIT, found)
