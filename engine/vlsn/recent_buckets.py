"""A cache of stored buckets that were read lately, so that lookups need not decode them again.

A bucket in the database holds a thousand mappings and changes only if the index is truncated, which clears the cache.
With 256 buckets, a feeder or a syncup finds every VLSN of the last quarter of a million in memory, for about 1 MB.

The cache has no lock; the index calls it under its mutex.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from typing import Final

from engine.vlsn.ghost import Bucket

_CAPACITY: Final = 256


class RecentBuckets:
    """The cache.

    Attributes:
        generation: incremented when the cache is cleared; buckets read before that must not be added any more.
    """

    __slots__ = ("_buckets", "_capacity", "_firsts", "_order", "generation")

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._buckets: dict[int, Bucket] = {}
        self._firsts: list[int] = []
        self._order: deque[int] = deque()
        self.generation = 0

    def __len__(self) -> int:
        return len(self._firsts)

    def owner(self, vlsn: int) -> Bucket | None:
        """The bucket that contains a VLSN, if it is cached."""
        at = bisect_right(self._firsts, vlsn) - 1
        if at < 0:
            return None
        bucket = self._buckets[self._firsts[at]]
        return bucket if bucket.owns(vlsn) else None

    def add(self, bucket: Bucket, generation: int) -> None:
        """Add a bucket that was read in a generation, replacing the oldest one."""
        # A truncation since the bucket was read may have changed it.
        if generation != self.generation or bucket.first in self._buckets:
            return
        if len(self._firsts) >= self._capacity:
            oldest = self._order.popleft()
            del self._buckets[oldest]
            del self._firsts[bisect_right(self._firsts, oldest) - 1]
        self._buckets[bucket.first] = bucket
        insort(self._firsts, bucket.first)
        self._order.append(bucket.first)

    def clear(self) -> None:
        """Drop all buckets: stored ones are about to change."""
        self.generation += 1
        self._buckets.clear()
        self._firsts.clear()
        self._order.clear()
