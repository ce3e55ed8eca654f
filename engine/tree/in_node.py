"""An internal node in memory (R-TREE-6 to R-TREE-9).

Invariants, all under ``TreeContext.latch``:

* ``keys``, ``lsns``, ``sizes`` and ``kids`` have one element per slot; keys ascend, except that the key of slot 0
  counts as minus infinity.
* A child in memory points back through ``parent``; the parent's slot holds the LSN of the child's last logged version
  (NULL_LSN: never logged) and the size of that entry (0: unknown; stored since v21). ``in_tree`` is False for a node
  that was removed from its tree.
* ``dirty`` means that the content differs from the last logged version (R-TREE-9). The methods that change slots set
  it.
* ``provisional_obsolete`` holds old LSNs of descendants that were logged provisionally; they are counted when this node
  or an ancestor is logged with another flag (R-CKPT-31).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from engine.format.entry.node import LEVEL_MASK
from engine.format.lsn import NULL_LSN
from engine.native import covering
from engine.tree.database_state import DatabaseState, Node
from engine.tree.keys import Key

MAIN_LEVEL: Final = 0x10000
MAPPING_LEVEL: Final = 0x20000
_NODE_BYTES: Final = 400
_SLOT_BYTES: Final = 120

# The lowest LSN that a slot can have, including transient ones; lower values stand for nodes in the scratch file.
LEAST_LSN: Final = 1 - (2 << 32)


class ObsoleteNode:
    """An old version of a node that is not counted yet: its LSN and whether it was a delta."""

    __slots__ = ("is_delta", "lsn")

    def __init__(self, lsn: int, is_delta: bool) -> None:
        self.lsn = lsn
        self.is_delta = is_delta


class IN(Node):
    """An internal node of level 2 or more; ``BIN`` extends it."""

    __slots__ = (
        "accounted", "db", "dirty", "full_lsn", "full_size", "ident", "in_tree", "is_root", "keys", "kids", "level",
        "lsns", "max_entries", "node_id", "parent", "provisional_obsolete", "pruned", "sizes", "touched",
    )  # fmt: skip

    def __init__(self, db: DatabaseState, node_id: int, level: int, ident: Key, max_entries: int) -> None:
        self.db = db
        self.node_id = node_id
        self.level = level
        self.ident = ident
        self.max_entries = max_entries
        self.is_root = False
        self.in_tree = True
        self.dirty = False
        self.full_lsn = NULL_LSN
        self.full_size = 0
        self.parent: IN | None = None
        self.keys: list[Key] = []
        self.lsns: list[int] = []
        self.sizes: list[int] = []
        self.kids: list[IN | None] = []
        self.provisional_obsolete: list[ObsoleteNode] = []
        self.pruned = False
        self.accounted = 0
        self.touched = 0

    @property
    def is_bin(self) -> bool:
        """Whether it is a bottom node."""
        return False

    @property
    def height(self) -> int:
        """The height: 1 for a BIN, 2 for its parent."""
        return self.level & LEVEL_MASK

    def __len__(self) -> int:
        return len(self.keys)

    def needs_split(self) -> bool:
        """Whether there is no free slot (R-TREE-10)."""
        return len(self.keys) >= self.max_entries

    def slot_for(self, key: Key) -> int:
        """The slot whose child covers a key."""
        if covering is not None:
            place = covering(self.keys, key)
            if place is not None:
                return place
        # Slot 0 is excluded: its key counts as minus infinity (R-TREE-6).
        return bisect_right(self.keys, key, 1) - 1

    def slot_of(self, child: IN) -> int:
        """The slot that holds a child; -1 if there is no such slot."""
        index = self.slot_for(child.ident)
        if index < len(self.kids) and self.kids[index] is child:
            return index
        # Identifier keys of nodes that JE converted from old duplicates may lie outside their nodes.
        for index, kid in enumerate(self.kids):
            if kid is child:
                return index
        return -1

    def attach(self, index: int, child: IN) -> None:
        """Link a child that was read to its slot; nothing becomes dirty."""
        self.kids[index] = child
        child.parent = self

    def insert_child(self, index: int, key: Key, lsn: int, child: IN | None) -> None:
        """Insert a slot."""
        self.keys.insert(index, key)
        self.lsns.insert(index, lsn)
        self.sizes.insert(index, 0)
        self.kids.insert(index, child)
        if child is not None:
            child.parent = self
        self.dirty = True

    def set_child_lsn(self, index: int, lsn: int, size: int) -> None:
        """Note that the child has been logged, in an entry of ``size`` bytes."""
        self.lsns[index] = lsn
        self.sizes[index] = size
        self.dirty = True

    def remove_slot(self, index: int) -> None:
        """Remove a slot."""
        del self.keys[index]
        del self.lsns[index]
        del self.sizes[index]
        del self.kids[index]
        self.dirty = True

    def lsn(self) -> int:
        """The last logged LSN of the node: from its parent's slot, or the database's root LSN."""
        if self.parent is None:
            return self.db.root_lsn
        index = self.parent.slot_of(self)
        return self.parent.lsns[index] if index >= 0 else NULL_LSN

    def position(self, key: Key) -> int:
        """The insertion point of a key."""
        return bisect_left(self.keys, key, 1) if self.keys else 0

    def resident_kids(self) -> int:
        """The number of children in memory."""
        return sum(1 for kid in self.kids if kid is not None)

    def memory_bytes(self) -> int:
        """The estimated memory of the node, in bytes."""
        return _NODE_BYTES + _SLOT_BYTES * len(self.keys)


def root_in_memory(db: DatabaseState) -> IN | None:
    """The root of a tree if it is in memory."""
    root = db.root
    return root if isinstance(root, IN) else None
