"""``jetool checkpoint``: a checkpoint of a Derby database."""

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
    "checkpoint",
    outputs=_outputs,
    features=("fields", "progress", "lock", "write"),
    examples=(
        ("Move the low water marks to the end of the log", "jetool checkpoint /data/db"),
        ("What would be written", "jetool checkpoint /data/db -n --json"),
    ),
    exits={
        exits.DONE: "a checkpoint was taken",
        exits.REFUSED: "a JVM has the database open, or committed transactions would be lost",
        exits.NOT_FOUND: "no database",
        exits.UNSUPPORTED: "encrypted, or a release that recovery was not verified for",
        exits.DATA_GIVEN_UP: "a checkpoint was taken; committed transactions were given up (--accept-loss)",
        exits.INCOMPLETE: "a log file, a record or a page that is needed is missing or damaged",
    },
)
@environment
@click.option("--accept-loss", is_flag=True, help="Go on although committed transactions would be lost (exit 6).")
def checkpoint(run: Run, env: str, accept_loss: bool) -> int:
    """Take a checkpoint of a Derby database, also of one that was closed cleanly; a crashed one is recovered first.

    Prints the checkpoint record, its low water marks, the pages written and the log files removed. Saved bytes, -n and
    the refusals are those of jetool recover. JE environments are not served by this version.
    """
    storage = DiskStorage(env)
    if kinds.kind_of(storage) == kinds.JE:
        raise kinds.no_verb(kinds.JE, "checkpoint")
    from jetool.derby.recover import recover_database

    return recover_database(run, storage, accept_loss=accept_loss, force_checkpoint=True)
