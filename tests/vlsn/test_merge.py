"""Recovery tracker and merge (R-VLSN-70 to 75; E-VLSN-1, E-VLSN-2, E-REC-3; T-23)."""

from __future__ import annotations

import pytest

from engine.errors import DamageError
from engine.format.entry.rollback import RollbackStart
from engine.format.lsn import NULL_LSN
from engine.vlsn.index import VLSNIndex
from engine.vlsn.limits import BucketLimits
from engine.vlsn.recovery_merge import open_index
from engine.vlsn.tracker import VLSNRecoveryTracker
from engine.vlsn.vlsn_range import EMPTY_RANGE, VLSNRange
from tests.vlsn.memorydb import COMMIT, LN, MATCHPOINT, MemoryDatabase, lsn, show_all

TENS = BucketLimits(10)


def stored(last: int, limits: BucketLimits = TENS, type_number: int = LN) -> MemoryDatabase:
    """A stored index of 1..last in one file, VLSN v at 100 × v."""
    database = MemoryDatabase()
    index = VLSNIndex(database, limits)
    for vlsn in range(1, last + 1):
        index.put(vlsn, 100 * vlsn, type_number)
    index.flush(sync=True)
    return database


def rollback(vlsn: int, where: int) -> RollbackStart:
    return RollbackStart(vlsn, where, 0, ())


def test_recovery_tracker_step_by_step() -> None:
    """E-VLSN-1; invisible entries never reach the tracker."""
    found = VLSNRecoveryTracker(BucketLimits(10))
    found.track(10, 1000, LN)
    assert (found.tracker.range.first, found.tracker.range.last) == (10, 10)
    found.roll_back(rollback(9, 900))
    assert found.is_empty
    assert (found.last_matchpoint_vlsn, found.tracker.range) == (9, EMPTY_RANGE)
    for vlsn in (10, 11, 12):
        found.track(vlsn, 1000 + 100 * vlsn, LN)
    assert show_all(found.tracker.buckets) == ["{10..12: 10}"]
    found.roll_back(rollback(11, 2100))
    assert show_all(found.tracker.buckets) == ["{10..11: 10}"]
    assert found.tracker.range == VLSNRange(10, 11, 11, -1)
    assert (found.last_matchpoint_vlsn, found.last_matchpoint_lsn) == (11, 2100)
    database = stored(13)
    assert database.buckets() == ["{1..13: 1 11}"]
    index = open_index(database, BucketLimits(10), found)
    assert index.range == VLSNRange(1, 11, 11, -1)
    assert database.buckets() == ["{1..1: 1}", "{10..11: 10}"]
    assert [index.lte_lsn(vlsn) for vlsn in (1, 2, 9, 10, 11)] == [100, 100, 100, 2000, 2100]
    assert [index.gte_lsn(vlsn) for vlsn in (1, 2, 9, 10, 11)] == [100, 2000, 2000, 2000, 2100]
    assert index.verify() == []


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("rollbacks", [(), ((8, 5),), ((8, 7), (11, 5)), ((7, 5), (9, 4)), ((8, 8), (10, 9))])
def test_every_recovery_range(rollbacks: tuple[tuple[int, int], ...], marked: bool) -> None:
    """T-23: stored 1..d, CkptStart at every entry up to there, rollbacks after d; equal to a dict made in log order.

    A rollback is (after so many entries, to this VLSN).
    """
    flushed_at = 6
    for ckpt_start in range(flushed_at + 1):
        model: dict[int, int] = {}
        log: list[tuple[int, int, RollbackStart | None]] = []
        taken_back: set[int] = set()
        for count in range(1, 13):
            vlsn = max(model, default=0) + 1
            model[vlsn] = 100 * count
            log.append((100 * count, vlsn, None))
            to = dict(rollbacks).get(count, vlsn)
            if to < vlsn:
                taken_back |= {lsn for passed, lsn in model.items() if passed > to}
                model = {passed: lsn for passed, lsn in model.items() if passed <= to}
                log.append((100 * count + 50, 0, rollback(to, model[to])))
        found = VLSNRecoveryTracker(BucketLimits(3))
        for where, vlsn, start in log[ckpt_start:]:
            if start is not None:
                found.roll_back(start)
            elif not (marked and where in taken_back):
                found.track(vlsn, where, LN)
        merged = open_index(stored(flushed_at, BucketLimits(3)), BucketLimits(3), found)
        assert (merged.range.first, merged.range.last) == (1, max(model))
        assert dict(merged.mappings()).items() <= model.items()
        for vlsn, where in model.items():
            assert merged.lsn(vlsn) in (NULL_LSN, where)
            assert merged.lte_lsn(vlsn) <= where <= merged.gte_lsn(vlsn)
        assert merged.verify() == []


def test_only_a_rollback() -> None:
    """E-VLSN-2."""
    database = MemoryDatabase()
    index = VLSNIndex(database, BucketLimits(4))
    for vlsn in range(1, 11):
        index.put(vlsn, lsn(f"1/{10 * vlsn}"), LN)
    index.flush()
    assert database.buckets() == ["{1..10: 1 5 9}"]
    found = VLSNRecoveryTracker(BucketLimits(4))
    found.roll_back(rollback(7, lsn("1/70")))
    index = open_index(database, BucketLimits(4), found)
    assert index.range == VLSNRange(1, 7, 7, -1)
    assert database.buckets() == ["{1..5: 1 5}", "{7..7: 7}"]
    assert (index.lsn(7), index.lsn(6), index.lte_lsn(6), index.gte_lsn(6)) == (
        lsn("1/70"), NULL_LSN, lsn("1/50"), lsn("1/70"),
    )  # fmt: skip
    assert index.verify() == []


