"""Comparison of the records of two environments, by database and key.

The databases of both are walked in key order at the same time, so memory does not grow with their size. A Java
comparator may order two trees differently, so the records of such a database are first sorted by their bytes.

In copies of one environment most records need not be read to be equal: their slots have the same key and LSN, and the
LSN is in the part that both logs share byte for byte (``engine.inspect.common_log``). A node with only such slots is
skipped in one step. A leaf whose parents in both trees have the same LSN for it, in that part, is the same in both: it
is read, and its records are counted, in the first environment only.

Example: ``users`` holds a=1, b=2 in the first and b=3, c=4 in the second environment: a is only in the first, b is
changed, c is only in the second. With sorted duplicates the data item is part of the key, so a record is never changed,
only present or absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Final, NamedTuple

from engine.db.database import Database
from engine.db.engine import Engine
from engine.db.environment import Environment
from engine.db.key_range import key_range
from engine.db.record_keys import key_and_data
from engine.db.scan import LiveSlots, live_slots
from engine.events import SILENT, Listener, counted_in_parts
from engine.format.lsn import NULL_LSN
from engine.inspect.common_log import SharedLog
from engine.inspect.key_ranges import WHOLE, KeyRange, can_share, in_ranges, worthwhile_ranges
from engine.storage.sorted_pairs import in_byte_order
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.tree.tree import LeafRange, leaf_ranges

ONLY_FIRST: Final = "only-first"
ONLY_SECOND: Final = "only-second"
CHANGED: Final = "changed"
SAME: Final = "same"
# Records between two reports of progress.
_TOLD: Final = 1 << 13
# The most leaves in a row that are told apart before they are read.
_SPAN_LEAVES: Final = 512


class RecordDifference(NamedTuple):
    """A record of either environment.

    Attributes:
        data, other_data: data in the first and the second environment; None where the record is absent.
    """

    database: str
    key: bytes
    data: bytes | None
    other_data: bytes | None

    @property
    def what(self) -> str:
        """``same``, ``changed``, ``only-first`` or ``only-second``."""
        if self.data == self.other_data:
            return SAME
        return ONLY_FIRST if self.other_data is None else ONLY_SECOND if self.data is None else CHANGED


class DatabaseDifference(NamedTuple):
    """A database of either environment.

    Attributes:
        relation: ``same``, ``changed``, ``only-first`` or ``only-second``.
        records, other_records: number of records in each environment; 0 where the database is absent.
        same, changed, only_first, only_second: number of records by result.
    """

    name: str
    relation: str
    records: int
    other_records: int
    same: int
    changed: int
    only_first: int
    only_second: int


class RecordDiff(NamedTuple):
    """What differs.

    Attributes:
        databases: of both environments, by name.
        differences: the first records that differ.
    """

    databases: list[DatabaseDifference]
    differences: list[RecordDifference]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return all(found.relation == SAME for found in self.databases)


def diff_records(
    one: Environment,
    other: Environment,
    most: int,
    listener: Listener = SILENT,
    *,
    shared: SharedLog | None = None,
    jobs: int = 1,
) -> RecordDiff:
    """Compare all databases of applications.

    Arguments:
        most: maximum number of differences to keep.
        shared: the common part of both logs; None for unrelated environments.
        jobs: processes that compare a large database.
        listener: receives the number of compared records.

    Raises:
        DamageError: a record or a tree cannot be read.
    """
    found = RecordDiff([], [])
    here, there = set(one.database_names()), set(other.database_names())
    compared, total = 0, len(here | there)

    def told(share: float, records: int) -> None:
        counted_in_parts(listener, "compare databases", share, total, compared + records)

    for done, name in enumerate(sorted(here | there)):
        told(done, 0)
        with ExitStack() as handles:
            first = handles.enter_context(one.open_database(name)) if name in here else None
            second = handles.enter_context(other.open_database(name)) if name in there else None
            counts = dict.fromkeys((SAME, CHANGED, ONLY_FIRST, ONLY_SECOND), 0)
            engines = (one.engine, other.engine) if shared is not None and _can_skip(one, other, shared) else None
            compare = partial(_compared, name, first, second, shared, most, engines)
            ranges = [WHOLE]
            if first is not None and second is not None and _can_join_slots(first, second, shared):
                ranges = worthwhile_ranges(one.engine, first, jobs) if can_share(other.engine) else ranges
            if len(ranges) == 1:
                parts = iter([compare(WHOLE, listener, partial(told, done))])
            else:
                parts = in_ranges((one.engine, other.engine), compare, ranges, jobs)
            for number, part in enumerate(parts, 1):
                for what, count in part.counts.items():
                    counts[what] += count
                found.differences.extend(part.differences[: most - len(found.differences)])
                told(done + number / len(ranges), sum(counts.values()))
        compared += sum(counts.values())
        relation = ONLY_SECOND if first is None else ONLY_FIRST if second is None else CHANGED
        found.databases.append(summed(name, relation, *counts.values()))
    return found


def summed(name: str, relation: str, same: int, changed: int, only_first: int, only_second: int) -> DatabaseDifference:
    """The result for a database from its numbers of records.

    Arguments:
        relation: ``only-first``, ``only-second``, or ``changed`` for a database of both environments.
    """
    # The database is in both environments, and no record differs.
    if relation == CHANGED and not changed + only_first + only_second:
        relation = SAME
    records, other_records = same + changed + only_first, same + changed + only_second
    return DatabaseDifference(
        name=name,
        relation=relation,
        records=records,
        other_records=other_records,
        same=same,
        changed=changed,
        only_first=only_first,
        only_second=only_second,
    )


def _can_skip(one: Environment, other: Environment, shared: SharedLog) -> bool:
    """Whether leaves of the shared log can be skipped: no node changes meanwhile, and if the versions that such a leaf
    refers to are missing in the second environment, then also in the first.
    """
    return one.engine.read_only and other.engine.read_only and shared.is_whole


class _Part(NamedTuple):
    """The result for a key range: counts of records, and the first differences."""

    counts: dict[str, int]
    differences: list[RecordDifference]


def _compared(
    name: str,
    first: Database | None,
    second: Database | None,
    shared: SharedLog | None,
    most: int,
    engines: tuple[Engine, Engine] | None,
    keys: KeyRange,
    listener: Listener = SILENT,
    told: Callable[[int], None] | None = None,
) -> _Part:
    part = _Part(dict.fromkeys((SAME, CHANGED, ONLY_FIRST, ONLY_SECOND), 0), [])
    seen = due = 0
    for difference in _differences(name, first, second, shared, engines, keys, listener):
        if told is not None and seen >= due:
            told(seen)
            due = seen + _TOLD
        if isinstance(difference, int):
            part.counts[SAME] += difference
            seen += difference
            continue
        seen += 1
        part.counts[difference.what] += 1
        if difference.what != SAME and len(part.differences) < most:
            part.differences.append(difference)
    return part


def _can_join_slots(first: Database, second: Database, shared: SharedLog | None) -> bool:
    """Whether equal records of two databases can be recognised by their slots."""
    if shared is None or first.slots() is None or second.slots() is None:
        return False
    orders = [db.state.order.comparator for db in (first, second)]
    return orders == [None, None] and first.duplicates == second.duplicates and first.state.id == second.state.id


def _differences(
    name: str,
    first: Database | None,
    second: Database | None,
    shared: SharedLog | None,
    engines: tuple[Engine, Engine] | None,
    keys: KeyRange,
    listener: Listener,
) -> Iterator[RecordDifference | int]:
    """Pairs of records of both databases; equal records that need not be read are only counted."""
    if first is not None and second is not None and shared is not None and _can_join_slots(first, second, shared):
        if engines is not None:
            return _by_leaves(name, first, second, engines, shared, keys)
        slots, other_slots = first.slots(*keys), second.slots(*keys)
        assert slots is not None
        assert other_slots is not None
        return _joined_slots(name, first, second, _SlotStream(slots), _SlotStream(other_slots), shared)
    return _joined(name, first, second, listener)


def _by_leaves(
    name: str, first: Database, second: Database, engines: tuple[Engine, Engine], shared: SharedLog, keys: KeyRange
) -> Iterator[RecordDifference | int]:
    """Like ``_joined_slots`` for the leaves that are not the same; records of the others are counted."""
    bounds = key_range(first.state, *keys)
    leaves = [
        _leaves(engine, db.state, bounds.low, bounds.high) for engine, db in zip(engines, (first, second), strict=True)
    ]
    for low, high, is_same in _spans(leaves[0], leaves[1], shared):
        start = low
        if is_same:
            for node in live_slots(engines[0], first.state, low, high):
                if node.keys and not _is_held(node, shared):
                    # A version outside the shared log: the comparison reads it.
                    start = node.keys[0]
                    break
                yield len(node.keys)
            else:
                continue
        streams = [
            _SlotStream(live_slots(engine, db.state, start, high))
            for engine, db in zip(engines, (first, second), strict=True)
        ]
        yield from _joined_slots(name, first, second, streams[0], streams[1], shared)


class _Span(NamedTuple):
    """Keys from ``low`` on and before ``high``; whether both trees have the same leaves there."""

    low: Key | None
    high: Key | None
    is_same: bool


def _spans(left: Iterator[LeafRange], right: Iterator[LeafRange], shared: SharedLog) -> Iterator[_Span]:
    """Divide the keys at boundaries that both trees have."""
    mine, theirs = next(left), next(right)
    low, begin, count, was_same = mine.low, mine.low, 0, False
    while True:
        if mine.high == theirs.high:
            is_same = mine.low == theirs.low == begin and mine.lsn == theirs.lsn and shared.holds(mine.lsn)
            if count and (is_same != was_same or count == _SPAN_LEAVES):
                yield _Span(low, begin, was_same)
                low, count = begin, 0
            begin, count, was_same = mine.high, count + 1, is_same
            following, other = next(left, None), next(right, None)
            if following is None or other is None:
                yield _Span(low, begin, was_same)
                return
            mine, theirs = following, other
        elif theirs.high is None or (mine.high is not None and mine.high < theirs.high):
            mine = next(left)
        else:
            theirs = next(right)


def _leaves(engine: Engine, state: DatabaseState, low: Key | None, high: Key | None) -> Iterator[LeafRange]:
    """The leaves of a tree from ``low`` on and before ``high``, each beginning where the one before it ends.

    A leaf that these bounds divide has no LSN. In a damaged tree, keys that do not follow each other are one leaf.
    """
    reached = low
    while True:
        with engine.ctx.latch:
            found = leaf_ranges(engine.ctx, state, reached)
        engine.keep_budget()
        before = reached
        for leaf in found:
            if leaf.high is not None and reached is not None and leaf.high <= reached:
                continue
            is_last = leaf.high is None or (high is not None and leaf.high >= high)
            end = high if is_last else leaf.high
            is_whole = leaf.low == reached and leaf.high == end
            yield LeafRange(reached, end, leaf.lsn if is_whole else NULL_LSN)
            if is_last:
                return
            reached = end
        if reached == before:
            yield LeafRange(reached, high, NULL_LSN)
            return


def _is_held(node: LiveSlots, shared: SharedLog) -> bool:
    """Whether all records of a node are in the shared log or embedded in their slots."""
    lsns, data = node.lsns, node.data
    if data.count(None) != len(data):
        lsns = [lsn for lsn, value in zip(lsns, data, strict=True) if value is None]
    return shared.holds_all(lsns)


def _joined_slots(
    name: str, first: Database, second: Database, left: _SlotStream, right: _SlotStream, shared: SharedLog
) -> Iterator[RecordDifference | int]:
    """Like ``_joined``, but by slots: a record whose slots have the same version in both databases is not read."""
    while left.keys or right.keys:
        if left.at == right.at == 0 and left.is_same_node(right) and left.is_held(shared):
            yield len(left.keys)
            left.next_node()
            right.next_node()
            continue
        here, there = left.key, right.key
        if there is None or (here is not None and here < there):
            yield RecordDifference(name, *left.record(first), None)
            left.step()
        elif here is None or there < here:
            key, data = right.record(second)
            yield RecordDifference(name, key, None, data)
            right.step()
        else:
            if left.slot == right.slot and (left.slot[1] is not None or shared.holds(left.slot[0])):
                yield 1
            else:
                yield RecordDifference(name, *left.record(first), right.record(second)[1])
            left.step()
            right.step()


class _SlotStream:
    """The slots of one database, a leaf node at a time.

    Attributes:
        keys: keys of the current node; empty at the end.
        at: index of the current slot.
    """

    def __init__(self, nodes: Iterator[LiveSlots]) -> None:
        self._nodes = nodes
        self.next_node()

    def next_node(self) -> None:
        """Go to the next node that has records."""
        self.at = 0
        self._node = next((node for node in self._nodes if node.keys), LiveSlots([], [], [], []))
        self.keys = self._node.keys

    def step(self) -> None:
        """Go to the next slot."""
        self.at += 1
        if self.at == len(self.keys):
            self.next_node()

    def is_same_node(self, other: _SlotStream) -> bool:
        """Whether the slots of both nodes are the same."""
        mine, theirs = self._node, other._node
        return (mine.keys, mine.lsns, mine.data) == (theirs.keys, theirs.lsns, theirs.data)

    def is_held(self, shared: SharedLog) -> bool:
        """Whether all records of the node are in the shared log or embedded in their slots."""
        return _is_held(self._node, shared)

    @property
    def key(self) -> Key | None:
        """Key of the current slot; None at the end."""
        return self.keys[self.at] if self.keys else None

    @property
    def slot(self) -> tuple[int, bytes | None]:
        """LSN and data of the current slot."""
        return self._node.lsns[self.at], self._node.data[self.at]

    def record(self, db: Database) -> tuple[bytes, bytes]:
        """Key and data of the current slot; data that is not embedded is read."""
        lsn, data = self.slot
        return key_and_data(db.state, self.keys[self.at], data if data is not None else db.data_at(lsn) or b"")


def _joined(
    name: str, first: Database | None, second: Database | None, listener: Listener
) -> Iterator[RecordDifference]:
    """Merge the records of both; equal records are included."""
    opened = [db for db in (first, second) if db is not None]
    by_item = any(db.duplicates for db in opened)
    # The records of both must come in the same order, so if a comparator orders one database, sort both by bytes.
    is_sorted = all(db.state.order.comparator is None for db in opened)
    found = [db.items() if db is not None else iter(()) for db in (first, second)]
    left, right = (records if is_sorted else in_byte_order(records, listener) for records in found)
    return join_records(name, left, right, by_item=by_item)


def join_records(
    name: str, first: Iterator[tuple[bytes, bytes]], second: Iterator[tuple[bytes, bytes]], *, by_item: bool
) -> Iterator[RecordDifference]:
    """Merge the records of a database in two environments, each sorted by bytes; equal records are included.

    Arguments:
        by_item: key and data together identify a record, as with duplicates.
    """
    left, right = _RecordStream(first, by_item=by_item), _RecordStream(second, by_item=by_item)
    while left.current is not None or right.current is not None:
        if right.current is None or (left.current is not None and left.place < right.place):
            yield RecordDifference(name, left.key, left.data, None)
            left.step()
        elif left.current is None or right.place < left.place:
            yield RecordDifference(name, right.key, None, right.data)
            right.step()
        else:
            yield RecordDifference(name, left.key, left.data, right.data)
            left.step()
            right.step()


class _RecordStream:
    """The records of one database, one after the other.

    Arguments:
        records: sorted by their bytes.
        by_item: key and data together identify a record, as with duplicates.
    """

    def __init__(self, records: Iterator[tuple[bytes, bytes]], *, by_item: bool) -> None:
        self._rest = records
        self._by_item = by_item
        self.current: tuple[bytes, bytes] | None = next(self._rest, None)

    @property
    def key(self) -> bytes:
        """Of the current record."""
        assert self.current is not None
        return self.current[0]

    @property
    def data(self) -> bytes:
        """Of the current record."""
        assert self.current is not None
        return self.current[1]

    @property
    def place(self) -> tuple[bytes, bytes]:
        """The sort key, which also identifies the record."""
        return self.key, self.data if self._by_item else b""

    def step(self) -> None:
        """Go to the next record."""
        self.current = next(self._rest, None)
