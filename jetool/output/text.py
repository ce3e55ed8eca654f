"""Text for operators: aligned sections for documents, tables, columns or lines for streams.

On a terminal, lines fit its width, and nothing is left out. Values, a command's own lines and table headings are folded
between words, then texts in tables. If that is not enough, columns with the same value in every row become a line below
the table. If even that is not enough, the rows become blocks of ``name value`` lines. A stream measures its columns
from its first rows; the columns on the right that do not fit follow each row on lines of their own, without the values
that are null. Words are never broken, so that a path or an LSN can be copied. With ``--fields`` the selected columns
are printed side by side.

A document is printed as ``name value`` lines. A nested record becomes a section with a heading, a list of records a
table under its heading. Names are the JSON keys with blanks instead of underscores, so that both outputs can be
compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from engine.fields import Row, Shape
from jetool.output import shape
from jetool.output.base import StreamLayout, TextLine
from jetool.output.plain_table import is_plain, plain_table
from jetool.output.shape import KINDS, TEXTS, Style, column_names, to_text

# Widths of columns in streams, by kind; they are fixed, because rows are not held back to measure them.
_WIDTHS = {"lsn": 21, "instant": 16, "vlsn": 10, "int": 10, "time": 24, "size_bytes": 10, "text": 16}


_ESCAPE: Final = re.compile("\x1b\\[[0-9;]*m")
# A text column of a table is not made narrower than this.
_LEAST: Final = 12
_GAP: Final = "  "
# Values that say little, and what the line below the table says of columns that hold nothing else.
_SILENT: Final = {"no": "no in every row: ", "-": "no value in any row: "}
_LONGEST_LIST: Final = 100
_MARGIN: Final = "    "


def fold(line: str, width: int | None, indent: int = 4) -> str:
    """Fold a line between words; continuation lines are indented further."""
    if width is None or len(line) <= width or len(_ESCAPE.sub("", line)) <= width:
        return line
    margin = len(line) - len(line.lstrip())
    return _folded(line[margin:].split(" "), width, " " * margin, " " * min(margin + indent, width // 2))


def _folded(words: Sequence[str], width: int, first: str, others: str) -> str:
    lines, now = [], first + words[0]
    for word in words[1:]:
        if len(_ESCAPE.sub("", now)) + 1 + len(_ESCAPE.sub("", word)) > width and now.strip():
            lines.append(now.rstrip())
            now = others + word
        else:
            now += f" {word}"
    return "\n".join([*lines, now.rstrip()])


def encode(text: str) -> bytes:
    """Text as UTF-8, regardless of the locale; file names that are not UTF-8 are written as on disk."""
    return text.encode("utf-8", "surrogateescape")


def label(name: str, kind: str = "") -> str:
    """A JSON key as a label; the unit suffix of durations is removed, because their values include a unit."""
    if kind == "duration_ms":
        name = name.removesuffix("_ms")
    return name.replace("_", " ").upper() if name in ("lsn", "vlsn") else name.replace("_", " ")


def heading(text: str, style: Style) -> str:
    """A heading; bold if colours are enabled."""
    return f"\x1b[1m{text}\x1b[0m" if style.color else text


def document(row: Row, style: Style) -> bytes:
    """One record as aligned lines and sections, after its verdict."""
    said, row = _split_verdict(row)
    plain = [field for field in row if not _nested(field[1])]
    parts = [_verdict(said, style)] if said else []
    parts += [_aligned(plain, style)] if plain else []
    for name, kind, value in row:
        if _nested(kind) and value is not None:
            body = _aligned(value, style) if kind == "record" else _table_text(value, style)
            parts.append(f"{heading(label(name), style)}\n{body}")
    return encode("\n\n".join(parts) + "\n")


def _split_verdict(row: Row) -> tuple[str, Row]:
    """As ``split_verdict``, which is not loaded for a row without a verdict."""
    if all(name != "why" for name, _, _ in row):
        return "", row
    from jetool.output.verdicts import split_verdict

    return split_verdict(row)


def _verdict(line: str, style: Style) -> str:
    from jetool.output.verdicts import colored

    shown = fold(shape.printable(line), style.width, 2)
    return colored(shown) if style.color else shown


def table(shape: Shape, rows: Iterable[Row], selected: Sequence[str] | None, style: Style) -> bytes:
    """Rows of one shape as a table with headings, also when there are no rows."""
    kinds = {field.name: field.kind for field in shape.fields}
    names = column_names((shape,), selected)
    shown = _tabulate(names, [kinds[name] for name in names], list(rows), style, whole=selected is not None)
    return encode(shown + "\n")


def _nested(kind: str) -> bool:
    return kind in ("record", "records")


def _aligned(record: Row, style: Style) -> str:
    fields = shape.fields_of(record)
    width = max((len(label(name, kind)) for name, kind, _ in fields), default=0)
    lines = []
    for name, kind, value in fields:
        texts = [to_text(kind, value, style)]
        # Sentences of a list are printed on separate lines, words on one line; a single word stays beside its label.
        if kind == "texts" and len(texts[0]) > _LONGEST_LIST and any(" " in one for one in value):
            texts = [to_text("text", one, style) for one in value]
        said = label(name, kind)
        for text in texts:
            line = f"  {said:<{width}}  {text}"
            lines.append(fold(line, style.width, width + 2) if " " in text else line)
            said = ""
    return "\n".join(lines)


def _table_text(rows: Sequence[Row], style: Style) -> str:
    if not rows:
        return "  none"
    rows = [shape.fields_of(row) for row in rows]
    # Optional fields are in some rows only; the table has a column for each that occurs.
    kinds = {name: kind for row in rows for name, kind, _ in row}
    inner = style if style.width is None else style._replace(width=style.width - 2)
    text = _tabulate(list(kinds), list(kinds.values()), rows, inner)
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())


def _tabulate(
    names: Sequence[str], kinds: Sequence[str], rows: Sequence[Row], style: Style, *, whole: bool = False
) -> str:
    cells = []
    for row in rows:
        by_name = {name: to_text(kind, value, style) for name, kind, value in row}
        cells.append([by_name.get(name, "-") for name in names])
    headings = [label(name, kind) for name, kind in zip(names, kinds, strict=True)]
    if not cells:
        # A script that reads a pipe counts lines.
        none = "" if style.width is None else "\nnone"
        return fold(_GAP.join(headings), style.width, 0) + none
    shown, same = list(range(len(names))), ""
    if style.width is not None:
        fitted = _fit(headings, cells, style.width, whole=whole)
        if fitted is None:
            return _blocks(headings, cells, style.width)
        headings, cells, shown, same = fitted
    right = [kinds[at] in KINDS and KINDS[kinds[at]].right for at in shown]
    # Columns that are wider than their headings are legible in a pipe; on a terminal the space is needed.
    padding = 2 if style.width is None else 0
    made = plain_table if is_plain(headings, cells) else general_table
    lines = made(headings, cells, right, padding)
    if same:
        lines.append(fold(same, style.width, 2))
    return "\n".join(lines)


def general_table(
    headings: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool], padding: int
) -> list[str]:
    """The lines of any table, by tabulate. Arguments as of ``plain_table``."""
    import tabulate

    tabulate.MIN_PADDING = padding
    text = tabulate.tabulate(
        cells,
        headings,
        tablefmt="simple",
        colalign=["right" if one else "left" for one in right],
        # Otherwise keys of digits become floats.
        disable_numparse=True,
        preserve_whitespace=True,
    )
    return [line.rstrip() for line in text.split("\n")]


def _fit(
    headings: list[str], cells: list[list[str]], width: int, *, whole: bool
) -> tuple[list[str], list[list[str]], list[int], str] | None:
    """Headings and cells, folded if necessary; the indexes of these columns; and a line for the columns that are left
    out because all rows have the same value. None if the columns do not fit.
    """
    columns = [[heading, *(row[at] for row in cells)] for at, heading in enumerate(headings)]
    if _total([max(map(len, column)) for column in columns]) <= width:
        return headings, cells, list(range(len(headings))), ""
    # Fold headings first, because that does not hurt readability.
    least = [max(_longest_word(column[0]), *map(len, column[1:])) for column in columns]
    while (excess := _total(least) - width) > 0:
        narrower = [max(_LEAST, *map(_longest_word, column)) for column in columns]
        gains = [now - then for now, then in zip(least, narrower, strict=True)]
        at = max(range(len(gains)), key=gains.__getitem__)
        if gains[at] <= 0:
            break
        least[at] -= min(gains[at], excess)
    shown = list(range(len(least)))
    for at in _constant(columns):
        if whole or _total([least[one] for one in shown]) <= width:
            break
        shown.remove(at)
    if not whole and _total([least[one] for one in shown]) > width:
        return None
    same = _said_once([columns[at][:2] for at in range(len(columns)) if at not in shown])
    folded = [[_folded(cell.split(" "), least[at], "", "") for cell in columns[at]] for at in shown]
    rows = [list(row) for row in zip(*(column[1:] for column in folded), strict=True)]
    return [column[0] for column in folded], rows, shown, same


def _constant(columns: Sequence[Sequence[str]]) -> list[int]:
    """The columns with the same value in all rows, in the order in which a table gives them up; never the first."""
    same = [at for at in range(len(columns) - 1, 0, -1) if len(set(columns[at][1:])) == 1]
    silent = [at for at in same if columns[at][1] in _SILENT]
    # A single row is more legible as a block.
    others = [at for at in same if at not in silent and len(columns[at]) > 2 and len(columns[at][1]) <= _LEAST]
    return silent + others


def _said_once(columns: Sequence[Sequence[str]]) -> str:
    """The line for columns, each with its heading and value, that are not in the table."""
    parts = [
        said + ", ".join(heading for heading, value in columns if value == silent)
        for silent, said in _SILENT.items()
        if any(value == silent for _, value in columns)
    ]
    values = [f"{heading} {value}" for heading, value in columns if value not in _SILENT]
    return "; ".join([*parts, "in every row: " + ", ".join(values)] if values else parts)


def _blocks(headings: list[str], cells: list[list[str]], width: int) -> str:
    """Rows as lines of name and value, with a blank line between rows."""
    size = max(map(len, headings))
    return "\n\n".join(
        "\n".join(fold(f"{name:<{size}}  {cell}", width, size + 2) for name, cell in zip(headings, row, strict=True))
        for row in cells
    )


def _packed(parts: Iterable[str], width: int) -> Iterator[str]:
    """Parts side by side on indented lines; a part that is too long is folded."""
    now = ""
    for part in parts:
        if now and len(_MARGIN + now + _GAP + part) > width:
            yield fold(_MARGIN + now, width, 2)
            now = ""
        now += _GAP + part if now else part
    if now:
        yield fold(_MARGIN + now, width, 2)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _longest_word(text: str) -> int:
    return max(map(len, text.split(" ")))


class TextEncoder:
    """Renders a stream as lines: the command's own lines, or columns of fixed width except the last.

    Arguments:
        plan: the layout of the stream.
        measured: the width of each column in the first rows; empty if it is not known.

    Attributes:
        pads: padding function and width of each column.
    """

    between = b""

    def __init__(self, plan: StreamLayout, measured: Sequence[int] = ()) -> None:
        self._plan = plan
        self._columns = column_names(plan.shapes, plan.selected)
        # Reversed, so that the principal shape decides the kind of a name that several shapes have.
        kinds = {field.name: field.kind for shape in reversed(plan.shapes) for field in shape.fields}
        self._kinds = self._all_kinds = [kinds.get(name, "text") for name in self._columns]
        self._is_table = plan.few and plan.style.width is not None and plan.line is None
        # With --fields the command's own line and its verdict do not apply.
        self._said = plan.verdict if plan.selected is None else ""
        self._line = plan.line if plan.selected is None else None
        self._sizes = [_WIDTHS.get(kind, 12) for kind in self._kinds]
        self._all_columns, self._below = self._columns, frozenset[str]()
        if measured and not self._fits():
            self._sizes = list(measured)
        if not self._fits():
            self._move_below()
        right = [kind in KINDS and KINDS[kind].right for kind in self._kinds]
        self.pads = [(str.rjust if one else str.ljust, width) for one, width in zip(right, self._sizes, strict=True)]

    @property
    def style(self) -> Style:
        """How values look."""
        return self._plan.style

    def prints_by(self, line: TextLine) -> bool:
        """Whether rows are printed by a command's function, as one line each however long."""
        return self._line is line and not self._is_table and self._plan.style.width is None

    def has_columns_of(self, shape: Shape) -> bool:
        """Whether rows of a shape are printed as lines with exactly the shape's fields in order."""
        return self._line is None and not self._is_table and self._columns == shape.names()

    @property
    def wants_rows(self) -> bool:
        """Whether columns would be chosen better once the first rows are known."""
        return bool(self._below) and self._line is None and not self._is_table

    def fitted_to(self, rows: Iterable[tuple[str, Row]]) -> TextEncoder:
        """An encoder with columns as wide as those of some rows."""
        cells = [self._texts(rec, row) for rec, row in rows]
        headings = {name: label(name, kind) for name, kind in zip(self._all_columns, self._all_kinds, strict=True)}
        widths = [
            max(len(heading), *(len(row.get(name, "-")) for row in cells)) if cells else len(heading)
            for name, heading in headings.items()
        ]
        return TextEncoder(self._plan, widths)

    def _fits(self) -> bool:
        width = self._plan.style.width
        return width is None or self._plan.selected is not None or _total(self._sizes) <= width

    def _move_below(self) -> None:
        """Print the columns on the right that do not fit on lines of their own."""
        width = self._plan.style.width or 0
        # Reduce the width of LSNs first: the longest possible LSN is rare.
        sizes = zip(self._sizes, self._kinds, strict=True)
        self._sizes = [min(size, 15) if kind == "lsn" else size for size, kind in sizes]
        shown = len(self._sizes)
        while shown > 1 and _total(self._sizes[:shown]) > width:
            shown -= 1
        self._below = frozenset(self._columns[shown:])
        self._columns, self._kinds, self._sizes = self._columns[:shown], self._kinds[:shown], self._sizes[:shown]

    def head(self) -> bytes:
        """Print the verdict, and headings for columns; a command's own lines need none."""
        said = f"{_verdict(self._said, self._plan.style)}\n\n" if self._said else ""
        if self._line is not None or self._is_table:
            return encode(said)
        return encode(
            said
            + heading(
                self._padded([label(*column) for column in zip(self._columns, self._kinds, strict=True)]),
                self._plan.style,
            )
            + "\n"
        )

    def rows(self, rows: Iterable[tuple[str, Row]]) -> bytes:
        """One line per row."""
        style, line = self._plan.style, self._line
        if self._is_table:
            names = column_names(self._plan.shapes, self._plan.selected)
            whole = self._plan.selected is not None
            return encode(_tabulate(names, self._all_kinds, [row for _, row in rows], style, whole=whole) + "\n")
        if line is not None:
            lines = [line(rec, row, style) + "\n" for rec, row in rows]
            if style.width is not None:
                lines = ["\n".join(fold(one, style.width) for one in text.split("\n")) for text in lines]
            return encode("".join(lines))
        return encode("".join([self._cells(rec, row) + "\n" for rec, row in rows]))

    def foot(self, summary: Row) -> bytes:
        """The summary as aligned lines after an empty line."""
        if self._said:
            # The first line has it.
            _, summary = _split_verdict(summary)
        if not summary:
            return b""
        return encode(f"\n{_aligned(summary, self._plan.style)}\n")

    def _texts(self, rec: str, row: Row) -> dict[str, str]:
        style = self._plan.style
        cells = {name: "-" if value is None else TEXTS[kind](value, style) for name, kind, value in row}
        cells.setdefault("rec", rec)
        return cells

    def _cells(self, rec: str, row: Row) -> str:
        cells = self._texts(rec, row)
        line = self._padded([cells.get(name, "-") for name in self._columns])
        if not self._below:
            return line
        rest = [
            f"{label(name, kind)} {cells[name]}"
            for name, kind in zip(self._all_columns, self._all_kinds, strict=True)
            if name in self._below and cells.get(name, "-") != "-"
        ]
        return "\n".join([line, *_packed(rest, self._plan.style.width or 0)])

    def _padded(self, cells: Iterable[str]) -> str:
        padded = [pad(cell, width) for cell, (pad, width) in zip(cells, self.pads, strict=True)]
        return "  ".join(padded).rstrip()
