"""Which nodes leave the cache first (R-EVT-2 to R-EVT-4, R-EVT-8).

Least recently used first, in three rounds: records' cached data of any BIN (*stripping*), then clean nodes, then dirty
ones, which have to be logged. Nodes with children in memory stay, and so do BINs on which cursors stand.
"""

from __future__ import annotations

from engine.format.entry.db_tree import MAPPING_DB_ID, NAMING_DB_ID
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.lsn import is_null
from engine.tree.bin_node import BIN
from engine.tree.context import TreeContext
from engine.tree.in_node import IN


def candidates(ctx: TreeContext) -> list[IN]:
    """Nodes that may be evicted, the least recently used first; upper nodes without children come with the BINs."""
    found = [node for node in ctx.nodes.values() if may_leave(node)]
    found.sort(key=lambda node: node.touched)
    return found


def may_leave(node: IN) -> bool:
    """Whether a node can be taken out of memory at all."""
    if not node.in_tree or (node.parent is None and not _is_spare_root(node)):
        return False
    if isinstance(node, BIN):
        return node.pins == 0
    return not any(kid is not None for kid in node.kids)


def _is_spare_root(node: IN) -> bool:
    """Whether a node is a root that a MapLN leads to (R-EVT-4, R-EVT-6), so that it may be evicted; the roots of the
    mapping and the naming tree stay.
    """
    db = node.db
    return db.root is node and node.is_root and not db.deferred and db.id not in (MAPPING_DB_ID, NAMING_DB_ID)


def strip(node: BIN) -> bool:
    """Drop cached data that is not embedded; whether there was any."""
    freed = False
    # Most BINs have no cached data: recovery reads no records.
    if not node.data_bytes:
        return False
    for index, value in enumerate(node.values):
        # Embedded data exists only in the slot; without an LSN the data cannot be read again.
        if value and not node.states[index] & SLOT_EMBEDDED and not is_null(node.lsns[index]):
            node.drop_value(index)
            freed = True
    return freed
