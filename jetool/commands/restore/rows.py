"""What ``restore`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from engine.backup.restore import RestorePlan
from engine.fields import Bool, Choices, FieldName, Int, Lsn, SizeBytes, Text, Vlsn, record

ALONE: Final = "alone"
MEMBER: Final = "member"
NEW: Final = "new"


@record("restored")
class RestoreResult(NamedTuple):
    """The restored environment."""

    environment: Annotated[Text, "its directory"]
    dry_run: Annotated[Bool, "nothing was changed"]
    backup: Annotated[Text, "the backup that it was made of"]
    source: Annotated[Text, "what that is a copy of"]
    point: Annotated[Text | None, "the point that was asked for; null for the end of the backup"]
    end_lsn: Annotated[Lsn, "where its log ends; the entry that ends its last file follows"]
    snapped: Annotated[Text | None, "why it does not end at the point; null when it does"]
    commits_left_out: Annotated[Int, "committed transactions of the backup that are after the point"]
    last_vlsn: Annotated[Vlsn, "its last VLSN"]
    files: Annotated[Int, "log files"]
    bytes: Annotated[SizeBytes, "their bytes"]
    copied_files: Annotated[Int, "those that were written, or would be"]
    copied_bytes: Annotated[SizeBytes, "their bytes"]
    kept_files: Annotated[Int, "those that were in place already"]
    removed_files: Annotated[Sequence[Text], "existing log files that are not part of it"]
    resumed: Annotated[Bool, "it continues a run that was interrupted"]
    as_: Annotated[
        Text,
        "what it is to a group: the member that it was, the only member of a new group, or alone",
        Choices((ALONE, MEMBER, NEW)),
        FieldName("as"),
    ]
    group: Annotated[Text | None, "its group; null without one"]
    rejoins: Annotated[
        Text | None,
        "whether the group takes a member back that was restored to a point: as it is, or by a"
        " network restore; null without a point or a group",
        Choices(("yes", "with-restore")),
    ]
    saved_in: Annotated[Text | None, "where the previous files were saved; null when no file was saved"]


def restored(
    env: str,
    point: str | None,
    plan: RestorePlan,
    *,
    dry_run: bool,
    standing: tuple[str, str | None],
    saved_in: str | None,
) -> RestoreResult:
    """The output record of a restore; ``standing`` is its role in a group, and the group's name."""
    manifest, cut = plan.chosen.manifest, plan.chosen.cut
    kept = sum(one.is_there for one in plan.files)
    what, group = standing
    return RestoreResult(
        environment=env,
        dry_run=dry_run,
        backup=manifest.id,
        source=manifest.source,
        point=point,
        end_lsn=plan.end_lsn,
        snapped=None if cut is None else cut.cut.snapped or None,
        commits_left_out=0 if cut is None else cut.content.commits,
        last_vlsn=manifest.vlsns[1] if cut is None else cut.last_vlsn,
        files=len(plan.files),
        bytes=plan.size_bytes,
        copied_files=len(plan.files) - kept,
        copied_bytes=plan.missing_bytes,
        kept_files=kept,
        removed_files=list(plan.removed),
        resumed=plan.resumes,
        as_=what,
        group=group,
        rejoins=None if cut is None else cut.rejoins,
        saved_in=saved_in,
    )
