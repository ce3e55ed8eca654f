"""Tables of printable ASCII, laid out as ``tabulate`` does.

To load tabulate takes longer than to recover an environment in memory and read a record of it, once all else is loaded:
it looks up its own version.
So most tables are made here. ``jetool.output.text`` gives the others to tabulate: those with cells of several lines,
with colours, or with characters that may be two columns wide. A test compares both.

Example, one column left and one right::

    name    id
    ----  ----
    t        6
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_GAP: Final = "  "


def is_plain(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    """Whether every character takes one column, and every cell one line."""
    return all(text.isascii() and text.isprintable() for row in (headings, *cells) for text in row)


def plain_table(
    headings: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool], padding: int
) -> list[str]:
    """The lines: headings, a rule, a line for each row; without blanks at their ends.

    Arguments:
        cells: the rows; each has a cell for each heading.
        right: which columns are aligned to the right.
        padding: a column is at least this much wider than its heading.
    """
    widths = [
        max(len(heading) + padding, *(len(row[at]) for row in cells)) if cells else len(heading) + padding
        for at, heading in enumerate(headings)
    ]
    pads = [str.rjust if one else str.ljust for one in right]
    rows = [headings, ["-" * width for width in widths], *cells]
    return [
        _GAP.join([pad(text, width) for pad, text, width in zip(pads, row, widths, strict=True)]).rstrip()
        for row in rows
    ]
