"""Records of a Derby log as rows for JSON, NDJSON and CSV: common fields first, then the fields of the operation.

Fields that an operation does not have are left out. The data of a record is printed on request; its size is always
printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple

from engine.derby.explain import RecordExplanation
from engine.derby.format import describe, instant, row
from engine.derby.format.operations import page, registry
from engine.derby.format.operations.container import KIND_NAMES, ContainerOperation
from engine.derby.format.operations.transaction import CheckpointRecord, Checksum, TableEntry
from engine.derby.format.record import Record
from engine.derby.log_walk import DerbyDamage
from engine.errors import FormatError
from engine.fields import Bool, Field, Instant, Int, Row, Shape, Text, record, row_of, shape_of
from jetool.commands.info.derby_rows import global_id_text


@record("entry")
class RecordHeader(NamedTuple):
    """What every record has."""

    instant: Annotated[Instant, "where the record begins, (file,position)"]
    file: Annotated[Int, "number of the log file"]
    offset: Annotated[Int, "position in the file, bytes"]
    operation: Annotated[Text, "what was done"]
    group: Annotated[Sequence[Text], "flags of the record"]
    transaction: Annotated[Int | None, "transaction, null in checksum records"]
    undo_instant: Annotated[Instant, "CLR: the record that it compensates"]
    container: Annotated[Int | None, "container that it changes"]
    page: Annotated[Int | None, "page that it changes"]
    version: Annotated[Int | None, "version of the page or container in front of it"]
    length: Annotated[Int, "bytes of the body, without the 16 of the envelope"]
    data_bytes: Annotated[Int, "bytes of rows that it carries"]
    after_end: Annotated[Bool, "after the end of the log: recovery does not see it and Derby drops it"]
    checksum_ok: Annotated[Bool | None, "Checksum: whether the bytes after it match"]


@record()
class CheckpointEntry(NamedTuple):
    """A transaction in the table of a checkpoint."""

    transaction: Annotated[Int, "number"]
    global_id: Annotated[Text | None, "format:global:branch, the last two in hex"]
    first: Annotated[Instant, "its first record"]
    last: Annotated[Instant, "its last record"]
    status: Annotated[Int, "status bits"]


@record()
class RowCopy(NamedTuple):
    """A row that was copied to another page."""

    record_id: Annotated[Int, "id on the new page"]
    reserved_bytes: Annotated[Int, "bytes after it"]


_BODY: Final = tuple(
    Field(name, kind, text, null=name == "global_id", optional=True, fields=fields)
    for name, kind, text, fields in (
        ("segment", "int", "segment of the container", ()),
        ("record_id", "int", "id of the row", ()),
        ("logical", "bool", "undo may look for the row in the B-tree", ()),
        ("slot", "int", "slot of the row, or of the first", ()),
        ("flags", "hex", "flags of the operation", ()),
        ("delete", "bool", "Delete: marked, or the mark is taken off", ()),
        ("field", "int", "UpdateField: number of the field", ()),
        ("record_ids", "ints", "Purge: ids of the rows", ()),
        ("copied_rows", "records", "CopyRows: ids of the rows", shape_of(RowCopy).fields),
        ("next_record_id", "int", "InitPage: id that the next row gets", ()),
        ("page_offset", "int", "InitPage: ignored by recovery", ()),
        ("page_format", "int", "InitPage: format id of the page", ()),
        ("new_page", "int", "AllocPage: the page whose status changes", ()),
        ("page_status", "int", "AllocPage: 0 allocated, 1 deallocated, 2 free", ()),
        ("undo_status", "int", "AllocPage: status when it is undone", ()),
        ("next_page", "int", "ChainAllocPage: next allocation page", ()),
        ("next_offset", "int", "ChainAllocPage: where it lies", ()),
        ("new_highest", "int", "CompressSpace: highest page that is left", ()),
        ("pages_removed", "int", "CompressSpace: pages given back", ()),
        ("value", "int", "SetReservedSpace: new number of bytes", ()),
        ("old_value", "int", "SetReservedSpace: old number of bytes", ()),
        ("kind", "text", "Container: create, drop or remove", ()),
        ("header_hex", "bytes", "Container, create: header of the container", ()),
        ("name", "text", "RemoveFile: name of the stored file", ()),
        ("generation", "int", "RemoveFile: its generation", ()),
        ("at_once", "bool", "RemoveFile: now, not at commit", ()),
        ("status", "int", "BeginXact, EndXact: 1 aborted, 2 prepared, 4 committed, 16 internal", ()),
        ("global_id", "text", "BeginXact, EndXact: format:global:branch, the last two in hex", ()),
        ("redo_lwm", "instant", "Checkpoint: redo low water mark", ()),
        ("undo_lwm", "instant", "Checkpoint: undo low water mark", ()),
        ("truncation_points", "int", "Checkpoint: always 0", ()),
        ("table", "records", "Checkpoint: open transactions, its own included", shape_of(CheckpointEntry).fields),
        ("algorithm", "int", "Checksum: 1 CRC-32", ()),
        ("covered_bytes", "int", "Checksum: bytes after it that it guards", ()),
        ("checksum", "int", "Checksum: the stored value", ()),
        ("rows", "records", "rows and fields in the data (with --data)", ()),
        ("error", "text", "why the data cannot be decoded", ()),
        ("recovery", "text", "what recovery does with it (with --explain)", ()),
        ("undone", "bool", "recovery compensates it afterwards (with --explain)", ()),
        ("why", "text", "why (with --explain)", ()),
    )
)
ENTRY: Final = Shape("entry", "One record of a Derby log.", shape_of(RecordHeader).fields + _BODY)


@record("bad")
class BadPlace(NamedTuple):
    """A place without a valid record, or (skipped 0) a group or file header that does not match."""

    instant: Annotated[Instant, "where it begins"]
    file: Annotated[Int, "number of the log file"]
    path: Annotated[Text, "the damaged file"]
    offset: Annotated[Int, "position in the file, bytes"]
    skipped: Annotated[Int, "bytes up to the next record or the end of the file"]
    reason: Annotated[Text, "what is wrong"]
    next_instant: Annotated[Instant, "next record in the file"]


_KINDS: Final = {field.name: field.kind for field in _BODY}
_IN_HEAD: Final = frozenset(("container", "page", "version"))
_RENAMED: Final = {
    (page.AllocatePage, "status"): "page_status",
    (page.CopyRows, "rows"): "copied_rows",
    (ContainerOperation, "header"): "header_hex",
    (Checksum, "length"): "covered_bytes",
    (Checksum, "value"): "checksum",
}


def entry_row(
    one: Record, *, after_end: bool, checksum_ok: bool | None, data: bool, explained: RecordExplanation | None = None
) -> list[tuple[str, str, Any]]:
    """A record as names, kinds and values of the shape ENTRY.

    Arguments:
        one: the record.
        after_end: whether it lies after the end of the log.
        checksum_ok: for checksum records, whether the group matches.
        data: whether rows are printed.
        explained: what recovery does with the record, if that is to be printed.
    """
    operation = one.operation
    header = RecordHeader(
        instant=one.instant,
        file=instant.file_of(one.instant),
        offset=instant.position_of(one.instant),
        operation=registry.type_of(operation).name,
        group=_flags(one.group),
        transaction=one.transaction,
        # 0 is not a valid instant, because a log file begins with a header.
        undo_instant=one.undo_instant or instant.NONE,
        container=getattr(operation, "container", None),
        page=getattr(operation, "page", None),
        version=getattr(operation, "version", None),
        length=one.length,
        data_bytes=len(one.data),
        after_end=after_end,
        checksum_ok=checksum_ok,
    )
    found = list(row_of(header))
    found += _operation_fields(operation)
    if data and one.data:
        try:
            found.append(("rows", "records", [_image(part) for part in describe.images(one)]))
        # A row that does not decode is printed as an error, although the record itself is good.
        except FormatError as error:
            found.append(("error", "text", str(error)))
    if explained is not None:
        found += [("recovery", "text", explained.action), ("undone", "bool", explained.undone)]
        found.append(("why", "text", explained.reason))
    return found


@lru_cache(maxsize=1024)
def _flags(group: int) -> tuple[str, ...]:
    return tuple(describe.group_names(group).split("|")) if group else ()


def bad_place(damage: DerbyDamage, path: str) -> BadPlace:
    """The output row for damage."""
    at = damage.at
    number, position = instant.file_of(at), instant.position_of(at)
    return BadPlace(
        instant=at,
        file=number,
        path=path,
        offset=position,
        skipped=damage.skipped_bytes,
        reason=damage.reason,
        next_instant=damage.resumed_at,
    )


def _operation_fields(operation: registry.Operation) -> list[tuple[str, str, Any]]:
    found = []
    kind_of = type(operation)
    for name, value in zip(operation._fields, operation, strict=True):
        # The header of a container is logged only when the container is created.
        if name in _IN_HEAD or (name == "header" and value is None):
            continue
        shown = _RENAMED.get((kind_of, name), name)
        found.append((shown, _KINDS[shown], _value(operation, name, value)))
    return found


def _value(operation: registry.Operation, name: str, value: Any) -> Any:
    if name == "kind":
        return KIND_NAMES[value]
    if name == "global_id":
        return global_id_text(value)
    if isinstance(operation, CheckpointRecord) and name == "table":
        return [_table_entry(entry) for entry in value or ()]
    if isinstance(operation, page.CopyRows) and name == "rows":
        return [RowCopy(record_id=number, reserved_bytes=size) for number, size in value]
    return value


def _table_entry(entry: TableEntry) -> CheckpointEntry:
    return CheckpointEntry(
        transaction=entry.transaction,
        global_id=global_id_text(entry.global_id),
        first=entry.first,
        last=entry.last,
        status=entry.status,
    )


def _image(part: row.DecodedRow | row.RowField) -> Row:
    """A row, or a single field of an update."""
    if isinstance(part, row.RowField):
        return _field(part)
    header = part.header
    found: list[tuple[str, str, Any]] = [("status", "hex", header.status), ("record_id", "int", header.record_id)]
    # The rest of a long row is on another page; the status shows which fields follow.
    if header.status & row.OVERFLOW:
        found += [("overflow_page", "int", header.overflow_page), ("overflow_id", "int", header.overflow_id)]
    if header.status & row.HAS_FIRST_FIELD:
        found.append(("first_field", "int", header.first_field))
    found.append(("fields", "records", [_field(field) for field in part.fields]))
    return found


def _field(field: row.RowField) -> Row:
    # A column that the update does not change is logged as a mark without data.
    if field.unchanged:
        return [("unchanged", "bool", True)]
    return [("status", "hex", field.status), ("data_hex", "bytes", field.data)]
