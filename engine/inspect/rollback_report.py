"""Rollback periods for people: from the log alone, nested, with the records in each.

The tracker of recovery builds the periods from the whole log, not only from what recovery would read. A log that
contradicts itself has none; ``refused`` then says why, and the entries are there all the same.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.errors import DamageError
from engine.events import SILENT, Listener
from engine.format.entry.ln import LN
from engine.format.entry.rollback import RollbackStart
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.inspect.fates import LogFates, read_fates
from engine.inspect.selection import Selection, txn_of
from engine.log.access import LogAccess
from engine.log.entry import LogEntry
from engine.log.files import LogFiles
from engine.log.reader import LogReader
from engine.log.tail import find_end, find_last_checkpoint
from engine.recovery.rollback_tracker import RollbackPeriod, RollbackTracker
from engine.storage.base import Storage

_ENTRY_LSN = 32


class RolledBackLN(NamedTuple):
    """One LN that a period covers."""

    lsn: int
    txn_id: int
    db_id: int
    key: bytes
    invisible: bool


class RollbackReport(NamedTuple):
    """The rollbacks of a log.

    Attributes:
        fates: the pass over the log that this comes from.
        periods: top-level periods, latest first; their children likewise.
        matchpoint_vlsns: VLSN of the matchpoint, by LSN of the RollbackStart.
        times: time in ms of each rollback entry, by LSN.
        lns: records by LSN of the RollbackStart of the innermost period.
        refused: why recovery refuses the log; empty when it does not.
    """

    fates: LogFates
    periods: list[RollbackPeriod]
    matchpoint_vlsns: dict[int, int]
    times: dict[int, int]
    lns: dict[int, list[RolledBackLN]]
    refused: str


def report_rollbacks(storage: Storage, files: LogFiles, listener: Listener = SILENT) -> RollbackReport:
    """Read the log and build its rollback periods.

    Raises:
        RefusedError, DamageError: the end of the log cannot be found.
    """
    fates = read_fates(storage, files, listener)
    vlsns = {e.lsn: e.record.matchpoint_vlsn for e in fates.rollbacks if isinstance(e.record, RollbackStart)}
    times = {entry.lsn: entry.record.time for entry in fates.rollbacks}
    if not fates.rollbacks:
        return RollbackReport(fates, [], vlsns, times, {}, "")
    access = LogAccess(storage, files.files)
    try:
        ckpt_end = find_last_checkpoint(access, find_end(storage, files)).ckpt_end_lsn
        start = (
            NULL_LSN if ckpt_end == NULL_LSN else getattr(access.read(ckpt_end).record(), "ckpt_start_lsn", NULL_LSN)
        )
    finally:
        access.close()
    tracker = RollbackTracker(start)
    refused = _register(tracker, fates, files)
    lns = {} if refused else _records(storage, files, tracker)
    return RollbackReport(fates, [] if refused else tracker.periods, vlsns, times, lns, refused)


def _register(tracker: RollbackTracker, fates: LogFates, files: LogFiles) -> str:
    """Hand the entries to the tracker, latest first, as pass 3 of recovery does; what it objects to, or nothing."""
    commits = [(txn.end_lsn, txn.txn_id) for txn in fates.txns.values() if txn.outcome == "committed"]
    events: list[tuple[int, int | None]] = [(lsn, txn_id) for lsn, txn_id in commits]
    records = {entry.lsn: entry.record for entry in fates.rollbacks}
    events += [(lsn, None) for lsn in records]
    try:
        for lsn, txn_id in sorted(events, key=lambda event: event[0], reverse=True):
            record = records.get(lsn)
            if txn_id is not None:
                tracker.check_commit(txn_id, lsn)
            elif isinstance(record, RollbackStart):
                tracker.register_start(record, lsn)
            elif record is not None:
                tracker.register_end(record, lsn)
        # A RollbackStart in a file that the cleaner has deleted is missed by nobody.
        tracker.finish(files.files[0].number << _ENTRY_LSN)
    except DamageError as error:
        return f"{error.what} at {error.lsn}"
    return ""


def _records(storage: Storage, files: LogFiles, tracker: RollbackTracker) -> dict[int, list[RolledBackLN]]:
    """The LNs of each period: those of the transactions that the innermost period around them lists."""
    found: dict[int, list[RolledBackLN]] = {}
    periods = sorted(tracker.walk(), key=lambda period: period.matchpoint_lsn)
    low = min((period.matchpoint_lsn for period in periods), default=NULL_LSN)
    high = max((period.start_lsn for period in periods), default=NULL_LSN)
    wanted = frozenset().union(*(period.active_txn_ids or () for period in periods))
    choose = Selection(from_lsn=low, to_lsn=high).matcher()
    for item in LogReader(storage, files._replace(marker=None)).forward(low & ~0xFFFFFFFF):
        if not isinstance(item, LogEntry) or not choose(item) or txn_of(item) not in wanted:
            continue
        record = item.record()
        if not isinstance(record, LN) or record.txn_id is None:
            continue
        inside = [p for p in periods if p.contains(item.lsn) and p.lists(record.txn_id)]
        if inside:
            # An LN belongs to the innermost period that lists its transaction (R-RB-4).
            innermost = min(inside, key=lambda period: period.start_lsn - period.matchpoint_lsn)
            rolled = RolledBackLN(item.lsn, record.txn_id, record.db_id, record.key, item.invisible)
            found.setdefault(innermost.start_lsn, []).append(rolled)
    return found


def matchpoint_vlsn(report: RollbackReport, period: RollbackPeriod) -> int:
    """VLSN of a period's matchpoint; NULL_VLSN when its RollbackStart is gone."""
    return report.matchpoint_vlsns.get(period.start_lsn, NULL_VLSN)
