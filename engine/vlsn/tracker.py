"""The tracker: the range, and the buckets that are not in the database yet.

Rules R-VLSN-2, 3, 10 to 13, 21, 22, 50, 52, 53. Buckets are in VLSN order without overlap; gaps between them are
allowed, and only the last one changes. VLSNs are registered outside the log write latch, so they sometimes arrive out
of order:

* A late VLSN within the last bucket fills its slot.
* A VLSN before the last bucket, or in a bucket that is closed or flushed, only extends the range.
  Lookups then use the mapping before or after it.
* The very first VLSN of an index, if it arrives late, gets its own bucket, since a range must begin with a mapping.

Example (E-VLSN-4), stride 3: puts 1@1/0, 2@2/100, 5@3/200, 3@2/200, 6@4/100, 4@3/100, 8@4/300, 9@5/100, 7@4/200 give
the buckets {1}, {2}, {5}, {6..8: 6}, {9}; 3, 4 and 7 have no mapping.

The tracker has no lock; the index calls it under its mutex.
"""

from __future__ import annotations

from bisect import bisect_right

from engine.errors import DamageError, JetoolError
from engine.format.entry.rollback import RollbackStart
from engine.format.lsn import NULL_LSN, file_of, format_lsn
from engine.format.vlsn import NULL_VLSN
from engine.vlsn.bucket import one_mapping
from engine.vlsn.ghost import Bucket, GhostBucket
from engine.vlsn.limits import DEFAULT_LIMITS, BucketLimits
from engine.vlsn.vlsn_range import EMPTY_RANGE, VLSNRange, next_vlsn


class VLSNTracker:
    """Range and unflushed buckets.

    Arguments:
        limits: how buckets are filled.
        vlsn_range, last_on_disk: the range and the last VLSN already in the database.

    Attributes:
        range: the range of the whole index.
        buckets: ascending, without overlap.
        last_on_disk: last VLSN of the last stored bucket; NULL if no bucket is stored.
        created: number of buckets opened.
    """

    def __init__(
        self, limits: BucketLimits, vlsn_range: VLSNRange = EMPTY_RANGE, last_on_disk: int = NULL_VLSN
    ) -> None:
        self.limits = limits
        self.range = vlsn_range
        self.buckets: list[Bucket] = []
        self.last_on_disk = last_on_disk
        self.created = 0

    @property
    def first_tracked(self) -> int:
        """First VLSN of the first bucket; NULL if there are no buckets. Computed on demand, so that it cannot be stale
        (R-VLSN-72, D-6).
        """
        return self.buckets[0].first if self.buckets else NULL_VLSN

    def track(self, vlsn: int, lsn: int, type_number: int) -> None:
        """Register an entry.

        Raises:
            DamageError: the VLSN is not positive.
        """
        if vlsn < 1:
            raise DamageError("VLSN of an entry out of bounds", lsn=format_lsn(lsn), found=str(vlsn))
        # A late VLSN equal to last_on_disk must not open a bucket either (D-3).
        if vlsn > self.last_on_disk:
            self._map(vlsn, lsn)
        # A VLSN without a mapping still extends the range.
        self.range = self.range.with_entry(vlsn, type_number)

    def lte(self, vlsn: int) -> Bucket | None:
        """The last bucket that begins at or before the VLSN; None if the database must be searched."""
        at = bisect_right(self.buckets, vlsn, key=_first_of) - 1
        return self.buckets[at] if at >= 0 else None

    def gte(self, vlsn: int) -> Bucket | None:
        """The bucket that owns the VLSN, or the next one, or the last.

        None if the database must be searched.
        """
        # VLSNs up to here may be in a stored bucket.
        if not self.buckets or vlsn <= self.last_on_disk:
            return None
        at = bisect_right(self.buckets, vlsn, key=_first_of) - 1
        if at >= 0 and self.buckets[at].owns(vlsn):
            return self.buckets[at]
        return self.buckets[min(at + 1, len(self.buckets) - 1)]

    def close_last(self) -> None:
        """Close the last bucket for further mappings."""
        if self.buckets:
            self.buckets[-1].closed = True

    def flushed(self, count: int, last: int) -> None:
        """Drop the first buckets, which are stored now; ``last`` is the last VLSN of the last of them."""
        del self.buckets[:count]
        if count:
            self.last_on_disk = last

    def cut_tail(self, delete_start: int, prev_lsn: int) -> None:
        """Drop ``delete_start`` and later VLSNs from the buckets and the range (R-VLSN-50, 51)."""
        self.range = self.range.cut_tail(delete_start)
        kept = (cut_bucket_tail(bucket, delete_start, prev_lsn) for bucket in self.buckets)
        self.buckets = [bucket for bucket in kept if bucket is not None]

    def ensure_end(self, prev_lsn: int) -> None:
        """Make sure that the range's last VLSN is mapped; if it is not, map it to ``prev_lsn`` (R-VLSN-55)."""
        last = self.buckets[-1].last if self.buckets else self.last_on_disk
        if last < self.range.last and prev_lsn != NULL_LSN:
            self.buckets.append(one_mapping(self.limits, self.range.last, prev_lsn))
            self.created += 1

    def cut_head(self, delete_end: int) -> None:
        """Drop ``delete_end`` and earlier VLSNs from the buckets and the range (R-VLSN-52).

        Raises:
            JetoolError: the last matchpoint would be removed.
        """
        self.range = self.range.cut_head(delete_end)
        kept = (bucket.cut_head(delete_end) for bucket in self.buckets)
        self.buckets = [bucket for bucket in kept if bucket is not None]
        if self.last_on_disk <= delete_end:
            self.last_on_disk = NULL_VLSN

    def adopt(self, other: VLSNTracker) -> None:
        """Append the buckets of another tracker; they must begin after all buckets of this tracker."""
        if other.buckets and self.buckets and other.buckets[0].first <= self.buckets[-1].last:
            raise JetoolError("VLSN index: buckets to append overlap", found=f"{other.buckets[0]}, {self.buckets[-1]}")
        self.buckets += other.buckets

    def _map(self, vlsn: int, lsn: int) -> None:
        last = self.buckets[-1] if self.buckets else None
        at = len(self.buckets)
        if last is not None and vlsn < last.first:
            # The VLSN arrives too late for its slot, so only the range is extended.
            if vlsn > self.first_tracked or self.last_on_disk != NULL_VLSN:
                return
            # The very first VLSN of the index: the range must begin with a mapping.
            at = 0
        elif last is not None and (last.put(vlsn, lsn) or vlsn <= last.last):
            return
        self.buckets.insert(at, one_mapping(self.limits, vlsn, lsn))
        self.created += 1


