"""The examples of JE's Javadoc of VLSNRecoveryTracker and VLSNIndex, with their own numbers."""

from __future__ import annotations

from engine.format.entry.rollback import RollbackStart
from engine.vlsn.index import VLSNIndex
from engine.vlsn.limits import BucketLimits
from engine.vlsn.recovery_merge import open_index
from engine.vlsn.scanner import ForwardScanner
from engine.vlsn.tracker import VLSNRecoveryTracker
from engine.vlsn.vlsn_range import VLSNRange
from tests.vlsn.memorydb import COMMIT, LN, MemoryDatabase, show_all

TENS = BucketLimits(10)


def test_the_range_is_discovered() -> None:
    """VLSNRecoveryTracker: stored 25 to 200, in the log 190 to 210: the tracker begins at 190, not at 1 or at 201."""
    database = MemoryDatabase()
    index = VLSNIndex(database, TENS)
    for vlsn in range(25, 201):
        index.put(vlsn, 100 * vlsn, LN)
    index.flush(sync=True)
    found = VLSNRecoveryTracker(TENS)
    for vlsn in range(190, 211):
        found.track(vlsn, 100 * vlsn, COMMIT)
    assert (found.tracker.first_tracked, found.tracker.range) == (190, VLSNRange(190, 210, 210, 210))
    merged = open_index(database, TENS, found)
    assert merged.range == VLSNRange(25, 210, 210, 210)
    assert database.buckets()[-1] == "{190..210: 190 200 210}"
    assert [merged.lsn(vlsn) for vlsn in (25, 185, 190, 200, 210)] == [2500, 18500, 19000, 20000, 21000]
    assert merged.verify() == []


def test_duplicates_after_a_rollback() -> None:
    """VLSNIndex: LSN 200 and 300 are overmarked; VLSN 2 and 3 come again at 400 and 500."""
    log = [(100, 1, True), (200, 2, False), (300, 3, False), (400, 2, True), (500, 3, True)]
    database = MemoryDatabase()
    index = VLSNIndex(database, BucketLimits(1))
    for lsn, vlsn, _ in log[:3]:
        index.put(vlsn, lsn, LN)
    index.flush(sync=True)
    found = VLSNRecoveryTracker(BucketLimits(1))
    for lsn, vlsn, visible in log:
        if visible:
            found.track(vlsn, lsn, LN)
        if lsn == 300:
            found.roll_back(RollbackStart(1, 100, 0, (-11,)))
    merged = open_index(database, BucketLimits(1), found)
    assert merged.range[:2] == (1, 3)
    assert dict(merged.mappings()) == {1: 100, 2: 400, 3: 500}
    scanner = ForwardScanner(merged)
    assert [scanner.start(1), scanner.precise(2), scanner.precise(3)] == [100, 400, 500]


def test_the_run_time_rollback_gives_the_same() -> None:
    """VLSNIndex: the same at run time; the index is cut after VLSN 1, and the stream goes on at 2."""
    index = VLSNIndex(MemoryDatabase(), BucketLimits(1))
    for vlsn, lsn in ((1, 100), (2, 200), (3, 300)):
        index.put(vlsn, lsn, LN)
    index.truncate_tail(2, 100)
    assert index.bump() == 2
    for vlsn, lsn in ((2, 400), (3, 500)):
        index.put(vlsn, lsn, LN)
    assert dict(index.mappings()) == {1: 100, 2: 400, 3: 500}


def test_out_of_order_puts_of_three_threads() -> None:
    """VLSNIndex: t0 to t5: 1/100, 3/200, then 2/150. At t4 the index holds 1 and 3; 2 is answered by its neighbours."""
    index = VLSNIndex(MemoryDatabase(), TENS)
    assert [index.bump(), index.bump(), index.bump()] == [1, 2, 3]
    index.put(1, 100, LN)
    index.put(3, 200, LN)
    assert index.range == VLSNRange(1, 3, -1, -1)
    assert dict(index.mappings()) == {1: 100, 3: 200}
    assert (index.lte_lsn(2), index.gte_lsn(2)) == (100, 200)
    index.put(2, 150, LN)
    assert index.range == VLSNRange(1, 3, -1, -1)
    assert show_all(list(index.buckets())) == ["{1..3: 1}"]
    assert (index.lte_lsn(2), index.gte_lsn(2)) == (100, 200)


def test_the_index_flushed_inside_a_checkpoint() -> None:
    """VLSNIndex: CkptStart 200, VLSN 78 at 300, flushed at 400, CkptEnd 500, VLSN 79 at 600; 78 and 79 are swept up."""
    database = MemoryDatabase()
    index = VLSNIndex(database, TENS)
    for vlsn in range(1, 78):
        index.put(vlsn, vlsn, LN)
    index.put(78, 300, LN)
    index.flush()
    found = VLSNRecoveryTracker(TENS)
    found.track(78, 300, LN)
    found.track(79, 600, LN)
    merged = open_index(database, TENS, found)
    assert merged.range == VLSNRange(1, 79, -1, -1)
    assert (merged.lsn(78), merged.lsn(79)) == (300, 600)
    assert database.buckets()[-1] == "{78..79: 78}"
    assert merged.verify() == []
