"""Rollback periods: the parts of the log that a replica has rolled back, and the LNs in them.

Rules R-RB-1 to 37. At syncup a replica logs RollbackStart (matchpoint M, active transactions), undoes what these
transactions wrote after M, makes it invisible, and logs RollbackEnd. The period is the log between M and the
RollbackStart S, both exclusive; it is *open* if its RollbackEnd E is missing, and *before the checkpoint* if E <
CkptStart.

1. **Registration**, in pass 3 of recovery, which reads the log backwards: RollbackStart and RollbackEnd entries build
   the periods, and commits are checked against them. Periods are nested or disjoint, since a rollback is a truncation:
   no later rollback can have a matchpoint inside the part that was cut off. ``finish`` ends registration.
2. **Use**, in pass 7, backwards again: each LN belongs to the innermost period that contains it and lists its
   transaction. If the period is before the checkpoint, there is nothing to do. Otherwise the LN is undone by its
   transaction's chain (``engine.txn.chain``), and made invisible if the period is open.

Example (E-RB-1; A to D are the periods, C() a Commit, A() an Abort)::

    100 C()   200 A()   250 LN t1   300 A() t1   350 LN x   400 RollbackStart M=200 {x}   500 RollbackEnd
    550 LN y  600 RollbackStart M=200 {y}   650 LN z   700 RollbackStart M=100 {z}   800 RollbackEnd
    850 LN w  900 A() w  950 LN v  1000 RollbackStart M=900 {v}

    D (900, 1000) open     C (100, 700) ended at 800, contains B (200, 600) open, which contains A (200, 400)
    950 -> D    650 -> C    550 -> B    350 -> A    250, 850 -> none: t1 and w are in no list
    550 and 950 become invisible.

Deviations from JE: every LN finds its period, however many periods without LNs are in between (D-2); a RollbackEnd
without its RollbackStart in the recovery range is refused (D-4); so is an LN between a RollbackStart and its
RollbackEnd (D-12). Commits are checked against the top-level period, which contains all nested ones (D-11).

``RollbackScan`` rolls back the LNs of the periods during the backward pass (R-RB-30 to R-RB-36); the code that it
shares with the rollback of a running replica is in ``engine.txn.rollback``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import Final, NoReturn

from engine.errors import DamageError, JetoolError
from engine.format.entry.ln import LN
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.format.header import is_invisible
from engine.format.lsn import NULL_LSN, format_lsn
from engine.log.passes import RawEntry
from engine.tree.apply import RecordVersion, undo_ln
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.txn.chain import ChainLog, TxnChain
from engine.txn.rollback import ChainReader, visible_matchpoints
from engine.txn.undo import DatabaseFinder

FIRST_REPLICATED_TXN_ID: Final = -10
_SHOWN: Final = 10
_HINT: Final = "run jetool rollbacks on the environment; restore it from another node or a backup"


class RollbackPeriod:
    """One rollback: the log between matchpoint and RollbackStart, both exclusive.

    Attributes:
        matchpoint_lsn, start_lsn: M and S.
        end_lsn: E; NULL_LSN if the rollback did not complete.
        active_txn_ids: transactions that were rolled back; None until the RollbackStart has been read.
        before_checkpoint: whether the checkpoint has made the effects of the rollback persistent.
        children: periods inside it, latest first.
    """

    __slots__ = ("_chains", "active_txn_ids", "before_checkpoint", "children", "end_lsn", "matchpoint_lsn", "start_lsn")

    def __init__(self, matchpoint_lsn: int, start_lsn: int, end_lsn: int, ckpt_start_lsn: int) -> None:
        self.matchpoint_lsn = matchpoint_lsn
        self.start_lsn = start_lsn
        self.end_lsn = end_lsn
        self.active_txn_ids: frozenset[int] | None = None
        self.before_checkpoint = NULL_LSN not in (end_lsn, ckpt_start_lsn) and end_lsn < ckpt_start_lsn
        self.children: list[RollbackPeriod] = []
        self._chains: dict[int, TxnChain] = {}

    @property
    def is_open(self) -> bool:
        """Whether the rollback did not complete."""
        return self.end_lsn == NULL_LSN

    def contains(self, lsn: int) -> bool:
        """Whether the LSN is in the period."""
        return self.matchpoint_lsn < lsn < self.start_lsn

    def lists(self, txn_id: int) -> bool:
        """Whether the period lists the transaction as rolled back."""
        return self.active_txn_ids is not None and txn_id in self.active_txn_ids

    def chain(self, txn_id: int, last_lsn: int, log: ChainLog) -> TxnChain:
        """The chain of a transaction; created on first use, from the transaction's last LN in the period."""
        chain = self._chains.get(txn_id)
        if chain is None:
            chain = self._chains[txn_id] = TxnChain(last_lsn, txn_id, self.matchpoint_lsn, log)
        return chain

    def walk(self) -> Iterator[RollbackPeriod]:
        """The period and all periods in it."""
        # The log determines the depth of nesting, so no recursion.
        stack = [self]
        while stack:
            period = stack.pop()
            yield period
            stack += reversed(period.children)

    def __str__(self) -> str:
        end = "open" if self.is_open else f"ended at {format_lsn(self.end_lsn)}"
        return f"({format_lsn(self.matchpoint_lsn)}, {format_lsn(self.start_lsn)}) {end}"


