"""A scratch file for changed nodes that exceed the cache while nothing can be logged: in recovery and read-only
environments.

JE logs such nodes at the end of the log, before it is certain that recovery will succeed. Here they go to a scratch
file, so that recovery changes nothing in the environment until it has succeeded, and the memory of readers is bounded
too.

Rules:

* A spilled node leaves memory completely, together with the LSN in its parent's slot. The slot holds a *mark* instead,
  which is less than every LSN. No mark reaches the log (``engine.tree.node_log`` replaces it first).
* A parent with a mark counts as dirty, because it must not be dropped and read again: it is spilled itself, or stays in
  memory. Roots stay.
* ``child_of`` reads a node back when it is needed; the slot then has its LSN again, and the block is free.
* After a successful recovery for writing, ``settle`` logs the remaining nodes, bottom-up and provisional YES; the
  following checkpoint logs their ancestors up to the roots. After a crash before that, recovery ignores these nodes.

Example: BIN 7 (logged at 0x3/0x100, two records redone) is spilled; slot 4 of its parent holds mark -0x200000000
instead of 0x3/0x100. A later record of its range reads it back. If it is spilled again and not read back, it is logged
at 0x9/0x50 YES, slot 4 holds 0x9/0x50, and the checkpoint logs the parent, which is dirty.
"""

from __future__ import annotations

import marshal
from typing import Any, Final

from engine.errors import DamageError
from engine.storage.scratch import ScratchFile
from engine.tree.bin_node import BIN, Times
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN, LEAST_LSN, ObsoleteNode

# Below every LSN, including NULL and transient ones.
_FIRST_MARK: Final = LEAST_LSN - 1
# Attributes that are plain values; keys, states and lists of objects have separate forms.
PLAIN: Final = (
    "dirty",
    "full_lsn",
    "full_size",
    "is_root",
    "level",
    "lsns",
    "max_entries",
    "node_id",
    "pruned",
    "sizes",
)
PLAIN_OF_BIN: Final = ("data_bytes", "delta_lsn", "delta_size", "expirations", "guessed", "no_delta", "values")


class Spill:
    """The spilled nodes of one environment.

    Attributes:
        nodes: number of nodes spilled so far.
    """

    def __init__(self) -> None:
        self._scratch = ScratchFile()
        # Offsets of the spilled nodes, to tell marks from LSNs of a damaged log that look like marks.
        self._out: set[int] = set()
        self.nodes = 0

    @property
    def held(self) -> int:
        """Number of nodes in the scratch file now."""
        return len(self._out)

    def out(self, node: IN, lsn: int) -> int:
        """Spill a node without children in memory; returns the mark for its parent's slot.

        Arguments:
            lsn: the LSN in that slot.

        Raises:
            StorageError: the scratch file cannot grow.
        """
        self.nodes += 1
        offset = self._scratch.put(marshal.dumps((lsn, _frozen(node))))
        self._out.add(offset)
        return mark_of(offset)

    def back(self, db: DatabaseState, mark: int) -> tuple[IN, int]:
        """Read a node back: returns the node, and the LSN for its parent's slot.

        Raises:
            DamageError: the value in the slot is not a mark, but an LSN of the log that looks like one.
        """
        offset = self._known(db, mark)
        data = self._scratch.get(offset)
        self._out.remove(offset)
        self._scratch.free(offset, len(data))
        lsn, frozen = marshal.loads(data)
        return _thawed(db, frozen), lsn

    def peek(self, db: DatabaseState, mark: int) -> IN:
        """A copy of the node, which stays in the scratch file. Errors as for ``back``."""
        return _thawed(db, marshal.loads(self._scratch.get(self._known(db, mark)))[1])

    def _known(self, db: DatabaseState, mark: int) -> int:
        offset = offset_of_mark(mark)
        if offset not in self._out:
            raise DamageError(
                f"a slot of the database {db.label} leads nowhere",
                expected="an LSN of the log",
                found=f"0x{mark & 0xFFFF_FFFF_FFFF_FFFF:x}",
                hint="jetool verify says what is damaged",
            )
        return offset

    def close(self) -> None:
        """Drop all spilled nodes."""
        self._scratch.close()


def is_spilled(lsn: int) -> bool:
    """Whether a slot holds the mark of a child that is in the scratch file."""
    return lsn <= _FIRST_MARK


def mark_of(offset: int) -> int:
    """The mark for an offset in the scratch file."""
    return _FIRST_MARK - offset


def offset_of_mark(mark: int) -> int:
    """The offset in the scratch file for a mark."""
    return _FIRST_MARK - mark


def _frozen(node: IN) -> tuple[Any, ...]:
    """A node in the form of plain values."""
    unwrap = node.db.order.unwrap
    # Two-part keys are plain values already.
    bare = node.db.order.comparator is None
    keys = node.keys if bare else [unwrap(key) for key in node.keys]
    obsolete = [(old.lsn, old.is_delta) for old in node.provisional_obsolete]
    values = [getattr(node, name) for name in PLAIN]
    if not isinstance(node, BIN):
        return (False, unwrap(node.ident), keys, obsolete, values)
    vlsns = [(unwrap(key), vlsn) for key, vlsn in node.vlsns.items()]
    values += [getattr(node, name) for name in PLAIN_OF_BIN]
    times = [(unwrap(key), *found) for key, found in node.times.items()]
    return (True, unwrap(node.ident), keys, obsolete, values, bytes(node.states), vlsns, times)


def _thawed(db: DatabaseState, frozen: tuple[Any, ...]) -> IN:
    """The node for plain values."""
    wrap = db.order.wrap
    make = BIN if frozen[0] else IN
    node = make(db, 0, 0, wrap(frozen[1]), 0)
    node.keys = frozen[2] if db.order.comparator is None else [wrap(key) for key in frozen[2]]
    node.provisional_obsolete = [ObsoleteNode(lsn, is_delta) for lsn, is_delta in frozen[3]]
    if not isinstance(node, BIN):
        node.kids = [None] * len(node.keys)
    else:
        node.states = bytearray(frozen[5])
        node.vlsns = {wrap(key): vlsn for key, vlsn in frozen[6]}
        node.times = {wrap(key): Times(modified, created) for key, modified, created in frozen[7]}
    for name, value in zip(PLAIN + PLAIN_OF_BIN if frozen[0] else PLAIN, frozen[4], strict=True):
        setattr(node, name, value)
    return node
