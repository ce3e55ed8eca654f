"""Tracker and range: out of order, distance, laggards (R-VLSN-10 to 13; E-VLSN-3 to 5; T-18, T-19)."""

from __future__ import annotations

import pytest

from engine.errors import DamageError, JetoolError
from engine.format.lsn import NULL_LSN
from engine.vlsn.limits import BucketLimits
from engine.vlsn.tracker import VLSNTracker
from engine.vlsn.vlsn_range import EMPTY_RANGE, VLSNRange, next_vlsn, prev_vlsn
from tests.vlsn.memorydb import ABORT, COMMIT, LN, MATCHPOINT, lsn, show_all


def test_stride_and_mappings() -> None:
    """E-VLSN-3."""
    tracker = VLSNTracker(BucketLimits(3, 4))
    for vlsn in range(1, 26):
        tracker.track(vlsn, 100 * vlsn, LN)
    assert show_all(tracker.buckets) == ["{1..12: 1 4 7 10}", "{13..24: 13 16 19 22}", "{25..25: 25}"]
    exact = {vlsn for bucket in tracker.buckets for vlsn, _ in bucket.mappings()}
    assert exact == {1, 4, 7, 10, 12, 13, 16, 19, 22, 24, 25}


def test_out_of_order_over_files() -> None:
    """E-VLSN-4."""
    tracker = VLSNTracker(BucketLimits(3))
    puts = [
        (1, "1/0", LN), (2, "2/100", COMMIT), (5, "3/200", LN), (3, "2/200", LN), (6, "4/100", LN),
        (4, "3/100", COMMIT), (8, "4/300", LN), (9, "5/100", LN), (7, "4/200", MATCHPOINT),
    ]  # fmt: skip
    for vlsn, where, type_number in puts:
        tracker.track(vlsn, lsn(where), type_number)
    assert tracker.range == VLSNRange(1, 9, 7, 4)
    assert [(bucket.first, bucket.last) for bucket in tracker.buckets] == [(1, 1), (2, 2), (5, 5), (6, 8), (9, 9)]
    assert show_all(tracker.buckets)[3] == "{6..8: 6}"


def test_distance() -> None:
    """E-VLSN-5."""
    tracker = VLSNTracker(BucketLimits(3, 3, 40))
    for vlsn in range(1, 17):
        tracker.track(vlsn, lsn(f"1/{10 * vlsn}"), LN)
    for vlsn, offset in ((20, 1020), (17, 170), (21, 1021)):
        tracker.track(vlsn, lsn(f"1/{offset}"), LN)
    assert show_all(tracker.buckets) == ["{1..9: 1 4 7}", "{10..16: 10 13 16}", "{20..21: 20}"]
    with_lsn = tracker.buckets[1].cut_tail(12, lsn("1/110"))
    without = tracker.buckets[1].cut_tail(12, NULL_LSN)
    assert with_lsn is not None
    assert without is not None
    assert show_all([with_lsn, without]) == ["{10..11: 10}", "{10..10: 10}"]


def test_seed_order_of_three_threads() -> None:
    """The t0 to t5 of JE's Javadoc: 1, 3, then 2."""
    tracker = VLSNTracker(BucketLimits(10))
    for vlsn, offset in ((1, 100), (3, 200), (2, 150)):
        tracker.track(vlsn, offset, LN)
    assert tracker.range == VLSNRange(1, 3, -1, -1)
    bucket = tracker.lte(2)
    assert bucket is not None
    assert (bucket.lte(2), bucket.gte(2)) == (100, 200)


@pytest.mark.parametrize("vlsn", [8, 9, 10])
def test_laggard_of_a_flushed_bucket(vlsn: int) -> None:
    """R-VLSN-10 and D-3: at lastOnDisk itself too, only the range changes."""
    tracker = VLSNTracker(BucketLimits(10), VLSNRange(1, 10, 5, 5), 10)
    tracker.track(vlsn, 100 * vlsn, COMMIT)
    assert tracker.buckets == []
    assert tracker.range == VLSNRange(1, 10, vlsn, vlsn)


def test_laggard_of_a_closed_bucket() -> None:
    """Between closing a bucket for a flush and storing it, a late VLSN must not open one that overlaps."""
    tracker = VLSNTracker(BucketLimits(10))
    tracker.track(1, 100, LN)
    tracker.track(3, 300, LN)
    tracker.close_last()
    tracker.track(2, 200, COMMIT)
    tracker.track(4, 400, LN)
    assert show_all(tracker.buckets) == ["{1..3: 1}", "{4..4: 4}"]
    assert tracker.range == VLSNRange(1, 4, 2, 2)


