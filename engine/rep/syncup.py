"""Syncup: where replica and master agree, and how the replica goes back there (R-SYNC-3 to 6, je-behaviour.md 7.3).

The replica requests the entry at its last sync-able VLSN (Commit, Abort, Matchpoint), then at earlier sync-able VLSNs,
until master and replica have the same entry. It records the entries that it passes, since commits beyond the matchpoint
would be lost.

=====  =====  =======  ====================================================================
T      S      M        action (T lastTxnEnd, S lastSync of the replica, M matchpoint)
=====  =====  =======  ====================================================================
none   none   none     fresh: start at VLSN 1; with unfinished work in the log: network restore
none   any    v        soft rollback to M
any    any    none     network restore
T<=M                   soft rollback to M
T>M                    hard recovery; network restore when a CkptEnd with deleted files or a gap was passed
=====  =====  =======  ====================================================================

In the published table, which ``engine.vlsn.syncup_decision`` uses for predictions, a log without any commit is rolled
back to nothing. Here such a log is replaced by the master's, since nothing in it was committed; this saves a special
case.

Example: the replica has Commit 10, LN 11, Commit 12; the master Commit 10, Commit 11. 12 is requested: it is beyond the
master's range, so the master offers its own 11. The replica has no sync-able entry there and continues at 10, which is
equal. T = 12 > 10,
one commit passed: hard recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from engine.db.engine import Engine
from engine.errors import DamageError, RefusedError, plural
from engine.format.entry.checkpoint import CLEANED_FILES_TO_DELETE, decode_ckpt_end
from engine.format.entry.rollback import decode_rollback_start
from engine.format.entry.txn_end import decode_txn_end
from engine.format.entry_types import (
    CKPT_END,
    COMMIT,
    MATCHPOINT,
    ROLLBACK_START,
    STREAM_MARKS,
    SYNC_POINTS,
    TXN_ENDS,
)
from engine.format.header import is_invisible
from engine.format.lsn import NULL_LSN, format_lsn
from engine.format.vlsn import FIRST_VLSN, NULL_VLSN
from engine.log.access import LogAccess
from engine.log.files import log_file_name
from engine.log.passes import LogRange, RawEntry, backward
from engine.rep.rollback import MatchpointLocation, RollbackProhibitedError
from engine.rep.stream import StreamEntry, form_of
from engine.vlsn import syncup_decision as decision

_LOOKED_AT: Final = SYNC_POINTS | STREAM_MARKS
_END_OF_LOG: Final = 1 << 64


class AnswerKind(Enum):
    """Kinds of a feeder's answer to the request for an entry (R-SYNC-4)."""

    ENTRY = "entry"
    NOT_FOUND = "not found"
    ALTERNATE = "alternate"


class Answer(NamedTuple):
    """A feeder's answer; ``entry`` is None for NOT_FOUND."""

    kind: AnswerKind
    entry: StreamEntry | None = None


Ask = Callable[[int], Answer]


class Action(Enum):
    """What the replica must do before the stream can begin."""

    START = "start"
    SOFT_ROLLBACK = "soft rollback"
    HARD_RECOVERY = "hard recovery"
    NETWORK_RESTORE = "network restore"


_ACTIONS: Final = {
    decision.NOTHING: Action.START,
    decision.SOFT_ROLLBACK: Action.SOFT_ROLLBACK,
    decision.NETWORK_RESTORE: Action.NETWORK_RESTORE,
    decision.HARD_RECOVERY: Action.HARD_RECOVERY,
}


class SurplusCommit(NamedTuple):
    """A commit beyond the matchpoint."""

    vlsn: int
    lsn: int
    txn_id: int
    time_ms: int
    durable: bool


class LogSurplus(NamedTuple):
    """The part of the replica's log after the matchpoint.

    Attributes:
        commits: latest first.
        deleted_files: this part has a CkptEnd after which files were deleted.
        gap: the log has a gap there, or cannot be read back to the matchpoint.
    """

    commits: tuple[SurplusCommit, ...] = ()
    deleted_files: bool = False
    gap: bool = False

    @property
    def durable(self) -> int:
        """Commits that a majority had."""
        return sum(commit.durable for commit in self.commits)


