"""Packed integers and two-part keys (je-log-format.md 4.1 to 4.3, 8.5, 12.1)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import FormatError
from engine.format.bytecursor import (
    join_two_part_key,
    pack,
    reverse_pack,
    reverse_unpack,
    sorted_pack,
    sorted_unpack,
    split_two_part_key,
    unpack,
)

LONGEST = (1 << 63) - 1
LONGS = st.one_of(
    st.integers(-(1 << 63), LONGEST),
    st.integers(-70_000, 70_000),
    # Around the edges at which the number of bytes changes.
    st.builds(
        lambda sign, shift, near: max(min(sign * ((1 << shift) + near), LONGEST), -LONGEST - 1),
        st.sampled_from((-1, 1)), st.sampled_from(range(0, 64, 8)), st.integers(-260, 260),
    ),
)  # fmt: skip

# The table of je-log-format.md 4.1 and the values that its neighbours hold.
TABLE = [
    (0, "00"), (-1, "ff"), (119, "77"), (-119, "89"), (120, "78 01"), (-120, "88 01"), (128, "78 09"), (-256, "88 89"),
    (199, "78 50"), (-257, "88 8a"), (374, "78 ff"), (-198, "88 4f"), (375, "79 00 01"), (-9, "f7"), (744, "79 71 02"),
    (-10, "f6"), (65537, "79 8a ff"), (131073, "7a 8a ff 01"), (1795167777586, "7d bb 72 56 f8 a1 01"),
    (-498660, "86 6d 9b 07"),
    # The arithmetic is modulo 2^64.
    (LONGEST, "7f 88 ff ff ff ff ff ff 7f"), (-LONGEST - 1, "81 89 ff ff ff ff ff ff 7f"),
    (-LONGEST, "81 88 ff ff ff ff ff ff 7f"),
]  # fmt: skip

SORTED_TABLE = [
    (0, "7f"), (1, "80"), (3, "82"), (-1, "7e"), (-119, "08"), (120, "f7"), (121, "f8 00"), (376, "f8 ff"),
    (377, "f9 01 00"), (-120, "07 ff"), (-375, "07 00"), (-376, "06 fe ff"), (LONGEST, "ff 7f ff ff ff ff ff ff 86"),
    (-LONGEST - 1, "00 80 00 00 00 00 00 00 77"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), TABLE)
def test_packed_table(value: int, text: str) -> None:
    data = bytes.fromhex(text)
    assert pack(value) == data
    assert unpack(data, 0) == (value, len(data))
    assert reverse_pack(value) == data[::-1]
    assert reverse_unpack(data[::-1]) == (value, 0)


@pytest.mark.parametrize(("value", "text"), SORTED_TABLE)
def test_sorted_table(value: int, text: str) -> None:
    data = bytes.fromhex(text)
    assert sorted_pack(value) == data
    assert sorted_unpack(data) == (value, len(data))


@given(LONGS, st.binary(max_size=4), st.binary(max_size=12))
@example(-LONGEST - 1, b"", b"")
def test_packed(value: int, before: bytes, behind: bytes) -> None:
    data = pack(value)
    assert 1 <= len(data) <= 9
    assert unpack(before + data + behind, len(before)) == (value, len(before) + len(data))
    assert reverse_unpack(behind + data[::-1]) == (value, len(behind))


@given(LONGS)
def test_packed_is_as_short_as_possible(value: int) -> None:
    data = pack(value)
    if -119 <= value <= 119:
        assert len(data) == 1
        return
    magnitude = abs(value) - 119
    assert magnitude < 1 << 8 * (len(data) - 1)
    assert len(data) == 2 or magnitude >= 1 << 8 * (len(data) - 2)


@given(LONGS, LONGS)
@example(-120, -119)
@example(120, 121)
def test_sorted_keeps_the_order(one: int, other: int) -> None:
    assert (sorted_pack(one) < sorted_pack(other)) == (one < other)
    assert sorted_unpack(b"x" + sorted_pack(one) + b"y", 1) == (one, 1 + len(sorted_pack(one)))


@given(st.binary(max_size=40), st.binary(max_size=300))
@example(b"", b"")
@example(b"k" * 119, b"")
@example(b"k" * 120, b"d")
@example(b"k" * 375, b"d")
def test_two_part_keys(first: bytes, second: bytes) -> None:
    assert split_two_part_key(join_two_part_key(first, second)) == (first, second)


def test_two_part_key_of_the_description() -> None:
    assert join_two_part_key(b"hello", b"world") == bytes.fromhex("68 65 6c 6c 6f 77 6f 72 6c 64 05")


@pytest.mark.parametrize("stored", ["", "ff", "01", "61 ff", "61 02", "61 89", "05 78", "01 02 79"])
def test_impossible_two_part_keys(stored: str) -> None:
    # ff: "first part only", a search key that is never stored (12.1).
    with pytest.raises(FormatError):
        split_two_part_key(bytes.fromhex(stored))


@given(st.binary(max_size=12))
@example(b"\xff" * 9)
@example(b"\0" * 9)
def test_any_bytes(data: bytes) -> None:
    for read in (unpack, sorted_unpack):
        try:
            value, end = read(data, 0)
        except FormatError:
            continue
        except IndexError:
            # Only a position after the end does that; readers check it first.
            assert not data
            continue
        assert 1 <= end <= len(data)
        assert -(1 << 63) <= value <= LONGEST
    try:
        first, second = split_two_part_key(data)
    except FormatError:
        return
    assert data.startswith(first + second)