class RollbackTracker:
    """The rollback periods of a log.

    Arguments:
        ckpt_start_lsn: CkptStart of the checkpoint where recovery begins; NULL_LSN if there is no checkpoint.

    Attributes:
        periods: top-level periods, latest first.
    """

    def __init__(self, ckpt_start_lsn: int = NULL_LSN) -> None:
        self.periods: list[RollbackPeriod] = []
        self._ckpt_start_lsn = ckpt_start_lsn
        self._registering = True
        # The nested periods around the current place of the backward pass, outermost first.
        self._path: list[RollbackPeriod] = []

    def register_end(self, record: RollbackEnd, lsn: int) -> None:
        """Note a RollbackEnd read at ``lsn``; entries are registered latest first.

        Raises:
            DamageError: the entry contradicts a later rollback.
        """
        self._expect_registration(lsn)
        self._innermost(lsn, record.matchpoint_lsn, record.rollback_start_lsn, is_end=True)
        # The active ids are in its RollbackStart, which comes earlier in the log and is read later.
        self._attach(RollbackPeriod(record.matchpoint_lsn, record.rollback_start_lsn, lsn, self._ckpt_start_lsn))

    def register_start(self, record: RollbackStart, lsn: int) -> None:
        """Note a RollbackStart read at ``lsn``; entries are registered latest first.

        Raises:
            DamageError: the entry contradicts a later rollback.
        """
        self._expect_registration(lsn)
        period = self._innermost(lsn, record.matchpoint_lsn, lsn, is_end=False)
        # No RollbackEnd was read: the rollback did not complete, and the period is open (R-RB-15).
        if period is None or period.start_lsn != lsn:
            period = RollbackPeriod(record.matchpoint_lsn, lsn, NULL_LSN, self._ckpt_start_lsn)
            self._attach(period)
        period.active_txn_ids = frozenset(record.active_txn_ids)

    def check_commit(self, txn_id: int, lsn: int) -> None:
        """Check that a Commit read at ``lsn`` was not rolled back (R-RB-20). Aborts need no check (R-RB-21).

        Raises:
            DamageError: a commit of a replicated transaction lies in a period.
        """
        self._expect_registration(lsn)
        if txn_id <= FIRST_REPLICATED_TXN_ID and self._path and self._path[0].contains(lsn):
            self._fail(f"commit of transaction {txn_id} within a rollback period", lsn)

    def target_under_construction(self, lsn: int, txn_id: int) -> RollbackPeriod | None:
        """The period of an LN that pass 3 itself reads, which is an old transactional MapLN (R-RB-37)."""
        for period in reversed(self._path):
            if lsn > period.matchpoint_lsn:
                # The innermost period decides, even if a parent lists the transaction (R-RB-37).
                return period if period.contains(lsn) and period.lists(txn_id) else None
        return None

    def finish(self, first_lsn: int = NULL_LSN) -> None:
        """End registration.

        Arguments:
            first_lsn: where pass 3 ended (firstActiveLsn); NULL_LSN if it read the whole log. A period whose
                RollbackStart lies before it has no LN in the recovery range, and JE opens such logs.

        Raises:
            DamageError: a RollbackEnd has no RollbackStart (R-RB-15, D-4).
        """
        self._registering = False
        for period in self.walk():
            if period.active_txn_ids is None and (first_lsn == NULL_LSN or period.start_lsn >= first_lsn):
                self._fail(f"RollbackEnd without its RollbackStart at {format_lsn(period.start_lsn)}", period.end_lsn)

    def walk(self) -> Iterator[RollbackPeriod]:
        """All periods, each before those inside it, latest first."""
        for period in self.periods:
            yield from period.walk()

    def scanner(self, log: ChainLog) -> RollbackScanner:
        """The scanner for the LNs of pass 7. Registration must be finished."""
        if self._registering:
            raise JetoolError("rollback periods are used before all of them are known")
        return RollbackScanner(self.periods, log)

    def describe(self) -> str:
        """The periods as text, latest first; only the first few if there are many."""
        shown = [str(period) for period in islice(self.walk(), _SHOWN + 1)]
        if len(shown) > _SHOWN:
            shown[-1] = "..."
        return "; ".join(shown) or "none"

    def _attach(self, period: RollbackPeriod) -> None:
        (self._path[-1].children if self._path else self.periods).append(period)
        self._path.append(period)

    def _innermost(self, lsn: int, matchpoint_lsn: int, start_lsn: int, *, is_end: bool) -> RollbackPeriod | None:
        """The innermost period on the path that contains a RollbackStart or RollbackEnd (R-RB-11 to 13)."""
        # The log is read backwards: after passing a period's matchpoint, no entry belongs to it any more.
        while self._path and lsn < self._path[-1].matchpoint_lsn:
            self._path.pop()
        if not self._path:
            return None
        period = self._path[-1]
        # The period has a RollbackEnd already, and this RollbackEnd also comes after its RollbackStart (R-RB-12).
        if is_end and lsn >= period.start_lsn:
            self._fail("two RollbackEnds in a row", lsn)
        if not is_end and lsn == period.start_lsn:
            # The RollbackStart of a period whose RollbackEnd was read before: it adds the active ids (R-RB-14).
            return period
        # The periods overlap, which no log has: a rollback cannot reach into a part that was cut off before (R-RB-16).
        if matchpoint_lsn < period.matchpoint_lsn or start_lsn >= period.start_lsn:
            name = "RollbackEnd" if is_end else "RollbackStart"
            self._fail(f"{name} intersects the rollback period {period}", lsn)
        return period

    def _expect_registration(self, lsn: int) -> None:
        if not self._registering:
            raise JetoolError("rollback entry met after all periods are known", lsn=format_lsn(lsn))

    def _fail(self, what: str, lsn: int) -> NoReturn:
        raise DamageError(
            what,
            lsn=format_lsn(lsn),
            found=f"periods {self.describe()}",
            consequence="LOG_INTEGRITY: the log contradicts itself and is not recovered",
            hint=_HINT,
        )


