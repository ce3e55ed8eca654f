"""The records of two environments side by side, by database and key.

Both are walked in key order at the same time, so memory does not grow with the databases. Where the keys of a database
are in the order of a Java class, two trees need not have the same order: its records are sorted by their bytes first,
in memory.

Example: ``users`` holds a=1, b=2 in the first and b=3, c=4 in the second environment: a only in the first, b changed, c
only in the second. With sorted duplicates a data item is part of its key, so nothing is changed, only there or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final, NamedTuple

from engine.db.database import Database
from engine.db.environment import Environment
from engine.events import SILENT, Listener

ONLY_FIRST: Final = "only-first"
ONLY_SECOND: Final = "only-second"
CHANGED: Final = "changed"
SAME: Final = "same"


class RecordDifference(NamedTuple):
    """A record of either environment.

    Attributes:
        data, other_data: in the first and the second environment; None where it is not.
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
        records, other_records: how many there are in each; 0 where the database is not.
        same: those that are equal; the others by what they are.
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


def diff_records(one: Environment, other: Environment, most: int, listener: Listener = SILENT) -> RecordDiff:
    """Compare all databases of applications.

    Arguments:
        most: differing records to keep.

    Raises:
        DamageError: a record or a tree cannot be read.
    """
    found = RecordDiff([], [])
    here, there = set(one.database_names()), set(other.database_names())
    for done, name in enumerate(sorted(here | there)):
        listener.step("compare databases", done, len(here | there))
        with ExitStack() as handles:
            first = handles.enter_context(one.open_database(name)) if name in here else None
            second = handles.enter_context(other.open_database(name)) if name in there else None
            counts = dict.fromkeys((SAME, CHANGED, ONLY_FIRST, ONLY_SECOND), 0)
            for difference in _joined(name, first, second):
                counts[difference.what] += 1
                if difference.what != SAME and len(found.differences) < most:
                    found.differences.append(difference)
        relation = ONLY_SECOND if first is None else ONLY_FIRST if second is None else CHANGED
        found.databases.append(_summed(name, relation, *counts.values()))
    return found


def _summed(name: str, relation: str, same: int, changed: int, only_first: int, only_second: int) -> DatabaseDifference:
    # In both environments, and no record of it differs.
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


def _joined(name: str, first: Database | None, second: Database | None) -> Iterator[RecordDifference]:
    """The records of both, each once; those that are the same too."""
    opened = [db for db in (first, second) if db is not None]
    by_item = any(db.duplicates for db in opened)
    # For both if for one: the two have to come in the same order.
    in_memory = any(db.state.order.comparator is not None for db in opened)
    left, right = (_RecordStream(db, by_item=by_item, in_memory=in_memory) for db in (first, second))
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
        db: None for no records.
        by_item: a record is told by its key and its data, as with duplicates.
        in_memory: sort them by their bytes.
    """

    def __init__(self, db: Database | None, *, by_item: bool, in_memory: bool) -> None:
        found = db.items() if db is not None else iter(())
        self._rest = iter(sorted(found)) if in_memory else found
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
        """What orders it, and tells it from others."""
        return self.key, self.data if self._by_item else b""

    def step(self) -> None:
        """Go to the next record."""
        self.current = next(self._rest, None)
