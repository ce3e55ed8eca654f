"""``jetool txns``: what became of every transaction in the log of a Derby database."""

from __future__ import annotations

import click

from engine.storage.disk import DiskStorage
from jetool import exits, kinds
from jetool.command import Outputs, command, environment
from jetool.options import Run

_FATES = ("committed", "aborted", "open", "prepared")


def _outputs() -> Outputs:
    from jetool.derby.txns import SUMMARY, TXN

    return Outputs("stream", (TXN,), SUMMARY)


@command(
    "txns",
    outputs=_outputs,
    features=("fields", "progress"),
    examples=(
        ("What would recovery roll back", "jetool txns /data/db --fate open"),
        ("One transaction, for a script", "jetool txns /data/db --txn 194 --format ndjson"),
    ),
    exits={
        exits.DONE: "all was read; a torn tail that holds no commit is no damage",
        exits.FINDINGS: "all was read; damage was met, or commits lie behind the end of the log",
        exits.NOT_FOUND: "no database",
        exits.UNSUPPORTED: "encrypted, or a release that this program does not read",
        exits.INCOMPLETE: "a file cannot be read",
    },
)
@environment
@click.option("--fate", "fates", type=click.Choice(_FATES), multiple=True, help="Only transactions of this fate.")
@click.option("--txn", "ids", type=int, multiple=True, metavar="ID", help="Only this transaction.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Print N transactions at most.")
def txns(run: Run, env: str, fates: tuple[str, ...], ids: tuple[int, ...], limit: int | None) -> int:
    """Print the fate of every transaction in the log of a Derby database: committed, aborted, open, prepared.

    The whole log is read, also past damage. Transactions whose end lies behind the end of the log are marked: recovery
    does not see it. Nothing is locked, created or changed. JE environments are not served by this version.
    """
    storage = DiskStorage(env)
    if kinds.kind_of(storage) == kinds.JE:
        raise kinds.no_verb(kinds.JE, "txns")
    from jetool.derby.txns import print_txns

    return print_txns(run, storage, fates, ids, limit)
