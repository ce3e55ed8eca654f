"""Finding the next good entry after damage (engine.log.window): each way, several in a row, bounded work."""

from __future__ import annotations

import random
import time

import pytest

from engine.format.header import EntryHeader, encode_entry
from engine.log.entry import Damage
from engine.log.window import SearchBudget
from tests.support.logs.golden_logs import LogMaker, check, damages, entries, golden_files, open_bytes, read

ZERO_PAGE = 4096


def log_of(texts: int, version: int = 17) -> LogMaker:
    log = LogMaker(version)
    for i in range(texts):
        log.trace(f"message number {i} " + "." * (i % 40))
    return log


def broken(log: LogMaker, *changes: tuple[int, bytes]) -> bytes:
    data = bytearray(log.data)
    for at, new in changes:
        data[at : at + len(new)] = new
    return bytes(data)


def facts(data: bytes, **options: object) -> list[tuple[int, int, str, str]]:
    """Begin, length, reason and way found of all damage, the same by both ways to read."""
    found = damages(read(data, **options))
    assert [seen.damage for seen in check(data, **options).damages] == found
    return [(d.lsn, d.length, d.reason, d.found_by) for d in found]


@pytest.mark.parametrize("version", [6, 7, 17, 26])
def test_size_chain(version: int) -> None:
    log = log_of(9, version)
    data = broken(log, (log.offsets[4] + 20, b"\xff\xff"))
    assert facts(data) == [(log.offsets[4], log.size_of(4), "checksum", "size chain")]
    assert len(entries(read(data))) == 9


def test_prev_offset_chain() -> None:
    log = log_of(9)
    for change, reason in ((b"\0\0\0\0", "checksum"), (b"\xff\xff\xff\xff", "size"), (b"\xff\xff\xff\x7f", "cut")):
        data = broken(log, (log.offsets[4] + 10, change))
        assert facts(data) == [(log.offsets[4], log.size_of(4), reason, "prev-offset chain")]


def test_type_destroyed() -> None:
    log = log_of(9)
    data = broken(log, (log.offsets[4] + 4, b"\0"))
    assert facts(data) == [(log.offsets[4], log.size_of(4), "type", "prev-offset chain")]


def test_several_bad_entries_in_a_row() -> None:
    log = log_of(20)
    a, b, c, d = log.offsets[4:8]
    # Sizes are left alone in the first case; each bad entry is then a stretch of its own.
    data = broken(log, *((at + 16, b"\xff") for at in (a, b, c)))
    assert facts(data) == [(a, d - a, "checksum", "search")]
    data = broken(log, *((at + 10, b"\xff\xff\xff\xff") for at in (a, b, c)))
    assert facts(data) == [(a, d - a, "size", "search")]


def test_zeroed_page() -> None:
    log = log_of(400)
    data = broken(log, (ZERO_PAGE, bytes(ZERO_PAGE)))
    first = max(at for at in log.offsets if at < ZERO_PAGE)
    behind = min(at for at in log.offsets if at >= 2 * ZERO_PAGE)
    # The page begins inside the header of an entry; the first whole entry after it is the next good one.
    assert facts(data) == [(first, behind - first, "type", "search")]
    assert len(entries(read(data))) == sum(at < first or at >= behind for at in log.offsets)


@pytest.mark.parametrize(
    ("change", "how"), [((4, b"\0"), "size chain"), ((10, b"\xff" * 4), "size chain"), ((0, bytes(38)), "size chain")]
)
def test_file_header(change: tuple[int, bytes], how: str) -> None:
    log = log_of(5)
    assert facts(broken(log, change), version=17) == [(0, 38, "header", how)]


def test_file_header_and_first_entry() -> None:
    log = log_of(5)
    assert facts(broken(log, (0, bytes(50))), version=17) == [(0, log.offsets[2], "header", "search")]


@pytest.mark.parametrize("page", range(4))
def test_beginning_of_a_file_lost_in_zeros(page: int) -> None:
    file = next(file for file in golden_files("je-17/txn-crash"))
    begin = 1 << 8 << 2 * page
    data = bytes(begin) + file.data[begin:]
    items = read(data, version=17)
    assert isinstance(items[0], Damage)
    assert items[0].lsn == 0
    assert begin <= items[0].length < begin + 14_000
    assert len(damages(items)) == (begin < len(file.data))


