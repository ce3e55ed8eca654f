"""Blocks of entries hold the bytes that the codecs make one by one; columns sort as bytes do."""

from __future__ import annotations

from zlib import adler32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tools import needs

needs("Spark")

import numpy as np
import pyarrow as pa

from engine.format.entry.ln import EMBEDDED, LN
from engine.format.entry.node import NodeRecord, Slot, encode_node
from engine.format.entry_types import BIN_TYPE
from engine.format.fast.bin import compact_base
from engine.format.fast.ln import encode_user_ln
from engine.format.header import HEADER
from engine.pipeline.load.blocks import (
    BINBlock,
    LNBlock,
    checksums,
    packed_lengths,
)
from engine.pipeline.load.plan import Target
from engine.pipeline.load.runs import Binary, first_of_equals, order_of
from engine.tree.node_codec import common_prefix

LENGTHS = st.sampled_from([0, 1, 5, 16, 17, 100, 119, 120, 374, 375, 4200])
VALUES = st.builds(lambda length, byte: bytes([byte]) * length, LENGTHS, st.integers(0, 255))
TARGET = Target("", 300, 8, False, 16, 1, 10_000_000, 1)


def column(values: list[bytes]) -> Binary:
    return Binary(pa.array(values, pa.large_binary()))


def entry(key: bytes, value: bytes, previous: int) -> bytes:
    record = LN(
        EMBEDDED if len(value) <= 16 else 0, 0, 0, 300, -1, None, -1, None, None, -1, 0, 0, 0, 0, 0, 0, 0, -1, None,
        value, None, key, None,
    )  # fmt: skip
    body = encode_user_ln(record)
    rest = HEADER.pack(0, 34, 0, previous, len(body))[4:] + body
    return adler32(rest).to_bytes(4, "little") + rest


@given(st.lists(st.tuples(st.binary(max_size=20), VALUES), min_size=1, max_size=30), st.sampled_from([1, 60]))
def test_lns(records: list[tuple[bytes, bytes]], times: int) -> None:
    records = records * times
    keys, values = column([key for key, _ in records]), column([value for _, value in records])
    block = LNBlock(300, 16)
    sizes = block.sizes(keys, values)
    expected = [entry(key, value, 7 * i) for i, (key, value) in enumerate(records)]
    assert sizes.tolist() == [len(one) for one in expected]
    assert block.encode(keys, values, sizes, np.arange(len(records)) * 7).tobytes() == b"".join(expected)


@pytest.mark.parametrize("length", [1, 361, 362, 4095])
def test_checksums_are_exact_for_the_largest_sums(length: int) -> None:
    rows = np.full((3, length), 255, np.uint8)
    assert checksums(rows).tolist() == [adler32(b"\xff" * length)] * 3


def test_lengths_of_packed_numbers() -> None:
    values = [0, 119, 120, 374, 375, 65654, 65655, 16777334, 16777335, 1 << 31]
    assert packed_lengths(np.array(values)).tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


@given(
    st.lists(st.tuples(st.binary(min_size=4, max_size=6), VALUES), min_size=1, max_size=40, unique_by=lambda r: r[0]),
    st.booleans(),
    st.sampled_from([1, 300, 1 << 24]),
    st.booleans(),
)
def test_bins(records: list[tuple[bytes, bytes]], prefixing: bool, step: int, uniform: bool) -> None:
    records = sorted(records)
    if uniform:
        records = sorted({(key[:4].ljust(4), b"v" * 50): 0 for key, _ in records})
    target = TARGET._replace(prefixing=prefixing)
    keys, values = column([key for key, _ in records]), column([value for _, value in records])
    lsns = np.array([(i * step // 200 << 32) | (i * step & 0x1FFFFFF) + 38 for i in range(len(records))])
    sizes = LNBlock(300, 16).sizes(keys, values)
    block = BINBlock(target, keys, values, lsns, sizes)
    assert len(block) == -(-len(records) // target.fill)
    for index in range(len(block)):
        rows = range(index * target.fill, min((index + 1) * target.fill, len(records)))
        found = block.encode(index, 9)
        assert found == encode_node(node_of(target, records, lsns.tolist(), sizes.tolist(), rows), 17, BIN_TYPE)
        assert block.first_key(index) == records[rows[0]][0]


def node_of(
    target: Target, records: list[tuple[bytes, bytes]], lsns: list[int], sizes: list[int], rows: range
) -> NodeRecord:
    own = [records[row][0] for row in rows]
    prefix = common_prefix(own) if target.prefixing and len(own) > 1 else None
    slots = []
    for row in rows:
        key, value = records[row]
        suffix = key[len(prefix or b"") :]
        if len(value) > 16:
            slots.append(Slot(suffix, lsns[row], 0, None, sizes[row], None, None, None, None))
        else:
            state = 0x10 if value else 0x30
            slots.append(Slot(suffix, lsns[row], state, value or None, None, None, None, None, None))
    base = compact_base([lsns[row] for row in rows])
    flags = 0x04 | (0x02 if prefix is not None else 0)
    return NodeRecord(
        300, -1, 0, -1, 0, -1, -1, -1, 9, own[0], flags, prefix, -1, len(slots), 0x10001, 8, base, tuple(slots), 0, 0,
        None, None, None,
    )  # fmt: skip


@given(st.lists(st.binary(max_size=12) | st.binary(max_size=3).map(lambda tail: b"shared prefix" + tail)))
def test_order(keys: list[bytes]) -> None:
    found = order_of(column(keys), np.zeros(len(keys), np.int64)).tolist()
    assert found == sorted(range(len(keys)), key=lambda row: (keys[row], row)) or not has_ties(keys)
    assert [keys[row] for row in found] == sorted(keys)


def has_ties(keys: list[bytes]) -> bool:
    return len(set(keys)) < len(keys)


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"b\0", b"bb"]), st.integers(-5, 5))))
def test_equal_keys_are_ordered_by_rank(records: list[tuple[bytes, int]]) -> None:
    ranks = np.array([rank for _, rank in records], np.int64)
    found = order_of(column([key for key, _ in records]), ranks).tolist()
    assert [records[row] for row in found] == sorted(records)


@given(st.lists(st.binary(max_size=2), min_size=1))
def test_first_of_equals(keys: list[bytes]) -> None:
    keys = sorted(keys)
    expected = [index == 0 or keys[index - 1] != key for index, key in enumerate(keys)]
    assert first_of_equals(column(keys)).tolist() == expected


def test_a_slice_of_a_column_is_seen_from_its_offset() -> None:
    whole = column([b"a", b"bcd", b"", b"efgh", b"ij"])
    part = whole.cut(1, 4)
    assert [part.at(row) for row in range(3)] == [b"bcd", b"", b"efgh"]
    assert part.lengths.tolist() == [3, 0, 4]
