"""The index over its database: look-ups, scanners, flushes, truncations, checks (T-17 to T-22, T-25)."""

from __future__ import annotations

import pytest

from engine.errors import DamageError, JetoolError, NotFoundError
from engine.format.entry.internal_db import VLSNBucketRecord, encode_vlsn_bucket, encode_vlsn_range
from engine.format.lsn import NULL_LSN, file_of, make_lsn
from engine.format.tuples import long_key
from engine.vlsn.index import VLSNIndex
from engine.vlsn.limits import BucketLimits
from engine.vlsn.scanner import BackwardScanner, ForwardScanner
from engine.vlsn.vlsn_range import EMPTY_RANGE, VLSNRange
from tests.vlsn.memorydb import COMMIT, LN, MATCHPOINT, MemoryDatabase, lsn, show, show_all

PER_FILE = 8
SMALL = BucketLimits(3, 4)


def place(vlsn: int) -> int:
    """Where the tests put a VLSN: eight to a file."""
    return make_lsn((vlsn - 1) // PER_FILE, 100 * vlsn)


def filled(
    last: int, flush_at: int = 0, limits: BucketLimits = SMALL, type_number: int = LN
) -> tuple[VLSNIndex, MemoryDatabase]:
    database = MemoryDatabase()
    index = VLSNIndex(database, limits)
    for vlsn in range(1, last + 1):
        index.put(vlsn, place(vlsn), type_number)
        if vlsn == flush_at:
            index.flush()
    return index, database


@pytest.mark.parametrize("flush_at", [0, 10, 17, 25])
def test_lookups_before_and_after_flush(flush_at: int) -> None:
    """T-17: E-VLSN-3 in one file; all look-ups are equal, flushed or not."""
    database = MemoryDatabase()
    index = VLSNIndex(database, BucketLimits(3, 4))
    for vlsn in range(1, 26):
        index.put(vlsn, 100 * vlsn, LN)
        if vlsn == flush_at:
            index.flush()
    known = {1, 4, 7, 10, 12, 13, 16, 19, 22, 24, 25} | ({flush_at} if flush_at else set())
    if flush_at in (10, 17):
        # A flush closes the bucket; the next one begins right after it.
        known = {vlsn for vlsn, _ in index.mappings()}
        assert {flush_at, flush_at + 1} <= known
    for vlsn in range(1, 26):
        assert index.lsn(vlsn) == (100 * vlsn if vlsn in known else NULL_LSN)
        assert index.lte_lsn(vlsn) == 100 * max(known_vlsn for known_vlsn in known if known_vlsn <= vlsn)
        assert index.gte_lsn(vlsn) == 100 * min(known_vlsn for known_vlsn in known if known_vlsn >= vlsn)
    assert dict(index.mappings()) == {vlsn: 100 * vlsn for vlsn in known}
    assert index.verify() == []
    again = VLSNIndex(database, BucketLimits(3, 4))
    assert again.range == (VLSNRange(1, flush_at, -1, -1) if flush_at else EMPTY_RANGE)


def test_stored_buckets() -> None:
    index, database = filled(25, limits=BucketLimits(3, 2))
    index.flush(sync=True)
    assert database.buckets() == [
        "{1..6: 1 4}", "{7..8: 7}", "{9..14: 9 12}", "{15..16: 15}", "{17..22: 17 20}", "{23..24: 23}", "{25..25: 25}",
    ]  # fmt: skip
    assert (database.synced, index.tracker.buckets, index.tracker.last_on_disk) == (1, [], 25)
    before = dict(database.records)
    index.flush()
    assert database.records == before


def test_flush_without_news_writes_nothing() -> None:
    index, database = filled(5, 5)
    database.operations = 0
    index.flush()
    assert database.operations == 0


def test_outside_the_range() -> None:
    index, _ = filled(5)
    for vlsn in (-1, 0, 6):
        assert index.lsn(vlsn) == NULL_LSN
        with pytest.raises(NotFoundError, match="not in the VLSN index"):
            index.lte_lsn(vlsn)
        with pytest.raises(NotFoundError):
            index.gte_lsn(vlsn)


@pytest.mark.parametrize("flush", [False, True])
def test_forward_scanner(flush: bool) -> None:
    """R-VLSN-25, 26; T-17, T-18."""
    index = VLSNIndex(MemoryDatabase(), BucketLimits(3))
    for vlsn in (1, 2, 3, 4, 6, 7, 8):
        index.put(vlsn, make_lsn(vlsn // 5, 100 * vlsn), LN)
    if flush:
        index.flush()
    assert [show(index.lte_bucket(vlsn)) for vlsn in (1, 8)] == ["{1..4: 1 4}", "{6..8: 6}"]
    scanner = ForwardScanner(index)
    assert scanner.start(2) == 100
    assert [scanner.precise(vlsn) for vlsn in (2, 3, 4, 5, 6, 7, 8)] == [
        NULL_LSN, NULL_LSN, 400, NULL_LSN, make_lsn(1, 600), NULL_LSN, make_lsn(1, 800),
    ]  # fmt: skip
    scanner = ForwardScanner(index)
    assert scanner.start(1) == 100
    assert [scanner.approximate(vlsn) for vlsn in (1, 2, 3, 4, 5, 6, 7, 8)] == [
        100, 100, 100, 400, 400, make_lsn(1, 600), make_lsn(1, 600), make_lsn(1, 800),
    ]  # fmt: skip
    with pytest.raises(JetoolError, match="called once"):
        scanner.start(1)
    with pytest.raises(JetoolError, match="called first"):
        ForwardScanner(index).precise(1)


@pytest.mark.parametrize("flush", [False, True])
def test_backward_scanner(flush: bool) -> None:
    index = VLSNIndex(MemoryDatabase(), BucketLimits(3))
    for vlsn in (1, 2, 3, 4, 6, 7, 8):
        index.put(vlsn, make_lsn(vlsn // 5, 100 * vlsn), LN)
    if flush:
        index.flush()
    scanner = BackwardScanner(index)
    assert scanner.start(7) == make_lsn(1, 800)
    assert [scanner.precise(vlsn) for vlsn in (8, 7, 6, 5, 4, 3, 2, 1)] == [
        make_lsn(1, 800), NULL_LSN, make_lsn(1, 600), NULL_LSN, 400, NULL_LSN, NULL_LSN, 100,
    ]  # fmt: skip
    scanner = BackwardScanner(index)
    assert scanner.start(5) == make_lsn(1, 600)


def test_gte_during_a_flush() -> None:
    """T-21 (SR20726): a flush between the look into the tracker and that into the database loses no bucket."""
    index, database = filled(40)
    looked_up: list[int] = []

    def look(name: str) -> None:
        if name in ("put", "commit"):
            database.before = None
            looked_up.extend(index.gte_lsn(vlsn) for vlsn in range(1, 41))
            database.before = look

    expected = [index.gte_lsn(vlsn) for vlsn in range(1, 41)]
    database.before = look
    index.flush()
    database.before = None
    assert looked_up
    assert looked_up == expected * (len(looked_up) // 40)
    assert [index.gte_lsn(vlsn) for vlsn in range(1, 41)] == expected


def test_puts_during_a_flush_open_a_new_bucket() -> None:
    index, database = filled(5)

    def put(name: str) -> None:
        if name == "commit":
            database.before = None
            index.put(7, place(7), LN)
            index.put(6, place(6), COMMIT)
            index.put(4, place(4), MATCHPOINT)

    database.before = put
    index.flush()
    assert database.buckets() == ["{1..5: 1 4}"]
    assert show_all(index.tracker.buckets) == ["{7..7: 7}"]
    assert index.range == VLSNRange(1, 7, 6, 6)
    assert index.verify() == []
    index.flush()
    assert database.buckets() == ["{1..5: 1 4}", "{7..7: 7}"]
    assert index.verify() == []


def test_late_commit_reaches_the_stored_range() -> None:
    """A laggard that changes only the landmarks is stored by the next flush."""
    index, database = filled(5)
    index.flush()
    index.put(3, place(3), COMMIT)
    index.flush()
    assert VLSNIndex(database).range == VLSNRange(1, 5, 3, 3)


def test_failed_flush_loses_nothing() -> None:
    index, database = filled(5)

    def fail(name: str) -> None:
        if name == "put":
            raise OSError("no space")

    database.before = fail
    with pytest.raises(OSError, match="no space"):
        index.flush()
    database.before = None
    assert database.aborted == 1
    index.put(6, place(6), LN)
    index.flush()
    assert database.buckets() == ["{1..5: 1 4}", "{6..6: 6}"]
    assert index.verify() == []


def test_overlapping_flush_is_refused() -> None:
    """R-VLSN-41."""
    index, _ = filled(5)
    index.tracker.last_on_disk = 3
    with pytest.raises(JetoolError, match="target bucket overlaps previous bucket"):
        index.flush()
    index, _ = filled(5)
    index.tracker.range = VLSNRange(1, 9, -1, -1)
    with pytest.raises(JetoolError, match="must end with the range"):
        index.flush()


@pytest.mark.parametrize("flush_at", range(41))
def test_truncate_tail_everywhere(flush_at: int) -> None:
    """T-22 tail: 40 VLSNs, 8 to a file, cut at every VLSN, flushed at every VLSN."""
    for cut in range(1, 42):
        index, database = filled(40, flush_at)
        index.truncate_tail(cut, place(cut - 1) if cut > 1 else NULL_LSN)
        assert index.verify() == []
        if cut > 40:
            assert index.range == VLSNRange(1, 40, -1, -1)
            continue
        assert index.range == (VLSNRange(1, cut - 1, cut - 1, -1) if cut > 1 else EMPTY_RANGE)
        assert index.tracker.buckets == []
        assert VLSNIndex(database).range == index.range
        if cut > 1:
            assert index.lsn(cut - 1) == place(cut - 1)
            assert index.lsn(cut) == NULL_LSN
            check_lookups(index, 1)
        index.put(cut, place(cut), COMMIT)
        index.flush()
        assert index.verify() == []
        assert index.lsn(cut) == place(cut)


@pytest.mark.parametrize("flush_at", range(41))
def test_truncate_head_everywhere(flush_at: int) -> None:
    """T-22 head: at the end of every file, and inside files too."""
    for cut in range(1, 40):
        index, database = filled(40, flush_at, type_number=MATCHPOINT)
        assert index.truncate_head(cut, file_of(place(cut + 1)))
        assert index.verify() == []
        assert index.range == VLSNRange(cut + 1, 40, 40, -1)
        assert VLSNIndex(database).range == index.range
        check_lookups(index, cut + 1)
        assert not index.truncate_head(cut, file_of(place(cut + 1)))
        index.put(41, place(41), LN)
        index.flush()
        assert index.verify() == []


def check_lookups(index: VLSNIndex, first: int) -> None:
    """Every VLSN has a mapping at or before and at or after it."""
    for vlsn in range(first, index.range.last + 1):
        assert index.lte_lsn(vlsn) <= place(vlsn) <= index.gte_lsn(vlsn)
        assert index.lsn(vlsn) in (NULL_LSN, place(vlsn))


def test_truncate_tail_in_a_gap() -> None:
    """E-VLSN-5, T-19: range.last stays mapped."""
    for flush_first in (False, True):
        database = MemoryDatabase()
        index = VLSNIndex(database, BucketLimits(3, 3, 40))
        for vlsn in range(1, 17):
            index.put(vlsn, lsn(f"1/{10 * vlsn}"), LN)
        for vlsn, offset in ((20, 1020), (17, 170), (21, 1021)):
            index.put(vlsn, lsn(f"1/{offset}"), LN)
        if flush_first:
            index.flush()
        index.truncate_tail(19, lsn("1/1000"))
        assert database.buckets() == ["{1..9: 1 4 7}", "{10..16: 10 13 16}", "{18..18: 18}"]
        assert index.range == VLSNRange(1, 18, 18, -1)
        index.truncate_tail(12, lsn("1/110"))
        assert database.buckets() == ["{1..9: 1 4 7}", "{10..11: 10}"]
        assert index.verify() == []


def test_truncate_tail_refusals() -> None:
    index, _ = filled(10)
    index.put(11, place(11), COMMIT)
    index.put(12, place(12), LN)
    with pytest.raises(JetoolError, match="overwrites a commit"):
        index.truncate_tail(11, place(10))
    with pytest.raises(JetoolError, match="the LSN of VLSN 11 is needed"):
        index.truncate_tail(12, NULL_LSN)
    assert index.range == VLSNRange(1, 12, 11, 11)
    index.truncate_tail(12, place(11))
    assert index.range == VLSNRange(1, 11, 11, 11)


def test_ghost_bucket() -> None:
    """R-VLSN-53, T-20: head truncation next to a gap."""
    for flush_first in (False, True):
        database = MemoryDatabase()
        index = VLSNIndex(database, BucketLimits(5))
        for vlsn, where in ((2, "1/2"), (1, "1/1"), (3, "1/3"), (5, "2/9"), (4, "2/8"), (6, "2/10")):
            index.put(vlsn, lsn(where), MATCHPOINT)
        # JE has no bucket for 1 here, and then finds none when asked for it.
        assert show_all(index.tracker.buckets) == ["{1..1: 1}", "{2..3: 2}", "{5..6: 5}"]
        if flush_first:
            index.flush()
        assert index.truncate_head(3, 2)
        assert database.buckets() == ["ghost 4", "{5..6: 5}"]
        assert index.range == VLSNRange(4, 6, 6, -1)
        assert (index.lte_lsn(4), index.gte_lsn(4), index.lsn(4)) == (lsn("2/0"), lsn("2/9"), NULL_LSN)
        assert index.verify() == []
        forward, backward = ForwardScanner(index), BackwardScanner(index)
        assert forward.start(4) == lsn("2/0")
        assert [forward.precise(vlsn) for vlsn in (4, 5, 6)] == [NULL_LSN, lsn("2/9"), lsn("2/10")]
        assert backward.start(6) == lsn("2/10")
        assert [backward.precise(vlsn) for vlsn in (5, 4)] == [lsn("2/9"), NULL_LSN]
        # The ghost goes with the next cut.
        assert index.truncate_head(4, 2)
        assert database.buckets() == ["{5..6: 5}"]


def test_truncate_head_refusals_and_limit() -> None:
    """R-VLSN-52, T-25."""
    index, _ = filled(20)
    index.put(21, place(21), MATCHPOINT)
    index.put(22, place(22), LN)
    with pytest.raises(JetoolError, match="last matchpoint"):
        index.truncate_head(22, 3)
    assert [index.head_limit(size) for size in (0, 1, 5, 20, 21, 100)] == [20, 20, 16, 1, -1, -1]
    assert index.truncate_head(16, 2)
    assert index.head_limit(10) == -1
    empty = VLSNIndex(MemoryDatabase())
    with pytest.raises(JetoolError, match="range is empty"):
        empty.truncate_head(3, 1)
    assert empty.head_limit(0) == -1


def test_truncate_everything_from_the_head() -> None:
    index, database = filled(5, 3, type_number=MATCHPOINT)
    assert index.truncate_head(5, 7)
    assert index.range == EMPTY_RANGE
    assert database.buckets() == []
    assert index.verify() == []


def test_allocation() -> None:
    index, _ = filled(5)
    assert [index.bump(), index.bump()] == [6, 7]
    assert index.latest_allocated == 7
    index.truncate_tail(4, place(3))
    assert index.bump() == 4
    assert VLSNIndex(MemoryDatabase()).bump() == 1


def test_stats() -> None:
    index, _ = filled(40, 40)
    index.truncate_tail(20, place(19))
    index.truncate_head(8, 1)
    stats = index.stats()
    assert (stats.buckets_created, stats.head_buckets_deleted, stats.tail_buckets_deleted, stats.tracked) == (
        5,
        1,
        2,
        0,
    )


def broken(**changes: bytes | None) -> VLSNIndex:
    """A stored index of {1..8}, {9..16}, {17..20} with some records replaced or taken away."""
    _, database = filled(20, 20)
    for name, data in changes.items():
        database.change(long_key(int(name[1:])) if name != "range" else long_key(-1), data)
    return VLSNIndex(database)


def test_verify_finds_damage() -> None:
    """R-VLSN-42; T-22 checks with it after every step."""
    assert broken().verify() == []
    good = filled(20)[0].tracker.buckets[1].record()
    assert isinstance(good, VLSNBucketRecord)
    longer = encode_vlsn_bucket(good._replace(last_vlsn=18, last_lsn=make_lsn(1, 5000)))
    assert any("overlaps the one before it" in text for text in broken(v9=longer).verify())
    assert any("first stored bucket begins at 9" in text for text in broken(v1=None).verify())
    moved = encode_vlsn_bucket(good._replace(first_vlsn=10))
    assert any("a bucket is stored under another VLSN" in text for text in broken(v9=moved).verify())
    assert any("malformed bucket record" in text for text in broken(v9=b"\x01\x00").verify())
    gone = broken(v1=None, v9=None, v17=None)
    assert gone.verify() == ["the range 1..20 has no bucket"]
    with pytest.raises(DamageError, match="no bucket for VLSN 5"):
        gone.lte_lsn(5)
    for data in (b"", b"\x02\x01\x01\x01\x01"):
        with pytest.raises(DamageError, match="malformed range record"):
            broken(range=data)
    assert broken(range=encode_vlsn_range(VLSNRange(1, 25, 30, 30).record())).verify() == [
        "the last matchpoint 30 lies after the range 1..25",
        "the last transaction end 30 lies after the range 1..25",
        "the last bucket ends at 20, the range at 25",
    ]
    assert broken(v17=None).verify() == ["the last bucket ends at 16, the range at 20"]
