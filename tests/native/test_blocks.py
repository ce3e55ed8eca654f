"""Blocks of LNs that are written in C hold the bytes that the codecs make one by one."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.format.entry.ln import EMBEDDED
from engine.format.entry_types import INS_LN
from engine.format.fast.header import sealed
from engine.format.fast.ln import encode_user_fields
from engine.format.lsn import NULL_LSN
from tests.support.native_core import native_core

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()

LENGTHS = st.sampled_from([0, 1, 16, 17, 119, 120, 374, 375, 65_654, 65_655])
STRINGS = st.builds(lambda length, byte: bytes([byte]) * length, LENGTHS, st.integers(0, 255)) | st.binary(max_size=40)
OFFSETS = st.integers(0, (1 << 32) - 1)
NO_TXN = (NULL_LSN, None, NULL_LSN)
HEADS = tuple(encode_user_fields(flags, 0, 300, NO_TXN, b"", b"", b"")[:-1] for flags in (0, EMBEDDED))
Column = tuple[bytes, "array[int]"]


def column(strings: list[bytes], skipped: int = 0) -> Column:
    """Strings after bytes that belong to none of them, as in a slice."""
    ends = accumulate(map(len, strings), initial=skipped)
    return b"?" * skipped + b"".join(strings), array("q", ends)


def entry(key: bytes, data: bytes, previous: int) -> bytes:
    flags = EMBEDDED if len(data) <= 16 else 0
    return sealed(INS_LN, 0, previous, encode_user_fields(flags, 0, 300, NO_TXN, b"", data, key))


def encoded(room: int, keys: Column, values: Column, previous: list[int]) -> tuple[int | None, bytes]:
    out = bytearray(room)
    return core.encode_lns(out, array("q", previous), keys, values, (HEADS[0], HEADS[1]), 16), bytes(out)


@given(st.lists(st.tuples(STRINGS, STRINGS, OFFSETS), max_size=12), st.integers(0, 9), st.integers(0, 9))
def test_both_write_the_same(records: list[tuple[bytes, bytes, int]], skipped: int, more: int) -> None:
    expected = b"".join(entry(*record) for record in records)
    keys = column([key for key, _, _ in records], skipped)
    values = column([data for _, data, _ in records], skipped)
    previous = [record[2] for record in records]
    size = len(expected)
    assert encoded(size + more, keys, values, previous) == (size, expected + b"\0" * more)
    if size:
        assert encoded(size - 1, keys, values, previous)[0] is None


@pytest.mark.parametrize("ends", [[0, 4], [-1, 2], [2, 1], [0], [0, 1, 3], [0, 1 << 62]])
def test_ends_that_cannot_be(ends: list[int]) -> None:
    wrong, right = (b"abc", array("q", ends)), column([b"abc"])
    assert encoded(100, wrong, right, [0])[0] is None
    assert encoded(100, right, wrong, [0])[0] is None


@pytest.mark.parametrize("previous", [-1, 1 << 32, 1 << 62])
def test_an_offset_that_no_header_holds(previous: int) -> None:
    assert encoded(100, column([b"k"]), column([b"d"]), [previous])[0] is None


def test_arguments_that_break_the_contract() -> None:
    for previous, keys in (("text", column([b"k"])), (array("q", [0]), (b"k", "text"))):
        with pytest.raises(TypeError):
            core.encode_lns(bytearray(9), previous, keys, column([b"d"]), (HEADS[0], HEADS[1]), 16)
