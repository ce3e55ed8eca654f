"""Text for operators: aligned sections for documents, tables by ``tabulate``, columns or lines for streams.

A document is printed as ``name  value`` lines. A nested record becomes a section with a heading, a list of records a
table under its heading. Names are the JSON keys with blanks for underscores, so that both outputs can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jetool.output import shape
from jetool.output.base import StreamLayout
from jetool.output.shape import KINDS, Row, Shape, Style, column_names, to_text

# Width of a stream's column: streams are not held back to measure them.
_WIDTHS = {"lsn": 21, "instant": 16, "vlsn": 10, "int": 10, "time": 24, "size_bytes": 10, "text": 16}


def encode(text: str) -> bytes:
    """Text as UTF-8, whatever the locale; file names that are no UTF-8 come out as they are on disk."""
    return text.encode("utf-8", "surrogateescape")


def label(name: str) -> str:
    """A JSON key as a label."""
    return name.replace("_", " ").upper() if name in ("lsn", "vlsn") else name.replace("_", " ")


def heading(text: str, style: Style) -> str:
    """A heading, bold where colours are wanted."""
    return f"\x1b[1m{text}\x1b[0m" if style.color else text


def document(row: Row, style: Style) -> bytes:
    """One record as aligned lines and sections."""
    plain = [field for field in row if not _nested(field[1])]
    parts = [_aligned(plain, style)] if plain else []
    for name, kind, value in row:
        if _nested(kind) and value is not None:
            body = _aligned(value, style) if kind == "record" else _table_text(value, style)
            parts.append(f"{heading(label(name), style)}\n{body}")
    return encode("\n\n".join(parts) + "\n")


def table(shape: Shape, rows: Iterable[Row], selected: Sequence[str] | None, style: Style) -> bytes:
    """Rows of one shape as a table with headings, also when there are no rows."""
    kinds = {field.name: field.kind for field in shape.fields}
    names = column_names((shape,), selected)
    return encode(_tabulate(names, [kinds[name] for name in names], list(rows), style) + "\n")


def _nested(kind: str) -> bool:
    return kind in ("record", "records")


def _aligned(record: Row, style: Style) -> str:
    fields = shape.fields_of(record)
    width = max((len(label(name)) for name, _, _ in fields), default=0)
    return "\n".join(f"  {label(name):<{width}}  {to_text(kind, value, style)}" for name, kind, value in fields)


def _table_text(rows: Sequence[Row], style: Style) -> str:
    if not rows:
        return "  none"
    rows = [shape.fields_of(row) for row in rows]
    # Optional fields are in some rows only; the table has a column for each that occurs.
    kinds = {name: kind for row in rows for name, kind, _ in row}
    text = _tabulate(list(kinds), list(kinds.values()), rows, style)
    return "\n".join(f"  {line}" for line in text.splitlines())


def _tabulate(names: Sequence[str], kinds: Sequence[str], rows: Sequence[Row], style: Style) -> str:
    from tabulate import tabulate

    cells = []
    for row in rows:
        by_name = {name: to_text(kind, value, style) for name, kind, value in row}
        cells.append([by_name.get(name, "-") for name in names])
    align = ["right" if kind in KINDS and KINDS[kind].right else "left" for kind in kinds]
    headings = [label(name) for name in names]
    if not cells:
        return "  ".join(headings)
    # Without its number parsing, which would turn keys of digits into floats.
    text = tabulate(cells, headings, tablefmt="simple", colalign=align, disable_numparse=True, preserve_whitespace=True)
    return "\n".join(line.rstrip() for line in text.splitlines())


class TextEncoder:
    """Renders a stream as lines: the command's own, or columns of fixed width with the last one open."""

    between = b""

    def __init__(self, plan: StreamLayout) -> None:
        self._plan = plan
        self._columns = column_names(plan.shapes, plan.selected)
        # Reversed, so that the principal shape decides on names that several shapes have.
        kinds = {field.name: field.kind for shape in reversed(plan.shapes) for field in shape.fields}
        self._kinds = [kinds.get(name, "text") for name in self._columns]
        # With --fields the user says what to see, so the command's own line does not apply.
        self._line = plan.line if plan.selected is None else None

    def head(self) -> bytes:
        """Headings for columns; a command's own lines explain themselves."""
        if self._line is not None:
            return b""
        return encode(heading(self._padded([label(name) for name in self._columns]), self._plan.style) + "\n")

    def rows(self, rows: Iterable[tuple[str, Row]]) -> bytes:
        """One line per row."""
        style, line = self._plan.style, self._line
        if line is not None:
            return encode("".join([line(rec, row, style) + "\n" for rec, row in rows]))
        return encode("".join([self._cells(rec, row) + "\n" for rec, row in rows]))

    def foot(self, summary: Row) -> bytes:
        """The summary as aligned lines after an empty line."""
        return encode(f"\n{_aligned(summary, self._plan.style)}\n") if summary else b""

    def _cells(self, rec: str, row: Row) -> str:
        by_name = {name: to_text(kind, value, self._plan.style) for name, kind, value in row}
        by_name.setdefault("rec", rec)
        return self._padded([by_name.get(name, "-") for name in self._columns])

    def _padded(self, cells: Sequence[str]) -> str:
        padded = []
        for cell, kind in zip(cells, self._kinds, strict=True):
            width = _WIDTHS.get(kind, 12)
            padded.append(cell.rjust(width) if kind in shape.KINDS and shape.KINDS[kind].right else cell.ljust(width))
        return "  ".join(padded).rstrip()
