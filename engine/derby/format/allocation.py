"""Allocation pages (format 118): which pages of a container are in use.

======  ========  ==========================================================================
offset  size      content
======  ========  ==========================================================================
0       60        page header as on stored pages, no slots
60      long      next allocation page, -1 = none
68      long      its offset
76      32        0
108     byte      N: 80 on page 0, 0 on later allocation pages
109     N         container header
109+N   56        extent: long offset of the first page, long first page, long last possible
                  page, int pages allocated so far, int status, int preallocated length,
                  int 0, long 0, long 0
then    bit set   free pages, bit i = page first + i
then    bit set   unfilled pages, a hint that is not logged
======  ========  ==========================================================================

Bit set: int number of bits, then the bytes, most significant bit first. Extent status: 1 has deallocated pages, 2 has
free pages, 4 all free, 8 retired, 0x10 has unfilled pages, 0x10000000 keeps the unfilled map, 0x20000000 no separate
map of deallocated pages. Allocation pages without that last bit have a third bit set; they are older and not supported.

The page checksum is computed with the N header bytes set to zero.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from engine.derby.format import container
from engine.derby.format.page import (
    ALLOCATION,
    CHECKSUM_SIZE,
    HEADER_SIZE,
    PageHeader,
    checksum_of,
    put_page_header,
    read_page_header,
    sealed,
    stored_checksum,
)
from engine.errors import FormatError, plural

NO_PAGE = -1
HAS_DEALLOCATED = 0x1
HAS_FREE = 0x2
ALL_FREE = 0x4
RETIRED = 0x8
HAS_UNFILLED = 0x10
KEEPS_UNFILLED = 0x10000000
NO_DEALLOCATED_MAP = 0x20000000
NEW_STATUS = KEEPS_UNFILLED | NO_DEALLOCATED_MAP

_CHAIN = struct.Struct(">qq")
_EXTENT = struct.Struct(">qqqiiiiqq")
_BITS = struct.Struct(">i")
assert _EXTENT.size == 56


class Extent(NamedTuple):
    """The range of pages that an allocation page manages, fields in on-disk order."""

    first_offset: int
    first_page: int
    last_page: int
    allocated: int
    status: int
    preallocated: int
    spare: int
    spare_long: int
    spare_long_2: int


class BitSet(NamedTuple):
    """A number of bits and the bytes that hold them."""

    bits: int
    data: bytes

    def get(self, bit: int) -> bool:
        """Whether a bit is set; False after the end."""
        return bit < self.bits and self.data[bit >> 3] & (0x80 >> (bit & 7)) != 0

    def with_bit(self, bit: int, value: bool) -> BitSet:
        """The set with one bit changed; FormatError after the end."""
        if not 0 <= bit < self.bits:
            raise FormatError("a page number lies outside its map", found=f"bit {bit} of {self.bits}")
        data = bytearray(self.data)
        mask = 0x80 >> (bit & 7)
        data[bit >> 3] = data[bit >> 3] | mask if value else data[bit >> 3] & ~mask
        return BitSet(self.bits, bytes(data))

    def resized(self, bits: int) -> BitSet:
        """The set extended with zeros, or cut; bits after the end are cleared."""
        size = (bits + 7) // 8
        data = bytearray(self.data[:size].ljust(size, b"\0"))
        if bits & 7:
            data[-1] &= 0xFF00 >> (bits & 7) & 0xFF
        return BitSet(bits, bytes(data))


class AllocationPage(NamedTuple):
    """A decoded allocation page, fields in on-disk order; ``container_header`` is empty on later ones."""

    header: PageHeader
    next_page: int
    next_offset: int
    container_header: bytes
    extent: Extent
    free: BitSet
    unfilled: BitSet


def decode(data: bytes) -> AllocationPage:
    """The allocation page that fills ``data``; FormatError when checksum or content is wrong."""
    length = data[container.LENGTH_OFFSET] if len(data) > container.LENGTH_OFFSET else 0
    if length not in (0, container.HEADER_SIZE):
        raise FormatError("an allocation page has a container header of a strange size", found=plural(length, "byte"))
    start = container.HEADER_OFFSET
    # The container header is sometimes written alone, so the page checksum excludes it.
    computed = checksum_of(data[:start] + bytes(length) + data[start + length :])
    if stored_checksum(data) != computed:
        raise FormatError("the checksum of a page is wrong", expected=str(computed), found=str(stored_checksum(data)))
    header = read_page_header(data)
    if header.page_format != ALLOCATION:
        raise FormatError("not an allocation page", expected=f"format id {ALLOCATION}", found=str(header.page_format))
    if len(data) < start + length + _EXTENT.size + CHECKSUM_SIZE:
        raise FormatError("an allocation page is too short", found=plural(len(data), "byte"))
    next_page, next_offset = _CHAIN.unpack_from(data, HEADER_SIZE)
    extent = Extent(*_EXTENT.unpack_from(data, start + length))
    # Such a page has a third bit set, which would be mistaken for the unfilled map.
    if not extent.status & NO_DEALLOCATED_MAP:
        raise FormatError("an allocation page is of a release before 10.1", found=f"status 0x{extent.status:x}")
    if not 0 <= extent.last_page - extent.first_page < maximum_pages(len(data), length):
        found = f"{extent.first_page} to {extent.last_page}"
        raise FormatError("an allocation page manages more pages than it can", found=found)
    if not 0 <= extent.allocated <= extent.last_page - extent.first_page + 1:
        found = f"{extent.allocated} of {extent.first_page} to {extent.last_page}"
        raise FormatError("an allocation page has allocated more pages than it manages", found=found)
    free, at = _read_bits(data, start + length + _EXTENT.size)
    unfilled, _ = _read_bits(data, at)
    return AllocationPage(
        header=header,
        next_page=next_page,
        next_offset=next_offset,
        container_header=data[start : start + length],
        extent=extent,
        free=free,
        unfilled=unfilled,
    )


def encode(page: AllocationPage, page_size: int) -> bytes:
    """The bytes of an allocation page. FormatError when the maps do not fit."""
    out = bytearray(page_size)
    put_page_header(out, page.header)
    _CHAIN.pack_into(out, HEADER_SIZE, page.next_page, page.next_offset)
    length = len(page.container_header)
    start = container.HEADER_OFFSET
    out[container.LENGTH_OFFSET] = length
    _EXTENT.pack_into(out, start + length, *page.extent)
    at = start + length + _EXTENT.size
    for bits in (page.free, page.unfilled):
        end = at + _BITS.size + len(bits.data)
        if end > page_size - CHECKSUM_SIZE:
            raise FormatError("the maps of an allocation page do not fit", found=plural(end, "byte"))
        _BITS.pack_into(out, at, bits.bits)
        out[at + _BITS.size : end] = bits.data
        at = end
    # The header is inserted after the checksum is computed.
    data = bytearray(sealed(out))
    data[start : start + length] = page.container_header
    return bytes(data)


def maximum_pages(page_size: int, header_length: int) -> int:
    """How many pages one allocation page can manage."""
    room = page_size - CHECKSUM_SIZE - HEADER_SIZE - 48 - 1 - header_length - _EXTENT.size
    # Derby reserves a third of the room for each of three maps, although new pages have two.
    return (room // 3 - 4) * 8


def new_extent(own_page: int, page_size: int, header_length: int) -> Extent:
    """The extent of an allocation page that manages nothing yet."""
    first = own_page + 1
    last = first + maximum_pages(page_size, header_length) - 1
    return Extent(
        first_offset=first * page_size,
        first_page=first,
        last_page=last,
        allocated=0,
        status=NEW_STATUS,
        preallocated=0,
        spare=0,
        spare_long=0,
        spare_long_2=0,
    )


def _read_bits(data: bytes, at: int) -> tuple[BitSet, int]:
    limit = len(data) - CHECKSUM_SIZE
    if at + _BITS.size > limit:
        raise FormatError("a map runs past the end of its page")
    bits = int(_BITS.unpack_from(data, at)[0])
    start = at + _BITS.size
    end = start + (bits + 7) // 8
    if bits < 0 or end > limit:
        raise FormatError("a map runs past the end of its page", found=plural(bits, "bit"))
    return BitSet(bits, data[start:end]), end
