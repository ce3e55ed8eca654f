"""``jetool undo``: take back what a repair changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from engine.db.opening import LOCK_FILE
from engine.errors import NotFoundError, RefusedError, UsageError
from engine.storage import journal
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
from jetool.app import exits
from jetool.app.command import Outputs, command, environment
from jetool.app.opening import WRITE_EXITS, WRITER_BYTE, backups_of, wait_for_lock
from jetool.app.options import Run
from jetool.commands.recover.recovery_run import COMMAND, log_sizes
from jetool.output.shape import Field, Shape

_UNDONE: Final = (COMMAND, "crash", "vlsn rebuild", "group reset")
UNDONE: Final = Shape(
    "undone",
    "What was taken back.",
    (
        Field("environment", "text", "its directory"),
        Field("backup", "text", "directory with the old bytes"),
        Field("command", "text", "the command that was taken back"),
        Field("files", "texts", "files that are as they were before"),
        Field("changes", "int", "saved changes that were taken back"),
        Field("dry_run", "bool", "nothing was changed"),
    ),
)


def _outputs() -> Outputs:
    from jetool.derby import recover

    return Outputs("document", (UNDONE, recover.UNDONE))


@command(
    "undo",
    outputs=_outputs,
    features=("fields", "lock", "write"),
    examples=(
        ("Take the last recovery back", "jetool undo /data/env"),
        ("What would be taken back, from a backup directory", "jetool undo /data/env --backup-dir /backup/env -n"),
    ),
    exits={
        exits.DONE: "every byte is as it was before the repair",
        **WRITE_EXITS,
        exits.REFUSED: "the environment is locked, or was written to since the repair",
        exits.NOT_FOUND: "no environment, no saved bytes",
    },
)
@environment
@click.option(
    "--force", is_flag=True, help="Derby: go on although files were changed since, or the run was interrupted."
)
def undo(run: Run, env: str, force: bool) -> int:
    """Take back what the last jetool recover, vlsn rebuild, group reset or crash --in-place changed.

    Every log file is again byte for byte what it was; the lock file stays. Refused when the environment was written to
    since: the new entries would be lost. Of a Derby database, what recover or checkpoint changed comes back.
    """
    if force:
        raise UsageError("--force has no meaning for a JE environment", hint="restore from a backup instead")
    disk = DiskStorage(env)
    backup = _backup(run, env)
    manifest = journal.read_manifest(backup)
    _require_undoable(disk, backup, manifest)
    entries = journal.entries_of(backup)
    if run.dry_run:
        journal.undo(OverlayStorage(disk), OverlayStorage(backup))
    else:
        wait_for_lock(run, disk)
        _undo_locked(disk, backup)
    files = sorted({entry.path for entry in entries})
    row = (env, backup.root, str(manifest.get("command", COMMAND)), files, len(entries), run.dry_run)
    run.out.document(UNDONE, UNDONE.row(row))
    return exits.DONE


def _undo_locked(storage: Storage, backup: Storage) -> None:
    storage.open_rw(LOCK_FILE, create=True).close()
    lock = storage.lock(LOCK_FILE, WRITER_BYTE, exclusive=True)
    try:
        journal.undo(storage, backup)
    finally:
        lock.release()


def _backup(run: Run, env: str) -> DiskStorage:
    """The backup directory: the one that is named, or the newest beside the environment that was not undone."""
    if run.backup_dir is not None:
        return DiskStorage(run.backup_dir)
    root = Path(backups_of(env))
    for path in sorted(root.iterdir(), reverse=True) if root.is_dir() else ():
        if (path / journal.JOURNAL).exists():
            return DiskStorage(path)
    raise NotFoundError("no saved bytes", file=str(root), hint="name the directory with --backup-dir")


def _require_undoable(storage: Storage, backup: Storage, manifest: dict[str, Any]) -> None:
    """Refuse what undo would damage: entries that were written since, or another environment."""
    command = manifest.get("command", COMMAND)
    if command not in _UNDONE:
        raise RefusedError(
            f"the bytes were saved by {command!r}, which undo does not take back",
            file=backup.root,
            consequence="records were written in the same run, and would be lost",
            hint="restore from a backup instead",
        )
    expected = manifest.get("log_files")
    if manifest.get("state") == journal.DONE and log_sizes(storage) != expected:
        raise RefusedError(
            "the environment was written to since the repair",
            file=storage.root,
            expected="the log files as the repair left them",
            found="other log files, or other lengths",
            consequence="what was written since would be lost; nothing was changed",
            hint="restore from a backup instead, or undo on a copy",
        )
