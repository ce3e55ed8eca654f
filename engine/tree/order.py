"""The key order of a database as its nodes show it: learned if its Java class is not known, checked if it is given.

Each logged node shows a part of the order: its keys, and the two keys of its parent that bound it. If all parts agree
with byte order, or with its reverse, that is the order. Otherwise the parts are merged into one sequence of all keys
that agrees with all of them, and a key counts by its place in the sequence. That is enough to apply deltas, to find
nodes and to read all records. Keys that no node has (inserted after the last checkpoint) come last.

An order that a caller gives is checked against the same nodes. If it contradicts a node it is refused: redo would put
records where the application does not find them.

Example: nodes with ``[ba, ab, cb]`` and, as a delta, ``[ab, bb]``, bounded by ``ac``: the sequence is ``ba ab cb bb
ac``; no node shows the order of ``cb`` and ``bb``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from engine.errors import DamageError, FormatError, UsageError
from engine.format.entry.legacy import OldDelta
from engine.format.entry.node import NodeRecord
from engine.format.entry_types import DELTA_TYPE
from engine.format.lsn import format_lsn, is_null
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.keys import LearnedOrder

# If there are more keys than this, no sequence is kept in memory, and the order remains unknown.
_MOST_KEYS: Final = 4_000_000


class _Part:
    """A node that is still to be read, and the keys that bound it."""

    __slots__ = ("high", "low", "lsn")

    def __init__(self, lsn: int, low: bytes | None, high: bytes | None) -> None:
        self.lsn = lsn
        self.low = low
        self.high = high


def learn_order(ctx: TreeContext, db: DatabaseState, logged: Iterable[int]) -> None:
    """Learn the order of a database; no order is learned if its nodes contradict each other.

    Arguments:
        ctx, db: the trees, and the database.
        logged: LSNs of its nodes that recovery puts into the tree.
    """
    learned = db.order.learned
    assert learned is not None
    after = _Sequences()
    whole = _walk(ctx, db, logged, after)
    _conclude(learned, after, whole=whole, can_descend=not db.duplicates)


def check_order(ctx: TreeContext, db: DatabaseState, logged: Iterable[int]) -> None:
    """Check an order that the caller has given against all nodes of a database.

    Arguments:
        ctx, db, logged: see ``learn_order``.

    Raises:
        UsageError: the keys of a node are not in that order; the message has the LSN and both keys.
    """
    _walk(ctx, db, logged, _Comparison(db))


def _walk(ctx: TreeContext, db: DatabaseState, logged: Iterable[int], into: _Sequences | _Comparison) -> bool:
    """Pass the keys of all logged nodes to ``into``; False if there are too many keys for the memory."""
    # Including nodes of the recovery range, which are not in the tree yet.
    todo = [_Part(lsn, None, None) for lsn in (db.root_lsn, *logged)]
    seen: set[int] = set()
    while todo and len(into) < _MOST_KEYS:
        part = todo.pop()
        if is_null(part.lsn) or part.lsn in seen:
            continue
        seen.add(part.lsn)
        try:
            entry = ctx.access.read(part.lsn)
            record = entry.record()
        except (DamageError, FormatError):
            # The caller that needs the node reports the error.
            continue
        if isinstance(record, OldDelta):
            into.add([slot.key for slot in record.slots], part)
            todo.append(_Part(record.last_full_lsn, part.low, part.high))
        elif isinstance(record, NodeRecord):
            todo += _look(record, part, into, is_delta=entry.type_number == DELTA_TYPE)
    return not todo


def _look(record: NodeRecord, part: _Part, after: _Sequences | _Comparison, *, is_delta: bool) -> list[_Part]:
    """Pass on the keys of a node; returns the nodes that it leads to."""
    prefix = record.key_prefix or b""
    keys = [prefix + slot.key for slot in record.slots]
    after.idents.append((record.identifier_key, part))
    if record.height == 1:
        after.add(keys, part)
        return [_Part(record.prev_full_lsn, part.low, part.high)] if is_delta else []
    # The key of slot 0 of an upper node has no meaning (R-TREE-6).
    after.add(keys[1:], part)
    bounds = [part.low, *keys[1:], part.high]
    return [_Part(slot.lsn, bounds[i], bounds[i + 1]) for i, slot in enumerate(record.slots)]


class _Sequences:
    """The direct successors of each key in all sequences that were added.

    Attributes:
        idents: identifier keys, by which recovery finds nodes, with the bounds of their nodes. Identifier keys of nodes
            that JE converted from old duplicates may lie outside the bounds.
    """

    def __init__(self) -> None:
        self.after: dict[bytes, set[bytes]] = {}
        self.idents: list[tuple[bytes, _Part]] = []
        self.ascending = self.descending = True

    def __len__(self) -> int:
        return len(self.after)

    def add(self, keys: list[bytes], part: _Part) -> None:
        """Add the keys of a node, in its order."""
        # The parent's key is often also the first key of the child.
        low = [] if part.low is None or part.low in keys[:1] else [part.low]
        high = [] if part.high is None else [part.high]
        for key in (*low, *keys, *high):
            self.after.setdefault(key, set())
        for before, key in pairwise((*low, *keys, *high)):
            self.after[before].add(key)
            self.ascending = self.ascending and before < key
            self.descending = self.descending and before > key

    def whole(self) -> dict[bytes, int] | None:
        """The place of every key in a sequence that agrees with all nodes; None if there is no such sequence."""
        waits_for = dict.fromkeys(self.after, 0)
        for later in self.after.values():
            for key in later:
                waits_for[key] += 1
        ready = sorted((key for key, count in waits_for.items() if not count), reverse=True)
        places: dict[bytes, int] = {}
        # Kahn's algorithm; keys whose order is not determined are taken in byte order.
        while ready:
            key = ready.pop()
            places[key] = len(places)
            for later_key in sorted(self.after[key], reverse=True):
                waits_for[later_key] -= 1
                if not waits_for[later_key]:
                    ready.append(later_key)
        # Keys are left over if two nodes contradict each other.
        return places if len(places) == len(self.after) else None


class _Comparison:
    """Compares the keys of nodes with the order that the caller has given.

    Attributes:
        idents: see ``_Sequences``; not compared.
    """

    def __init__(self, db: DatabaseState) -> None:
        self._db = db
        self.idents: list[tuple[bytes, _Part]] = []

    def __len__(self) -> int:
        return 0

    def add(self, keys: list[bytes], part: _Part) -> None:
        """Add the keys of a node, in its order."""
        self.idents.clear()
        wrap = self._db.order.wrap
        try:
            low, high = (None if bound is None else wrap(bound) for bound in (part.low, part.high))
            compared = [wrap(key) for key in keys]
            for index in range(1, len(keys)):
                if not compared[index - 1] < compared[index]:
                    self._refuse(part, keys[index - 1], keys[index])
            if keys and low is not None and part.low is not None and compared[0] < low:
                self._refuse(part, part.low, keys[0])
            if keys and high is not None and part.high is not None and not compared[-1] < high:
                self._refuse(part, keys[-1], part.high)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            # The caller's function may have been made for other keys.
            raise self._error(part, f"{type(error).__name__}: {error}") from error

    def _refuse(self, part: _Part, before: bytes, after: bytes) -> None:
        raise self._error(part, f"the key {before.hex()} stands before {after.hex()}")

    def _error(self, part: _Part, found: str) -> UsageError:
        return UsageError(
            f"the order given for {self._db.label!r} is not the one that its nodes are in",
            lsn=format_lsn(part.lsn),
            expected=f"the order of {self._db.order.comparator}",
            found=found,
            consequence="nothing was changed: records would be put where the application does not find them",
            hint="name another order (jetool-orders(7))",
        )


def _conclude(learned: LearnedOrder, found: _Sequences, *, whole: bool, can_descend: bool) -> None:
    shown = any(found.after.values())
    if whole and shown and can_descend and (found.ascending or found.descending):
        learned.direction = 1 if found.ascending else -1
    elif whole:
        # Identifier keys are included at first, and left out if they contradict the rest.
        without = {key: set(later) for key, later in found.after.items()}
        for ident, part in found.idents:
            found.add([ident], part)
        learned.places = found.whole()
        if learned.places is None:
            found.after = without
            learned.places = found.whole()
