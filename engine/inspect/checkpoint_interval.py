"""The log from a checkpoint on: the entries after its CkptEnd, and the work that recovery would do.

``LogAfterCheckpoint`` finds the last CkptEnd of the log and the root in force after it. It also determines whether all
entries after the CkptEnd are housekeeping records of a closing JE. ``RecoveryWorkCounter`` counts the entries from
firstActive to the end of the log, and keeps the transactions and rollbacks that are open there.

Example: CkptStart 0x0/0x5d5, CkptEnd 0x0/0x6e2 (firstActive 0x0/0x5d5), end of log 0x0/0x711: the counter starts at
0x0/0x5d5 and counts up to the end of the log.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

from engine.errors import FormatError
from engine.format import tuples
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.db_tree import DbTree
from engine.format.entry.ln import LN
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.format.entry.txn_end import Prepare, TxnEnd
from engine.format.entry_types import (
    ABORT,
    BY_NUMBER,
    CKPT_END,
    CKPT_ENTRIES,
    CKPT_START,
    COMMIT,
    DB_TREE,
    OWN_ENTRIES,
    PLAIN_LNS,
    PREPARE,
    RESERVED_FILE_LNS,
    ROLLBACK_END,
    TRANSACTIONAL,
)
from engine.format.entry_types import LN as LN_FAMILY
from engine.format.entry_types import NODE as NODE_FAMILY
from engine.format.entry_types import ROLLBACK_START as ROLLBACK_START_TYPE
from engine.format.fast.header import TYPES, header_lengths
from engine.format.fast.loops import COUNT, KEEP, TALLY, no_tallies
from engine.format.fast.txns import note_transactions
from engine.format.fast.walks import sift
from engine.format.header import TYPE_AT
from engine.format.lsn import NULL_LSN
from engine.inspect.database_name import database_name
from engine.inspect.selection import db_of
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.scan import LogScan

T = TypeVar("T")
# JE has nine internal databases.
_MOST_OWN_DBS: Final = 9

# For the walk after the last CkptEnd: the types that it keeps, and the types that it only counts.
_AFTER_CKPT: Final = [
    0 if number in OWN_ENTRIES else KEEP if number in PLAIN_LNS or number in CKPT_ENTRIES else COUNT
    for number in range(TYPES)
] * TYPES
# For the count of recovery work: all entries are counted; entries with transaction ids and of reserved files are also
# kept.
_WORK: Final = [
    COUNT | KEEP if number in TRANSACTIONAL | RESERVED_FILE_LNS else COUNT for number in range(TYPES)
] * TYPES


class CheckpointSurvey(NamedTuple):
    """The checkpoint that recovery starts from."""

    end_lsn: int
    record: CkptEnd


class OpenRollback(NamedTuple):
    """A RollbackStart without its RollbackEnd."""

    lsn: int
    record: RollbackStart


class RecoveryWork(NamedTuple):
    """Counts of the entries between the start of recovery and the end of the log.

    Attributes:
        from_lsn: firstActive of the last checkpoint, or the first entry of the log.
        entries, log_bytes: totals.
        lns, nodes: LNs and IN-type entries among them.
        commits, aborts: transactions that ended.
        open_txns: ids of transactions with LNs and without an end.
        prepared_txns: ids of transactions that are prepared and not yet decided.
    """

    from_lsn: int
    entries: int
    log_bytes: int
    lns: int
    nodes: int
    commits: int
    aborts: int
    open_txns: tuple[int, ...]
    prepared_txns: tuple[int, ...]


class LogAfterCheckpoint:
    """The last readable CkptEnd in a part of the log, and what follows it there.

    Attributes:
        checkpoint: None when no CkptEnd can be read.
        partial: the first CkptStart; NULL_LSN if there is no CkptStart.
        root_lsn, root: the last readable DbTree; if no DbTree is readable, the LSN of the first DbTree, and None.
        damages: the damage found.
    """

    def __init__(self) -> None:
        self._restart(None)

    def _restart(self, checkpoint: CheckpointSurvey | None) -> None:
        self.checkpoint = checkpoint
        self.partial = self.root_lsn = NULL_LSN
        self.root: DbTree | None = None
        self.damages: list[Damage] = []
        self._other = False
        self._dbs: set[int] = set()

    def add(self, item: Stretch | LogEntry | Damage) -> None:
        """Add the next part of the log."""
        if isinstance(item, Stretch):
            self._take(item)
        elif isinstance(item, Damage):
            self.damages.append(item)
        elif item.type_number == CKPT_END and (record := decoded_as(item, CkptEnd)) is not None:
            # Nothing before the last CkptEnd matters, not even damage.
            self._restart(CheckpointSurvey(item.lsn, record))
        else:
            self._add(item)

    def join_earlier(self, earlier: LogAfterCheckpoint) -> None:
        """Combine with the part of the log directly before this part."""
        self.checkpoint = earlier.checkpoint
        if earlier.partial != NULL_LSN:
            self.partial = earlier.partial
        if self.root is None and earlier.root_lsn != NULL_LSN:
            self.root_lsn, self.root = earlier.root_lsn, earlier.root
        self._other |= earlier._other
        self._dbs |= earlier._dbs

    def _take(self, stretch: Stretch) -> None:
        tallies = no_tallies()
        found: list[int] = []
        lengths = header_lengths(stretch.version)
        sift(stretch.data, stretch.start, stretch.end, _AFTER_CKPT, lengths, found, tallies)
        self._other |= any(tallies[::TALLY])
        for pos in found:
            if len(self._dbs) <= _MOST_OWN_DBS or stretch.data[pos + TYPE_AT] not in PLAIN_LNS:
                self._add(stretch.entry_at(pos))

    def _add(self, item: LogEntry) -> None:
        if item.type_number == DB_TREE:
            record = decoded_as(item, DbTree)
            if record is not None or self.root_lsn == NULL_LSN:
                self.root_lsn, self.root = item.lsn, record
        elif item.type_number == CKPT_START and self.partial == NULL_LSN:
            self.partial = item.lsn
        if item.type_number in OWN_ENTRIES:
            return
        db = db_of(item) if item.type_number in PLAIN_LNS and not item.replicated else None
        if db is None:
            self._other = True
        else:
            self._dbs.add(db)

    def is_housekeeping(self, log: LogScan, root: DbTree) -> bool:
        """Whether all entries after the CkptEnd are records that a closing JE writes: in databases named _je*."""
        if self._other or len(self._dbs) > _MOST_OWN_DBS:
            return False
        return all((database_name(log, root, db) or "").startswith("_je") for db in self._dbs)


class RecoveryWorkCounter:
    """Counts what recovery would read.

    Arguments:
        start: where it begins.

    Attributes:
        reserved: by file number, whether the latest record marks the file as reserved.
    """

    def __init__(self, start: int) -> None:
        self._start = start
        self.reserved: dict[int, bool] = {}
        self._entries = self._bytes = self._lns = self._nodes = 0
        self._ended = {COMMIT: 0, ABORT: 0}
        self._active: dict[int, None] = {}
        self._prepared: dict[int, None] = {}
        self._rollbacks: dict[int, OpenRollback] = {}

    def add(self, item: LogEntry) -> None:
        """Count one entry."""
        kind = BY_NUMBER[item.type_number]
        self._entries += 1
        self._bytes += item.total_bytes
        self._nodes += kind.family == NODE_FAMILY
        self._lns += kind.family == LN_FAMILY
        if item.type_number in self._ended:
            self._ended[item.type_number] += 1
        if kind.transactional or item.type_number in RESERVED_FILE_LNS:
            self._note(item)
        elif item.type_number == ROLLBACK_START_TYPE:
            start = decoded_as(item, RollbackStart)
            if start is not None:
                self._rollbacks[item.lsn] = OpenRollback(item.lsn, start)
        elif item.type_number == ROLLBACK_END:
            finished = decoded_as(item, RollbackEnd)
            if finished is not None:
                self._rollbacks.pop(finished.rollback_start_lsn, None)

    def _note(self, item: LogEntry) -> None:
        """Update the transaction of an entry, or the state of a reserved file."""
        if item.type_number in RESERVED_FILE_LNS:
            record = decoded_as(item, LN)
            if record is not None and len(record.key) == tuples.LONG_KEY_BYTES:
                self.reserved[tuples.parse_long_key(record.key)] = record.data is not None
        elif item.type_number in self._ended:
            end = decoded_as(item, TxnEnd)
            if end is not None:
                self._active.pop(end.id, None)
                self._prepared.pop(end.id, None)
        elif item.type_number == PREPARE:
            prepared = decoded_as(item, Prepare)
            if prepared is not None:
                self._prepared[prepared.id] = None
        # An invisible LN was rolled back, so it does not count for an open transaction.
        elif not item.invisible:
            record = decoded_as(item, LN)
            if record is not None and record.txn_id is not None:
                self._active[record.txn_id] = None

    def take(self, stretch: Stretch) -> None:
        """Count the entries of a stretch."""
        data, version, lengths = stretch.data, stretch.version, header_lengths(stretch.version)
        tallies = no_tallies()
        found: list[int] = []
        sift(data, stretch.start, stretch.end, _WORK, lengths, found, tallies)
        for number in range(TYPES):
            if entries := tallies[number * TALLY]:
                family = BY_NUMBER[number].family
                self._entries += entries
                self._bytes += tallies[number * TALLY + 1]
                self._nodes += entries if family == NODE_FAMILY else 0
                self._lns += entries if family == LN_FAMILY else 0
                if number in self._ended:
                    self._ended[number] += entries
        at = 0
        # Ids are read from the bytes; entries of unusual form are decoded.
        while (at := note_transactions(data, found, at, lengths, version, self._active, self._prepared)) < len(found):
            self._note(stretch.entry_at(found[at]))
            at += 1

    def result(self) -> RecoveryWork:
        """The counts."""
        open_txns = tuple(txn for txn in self._active if txn not in self._prepared)
        return RecoveryWork(
            from_lsn=self._start,
            entries=self._entries,
            log_bytes=self._bytes,
            lns=self._lns,
            nodes=self._nodes,
            commits=self._ended[COMMIT],
            aborts=self._ended[ABORT],
            open_txns=open_txns,
            prepared_txns=tuple(self._prepared),
        )

    def open_rollbacks(self) -> tuple[OpenRollback, ...]:
        """Periods without an end."""
        return tuple(self._rollbacks.values())


def decoded_as(item: LogEntry, kind: type[T]) -> T | None:
    """The record of an entry; None when it does not decode, or is of another kind."""
    try:
        record = item.record()
    except FormatError:
        return None
    return record if isinstance(record, kind) else None
