"""Entry headers, flags, checksums, LSNs (je-log-format.md 3.1 to 3.5)."""

from __future__ import annotations

from zlib import adler32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UsageError
from engine.format.fast.header import header_lengths, plain_pairs
from engine.format.header import (
    GOOD,
    EntryHeader,
    Provisional,
    decode_header,
    encode_entry,
    entry_checksum,
    examine,
    has_vlsn,
    is_invisible,
    provisional_of,
)
from engine.format.lsn import NULL_LSN, file_of, format_lsn, is_null, make_lsn, offset_of, parse_lsn
from engine.format.vlsn import NULL_VLSN
from tests.support.logs.golden_logs import VERSIONS, right_checksum

U32 = st.integers(0, (1 << 32) - 1)
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
VERSION = st.sampled_from(VERSIONS)


@given(VERSION, st.integers(1, 27), st.integers(0, 255), U32, LONG, st.binary(max_size=60))
def test_entries(version: int, type_number: int, flags: int, prev: int, vlsn: int, body: bytes) -> None:
    flags = flags & 0xE0 | 6 if version == 6 else flags
    entry = encode_entry(EntryHeader(0, type_number, flags, prev, 0, vlsn), body, version)
    header = decode_header(entry, 0, version)
    length = 22 if has_vlsn(flags, version) else 14
    assert header == EntryHeader(
        right_checksum(entry, version), type_number, flags, prev, len(body), vlsn if length == 22 else NULL_VLSN
    )
    assert entry[length:] == body
    assert header_lengths(version)[type_number | flags << 8] == length
    found = examine(entry, 0, len(entry), version, prev, at_end=True)
    assert (found.verdict, found.header, found.header_bytes) == (GOOD, header, length)


@given(st.binary(min_size=14, max_size=60), VERSION)
def test_checksum_leaves_out_the_invisible_bit(entry: bytes, version: int) -> None:
    hidden, shown = (entry[:5] + bytes((flags,)) + entry[6:] for flags in (entry[5] | 0x10, entry[5] & ~0x10))
    assert entry_checksum(shown, version) == adler32(shown[4:])
    assert entry_checksum(hidden, version) == adler32((hidden if version == 6 else shown)[4:])
    assert entry_checksum(memoryview(hidden), version) == entry_checksum(hidden, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_flags(version: int) -> None:
    for flags in range(256):
        vlsn = flags & 0x28 if version >= 8 else flags & 0x20
        assert has_vlsn(flags, version) == bool(vlsn)
        assert is_invisible(flags, version) == (version >= 7 and bool(flags & 0x10))
        expected = Provisional.YES if flags & 0x80 else Provisional.BEFORE_CKPT_END if flags & 0x40 else Provisional.NO
        assert provisional_of(flags) is expected


@pytest.mark.parametrize("version", VERSIONS)
def test_plain_pairs_leave_out_what_is_rare(version: int) -> None:
    pairs = plain_pairs(version)
    for pair in range(1 << 16):
        number, flags = pair & 0xFF, pair >> 8
        rare = number in (28, 43) or (flags & 0x1F != 6 if version == 6 else flags & 0x10)
        if pair in pairs:
            assert not rare
            assert 1 <= number <= 45
    assert (17 | (6 if version == 6 else 0) << 8) in pairs


@given(st.integers(0, (1 << 31) - 1), U32)
def test_lsns(number: int, offset: int) -> None:
    lsn = make_lsn(number, offset)
    assert (file_of(lsn), offset_of(lsn)) == (number, offset)
    assert not is_null(lsn)
    assert format_lsn(lsn) == f"0x{number:x}/0x{offset:x}"
    assert parse_lsn(format_lsn(lsn)) == lsn
    assert lsn < make_lsn(number + 1, 0)


def test_null_and_transient_lsns() -> None:
    assert format_lsn(NULL_LSN) == "0xffffffff/0xffffffff"
    assert (file_of(NULL_LSN), offset_of(NULL_LSN)) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert is_null(NULL_LSN)
    # File 0xffffffff with any offset was never written (3.1).
    assert is_null(-1 << 32 | 0x1234)
    assert is_null(-5)


@pytest.mark.parametrize("text", ["0x1", "12/0x3", "0x1/3", "1/2", "", "0x123456789/0x0", "0xg/0x0", "0x1/0x2/0x3"])
def test_texts_that_are_no_lsn(text: str) -> None:
    with pytest.raises(UsageError):
        parse_lsn(text)
