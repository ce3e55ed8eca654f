"""Rollback periods and the INVISIBLE bit, which no checksum covers.

A period is the open interval ``(matchpoint, RollbackStart)`` (R-RB-3). The log must satisfy these rules:

* An invisible entry lies in a period and is part of the replication stream. Local entries inside a period are never
  rolled back. The RollbackStart may have been cleaned away before the entries: if later files are missing, this is
  undecided.
* After a RollbackEnd, all LNs of its transactions in the period are invisible (R-RB-4, R-RB-33). Without a RollbackEnd
  these LNs may be visible or invisible, since recovery still has to set the bits (R-RB-31).
* Two periods lie one inside the other or apart (R-RB-12, 13, 16), each has one RollbackEnd at most, and each
  RollbackEnd its RollbackStart (R-RB-15): recovery's own tracker checks this, here for the whole log.
* Between a RollbackStart and its RollbackEnd no replicated transaction writes (R-RB-22).
* No Commit of a replicated transaction lies in a period (R-RB-20). Aborts may (R-RB-21).

The bulk check keeps RollbackStarts, RollbackEnds and invisible entries. For the other rules, the ranges from the start
of each period to its RollbackEnd are read again, in one pass even if periods are nested.

Example: matchpoint 0x0/0x2cbc, RollbackStart 0x0/0x3ce0 with transactions -54 to -52, RollbackEnd 0x0/0x3cfe. The
INS_LN_TX of -53 at 0x0/0x2d40 is visible: JE-LOG-024.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from engine.errors import DamageError, NotFoundError, StorageError
from engine.format.entry.rollback import RollbackStart
from engine.format.entry_types import COMMIT, TXN_ENDS
from engine.format.lsn import NULL_LSN, file_of, format_lsn, make_lsn, parse_lsn
from engine.format.vlsn import NULL_VLSN
from engine.inspect.selection import txn_of
from engine.log.check import FileCheck
from engine.log.entry import LogEntry
from engine.log.files import LogFiles
from engine.log.scan import LogScan, scan_log
from engine.recovery.rollback_tracker import RollbackTracker
from engine.storage.base import Storage
from engine.verify import log_rules as rules
from engine.verify.report import Finding, finding

# Ids of replicated transactions count down from here.
_FIRST_REPLICATED_TXN: Final = -10


class LoggedPeriod(NamedTuple):
    """One rollback period.

    Attributes:
        matchpoint, start: LSNs of the matchpoint and of the RollbackStart.
        end: LSN of the RollbackEnd; NULL_LSN if it is missing.
        txns: the transactions that were rolled back.
    """

    matchpoint: int
    start: int
    end: int
    txns: tuple[int, ...]


class Stretches:
    """A set of open intervals of LSNs.

    Arguments:
        intervals: the bounds of each interval, which do not belong to it; intervals may overlap.
    """

    __slots__ = ("_befores", "_behinds")

    def __init__(self, intervals: Iterable[tuple[int, int]]) -> None:
        self._befores: list[int] = []
        self._behinds: list[int] = []
        for before, behind in sorted(intervals):
            # Both ends are excluded, so two intervals that only touch do not contain the entry between them.
            if self._behinds and before < self._behinds[-1]:
                self._behinds[-1] = max(self._behinds[-1], behind)
            elif before < behind:
                self._befores.append(before)
                self._behinds.append(behind)

    def __contains__(self, lsn: int) -> bool:
        place = bisect_left(self._befores, lsn) - 1
        return place >= 0 and lsn < self._behinds[place]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._befores, self._behinds, strict=True))


def rollback_findings(storage: Storage, files: LogFiles, checks: Sequence[FileCheck]) -> Iterator[Finding]:
    """Findings about rollback periods and invisible entries.

    Arguments:
        storage, files: the environment; its rollback periods are read again.
        checks: bulk checks of all files, in order.
    """
    periods = _periods(checks)
    inside = Stretches((period.matchpoint, period.start) for period in periods)
    gaps = files.missing()
    for check in checks:
        behind_all_gaps = not gaps or check.file.number > gaps[-1]
        erased = frozenset(check.erased)
        for offset, vlsn in check.invisible:
            lsn = make_lsn(check.file.number, offset)
            if offset in erased:
                # An erased entry is obsolete, whatever its flags say.
                continue
            if vlsn == NULL_VLSN:
                yield finding(rules.STRAY_INVISIBLE, "not a replicated entry", lsn=lsn, file=check.file.path)
            elif lsn not in inside:
                # No RollbackStart covers the entry. If no later file is missing, there never was one; otherwise it may
                # have been in a missing file.
                rule = rules.STRAY_INVISIBLE if behind_all_gaps else rules.UNKNOWN_INVISIBLE
                yield finding(rule, f"VLSN {vlsn}", lsn=lsn, file=check.file.path)
    paths = {check.file.number: check.file.path for check in checks}
    contradictions = [*_intersections(periods, paths)] or [*_refusal(checks, paths)]
    yield from contradictions
    yield from _entries_inside(scan_log(storage, files), periods, inside, paths)


def _periods(checks: Iterable[FileCheck]) -> list[LoggedPeriod]:
    """All periods, by matchpoint, the outer one first."""
    starts: dict[int, LoggedPeriod] = {}
    for check in checks:
        for found in check.rollbacks:
            record = found.record
            if isinstance(record, RollbackStart):
                starts[found.lsn] = LoggedPeriod(record.matchpoint_lsn, found.lsn, NULL_LSN, record.active_txn_ids)
            else:
                # The RollbackStart may be in a missing file.
                known = starts.get(record.rollback_start_lsn)
                start, txns = record.rollback_start_lsn, known.txns if known is not None else ()
                matchpoint = known.matchpoint if known is not None else record.matchpoint_lsn
                starts[start] = LoggedPeriod(matchpoint, start, found.lsn, txns)
    # If two periods share a matchpoint, the one with the later RollbackStart is the parent (R-RB-16).
    return sorted(starts.values(), key=lambda period: (period.matchpoint, -period.start))


def _intersections(periods: list[LoggedPeriod], paths: dict[int, str]) -> Iterator[Finding]:
    around: list[LoggedPeriod] = []
    for period in periods:
        while around and around[-1].start < period.matchpoint:
            around.pop()
        # A matchpoint at the outer RollbackStart fails as well (R-RB-16).
        if around and (period.start > around[-1].start or period.matchpoint == around[-1].start):
            outer = around[-1]
            message = (
                f"{format_lsn(period.matchpoint)} to {format_lsn(period.start)} and "
                f"{format_lsn(outer.matchpoint)} to {format_lsn(outer.start)}"
            )
            later = max(period.start, outer.start)
            yield finding(rules.PERIODS_INTERSECT, message, lsn=later, file=paths.get(file_of(later), ""))
        around.append(period)


def _refusal(checks: Sequence[FileCheck], paths: dict[int, str]) -> Iterator[Finding]:
    """The first objection of recovery's tracker when it processes the whole log."""
    tracker = RollbackTracker()
    try:
        for check in reversed(checks):
            for found in reversed(check.rollbacks):
                if isinstance(found.record, RollbackStart):
                    tracker.register_start(found.record, found.lsn)
                else:
                    tracker.register_end(found.record, found.lsn)
    except DamageError as error:
        lsn = parse_lsn(error.lsn or "")
        yield finding(rules.PERIODS_REFUSED, error.what, lsn=lsn, file=paths.get(file_of(lsn), ""))
        return
    for period in tracker.walk():
        # The cleaner may have deleted the file of the RollbackStart; if the file exists, it must contain the
        # RollbackStart.
        if period.active_txn_ids is None and file_of(period.start_lsn) in paths:
            message = f"RollbackEnd without its RollbackStart at {format_lsn(period.start_lsn)}"
            path = paths.get(file_of(period.end_lsn), "")
            yield finding(rules.PERIODS_REFUSED, message, lsn=period.end_lsn, file=path)


