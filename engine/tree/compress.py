"""Removing deleted slots and empty branches (R-TREE-12, R-TREE-34, R-TREE-50 to R-TREE-53).

A slot may be removed if it is KD or PD and its LSN is not locked; ``SlotLocks``, implemented by the lock manager above,
answers that. During recovery there are no locks yet: a PD slot stays, since its deletion may belong to a transaction
that is resurrected and rolled back.
"""

from __future__ import annotations

from engine.format.entry.node import DIRTY, KNOWN_DELETED
from engine.format.lsn import NULL_LSN
from engine.tree.bin_node import BIN, DELETED
from engine.tree.context import TreeContext
from engine.tree.in_node import IN, ObsoleteNode
from engine.tree.tree import delist


def compress(ctx: TreeContext, node: BIN, *, dirty_slots: bool) -> int:
    """Remove deleted slots of a BIN.

    Arguments:
        dirty_slots: also remove slots that differ from the last full version; the next version must then be full
            (R-TREE-32).

    Returns:
        The number of slots removed.
    """
    if node.db.order.learned is not None:
        # Under a learned order nodes stay as they were logged: the right places of their slots are not known.
        return 0
    removed = 0
    for index in range(len(node) - 1, -1, -1):
        state = node.states[index]
        lsn = node.lsns[index]
        # A slot without an LSN leads to no record, whatever its state (R-TREE-22).
        if not state & DELETED and lsn != NULL_LSN:
            continue
        if state & DIRTY and not dirty_slots:
            continue
        # The transaction that deleted the record may still abort, and then needs the slot (R-TREE-50).
        if lsn != NULL_LSN and _is_held(ctx, lsn, state):
            continue
        node.remove_slot(index)
        removed += 1
        if state & DIRTY:
            # A delta cannot express that a slot of the full version is gone (R-TREE-32).
            node.no_delta = True
            node.dirty = True
    return removed


def tidy(ctx: TreeContext, node: BIN) -> int:
    """Compress a BIN, unless that would force a full version where a delta would do, and prune it if it is empty.

    Returns:
        The number of slots removed.
    """
    # Removing dirty slots would force a full version where a delta would do (R-TREE-53).
    keeps = node.wants_delta(ctx.delta_percent) and any(node.is_live(index) for index in range(len(node)))
    removed = compress(ctx, node, dirty_slots=not keeps)
    if not len(node):
        # The branch must be removed too, or scans would visit empty nodes for ever (R-TREE-52).
        prune(ctx, node)
    if node.in_tree:
        ctx.account(node)
    return removed


def _is_held(ctx: TreeContext, lsn: int, state: int) -> bool:
    # In recovery there are no locks yet; a pending deletion may belong to a transaction that is resurrected.
    return ctx.locks.is_locked(lsn) if ctx.locks is not None else not state & KNOWN_DELETED


def compress_for_split(ctx: TreeContext, node: BIN) -> bool:
    """Make room before a split; True if that was enough (R-TREE-12)."""
    if node.pins:
        return False
    return compress(ctx, node, dirty_slots=True) > 0 and not node.needs_split()


def prune(ctx: TreeContext, node: BIN) -> bool:
    """Remove the branch of an empty BIN (R-TREE-52).

    Returns:
        Whether the branch was removed. The last branch of a tree stays, and so does one that cursors stand on.
    """
    if len(node) or node.pins or not node.in_tree:
        return False
    branch: IN = node
    parent = branch.parent
    # Find the lowest ancestor with another child: everything below it leads only to the empty BIN.
    while parent is not None and len(parent) == 1:
        branch, parent = parent, parent.parent
    # This is the last branch: a tree keeps its root and one BIN (R-TREE-52).
    if parent is None:
        return False
    index = parent.slot_of(branch)
    if index < 0:
        return False
    below: IN | None = branch
    while below is not None:
        # A crash would restore the branch, so its versions are counted only when the parent is logged (R-CKPT-31).
        parent.provisional_obsolete += _versions(below) + below.provisional_obsolete
        delist(ctx, below)
        below = next((kid for kid in below.kids if kid is not None), None)
    parent.remove_slot(index)
    # The neighbour now covers the range of the branch. The next insertion there must first log its path (D-14).
    parent.pruned = True
    return True


def _versions(node: IN) -> list[ObsoleteNode]:
    found = []
    if isinstance(node, BIN) and node.delta_lsn != NULL_LSN:
        found.append(ObsoleteNode(node.delta_lsn, True))
    if node.full_lsn != NULL_LSN:
        found.append(ObsoleteNode(node.full_lsn, False))
    return found