class RollbackScanner:
    """Handles the LNs of pass 7, in any order, and collects those that must become invisible."""

    def __init__(self, periods: list[RollbackPeriod], log: ChainLog) -> None:
        self._log = log
        self._top = _Row(periods)
        self._rows = {id(period): _Row(period.children) for top in periods for period in top.walk()}
        brackets = sorted((p.start_lsn, p.end_lsn) for top in periods for p in top.walk() if not p.is_open)
        self._bracket_starts = [start for start, _ in brackets]
        self._bracket_ends = [end for _, end in brackets]
        self._to_hide: list[int] = []

    def find(self, lsn: int, txn_id: int) -> RollbackPeriod | None:
        """The period of an LN (R-RB-4): the innermost one that contains it and lists its transaction.

        Raises:
            DamageError: an LN of a replicated transaction between a RollbackStart and its RollbackEnd (R-RB-22).
        """
        self._check_bracket(lsn, txn_id)
        found = None
        period = self._top.find(lsn)
        while period is not None:
            if period.lists(txn_id):
                found = period
            period = self._rows[id(period)].find(lsn)
        return found

    def version_before(self, period: RollbackPeriod, lsn: int, txn_id: int, *, invisible: bool) -> RecordVersion | None:
        """The version to which undoing an LN returns; None if there is nothing to do.

        Must not be called if the LN's database is gone (R-RB-31). The caller counts the LN as obsolete.

        Arguments:
            period: the result of ``find``.
            lsn, txn_id: the LN.
            invisible: whether its entry already has the invisible bit.

        Raises:
            DamageError: the transaction's chain is broken.
        """
        # Building the transaction's chain could read before firstActiveLsn, where files may be gone (R-RB-34).
        if period.before_checkpoint:
            return None
        before = period.chain(txn_id, lsn, self._log).take(lsn)
        # A closed period was marked and synced before its RollbackEnd was written (R-RB-33).
        if period.is_open and not invisible:
            self._to_hide.append(lsn)
        return before

    def take_invisible(self) -> list[int]:
        """LSNs to be made invisible before redo reads the log, ascending (R-RB-32). Each is returned once."""
        lsns, self._to_hide = sorted(self._to_hide), []
        return lsns

    def _check_bracket(self, lsn: int, txn_id: int) -> None:
        # Local transactions may write while a replica rolls back (R-RB-22).
        if txn_id > FIRST_REPLICATED_TXN_ID:
            return
        at = bisect_right(self._bracket_starts, lsn) - 1
        if at >= 0 and self._bracket_starts[at] < lsn < self._bracket_ends[at]:
            raise DamageError(
                f"write of transaction {txn_id} between a RollbackStart and its RollbackEnd",
                lsn=format_lsn(lsn),
                found=f"({format_lsn(self._bracket_starts[at])}, {format_lsn(self._bracket_ends[at])})",
                consequence="LOG_INTEGRITY: the log contradicts itself and is not recovered",
                hint=_HINT,
            )


