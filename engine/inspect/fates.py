"""What became of every transaction in the log, and of every version of a record.

One forward pass over the whole log, also past damage. A transaction is

* *committed* or *aborted* by its Commit or Abort; a rolled-back one (invisible) does not count;
* *rolled back* when a RollbackStart lists it and nothing ended it otherwise;
* *prepared* when a Prepare decided nothing yet;
* *open* when nothing of all that is in the log: recovery undoes it.

A version that was rolled back stays so when its transaction goes on: the period that encloses it and names its
transaction decides (R-RB-4).

What follows the first bad entry of the last file is after the end of the log: recovery never sees it.

Example: ``100 INS K T1 | 200 Commit T1 | 300 UPD K T2 | 400 INS L T3 | 500 Abort T3``: T1 is committed, T2 open, T3
aborted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.events import SILENT, Listener
from engine.format.entry.ln import LN
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.format.entry.txn_end import Prepare, TxnEnd
from engine.format.entry_types import (
    ABORT,
    COMMIT,
    LNS,
    ROLLBACKS,
    TRANSACTIONAL,
)
from engine.format.lsn import NULL_LSN, file_of
from engine.log.entry import Damage, LogEntry
from engine.log.files import LogFiles
from engine.log.reader import LogReader
from engine.storage.base import Storage

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
PREPARED: Final = "prepared"
OPEN: Final = "open"
ROLLED_BACK: Final = "rolled-back"
NON_TRANSACTIONAL: Final = "none"
FATES: Final = (COMMITTED, ABORTED, OPEN, PREPARED, ROLLED_BACK)

_ENDS: Final = {COMMIT: COMMITTED, ABORT: ABORTED}


class Fate:
    """One transaction.

    Attributes:
        txn_id: its id; that of a replicated transaction is negative.
        first_lsn, last_lsn: its first and its last record.
        end_lsn: its Commit, Abort or Prepare; NULL_LSN when there is none.
        time_ms: the time that entry carries; None without one.
        lns, bytes: its records, with headers.
        rolled_back_lns: those of them that a rollback period covers.
        dbs: ids of the databases that it wrote to.
        behind_end: its end stands after the end of the log.
        prepare: its Prepare, or None.
    """

    __slots__ = (
        "behind_end", "bytes", "dbs", "end_lsn", "first_lsn", "last_lsn", "listed", "lns", "outcome", "prepare",
        "rolled_back_lns", "time_ms", "txn_id",
    )  # fmt: skip

    def __init__(self, txn_id: int) -> None:
        self.txn_id = txn_id
        self.first_lsn = self.last_lsn = self.end_lsn = NULL_LSN
        self.time_ms: int | None = None
        self.lns = self.bytes = self.rolled_back_lns = 0
        self.dbs: set[int] = set()
        self.behind_end = False
        self.prepare: Prepare | None = None
        self.outcome = ""
        self.listed = False

    @property
    def fate(self) -> str:
        """One of ``FATES``."""
        return self.outcome or (ROLLED_BACK if self.listed else PREPARED if self.prepare is not None else OPEN)


class RolledBack(NamedTuple):
    """A stretch of log, both ends excluded, and the transactions that were rolled back in it."""

    matchpoint_lsn: int
    start_lsn: int
    txn_ids: frozenset[int]


class RollbackEntry(NamedTuple):
    """A RollbackStart or RollbackEnd of the log."""

    lsn: int
    record: RollbackStart | RollbackEnd


class LogFates:
    """What one pass over the log found.

    Attributes:
        txns: by id, in the order of their first entries.
        rollbacks: rollback entries in log order.
        periods: the stretches that they name.
        damages: damage that was stepped over.
        end_lsn: where the first bad entry of the last file begins; NULL_LSN when there is none.
        entries: good entries.
    """

    def __init__(self) -> None:
        self.txns: dict[int, Fate] = {}
        self.rollbacks: list[RollbackEntry] = []
        self.periods: list[RolledBack] = []
        self.damages: list[Damage] = []
        self.end_lsn = NULL_LSN
        self.entries = 0

    def is_rolled_back(self, lsn: int, txn_id: int) -> bool:
        """Whether a rollback period covers a record."""
        return any(p.matchpoint_lsn < lsn < p.start_lsn and txn_id in p.txn_ids for p in self.periods)

    def fate_of(self, entry: LogEntry, record: LN) -> str:
        """What became of one version: a fate, or ``none`` for one that was written without a transaction."""
        if record.txn_id is None:
            return NON_TRANSACTIONAL
        if entry.invisible or self.is_rolled_back(entry.lsn, record.txn_id):
            return ROLLED_BACK
        found = self.txns.get(record.txn_id)
        return found.fate if found is not None else OPEN


def read_fates(storage: Storage, files: LogFiles, listener: Listener = SILENT) -> LogFates:
    """Read the log once.

    Arguments:
        storage, files: the environment.
        listener: hears ``read`` with the number of files.

    Raises:
        UnsupportedError, StorageError: a file cannot be read.
    """
    found = LogFates()
    total, last = len(files.files), files.files[-1].number
    lns: list[tuple[int, int]] = []
    number = -1
    for item in LogReader(storage, files._replace(marker=None)).forward():
        if file_of(item.lsn) != number:
            number = file_of(item.lsn)
            listener.step("read", sum(file.number < number for file in files.files), total)
        if isinstance(item, Damage):
            found.damages.append(item)
            # The log ends at the first bad entry of its last file (R-LOG-31).
            if number == last and item.length and found.end_lsn == NULL_LSN:
                found.end_lsn = item.lsn
            continue
        found.entries += 1
        if item.type_number in TRANSACTIONAL or item.type_number in ROLLBACKS:
            _take(found, item, lns)
    listener.step("read", total, total)
    # Only now: a RollbackStart stands after the LNs that it takes back.
    for lsn, txn_id in lns if found.periods else ():
        if found.is_rolled_back(lsn, txn_id):
            found.txns[txn_id].rolled_back_lns += 1
    return found


def versions(storage: Storage, files: LogFiles, dbs: frozenset[int]) -> Iterator[tuple[LogEntry, LN]]:
    """Every record entry of some databases, in log order, rolled-back ones too."""
    for item in LogReader(storage, files._replace(marker=None)).forward():
        if isinstance(item, LogEntry) and item.type_number in LNS:
            record = _record(item)
            if isinstance(record, LN) and record.db_id in dbs:
                yield item, record


def _take(found: LogFates, entry: LogEntry, lns: list[tuple[int, int]]) -> None:
    record = _record(entry)
    if isinstance(record, (RollbackStart, RollbackEnd)):
        _take_rollback(found, entry.lsn, record)
    elif isinstance(record, LN) and record.txn_id is not None:
        txn = found.txns.setdefault(record.txn_id, Fate(record.txn_id))
        txn.first_lsn = entry.lsn if txn.first_lsn == NULL_LSN else txn.first_lsn
        txn.last_lsn = entry.lsn
        txn.lns += 1
        txn.bytes += entry.total_bytes
        txn.dbs.add(record.db_id)
        # Only replicated transactions are rolled back, and their ids are negative.
        if record.txn_id < 0:
            lns.append((entry.lsn, record.txn_id))
    elif isinstance(record, (TxnEnd, Prepare)) and not entry.invisible:
        txn = found.txns.setdefault(record.id, Fate(record.id))
        txn.end_lsn, txn.time_ms = entry.lsn, record.time
        # Recovery never sees an end that stands after the end of the log.
        txn.behind_end = found.end_lsn != NULL_LSN
        if isinstance(record, Prepare):
            txn.prepare = record
        txn.outcome = _ENDS.get(entry.type_number, "")


def _take_rollback(found: LogFates, lsn: int, record: RollbackStart | RollbackEnd) -> None:
    found.rollbacks.append(RollbackEntry(lsn, record))
    if isinstance(record, RollbackStart):
        ids = frozenset(record.active_txn_ids)
        found.periods.append(RolledBack(record.matchpoint_lsn, lsn, ids))
        for txn_id in ids:
            found.txns.setdefault(txn_id, Fate(txn_id)).listed = True


def _record(entry: LogEntry) -> object:
    try:
        return entry.record()
    except (FormatError, IndexError, ValueError):
        return None
