"""Facts about the replication stream that one pass over a log collects: enough to compare two nodes without their logs.

Sync points are the entries at which a replica and a master can be found equal: Commit, Abort and Matchpoint (R-SYNC-1).
Two nodes agree at a VLSN if their entries there have the same type and logical content (R-SYNC-2). The bytes may
differ: each node has its own LSNs, and a master stamps its entries with its node id.

==============  =====================================
entry           same when these are equal
==============  =====================================
Commit, Abort   VLSN, type, transaction id, master id
Matchpoint      VLSN, type, time, master id
==============  =====================================

Facts are collected file by file, since a task of the pipeline is one file, and joined in log order. Invisible entries
were rolled back and do not count. A RollbackStart removes the entries after its matchpoint, even if they are not marked
invisible yet; so a log that stopped within a rollback gives the same facts as after recovery.

Example: ``10 Commit | 11 LN | 12 Commit`` in file 0; ``RollbackStart to 10 | 11 LN | 12 Commit`` in file 1. Joined:
VLSNs 1..12, sync points 10 and 12 (the one in file 1).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from engine.format.codecs import decode_body
from engine.format.entry.checkpoint import CLEANED_FILES_TO_DELETE, CkptEnd
from engine.format.entry.rollback import Matchpoint, RollbackStart
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT, STREAM_MARKS, SYNC_POINTS, TXN_ENDS
from engine.format.header import REPLICATED, is_invisible
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN


class SyncPoint(NamedTuple):
    """An entry that can be a matchpoint.

    Attributes:
        id: transaction; 0 for a Matchpoint.
        time: milliseconds since 1970, by the clock of the master that wrote it.
        dtvlsn: the VLSN up to which a majority had all entries at that time; 0 if the master did not record it.
        has_records: the transaction wrote something; False for a Matchpoint.
    """

    vlsn: int
    lsn: int
    type_number: int
    id: int
    master_id: int
    time: int
    dtvlsn: int
    has_records: bool

    @property
    def is_commit(self) -> bool:
        """Whether the sync point is a Commit."""
        return self.type_number == COMMIT

    @property
    def is_txn_end(self) -> bool:
        """Whether the sync point is a Commit or an Abort."""
        return self.type_number in TXN_ENDS

    def same_as(self, other: SyncPoint) -> bool:
        """Whether another node's sync point is the same entry of the stream (R-SYNC-2)."""
        if (self.vlsn, self.type_number, self.master_id) != (other.vlsn, other.type_number, other.master_id):
            return False
        return self.id == other.id if self.is_txn_end else self.time == other.time


_COLUMNS: Final = len(SyncPoint._fields)


def decode_sync_point(lsn: int, type_number: int, version: int, vlsn: int, body: bytes) -> SyncPoint:
    """Decode a replicated Commit, Abort or Matchpoint as a sync point.

    Raises:
        FormatError: the body does not fit the type.
    """
    record: object = decode_body(type_number, version, body)
    if isinstance(record, TxnEnd):
        has_records = record.last_lsn != NULL_LSN
        return SyncPoint(vlsn, lsn, type_number, record.id, record.master_id, record.time, record.dtvlsn, has_records)
    assert isinstance(record, Matchpoint)
    return SyncPoint(vlsn, lsn, type_number, 0, record.master_id, record.time, 0, False)


class SyncPoints:
    """Sync points in ascending VLSN order, 64 bytes each; can be pickled."""

    __slots__ = ("_rows", "vlsns")

    def __init__(self) -> None:
        self.vlsns = array("q")
        self._rows = array("q")

    def __len__(self) -> int:
        return len(self.vlsns)

    def __getitem__(self, index: int) -> SyncPoint:
        if index < 0:
            index += len(self.vlsns)
        if not 0 <= index < len(self.vlsns):
            raise IndexError(index)
        row = self._rows[index * _COLUMNS : (index + 1) * _COLUMNS]
        has_records = bool(row.pop())
        return SyncPoint._make((*row, has_records))

    def __iter__(self) -> Iterator[SyncPoint]:
        return (self[index] for index in range(len(self)))

    def __reversed__(self) -> Iterator[SyncPoint]:
        return (self[index] for index in range(len(self) - 1, -1, -1))

    def append(self, point: SyncPoint) -> None:
        """Add a point; points at its VLSN or later are superseded by it and dropped."""
        if self.vlsns and point.vlsn <= self.vlsns[-1]:
            self.cut(point.vlsn)
        self.vlsns.append(point.vlsn)
        self._rows.extend(point)

    def cut(self, delete_start: int) -> None:
        """Drop the points from ``delete_start`` on."""
        keep = bisect_left(self.vlsns, delete_start)
        del self.vlsns[keep:]
        del self._rows[keep * _COLUMNS :]

    def extend(self, later: SyncPoints) -> None:
        """Add the points of a later part of the log."""
        if len(later):
            # After a rollback the same VLSNs are used again (R-SYNC-11): the later entry counts.
            self.cut(later.vlsns[0])
            self.vlsns.extend(later.vlsns)
            self._rows.extend(later._rows)

    def at(self, vlsn: int) -> SyncPoint | None:
        """The sync point of a VLSN, or None if the entry there is of another type."""
        index = bisect_left(self.vlsns, vlsn)
        return self[index] if index < len(self.vlsns) and self.vlsns[index] == vlsn else None

    def after(self, vlsn: int) -> Iterator[SyncPoint]:
        """The points after a VLSN, ascending."""
        return (self[index] for index in range(bisect_right(self.vlsns, vlsn), len(self.vlsns)))


