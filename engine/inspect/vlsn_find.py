"""Finding the entry of a VLSN: the nearest mapping of the index, then a forward read of the log (R-VLSN-25).

The index maps about every tenth VLSN. The log is read from the mapping at or before the wanted VLSN. An entry that was
rolled back can have the same VLSN. Invisible entries are therefore skipped, and of several visible ones before the next
mapping the last one counts (a Matchpoint in a rollback period stays visible).

Example: mappings 10 and 20; 12 at 300 (rolled back), RollbackStart to 11 at 350, 12 again at 400: the entry at 400.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.log.entry import Damage, LogEntry
from engine.log.scan import LogScan


class EntryLocation(NamedTuple):
    """Where a search ended.

    Attributes:
        entry: the entry; None if the log does not hold it after ``start_lsn``.
        passed_entries, passed_bytes: entries and bytes read from ``start_lsn`` up to it.
        damaged: whether damage was found on the way.
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
        start_lsn: LSN of the mapping at or before the VLSN, or the start of a file.
        end_lsn: LSN of the mapping at or after the VLSN; its entry is read too.

    Raises:
        NotFoundError: no entry begins at ``start_lsn``.
    """
    found = EntryLocation(None, 0, 0, False)
    entries = passed = 0
    damaged = False
    # ``between`` excludes its end (R-LOG-43); add 1 so that the entry at ``end_lsn`` is read.
    for item in log.between(start_lsn, end_lsn + 1).entries():
        if isinstance(item, Damage):
            damaged = damaged or bool(item.length)
            continue
        if item.replicated and not item.invisible and item.vlsn == vlsn:
            # Do not stop here: this may be a rolled-back Matchpoint, which stays visible; then a later entry has the
            # same VLSN and counts.
            found = EntryLocation(item, entries, passed, damaged)
        entries += 1
        passed += item.total_bytes
    return found if found.entry is not None else EntryLocation(None, entries, passed, damaged)
