"""The entry of a VLSN: by the index as near as it leads, then by reading the log forward (R-VLSN-25).

The index knows every tenth VLSN or so. The log is read from the mapping at or before the one that is wanted. What a
rollback took back carries the same VLSN: invisible entries are passed over, and of visible ones (a Matchpoint in a
rollback period stays visible) the last one before the next mapping counts.

Example: mappings 10 and 20; 12 at 300 (rolled back), RollbackStart to 11 at 350, 12 again at 400: the entry at 400.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.log.entry import Damage, LogEntry
from engine.log.scan import LogScan


class EntryLocation(NamedTuple):
    """Where a search ended.

    Attributes:
        entry: the entry; None when the log does not hold it after ``start_lsn``.
        passed_entries, passed_bytes: what was read before it, from ``start_lsn`` on.
        damaged: damage was met on the way.
    """

    entry: LogEntry | None
    passed_entries: int
    passed_bytes: int
    damaged: bool


def find_vlsn(log: LogScan, vlsn: int, start_lsn: int, end_lsn: int) -> EntryLocation:
    """Read from one mapping to the next for the visible entry of a VLSN.

    Arguments:
        log: the log.
        vlsn: which one.
        start_lsn: LSN of a VLSN at or before it, or the start of a file.
        end_lsn: LSN of a VLSN at or after it, which is read as well.

    Raises:
        NotFoundError: no entry begins at ``start_lsn``.
    """
    found = EntryLocation(None, 0, 0, False)
    entries = passed = 0
    damaged = False
    # The end is excluded (R-LOG-43), and the entry there has to be read.
    for item in log.between(start_lsn, end_lsn + 1).entries():
        if isinstance(item, Damage):
            damaged = damaged or bool(item.length)
            continue
        if item.replicated and not item.invisible and item.vlsn == vlsn:
            # No break: a Matchpoint that was rolled back is visible, and the later entry counts.
            found = EntryLocation(item, entries, passed, damaged)
        entries += 1
        passed += item.total_bytes
    return found if found.entry is not None else EntryLocation(None, entries, passed, damaged)
