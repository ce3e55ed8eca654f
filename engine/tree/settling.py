"""Logging the nodes that are out in the scratch file, when recovery for writing has succeeded; ``spill`` says why."""

from __future__ import annotations

from engine.format.header import Provisional
from engine.tree.context import TreeContext
from engine.tree.in_node import IN
from engine.tree.node_log import log_node
from engine.tree.spill import is_spilled
from engine.tree.tree import child_of, delist


def settle(ctx: TreeContext, roots: list[IN]) -> None:
    """Log every node that is still out, and do without the scratch file from now on."""
    if ctx.spill is not None:
        if ctx.spill.nodes:
            for root in roots:
                _settle(ctx, root)
        # From now on there is a writer: nodes that have to leave are logged.
        ctx.spill.close()
        ctx.spill = None


def _settle(ctx: TreeContext, node: IN) -> None:
    for index, kid in enumerate(node.kids):
        if kid is not None:
            _settle(ctx, kid)
        elif is_spilled(node.lsns[index]):
            child = child_of(ctx, node, index)
            # Children first: their LSNs have to be in the node before it is logged.
            _settle(ctx, child)
            # The checkpoint that follows logs the ancestors, so YES is enough (R-REC-64).
            log_node(ctx, child, Provisional.YES, allow_delta=True)
            node.kids[index] = None
            delist(ctx, child)
