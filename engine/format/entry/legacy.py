"""Entries that occur only in old logs: BINDelta (22), DupBINDelta (23), INDelete (21), INDupDelete (26).

Old deltas (until v8): dbId, lastFullLsn, prevDeltaLsn (v8), n × (key, LSN, state). They hold no node id: they belong to
the node whose full version is at lastFullLsn. INDelete and INDupDelete (v6, v7) name a node that was removed from its
parent (je-log-format.md 6.12, 8.7).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import ByteReader, ByteWriter
from engine.format.fields import Shape, shape
from engine.format.lsn import NULL_LSN
from engine.format.versions import PACKED_NUMBERS, TWO_PART_DUPLICATES


class DeltaSlot(NamedTuple):
    """One changed slot."""

    key: bytes
    lsn: int
    state: int


class OldDelta(NamedTuple):
    """Changed slots of a BIN or DBIN since ``last_full_lsn``."""

    db_id: int
    last_full_lsn: int
    prev_delta_lsn: int
    slots: tuple[DeltaSlot, ...]


class INDelete(NamedTuple):
    """A node that was removed from the tree."""

    deleted_node_id: int
    deleted_key: bytes
    db_id: int


class INDupDelete(NamedTuple):
    """A duplicates tree that was removed from its main key."""

    deleted_node_id: int
    main_key: bytes
    dup_key: bytes
    db_id: int


OLD_DELTA: Final[Shape] = shape(OldDelta, "db_id=db:int last_full_lsn:lsn prev_delta_lsn:lsn slots:records")
DELTA_SLOT: Final[Shape] = shape(DeltaSlot, "key:bytes lsn:lsn state:hex")
IN_DELETE: Final[Shape] = shape(INDelete, "deleted_node_id=node:int deleted_key:bytes db_id=db:int")
IN_DUP_DELETE: Final[Shape] = shape(INDupDelete, "deleted_node_id=node:int main_key:bytes dup_key:bytes db_id=db:int")


def decode_old_delta(body: bytes, version: int) -> OldDelta:
    """Decode a BINDelta or DupBINDelta body, v6 to v8."""
    if version < PACKED_NUMBERS:
        raise FormatError("the body of a delta before v6 is not translated")
    reader = ByteReader(body)
    db_id, full = reader.packed(), reader.packed()
    delta = reader.packed() if version >= TWO_PART_DUPLICATES else NULL_LSN
    # Length of a key, LSN, state: at least one byte each.
    count = reader.count(3)
    slots = tuple(DeltaSlot(reader.byte_array(), reader.packed(), reader.u8()) for _ in range(count))
    reader.finish()
    return OldDelta(db_id, full, delta, slots)


def encode_old_delta(record: OldDelta, version: int) -> bytes:
    """Encode a BINDelta or DupBINDelta body."""
    writer = ByteWriter().packed(record.db_id, record.last_full_lsn)
    if version >= TWO_PART_DUPLICATES:
        writer.packed(record.prev_delta_lsn)
    writer.packed(len(record.slots))
    for slot in record.slots:
        writer.byte_array(slot.key).packed(slot.lsn).u8(slot.state)
    return writer.getvalue()


def decode_in_delete(body: bytes, version: int) -> INDelete:
    """Decode an INDelete body, v6 and v7."""
    reader = ByteReader(body)
    record = INDelete(reader.packed(), reader.byte_array(), reader.packed())
    reader.finish()
    return record


def encode_in_delete(record: INDelete, version: int) -> bytes:
    """Encode an INDelete body."""
    return ByteWriter().packed(record.deleted_node_id).byte_array(record.deleted_key).packed(record.db_id).getvalue()


def decode_in_dup_delete(body: bytes, version: int) -> INDupDelete:
    """Decode an INDupDelete body, v6 and v7."""
    reader = ByteReader(body)
    record = INDupDelete(reader.packed(), reader.byte_array(), reader.byte_array(), reader.packed())
    reader.finish()
    return record


def encode_in_dup_delete(record: INDupDelete, version: int) -> bytes:
    """Encode an INDupDelete body."""
    writer = ByteWriter().packed(record.deleted_node_id).byte_array(record.main_key).byte_array(record.dup_key)
    return writer.packed(record.db_id).getvalue()
