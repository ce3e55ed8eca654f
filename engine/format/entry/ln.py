"""Leaf entries: every LN type of every version (je-log-format.md 7).

Layout of v12 to v18, fields 2, 12, 13 since v16:

==  ================  =====  ==============================================================
1   flags             u8
2   flags2            u8     since v16
3   dbId              plong  negative for replicated databases
4   abortLsn          lsn    transactional types with flag 0x20
5   txnId             plong  transactional types; negative for replicated transactions
6   lastLsn           lsn    transactional types: previous LN of the transaction, or NULL
7   abortKey          bytes  flag 0x04
8   abortData         bytes  flag 0x08
9   abortVLSN         plong  flag 0x10
10  abortExpiration   pint   flag 0x40
11  expiration        pint   flag 0x80
12  priorSize         pint   flags2 0x01
13  priorFile         plong  flags2 0x02
14  LN content               data as ``bytes`` (-1: deleted), then what ``ln_content`` describes
15  key                      the rest of the item; types 5 to 8: with its length
16  tail                     types 5, 6, 7, 8, 44, 45
==  ================  =====  ==============================================================

Until v11 dbId comes first, the abort LSN is always present, and non-transactional entries have no flags (in v11 they
do). v6 and v7 have a node id before the data and store the length of internal keys. Since v19 expiration, modification
time, (v26) creation time and key come before the content, and all of the abort information after it.

``flags`` determine the fields that are read and written; an optional field of a record is used only if its flag is set.

Example (v17, INS_LN_TX at 0x0/0x646): ``02 00 06 07 ff | 05 77 6f 72 6c 64 | 68 65 6c 6c 6f`` is flags 0x02 (embedded),
flags2, database 6, transaction 7, no previous LN, data "world", key "hello".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import ByteReader, ByteWriter
from engine.format.entry import ln_content as lc
from engine.format.entry_types import INSERTIONS, REPLACEMENTS
from engine.format.lsn import NULL_LSN
from engine.format.versions import (
    BEFORE_IMAGES,
    CREATION_TIMES,
    EMBEDDED_RECORDS,
    LN_FLAGS_FIRST,
    LN_KEY_FIRST,
    PACKED_NUMBERS,
    PRIOR_VERSION,
    TWO_PART_DUPLICATES,
)
from engine.format.vlsn import NULL_VLSN

# flags
ABORT_KNOWN_DELETED: Final = 0x01
EMBEDDED: Final = 0x02
HAS_ABORT_KEY: Final = 0x04
HAS_ABORT_DATA: Final = 0x08
HAS_ABORT_VLSN: Final = 0x10
HAS_ABORT_LSN: Final = 0x20
HAS_ABORT_EXPIRATION: Final = 0x40
HAS_EXPIRATION: Final = 0x80

# flags2
HAS_PRIOR_SIZE: Final = 0x01
HAS_PRIOR_FILE: Final = 0x02
TOMBSTONE: Final = 0x04
ABORT_TOMBSTONE: Final = 0x08
HAS_ABORT_MODIFICATION_TIME: Final = 0x10
BLIND_DELETION: Final = 0x20
BEFORE_IMAGE: Final = 0x40
HAS_ABORT_CREATION_TIME: Final = 0x80

# flags3
HAS_CREATION_TIME: Final = 0x01

Content = lc.MapLN | lc.NameLN | lc.FileSummaryLN | lc.DupCountLN
Tail = lc.NameOperation | bytes | int


class LN(NamedTuple):
    """A leaf entry, with fields in the order of v17; a field that the version or the flags exclude has its empty value.

    Attributes:
        node_id: up to v7; None later.
        data: the record's data; None is a deletion.
        content: the fields of internal trees after the data.
        tail: the operation of a NameLN, the data item of a DelDupLN, or the before-image expiration of types 44 and 45.
    """

    flags: int
    flags2: int
    flags3: int
    db_id: int
    abort_lsn: int
    txn_id: int | None
    last_lsn: int
    abort_key: bytes | None
    abort_data: bytes | None
    abort_vlsn: int
    abort_expiration: int
    abort_modification_time: int
    abort_creation_time: int
    expiration: int
    modification_time: int
    creation_time: int
    prior_size: int
    prior_file: int
    node_id: int | None
    data: bytes | None
    content: Content | None
    key: bytes
    tail: Tail | None

    @property
    def embedded(self) -> bool:
        """Whether the record is stored in its BIN after this operation."""
        return bool(self.flags & EMBEDDED)

    @property
    def blind_deletion(self) -> bool:
        """Whether the entry deletes a record without knowing its data (since v20)."""
        return bool(self.flags2 & BLIND_DELETION)

    @property
    def abort_known_deleted(self) -> bool:
        """Whether the version before the transaction was a deletion."""
        return bool(self.flags & ABORT_KNOWN_DELETED)


class LNKind(NamedTuple):
    """The properties by which one LN type differs from others.

    Attributes:
        type_number: number of the entry type.
        transactional: whether the body has transaction fields.
        read_content, write_content: codec of the content after the data, or None; both work on the same class.
        counted_key: the key is stored with its length in every version.
        tail: "", "name", "data" or "before_image".
    """

    type_number: int
    transactional: bool
    read_content: Callable[[ByteReader, int, bool], Content] | None = None
    write_content: Callable[[ByteWriter, Any, int], None] | None = None
    counted_key: bool = False
    tail: str = ""


def decode_ln(body: bytes, version: int, kind: LNKind) -> LN:
    """Decode an LN body of any version.

    Raises:
        FormatError: the body does not fit the layout.
    """
    if LN_FLAGS_FIRST <= version < LN_KEY_FIRST:
        return _decode_v12(body, version, kind)
    return _decode_v19(body, version, kind) if version >= LN_KEY_FIRST else _decode_v6(body, version, kind)


def encode_ln(record: LN, version: int, kind: LNKind) -> bytes:
    """Encode an LN body.

    Arguments:
        record: the decoded LN; its flags decide which optional fields are written.
        version: any log version, 6 to 26.
        kind: the entry type.
    """
    writer = ByteWriter()
    if version >= LN_KEY_FIRST:
        _encode_v19(writer, record, version, kind)
    elif version >= LN_FLAGS_FIRST:
        _encode_v12(writer, record, version, kind)
    else:
        _encode_v6(writer, record, version, kind)
    return writer.getvalue()


def creation_flag(type_number: int, modified: int, created: int) -> int:
    """``flags3`` of a new entry since v26: an insertion has a creation time unless it equals the modification time."""
    return HAS_CREATION_TIME if type_number in INSERTIONS and created != modified else 0


def _decode_v12(body: bytes, version: int, kind: LNKind) -> LN:
    reader = ByteReader(body)
    flags = reader.u8()
    flags2 = reader.u8() if version >= PRIOR_VERSION else 0
    db_id = reader.packed()
    txn = _read_txn(reader, flags, kind)
    abort = _read_abort(reader, flags)
    expiration = reader.packed() if flags & HAS_EXPIRATION else 0
    prior = _read_prior(reader, flags2)
    data = reader.nullable_bytes()
    content = _read_content(reader, version, kind, data)
    # The key has no length if it extends to the end or to the tail.
    key = reader.byte_array() if kind.counted_key else reader.rest()
    tail = _read_tail(reader, version, kind)
    reader.finish()
    return LN._make(
        (flags, flags2, 0, db_id, *txn, *abort, 0, 0, expiration, 0, 0, *prior, None, data, content, key, tail)
    )


def _encode_v12(writer: ByteWriter, record: LN, version: int, kind: LNKind) -> None:
    writer.u8(record.flags)
    if version >= PRIOR_VERSION:
        writer.u8(record.flags2)
    writer.packed(record.db_id)
    _write_txn(writer, record, kind)
    _write_abort(writer, record)
    if record.flags & HAS_EXPIRATION:
        writer.packed(record.expiration)
    _write_prior(writer, record)
    writer.nullable_bytes(record.data)
    _write_content(writer, record, version, kind)
    _write_key(writer, record, counted=kind.counted_key)
    _write_tail(writer, record, version)


def _decode_v19(body: bytes, version: int, kind: LNKind) -> LN:
    reader = ByteReader(body)
    flags, flags2 = reader.u8(), reader.u8()
    flags3 = reader.u8() if version >= CREATION_TIMES else 0
    db_id = reader.packed()
    expiration = reader.packed() if flags & HAS_EXPIRATION else 0
    modified = reader.packed()
    created = reader.packed() if _has_creation_time(version, flags3, kind) else 0
    key = reader.byte_array()
    data = reader.nullable_bytes()
    content = _read_content(reader, version, kind, data)
    txn = _read_txn(reader, flags, kind)
    abort = _read_abort(reader, flags)
    abort_modified = reader.packed() if flags2 & HAS_ABORT_MODIFICATION_TIME else 0
    abort_created = reader.packed() if version >= CREATION_TIMES and flags2 & HAS_ABORT_CREATION_TIME else 0
    prior = _read_prior(reader, flags2)
    tail = _read_tail(reader, version, kind)
    reader.finish()
    times = (abort_modified, abort_created, expiration, modified, created)
    return LN._make((flags, flags2, flags3, db_id, *txn, *abort, *times, *prior, None, data, content, key, tail))


def _encode_v19(writer: ByteWriter, record: LN, version: int, kind: LNKind) -> None:
    writer.u8(record.flags).u8(record.flags2)
    if version >= CREATION_TIMES:
        writer.u8(record.flags3)
    writer.packed(record.db_id)
    if record.flags & HAS_EXPIRATION:
        writer.packed(record.expiration)
    writer.packed(record.modification_time)
    if _has_creation_time(version, record.flags3, kind):
        writer.packed(record.creation_time)
    _write_key(writer, record, counted=True)
    writer.nullable_bytes(record.data)
    _write_content(writer, record, version, kind)
    _write_txn(writer, record, kind)
    _write_abort(writer, record)
    if record.flags2 & HAS_ABORT_MODIFICATION_TIME:
        writer.packed(record.abort_modification_time)
    if version >= CREATION_TIMES and record.flags2 & HAS_ABORT_CREATION_TIME:
        writer.packed(record.abort_creation_time)
    _write_prior(writer, record)
    _write_tail(writer, record, version)


def _decode_v6(body: bytes, version: int, kind: LNKind) -> LN:
    if version < PACKED_NUMBERS:
        raise FormatError("the body of an entry before v6 is not translated")
    reader = ByteReader(body)
    db_id = reader.packed()
    abort_lsn = reader.packed() if kind.transactional else NULL_LSN
    flags = reader.u8() if kind.transactional or version >= EMBEDDED_RECORDS else 0
    txn_id = reader.packed() if kind.transactional else None
    last_lsn = reader.packed() if kind.transactional else NULL_LSN
    # Before v11 these bits have no meaning.
    abort = _read_abort(reader, flags if version >= EMBEDDED_RECORDS else 0)
    node_id = reader.packed() if version < TWO_PART_DUPLICATES else None
    data = reader.nullable_bytes()
    content = _read_content(reader, version, kind, data)
    key = reader.byte_array() if _counted_until_v11(version, kind) else reader.rest()
    tail = _read_tail(reader, version, kind)
    reader.finish()
    txn = (abort_lsn, txn_id, last_lsn)
    return LN._make((flags, 0, 0, db_id, *txn, *abort, 0, 0, 0, 0, 0, 0, -1, node_id, data, content, key, tail))


def _encode_v6(writer: ByteWriter, record: LN, version: int, kind: LNKind) -> None:
    writer.packed(record.db_id)
    if kind.transactional:
        writer.packed(record.abort_lsn)
    if kind.transactional or version >= EMBEDDED_RECORDS:
        writer.u8(record.flags)
    if kind.transactional:
        writer.packed(record.txn_id or 0, record.last_lsn)
    if version >= EMBEDDED_RECORDS:
        _write_abort(writer, record)
    if version < TWO_PART_DUPLICATES:
        writer.packed(record.node_id or 0)
    writer.nullable_bytes(record.data)
    _write_content(writer, record, version, kind)
    _write_key(writer, record, counted=_counted_until_v11(version, kind))
    _write_tail(writer, record, version)


def _counted_until_v11(version: int, kind: LNKind) -> bool:
    # v6 and v7 store the length of internal keys even if nothing follows the key.
    return kind.counted_key or (version < TWO_PART_DUPLICATES and kind.read_content is not None)


def _has_creation_time(version: int, flags3: int, kind: LNKind) -> bool:
    # A replacement always has it, an insertion only if its flag is set.
    return version >= CREATION_TIMES and bool(flags3 & HAS_CREATION_TIME or kind.type_number in REPLACEMENTS)


def _read_txn(reader: ByteReader, flags: int, kind: LNKind) -> tuple[int, int | None, int]:
    if not kind.transactional:
        return NULL_LSN, None, NULL_LSN
    abort_lsn = reader.packed() if flags & HAS_ABORT_LSN else NULL_LSN
    return abort_lsn, reader.packed(), reader.packed()


def _write_txn(writer: ByteWriter, record: LN, kind: LNKind) -> None:
    if kind.transactional:
        if record.flags & HAS_ABORT_LSN:
            writer.packed(record.abort_lsn)
        writer.packed(record.txn_id or 0, record.last_lsn)


def _read_abort(reader: ByteReader, flags: int) -> tuple[bytes | None, bytes | None, int, int]:
    key = reader.byte_array() if flags & HAS_ABORT_KEY else None
    data = reader.byte_array() if flags & HAS_ABORT_DATA else None
    vlsn = reader.packed() if flags & HAS_ABORT_VLSN else NULL_VLSN
    return key, data, vlsn, reader.packed() if flags & HAS_ABORT_EXPIRATION else 0


def _write_abort(writer: ByteWriter, record: LN) -> None:
    if record.flags & HAS_ABORT_KEY:
        writer.byte_array(record.abort_key or b"")
    if record.flags & HAS_ABORT_DATA:
        writer.byte_array(record.abort_data or b"")
    if record.flags & HAS_ABORT_VLSN:
        writer.packed(record.abort_vlsn)
    if record.flags & HAS_ABORT_EXPIRATION:
        writer.packed(record.abort_expiration)


def _read_prior(reader: ByteReader, flags2: int) -> tuple[int, int]:
    size = reader.packed() if flags2 & HAS_PRIOR_SIZE else 0
    return size, reader.packed() if flags2 & HAS_PRIOR_FILE else -1


def _write_prior(writer: ByteWriter, record: LN) -> None:
    if record.flags2 & HAS_PRIOR_SIZE:
        writer.packed(record.prior_size)
    if record.flags2 & HAS_PRIOR_FILE:
        writer.packed(record.prior_file)


def _read_content(reader: ByteReader, version: int, kind: LNKind, data: bytes | None) -> Content | None:
    return None if kind.read_content is None else kind.read_content(reader, version, data is None)


def _write_content(writer: ByteWriter, record: LN, version: int, kind: LNKind) -> None:
    if kind.write_content is not None and record.content is not None:
        kind.write_content(writer, record.content, version)


def _write_key(writer: ByteWriter, record: LN, *, counted: bool) -> None:
    if counted:
        writer.byte_array(record.key)
    else:
        writer.raw(record.key)


def _read_tail(reader: ByteReader, version: int, kind: LNKind) -> Tail | None:
    if kind.tail == "name":
        return lc.read_name_operation(reader, version)
    if kind.tail == "data":
        return reader.byte_array()
    # Masters send these entries to replicas of earlier versions too, without the field.
    return reader.packed() if kind.tail == "before_image" and version >= BEFORE_IMAGES else None


def _write_tail(writer: ByteWriter, record: LN, version: int) -> None:
    tail = record.tail
    if isinstance(tail, lc.NameOperation):
        lc.write_name_operation(writer, tail, version)
    elif isinstance(tail, bytes):
        writer.byte_array(tail)
    elif tail is not None and version >= BEFORE_IMAGES:
        writer.packed(tail)
