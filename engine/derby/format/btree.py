"""B-tree pages as far as logical undo and checks need them.

Slot 0 of every page of an index is the control row: two bytes 0x0085 (leaf) or 0x0086 (branch), left and right sibling
(long, -1 = none), parent, level, 1 on the root page, and on the root page (page 1) the descriptor. Leaf rows are the
key columns and the row location (clong page, cint record id); branch rows have the child page after them. The leftmost
child of a branch page is in its control row.

Descriptor: short format id (388, 466 or 470), long container, int segment, int columns, int *unique columns*, bool
duplicates allowed, bool parent links, a short format id for each column, long container of the table, int position of
the row location, bit set of ascending columns, then a sparse list of collations (cint count) and a bool.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.derby.format import codec, column
from engine.derby.format.allocation import NO_PAGE
from engine.derby.format.codec import FieldCursor
from engine.derby.format.container import ContainerKey
from engine.derby.format.row import FIELD_NULL, DecodedRow, RowField
from engine.errors import FormatError

LEAF = 0x0085
BRANCH = 0x0086
ROOT_PAGE = 1
CONTROL_SLOT = 0

DESCRIPTOR_FORMATS = (388, 466, 470)
LEFT_FIELD = 1
RIGHT_FIELD = 2
_DESCRIPTOR_FIELD = 6
_CHILD_FIELD = 7
_KEY_COLUMN = column.VARBIT
_OLDEST_DESCRIPTOR, _NEWEST_DESCRIPTOR = 388, 470
_BITS_OF_A_BYTE = 8
_PAGE_NUMBER_SIZE = 8


class ControlRow(NamedTuple):
    """The control row, fields in on-disk order; ``descriptor`` is None except on the root page."""

    kind: int
    left: int
    right: int
    parent: int
    level: int
    is_root: bool
    descriptor: bytes | None
    leftmost_child: int = NO_PAGE


class Descriptor(NamedTuple):
    """The descriptor, fields in on-disk order.

    Attributes:
        formats: format ids of the columns, including the row location.
        table: container of the table.
        location: position of the row location column.
        collated: whether a column has a collation.
    """

    format_id: int
    container: int
    segment: int
    columns: int
    unique_columns: int
    duplicates_allowed: bool
    parent_links: bool
    formats: tuple[int, ...]
    table: int
    location: int
    collated: bool


def control_row(row: DecodedRow) -> ControlRow | None:
    """The control row in slot 0 of an index page, or None when the row is something else."""
    data = [field.data for field in row.fields]
    if len(data) < 6 or data[0] is None or len(data[0]) != 2:
        return None
    kind = int.from_bytes(data[0], "big")
    if kind not in (LEAF, BRANCH) or any(part is None for part in data[:6]):
        return None
    numbers = [int.from_bytes(part or b"", "big", signed=True) for part in data[1:6]]
    descriptor = data[_DESCRIPTOR_FIELD] if len(data) > _DESCRIPTOR_FIELD else None
    child = data[_CHILD_FIELD] if len(data) > _CHILD_FIELD else None
    # Only branch pages have the field.
    leftmost = NO_PAGE if child is None else int.from_bytes(child, "big", signed=True)
    return ControlRow(
        kind=kind,
        left=numbers[0],
        right=numbers[1],
        parent=numbers[2],
        level=numbers[3],
        is_root=numbers[4] == 1,
        descriptor=descriptor or None,
        leftmost_child=leftmost,
    )


def control_fields(control: ControlRow) -> tuple[RowField, ...]:
    """The fields of a control row."""
    numbers = (control.left, control.right, control.parent, control.level, int(control.is_root))
    parts = [control.kind.to_bytes(2, "big"), *(encode_page_number(number) for number in numbers)]
    fields = [RowField(0, part) for part in parts]
    fields.append(RowField(FIELD_NULL, None) if control.descriptor is None else RowField(0, control.descriptor))
    if control.kind == BRANCH:
        fields.append(RowField(0, encode_page_number(control.leftmost_child)))
    return tuple(fields)


def encode_page_number(number: int) -> bytes:
    """A page number as a column, -1 for none."""
    return number.to_bytes(_PAGE_NUMBER_SIZE, "big", signed=True)


def decode_page_number(data: bytes | None) -> int:
    """The page number in a column; FormatError when it holds something else."""
    if data is None or len(data) != _PAGE_NUMBER_SIZE:
        raise FormatError("not a page number")
    return int.from_bytes(data, "big", signed=True)


def encode_descriptor(index: ContainerKey, table: ContainerKey) -> bytes:
    """The descriptor of a unique index of one key column and the row location."""
    out = bytearray()
    codec.put_short(out, _NEWEST_DESCRIPTOR)
    codec.put_long(out, index.container)
    for number in (index.segment, 2, 1):
        codec.put_int(out, number)
    out += bytes((0, 0))  # no duplicates, no parent links
    for column_format in (_KEY_COLUMN, column.LOCATION):
        codec.put_short(out, column_format)
    codec.put_long(out, table.container)
    for number in (1, 2):  # position of the row location; two columns, both ascending
        codec.put_int(out, number)
    out += bytes((0xC0, 0, 0))  # the bits, no collations, no duplicate nulls
    return bytes(out)


def decode_descriptor(data: bytes) -> Descriptor:
    """The descriptor of an index; FormatError when the bytes are something else."""
    cursor = FieldCursor(data)
    format_id = cursor.short()
    if format_id not in DESCRIPTOR_FORMATS:
        raise FormatError("not an index descriptor", expected="format id 388, 466 or 470", found=str(format_id))
    number, segment, columns = cursor.fixed_long(), cursor.fixed_int(), cursor.fixed_int()
    unique_columns, duplicates_allowed, parent_links = cursor.fixed_int(), cursor.flag(), cursor.flag()
    if not 0 < unique_columns <= columns <= cursor.remaining():
        raise FormatError("an index descriptor has impossible columns", found=f"{unique_columns} of {columns}")
    formats = tuple(cursor.short() for _ in range(columns))
    table, location = cursor.fixed_long(), cursor.fixed_int()
    if not 0 < location < columns:
        raise FormatError("an index descriptor has no place for row locations", found=f"{location} of {columns}")
    # Ascending columns: a number of bits, then the bytes that hold them.
    cursor.raw((cursor.fixed_int() + _BITS_OF_A_BYTE - 1) // _BITS_OF_A_BYTE)
    return Descriptor(
        format_id=format_id,
        container=number,
        segment=segment,
        columns=columns,
        unique_columns=unique_columns,
        duplicates_allowed=duplicates_allowed,
        parent_links=parent_links,
        formats=formats,
        table=table,
        location=location,
        collated=format_id != _OLDEST_DESCRIPTOR and cursor.cint() > 0,
    )
