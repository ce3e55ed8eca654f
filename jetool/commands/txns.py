"""``jetool txns``: the fate of every transaction in the log."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple

import click

from engine.errors import UsageError
from engine.events import Progress
from engine.fields import Bool, Choices, Int, Lsn, Row, SizeBytes, Text, Time, record, shape_of
from engine.format.entry.txn_end import Prepare
from engine.format.fast.fate_table import AFTER_END, lsn_of
from engine.format.fast.packed_ints import PackedInts
from engine.format.fast.txn_rows import HAS_END
from engine.inspect.fates import FATES, Transactions, read_fates
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.workers.parallel import map_in_order
from jetool.frame import params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.log_damage import LOG_EXITS, report_damage
from jetool.frame.options import Run
from jetool.output.base import Encoder
from jetool.output.columns import rendered

# Number of transactions that are rendered at once.
_CHUNK_ROWS: Final = 5000
# Rows that text columns are fitted to.
_SCREEN: Final = 50


@record("txn")
class TxnRow(NamedTuple):
    """One transaction."""

    txn: Annotated[Int, "its id; that of a replicated transaction is negative"]
    fate: Annotated[Text, "its fate", Choices(FATES)]
    first_lsn: Annotated[Lsn, "its first record"]
    last_lsn: Annotated[Lsn, "its last record"]
    end_lsn: Annotated[Lsn, "its Commit, Abort or Prepare"]
    time: Annotated[Time | None, "when it ended"]
    records: Annotated[Int, "records that it wrote and that are still in the log"]
    rolled_back_records: Annotated[Int, "records that a rollback undid"]
    bytes: Annotated[SizeBytes, "their entries, with headers"]
    dbs: Annotated[Sequence[Int], "ids of the databases that it wrote to"]
    after_end: Annotated[Bool, "its end comes after a bad entry: recovery does not read it"]
    xid: Annotated[Text | None, "format:gtrid:bqual of a prepared transaction"]


@record("summary")
class FateCounts(NamedTuple):
    """How many transactions have which fate; those that were not printed count too."""

    committed: Annotated[Int, "transactions that are committed"]
    aborted: Annotated[Int, "transactions that are aborted"]
    open: Annotated[Int, "transactions that are open"]
    prepared: Annotated[Int, "transactions that are prepared"]
    rolled_back: Annotated[Int, "transactions that are rolled-back"]
    after_end: Annotated[Int, "transactions whose end recovery does not see"]
    printed: Annotated[Int, "transactions above"]
    entries: Annotated[Int, "entries read"]


def _outputs() -> Outputs:
    """Outputs for JE and Derby; summary fields of only one kind are optional."""
    from jetool.commands import derby_txns as derby

    of_je, of_derby = shape_of(FateCounts), shape_of(derby.XactCounts)
    fields = [field._replace(optional=field.name not in of_derby.names()) for field in of_je.fields]
    fields += [field._replace(optional=True) for field in of_derby.fields if field.name not in of_je.names()]
    return Outputs("stream", (TxnRow, derby.DerbyTxn), of_je._replace(fields=tuple(fields)))


def _check(_: Run, *, limit: int | None, tail: int | None, **__: object) -> None:
    if limit is not None and tail is not None:
        raise UsageError("--tail and --limit exclude each other", hint="leave one of them out")


@command(
    "txns",
    outputs=_outputs,
    features=("fields", "progress", "times", "jobs"),
    examples=(
        ("What would recovery undo", "jetool txns /data/env --fate open"),
        ("The last ten transactions, newest first", "jetool txns /data/env --tail 10 --reverse"),
        ("What committed in the last quarter of an hour", "jetool txns /data/env --fate committed --since -15m"),
    ),
    check=_check,
    exits=LOG_EXITS,
)
@environment
@click.option("--fate", "fates", type=click.Choice(FATES), multiple=True, help="Only transactions with this fate.")
@click.option("--txn", "ids", type=int, multiple=True, metavar="ID", help="Only this transaction.")
@click.option("--since", type=params.TIME, help="Only transactions that ended since TIME.")
@click.option("--until", type=params.TIME, help="Only transactions that ended until TIME.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Print N transactions at most.")
@click.option("--tail", type=click.IntRange(1), metavar="N", help="The last N transactions.")
@click.option("--reverse", is_flag=True, help="Newest first.")
def txns(
    run: Run,
    env: str,
    fates: tuple[str, ...],
    ids: tuple[int, ...],
    since: int | None,
    until: int | None,
    limit: int | None,
    tail: int | None,
    reverse: bool,
) -> int:
    """Print the fate of every transaction in the log: committed, aborted, open, prepared, rolled back.

    Transactions come in the order of their first records. The whole log is read, and reading continues after damage.
    Records in files that the cleaner deleted are not counted: such a transaction shows fewer records than it wrote. For
    a Derby database, transactions whose end lies after the end of the log are marked, because recovery does not see it.
    Nothing is created or changed; a running environment can be read.
    """
    storage = DiskStorage(env)
    found = read_fates(storage, list_log_files(storage), run.listener)
    wanted = _Wanted(fates, ids, since, until)
    transactions = found.txns
    chosen: Sequence[int] = range(len(transactions))
    if reverse or tail is not None:
        chosen = chosen[::-1]
    most = limit if tail is None else tail
    if wanted != _Wanted((), (), None, None):
        # Filters use the columns of the table.
        chosen = array("q", islice((row for row in chosen if wanted.fits(transactions, row)), most))
    chosen = chosen[:most]
    if tail is not None and not reverse:
        chosen = chosen[::-1]
    with run.out.stream(TxnRow) as stream:
        if run.out.style.width is not None:
            stream.fit(_sample(_columns(transactions, chosen[:_SCREEN])))
        parts = [chosen[at : at + _CHUNK_ROWS] for at in range(0, len(chosen), _CHUNK_ROWS)]
        written = Progress(run.listener, "write", len(chosen))
        for part, chunk in zip(
            parts, map_in_order(partial(_rendered, stream.encoder, transactions), parts, run.jobs), strict=True
        ):
            stream.write(chunk)
            written.add(len(part))
        counts = transactions.counts()
        stream.end(
            FateCounts(
                committed=counts["committed"],
                aborted=counts["aborted"],
                open=counts["open"],
                prepared=counts["prepared"],
                rolled_back=counts["rolled-back"],
                after_end=transactions.after_end(),
                printed=len(chosen),
                entries=found.entries,
            )
        )
    return report_damage(run, env, found.damages)


def _sample(first: Mapping[str, Sequence[Any]]) -> list[tuple[str, Row]]:
    """The first rows, to which the columns of the table are fitted."""
    shape = shape_of(TxnRow)
    kinds = {field.name: field.kind for field in shape.fields}
    return [
        (shape.rec, [(name, kinds[name], value) for name, value in zip(first, values, strict=True)])
        for values in zip(*first.values(), strict=True)
    ]


class _Wanted(NamedTuple):
    """Filters for transactions; empty and None mean no limit."""

    fates: tuple[str, ...]
    ids: tuple[int, ...]
    since: int | None
    until: int | None

    def fits(self, transactions: Transactions, row: int) -> bool:
        """Whether the transaction in a row passes the filters."""
        if self.fates and transactions.fate_at(row) not in self.fates:
            return False
        if self.ids and transactions.table.ids.get(row) not in self.ids:
            return False
        if self.since is None and self.until is None:
            return True
        # Open transactions have no time, so time limits exclude them.
        time = transactions.time_at(row)
        return time is not None and not (
            (self.since is not None and time < self.since) or (self.until is not None and time > self.until)
        )


def _rendered(encoder: Encoder, transactions: Transactions, rows: Sequence[int]) -> bytes:
    """Render many transactions at once, without an object for each."""
    return rendered(encoder, TxnRow, _columns(transactions, rows))


def _columns(transactions: Transactions, rows: Sequence[int]) -> dict[str, Sequence[Any]]:
    """The fields of ``TxnRow`` of many transactions, in order."""
    table, prepares, taken_back = transactions.table, transactions.prepares, transactions.rolled_back

    def column(packed: PackedInts) -> list[int]:
        if isinstance(rows, range) and rows.step == 1:
            return packed.between(rows.start, rows.stop)
        return [packed.get(row) for row in rows]

    def lsns(packed: PackedInts) -> list[int]:
        stored = column(packed)
        # Of most logs no LSN is stored as a negative number.
        return stored if min(stored, default=0) >= 0 else list(map(lsn_of, stored))

    ids, lns, dbs = column(table.ids), column(table.lns), column(table.dbs)
    states = transactions.states_at(rows)
    names = {db: tuple(sorted(table.databases(db))) for db in set(dbs)}
    after_end = {state: bool(state & AFTER_END) for state in set(states)}
    times: Sequence[int | None] = column(table.times)
    if not all(state & HAS_END for state in set(states)):
        times = [time if state & HAS_END else None for time, state in zip(times, states, strict=True)]
    no_xids = [None] * len(ids)
    return {
        "txn": ids,
        "fate": transactions.fates_at(rows),
        "first_lsn": lsns(table.first),
        "last_lsn": lsns(table.last),
        "end_lsn": lsns(table.end),
        "time": times,
        "records": lns,
        "rolled_back_records": [taken_back.get(txn_id, 0) for txn_id in ids] if taken_back else [0] * len(ids),
        "bytes": column(table.sizes),
        "dbs": [names[db] if count else () for db, count in zip(dbs, lns, strict=True)],
        "after_end": [after_end[state] for state in states],
        "xid": [_xid(prepares[txn_id]) if txn_id in prepares else None for txn_id in ids] if prepares else no_xids,
    }


def _xid(prepare: Prepare) -> str:
    return f"{prepare.format_id}:{(prepare.gtrid or b'').hex()}:{(prepare.bqual or b'').hex()}"
