"""BINs of the usual form have the bytes that the general codec gives them, and are read as it reads them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import FormatError
from engine.format.bytecursor import pack
from engine.format.entry.db_tree import DUPLICATES, KEY_PREFIXING, TWO_PART_KEYS, DatabaseImpl
from engine.format.entry.node import HAS_BLOOM_FILTER, decode_node, encode_node
from engine.format.entry_types import BIN_TYPE, DELTA_TYPE, IN_TYPE
from engine.tree.bin_node import BIN
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.node_codec import (
    apply_delta,
    apply_usual_delta,
    decode_usual,
    decode_usual_delta,
    encode_usual,
    node_from,
    node_to,
)

# Compact, whole because files are far apart or an offset is large, of no file, and of a record in memory only.
LSNS = st.one_of(
    st.just(-1),
    st.builds(lambda number, offset: number << 32 | offset, st.integers(0, 130), st.integers(0, 0x1000000)),
    st.builds(lambda number, offset: number << 32 | offset, st.integers(0, 0x7FFFFE00), st.integers(0, 0xFFFFFFFF)),
    st.just(-(1 << 32) + 5),
)
SLOT = st.tuples(
    LSNS,
    st.sampled_from((0, 0x01, 0x02, 0x03, 0x08, 0x0A, 0x10, 0x12)),
    st.sampled_from((None, b"", b"small", b"x" * 200)),
    st.sampled_from((0, 1, 119, 120, 374, 375, 70000)),
)
DAYS = st.sampled_from((0, 0, 21_000, 21_001, 21_500, 30_000))
HOURS = st.sampled_from((0, -504_000, -504_001, -504_200, 21_001))
EXPIRATIONS = st.one_of(st.just([0]), st.lists(DAYS, min_size=1), st.lists(HOURS, min_size=1))
SLOTS = st.dictionaries(st.binary(max_size=5).map(lambda key: b"pre" + key), SLOT, max_size=12)


def database(flags: int) -> DatabaseState:
    return DatabaseState(DatabaseImpl(7, "db", False, None, -1, 0, flags, b"", b"", 128, 17, 17, (), ()), {})


def node_of(db: DatabaseState, slots: dict[bytes, tuple[int, int, bytes | None, int]]) -> BIN:
    node = BIN(db, 300, 0x10001, min(slots, default=b"k"), 128)
    for key in sorted(slots):
        lsn, state, value, size = slots[key]
        index, exact = node.find(key)
        # Only the data of embedded records is logged.
        node.put(index, key, exact, lsn, state, value if state & 0x10 else None, size, 0)
        node.states[index] = state
    node.full_lsn, node.delta_lsn = 0x500000064, 0x600000064
    return node


def content(node: BIN) -> tuple[object, ...]:
    slots = (node.keys, node.lsns, bytes(node.states), node.values, node.sizes, node.expirations, node.vlsns)
    own = (node.node_id, node.level, node.ident, node.max_entries, node.is_root, node.data_bytes, node.dirty)
    return (*map(repr, slots), *own)


@settings(deadline=None)
@given(slots=SLOTS, flags=st.sampled_from((0, KEY_PREFIXING)), root=st.booleans(), expirations=EXPIRATIONS)
def test_both_codecs_agree(
    slots: dict[bytes, tuple[int, int, bytes | None, int]], flags: int, root: bool, expirations: list[int]
) -> None:
    db = database(flags)
    node = node_of(db, slots)
    node.is_root = root
    node.expirations = [expirations[at % len(expirations)] for at in range(len(node))]
    for delta in (False, True):
        record = node_to(node, 17, delta=delta)
        number = DELTA_TYPE if delta else BIN_TYPE
        general = encode_node(record, 17, number)
        usual = encode_usual(node, 17, delta=delta, with_filter=False)
        assert usual == general
        if delta:
            filtered = encode_node(node_to(node, 17, delta=True, with_filter=True), 17, number)
            assert len(filtered) > len(general)
            for body in (general, filtered):
                applied = content(with_delta(db, node, body, usual=False))
                assert content(with_delta(db, node, body, usual=True)) == applied
            continue
        read, expected = decode_usual(db, general, 17), node_from(db, decode_node(general, 17, number))
        assert isinstance(expected, BIN)
        assert read is not None
        assert content(read) == content(expected)


def with_delta(db: DatabaseState, full: BIN, body: bytes, *, usual: bool) -> BIN:
    """A delta applied to half of its full version."""
    node = node_from(db, node_to(full, 17, delta=False))
    assert isinstance(node, BIN)
    for index in reversed(range(0, len(node), 2)):
        node.remove_slot(index)
    if usual:
        delta = decode_usual_delta(db, body, 17)
        assert delta is not None
        apply_usual_delta(node, delta)
    else:
        apply_delta(node, decode_node(body, 17, DELTA_TYPE))
    return node


@given(
    slots=SLOTS,
    at=st.integers(-20, 200),
    byte=st.integers(0, 255),
    cut=st.integers(0, 2),
    more=st.integers(0, 1),
    with_filter=st.booleans(),
)
def test_a_damaged_delta_is_read_alike_or_left(
    slots: dict[bytes, tuple[int, int, bytes | None, int]],
    at: int,
    byte: int,
    cut: int,
    more: int,
    with_filter: bool,
) -> None:
    db = database(0)
    node = node_of(db, slots)
    body = bytearray(encode_node(node_to(node, 17, delta=True, with_filter=with_filter), 17, DELTA_TYPE))
    body[at % len(body)] = byte
    changed = bytes(body[: len(body) - cut]) + bytes(more)
    delta = decode_usual_delta(db, changed, 17)
    if delta is not None:
        record = decode_node(changed, 17, DELTA_TYPE)
        assert (delta.head.full_lsn, delta.head.node_id) == (record.prev_full_lsn, record.node_id)
        assert content(with_delta(db, node, changed, usual=True)) == content(with_delta(db, node, changed, usual=False))


@pytest.mark.parametrize("number", [-1, -7, 0, 2, 4, 1 << 20, (1 << 63) - 1])
def test_a_filter_of_another_length_is_left(number: int) -> None:
    """The filter of a delta is passed over only if it ends where the entry ends; a full BIN never has one."""
    db = database(0)
    node = node_of(db, {b"key%d" % at: (0x64 + at, 2 if at < 5 else 0, None, 40) for at in range(8)})
    body = encode_node(node_to(node, 17, delta=True, with_filter=True), 17, DELTA_TYPE)
    assert body[-4] == 3
    assert decode_usual_delta(db, body, 17) is not None
    changed = body[:-4] + pack(number) + body[-3:]
    assert decode_usual_delta(db, changed, 17) is None
    with pytest.raises(FormatError):
        decode_node(changed, 17, DELTA_TYPE)
    full = node_to(node, 17, delta=False)
    body = encode_node(full._replace(flags=full.flags | HAS_BLOOM_FILTER), 17, BIN_TYPE)
    assert decode_usual(db, body, 17) is None


@given(slots=st.dictionaries(st.binary(max_size=130), LSNS, min_size=1, max_size=8), root=st.booleans())
def test_upper_nodes_agree(slots: dict[bytes, int], root: bool) -> None:
    for flags in (0, KEY_PREFIXING):
        node = IN(database(flags), 300, 0x10002, min(slots), 128)
        for at, key in enumerate(sorted(slots)):
            node.insert_child(at, key, slots[key], None)
        node.is_root, node.full_lsn = root, 0x500000064
        record = node_to(node, 17, delta=False)
        usual = encode_usual(node, 17, delta=False, with_filter=True)
        assert usual == encode_node(record, 17, IN_TYPE)


@given(slots=SLOTS, cut=st.integers(1, 30))
def test_what_does_not_fit_is_left_to_the_general_codec(
    slots: dict[bytes, tuple[int, int, bytes | None, int]], cut: int
) -> None:
    db = database(0)
    node = node_of(db, slots)
    node.expirations = [21_000] * len(node)
    body = encode_usual(node, 17, delta=False, with_filter=False) or b""
    assert decode_usual(db, body[:-cut], 17) is None
    assert decode_usual(db, body + b"\0", 17) is None
    assert decode_usual(db, body, 18) is None


@pytest.mark.parametrize("apart", [0, 300])
@pytest.mark.parametrize("number", [-1, -7, -200, 200, 1 << 20, -(1 << 40), (1 << 63) - 20])
def test_lengths_that_cannot_be(number: int, apart: int) -> None:
    """Wherever a field has another number, the fast codec reads what the general one reads, or leaves it to it."""
    db = database(KEY_PREFIXING)
    slots: dict[bytes, tuple[int, int, bytes | None, int]] = {
        b"prefix%d" % at: (at * apart << 32 | 0x64, 16, b"data", 0) for at in range(3)
    }
    node = node_of(db, slots)
    node.expirations[1] = -504_000
    body = encode_usual(node, 17, delta=False, with_filter=False) or b""
    left = 0
    for at in range(len(body)):
        changed = body[:at] + pack(number) + body[at + 1 :]
        read = decode_usual(db, changed, 17)
        if read is None:
            left += 1
        else:
            expected = node_from(db, decode_node(changed, 17, BIN_TYPE))
            assert isinstance(expected, BIN)
            assert content(read) == content(expected), at
    assert left > 10


def test_what_is_not_of_the_usual_form() -> None:
    """VLSNs, filters, later versions, keys that are not compared as bytes, another database."""
    db = database(0)
    node = node_of(db, {b"k": (0x64, 0, None, 40)})
    body = encode_usual(node, 17, delta=False, with_filter=False)
    assert body is not None
    assert decode_usual(database(KEY_PREFIXING | TWO_PART_KEYS | DUPLICATES), body, 17) is None
    other = database(0)
    other.id = 8
    assert decode_usual(other, body, 17) is None
    assert encode_usual(node, 18, delta=False, with_filter=False) is None
    assert encode_usual(node, 17, delta=True, with_filter=True) is None
    node.vlsns[b"k"] = 5
    assert encode_usual(node, 17, delta=False, with_filter=False) is None
