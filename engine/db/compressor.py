"""The queue of BINs whose deleted slots may go (R-TREE-50 to R-TREE-53)."""

from __future__ import annotations

import threading

from engine.tree.bin_node import BIN
from engine.tree.compress import tidy
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.tree.tree import root_of
from engine.txn.locks import LockTable
from engine.txn.txn import Txn


class Compressor:
    """Removes deleted slots and empty branches when asked.

    Arguments:
        ctx: the trees.
        locks: a slot whose version is locked stays.
    """

    def __init__(self, ctx: TreeContext, locks: LockTable) -> None:
        self._ctx = ctx
        self._locks = locks
        # Transactions end without the latch of the trees.
        self._mutex = threading.Lock()
        self._queue: list[tuple[DatabaseState, Key]] = []

    def is_locked(self, lsn: int) -> bool:
        """Whether anybody holds a lock on a record version."""
        return bool(self._locks.owners(lsn))

    def add(self, txn: Txn) -> None:
        """Queue what a transaction deleted; called when it ends."""
        with self._mutex:
            self._queue += txn.deleted
        txn.deleted = []

    def __len__(self) -> int:
        return len(self._queue)

    def run(self) -> int:
        """Work through the queue. A BIN that cursors stand on is queued again.

        Returns:
            How many slots went.
        """
        removed = 0
        with self._mutex:
            # Taken whole: what is queued meanwhile waits for the next round.
            queue, self._queue = self._queue, []
        for db, key in queue:
            # One BIN at a time, so that operations get the latch in between.
            with self._ctx.latch:
                removed += self._one(db, key)
        return removed

    def _one(self, db: DatabaseState, key: Key) -> int:
        node = None if db.deleted else self._resident(db, key)
        if node is None:
            return 0
        if node.pins:
            with self._mutex:
                self._queue.append((db, key))
            return 0
        return tidy(self._ctx, node)

    def _resident(self, db: DatabaseState, key: Key) -> BIN | None:
        """The BIN of a key if it is in memory; one that is not needs no compression now."""
        node = root_of(self._ctx, db)
        while node is not None and not isinstance(node, BIN):
            node = node.kids[node.slot_for(key)]
        return node
