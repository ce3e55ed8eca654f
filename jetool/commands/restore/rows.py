"""What ``restore`` prints."""

from __future__ import annotations

from typing import Final

from engine.backup.restoring import RestorePlan
from jetool.output.shape import Field, Row, Shape

ALONE: Final = "alone"
MEMBER: Final = "member"
NEW: Final = "new"

RESTORED: Final = Shape(
    "restored",
    "The environment that was made, or would be.",
    (
        Field("environment", "text", "its directory"),
        Field("dry_run", "bool", "nothing was changed"),
        Field("backup", "text", "the backup that it was made of"),
        Field("source", "text", "what that is a copy of"),
        Field("point", "text", "the point that was asked for; null for the end of the backup", null=True),
        Field("end_lsn", "lsn", "where its log ends; the entry that ends its last file follows"),
        Field("snapped", "text", "why it does not end at the point; null when it does", null=True),
        Field("commits_left_out", "int", "committed transactions of the backup that are after the point"),
        Field("last_vlsn", "vlsn", "its last VLSN"),
        Field("files", "int", "log files"),
        Field("bytes", "size_bytes", "their bytes"),
        Field("copied_files", "int", "those that were written, or would be"),
        Field("copied_bytes", "size_bytes", "their bytes"),
        Field("kept_files", "int", "those that were in place already"),
        Field("removed_files", "texts", "log files that stood there and are not part of it"),
        Field("resumed", "bool", "it goes on with what an earlier run has left"),
        Field("as", "text", "what it is to a group: the member that it was, the only member of a new group, or alone",
              choices=(ALONE, MEMBER, NEW)),
        Field("group", "text", "its group; null without one", null=True),
        Field("rejoins", "text", "whether the group takes a member back that was restored to a point: as it is, or by a"
              " network restore; null without a point or a group", null=True, choices=("yes", "with-restore")),
        Field("saved_in", "text", "where files that stood there before were saved; null when none was", null=True),
    ),
)  # fmt: skip


def restored_row(env: str, point: str | None, plan: RestorePlan, *, dry_run: bool, standing: tuple[str, str | None],
                 saved_in: str | None) -> Row:  # fmt: skip
    """What a restore did, or would do; ``standing``: what it is to which group."""
    manifest, cut = plan.chosen.manifest, plan.chosen.cut
    kept = sum(one.is_there for one in plan.files)
    return RESTORED.row(
        (
            env, dry_run, manifest.id, manifest.source, point, plan.end_lsn,
            None if cut is None else cut.cut.snapped or None, 0 if cut is None else cut.content.commits,
            manifest.vlsns[1] if cut is None else cut.last_vlsn, len(plan.files), plan.size_bytes,
            len(plan.files) - kept, plan.missing_bytes, kept, list(plan.removed), plan.resumes, *standing,
            None if cut is None else cut.rejoins, saved_in,
        )
    )  # fmt: skip
