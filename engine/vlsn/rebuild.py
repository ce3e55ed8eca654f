"""Rebuilding the index from the log if it is damaged or missing.

Every visible entry of the stream is registered again, from the first file of the log to its end, as recovery does for
the part after the checkpoint; a RollbackStart removes the entries after its matchpoint. The range must have no holes
(R-VLSN-3): if VLSNs are missing in the log, the index begins after the last gap. Last sync point and last transaction
end are taken from the log, not from the old range. If the old range began later than the log, so does the new range:
log cleaning, or a new group (R-UTIL-45), has cut it, and earlier entries must not be sent to other nodes.

Example: ``1 .. 40 | file missing | 61 .. 70, Commit 71 | RollbackStart to 71``: range 61..71.
"""

from __future__ import annotations

from array import array

from engine.errors import DamageError
from engine.format.entry.internal_db import RANGE_KEY
from engine.format.entry.rollback import RollbackStart
from engine.format.lsn import format_lsn
from engine.format.tuples import long_key
from engine.format.vlsn import NULL_VLSN
from engine.vlsn import database as db
from engine.vlsn.database import IndexDatabase
from engine.vlsn.limits import DEFAULT_LIMITS, BucketLimits
from engine.vlsn.memory_index import records_of
from engine.vlsn.tracker import VLSNTracker
from engine.vlsn.vlsn_range import EMPTY_RANGE, VLSNRange, next_vlsn


class StreamCollector:
    """Registers the stream of a log, in log order.

    Arguments:
        limits: limits on the size of buckets.
        floor: lower VLSNs are ignored.

    Attributes:
        tracker: buckets and range so far.
        gaps: missing VLSNs (first, last) of the log; the range begins after the last of them.
    """

    def __init__(self, limits: BucketLimits = DEFAULT_LIMITS, floor: int = NULL_VLSN) -> None:
        self._limits = limits
        self._floor = floor
        self.tracker = VLSNTracker(limits)
        self.gaps: list[tuple[int, int]] = []
        # Sync points, and the last transaction end at each, so that a rollback can restore them.
        self._syncs, self._txn_ends = array("q"), array("q")

    def track(self, vlsn: int, lsn: int, type_number: int) -> None:
        """Register a visible entry of the stream.

        Raises:
            DamageError: the VLSN of the entry is not above the previous VLSN.
        """
        # The old range began later: earlier entries must not be sent to other nodes.
        if vlsn < self._floor:
            return
        last = self.tracker.range.last
        if NULL_VLSN != last >= vlsn:
            raise DamageError(
                "VLSN does not follow the one before",
                lsn=format_lsn(lsn),
                expected=str(last + 1),
                found=str(vlsn),
                consequence="no index can be made from this log; nothing was changed",
                hint="run jetool verify; restore this node from another member of the group",
            )
        # R-VLSN-3: a range has no holes, so a new one begins after the gap.
        if last != NULL_VLSN and vlsn > last + 1:
            self.gaps.append((last + 1, vlsn - 1))
            self.tracker = VLSNTracker(self._limits)
            self._syncs, self._txn_ends = array("q"), array("q")
        self.tracker.track(vlsn, lsn, type_number)
        found = self.tracker.range
        if found.last_sync == vlsn:
            self._syncs.append(vlsn)
            self._txn_ends.append(found.last_txn_end)

    def roll_back(self, record: RollbackStart) -> None:
        """Remove the entries after a matchpoint."""
        tracker, matchpoint = self.tracker, record.matchpoint_vlsn
        if tracker.range.is_empty or tracker.range.last <= matchpoint:
            return
        tracker.cut_tail(next_vlsn(matchpoint), record.matchpoint_lsn)
        tracker.ensure_end(record.matchpoint_lsn)
        # ``cut_tail`` leaves a removed transaction end in the range; here the previous one is known, so restore it.
        while self._syncs and self._syncs[-1] > matchpoint:
            self._syncs.pop()
            self._txn_ends.pop()
        if not tracker.range.is_empty:
            last_txn_end = self._txn_ends[-1] if self._txn_ends else NULL_VLSN
            tracker.range = tracker.range._replace(last_txn_end=last_txn_end)

    @property
    def range(self) -> VLSNRange:
        """The range of the remaining entries."""
        return self.tracker.range if self.tracker.buckets else EMPTY_RANGE


def first_of(database: IndexDatabase) -> int:
    """The first VLSN of the stored range; NULL_VLSN if it cannot be read."""
    try:
        return db.read_range(database).first
    except DamageError:
        return NULL_VLSN


def replace_index(database: IndexDatabase, found: StreamCollector) -> tuple[int, int]:
    """Replace the stored index by a new one, in one transaction; durable on return.

    Returns:
        The number of records removed, and of buckets stored.
    """
    buckets = found.tracker.buckets
    new = {long_key(RANGE_KEY), *(long_key(bucket.first) for bucket in buckets)}
    # Keys that are also in the new index are overwritten in place.
    gone = [key for key in records_of(database) if key not in new]
    txn = database.begin()
    try:
        for key in gone:
            txn.delete(key)
        for bucket in buckets:
            db.put_bucket(txn, bucket)
        db.put_range(txn, found.range)
    except BaseException:
        txn.abort()
        raise
    txn.commit(sync=True)
    return len(gone), len(buckets)
