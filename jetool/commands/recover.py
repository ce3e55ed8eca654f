"""``jetool recover``: recovery of a Derby database."""

from __future__ import annotations

import click

from engine.storage.disk import DiskStorage
from jetool import exits, kinds
from jetool.command import Outputs, command, environment
from jetool.options import Run


def _outputs() -> Outputs:
    from jetool.output.derby_recover import RECOVERED

    return Outputs("document", (RECOVERED,))


@command(
    "recover",
    only=kinds.DERBY,
    outputs=_outputs,
    features=("fields", "progress", "lock", "write"),
    examples=(
        ("What would be done", "jetool recover /data/db -n"),
        ("Recover, for a script", "jetool recover /data/db --json"),
    ),
    exits={
        exits.DONE: "recovered, or there was nothing to do",
        exits.REFUSED: "a JVM has the database open, or committed transactions would be lost",
        exits.NOT_FOUND: "no database",
        exits.UNSUPPORTED: "encrypted, or a release that recovery was not verified for",
        exits.DATA_GIVEN_UP: "recovered; committed transactions were given up (--accept-loss)",
        exits.INCOMPLETE: "a log file, a record or a page that is needed is missing or damaged",
    },
)
@environment
@click.option("--accept-loss", is_flag=True, help="Go on although committed transactions would be lost (exit 6).")
def recover(run: Run, env: str, accept_loss: bool) -> int:
    """Recover a Derby database after a crash: redo, undo, checkpoint. Derby opens the result without work of its own.

    Derby takes damage in the log for its end and drops what follows. When committed transactions follow, this command
    refuses and names them; --accept-loss goes on. Prepared (XA) transactions are kept. Old bytes are saved before they
    are changed, in DATABASE.jetool-saved unless --backup-dir says otherwise, and jetool undo brings them back.

    -n does the same on a copy in memory and changes nothing. JE environments are not recovered by this version.
    """
    storage = DiskStorage(env)
    from jetool.derby.recover import recover_database

    return recover_database(run, storage, accept_loss=accept_loss, force_checkpoint=False)
