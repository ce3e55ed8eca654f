"""``jetool undo``: take back what a repair changed."""

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