def cut_bucket_tail(bucket: Bucket, delete_start: int, prev_lsn: int) -> Bucket | None:
    """Cut a bucket's tail. If ``prev_lsn`` is in another file, it cannot be the end of the bucket, which then ends at a
    stored element.
    """
    if isinstance(bucket, GhostBucket):
        return bucket.cut_tail(delete_start, prev_lsn)
    return bucket.cut_tail(delete_start, prev_lsn if file_of(prev_lsn) == bucket.file_number else NULL_LSN)


def _first_of(bucket: Bucket) -> int:
    return bucket.first


class VLSNRecoveryTracker:
    """Mappings of the part of the log that recovery reads, from CkptStart on (R-VLSN-70 to 72).

    Entries come in log order: each replicated, visible entry is registered; each RollbackStart removes the entries
    after its matchpoint. The result replaces the end of the stored index (``recovery_merge``).

    Example (E-VLSN-1): VLSN 10; 11 to 13 invisible; RollbackStart to 9 clears everything; 10, 11, 12; RollbackStart to
    11 leaves 10..11 with last_sync 11 and the last matchpoint 11.

    Arguments:
        limits: limits on the size of buckets, as in the index.

    Attributes:
        tracker: the mappings.
        last_matchpoint_vlsn, last_matchpoint_lsn: matchpoint of the last RollbackStart; NULL if there is no
            RollbackStart.
    """

    def __init__(self, limits: BucketLimits = DEFAULT_LIMITS) -> None:
        self.tracker = VLSNTracker(limits)
        self.last_matchpoint_vlsn = NULL_VLSN
        self.last_matchpoint_lsn = NULL_LSN

    @property
    def is_empty(self) -> bool:
        """Whether no mapping is left."""
        return not self.tracker.buckets

    def track(self, vlsn: int, lsn: int, type_number: int) -> None:
        """Register a replicated, visible entry; entries come in log order."""
        self.tracker.track(vlsn, lsn, type_number)

    def roll_back(self, record: RollbackStart) -> None:
        """Remove the entries after a matchpoint (R-VLSN-71).

        The range keeps a transaction end after the matchpoint: JE keeps it too, and the check of a log reports it.
        """
        matchpoint = record.matchpoint_vlsn
        self.last_matchpoint_vlsn = matchpoint
        self.last_matchpoint_lsn = record.matchpoint_lsn
        tracker = self.tracker
        # The rollback affects only the stored index, which ``recovery_merge`` cuts.
        if tracker.range.is_empty or tracker.range.last <= matchpoint:
            return
        tracker.cut_tail(next_vlsn(matchpoint), record.matchpoint_lsn)
        tracker.ensure_end(record.matchpoint_lsn)
