"""The queue of BINs whose deleted slots may be removed (R-TREE-50 to R-TREE-53).

Keys are queued as transactions end, and processed in key order: the first key of a BIN compresses the whole BIN.
"""

from __future__ import annotations

import threading
from bisect import bisect_left

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
        locks: a slot whose version is locked is kept.
    """

    def __init__(self, ctx: TreeContext, locks: LockTable) -> None:
        self._ctx = ctx
        self._locks = locks
        # Transactions end without the latch of the trees.
        self._mutex = threading.Lock()
        self._queue: list[tuple[DatabaseState, Key]] = []

    def is_locked(self, lsn: int) -> bool:
        """Whether any transaction holds a lock on a record version."""
        return bool(self._locks.owners(lsn))

    def add(self, txn: Txn) -> None:
        """Queue the keys that a transaction deleted; called when it ends."""
        with self._mutex:
            self._queue += txn.deleted
        txn.deleted = []

    def __len__(self) -> int:
        return len(self._queue)

    def run(self) -> int:
        """Process the queue. A BIN on which cursors stand is queued again.

        Returns:
            The number of slots removed.
        """
        removed = 0
        with self._mutex:
            # The whole queue is taken: keys queued meanwhile wait for the next round.
            queue, self._queue = self._queue, []
        keys_of: dict[DatabaseState, list[Key]] = {}
        for db, key in queue:
            keys_of.setdefault(db, []).append(key)
        for db, keys in keys_of.items():
            keys.sort()
            at = 0
            while at < len(keys) and not db.deleted:
                # One BIN at a time, so that operations get the latch in between.
                with self._ctx.latch:
                    node, bound = self._resident(db, keys[at])
                    removed += 0 if node is None else self._one(node, db, keys[at])
                # Always move forward, even if the bound in a damaged tree lies behind.
                at = len(keys) if bound is None else max(at + 1, bisect_left(keys, bound, at))
        return removed

    def _one(self, node: BIN, db: DatabaseState, key: Key) -> int:
        if node.pins:
            with self._mutex:
                self._queue.append((db, key))
            return 0
        return tidy(self._ctx, node)

    def _resident(self, db: DatabaseState, key: Key) -> tuple[BIN | None, Key | None]:
        """The BIN of a key, if it is in memory, and the key at which the next BIN begins, or None for the last BIN.

        A BIN that is not in memory needs no compression now.
        """
        node, bound = root_of(self._ctx, db), None
        while node is not None and not isinstance(node, BIN):
            index = node.slot_for(key)
            if index + 1 < len(node.keys):
                bound = node.keys[index + 1]
            node = node.kids[index]
        return node, bound
