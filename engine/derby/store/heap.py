"""A heap: rows of a table, on any page with room. A row is identified by page and record id until it moves.

* Page 1 has a descriptor row in slot 0, as Derby's heaps have. Rows go to the page that was used last, to a page where
  room was freed since the store was opened, or to a new page.
* A row that does not fit on a page of its own keeps its key, and its value becomes a chain of pieces on overflow pages,
  one piece to a page: a field marked as overflow, with page and record id of the first piece; each piece is the data
  and such a field for the next one (derby-log-format.md 13.3).
* A deleted row is only marked, so that undo can restore it; it is purged after the commit (``reclaim``). The undo of an
  insert purges at once (flag 0x02): no other transaction has seen the row.
* An update stays in place if the page has room. The bytes that it frees stay reserved until the commit, so its undo
  always fits. Otherwise the row moves and the caller changes the index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.derby.containers import Container
from engine.derby.format import codec, column, page, row
from engine.derby.format.codec import FieldCursor
from engine.derby.format.column import Location
from engine.derby.format.container import ContainerKey
from engine.derby.format.operations import page as operations
from engine.derby.format.row import DecodedRow, RowField
from engine.derby.pages import LivePage
from engine.derby.store.space import allocate, highest_page
from engine.derby.store.write_path import Core, RunningXact
from engine.errors import DamageError

FIRST_PAGE = 1
_DESCRIPTOR_FORMAT = 467
_COLUMNS = 2
_INSERT = operations.INSERT_DEFAULT | operations.INSERT_UNDO_WITH_PURGE
_INSERT_PIECE = operations.INSERT_OVERFLOW | operations.INSERT_UNDO_WITH_PURGE
# Header of a piece, two field headers, and the pointer to the next piece.
_PIECE_OVERHEAD = 32
_WIDEST_POINTER = RowField(row.FIELD_OVERFLOW, bytes(12))
_UNCHANGED = RowField(row.FIELD_UNCHANGED, None)


class HeapRow(NamedTuple):
    """A row: its columns as stored, and the location of the first piece if its value is on overflow pages."""

    columns: tuple[bytes, ...]
    pieces: Location | None


def descriptor(key: ContainerKey) -> bytes:
    """The content of the descriptor row: it declares two columns of bytes."""
    out = bytearray()
    codec.put_short(out, _DESCRIPTOR_FORMAT)
    codec.put_int(out, key.segment)
    codec.put_long(out, key.container)
    codec.put_int(out, _COLUMNS)
    for _ in range(_COLUMNS):
        codec.put_short(out, column.VARBIT)
    out.append(0)
    return bytes(out)


class Heap:
    """The rows of one heap.

    Arguments:
        core: the write path.
        found: the container.

    Attributes:
        roomy: pages where room was freed.
    """

    def __init__(self, core: Core, found: Container) -> None:
        self._core = core
        self.container = found
        self.roomy: set[int] = set()
        self._last = max(highest_page(core, found), FIRST_PAGE)
        # A row of this many bytes gets a page of its own.
        self._room = found.header.page_size - page.HEADER_SIZE - page.CHECKSUM_SIZE - page.SLOT_SIZE

    def insert(self, running: RunningXact, columns: Sequence[bytes], taken: list[int]) -> Location:
        """Put a row somewhere.

        Arguments:
            running: the transaction.
            columns: the columns; the last one may be long.
            taken: the numbers of newly used overflow pages are appended to it.
        """
        # Overflow pages first: the row must name the first piece.
        image = self._image(running, columns, taken)
        number = self._page_for(image)
        target = self.page(number)
        record_id = target.next_record_id
        named = DecodedRow(image.header._replace(record_id=record_id), image.fields)
        fields = number, operations.Insert, record_id, False, len(target.rows), _INSERT
        self._change(running, *fields, data=row.encode_logged(named))
        return Location(number, record_id)

    def fetch(self, at: Location) -> HeapRow | None:
        """A row with its complete value, or None if it is marked deleted. DamageError if there is no such row."""
        target, slot = self._find(at)
        if target.rows[slot].deleted:
            return None
        fields = target.rows[slot].decoded().fields
        pieces = _pointer(fields[-1])
        columns = tuple(field.data or b"" for field in fields)
        if pieces is not None:
            columns = (*columns[:-1], b"".join(data for _, data in self.pieces(pieces)))
        return HeapRow(columns, pieces)

    def pieces_of(self, at: Location) -> Location | None:
        """The location of the first piece of a row's value, deleted or not; None if the value is in the row."""
        target, slot = self._find(at)
        return _pointer(target.rows[slot].decoded().fields[-1])

    def update(self, running: RunningXact, at: Location, columns: Sequence[bytes], taken: list[int]) -> bool:
        """Replace the columns of a row in place; False, and no change, if the page lacks the room."""
        target, slot = self._find(at)
        old = target.rows[slot].decoded()
        fields = [RowField(0, part) for part in columns]
        if self._is_long(columns):
            fields[-1] = _WIDEST_POINTER
        # Test with the widest pointer before any overflow page is taken: when this returns False, nothing may be
        # changed.
        if not target.has_room_to_replace(slot, DecodedRow(old.header, tuple(fields))):
            return False
        new = DecodedRow(old.header, self._image(running, columns, taken).fields)
        # The record holds the new values for redo, and the old ones for undo.
        data = row.encode_logged(_only_changes(new, old)) + row.encode_row(_only_changes(old, new))
        self._change(running, at.page, operations.Update, slot, at.record_id, data=data)
        return True

    def delete(self, running: RunningXact, at: Location) -> None:
        """Mark a row deleted."""
        _, slot = self._find(at)
        self._change(running, at.page, operations.Delete, at.record_id, False, slot, True)

    def purge(self, running: RunningXact, at: Location) -> bool:
        """Purge a row that is marked deleted; return whether its page is then empty."""
        target, slot = self._find(at)
        if not target.rows[slot].deleted:
            return False
        self._change(running, at.page, operations.Purge, slot, (at.record_id,), data=target.rows[slot].record)
        self.roomy.add(at.page)
        return not target.rows

    def free_slack(self, running: RunningXact, at: Location) -> None:
        """Free the bytes that an update left reserved after a row."""
        target, slot = self._find(at)
        reserved, least = len(target.rows[slot].slack), target.least_slack(slot)
        if reserved > least:
            fields = at.page, operations.SetReservedSpace, slot, at.record_id, least, reserved
            self._change(running, *fields)
            self.roomy.add(at.page)

    def forget(self, number: int) -> None:
        """Put no more rows on a page that was returned."""
        self.roomy.discard(number)
        if self._last == number:
            # A returned page must not get rows before it is allocated again.
            self._last = FIRST_PAGE

    def rows(self) -> Iterator[tuple[Location, HeapRow]]:
        """Every row that is not deleted, in the order of pages and slots."""
        for number in range(FIRST_PAGE, highest_page(self._core, self.container) + 1):
            target = self._core.cache.get(self.container, number)
            if not isinstance(target, LivePage) or target.header.overflow or target.header.status != page.VALID:
                continue
            # Slot 0 of the first page is the descriptor.
            for one in target.rows[1 if number == FIRST_PAGE else 0 :]:
                at = Location(number, one.record_id)
                found = self.fetch(at)
                if found is not None:
                    yield at, found

    def pieces(self, first: Location) -> Iterator[tuple[Location, bytes]]:
        """The pieces of a value, in order."""
        at: Location | None = first
        seen = set()
        while at is not None:
            if at in seen:
                raise self._damaged(f"the pieces of a value go in a circle at page {at.page}")
            seen.add(at)
            target, slot = self._find(at)
            fields = target.rows[slot].decoded().fields
            yield at, fields[0].data or b""
            at = _pointer(fields[1]) if len(fields) > 1 else None

    def page(self, number: int) -> LivePage:
        """A page of rows."""
        target = self._core.page(self.container, number)
        if not isinstance(target, LivePage):
            raise self._damaged(f"page {number} holds no rows")
        return target

    def _change(self, running: RunningXact, number: int, make: type, *fields: object, data: bytes = b"") -> None:
        self._core.change(running, self.container, number, make, *fields, data=data)

    def _find(self, at: Location) -> tuple[LivePage, int]:
        target = self.page(at.page)
        slot = target.slot_of(at.record_id)
        if slot is None:
            raise self._damaged(f"record {at.record_id} is not on page {at.page}")
        return target, slot

    def _is_long(self, columns: Sequence[bytes]) -> bool:
        # At most 5 bytes of header for each field, and 16 for the row.
        return sum(len(part) + 5 for part in columns) + 16 > self._room

    def _image(self, running: RunningXact, columns: Sequence[bytes], taken: list[int]) -> DecodedRow:
        """Make the row for some columns; a long value is put on overflow pages first."""
        fields = [RowField(0, part) for part in columns]
        if self._is_long(columns):
            pointer = self._put_pieces(running, columns[-1], taken)
            fields[-1] = RowField(row.FIELD_OVERFLOW, column.encode_location(pointer))
        return row.new_row(page.FIRST_RECORD_ID, tuple(fields))

    def _put_pieces(self, running: RunningXact, value: bytes, taken: list[int]) -> Location:
        """Put a value on overflow pages, the last piece first, so that each can name the next one."""
        size = self._room - _PIECE_OVERHEAD
        following: Location | None = None
        # Each piece points to the next one, so the last is written first.
        for start in range((len(value) - 1) // size * size, -1, -size):
            number = allocate(self._core, self.container, overflow=True)
            taken.append(number)
            fields = [RowField(0, value[start : start + size])]
            if following is not None:
                fields.append(RowField(row.FIELD_OVERFLOW, column.encode_location(following)))
            following = Location(number, self.page(number).next_record_id)
            image = row.new_row(following.record_id, tuple(fields))
            named = number, operations.Insert, following.record_id, False, 0, _INSERT_PIECE
            self._change(running, *named, data=row.encode_logged(image))
        assert following is not None
        return following

    def _page_for(self, image: DecodedRow) -> int:
        """A page with room for a new row."""
        for number in (self._last, *sorted(self.roomy)):
            target = self._core.cache.get(self.container, number)
            if isinstance(target, LivePage) and target.header.status == page.VALID and not target.header.overflow:
                # Test with the record id that the row would get on this page, since the encoded length of ids differs.
                named = DecodedRow(image.header._replace(record_id=target.next_record_id), image.fields)
                if target.free_bytes >= target.space_for(named):
                    return number
            self.roomy.discard(number)
        self._last = allocate(self._core, self.container)
        return self._last

    def _damaged(self, what: str) -> DamageError:
        return DamageError(
            f"{self.container.key} cannot be used: {what}",
            file=self.container.path,
            consequence="the store cannot go on",
            hint="run verify; restore from a backup and roll forward",
        )


def _pointer(field: RowField) -> Location | None:
    """The location of the first or next piece, if the field points to one."""
    if not field.status & row.FIELD_OVERFLOW or field.data is None:
        return None
    cursor = FieldCursor(field.data)
    return Location(cursor.clong(), cursor.cint())


def _only_changes(image: DecodedRow, other: DecodedRow) -> DecodedRow:
    """The row without the fields that are equal in the other row."""
    fields = (_UNCHANGED if mine == theirs else mine for mine, theirs in zip(image.fields, other.fields, strict=True))
    return DecodedRow(image.header, tuple(fields))
