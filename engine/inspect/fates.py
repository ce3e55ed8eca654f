"""The fate of every transaction in the log, and of every version of a record.

One forward pass reads the whole log and continues after damage. Entries of the usual form are read from their bytes,
without decoding. A transaction is

* *committed* or *aborted* by its Commit or Abort; a rolled-back (invisible) end does not count;
* *rolled back* when a RollbackStart lists it and no Commit or Abort ended it;
* *prepared* when it has a Prepare and is not yet decided;
* *open* otherwise: recovery undoes it.

A rolled-back version stays rolled back even if its transaction continues: the enclosing period that lists the
transaction decides (R-RB-4).

The log ends at the first bad entry of the last file; recovery never reads beyond it.

Example: ``100 INS K T1 | 200 Commit T1 | 300 UPD K T2 | 400 INS L T3 | 500 Abort T3``: T1 is committed, T2 open, T3
aborted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.events import SILENT, Listener
from engine.format.bytecursor import split_two_part_key
from engine.format.entry.ln import LN
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.format.entry.txn_end import Prepare, TxnEnd
from engine.format.entry_types import LNS, NAME_LNS, ROLLBACKS, TRANSACTIONAL, TXN_FATES
from engine.format.fast.fate_table import AFTER_END, LISTED, FateTable, lsn_of
from engine.format.fast.filters import ByteFilter
from engine.format.fast.header import header_lengths
from engine.format.fast.loops import keeping
from engine.format.fast.txn_rows import ABORTED_BIT, COMMITTED_BIT, HAS_END
from engine.format.lsn import NULL_LSN, file_of
from engine.inspect.selection import ids_of
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import LogFiles, LogProgress
from engine.log.scan import LogScan, scan_log
from engine.storage.base import Storage

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
PREPARED: Final = "prepared"
OPEN: Final = "open"
ROLLED_BACK: Final = "rolled-back"
NON_TRANSACTIONAL: Final = "none"
_DECIDED: Final = COMMITTED_BIT | ABORTED_BIT
FATES: Final = (COMMITTED, ABORTED, OPEN, PREPARED, ROLLED_BACK)


class Fate(NamedTuple):
    """One transaction.

    Attributes:
        txn_id: id of the transaction; negative for a replicated transaction.
        fate: one of ``FATES``.
        first_lsn, last_lsn: first and last record of the transaction.
        end_lsn: Commit, Abort or Prepare of the transaction; NULL_LSN while it is open.
        time_ms: the time in the end entry; None if there is no end entry.
        lns, bytes: number of its records, and their size with headers.
        rolled_back_lns: number of its records that a rollback period covers.
        dbs: ids of the databases that it wrote to.
        after_end: the end entry is after the end of the log.
        prepare: the Prepare of the transaction, or None.
    """

    txn_id: int
    fate: str
    first_lsn: int
    last_lsn: int
    end_lsn: int
    time_ms: int | None
    lns: int
    bytes: int
    rolled_back_lns: int
    dbs: frozenset[int]
    after_end: bool
    prepare: Prepare | None


class RolledBack(NamedTuple):
    """A rollback period: a range of the log, both ends excluded, and the transactions that were rolled back in it."""

    matchpoint_lsn: int
    start_lsn: int
    txn_ids: frozenset[int]


class RollbackEntry(NamedTuple):
    """A RollbackStart or RollbackEnd of the log."""

    lsn: int
    record: RollbackStart | RollbackEnd


class Transactions:
    """The transactions of a log by id, in the order of their first entries."""

    def __init__(self) -> None:
        self.table = FateTable()
        self.prepares: dict[int, Prepare] = {}
        self.rolled_back: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.table.ids)

    def __getitem__(self, txn_id: int) -> Fate:
        row = self.table.row_of(txn_id)
        if row < 0:
            raise KeyError(txn_id)
        return self.at(row)

    def get(self, txn_id: int) -> Fate | None:
        """A transaction; None if the log has no entry of it."""
        row = self.table.row_of(txn_id)
        return None if row < 0 else self.at(row)

    def values(self) -> Iterator[Fate]:
        """All of them."""
        return map(self.at, range(len(self)))

    def at(self, row: int) -> Fate:
        """The transaction in a row of the table."""
        table = self.table
        txn_id, lns = table.ids.get(row), table.lns.get(row)
        return Fate(
            txn_id=txn_id,
            fate=self.fate_at(row),
            first_lsn=lsn_of(table.first.get(row)),
            last_lsn=lsn_of(table.last.get(row)),
            end_lsn=lsn_of(table.end.get(row)),
            time_ms=self.time_at(row),
            lns=lns,
            bytes=table.sizes.get(row),
            rolled_back_lns=self.rolled_back.get(txn_id, 0),
            dbs=table.databases(table.dbs.get(row)) if lns else frozenset(),
            after_end=bool(table.states[row] & AFTER_END),
            prepare=self.prepares.get(txn_id),
        )

    def time_at(self, row: int) -> int | None:
        """When the transaction in a row ended; None if it did not."""
        return self.table.times.get(row) if self.table.states[row] & HAS_END else None

    def counts(self) -> dict[str, int]:
        """The number of transactions by fate."""
        found = dict.fromkeys(FATES, 0)
        for state, count in Counter(self.table.states).items():
            found[_fate_of(state, is_prepared=False)] += count
        prepared = sum(self[txn_id].fate == PREPARED for txn_id in self.prepares)
        return found | {OPEN: found[OPEN] - prepared, PREPARED: prepared}

    def after_end(self) -> int:
        """The number of transactions whose end entry is after the end of the log."""
        return sum(count for state, count in Counter(self.table.states).items() if state & AFTER_END)

    def fate_at(self, row: int) -> str:
        """The fate of the transaction in a row."""
        state = self.table.states[row]
        # Most transactions are committed or aborted; only for others look for a Prepare.
        return _fate_of(state, is_prepared=not state & _DECIDED and self.table.ids.get(row) in self.prepares)

    def states_at(self, rows: Sequence[int]) -> bytes:
        """The states of the transactions in rows."""
        states = self.table.states
        if isinstance(rows, range) and rows.step == 1:
            return bytes(states[rows.start : rows.stop])
        return bytes([states[row] for row in rows])

    def fates_at(self, rows: Sequence[int]) -> list[str]:
        """The fates of the transactions in rows."""
        states = self.states_at(rows)
        fates = {state: _fate_of(state, is_prepared=False) for state in set(states)}
        if not self.prepares:
            return [fates[state] for state in states]
        # Only an undecided transaction may have a Prepare.
        return [fates[s] if s & _DECIDED else self.fate_at(row) for s, row in zip(states, rows, strict=True)]


def _fate_of(state: int, *, is_prepared: bool) -> str:
    if state & _DECIDED:
        return COMMITTED if state & COMMITTED_BIT else ABORTED
    if state & LISTED:
        return ROLLED_BACK
    return PREPARED if is_prepared else OPEN


class LogFates:
    """The result of one pass over the log.

    Attributes:
        txns: by id, in the order of their first entries.
        rollbacks: rollback entries in log order.
        periods: the rollback periods that they define.
        damages: damage that was skipped.
        end_lsn: LSN of the first bad entry of the last file; NULL_LSN if all are good.
        entries: good entries.
    """

    def __init__(self) -> None:
        self.txns = Transactions()
        self.rollbacks: list[RollbackEntry] = []
        self.periods: list[RolledBack] = []
        self.damages: list[Damage] = []
        self.end_lsn = NULL_LSN
        self.entries = 0

    def is_rolled_back(self, lsn: int, txn_id: int) -> bool:
        """Whether a rollback period covers a record."""
        return any(p.matchpoint_lsn < lsn < p.start_lsn and txn_id in p.txn_ids for p in self.periods)

    def fate_of(self, entry: LogEntry, record: LN) -> str:
        """The fate of one version; ``none`` if it was written outside transactions."""
        if record.txn_id is None:
            return NON_TRANSACTIONAL
        if entry.invisible or self.is_rolled_back(entry.lsn, record.txn_id):
            return ROLLED_BACK
        found = self.txns.get(record.txn_id)
        return found.fate if found is not None else OPEN

    def add_damage(self, damage: Damage, *, in_last_file: bool) -> None:
        """Note damage; the log ends at the first bad entry of its last file (R-LOG-31)."""
        self.damages.append(damage)
        if in_last_file and damage.length and self.end_lsn == NULL_LSN:
            self.end_lsn = damage.lsn

    def add(self, entry: LogEntry) -> None:
        """Add one entry by decoding it."""
        table = self.txns.table
        record = record_of(entry)
        if isinstance(record, (RollbackStart, RollbackEnd)):
            self.rollbacks.append(RollbackEntry(entry.lsn, record))
            if isinstance(record, RollbackStart):
                ids = frozenset(record.active_txn_ids)
                self.periods.append(RolledBack(record.matchpoint_lsn, entry.lsn, ids))
                for txn_id in ids:
                    table.add_listed(txn_id)
        elif isinstance(record, LN) and record.txn_id is not None:
            table.add_ln(entry.lsn, record.txn_id, record.db_id, entry.total_bytes)
        elif isinstance(record, (TxnEnd, Prepare)) and not entry.invisible:
            # Recovery never reads an end entry after the end of the log.
            after_end = NULL_LSN != self.end_lsn < entry.lsn
            table.add_end(entry.lsn, entry.type_number, record.id, record.time, after_end=after_end)
            if isinstance(record, Prepare):
                self.txns.prepares[record.id] = record


_WITH_FATE: Final = TRANSACTIONAL | ROLLBACKS


def read_fates(storage: Storage, files: LogFiles, listener: Listener = SILENT) -> LogFates:
    """Read the log once; if there are rollbacks, read their range once more.

    Arguments:
        storage, files: the environment.
        listener: receives ``read`` steps in bytes of the log.

    Raises:
        UnsupportedError, StorageError: a file cannot be read.
    """
    found = LogFates()
    last, told = files.files[-1].number, LogProgress(listener, "read", files.files)
    actions = keeping(_WITH_FATE)
    for item in told.along(scan_log(storage, files).stretches(), every=1):
        if isinstance(item, Stretch):
            found.entries += item.entries
            _take_stretch(found, item, actions)
        elif isinstance(item, Damage):
            found.add_damage(item, in_last_file=file_of(item.lsn) == last)
        else:
            found.entries += 1
            if item.type_number in _WITH_FATE:
                found.add(item)
    told.end()
    if found.periods:
        _count_rolled_back(storage, files, found)
    return found


def _take_stretch(found: LogFates, stretch: Stretch, actions: list[int]) -> None:
    positions, lengths = stretch.positions(actions), header_lengths(stretch.version)
    after_end = found.end_lsn != NULL_LSN
    table, at = found.txns.table, 0
    while True:
        at = table.take(stretch.data, positions, at, lengths, stretch.version, stretch.lsn, after_end)
        if at == len(positions):
            return
        found.add(stretch.entry_at(positions[at]))
        at += 1


def _count_rolled_back(storage: Storage, files: LogFiles, found: LogFates) -> None:
    """Count rolled-back records in a second pass, because a RollbackStart comes after its records; most logs have no
    rollback and need no second pass.
    """
    low, high = min(p.matchpoint_lsn for p in found.periods), max(p.start_lsn for p in found.periods)
    counts = found.txns.rolled_back
    scan = scan_log(storage, files, types=LNS & TRANSACTIONAL, start=low & ~0xFFFFFFFF, end=high)
    for item in scan.good_entries():
        record = record_of(item)
        # Only replicated transactions are rolled back, and their ids are negative.
        if isinstance(record, LN) and record.txn_id is not None and record.txn_id < 0:
            counts[record.txn_id] = counts.get(record.txn_id, 0) + found.is_rolled_back(item.lsn, record.txn_id)


class KeyHistory(NamedTuple):
    """All that the log holds about one key.

    Attributes:
        versions: every record entry of the key, in log order, including rolled-back entries; with sorted duplicates,
            all entries whose stored key begins with the key.
        fates: how their transactions ended; the counts of records are not filled in.
    """

    versions: list[tuple[LogEntry, LN]]
    fates: LogFates


def read_history(
    storage: Storage,
    files: LogFiles,
    databases: tuple[str, ...],
    key: bytes,
    jobs: int = 1,
    listener: Listener = SILENT,
) -> KeyHistory:
    """Read the log once for a key, then read on from its versions to the ends of their transactions.

    Arguments:
        storage, files: the environment.
        databases: names and ids.
        jobs: processes that read.
        listener: receives ``read`` steps in files.

    Raises:
        NotFoundError: no database ever had one of the names.
        UnsupportedError, StorageError: a file cannot be read.
    """
    fates, candidates, names = LogFates(), list[tuple[LogEntry, LN]](), list[LN]()
    last = files.files[-1].number
    for done, part in enumerate(scan_log(storage, files).map_files(partial(_entries_of_key, key), jobs)):
        listener.step("read", done, len(files.files))
        fates.entries += part.entries
        for item in part.items:
            if isinstance(item, Damage):
                fates.add_damage(item, in_last_file=file_of(item.lsn) == last)
                continue
            record = record_of(item)
            if not isinstance(record, LN):
                fates.add(item)
            else:
                if item.type_number in NAME_LNS:
                    names.append(record)
                if _has_key(record, key):
                    candidates.append((item, record))
    listener.step("read", len(files.files), len(files.files))
    dbs = ids_of(databases, names, storage.root)
    found = [(entry, record) for entry, record in candidates if record.db_id in dbs]
    _find_ends(storage, files, fates, found, jobs)
    return KeyHistory(found, fates)


def _find_ends(
    storage: Storage, files: LogFiles, fates: LogFates, versions: list[tuple[LogEntry, LN]], jobs: int
) -> None:
    """Find the ends of the transactions that wrote these versions; most ends are soon after the version."""
    index = {file.number: at for at, file in enumerate(files.files)}
    # After a rollback a transaction may end a second time, so then the rest of the log is read.
    is_final = not fates.rollbacks
    following: dict[int, int] = {}
    for entry, record in reversed(versions):
        if record.txn_id is not None:
            following[record.txn_id] = index[file_of(entry.lsn)]
    step = 1 if is_final else len(files.files)
    while following:
        places = {at for first in following.values() for at in range(first, min(first + step, len(files.files)))}
        scan = scan_log(storage, files).of_files(files.files[at] for at in sorted(places))
        parts = scan.map_files(partial(_ends_in, frozenset(following)), jobs)
        for entry in (entry for part in parts for entry in part):
            fates.add(entry)
        for txn_id, first in list(following.items()):
            txn = fates.txns.get(txn_id)
            is_decided = is_final and txn is not None and txn.fate in (COMMITTED, ABORTED)
            if is_decided or first + step >= len(files.files):
                del following[txn_id]
            else:
                following[txn_id] = first + step
        # A transaction whose end is not near may have no end at all, so widen the search quickly.
        step *= 2


class _FilePart(NamedTuple):
    """The wanted entries of one file."""

    entries: int
    items: list[LogEntry | Damage]


def _entries_of_key(key: bytes, scan: LogScan) -> _FilePart:
    """Entries of a file: records of the key in any database, NameLNs, rollbacks, and damage."""
    entries = 0
    items: list[LogEntry | Damage] = []
    # With sorted duplicates the key is the first part of the record's stored key.
    sieve = ByteFilter(txns=None, dbs=None, keys=frozenset((key,)), key_prefixes=(key,))
    records, names = keeping(LNS), keeping(NAME_LNS)
    for item in scan.stretches():
        if isinstance(item, Stretch):
            entries += item.entries
            # LNs contain the key unencoded, so a search for its bytes excludes most stretches and entries.
            positions = item.positions(names)
            if sieve.may_hold(item.data):
                positions = sorted({*positions, *sieve.holding(item.data, item.positions(records))})
            lengths = header_lengths(item.version)
            items += map(item.entry_at, sieve.sieved(item.data, positions, lengths, item.version))
        elif isinstance(item, Damage):
            items.append(item)
        else:
            entries += 1
            if item.type_number in LNS | ROLLBACKS:
                items.append(item)
    return _FilePart(entries, items)


def _ends_in(txn_ids: frozenset[int], scan: LogScan) -> list[LogEntry]:
    """The ends of some transactions in a file."""
    found: list[LogEntry] = []
    sieve, actions = ByteFilter(txns=txn_ids, dbs=None, keys=None, key_prefixes=()), keeping(TXN_FATES)
    for item in scan.stretches():
        if isinstance(item, Stretch):
            positions = sieve.sieved(item.data, item.positions(actions), header_lengths(item.version), item.version)
            found += map(item.entry_at, positions)
        elif isinstance(item, LogEntry) and item.type_number in TXN_FATES:
            found.append(item)
    return found


def _has_key(record: LN, key: bytes) -> bool:
    """Whether a record has the key, or with sorted duplicates has it as the first part of its stored key."""
    if record.key == key:
        return True
    if not record.key.startswith(key):
        return False
    try:
        return split_two_part_key(record.key)[0] == key
    except (FormatError, IndexError, ValueError):
        return False


def record_of(entry: LogEntry) -> object:
    """The record of an entry; None if it cannot be decoded."""
    try:
        return entry.record()
    except (FormatError, IndexError, ValueError):
        return None
