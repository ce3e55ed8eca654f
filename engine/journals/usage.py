"""The space used by journals: numbers and bytes by operation, or by hour."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.contents.journals import journal_code, timestamp_of
from engine.contents.operations import TIMESTAMPS
from engine.events import SILENT, Listener, Progress
from engine.format.expiration import HOUR_MS
from engine.journals.reader import JournalReader

BY_OPERATION: Final = "operation"
BY_HOUR: Final = "hour"
GROUPINGS: Final = (BY_OPERATION, BY_HOUR)
# A damaged clock: a time after the year 9999 cannot be printed.
_LATEST_MS: Final = 253_402_300_799_999
_TOLD: Final = (1 << 12) - 1


class JournalUsage(NamedTuple):
    """Journals of one operation, or of one hour.

    Attributes:
        group: the code of the operation (None: the value is too short), or the start of the hour in ms (None: before
            the first journal with a time).
        journals, size_bytes: number of journals, and the size of their values.
        first, last: the first and the last id.
    """

    group: int | None
    journals: int
    size_bytes: int
    first: int
    last: int


def read_usage(
    reader: JournalReader, grouping: str, first: int, last: int, total: int, listener: Listener = SILENT
) -> list[JournalUsage]:
    """Count the journals of a range of ids; operations are sorted by size, largest first, hours by time.

    Arguments:
        grouping: of ``GROUPINGS``.
        total: approximate number of journals, for progress.
    """
    found: dict[int | None, list[int]] = {}
    progress = Progress(listener, "journals", total, 1 << 14)
    hour: int | None = None
    by_hour = grouping == BY_HOUR
    for count, (_, (number, value, _)) in enumerate(reader.raw(first, last)):
        if count & _TOLD == _TOLD:
            progress.add(_TOLD + 1)
        group = journal_code(value) if len(value) > 1 else None
        if by_hour:
            time = timestamp_of(value) if group in TIMESTAMPS else None
            if time is not None and 0 <= time <= _LATEST_MS:
                hour = time - time % HOUR_MS
            group = hour
        sums = found.get(group)
        if sums is None:
            found[group] = [1, len(value), number, number]
        else:
            sums[0] += 1
            sums[1] += len(value)
            sums[3] = number
    rows = [JournalUsage(group, *sums) for group, sums in found.items()]
    return rows if by_hour else sorted(rows, key=lambda row: (-row.size_bytes, row.group or 0))
