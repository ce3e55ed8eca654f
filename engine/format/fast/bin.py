"""BINs and INs of the common form: heads and slots of v12 to v17, without an object for each slot.

General twin: ``entry.node``, which documents the fields. The common form has no VLSNs and no times; almost every node
of almost every log has it. A delta may have a bloom filter after its slots, as the deltas of JE have. LSNs are compact.
In a log of more than 128 files most nodes reference files that are farther apart, and have whole LSNs.
``tree.node_codec`` encodes and decodes single nodes with it, ``pipeline.load.blocks`` many BINs at once.

Example, a slot without a prefix: ``01 61 | 00 26 00 00 | 02 | 2d`` is key "a", file 0 relative to the base file and
offset 0x26, dirty, an entry of 45 bytes. With a whole LSN it is ``01 61 | 26 00 00 00 05 00 00 00 | 02 | 2d``:
0x5/0x26.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import join_two_part_key, pack, split_two_part_key, unpack
from engine.format.entry.node import (
    DIRTY,
    EXPIRES_IN_HOURS,
    HAS_BLOOM_FILTER,
    HAS_PREFIX,
    HAS_SIZES,
    HAS_VLSNS,
    KNOWN_DELETED,
    LEAST_SLOT_BYTES,
    NULL_OFFSET,
    PENDING_DELETED,
    SLOT_EMBEDDED,
    SLOT_NO_DATA,
    SLOT_TOMBSTONE,
)
from engine.format.entry_types import BINS
from engine.format.lsn import NULL_LSN
from engine.format.versions import EXPIRATION, LONG_LSNS_ONLY

if TYPE_CHECKING:
    # Only mypyc uses these annotations; the module runs without this package.
    from mypy_extensions import i64

# States that a slot has in the log: all but DIRTY, which deltas keep too.
PERSISTENT: Final = KNOWN_DELETED | PENDING_DELETED | SLOT_EMBEDDED | SLOT_TOMBSTONE
# File numbers of compact LSNs are relative to the lowest one.
MOST_FILES: Final = 127
# A compact LSN has four bytes; with its state, five.
LSN_BYTES: Final = 4
LSN_AND_STATE: Final = 5
_WHOLE_LSN_BYTES: Final = 8
_WHOLE_LSN_AND_STATE: Final = Struct("<qB")
# The expiration base of a node without expirations.
NO_BASE: Final = -1
NO_EXPIRATION: Final = pack(NO_BASE)
_STATE_SHIFT: Final = 32
# Makes a record without its constructor, which is slower where there are millions.
_new_tuple: Final = tuple.__new__
# The byte before the slots: either LSNs are compact, and the number of the base file follows; or they are whole.
_COMPACT: Final = b"\x01"
_WHOLE: Final = b"\x00"
_BASE_BYTES: Final = 4
# With a base file farther from 0 an LSN may need more than 64 bits.
_FARTHEST_BASE: Final = 0x7FFFFF00


class BINHead(NamedTuple):
    """The fields before the slots of a BIN or a delta.

    Attributes:
        full_lsn: the previous full version.
        slots: number of slots.
        base: the base file of compact LSNs; None for whole LSNs.
        slots_at: where the slots begin.
        expiration_base: the base of expirations, ``NO_BASE`` if nothing expires.
    """

    db_id: int
    full_lsn: int
    node_id: int
    ident: bytes
    flags: int
    prefix: bytes
    slots: int
    level: int
    max_entries: int
    base: int | None
    slots_at: int
    expiration_base: int


class SlotColumns(NamedTuple):
    """The slots of a BIN by field: ``read_records`` extends all columns.

    Attributes:
        expirations: days, or negative hours, since 1970; 0 for never.
    """

    keys: list[Any]
    lsns: list[int]
    states: bytearray
    values: list[bytes | None]
    sizes: list[int]
    expirations: list[int]


def encode_head(
    lsns: tuple[int, int, int],
    bases: bytes,
    node_id: int,
    ident: bytes,
    flags: int,
    prefix: bytes | None,
    sizes: tuple[int, int, int],
    base: int | None,
) -> bytes:
    """Encode the fields before the slots.

    Arguments:
        lsns: database id, LSN of the last full version, LSN of the last delta.
        bases: for a BIN its expiration base, packed; for an IN empty.
        flags: without the flag for a prefix.
        sizes: number of slots, level, most slots.
        base: the base file of compact LSNs; None for whole LSNs.
    """
    shared = b""
    if prefix is not None:
        flags |= HAS_PREFIX
        shared = pack(len(prefix)) + prefix
    db_id, full_lsn, delta_lsn = lsns
    count, level, most = sizes
    form = _WHOLE if base is None else _COMPACT + base.to_bytes(_BASE_BYTES, "little", signed=True)
    parts = (
        pack(db_id), pack(full_lsn), pack(delta_lsn), bases, pack(node_id), pack(len(ident)), ident, bytes((flags,)),
        shared, pack(count), pack(level), pack(most), form,
    )  # fmt: skip
    return b"".join(parts)


def decode_head(body: bytes, *, is_delta: bool = False) -> BINHead | None:
    """Decode the head of a BIN or a delta; None if it does not have the common form.

    Arguments:
        is_delta: a delta, which may have a bloom filter after its slots.

    Raises:
        FormatError, IndexError: the fields do not fit into the body.
    """
    db_id, pos = unpack(body, 0)
    full_lsn, pos = unpack(body, pos)
    _, pos = unpack(body, pos)
    expiration, pos = unpack(body, pos)
    node_id, ident, flags, prefix, pos = _identity(body, pos)
    # Nodes with VLSNs are left to ``entry.node``, and BINs with the flag of a filter, which only deltas have.
    if pos < 0 or flags & HAS_VLSNS or (flags & HAS_BLOOM_FILTER and not is_delta):
        return None
    count, pos = unpack(body, pos)
    level, pos = unpack(body, pos)
    max_entries, pos = unpack(body, pos)
    base: int | None = None
    slots_at = pos + 1
    if body[pos] == 1:
        slots_at += _BASE_BYTES
        base = int.from_bytes(body[pos + 1 : slots_at], "little", signed=True)
        if not -_FARTHEST_BASE <= base <= _FARTHEST_BASE:
            return None
    return BINHead(
        db_id, full_lsn, node_id, ident, flags, prefix, count, level, max_entries, base, slots_at, expiration
    )


def _identity(body: bytes, pos: int) -> tuple[int, bytes, int, bytes, int]:
    """Node id, identifier key, flags, prefix, and the position of the number of slots: -1 if a length does not fit."""
    node_id, pos = unpack(body, pos)
    length, pos = unpack(body, pos)
    # In the native build a slice that ends before it begins, or a huge index, raises errors of other kinds.
    if length < 0 or length > len(body):
        return 0, b"", 0, b"", -1
    ident = body[pos : pos + length]
    pos += length
    flags = body[pos]
    pos += 1
    prefix = b""
    if flags & HAS_PREFIX:
        length, pos = unpack(body, pos)
        if length < 0 or length > len(body):
            return 0, b"", 0, b"", -1
        prefix = body[pos : pos + length]
        pos += length
    return node_id, ident, flags, prefix, pos


class NodeHead(NamedTuple):
    """Head fields of a node of any kind: its previous versions (NULL_LSN: none), and the fields by which its parent
    finds it.
    """

    db_id: int
    prev_full_lsn: int
    prev_delta_lsn: int
    node_id: int
    ident: bytes
    flags: int
    level: int


def decode_node_head(body: bytes, size: int, version: int, type_number: int) -> NodeHead | None:
    """Decode the head of a node; None if it must be left to ``decode_node``: the fields do not fit, or the version has
    another layout.

    Arguments:
        body: the whole body, or its first bytes; the result is None if these are too few.
        size: size of the whole body.
    """
    if not EXPIRATION <= version < LONG_LSNS_ONLY:
        return None
    try:
        db_id, pos = unpack(body, 0)
        full_lsn, pos = unpack(body, pos)
        delta_lsn, pos = unpack(body, pos)
        if type_number in BINS:
            _, pos = unpack(body, pos)
        node_id, ident, flags, _, pos = _identity(body, pos)
        if pos < 0:
            return None
        count, pos = unpack(body, pos)
        # Slots take space; a count that does not fit is an error, which ``decode_node`` reports.
        if count < 0 or count * LEAST_SLOT_BYTES > size - pos:
            return None
        level, pos = unpack(body, pos)
        _, pos = unpack(body, pos)
        if pos + (1 + _BASE_BYTES if body[pos] == 1 else 1) > size:
            return None
    except (FormatError, IndexError):
        return None
    return _new_tuple(NodeHead, (db_id, full_lsn, delta_lsn, node_id, ident, flags, level))


def compact_base(lsns: list[int]) -> int | None:
    """The base file of compact LSNs; -1 if there is no LSN, None if they do not fit the compact form."""
    low: i64 = 1 << 40
    high: i64 = -1
    for one in lsns:
        lsn: i64 = one
        if lsn != NULL_LSN:
            number: i64 = lsn >> 32
            if number < 0 or lsn & 0xFFFFFFFF >= NULL_OFFSET:
                return None
            low = min(low, number)
            high = max(high, number)
    if high == -1:
        return -1
    # The file of a compact LSN is a signed byte.
    return None if high - low > MOST_FILES else low


def add_records(
    parts: list[bytes],
    chosen: list[int],
    keys: list[Any],
    lsns: list[int],
    states: bytes,
    values: list[bytes | None],
    sizes: list[int],
    expirations: list[int],
    base: int | None,
    cut: int,
) -> None:
    """Encode slots of a BIN.

    Arguments:
        parts: extended by the bytes.
        chosen: indexes of the slots.
        keys, lsns, states, values, sizes: for all slots of the node.
        expirations: for all slots, as stored; empty if nothing expires.
        base: from ``compact_base``.
        cut: number of bytes in the prefix.
    """
    for at in chosen:
        key: bytes = keys[at]
        stored = key[cut:] if cut else key
        state: i64 = states[at] & (PERSISTENT | DIRTY)
        if state & SLOT_EMBEDDED:
            data = values[at]
            if data:
                stored = join_two_part_key(stored, data)
            else:
                # Without data the key is stored as it is, and the state marks this.
                state |= SLOT_NO_DATA
        parts.append(pack(len(stored)))
        parts.append(stored)
        if base is None:
            parts.append(_WHOLE_LSN_AND_STATE.pack(lsns[at], state))
        else:
            parts.append(int(_word(lsns[at], base) | state << _STATE_SHIFT).to_bytes(LSN_AND_STATE, "little"))
        if not state & SLOT_EMBEDDED:
            parts.append(pack(sizes[at]))
        if expirations:
            parts.append(pack(expirations[at]))


def add_children(parts: list[bytes], keys: list[Any], lsns: list[int], base: int | None, cut: int) -> None:
    """Encode slots of an upper node; their state is 0."""
    for at in range(len(keys)):
        key: bytes = keys[at]
        parts.append(pack(len(key) - cut))
        parts.append(key[cut:] if cut else key)
        if base is None:
            parts.append(_WHOLE_LSN_AND_STATE.pack(lsns[at], 0))
        else:
            parts.append(int(_word(lsns[at], base)).to_bytes(LSN_AND_STATE, "little"))


def _word(lsn: i64, base: i64) -> i64:
    """The compact form of an LSN as a number: the relative file number in the lowest byte, the offset above it."""
    if lsn == NULL_LSN:
        return NULL_OFFSET << 8
    return (lsn & 0xFFFFFF) << 8 | ((lsn >> 32) - base) & 0xFF


def read_records(body: bytes, head: BINHead, columns: SlotColumns) -> tuple[int, int]:
    """Read the slots of a BIN or a delta.

    Returns:
        Bytes of embedded data (-1 if the slots are invalid), and the position after the slots: the end of a full BIN.

    Raises:
        FormatError, IndexError: the fields do not fit into the body.
    """
    keys, lsns, states, values, sizes, expirations = columns
    prefix, expires = head.prefix, head.expiration_base != NO_BASE
    has_sizes, unit = bool(head.flags & HAS_SIZES), -1 if head.flags & EXPIRES_IN_HOURS else 1
    pos: i64 = head.slots_at
    end: i64 = len(body)
    is_whole = head.base is None
    first: i64 = head.base or 0
    lsn_bytes: i64 = _WHOLE_LSN_BYTES if is_whole else LSN_BYTES
    data_bytes = 0
    if pos > end or head.slots < 0:
        return -1, 0
    for _ in range(head.slots):
        length: i64 = body[pos]
        pos += 1
        # A length of up to 119 is one byte; no call is needed.
        if length > 119:
            length, pos = unpack(body, pos - 1)
        if length < 0 or length > end:
            return -1, 0
        at: i64 = pos + length
        # A state must follow the LSN.
        if at + lsn_bytes + 1 > end:
            return -1, 0
        key = body[pos:at]
        lsn = _whole_lsn(body, at) if is_whole else _compact_lsn(body, at, first)
        at += lsn_bytes
        state = body[at]
        pos = at + 1
        size = 0
        value: bytes | None = None
        if state & SLOT_EMBEDDED:
            value = b""
            if not state & SLOT_NO_DATA:
                key, value = split_two_part_key(key)
            data_bytes += len(value)
        elif has_sizes:
            size, pos = unpack(body, pos)
        expiration = 0
        if expires:
            expiration, pos = unpack(body, pos)
            # 0 means none; otherwise the offset from the base plus one.
            if expiration:
                expiration = (head.expiration_base + expiration - 1) * unit
        keys.append(prefix + key if prefix else key)
        lsns.append(lsn)
        # The dirty bit has a meaning in deltas only (je-log-format.md 8.4), where all slots have it.
        states.append(state & PERSISTENT)
        values.append(value)
        sizes.append(size)
        expirations.append(expiration)
    return data_bytes, pos


def _compact_lsn(body: bytes, at: i64, first: i64) -> i64:
    delta: i64 = body[at]
    b0: i64 = body[at + 1]
    b1: i64 = body[at + 2]
    b2: i64 = body[at + 3]
    offset: i64 = b0 | b1 << 8 | b2 << 16
    if delta > MOST_FILES:
        delta -= 256
    return NULL_LSN if offset == NULL_OFFSET else (first + delta) << 32 | offset


def _whole_lsn(body: bytes, at: i64) -> i64:
    b0: i64 = body[at]
    b1: i64 = body[at + 1]
    b2: i64 = body[at + 2]
    b3: i64 = body[at + 3]
    b4: i64 = body[at + 4]
    b5: i64 = body[at + 5]
    b6: i64 = body[at + 6]
    b7: i64 = body[at + 7]
    # The highest byte contains the sign.
    if b7 > 127:
        b7 -= 256
    return b0 | b1 << 8 | b2 << 16 | b3 << 24 | b4 << 32 | b5 << 40 | b6 << 48 | b7 << 56
