"""``jetool txns``: what became of every transaction in the log."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import click

from engine.events import Progress
from engine.format.entry.txn_end import Prepare
from engine.format.fast.fate_table import AFTER_END, HAS_END, lsn_of
from engine.format.fast.packed_ints import PackedInts
from engine.inspect.fates import FATES, Transactions, read_fates
from engine.inspect.parallel import map_in_order
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from jetool.app import params
from jetool.app.command import Outputs, command, environment
from jetool.app.log_damage import LOG_EXITS, report_damage
from jetool.app.options import Run
from jetool.output.base import Encoder
from jetool.output.columns import rendered
from jetool.output.shape import Field, Shape

# Transactions that are rendered at once.
_CHUNK_ROWS: Final = 5000

TXN: Final = Shape(
    "txn",
    "One transaction.",
    (
        Field("txn", "int", "its id; that of a replicated transaction is negative"),
        Field("fate", "text", "what became of it", choices=FATES),
        Field("first_lsn", "lsn", "its first record"),
        Field("last_lsn", "lsn", "its last record"),
        Field("end_lsn", "lsn", "its Commit, Abort or Prepare"),
        Field("time", "time", "when it ended", null=True),
        Field("records", "int", "records that it wrote and that are still in the log"),
        Field("rolled_back_records", "int", "those of them that a rollback took back"),
        Field("bytes", "size_bytes", "their entries, with headers"),
        Field("dbs", "ints", "ids of the databases that it wrote to"),
        Field("after_end", "bool", "its end stands after a bad entry: recovery does not see it"),
        Field("xid", "text", "format:gtrid:bqual of a prepared transaction", null=True),
    ),
)
SUMMARY: Final = Shape(
    "summary",
    "How many transactions have which fate; those that were not printed count too.",
    (
        *(Field(fate.replace("-", "_"), "int", f"transactions that are {fate}") for fate in FATES),
        Field("after_end", "int", "transactions whose end recovery does not see"),
        Field("printed", "int", "transactions above"),
        Field("entries", "int", "entries read"),
    ),
)


def _outputs() -> Outputs:
    """Both kinds; what only one of them has is optional in the summary."""
    from jetool.derby import txns as derby

    je_names, derby_names = set(SUMMARY.names()), set(derby.SUMMARY.names())
    fields = [field._replace(optional=field.name not in derby_names) for field in SUMMARY.fields]
    fields += [field._replace(optional=True) for field in derby.SUMMARY.fields if field.name not in je_names]
    return Outputs("stream", (TXN, derby.TXN), SUMMARY._replace(fields=tuple(fields)))


@command(
    "txns",
    outputs=_outputs,
    features=("fields", "progress", "times", "jobs"),
    examples=(
        ("What would recovery undo", "jetool txns /data/env --fate open"),
        ("What committed in the last quarter of an hour", "jetool txns /data/env --fate committed --since -15m"),
    ),
    exits=LOG_EXITS,
)
@environment
@click.option("--fate", "fates", type=click.Choice(FATES), multiple=True, help="Only transactions of this fate.")
@click.option("--txn", "ids", type=int, multiple=True, metavar="ID", help="Only this transaction.")
@click.option("--since", type=params.TIME, help="Only transactions that ended since TIME.")
@click.option("--until", type=params.TIME, help="Only transactions that ended until TIME.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Print N transactions at most.")
def txns(
    run: Run,
    env: str,
    fates: tuple[str, ...],
    ids: tuple[int, ...],
    since: int | None,
    until: int | None,
    limit: int | None,
) -> int:
    """Print the fate of every transaction in the log: committed, aborted, open, prepared, rolled back.

    The whole log is read, also past damage. What the cleaner has deleted is not there: a transaction then shows fewer
    records than it wrote. Of a Derby database: transactions whose end lies after the end of the log are marked, since
    recovery does not see it. Nothing is created or changed; a running environment can be read.
    """
    storage = DiskStorage(env)
    found = read_fates(storage, list_log_files(storage), run.listener)
    wanted = _Wanted(fates, ids, since, until)
    transactions = found.txns
    chosen: Sequence[int] = range(len(transactions))
    if wanted != _Wanted((), (), None, None):
        # Filters look at the columns of the table.
        chosen = array("q", islice((row for row in chosen if wanted.fits(transactions, row)), limit))
    chosen = chosen[:limit]
    with run.out.stream(TXN) as stream:
        parts = [chosen[at : at + _CHUNK_ROWS] for at in range(0, len(chosen), _CHUNK_ROWS)]
        written = Progress(run.listener, "write", len(chosen))
        for part, chunk in zip(
            parts, map_in_order(partial(_rendered, stream.encoder, transactions), parts, run.jobs), strict=True
        ):
            stream.write(chunk)
            written.add(len(part))
        counts = transactions.counts()
        after_end = transactions.after_end()
        stream.end(SUMMARY.row((*(counts[fate] for fate in FATES), after_end, len(chosen), found.entries)))
    return report_damage(run, env, found.damages)


class _Wanted(NamedTuple):
    """Which transactions are printed; empty and None mean no limit."""

    fates: tuple[str, ...]
    ids: tuple[int, ...]
    since: int | None
    until: int | None

    def fits(self, transactions: Transactions, row: int) -> bool:
        """Whether the transaction of a row is."""
        if self.fates and transactions.fate_at(row) not in self.fates:
            return False
        if self.ids and transactions.table.ids.get(row) not in self.ids:
            return False
        if self.since is None and self.until is None:
            return True
        # Open transactions have no time, so a limit on it leaves them out.
        time = transactions.time_at(row)
        return time is not None and not (
            (self.since is not None and time < self.since) or (self.until is not None and time > self.until)
        )


def _rendered(encoder: Encoder, transactions: Transactions, rows: Sequence[int]) -> bytes:
    """Many transactions at once, without an object for each."""
    table, prepares, taken_back = transactions.table, transactions.prepares, transactions.rolled_back

    def column(packed: PackedInts) -> list[int]:
        if isinstance(rows, range):
            return packed.between(rows.start, rows.stop)
        return [packed.get(row) for row in rows]

    ids, lns, dbs, states = column(table.ids), column(table.lns), column(table.dbs), [table.states[row] for row in rows]
    names = {db: tuple(sorted(table.databases(db))) for db in set(dbs)}
    times = zip(column(table.times), states, strict=True)
    columns: list[Sequence[Any]] = [
        ids,
        [transactions.fate_at(row) for row in rows],
        *(list(map(lsn_of, column(packed))) for packed in (table.first, table.last, table.end)),
        [time if state & HAS_END else None for time, state in times],
        lns,
        [taken_back.get(txn_id, 0) for txn_id in ids],
        column(table.sizes),
        [names[db] if count else () for db, count in zip(dbs, lns, strict=True)],
        [bool(state & AFTER_END) for state in states],
        [_xid(prepares[txn_id]) if txn_id in prepares else None for txn_id in ids],
    ]
    return rendered(encoder, TXN, columns)


def _xid(prepare: Prepare) -> str:
    return f"{prepare.format_id}:{(prepare.gtrid or b'').hex()}:{(prepare.bqual or b'').hex()}"
