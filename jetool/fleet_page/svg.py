"""Small parts of drawings: elements, scales, ticks, and readable numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

from engine.format.expiration import DAY_MS
from jetool.output.shape import time_text

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MINUTE_MS: Final = 60_000
# Steps of time axes: seconds to years.
_TIME_STEPS: Final = tuple(
    seconds * 1000
    for seconds in (
        0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600,
        7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000, 15552000, 31536000,
    )
)  # fmt: skip


class Scale(NamedTuple):
    """Maps ``[low, high]`` to ``[start, end]``; an empty range maps to ``start``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The coordinate of a value."""
        if self.high <= self.low:
            return self.start
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def element(name: str, text: str = "", **attributes: float | str | None) -> str:
    """An element. ``class_`` becomes class, underscores in names become hyphens, and attributes that are None are left
    out.

    Arguments:
        name: the tag.
        text: its content, as markup.
        attributes: values are escaped here; numbers get one decimal.
    """
    parts = []
    for key, value in attributes.items():
        if value is not None:
            # One decimal is a tenth of a pixel; more would only make the page larger.
            shown = escape(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
            parts.append(f' {key.rstrip("_").replace("_", "-")}="{shown}"')
    return f"<{name}{''.join(parts)}>{text}</{name}>"


def label(x: float, y: float, text: str, class_: str = "label", anchor: str | None = None) -> str:
    """A text in a drawing."""
    return element("text", escape(text), x=x, y=y, class_=class_, text_anchor=anchor)


def tip(text: str) -> str:
    """A tooltip."""
    return element("title", escape(text))


def drawing(width: float, height: float, about: str, body: str, class_: str = "") -> str:
    """A drawing that fills the available width.

    Arguments:
        width, height: size of the drawing's coordinate system.
        about: a description for readers who cannot see it.
        body: its elements.
    """
    return element(
        "svg",
        body,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=about,
        class_=class_ or None,
        preserveAspectRatio="xMidYMid meet",
    )


def number_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers within a range: steps of 1, 2 or 5 times a power of ten."""
    if high <= low:
        return [low]
    rough = (high - low) / most
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    # Whole multiples of the step, not sums of it, so that rounding errors do not add up.
    first = math.ceil(low / step)
    return [index * step for index in range(first, int(high / step) + 1)]


def byte_ticks(high: float, most: int = 5) -> list[float]:
    """Round numbers of bytes from 0: steps of powers of two."""
    if high <= 0:
        return [0.0]
    step = 2.0 ** max(0, math.ceil(math.log2(high / most)))
    return [index * step for index in range(int(high / step) + 1)]


def time_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round times within a range, in ms."""
    if high <= low:
        return [low]
    step = _time_step(high - low, most)
    first = math.ceil(low / step)
    return [index * step for index in range(first, int(high / step) + 1)]


def _time_step(span_ms: float, most: int = 5) -> float:
    return next((step for step in _TIME_STEPS if span_ms / step <= most), _TIME_STEPS[-1])


def time_label(span_ms: float) -> Callable[[float], str]:
    """The format of times on an axis of a given length."""
    form = "%H:%M" if span_ms < 2 * DAY_MS else "%d %b" if span_ms < 300 * DAY_MS else "%b %Y"
    if span_ms < 10 * _MINUTE_MS:
        form = "%H:%M:%S"
    # As many decimals as tell two ticks apart.
    step = round(_time_step(span_ms))
    decimals = next(places for places, unit in enumerate((1000, 100, 10, 1)) if step % unit == 0)

    def text(value: float) -> str:
        moment = datetime.fromtimestamp(value / 1000, UTC)
        if decimals:
            return f"{moment:%H:%M:%S}.{round(moment.microsecond / 1000):03d}"[: decimals - 3 or None]
        return moment.strftime(form)

    return text


def bytes_text(size: float) -> str:
    """A number of bytes, short: ``512 B``, ``1.5 KiB``, ``64 MiB``."""
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    shown = f"{size:.1f}" if unit and size < 100 else f"{size:.0f}"
    return f"{shown.removesuffix('.0')} {_UNITS[unit]}"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """``1 file``, ``2 files``; ``3 entries`` where the plural is given."""
    return f"{count_text(count)} {noun if count == 1 else nouns or noun + 's'}"


def count_text(value: float) -> str:
    """A number with thin spaces between thousands."""
    return f"{int(value):,}".replace(",", "\u202f")


def moment_text(time_ms: int) -> str:
    """A time to the second, or a dash for none."""
    return time_text(time_ms)[:19].replace("T", " ") if time_ms else "–"
