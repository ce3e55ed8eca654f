"""``jetool undo``: undo the changes of a repair."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, NamedTuple

import click

from engine.fields import Bool, Int, Text, record
from engine.rescue.repair.undo import undo_repair
from jetool.frame import exits, interrupted
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS
from jetool.frame.options import Run


@record("undone")
class Undone(NamedTuple):
    """The changes that were undone."""

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
        ("Undo the last recovery", "jetool undo /data/env"),
        ("Preview an undo from a backup directory", "jetool undo /data/env --backup-dir /backup/env -n"),
        ("After a killed recovery, or a killed undo", "jetool undo /data/env"),
    ),
    exits={
        exits.DONE: "every byte is as before the repair, also if it was already undone",
        **WRITE_EXITS,
        exits.REFUSED: "the environment is locked, or was written to since the repair",
        exits.NOT_FOUND: "no environment, no saved bytes",
    },
)
@environment
@click.option("--force", is_flag=True, help="Continue although files were changed since; the new entries are lost.")
def undo(run: Run, env: str, force: bool) -> int:
    """Undo the last jetool recover, truncate, clean, vlsn rebuild, group reset, db or crash --in-place.

    Every log file is restored byte for byte; the lock file stays. The command refuses if the environment was written to
    since, because the new entries would be lost. For a Derby database it undoes recover or checkpoint.

    The command also undoes a repair that was killed. If undo itself is killed, run it again.
    """
    undone = undo_repair(env, run.backup_dir, force=force, dry_run=run.dry_run, hold=partial(interrupted.locked, run))
    if undone.was_undone:
        interrupted.say_undone(run, undone.backup)
    run.out.document(
        Undone(
            environment=env,
            backup=undone.backup,
            command=undone.command,
            files=undone.files,
            changes=undone.changes,
            dry_run=run.dry_run,
            interrupted=undone.interrupted,
        )
    )
    return exits.DONE
