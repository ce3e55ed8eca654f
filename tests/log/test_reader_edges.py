"""Edges of one file: its beginning, its end, crafted entries, VLSNs.

Rules R-LOG-30, 31, 40, 41, 43 and je-log-format.md 3.4 to 3.8; scenarios T-54 (empty and short files), T-55 (any buffer
size gives the same end), T-59 (files cut to their header),
T-60, T-64 (invisible entries), T-70.
"""

from __future__ import annotations

from typing import Any
from zlib import adler32

import pytest

from engine.errors import NotFoundError, UnsupportedError
from engine.format.entry.rollback import RollbackStart, encode_rollback_start
from engine.format.header import HEADER
from engine.log.check import VLSNBreak, check_file
from engine.log.entry import Damage, LogEntry
from engine.log.files import LogFile
from engine.log.reader import FileReader
from engine.storage.memory import MemoryStorage
from tests.support.logs.golden_logs import VERSIONS, LogMaker, check, damages, entries, golden_files, open_bytes, read

INVISIBLE = 0x10


def only_damage(data: bytes, **options: object) -> Damage:
    """The one stretch of damage that both ways to read report."""
    found = damages(read(data, **options))
    assert [seen.damage for seen in check(data, **options).damages] == found
    assert len(found) == 1
    return found[0]


# The end of the log: R-LOG-31 and je-log-format.md 3.8.


@pytest.mark.parametrize("version", VERSIONS)
def test_whole_file(version: int) -> None:
    log = LogMaker(version)
    for i in range(5):
        log.trace(f"message {i}")
    found = check(log.data)
    assert (found.version, found.entries, found.end_offset, found.damages) == (version, 6, len(log.data), ())
    assert [item.lsn for item in read(log.data)] == log.offsets


@pytest.mark.parametrize("version", [6, 7, 8, 17, 26])
def test_cut_at_every_byte(version: int) -> None:
    log = LogMaker(version)
    log.trace()
    log.commit(1)
    log.trace("last")
    ends = [*log.offsets, len(log.data)]
    for length in range(1, len(log.data)):
        items = read(log.data[:length], version=version)
        whole = [end for end in ends if end <= length]
        assert [entry.lsn for entry in entries(items)] == whole[:-1]
        if length in ends:
            assert not damages(items)
            continue
        damage = only_damage(log.data[:length], version=version)
        assert (damage.lsn, damage.length, damage.is_tail, damage.has_next) == (
            whole[-1],
            length - whole[-1],
            True,
            False,
        )
        assert damage.reason == ("cut" if length > 38 else "short")
        assert damage.found_by == "end of log"


@pytest.mark.parametrize("junk", [bytes(4096), b"\xff" * 700, bytes(range(256)) * 3, b"\x2b" * 13])
def test_junk_behind_the_last_entry(junk: bytes) -> None:
    log = LogMaker()
    log.trace()
    damage = only_damage(log.data + junk)
    assert (damage.lsn, damage.length, damage.is_tail) == (len(log.data), len(junk), True)
    assert check(log.data + junk).end_offset == len(log.data)


def test_the_same_tail_in_an_older_file_is_corruption() -> None:
    log = LogMaker()
    log.trace()
    damage = only_damage(log.data + bytes(100), is_last=False)
    assert (damage.is_tail, damage.found_by, damage.has_next) == (False, "next file", False)


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_types_end_the_log(version: int) -> None:
    highest = {6: 27, 7: 30, 8: 36, 9: 37, 10: 37, 14: 39, 15: 40, 16: 42, 25: 45, 26: 45}
    highest |= dict.fromkeys((11, 12, 13), 38) | dict.fromkeys(range(17, 25), 43)
    for number in (0, highest[version], highest[version] + 1, 200, 255):
        log = LogMaker(version)
        log.add(number, b"12345")
        found = damages(read(log.data))
        assert bool(found) == (number != highest[version]), number
        if found:
            assert (found[0].lsn, found[0].reason, found[0].found) == (38, "type", str(number))


def test_version_6_repeats_itself_in_every_flags_byte() -> None:
    log = LogMaker(6)
    log.trace()
    log.version = 7
    at = log.trace("flags say nothing of version 6")
    damage = only_damage(log.data)
    assert (damage.lsn, damage.reason, damage.expected, damage.found) == (at, "type", "version 6 in the flags", "0")


# Beginnings: R-LOG-30.


def test_empty_last_file_is_quiet() -> None:
    assert read(b"", is_last=True) == []
    found = check(b"", is_last=True)
    assert (found.entries, found.end_offset, found.damages, found.header) == (0, 0, (), None)


