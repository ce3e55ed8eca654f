"""The rows of a heap, put together from their pieces.

A row that does not fit into its page goes on in another one: its header names the page and record id of the next piece,
whose header has the number of its first field. A value that is longer than a page is a chain: the field holds page and
record id of its first part, and each part a second field with the next ones (derby-log-format.md 13.4).

A page or a piece that cannot be read takes one row, or one page of rows, with it; what was lost is yielded in its
place, and the rows after it follow. An empty page is lost if the allocation page has it in use, and so is a page in use
after the end of the file.

Example: row ``(1,7)`` has the columns 0 and 1 on page 1, and its piece ``(9,6)`` the columns 2 and 3. Column 3 is a
CLOB, whose 100,000 bytes lie in four parts from ``(12,6)`` on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.derby.cache import PageCache
from engine.derby.containers import Container
from engine.derby.format import column, page
from engine.derby.format.allocation import AllocationPage
from engine.derby.format.column import Location
from engine.derby.format.row import FIELD_OVERFLOW, OVERFLOW, DecodedRow, RowField
from engine.derby.pages import LiveAllocation, LivePage
from engine.errors import DamageError, FormatError

# A row of Derby has at most 1012 columns; a value that is longer than this stays where it is.
_MOST_PIECES: Final = 1012
LONGEST_VALUE: Final = 64 << 20


class WholeRow(NamedTuple):
    """A row.

    Attributes:
        location: of its first piece.
        values: bytes by column, None for null. Columns that were added to the table later may be missing at the end.
    """

    location: Location
    values: list[bytes | None]


class LostRows(NamedTuple):
    """A page that cannot be read, or a row that cannot be put together.

    Attributes:
        page, record_id: the row; without a record id the page.
        problem: why, in one clause.
    """

    page: int
    record_id: int | None
    problem: str


def heap_rows(cache: PageCache, home: Container) -> Iterator[WholeRow | LostRows]:
    """The rows of a heap in the order of pages and slots."""
    count = cache.page_count(home)
    used: _UsedPages | None = None
    for number in range(count):
        try:
            found = cache.get(home, number)
            rows = _rows_of(found, number)
        except (DamageError, FormatError) as error:
            # Page 0 has no rows; without its map any empty page may have had some.
            if number:
                yield LostRows(number, None, error.what)
            continue
        if isinstance(found, LiveAllocation):
            used = _UsedPages(found.content)
        elif found is None and (used is None or used.has(number)):
            yield LostRows(number, None, f"page {number} of container {home.key.container} is in use and empty")
        for row in rows:
            try:
                yield WholeRow(Location(number, row.header.record_id), _values(cache, home, row))
            except (DamageError, FormatError) as error:
                yield LostRows(number, row.header.record_id, error.what)
    missing = used.first_from(count) if used is not None else None
    if missing is not None:
        yield LostRows(missing, None, f"page {missing} of container {home.key.container} is in use and missing")


class _UsedPages:
    """The pages in use according to one allocation page, which precedes them in the file."""

    __slots__ = ("_extent", "_free")

    def __init__(self, stored: AllocationPage) -> None:
        self._extent = stored.extent
        self._free = stored.free

    def has(self, number: int) -> bool:
        bit = number - self._extent.first_page
        return 0 <= bit < self._extent.allocated and not self._free.get(bit)

    def first_from(self, number: int) -> int | None:
        """The first page in use from `number` on."""
        first = max(number, self._extent.first_page)
        return next(
            (one for one in range(first, self._extent.first_page + self._extent.allocated) if self.has(one)), None
        )


def _rows_of(found: object, number: int) -> list[DecodedRow]:
    """The rows that begin on a page; none of pages that are not in use, or hold pieces."""
    if not isinstance(found, LivePage) or found.header.status != page.VALID or found.header.overflow:
        return []
    # The first row of page 1 describes the table.
    rows = found.rows[1 if number == 1 else 0 :]
    return [one.decoded() for one in rows if not one.deleted]


def _values(cache: PageCache, home: Container, row: DecodedRow) -> list[bytes | None]:
    values: list[bytes | None] = []
    for _ in range(_MOST_PIECES):
        if row.fields and row.header.first_field != len(values):
            raise FormatError(
                "a piece of a row begins with the wrong column",
                expected=str(len(values)),
                found=str(row.header.first_field),
            )
        values += [_value(cache, home, field) for field in row.fields]
        if not row.header.status & OVERFLOW:
            return values
        row = _piece(cache, home, Location(row.header.overflow_page, row.header.overflow_id))
    raise FormatError("a row has more pieces than columns")


def _value(cache: PageCache, home: Container, field: RowField) -> bytes | None:
    if field.data is None or not field.status & FIELD_OVERFLOW:
        return field.data
    value, seen = bytearray(), set[Location]()
    pointer: bytes | None = field.data
    while pointer is not None:
        location = column.decode_location(pointer)
        if location in seen:
            raise FormatError("the parts of a long value lead in a circle")
        seen.add(location)
        fields = _piece(cache, home, location).fields
        if not 1 <= len(fields) <= 2:
            raise FormatError("a part of a long value", expected="1 or 2 fields", found=str(len(fields)))
        value += fields[0].data or b""
        if len(value) > LONGEST_VALUE:
            raise FormatError(f"a value is longer than {LONGEST_VALUE >> 20} MiB")
        pointer = fields[1].data if len(fields) == 2 else None
    return bytes(value)


def _piece(cache: PageCache, home: Container, location: Location) -> DecodedRow:
    found = cache.get(home, location.page) if location.page > 0 else None
    slot = found.slot_of(location.record_id) if isinstance(found, LivePage) else None
    if not isinstance(found, LivePage) or found.header.status != page.VALID or slot is None:
        raise FormatError(f"the piece at ({location.page},{location.record_id}) is missing")
    return found.row_at(slot).decoded()
