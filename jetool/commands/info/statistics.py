"""``jetool info --stats-file``: JE's own statistics, ``je.stat.csv``, as a table with small plots."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from engine.errors import NotFoundError
from engine.fields import ABSENT, Absent, Float, Int, Json, Text, Time, record
from engine.monitor.stat_file import StatHistory, StatRow, read_stat_file
from engine.monitor.stat_summary import ColumnSummary, summaries
from engine.storage.disk import DiskStorage
from engine.version import VERSION
from jetool.frame import exits
from jetool.frame.options import Run
from jetool.output.short_numbers import short_count, short_size
from jetool.output.sparkline import LEAST_WIDTH, WIDTH, sparkline

if TYPE_CHECKING:
    from jetool.fleet_page.statistics import StatLine

# The width of the table without its plots.
_BESIDE: Final = 68
_SIZES: Final = ("Bytes", "Size", "Interval", "heap")


@record()
class StatColumn(NamedTuple):
    """A column of the statistics."""

    column: Annotated[Text, "its name in the file"]
    min: Annotated[Float, "least value"]
    median: Annotated[Float, "middle value"]
    max: Annotated[Float, "largest value"]
    last: Annotated[Float, "value of the last row"]
    plot: Annotated[Text, "the values from first to last"]


@record()
class ShownColumn(NamedTuple):
    """The same for people, with units."""

    column: Annotated[Text, "its name in the file"]
    min: Annotated[Text, "least value"]
    median: Annotated[Text, "middle value"]
    max: Annotated[Text, "largest value"]
    last: Annotated[Text, "value of the last row"]
    plot: Annotated[Text, "the values from first to last"]


@record()
class StatValues(NamedTuple):
    """A row of the statistics."""

    time: Annotated[Time | None, "when JE wrote it; null when that cannot be read"]
    values: Annotated[Json, "the columns that are not blank: numbers, or texts"]


@record()
class StatCell(NamedTuple):
    """A value of the statistics, as a row of CSV; values that are 0 are left out, as JE leaves them blank."""

    time: Annotated[Time | None, "when JE wrote it; null when that cannot be read"]
    column: Annotated[Text, "its name in the file"]
    value: Annotated[Json, "a number, or a text"]


@record("statistics")
class StatReport(NamedTuple):
    """JE's own statistics."""

    file: Annotated[Text, "the file"]
    rows: Annotated[Int, "rows in it"]
    bad_lines: Annotated[Int, "lines that are no rows"]
    first_time: Annotated[Time | None, "time of the first row"]
    last_time: Annotated[Time | None, "time of the last row"]
    columns: Annotated[Sequence[StatColumn], "columns that matter, if they are not 0 in every row"]
    values: Annotated[Sequence[StatValues], "all rows"]


@record("statistics")
class ShownReport(NamedTuple):
    """JE's own statistics, for people."""

    file: Annotated[Text, "the file"]
    rows: Annotated[Int, "rows in it"]
    bad_lines: Annotated[Int | Absent, "lines that are no rows"]
    first_time: Annotated[Time | None, "time of the first row"]
    last_time: Annotated[Time | None, "time of the last row"]
    columns: Annotated[Sequence[ShownColumn], "columns that matter, if they are not 0 in every row"]


def print_statistics(run: Run, path: str, html: str | None) -> int:
    """Print a file of JE's statistics: for people what matters, for programs every row.

    Arguments:
        html: where to write a page with charts; None for none.

    Raises:
        NotFoundError: no such file. UnsupportedError: it is no such file. StorageError: it cannot be read.
    """
    if not os.path.isfile(path):
        raise NotFoundError("no such file", file=path, hint="JE writes je.stat.csv into the directory of the log")
    history = read_stat_file(DiskStorage(os.path.dirname(path) or os.curdir), os.path.basename(path))
    from jetool.commands.fleet.report_output import page_file

    with page_file(run, html) as target:
        if target is not None:
            from jetool.fleet_page.statistics import statistics_page

            lines = [_line(one) for one in summaries(history)]
            times = [row.time for row in history.rows]
            target.write(statistics_page(path, times, lines, time.time_ns() // 1_000_000, VERSION).encode())
    if run.out.format == "csv":
        run.out.table(StatCell, _cells(history))
    elif run.out.format == "text":
        run.out.document(_shown(path, history, run.out.style.width))
    else:
        run.out.document(_report(path, history))
    return exits.DONE


def _report(path: str, history: StatHistory) -> StatReport:
    first, last = _ends(history)
    return StatReport(
        file=path,
        rows=len(history.rows),
        bad_lines=history.bad_lines,
        first_time=first,
        last_time=last,
        columns=[
            StatColumn(
                column=one.name,
                min=one.least,
                median=one.median,
                max=one.largest,
                last=one.last,
                plot=sparkline(one.series),
            )
            for one in summaries(history)
        ],
        values=[
            StatValues(time=row.time, values={name: _value(row, name) for name in row.values}) for row in history.rows
        ],
    )


def _shown(path: str, history: StatHistory, width: int | None) -> ShownReport:
    first, last = _ends(history)
    plot = WIDTH if width is None else min(max(width - _BESIDE, LEAST_WIDTH), WIDTH)
    return ShownReport(
        file=path,
        rows=len(history.rows),
        bad_lines=history.bad_lines or ABSENT,
        first_time=first,
        last_time=last,
        columns=[_shown_column(one, plot) for one in summaries(history)],
    )


def _line(one: ColumnSummary) -> StatLine:
    from jetool.fleet_page.statistics import StatLine

    return StatLine(summary=one, figures=_figures(one), is_size=one.name.endswith(_SIZES))


def _shown_column(one: ColumnSummary, plot: int) -> ShownColumn:
    least, middle, largest, last = _figures(one)
    return ShownColumn(
        column=one.name, min=least, median=middle, max=largest, last=last, plot=sparkline(one.series, plot)
    )


def _figures(one: ColumnSummary) -> tuple[str, str, str, str]:
    least, middle, largest, last = (_text(one.name, value) for value in (one.least, one.median, one.largest, one.last))
    return least, middle, largest, last


def _text(name: str, value: float) -> str:
    return short_size(value) if name.endswith(_SIZES) else short_count(value)


def _ends(history: StatHistory) -> tuple[int | None, int | None]:
    times = [row.time for row in history.rows if row.time is not None]
    return (times[0], times[-1]) if times else (None, None)


def _value(row: StatRow, name: str) -> float | int | str:
    """A cell: a number where it is one, which must be finite for JSON."""
    number = row.number(name)
    if number is None:
        return row.values[name]
    return int(number) if number.is_integer() else number


def _cells(history: StatHistory) -> Iterator[StatCell]:
    return (
        StatCell(time=row.time, column=name, value=_value(row, name)) for row in history.rows for name in row.values
    )
