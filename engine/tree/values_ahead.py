"""The data of records that a walk comes to next, read by a thread while the caller uses the records of now.

In a log that is larger than the caches of the processor a record takes longer to read than to print. The thread
(``engine.native.core.ReadAhead``) reads the LNs of the next BINs: of one BIN at first, then of twice that number, up to
16. Two batches are read at a time, each by a thread of its own, so that a thread has work while the walk takes a batch.
What was read serves a slot with the same LSN only, and no LSN is used twice while an environment is open: a change of
the tree makes the work useless, and never wrong. The pure build has no such threads, and reads nothing ahead. Nor does
a walk that gets none, because other walks that have not ended hold all of them.

Example: a walk of 100 BINs. Step 2 returns BIN 2, and BIN 3 begins. Step 3 takes its data, and BINs 4 and 5 begin.
Step 4 takes the data of both, and BINs 6 to 9 begin; step 5 begins BINs 10 to 17.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from engine.errors import JetoolError
from engine.native import new_read_ahead
from engine.tree.bin_node import BIN, is_expired
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.tree.tree import find_bin, next_bin, without_data

if TYPE_CHECKING:
    from engine.native import core

_MOST_NODES: Final = 16
_MOST_BATCHES: Final = 2
# A walk of one step reads nothing ahead.
_FIRST_STEP: Final = 2


class ValuesAhead:
    """What one walk reads ahead.

    Arguments:
        ctx, db: the database.
        backward, bound: see ``RecordWalker``.
    """

    def __init__(self, ctx: TreeContext, db: DatabaseState, *, backward: bool, bound: Key | None) -> None:
        self._ctx = ctx
        self._db = db
        self._backward = backward
        self._bound = bound
        self._steps = 0
        # Nodes of a database with an order that is only learned are not searched more often than the walk needs.
        self._is_stopped = new_read_ahead is None or db.order.learned is not None
        # The number of BINs of the next batch, and the last key of the batch before, in the direction of the walk.
        self._nodes = 1
        self._last: Key | None = None
        # The batches that are read, each with its LSNs; readers without a batch; the data of the batch before.
        self._begun: list[tuple[core.ReadAhead, list[int]]] = []
        self._idle: list[core.ReadAhead] = []
        self._values: dict[int, bytes | None] = {}

    def note_step(self, node: BIN, now_ms: int) -> None:
        """Called after each step of the walk with its BIN: begin a batch, unless enough of them wait for the walk."""
        self._steps += 1
        if self._is_stopped or len(self._begun) == _MOST_BATCHES or self._steps < _FIRST_STEP:
            return
        lsns: list[int] = []
        sizes: list[int] = []
        try:
            self._add_batch(node, now_ms, lsns, sizes)
        except JetoolError:
            # The records of this step are good; a later step meets the same error.
            self._is_stopped = True
        if lsns:
            self._begin(lsns, sizes)

    def values(self, node: BIN) -> dict[int, bytes | None] | None:
        """Data by LSN that was read for a BIN, and for others; None if nothing was read for it."""
        while self._begun and not self._has_any(node.lsns):
            reader, lsns = self._begun.pop(0)
            values = reader.finish(self._db.id)
            self._idle.append(reader)
            self._ctx.access.reads += len([value for value in values if value is not None])
            self._values = dict(zip(lsns, values, strict=True))
        return self._values if self._has_any(node.lsns) else None

    def _add_batch(self, node: BIN, now_ms: int, lsns: list[int], sizes: list[int]) -> None:
        """Add the records of the BINs after the batch before, or after the BIN of the walk if that is further on."""
        ctx, edge = self._ctx, 0 if self._backward else -1
        at: BIN | None = node
        if self._last is not None and node.keys and self._is_after(self._last, node.keys[edge]):
            at = find_bin(ctx, self._db, self._last)
        for _ in range(self._nodes):
            at = None if at is None else next_bin(ctx, at, backward=self._backward)
            if at is None or not at.keys:
                return
            self._last = at.keys[edge]
            first, end = slots_within(at, len(at) - 1 if self._backward else 0, self._bound, backward=self._backward)
            for slot in without_data(at, live_within(at, first, end, now_ms)):
                lsns.append(at.lsns[slot])
                sizes.append(at.sizes[slot])
            if first > 0 or end < len(at):
                return

    def _is_after(self, key: Key, other: Key) -> bool:
        return bool(key < other if self._backward else key > other)

    def _begin(self, lsns: list[int], sizes: list[int]) -> None:
        maps = self._ctx.access.maps_of(lsns)
        if not maps or new_read_ahead is None:
            return
        reader = self._idle.pop() if self._idle else new_read_ahead()
        if reader.begin(maps, lsns, sizes):
            self._begun.append((reader, lsns))
            self._nodes = min(2 * self._nodes, _MOST_NODES)
        else:
            self._is_stopped = True

    def _has_any(self, lsns: list[int]) -> bool:
        values = self._values
        return bool(values) and any(lsn in values for lsn in lsns)


def slots_within(node: BIN, index: int, bound: Key | None, *, backward: bool) -> tuple[int, int]:
    """The range of slots of a node from an index to the bound of a walk: the first, and the one after the last."""
    if backward:
        return 0 if bound is None else bisect_left(node.keys, bound), index + 1
    return index, len(node) if bound is None else max(bisect_left(node.keys, bound), index)


def live_within(node: BIN, first: int, end: int, now_ms: int) -> list[int]:
    """The slots with live records in a range of slots."""
    expirations = node.expirations
    return [at for at in range(first, end) if node.is_live(at) and not is_expired(expirations[at], now_ms)]