def _entries_inside(
    log: LogScan, periods: list[LoggedPeriod], inside: Stretches, paths: dict[int, str]
) -> Iterator[Finding]:
    by_txn: dict[int, list[tuple[int, int]]] = {}
    for period in periods:
        # In an open period recovery still has to set the bits (R-RB-33).
        for txn in period.txns if period.end != NULL_LSN else ():
            by_txn.setdefault(txn, []).append((period.matchpoint, period.start))
    hidden = {txn: Stretches(intervals) for txn, intervals in by_txn.items()}
    brackets = Stretches((period.start, period.end) for period in periods if period.end != NULL_LSN)
    for entry in _read(log, Stretches([*inside, *brackets])):
        owner = txn_of(entry) if entry.replicated else None
        if owner is None or owner > _FIRST_REPLICATED_TXN:
            continue
        path = paths.get(file_of(entry.lsn), "")
        if entry.lsn in brackets and entry.type_number not in TXN_ENDS:
            message = f"{entry.type_name} of transaction {owner}, VLSN {entry.vlsn}"
            yield finding(rules.WRITE_IN_BRACKET, message, lsn=entry.lsn, file=path)
        if entry.invisible:
            continue
        if entry.type_number == COMMIT:
            message = f"of transaction {owner}, VLSN {entry.vlsn}"
            yield finding(rules.COMMIT_IN_PERIOD, message, lsn=entry.lsn, file=path)
        elif owner in hidden and entry.lsn in hidden[owner]:
            message = f"{entry.type_name} of transaction {owner}, VLSN {entry.vlsn}"
            yield finding(rules.VISIBLE_IN_PERIOD, message, lsn=entry.lsn, file=path)


def _read(log: LogScan, inside: Stretches) -> Iterator[LogEntry]:
    """Entries in the stretches. Damaged entries and unreadable files are reported elsewhere."""
    for before, behind in inside:
        try:
            # Read from the start of the file, because it is not yet verified that an entry begins at the matchpoint.
            for item in log.between(make_lsn(file_of(before), 0), behind).entries():
                if isinstance(item, LogEntry) and item.lsn > before:
                    yield item
        except (NotFoundError, StorageError):
            continue
