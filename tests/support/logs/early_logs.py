"""Logs of versions 1 to 5: bodies as JE wrote them then, and a log of version 4 or 5 in the form of an older JE.

No number is packed, so the size of an entry does not depend on its LSNs: ``as_version`` encodes every entry in the
older form, which gives the new LSNs, and then once more with all references moved to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import pack
from typing import Any

from engine.format import entry_types as et
from engine.format.bytecursor import ByteWriter
from engine.format.entry import ln_content as lc
from engine.format.entry.checkpoint import HAS_ROOT, CkptEnd, CkptStart
from engine.format.entry.db_tree import DatabaseImpl, DbTree
from engine.format.entry.file_header import FILE_HEADER_BYTES, FileHeader, encode_file_header
from engine.format.entry.legacy import INDelete, INDupDelete, OldDelta
from engine.format.entry.ln import LN
from engine.format.entry.node import NodeRecord
from engine.format.entry.trace import Trace
from engine.format.entry.txn_end import Prepare, TxnEnd
from engine.format.header import REPLICATED, VERSION_BITS_V6, EntryHeader, encode_entry
from engine.format.lsn import NULL_LSN, file_of, make_lsn
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import LogEntry
from engine.log.files import log_file_name
from tests.support.logs.golden_logs import open_bytes

# The types whose own version is not always 0, with it in each log version.
OWN_VERSIONS = {
    **{number: {1: 0, 2: 1, 3: 2, 4: 2, 5: 2} for number in (et.IN_TYPE, et.BIN_TYPE, et.DIN_TYPE, et.DBIN_TYPE)},
    **{number: {1: 0, 2: 0, 3: 1, 4: 2, 5: 2} for number in (et.MAP_LN, et.MAP_LN_TX)},
    et.DB_TREE: {1: 0, 2: 0, 3: 1, 4: 1, 5: 1},
    et.FILE_SUMMARY_LN: {1: 0, 2: 0, 3: 1, 4: 2, 5: 3},
}
# The types of these versions.
TYPES = tuple(number for number in range(et.LN_TX, et.PREPARE + 1) if number != et.FILE_HEADER)
_JAVA_TEXT = 7


def own_version(number: int, version: int) -> int:
    """The version that an entry has in its flags."""
    return OWN_VERSIONS.get(number, {}).get(version, 0)


def _array(writer: ByteWriter, value: bytes | None) -> None:
    """A byte array with its length in four bytes."""
    writer.i32(-1 if value is None else len(value)).raw(value or b"")


def _text(writer: ByteWriter, value: str) -> None:
    _array(writer, value.encode("utf-8", "surrogateescape"))


def encode_early(number: int, own: int, record: Any) -> bytes:
    """The body of an entry of a type, in the layout of a version of this type."""
    writer = ByteWriter()
    if isinstance(record, LN):
        _ln(writer, number, own, record)
    elif isinstance(record, NodeRecord):
        _node(writer, number, own, record)
    elif isinstance(record, DbTree):
        writer.i32(record.last_local_db_id)
        _database(writer, own, record.mapping_db)
        _database(writer, own, record.naming_db)
    elif isinstance(record, TxnEnd):
        writer.i64(record.id).i64(record.time).i64(record.last_lsn)
    elif isinstance(record, Prepare):
        writer.i64(record.id).i64(record.time).i32(record.format_id)
        for part in (record.gtrid, record.bqual):
            writer.i8(-1 if part is None else len(part)).raw(part or b"")
    elif isinstance(record, CkptStart):
        writer.i64(record.time).i64(record.id)
        _text(writer, record.invoker)
    elif isinstance(record, CkptEnd):
        _ckpt_end(writer, record)
    elif isinstance(record, Trace):
        writer.i64(record.time)
        _text(writer, record.message)
    else:
        _legacy(writer, record)
    return writer.getvalue()


def _ln(writer: ByteWriter, number: int, own: int, record: LN) -> None:
    writer.i64(record.node_id or 0).u8(0 if record.data is None else 1)
    if record.data is not None:
        _array(writer, record.data)
    content = record.content
    if isinstance(content, lc.MapLN):
        _database(writer, own, content.database)
        writer.u8(content.deleted)
    elif isinstance(content, lc.NameLN):
        writer.i32(content.db_id).u8(content.deleted)
    elif isinstance(content, lc.DupCountLN):
        writer.i32(content.dup_count)
    elif isinstance(content, lc.FileSummaryLN) and content.summary is not None:
        counters = content.summary
        numbers = (*counters[:6], counters.obsolete_in_count, counters.obsolete_ln_count, *counters[9:])
        writer.raw(pack(f"<{10 if own >= 3 else 8}i", *numbers[: 10 if own >= 3 else 8]))
        if own >= 1:
            shorts = _shorts(content.offsets)
            writer.i32(len(content.offsets)).i32(len(shorts)).raw(pack(f"<{len(shorts)}h", *shorts))
    writer.i32(record.db_id)
    _array(writer, record.key)
    if number in et.TRANSACTIONAL:
        writer.i64(record.abort_lsn).u8(record.flags).i64(record.txn_id or 0).i64(record.last_lsn)
    if isinstance(record.tail, bytes):
        _array(writer, record.tail)


def _shorts(offsets: tuple[int, ...]) -> list[int]:
    """The differences of offsets in groups of 15 bits, as je-log-format.md 10.1 has them."""
    shorts, before = [], 0
    for offset in offsets:
        rest, before = offset - before, offset
        while rest > 0x7FFF:
            shorts.append(-1 - (rest & 0x7FFF))
            rest >>= 15
        shorts.append(rest)
    return shorts


def _database(writer: ByteWriter, own: int, impl: DatabaseImpl) -> None:
    writer.i32(impl.db_id).u8(int(impl.root_exists))
    if impl.root_exists:
        _array(writer, impl.root_key)
        writer.i64(impl.root_lsn).u8(impl.root_state)
    writer.u8(impl.flags)
    for comparator in (impl.btree_comparator, impl.duplicate_comparator):
        # Before the object came the name of its class: without the head of Java's serialized text.
        _array(writer, comparator if own >= 2 or not comparator else comparator[_JAVA_TEXT:])
    if own >= 1:
        writer.i32(impl.max_entries).i32(impl.max_dup_entries)


def _node(writer: ByteWriter, number: int, own: int, record: NodeRecord) -> None:
    writer.i64(record.node_id)
    _array(writer, record.identifier_key)
    writer.u8(record.flags).i32(len(record.slots)).i32(record.level).i32(record.max_entries)
    base = record.base_file if own >= 2 else None
    if own >= 2:
        writer.u8(0 if base is None else 1)
    if base is not None:
        writer.i32(base)
    for slot in record.slots:
        _array(writer, slot.key)
        if base is None:
            writer.i64(slot.lsn)
        elif slot.lsn == NULL_LSN:
            writer.u32(0xFFFFFF00)
        else:
            writer.u32((slot.lsn & 0xFFFFFF) << 8 | (slot.lsn >> 32) - base & 0xFF)
        writer.u8(slot.state)
    if number in et.DUP_NODES:
        _array(writer, record.dup_key)
    if number == et.DIN_TYPE:
        writer.u8(0 if record.dup_count is None else 1)
        if record.dup_count is not None:
            _array(writer, record.dup_count.key)
            writer.i64(record.dup_count.lsn).u8(record.dup_count.state)
    writer.i32(record.db_id)
    if own >= 2:
        writer.i64(record.prev_full_lsn)
    elif own == 1:
        writer.u32(file_of(record.prev_full_lsn))


def _ckpt_end(writer: ByteWriter, record: CkptEnd) -> None:
    _text(writer, record.invoker)
    writer.i64(record.time).i64(record.ckpt_start_lsn).u8(record.flags & HAS_ROOT)
    if record.flags & HAS_ROOT:
        writer.i64(record.root_lsn)
    writer.i64(record.first_active_lsn).i64(record.last_local_node_id).i32(record.last_local_db_id)
    writer.i64(record.last_local_txn_id).i64(record.id)


def _legacy(writer: ByteWriter, record: Any) -> None:
    if isinstance(record, OldDelta):
        writer.i32(record.db_id).i64(record.last_full_lsn).i32(len(record.slots))
        for slot in record.slots:
            _array(writer, slot.key)
            writer.i64(slot.lsn).u8(slot.state)
    elif isinstance(record, INDelete):
        writer.i64(record.deleted_node_id)
        _array(writer, record.deleted_key)
        writer.i32(record.db_id)
    else:
        assert isinstance(record, INDupDelete)
        writer.i64(record.deleted_node_id)
        _array(writer, record.main_key)
        _array(writer, record.dup_key)
        writer.i32(record.db_id)


def as_version(files: dict[str, bytes], version: int) -> dict[str, bytes]:
    """The same log, entry by entry, in an older version.

    Arguments:
        files: log files of version 4 or 5, by name.
        version: 1 to 5.
    """
    logged = [(int(name[:8], 16), list(_entries(int(name[:8], 16), data))) for name, data in sorted(files.items())]
    moved: dict[int, int] = {}
    for number, entries in logged:
        offset = 0
        for entry in entries:
            moved[entry.lsn] = make_lsn(number, offset)
            offset += len(_encoded(entry, version, lambda lsn: lsn, 0))
    made = {}
    for number, entries in logged:
        data, before = b"", 0
        for entry in entries:
            at = len(data)
            data += _encoded(entry, version, lambda lsn: moved.get(lsn, lsn), before)
            before = at if at >= FILE_HEADER_BYTES else 0
        made[log_file_name(number)] = data
    return made


def _entries(number: int, data: bytes) -> Iterator[LogEntry]:
    with open_bytes(data, number=number) as reader:
        for item in reader.entries():
            assert isinstance(item, LogEntry)
            yield item


def _encoded(entry: LogEntry, version: int, move: Callable[[int], int], before: int) -> bytes:
    number, record = entry.type_number, entry.record()
    if isinstance(record, FileHeader):
        last = make_lsn(record.file_num - 1, record.last_entry_in_prev_file)
        offset = move(last) & 0xFFFFFFFF if record.file_num else 0
        body = encode_file_header(record._replace(log_version=version, last_entry_in_prev_file=offset), version)
        return encode_entry(EntryHeader(0, number, 0, 0, 0, NULL_VLSN), body, version)
    # FileSummaryLN/0 has keys of digits; these keys are of two numbers, as since FileSummaryLN/1.
    own = max(own_version(number, version), 1 if number == et.FILE_SUMMARY_LN else 0)
    body = encode_early(number, own, with_references(record, move))
    flags = entry.flags & ~VERSION_BITS_V6 & ~REPLICATED | own
    return encode_entry(EntryHeader(0, number, flags, before, 0, NULL_VLSN), body, version)


def with_references(record: Any, move: Callable[[int], int]) -> Any:
    """The record with each LSN in it replaced."""
    if isinstance(record, LN):
        content = record.content
        if isinstance(content, lc.MapLN):
            content = content._replace(database=_moved_database(content.database, move))
        elif isinstance(content, lc.FileSummaryLN):
            # Offsets belong to a file that is named by the key only; they are left out.
            content = content._replace(offsets=())
        return record._replace(content=content, abort_lsn=move(record.abort_lsn), last_lsn=move(record.last_lsn))
    if isinstance(record, NodeRecord):
        count = record.dup_count
        return record._replace(
            prev_full_lsn=move(record.prev_full_lsn),
            slots=tuple(slot._replace(lsn=move(slot.lsn)) for slot in record.slots),
            dup_count=None if count is None else count._replace(lsn=move(count.lsn)),
        )
    if isinstance(record, OldDelta):
        slots = tuple(slot._replace(lsn=move(slot.lsn)) for slot in record.slots)
        return record._replace(last_full_lsn=move(record.last_full_lsn), slots=slots)
    if isinstance(record, DbTree):
        mapping, naming = (_moved_database(one, move) for one in (record.mapping_db, record.naming_db))
        return record._replace(mapping_db=mapping, naming_db=naming)
    if isinstance(record, TxnEnd):
        return record._replace(last_lsn=move(record.last_lsn))
    if isinstance(record, CkptEnd):
        start, root, first = map(move, (record.ckpt_start_lsn, record.root_lsn, record.first_active_lsn))
        return record._replace(ckpt_start_lsn=start, root_lsn=root, first_active_lsn=first)
    return record


def _moved_database(impl: DatabaseImpl, move: Callable[[int], int]) -> DatabaseImpl:
    return impl._replace(root_lsn=move(impl.root_lsn))
