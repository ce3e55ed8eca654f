"""CSV (RFC 4180, newline as line end): a line of column names, then one line per row.

Values look as in JSON, null is empty, lists and nested records are JSON in one cell. The summary of a stream is not
printed, because it would be a row of another kind.

A log may hold text from untrusted sources, and a spreadsheet evaluates a cell that begins with ``=``, ``+``, ``-`` or
``@``. Unless such a cell is a number, it is prefixed with an apostrophe, which spreadsheets do not show. Control
characters other than tab and newline, and characters that change the direction of text, are spelt as in JSON
(``\\u001b``): a terminal obeys them, and a carriage return ends the line for some readers. Programs that need the exact
values should read NDJSON or a JE dump.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from engine.fields import Row, Shape
from jetool.output import jsonl
from jetool.output.base import StreamLayout
from jetool.output.shape import Style, column_names, to_json

# Spreadsheets ignore a tab or a line end before the sign.
_FORMULA: Final = frozenset("=+-@\t\r\n")
_CONTROL: Final = re.compile(f"[\x00-\x08\x0b-\x1f{jsonl.STEERING}]")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def table(shape: Shape, rows: Iterable[Row], selected: Sequence[str] | None, style: Style) -> bytes:
    """Rows of one shape with their column names."""
    encoder = CsvEncoder(StreamLayout((shape,), tuple(selected) if selected is not None else None, style))
    return encoder.head() + encoder.rows((shape.rec, row) for row in rows)


def cell(kind: str, value: Any, style: Style) -> str:
    """A value as the text of a cell."""
    if value is None:
        return ""
    plain = to_json(kind, value, style)
    if type(plain) is str:
        text = plain
    elif type(plain) is int:
        return str(plain)
    elif plain is None:
        return ""
    # JSON's spelling, not Python's: ``str`` would write True.
    elif isinstance(plain, bool):
        return "true" if plain else "false"
    else:
        text = jsonl.line(plain).decode() if isinstance(plain, dict | list) else str(plain)
    guarded = text if text.isprintable() else _CONTROL.sub(jsonl.escaped, text)
    return f"'{guarded}" if text[:1] in _FORMULA and not _NUMBER.fullmatch(text) else guarded


class CsvEncoder:
    """Renders a stream as CSV."""

    between = b""

    def __init__(self, plan: StreamLayout) -> None:
        self._style = plan.style
        self._columns = column_names(plan.shapes, plan.selected)
        # Streams of several shapes have many columns, but a row has only a few of them.
        self._places = {name: place for place, name in enumerate(self._columns)}
        self._blank = [""] * len(self._columns)

    def head(self) -> bytes:
        """The column names."""
        return self.lines([self._columns])

    def rows(self, rows: Iterable[tuple[str, Row]]) -> bytes:
        """One line per row; missing fields are empty."""
        return self.lines(self._cells(rec, row) for rec, row in rows)

    def foot(self, summary: Row) -> bytes:  # noqa: ARG002 - see the module docstring
        """Nothing."""
        return b""

    @property
    def style(self) -> Style:
        """How values look."""
        return self._style

    def has_columns_of(self, shape: Shape) -> bool:
        """Whether the columns are exactly the shape's fields in order."""
        return self._columns == shape.names()

    def lines(self, lines: Iterable[Sequence[str]]) -> bytes:
        """Lines of cells."""
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(lines)
        # File names that are not UTF-8 contain lone surrogates.
        return buffer.getvalue().encode("utf-8", "backslashreplace")

    def _cells(self, rec: str, row: Row) -> list[str]:
        cells, places, style = self._blank.copy(), self._places, self._style
        # Streams of several shapes have the column ``rec``, and a shape may have a field with the same name.
        if "rec" in places:
            cells[places["rec"]] = rec
        for name, kind, value in row:
            place = places.get(name)
            if place is not None:
                cells[place] = cell(kind, value, style)
        # With --fields a column may be selected twice.
        return cells if len(places) == len(cells) else [cells[places[name]] for name in self._columns]
