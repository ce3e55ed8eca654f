"""Transactions relative to the last checkpoint and the end of the log, as in the diagram of Derby's design document.

Two marks of the checkpoint cut the log into three periods: A before undoLWM, B from there to redoLWM, C after it.
Recovery reads B and C and redoes C. Recovery sees a transaction depending on where it begins and ends:

====  =============  ==================================================================================
like  begins, ends   what recovery sees
====  =============  ==================================================================================
1     A, B           no begin: its end, and what it did in B, belong to no known transaction and are ignored
2     B, C           all of it; what it did in B is on disk, what it did in C is redone
3     B, B           begin and end; what it did is on disk
4     B or C, never  all of it; what it did in C is redone, then all of it is taken back (prepared: kept)
5     C, C           all of it is redone; in the diagram it is the transaction that takes the checkpoint
====  =============  ==================================================================================

Transactions that ended in A are only counted, since recovery reads nothing of them.

Example, ``crash-five-transactions``: 193 to 196 and 198 are the five, one of each kind.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

from engine.derby.database import DerbyDatabase
from engine.derby.format import instant
from engine.derby.format.log_file import HEADER_SIZE
from engine.derby.format.record import Record
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.derby.log_walk import walk
from engine.derby.recovery.start import find_start
from engine.derby.xact_fates import OPEN, PREPARED, XactFate, fates
from engine.errors import DamageError

A, B, C = PERIODS = ("A", "B", "C")

SEEN: Final = {
    1: "its begin is not read; what it did is on disk",
    2: "what it did from redoLWM on is redone",
    3: "what it did is on disk",
    4: "what it did from redoLWM on is redone, then all of it is taken back",
    5: "all of it is redone",
}
_KEPT = "what it did from redoLWM on is redone; it is prepared, so it stays"
_CHECKPOINT = "it takes the checkpoint"


class TimelineEntry(NamedTuple):
    """A transaction.

    Attributes:
        fate: begin, end, outcome and number of the transaction.
        like: the matching transaction of the diagram, 1 to 5.
        begins: the period in which the transaction begins.
        ends: the period in which the transaction ends; None if it is open.
        checkpoint: whether the transaction took the checkpoint.
        recovery: how recovery treats the transaction, in one clause.
    """

    fate: XactFate
    like: int
    begins: str
    ends: str | None
    checkpoint: bool
    recovery: str


class Timeline(NamedTuple):
    """The transactions that recovery reads, in the order of their begin records.

    Attributes:
        undo_lwm, redo_lwm: the marks of the last checkpoint.
        checkpoint: the checkpoint record; 0 if there is no usable record.
        end: where the log ends.
        not_read: number of transactions that ended before undoLWM.
        entries: the others.
    """

    undo_lwm: int
    redo_lwm: int
    checkpoint: int
    end: int
    not_read: int
    entries: tuple[TimelineEntry, ...]


def timeline(database: DerbyDatabase) -> Timeline:
    """The transactions of a log; nothing is changed. DamageError if recovery would not find its start."""
    log = DerbyLogFiles(database)
    start = find_start(log, database.controls())
    end = ForwardScan(log, start.undo_lwm).run().append
    found = fates(one for one in walk(log) if isinstance(one, Record) and one.instant < end)
    taker = log.record(start.checkpoint_at).transaction if start.checkpoint is not None else None
    entries = []
    for fate in found:
        ended = fate.outcome not in (OPEN, PREPARED)
        if ended and fate.last < start.undo_lwm:
            continue
        begins = _period(fate.first, start.undo_lwm, start.redo_lwm)
        ends = _period(fate.last, start.undo_lwm, start.redo_lwm) if ended else None
        took = fate.number == taker and fate.first <= start.checkpoint_at <= fate.last
        like = _like(begins, ends)
        recovery = SEEN[like]
        if took:
            recovery = _CHECKPOINT
        elif fate.outcome == PREPARED:
            recovery = _KEPT
        entries.append(TimelineEntry(fate, like, begins, ends, took, recovery))
    return Timeline(start.undo_lwm, start.redo_lwm, start.checkpoint_at, end, len(found) - len(entries), tuple(entries))


def _period(at: int, undo_lwm: int, redo_lwm: int) -> str:
    # A transaction that began before the existing log has the begin instant 0, which is in period A.
    if at < undo_lwm:
        return A
    return B if at < redo_lwm else C


def _like(begins: str, ends: str | None) -> int:
    if ends is None:
        return 4
    if begins == A:
        return 1
    if ends == B:
        return 3
    return 2 if begins == B else 5


class TimelineScale:
    """Maps instants to columns of a text line.

    Arguments:
        log: for the lengths of log files.
        marks: instants in log order; the stretches between them get equal width, unless they are empty.
        width: number of columns; several for each mark.
    """

    __slots__ = ("_log", "_marks", "_places")

    def __init__(self, log: DerbyLogFiles, marks: list[int], width: int) -> None:
        self._log = log
        self._marks = sorted(set(marks))
        last = max(len(self._marks) - 1, 1)
        self._places = [index * (width - 1) // last for index in range(len(self._marks))]

    def column(self, at: int) -> int:
        """The column of an instant, by bytes between the marks around it; a mark's column is kept for that mark."""
        index = bisect_right(self._marks, at) - 1
        if index < 0 or at == self._marks[index] or index == len(self._marks) - 1:
            return self._places[max(index, 0)]
        low, high = self._marks[index : index + 2]
        left, right = self._places[index : index + 2]
        return min(left + 1 + (right - left - 1) * self._bytes(low, at) // self._bytes(low, high), right - 1)

    def _bytes(self, low: int, high: int) -> int:
        """Bytes of log between two instants."""
        total = instant.position_of(high) - instant.position_of(low)
        for number in range(instant.file_of(low), instant.file_of(high)):
            total += self._length(number) - HEADER_SIZE
        return total

    def _length(self, number: int) -> int:
        """The end of a log file, without its trailing zeros."""
        try:
            previous = self._log.header(number + 1).previous_end
        except DamageError:
            return self._log.size(number)
        return instant.position_of(previous) if instant.file_of(previous) == number else self._log.size(number)
