"""Tree nodes: IN (12), BIN (13), DIN (14), DBIN (15) and NewBINDelta (37), je-log-format.md 8.

Entry body:

==================  ======  ==============================================================
dbId                plong
prevFullLsn         lsn     the previous complete version; in a delta the BIN it applies to
prevFullSize        pint    since v21
prevDeltaLsn        lsn     since v8
prevDeltaSize       pint    since v21
node                        below
prevFullLsn again   lsn     v9, type 37 only: the true one; the first field is NULL there
==================  ======  ==============================================================

Node: expirationBase (BIN and delta, v12), creationTimesBase (v26), modificationTimesBase (v19), nodeId, identifierKey,
flags, keyPrefix (flag 0x02), compactMaxKeySize (v18), nEntries, level, maxEntries, compactLsns with its base file
(until v17), the slots, and in a delta since v10 fullBinNEntries, fullBinMaxEntries, bloomFilter (flag 0x08).

Slot: key, LSN (i8 file delta + u24 offset when compact, else i64), state, logSize (node flag 0x04, not embedded), VLSN
(0x10, embedded), expiration offset (when the node has a base), creation and modification time offsets (v26, v19,
embedded). The key of a slot whose data is embedded is stored as ``suffix || data || reverse-packed(len(suffix))``.

DBIN (v6, v7) ends with the main key. DIN ends with the main key and a reference to the DupCountLN.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from engine.errors import FormatError, plural
from engine.format.bytecursor import ByteReader, ByteWriter, join_two_part_key, pack, split_two_part_key, unpack
from engine.format.entry_types import (
    BINS,
    DBIN_TYPE,
    DELTA_TYPE,
    DIN_TYPE,
    DUP_NODES,
)
from engine.format.fields import Shape, shape
from engine.format.lsn import NULL_LSN
from engine.format.versions import (
    CREATION_TIMES,
    EXPIRATION,
    LN_KEY_FIRST,
    LONG_LSNS_ONLY,
    NODE_SIZES,
    PACKED_NUMBERS,
    TWO_PART_DUPLICATES,
)

# Node flags.
ROOT: Final = 0x01
HAS_PREFIX: Final = 0x02
HAS_SIZES: Final = 0x04
HAS_BLOOM_FILTER: Final = 0x08
HAS_VLSNS: Final = 0x10
EXPIRES_IN_HOURS: Final = 0x20

# Slot states.
KNOWN_DELETED: Final = 0x01
DIRTY: Final = 0x02
PENDING_DELETED: Final = 0x08
SLOT_EMBEDDED: Final = 0x10
SLOT_NO_DATA: Final = 0x20
SLOT_TOMBSTONE: Final = 0x80

LEVEL_MASK: Final = 0xFFFF
MAPPING_TREE: Final = 0x20000

_LONG_LSN: Final = Struct("<q")
_LONG_LSN_AND_STATE: Final = Struct("<qB")
_COMPACT_LSN_AND_STATE: Final = Struct("<IB")
_COMPACT_LSN: Final = Struct("<I")
# The offset that stands for NULL in a compact LSN.
NULL_OFFSET: Final = 0xFFFFFF
# An empty key (its length), a compact LSN and a state.
LEAST_SLOT_BYTES: Final = 6
_DELTA_COUNTS_VERSION: Final = 10
_ODD_DELTA_VERSION: Final = 9


class Slot(NamedTuple):
    """One slot.

    Attributes:
        key: the stored key without the node's prefix and without embedded data.
        data: the embedded data; None when the record is not embedded or has no data.
        log_size: total size of the child's entry in bytes; 0 if unknown; None if not stored.
        vlsn, expiration, creation_time, modification_time: as stored (offsets from the node's bases); None if absent.
    """

    key: bytes
    lsn: int
    state: int
    data: bytes | None
    log_size: int | None
    vlsn: int | None
    expiration: int | None
    creation_time: int | None
    modification_time: int | None


class DupCountRef(NamedTuple):
    """A DIN's reference to its DupCountLN (v6, v7)."""

    key: bytes
    lsn: int
    state: int


DUP_COUNT_REF: Final[Shape] = shape(DupCountRef, "key:bytes lsn:lsn state:hex")


class NodeRecord(NamedTuple):
    """A logged node.

    Attributes:
        base_file: lowest file number of compact LSNs; None when LSNs are stored in full.
        n_entries: number of slots; equal to ``len(slots)`` unless the slots were skipped in decoding.
        dup_key: the main key of a DIN or DBIN.
    """

    db_id: int
    prev_full_lsn: int
    prev_full_size: int
    prev_delta_lsn: int
    prev_delta_size: int
    expiration_base: int
    creation_base: int
    modification_base: int
    node_id: int
    identifier_key: bytes
    flags: int
    key_prefix: bytes | None
    compact_max_key_size: int
    n_entries: int
    level: int
    max_entries: int
    base_file: int | None
    slots: tuple[Slot, ...]
    full_bin_entries: int
    full_bin_max_entries: int
    bloom_filter: bytes | None
    dup_key: bytes | None
    dup_count: DupCountRef | None

    @property
    def is_root(self) -> bool:
        """Whether the node is the root of its tree."""
        return bool(self.flags & ROOT)

    @property
    def height(self) -> int:
        """The height of the node: 1 for a BIN, 2 for its parent, and so on."""
        return self.level & LEVEL_MASK

    def full_key(self, slot: Slot) -> bytes:
        """The key of a slot with the node's prefix."""
        return slot.key if self.key_prefix is None else self.key_prefix + slot.key


def decode_node(body: bytes, version: int, type_number: int, *, with_slots: bool = True) -> NodeRecord:
    """Decode a node of any version.

    Arguments:
        body: the item.
        version: log version of the file.
        type_number: 12, 13, 14, 15 or 37.
        with_slots: False skips the slots and everything after them, which makes a summary cheap.

    Raises:
        FormatError: the body does not fit the layout.
    """
    if version < PACKED_NUMBERS:
        raise FormatError("the body of a node before v6 is not translated")
    reader = ByteReader(body)
    head = _read_versions(reader, version)
    is_bin = type_number in BINS
    bases = _read_bases(reader, version) if is_bin else (-1, -1, -1)
    node_id, identifier_key, flags = reader.packed(), reader.byte_array(), reader.u8()
    prefix = reader.byte_array() if flags & HAS_PREFIX else None
    compact_key = reader.packed() if version >= LONG_LSNS_ONLY else -1
    n_entries = reader.count(LEAST_SLOT_BYTES)
    level, max_entries = reader.packed(), reader.packed()
    compact = version < LONG_LSNS_ONLY and reader.u8() == 1
    base_file = reader.i32() if compact else None
    slots: tuple[Slot, ...] = ()
    tail: tuple[int, int, bytes | None, bytes | None, DupCountRef | None] = (0, 0, None, None, None)
    if with_slots:
        layout = _SlotLayout(version, base_file, flags, is_bin, is_bin and bases[0] != -1)
        slots = _read_slots(body, reader, n_entries, layout)
        tail = _read_tail(reader, version, type_number, flags)
        if version == _ODD_DELTA_VERSION and type_number == DELTA_TYPE:
            # In v9 only this LSN at the end is the true one.
            head = (head[0], reader.packed(), *head[2:])
        reader.finish()
    shape_of_node = (flags, prefix, compact_key, n_entries, level, max_entries, base_file)
    return NodeRecord._make((*head, *bases, node_id, identifier_key, *shape_of_node, slots, *tail))


def encode_node(record: NodeRecord, version: int, type_number: int) -> bytes:
    """Encode a node of any version; the mirror of ``decode_node``."""
    writer = ByteWriter()
    odd = version == _ODD_DELTA_VERSION and type_number == DELTA_TYPE
    is_bin = type_number in BINS
    _write_versions(writer, record, version, NULL_LSN if odd else record.prev_full_lsn)
    if is_bin:
        _write_bases(writer, record, version)
    writer.packed(record.node_id).byte_array(record.identifier_key).u8(record.flags)
    if record.flags & HAS_PREFIX:
        writer.byte_array(record.key_prefix or b"")
    if version >= LONG_LSNS_ONLY:
        writer.packed(record.compact_max_key_size)
    writer.packed(len(record.slots), record.level, record.max_entries)
    base_file = record.base_file if version < LONG_LSNS_ONLY else None
    if version < LONG_LSNS_ONLY:
        writer.u8(0 if base_file is None else 1)
    if base_file is not None:
        writer.i32(base_file)
    layout = _SlotLayout(version, base_file, record.flags, is_bin, is_bin and record.expiration_base != -1)
    # Slots without optional fields have a fast path that writes the same bytes.
    if (version < LN_KEY_FIRST or not is_bin) and not layout.expires and not record.flags & HAS_VLSNS:
        writer.raw(_usual_slots(record.slots, base_file, bool(record.flags & HAS_SIZES)))
    else:
        for slot in record.slots:
            _write_slot(writer, slot, layout)
    _write_tail(writer, record, version, type_number)
    if odd:
        writer.packed(record.prev_full_lsn)
    return writer.getvalue()


class _SlotLayout(NamedTuple):
    """Which optional fields the slots of a node have."""

    version: int
    base_file: int | None
    flags: int
    is_bin: bool
    expires: bool


def _read_versions(reader: ByteReader, version: int) -> tuple[int, int, int, int, int]:
    db_id, full = reader.packed(), reader.packed()
    full_size = reader.packed() if version >= NODE_SIZES else 0
    delta = reader.packed() if version >= TWO_PART_DUPLICATES else NULL_LSN
    return db_id, full, full_size, delta, reader.packed() if version >= NODE_SIZES else 0


def _write_versions(writer: ByteWriter, record: NodeRecord, version: int, prev_full_lsn: int) -> None:
    writer.packed(record.db_id, prev_full_lsn)
    if version >= NODE_SIZES:
        writer.packed(record.prev_full_size)
    if version >= TWO_PART_DUPLICATES:
        writer.packed(record.prev_delta_lsn)
    if version >= NODE_SIZES:
        writer.packed(record.prev_delta_size)


def _read_bases(reader: ByteReader, version: int) -> tuple[int, int, int]:
    expiration = reader.packed() if version >= EXPIRATION else -1
    creation = reader.packed() if version >= CREATION_TIMES else -1
    return expiration, creation, reader.packed() if version >= LN_KEY_FIRST else -1


def _write_bases(writer: ByteWriter, record: NodeRecord, version: int) -> None:
    if version >= EXPIRATION:
        writer.packed(record.expiration_base)
    if version >= CREATION_TIMES:
        writer.packed(record.creation_base)
    if version >= LN_KEY_FIRST:
        writer.packed(record.modification_base)


def _read_slots(body: bytes, reader: ByteReader, n_entries: int, layout: _SlotLayout) -> tuple[Slot, ...]:
    """Read the slots. Works on positions instead of the reader, for speed: in many logs most bytes belong to nodes."""
    version, base_file, flags, is_bin, expires = layout
    has_sizes, has_vlsns = bool(flags & HAS_SIZES), bool(flags & HAS_VLSNS)
    pos = reader.pos
    slots = []
    for _ in range(n_entries):
        length, pos = unpack(body, pos)
        end = pos + length
        # A compact LSN and a state must follow the key.
        if length < 0 or end + 5 > len(body):
            raise FormatError("slot runs past the end of the entry", expected=f"a key of {plural(length, 'byte')}")
        key = body[pos:end]
        lsn, pos = _read_slot_lsn(body, end, base_file)
        state = body[pos]
        pos += 1
        embedded = bool(state & SLOT_EMBEDDED)
        data: bytes | None = None
        if embedded and not state & SLOT_NO_DATA:
            key, data = split_two_part_key(key)
        log_size = vlsn = expiration = created = modified = None
        if has_sizes and not embedded:
            log_size, pos = unpack(body, pos)
        if has_vlsns and embedded:
            vlsn, pos = unpack(body, pos)
        if expires:
            expiration, pos = unpack(body, pos)
        if embedded and is_bin and version >= CREATION_TIMES:
            created, pos = unpack(body, pos)
        if embedded and is_bin and version >= LN_KEY_FIRST:
            modified, pos = unpack(body, pos)
        slots.append(Slot(key, lsn, state, data, log_size, vlsn, expiration, created, modified))
    reader.pos = pos
    return tuple(slots)


def _read_slot_lsn(body: bytes, pos: int, base_file: int | None) -> tuple[int, int]:
    if base_file is None:
        return int(_LONG_LSN.unpack_from(body, pos)[0]), pos + _LONG_LSN.size
    word = _COMPACT_LSN.unpack_from(body, pos)[0]
    offset, file_delta = word >> 8, word & 0xFF
    if offset == NULL_OFFSET:
        return NULL_LSN, pos + _COMPACT_LSN.size
    # The file is a signed byte, counted from the base file.
    return (base_file + (file_delta - 256 if file_delta > 127 else file_delta) << 32) | offset, pos + 4


def _usual_slots(slots: tuple[Slot, ...], base_file: int | None, has_sizes: bool) -> bytes:
    """Slots without expirations, VLSNs and times: the same bytes as from ``_write_slot``, at a third of the cost.

    Most slots that a checkpoint writes are of this kind.
    """
    parts: list[bytes] = []
    add = parts.append
    for slot in slots:
        stored, lsn, state = slot.key, slot.lsn, slot.state
        embedded = state & SLOT_EMBEDDED
        if embedded and not state & SLOT_NO_DATA:
            stored = join_two_part_key(stored, slot.data or b"")
        add(pack(len(stored)))
        add(stored)
        if base_file is None:
            add(_LONG_LSN_AND_STATE.pack(lsn, state))
        elif lsn == NULL_LSN:
            add(_COMPACT_LSN_AND_STATE.pack(NULL_OFFSET << 8, state))
        else:
            add(_COMPACT_LSN_AND_STATE.pack((lsn & 0xFFFFFF) << 8 | ((lsn >> 32) - base_file) & 0xFF, state))
        if has_sizes and not embedded:
            add(pack(slot.log_size or 0))
    return b"".join(parts)


def _write_slot(writer: ByteWriter, slot: Slot, layout: _SlotLayout) -> None:
    version, base_file, flags, is_bin, expires = layout
    embedded = bool(slot.state & SLOT_EMBEDDED)
    two_part = embedded and not slot.state & SLOT_NO_DATA
    writer.byte_array(join_two_part_key(slot.key, slot.data or b"") if two_part else slot.key)
    if base_file is None:
        writer.i64(slot.lsn)
    elif slot.lsn == NULL_LSN:
        writer.raw(_COMPACT_LSN.pack(NULL_OFFSET << 8))
    else:
        writer.raw(_COMPACT_LSN.pack((slot.lsn & 0xFFFFFF) << 8 | ((slot.lsn >> 32) - base_file) & 0xFF))
    writer.u8(slot.state)
    if flags & HAS_SIZES and not embedded:
        writer.packed(slot.log_size or 0)
    if flags & HAS_VLSNS and embedded:
        writer.packed(-1 if slot.vlsn is None else slot.vlsn)
    if expires:
        writer.packed(slot.expiration or 0)
    if embedded and is_bin and version >= CREATION_TIMES:
        writer.packed(slot.creation_time or 0)
    if embedded and is_bin and version >= LN_KEY_FIRST:
        writer.packed(slot.modification_time or 0)


def _read_tail(
    reader: ByteReader, version: int, type_number: int, flags: int
) -> tuple[int, int, bytes | None, bytes | None, DupCountRef | None]:
    if type_number == DELTA_TYPE and version >= _DELTA_COUNTS_VERSION:
        counts = (reader.packed(), reader.packed())
        return *counts, reader.byte_array() if flags & HAS_BLOOM_FILTER else None, None, None
    if type_number == DBIN_TYPE:
        return 0, 0, None, reader.byte_array(), None
    if type_number == DIN_TYPE:
        dup_key = reader.byte_array()
        has_count = reader.u8() & 1
        ref = DupCountRef(reader.byte_array(), reader.packed(), reader.u8()) if has_count else None
        return 0, 0, None, dup_key, ref
    return 0, 0, None, None, None


def _write_tail(writer: ByteWriter, record: NodeRecord, version: int, type_number: int) -> None:
    if type_number == DELTA_TYPE and version >= _DELTA_COUNTS_VERSION:
        writer.packed(record.full_bin_entries, record.full_bin_max_entries)
        if record.flags & HAS_BLOOM_FILTER:
            writer.byte_array(record.bloom_filter or b"")
    if type_number in DUP_NODES:
        writer.byte_array(record.dup_key or b"")
    if type_number == DIN_TYPE:
        ref = record.dup_count
        writer.u8(0 if ref is None else 1)
        if ref is not None:
            writer.byte_array(ref.key).packed(ref.lsn).u8(ref.state)
