"""Indexes against tables whose rows are stored in parts, and against the column that the catalogue names."""

from __future__ import annotations

import struct

import pytest

from engine.derby.format import btree, column, page
from engine.derby.format.allocation import NO_PAGE
from engine.derby.format.container import ContainerKey
from engine.derby.format.page import PageHeader
from engine.derby.format.row import (
    FIELD_NULL,
    FIELD_OVERFLOW,
    HAS_FIRST_FIELD,
    OVERFLOW,
    DecodedRow,
    RowField,
    RowHeader,
    new_row,
)
from engine.derby.verify.agreement import Agreement

TABLE, INDEX = ContainerKey(0, 1184), ContainerKey(0, 1201)
PLAIN = PageHeader(117, 0, False, page.VALID, 1, 0, 6, 0, 0, 0, 1, 0, 0, 0, 0)
LONG = PLAIN._replace(overflow=True)
COLUMNS = 3
# An index on the last column.
LAST = {INDEX.container: (COLUMNS - 1,)}
ROW, PIECE = 6, 7
DIFFERENT = f"index {INDEX.container} against table {TABLE.container}: column 1 holds other values than the rows"


def heap_row() -> DecodedRow:
    """The row that describes the table, whose columns are bytes."""
    formats = (column.VARBIT,) * COLUMNS
    data = struct.pack(f">HiqI{COLUMNS}H", 467, TABLE.segment, TABLE.container, COLUMNS, *formats)
    return new_row(ROW, (RowField(0, data),))


def control_row() -> DecodedRow:
    descriptor = btree.encode_descriptor(INDEX, TABLE)
    none = NO_PAGE
    control = btree.ControlRow(
        btree.LEAF, left=none, right=none, parent=none, level=0, is_root=True, descriptor=descriptor
    )
    return new_row(ROW, btree.control_fields(control))


def bit(value: bytes) -> RowField:
    return RowField(0, column.encode_varbit(value))


def part(record_id: int, first: int, values: list[bytes | None], after: tuple[int, int] | None) -> DecodedRow:
    """A part of a row that goes on at page and record id ``after``."""
    status = HAS_FIRST_FIELD | (OVERFLOW if after else 0)
    fields = tuple(RowField(FIELD_NULL, None) if value is None else bit(value) for value in values)
    at, number = after or (0, 0)
    return DecodedRow(RowHeader(status, record_id, at, number, first, len(fields), 0), fields)


def agreement(heap: list[DecodedRow], overflow: list[DecodedRow], key: bytes | None) -> Agreement:
    """Of a table with one row, and an index with one entry of ``key``."""
    seen = Agreement((), LAST)
    seen.see(TABLE, 1, PLAIN, [heap_row()])
    # Parts may come before the page of their row.
    seen.see(TABLE, 2, LONG, overflow)
    seen.see(TABLE, 3, PLAIN, heap)
    location = RowField(0, column.encode_location(column.Location(3, ROW)))
    field = RowField(FIELD_NULL, None) if key is None else bit(key)
    seen.see(INDEX, 1, PLAIN, [control_row(), new_row(ROW, (field, location))])
    return seen


def messages(seen: Agreement) -> list[str]:
    return [one.message for one in seen.findings()]


@pytest.mark.parametrize("value", [b"c", None])
def test_a_value_on_another_page(value: bytes | None) -> None:
    heap, overflow = [part(ROW, 0, [b"a"], (2, PIECE))], [part(PIECE, 1, [b"b", value], None)]
    assert messages(agreement(heap, overflow, value)) == []
    # The value of a column of the same type is the wrong one.
    assert messages(agreement(heap, overflow, b"b")) == [DIFFERENT]


def test_a_row_in_three_parts() -> None:
    heap = [part(ROW, 0, [b"a"], (2, PIECE))]
    overflow = [part(PIECE, 1, [b"b"], (2, PIECE + 1)), part(PIECE + 1, 2, [b"c"], None)]
    assert messages(agreement(heap, overflow, b"c")) == []
    assert messages(agreement(heap, overflow, b"x")) == [DIFFERENT]


def test_a_column_that_was_added_later_is_null() -> None:
    heap, overflow = [part(ROW, 0, [b"a"], (2, PIECE))], [part(PIECE, 1, [b"b"], None)]
    assert messages(agreement(heap, overflow, None)) == []
    assert messages(agreement(heap, overflow, b"c")) == [DIFFERENT]


@pytest.mark.parametrize(
    "overflow",
    [
        [],
        [part(PIECE, 1, [b"b"], (2, PIECE))],
        [part(PIECE, 1, [b"b"], (2, PIECE + 1)), part(PIECE + 1, 0, [b"a"], (2, PIECE))],
        [DecodedRow(RowHeader(HAS_FIRST_FIELD, PIECE, 0, 0, 2, 1, 0), (RowField(FIELD_OVERFLOW, b"c"),))],
        [part(PIECE, 2, [bytes(20_000)], None)],
    ],
    ids=["absent", "itself", "circle", "in parts", "too long for an index"],
)
def test_a_value_that_is_not_whole_is_counted(overflow: list[DecodedRow]) -> None:
    seen = agreement([part(ROW, 0, [b"a", b"b"], (2, PIECE))], overflow, b"c")
    assert messages(seen) == []
    assert seen.uncompared == 1
    assert messages(seen) == []
    assert seen.uncompared == 1
