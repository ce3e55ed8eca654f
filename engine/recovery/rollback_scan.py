"""Rolling back the LNs of rollback periods during the backward pass (R-RB-30 to R-RB-36).

Matchpoints inside a period become invisible with its LNs. JE leaves them as they are, and then the same VLSN is found
twice; nothing needs them, and every reader skips what is invisible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from engine.errors import DamageError
from engine.format.entry.ln import LN
from engine.format.entry_types import MATCHPOINT
from engine.format.header import is_invisible
from engine.format.lsn import NULL_LSN, file_of, format_lsn, is_null
from engine.log.access import LogAccess
from engine.log.passes import LogRange, RawEntry, forward
from engine.recovery.rollback_tracker import RollbackTracker
from engine.recovery.txn_chain import ChainEntry
from engine.tree.apply import Version, undo_ln
from engine.tree.state import DatabaseState, TreeContext

_MATCHPOINTS: Final = frozenset((MATCHPOINT,))


class DatabaseFinder(Protocol):
    """Finds databases by id; the catalog implements it."""

    def by_id(self, db_id: int) -> DatabaseState | None:
        """The database of an id, or None."""


class ChainDb:
    """A database as transaction chains see it."""

    __slots__ = ("_db",)

    def __init__(self, db: DatabaseState) -> None:
        self._db = db

    @property
    def comparator(self) -> Callable[[bytes, bytes], int] | None:
        """None while keys that differ in bytes are different records."""
        if self._db.order.comparator is None:
            return None
        wrap = self._db.order.wrap

        def compare(a: bytes, b: bytes) -> int:
            first, second = wrap(a), wrap(b)
            return 0 if first == second else -1 if first < second else 1

        return compare

    @property
    def key_updates(self) -> bool:
        """Only a comparator can make keys with different bytes the same record."""
        return self._db.order.comparator is not None


class ChainReader:
    """Entries and databases for transaction chains."""

    __slots__ = ("_ctx", "_find")

    def __init__(self, ctx: TreeContext, find: DatabaseFinder) -> None:
        self._ctx = ctx
        self._find = find

    def read_ln(self, lsn: int) -> ChainEntry:
        """The LN at an LSN, invisible or not."""
        entry = self._ctx.access.read(lsn, allow_invisible=True)
        record = entry.record()
        if not isinstance(record, LN):
            raise DamageError("a transaction chain leads to no LN", lsn=format_lsn(lsn), found=entry.type_name)
        return ChainEntry(record, entry.vlsn)

    def database(self, db_id: int) -> ChainDb | None:
        """A database, or None when it is gone."""
        db = self._find.by_id(db_id)
        return None if db is None else ChainDb(db)


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
        if db is None:
            return True
        info = self._scanner.revert_info(period, raw.lsn, record.txn_id, invisible=is_invisible(raw.flags, raw.version))
        if info is not None:
            before = NULL_LSN if is_null(info.lsn) else info.lsn
            to = Version(before, *info[2:])
            undo_ln(self._ctx, db, db.order.wrap(record.key), raw.lsn, to)
        return True

    def take_invisible(self) -> list[int]:
        """LSNs of open periods that have to become invisible, ascending."""
        found = set(self._scanner.take_invisible())
        for period in self._open:
            found.update(visible_matchpoints(self._ctx.access, period.matchpoint_lsn, period.start_lsn))
        return sorted(found)


def visible_matchpoints(access: LogAccess, matchpoint_lsn: int, end_lsn: int) -> list[int]:
    """LSNs of the Matchpoints in ``(matchpoint_lsn, end_lsn)`` that are not invisible yet.

    Arguments:
        matchpoint_lsn: where a rollback went back to; its file may have been deleted since.
    """
    there = any(file.number == file_of(matchpoint_lsn) for file in access.files())
    extent = LogRange(matchpoint_lsn if there else NULL_LSN, end_lsn)
    return [
        raw.lsn
        for raw in forward(access, extent, _MATCHPOINTS, gaps=True)
        if raw.lsn > matchpoint_lsn and not is_invisible(raw.flags, raw.version)
    ]
