"""Data that is read from a map is what the general way reads; whatever is uncommon or wrong is left to that."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from zlib import adler32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.format.bytecursor import pack
from engine.format.entry_types import COMMON_LNS, TRANSACTIONAL
from engine.format.fast.header import sealed
from engine.format.fast.ln import encode_user_fields, is_user_entry, plain_data
from engine.format.lsn import NULL_LSN
from engine.format.versions import NEWEST_VERSION, VLSN_PRESENT_BIT
from engine.format.vlsn import NULL_VLSN
from tests.support.native_core import native_core

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()


# Of the maps that a test makes: they read by them.
open_handles: list[int] = []


@pytest.fixture(autouse=True)
def bound() -> Iterator[None]:
    """What an environment allows when it is open."""
    before = core.most_bytes()
    core.keep_at_most(64 << 20)
    yield
    core.keep_at_most(before)
    while open_handles:
        os.close(open_handles.pop())


def map_with(directory: Path, content: bytes, *, seen: bool = True) -> core.FileMap:
    """A map of a file, of which each chunk was read once, or none."""
    path = directory / "00000005.jdb"
    path.write_bytes(content)
    handle = os.open(path, os.O_RDONLY)
    made = core.FileMap(handle)
    open_handles.append(handle)
    for chunk in range(0, len(content) if seen else 0, 64 << 10):
        made.read(chunk, 1)
    return made


def by_twin(entry: bytes, size: int, version: int, db_id: int) -> bytes | None:
    return plain_data(entry, version, db_id) if is_user_entry(entry, size, version) else None


@settings(deadline=None)
@given(
    number=st.sampled_from(sorted(COMMON_LNS)),
    version=st.integers(VLSN_PRESENT_BIT, NEWEST_VERSION),
    bits=st.sampled_from((0, 0, 0x80, 0x40, 0x10)),
    vlsn=st.sampled_from((NULL_VLSN, 7)),
    flags=st.sampled_from((0, 0, 0x20, 0x21, 0x80, 0x04, 0x40)),
    flags2=st.sampled_from((0, 0, 1, 2, 3)),
    db_id=st.sampled_from((3, 119, 120, 70_000, -1)),
    data=st.one_of(st.none(), st.binary(max_size=20), st.sampled_from((bytes(118), bytes(130), bytes(5000)))),
    change=st.one_of(st.none(), st.none(), st.tuples(st.integers(0, 200), st.integers(0, 255), st.booleans())),
    wrong=st.sampled_from((0, 0, 0, 0, -1, 1)),
)
def test_both_read_the_same(
    tmp_path_factory: pytest.TempPathFactory, number: int, version: int, bits: int, vlsn: int, flags: int, flags2: int,
    db_id: int, data: bytes | None, change: tuple[int, int, bool] | None, wrong: int,
) -> None:  # fmt: skip
    txn = 0x500000100, 12 if number in TRANSACTIONAL else None, NULL_LSN
    rare = pack(1000) * (bool(flags2 & 1) + bool(flags2 & 2))
    body = encode_user_fields(flags, flags2, db_id, txn, rare, data, b"key")
    entry = bytearray(sealed(number, bits, 0, body, vlsn))
    if change is not None:
        at = 4 + change[0] % (len(entry) - 4)
        entry[at] = change[1]
        # Damage, or a strange entry with the right checksum.
        if change[2]:
            entry[:4] = adler32(entry[4:]).to_bytes(4, "little")
    made = map_with(tmp_path_factory.mktemp("log"), bytes(100) + entry + bytes(100))
    size = len(entry) + wrong
    there = (bytes(entry) + bytes(100))[:size]
    found = core.value_at({5: (made, version)}, 0x500000064, size, db_id)
    expected = by_twin(there, size, version, db_id)
    # Long ones are left to the twin.
    assert found == (expected if size <= 4096 else None)
    if change is None and not wrong and vlsn == NULL_VLSN and version == 17 and not bits and flags in (0, 0x20):
        assert found == (data if len(entry) <= 4096 else None)
    assert core.value_at({5: (made, version)}, 0x500000064, size, db_id + 1) is None
    made.close()


def test_entries_of_a_node(tmp_path: Path) -> None:
    """Several at once, in any order, with some that are not to be had."""
    entries = [
        sealed(36, 0, 0, encode_user_fields(0, 0, 3, (-1, None, -1), b"", b"%d" % n * 40, b"k")) for n in range(9)
    ]
    made = map_with(tmp_path, b"".join(entries))
    offsets = [sum(map(len, entries[:n])) for n in range(9)]
    lsns, sizes = [5 << 32 | offset for offset in offsets], [len(entry) for entry in entries]
    expected: list[bytes | None] = [b"%d" % n * 40 for n in range(9)]
    files = {5: (made, 17)}
    assert core.values_at(files, lsns, sizes, [8, 0, 3], 3) == [expected[8], expected[0], expected[3]]
    lsns[2], lsns[4], sizes[5], sizes[6], sizes[7] = NULL_LSN, 6 << 32, 0, 1 << 40, sizes[7] - 1
    for slot in (2, 4, 5, 6, 7):
        expected[slot] = None
    assert core.values_at(files, lsns, sizes, list(range(9)), 3) == expected
    assert core.values_at(files, lsns, sizes, list(range(9)), 4) == [None] * 9
    assert core.values_at({}, lsns, sizes, [0], 3) == [None]
    assert core.values_at({5: (b"", 17)}, lsns, sizes, [0], 3) == [None]  # type: ignore[dict-item]
    for slot in (-1, 9):
        with pytest.raises(IndexError):
            core.values_at(files, lsns, sizes, [0, slot], 3)
    with pytest.raises(TypeError):
        core.values_at(files, lsns, sizes[1:], [0], 3)
    made.close()
    assert core.values_at(files, lsns, sizes, [0], 3) == [None]


@settings(deadline=None)
@given(
    gaps=st.lists(st.sampled_from((0, 0, 1, 100, 4096, 4097, 70_000, 300_000)), min_size=1, max_size=40),
    lengths=st.lists(st.sampled_from((0, 5, 300, 4000, 5000)), min_size=40, max_size=40),
    order=st.randoms(use_true_random=False),
    bad=st.sets(st.integers(0, 39), max_size=4),
    seen=st.booleans(),
    most=st.sampled_from((0, 64 << 10, 64 << 20)),
)
def test_entries_that_no_map_has_are_read_from_the_file(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int], lengths: list[int], order: Random, bad: set[int],
    seen: bool, most: int,
) -> None:  # fmt: skip
    """Neighbours, distant ones, damaged ones, at the limit of the maps and below it: always what the twin reads."""
    core.keep_at_most(most)
    content, lsns, sizes = b"", [], []
    for number, gap in enumerate(gaps):
        data = b"%02d" % number + bytes(lengths[number])
        entry = bytearray(sealed(36, 0, 0, encode_user_fields(0, 0, 3, (-1, None, -1), b"", data, b"k")))
        entry[20] ^= number in bad
        content += bytes(gap)
        lsns.append(5 << 32 | len(content))
        sizes.append(len(entry))
        content += entry
    made = map_with(tmp_path_factory.mktemp("log"), content, seen=seen)
    chosen = list(range(len(lsns)))
    order.shuffle(chosen)
    places = [(lsns[at] & 0xFFFFFFFF, sizes[at]) for at in chosen]
    expected = [by_twin(content[at : at + size], size, 17, 3) if size <= 4096 else None for at, size in places]
    ahead, files = core.ReadAhead(), {5: (made, 17)}
    asked = [lsns[at] for at in chosen], [sizes[at] for at in chosen]
    assert ahead.begin(files, *asked)
    for _ in range(2):
        assert core.values_at(files, lsns, sizes, chosen, 3) == expected
        assert ahead.finish(3) == expected
        # What maps have by now is not read.
        assert ahead.begin(files, *asked)
    made.close()
    assert core.values_at(files, lsns, sizes, chosen, 3) == [None] * len(chosen)
    assert ahead.finish(3) == [None] * len(chosen)


def test_a_file_that_grows_and_one_that_is_closed(tmp_path: Path) -> None:
    """What was appended after the map was made is in the file; a closed map leads to no file."""
    entry = sealed(36, 0, 0, encode_user_fields(0, 0, 3, (-1, None, -1), b"", b"data", b"k"))
    made = map_with(tmp_path, bytes(1000))
    with (tmp_path / "00000005.jdb").open("ab") as file:
        file.write(entry + entry[:-1])
    lsns, sizes, files = [5 << 32 | 1000, 5 << 32 | 1000 + len(entry)], [len(entry)] * 2, {5: (made, 17)}
    assert core.values_at(files, lsns, sizes, [0, 1], 3) == [b"data", None]
    made.close()
    assert core.values_at(files, lsns, sizes, [0, 1], 3) == [None, None]


def test_a_file_that_shrinks_and_a_chunk_that_nobody_has_read(tmp_path: Path) -> None:
    entry = sealed(36, 0, 0, encode_user_fields(0, 0, 3, (-1, None, -1), b"", b"data", b"k"))
    path = tmp_path / "00000005.jdb"
    path.write_bytes(bytes(70_000) + entry)
    handle = os.open(path, os.O_RDONLY)
    made = core.FileMap(handle)
    lsn, files = 5 << 32 | 70_000, {5: (made, 17)}
    # The first read is the file's, so that nobody waits for the disk here.
    assert core.value_at(files, lsn, len(entry), 3) is None
    made.read(70_000, 4)
    assert core.value_at(files, lsn, len(entry), 3) == b"data"
    os.truncate(path, 1000)
    assert core.value_at(files, lsn, len(entry), 3) is None
    assert core.values_at(files, [lsn], [len(entry)], [0], 3) == [None]
    os.close(handle)
    made.close()


def test_reading_ahead_step_by_step(tmp_path: Path) -> None:
    """Batches one after the other, batches that nobody takes, and whatever is not to be had."""
    entries = [
        sealed(36, 0, 0, encode_user_fields(0, 0, 3, (-1, None, -1), b"", b"%d" % n * 40, b"k")) for n in range(9)
    ]
    made = map_with(tmp_path, b"".join(entries), seen=False)
    offsets = [sum(map(len, entries[:n])) for n in range(9)]
    lsns, sizes = [5 << 32 | offset for offset in offsets], [len(entry) for entry in entries]
    expected: list[bytes | None] = [b"%d" % n * 40 for n in range(9)]
    files, ahead = {5: (made, 17)}, core.ReadAhead()
    assert ahead.finish(3) == []
    for count in range(10):
        assert ahead.begin(files, lsns[:count], sizes[:count])
        assert ahead.finish(3) == expected[:count]
        assert ahead.finish(3) == []
    assert ahead.begin(files, lsns, sizes)
    assert ahead.begin(files, lsns[::-1], sizes[::-1])
    assert ahead.finish(4) == [None] * 9
    lsns[2], lsns[4], sizes[5], sizes[6], sizes[7] = NULL_LSN, 6 << 32, 0, 1 << 40, sizes[7] - 1
    assert ahead.begin(files, lsns, sizes)
    assert ahead.finish(3) == [None if n in (2, 4, 5, 6, 7) else expected[n] for n in range(9)]
    assert ahead.begin({}, lsns, sizes)
    assert ahead.finish(3) == [None] * 9
    for arguments in ((files, lsns, sizes[1:]), (files, lsns, tuple(sizes)), (None, lsns, sizes), (files, lsns)):
        with pytest.raises((TypeError, ValueError)):
            ahead.begin(*arguments)
    with pytest.raises(TypeError):
        ahead.finish("3")  # type: ignore[arg-type]
    # Objects end while their threads read, and before they have begun.
    for _ in range(50):
        core.ReadAhead()
        left = core.ReadAhead()
        assert left.begin(files, lsns, sizes)
    made.close()


def test_a_batch_beyond_its_memory_is_left_to_the_twin(tmp_path: Path) -> None:
    data = bytes(4000)
    entry = sealed(36, 0, 0, encode_user_fields(0, 0, 3, (-1, None, -1), b"", data, b"k"))
    made = map_with(tmp_path, (entry + bytes(5000)) * 1500, seen=False)
    lsns = [5 << 32 | at * (len(entry) + 5000) for at in range(1500)]
    ahead = core.ReadAhead()
    assert ahead.begin({5: (made, 17)}, lsns, [len(entry)] * 1500)
    found = ahead.finish(3)
    read = (4 << 20) // len(entry)
    assert found == [data] * read + [None] * (1500 - read)
    made.close()


def test_a_forked_process_reads_nothing_ahead(tmp_path: Path) -> None:
    entry = sealed(36, 0, 0, encode_user_fields(0, 0, 3, (-1, None, -1), b"", b"data", b"k"))
    made = map_with(tmp_path, entry, seen=False)
    files, ahead = {5: (made, 17)}, core.ReadAhead()
    assert ahead.begin(files, [5 << 32], [len(entry)])
    child = os.fork()
    if child == 0:
        try:
            is_right = ahead.finish(3) in ([b"data"], [None]) and not ahead.begin(files, [5 << 32], [len(entry)])
            is_right = is_right and ahead.finish(3) == []
            del ahead
            os._exit(0 if is_right else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert ahead.finish(3) == [b"data"]
    made.close()


def test_threads_are_bounded_and_given_back(tmp_path: Path) -> None:
    entry = sealed(36, 0, 0, encode_user_fields(0, 0, 3, (-1, None, -1), b"", b"data", b"k"))
    made = map_with(tmp_path, entry, seen=False)
    files = {5: (made, 17)}
    # Walks of other tests may not have ended.
    gc.collect()
    free = set()
    for _ in range(3):
        readers = [core.ReadAhead() for _ in range(30)]
        begun = [reader.begin(files, [5 << 32], [len(entry)]) for reader in readers]
        count = begun.count(True)
        assert begun == [True] * count + [False] * (30 - count)
        assert [reader.finish(3) for reader in readers] == [[b"data"]] * count + [[]] * (30 - count)
        free.add(count)
        del readers
    assert len(free) == 1
    assert 0 < free.pop() <= 16
    made.close()
