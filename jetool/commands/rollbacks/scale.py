"""The places of rollback periods on an axis from the first to the last byte of the log, one line per nesting depth::

    0x0/0x0                                                             0x1/0x9d68
    |----------------------------------------------------------------------------|
                  <===]                                   <==========]
    VLSN          128                                     315

``<`` is a matchpoint, ``]`` the RollbackStart after it, ``>`` a RollbackStart without a RollbackEnd. The axis is linear
in bytes, so it shows how much each period rolled back. The numbers are VLSNs of matchpoints, as many as fit.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from engine.format.lsn import file_of, format_lsn, make_lsn, offset_of
from engine.format.vlsn import NULL_VLSN
from engine.inspect.rollback_report import RollbackReport, matchpoint_vlsn
from engine.log.files import LogFile
from engine.recovery.rollback_tracker import RollbackPeriod

_PIPED: Final = 80
_WIDEST: Final = 200
_VLSN: Final = "VLSN"


def scale(
    report: RollbackReport, periods: list[RollbackPeriod], files: tuple[LogFile, ...], width: int | None
) -> list[str]:
    """The lines of the axis.

    Arguments:
        report: tells the VLSNs.
        periods: the top-level periods to draw.
        files: the log files, ascending.
        width: columns of the terminal; None for a file or a pipe.
    """
    columns = min(width or _PIPED, _WIDEST)
    before = dict(
        zip((file.number for file in files), accumulate((f.size_bytes for f in files), initial=0), strict=False)
    )
    whole = max(sum(file.size_bytes for file in files), 1)

    def column(lsn: int) -> int:
        # A file that was deleted has no bytes on the axis.
        later = [start for number, start in before.items() if number >= file_of(lsn)]
        place = min(later, default=whole) + (offset_of(lsn) if file_of(lsn) in before else 0)
        return min(place * (columns - 1) // whole, columns - 1)

    first, last = format_lsn(make_lsn(files[0].number, 0)), format_lsn(make_lsn(files[-1].number, files[-1].size_bytes))
    bars: dict[int, list[str]] = {}
    vlsns = list(f"{_VLSN:<{columns}}")
    drawn = sorted((period.matchpoint_lsn, depth, period) for top in periods for depth, period in _walk(top, 0))
    for matchpoint, depth, period in drawn:
        bar = bars.setdefault(depth, [" "] * columns)
        begin, end = column(matchpoint), column(period.start_lsn)
        bar[begin : end + 1] = "=" * (end + 1 - begin)
        bar[end] = ">" if period.is_open else "]"
        # Draw the beginning last, because in a period of one column it replaces the end.
        bar[begin] = "<"
        vlsn = matchpoint_vlsn(report, period)
        text = "" if vlsn == NULL_VLSN else str(vlsn)
        begin = min(max(begin, len(_VLSN) + 1), columns - len(text))
        # Keep a blank on either side, so that numbers do not run into each other.
        if text and not "".join(vlsns[begin - 1 : begin + len(text) + 1]).strip():
            vlsns[begin : begin + len(text)] = text
    axis = f"|{'-' * (columns - 2)}|"
    lines = [f"{first}{last:>{columns - len(first)}}", axis, *("".join(bars[depth]) for depth in sorted(bars))]
    lines += ["".join(vlsns)] if any(char.isdigit() for char in vlsns) else []
    return [line.rstrip() for line in lines]


def _walk(period: RollbackPeriod, depth: int) -> list[tuple[int, RollbackPeriod]]:
    return [(depth, period), *(found for child in period.children for found in _walk(child, depth + 1))]