class SyncupPlan(NamedTuple):
    """What syncup has found.

    Attributes:
        matchpoint: None if the logs have no common entry.
        start: the first VLSN that the feeder must send.
    """

    action: Action
    matchpoint: MatchpointLocation | None
    passed: LogSurplus
    start: int


class LocalLog:
    """Reads the sync-able entries of the replica's log backward from its end.

    Arguments:
        engine: detached; nothing is written meanwhile.
    """

    def __init__(self, engine: Engine) -> None:
        assert engine.vlsn_index is not None
        assert engine.writer is not None
        assert engine.cleaner is not None
        self.range = engine.stream_range
        # Protect all files, since any of them may hold the matchpoint (R-CLN-41).
        self._protection = engine.cleaner.protect_from("syncup", 0)
        # The log is read from its files, so the writer's buffers must be flushed first.
        engine.writer.flush(sync=False)
        self._access = LogAccess(engine.storage, tuple(engine.log_files()))
        self._entries = backward(self._access, LogRange(NULL_LSN, engine.writer.next_lsn), _LOOKED_AT, self._saw_gap)
        self._commits: list[SurplusCommit] = []
        self._first_dtvlsn: int | None = None
        self._taken_back_to = _END_OF_LOG
        self._deleted_files = self._gap = self._wrote = False
        self.current: MatchpointLocation | None = None
        self._form: StreamEntry | None = None

    @property
    def form(self) -> StreamEntry:
        """The form of the current entry."""
        assert self._form is not None
        return self._form

    def back(self) -> bool:
        """Record the current sync-able entry and go to the previous one; False if this was the first."""
        self._pass_current()
        for raw in self._visible():
            if raw.type_number == CKPT_END:
                end = decode_ckpt_end(raw.body, raw.version)
                self._deleted_files = self._deleted_files or bool(end.flags & CLEANED_FILES_TO_DELETE)
            elif raw.type_number in SYNC_POINTS and raw.vlsn != NULL_VLSN:
                self.current = MatchpointLocation(raw.vlsn, raw.lsn)
                self._form = form_of(raw)
                # The transport form has no LSNs.
                ends = raw.type_number != MATCHPOINT
                self._wrote = ends and decode_txn_end(raw.body, raw.version).last_lsn != NULL_LSN
                # Entries cut from the index no longer belong to the stream.
                return raw.vlsn >= self.range.first
        return False

    def passed(self) -> LogSurplus:
        """The entries passed before the current one, which is not included (R-SYNC-27)."""
        return LogSurplus(tuple(self._commits), self._deleted_files, self._gap)

    def close(self) -> None:
        """Give the files back."""
        self._access.close()
        self._protection.release()

    def _visible(self) -> Iterator[RawEntry]:
        try:
            for raw in self._entries:
                if raw.type_number == ROLLBACK_START:
                    to = decode_rollback_start(raw.body, raw.version).matchpoint_lsn
                    # If rollback periods are nested, the one that goes back furthest decides.
                    self._taken_back_to = min(to, self._taken_back_to)
                elif not is_invisible(raw.flags, raw.version) and not self._is_taken_back(raw):
                    yield raw
        except DamageError:
            # A log that cannot be read further back is treated like one with a gap (R-SYNC-21).
            self._gap = True

    def _saw_gap(self) -> None:
        self._gap = True

    def _is_taken_back(self, raw: RawEntry) -> bool:
        """Whether an entry is a Matchpoint inside a rollback period: JE leaves those visible."""
        return raw.type_number == MATCHPOINT and raw.lsn > self._taken_back_to

    def _pass_current(self) -> None:
        if self.current is None or self.form.type_number not in TXN_ENDS:
            return
        end = decode_txn_end(self.form.body, 17)
        if self._first_dtvlsn is None:
            self._first_dtvlsn = end.dtvlsn
        if self.form.type_number == COMMIT:
            # The latest DTVLSN is the highest. Without any DTVLSN every commit counts as durable.
            known = self._first_dtvlsn <= 0 or self.current.vlsn <= self._first_dtvlsn
            durable = known and self._wrote
            self._commits.append(SurplusCommit(*self.current, end.id, end.time, durable))


