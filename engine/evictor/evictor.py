"""Keeping the cache within its budget (R-EVT-1 to R-EVT-8).

Eviction of a dirty node logs it, as a delta where that is allowed, with the provisional flag of R-CKPT-40: while a
checkpoint builds its dirty map the parent enters the map; below the highest flushed level the flag is YES; without a
checkpoint it is NO. The parent's slot then holds the new LSN, and the parent is dirty; for a root the MapLN is logged.

During recovery, and in a read-only environment, nothing can be logged: dirty nodes go to a scratch file and are read
back when they are needed (``engine.tree.spill``). Dirty roots stay in memory. So does every dirty node of a database
with duplicates in the form of v6 and v7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.evictor.eviction_policy import candidates, may_leave, strip
from engine.format.header import Provisional
from engine.tree.bin_node import BIN
from engine.tree.context import TreeContext
from engine.tree.in_node import IN
from engine.tree.node_log import log_node
from engine.tree.tree import delist

DEFAULT_BUDGET_BYTES: Final = 64 << 20
_CRITICAL: Final = 1.1
_KEEP: Final = 0.9
# After a round that freed too little: the share of the budget by which memory must grow before the next attempt.
_RETRY: Final = 0.05


class Evictor:
    """Evicts nodes of one environment.

    Arguments:
        ctx: the trees.
        budget_bytes: the memory that nodes may take.
        provisional: gives the provisional flag with which a dirty node is logged (from the checkpointer's dirty map);
            None where nothing can be logged.
    """

    def __init__(
        self,
        ctx: TreeContext,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
        provisional: Callable[[IN], Provisional] | None = None,
    ) -> None:
        self._ctx = ctx
        self._provisional = provisional
        self.budget_bytes = budget_bytes
        self._try_at = 0
        self.stripped = self.evicted = self.logged = 0

    def is_over(self) -> bool:
        """Whether the nodes take more than the budget."""
        return self._ctx.used_bytes > self.budget_bytes

    def is_critical(self) -> bool:
        """Whether the nodes exceed the budget by so much that callers must evict too, besides the thread (R-EVT-1)."""
        return self._ctx.used_bytes > self.budget_bytes * _CRITICAL

    def limit_growth(self, more_bytes: int) -> None:
        """Lower the budget to what the nodes take now and a little more, for a caller that reads each node once."""
        self.budget_bytes = min(self.budget_bytes, self._ctx.used_bytes + more_bytes)

    def keep_room(self) -> None:
        """Evict when the nodes take more than the budget; recovery calls this after every change."""
        used = self._ctx.used_bytes
        if used > self.budget_bytes and used > self._try_at:
            self.run()
            used = self._ctx.used_bytes
            # If too little was freed, wait until memory grows: searching the cache at every change would cost more than
            # it frees.
            self._try_at = used + int(self.budget_bytes * _RETRY) if used > self.budget_bytes else 0

    def run(self, target_bytes: int | None = None) -> int:
        """Evict until the nodes take less than the target, or no other node can be evicted.

        Arguments:
            target_bytes: nine tenths of the budget when None.

        Returns:
            How many nodes were evicted.
        """
        target = int(self.budget_bytes * _KEEP) if target_bytes is None else target_bytes
        before = self.evicted
        with self._ctx.latch:
            # Drop cached data of BINs first: that needs no logging.
            for node in candidates(self._ctx):
                if self._ctx.used_bytes <= target:
                    break
                if isinstance(node, BIN) and strip(node):
                    self._ctx.account(node)
                    self.stripped += 1
            # Upper nodes lose their last child in one round and can be evicted in the next.
            while self._ctx.used_bytes > target and self._round(target):
                pass
        return self.evicted - before

    def evict(self, node: IN) -> bool:
        """Take one node out of memory, logging it if it is dirty; False when it has to stay (T-89)."""
        if not may_leave(node):
            return False
        if not self._let_go(node):
            return False
        delist(self._ctx, node)
        self.evicted += 1
        return True

    def _let_go(self, node: IN) -> bool:
        """Log a node if it is dirty, and take it from its parent, or as root from its database (R-EVT-6)."""
        parent = node.parent
        index = -1 if parent is None else parent.slot_of(node)
        if parent is not None and index < 0:
            return False
        if node.dirty and self._ctx.writer is None:
            return parent is not None and self._spill(node, parent, index)
        if node.dirty:
            assert self._provisional is not None
            # R-CKPT-40: determined for each node, since the call puts the parent into the map.
            log_node(self._ctx, node, self._provisional(node), allow_delta=True)
            self.logged += 1
            # R-EVT-6: nothing else leads to a root.
            if parent is None and self._ctx.root_logged is not None:
                self._ctx.root_logged(node.db)
        if parent is None:
            node.db.root = None
        else:
            parent.kids[index] = None
        return True

    def _spill(self, node: IN, parent: IN, index: int) -> bool:
        """Put a dirty node into the scratch file; its parent must not be dropped from now on."""
        spill = self._ctx.spill
        if spill is None or node.db.old_duplicates:
            return False
        if isinstance(node, BIN):
            strip(node)
        parent.lsns[index] = spill.out(node, parent.lsns[index])
        parent.kids[index] = None
        # The slot leads into the scratch file, so the parent must not be dropped as clean.
        parent.dirty = True
        return True

    def _round(self, target: int) -> bool:
        gone = 0
        chosen = candidates(self._ctx)
        # Clean nodes go before dirty ones, which have to be logged.
        for dirty in (False, True):
            for node in chosen:
                if self._ctx.used_bytes <= target:
                    return True
                if node.dirty is dirty and self.evict(node):
                    gone += 1
        return gone > 0
