"""Nodes of the usual form to log entries, and BINs back, without an object for each slot.

Almost every node of almost every log: keys in byte order, nothing in it expires, no VLSNs, no times. What is read and
written here is what ``node_codec`` and ``format.entry.node`` make of it, byte for byte; they say what it means.
Whatever is not of this form is left to them (None), and so is whatever does not fit: they say what is wrong with it.

Example, a slot without a prefix: ``01 61 | 00 26 00 00 | 02 | 2d`` is key "a", file 0 counted from the base file and
offset 0x26, dirty, 45 bytes of entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.errors import FormatError
from engine.format.entry.node import (
    DIRTY,
    EXPIRES_IN_HOURS,
    HAS_BLOOM_FILTER,
    HAS_PREFIX,
    HAS_SIZES,
    HAS_VLSNS,
    KNOWN_DELETED,
    LEVEL_MASK,
    PENDING_DELETED,
    ROOT,
    SLOT_EMBEDDED,
    SLOT_NO_DATA,
    SLOT_TOMBSTONE,
)
from engine.format.lsn import NULL_LSN
from engine.format.packed import join_two_part_key, pack, split_two_part_key, unpack
from engine.format.versions import EXPIRATION, LONG_LSNS_ONLY, WRITTEN_VERSION
from engine.tree.bin_node import BIN
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.node_codec import common_prefix

if TYPE_CHECKING:
    # Only mypyc reads these annotations; nothing has to be installed to run the module.
    from mypy_extensions import i64

_PERSISTENT: Final = KNOWN_DELETED | PENDING_DELETED | SLOT_EMBEDDED | SLOT_TOMBSTONE
_UNUSUAL_FLAGS: Final = HAS_VLSNS | EXPIRES_IN_HOURS | HAS_BLOOM_FILTER
_NULL_OFFSET: Final = 0xFFFFFF
_MOST_FILES: Final = 127
_NO_EXPIRATION: Final = pack(-1)
# An LSN of four bytes and a state of one.
_LSN_AND_STATE: Final = 5
_STATE_SHIFT: Final = 32
_BIN_HEIGHT: Final = 1


def encode_usual(node: IN, version: int, *, delta: bool, with_filter: bool) -> bytes | None:
    """The entry body of a node; None when it is not of the usual form.

    Arguments:
        version, delta, with_filter: as for ``node_codec.node_to``.
    """
    db, keys = node.db, node.keys
    if version != WRITTEN_VERSION or not db.order.plain:
        return None
    chosen = list(range(len(keys)))
    delta_lsn, own_bases, flags = NULL_LSN, b"", ROOT if node.is_root else 0
    if isinstance(node, BIN):
        if node.vlsns or (delta and with_filter) or any(node.expirations):
            return None
        if delta:
            chosen = [at for at, state in enumerate(bytes(node.states)) if state & DIRTY]
        delta_lsn, own_bases, flags = node.delta_lsn, _NO_EXPIRATION, flags | HAS_SIZES
    base = _base_file(node.lsns, chosen)
    if base is None:
        return None
    prefix = common_prefix(keys) if db.prefixing and len(keys) > 1 else None
    flags |= HAS_PREFIX if prefix is not None else 0
    count = len(chosen)
    most = max(count, len(keys) * 25 // 100) if delta else max(node.max_entries, count)
    parts = [
        pack(db.id), pack(node.full_lsn), pack(delta_lsn), own_bases, pack(node.node_id),
        pack(len(node.ident)), node.ident, bytes((flags,)),
        b"" if prefix is None else pack(len(prefix)) + prefix,
        pack(count), pack(node.level), pack(most), b"\x01", base.to_bytes(4, "little", signed=True),
    ]  # fmt: skip
    cut = 0 if prefix is None else len(prefix)
    if isinstance(node, BIN):
        _add_records(parts, node, chosen, base, cut)
    else:
        _add_children(parts, node, base, cut)
    if delta:
        parts += (pack(len(keys)), pack(max(node.max_entries, len(keys))))
    return b"".join(parts)


def _base_file(lsns: list[int], chosen: list[int]) -> int | None:
    """The lowest file number of the compact form; -1 when there is no LSN, None when they do not fit that form."""
    low: i64 = 1 << 40
    high: i64 = -1
    for at in chosen:
        lsn: i64 = lsns[at]
        if lsn != NULL_LSN:
            number: i64 = lsn >> 32
            if number < 0 or lsn & 0xFFFFFFFF >= _NULL_OFFSET:
                return None
            low = min(low, number)
            high = max(high, number)
    if high == -1:
        return -1
    return None if high - low > _MOST_FILES else low


def _add_records(parts: list[bytes], node: BIN, chosen: list[int], base: int, cut: int) -> None:
    """Slots of a BIN."""
    keys, lsns, states, values, sizes = node.keys, node.lsns, bytes(node.states), node.values, node.sizes
    for at in chosen:
        key: bytes = keys[at]
        stored = key[cut:] if cut else key
        state: i64 = states[at] & (_PERSISTENT | DIRTY)
        if state & SLOT_EMBEDDED:
            data = values[at]
            if data:
                stored = join_two_part_key(stored, data)
            else:
                state |= SLOT_NO_DATA
        parts.append(pack(len(stored)))
        parts.append(stored)
        parts.append(int(_word(lsns[at], base) | state << _STATE_SHIFT).to_bytes(_LSN_AND_STATE, "little"))
        if not state & SLOT_EMBEDDED:
            parts.append(pack(sizes[at]))


def _add_children(parts: list[bytes], node: IN, base: int, cut: int) -> None:
    """Slots of an upper node: their state is 0."""
    keys, lsns = node.keys, node.lsns
    for at in range(len(keys)):
        key: bytes = keys[at]
        parts.append(pack(len(key) - cut))
        parts.append(key[cut:] if cut else key)
        parts.append(int(_word(lsns[at], base)).to_bytes(_LSN_AND_STATE, "little"))


def _word(lsn: i64, base: i64) -> i64:
    """The compact form of an LSN as a number: file delta in the lowest byte, offset above it."""
    if lsn == NULL_LSN:
        return _NULL_OFFSET << 8
    return (lsn & 0xFFFFFF) << 8 | ((lsn >> 32) - base) & 0xFF


def decode_usual(db: DatabaseState, body: bytes, version: int) -> BIN | None:
    """The BIN of a full entry, clean, its ``full_lsn`` not set; None when it is not of the usual form."""
    if not EXPIRATION <= version < LONG_LSNS_ONLY or not db.order.plain:
        return None
    try:
        return _decode(db, body)
    except (FormatError, IndexError):
        return None


def _decode(db: DatabaseState, body: bytes) -> BIN | None:
    db_id, pos = unpack(body, 0)
    _, pos = unpack(body, pos)
    _, pos = unpack(body, pos)
    expiration, pos = unpack(body, pos)
    node_id, pos = unpack(body, pos)
    length, pos = unpack(body, pos)
    ident = body[pos : pos + length]
    pos += length
    flags = body[pos]
    pos += 1
    if length < 0 or expiration != -1 or flags & _UNUSUAL_FLAGS or db_id != db.id:
        return None
    prefix = b""
    if flags & HAS_PREFIX:
        length, pos = unpack(body, pos)
        prefix = body[pos : pos + length]
        pos += length
        if length < 0:
            return None
    count, pos = unpack(body, pos)
    level, pos = unpack(body, pos)
    max_entries, pos = unpack(body, pos)
    if body[pos] != 1 or level & LEVEL_MASK != _BIN_HEIGHT:
        return None
    base = int.from_bytes(body[pos + 1 : pos + 5], "little", signed=True)
    node = BIN(db, node_id, level, ident, max_entries)
    node.is_root = bool(flags & ROOT)
    return node if _read_slots(node, body, pos + 5, count, base, prefix, bool(flags & HAS_SIZES)) else None


def _read_slots(node: BIN, body: bytes, start: int, count: int, base: int, prefix: bytes, has_sizes: bool) -> bool:
    """Fill an empty node; False when what is there is no such slots, or not all that is there."""
    keys, lsns, states, values, sizes = node.keys, node.lsns, bytearray(), node.values, node.sizes
    pos: i64 = start
    end: i64 = len(body)
    first: i64 = base
    for _ in range(count):
        length: i64 = body[pos]
        pos += 1
        if length > 119:
            length, pos = unpack(body, pos - 1)
        at: i64 = pos + length
        if length < 0 or at + _LSN_AND_STATE > end:
            return False
        key = body[pos:at]
        delta: i64 = body[at]
        b0: i64 = body[at + 1]
        b1: i64 = body[at + 2]
        b2: i64 = body[at + 3]
        offset: i64 = b0 | b1 << 8 | b2 << 16
        if delta > 127:
            delta -= 256
        state = body[at + 4]
        pos = at + _LSN_AND_STATE
        size = 0
        value: bytes | None = None
        if state & SLOT_EMBEDDED:
            value = b""
            if not state & SLOT_NO_DATA:
                key, value = split_two_part_key(key)
            node.data_bytes += len(value)
        elif has_sizes:
            size, pos = unpack(body, pos)
        keys.append(prefix + key if prefix else key)
        lsns.append(NULL_LSN if offset == _NULL_OFFSET else (first + delta) << 32 | offset)
        states.append(state & _PERSISTENT)
        values.append(value)
        sizes.append(size)
    node.states = states
    node.expirations = [0] * count
    return pos == end
