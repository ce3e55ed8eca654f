"""Rolling back the LNs of rollback periods during the backward pass (R-RB-30 to R-RB-36).

What it shares with the rollback of a running replica is in ``engine.txn.rollback``.
"""

from __future__ import annotations

from engine.format.entry.ln import LN
from engine.format.header import is_invisible
from engine.log.passes import RawEntry
from engine.recovery.rollback_tracker import RollbackTracker
from engine.tree.apply import undo_ln
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.txn.rollback import ChainReader, visible_matchpoints
from engine.txn.undo import DatabaseFinder


class RollbackScan:
    """Consumes the LNs that belong to rollback periods.

    Arguments:
        ctx, find: trees and databases.
        tracker: the periods; registration is finished.

    Attributes:
        is_idle: there are no periods.
    """

    def __init__(self, ctx: TreeContext, find: DatabaseFinder, tracker: RollbackTracker) -> None:
        self._ctx = ctx
        self._scanner = tracker.scanner(ChainReader(ctx, find))
        self._open = [period for period in tracker.walk() if period.is_open]
        self.is_idle = not tracker.periods

    def consume(self, raw: RawEntry, record: LN, db: DatabaseState | None) -> bool:
        """Roll one LN back if it belongs to a period; True when it does, whatever was left to do."""
        if self.is_idle or record.txn_id is None:
            return False
        period = self._scanner.find(raw.lsn, record.txn_id)
        if period is None:
            return False
        # The LN belongs to the period all the same; its chain skips databases that are gone (R-RB-31).
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
