"""The report on an environment, made from the facts of its whole log.

Nothing here reads a file: facts come from ``collect_facts``, the rest from the listing of the directory. Terms:

* *recovery interval*: from firstActive of the last checkpoint to the end of the log, in bytes (R-REC-10): the part that
  the next open has to read. Without a checkpoint that is the whole log.
* *open* transactions have records in the recovery interval and no end; recovery undoes them.
* *obsolete share*: taken from the FileSummaryLNs in the log, as of the last checkpoint; files without a FileSummaryLN
  do not count.
* *growth*: bytes of the existing files, up to each point; the cleaner may have deleted others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from engine.format.entry_types import ABORT, COMMIT, type_name
from engine.format.lsn import NULL_LSN, file_of, make_lsn, offset_of
from engine.format.vlsn import NULL_VLSN
from engine.journals.summary import JournalSummary
from engine.log.files import LogFiles, log_file_name
from engine.pipeline.fleet.log_facts import (
    CkptEndFacts,
    EndOfLog,
    Facts,
    FleetFileFacts,
    LastCommit,
    LogPoint,
    RollbackFacts,
    TypeTotals,
)
from engine.pipeline.inventory import Member
from engine.verify.damage_rules import damage_rule
from engine.verify.log_rules import COMMITTED_BEHIND, MISSING_NEEDED
from engine.verify.report import Rule

# The states of an environment, the worst first.
UNREADABLE: Final = "unreadable"
DAMAGED: Final = "damaged"
# A restore marker keeps JE from opening it, and nothing else is wrong.
MARKED: Final = "restore marker"
ROLLING_BACK: Final = "rolling back"
UNCLEAN: Final = "not closed"
CLEAN: Final = "clean"
STATES: Final = (UNREADABLE, DAMAGED, MARKED, ROLLING_BACK, UNCLEAN, CLEAN)
# The states that a report lists first.
PROBLEMS: Final = (UNREADABLE, DAMAGED, MARKED, ROLLING_BACK)
# The reason of damage without a length.
MISSING: Final = "missing"


# Stands for the end of an environment whose end was not read.
_NO_END: Final = EndOfLog(
    closed=False,
    end_lsn=NULL_LSN,
    open_txns=(),
    prepared_txns=(),
    recovery_entries=0,
    recovery_bytes=0,
    lock_holder=None,
    lost={},
    recovers=True,
)


class TypeShare(NamedTuple):
    """Entries of one type, bytes with headers."""

    name: str
    entries: int
    bytes: int


class FileProfile(NamedTuple):
    """One log file; ``obsolete_bytes`` is None if unknown."""

    facts: FleetFileFacts
    obsolete_bytes: int | None


class ProfilePeriod(NamedTuple):
    """A rollback period; depth 0: not nested in another period."""

    rollback: RollbackFacts
    depth: int


class GrowthPoint(NamedTuple):
    """A point in time: bytes of log up to it, and the VLSN (NULL_VLSN: not replicated, or none yet)."""

    time_ms: int
    bytes: int
    vlsn: int


class DamagePlace(NamedTuple):
    """A stretch of damage, or a missing file.

    Attributes:
        length: 0 for a missing file.
        reason: MISSING for a missing file.
        commits_after: number of Commits after it in the last file, which JE gives up; 0 in any other file.
        rule: the rule of ``verify`` that it breaks.
    """

    lsn: int
    length: int
    path: str
    reason: str
    commits_after: int
    rule: Rule


class MissingFile(NamedTuple):
    """A missing log file that is needed.

    Attributes:
        number: of the file.
        records, nodes: number of references from the trees into it; both 0 for a file that recovery reads.
    """

    number: int
    records: int
    nodes: int

    @property
    def path(self) -> str:
        """The name of the environment."""
        return log_file_name(self.number)


class Profile(NamedTuple):
    """One environment.

    Attributes:
        state: one of STATES.
        problem: why the environment or its files are unreadable; empty otherwise.
        missing: missing files that recovery reads or the trees refer to.
        recovery_entries, recovery_bytes: the recovery interval.
        recovers: False if files are missing and recovery in memory fails.
        end_lsn: the end of the log.
        open_txns: ids of transactions that recovery would undo.
        rolled_back_txns: transactions that rollback periods name.
        obsolete_bytes, counted_bytes: obsolete bytes, and the size of the files with such counts.
        reserved: existing files that the cleaner has released; they are entirely obsolete.
        lock_holder: pid of the process that has the environment open for writing, or None.
        journals: the journals of a Doris or StarRocks frontend; None for any other environment.
    """

    member: Member
    state: str
    problem: str
    group: str
    group_uuid: str
    files: tuple[FileProfile, ...]
    log_bytes: int
    entries: int
    types: tuple[TypeShare, ...]
    missing: tuple[MissingFile, ...]
    set_aside: int
    marker: bool
    lock_holder: int | None
    checkpoints: tuple[CkptEndFacts, ...]
    partial_checkpoint: int
    recovery_entries: int
    recovery_bytes: int
    recovers: bool
    end_lsn: int
    commits: int
    aborts: int
    open_txns: tuple[int, ...]
    prepared_txns: tuple[int, ...]
    rolled_back_txns: int
    periods: tuple[ProfilePeriod, ...]
    first_vlsn: int
    last_vlsn: int
    invisible: int
    last_commit: LastCommit | None
    dtvlsn: int
    obsolete_bytes: int
    counted_bytes: int
    reserved: tuple[FleetFileFacts, ...]
    progress: tuple[GrowthPoint, ...]
    damage_count: int
    damage_bytes: int
    damages: tuple[DamagePlace, ...]
    torn_tail: int
    undecodable: int
    journals: JournalSummary | None

    @property
    def obsolete_share(self) -> float | None:
        """Obsolete share, 0 to 1; None if unknown."""
        return self.obsolete_bytes / self.counted_bytes if self.counted_bytes else None

    @property
    def last_checkpoint(self) -> CkptEndFacts | None:
        """The checkpoint that recovery starts from."""
        return self.checkpoints[-1] if self.checkpoints else None

    @property
    def open_periods(self) -> int:
        """Rollbacks that were begun and not finished."""
        return sum(period.rollback.end_lsn == NULL_LSN for period in self.periods)

    @property
    def commits_after_damage(self) -> int:
        """Commits after the first damage of the last file, which JE gives up when it opens the environment."""
        return max((place.commits_after for place in self.damages), default=0)

    def position(self, lsn: int) -> int:
        """Bytes of log before an LSN, in the existing files."""
        return Positions(found.facts for found in self.files).of(lsn)


class Positions:
    """Turns LSNs into bytes from the start of the log."""

    __slots__ = ("_before", "_numbers", "_sizes")

    def __init__(self, files: Iterable[FleetFileFacts]) -> None:
        listed = list(files)
        self._numbers = [file.number for file in listed]
        self._sizes = [file.size_bytes for file in listed]
        self._before = [0, *accumulate(self._sizes)]

    def of(self, lsn: int) -> int:
        """Bytes before an LSN; an LSN in a missing file counts as the start of the next file."""
        index = bisect_right(self._numbers, file_of(lsn)) - 1
        if index < 0:
            return 0
        if self._numbers[index] != file_of(lsn):
            # The file is missing, so the position is the start of the next one.
            return self._before[index + 1]
        return self._before[index] + min(offset_of(lsn), self._sizes[index])


def unreadable(member: Member, problem: str) -> Profile:
    """An environment that cannot be listed."""
    return make_profile(member, LogFiles((), None, (), (), 0), Facts())._replace(state=UNREADABLE, problem=problem)


def make_profile(member: Member, files: LogFiles, facts: Facts) -> Profile:
    """The report on an environment.

    Arguments:
        member, files: the environment and its directory.
        facts: joined facts of all its files.
    """
    positions = Positions(facts.files)
    last = facts.checkpoints[-1] if facts.checkpoints else None
    first_active = NULL_LSN if last is None else last.record.first_active_lsn
    obsolete, counted = _garbage(facts)
    end = facts.end or _NO_END
    missing = _missing(files, end, file_of(max(first_active, 0)))
    problems = [file.problem for file in facts.files if file.problem]
    found = Profile(
        member=member,
        state=CLEAN if end.closed else UNCLEAN,
        problem=problems[0] if problems else "",
        group=member.group or (facts.group.name if facts.group is not None else ""),
        group_uuid=facts.group.uuid if facts.group is not None else "",
        files=tuple(FileProfile(file, _file_garbage(facts, file)) for file in facts.files),
        log_bytes=sum(file.size_bytes for file in facts.files),
        entries=sum(total.entries for total in facts.types.values()),
        types=_types(facts),
        missing=missing,
        set_aside=len(files.set_aside),
        marker=files.marker is not None,
        lock_holder=end.lock_holder,
        checkpoints=tuple(facts.checkpoints),
        partial_checkpoint=facts.partial_start,
        recovery_entries=end.recovery_entries,
        recovery_bytes=end.recovery_bytes,
        recovers=end.recovers,
        end_lsn=end.end_lsn,
        commits=facts.types.get(COMMIT, TypeTotals(0, 0)).entries,
        aborts=facts.types.get(ABORT, TypeTotals(0, 0)).entries,
        open_txns=end.open_txns,
        prepared_txns=end.prepared_txns,
        rolled_back_txns=sum(len(rollback.txns) for rollback in facts.rollbacks.values()),
        periods=_nested(list(facts.rollbacks.values())),
        first_vlsn=next((file.first_vlsn for file in facts.files if file.first_vlsn != NULL_VLSN), NULL_VLSN),
        last_vlsn=facts.last_vlsn,
        invisible=sum(file.invisible for file in facts.files),
        last_commit=facts.last_commit,
        dtvlsn=facts.dtvlsn,
        obsolete_bytes=obsolete,
        counted_bytes=counted,
        reserved=tuple(file for file in facts.files if facts.reserved.get(file.number, False)),
        progress=_progress(facts.points, positions),
        damage_count=facts.damage_count + len(missing),
        damage_bytes=facts.damage_bytes,
        damages=(*_missing_places(missing), *_damage_places(facts, files.end_file() if files.files else 0)),
        torn_tail=facts.torn_tail,
        undecodable=facts.undecodable,
        journals=end.journals,
    )
    return found._replace(state=_state(found))


def worst_first(profiles: Iterable[Profile]) -> list[Profile]:
    """Environments with problems first, the worst at the top; otherwise in the given order."""
    return sorted(profiles, key=lambda found: PROBLEMS.index(found.state) if found.state in PROBLEMS else len(STATES))


def _missing(files: LogFiles, end: EndOfLog, first_active: int) -> tuple[MissingFile, ...]:
    """What is missing. The cleaner deletes files, so other gaps before firstActive are normal."""
    needed = [number for number in files.missing() if number >= first_active]
    lost = {number: MissingFile(number, found.records, found.nodes) for number, found in end.lost.items()}
    return tuple(lost.get(number) or MissingFile(number, 0, 0) for number in sorted({*lost, *needed}))


def _missing_places(missing: Iterable[MissingFile]) -> Iterator[DamagePlace]:
    return (DamagePlace(make_lsn(file.number, 0), 0, file.path, MISSING, 0, MISSING_NEEDED) for file in missing)


def _damage_places(facts: Facts, end_file: int) -> Iterator[DamagePlace]:
    for seen in facts.damages:
        damage, rule = seen.damage, damage_rule(seen, end_file)
        commits = seen.after.commits if rule is COMMITTED_BEHIND else 0
        yield DamagePlace(damage.lsn, damage.length, damage.path, damage.reason, commits, rule)


def _state(found: Profile) -> str:
    # The worst condition that applies is the state.
    if found.problem:
        return UNREADABLE
    if found.damage_count or not found.recovers:
        return DAMAGED
    if found.marker:
        return MARKED
    if found.open_periods:
        return ROLLING_BACK
    return found.state


def _types(facts: Facts) -> tuple[TypeShare, ...]:
    """Sorted by bytes, the largest first."""
    shares = [TypeShare(type_name(number), *totals) for number, totals in facts.types.items()]
    return tuple(sorted(shares, key=lambda share: (-share.bytes, share.name)))


def _garbage(facts: Facts) -> tuple[int, int]:
    """Obsolete bytes, and the bytes of the files that have a summary."""
    obsolete = counted = 0
    for file in facts.files:
        found = _file_garbage(facts, file)
        if found is not None:
            obsolete, counted = obsolete + found, counted + file.size_bytes
    return obsolete, counted


def _file_garbage(facts: Facts, file: FleetFileFacts) -> int | None:
    if facts.reserved.get(file.number, False):
        return file.size_bytes
    summary = facts.summaries.get(file.number)
    return None if summary is None or not summary.total_size else summary.estimated_obsolete_size


def _nested(rollbacks: list[RollbackFacts]) -> tuple[ProfilePeriod, ...]:
    """Periods in log order with their nesting depth (R-RB-10: periods nest or are disjoint)."""
    ordered = sorted(rollbacks, key=lambda found: found.start_lsn)
    found = []
    for index, inner in enumerate(ordered):
        # A period reaches from its matchpoint to its RollbackStart, so only a period that started later can enclose it.
        depth = sum(outer.matchpoint_lsn <= inner.matchpoint_lsn for outer in ordered[index + 1 :])
        found.append(ProfilePeriod(inner, depth))
    return tuple(found)


def _progress(points: list[LogPoint], positions: Positions) -> tuple[GrowthPoint, ...]:
    """Points in log order; a point without a VLSN gets the VLSN of the previous point.

    Clocks may go back, especially when masters change, so the time of a point is never before that of the previous one.
    """
    found: list[GrowthPoint] = []
    vlsn, time_ms = NULL_VLSN, 0
    for point in points:
        vlsn = point.vlsn if point.vlsn != NULL_VLSN else vlsn
        time_ms = max(time_ms, point.time_ms)
        found.append(GrowthPoint(time_ms, positions.of(point.lsn), vlsn))
    return tuple(found)
