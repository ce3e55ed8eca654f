"""The page of JE's own statistics: a chart and a line of a table for each column that matters."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from engine.monitor.stat_summary import ColumnSummary
from jetool.fleet_page.charts import Axis, Line, line_chart
from jetool.fleet_page.page import whole_page
from jetool.fleet_page.svg import byte_ticks, bytes_text, count_text, plural

_BYTES = Axis(bytes_text, lambda _, high: byte_ticks(high, 4))
_COUNTS = Axis(count_text)
_HEADINGS = ("column", "min", "median", "max", "last")


class StatLine(NamedTuple):
    """A column, its figures as text, and whether they are bytes."""

    summary: ColumnSummary
    figures: tuple[str, str, str, str]
    is_size: bool


def statistics_page(
    path: str, times: Sequence[int | None], lines: Sequence[StatLine], made_ms: int, version: str
) -> str:
    """The whole page; every name in it is escaped.

    Arguments:
        path: the file.
        times: of the rows, in ms.
        lines: the columns, in the order of the page.
        made_ms: time of the page.
        version: of jetool.
    """
    charts = [(line.summary.name, _chart(line, times)) for line in lines]
    drawn = "".join(f'<div class="scroll"><h3>{escape(name)}</h3>{chart}</div>' for name, chart in charts if chart)
    head = "".join(f"<th>{escape(text)}</th>" for text in _HEADINGS)
    rows = "".join(
        f"<tr><td>{escape(line.summary.name)}</td>"
        + "".join(f'<td class="n">{escape(text)}</td>' for text in line.figures)
        + "</tr>"
        for line in lines
    )
    table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    main = [
        f'<p class="said">{escape(plural(len(times), "row"))} in {escape(path)}</p>',
        f'<div class="pair">{drawn}</div>',
        table,
    ]
    foot = "A counter is what happened in the interval of its row, a size what it was at its end; times are UTC."
    return whole_page("JE's statistics", path, "".join(main), foot, made_ms, version)


def _chart(line: StatLine, times: Sequence[int | None]) -> str:
    """Empty if there are not two rows with a time and a value."""
    pairs = zip(times, line.summary.series, strict=True)
    points = [(float(time), value) for time, value in pairs if time is not None and value is not None]
    axis = _BYTES if line.is_size else _COUNTS
    # The axis of values below 0 begins with the least of them.
    return line_chart(line.summary.name, [Line(line.summary.name, points)], axis, from_zero=line.summary.least >= 0)
