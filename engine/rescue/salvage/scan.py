"""What salvage reads of a log: what is few, and the versions of one entry.

Names and kinds of databases, rollback periods and damage come first (``survey_log``): they are few. Then every LN and
every slot of a BIN or delta is a version of its record (``versions``); ``taking`` takes them by the million, and leaves
what is uncommon to ``ln_version`` and ``node_versions``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    DEL_DUP_LNS,
    EXTINCT_SCAN_LNS,
    MAP_LN,
    MAP_LNS,
    ROLLBACKS,
    STREAM_LNS,
    TXN_ENDS,
)
from engine.format.fast.loops import keeping
from engine.format.lsn import NULL_LSN, is_null
from engine.format.versions import TWO_PART_DUPLICATES
from engine.format.vlsn import NULL_VLSN
from engine.inspect.group_record import GROUP_KEY_BYTES, GroupName, group_of
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import LogFile, list_log_files
from engine.log.reader import FileReader
from engine.rescue.salvage.extinct import ExtinctRange, range_of
from engine.rescue.salvage.versions import DELETED, EMBEDDED, IN_TXN, NO_DATA, VOID, LNVersion, SlotVersion
from engine.storage.disk import DiskStorage

# Two databases of the engine itself, the mapping and the naming tree.
_LEAST_USER_DB: Final = 2
_FEW: Final = MAP_LNS | ROLLBACKS | EXTINCT_SCAN_LNS
_FEW_AND_LNS: Final = _FEW | STREAM_LNS
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
        extinct: ranges of records that were discarded, whether that has committed or not.
    """

    dbs: dict[int, SalvageDb]
    removed: frozenset[int]
    internal: frozenset[int]
    periods: tuple[tuple[int, int, frozenset[int]], ...]
    damages: tuple[Damage, ...]
    group: GroupName | None
    last_vlsn: int
    extinct: tuple[ExtinctRange, ...] = ()


class NodeVersions(NamedTuple):
    """What a BIN or BIN-delta says of records.

    Attributes:
        node: its id.
        is_whole: it is no delta: a record that it lacks is not in its range.
        keys: of all slots.
        rows: key and version of each slot that leads somewhere.
    """

    db_id: int
    node: int
    is_whole: bool
    keys: list[bytes]
    rows: list[tuple[bytes, SlotVersion]]


