"""Live pages: a stored page with its rows, and an allocation page with its maps, ready to be changed.

Space rules (derby-log-format.md 13.1) that keep pages loadable by Derby:

* A new record reserves max(0, minimum record size - sum of its field data lengths) bytes when the container has a
  minimum; on an overflow page it reserves enough for record and reserve to take at least 17 bytes.
* A changed record keeps its place: if it fits into the old record and its reserve, the rest stays reserved; otherwise
  the reserve becomes 0 and later records move up.
* Purging removes the record with its reserve, and later records move down.
* A record id at or above the page's next record id raises that to one above it.

Two lists hold the rows: ``rows`` in slot order and ``layout`` in the order in which they lie on the page. Offsets
follow from ``layout`` alone.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from engine.derby.format import allocation, page, row
from engine.derby.format.allocation import AllocationPage, BitSet
from engine.derby.format.codec import FieldCursor
from engine.derby.format.page import PageHeader, StoredPage
from engine.errors import FormatError, plural

_LEAST_ON_OVERFLOW: Final = 17
# First byte of a compressed int that has more than one.
_LONG_ID: Final = 0x40
FRESH: Final = PageHeader(
    page_format=page.STORED,
    spare=0,
    overflow=False,
    status=page.NEVER_INITIALISED,
    version=0,
    slots=0,
    next_record_id=page.FIRST_RECORD_ID,
    generation=0,
    previous_generation=0,
    before_image=0,
    deleted_plus_one=1,
    spare_short=0,
    cipher_random=0,
    spare_long=0,
    spare_long_2=0,
)


class LiveRow:
    """A record on a page and the bytes reserved after it. ``offset`` is set while the page is encoded."""

    __slots__ = ("_decoded", "_decoded_from", "offset", "record", "record_id", "slack")

    def __init__(self, record: bytes, slack: bytes) -> None:
        self.record = record
        self.slack = slack
        # One-byte ids are read here: a page has up to a hundred rows, and each would need a cursor.
        first = record[1] if len(record) > 1 else _LONG_ID
        self.record_id = first if first < _LONG_ID else FieldCursor(record, 1).cint()
        # A search decodes the same rows again and again.
        self._decoded: row.DecodedRow | None = None
        self._decoded_from = b""
        self.offset = 0

    @property
    def deleted(self) -> bool:
        """Whether the row is marked deleted."""
        return self.record[0] & row.DELETED != 0

    def footprint(self) -> int:
        """Size of a row on its page: record, reserve and slot."""
        return len(self.record) + len(self.slack) + page.SLOT_SIZE

    def decoded(self) -> row.DecodedRow:
        """The row; FormatError when it cannot be read."""
        if self._decoded is None or self._decoded_from is not self.record:
            self._decoded = row.decode_row(self.record)
            self._decoded_from = self.record
        return self._decoded


class LivePage:
    """A stored page.

    Arguments:
        stored: the decoded page.
        page_size: bytes of the page.
        minimum_record: minimum record size of the container.

    Attributes:
        header: the header of the page, but for version, slots, next record id and deleted rows.
        version: the version of the page.
        next_record_id: the id that the next row gets.
        page_size: bytes of the page.
    """

    __slots__ = ("_minimum", "_used", "header", "layout", "next_record_id", "page_size", "rows", "version")

    def __init__(self, stored: StoredPage, page_size: int, minimum_record: int) -> None:
        self.header = stored.header
        self.version = stored.header.version
        self.next_record_id = stored.header.next_record_id
        self.page_size = page_size
        self._minimum = minimum_record
        self.rows = [LiveRow(found.record, found.slack) for found in stored.rows]
        # Slot order and the order on the page differ once a row was inserted between others.
        order = sorted(range(len(self.rows)), key=[found.offset for found in stored.rows].__getitem__)
        self.layout = [self.rows[slot] for slot in order]
        # Size of all rows, their reserves and their slots.
        self._used = sum(found.footprint() for found in self.rows)

    def set_status(self, status: int) -> None:
        """Set the page status."""
        self.header = self.header._replace(status=status)

    def initialise(self, next_record_id: int, *, overflow: bool) -> None:
        """Take the page into use, empty."""
        self.rows.clear()
        self.layout.clear()
        self._used = 0
        self.next_record_id = next_record_id
        self.header = self.header._replace(status=page.VALID, overflow=overflow)

    def encode(self) -> bytes:
        """The bytes of the page. FormatError when the rows do not fit."""
        at = page.HEADER_SIZE
        for found in self.layout:
            found.offset = at
            at += len(found.record) + len(found.slack)
        out = bytearray(self.page_size)
        limit = self.page_size - page.CHECKSUM_SIZE - page.SLOT_SIZE * len(self.rows)
        deleted_plus_one = 1
        # The same as ``page.encode``, without a StoredRow for each row.
        for slot, found in enumerate(self.rows):
            page.put_row(out, slot, limit, found.offset, found.record, found.slack)
            deleted_plus_one += found.deleted
        header = self.header._replace(
            version=self.version,
            slots=len(self.rows),
            next_record_id=self.next_record_id,
            deleted_plus_one=deleted_plus_one,
        )
        page.put_page_header(out, header)
        return page.sealed(out)

    @property
    def free_bytes(self) -> int:
        """Free bytes: not taken by a row, reserve or slot."""
        return self.page_size - page.HEADER_SIZE - page.CHECKSUM_SIZE - self._used

    def space_for(self, image: row.DecodedRow) -> int:
        """Size that a new row would take: record, reserve and slot."""
        record = row.encode_row(image)
        return len(record) + self._reserve_of(_data_bytes(image), len(record)) + page.SLOT_SIZE

    def has_room_to_replace(self, slot: int, image: row.DecodedRow) -> bool:
        """Whether other content fits into a row's record, its reserve and the free bytes."""
        found = self.rows[slot]
        return len(row.encode_row(image)) <= len(found.record) + len(found.slack) + self.free_bytes

    def least_slack(self, slot: int) -> int:
        """Number of bytes that must stay reserved after a row."""
        found = self.rows[slot]
        return self._reserve_of(_data_bytes(found.decoded()), len(found.record))

    def slot_of(self, record_id: int) -> int | None:
        """The slot of a record id, or None."""
        for slot, found in enumerate(self.rows):
            if found.record_id == record_id:
                return slot
        return None

    def row_at(self, slot: int) -> LiveRow:
        """The row at a slot. FormatError: the slot has no row."""
        if not 0 <= slot < len(self.rows):
            raise FormatError("a page has no such slot", expected=f"a slot below {len(self.rows)}", found=str(slot))
        return self.rows[slot]

    def insert(self, slot: int, image: row.DecodedRow) -> None:
        """Put a row at a slot; the rows from there on move up by one slot."""
        self._insert(slot, row.encode_row(image), _data_bytes(image))

    def insert_logged(self, slot: int, data: bytes, record_id: int) -> None:
        """Put the row of a record at a slot, under an id; the same as ``insert``, and faster."""
        record, data_bytes = row.stored_form(data, record_id)
        self._insert(slot, record, data_bytes)

    def _insert(self, slot: int, record: bytes, data_bytes: int) -> None:
        if not 0 <= slot <= len(self.rows):
            raise FormatError("a row cannot be put there", expected=f"a slot up to {len(self.rows)}", found=str(slot))
        new = LiveRow(record, bytes(self._reserve_of(data_bytes, len(record))))
        self.rows.insert(slot, new)
        # A new record goes after the last one on the page, whatever its slot.
        self.layout.append(new)
        self._used += new.footprint()
        # Undo restores rows under their old ids, which are below the next record id.
        if new.record_id >= self.next_record_id:
            self.next_record_id = new.record_id + 1
        self._require_room()

    def purge(self, slot: int) -> None:
        """Take a row off the page."""
        found = self.row_at(slot)
        del self.rows[slot]
        self._used -= found.footprint()
        for index, other in enumerate(self.layout):
            if other is found:
                del self.layout[index]
                break

    def replace(self, slot: int, image: row.DecodedRow) -> None:
        """Replace the content of a row in place."""
        found = self.row_at(slot)
        record = row.encode_row(image)
        # The rest of the old record is reserved, with its stale bytes.
        room = found.record + found.slack
        self._used -= found.footprint()
        found.slack = room[len(record) :]
        found.record = record
        found.record_id = image.header.record_id
        self._used += found.footprint()
        self._require_room()

    def mark(self, slot: int, *, deleted: bool) -> None:
        """Set or clear the deleted mark of a row."""
        found = self.row_at(slot)
        status = found.record[0] | row.DELETED if deleted else found.record[0] & ~row.DELETED
        found.record = bytes((status,)) + found.record[1:]

    def reserve(self, slot: int, reserved_bytes: int) -> None:
        """Set the bytes reserved after a row."""
        # The number comes from the log; it must not exceed the size of a page.
        if not 0 <= reserved_bytes <= self.page_size:
            raise FormatError("impossible reserve of a row", expected=f"0..{self.page_size}", found=str(reserved_bytes))
        found = self.row_at(slot)
        self._used -= found.footprint()
        # Stale bytes stay, new ones are zero.
        found.slack = found.slack[:reserved_bytes].ljust(reserved_bytes, b"\0")
        self._used += found.footprint()
        self._require_room()

    def _reserve_of(self, data_bytes: int, record_bytes: int) -> int:
        """Bytes reserved after a new record."""
        reserve = 0
        if self._minimum > 0:
            reserve = max(0, self._minimum - data_bytes)
        return max(reserve, _LEAST_ON_OVERFLOW - record_bytes) if self.header.overflow else reserve

    def _require_room(self) -> None:
        room = self.page_size - page.HEADER_SIZE - page.CHECKSUM_SIZE
        if self._used > room:
            found = plural(self._used, "byte")
            raise FormatError("a row does not fit on its page", expected=f"{plural(room, 'byte')} at most", found=found)


