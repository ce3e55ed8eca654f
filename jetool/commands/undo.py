"""``jetool undo``: reverts what a repair of a Derby database changed."""

from __future__ import annotations

import click

from engine.storage.disk import DiskStorage
from jetool import exits, kinds
from jetool.command import Outputs, command, environment
from jetool.options import Run


def _outputs() -> Outputs:
    from jetool.derby.recover import UNDONE

    return Outputs("document", (UNDONE,))


@command(
    "undo",
    only=kinds.DERBY,
    outputs=_outputs,
    features=("fields", "lock", "write"),
    examples=(
        ("Take the last recovery back", "jetool undo /data/db"),
        ("Take back one whose bytes were saved elsewhere", "jetool undo /data/db --backup-dir /backup/saved"),
    ),
    exits={
        exits.DONE: "the old state is back",
        exits.REFUSED: "a JVM has the database open, or files were changed since, or the run was interrupted",
        exits.NOT_FOUND: "no database, or no saved bytes",
        exits.UNSUPPORTED: "a foreign database",
        exits.INCOMPLETE: "the saved bytes cannot be read, or a file cannot be written",
    },
)
@environment
@click.option("--force", is_flag=True, help="Go on although files were changed since, or the run was interrupted.")
def undo(run: Run, env: str, force: bool) -> int:
    """Bring back the bytes that jetool recover or checkpoint changed in a Derby database.

    Without --backup-dir the newest saved bytes beside the database are taken. Changes made since by others would be
    mixed with old bytes: then, and after an interrupted run, this command refuses unless --force is given.

    -n does the same on a copy in memory. JE environments are not served by this version.
    """
    storage = DiskStorage(env)
    from jetool.derby.recover import undo_database

    return undo_database(run, storage, force=force)
