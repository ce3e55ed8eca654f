"""A readable report of rollback periods: from the log alone, nested, with the records in each.

The bulk check shows whether the log holds a rollback at all; most logs do not. Recovery's tracker builds the periods,
here from the whole log instead of only the part that recovery reads. If the log contradicts itself there are no
periods; ``refused`` gives the reason, and the entries are still listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.errors import DamageError
from engine.events import SILENT, Listener
from engine.format.entry.ln import LN
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.format.entry.txn_end import Prepare, TxnEnd
from engine.format.entry_types import COMMIT, ROLLBACKS, TXN_FATES
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.inspect.fates import RollbackEntry, record_of
from engine.inspect.selection import Selection
from engine.log.access import LogAccess
from engine.log.entry import Damage, LogEntry
from engine.log.files import LogFile, LogFiles
from engine.log.scan import LogScan, scan_log
from engine.log.tail import find_end, find_last_checkpoint
from engine.recovery.rollback_tracker import RollbackPeriod, RollbackTracker
from engine.storage.base import Storage

_ENTRY_LSN: Final = 32
_OFFSET: Final = (1 << _ENTRY_LSN) - 1


class RolledBackLN(NamedTuple):
    """An LN in a rollback period."""

    lsn: int
    txn_id: int
    db_id: int
    key: bytes
    invisible: bool


class RollbackReport(NamedTuple):
    """The rollbacks of a log.

    Attributes:
        damages: damage in the log.
        rollbacks: rollback entries in log order.
        periods: top-level periods, latest first; nested periods are also sorted latest first.
        matchpoint_vlsns: VLSN of the matchpoint, by LSN of the RollbackStart.
        times: time in ms of each rollback entry, by LSN.
        lns: records by LSN of the RollbackStart of the innermost period.
        refused: why recovery refuses the log; empty if it does not.
    """

    damages: list[Damage]
    rollbacks: list[RollbackEntry]
    periods: list[RollbackPeriod]
    matchpoint_vlsns: dict[int, int]
    times: dict[int, int]
    lns: dict[int, list[RolledBackLN]]
    refused: str


def report_rollbacks(storage: Storage, files: LogFiles, jobs: int = 1, listener: Listener = SILENT) -> RollbackReport:
    """Check the log in bulk, and build its rollback periods if it has any.

    Raises:
        RefusedError, DamageError: the end of the log cannot be found.
    """
    damages: list[Damage] = []
    holding = []
    found = scan_log(storage, files).map_files(_look_at, jobs)
    for done, (file, (has_some, met)) in enumerate(zip(files.files, found, strict=True)):
        listener.step("read", done, len(files.files))
        damages += met
        if has_some:
            holding.append(file)
    listener.step("read", len(files.files), len(files.files))
    rollbacks = list(_rollbacks(storage, files, holding))
    vlsns = {e.lsn: e.record.matchpoint_vlsn for e in rollbacks if isinstance(e.record, RollbackStart)}
    times = {entry.lsn: entry.record.time for entry in rollbacks}
    if not rollbacks:
        return RollbackReport(
            damages=damages, rollbacks=[], periods=[], matchpoint_vlsns=vlsns, times=times, lns={}, refused=""
        )
    access = LogAccess(storage, files.files)
    try:
        ckpt_end = find_last_checkpoint(access, find_end(storage, files)).ckpt_end_lsn
        start = (
            NULL_LSN if ckpt_end == NULL_LSN else getattr(access.read(ckpt_end).record(), "ckpt_start_lsn", NULL_LSN)
        )
    finally:
        access.close()
    tracker = RollbackTracker(start)
    refused = _register(tracker, rollbacks, storage, files)
    lns = {} if refused else _records(storage, files, tracker)
    return RollbackReport(
        damages=damages,
        rollbacks=rollbacks,
        periods=[] if refused else tracker.periods,
        matchpoint_vlsns=vlsns,
        times=times,
        lns=lns,
        refused=refused,
    )


def _look_at(scan: LogScan) -> tuple[bool, list[Damage]]:
    """Whether a file holds rollback entries, and its damage."""
    check = scan.check(with_sizes=False)
    return any(check.count(number) for number in ROLLBACKS), [seen.damage for seen in check.damages]


def _rollbacks(storage: Storage, files: LogFiles, holding: list[LogFile]) -> Iterator[RollbackEntry]:
    for item in scan_log(storage, files._replace(files=tuple(holding)), types=ROLLBACKS).entries():
        record = record_of(item) if isinstance(item, LogEntry) else None
        if isinstance(record, (RollbackStart, RollbackEnd)):
            yield RollbackEntry(item.lsn, record)


def _commits(storage: Storage, files: LogFiles, rollbacks: list[RollbackEntry]) -> Iterator[tuple[int, int]]:
    """LSN and transaction of the Commits that may be in a period. Only the last end of each transaction counts."""
    low = min(entry.record.matchpoint_lsn for entry in rollbacks)
    ends: dict[int, tuple[int, bool]] = {}
    for item in scan_log(storage, files, types=TXN_FATES, start=low & ~_OFFSET).entries():
        record = record_of(item) if isinstance(item, LogEntry) and not item.invisible else None
        if isinstance(record, (TxnEnd, Prepare)) and isinstance(item, LogEntry):
            ends[record.id] = item.lsn, item.type_number == COMMIT
    return ((lsn, txn_id) for txn_id, (lsn, is_commit) in ends.items() if is_commit)


def _register(tracker: RollbackTracker, rollbacks: list[RollbackEntry], storage: Storage, files: LogFiles) -> str:
    """Pass the entries to the tracker, latest first, as pass 3 of recovery does; returns its objection, or ""."""
    events: list[tuple[int, int | None]] = [*_commits(storage, files, rollbacks)]
    records = {entry.lsn: entry.record for entry in rollbacks}
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
        # Ignore a RollbackEnd whose RollbackStart the cleaner has deleted.
        tracker.finish(files.files[0].number << _ENTRY_LSN)
    except DamageError as error:
        return f"{error.what} at {error.lsn}"
    return ""


def _records(storage: Storage, files: LogFiles, tracker: RollbackTracker) -> dict[int, list[RolledBackLN]]:
    """The LNs of each period: an LN belongs to the innermost period that lists its transaction."""
    found: dict[int, list[RolledBackLN]] = {}
    periods = sorted(tracker.walk(), key=lambda period: period.matchpoint_lsn)
    low = min((period.matchpoint_lsn for period in periods), default=NULL_LSN)
    high = max((period.start_lsn for period in periods), default=NULL_LSN)
    wanted = frozenset().union(*(period.active_txn_ids or () for period in periods))
    choose = Selection(from_lsn=low, to_lsn=high, txns=wanted)
    # Without transactions read nothing, because a selection with an empty set of ids selects every entry.
    items = scan_log(storage, files, start=low & ~_OFFSET).stretches() if wanted else iter(())
    for item in choose.chosen(items):
        if not isinstance(item, LogEntry):
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
    """VLSN of a period's matchpoint; NULL_VLSN if its RollbackStart is missing."""
    return report.matchpoint_vlsns.get(period.start_lsn, NULL_VLSN)
