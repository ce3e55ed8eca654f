"""What salvage reads of a log: every version of every record that is still legible, and what the tree says of it.

Four kinds of rows:

* ``ln``: an LN of a user database, with its transaction; ``void``: one that a rollback took back.
* ``slot``: a slot of a BIN or a BIN-delta: the record's version by LSN, its data when it is embedded.
* ``node``: a complete BIN was logged. A record that is in no later version of its node than an earlier one is gone.

And ends of transactions. Names and kinds of databases, rollback periods and damage come first (``survey_log``): they
are few and go to every task.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from engine.errors import FormatError, JetoolError
from engine.format.bytecursor import join_two_part_key
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import MapLN
from engine.format.entry.node import (
    KNOWN_DELETED,
    PENDING_DELETED,
    SLOT_EMBEDDED,
    NodeRecord,
)
from engine.format.entry.rollback import RollbackStart
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import (
    BIN_TYPE,
    BINS,
    COMMIT,
    DEL_DUP_LNS,
    MAP_LN,
    ROLLBACK_START,
    TXN_ENDS,
    USER_LNS,
)
from engine.format.lsn import NULL_LSN, is_null
from engine.format.versions import TWO_PART_DUPLICATES
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import Damage, LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader, LogReader
from engine.pipeline.inventory import LogPart
from engine.storage.disk import DiskStorage

# Two databases of the engine itself, the mapping and the naming tree.
_LEAST_USER_DB: Final = 2
_BATCH_BYTES: Final = 16 << 20
_BAD_BODY: Final = (FormatError, IndexError, ValueError)


class SalvageDb(NamedTuple):
    """A database as the log knows it."""

    name: str
    duplicates: bool


class LogSurvey(NamedTuple):
    """What is few in a log.

    Attributes:
        dbs: user databases by id, as the last MapLN of each says; removed ones are not there.
        removed: ids of databases that were removed.
        periods: matchpoint, RollbackStart and transactions of each rollback.
        damages: stretches of damage, and files that cannot be read (length 0).
    """

    dbs: dict[int, SalvageDb]
    removed: frozenset[int]
    periods: tuple[tuple[int, int, frozenset[int]], ...]
    damages: tuple[Damage, ...]


class SalvagedVersion(NamedTuple):
    """A row: see the head of the module. ``txn`` is None outside transactions and for slots."""

    env: str
    kind: str
    db: int
    key: bytes
    lsn: int
    deleted: bool
    embedded: bool
    data: bytes | None
    txn: int | None
    vlsn: int
    node: int
    bin_lsn: int


VERSION_SCHEMA: Final = (
    "env string, kind string, db bigint, key binary, lsn bigint, deleted boolean, embedded boolean, data binary, "
    "txn bigint, vlsn bigint, node bigint, bin_lsn bigint"
)
END_SCHEMA: Final = "env string, txn bigint, committed boolean"


def survey_log(env: str) -> LogSurvey:
    """Read a log for what is few; damage is stepped over.

    Raises:
        JetoolError: the directory cannot be read.
    """
    storage = DiskStorage(env)
    files = list_log_files(storage)
    dbs: dict[int, SalvageDb] = {}
    removed: set[int] = set()
    periods = []
    damages: list[Damage] = []
    for item in LogReader(storage, files._replace(marker=None)).forward():
        if isinstance(item, Damage):
            damages.append(item)
        elif item.type_number == MAP_LN:
            _take_map(item, dbs, removed)
        elif item.type_number == ROLLBACK_START:
            record = _record(item)
            if isinstance(record, RollbackStart):
                periods.append((record.matchpoint_lsn, item.lsn, frozenset(record.active_txn_ids)))
    return LogSurvey(dbs, frozenset(removed), tuple(periods), tuple(damages))


def versions(part: LogPart, known: LogSurvey) -> Iterator[SalvagedVersion]:
    """Rows of some files of a log."""
    for item in _entries(part):
        if item.type_number in USER_LNS:
            yield from _ln(part.env, item, known)
        elif item.type_number in BINS:
            yield from _slots(part.env, item, known)


def ends(part: LogPart) -> Iterator[tuple[str, int, bool]]:
    """Environment, transaction, and whether it committed, of every transaction that ended in some files."""
    for item in _entries(part):
        if item.type_number in TXN_ENDS and not item.invisible:
            record = _record(item)
            if isinstance(record, TxnEnd):
                yield part.env, record.id, item.type_number == COMMIT


def _entries(part: LogPart) -> Iterator[LogEntry]:
    storage = DiskStorage(part.env)
    for file in part.files:
        try:
            with FileReader(storage, file, is_last=file.number >= part.end_file) as reader:
                yield from (item for item in reader.entries() if isinstance(item, LogEntry))
        except JetoolError:
            # The report names it; what other files hold is salvaged all the same.
            continue


def _take_map(item: LogEntry, dbs: dict[int, SalvageDb], removed: set[int]) -> None:
    record = _record(item)
    if not isinstance(record, LN) or not isinstance(record.content, MapLN):
        return
    found = record.content.database
    if found.db_id < 0 or found.db_id >= _LEAST_USER_DB:
        if record.content.deleted or record.data is None:
            dbs.pop(found.db_id, None)
            removed.add(found.db_id)
        elif not (found.name or "").startswith("_je") and not found.temporary:
            dbs[found.db_id] = SalvageDb(found.name or f"database {found.db_id}", found.duplicates)


def _ln(env: str, item: LogEntry, known: LogSurvey) -> Iterator[SalvagedVersion]:
    record = _record(item)
    if not isinstance(record, LN) or record.db_id not in known.dbs:
        return
    txn, key, data = record.txn_id, record.key, record.data
    if item.invisible or any(low < item.lsn < high and txn in ids for low, high, ids in known.periods):
        # A slot that leads here leads to nothing, and to nothing that is lost.
        yield SalvagedVersion(
            env=env,
            kind="void",
            db=record.db_id,
            key=key,
            lsn=item.lsn,
            deleted=False,
            embedded=False,
            data=None,
            txn=txn,
            vlsn=NULL_VLSN,
            node=-1,
            bin_lsn=NULL_LSN,
        )
        return
    if known.dbs[record.db_id].duplicates and item.version < TWO_PART_DUPLICATES:
        # Old trees of duplicates: a record is a key with one of its data items.
        if item.type_number in DEL_DUP_LNS and isinstance(record.tail, bytes):
            key, data = join_two_part_key(key, record.tail), None
        elif data is not None:
            key, data = join_two_part_key(key, data), b""
        else:
            return
    yield SalvagedVersion(
        env=env,
        kind="ln",
        db=record.db_id,
        key=key,
        lsn=item.lsn,
        deleted=data is None,
        embedded=False,
        data=data,
        txn=txn,
        vlsn=item.vlsn,
        node=-1,
        bin_lsn=NULL_LSN,
    )


def _slots(env: str, item: LogEntry, known: LogSurvey) -> Iterator[SalvagedVersion]:
    node = _record(item)
    if not isinstance(node, NodeRecord) or node.db_id not in known.dbs:
        return
    if item.type_number == BIN_TYPE:
        yield SalvagedVersion(
            env=env,
            kind="node",
            db=node.db_id,
            key=b"",
            lsn=item.lsn,
            deleted=False,
            embedded=False,
            data=None,
            txn=None,
            vlsn=NULL_VLSN,
            node=node.node_id,
            bin_lsn=item.lsn,
        )
    for slot in node.slots:
        if not is_null(slot.lsn):
            deleted = bool(slot.state & (KNOWN_DELETED | PENDING_DELETED))
            embedded = bool(slot.state & SLOT_EMBEDDED)
            data = (slot.data or b"") if embedded and not deleted else None
            vlsn = NULL_VLSN if slot.vlsn is None else slot.vlsn
            yield SalvagedVersion(
                env=env,
                kind="slot",
                db=node.db_id,
                key=node.full_key(slot),
                lsn=slot.lsn,
                deleted=deleted,
                embedded=embedded,
                data=data,
                txn=None,
                vlsn=vlsn,
                node=node.node_id,
                bin_lsn=item.lsn,
            )


def _record(item: LogEntry) -> object:
    try:
        return item.record()
    except _BAD_BODY:
        return None


def batches(rows: Iterator[tuple[Any, ...]], schema: Any, most_rows: int = 4096) -> Iterator[Any]:
    """Rows as Arrow batches of so many rows, or of 16 MiB of bytes.

    Arguments:
        rows: values in the order of the schema.
        schema: an Arrow schema.
        most_rows: how many rows a batch has.
    """
    batch: list[tuple[Any, ...]] = []
    held = 0
    for row in rows:
        batch.append(row)
        held += sum(len(value) for value in row if isinstance(value, bytes))
        if len(batch) >= most_rows or held >= _BATCH_BYTES:
            yield _batch(batch, schema)
            batch, held = [], 0
    if batch:
        yield _batch(batch, schema)


def _batch(rows: list[tuple[Any, ...]], schema: Any) -> Any:
    import pyarrow as pa

    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def arrow(schema: str) -> Any:
    """The Arrow schema for one of Spark's, of the kinds that salvage has."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "bigint": pa.int64(), "binary": pa.binary(), "boolean": pa.bool_()}
    columns = (column.split() for column in schema.split(", "))
    return pa.schema([pa.field(name, kinds[kind]) for name, kind in columns])
