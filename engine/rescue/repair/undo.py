"""Undo of the last repair: restores every byte of the log.

A killed repair is undone as well, and a killed undo is finished by the next one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import NotFoundError, RefusedError
from engine.rescue.repair.access import backups_of, writer_locked
from engine.rescue.repair.recovery import COMMAND
from engine.rescue.repair.settlement import HoldLock, last_backup
from engine.storage import journal, undo
from engine.storage.base import Storage
from engine.storage.overlay import OverlayStorage
from engine.storage.sidecar import DirectoryBeside

# Repairs that write no records. Any other run saves the bytes that recovery cuts off, and then writes records.
UNDOABLE: Final = (
    COMMAND,
    "truncate",
    "crash",
    "vlsn rebuild",
    "group reset",
    "clean",
    "restore",
    "db remove",
    "db rename",
    "db truncate",
)


class UndoneRepair(NamedTuple):
    """A repair that was undone, or would be.

    Attributes:
        backup: the directory with the old bytes.
        command: the repair.
        files: paths of the restored files.
        changes: number of saved changes that were undone.
        interrupted: the repair, or an earlier undo of it, was not finished.
        was_undone: the repair had already been undone, and nothing was changed now.
    """

    backup: str
    command: str
    files: tuple[str, ...]
    changes: int
    interrupted: bool
    was_undone: bool


def undo_repair(
    env: str,
    backup_dir: str | None = None,
    *,
    force: bool = False,
    dry_run: bool = False,
    hold: HoldLock = writer_locked,
) -> UndoneRepair:
    """Undo the last repair of an environment.

    Arguments:
        env: the directory of the environment.
        backup_dir: the directory with the old bytes; None: the newest of the environment.
        force: continue although files were changed since; those changes are lost.
        dry_run: check everything, and change nothing.
        hold: makes the context that holds the lock of the environment during the undo; the default is for JE
            environments, and a Derby database needs another one.

    Raises:
        NotFoundError: there are no saved bytes.
        RefusedError: the environment is locked, or was written since the repair, or the run that saved the bytes also
            wrote records.
    """
    disk = DirectoryBeside(env, env)
    backup = last_backup(disk, backup_dir, Path(backups_of(env)))
    if backup is None:
        raise NotFoundError("no saved bytes", file=backups_of(env), hint="name the directory with --backup-dir")
    manifest = journal.read_manifest(backup)
    command, state = str(manifest.get("command", COMMAND)), manifest.get("state")
    _require_undoable(backup, command)
    # Read before undo begins, since undo records its progress in the backup.
    places = journal.places_of(backup) if state != journal.UNDONE else []
    if dry_run:
        undo.undo(OverlayStorage(disk), OverlayStorage(backup), force=force)
    else:
        # A writer must not append while files are restored.
        with hold(disk):
            undo.undo(disk, backup, force=force)
    return UndoneRepair(
        backup=backup.root,
        command=command,
        files=tuple(sorted({place.path for place in places})),
        changes=sum(place.kind != journal.WRITTEN for place in places),
        interrupted=state != journal.DONE,
        was_undone=state == journal.UNDONE,
    )


def _require_undoable(backup: Storage, command: str) -> None:
    if command not in UNDOABLE:
        raise RefusedError(
            f"the bytes were saved by {command!r}, which undo does not take back",
            file=backup.root,
            consequence="records were written in the same run, and would be lost",
            hint="restore from a backup instead",
        )
