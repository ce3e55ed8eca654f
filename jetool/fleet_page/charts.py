"""Charts: lines over time, and bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from jetool.fleet_page.svg import Scale, drawing, element, label, number_ticks, time_label, time_ticks, tip

SERIES: Final = 6
_WIDTH: Final = 520.0
_HEIGHT: Final = 190.0
_LEFT: Final = 62.0
_RIGHT: Final = 14.0
_TOP: Final = 12.0
_BOTTOM: Final = 24.0
_MOST_POINTS: Final = 240


class Line(NamedTuple):
    """One line: its name, and its points (time in ms, value)."""

    name: str
    points: Sequence[tuple[float, float]]


class Mark(NamedTuple):
    """An event at a time."""

    time_ms: float
    text: str


class Axis(NamedTuple):
    """The axis format of values: positions of ticks, and their labels."""

    text: Callable[[float], str]
    ticks: Callable[[float, float], list[float]] = number_ticks


def line_chart(
    about: str,
    lines: Sequence[Line],
    axis: Axis,
    marks: Sequence[Mark] = (),
    *,
    area: bool = False,
    from_zero: bool = True,
) -> str:
    """A chart of lines over time; empty if there are not two different times.

    Arguments:
        about: what it shows.
        lines: the lines; up to ``SERIES`` lines have different colours.
        axis: of the values.
        marks: events to mark.
        area: fill below the first line.
        from_zero: the axis begins with 0.
    """
    times = [time for line in lines for time, _ in line.points]
    values = [value for line in lines for _, value in line.points]
    # A single moment is not a line.
    if not times or min(times) == max(times):
        return ""
    x = Scale(min(times), max(times), _LEFT, _WIDTH - _RIGHT)
    low = 0.0 if from_zero else min(values)
    # A flat line still needs an axis with some height.
    y = Scale(low, max(max(values), low + 1), _HEIGHT - _BOTTOM, _TOP)
    body = [*_grid(x, y, axis), *_marks(marks, x)]
    for index, line in enumerate(lines):
        points = _thinned(line.points)
        path = "".join(f"{'L' if n else 'M'}{x.at(t):.1f} {y.at(v):.1f}" for n, (t, v) in enumerate(points))
        if area and not index:
            closed = f"{path}L{x.at(points[-1][0]):.1f} {y.start:.1f}L{x.at(points[0][0]):.1f} {y.start:.1f}Z"
            body.append(element("path", d=closed, class_="area"))
        text = f"{line.name}: {axis.text(points[-1][1])}"
        body.append(element("path", tip(text), d=path, class_=f"line s{index % SERIES + 1}"))
        end_x, end_y = x.at(points[-1][0]), y.at(points[-1][1])
        body.append(element("circle", tip(text), cx=end_x, cy=end_y, r=3.5, class_=f"f{index % SERIES + 1}"))
    return drawing(_WIDTH, _HEIGHT, about, "".join(body), "chart")


def legend(names: Sequence[str]) -> str:
    """Which line is which."""
    items = []
    for index, name in enumerate(names):
        stroke = element("line", x1=0.0, y1=6.0, x2=18.0, y2=6.0, class_=f"line s{index % SERIES + 1}")
        items.append(element("li", element("svg", stroke, viewBox="0 0 18 12", aria_hidden="true") + escape(name)))
    return element("ul", "".join(items), class_="legend")


def bar_chart(about: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Horizontal bars.

    Arguments:
        about: what it shows.
        rows: name, value, and the value as text.
    """
    most = max((value for _, value, _ in rows), default=0.0) or 1.0
    x = Scale(0, most, 118.0, _WIDTH - 190)
    body = []
    for index, (name, value, text) in enumerate(rows):
        top = 4 + index * 20.0
        # Minimum width, so that a pointer can hit it.
        width = max(1.0, x.at(value) - x.start)
        body.append(label(110, top + 11, name, anchor="end"))
        body.append(
            element(
                "rect", tip(f"{name}: {text}"), x=x.start, y=top, width=width, height=14.0, rx=2.0, class_="typebar"
            )
        )
        body.append(label(x.start + width + 8, top + 11, text))
    return drawing(_WIDTH, 8 + 20.0 * len(rows), about, "".join(body), "chart")


def _grid(x: Scale, y: Scale, axis: Axis) -> Iterator[str]:
    for tick in axis.ticks(y.low, y.high):
        at = y.at(tick)
        yield element("line", x1=_LEFT, y1=at, x2=_WIDTH - _RIGHT, y2=at, class_="grid")
        yield label(_LEFT - 8, at + 4, axis.text(tick), anchor="end")
    text = time_label(x.high - x.low)
    for tick in time_ticks(x.low, x.high):
        at = x.at(tick)
        yield element("line", x1=at, y1=y.start, x2=at, y2=y.start + 4, class_="axis")
        yield label(min(at, _WIDTH - 26), y.start + 16, text(tick), anchor="middle")
    yield element("line", x1=_LEFT, y1=y.start, x2=_WIDTH - _RIGHT, y2=y.start, class_="axis")


def _marks(marks: Sequence[Mark], x: Scale) -> Iterator[str]:
    for mark in marks:
        if x.low <= mark.time_ms <= x.high:
            at = x.at(mark.time_ms)
            yield element("line", tip(mark.text), x1=at, y1=_TOP - 6, x2=at, y2=_HEIGHT - _BOTTOM, class_="mark")


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most ``_MOST_POINTS`` points, including the first and the last."""
    if len(points) <= _MOST_POINTS:
        return list(points)
    # Use a fractional step, so that the last point is always included.
    step = (len(points) - 1) / (_MOST_POINTS - 1)
    return [points[round(index * step)] for index in range(_MOST_POINTS)]
