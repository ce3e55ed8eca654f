"""A new index from the log, in place of one that is damaged or gone.

Every visible entry of the stream is registered again, from the first file of the log to its end, as recovery does for
the part after the checkpoint; a RollbackStart takes back what follows its matchpoint. The range must be whole
(R-VLSN-3): where VLSNs are missing in the log, the index begins after the last gap. Last sync point and last
transaction end are those of the log, whatever stood in the old range. A range that began later than the log goes on
doing so: log cleaning, or a new group (R-UTIL-45), has cut it, and what lies before must not be sent to anybody.

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
from engine.vlsn.bucket import DEFAULT_LIMITS, BucketLimits
from engine.vlsn.database import IndexDatabase
from engine.vlsn.memory_index import records_of
from engine.vlsn.tracker import VLSNTracker
from engine.vlsn.vlsn_range import EMPTY_RANGE, VLSNRange, next_vlsn


class StreamCollector:
    """Registers the stream of a log, in log order.

    Arguments:
        limits: how buckets are filled.
        floor: VLSNs before this one are left out.

    Attributes:
        tracker: buckets and range so far.
        gaps: missing VLSNs (first, last) of the log; the range begins after the last of them.
    """

    def __init__(self, limits: BucketLimits = DEFAULT_LIMITS, floor: int = NULL_VLSN) -> None:
        self._limits = limits
        self._floor = floor
        self.tracker = VLSNTracker(limits)
        self.gaps: list[tuple[int, int]] = []
        # Sync points, and the last transaction end at each: what a rollback brings back.
        self._syncs, self._txn_ends = array("q"), array("q")

    def track(self, vlsn: int, lsn: int, type_number: int) -> None:
        """A visible entry of the stream.

        Raises:
            DamageError: its VLSN is not above the one before.
        """
        # The old range began later: what lies before must not be sent to anybody.
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
        # R-VLSN-3: a range has no holes, so it begins anew after the gap.
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
        """Take back what follows a matchpoint."""
        tracker, matchpoint = self.tracker, record.matchpoint_vlsn
        if tracker.range.is_empty or tracker.range.last <= matchpoint:
            return
        tracker.cut_tail(next_vlsn(matchpoint), record.matchpoint_lsn)
        tracker.ensure_end(record.matchpoint_lsn)
        # The range keeps a transaction end that was taken back; here the one before it is known.
        while self._syncs and self._syncs[-1] > matchpoint:
            self._syncs.pop()
            self._txn_ends.pop()
        if not tracker.range.is_empty:
            last_txn_end = self._txn_ends[-1] if self._txn_ends else NULL_VLSN
            tracker.range = tracker.range._replace(last_txn_end=last_txn_end)

    @property
    def range(self) -> VLSNRange:
        """The range of what is left."""
        return self.tracker.range if self.tracker.buckets else EMPTY_RANGE


def first_of(database: IndexDatabase) -> int:
    """The first VLSN of the stored range, NULL_VLSN when it cannot be told."""
    try:
        return db.read_range(database).first
    except DamageError:
        return NULL_VLSN


def replace_index(database: IndexDatabase, found: StreamCollector) -> tuple[int, int]:
    """Put a new index in place of the stored one, in one transaction; durable on return.

    Returns:
        How many records were removed, and how many buckets were stored.
    """
    buckets = found.tracker.buckets
    new = {long_key(RANGE_KEY), *(long_key(bucket.first) for bucket in buckets)}
    # Keys that come again are overwritten in their place.
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