def find_plan(engine: Engine, ask: Ask) -> SyncupPlan:
    """Find the matchpoint and decide.

    Arguments:
        engine: the replica, detached.
        ask: requests the entry at a VLSN from the feeder.

    Raises:
        DamageError: the replica's log cannot be read.
    """
    log = LocalLog(engine)
    try:
        return _find(log, ask)
    finally:
        log.close()


def _find(log: LocalLog, ask: Ask) -> SyncupPlan:
    if log.range.last_sync == NULL_VLSN:
        fresh = log.range.is_empty and ask(FIRST_VLSN).kind is AnswerKind.ENTRY
        return SyncupPlan(Action.START if fresh else Action.NETWORK_RESTORE, None, LogSurplus(), FIRST_VLSN)
    found = log.back()
    first = True
    while found:
        assert log.current is not None
        answer = ask(log.current.vlsn)
        if answer.kind is AnswerKind.ENTRY and log.form.agrees(answer.entry):
            return decide(log.range.last_txn_end, log.range.last, log.current, log.passed())
        # An alternate is only an answer to the first question (R-SYNC-4).
        if answer.kind is AnswerKind.NOT_FOUND or (answer.kind is AnswerKind.ALTERNATE and not first):
            break
        floor = answer.entry.vlsn if answer.kind is AnswerKind.ALTERNATE and answer.entry is not None else NULL_VLSN
        # The master's stream ends before this node's begins (R-SYNC-4).
        if answer.kind is AnswerKind.ALTERNATE and floor < log.range.first:
            break
        found = log.back()
        # The master's stream ends at the alternate, so no later entry can agree.
        while found and floor != NULL_VLSN and log.current.vlsn > floor:
            found = log.back()
        first = False
    return SyncupPlan(Action.NETWORK_RESTORE, None, log.passed(), FIRST_VLSN)


def decide(last_txn_end: int, last: int, matchpoint: MatchpointLocation, passed: LogSurplus) -> SyncupPlan:
    """The decision table of ``engine.vlsn.syncup_decision``, for a matchpoint that was found.

    The limit is not tested here: ``check_rollback_limit`` does it, with the list of commits.
    """
    standing = decision.ReplicaEnd(last, NULL_VLSN, last_txn_end)
    seen = decision.MatchpointSearch(len(passed.commits), passed.durable, passed.deleted_files, passed.gap)
    outcome = decision.decide(standing, matchpoint.vlsn, seen, decision.Policy(limit=len(passed.commits))).outcome
    start = FIRST_VLSN if outcome == decision.NETWORK_RESTORE else matchpoint.vlsn + 1
    return SyncupPlan(_ACTIONS[outcome], matchpoint, passed, start)


def check_rollback_limit(engine: Engine, plan: SyncupPlan, limit: int) -> None:
    """Refuse a hard recovery that would lose too many commits (R-SYNC-25).

    Arguments:
        limit: durable commits that may be lost (``je.rep.txnRollbackLimit``).

    Raises:
        RollbackProhibitedError: more would be lost; the error names file and offset for a manual cut.
    """
    commits, matchpoint = plan.passed.commits, plan.matchpoint
    if plan.passed.durable <= limit or matchpoint is None:
        return
    earliest = commits[-1]
    raise RollbackProhibitedError(
        f"this node would have to give up {plural(len(commits), 'commit')}, {plan.passed.durable} of them durable",
        file=engine.home,
        lsn=format_lsn(matchpoint.lsn),
        expected=f"at most {limit} durable ones",
        found=f"transaction {earliest.txn_id} of {earliest.time_ms} ms since 1970 is the earliest",
        consequence="it has not joined the group; nothing was changed",
        hint=f"save what is worth saving, then cut the log: file {matchpoint.lsn >> 32:#x}"
        f" ({log_file_name(matchpoint.lsn >> 32)}), offset {matchpoint.lsn & 0xFFFFFFFF:#x}",
    )


def refuse_without_restore(plan: SyncupPlan, root: str) -> None:
    """The error that reports that only a network restore helps.

    Raises:
        RefusedError: always.
    """
    raise RefusedError(
        "this node's log and the master's have nothing in common that the stream could go on from",
        file=root,
        found=f"{plural(len(plan.passed.commits), 'commit')} passed"
        + (", a gap in the log" if plan.passed.gap else ""),
        consequence="it has not joined the group; nothing was changed",
        hint="jetool node run --restore replaces its files by copies of the master's",
    )
