"""Cutting a database into key ranges of about the same size, so that several readers can share it.

Where to cut is what the tree's upper nodes say: their keys separate subtrees of about the same number of leaves. Levels
are read from the root down until one has enough keys, so that finding the ranges of a large database reads a few nodes.

Example: a root with 3 children, 4 ranges wanted: the level below with some 250 keys is read, and every 63rd key of it
begins a range.
"""

from __future__ import annotations

from engine.db.database import Database
from engine.db.engine import Engine
from engine.tree.bin_node import BIN
from engine.tree.in_node import IN
from engine.tree.keys import Key
from engine.tree.tree import child_of, root_of


def cut_keys(engine: Engine, db: Database, count: int) -> list[bytes]:
    """Keys at which a database falls into ranges.

    Arguments:
        engine, db: the database.
        count: how many ranges are wanted.

    Returns:
        At most ``count`` - 1 keys, ascending: the ranges are below the first, from it to the second, and so on. Fewer
        where the tree is small, none where a class orders the keys.

    Raises:
        DamageError: a node cannot be read.
    """
    if db.state.order.comparator is not None:
        return []
    with engine.latch:
        found = _separators(engine, db, count)
    # The nodes that were read may have taken the cache above its budget.
    engine.keep_budget()
    # The keys of duplicates are pairs: a range must not cut between the items of one key.
    keys = sorted({key[0] if isinstance(key, tuple) else key for key in found} - {b""})
    if len(keys) < count:
        return keys
    return [keys[number * (len(keys) + 1) // count - 1] for number in range(1, count)]


def _separators(engine: Engine, db: Database, count: int) -> list[Key]:
    """The keys between the nodes of the first level that has enough; that of slot 0 is no key (R-TREE-6)."""
    root = root_of(engine.ctx, db.state)
    level: list[IN] = [] if root is None else [root]
    keys: list[Key] = []
    while level and not isinstance(level[0], BIN):
        keys += [key for node in level for key in node.keys[1:]]
        if len(keys) >= count - 1:
            break
        level = [child_of(engine.ctx, node, index) for node in level for index in range(len(node))]
    return keys