class StreamFacts:
    """Facts of one log file, or of several joined in log order.

    Attributes:
        first, last: VLSNs of the visible replicated entries; NULL_VLSN if there are no such entries.
        first_lsn: LSN of the first.
        gaps: missing VLSNs in between (first, last), with the LSN of the entry after the gap.
        sync_points: the sync points of the stream.
        barriers: LSNs of CkptEnds after which cleaned files were deleted: a log truncated before such a CkptEnd is
            incomplete (R-SYNC-21).
        rollbacks: LSN and matchpoint VLSN of each RollbackStart, in log order.
        rolled_back_to: the lowest matchpoint of a RollbackStart that precedes the part's own entries of the stream, or
            that rolls all of them back. Earlier parts lose the entries after this matchpoint. NULL_VLSN if there is no
            such RollbackStart.
    """

    __slots__ = (
        "_cuts_before",
        "barriers",
        "first",
        "first_lsn",
        "gaps",
        "last",
        "rollbacks",
        "rolled_back_to",
        "sync_points",
    )

    def __init__(self) -> None:
        self.first = self.last = self.rolled_back_to = NULL_VLSN
        self.first_lsn = NULL_LSN
        self.gaps: list[tuple[int, int, int]] = []
        self.sync_points = SyncPoints()
        self.barriers: list[int] = []
        self.rollbacks: list[tuple[int, int]] = []
        self._cuts_before = False

    def add(self, lsn: int, type_number: int, version: int, flags: int, vlsn: int, body: bytes) -> None:
        """Note an entry; call this in log order for every entry of a file, or for those that ``matters`` selects.

        Raises:
            FormatError: the body does not fit the type.
        """
        if flags & REPLICATED:
            if is_invisible(flags, version):
                return
            if self.first == NULL_VLSN or vlsn < self.first:
                self.first, self.first_lsn = vlsn, lsn
            elif vlsn > self.last + 1:
                self.gaps.append((self.last + 1, vlsn - 1, lsn))
            self.last = vlsn
            if type_number in SYNC_POINTS:
                self.sync_points.append(decode_sync_point(lsn, type_number, version, vlsn, body))
        elif type_number in STREAM_MARKS:
            record: object = decode_body(type_number, version, body)
            if isinstance(record, RollbackStart):
                self.rollbacks.append((lsn, record.matchpoint_vlsn))
                self._roll_back(record.matchpoint_vlsn)
            elif isinstance(record, CkptEnd) and record.flags & CLEANED_FILES_TO_DELETE:
                self.barriers.append(lsn)

    def join(self, later: StreamFacts) -> None:
        """Add the facts of the following part of the log."""
        # A RollbackStart of the later part reaches back into the earlier part.
        if later._cuts_before:
            self._roll_back(later.rolled_back_to)
        if later.first != NULL_VLSN:
            if self.first == NULL_VLSN or later.first < self.first:
                self.first, self.first_lsn = later.first, later.first_lsn
            elif later.first > self.last + 1:
                self.gaps.append((self.last + 1, later.first - 1, later.first_lsn))
            self.last = later.last
            self.gaps += later.gaps
        self.sync_points.extend(later.sync_points)
        self.barriers += later.barriers
        self.rollbacks += later.rollbacks

    def _roll_back(self, matchpoint: int) -> None:
        """Remove the entries after a matchpoint; NULL_VLSN removes all."""
        if self.first == NULL_VLSN or matchpoint < self.first:
            # The matchpoint is in an earlier part of the log: ``join`` has to cut there.
            self.rolled_back_to = min(matchpoint, self.rolled_back_to) if self._cuts_before else matchpoint
            self._cuts_before = True
            self.first = self.last = NULL_VLSN
        else:
            self.last = min(self.last, matchpoint)
        self.gaps = [gap for gap in self.gaps if gap[0] <= matchpoint]
        self.sync_points.cut(matchpoint + 1)


def matters(type_number: int, flags: int) -> bool:
    """Whether ``StreamFacts.add`` uses an entry."""
    return bool(flags & REPLICATED) or type_number in STREAM_MARKS


def joined(parts: Iterable[StreamFacts]) -> StreamFacts:
    """The facts of a whole log, joined from the facts of its files in log order."""
    whole = StreamFacts()
    for part in parts:
        whole.join(part)
    return whole
