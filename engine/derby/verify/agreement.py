"""Compares indexes with their tables, and the pages of an index with each other, to find pages in the wrong place.

A page does not hold its own number, and Derby does not check it either. A page that was written over another page of
its container has a valid checksum, and queries lose rows or find them twice. But a page of an index names its
neighbours, and an index points to the rows of its table. Like Derby's SYSCS_CHECK_TABLE, this module compares both:

* the right neighbour of a page is on the same level and names the page as its left neighbour, and only page 1 is the
  root (DRB-IDX-001);
* an index has one entry for each row of its table, with the same values (DRB-IDX-002).

The second check looks up no row. For the table and for the index it computes sums over all rows or entries: of the
CRC-32 of the row location, and for each column of the CRC-32 of location and value. The sum of an index column must
equal that of the table column named by the catalogue, or of a column of the same type if the catalogue names none. The
order of rows does not matter, and memory holds only a few numbers for each column.

Values are compared only for types whose equal values have equal bytes, ignoring trailing blanks. Derby does not change
an index entry when the new value of a column equals the old one, so decimals, floats and strings under a collation may
legitimately differ from the row. For such columns, and for columns with a value stored in parts, only locations are
compared. ``uncompared`` counts both. A row that continues on another page is assembled after all pages were read; of
its parts only values that an index may hold are kept.

This works only for containers at rest: those that recovery would still change, and those with errors, are skipped.

Example: page 2 of heap 0x490 was also written over page 1. Its index has 71 entries and the table 74 rows.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from engine.derby.format import btree, column, container, page
from engine.derby.format.allocation import NO_PAGE
from engine.derby.format.btree import ROOT_PAGE, Descriptor
from engine.derby.format.codec import FieldCursor
from engine.derby.format.container import ContainerKey
from engine.derby.format.page import PageHeader
from engine.derby.format.row import FIELD_OVERFLOW, OVERFLOW, DecodedRow
from engine.derby.verify.findings import DerbyFinding, finding
from engine.errors import FormatError, plural

_PLACE: Final = struct.Struct(">qq")
_ABSENT: Final = -2
# Represents null, whose field has no data.
_NULL: Final = b"\xff null"
_STRING_LENGTH_BYTES: Final = 2
# A key fits into half a page, and pages have 32 KiB at most. Longer values are not kept.
_LONGEST_KEY: Final = 16 << 10


def _as_it_is(data: bytes) -> bytes:
    return data


def _without_blanks(data: bytes) -> bytes:
    return data[_STRING_LENGTH_BYTES:].rstrip(b" ")


def _without_padding(data: bytes) -> bytes:
    # Keys of jetool's page store end in a zero byte in the index.
    return column.decode_varbit(data).rstrip(b"\0 ")


# Types whose equal values have equal bytes after these functions.
_STRINGS: Final = {78: _without_blanks, 85: _without_blanks}
_COMPARED: Final[dict[int, Callable[[bytes], bytes]]] = {
    **_STRINGS,
    column.VARBIT: _without_padding,
    # Timestamp, boolean, integer, smallint, bigint, date, time.
    **dict.fromkeys((31, 77, 80, 83, 84, 298, 299), _as_it_is),
}


class Agreement:
    """Is given every page in use, and then reports the differences.

    Arguments:
        changing: containers that recovery would change.
        base_columns: the columns that the catalogue names for each index, counted from 0.

    Attributes:
        uncompared: number of index columns whose values could not be compared; valid after ``findings``.
    """

    __slots__ = ("_base_columns", "_heaps", "_indexes", "_left_out", "_no_index", "_no_table", "uncompared")

    def __init__(self, changing: Collection[ContainerKey], base_columns: Mapping[int, Sequence[int]]) -> None:
        self._left_out = set(changing)
        self._base_columns = base_columns
        self.uncompared = 0
        self._heaps: dict[ContainerKey, _Heap] = {}
        self._indexes: dict[ContainerKey, _Index] = {}
        # Containers whose page 1 does not describe a table, or an index.
        self._no_table: set[ContainerKey] = set()
        self._no_index: set[ContainerKey] = set()

    def leave_out(self, key: ContainerKey) -> None:
        """Skip a container, since it has errors that are more precise."""
        self._left_out.add(key)

    def see(self, key: ContainerKey, number: int, header: PageHeader, rows: Sequence[DecodedRow]) -> None:
        """Take a page in use; page 1 of a container must come first."""
        if key in self._left_out or header.status != page.VALID:
            return
        if number == ROOT_PAGE and rows:
            self._begin(key, rows[0])
        if key in self._heaps:
            self._heaps[key].see(number, header, rows)
        elif key in self._indexes:
            self._indexes[key].see(number, rows)

    def findings(self) -> Iterator[DerbyFinding]:
        """The differences, one finding for each index."""
        self.uncompared = 0
        for key in sorted(self._no_index - self._left_out):
            message = "page 1 does not describe the index"
            yield finding("DRB-IDX-001", message, file=container.path_of(key), container=key.container, page=ROOT_PAGE)
        for key in sorted(self._indexes.keys() - self._left_out):
            index, path, number = self._indexes[key], container.path_of(key), key.container
            broken = index.broken or list(index.wrong_neighbours())
            if broken:
                at, message = broken[0]
                more = f"; {plural(len(broken) - 1, 'page')} more" if len(broken) > 1 else ""
                yield finding("DRB-IDX-001", message + more, file=path, container=number, page=at)
                continue
            table = ContainerKey(key.segment, index.table)
            if table in self._left_out:
                continue
            problem = "its page 1 does not describe the table" if table in self._no_table else None
            if table in self._heaps:
                problem = self._against(index, self._heaps[table], self._base_columns.get(number))
            if problem is not None:
                message = f"index {number} against table {index.table}: {problem}"
                yield finding("DRB-IDX-002", message, file=path, container=number)

    def _against(self, index: _Index, heap: _Heap, base_columns: Sequence[int] | None) -> str | None:
        """How the entries of an index differ from the rows of its table; None when they agree."""
        heap.complete()
        ours, theirs = index.sums, heap.sums
        if ours.count != theirs.count:
            return f"{plural(ours.count, 'entry', 'entries')} for {plural(theirs.count, 'row')}"
        if ours.places != theirs.places:
            return "entries lead to rows that are not there"
        self.uncompared += index.keys - len(ours.formats)
        for at, kind in ours.formats.items():
            # If the catalogue does not name the column, one of the same type must agree.
            named = base_columns[at : at + 1] if base_columns is not None else theirs.formats
            others = [other for other in named if theirs.formats.get(other) == kind]
            if not others or not heap.overflowing.isdisjoint(others):
                self.uncompared += 1
            elif ours.columns[at] not in map(theirs.columns.__getitem__, others):
                return f"column {at + 1} holds other values than the rows"
        return None

    def _begin(self, key: ContainerKey, first: DecodedRow) -> None:
        """The row in slot 0 of page 1 describes the container."""
        control = btree.control_row(first)
        try:
            if control is not None:
                found = btree.decode_descriptor(control.descriptor or b"")
                _require_same(key, ContainerKey(found.segment, found.container))
                self._indexes[key] = _Index(found)
            else:
                self._heaps[key] = _Heap(_heap_columns(key, first))
        except (FormatError, IndexError):
            (self._no_table if control is None else self._no_index).add(key)


def _heap_columns(key: ContainerKey, first: DecodedRow) -> list[int]:
    """The formats of the columns of a table. FormatError if the row describes something else."""
    cursor = FieldCursor((first.fields[0].data if first.fields else None) or b"")
    # The format id differs by release.
    cursor.short()
    _require_same(key, ContainerKey(cursor.fixed_int(), cursor.fixed_long()))
    return [cursor.short() for _ in range(cursor.fixed_int())]


def _require_same(key: ContainerKey, found: ContainerKey) -> None:
    if found != key:
        raise FormatError("page 1 describes another container", expected=str(key.container), found=str(found.container))


class _Sums:
    """Sums over rows: their number, their locations, and the values of comparable columns."""

    __slots__ = ("columns", "count", "formats", "places")

    def __init__(self, formats: Sequence[int]) -> None:
        self.formats = {at: kind for at, kind in enumerate(formats) if kind in _COMPARED}
        self.count = 0
        self.places = 0
        self.columns = dict.fromkeys(self.formats, 0)

    def add(self, number: int, record_id: int) -> int:
        """Add a row; return a checksum of its location."""
        place = zlib.crc32(_PLACE.pack(number, record_id))
        self.count += 1
        self.places += place
        return place

    def add_value(self, at: int, data: bytes | None, place: int) -> None:
        value = _NULL if data is None else _COMPARED[self.formats[at]](data)
        self.columns[at] += zlib.crc32(value, place)


class _Piece(NamedTuple):
    """The part of a row that is on an overflow page.

    Attributes:
        fields: by column; None is null.
        unknown: columns whose value is incomplete in this piece.
        end: the number of the column after the last column of the piece.
        next: page and record id of the next piece; None for the last piece.
    """

    fields: dict[int, bytes | None]
    unknown: set[int]
    end: int
    next: tuple[int, int] | None


class _Heap:
    """The rows of a table."""

    __slots__ = ("_continued", "_pieces", "overflowing", "sums")

    def __init__(self, formats: Sequence[int]) -> None:
        self.sums = _Sums(formats)
        # Columns with unknown values.
        self.overflowing: set[int] = set()
        # Pieces by page and record id.
        self._pieces: dict[tuple[int, int], _Piece] = {}
        # For each row that continues on another page: the checksum of its location, and its first piece.
        self._continued: list[tuple[int, _Piece]] = []

    def see(self, number: int, header: PageHeader, rows: Sequence[DecodedRow]) -> None:
        if header.overflow:
            for row in rows:
                piece = self._piece(row)
                # This page may also hold pieces of long values, which no index contains.
                if piece.fields or piece.unknown or piece.next:
                    self._pieces[number, row.header.record_id] = piece
            return
        for row in rows[1 if number == ROOT_PAGE else 0 :]:
            if row.header.deleted:
                continue
            place = self.sums.add(number, row.header.record_id)
            if row.header.status & OVERFLOW:
                self._continued.append((place, self._piece(row)))
                continue
            for at in self.sums.formats:
                if at >= len(row.fields):
                    # Added to the table later: null in rows that have not been written since.
                    self.sums.add_value(at, None, place)
                elif row.fields[at].status & FIELD_OVERFLOW:
                    self.overflowing.add(at)
                else:
                    self.sums.add_value(at, row.fields[at].data, place)

    def complete(self) -> None:
        """Add the rows that continue on other pages; call it after all pages."""
        for place, first in self._continued:
            piece: _Piece | None = first
            left = set(self.sums.formats)
            # The column numbers of the pieces must ascend, so a circular chain ends.
            end = -1
            while piece is not None and piece.end > end:
                end = piece.end
                for at, data in piece.fields.items():
                    if at in left:
                        left.remove(at)
                        self.sums.add_value(at, data, place)
                self.overflowing |= piece.unknown
                if piece.next is None:
                    # Added to the table later.
                    for at in left:
                        if at >= end:
                            self.sums.add_value(at, None, place)
                        else:
                            self.overflowing.add(at)
                    break
                piece = self._pieces.get(piece.next)
            else:
                self.overflowing |= left
        self._continued.clear()
        self._pieces.clear()

    def _piece(self, row: DecodedRow) -> _Piece:
        fields: dict[int, bytes | None] = {}
        unknown = set()
        first = row.header.first_field
        for at, field in enumerate(row.fields, first):
            if at not in self.sums.formats:
                continue
            if field.status & FIELD_OVERFLOW or len(field.data or b"") > _LONGEST_KEY:
                unknown.add(at)
            else:
                fields[at] = field.data
        after = (row.header.overflow_page, row.header.overflow_id) if row.header.status & OVERFLOW else None
        return _Piece(fields, unknown, first + len(row.fields), after)


class _Index:
    """The entries and pages of an index."""

    __slots__ = ("_left", "_level", "_location", "_right", "broken", "keys", "sums", "table")

    def __init__(self, found: Descriptor) -> None:
        self.table = found.table
        self._location = found.location
        # Number of key columns.
        self.keys = found.location
        keys = [0 if found.collated and kind in _STRINGS else kind for kind in found.formats[: found.location]]
        self.sums = _Sums(keys)
        # Left and right neighbour and level of each page, by page number.
        self._left, self._right, self._level = array("q"), array("q"), array("q")
        self.broken: list[tuple[int, str]] = []

    def see(self, number: int, rows: Sequence[DecodedRow]) -> None:
        # A split that was rolled back leaves its new page in use and empty.
        if not rows:
            return
        control = btree.control_row(rows[0])
        if control is None or control.is_root != (number == ROOT_PAGE):
            what = "has no control row" if control is None else "is not the one root of the index"
            self.broken.append((number, f"page {number} {what}"))
            return
        gap = number + 1 - len(self._left)
        for numbers, value in ((self._left, control.left), (self._right, control.right), (self._level, control.level)):
            numbers.extend((_ABSENT,) * gap)
            numbers[number] = value
        if control.kind == btree.LEAF:
            for row in rows[1:]:
                if not row.header.deleted:
                    self._add(number, row)

    def wrong_neighbours(self) -> Iterator[tuple[int, str]]:
        """Pages whose sibling pointers disagree with those of their neighbours, each with a description."""
        for number, level in enumerate(self._level):
            if level == _ABSENT:
                continue
            for side, ours, theirs in (("right", self._right, self._left), ("left", self._left, self._right)):
                other = ours[number]
                known = 0 < other < len(theirs) and theirs[other] != _ABSENT
                if other == NO_PAGE or (known and theirs[other] == number and self._level[other] == level):
                    continue
                what = f"whose own neighbour is page {theirs[other]}" if known else "which is not in use"
                yield number, f"page {number} has page {other} on its {side}, {what}"
                break

    def _add(self, number: int, row: DecodedRow) -> None:
        data = row.fields[self._location].data if len(row.fields) > self._location else None
        try:
            location = column.decode_location(data or b"")
        except (FormatError, IndexError):
            self.broken.append((number, f"an entry of page {number} leads nowhere"))
            return
        place = self.sums.add(location.page, location.record_id)
        for at in self.sums.formats:
            self.sums.add_value(at, row.fields[at].data, place)
