"""Records as ordered fields, shared by all renderers.

Rules: fields come in on-disk order; names are those of the records; an instant is text as Derby prints it; bytes are
hexadecimal text; a repeated part is a list. Rows in optional data are described on request.
"""

from __future__ import annotations

from typing import TypeAlias

from engine.derby.format import instant, row
from engine.derby.format.codec import FieldCursor
from engine.derby.format.operations import container, page, registry, transaction
from engine.derby.format.operations.layout import GlobalId
from engine.derby.format.record import GROUP_NAMES, Record
from engine.errors import FormatError, plural

FieldValue: TypeAlias = str | int | bool | list["FieldValue"] | dict[str, "FieldValue"] | None
Fields: TypeAlias = list[tuple[str, FieldValue]]

_INSTANTS = frozenset(("redo_lwm", "undo_lwm", "first", "last"))
_FIXED_ROWS = {page.Insert: 1, page.Delete: 1, page.Update: 2}


def group_names(group: int) -> str:
    """The flags of a group, joined by a bar, lowest bit first."""
    known = "|".join(name for bit, name in GROUP_NAMES.items() if group & bit)
    rest = group & ~sum(GROUP_NAMES)
    return f"{known}|0x{rest:x}" if rest else known


def describe(record: Record, *, rows: bool = False) -> Fields:
    """The fields of a record.

    Arguments:
        record: any record, including checksum records.
        rows: whether the rows of the optional data are described.

    Returns: pairs of name and value; the operation's own fields stand between ``operation`` and ``undo_instant``.
    """
    fields: Fields = [
        ("instant", instant.show(record.instant)),
        ("length", record.length),
        ("group", group_names(record.group)),
        ("transaction", record.transaction),
        ("operation", registry.type_of(record.operation).name),
    ]
    fields += describe_operation(record.operation)
    if record.undo_instant is not None:
        fields.append(("undo_instant", instant.show(record.undo_instant)))
    elif record.data:
        fields.append(("data_bytes", len(record.data)))
        if rows:
            fields.append(("rows", [_row_value(part) for part in images(record)]))
    return fields


def describe_operation(operation: registry.Operation) -> Fields:
    """The fields of an operation."""
    names: tuple[str, ...] = operation._fields
    fields: Fields = [(name, _value(name, value)) for name, value in zip(names, operation, strict=True)]
    # Replace the kind, a number in the record, by a word.
    if isinstance(operation, container.ContainerOperation):
        fields[3] = ("kind", container.KIND_NAMES[operation.kind])
    return fields


def images(record: Record) -> list[row.DecodedRow | row.RowField]:
    """The rows and fields in the optional data of a record. FormatError when bytes are left over or missing.

    Returns: for insert and delete the row; for update the new and the old row; for update field the new field, the old
    field and, when undo is logical, the old row; for purge and copy one row for each id.
    """
    cursor = FieldCursor(record.data)
    operation = record.operation
    found: list[row.DecodedRow | row.RowField] = []
    if isinstance(operation, page.UpdateField):
        found = [row.read_field(cursor), row.read_field(cursor)]
        if operation.logical:
            found.append(row.read_row(cursor))
    elif not isinstance(operation, page.Delete) or operation.logical:
        found += [row.read_row(cursor) for _ in range(row_count(operation))]
    if cursor.remaining():
        raise FormatError("bytes are left over in the data of a record", found=plural(cursor.remaining(), "byte"))
    return found


def row_count(operation: registry.Operation) -> int:
    """Number of rows in the optional data of an operation."""
    if isinstance(operation, page.Purge):
        return len(operation.record_ids)
    if isinstance(operation, page.CopyRows):
        return len(operation.rows)
    return _FIXED_ROWS.get(type(operation), 0)


def _value(name: str, value: object) -> FieldValue:
    if isinstance(value, bytes):
        return value.hex()
    if name in _INSTANTS and isinstance(value, int):
        return instant.show(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, GlobalId | transaction.TableEntry | page.CopiedRow):
        return {part: _value(part, inner) for part, inner in zip(value._fields, value, strict=True)}
    assert isinstance(value, tuple)
    return [_value("", inner) for inner in value]


def _row_value(part: row.DecodedRow | row.RowField) -> FieldValue:
    if isinstance(part, row.RowField):
        return _field_value(part)
    header: dict[str, FieldValue] = {"status": part.header.status, "record_id": part.header.record_id}
    if part.header.status & row.OVERFLOW:
        header["overflow_page"] = part.header.overflow_page
        header["overflow_id"] = part.header.overflow_id
    if part.header.status & row.HAS_FIRST_FIELD:
        header["first_field"] = part.header.first_field
    header["fields"] = [_field_value(field) for field in part.fields]
    return header


def _field_value(field: row.RowField) -> FieldValue:
    if field.unchanged:
        return {"unchanged": True}
    return {"status": field.status, "data": None if field.data is None else field.data.hex()}