def test_empty_older_file_is_damage() -> None:
    # Nothing else would tell that a file in the middle was cut to nothing.
    damage = only_damage(b"", number=3, is_last=False)
    assert (damage.lsn, damage.length, damage.reason) == (3 << 32, 0, "short")
    assert (damage.expected, damage.found, damage.is_tail) == ("38 bytes", "0 bytes", False)


@pytest.mark.parametrize("is_last", [True, False])
def test_header_and_nothing_else(is_last: bool) -> None:
    items = read(LogMaker().data, is_last=is_last)
    assert [type(item) for item in items] == [LogEntry]


@pytest.mark.parametrize("length", [1, 13, 14, 21, 22, 37])
def test_shorter_than_a_header(length: int) -> None:
    damage = only_damage(LogMaker().data[:length])
    assert (damage.reason, damage.length, damage.is_tail) == ("short", length, True)
    assert not only_damage(LogMaker().data[:length], is_last=False).is_tail


def test_bad_header_with_nothing_behind_it_is_a_tail() -> None:
    assert only_damage(bytes(38)).is_tail


def test_bad_header_with_bytes_behind_it_is_no_tail() -> None:
    # JE sets aside a bad header that stands alone, but refuses to open one with data (R-LOG-30).
    for data in (bytes(39), bytes(4096), b"\xa5" * 5000):
        damage = only_damage(data)
        assert (damage.reason, damage.length, damage.is_tail) == ("header", len(data), False)


def test_wrong_file_number() -> None:
    log = LogMaker(number=4)
    log.trace()
    items = read(log.data, number=5)
    assert len(entries(items)) == 2
    damage = only_damage(log.data, number=5)
    assert (damage.reason, damage.expected, damage.found, damage.length) == ("file-number", "0x5", "0x4", 0)


@pytest.mark.parametrize("version", [27, 0, -1, 1 << 30])
def test_unsupported_version(version: int) -> None:
    log = LogMaker(17)
    body = log.data[14:34] + version.to_bytes(4, "little", signed=True)
    whole = LogMaker(17)
    whole.data, whole.offsets = b"", []
    whole.add(25, body)
    with pytest.raises(UnsupportedError) as caught:
        open_bytes(whole.data)
    assert (caught.value.expected, caught.value.found) == ("1 to 26", str(version))
    assert "memory:/00000000.jdb" in str(caught.value)
    assert caught.value.hint is not None
    assert ("newer release" in caught.value.hint) is (version == 27)


@pytest.mark.parametrize("version", VERSIONS)
def test_version_of_a_damaged_header(version: int) -> None:
    log = LogMaker(version)
    log.trace()
    for at in range(38):
        data = bytearray(log.data)
        data[at] ^= 1
        reader = open_bytes(bytes(data), version=9)
        assert reader.version == version, f"byte {at}"
        assert reader.header is None
        # Every single byte of the header may go; what follows it is read all the same.
        assert [e.lsn for e in entries(list(reader.entries()))] == [38]


def test_version_of_a_header_with_nothing_left() -> None:
    log = LogMaker(9)
    log.trace()
    data = bytes(38) + log.data[38:]
    reader = open_bytes(data, version=9)
    assert (reader.version, reader.header) == (9, None)
    damage, entry = reader.entries()
    assert isinstance(damage, Damage)
    assert (damage.length, damage.found_by, damage.reason) == (38, "size chain", "header")
    assert (entry.lsn, damage.next_lsn) == (38, 38)


@pytest.mark.parametrize("version", [7, 17, 26])
def test_invisible_bit_of_a_file_header_harms_nothing(version: int) -> None:
    data = bytearray(LogMaker(version).data)
    data[5] |= INVISIBLE
    reader = open_bytes(bytes(data))
    assert reader.header is not None
    assert reader.version == version
    assert damages(list(reader.entries())) == []


def test_first_entry_is_no_file_header() -> None:
    log = LogMaker()
    log.trace()
    first = LogMaker()
    first.data, first.offsets = b"", []
    first.trace("in front")
    first.trace("second")
    items = read(first.data)
    damage = only_damage(first.data)
    assert (damage.lsn, damage.length, damage.reason) == (0, 0, "header")
    assert (damage.expected, damage.found) == ("FileHeader", "Trace")
    assert len(entries(items)) == 2


def test_file_vanishes_before_it_is_opened() -> None:
    with pytest.raises(NotFoundError):
        FileReader(MemoryStorage({}), LogFile(0, "00000000.jdb", 100), is_last=True)


def test_file_shrinks_after_it_was_listed() -> None:
    log = LogMaker()
    log.trace()
    storage = MemoryStorage({"00000000.jdb": log.data})
    with FileReader(storage, LogFile(0, "00000000.jdb", 5000), is_last=True) as reader:
        assert len(list(reader.entries())) == 2
    with FileReader(storage, LogFile(0, "00000000.jdb", 5000), is_last=True) as reader:
        assert check_file(reader).size_bytes == len(log.data)


