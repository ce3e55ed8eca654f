"""What the commands of ``backup`` print."""

from __future__ import annotations

from typing import Final

from engine.backup.checking import BackupCheckup
from engine.backup.following import Round
from engine.backup.manifest import Manifest
from engine.backup.repository import Listed
from engine.backup.retention import PrunePlan
from engine.backup.taking import Taken
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.rep.wire.node_state import STATES
from jetool.output.shape import Field, Row, Shape, row_of

TAKEN: Final = Shape(
    "backup",
    "The backup that was taken, or would be.",
    (
        Field("id", "text", "its name; null in a dry run", null=True),
        Field("directory", "text", "the directory of backups"),
        Field("source", "text", "what it is a copy of: a directory, or HOST:PORT"),
        Field("dry_run", "bool", "nothing was changed"),
        Field("node", "text", "the node; null where that is not known", null=True),
        Field("group", "text", "its group; null without one, and where that is not known", null=True),
        Field("state", "text", "what a node that runs was when the copy began; null for a directory", null=True,
              choices=STATES),
        Field("je_version", "text", "release of JE that a node runs; null for a directory", null=True),
        Field("protocol", "int", "version of the protocol for copies; null for a directory", null=True),
        Field("files", "int", "log files; null in a dry run on a node", null=True),
        Field("bytes", "size_bytes", "their bytes", null=True),
        Field("copied_files", "int", "those that had to be read", null=True),
        Field("copied_bytes", "size_bytes", "their bytes", null=True),
        Field("kept_files", "int", "those that an earlier backup or run has stored", null=True),
        Field("attempts", "int", "connections that it took, or how often the files were listed"),
        Field("gone_files", "texts", "files that were deleted before they were copied; what was in use of them is in"
              " later ones"),
        Field("lost_files", "text", "log files that were written and deleted since the backup before; null for none",
              null=True),
        Field("end_lsn", "lsn", "where its log ends"),
        Field("torn_bytes", "size_bytes", "bytes after the end of the log, which are not in it", null=True),
        Field("commits_after", "int", "committed transactions after a bad entry, which are not in it", null=True),
        Field("last_commit", "time", "time of its last Commit", null=True),
        Field("first_vlsn", "vlsn", "first VLSN: of a node, that it had when the copy began"),
        Field("last_vlsn", "vlsn", "last VLSN"),
        Field("databases", "int", "databases; null when it cannot be recovered, and in a dry run", null=True),
        Field("recovered", "bool", "recovery of the copy in memory went through; null in a dry run", null=True),
        Field("duration", "duration_ms", "how long it took"),
    ),
)  # fmt: skip

LISTED: Final = Shape(
    "backup",
    "A backup.",
    (
        Field("id", "text", "its name: the time when it was taken, UTC"),
        Field("source", "text", "what it is a copy of; null when its manifest cannot be read", null=True),
        Field("node", "text", "the node, where it is known", null=True),
        Field("group", "text", "the group", null=True),
        Field("files", "int", "log files", null=True),
        Field("bytes", "size_bytes", "their bytes", null=True),
        Field("own_bytes", "size_bytes", "bytes that no other backup needs: what its removal would free", null=True),
        Field("first_lsn", "lsn", "its first file"),
        Field("end_lsn", "lsn", "where its log ends"),
        Field("first_vlsn", "vlsn", "first VLSN"),
        Field("last_vlsn", "vlsn", "last VLSN"),
        Field("last_commit", "time", "time of the last Commit", null=True),
        Field("databases", "int", "databases; null when it could not be recovered", null=True),
        Field("ended", "time", "when it was whole", null=True),
        Field("problem", "text", "why its manifest cannot be read; null when it can", null=True),
    ),
)

CHECKED: Final = Shape(
    "checked",
    "What was found in a backup.",
    (
        Field("id", "text", "its name"),
        Field("ok", "bool", "nothing is wrong with it"),
        Field("files", "int", "log files", null=True),
        Field("bytes", "size_bytes", "their bytes", null=True),
        Field("bad_files", "int", "files that are missing, changed or damaged"),
        Field("entries", "int", "entries with right checksums; null with --sums", null=True),
        Field("recovered", "bool", "recovery in memory went through; null with --sums", null=True),
        Field("databases", "int", "databases that recovery finds", null=True),
        Field("records", "int", "their records", null=True),
        Field("problems", "texts", "what is wrong"),
    ),
)

