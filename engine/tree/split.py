"""Splits (R-TREE-10 to R-TREE-17).

Splits are pre-emptive: a descent that may insert never passes a full node. A full root is split first, then every full
node of the path, bottom-up. The path up to the root is logged at once, so that recovery finds a consistent tree
wherever the log is cut. Where nothing can be logged (recovery) the same splits happen in memory; as soon as logging is
possible, ``settle`` logs these trees in the same way.

The same is done before the first insertion that passes a node where a branch was pruned (R-TREE-52, D-14). The range of
the branch now belongs to a neighbour, but nothing in the log records that. Suppose that the neighbour, with a record of
that range in it, reached the log before the ancestor, and a crash followed: a scan would find the record and a search
would not. JE logs nothing at this point.

Example: a BIN is full, its parent IN2 becomes full by the new slot, and the grandparent IN3 has room. The order of
logging is: BIN new, BIN old, IN2, IN2 new, IN2 old, IN3 (all YES), root (NO).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from engine.format.header import Provisional
from engine.format.lsn import NULL_LSN
from engine.tree.bin_node import BIN
from engine.tree.compress import compress_for_split
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.keys import Key
from engine.tree.node_log import log_node
from engine.tree.tree import child_of, enlist, new_tree, root_of


class _Path(NamedTuple):
    """A descent: nodes from the root to the BIN, and whether every step took the first or the last slot."""

    nodes: list[IN]
    leftmost: bool
    rightmost: bool


def bin_for_insert(ctx: TreeContext, db: DatabaseState, key: Key) -> BIN:
    """The BIN that covers a key, with room for one more slot; creates the tree if the database has no tree."""
    if not db.has_root:
        leaf = new_tree(ctx, db, key)
        # The BIN before its parent, which references it: a crash between the two leaves no tree (R-TREE-2).
        log_node(ctx, leaf, Provisional.YES)
        assert leaf.parent is not None
        log_node(ctx, leaf.parent, Provisional.NO)
        db.dirty = True
        return leaf
    while True:
        node = root_of(ctx, db)
        assert node is not None
        # Split the root before the descent: a split below may need a slot in it (R-TREE-11).
        if node.needs_split():
            _split_root(ctx, db, node, key)
            continue
        full = widened = False
        while not isinstance(node, BIN):
            widened = widened or node.pruned
            # ``slot_for``, ``child_of`` and ``needs_split`` inline, since this runs for every insertion.
            index = bisect_right(node.keys, key, 1) - 1
            child = node.kids[index]
            node = child if child is not None else child_of(ctx, node, index)
            if len(node.keys) >= node.max_entries:
                full = True
                break
        if not full:
            assert isinstance(node, BIN)
            ctx.ticks += 1
            node.touched = ctx.ticks
            # Log the path before the insertion is logged: after a crash the record must not lie outside the old bounds
            # (D-14).
            if widened and ctx.writer is not None and not db.temporary:
                _log_widened(ctx, db, key)
            return node
        _split_path(ctx, db, key)


def _log_widened(ctx: TreeContext, db: DatabaseState, key: Key) -> None:
    """Log the path from the lowest pruned node up to the root; see the head of the module."""
    path = _descend(ctx, db, key).nodes
    lowest = max(index for index, node in enumerate(path) if node.pruned)
    # Bottom-up, the root last and with NO: until the root is logged, recovery ignores the others.
    for node in reversed(path[1 : lowest + 1]):
        log_node(ctx, node, Provisional.YES)
    log_node(ctx, path[0], Provisional.NO)


def _descend(ctx: TreeContext, db: DatabaseState, key: Key) -> _Path:
    node = root_of(ctx, db)
    assert node is not None
    nodes = [node]
    leftmost = rightmost = True
    while not isinstance(node, BIN):
        index = node.slot_for(key)
        leftmost = leftmost and index == 0
        rightmost = rightmost and index == len(node) - 1
        node = child_of(ctx, node, index)
        nodes.append(node)
    return _Path(nodes, leftmost, rightmost)


def _split_path(ctx: TreeContext, db: DatabaseState, key: Key) -> None:
    """Split every full node of the path to a key, bottom-up, and log the path up to the root."""
    path = _descend(ctx, db, key)
    just_logged: IN | None = None
    any_split = False
    for node in reversed(path.nodes[1:]):
        # Remove deleted slots first: a BIN that gets room is not split (R-TREE-12).
        if isinstance(node, BIN) and node.needs_split() and compress_for_split(ctx, node):
            continue
        # A split below may just have filled this node.
        if node.needs_split():
            assert node.parent is not None
            _split(ctx, node, key, path)
            just_logged, any_split = node.parent, True
        elif any_split and node is not just_logged:
            # A slot of this node references a node that was split or logged; recovery must find the whole path
            # (R-TREE-15).
            log_node(ctx, node, Provisional.YES)
    root = path.nodes[0]
    if any_split and just_logged is not root:
        log_node(ctx, root, Provisional.NO)


def _split_root(ctx: TreeContext, db: DatabaseState, root: IN, key: Key) -> None:
    """Create a new root one level up, with the old root as its only child, and split the old root."""
    above = IN(db, ctx.node_ids.next(), root.level + 1, root.ident, db.max_entries)
    above.is_root = True
    root.is_root = False
    root.dirty = True
    above.insert_child(0, root.keys[0], NULL_LSN, root)
    old_lsn = db.root_lsn
    above.lsns[0] = old_lsn
    db.root = above
    enlist(ctx, above)
    # The slot above holds the old root's last version, so that logging counts that version obsolete.
    log_node(ctx, root, Provisional.YES)
    db.root_lsn = NULL_LSN
    log_node(ctx, above, Provisional.NO)
    path = _descend(ctx, db, key)
    _split(ctx, root, key, path)
    db.dirty = True
    if ctx.root_logged is not None:
        # The MapLN in the log references the old root, which is a child now (R-TREE-11).
        ctx.root_logged(db)


def _split(ctx: TreeContext, node: IN, key: Key, path: _Path) -> None:
    """Split one node and log sibling, node, parent."""
    parent = node.parent
    assert parent is not None
    index = _split_index(node, key, path)
    sibling = _divide(ctx, node, parent, index)
    if ctx.writer is None:
        # Neither half may be logged alone later; ``settle`` prevents that.
        node.db.unlogged_splits = True
    # Log the parent last: only the parent makes both halves visible, so a crash in between has no effect.
    log_node(ctx, sibling, Provisional.YES)
    log_node(ctx, node, Provisional.YES)
    log_node(ctx, parent, Provisional.NO if parent.is_root else Provisional.YES)
    for watcher in ctx.splits_watch:
        watcher.split(sibling)


def _split_index(node: IN, key: Key, path: _Path) -> int:
    """The slot at which to split (R-TREE-13); this also holds for a node with one slot more than its capacity."""
    count = len(node)
    lowest = 0 if isinstance(node, BIN) else 1
    position = node.find(key)[0] if isinstance(node, BIN) else node.position(key)
    if path.leftmost and position <= lowest:
        # Leave one half almost full: otherwise a load in descending order would leave nodes half empty.
        return 1
    if path.rightmost and not path.leftmost and position >= count:
        return count - 1
    return count // 2


def _divide(ctx: TreeContext, node: IN, parent: IN, index: int) -> IN:
    """Move one half into a new sibling (R-TREE-14); returns the sibling."""
    place = parent.slot_of(node)
    # The half with the identifier key stays: recovery finds the node by that key (R-TREE-14).
    ident_slot = node.find(node.ident)[0] if isinstance(node, BIN) else node.slot_for(node.ident)
    ident_is_low = ident_slot < index
    low, high = (index, len(node)) if ident_is_low else (0, index)
    make = BIN if isinstance(node, BIN) else IN
    sibling = make(node.db, ctx.node_ids.next(), node.level, node.keys[low], node.db.max_entries)
    _move(node, sibling, low, high)
    enlist(ctx, sibling)
    sibling.dirty = node.dirty = True
    if ident_is_low:
        parent.insert_child(place + 1, sibling.keys[0], NULL_LSN, sibling)
    else:
        # The sibling takes over the lower slot; the old node gets the slot after it.
        parent.insert_child(place, parent.keys[place], NULL_LSN, sibling)
        parent.keys[place + 1] = node.keys[0]
    # Slot 0 counts as minus infinity, so its child may have keys below the slot's key. The key is lowered; otherwise
    # the two slots would be out of order (R-TREE-16).
    ctx.account(node)
    ctx.account(parent)
    lowest = parent.kids[place]
    if lowest is not None and lowest.keys[0] < parent.keys[place]:
        parent.keys[place] = lowest.keys[0]
    return sibling


def _move(node: IN, sibling: IN, low: int, high: int) -> None:
    if isinstance(node, BIN) and isinstance(sibling, BIN):
        for name in ("keys", "lsns", "states", "values", "sizes", "expirations"):
            values = getattr(node, name)
            setattr(sibling, name, values[low:high])
            del values[low:high]
        sibling.vlsns = {key: node.vlsns.pop(key) for key in sibling.keys if key in node.vlsns}
        sibling.times = {key: node.times.pop(key) for key in sibling.keys if key in node.times}
        moved = sum(len(value) for value in sibling.values if value is not None)
        sibling.data_bytes = moved
        node.data_bytes -= moved
        # The full versions in the log have different slots, to which a delta could not be applied.
        node.no_delta = sibling.no_delta = True
        return
    sibling.keys, node.keys[low:high] = node.keys[low:high], []
    sibling.lsns, node.lsns[low:high] = node.lsns[low:high], []
    sibling.sizes, node.sizes[low:high] = node.sizes[low:high], []
    sibling.kids, node.kids[low:high] = node.kids[low:high], []
    for kid in sibling.kids:
        if kid is not None:
            kid.parent = sibling