# Bounds: R-LOG-43, start inclusive, end exclusive.


def test_bounds() -> None:
    log = LogMaker()
    for i in range(10):
        log.trace(str(i))
    at = log.offsets
    reader = open_bytes(log.data)
    assert [e.lsn for e in reader.entries(at[3], at[6])] == at[3:6]
    assert [e.lsn for e in reader.entries(at[3], at[6] + 1)] == at[3:7]
    assert [e.lsn for e in reader.entries(38)] == at[1:]
    assert [e.lsn for e in reader.entries(0, 0)] == []
    assert [e.lsn for e in reader.entries(len(log.data))] == []
    assert [e.lsn for e in reader.entries(at[8], 1 << 40)] == at[8:]


# Any window gives the same entries (T-55).


@pytest.mark.parametrize("window", [22, 100, 1 << 10, 1 << 13, 1 << 20])
def test_any_window_gives_the_same_entries(window: int) -> None:
    for file in golden_files():
        options: dict[str, Any] = {"number": file.number, "is_last": file.is_last}
        assert list(open_bytes(file.data, window=window, **options).entries()) == read(file.data, **options)
        assert check(file.data, window=window, **options) == check(file.data, **options)


@pytest.mark.parametrize("version", [6, 17])
def test_entries_larger_than_the_window(version: int) -> None:
    log = LogMaker(version)
    log.trace()
    big = log.add(24, b"\x00" + b"\x7c\x91\xc1\x02\x00\x00" + b"x" * 180_000)
    log.trace("behind")
    bigger = log.add(24, bytes(3 << 20))
    for data in (log.data, log.data + b"\x18tail"):
        for window in (64, 1024, 100_000):
            assert list(open_bytes(data, window=window).entries()) == read(data)
            assert check(data, window=window) == check(data)
    flipped = bytearray(log.data)
    flipped[bigger + 2_000_000] ^= 1
    flipped[big + 100_000] ^= 1
    for window in (1024, 1 << 24):
        found = damages(list(open_bytes(bytes(flipped), window=window).entries()))
        assert [(d.lsn, d.reason, d.found_by) for d in found] == [
            (big, "checksum", "size chain"),
            (bigger, "checksum", "end of log"),
        ]


# Crafted entries.


def crafted(log: LogMaker, size: int, room: int, type_number: int = 24, vlsn: int = -1) -> bytes:
    """A header whose size reaches beyond the ``room`` bytes that follow and whose checksum fits exactly those."""
    flags = 0x28 if vlsn >= 0 else 0
    rest = HEADER.pack(0, type_number, flags, log.offsets[-1], size & 0xFFFFFFFF if size < 1 << 31 else 0)[4:]
    rest = rest[:6] + (size & 0xFFFFFFFF).to_bytes(4, "little")
    rest += vlsn.to_bytes(8, "little") if vlsn >= 0 else b""
    rest += bytes(room)
    return adler32(rest).to_bytes(4, "little") + rest


