"""JSON and NDJSON.

NDJSON has one object per line; each begins with ``rec``, the name of its shape, and the last line is always
``{"rec":"summary",...}``: output without it was cut off. JSON has one value, always an object: the document itself, or
``{"records":[...],"summary":{...}}`` for a table or a stream (``findings`` instead of ``records`` for findings), with
one record per line. The records of a stream also have ``rec``, since shapes can differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from engine.fields import Row, Shape, row_of, shape_of
from jetool.output.base import StreamLayout
from jetool.output.shape import Style, pick_fields, row_to_json

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_WIDE = json.JSONEncoder(ensure_ascii=False, indent=2)


def line(value: Any) -> bytes:
    """A JSON value on one line, without the newline."""
    return without_steering(_COMPACT.encode(value))


def pretty(value: Any) -> bytes:
    """A JSON value indented for a reader, with a newline."""
    return without_steering(_WIDE.encode(value) + "\n")


# Control characters that JSON does not escape, line separators, and characters that change the direction of text.
STEERING: Final = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_STEERING: Final = re.compile(f"[{STEERING}]")


def without_steering(text: str) -> bytes:
    """JSON as UTF-8, without characters that control a terminal."""
    # These characters occur only in strings, so JSON escapes can replace them.
    if not text.isascii() or "\x7f" in text:
        text = _STEERING.sub(escaped, text)
    # File names that are not UTF-8 contain lone surrogates; both Python and JSON escape them as "\\udc80".
    return text.encode("utf-8", "backslashreplace")


def escaped(character: re.Match[str]) -> str:
    """A character below U+10000 as JSON spells it."""
    return f"\\u{ord(character[0]):04x}"


def document(row: Row, style: Style) -> bytes:
    """One record as an indented object."""
    return pretty(row_to_json(row, style))


def document_line(shape: Shape, row: Row, style: Style) -> bytes:
    """One record, or part of one, as a line of NDJSON."""
    return line({"rec": shape.rec} | row_to_json(row, style)) + b"\n"


def record_line(record: Any, style: Style) -> bytes:
    """One record as a line of NDJSON."""
    return document_line(shape_of(type(record)), row_of(record), style)


def document_lines(shape: Shape, row: Row, style: Style) -> bytes:
    """One record as NDJSON, with the summary that ends every NDJSON output."""
    return document_line(shape, row, style) + line({"rec": "summary", "count": 1}) + b"\n"


def table(rows: Iterable[Row], more: Row, style: Style) -> bytes:
    """Rows as an object with an array of them, one per line, and a summary."""
    lines = [line(row_to_json(row, style)) for row in rows]
    summary = {"count": len(lines), **row_to_json(more, style)}
    return b'{"records":[\n' + b",\n".join(lines) + b'\n],"summary":' + line(summary) + b"}\n"


class NdjsonEncoder:
    """Renders a stream as NDJSON."""

    between = b""

    def __init__(self, plan: StreamLayout) -> None:
        self._plan = plan
        self._principal = plan.shapes[0].rec

    def head(self) -> bytes:
        """Empty, because every row is a line."""
        return b""

    def rows(self, rows: Iterable[tuple[str, Row]]) -> bytes:
        """One line per row."""
        return b"".join([self.object(rec, row) + b"\n" for rec, row in rows])

    @property
    def style(self) -> Style:
        """How values look."""
        return self._plan.style

    def has_columns_of(self, shape: Shape) -> bool:
        """Whether rows of a shape are printed with all fields."""
        return self._plan.selected is None or shape.rec != self._principal

    def object(self, rec: str, row: Row) -> bytes:
        """One row. ``--fields`` selects from rows of the principal shape; others (damage) are printed with
        all fields.
        """
        if rec == self._principal:
            row = pick_fields(row, self._plan.selected)
        return line({"rec": rec} | row_to_json(row, self._plan.style))

    def foot(self, summary: Row) -> bytes:
        """The summary line."""
        return line({"rec": "summary"} | row_to_json(summary, self._plan.style)) + b"\n"


class JsonEncoder(NdjsonEncoder):
    """Renders a stream as one JSON object.

    Arguments:
        plan: the layout of the stream.
        name: the key of the array of records.
    """

    between = b",\n"

    def __init__(self, plan: StreamLayout, name: str = "records") -> None:
        super().__init__(plan)
        self._name = name

    def head(self) -> bytes:
        """Open the object and its array."""
        return f'{{"{self._name}":[\n'.encode()

    def rows(self, rows: Iterable[tuple[str, Row]]) -> bytes:
        """Objects separated by commas."""
        return self.between.join([self.object(rec, row) for rec, row in rows])

    def foot(self, summary: Row) -> bytes:
        """Close the array, and append the summary."""
        return b'\n],"summary":' + line(row_to_json(summary, self._plan.style)) + b"}\n"
