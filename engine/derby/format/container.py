"""Containers: their keys and file names, and the 80-byte header inside page 0.

======  =====  =====================================================================
offset  size   content
======  =====  =====================================================================
0       int    format id 116
4       int    status: 1 dropped, 2 drop committed, 8 record ids may be reused
8       int    page size: 4096, 8192, 16384 or 32768
12      int    percentage of a page kept free
16      int    minimum record size: 12 for tables, 1 for indexes
20      short  initial pages
22      short  pages to preallocate at once
24      long   first allocation page: 0 (-1 in a create record)
32      long   its offset: 0
40      long   container version, raised by drop and by undo of drop
48      long   estimated row count, not logged
56      long   sequence number for reused record ids
64      long   0
72      long   CRC-32 of bytes 0 to 71
======  =====  =====================================================================

The header stands at offset 109 of the file, after a byte 80 at offset 108. A removed container leaves a stub file
``dHEX.dat``: one page of zeros with that byte and the header, status 3 (or 11).
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import NamedTuple

from engine.errors import FormatError, plural

FORMAT_ID = 116
DROPPED = 1
DROP_COMMITTED = 2
REUSABLE_IDS = 8

LENGTH_OFFSET = 108
HEADER_OFFSET = 109

_LAYOUT = struct.Struct(">iiiiihhqqqqqqq")
HEADER_SIZE = _LAYOUT.size
assert HEADER_SIZE == 80
# Where the header ends in page 0.
HEADER_END = HEADER_OFFSET + HEADER_SIZE
_CHECKED = HEADER_SIZE - 8

PAGE_SIZES = (4096, 8192, 16384, 32768)

_FILE = re.compile(r"([cd])([0-9a-f]{1,16})\.dat")


class ContainerKey(NamedTuple):
    """Names a container: segment (0 for permanent data) and number."""

    segment: int
    container: int

    def __str__(self) -> str:
        return f"container {self.container} ({directory(self.segment)}/{file_name(self.container)})"


class ContainerHeader(NamedTuple):
    """The header, fields in on-disk order; the checksum is computed."""

    status: int
    page_size: int
    spare_percent: int
    minimum_record_size: int
    initial_pages: int
    preallocated_pages: int
    first_allocation_page: int
    first_allocation_offset: int
    version: int
    estimated_rows: int
    reusable_id_sequence: int
    spare: int


def directory(segment: int) -> str:
    """The directory of a segment."""
    return f"seg{segment}"


def file_name(container: int) -> str:
    """The file name of a container."""
    return f"c{container:x}.dat"


def stub_name(container: int) -> str:
    """The name of the stub that a removed container leaves."""
    return f"d{container:x}.dat"


def path_of(key: ContainerKey) -> str:
    """The path of a container file below the database directory."""
    return f"{directory(key.segment)}/{file_name(key.container)}"


def stub_path_of(key: ContainerKey) -> str:
    """The path of a stub below the database directory."""
    return f"{directory(key.segment)}/{stub_name(key.container)}"


def number_of(name: str) -> tuple[bool, int] | None:
    """Whether the name is that of a stub, and the container; None for other names."""
    found = _FILE.fullmatch(name)
    return (found[1] == "d", int(found[2], 16)) if found else None


def decode_header(data: bytes) -> ContainerHeader:
    """Decode a header of 80 bytes; FormatError if it is not a container header or fails its checksum."""
    if len(data) != HEADER_SIZE:
        raise FormatError("not a container header", expected=f"{HEADER_SIZE} bytes", found=plural(len(data), "byte"))
    format_id, *fields, checksum = _LAYOUT.unpack(data)
    if format_id != FORMAT_ID:
        raise FormatError("not a container header", expected=f"format id {FORMAT_ID}", found=str(format_id))
    computed = zlib.crc32(data[:_CHECKED])
    if checksum != computed:
        raise FormatError("the checksum of a container header is wrong", expected=str(computed), found=str(checksum))
    header = ContainerHeader(*fields)
    if header.page_size not in PAGE_SIZES:
        raise FormatError("a container has an impossible page size", found=str(header.page_size))
    return header


def encode_header(header: ContainerHeader) -> bytes:
    """The 80 bytes of a header."""
    data = _LAYOUT.pack(FORMAT_ID, *header, 0)
    return data[:_CHECKED] + zlib.crc32(data[:_CHECKED]).to_bytes(8, "big")


def encode_stub(header: ContainerHeader) -> bytes:
    """The one page of a stub file."""
    page = bytearray(header.page_size)
    page[LENGTH_OFFSET] = HEADER_SIZE
    page[HEADER_OFFSET:HEADER_END] = encode_header(header)
    return bytes(page)


def header_in(data: bytes) -> ContainerHeader:
    """The header inside the first bytes (at least ``HEADER_END``) of a container or stub file."""
    # The byte before the header holds its length, which is 0 on a page without a header.
    if len(data) < HEADER_END or data[LENGTH_OFFSET] != HEADER_SIZE:
        found = plural(len(data), "byte")
        raise FormatError("no container header in page 0", expected=plural(HEADER_END, "byte"), found=found)
    return decode_header(data[HEADER_OFFSET:HEADER_END])
