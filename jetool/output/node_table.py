"""Samples of nodes as a table that fits the width of a terminal, for the screen and for blocks of text.

Columns without a value in any row are left out. If the rest does not fit, columns are given up in a fixed order, the
least urgent one first; the name of a node and its state always stay. Words that tell why a node does not answer stand
below the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Final, NamedTuple

from engine.format.vlsn import NULL_VLSN
from engine.monitor.sample import NodeSample
from jetool.output.shape import Style, lsn_text, printable, time_text
from jetool.output.short_numbers import short_count, short_duration, short_size
from jetool.output.text import fold, heading

_GAP: Final = "  "
_NONE: Final = "-"
_SILENT: Final = "NO ANSWER"
_UNREAD: Final = "NOT READ"
_LONGEST_NAME: Final = 24
# Colours of the terminal, for rows with a problem.
_BAD: Final = "\x1b[31m"
_PLAIN: Final = "\x1b[0m"


class TableColumn(NamedTuple):
    """A column.

    Attributes:
        rank: columns with higher ranks are given up first; 0 for never.
        cell: the text for a node; None for no value.
    """

    heading: str
    rank: int
    cell: Callable[[NodeSample], str | None]
    right: bool = True


def _count(value: float | None) -> str | None:
    return None if value is None else short_count(value)


def _size(value: float | None) -> str | None:
    return None if value is None else short_size(value)


def _duration(seconds: float | None) -> str | None:
    return None if seconds is None else short_duration(seconds)


def _name(one: NodeSample) -> str:
    text = printable(one.node)
    return text if len(text) <= _LONGEST_NAME else ".." + text[2 - _LONGEST_NAME :]


def _state(one: NodeSample) -> str:
    if one.state is None and one.problem:
        return _UNREAD if one.node == one.place and one.group is None and "/" in one.place else _SILENT
    return one.state or _NONE


def _cache(one: NodeSample) -> str | None:
    if one.cache_bytes is None or not one.cache_limit:
        return _size(one.cache_bytes)
    return f"{_size(one.cache_bytes)}/{_size(one.cache_limit)}"


COLUMNS: Final = (
    TableColumn("node", 0, _name, right=False),
    TableColumn("state", 0, _state, right=False),
    TableColumn("VLSN", 3, lambda one: None if one.vlsn == NULL_VLSN else str(one.vlsn)),
    TableColumn("lag", 1, lambda one: _count(one.lag)),
    TableColumn("VLSN/s", 9, lambda one: _count(one.vlsn_rate)),
    TableColumn("commit/s", 2, lambda one: _count(one.commit_rate)),
    TableColumn("log/s", 6, lambda one: _size(one.append_rate)),
    TableColumn("log", 10, lambda one: _size(one.log_bytes)),
    TableColumn("files", 12, lambda one: None if one.log_files is None else str(one.log_files)),
    TableColumn("used", 11, lambda one: None if one.utilization is None else f"{one.utilization}%"),
    TableColumn("clean", 5, lambda one: None if one.cleaner_backlog is None else str(one.cleaner_backlog)),
    TableColumn("reserved", 14, lambda one: _size(one.reserved_bytes)),
    TableColumn("cache", 8, _cache),
    TableColumn("ckpt", 4, lambda one: _duration(one.checkpoint_age)),
    TableColumn("recovery", 13, lambda one: _size(one.recovery_bytes)),
    TableColumn("disk left", 7, lambda one: _size(one.disk_left)),
    TableColumn("load", 15, lambda one: None if one.load is None else f"{one.load:.2f}"),
    TableColumn("JE", 17, lambda one: one.je_version, right=False),
    TableColumn("writer", 16, lambda one: None if one.writer is None else str(one.writer)),
    TableColumn("end of log", 18, lambda one: lsn_text(one.end_of_log)),
    TableColumn("place", 19, lambda one: None if one.place == one.node else printable(one.place), right=False),
)

# What the rows can be sorted by, by the key that is pressed: a word, and the value; large ones come first.
ORDERS: Final[dict[str, tuple[str, Callable[[NodeSample], float]]]] = {
    "l": ("lag", lambda one: inf if one.problem else -1 if one.lag is None else one.lag),
    "c": ("commits", lambda one: one.commit_rate or one.vlsn_rate or 0),
    "g": ("growth", lambda one: one.append_rate or 0),
    "d": ("disk left", lambda one: 0 if one.disk_left is None else -one.disk_left),
}


class FittedTable(NamedTuple):
    """Headings, alignment and cells of the columns that fit."""

    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    widths: tuple[int, ...]


def fitted(samples: Sequence[NodeSample], width: int | None) -> FittedTable:
    """The table for a width; None for no limit."""
    cells = {column: [column.cell(one) for one in samples] for column in COLUMNS}
    shown = [column for column in COLUMNS if not column.rank or any(cell is not None for cell in cells[column])]
    widths = {column: max(len(column.heading), *(len(cell or _NONE) for cell in cells[column]), 0) for column in shown}
    while width is not None and sum(widths[one] + len(_GAP) for one in shown) - len(_GAP) > width:
        worst = max(shown, key=lambda column: column.rank)
        if not worst.rank:
            break
        shown.remove(worst)
    rows = tuple(tuple(cells[column][at] or _NONE for column in shown) for at in range(len(samples)))
    return FittedTable(tuple(shown), rows, tuple(widths[column] for column in shown))


def ordered(samples: Sequence[NodeSample], order: str) -> list[NodeSample]:
    """The samples by a key of ``ORDERS``; any other key leaves them as they are."""
    known = ORDERS.get(order)
    return list(samples) if known is None else sorted(samples, key=lambda one: (-known[1](one), one.node))


def problem_lines(samples: Sequence[NodeSample], width: int | None) -> Iterator[str]:
    """A line for each node with a problem."""
    for one in samples:
        if one.problem is not None:
            yield fold(f"{_name(one)}: {printable(one.problem)}", width, 2)


def table_lines(samples: Sequence[NodeSample], style: Style) -> Iterator[str]:
    """The table and the problems, without the time."""
    table = fitted(samples, style.width)
    yield heading(_line(table, [column.heading for column in table.columns]), style)
    for one, row in zip(samples, table.rows, strict=True):
        text = _line(table, row)
        yield f"{_BAD}{text}{_PLAIN}" if style.color and one.problem is not None else text
    yield from problem_lines(samples, style.width)


def block(samples: Sequence[NodeSample], style: Style) -> str:
    """The text of one sample, with a blank line after it."""
    when = time_text(max((one.time for one in samples), default=0), style.tz)
    return "\n".join([when, *table_lines(samples, style), "", ""])


def _line(table: FittedTable, cells: Sequence[str]) -> str:
    parts = zip(table.columns, cells, table.widths, strict=True)
    return _GAP.join(cell.rjust(width) if one.right else cell.ljust(width) for one, cell, width in parts).rstrip()
