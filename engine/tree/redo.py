"""Redo of many LNs of one database at once (R-REC-52), in the order of keys.

The same as ``apply.redo_ln`` for each, which is where the rules are. What makes it several times faster: a BIN is found
once for all the keys that it covers, each search begins after the slot before, and a plain version costs a tuple.

Example: keys ``b``, ``d``, ``m`` and a BIN that covers everything below ``k``: one descent for ``b`` and ``d``, one for
``m``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import Final

from engine.format.lsn import NULL_LSN
from engine.tree.apply import redo_ln
from engine.tree.bin_node import BIN
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.keys import Key
from engine.tree.record_version import RecordVersion
from engine.tree.split import bin_for_insert
from engine.tree.tree import child_of, root_of

# Key, LSN and size of the entry; and the whole leaf, None for a plain version: neither deleted nor embedded nor
# expiring.
Redo = tuple[Key, int, int, RecordVersion | None]
_KEY: Final = itemgetter(0)


def redo_sorted(ctx: TreeContext, db: DatabaseState, batch: list[Redo], keep_room: Callable[[], None]) -> None:
    """Bring LNs into a tree.

    Arguments:
        keep_room: called whenever no node is in use: any may leave memory then.
        batch: in log order; records of different keys do not depend on each other, so it is sorted here by key, which
            keeps the order of the versions of one.
    """
    batch.sort(key=_KEY)
    node: BIN | None = None
    bound: Key | None = None
    at = 0
    for key, lsn, size, leaf in batch:
        # The key is past the node: between two nodes nothing is in use, and the keeper may evict.
        if node is None or (bound is not None and key >= bound):
            if node is not None:
                ctx.account(node)
            keep_room()
            node, bound = _covering(ctx, db, key)
            at = 0
            # A database without a root is left alone (je-log-format.md 14.3).
            if node is None:
                return
            # The whole of it may have been read just now.
            ctx.account(node)
        keys = node.keys
        if leaf is not None:
            may_split = len(keys) >= node.max_entries
            outcome = redo_ln(ctx, db, key, leaf, node)
            if may_split:
                if outcome.node is not None:
                    ctx.account(outcome.node)
                # The slot may have gone to a sibling, and the bound with it.
                node = None
            continue
        at = bisect_left(keys, key, at)
        if at < len(keys) and keys[at] == key:
            tree_lsn = node.lsns[at]
            # The same test as in ``redo_ln``; without it redo would not be idempotent (R-REC-58).
            if lsn > tree_lsn or tree_lsn == NULL_LSN:
                _put(node, at, key, True, lsn, size)
            continue
        if len(keys) >= node.max_entries:
            # The split moves half of the slots, so the node and its bound are looked up again.
            bin_for_insert(ctx, db, key)
            node, bound = _covering(ctx, db, key)
            assert node is not None
            at = bisect_left(node.keys, key)
        _put(node, at, key, False, lsn, size)
    if node is not None:
        ctx.account(node)


def _put(node: BIN, index: int, key: Key, exact: bool, lsn: int, size: int) -> None:
    if node.vlsns:
        node.vlsns.pop(key, None)
    node.put(index, key, exact, lsn, 0, None, size, 0)


def _covering(ctx: TreeContext, db: DatabaseState, key: Key) -> tuple[BIN | None, Key | None]:
    """The BIN that covers a key, and the key from which on it does not; None where there is none."""
    node: IN | None = root_of(ctx, db)
    bound: Key | None = None
    while node is not None and not isinstance(node, BIN):
        index = bisect_right(node.keys, key, 1) - 1
        if index + 1 < len(node.keys):
            bound = node.keys[index + 1]
        child = node.kids[index]
        node = child if child is not None else child_of(ctx, node, index)
    if node is not None:
        ctx.ticks += 1
        node.touched = ctx.ticks
    return node, bound
