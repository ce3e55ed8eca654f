"""JE's statistics in a few figures: of each column that matters the least, middle, largest and last value.

JE clears its counters with every row, so that a row holds what happened in its interval; sizes are those at its end.

Example: ``Op:priInsert`` was 0, 120, 80 in three rows: least 0, median 80, largest 120, last 80.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

from engine.monitor.stat_file import CACHE_BYTES, StatHistory

# What an operator looks at first, in the order of printing: work, cache, checkpoints, cleaner, disk, waits, JVM.
COLUMNS: Final = (
    "Op:priInsert",
    "Op:priUpdate",
    "Op:priDelete",
    "Op:priSearch",
    "Op:priPosition",
    CACHE_BYTES,
    "Cache:nBINsFetchMiss",
    "Cache:nLNsFetchMiss",
    "Cache:nNodesEvicted",
    "Checkpoints:nCheckpoints",
    "Cleaning:nCleanerRuns",
    "Cleaning:nCleanerDeletions",
    "Cleaning:minUtilization",
    "Cleaning:activeLogSize",
    "Cleaning:reservedLogSize",
    "Cleaning:availableLogSize",
    "I/O:nLogFSyncs",
    "I/O:fSync95Ms",
    "I/O:fSyncMaxMs",
    "I/O:nSequentialWriteBytes",
    "I/O:nRandomReads",
    "I/O:nCacheMiss",
    "Locks:nWaits",
    "Jvm:heap",
    "Jvm:loadAverage",
)


class ColumnSummary(NamedTuple):
    """A column.

    Attributes:
        series: the values in the order of the rows; None where a cell is no number.
    """

    name: str
    least: float
    median: float
    largest: float
    last: float
    series: tuple[float | None, ...]


def summaries(history: StatHistory, names: Sequence[str] = COLUMNS) -> list[ColumnSummary]:
    """The columns that the file has and that say something in some row."""
    found = []
    for name in names:
        if name not in history.columns:
            continue
        series = tuple(row.number(name) for row in history.rows)
        known = [value for value in series if value is not None]
        # JE writes -1 for what it has not determined yet.
        if any(value not in (0, -1) for value in known):
            found.append(
                ColumnSummary(
                    name=name,
                    least=min(known),
                    median=median(known),
                    largest=max(known),
                    last=known[-1],
                    series=series,
                )
            )
    return found