def _data_bytes(image: row.DecodedRow) -> int:
    """Bytes in the fields of a row."""
    return sum(len(field.data) for field in image.fields if field.data is not None)


class LiveAllocation:
    """An allocation page.

    Arguments:
        stored: the decoded page.
        page_size: bytes of the page.

    Attributes:
        content: the decoded page, but for the version.
        version: the version of the page.
        page_size: bytes of the page.
    """

    __slots__ = ("content", "page_size", "version")

    def __init__(self, stored: AllocationPage, page_size: int) -> None:
        self.content = stored
        self.version = stored.header.version
        self.page_size = page_size

    def set_status(self, status: int) -> None:
        """Set the page status."""
        self.content = self.content._replace(header=self.content.header._replace(status=status))

    def initialise(self, next_record_id: int) -> None:
        """Initialise the page for use."""
        header = self.content.header._replace(status=page.VALID, next_record_id=next_record_id)
        self.content = self.content._replace(header=header)

    def encode(self, container_header: bytes) -> bytes:
        """The bytes of the page; ``container_header`` is inserted if the page carries one."""
        header = container_header if self.content.container_header else b""
        versioned = self.content.header._replace(version=self.version)
        return allocation.encode(self.content._replace(header=versioned, container_header=header), self.page_size)

    def set_page(self, number: int, *, free: bool) -> None:
        """Mark a page free, or allocated; the maps grow with the highest page (derby-log-format.md 14)."""
        extent = self.content.extent
        if not extent.first_page <= number <= extent.last_page:
            raise FormatError("an allocation page does not manage that page", found=str(number))
        bit = number - extent.first_page
        bits, unfilled = self.content.free, self.content.unfilled
        # The maps grow in whole bytes, but never past the range of the page.
        if bit >= bits.bits:
            size = min((1 + bit // 8) * 8, extent.last_page - extent.first_page + 1)
            bits, unfilled = bits.resized(size), unfilled.resized(size)
        bits = bits.with_bit(bit, free)
        if free:
            # A free page is not listed as unfilled.
            if bit < unfilled.bits:
                unfilled = unfilled.with_bit(bit, False)
            extent = extent._replace(status=extent.status | allocation.HAS_FREE)
        else:
            # ``allocated`` counts to the highest page ever used, so reusing a page does not change it.
            extent = extent._replace(allocated=max(extent.allocated, bit + 1))
            if not any(bits.data):
                extent = extent._replace(status=extent.status & ~allocation.HAS_FREE)
        self.content = self.content._replace(extent=extent, free=bits, unfilled=unfilled)

    def chain(self, next_page: int, next_offset: int) -> None:
        """Link the next allocation page; -1 for none."""
        self.content = self.content._replace(next_page=next_page, next_offset=next_offset)

    def compress(self, new_highest: int) -> None:
        """Cut the maps after the page index ``new_highest`` (-1: all pages are removed)."""
        count = new_highest + 1
        extent = self.content.extent
        if not 0 <= count <= extent.last_page - extent.first_page + 1:
            raise FormatError("a container cannot be cut there", found=f"page index {new_highest}")
        self.content = self.content._replace(
            extent=extent._replace(allocated=count, preallocated=count),
            free=self.content.free.resized(count),
            unfilled=self.content.unfilled.resized(count),
        )


Page: TypeAlias = LivePage | LiveAllocation


def decode_page(data: bytes, minimum_record: int) -> Page:
    """Decode a page for changes; FormatError if the bytes are not a page."""
    if page.read_page_header(data).page_format == page.ALLOCATION:
        return LiveAllocation(allocation.decode(data), len(data))
    return LivePage(page.decode(data), len(data), minimum_record)


def fresh_page(page_format: int, number: int, page_size: int, minimum_record: int, header_length: int) -> Page:
    """A page of version 0 that was never initialised (R-DRB-33).

    Arguments:
        page_format: 117 or 118.
        number: page number.
        page_size: bytes of the page.
        minimum_record: minimum record size of the container.
        header_length: bytes of container header on an allocation page (80 on page 0, else 0).
    """
    if page_format == page.STORED:
        return LivePage(StoredPage(FRESH, ()), page_size, minimum_record)
    if page_format != page.ALLOCATION:
        raise FormatError("a page is initialised in an unknown format", found=str(page_format))
    extent = allocation.new_extent(number, page_size, header_length)
    empty = BitSet(0, b"")
    header = FRESH._replace(page_format=page.ALLOCATION)
    stored = AllocationPage(
        header=header,
        next_page=allocation.NO_PAGE,
        next_offset=0,
        container_header=bytes(header_length),
        extent=extent,
        free=empty,
        unfilled=empty,
    )
    return LiveAllocation(stored, page_size)
