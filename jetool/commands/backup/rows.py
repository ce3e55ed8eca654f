"""Output records of the ``backup`` commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.backup.backup_run import Taken
from engine.backup.check import BackupCheckup
from engine.backup.follower import Round
from engine.backup.je_snapshot import SnapshotCheckup
from engine.backup.manifest import Manifest
from engine.backup.repository import RepositoryBackup
from engine.backup.retention import PrunePlan
from engine.fields import Bool, Choices, DurationMs, Int, Lsn, SizeBytes, Text, Time, Vlsn, record
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.log.files import log_file_name
from engine.rep.wire.node_state import STATES


@record("backup")
class TakenBackup(NamedTuple):
    """The backup that was taken, or would be."""

    id: Annotated[Text | None, "its name; null in a dry run"]
    directory: Annotated[Text, "the directory of backups"]
    source: Annotated[Text, "what it is a copy of: a directory, or HOST:PORT"]
    dry_run: Annotated[Bool, "nothing was changed"]
    node: Annotated[Text | None, "the node; null where that is not known"]
    group: Annotated[Text | None, "its group; null without one, and where that is not known"]
    state: Annotated[
        Text | None, "what a node that runs was when the copy began; null for a directory", Choices(STATES)
    ]
    je_version: Annotated[Text | None, "release of JE that a node runs; null for a directory"]
    protocol: Annotated[Int | None, "version of the protocol for copies; null for a directory"]
    files: Annotated[Int | None, "log files; null in a dry run on a node"]
    bytes: Annotated[SizeBytes | None, "their bytes"]
    copied_files: Annotated[Int | None, "files that had to be read"]
    copied_bytes: Annotated[SizeBytes | None, "their bytes"]
    kept_files: Annotated[Int | None, "files that an earlier backup or run has stored"]
    attempts: Annotated[Int, "connections that it took, or how often the files were listed"]
    gone_files: Annotated[
        Sequence[Text], "files that were deleted before they were copied; their records in use are in later files"
    ]
    lost_files: Annotated[Text | None, "log files that were written and deleted since the backup before; null for none"]
    end_lsn: Annotated[Lsn, "where its log ends"]
    torn_bytes: Annotated[SizeBytes | None, "bytes after the end of the log, which are not in it"]
    commits_after: Annotated[Int | None, "committed transactions after a bad entry, which are not in it"]
    last_commit: Annotated[Time | None, "time of its last Commit"]
    first_vlsn: Annotated[Vlsn, "first VLSN: of a node, that it had when the copy began"]
    last_vlsn: Annotated[Vlsn, "last VLSN"]
    databases: Annotated[Int | None, "databases; null when it cannot be recovered, and in a dry run"]
    recovered: Annotated[Bool | None, "recovery of the copy in memory went through; null in a dry run"]
    duration: Annotated[DurationMs, "how long it took"]


@record("backup")
class StoredBackup(NamedTuple):
    """A backup."""

    id: Annotated[Text, "its name: the time when it was taken, UTC"]
    source: Annotated[Text | None, "what it is a copy of; null when its manifest cannot be read"]
    node: Annotated[Text | None, "the node, where it is known"]
    group: Annotated[Text | None, "the group"]
    files: Annotated[Int | None, "log files"]
    bytes: Annotated[SizeBytes | None, "their bytes"]
    own_bytes: Annotated[SizeBytes | None, "bytes that no other backup needs: what its removal would free"]
    first_lsn: Annotated[Lsn, "its first file"]
    end_lsn: Annotated[Lsn, "where its log ends"]
    first_vlsn: Annotated[Vlsn, "first VLSN"]
    last_vlsn: Annotated[Vlsn, "last VLSN"]
    last_commit: Annotated[Time | None, "time of the last Commit"]
    databases: Annotated[Int | None, "databases; null when it could not be recovered"]
    ended: Annotated[Time | None, "when it was complete"]
    problem: Annotated[Text | None, "why its manifest cannot be read; null when it can"]


@record("checked")
class CheckedBackup(NamedTuple):
    """The result of checking a backup."""

    id: Annotated[Text, "its name"]
    ok: Annotated[Bool, "nothing is wrong with it"]
    files: Annotated[Int | None, "log files"]
    bytes: Annotated[SizeBytes | None, "their bytes"]
    bad_files: Annotated[Int, "files that are missing, changed or damaged"]
    entries: Annotated[Int | None, "entries with right checksums; null with --sums, and for snapshots of JE"]
    recovered: Annotated[Bool | None, "recovery in memory went through; null with --sums, and for snapshots"]
    databases: Annotated[Int | None, "databases that recovery finds"]
    records: Annotated[Int | None, "their records"]
    problems: Annotated[Sequence[Text], "what is wrong"]


@record("round")
class BackupRound(NamedTuple):
    """A round of --follow."""

    id: Annotated[Text, "the backup that it added"]
    replaced: Annotated[
        Text | None, "the backup of the previous round, removed since the new backup contains all of it"
    ]
    end_lsn: Annotated[Lsn, "where its log ends"]
    last_vlsn: Annotated[Vlsn, "last VLSN"]
    last_commit: Annotated[Time | None, "time of its last Commit"]
    files: Annotated[Int, "log files"]
    bytes: Annotated[SizeBytes, "their bytes"]
    copied_files: Annotated[Int, "files that had to be read"]
    copied_bytes: Annotated[SizeBytes, "their bytes"]
    gone_files: Annotated[Sequence[Text], "files that were deleted before they were copied"]
    lost_files: Annotated[
        Text | None,
        "log files that were written and deleted between two rounds: points of time that "
        "need them cannot be restored; null for none",
    ]
    lag_bytes: Annotated[SizeBytes, "bytes that the log had got more when the backup was there"]
    lag: Annotated[DurationMs, "how old the backup's end of the log was when it was there"]
    recovered: Annotated[Bool, "recovery of the copy in memory went through"]


@record()
class PruneDecision(NamedTuple):
    """A backup and whether it stays."""

    id: Annotated[Text, "the backup"]
    kept: Annotated[Bool, "it stays"]
    reasons: Annotated[Sequence[Text], "why it is kept: newest, last, or the period that it stands for"]


@record("pruned")
class PrunedBackups(NamedTuple):
    """What was removed, or would be."""

    directory: Annotated[Text, "the directory of backups"]
    dry_run: Annotated[Bool, "nothing was changed"]
    keep: Annotated[Text, "the rule"]
    kept: Annotated[Int, "backups that stay"]
    removed: Annotated[Int, "backups that go"]
    files: Annotated[Int, "stored files that go: no other backup needs them"]
    freed_bytes: Annotated[SizeBytes, "their bytes"]
    backups: Annotated[Sequence[PruneDecision], "every backup"]


def backup_round(one: Round) -> BackupRound:
    """A round of ``--follow``."""
    taken, made = one.taken, one.taken.manifest
    return BackupRound(
        id=made.id,
        replaced=one.replaced,
        end_lsn=made.end_lsn,
        last_vlsn=made.vlsns[1],
        last_commit=made.last_commit_ms,
        files=len(made.files),
        bytes=made.size_bytes,
        copied_files=taken.copied_files,
        copied_bytes=taken.copied_bytes,
        gone_files=list(taken.gone),
        lost_files=lost_text(taken),
        lag_bytes=one.lag_bytes,
        lag=one.lag_ms,
        recovered=taken.problem is None,
    )


def lost_text(taken: Taken) -> str | None:
    """A text about the files that were deleted before any backup held them in full; None if there are no such files."""
    if taken.lost is None:
        return None
    first, last = taken.lost
    return log_file_name(first) if first == last else f"{log_file_name(first)} to {log_file_name(last)}"


def pruned_backups(dest: str, keep: str, done: PrunePlan, *, dry_run: bool) -> PrunedBackups:
    """What a prune has removed."""
    going = len(done.removed)
    decided = [
        PruneDecision(id=one.manifest.id, kept=bool(one.reasons), reasons=list(one.reasons)) for one in done.backups
    ]
    return PrunedBackups(
        directory=dest,
        dry_run=dry_run,
        keep=keep,
        kept=len(done.backups) - going,
        removed=going,
        files=len(done.files),
        freed_bytes=done.size_bytes,
        backups=decided,
    )


def stored_backup(one: RepositoryBackup, own_bytes: int) -> StoredBackup:
    """A backup of a list."""
    found = one.manifest
    if found is None:
        return StoredBackup(
            id=one.id,
            source=None,
            node=None,
            group=None,
            files=None,
            bytes=None,
            own_bytes=None,
            first_lsn=NULL_LSN,
            end_lsn=NULL_LSN,
            first_vlsn=NULL_VLSN,
            last_vlsn=NULL_VLSN,
            last_commit=None,
            databases=None,
            ended=None,
            problem=one.problem,
        )
    first, last = found.vlsns
    return StoredBackup(
        id=one.id,
        source=found.source,
        node=found.node,
        group=group_of(found),
        files=len(found.files),
        bytes=found.size_bytes,
        own_bytes=own_bytes,
        first_lsn=found.files[0].first_lsn if found.files else NULL_LSN,
        end_lsn=found.end_lsn,
        first_vlsn=first,
        last_vlsn=last,
        last_commit=found.last_commit_ms,
        databases=None if found.databases is None else len(found.databases),
        ended=found.ended_ms,
        problem=None,
    )


def checked_backup(one: BackupCheckup, *, sums_only: bool) -> CheckedBackup:
    """A backup that was checked."""
    found = one.manifest
    return CheckedBackup(
        id=one.id,
        ok=not one.problems,
        files=None if found is None else len(found.files),
        bytes=None if found is None else found.size_bytes,
        bad_files=one.bad_files,
        entries=None if sums_only else one.entries,
        recovered=one.recovered,
        databases=one.databases,
        records=one.records,
        problems=list(one.problems),
    )


def checked_snapshot(one: SnapshotCheckup) -> CheckedBackup:
    """A snapshot of JE that was checked."""
    return CheckedBackup(
        id=one.id,
        ok=not one.problems,
        files=None if one.manifest is None else len(one.manifest.files),
        bytes=None if one.manifest is None else one.size_bytes,
        bad_files=one.bad_files,
        entries=None,
        recovered=None,
        databases=None,
        records=None,
        problems=list(one.problems),
    )


def group_of(manifest: Manifest) -> str | None:
    """The name of the replication group of a backup; None if the backup has no group."""
    return None if manifest.group is None else manifest.group.name
