"""The cache of stored buckets: it never knows anything that the database does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.vlsn.index import VLSNIndex
from engine.vlsn.limits import BucketLimits
from engine.vlsn.recent_buckets import RecentBuckets
from engine.vlsn.recovery_merge import open_index
from tests.vlsn.memorydb import COMMIT, MemoryDatabase, lsn

LIMITS = BucketLimits(3, 4, 100_000)


def filled(last: int) -> tuple[VLSNIndex, MemoryDatabase]:
    """Ten VLSNs to a file, stored."""
    database = MemoryDatabase()
    index = open_index(database, LIMITS)
    for vlsn in range(1, last + 1):
        index.put(vlsn, lsn(f"{vlsn // 10}/{100 + vlsn}"), COMMIT)
    index.flush()
    return index, database


def test_a_bucket_is_read_once() -> None:
    index, database = filled(40)
    assert index.lte_lsn(14) == index.lte_lsn(13)
    before = database.operations
    for vlsn in range(10, 20):
        index.lte_lsn(vlsn)
        index.gte_lsn(vlsn)
    assert database.operations == before


def test_truncation_forgets_what_was_read() -> None:
    index, _ = filled(40)
    for vlsn in range(1, 41):
        index.lte_lsn(vlsn)
    index.put(41, lsn("4/141"), COMMIT)
    index.truncate_head(14, 1)
    assert index.lte_lsn(15) >= lsn("1/113")
    assert index.verify() == []
    assert index.lsn(14) == -1
    # Only work in flight may be cut off at the tail.
    index.put(42, lsn("4/142"), 33)
    index.put(43, lsn("4/143"), 33)
    index.flush()
    assert index.lsn(43) == lsn("4/143")
    index.truncate_tail(42, lsn("4/141"))
    assert index.gte_lsn(41) == lsn("4/141")


@given(st.lists(st.integers(1, 60), max_size=80), st.integers(1, 5))
def test_capacity(asked: list[int], capacity: int) -> None:
    recent = RecentBuckets(capacity)
    index = VLSNIndex(filled(60)[1], LIMITS, recent=recent)
    plain = {vlsn: filled(60)[0].lte_lsn(vlsn) for vlsn in set(asked)}
    for vlsn in asked:
        assert index.lte_lsn(vlsn) == plain[vlsn]
        assert len(recent) <= capacity


def test_what_was_read_before_a_truncation_is_not_kept() -> None:
    recent = RecentBuckets()
    index, _ = filled(10)
    bucket = index.lte_bucket(5)
    before = recent.generation
    recent.clear()
    recent.add(bucket, before)
    assert recent.owner(5) is None
    recent.add(bucket, recent.generation)
    assert recent.owner(5) is bucket
