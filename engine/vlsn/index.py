"""The VLSN index of a node: combines tracker and database, for writers, readers, checkpoints and truncations.

Rules R-VLSN-1 to 3, 20 to 22, 40, 41, 50 to 55, 60, 61, 63.

* **Writers.** ``bump`` allocates the next VLSN under the log write latch. After the entry is written, ``put`` registers
  it outside that latch. Neither waits for I/O: a flush writes to the database without holding the mutex.
* **Readers** search the tracker's buckets, and the database for earlier VLSNs. A bucket that was found can be read
  without any lock. A flush removes buckets from the tracker only after they are committed, so no bucket is missed.
* **Checkpoints** call ``await_consistency`` after CkptStart, then ``flush`` before CkptEnd. Everything logged before
  CkptStart is then in the database, and recovery registers the rest again (``tracker``, ``recovery_merge``).
* **Truncation** of the tail (rollback) happens while nothing is written; truncation of the head (log cleaning) at any
  time.

Locks, in this order: ``_flush_mutex`` (one flush or truncation at a time), ``_mutex`` (tracker).

Example (E-REC-3): 100 firstActive, 200 CkptStart, 300 VLSN 78, 400 index flushed (1..78), 500 CkptEnd, 600 VLSN 79,
crash. Recovery reads 78 and 79 after CkptStart; the merge cuts the stored index at 78 and appends {78..79}.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from engine.errors import DamageError, JetoolError, NotFoundError
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.vlsn import database as db
from engine.vlsn import truncate
from engine.vlsn.database import IndexDatabase
from engine.vlsn.entry_waiters import RECHECK_MS, EntryWaiters, LogItem, WaitTimeoutError
from engine.vlsn.ghost import Bucket
from engine.vlsn.limits import DEFAULT_CACHE_SIZE, DEFAULT_LIMITS, BucketLimits
from engine.vlsn.recent_buckets import RecentBuckets
from engine.vlsn.tracker import VLSNTracker
from engine.vlsn.truncate import StoredChanges
from engine.vlsn.verify import problems_of, problems_of_stored
from engine.vlsn.vlsn_range import VLSNRange, next_vlsn

_LOOKUPS: Final = 3


class IndexStats(NamedTuple):
    """Counters since the index was opened.

    Attributes:
        tracked: number of unflushed buckets now.
        awaited_vlsn: the VLSN that threads wait for now, NULL_VLSN without any.
        waiters: number of these threads.
    """

    buckets_created: int
    head_buckets_deleted: int
    tail_buckets_deleted: int
    cache_hits: int
    cache_misses: int
    tracked: int
    awaited_vlsn: int
    waiters: int


class VLSNIndex:
    """The VLSN index. ``engine.vlsn.recovery_merge.open_index`` creates one.

    Arguments:
        database: the flushed buckets.
        limits: limits on the size of buckets.
        cache_size: slots of the log item cache.
        recent: the cache of stored buckets; None for one of the usual size.
        recheck_ms: how long a wait for consistency sleeps before it checks whether a rollback has lowered its target.
    """

    def __init__(
        self,
        database: IndexDatabase,
        limits: BucketLimits = DEFAULT_LIMITS,
        cache_size: int = DEFAULT_CACHE_SIZE,
        recent: RecentBuckets | None = None,
        recheck_ms: int = RECHECK_MS,
    ) -> None:
        self._database = database
        self._mutex = threading.Lock()
        self._flush_mutex = threading.Lock()
        stored = db.read_range(database)
        last = db.last_bucket(database)
        self.tracker = VLSNTracker(limits, stored, NULL_VLSN if last is None else last.last)
        self._stored_range = stored
        self._recent = recent if recent is not None else RecentBuckets()
        self._waiters = EntryWaiters(lambda: self.tracker.range.last, cache_size, recheck_ms)
        self._allocated = NULL_VLSN
        self._head_deleted = self._tail_deleted = 0

    @property
    def range(self) -> VLSNRange:
        """The current range; read without a lock."""
        return self.tracker.range

    @property
    def latest_allocated(self) -> int:
        """The highest VLSN that is allocated, or known to be written by a replica."""
        return max(self._allocated, self.range.last)

    # Writers.

    def bump(self) -> int:
        """Allocate the next VLSN; the caller holds the log write latch (R-LOG-8)."""
        # The last VLSN of the range is not enough: later entries may be written but not registered yet.
        self._allocated = next_vlsn(self.latest_allocated)
        return self._allocated

    def note_allocated(self, vlsn: int) -> None:
        """Note that a replica is about to write this VLSN; after a rollback it may be lower than before."""
        self._allocated = vlsn

    def put(self, vlsn: int, lsn: int, type_number: int, item: LogItem | None = None) -> None:
        """Register an entry that has been written; the order of calls does not matter.

        Arguments:
            vlsn, lsn, type_number: the entry.
            item: the content of the entry, for waiting feeders.
        """
        with self._mutex:
            # The range first, then the waiters: see ``EntryWaiters``.
            self.tracker.track(vlsn, lsn, type_number)
        self._waiters.arrived(vlsn, item)

    def fail(self, error: JetoolError) -> None:
        """End all waits, now and later, with this error: the environment is invalid."""
        self._waiters.fail(error)

    # Readers.

    def lte_bucket(self, vlsn: int) -> Bucket:
        """The bucket that owns a VLSN of the range, or the previous bucket (R-VLSN-21).

        Raises:
            NotFoundError: the VLSN is not in the range.
            DamageError: there is no earlier bucket, or a stored one is malformed.
        """
        return self._find(vlsn, self.tracker.lte, self._stored_lte)

    def gte_bucket(self, vlsn: int) -> Bucket:
        """The bucket that owns a VLSN of the range, or the next one, or else the last (R-VLSN-22).

        Raises:
            NotFoundError: the VLSN is not in the range.
            DamageError: there is no bucket, or a stored one is malformed.
        """
        return self._find(vlsn, self.tracker.gte, self._stored_gte)

    def lsn(self, vlsn: int) -> int:
        """The exact LSN of a VLSN; NULL_LSN if it is not in the range or its mapping is not stored (R-VLSN-20)."""
        try:
            bucket = self.lte_bucket(vlsn)
        except NotFoundError:
            return NULL_LSN
        return bucket.get(vlsn) if bucket.owns(vlsn) else NULL_LSN

    def lte_lsn(self, vlsn: int) -> int:
        """LSN of the nearest mapped VLSN at or before a VLSN of the range; errors as for ``lte_bucket``."""
        return self.lte_bucket(vlsn).lte(vlsn)

    def gte_lsn(self, vlsn: int) -> int:
        """LSN of the nearest mapped VLSN at or after a VLSN of the range; errors as for ``gte_bucket``."""
        return self.gte_bucket(vlsn).gte(vlsn)

    def wait_for(self, vlsn: int, timeout_ms: int) -> LogItem | None:
        """Wait until a VLSN has been registered.

        Returns:
            The log item of the VLSN; None if it must be read from the log.

        Raises:
            WaitTimeoutError: the VLSN was not registered within ``timeout_ms`` milliseconds, or the index was closed.
            JetoolError: other threads wait for a different VLSN; or the environment has become invalid.
        """
        return self._waiters.wait_for(vlsn, timeout_ms)

    def await_consistency(self, timeout_ms: int = 0) -> None:
        """Wait until every VLSN that was allocated before the call is registered (R-VLSN-63).

        Raises:
            WaitTimeoutError: not within ``timeout_ms`` milliseconds (0: wait for ever).
            JetoolError: the environment has become invalid, so that a missing VLSN will never arrive.
        """
        self._waiters.await_range(lambda: self.latest_allocated, timeout_ms)

    # Flush and truncation.

    def flush(self, *, sync: bool = False) -> None:
        """Store all buckets and the range (R-VLSN-40).

        Arguments:
            sync: make them durable; for a checkpoint its CkptEnd does that.

        Raises:
            JetoolError: the buckets overlap or do not end with the range (R-VLSN-41).
        """
        with self._flush_mutex:
            self._store(sync=sync)

    def truncate_tail(self, delete_start: int, prev_lsn: int) -> None:
        """Drop a VLSN and all later VLSNs, after a rollback; durable on return (R-VLSN-50, 51, 55).

        Nothing may be written to the replication stream meanwhile.

        Arguments:
            delete_start: the first VLSN to remove; the VLSN after the last one removes nothing.
            prev_lsn: LSN of the VLSN before it, which becomes the last.

        Raises:
            JetoolError: a commit or an abort would be removed, or the new last VLSN would have no mapping.
        """
        with self._flush_mutex:
            if self.range.is_empty or delete_start > self.range.last:
                return
            # Everything that can fail comes before the first change.
            truncate.check_tail(self.range, delete_start, prev_lsn)
            changes = truncate.stored_tail(self._database, delete_start, prev_lsn)
            # Cached items belong to VLSNs that are about to be reused.
            self._waiters.clear()
            with self._mutex:
                self.tracker.cut_tail(delete_start, prev_lsn)
                self.tracker.last_on_disk = changes.last_on_disk
                self.tracker.ensure_end(prev_lsn)
                # The next entry takes the VLSN after the matchpoint.
                self._allocated = self.range.last
                self._tail_deleted += len(changes.deleted)
            self._store(sync=True, changes=changes)

    def truncate_head(self, delete_end: int, next_file: int) -> bool:
        """Drop a VLSN and all earlier VLSNs, before log files are deleted; durable on return (R-VLSN-52 to 54).

        Arguments:
            delete_end: the last VLSN of the files; at most ``head_limit``.
            next_file: number of the first remaining log file; the caller protects files from there on.

        Returns:
            False if the range already begins later.

        Raises:
            JetoolError: the range is empty, or the last matchpoint would be removed.
        """
        with self._flush_mutex:
            if not self.range.is_empty and delete_end < self.range.first:
                return False
            # Called only for its errors; the tracker cuts its own range below.
            self.range.cut_head(delete_end)
            changes = truncate.stored_head(self._database, delete_end, next_file)
            self._waiters.clear()
            with self._mutex:
                is_first = changes.last_on_disk == NULL_VLSN
                truncate.tracked_head(self.tracker, delete_end, next_file, is_first=is_first)
                self.tracker.last_on_disk = changes.last_on_disk
                self._head_deleted += len(changes.deleted)
            self._store(sync=True, changes=changes)
        return True

    def head_limit(self, min_index_size: int) -> int:
        """The highest valid argument of ``truncate_head``; NULL if there is no valid argument (R-VLSN-52).

        Arguments:
            min_index_size: number of VLSNs that must remain (``je.rep.minVLSNIndexSize``).
        """
        # The last matchpoint must stay, whatever the size.
        limit = min(self.range.last_sync, self.range.last - min_index_size) - 1
        return limit if limit >= max(self.range.first, 1) else NULL_VLSN

    def close(self, *, flush: bool = True) -> None:
        """End all waits, and store everything that is not stored yet."""
        if flush:
            self.flush(sync=True)
        self.fail(WaitTimeoutError("the VLSN index is closed"))

    def stats(self) -> IndexStats:
        """The counters."""
        with self._mutex:
            counts = (self.tracker.created, self._head_deleted, self._tail_deleted)
            caches = self._waiters.hits, self._waiters.misses, len(self.tracker.buckets)
            return IndexStats(*counts, *caches, *self._waiters.awaited)

    def replace_tail(self, recovered: VLSNTracker, last_matchpoint: int) -> None:
        """Replace the stored end by the mappings from recovery (R-VLSN-75, ``recovery_merge``); durable on return."""
        with self._flush_mutex:
            first = recovered.range.first
            changes = truncate.stored_tail(self._database, first, NULL_LSN, recovered.buckets[0].gte(first))
            with self._mutex:
                self.tracker.range = self.range.merged(recovered.range, last_matchpoint)
                self.tracker.last_on_disk = changes.last_on_disk
                self.tracker.adopt(recovered)
            self._store(sync=True, changes=changes)

    def verify(self) -> list[str]:
        """The errors in the index; empty if it is sound (R-VLSN-42)."""
        with self._flush_mutex:
            with self._mutex:
                found = problems_of(self.tracker)
            return found + problems_of_stored(self._database, self.tracker)

    def buckets(self) -> Iterator[Bucket]:
        """All buckets, ascending, stored ones first. For reports; the index must not be truncated meanwhile."""
        with self._mutex:
            tracked = list(self.tracker.buckets)
        for bucket in db.buckets_from(self._database, 1):
            # A flush may have stored these buckets after the list was made; they are yielded from the list.
            if tracked and bucket.first >= tracked[0].first:
                break
            yield bucket
        yield from tracked

    def mappings(self) -> Iterator[tuple[int, int]]:
        """All stored mappings (VLSN, LSN), ascending; see ``buckets``."""
        for bucket in self.buckets():
            yield from bucket.mappings()

    def _find(
        self, vlsn: int, tracked: Callable[[int], Bucket | None], stored: Callable[[int], Bucket | None]
    ) -> Bucket:
        for _ in range(_LOOKUPS):
            with self._mutex:
                if not self.range.contains(vlsn):
                    raise NotFoundError(
                        f"VLSN {vlsn} is not in the VLSN index", expected=str(self.range), found=str(vlsn)
                    )
                bucket = tracked(vlsn) or self._recent.owner(vlsn)
                # Read before the lookup: a truncation before ``add`` makes the bucket stale.
                generation = self._recent.generation
            if bucket is not None:
                return bucket
            # A bucket that is not tracked is committed. It can disappear only by log cleaning; then look again.
            bucket = stored(vlsn)
            if bucket is not None:
                with self._mutex:
                    self._recent.add(bucket, generation)
                return bucket
        raise DamageError(
            f"VLSN index: no bucket for VLSN {vlsn}",
            found=f"range {self.range}, stored up to {self.tracker.last_on_disk}",
            consequence="entries of the replication stream cannot be found through it",
            hint="run jetool vlsn check, then jetool vlsn rebuild",
        )

    def _stored_lte(self, vlsn: int) -> Bucket | None:
        return db.bucket_at_or_below(self._database, vlsn)

    def _stored_gte(self, vlsn: int) -> Bucket | None:
        bucket = db.bucket_at_or_below(self._database, vlsn)
        if bucket is not None and bucket.owns(vlsn):
            return bucket
        # In a gap the next bucket is needed; the last one has no successor.
        following = db.bucket_at_or_above(self._database, vlsn)
        return following or db.last_bucket(self._database)

    def _store(self, *, sync: bool, changes: StoredChanges | None = None) -> None:
        """Write truncation changes, all buckets and the range in one transaction. Runs under the flush mutex.

        The mutex is not held while the database is written: later puts open a new bucket.
        """
        with self._mutex:
            # Puts during the write open a new bucket, so that the written ones do not change.
            self.tracker.close_last()
            buckets, vlsn_range = list(self.tracker.buckets), self.range
            # R-VLSN-41: a bad index must not be stored.
            _check_flush(buckets, vlsn_range, self.tracker.last_on_disk)
        if not buckets and changes is None and vlsn_range == self._stored_range:
            return
        txn = self._database.begin()
        try:
            if changes is not None:
                changes.write(txn)
            for bucket in buckets:
                db.put_bucket(txn, bucket)
            db.put_range(txn, vlsn_range)
        except BaseException:
            txn.abort()
            raise
        txn.commit(sync=sync)
        self._stored_range = vlsn_range
        with self._mutex:
            if changes is not None:
                self._recent.clear()
            if buckets:
                # Remove the buckets from the tracker after the commit: until then readers find them there.
                self.tracker.flushed(len(buckets), buckets[-1].last)


def _check_flush(buckets: list[Bucket], vlsn_range: VLSNRange, last_on_disk: int) -> None:
    """Refuse to store buckets that overlap or do not end with the range (R-VLSN-40, 41)."""
    last = last_on_disk
    for bucket in buckets:
        if bucket.first <= last:
            raise JetoolError("VLSN index: target bucket overlaps previous bucket", found=f"{bucket} after {last}")
        last = bucket.last
    if buckets and last != vlsn_range.last:
        raise JetoolError(
            "VLSN index: the last bucket must end with the range", expected=str(vlsn_range), found=str(last)
        )
