"""Nodes that a pass over a tree in key order comes to next, read ahead.

While recovery puts sorted records into one BIN, a thread reads the next BINs of the same parent
(``engine.storage.bytes_ahead``). The pass may skip BINs: only if three neighbours were needed one after the other, with
at most one other between two of them, are the following ones expected to be needed too. What is read is looked up by
its LSN, so a split, or a BIN that is not needed after all, makes the work useless, and never wrong.

Example: the records need the children in slots 4, 5 and 6 of a node, none of them in memory. Before slot 6 is read,
slots 7 to 22 begin, and slots 23 to 38 after them. When slot 7 is needed its bytes are there; the first thread is
idle then, and before slot 8 is read, slots 39 to 54 begin.
"""

from __future__ import annotations

from typing import Final

from engine.log.access import LogAccess
from engine.tree.in_node import IN
from engine.tree.spill import is_spilled

BATCH: Final = 16
# Neighbours that were needed one after the other, after the first.
_FEWEST: Final = 2
# A child may be in memory, or have no records.
_WIDEST: Final = 2


class NodesAhead:
    """What one pass reads ahead; ``close`` it before the log changes.

    Arguments:
        access: the log; nothing is written to it meanwhile.
    """

    def __init__(self, access: LogAccess) -> None:
        self._access = access
        self._parent_id = self._slot = -1
        self._run = 0
        # The slot of the parent after the last one that was begun.
        self._end = 0
        self._is_stopped = not access.begin_ahead()

    def note(self, parent: IN, slot: int) -> None:
        """Called before the child in a slot is read."""
        if self._is_stopped:
            return
        if parent.node_id == self._parent_id and 0 < slot - self._slot <= _WIDEST:
            self._run += 1
        else:
            if self._end:
                self._access.skip_ahead()
            self._parent_id, self._run, self._end = parent.node_id, 0, 0
        self._slot = slot
        if self._run < _FEWEST:
            return
        while self._access.has_room_ahead():
            first = max(slot + 1, self._end)
            self._end = min(first + BATCH, len(parent.lsns))
            wanted = [
                parent.lsns[at]
                for at in range(first, self._end)
                if parent.kids[at] is None and not is_spilled(parent.lsns[at])
            ]
            if not wanted:
                return
            if not self._access.read_ahead(wanted):
                self._is_stopped = True
                return

    def close(self) -> None:
        """Stop the threads."""
        self._access.end_ahead()
