"""Buckets: puts, look-ups and cuts (R-VLSN-5 to 9, 20, 23, 24, 50; scenarios T-13 to T-16)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DamageError
from engine.format.entry.internal_db import (
    GhostBucketRecord,
    VLSNBucketRecord,
    decode_vlsn_bucket,
    encode_vlsn_bucket,
)
from engine.format.lsn import NULL_LSN, make_lsn
from engine.vlsn.bucket import VLSNBucket
from engine.vlsn.ghost import GhostBucket, bucket_of
from engine.vlsn.limits import BucketLimits
from tests.vlsn.memorydb import show


def bucket(limits: BucketLimits, *puts: tuple[int, int]) -> VLSNBucket:
    made = VLSNBucket(limits, 0, puts[0][0])
    for vlsn, offset in puts:
        assert made.put(vlsn, offset)
    return made


def every(stride: int, first: int, last: int) -> VLSNBucket:
    """VLSNs first..last at offsets 10 × VLSN."""
    return bucket(BucketLimits(stride), *((vlsn, 10 * vlsn) for vlsn in range(first, last + 1)))


def test_on_and_off_stride() -> None:
    """T-13: exact, LTE and GTE for every VLSN; R-VLSN-20, 23."""
    made = every(5, 1, 14)
    assert show(made) == "{1..14: 1 6 11}"
    assert {vlsn: made.get(vlsn) for vlsn in range(1, 15) if made.get(vlsn) != NULL_LSN} == {
        1: 10, 6: 60, 11: 110, 14: 140,
    }  # fmt: skip
    assert [made.lte(vlsn) for vlsn in (1, 5, 6, 10, 11, 13, 14, 99)] == [10, 10, 60, 60, 110, 110, 140, 140]
    assert [made.gte(vlsn) for vlsn in (0, 1, 2, 6, 7, 11, 12, 14, 99)] == [10, 10, 60, 60, 110, 110, 140, 140, 140]
    assert made.mappings() == [(1, 10), (6, 60), (11, 110), (14, 140)]


def test_other_file_and_closed() -> None:
    """T-13, R-VLSN-5."""
    made = every(5, 1, 3)
    assert not made.put(4, make_lsn(1, 40))
    made.closed = True
    assert not made.put(4, 40)
    assert made.last == 3


def test_full_bucket_takes_what_is_off_the_stride() -> None:
    """T-13, R-VLSN-9: stride 3, two mappings: 1 to 6 fit, 7 does not."""
    made = VLSNBucket(BucketLimits(3, 2), 0, 1)
    assert [made.put(vlsn, 10 * vlsn) for vlsn in range(1, 9)] == [True] * 6 + [False, True]


@pytest.mark.parametrize("vlsn", [1 + 3 * 5, 1 << 40, (1 << 63) - 1])
def test_places_that_wait_are_bounded(vlsn: int) -> None:
    """R-VLSN-6: skipped VLSNs have places that wait for them, but no more than a bucket holds."""
    made = VLSNBucket(BucketLimits(3, 3), 0, 1)
    assert [made.put(1, 10), made.put(vlsn, 20)] == [True, False]
    assert made.put(1 + 3 * 4, 20)
    assert len(made.record().offsets) == 5


def test_distance_is_measured_from_the_last_element() -> None:
    """T-13, R-VLSN-5, 6: exactly the distance fits; the last VLSN does not count, and a placeholder does."""
    limits = BucketLimits(10, 1000, 50)
    made = VLSNBucket(limits, 0, 1)
    assert [made.put(*put) for put in ((1, 1000), (5, 1040), (8, 1060))] == [True, True, False]
    made = VLSNBucket(limits, 0, 1)
    assert [made.put(*put) for put in ((1, 1000), (5, 1050), (6, 1051))] == [True, True, False]
    placeholder = VLSNBucket(limits, 0, 1)
    assert [placeholder.put(*put) for put in ((2, 1000), (3, 1001))] == [True, False]


@pytest.mark.parametrize("order", [(1, 2, 3, 4, 5, 6, 7, 8), (1, 4, 2, 3, 8, 7, 5, 6), (1, 8, 7, 6, 5, 4, 3, 2)])
def test_out_of_order(order: tuple[int, ...]) -> None:
    """T-14: late puts fill placeholders, and the result is the same."""
    assert bucket(BucketLimits(3), *((vlsn, 10 * vlsn) for vlsn in order)).record() == every(3, 1, 8).record()


def test_holes_are_skipped() -> None:
    """T-15, R-VLSN-24."""
    made = bucket(BucketLimits(3), (1, 10), (13, 130))
    assert show(made) == "{1..13: 1 13}"
    assert [made.lte(vlsn) for vlsn in (4, 7, 12)] == [10, 10, 10]
    assert [made.gte(vlsn) for vlsn in (2, 4, 7, 12)] == [130] * 4
    assert made.get(7) == NULL_LSN
    incomplete = VLSNBucket(BucketLimits(3), 0, 1)
    incomplete.put(2, 20)
    assert (incomplete.lte(1), incomplete.gte(1), incomplete.get(2)) == (NULL_LSN, 20, 20)


@pytest.mark.parametrize("delete_start", range(1, 17))
@pytest.mark.parametrize("holes", [False, True])
def test_cut_tail_everywhere(delete_start: int, holes: bool) -> None:
    """T-16: every cut point, with and without the LSN before it."""
    stored = [1, 10, 13] if holes else [1, 4, 7, 10, 13]
    made = bucket(BucketLimits(3), *((vlsn, 10 * vlsn) for vlsn in ([*stored, 14] if holes else range(1, 15))))
    with_lsn = made.cut_tail(delete_start, 10 * (delete_start - 1))
    without = made.cut_tail(delete_start, NULL_LSN)
    kept = [vlsn for vlsn in stored if vlsn < delete_start]
    if delete_start > 14:
        assert with_lsn is made
        assert without is made
        return
    if delete_start == 1:
        assert with_lsn is None
        assert without is None
        return
    assert with_lsn is not None
    assert without is not None
    assert (with_lsn.last, with_lsn.last_lsn) == (delete_start - 1, 10 * (delete_start - 1))
    assert (without.last, without.last_lsn) == (kept[-1], 10 * kept[-1])
    assert [vlsn for vlsn, _ in without.mappings()] == kept
    assert [vlsn for vlsn, _ in with_lsn.mappings()] == sorted({*kept, delete_start - 1})
    # What is left goes on taking mappings; the bucket itself is as it was, since readers may have it in hand.
    assert with_lsn.put(delete_start, 10 * delete_start)
    assert without.put(delete_start, 10 * delete_start)
    assert made.mappings()[-1] == (14, 140)


def test_cut_tail_to_nothing_known() -> None:
    incomplete = VLSNBucket(BucketLimits(3), 0, 1)
    incomplete.put(2, 20)
    assert incomplete.cut_tail(2, NULL_LSN) is None


@pytest.mark.parametrize("delete_end", range(16))
def test_cut_head_everywhere(delete_end: int) -> None:
    made = every(3, 1, 14)
    kept = made.cut_head(delete_end)
    if delete_end == 0:
        assert kept is made
    elif delete_end >= 14:
        assert kept is None
    else:
        assert kept is not None
        expected = [vlsn for vlsn in (1, 4, 7, 10, 13, 14) if vlsn > delete_end]
        assert kept.mappings() == [(vlsn, 10 * vlsn) for vlsn in expected]
        assert (kept.first, kept.last) == (expected[0], 14)


def test_cut_head_over_a_hole() -> None:
    made = bucket(BucketLimits(3), (1, 10), (13, 130), (14, 140))
    kept = made.cut_head(2)
    assert kept is not None
    assert kept.mappings() == [(13, 130), (14, 140)]


@given(
    st.integers(1, 4), st.lists(st.integers(0, 30), min_size=1, max_size=20, unique=True), st.integers(-2, 34),
)  # fmt: skip
def test_lookups_equal_a_plain_dict(stride: int, order: list[int], wanted: int) -> None:
    """Whatever the order of puts, LTE and GTE are the nearest known ones."""
    made = VLSNBucket(BucketLimits(stride), 3, 1)
    known = {}
    for vlsn in (1, *(1 + step for step in order)):
        made.put(vlsn, make_lsn(3, 100 + 10 * vlsn))
    for vlsn in {1, *(1 + step for step in order)}:
        if (vlsn - 1) % stride == 0 or vlsn == made.last:
            known[vlsn] = make_lsn(3, 100 + 10 * vlsn)
    assert dict(made.mappings()) == known
    wanted = max(wanted, 1)
    assert made.get(wanted) == known.get(wanted, NULL_LSN)
    assert made.lte(wanted) == known[max(vlsn for vlsn in known if vlsn <= wanted)]
    assert made.gte(wanted) == known[min((vlsn for vlsn in known if vlsn >= wanted), default=made.last)]
    again = bucket_of(decode_vlsn_bucket(encode_vlsn_bucket(made.record())))
    assert again.mappings() == made.mappings()
    assert not again.put(made.last + 1, make_lsn(3, 10_000))


def test_ghost() -> None:
    """R-VLSN-53."""
    ghost = GhostBucket(4, make_lsn(2, 0), make_lsn(2, 9))
    assert (ghost.lte(4), ghost.gte(4), ghost.get(4)) == (make_lsn(2, 0), make_lsn(2, 9), NULL_LSN)
    assert (ghost.owns(4), ghost.owns(5), ghost.first, ghost.last, ghost.mappings()) == (True, False, 4, 4, [])
    assert not ghost.put(5, make_lsn(2, 9))
    assert (ghost.cut_head(3), ghost.cut_head(4)) == (ghost, None)
    assert (ghost.cut_tail(5, NULL_LSN), ghost.cut_tail(4, NULL_LSN)) == (ghost, None)
    again = bucket_of(decode_vlsn_bucket(encode_vlsn_bucket(ghost.record())))
    assert again.record() == ghost.record()


@pytest.mark.parametrize(
    "record",
    [
        VLSNBucketRecord(0, 10, 0, 5, 50, (1,)),
        VLSNBucketRecord(0, 10, 6, 5, 50, (1,)),
        VLSNBucketRecord(1, 10, 1, 5, 50, (1,)),
        VLSNBucketRecord(0, 10, 1, 5, 50, ()),
        VLSNBucketRecord(0, 10, 1, 10, 50, (1, 2)),
        GhostBucketRecord(-1, 0, 0),
    ],
)
def test_contradictory_records(record: VLSNBucketRecord | GhostBucketRecord) -> None:
    with pytest.raises(DamageError, match="contradicts itself"):
        bucket_of(record)
