"""``jetool undo``: take back what a repair changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import click

from engine.errors import NotFoundError, RefusedError
from engine.fields import Bool, Int, Text, record
from engine.storage import journal
from engine.storage.base import Storage
from engine.storage.overlay import OverlayStorage
from engine.storage.sidecar import DirectoryBeside
from engine.storage.undo import undo as take_back
from jetool.commands.recover.recovery_run import COMMAND
from jetool.frame import exits, interrupted
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS, backups_of
from jetool.frame.options import Run

_UNDONE: Final = (COMMAND, "truncate", "crash", "vlsn rebuild", "group reset", "clean", "restore")


@record("undone")
class Undone(NamedTuple):
    """What was taken back."""

    environment: Annotated[Text, "its directory"]
    backup: Annotated[Text, "directory with the old bytes"]
    command: Annotated[Text, "the command that was taken back"]
    files: Annotated[Sequence[Text], "files that are as they were before"]
    changes: Annotated[Int, "saved changes that were taken back"]
    dry_run: Annotated[Bool, "nothing was changed"]
    interrupted: Annotated[Bool, "the command, or an undo of it before, had not come to its end"]


def _outputs() -> Outputs:
    from jetool.commands.recover import derby

    return Outputs("document", (Undone, derby.DerbyUndone), derby=(derby.DerbyUndone,))


@command(
    "undo",
    outputs=_outputs,
    features=("fields", "lock", "write"),
    examples=(
        ("Take the last recovery back", "jetool undo /data/env"),
        ("What would be taken back, from a backup directory", "jetool undo /data/env --backup-dir /backup/env -n"),
        ("A recovery that was killed; the same again when undo was killed", "jetool undo /data/env"),
    ),
    exits={
        exits.DONE: "every byte is as it was before the repair; also when it was already undone",
        **WRITE_EXITS,
        exits.REFUSED: "the environment is locked, or was written to since the repair",
        exits.NOT_FOUND: "no environment, no saved bytes",
    },
)
@environment
@click.option("--force", is_flag=True, help="Go on although files were changed since; what was written is lost.")
def undo(run: Run, env: str, force: bool) -> int:
    """Take back what the last jetool recover, truncate, clean, vlsn rebuild, group reset or crash --in-place changed.

    Every log file is again byte for byte what it was; the lock file stays. Refused when the environment was written to
    since: the new entries would be lost. Of a Derby database, what recover or checkpoint changed comes back.

    A repair that was killed is taken back as well, and an undo that was killed is finished: run it again.
    """
    disk = DirectoryBeside(env, env)
    backup = interrupted.last_backup(disk, run.backup_dir, Path(backups_of(env)))
    if backup is None:
        raise NotFoundError("no saved bytes", file=backups_of(env), hint="name the directory with --backup-dir")
    manifest = journal.read_manifest(backup)
    _require_undoable(backup, manifest)
    interrupted.note_undone(run, backup)
    state = manifest.get("state")
    # Read before undo begins, which notes its own progress in the backup.
    places = journal.places_of(backup) if state != journal.UNDONE else []
    if run.dry_run:
        take_back(OverlayStorage(disk), OverlayStorage(backup), force=force)
    else:
        # A writer must not append while files are put back.
        with interrupted.locked(run, disk):
            take_back(disk, backup, force=force)
    files = sorted({place.path for place in places})
    changes = sum(place.kind != journal.WRITTEN for place in places)
    run.out.document(
        Undone(
            environment=env,
            backup=backup.root,
            command=str(manifest.get("command", COMMAND)),
            files=files,
            changes=changes,
            dry_run=run.dry_run,
            interrupted=state != journal.DONE,
        )
    )
    return exits.DONE


def _require_undoable(backup: Storage, manifest: dict[str, Any]) -> None:
    """Refuse what undo would damage: records that the same run wrote."""
    command = manifest.get("command", COMMAND)
    # An ordinary open saves what recovery cuts off, and then goes on to write records.
    if command not in _UNDONE:
        raise RefusedError(
            f"the bytes were saved by {command!r}, which undo does not take back",
            file=backup.root,
            consequence="records were written in the same run, and would be lost",
            hint="restore from a backup instead",
        )
