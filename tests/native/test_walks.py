"""The walks in C and those of ``loops`` agree on intact and on damaged buffers."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import adler32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.format.entry_types import COMMIT
from engine.format.fast.header import PLAIN_HEADER, header_lengths, steps, vlsn_bits
from engine.format.fast.loops import (
    COUNT,
    KEEP,
    LOOK,
    STOP,
    TALLY,
    Sizes,
    check_plain,
    follow_links,
    no_tallies,
    pick_open,
    sift,
)
from engine.format.fast.walks import NativeWalk, Walk, walk_of
from engine.format.header import EntryHeader, decode_header, encode_entry
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.log.check import STOP_AT_FIRST
from tests.support.logs.golden_logs import GOLDEN
from tests.support.native_core import native_core
from tests.support.tools import needs

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()

LOGS = {
    6: GOLDEN / "je-6",
    14: GOLDEN / "je-14",
    17: GOLDEN / "je-17" / "ha-rollback",
}


def files(version: int) -> list[bytes]:
    found = sorted(Path(LOGS[version]).rglob("*.jdb"))
    return [path.read_bytes() for path in found]


def boundaries(data: bytes, version: int) -> list[int]:
    places, pos = [], 0
    while pos + PLAIN_HEADER.size <= len(data):
        places.append(pos)
        header = decode_header(data, pos, version)
        pos += header_lengths(version)[header.flags << 8] + header.item_size
    return places


CASES = [(version, number) for version, path in LOGS.items() if path.exists() for number in range(len(files(version)))]


def walked(walk: Walk | NativeWalk, data: bytes, start: tuple[int, int, int], with_bytes: bool) -> tuple[object, ...]:
    pos, prev, last = start
    stopped = walk.check(data, pos, 0, prev, last)
    return stopped, dict(walk.take(with_bytes)), list(walk.take(with_bytes))


def agree(version: int, data: bytes, pos: int, prev: int, last: int) -> bool:
    """Both walks stop at the same place for the same reason, and both loops follow the same links."""
    one, other = Walk(version), NativeWalk(version, core.walk)
    arguments = data, pos, len(data), 0, prev, last, steps(version)
    # The second round meets pairs that are known.
    return core.follow(*arguments) == follow_links(*arguments) and all(
        walked(one, data, (pos, prev, last), with_bytes) == walked(other, data, (pos, prev, last), with_bytes)
        for with_bytes in (True, False)
    )


def sifted(
    walk: Callable[..., int], data: bytes, pos: int, until: int, actions: list[int], version: int
) -> tuple[int, list[int], list[int]]:
    found: list[int] = []
    tallies = no_tallies()
    return walk(data, pos, until, actions, header_lengths(version), found, tallies), found, list(tallies)


@given(st.data())
def test_entries_are_picked_by_type_and_flags(source: st.DataObject) -> None:
    """Both loops keep, count and stop at the same entries: those that a walk by the codecs names."""
    version, number = source.draw(st.sampled_from(CASES))
    whole = files(version)[number]
    places = boundaries(whole, version)
    first, last = sorted(source.draw(st.tuples(*[st.integers(0, len(places) - 1)] * 2)))
    data = whole[: source.draw(st.sampled_from((len(whole), places[last] + 3, places[last] + 20)))]
    by_type = source.draw(st.lists(st.sampled_from((0, KEEP, COUNT, KEEP | COUNT, KEEP | STOP)), min_size=60))
    actions = [by_type[pair & 0xFF] if pair & 0xFF < len(by_type) else COUNT for pair in range(0x10000)]
    expected, counted, stopped = [], [0] * (256 * TALLY), places[first]
    for place in places[first:last]:
        header = decode_header(data, place, version)
        total = header_lengths(version)[header.flags << 8] + header.item_size
        action = actions[header.type_number]
        expected += [place] if action & KEEP else []
        if action & COUNT:
            at = header.type_number * TALLY
            counted[at : at + TALLY] = [counted[at] + 1, counted[at + 1] + total, max(counted[at + 2], total)]
        stopped = place + total
        if action & STOP:
            break
    for walk in (sift, core.sift):
        assert sifted(walk, data, places[first], places[last], actions, version) == (stopped, expected, counted)


@given(st.data())
def test_lns_of_open_transactions_are_picked(source: st.DataObject) -> None:
    """Also of damaged and cut logs, and where the layout is not the one that is said."""
    version, number = source.draw(st.sampled_from(CASES))
    data = bytearray(files(version)[number][:60_000])
    for _ in range(source.draw(st.integers(0, 20))):
        data[source.draw(st.integers(0, len(data) - 1))] = source.draw(st.integers(0, 255))
    cut = bytes(data[: source.draw(st.integers(0, len(data)))])
    by_type = source.draw(st.lists(st.sampled_from((0, LOOK, LOOK, KEEP)), min_size=256, max_size=256))
    bits = source.draw(st.sampled_from((0, 2, 8)))
    chunk = st.lists(st.sampled_from((NULL_LSN, 0, 1 << 40)), min_size=1 << bits, max_size=1 << bits)
    chunks = {at: array("q", one) for at, one in source.draw(st.dictionaries(st.integers(-3, 40), chunk)).items()}
    arguments = cut, by_type * 256, header_lengths(version), source.draw(st.sampled_from((1, 2))), 0x20, chunks, bits
    found: list[int] = []
    others: list[int] = []
    assert pick_open(*arguments, found) == core.pick_open(*arguments, others)
    assert found == others


def test_the_native_build_walks_in_c() -> None:
    needs("native build")
    assert isinstance(walk_of(17), NativeWalk)


@pytest.mark.parametrize(("version", "number"), CASES)
def test_intact_logs(version: int, number: int) -> None:
    """From every third entry on, as the bulk check goes: on after whatever stops the walk."""
    data = files(version)[number]
    places = boundaries(data, version)
    for before, place in list(zip([0, *places], places, strict=False))[::3]:
        for last in (0, STOP_AT_FIRST):
            assert agree(version, data, place, before, last)


@given(st.data())
def test_damaged_and_cut_logs(source: st.DataObject) -> None:
    """Whatever was done to a log, both walks stop at the same place for the same reason (``agree``)."""
    version, number = source.draw(st.sampled_from(CASES))
    data = bytearray(files(version)[number])
    places = boundaries(bytes(data), version)
    at = source.draw(st.integers(0, len(places) - 1))
    for _ in range(source.draw(st.integers(0, 3))):
        data[source.draw(st.integers(places[at], min(len(data), places[at] + 4000) - 1))] = source.draw(
            st.integers(0, 255)
        )
    cut = bytes(data[: source.draw(st.integers(places[at], min(len(data), places[at] + 6000)))])
    assert agree(version, cut, places[at], places[max(at - 1, 0)], source.draw(st.sampled_from((0, -1, STOP_AT_FIRST))))


def test_vlsns_are_signed() -> None:
    """A VLSN with its highest bit set is below all others, so the walk stops there."""
    data = bytearray(files(17)[0])
    stream = [place for place in boundaries(bytes(data), 17) if decode_header(bytes(data), place, 17).flags & 0x20]
    for byte in (0x7F, 0x80, 0xFF):
        data[stream[3] + 21] = byte
        assert agree(17, bytes(data), stream[2], 0, 0)
        arguments = bytes(data), stream[2], len(data), 0, decode_header(bytes(data), stream[2], 17).prev_offset, 0
        assert core.follow(*arguments, steps(17))[3] == (1 if byte >= 0x80 else follow_links(*arguments, steps(17))[3])


def test_both_walks_count_the_same() -> None:
    data = files(17)[0]
    sizes = Sizes(17)
    stopped = check_plain(data, 0, 0, 0, STOP_AT_FIRST, vlsn_bits(17), sizes)
    walk = NativeWalk(17, core.walk)
    assert walk.check(data, 0, 0, 0, STOP_AT_FIRST) == stopped
    counted = {pair: tally[0] for pair, tally in walk.take(True)}
    assert counted == {pair: len(found) for pair, found in sizes.by_pair.items() if found}
    assert sum(counted.values()) > 10


@pytest.mark.parametrize("length", [*range(70), 4079, 4080, 4081, 4096, 4097, 8191, 100_000])
@pytest.mark.parametrize("fill", [b"\0", b"\xff", b"\1\xfe\x80"])
def test_the_sum_is_that_of_zlib(length: int, fill: bytes) -> None:
    """Every length up to some blocks of 16 bytes, and those at which the sums are made smaller; the largest bytes."""
    body = (fill * length)[:length]
    entry = encode_entry(
        EntryHeader(checksum=0, type_number=COMMIT, flags=0, prev_offset=0, item_size=length, vlsn=NULL_VLSN), body, 17
    )
    assert int.from_bytes(entry[:4], "little") == adler32(entry[4:])
    assert NativeWalk(17, core.walk).check(entry, 0, 500, 0, 0) == (len(entry), 500, 0)
    for at in {*range(4, 14), len(entry) - 1, len(entry) // 2}:
        damaged = bytearray(entry)
        damaged[at] ^= 0x10
        assert NativeWalk(17, core.walk).check(bytes(damaged), 0, 500, 0, 0) == (0, 0, 0)


def test_what_it_cannot_take_is_refused() -> None:
    data, numbers = b"\0" * 40, no_tallies()
    with pytest.raises(TypeError):
        core.walk(bytearray(data), 0, 0, 0, 0, 0, numbers, numbers)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        core.walk(data, 0, 0, 0, 0, 0, array("i", [0]), numbers)
    with pytest.raises(TypeError):
        core.follow(data, 0, len(data), 0, 0, 0, [1])
    with pytest.raises(OverflowError):
        core.sift(data, 1 << 70, len(data), [0] * 0x10000, header_lengths(17), [], numbers)
    with pytest.raises(TypeError):
        core.pick_open(data, [0], header_lengths(17), 2, 0x20, {}, 8, [])
    with pytest.raises(TypeError):
        core.pick_open(data, [0] * 0x10000, header_lengths(17), 2, 0x20, {}, 64, [])
    entry = PLAIN_HEADER.pack(0, COMMIT, 0, 4) + b"\0\0\0\0"
    with pytest.raises(TypeError):
        core.pick_open(entry, [LOOK] * 0x10000, header_lengths(17), 2, 0x20, {0: array("i", [0])}, 0, [])
    # Places outside of the buffer are left alone.
    assert core.walk(data, 50, 0, 0, 0, 0, numbers, numbers)[0] == 50
    assert core.follow(data, -1, len(data) + 90, 0, 0, 0, header_lengths(17))[0] == -1
