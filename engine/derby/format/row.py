"""Rows: a header, then fields. Pages, and in two forms the optional data of records, hold the same bytes.

Header:

====================  ============================  =======================
field                 encoding                      present
====================  ============================  =======================
status                byte: 1 deleted, 2 overflow,  always
                      4 has first field
record id             cint                          always
overflow page, id     clong, cint                   status & 2
first field number    cint                          status & 4
number of fields      cint                          unless status is 2
                                                    without 4 (then 0)
====================  ============================  =======================

Field: status byte (1 null, 2 overflow, 4 not nullable, 8 extensible, 0x10 tagged, 0x20 fixed), then unless null the
length and the data. On pages, and in records for bytes that were copied from a page, the length is a cint. New values
in records have bit 0x20 and a plain 2-byte length; the bit is cleared when the field is put on a page. In update images
status 5 (with or without 0x20) means *unchanged*.

Field numbers count through the whole row; a piece on an overflow page holds the number of its first field.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.derby.format import codec
from engine.derby.format.codec import FieldCursor
from engine.errors import FormatError, plural

_new_tuple: Final = tuple.__new__
DELETED: Final = 0x01
OVERFLOW: Final = 0x02
HAS_FIRST_FIELD: Final = 0x04

FIELD_NULL: Final = 0x01
FIELD_OVERFLOW: Final = 0x02
FIELD_NOT_NULLABLE: Final = 0x04
FIELD_FIXED: Final = 0x20
FIELD_UNCHANGED: Final = FIELD_NULL | FIELD_NOT_NULLABLE

# A Derby row has at most 1012 columns, so more fields than this on one page mean damage.
_MAX_FIELDS: Final = 1 << 16


class RowHeader(NamedTuple):
    """The header before the fields; ``length`` is its size in bytes."""

    status: int
    record_id: int
    overflow_page: int
    overflow_id: int
    first_field: int
    field_count: int
    length: int

    @property
    def deleted(self) -> bool:
        """Whether the row is marked deleted."""
        return self.status & DELETED != 0


class RowField(NamedTuple):
    """One field: status without the fixed bit, and the data (None for null, nonexistent or unchanged)."""

    status: int
    data: bytes | None

    @property
    def unchanged(self) -> bool:
        """Whether an update image leaves the field unchanged."""
        return self.status & FIELD_UNCHANGED == FIELD_UNCHANGED


class DecodedRow(NamedTuple):
    """A decoded row."""

    header: RowHeader
    fields: tuple[RowField, ...]


def new_row(record_id: int, fields: tuple[RowField, ...]) -> DecodedRow:
    """The header of a new row: neither deleted nor continued on another page."""
    header = RowHeader(
        status=0,
        record_id=record_id,
        overflow_page=0,
        overflow_id=0,
        first_field=0,
        field_count=len(fields),
        length=0,
    )
    return DecodedRow(header, fields)


def read_header(cursor: FieldCursor) -> RowHeader:
    """The header at the cursor."""
    start = cursor.position
    status = cursor.byte()
    if status & ~(DELETED | OVERFLOW | HAS_FIRST_FIELD):
        raise FormatError("a row has an unknown status", found=f"0x{status:02x}")
    record_id = cursor.cint()
    overflow_page = overflow_id = first_field = field_count = 0
    if status & OVERFLOW:
        overflow_page, overflow_id = cursor.clong(), cursor.cint()
    if status & HAS_FIRST_FIELD:
        first_field = cursor.cint()
    # A row whose header only points to its overflow page has no fields of its own.
    if not status & OVERFLOW or status & HAS_FIRST_FIELD:
        field_count = cursor.count()
    if field_count > _MAX_FIELDS:
        raise FormatError("a row has too many fields", found=str(field_count))
    length = cursor.position - start
    # Faster than RowHeader(...): a NamedTuple's constructor is a Python function.
    return _new_tuple(RowHeader, (status, record_id, overflow_page, overflow_id, first_field, field_count, length))


def encode_header(header: RowHeader) -> bytes:
    """The bytes of a header; ``length`` is ignored."""
    out = bytearray((header.status,))
    codec.put_cint(out, header.record_id)
    if header.status & OVERFLOW:
        codec.put_clong(out, header.overflow_page)
        codec.put_cint(out, header.overflow_id)
    if header.status & HAS_FIRST_FIELD:
        codec.put_cint(out, header.first_field)
    if not header.status & OVERFLOW or header.status & HAS_FIRST_FIELD:
        codec.put_cint(out, header.field_count)
    return bytes(out)


def read_field(cursor: FieldCursor) -> RowField:
    """The field at the cursor, in either form."""
    status = cursor.byte()
    if status & FIELD_NULL:
        return _new_tuple(RowField, (status & ~FIELD_FIXED, None))
    length = cursor.short() if status & FIELD_FIXED else cursor.cint()
    return _new_tuple(RowField, (status & ~FIELD_FIXED, cursor.raw(length)))


def put_field(out: bytearray, field: RowField) -> None:
    """Append a field in the form that pages have."""
    out.append(field.status)
    if field.data is not None:
        codec.put_cint(out, len(field.data))
        out += field.data


def put_logged_field(out: bytearray, field: RowField) -> None:
    """Append a field in the fixed form that new values have in records."""
    out.append(field.status | FIELD_FIXED)
    if field.data is not None:
        codec.put_short(out, len(field.data))
        out += field.data


def encode_logged(row: DecodedRow) -> bytes:
    """The row in the form that new rows have in records."""
    out = bytearray(encode_header(row.header))
    for field in row.fields:
        put_logged_field(out, field)
    return bytes(out)


def read_row(cursor: FieldCursor) -> DecodedRow:
    """The row at the cursor."""
    header = read_header(cursor)
    return DecodedRow(header, tuple([read_field(cursor) for _ in range(header.field_count)]))


def decode_row(data: bytes) -> DecodedRow:
    """The row that fills ``data``; FormatError when bytes are left over."""
    cursor = FieldCursor(data)
    row = read_row(cursor)
    if cursor.remaining():
        raise FormatError("bytes are left over after a row", found=plural(cursor.remaining(), "byte"))
    return row


def encode_row(row: DecodedRow) -> bytes:
    """The row in the form that pages have."""
    out = bytearray(encode_header(row.header))
    for field in row.fields:
        put_field(out, field)
    return bytes(out)


def stored_form(data: bytes, record_id: int) -> tuple[bytes, int]:
    """The row of a record in the form that pages have, and the number of bytes in its fields.

    The same as ``read_row`` and ``encode_row``, without the fields between them: most of a log are inserts.

    Arguments:
        data: a row in either form, and perhaps other bytes after it.
        record_id: the id of the row on its page.
    """
    cursor = FieldCursor(data)
    header = read_header(cursor)
    if header.record_id != record_id:
        header = header._replace(record_id=record_id)
    out = bytearray(encode_header(header))
    data_bytes = 0
    for _ in range(header.field_count):
        status = cursor.byte()
        out.append(status & ~FIELD_FIXED)
        if not status & FIELD_NULL:
            length = cursor.short() if status & FIELD_FIXED else cursor.cint()
            codec.put_cint(out, length)
            out += cursor.raw(length)
            data_bytes += length
    return bytes(out), data_bytes


def merge(image: DecodedRow, old: DecodedRow) -> DecodedRow:
    """The row after an update: header and fields of ``image``, with the old field where the image marks a field as
    unchanged.

    If the old row has no such field, the field is null, as in the image.
    """
    fields = []
    for number, field in enumerate(image.fields, image.header.first_field):
        if field.unchanged:
            index = number - old.header.first_field
            if 0 <= index < len(old.fields):
                field = old.fields[index]
        fields.append(field)
    return DecodedRow(image.header, tuple(fields))