def test_lookups_over_gaps() -> None:
    """T-18 SmallHoles: R-VLSN-21, 22."""
    tracker = VLSNTracker(BucketLimits(3), VLSNRange(1, 4, -1, -1), 4)
    for vlsn, where in ((6, "2/60"), (7, "2/70"), (10, "3/100")):
        tracker.track(vlsn, lsn(where), LN)
    assert [None if (found := tracker.lte(vlsn)) is None else found.first for vlsn in (4, 5, 6, 8, 10)] == [
        None, None, 6, 6, 10,
    ]  # fmt: skip
    assert [None if (found := tracker.gte(vlsn)) is None else found.first for vlsn in (4, 5, 6, 8, 10, 11)] == [
        None, 6, 6, 10, 10, 10,
    ]  # fmt: skip


def test_first_tracked_is_never_stale() -> None:
    """D-6."""
    tracker = VLSNTracker(BucketLimits(3))
    tracker.track(5, 50, LN)
    tracker.cut_tail(5, NULL_LSN)
    assert (tracker.first_tracked, tracker.range) == (-1, EMPTY_RANGE)
    tracker.track(7, 70, LN)
    tracker.track(8, 80, LN)
    assert tracker.first_tracked == 7
    tracker.cut_tail(8, 70)
    assert show_all(tracker.buckets) == ["{7..7: 7}"]


def test_not_a_vlsn() -> None:
    for vlsn in (0, -1, -5):
        with pytest.raises(DamageError, match="VLSN of an entry out of bounds"):
            VLSNTracker(BucketLimits()).track(vlsn, 100, LN)


def test_range_updates() -> None:
    """R-VLSN-13."""
    found = EMPTY_RANGE
    for vlsn, type_number in ((5, LN), (7, COMMIT), (6, ABORT), (4, LN), (9, MATCHPOINT), (8, MATCHPOINT)):
        found = found.with_entry(vlsn, type_number)
    assert found == VLSNRange(4, 9, 9, 7)
    assert found.contains(4)
    assert not found.contains(10)
    assert not EMPTY_RANGE.contains(-1)
    assert (next_vlsn(-1), prev_vlsn(1), prev_vlsn(5)) == (1, -1, 4)


def test_range_cuts() -> None:
    """R-VLSN-51, 52."""
    full = VLSNRange(3, 20, 18, 15)
    assert full.cut_tail(18) == VLSNRange(3, 17, 17, 15)
    assert full.cut_tail(3) == EMPTY_RANGE
    assert [full.overwrites_commit(vlsn) for vlsn in (15, 16)] == [True, False]
    assert full.cut_head(10) == VLSNRange(11, 20, 18, 15)
    # The last transaction end is forgotten when it is the new first VLSN (D-10), and when it is cut off.
    assert full.cut_head(13).last_txn_end == 15
    assert full.cut_head(14) == VLSNRange(15, 20, 18, -1)
    assert full.cut_head(18) == VLSNRange(19, 20, 18, -1)
    assert VLSNRange(3, 20, 20, 15).cut_head(20) == EMPTY_RANGE
    with pytest.raises(JetoolError, match="last matchpoint"):
        full.cut_head(19)
    with pytest.raises(JetoolError, match="empty"):
        EMPTY_RANGE.cut_head(1)


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (VLSNRange(3, 2, -1, -1), "ends before it begins"),
        (VLSNRange(0, 2, -1, -1), "ends before it begins"),
        (VLSNRange(1, 5, 6, -1), "last matchpoint 6 lies after"),
        (VLSNRange(1, 5, 5, 7), "last transaction end 7 lies after"),
        (VLSNRange(-1, -1, 5, -1), "empty and yet"),
    ],
)
def test_range_problems(found: VLSNRange, problem: str) -> None:
    assert any(problem in text for text in found.problems())


@pytest.mark.parametrize("found", [EMPTY_RANGE, VLSNRange(1, 5, 5, 5), VLSNRange(1, 5, 5, -1), VLSNRange(4, 5, -1, -1)])
def test_sound_ranges(found: VLSNRange) -> None:
    assert found.problems() == []