class _Row:
    """Disjoint periods of one level, searchable by LSN."""

    __slots__ = ("_matchpoints", "_periods")

    def __init__(self, periods: list[RollbackPeriod]) -> None:
        self._periods = periods[::-1]
        self._matchpoints = [period.matchpoint_lsn for period in self._periods]

    def find(self, lsn: int) -> RollbackPeriod | None:
        at = bisect_right(self._matchpoints, lsn) - 1
        return self._periods[at] if at >= 0 and self._periods[at].contains(lsn) else None


class RollbackScan:
    """Consumes the LNs that belong to rollback periods.

    Arguments:
        ctx, find: trees and databases.
        tracker: the periods; registration is finished.

    Attributes:
        is_idle: whether there are no periods.
    """

    def __init__(self, ctx: TreeContext, find: DatabaseFinder, tracker: RollbackTracker) -> None:
        self._ctx = ctx
        self._scanner = tracker.scanner(ChainReader(ctx, find))
        self._open = [period for period in tracker.walk() if period.is_open]
        self.is_idle = not tracker.periods

    def consume(self, raw: RawEntry, record: LN, db: DatabaseState | None) -> bool:
        """Roll one LN back if it belongs to a period; True if it does, even if there was nothing to do."""
        if self.is_idle or record.txn_id is None:
            return False
        period = self._scanner.find(raw.lsn, record.txn_id)
        if period is None:
            return False
        # The LN still belongs to the period; its chain skips databases that are gone (R-RB-31).
        if db is None:
            return True
        before = self._scanner.version_before(
            period, raw.lsn, record.txn_id, invisible=is_invisible(raw.flags, raw.version)
        )
        if before is not None:
            undo_ln(self._ctx, db, db.order.wrap(record.key), raw.lsn, before)
        return True

    def take_invisible(self) -> list[int]:
        """LSNs of open periods that have to become invisible, ascending."""
        found = set(self._scanner.take_invisible())
        for period in self._open:
            # JE leaves Matchpoints visible, and then the same VLSN is found twice (R-SYNC-30).
            found.update(visible_matchpoints(self._ctx.access, period.matchpoint_lsn, period.start_lsn))
        return sorted(found)
