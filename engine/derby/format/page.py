"""Stored pages (format 117): header, records, slot table, checksum.

==============  ============  ====================================================================
offset          size          content
==============  ============  ====================================================================
0               short         format id 117 (118 = allocation page, see ``allocation``)
2               short         0
4               bool          overflow page
5               byte          status: 0 never initialised, 1 valid, 2 invalid (deallocated)
6               long          page version
14              short         slots in use
16              int           next record id (starts at 6)
20              int int long  unused, 0
36              short         number of deleted rows + 1 (0 = unknown, very old pages)
38              short         0
40              int           random number in enciphered databases, else 0
44              long long     0
60              ...           records, packed without gaps
size-8-6(i+1)   3 shorts      slot i: record offset, record length, reserved bytes after the record
size-8          long          CRC-32 of the bytes before it
==============  ============  ====================================================================

Records lie in any order. Each takes its length plus its reserved bytes, and they are contiguous, so the free bytes
begin at the end of the last one. Free bytes are zero; reserved bytes may hold stale data.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from engine.errors import FormatError, plural

STORED: Final = 117
ALLOCATION: Final = 118

_new_tuple: Final = tuple.__new__

NEVER_INITIALISED: Final = 0
VALID: Final = 1
INVALID: Final = 2

FIRST_RECORD_ID: Final = 6

_HEADER: Final = struct.Struct(">HH?BqHiiiqHHiqq")
HEADER_SIZE: Final = _HEADER.size
assert HEADER_SIZE == 60
_SLOT: Final = struct.Struct(">HHH")
SLOT_SIZE: Final = _SLOT.size
CHECKSUM_SIZE: Final = 8


class PageHeader(NamedTuple):
    """The page header of 60 bytes, fields in on-disk order."""

    page_format: int
    spare: int
    overflow: bool
    status: int
    version: int
    slots: int
    next_record_id: int
    generation: int
    previous_generation: int
    before_image: int
    deleted_plus_one: int
    spare_short: int
    cipher_random: int
    spare_long: int
    spare_long_2: int


class StoredRow(NamedTuple):
    """One slot: the record, and the bytes reserved after it (their content is stale)."""

    offset: int
    record: bytes
    slack: bytes


class StoredPage(NamedTuple):
    """A decoded page; rows in slot order."""

    header: PageHeader
    rows: tuple[StoredRow, ...]


def checksum_of(data: bytes) -> int:
    """The checksum that the page should have."""
    return zlib.crc32(memoryview(data)[:-CHECKSUM_SIZE])


def stored_checksum(data: bytes) -> int:
    """The checksum that the page has."""
    return int.from_bytes(data[-CHECKSUM_SIZE:], "big")


def read_page_header(data: bytes) -> PageHeader:
    """The header of a page of either format."""
    if len(data) < HEADER_SIZE + CHECKSUM_SIZE:
        raise FormatError("a page is too short", found=plural(len(data), "byte"))
    if data[4] > 1:
        raise FormatError("a page flag is neither 0 nor 1", found=str(data[4]))
    return PageHeader(*_HEADER.unpack_from(data))


def put_page_header(page: bytearray, header: PageHeader) -> None:
    """Write the header into a page."""
    _HEADER.pack_into(page, 0, *header)


def decode(data: bytes) -> StoredPage:
    """The stored page that fills ``data``. FormatError when the checksum or the slot table is wrong.

    The slot table is right when every record lies after the header and before the table, and records with their
    reserved bytes fill that room from offset 60 without gap or overlap.
    """
    if stored_checksum(data) != checksum_of(data):
        raise FormatError(
            "the checksum of a page is wrong", expected=str(checksum_of(data)), found=str(stored_checksum(data))
        )
    return decode_unchecked(data)


def decode_unchecked(data: bytes) -> StoredPage:
    """Same as ``decode``, for a page whose checksum was tested before."""
    header = read_page_header(data)
    if header.page_format != STORED:
        raise FormatError("not a stored page", expected=f"format id {STORED}", found=str(header.page_format))
    limit = len(data) - CHECKSUM_SIZE - SLOT_SIZE * header.slots
    if limit < HEADER_SIZE:
        raise FormatError("a page has more slots than it can hold", found=str(header.slots))
    rows = []
    spans = []
    for slot in range(header.slots):
        at = len(data) - CHECKSUM_SIZE - SLOT_SIZE * (slot + 1)
        offset, length, reserved = _SLOT.unpack_from(data, at)
        middle = offset + length
        if offset < HEADER_SIZE or middle + reserved > limit or length == 0:
            raise FormatError("a slot points outside the page", found=f"slot {slot}: {offset}+{length}+{reserved}")
        # Faster than StoredRow(...): a NamedTuple's constructor is a Python function.
        rows.append(_new_tuple(StoredRow, (offset, data[offset:middle], data[middle : middle + reserved])))
        spans.append((offset, middle + reserved))
    at = HEADER_SIZE
    for start, end in sorted(spans):
        # Sorted by offset, the records must follow each other without a gap.
        if start != at:
            raise FormatError("records on a page overlap or leave a gap", found=f"{start} instead of {at}")
        at = end
    return StoredPage(header, tuple(rows))


def encode(page: StoredPage, page_size: int) -> bytes:
    """The bytes of a page. FormatError when its rows do not fit."""
    out = bytearray(page_size)
    put_page_header(out, page.header._replace(slots=len(page.rows)))
    limit = page_size - CHECKSUM_SIZE - SLOT_SIZE * len(page.rows)
    for slot, row in enumerate(page.rows):
        put_row(out, slot, limit, row.offset, row.record, row.slack)
    return sealed(out)


def put_row(page: bytearray, slot: int, limit: int, offset: int, record: bytes, slack: bytes) -> None:
    """Write a row and its slot into a page. FormatError when the row reaches beyond ``limit``."""
    middle = offset + len(record)
    end = middle + len(slack)
    if end > limit:
        raise FormatError("the rows of a page do not fit", expected=f"{limit} bytes", found=plural(end, "byte"))
    page[offset:middle] = record
    page[middle:end] = slack
    _SLOT.pack_into(page, len(page) - CHECKSUM_SIZE - SLOT_SIZE * (slot + 1), offset, len(record), len(slack))


def sealed(page: bytearray) -> bytes:
    """The page with its checksum inserted."""
    page[-CHECKSUM_SIZE:] = zlib.crc32(memoryview(page)[:-CHECKSUM_SIZE]).to_bytes(CHECKSUM_SIZE, "big")
    return bytes(page)