@pytest.mark.parametrize("first", [78, 79])
def test_tail_behind_the_checkpoint(first: int) -> None:
    """E-REC-3: the index flushed up to 78, recovery sees 78 and 79 (or only 79)."""
    database = stored(78)
    found = VLSNRecoveryTracker(BucketLimits(10))
    for vlsn in range(first, 80):
        found.track(vlsn, 100 * vlsn, COMMIT)
    index = open_index(database, BucketLimits(10), found)
    assert index.range == VLSNRange(1, 79, 79, 79)
    assert database.buckets() == (
        ["{1..71: 1 11 21 31 41 51 61 71}", "{78..79: 78}"]
        if first == 78
        else ["{1..78: 1 11 21 31 41 51 61 71}", "{79..79: 79}"]
    )
    assert index.verify() == []
    assert database.synced == 2


def test_hole_is_refused() -> None:
    """R-VLSN-75; also what ``vlsn check`` looks for."""
    found = VLSNRecoveryTracker()
    found.track(80, 8000, LN)
    with pytest.raises(DamageError, match="recoveryTracker should overlap or follow"):
        open_index(stored(78), recovered=found)
    fresh = VLSNRecoveryTracker()
    fresh.track(3, 300, LN)
    with pytest.raises(DamageError, match="should overlap or follow"):
        open_index(MemoryDatabase(), recovered=fresh, converting=False)


def test_conversion_may_begin_anywhere() -> None:
    found = VLSNRecoveryTracker()
    found.track(3, 300, COMMIT)
    index = open_index(MemoryDatabase(), recovered=found, converting=True)
    assert index.range == VLSNRange(3, 3, 3, 3)
    assert index.verify() == []


def test_nothing_found() -> None:
    database = stored(5)
    before = dict(database.records)
    assert open_index(database, recovered=VLSNRecoveryTracker()).range == VLSNRange(1, 5, -1, -1)
    assert open_index(database).range == VLSNRange(1, 5, -1, -1)
    assert database.records == before
    assert open_index(MemoryDatabase()).range == EMPTY_RANGE


def test_everything_found() -> None:
    """A crash before the first checkpoint, and one whose recovery range covers the whole index."""
    for database in (MemoryDatabase(), stored(3), stored(9)):
        found = VLSNRecoveryTracker(BucketLimits(3))
        for vlsn in range(1, 8):
            found.track(vlsn, 1000 * vlsn, MATCHPOINT)
        index = open_index(database, BucketLimits(3), found)
        assert index.range == VLSNRange(1, 7, 7, -1)
        assert database.buckets() == ["{1..7: 1 4 7}"]
        assert index.lsn(4) == 4000
        assert index.verify() == []


def test_landmarks_come_from_recovery_only_if_it_has_them() -> None:
    database = stored(10, type_number=COMMIT)
    found = VLSNRecoveryTracker()
    found.track(11, 1100, LN)
    assert open_index(database, recovered=found).range == VLSNRange(1, 11, 10, 10)


def test_rolled_back_matchpoint_does_not_stay() -> None:
    """Stored: matchpoint 13. Rolled back to 9, then 10 to 12 without one: the last matchpoint is 9, not 13."""
    database = MemoryDatabase()
    index = VLSNIndex(database)
    for vlsn in range(1, 14):
        index.put(vlsn, 100 * vlsn, MATCHPOINT if vlsn in (9, 13) else LN)
    index.flush()
    found = VLSNRecoveryTracker()
    found.roll_back(rollback(9, 900))
    for vlsn in (10, 11, 12):
        found.track(vlsn, 1000 + 100 * vlsn, LN)
    index = open_index(database, recovered=found)
    assert index.range == VLSNRange(1, 12, 9, -1)
    assert index.verify() == []


def test_second_rollback_inside_a_new_range() -> None:
    """D-6: after a full clear, a rollback within what came since keeps its mappings."""
    found = VLSNRecoveryTracker(BucketLimits(3))
    found.track(10, 1000, LN)
    found.roll_back(rollback(5, 500))
    for vlsn in range(6, 14):
        found.track(vlsn, 2000 + vlsn, LN)
    found.roll_back(rollback(10, 2010))
    assert show_all(found.tracker.buckets) == ["{6..10: 6 9}"]
    index = open_index(stored(10, BucketLimits(3)), BucketLimits(3), found)
    assert index.lsn(9) == 2009
    assert index.lsn(10) == 2010
    assert index.verify() == []


def test_rollback_into_a_gap_maps_the_end() -> None:
    """T-18, T-19: the end of the range is always mapped."""
    found = VLSNRecoveryTracker(BucketLimits(3))
    for vlsn, where in ((1, "1/10"), (2, "1/20"), (5, "2/50"), (6, "2/60")):
        found.track(vlsn, lsn(where), LN)
    found.roll_back(rollback(4, lsn("1/40")))
    assert show_all(found.tracker.buckets) == ["{1..2: 1}", "{4..4: 4}"]
    found.roll_back(rollback(8, lsn("3/1")))
    assert found.tracker.range.last == 4
