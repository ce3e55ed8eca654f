"""A new index from the log: the visible stream, whatever was rolled back, cleaned or lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DamageError
from engine.format.entry.internal_db import RANGE_KEY
from engine.format.entry.rollback import RollbackStart
from engine.format.tuples import long_key
from engine.vlsn.limits import BucketLimits
from engine.vlsn.memory_index import MemoryIndex, records_of
from engine.vlsn.rebuild import StreamCollector, first_of, replace_index
from engine.vlsn.recovery_merge import open_index
from tests.vlsn.memorydb import COMMIT, LN, lsn

LIMITS = BucketLimits(3, 4, 100_000)
OLD = {long_key(RANGE_KEY): b"\x01\x05\x20\x20\x20", long_key(5): b"spoiled", long_key(17): b"spoiled"}


def rebuilt(collector: StreamCollector) -> MemoryIndex:
    database = MemoryIndex(OLD)
    _, stored = replace_index(database, collector)
    assert stored == len(collector.tracker.buckets)
    found = records_of(database)
    assert len(found) == stored + 1
    assert b"spoiled" not in found.values()
    return database


def test_a_range_that_began_later_goes_on_doing_so() -> None:
    assert first_of(MemoryIndex(OLD)) == 5
    assert first_of(MemoryIndex({long_key(RANGE_KEY): b"\x07"})) == -1
    collector = StreamCollector(LIMITS, floor=5)
    for vlsn in range(1, 20):
        collector.track(vlsn, lsn(f"0/{vlsn * 100}"), COMMIT)
    index = open_index(rebuilt(collector), LIMITS)
    assert (index.range.first, index.range.last) == (5, 19)


def test_a_gap_ends_the_old_stream() -> None:
    collector = StreamCollector(LIMITS)
    for vlsn in (1, 2, 3, 7, 8, 12):
        collector.track(vlsn, lsn(f"0/{vlsn * 100}"), COMMIT if vlsn == 3 else LN)
    assert collector.gaps == [(4, 6), (9, 11)]
    assert collector.range == (12, 12, -1, -1)


def test_a_visible_vlsn_twice_is_damage() -> None:
    collector = StreamCollector(LIMITS)
    collector.track(4, 400, LN)
    with pytest.raises(DamageError, match="VLSN does not follow"):
        collector.track(4, 500, LN)


STEPS = st.lists(st.sampled_from(("ln", "ln", "ln", "commit", "back", "flip")), max_size=60)


@given(STEPS, st.integers(0, 12))
def test_against_a_plain_dict(steps: list[str], floor: int) -> None:
    """Any stream with rollbacks: every mapping right, range and landmarks those of what is visible."""
    collector = StreamCollector(LIMITS, floor)
    visible: dict[int, tuple[int, bool]] = {}
    file_number, offset = 0, 100
    for step in steps:
        offset += 50
        if step == "flip":
            file_number, offset = file_number + 1, 100
        elif step == "back":
            ends = [vlsn for vlsn, (_, is_end) in visible.items() if is_end]
            if ends:
                collector.roll_back(RollbackStart(ends[-1], visible[ends[-1]][0], 0, ()))
                visible = {vlsn: found for vlsn, found in visible.items() if vlsn <= ends[-1]}
        else:
            vlsn = max(visible, default=0) + 1
            visible[vlsn] = (lsn(f"{file_number}/{offset}"), step == "commit")
            collector.track(vlsn, visible[vlsn][0], COMMIT if step == "commit" else LN)
    kept = {vlsn: found for vlsn, found in visible.items() if vlsn >= floor}
    index = open_index(rebuilt(collector), LIMITS)
    ends = [vlsn for vlsn, (_, is_end) in kept.items() if is_end]
    last_end = max(ends, default=-1)
    assert index.verify() == []
    assert (index.range.first, index.range.last) == (min(kept, default=-1), max(kept, default=-1))
    assert index.range.last_txn_end == last_end
    for vlsn, at in index.mappings():
        assert kept[vlsn][0] == at
    for vlsn, (at, _) in kept.items():
        assert index.lte_lsn(vlsn) <= at <= index.gte_lsn(vlsn)