def test_bytes_inserted_between_entries() -> None:
    log = log_of(30)
    at = log.offsets[10]
    data = log.data[:at] + b"inserted" + log.data[at:]
    found = damages(read(data))
    assert (found[0].lsn, found[0].reason) == (at, "type")
    # Everything after is displaced by the same eight bytes: one broken link, not nineteen.
    assert [(d.length, d.reason) for d in found[1:]] == [(0, "prev-offset")]
    assert int(found[1].expected, 16) - int(found[1].found, 16) == len(b"inserted")
    assert len(entries(read(data))) >= 30


def test_entry_lost_between_others() -> None:
    log = log_of(30)
    data = log.data[: log.offsets[10]] + log.data[log.offsets[11] :]
    found = damages(read(data))
    assert [(d.lsn, d.length, d.reason) for d in found] == [(log.offsets[10], 0, "prev-offset")]
    assert (found[0].expected, found[0].found) == (f"0x{log.offsets[9]:x}", f"0x{log.offsets[10]:x}")
    assert len(entries(read(data))) == 30
    # Two losses are two findings.
    twice = data[: log.offsets[20]] + data[log.offsets[20] + log.size_of(21) :]
    assert len(damages(read(twice))) >= 2


def test_entry_repeated() -> None:
    log = log_of(10)
    at, end = log.offsets[5], log.offsets[6]
    data = log.data[:end] + log.data[at:end] + log.data[end:]
    found = damages(read(data))
    assert found[0].lsn == end
    assert {d.reason for d in found} == {"prev-offset"}


def test_a_copy_of_an_entry_in_the_data_of_a_bad_one_is_no_entry() -> None:
    log = LogMaker()
    log.trace("copied")
    copy = log.data[log.offsets[1] :]
    bad = log.add(24, b"\x01\x50" + copy + bytes(60))
    log.trace("behind")
    data = broken(log, (bad, b"\0\0\0\0"), (bad + 10, b"\xff\xff\xff\xff"))
    assert facts(data) == [(bad, log.size_of(2), "size", "prev-offset chain")]


def test_erased_entries_need_a_witness() -> None:
    # Type 43 has no checksum: any bytes that look like such a header would do (R-LOG-31 does not check it).
    log = LogMaker()
    bad = log.trace()
    rubbish = bad.to_bytes(4, "little") + b"+\0" + bad.to_bytes(4, "little") + b"\x10\0\0\0" + bytes(20)
    log.add(24, rubbish + bytes(100))
    behind = log.trace("behind")
    data = broken(log, (bad, bytes(log.size_of(1))), (log.offsets[2] + 4, b"\0"))
    assert facts(data) == [(bad, behind - bad, "type", "search")]


def test_erased_entries_with_a_witness() -> None:
    log = LogMaker()
    bad = log.trace()
    worse = log.trace()
    erased = [log.add(43, bytes(30)) for _ in range(5)]
    log.trace("witness")
    data = broken(log, (bad + 4, b"\0"), (worse + 4, b"\0"), *((at, b"old.") for at in erased))
    assert facts(data) == [(bad, erased[0] - bad, "type", "search")]
    assert check(data).erased == tuple(erased)


def test_damage_at_the_edge_of_a_searched_piece() -> None:
    # Hits that straddle the pieces in which the search goes on, 4 kB and twice as much each time.
    log = LogMaker()
    bad = log.trace()
    for pad in range(1, 40, 3):
        log = LogMaker()
        bad = log.trace()
        log.add(24, bytes((4 << 10) - pad))
        log.trace("behind")
        data = bytearray(log.data)
        data[bad + 4] = data[log.offsets[2] + 4] = 0
        assert facts(bytes(data))[0] == (bad, log.offsets[3] - bad, "type", "search"), pad


@pytest.mark.parametrize("window", [64, 1024])
def test_small_windows_find_the_same(window: int) -> None:
    log = log_of(300)
    data = broken(log, (1000, bytes(300)), (5000, b"\xff" * 9), (9000, b"\0"))
    assert list(open_bytes(data, window=window).entries()) == read(data)