@pytest.mark.parametrize("size", [101, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("vlsn", [-1, 7_000])
def test_size_beyond_the_file_with_a_matching_checksum(size: int, vlsn: int) -> None:
    log = LogMaker()
    log.commit(5)
    log.commit(6)
    data = log.data + crafted(log, size, 100, vlsn=vlsn)
    damage = only_damage(data)
    assert (damage.lsn, damage.reason) == (len(log.data), "cut" if size < 1 << 31 else "size")
    found = check(data)
    assert found == check(data, window=50)
    assert (found.entries, found.last_offset, found.end_offset) == (3, log.offsets[-1], len(log.data))
    assert (found.last_vlsn, found.vlsn_count, found.vlsn_steps_back) == (6, 2, ())


def test_crafted_entry_at_the_edge_of_the_window() -> None:
    # Its sum fits what the window holds of it, not what the file holds: the VLSN must not count either.
    for vlsn in (-1, 7_000):
        log = LogMaker()
        log.commit(5)
        log.commit(6)
        at = len(log.data)
        entry = crafted(log, 300, 60, vlsn=vlsn)
        window = at + len(entry)
        log.data += entry + bytes(300 - 60)
        log.offsets.append(at)
        log.commit(7)
        found = check(log.data, window=window)
        assert found == check(log.data)
        assert [(s.damage.lsn, s.damage.reason, s.damage.found_by) for s in found.damages] == [
            (at, "checksum", "size chain")
        ]
        assert (found.last_vlsn, found.vlsn_steps_back, found.vlsn_count) == (7, (), 3)


def test_erased_type_from_version_17_on() -> None:
    for version in (16, 17, 26):
        log = LogMaker(version)
        at = log.trace("to be erased")
        log.trace()
        data = bytearray(log.data)
        data[at + 4] = 43
        data[at + 14 : log.offsets[2]] = bytes(log.size_of(1) - 14)
        items = read(bytes(data))
        if version < 17:
            assert [d.reason for d in damages(items)] == ["type"]
            continue
        assert damages(items) == []
        erased = entries(items)[1]
        assert (erased.type_name, erased.checksum_ok, set(erased.body)) == ("Erased", None, {0})
        assert check(bytes(data)).erased == (at,)


def test_erased_entry_with_a_wrong_size_is_found_by_its_neighbours() -> None:
    log = LogMaker()
    at = log.add(43, bytes(50))
    log.trace()
    data = bytearray(log.data)
    data[at + 10] = 60
    assert [d.reason for d in damages(read(bytes(data)))]
    data[at + 6] = 1
    assert damages(read(bytes(data)))[0].reason == "prev-offset"


@pytest.mark.parametrize("size", [-1, -(1 << 31)])
def test_negative_size(size: int) -> None:
    log = LogMaker()
    at = log.trace()
    log.trace()
    data = bytearray(log.data)
    data[at + 10 : at + 14] = size.to_bytes(4, "little", signed=True)
    damage = only_damage(bytes(data))
    assert (damage.reason, damage.found, damage.found_by) == ("size", str(size), "prev-offset chain")


def test_unused_flag_bits_are_ignored() -> None:
    log = LogMaker()
    log.add(24, b"\x01\x00", flags=0x07)
    assert damages(read(log.data)) == []


# Invisible entries (T-64, R-LOG-41).


def test_invisible_entries_are_read_and_listed() -> None:
    log = LogMaker()
    at = [log.commit(vlsn) for vlsn in (1, 2, 3)]
    data = bytearray(log.data)
    for offset in at[1:]:
        data[offset + 5] |= INVISIBLE
    items = entries(read(bytes(data)))
    assert damages(read(bytes(data))) == []
    assert [entry.invisible for entry in items] == [False, False, True, True]
    assert [entry.checksum for entry in items] == [entry.checksum for entry in entries(read(log.data))]
    found = check(bytes(data))
    assert found.invisible == ((at[1], 2), (at[2], 3))
    assert (found.first_vlsn, found.last_vlsn, found.vlsn_count) == (1, 1, 1)


def test_version_6_has_no_invisible_bit() -> None:
    log = LogMaker(6)
    at = log.trace()
    data = bytearray(log.data)
    data[at + 5] |= INVISIBLE
    assert only_damage(bytes(data)).lsn == at


# VLSNs (je-log-format.md 11.1).


def test_vlsns_of_the_stream() -> None:
    log = LogMaker()
    for vlsn in (10, 11, 11, 12, 5, 6):
        log.commit(vlsn)
        log.trace()
    found = check(log.data)
    assert (found.first_vlsn, found.last_vlsn, found.vlsn_count) == (10, 6, 6)
    at = log.offsets
    assert found.vlsn_steps_back == (VLSNBreak(at[5], 11, 11), VLSNBreak(at[9], 5, 12))


def test_migrated_records_keep_a_vlsn_outside_the_stream() -> None:
    log = LogMaker()
    log.commit(10)
    log.add(24, b"\x01\x00", flags=0x08, vlsn=3)
    log.commit(11)
    found = check(log.data)
    assert (found.vlsn_count, found.last_vlsn, found.vlsn_steps_back) == (2, 11, ())
    assert [entry.vlsn for entry in entries(read(log.data))] == [-1, 10, 3, 11]


@pytest.mark.parametrize("local_entries_after", [0, 2])
def test_the_stream_begins_again_after_a_matchpoint(local_entries_after: int) -> None:
    log = LogMaker()
    for vlsn in (1, 2, 3, 4):
        log.commit(vlsn)
    log.add(28, encode_rollback_start(RollbackStart(2, log.offsets[2], 1, ()), 17))
    for _ in range(local_entries_after):
        log.trace()
    found = check(log.data)
    assert (found.last_vlsn, found.vlsn_steps_back) == (4, ()), "the last one in the log, whatever follows it"
    log.commit(3)
    log.commit(3)
    found = check(log.data)
    assert (found.last_vlsn, found.vlsn_steps_back) == (3, (VLSNBreak(log.offsets[-1], 3, 3),))


def test_a_rollback_start_that_does_not_decode_changes_nothing() -> None:
    log = LogMaker()
    log.commit(5)
    log.add(28, b"\x01\x01\x01\x7f")
    log.commit(4)
    assert check(log.data).vlsn_steps_back == (VLSNBreak(log.offsets[-1], 4, 5),)