FOLLOWED: Final = Shape(
    "round",
    "A round of --follow.",
    (
        Field("id", "text", "the backup that it added"),
        Field("replaced", "text", "the backup of the round before, removed since this one has all that it had",
              null=True),
        Field("end_lsn", "lsn", "where its log ends"),
        Field("last_vlsn", "vlsn", "last VLSN"),
        Field("last_commit", "time", "time of its last Commit", null=True),
        Field("files", "int", "log files"),
        Field("bytes", "size_bytes", "their bytes"),
        Field("copied_files", "int", "those that had to be read"),
        Field("copied_bytes", "size_bytes", "their bytes"),
        Field("gone_files", "texts", "files that were deleted before they were copied"),
        Field("lost_files", "text", "log files that were written and deleted between two rounds: points of time that "
              "need them cannot be restored; null for none", null=True),
        Field("lag_bytes", "size_bytes", "bytes that the log had got more when the backup was there"),
        Field("lag", "duration_ms", "how old the backup's end of the log was when it was there"),
        Field("recovered", "bool", "recovery of the copy in memory went through"),
    ),
)  # fmt: skip

_DECIDED: Final = (
    Field("id", "text", "the backup"),
    Field("kept", "bool", "it stays"),
    Field("reasons", "texts", "why it is kept: newest, last, or the period that it stands for"),
)
PRUNED: Final = Shape(
    "pruned",
    "What was removed, or would be.",
    (
        Field("directory", "text", "the directory of backups"),
        Field("dry_run", "bool", "nothing was changed"),
        Field("keep", "text", "the rule"),
        Field("kept", "int", "backups that stay"),
        Field("removed", "int", "backups that go"),
        Field("files", "int", "stored files that go: no other backup needs them"),
        Field("freed_bytes", "size_bytes", "their bytes"),
        Field("backups", "records", "every backup", fields=_DECIDED),
    ),
)


def followed_row(one: Round) -> Row:
    """A round of ``--follow``."""
    taken, made = one.taken, one.taken.manifest
    return FOLLOWED.row(
        (
            made.id, one.replaced, made.end_lsn, made.vlsns[1], made.last_commit_ms, len(made.files), made.size_bytes,
            taken.copied_files, taken.copied_bytes, list(taken.gone), lost_text(taken), one.lag_bytes, one.lag_ms,
            taken.problem is None,
        )
    )  # fmt: skip


def lost_text(taken: Taken) -> str | None:
    """Files that no backup has, for a message."""
    if taken.lost is None:
        return None
    first, last = taken.lost
    return f"{first:08x}.jdb" if first == last else f"{first:08x}.jdb to {last:08x}.jdb"


def pruned_row(dest: str, keep: str, done: PrunePlan, *, dry_run: bool) -> Row:
    """What a prune has removed."""
    going = len(done.removed)
    decided = [row_of(_DECIDED, (one.manifest.id, bool(one.reasons), list(one.reasons))) for one in done.backups]
    return PRUNED.row(
        (dest, dry_run, keep, len(done.backups) - going, going, len(done.files), done.size_bytes, decided)
    )


def listed_row(one: Listed, own_bytes: int) -> Row:
    """A backup of a list."""
    found = one.manifest
    if found is None:
        none = (None,) * 6
        return LISTED.row((one.id, *none, NULL_LSN, NULL_LSN, NULL_VLSN, NULL_VLSN, None, None, None, one.problem))
    first, last = found.vlsns
    return LISTED.row(
        (
            one.id, found.source, found.node, group_of(found), len(found.files), found.size_bytes, own_bytes,
            found.files[0].first_lsn if found.files else NULL_LSN, found.end_lsn, first, last, found.last_commit_ms,
            None if found.databases is None else len(found.databases), found.ended_ms, None,
        )
    )  # fmt: skip


def checked_row(one: BackupCheckup, *, sums_only: bool) -> Row:
    """A backup that was checked."""
    found = one.manifest
    return CHECKED.row(
        (
            one.id, not one.problems, None if found is None else len(found.files),
            None if found is None else found.size_bytes, one.bad_files, None if sums_only else one.entries,
            one.recovered, one.databases, one.records, list(one.problems),
        )
    )  # fmt: skip


def group_of(manifest: Manifest) -> str | None:
    """The name of its group."""
    return None if manifest.group is None else manifest.group.name
