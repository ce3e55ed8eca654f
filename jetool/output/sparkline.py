"""A row of values as a line of characters of different heights.

Example: 0, 5, 10 is ``▁▄█``. The least value is the lowest character, the largest the highest, and a missing one a
blank. Of more values than characters each character stands for several, and shows the largest of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_HEIGHTS: Final = "▁▂▃▄▅▆▇█"
WIDTH: Final = 24
LEAST_WIDTH: Final = 8


def sparkline(values: Sequence[float | None], width: int = WIDTH) -> str:
    """The line, at most ``width`` characters; empty without values."""
    groups = _grouped(values, width)
    known = [value for value in groups if value is not None]
    if not known:
        return ""
    least, span = min(known), max(known) - min(known)
    heights = [
        " " if value is None else _HEIGHTS[round((value - least) / span * (len(_HEIGHTS) - 1)) if span else 0]
        for value in groups
    ]
    return "".join(heights)


def _grouped(values: Sequence[float | None], width: int) -> list[float | None]:
    if len(values) <= width:
        return list(values)
    found: list[float | None] = []
    for at in range(width):
        part = values[at * len(values) // width : (at + 1) * len(values) // width]
        found.append(max((value for value in part if value is not None), default=None))
    return found