def test_commits_behind_damage_are_counted() -> None:
    # T-57: whether damage is a torn tail or lost commits is decided by what follows it.
    log = LogMaker()
    log.commit()
    first = log.trace()
    log.commit()
    second = log.trace()
    log.commit()
    log.commit()
    found = check(broken(log, (first + 15, b"\xff"), (second + 15, b"\xff")))
    assert [(s.damage.lsn, s.after.commits) for s in found.damages] == [(first, 3), (second, 2)]


# Bounded work.


def test_budget_ends() -> None:
    budget = SearchBudget(1000)
    assert budget.spend(16 << 20)
    assert not budget.is_used_up()
    assert not budget.spend(0)
    assert budget.is_used_up()
    large = SearchBudget(1 << 30)
    large.charge(4 << 30)
    assert not large.is_used_up()
    large.charge(1)
    assert large.is_used_up()


def timed(data: bytes) -> float:
    begin = time.process_time()
    check(data, version=17)
    return time.process_time() - begin


@pytest.mark.parametrize("kind", ["zeros", "random", "candidates", "links", "ones"])
def test_megabytes_of_rubbish_take_seconds_at_most(kind: str) -> None:
    size = 4 << 20
    log = log_of(3)
    rubbish = {
        "zeros": bytes(size),
        "random": random.Random(1).randbytes(size),
        # Every fourth byte begins something like a header with a possible size.
        "candidates": b"\x01\0\x01\0" * (size // 4),
        "links": len(log.data).to_bytes(4, "little") * (size // 4),
        "ones": b"\x01" * size,
    }[kind]
    assert timed(log.data + rubbish) < 4
    assert timed(rubbish) < 4


def crafted(type_number: int, claim: int) -> bytes:
    """Good entries and bad ones in turn; each bad one claims the megabyte after it, and ``claim`` bytes more."""
    size = 1 << 20
    data = bytearray(LogMaker().data)
    last_good = 0
    while len(data) < size:
        bad = len(data)
        data += b"bad!" + bytes((type_number, 0)) + last_good.to_bytes(4, "little")
        data += ((size - bad + claim) & 0xFFFFFFFF).to_bytes(4, "little")
        last_good = len(data)
        data += encode_entry(EntryHeader(0, 24, 0, bad, 0, -1), b"\x01\0", 17)
    return bytes(data + bytes(size))


def test_entries_that_all_claim_the_rest_of_the_file() -> None:
    # Each bad entry would be summed to the end of the file; the pass gives up on a file that is made like that.
    data = crafted(24, 0)
    assert timed(data) < 4
    last = check(data).damages[-1].damage
    assert (last.lsn + last.length, last.has_next) == (len(data), False)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("type_number", "claim"), [(24, 3 << 20), (24, 1 << 31), (0, 0), (99, 0)])
def test_what_bad_headers_claim_costs_nothing(type_number: int, claim: int) -> None:
    # Cut, negative, unknown: nothing is summed for them, and every good entry is found.
    begin = time.process_time()
    found = check(crafted(type_number, claim))
    assert time.process_time() - begin < 8
    assert found.entries == len(found.damages)


def test_a_badly_damaged_file_is_not_given_up() -> None:
    # Every third entry: far more damage than a real file has, and still every good entry is found.
    log = log_of(9_000)
    changes = [(at + 16, b"\xff") for at in log.offsets[1::3]]
    items = read(broken(log, *changes))
    assert (len(damages(items)), len(entries(items))) == (3_000, 6_001)
    items = read(broken(log, *((at + 4, b"\0") for at in log.offsets[1::3])))
    assert (len(damages(items)), len(entries(items))) == (3_000, 6_001)


def test_many_pairs_of_bad_entries_cost_what_lies_between() -> None:
    # Each pair needs a search; a search that went to the end of the file each time would be quadratic.
    log = LogMaker()
    for _ in range(6_000):
        log.add(24, b"\x01\x30" + b"." * 0x30)
    log.add(24, bytes(3 << 20))
    data = bytearray(log.data)
    for i in range(1, 6_000, 3):
        data[log.offsets[i] + 4] = data[log.offsets[i + 1] + 4] = 0
    assert timed(bytes(data)) < 4
    assert len(check(bytes(data)).damages) == 2_000
