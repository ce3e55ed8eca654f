"""What salvage reads of a log: every version of every record that is still legible, and what the tree says of it.

Four kinds of rows:

* ``ln``: an LN of a user database, with its transaction; ``void``: one that a rollback took back.
* ``slot``: a slot of a BIN or a BIN-delta: the record's version by LSN, its data when it is embedded.
* ``node``: a complete BIN was logged. A record that is in no later version of its node than an earlier one is gone.

And ends of transactions. Names and kinds of databases, rollback periods and damage come first (``survey_log``): they
are few and go to every task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from engine.errors import FormatError, JetoolError
from engine.format.bytecursor import join_two_part_key
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import MapLN
from engine.format.entry.node import (
    EXPIRES_IN_HOURS,
    KNOWN_DELETED,
    PENDING_DELETED,
    SLOT_EMBEDDED,
    NodeRecord,
    Slot,
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
    STREAM_LNS,
    TXN_ENDS,
    USER_LNS,
)
from engine.format.lsn import NULL_LSN, is_null
from engine.format.versions import TWO_PART_DUPLICATES
from engine.format.vlsn import NULL_VLSN
from engine.inspect.group_record import GroupName, group_of
from engine.log.entry import Damage, LogEntry
from engine.log.files import LogFile, list_log_files
from engine.log.reader import FileReader
from engine.storage.disk import DiskStorage

# Two databases of the engine itself, the mapping and the naming tree.
_LEAST_USER_DB: Final = 2
_BAD_BODY: Final = (FormatError, IndexError, ValueError)


class SalvageDb(NamedTuple):
    """A database as the log knows it.

    Attributes:
        comparator: its keys are in the order of a Java class.
    """

    name: str
    duplicates: bool
    key_prefixing: bool = False
    max_entries: int = 128
    comparator: bool = False


class LogSurvey(NamedTuple):
    """What is few in a log.

    Attributes:
        dbs: user databases by id, as the last MapLN of each says; removed ones are not there.
        removed: ids of databases that were removed.
        internal: ids of JE's own databases, and of temporary ones.
        periods: matchpoint, RollbackStart and transactions of each rollback.
        damages: stretches of damage, and files that cannot be read (length 0).
        group: the replication group that its records name, or None.
        last_vlsn: the last visible one; NULL_VLSN without one.
    """

    dbs: dict[int, SalvageDb]
    removed: frozenset[int]
    internal: frozenset[int]
    periods: tuple[tuple[int, int, frozenset[int]], ...]
    damages: tuple[Damage, ...]
    group: GroupName | None
    last_vlsn: int


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
    expiration: int = 0


VERSION_SCHEMA: Final = (
    "env string, kind string, db bigint, key binary, lsn bigint, deleted boolean, embedded boolean, data binary, "
    "txn bigint, vlsn bigint, node bigint, bin_lsn bigint, expiration bigint"
)
END_SCHEMA: Final = "env string, txn bigint, committed boolean"


def survey_log(env: str) -> LogSurvey:
    """Read a log for what is few; damage is stepped over, and so are files that cannot be read.

    Raises:
        JetoolError: the directory cannot be read.
    """
    files = list_log_files(DiskStorage(env))
    maps: dict[int, tuple[int, MapLN, bool]] = {}
    periods = []
    damages: list[Damage] = []
    group, last_vlsn = None, NULL_VLSN
    for item in _items(env, files.files, files.end_file()):
        if isinstance(item, Damage):
            damages.append(item)
            continue
        if item.replicated and not item.invisible:
            last_vlsn = item.vlsn
            if item.type_number in STREAM_LNS:
                group = group_of(item) or group
        if item.type_number == MAP_LN:
            record = _record(item)
            if isinstance(record, LN) and isinstance(record.content, MapLN):
                maps[record.content.database.db_id] = (item.lsn, record.content, record.data is None)
        elif item.type_number == ROLLBACK_START:
            record = _record(item)
            if isinstance(record, RollbackStart):
                periods.append((record.matchpoint_lsn, item.lsn, frozenset(record.active_txn_ids)))
    dbs, removed, internal = _databases(maps)
    return LogSurvey(
        dbs=dbs,
        removed=removed,
        internal=internal,
        periods=tuple(periods),
        damages=tuple(damages),
        group=group,
        last_vlsn=last_vlsn,
    )


def _databases(
    maps: dict[int, tuple[int, MapLN, bool]],
) -> tuple[dict[int, SalvageDb], frozenset[int], frozenset[int]]:
    """Databases, ids of removed ones, and ids of JE's own, from the last MapLN of each id."""
    dbs: dict[int, SalvageDb] = {}
    removed, internal = set(), set()
    # The last MapLN of a name has it; an older database of that name has lost its removal with the damage.
    names: set[str] = set()
    for db_id, (_, content, is_deletion) in sorted(maps.items(), key=lambda item: -item[1][0]):
        found = content.database
        name = found.name or f"database {db_id}"
        if 0 <= db_id < _LEAST_USER_DB or name.startswith("_je") or found.temporary:
            internal.add(db_id)
        elif content.deleted or is_deletion:
            removed.add(db_id)
        else:
            dbs[db_id] = SalvageDb(
                name=f"{name} (database {db_id})" if name in names else name,
                duplicates=found.duplicates,
                key_prefixing=found.key_prefixing,
                max_entries=found.max_entries,
                comparator=bool(found.btree_comparator or found.duplicate_comparator),
            )
            names.add(name)
    return dbs, frozenset(removed), frozenset(internal)