def survey_log(env: str) -> LogSurvey:
    """Read a log for what is few; damage is stepped over, and so are files that cannot be read.

    Raises:
        JetoolError: the directory cannot be read.
    """
    files = list_log_files(DiskStorage(env))
    maps: dict[int, tuple[int, MapLN, bool]] = {}
    periods, extinct = [], []
    damages: list[Damage] = []
    group, last_vlsn = None, NULL_VLSN
    for item in _items(env, files.files, files.end_file()):
        if isinstance(item, Damage):
            damages.append(item)
            continue
        if isinstance(item, LogEntry):
            few: Iterable[LogEntry] = (item,)
            if item.replicated and not item.invisible:
                last_vlsn = item.vlsn
        else:
            last_vlsn = item.last_vlsn if item.last_vlsn != NULL_VLSN else last_vlsn
            wanted = _FEW if item.data.find(GROUP_KEY_BYTES, item.start, item.end) < 0 else _FEW_AND_LNS
            few = map(item.entry_at, item.positions(keeping(wanted)))
        for entry in few:
            if entry.type_number in STREAM_LNS and not entry.invisible:
                group = group_of(entry) or group
            record = decoded(entry) if entry.type_number in _FEW else None
            if entry.type_number == MAP_LN and isinstance(record, LN) and isinstance(record.content, MapLN):
                maps[record.content.database.db_id] = (entry.lsn, record.content, record.data is None)
            elif isinstance(record, RollbackStart):
                periods.append((record.matchpoint_lsn, entry.lsn, frozenset(record.active_txn_ids)))
            elif entry.type_number in EXTINCT_SCAN_LNS and isinstance(record, LN) and not entry.invisible:
                extinct.append(range_of(record.data or b"", entry.lsn, record.txn_id))
    dbs, removed, internal = _databases(maps)
    return LogSurvey(
        dbs=dbs,
        removed=removed,
        internal=internal,
        periods=tuple(periods),
        damages=tuple(damages),
        group=group,
        last_vlsn=last_vlsn,
        extinct=tuple(one for one in extinct if one is not None),
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


def ln_version(item: LogEntry, known: LogSurvey) -> tuple[int, bytes, LNVersion] | None:
    """Database, key and version of an LN of a known user database."""
    record = decoded(item)
    if not isinstance(record, LN) or record.db_id not in known.dbs:
        return None
    txn, key, data = record.txn_id, record.key, record.data
    flags = 0 if txn is None else IN_TXN
    if item.invisible or any(low < item.lsn < high and txn in ids for low, high, ids in known.periods):
        # A slot that leads here leads to nothing, and to nothing that is lost.
        return record.db_id, key, (item.lsn, flags | VOID, NO_DATA, txn or 0, NULL_VLSN, 0)
    if known.dbs[record.db_id].duplicates and item.version < TWO_PART_DUPLICATES:
        # Old trees of duplicates: a record is a key with one of its data items.
        if item.type_number in DEL_DUP_LNS and isinstance(record.tail, bytes):
            key, data = join_two_part_key(key, record.tail), None
        elif data is not None:
            key, data = join_two_part_key(key, data), NO_DATA
        else:
            return None
    flags |= DELETED if data is None else 0
    return record.db_id, key, (item.lsn, flags, data or NO_DATA, txn or 0, item.vlsn, record.expiration)


def node_versions(item: LogEntry, known: LogSurvey) -> NodeVersions | None:
    """What a BIN or delta of a known user database says."""
    node = decoded(item)
    if not isinstance(node, NodeRecord) or node.db_id not in known.dbs:
        return None
    rows = []
    for slot in node.slots:
        if is_null(slot.lsn):
            continue
        deleted = bool(slot.state & (KNOWN_DELETED | PENDING_DELETED))
        flags = (DELETED if deleted else 0) | (EMBEDDED if slot.state & SLOT_EMBEDDED else 0)
        data = slot.data or NO_DATA if flags == EMBEDDED else NO_DATA
        vlsn = NULL_VLSN if slot.vlsn is None else slot.vlsn
        version = (slot.lsn, flags, data, vlsn, _expiration(node, slot), node.node_id, item.lsn)
        rows.append((node.full_key(slot), version))
    keys = [node.full_key(slot) for slot in node.slots]
    return NodeVersions(node.db_id, node.node_id, item.type_number == BIN_TYPE, keys, rows)


def end_of(item: LogEntry) -> TxnEnd | None:
    """The Commit or Abort that an entry is, if it counts."""
    record = decoded(item) if item.type_number in TXN_ENDS and not item.invisible else None
    return record if isinstance(record, TxnEnd) else None


def record_of(item: LogEntry) -> LN | None:
    """The record that an entry is, if it can be decoded."""
    record = decoded(item)
    return record if isinstance(record, LN) else None


def _items(env: str, files: Sequence[LogFile], end_file: int) -> Iterator[Stretch | LogEntry | Damage]:
    """What some files hold; a file that cannot be read is damage of length 0."""
    storage = DiskStorage(env)
    for file in files:
        try:
            with FileReader(storage, file, is_last=file.number >= end_file) as reader:
                yield from reader.stretches()
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


def _expiration(node: NodeRecord, slot: Slot) -> int:
    """Days, or negative hours, since 1970; 0 for none."""
    if not slot.expiration:
        return 0
    value = node.expiration_base + slot.expiration - 1
    return -value if node.flags & EXPIRES_IN_HOURS else value


def decoded(item: LogEntry) -> object:
    """The record of an entry; None when its body does not fit its type."""
    try:
        return item.record()
    except _BAD_BODY:
        return None
