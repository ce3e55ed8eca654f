"""Why recovery applies or ignores each entry of a log.

The real recovery runs in memory with hooks. So the explanation shows which LNs recovery has redone and undone, not what
a second implementation predicts. The clauses name the rules that decide (R-REC-12, 24, 43, 50, R-RB-30).

===============  ====================================================================================================
action           meaning
===============  ====================================================================================================
``unread``       in front of firstActive: not read
``in front``     in front of CkptStart: the checkpoint has made it persistent
``provisional``  a node that counts only through an ancestor that was logged later (R-REC-24)
``replay``       a node that goes into its parent's slot, unless the slot leads to a later version
``redo``         an LN that goes into its slot, unless the slot leads to a later version
``undo``         an LN whose transaction did not commit: the slot goes back to the version before it, if it is there
``roll back``    an LN in a rollback period: goes back to the version that its transaction had at the matchpoint
``invisible``    rolled back before, and marked
``resurrect``    an LN of a transaction that is left open: prepared, or of a stream that broke off
``gone``         its database does not exist any more
``read``         tells of transactions, rollbacks, checkpoints; changes no tree
``none``         recovery has no use for it
``behind``       after the end of the log: cut off
===============  ====================================================================================================

Example: ``100 CkptStart | 120 CkptEnd | 150 UPD K (T1) | 200 Commit T1 | 250 UPD L (T2)``: 150 ``redo``, 250 ``undo``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.errors import FormatError
from engine.events import SILENT, Listener
from engine.format.entry.ln import LN
from engine.format.entry_types import (
    ABORT,
    CKPT_ENTRIES,
    CKPT_START,
    COMMIT,
    FILE_SUMMARY_LN,
    LNS,
    MAP_LNS,
    NODE_ENTRIES,
    PREPARE,
    ROLLBACKS,
)
from engine.format.header import BEFORE_CKPT_END, PROVISIONAL
from engine.format.lsn import NULL_LSN, format_lsn
from engine.log.access import LogAccess
from engine.log.entry import LogEntry
from engine.log.files import LogFiles
from engine.log.passes import RawEntry
from engine.log.tail import find_end
from engine.recovery.manager import Recovery
from engine.recovery.rollback_tracker import RollbackPeriod
from engine.storage.base import Storage
from engine.tree.comparators import SortKey
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState

UNREAD = "unread"
IN_FRONT = "in front"
PROVISIONAL_NODE = "provisional"
REPLAY = "replay"
REDO = "redo"
UNDO = "undo"
ROLL_BACK = "roll back"
INVISIBLE = "invisible"
RESURRECT = "resurrect"
GONE = "gone"
READ = "read"
NONE = "none"
BEHIND = "behind"
ACTIONS = (UNREAD, IN_FRONT, PROVISIONAL_NODE, REPLAY, REDO, UNDO, ROLL_BACK, INVISIBLE, RESURRECT, GONE, READ, NONE,
           BEHIND)  # fmt: skip

_ENDS = {COMMIT: "committed", ABORT: "aborted", PREPARE: "prepared"}


class EntryExplanation(NamedTuple):
    """What recovery does with one entry; ``why`` is a clause of English."""

    action: str
    why: str


class Explainer:
    """Recovers an environment in memory and explains its entries.

    Arguments:
        storage, files: the environment.
        comparators: sort keys by Java class name.
        listener: receives the phases of recovery.

    Raises:
        JetoolError: recovery failed, so there is nothing to explain.
    """

    def __init__(
        self,
        storage: Storage,
        files: LogFiles,
        comparators: Mapping[str, SortKey] | None = None,
        listener: Listener = SILENT,
    ) -> None:
        self._heard = _Recorder()
        access = LogAccess(storage, files.files)
        try:
            recovery = Recovery(
                TreeContext(access),
                find_end(storage, files),
                comparators or {},
                listener,
                resurrect=True,
                hook=self._heard,
            )
            recovery.run()
        finally:
            access.close()
        self._result = recovery.result
        self._periods = [period for top in recovery.result.periods for period in top.walk()]

    def explain(self, entry: LogEntry) -> EntryExplanation:
        """What recovery does with an entry of the log, and why."""
        result, number, lsn = self._result, entry.type_number, entry.lsn
        if lsn >= result.end_lsn:
            return EntryExplanation(BEHIND, f"the log ends at {format_lsn(result.end_lsn)}; what follows is cut off")
        if number in CKPT_ENTRIES:
            return self._checkpoint(entry)
        if lsn < result.first_active_lsn:
            return EntryExplanation(
                UNREAD, f"in front of firstActive {format_lsn(result.first_active_lsn)}: not needed"
            )
        if number in NODE_ENTRIES:
            return self._node(entry)
        if number in LNS:
            return self._ln(entry)
        if number in _ENDS:
            return EntryExplanation(READ, f"its transaction is {_ENDS[number]}")
        if number in ROLLBACKS:
            return self._rollback(entry)
        return EntryExplanation(NONE, "changes no database")

    def _checkpoint(self, entry: LogEntry) -> EntryExplanation:
        result, lsn = self._result, entry.lsn
        if lsn == result.ckpt_end_lsn:
            return EntryExplanation(READ, "the last whole checkpoint: recovery begins with it")
        if lsn == result.ckpt_start_lsn:
            return EntryExplanation(READ, "nodes and finished work are read from here on")
        if lsn == result.root_lsn:
            return EntryExplanation(READ, "the root: leads to all databases")
        if entry.type_number == CKPT_START and lsn > result.ckpt_end_lsn:
            return EntryExplanation(NONE, "a checkpoint that was not finished: no CkptEnd follows")
        return EntryExplanation(NONE, "a later one counts")

    def _node(self, entry: LogEntry) -> EntryExplanation:
        result = self._result
        start, end = result.ckpt_start_lsn, result.ckpt_end_lsn
        if entry.lsn < start:
            return EntryExplanation(
                IN_FRONT, f"in front of CkptStart {format_lsn(start)}: the trees lead to what is needed"
            )
        # Test PROVISIONAL first: it overrides BEFORE_CKPT_END (R-REC-24).
        if entry.flags & PROVISIONAL:
            return EntryExplanation(
                PROVISIONAL_NODE, "provisional: counts only through an ancestor that was logged later"
            )
        if entry.flags & BEFORE_CKPT_END:
            if entry.lsn < end:
                why = f"provisional before CkptEnd, and CkptEnd {format_lsn(end)} follows"
                return EntryExplanation(PROVISIONAL_NODE, f"{why}: an ancestor leads to it")
            return EntryExplanation(
                REPLAY, "provisional before CkptEnd, and no CkptEnd follows: goes into its parent's slot"
            )
        return EntryExplanation(
            REPLAY, "goes into its parent's slot, or becomes the root, if it is later than what is there"
        )

    def _ln(self, entry: LogEntry) -> EntryExplanation:
        try:
            record: object = entry.record()
        except FormatError:
            return EntryExplanation(NONE, "cannot be decoded")
        if not isinstance(record, LN):
            return EntryExplanation(NONE, "changes no database")
        lsn, result = entry.lsn, self._result
        # The tests come in the order in which recovery makes them (R-REC-43).
        if record.txn_id is not None:
            if (period := self._period(lsn, record.txn_id)) is not None:
                return self._rolled_back(entry, period)
            if entry.invisible:
                return EntryExplanation(INVISIBLE, "rolled back before the last checkpoint, and marked")
        if record.txn_id in result.resurrected:
            why = "is prepared" if record.txn_id in result.fate.prepared else "of the stream has no end yet"
            return EntryExplanation(RESURRECT, f"transaction {record.txn_id} {why}: done again, and left open")
        if lsn in self._heard.undone_lsns:
            return EntryExplanation(
                UNDO, f"transaction {record.txn_id} {self._end_of(record.txn_id)}: {_before(record)}"
            )
        # MapLNs have their own pass, which does not call the hook.
        if lsn in self._heard.redone_lsns or (entry.type_number in MAP_LNS and lsn >= result.ckpt_start_lsn):
            return EntryExplanation(
                REDO, f"{self._end_of(record.txn_id)}: its slot takes it, unless a later one is there"
            )
        if entry.type_number == FILE_SUMMARY_LN and lsn < result.ckpt_start_lsn:
            return EntryExplanation(IN_FRONT, "counts of a file; the checkpoint has them")
        return self._left(entry, record)

    def _left(self, entry: LogEntry, record: LN) -> EntryExplanation:
        """Explain an LN that was neither redone nor undone."""
        result, start = self._result, self._result.ckpt_start_lsn
        # LNs are provisional in temporary databases only (R-REC-26).
        if entry.flags & PROVISIONAL:
            return EntryExplanation(PROVISIONAL_NODE, "of a temporary database, which does not outlive its process")
        finished = record.txn_id is None or record.txn_id in result.fate.committed
        if finished and entry.lsn < start:
            why = f"in front of CkptStart {format_lsn(start)}: the checkpoint has it"
            return EntryExplanation(IN_FRONT, f"{self._end_of(record.txn_id)}; {why}")
        return EntryExplanation(GONE, f"database {record.db_id} does not exist any more")

    def _rolled_back(self, entry: LogEntry, period: RollbackPeriod) -> EntryExplanation:
        where = f"RollbackStart {format_lsn(period.start_lsn)}, matchpoint {format_lsn(period.matchpoint_lsn)}"
        if period.before_checkpoint:
            return EntryExplanation(INVISIBLE, f"{where}: rolled back before the checkpoint")
        mark = "" if entry.invisible else "; marked invisible now"
        return EntryExplanation(ROLL_BACK, f"{where}: back to the version at the matchpoint{mark}")

    def _rollback(self, entry: LogEntry) -> EntryExplanation:
        for period in self._periods:
            if entry.lsn == period.start_lsn:
                is_open = period.is_open and period in self._result.periods
                return EntryExplanation(READ, "a rollback that was not finished: done now" if is_open else "a rollback")
        return EntryExplanation(READ, "the end of a rollback")

    def _period(self, lsn: int, txn_id: int) -> RollbackPeriod | None:
        """The innermost period that a record belongs to (R-RB-4)."""
        inside = [period for period in self._periods if period.contains(lsn) and period.lists(txn_id)]
        return min(inside, key=lambda period: period.start_lsn - period.matchpoint_lsn) if inside else None

    def _end_of(self, txn_id: int | None) -> str:
        if txn_id is None:
            return "without a transaction"
        committed, aborted, prepared = self._result.fate
        if txn_id in committed:
            return f"committed at {format_lsn(committed.get(txn_id))}"
        if txn_id in aborted:
            return f"aborted at {format_lsn(aborted.get(txn_id))}"
        return "is prepared" if txn_id in prepared else "has no end in the log"


class _Recorder:
    """Hooks that record what recovery does with LNs."""

    def __init__(self) -> None:
        self.redone_lsns: set[int] = set()
        self.undone_lsns: set[int] = set()

    @property
    def hears_all(self) -> bool:
        """Every LN is explained."""
        return True

    def saw_entries(self, file_number: int, type_number: int, entries: int, size_bytes: int, largest: int) -> None:
        """Nothing to note."""

    def saw_entry(self, raw: RawEntry, *, provisional: bool, partial_start: int) -> None:
        """Nothing to note."""

    def saw_summary(self, raw: RawEntry, record: LN) -> None:
        """Nothing to note."""

    def redone(self, raw: RawEntry, record: LN, db: DatabaseState, commit_lsn: int) -> None:  # noqa: ARG002
        """Record a redone LN."""
        self.redone_lsns.add(raw.lsn)

    def is_obsolete(self, lsn: int, made_by: int) -> bool:  # noqa: ARG002
        """Nothing is counted."""
        return False

    def replaced(self, file_number: int, versions: int, sized: int, size_bytes: int) -> None:
        """Nothing to note."""

    def undone(self, raw: RawEntry, record: LN, db: DatabaseState | None) -> None:  # noqa: ARG002
        """Record an undone LN."""
        self.undone_lsns.add(raw.lsn)


def _before(record: LN) -> str:
    if record.abort_lsn == NULL_LSN:
        return "the record goes, if the slot leads here"
    return f"back to {format_lsn(record.abort_lsn)}, if the slot leads here"