def versions(env: str, files: Sequence[LogFile], end_file: int, known: LogSurvey) -> Iterator[SalvagedVersion]:
    """Rows of some files of a log."""
    for item in _entries(env, files, end_file):
        yield from version_rows(env, item, known)


def version_rows(env: str, item: LogEntry, known: LogSurvey) -> Iterator[SalvagedVersion]:
    """Rows of one entry."""
    if item.type_number in USER_LNS:
        yield from _ln(env, item, known)
    elif item.type_number in BINS:
        yield from _slots(env, item, known)


def ends(env: str, files: Sequence[LogFile], end_file: int) -> Iterator[tuple[str, int, bool]]:
    """Environment, transaction, and whether it committed, of every transaction that ended in some files."""
    for item in _entries(env, files, end_file):
        record = end_of(item)
        if record is not None:
            yield env, record.id, item.type_number == COMMIT


def end_of(item: LogEntry) -> TxnEnd | None:
    """The Commit or Abort that an entry is, if it counts."""
    record = _record(item) if item.type_number in TXN_ENDS and not item.invisible else None
    return record if isinstance(record, TxnEnd) else None


def record_of(item: LogEntry) -> LN | None:
    """The record that an entry is, if it can be decoded."""
    record = _record(item)
    return record if isinstance(record, LN) else None


def _entries(env: str, files: Sequence[LogFile], end_file: int) -> Iterator[LogEntry]:
    return (item for item in _items(env, files, end_file) if isinstance(item, LogEntry))


def _items(env: str, files: Sequence[LogFile], end_file: int) -> Iterator[LogEntry | Damage]:
    """Entries and damage of some files; a file that cannot be read is damage of length 0."""
    storage = DiskStorage(env)
    for file in files:
        try:
            with FileReader(storage, file, is_last=file.number >= end_file) as reader:
                yield from reader.entries()
        except JetoolError as error:
            # What other files hold is salvaged all the same.
            yield unreadable(file, error)


def unreadable(file: LogFile, error: JetoolError) -> Damage:
    """A file that cannot be read, as damage."""
    return Damage(
        lsn=file.number << 32,
        length=0,
        path=file.path,
        reason="unreadable",
        expected="",
        found=str(error),
        type_number=0,
        next_lsn=NULL_LSN,
        found_by="",
        is_tail=False,
    )


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
        expiration=record.expiration,
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
                expiration=_expiration(node, slot),
            )


def _expiration(node: NodeRecord, slot: Slot) -> int:
    """Days, or negative hours, since 1970; 0 for none."""
    if not slot.expiration:
        return 0
    value = node.expiration_base + slot.expiration - 1
    return -value if node.flags & EXPIRES_IN_HOURS else value


def _record(item: LogEntry) -> object:
    try:
        return item.record()
    except _BAD_BODY:
        return None
