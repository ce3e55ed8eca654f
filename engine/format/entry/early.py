"""Bodies of log versions 1 to 5, in which no number is packed, translated to the layout of version 6.

Until v5 each entry has a version of its own, in the low five bits of its flags; it counts the changes of that type, so
a file of version 5 holds ``LN_TX/0`` beside ``BIN/2`` and ``FileSummaryLN/3`` (je-log-format.md 21). ``translated``
turns a body into the one that version 6 would hold. Code that reads logs translates an entry where it makes it, so that
nothing else has to know these layouts.

What version 6 added has the value that JE 18.3.20 gives it when it reads an old entry: no operation after the key of a
NameLN, 0 for the last ids of replication, no utilization per database. A comparator that is stored as the name of its
class becomes the Java-serialized name, as JE 3.1 and later store it. IN/0 and IN/1 (v1, v2), which JE 18.3.20 does not
read, are those of JE 3.2: IN/0 ends with the database id, IN/1 has the file of the previous version after it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from engine.errors import FormatError
from engine.format import entry_types as et
from engine.format.bytecursor import ByteReader
from engine.format.entry import ln_content as lc
from engine.format.entry.checkpoint import HAS_ROOT, CkptEnd, CkptStart
from engine.format.entry.db_tree import DatabaseImpl, DbTree
from engine.format.entry.legacy import DeltaSlot, INDelete, INDupDelete, OldDelta
from engine.format.entry.ln import LN
from engine.format.entry.node import NULL_OFFSET, DupCountRef, NodeRecord, Slot
from engine.format.entry.trace import Trace
from engine.format.entry.txn_end import Prepare, TxnEnd, read_xid_part
from engine.format.lsn import NULL_LSN, make_lsn
from engine.format.versions import PACKED_NUMBERS
from engine.format.vlsn import NULL_VLSN

# Type versions at which a layout changed.
_COMPARATOR_OBJECTS: Final = 2
_FANOUT: Final = 1
_OFFSETS: Final = 1
_SIZES_COUNTED: Final = 3
_PREVIOUS_FILE: Final = 1
_PREVIOUS_LSN: Final = 2

_COUNTERS: Final = Struct("<8i")
_SIZE_COUNTERS: Final = Struct("<2i")
_COMPACT_LSN: Final = Struct("<I")
_NO_FILE: Final = 0xFFFFFFFF
# Java's serialized form of a text: magic, version and type, then its length in two bytes.
_JAVA_TEXT: Final = b"\xac\xed\x00\x05t"
# The length of a key, a compact LSN, a state.
_LEAST_SLOT: Final = 9
_LEAST_DELTA_SLOT: Final = 13


def translated(number: int, version: int, body: bytes, encode: Callable[[int, int, Any], bytes]) -> bytes:
    """The body in the layout of version 6.

    Arguments:
        number: entry type.
        version: the entry's own version, 0 to 5.
        body: exactly the bytes of the item.
        encode: ``codecs.encode_body``.

    Raises:
        FormatError: the body does not fit its type.
    """
    read = _READERS.get(number)
    if read is None:
        return body
    reader = ByteReader(body)
    try:
        record = read(reader, version, number)
        reader.finish()
        return encode(number, PACKED_NUMBERS, record)
    except FormatError as error:
        raise FormatError(f"{et.type_name(number)}: {error}") from error
    except (ValueError, OverflowError, IndexError, struct.error) as error:
        raise FormatError(f"{et.type_name(number)}: the body does not fit its type", found=str(error)) from error


def _array(reader: ByteReader) -> bytes | None:
    """A byte array with its length in four bytes; a negative length is None."""
    length = reader.i32()
    return None if length < 0 else reader.raw(length)


def _filled(reader: ByteReader) -> bytes:
    """A byte array that may not be null."""
    return reader.raw(reader.i32())


def _text(reader: ByteReader) -> str:
    """A text in the charset of the machine that wrote it; bytes that are not UTF-8 survive."""
    return _filled(reader).decode("utf-8", "surrogateescape")


def _count(reader: ByteReader, least_bytes: int) -> int:
    """A count of elements that take at least ``least_bytes`` bytes each.

    Raises:
        FormatError: negative, or more than the rest of the body can hold.
    """
    value = reader.i32()
    if value < 0 or value * least_bytes > reader.remaining():
        raise FormatError("impossible count", expected=f"0..{reader.remaining() // least_bytes}", found=str(value))
    return value


def _ln(reader: ByteReader, version: int, number: int) -> LN:
    node_id = reader.i64()
    data = _array(reader) if reader.u8() == 1 else None
    content = _content(reader, version, number, data is None)
    db_id, key = reader.i32(), _filled(reader)
    abort_lsn = last_lsn = NULL_LSN
    txn_id, flags = None, 0
    if number in et.TRANSACTIONAL:
        abort_lsn, flags = reader.i64(), reader.u8()
        txn_id, last_lsn = reader.i64(), reader.i64()
    tail: Any = None
    if number in et.DEL_DUP_LNS:
        tail = _filled(reader)
    elif number in et.NAME_LNS:
        tail = lc.NameOperation(0, None, None)
    txn = (abort_lsn, txn_id, last_lsn)
    none = (None, None, NULL_VLSN, 0, 0, 0, 0, 0, 0, 0, -1)
    return LN._make((flags, 0, 0, db_id, *txn, *none, node_id, data, content, key, tail))


def _content(reader: ByteReader, version: int, number: int, deleted: bool) -> Any:
    if number in et.MAP_LNS:
        return lc.MapLN(_database(reader, version), reader.u8())
    if number in et.NAME_LNS:
        return lc.NameLN(reader.i32(), reader.u8())
    if number in et.DUP_COUNT_LNS:
        return lc.DupCountLN(reader.i32())
    return _file_summary(reader, version, deleted) if number == et.FILE_SUMMARY_LN else None


def _file_summary(reader: ByteReader, version: int, deleted: bool) -> lc.FileSummaryLN:
    if deleted:
        return lc.FileSummaryLN(NULL_LSN, None, ())
    *totals, in_count, ln_count = _COUNTERS.unpack(reader.raw(_COUNTERS.size))
    if in_count == -1:
        # JE 1.5.3 and earlier counted no obsolete nodes: all count as obsolete.
        in_count = totals[2]
    sizes = (0, 0)
    if version >= _SIZES_COUNTED:
        sizes = _SIZE_COUNTERS.unpack(reader.raw(_SIZE_COUNTERS.size))
    summary = lc.FileSummary._make((*totals, 0, in_count, ln_count, *sizes))
    if version < _OFFSETS:
        return lc.FileSummaryLN(NULL_LSN, summary, ())
    count, length = reader.i32(), _count(reader, 2)
    return lc.FileSummaryLN(NULL_LSN, summary, lc.unpacked_offsets(count, reader.raw(2 * length)))


def _database(reader: ByteReader, version: int) -> DatabaseImpl:
    db_id = reader.i32()
    root: tuple[bytes | None, int, int] = (None, NULL_LSN, 0)
    root_exists = reader.u8() == 1
    if root_exists:
        root = (_array(reader), reader.i64(), reader.u8())
    # The byte was a boolean; true is the flag for duplicates.
    flags = reader.u8()
    comparators = [_comparator(reader, version) for _ in range(2)]
    fanout = (reader.i32(), reader.i32()) if version >= _FANOUT else (0, 0)
    return DatabaseImpl._make((db_id, None, root_exists, *root, flags, *comparators, *fanout, 0, (), ()))


def _comparator(reader: ByteReader, version: int) -> bytes | None:
    stored = _array(reader)
    if version >= _COMPARATOR_OBJECTS or not stored:
        return stored
    return _JAVA_TEXT + len(stored).to_bytes(2, "big") + stored


def _node(reader: ByteReader, version: int, number: int) -> NodeRecord:
    node_id, identifier, flags = reader.i64(), _filled(reader), reader.u8()
    prefix = _filled(reader) if flags & 2 else None
    n_entries, level, capacity = _count(reader, _LEAST_SLOT), reader.i32(), reader.i32()
    base_file = None
    if version >= _PREVIOUS_LSN and reader.u8() == 1:
        base_file = reader.i32()
    slots = tuple(_slot(reader, base_file) for _ in range(n_entries))
    dup_key, dup_count = None, None
    if number in et.DUP_NODES:
        dup_key = _filled(reader)
    if number == et.DIN_TYPE and reader.u8() & 1:
        dup_count = DupCountRef(_filled(reader), reader.i64(), reader.u8())
    db_id, previous = reader.i32(), NULL_LSN
    if version >= _PREVIOUS_LSN:
        previous = reader.i64()
    elif version == _PREVIOUS_FILE:
        file = reader.u32()
        previous = NULL_LSN if file == _NO_FILE else make_lsn(file, 0)
    head = (db_id, previous, 0, NULL_LSN, 0, -1, -1, -1, node_id, identifier, flags, prefix, -1)
    return NodeRecord._make((*head, n_entries, level, capacity, base_file, slots, 0, 0, None, dup_key, dup_count))


def _slot(reader: ByteReader, base_file: int | None) -> Slot:
    key = _filled(reader)
    if base_file is None:
        lsn = reader.i64()
    else:
        word = _COMPACT_LSN.unpack(reader.raw(_COMPACT_LSN.size))[0]
        offset, delta = word >> 8, word & 0xFF
        lsn = NULL_LSN if offset == NULL_OFFSET else (base_file + (delta ^ 0x80) - 0x80 << 32) | offset
    return Slot(key, lsn, reader.u8(), None, None, None, None, None, None)


def _old_delta(reader: ByteReader, version: int, number: int) -> OldDelta:
    db_id, full = reader.i32(), reader.i64()
    count = _count(reader, _LEAST_DELTA_SLOT)
    slots = tuple(DeltaSlot(_filled(reader), reader.i64(), reader.u8()) for _ in range(count))
    return OldDelta(db_id, full, NULL_LSN, slots)


def _in_delete(reader: ByteReader, version: int, number: int) -> INDelete:
    return INDelete(reader.i64(), _filled(reader), reader.i32())


def _in_dup_delete(reader: ByteReader, version: int, number: int) -> INDupDelete:
    return INDupDelete(reader.i64(), _filled(reader), _filled(reader), reader.i32())


def _db_tree(reader: ByteReader, version: int, number: int) -> DbTree:
    return DbTree(reader.i32(), 0, _database(reader, version), _database(reader, version), 0, -1)


def _txn_end(reader: ByteReader, version: int, number: int) -> TxnEnd:
    txn_id, time, last_lsn = reader.i64(), reader.i64(), reader.i64()
    return TxnEnd(last_lsn, txn_id, time, 0, 0, 0)


def _prepare(reader: ByteReader, version: int, number: int) -> Prepare:
    return Prepare(reader.i64(), reader.i64(), reader.i32(), read_xid_part(reader), read_xid_part(reader))


def _ckpt_start(reader: ByteReader, version: int, number: int) -> CkptStart:
    return CkptStart(reader.i64(), reader.i64(), _text(reader))


def _ckpt_end(reader: ByteReader, version: int, number: int) -> CkptEnd:
    invoker, time, start, root_exists = _text(reader), reader.i64(), reader.i64(), reader.u8() & HAS_ROOT
    root = reader.i64() if root_exists else NULL_LSN
    first_active, node_id, db_id, txn_id = reader.i64(), reader.i64(), reader.i32(), reader.i64()
    ids = (node_id, 0, db_id, 0, txn_id, 0, 0, 0)
    return CkptEnd._make((invoker, time, start, root_exists, root, first_active, *ids, reader.i64(), (), ()))


def _trace(reader: ByteReader, version: int, number: int) -> Trace:
    return Trace(reader.i64(), _text(reader))


_READERS: Final[dict[int, Callable[[ByteReader, int, int], Any]]] = {
    **dict.fromkeys(range(et.LN_TX, et.FILE_SUMMARY_LN + 1), _ln),
    **dict.fromkeys(et.FULL_NODES | et.DUP_NODES, _node),
    et.DB_TREE: _db_tree,
    et.COMMIT: _txn_end,
    et.ABORT: _txn_end,
    et.CKPT_START: _ckpt_start,
    et.CKPT_END: _ckpt_end,
    et.IN_DELETE: _in_delete,
    et.OLD_DELTA_TYPE: _old_delta,
    et.DUP_DELTA_TYPE: _old_delta,
    et.TRACE: _trace,
    et.IN_DUP_DELETE: _in_dup_delete,
    et.PREPARE: _prepare,
}
