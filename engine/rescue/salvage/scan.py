"""Reads a log for salvage: the survey, and the versions in one entry.

The survey (``survey_log``) collects the small parts: names and kinds of databases, rollback periods and damage. Then
every LN and every slot of a BIN or delta is a version of its record (``versions``); ``version_reader`` reads them in
bulk, and leaves uncommon entries to ``ln_version`` and ``node_versions``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from engine.errors import FormatError, JetoolError
from engine.format.bytecursor import join_two_part_key
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.db_tree import NAMING_DB_ID, DatabaseImpl
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import MapLN, NameLN, NameOperation
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
    CKPT_END,
    COMMIT,
    DBIN_TYPE,
    DEL_DUP_LNS,
    DUP_NODES,
    EXTINCT_SCAN_LNS,
    FILE_SUMMARY_LNS,
    FULL_BOTTOM_NODES,
    MAP_LN,
    MAP_LNS,
    NAME_LNS,
    ROLLBACKS,
    STREAM_LNS,
    STREAM_RECORDS,
    TXN_ENDS,
)
from engine.format.fast.loops import keeping
from engine.format.lsn import NULL_LSN, is_null
from engine.format.versions import TWO_PART_DUPLICATES
from engine.format.vlsn import NULL_VLSN
from engine.inspect.group_record import GROUP_KEY_BYTES, GroupName, group_of
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import LogFile, LogFiles, list_log_files
from engine.log.scan import scan_log
from engine.rescue.salvage.coverage import VlsnCoverage, VlsnRange, gap_end
from engine.rescue.salvage.databases import (
    GROUP_DATABASE,
    UTILIZATION_DATABASE,
    DatabaseLedger,
    NameRecord,
    SalvageDb,
)
from engine.rescue.salvage.extinct import ExtinctRange, range_of
from engine.rescue.salvage.versions import (
    DELETED,
    FOR_GOOD,
    HIDDEN,
    IN_SLOT,
    IN_TXN,
    NO_DATA,
    SINGLE,
    VOID,
    LNVersion,
    SlotVersion,
)
from engine.storage.disk import DiskStorage

_FEW: Final = MAP_LNS | NAME_LNS | FILE_SUMMARY_LNS | ROLLBACKS | EXTINCT_SCAN_LNS | {CKPT_END}
_FEW_AND_LNS: Final = _FEW | STREAM_LNS
_BAD_BODY: Final = (FormatError, IndexError, ValueError)


class Checkpoint(NamedTuple):
    """A checkpoint whose CkptEnd is legible.

    Attributes:
        start_lsn, end_lsn: CkptStart and CkptEnd.
        first_active_lsn: every transaction with an entry before this LSN had ended at CkptStart.
        root_lsn: LSN of the DbTree; NULL_LSN: it was not logged again.
        version: log version of the file.
    """

    start_lsn: int
    end_lsn: int
    first_active_lsn: int
    root_lsn: int
    version: int


class LogSurvey(NamedTuple):
    """The survey of a log.

    Attributes:
        dbs: user databases by id, according to the last MapLN of each; without removed ones.
        removed: ids of databases that were removed.
        internal: ids of JE's own databases, and of temporary ones.
        periods: for each rollback the matchpoint, the RollbackStart and the transactions.
        damages: stretches of damage, and unreadable files (length 0).
        group: the replication group that its records name, or None.
        last_vlsn: the last visible VLSN; NULL_VLSN if no VLSN is visible.
        extinct: discarded ranges of records, committed or not.
        names: names of databases without a legible MapLN, by id.
        nameless: databases in ``dbs`` whose name is unknown.
        own_roots: as ``roots``, of ``internal``.
        named: databases in ``dbs`` that certainly exist under their name, even if empty.
        roots: LSN and state of the newest MapLN of each of ``dbs``.
        checkpoints: the legible ones, in log order.
        gap_end: where the last gap ends (``coverage``); NULL_LSN if there is no gap.
        vlsns: the ranges of VLSNs in the log.
        hidden: LSNs of invisible entries after the last gap, outside every rollback period.
    """

    dbs: dict[int, SalvageDb]
    removed: frozenset[int]
    internal: frozenset[int]
    periods: tuple[tuple[int, int, frozenset[int]], ...]
    damages: tuple[Damage, ...]
    group: GroupName | None
    last_vlsn: int
    extinct: tuple[ExtinctRange, ...] = ()
    names: Mapping[int, str] = MappingProxyType({})
    nameless: frozenset[int] = frozenset()
    named: frozenset[int] = frozenset()
    roots: Mapping[int, tuple[int, DatabaseImpl]] = MappingProxyType({})
    own_roots: Mapping[int, tuple[int, DatabaseImpl]] = MappingProxyType({})
    checkpoints: tuple[Checkpoint, ...] = ()
    gap_end: int = NULL_LSN
    vlsns: tuple[VlsnRange, ...] = ()
    hidden: frozenset[int] = frozenset()


class NodeVersions(NamedTuple):
    """The versions of records in a BIN or BIN-delta.

    Attributes:
        node: the id of the node.
        is_whole: the node is not a delta, so no other record exists in its range.
        keys: keys of all slots; empty for a DIN.
        rows: key and version of each slot with an LSN.
        main_key: for a node of old duplicates (DIN, DBIN), else None.
    """

    db_id: int
    node: int
    is_whole: bool
    keys: list[bytes]
    rows: list[tuple[bytes, SlotVersion]]
    main_key: bytes | None


def survey_log(env: str) -> LogSurvey:
    """Survey a log; damage and unreadable files are skipped.

    Raises:
        JetoolError: the directory cannot be read.
    """
    files = list_log_files(DiskStorage(env))
    few = _Few()
    damages: list[Damage] = []
    last_vlsn, coverage = NULL_VLSN, VlsnCoverage()
    invisible: list[int] = []
    for item in _items(env, files):
        coverage.take(item)
        if isinstance(item, Damage):
            damages.append(item)
        elif isinstance(item, LogEntry):
            if item.invisible:
                invisible.append(item.lsn)
            elif item.replicated:
                last_vlsn = item.vlsn
            few.take(item)
            few.take_end(item)
        else:
            last_vlsn = item.last_vlsn if item.last_vlsn != NULL_VLSN else last_vlsn
            wanted = _FEW if item.data.find(GROUP_KEY_BYTES, item.start, item.end) < 0 else _FEW_AND_LNS
            for entry in map(item.entry_at, item.positions(keeping(wanted))):
                few.take(entry)
            if few.ledger.pending:
                for entry in map(item.entry_at, item.positions(keeping(TXN_ENDS))):
                    few.take_end(entry)
    if few.ledger.nameless():
        few.ledger.take_slots(_naming_tree(env, files))
    databases = few.ledger.databases()
    gap = gap_end(DiskStorage(env), files, damages)
    return LogSurvey(
        dbs=databases.users,
        removed=databases.removed,
        internal=databases.internal,
        periods=tuple(few.periods),
        damages=tuple(damages),
        group=few.group,
        last_vlsn=last_vlsn,
        extinct=tuple(few.extinct),
        names=databases.names,
        nameless=frozenset(few.ledger.nameless()),
        named=databases.named,
        roots=databases.roots,
        own_roots=databases.own_roots,
        checkpoints=tuple(few.checkpoints),
        gap_end=gap,
        vlsns=coverage.ranges(),
        hidden=frozenset(
            lsn for lsn in invisible if lsn >= gap and not any(low < lsn < high for low, high, _ in few.periods)
        ),
    )


def last_vlsn_before(env: str, files: LogFiles, end_lsn: int, hidden: frozenset[int]) -> int:
    """The last visible VLSN of the entries below an LSN; NULL_VLSN if no VLSN is visible there.

    Arguments:
        hidden: LSNs of entries that a rollback will make invisible.
    """
    last = NULL_VLSN
    for item in _items(env, files):
        if item.lsn >= end_lsn:
            break
        if isinstance(item, Stretch):
            entries = map(item.entry_at, item.positions(keeping(TXN_ENDS | STREAM_RECORDS)))
            shown = [one.vlsn for one in entries if one.replicated and one.lsn < end_lsn and one.lsn not in hidden]
            last = shown[-1] if shown else last
        elif isinstance(item, LogEntry) and item.replicated and not item.invisible and item.lsn not in hidden:
            last = item.vlsn
    return last


def _naming_tree(env: str, files: LogFiles) -> dict[str, int]:
    """LSN of the NameLN by name, as the newest BINs of the naming tree have them."""
    bins: dict[int, dict[str, int]] = {}
    for item in _items(env, files):
        if isinstance(item, Damage):
            continue
        entries = [item] if isinstance(item, LogEntry) else item.entries_of(BINS)
        for entry in entries:
            node = decoded(entry) if entry.type_number in BINS else None
            if not isinstance(node, NodeRecord) or node.db_id != NAMING_DB_ID:
                continue
            names = bins.setdefault(node.node_id, {})
            if entry.type_number == BIN_TYPE:
                names.clear()
            for slot in node.slots:
                name = node.full_key(slot).decode("utf-8", "replace")
                names.pop(name, None)
                if not slot.state & (KNOWN_DELETED | PENDING_DELETED):
                    names[name] = slot.lsn
    return {name: lsn for names in bins.values() for name, lsn in names.items()}


class _Few:
    """Collects the survey, entry by entry in log order."""

    def __init__(self) -> None:
        self.ledger = DatabaseLedger()
        self.periods: list[tuple[int, int, frozenset[int]]] = []
        self.extinct: list[ExtinctRange] = []
        self.group: GroupName | None = None
        self.checkpoints: list[Checkpoint] = []

    def take(self, entry: LogEntry) -> None:
        """An entry of any type."""
        if entry.type_number in STREAM_LNS and not entry.invisible:
            self._take_group(entry)
        record = decoded(entry) if entry.type_number in _FEW else None
        if isinstance(record, RollbackStart):
            self.periods.append((record.matchpoint_lsn, entry.lsn, frozenset(record.active_txn_ids)))
        elif isinstance(record, CkptEnd):
            self.checkpoints.append(
                Checkpoint(
                    start_lsn=record.ckpt_start_lsn,
                    end_lsn=entry.lsn,
                    first_active_lsn=record.first_active_lsn,
                    root_lsn=record.root_lsn,
                    version=entry.version,
                )
            )
        elif isinstance(record, LN):
            self._take_ln(entry, record)

    def _take_group(self, entry: LogEntry) -> None:
        group = group_of(entry)
        record = None if group is None else decoded(entry)
        if isinstance(record, LN):
            self.group = group
            self.ledger.own(record.db_id, GROUP_DATABASE)

    def _take_ln(self, entry: LogEntry, record: LN) -> None:
        content = record.content
        if entry.type_number == MAP_LN and isinstance(content, MapLN):
            self.ledger.map(entry.lsn, content, deleted=record.data is None)
        elif isinstance(content, NameLN) and not entry.invisible:
            self.ledger.name(
                NameRecord(
                    lsn=entry.lsn,
                    name=record.key.decode("utf-8", "replace"),
                    db_id=content.db_id,
                    txn=record.txn_id,
                    deleted=bool(content.deleted) or record.data is None,
                    truncated=record.tail.truncated_db_id if isinstance(record.tail, NameOperation) else None,
                )
            )
        elif entry.type_number in FILE_SUMMARY_LNS:
            self.ledger.own(record.db_id, UTILIZATION_DATABASE)
        elif entry.type_number in EXTINCT_SCAN_LNS and not entry.invisible:
            found = range_of(record.data or b"", entry.lsn, record.txn_id)
            if found is not None:
                self.extinct.append(found)

    def take_end(self, entry: LogEntry) -> None:
        """Take the end of a transaction that may have changed names of databases."""
        end = end_of(entry)
        if end is not None:
            self.ledger.end(end.id, committed=entry.type_number == COMMIT)


def ln_version(item: LogEntry, known: LogSurvey) -> tuple[int, bytes, LNVersion] | None:
    """Database, key and version of an LN of a known user database.

    A version with ``SINGLE`` deletes the only item of a main key of old duplicates.
    """
    record = decoded(item)
    if not isinstance(record, LN) or record.db_id not in known.dbs:
        return None
    txn, key, data = record.txn_id, record.key, record.data
    flags = 0 if txn is None else IN_TXN
    hidden = item.lsn in known.hidden
    if (item.invisible and not hidden) or any(low < item.lsn < high and txn in ids for low, high, ids in known.periods):
        # The entry was rolled back: a slot that leads to it gives no version, and nothing is lost.
        return record.db_id, key, (item.lsn, flags | VOID, NO_DATA, txn or 0, NULL_VLSN, 0)
    if known.dbs[record.db_id].duplicates and item.version < TWO_PART_DUPLICATES:
        # Old trees of duplicates: a record is a key with one of its data items.
        if item.type_number in DEL_DUP_LNS and isinstance(record.tail, bytes):
            key, data = join_two_part_key(key, record.tail), None
        elif data is not None:
            key, data = join_two_part_key(key, data), NO_DATA
        else:
            flags |= SINGLE
    flags |= (DELETED if data is None else 0) | (HIDDEN if hidden else 0)
    return record.db_id, key, (item.lsn, flags, data or NO_DATA, txn or 0, item.vlsn, record.expiration)


def node_versions(item: LogEntry, known: LogSurvey) -> NodeVersions | None:
    """The versions in a BIN, a delta, or a node of old duplicates, if it belongs to a known user database."""
    node = decoded(item)
    if not isinstance(node, NodeRecord) or node.db_id not in known.dbs:
        return None
    is_old = known.dbs[node.db_id].duplicates and item.version < TWO_PART_DUPLICATES
    keys = [node.full_key(slot) for slot in node.slots]
    if is_old and item.type_number in DUP_NODES:
        # The items of a main key. Slots of a DIN lead to DBINs.
        main_key = node.dup_key or b""
        keys = [join_two_part_key(main_key, key) for key in keys] if item.type_number == DBIN_TYPE else []
    single = SINGLE if is_old and item.type_number in BINS else 0
    rows = []
    for slot, key in zip(node.slots, keys, strict=False):
        if is_null(slot.lsn):
            continue
        deleted = bool(slot.state & (KNOWN_DELETED | PENDING_DELETED))
        flags = (DELETED if deleted else 0) | (FOR_GOOD if slot.state & KNOWN_DELETED else 0)
        flags |= IN_SLOT if slot.state & SLOT_EMBEDDED else 0
        data = slot.data or NO_DATA if flags == IN_SLOT else NO_DATA
        vlsn = NULL_VLSN if slot.vlsn is None else slot.vlsn
        rows.append((key, (slot.lsn, flags | single, data, vlsn, expiration_of(node, slot), node.node_id, item.lsn)))
    is_whole = item.type_number in FULL_BOTTOM_NODES and not single
    return NodeVersions(node.db_id, node.node_id, is_whole, keys, rows, node.dup_key)


def end_of(item: LogEntry) -> TxnEnd | None:
    """The entry as a Commit or Abort, if it counts."""
    record = decoded(item) if item.type_number in TXN_ENDS and not item.invisible else None
    return record if isinstance(record, TxnEnd) else None


def record_of(item: LogEntry) -> LN | None:
    """The record of an entry, if it can be decoded."""
    record = decoded(item)
    return record if isinstance(record, LN) else None


def _items(env: str, files: LogFiles) -> Iterator[Stretch | LogEntry | Damage]:
    """Everything in a log; an unreadable file is damage of length 0."""
    for scan in scan_log(DiskStorage(env), files).by_file():
        (file,) = scan.files
        try:
            yield from scan.stretches()
        except JetoolError as error:
            # The content of other files is still salvaged.
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


def expiration_of(node: NodeRecord, slot: Slot) -> int:
    """When a slot's record expires: days, or negative hours, since 1970; 0 for none."""
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
