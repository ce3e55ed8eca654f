"""Undo of a transaction along its chain in the log (R-TXN-42).

The chain is followed by ``last_lsn`` from the last LN backwards, and ``tree.apply`` undoes each LN. It changes a slot
only if the slot holds the LSN of the LN, so only the latest LN of each record has an effect: it restores the version
before the transaction in one step, and the earlier LNs no longer match the slot.
"""

from __future__ import annotations

from typing import Protocol

from engine.errors import DamageError
from engine.format.entry.ln import EMBEDDED, LN
from engine.format.lsn import NULL_LSN, format_lsn
from engine.tree.apply import undo_ln, version_before
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.txn.txn import Txn


class DatabaseFinder(Protocol):
    """Finds databases by id; the catalog implements it."""

    def by_id(self, db_id: int) -> DatabaseState | None:
        """The database with this id, or None."""


def undo_txn(ctx: TreeContext, find: DatabaseFinder, txn: Txn) -> int:
    """Undo everything that a transaction wrote.

    Returns:
        The number of LNs in its chain.

    Raises:
        DamageError: the chain leads to something other than an LN of the transaction.
    """
    lsn, count = txn.last_lsn, 0
    while lsn != NULL_LSN:
        # The latch is taken for one LN at a time, so that other threads can work in between; the locks protect the
        # records.
        with ctx.latch:
            entry = ctx.access.read(lsn)
            record = entry.record()
            if not isinstance(record, LN) or record.txn_id != txn.id:
                raise DamageError("a transaction's chain is broken", lsn=format_lsn(lsn), found=entry.type_name)
            db = find.by_id(record.db_id)
            if db is not None:
                key = db.order.wrap(record.key)
                undone = undo_ln(ctx, db, key, lsn, version_before(record, lsn))
                txn.deleted.append((db, key))
                # An earlier version was counted when the transaction replaced it.
                if undone.tree_lsn == lsn:
                    count_undone(ctx, db, record, lsn, entry.total_bytes)
        count += 1
        lsn = record.last_lsn
    return count


def count_undone(ctx: TreeContext, db: DatabaseState, record: LN, lsn: int, size: int) -> None:
    """Count an undone LN of ``size`` bytes obsolete, unless it was obsolete from the start (R-CLN-5, R-CLN-6)."""
    born = record.data is None or bool(record.flags & EMBEDDED) or db.duplicates
    writer = ctx.writer
    if not born and writer is not None and writer.observer is not None:
        # Counters are changed only under the log write latch.
        with writer.latch:
            writer.observer.obsolete_ln(lsn, size)
