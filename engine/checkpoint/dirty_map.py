"""The dirty map: the nodes that a checkpoint has to log, and the highest level to flush (R-CKPT-11 to R-CKPT-17).

Level → entries; mapping-tree levels sort above all others. The *highest flush level* of a database is the largest level
of its selected nodes, plus one for a BIN that is no root: the parent of every logged BIN is logged too.

States: NONE, INCOMPLETE while the nodes in memory are walked, COMPLETE until the checkpoint ends. Eviction asks
``eviction_provisional`` before it logs a node (R-CKPT-40).

The checkpointer logs a node with the provisional flag from ``checkpoint_provisional``. At or above the highest flush
level of its database: NO. Below: YES for a bottom node, else BEFORE_CKPT_END. So recovery never replays a node that may
depend on a file that the checkpoint releases (R-CKPT-23, R-CKPT-53).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from engine.format.entry.node import LEVEL_MASK
from engine.format.header import Provisional
from engine.format.lsn import NULL_LSN
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN, root_in_memory
from engine.tree.keys import Key


def checkpoint_provisional(level: int, highest_level: int) -> Provisional:
    """The provisional flag of a node that the checkpointer logs.

    Arguments:
        level: stored level of the node.
        highest_level: highest flush level of its database.
    """
    if level >= highest_level:
        return Provisional.NO
    return Provisional.YES if level & LEVEL_MASK == 1 else Provisional.BEFORE_CKPT_END


NO_LEVEL: Final = -1


class CkptState(Enum):
    """The state of the checkpoint."""

    NONE = "none"
    INCOMPLETE = "dirty map incomplete"
    COMPLETE = "dirty map complete"


class SelectedNode(NamedTuple):
    """One node of the map, as it was when it was selected.

    Attributes:
        lsn: LSN of the last logged version at that time; a different LSN later means that another thread has logged the
            node meanwhile.
    """

    db: DatabaseState
    node_id: int
    level: int
    is_root: bool
    ident: Key
    lsn: int


class DirtyMap:
    """Holds the map of one checkpoint at a time; used under the tree latch.

    Arguments:
        ctx: the trees.
    """

    def __init__(self, ctx: TreeContext) -> None:
        self._ctx = ctx
        self.state = CkptState.NONE
        self._levels: dict[int, dict[tuple[int, int], SelectedNode]] = {}
        self._highest: dict[int, int] = {}
        self._flush_all = False
        self._extra_level = False

    def begin(self, *, flush_all: bool, extra_level: bool) -> None:
        """State INCOMPLETE: the map is about to be built."""
        self._levels, self._highest = {}, {}
        self._flush_all, self._extra_level = flush_all, extra_level
        self.state = CkptState.INCOMPLETE

    def build(self) -> None:
        """Select every dirty node in memory, then state COMPLETE. A BIN is found through its level-2 parent."""
        self._build(list(self._ctx.nodes.values()))

    def build_of(self, db: DatabaseState) -> None:
        """Like ``build``, for the nodes of one database only."""
        self._build([node for node in self._ctx.nodes.values() if node.db is db])

    def _build(self, nodes: list[IN]) -> None:
        for node in nodes:
            # Temporary databases do not survive a crash, so none of their nodes is logged.
            if node.is_bin or node.db.temporary or node.db.deleted:
                continue
            if node.dirty:
                self.select(node)
            if node.height == 2:
                self.select_bins_of(node)
        self.state = CkptState.COMPLETE

    def select_bins_of(self, parent: IN) -> None:
        """Select the dirty BINs below a level-2 node."""
        for kid in parent.kids:
            if kid is not None and kid.dirty:
                self.select(kid)

    def end(self) -> None:
        """State NONE, nothing selected."""
        self._levels, self._highest = {}, {}
        self.state = CkptState.NONE

    def select(self, node: IN) -> None:
        """Add a dirty node; it raises its database's highest flush level (R-CKPT-13 to R-CKPT-15)."""
        self._put(node)
        level = node.level
        # The parent of a logged BIN is logged too; one level more when files are released.
        if not node.is_root and (node.is_bin or self._extra_level):
            level += 1
        # A deferred-write database has no LNs to replay, so it is flushed up to the root.
        root = root_in_memory(node.db)
        if (self._flush_all or node.db.deferred) and root is not None:
            level = root.level
        self._highest[node.db.id] = max(self._highest.get(node.db.id, NO_LEVEL), level)

    def add_parent(self, node: IN) -> None:
        """Add the parent of a node that is being logged; the highest level does not change (R-CKPT-16, R-CKPT-21)."""
        self._put(node)

    def highest(self, db: DatabaseState) -> int:
        """The highest flush level of a database; -1 when none of its nodes is in the map."""
        return self._highest.get(db.id, NO_LEVEL)

    def lowest_level(self) -> int | None:
        """The lowest level that has entries left."""
        return min(self._levels, default=None)

    def take_level(self, level: int) -> list[SelectedNode]:
        """The entries of a level in ascending order of last logged LSN (R-CKPT-12); nodes never logged come last."""
        entries = self._levels.get(level, {})
        return sorted(entries.values(), key=lambda s: (s.lsn == NULL_LSN, s.lsn, s.node_id))

    def take(self, db: DatabaseState, node_id: int, level: int) -> SelectedNode | None:
        """Remove one entry; None if the entry is not, or is no longer, in the map."""
        entries = self._levels.get(level)
        if entries is None:
            return None
        found = entries.pop((db.id, node_id), None)
        if not entries:
            # An empty level would be found as the lowest one again.
            del self._levels[level]
        return found

    def get(self, node: IN) -> SelectedNode | None:
        """The entry of a node, or None."""
        return self._levels.get(node.level, {}).get((node.db.id, node.node_id))

    def __len__(self) -> int:
        return sum(len(entries) for entries in self._levels.values())

    def split(self, sibling: IN) -> None:
        """Handle a split while the map is being built: the new level-2 node's dirty BINs must be selected too
        (R-CKPT-17).
        """
        if self.state is CkptState.INCOMPLETE and sibling.height == 2:
            self.select_bins_of(sibling)

    def eviction_provisional(self, node: IN) -> Provisional:
        """The provisional flag with which eviction logs a dirty node; this may add the parent to the map
        (R-CKPT-40).
        """
        if self.state is CkptState.INCOMPLETE and not node.is_root and node.parent is not None:
            # R-CKPT-40: its child is logged now, and the walk may already have passed the parent.
            self.select(node.parent)
        if node.db.deferred:
            return Provisional.YES
        if self.state is CkptState.INCOMPLETE and not node.is_root:
            return Provisional.YES
        if self.state is CkptState.COMPLETE and node.level < self.highest(node.db):
            return Provisional.YES
        return Provisional.NO

    def _put(self, node: IN) -> None:
        entries = self._levels.setdefault(node.level, {})
        key = (node.db.id, node.node_id)
        # The first selection stays: its LSN shows whether another thread has logged the node since.
        if key not in entries:
            entries[key] = SelectedNode(node.db, node.node_id, node.level, node.is_root, node.ident, node.lsn())
