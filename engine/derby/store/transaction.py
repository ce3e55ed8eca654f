"""A transaction of the page store: changes of tables, savepoints, commit and rollback.

* A key is locked before it is read (shared) or changed (exclusive), to the end of the transaction; the table's name is
  locked against being dropped meanwhile. A scan waits for keys that others are changing, but keeps no locks.
* A change of a key changes the heap first, then the index.
* Commit (R-DRB-6): append the end, flush the log through it (group commit, ``commits``), release the locks, then do the
  work that waits for the commit. Rollback is recovery's undo (R-DRB-9): records are read backward, compensated, and the
  end is flushed.
* A savepoint is a number of records. After a rollback to it the transaction continues.

Keys and values are ``bytes``, ``bytearray`` or ``memoryview``. Used in a ``with`` statement the transaction commits, or
rolls back when an exception leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import NamedTuple, Self

from engine.arguments import BytesLike, bytes_of
from engine.derby.containers import Container
from engine.derby.format import column
from engine.derby.recovery.redo import Redo
from engine.derby.store import reclaim
from engine.derby.store.commits import DerbyGroupCommit
from engine.derby.store.index import IndexEntry
from engine.derby.store.locks import LockName, Locks
from engine.derby.store.split import make_room
from engine.derby.store.tables import DEFAULT_PAGE_BYTES, StoreTable, StoreTables
from engine.derby.store.write_path import Core
from engine.errors import DamageError, UsageError, plural

_ALL_TABLES = ""


class StoreParts(NamedTuple):
    """The parts of the store that a transaction uses; ``ended`` is called after every commit."""

    core: Core
    locks: Locks
    commits: DerbyGroupCommit
    tables: StoreTables
    redo: Redo
    ended: Callable[[], None]


class Savepoint(NamedTuple):
    """A place in a transaction to roll back to."""

    transaction: int
    records: int
    works: int


class StoreTransaction:
    """A transaction, created by ``PageStore.begin``; for one thread at a time.

    Arguments:
        parts: the store.
    """

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts
        self._core = parts.core
        self._running = parts.core.begin()
        self._works: list[reclaim.Work] = []
        self._taken: list[tuple[Container, list[int]]] = []
        self._tables_changed = False
        self._ended = False

    def __repr__(self) -> str:
        return f"<StoreTransaction {self.number}, {'ended' if self._ended else 'open'}>"

    @property
    def number(self) -> int:
        """The number of the transaction in the log."""
        return self._running.number

    @property
    def last_instant(self) -> int:
        """Instant of the last record; 0 if the transaction has written nothing."""
        return 0 if self._running.entry is None else self._running.entry.instants[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended:
            return
        if kind is None:
            self.commit()
        elif not self._core.broken:
            self.abort()

    def create_table(self, name: str, page_bytes: int = DEFAULT_PAGE_BYTES) -> None:
        """Make a table.

        Arguments:
            name: the name of the table, 1 to 255 bytes of UTF-8.
            page_bytes: page size: 4096, 8192, 16384 or 32768.

        Raises: RefusedError when the name is taken; UsageError when name or size are not possible.
        """
        self._lock(_ALL_TABLES, name.encode(), exclusive=True)
        with self._core.latch:
            self._tables_changed = True
            self._parts.tables.create(self._running, name, page_bytes)

    def drop_table(self, name: str) -> None:
        """Drop a table; its files are removed after the commit. NotFoundError when no table has the name."""
        self._lock(_ALL_TABLES, name.encode(), exclusive=True)
        with self._core.latch:
            # Read the location before the drop, after which the table is unknown.
            row = self._parts.tables.get(name).row
            self._tables_changed = True
            for key in self._parts.tables.drop(self._running, name):
                self._works.append(reclaim.remove_container(self._parts.redo, key))
            self._works.append(reclaim.purge_catalogue_row(self._parts.tables, row))

    def put(self, name: str, key: BytesLike, value: BytesLike, *, overwrite: bool = True) -> bool:
        """Write a record.

        Arguments:
            name: the table.
            key: the key, at most a quarter of a page less 64 bytes.
            value: the value, of any length.
            overwrite: replace the value of an existing key.

        Returns: False if the key exists and must not be overwritten.

        Raises: NotFoundError if the table does not exist; UsageError if the key is too long; RefusedError if another
            transaction holds the key.
        """
        key, value = bytes_of(key, "key"), bytes_of(value, "value")
        table = self._locked(name, key, exclusive=True)
        if len(key) > table.index.longest_key:
            longest = f"{plural(table.index.longest_key, 'byte')} at most"
            raise UsageError("the key is too long", expected=longest, found=plural(len(key), "byte"))
        with self._core.latch:
            entry = table.index.find(key)
            if entry is None or entry.deleted:
                self._insert(table, key, value, entry)
                return True
            if overwrite:
                self._update(table, entry, value)
            return overwrite

    def get(self, name: str, key: BytesLike) -> bytes | None:
        """The value of a key, or None if it does not exist. NotFoundError without such a table."""
        key = bytes_of(key, "key")
        table = self._locked(name, key, exclusive=False)
        with self._core.latch:
            self._core.require_whole()
            entry = table.index.find(key)
            return None if entry is None or entry.deleted else _value(table, entry)

    def delete(self, name: str, key: BytesLike) -> bool:
        """Delete a record; False if the key does not exist. NotFoundError without such a table."""
        key = bytes_of(key, "key")
        table = self._locked(name, key, exclusive=True)
        with self._core.latch:
            entry = table.index.find(key)
            if entry is None or entry.deleted:
                return False
            table.index.mark(self._running, entry, deleted=True)
            table.heap.delete(self._running, entry.at)
            self._works += reclaim.purge_key(table, key), reclaim.purge_row(table, entry.at)
            return True

    def scan(
        self,
        name: str,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Records in the order of their keys. NotFoundError without such a table.

        Arguments:
            name: the table.
            start: the smallest key wanted; None for the first.
            stop: the range ends before this key; None for no end.
            reverse: the largest key first.
        """
        low, high = (
            None if start is None else bytes_of(start, "start"),
            None if stop is None else bytes_of(stop, "stop"),
        )
        return self._scan(name, low, high, reverse=reverse)

    def _scan(
        self, name: str, start: bytes | None, stop: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        at, inclusive = (stop if reverse else start), not reverse
        while True:
            # Read one leaf at a time, so that the latch is not held while the caller works.
            found = self._batch(name, at, inclusive=inclusive, reverse=reverse)
            for key, value in found:
                if (start is not None and key < start) or (stop is not None and key >= stop):
                    return
                if value is not None:
                    yield key, value
            if not found:
                return
            at, inclusive = found[-1][0], False

    def savepoint(self) -> Savepoint:
        """A savepoint at the current place in the transaction."""
        return Savepoint(self.number, self._running.records, len(self._works))

    def roll_back_to(self, savepoint: Savepoint) -> int:
        """Undo all changes since a savepoint; return the number of compensation records. Locks are kept.

        Raises: UsageError if the savepoint belongs to another transaction, or a rollback went back beyond it.
        """
        if savepoint.transaction != self.number or savepoint.records > self._running.records:
            raise UsageError("the savepoint does not belong to this transaction")
        with self._core.latch:
            written = self._core.roll_back(self._running, savepoint.records)
            # Drop the work of the undone changes: the space that it would reclaim is in use again.
            del self._works[savepoint.works :]
            self._reload()
            return written

    def commit(self, *, durable: bool = True) -> int:
        """Commit; return the instant after the end record, 0 if nothing was written.

        Arguments:
            durable: wait until the commit is on disk; otherwise the next flush makes it durable.
        """
        self._require_open()
        with self._core.latch:
            # From here on the transaction counts as ended, even when the flush fails.
            end = self._core.end(self._running, committed=True)
            self._ended = True
        if end and durable:
            self._parts.commits.make_durable(end)
        with self._core.latch:
            self._parts.locks.release_all(self.number)
            reclaim.run(self._core, [*self._works, *self._unused()])
        self._parts.ended()
        return end

    def abort(self) -> int:
        """Roll everything back; return the number of compensation records written."""
        self._require_open()
        with self._core.latch:
            written = self._core.roll_back(self._running)
            end = self._core.end(self._running, committed=False)
            self._ended = True
            self._reload()
        if end:
            self._parts.commits.make_durable(end)
        with self._core.latch:
            self._parts.locks.release_all(self.number)
            reclaim.run(self._core, self._unused())
        return written

    def _insert(self, table: StoreTable, key: bytes, value: bytes, marked: IndexEntry | None) -> None:
        """Insert a row and its key; a marked index row of the key is reused."""
        columns = column.encode_varbit(key), column.encode_varbit(value)
        # Heap first, then index: a key never leads to a missing row.
        at = table.heap.insert(self._running, columns, self._taking(table))
        if marked is None:
            make_room(table.index, key)
            table.index.insert(self._running, key, at)
        else:
            table.index.relocate(self._running, marked, at)
            table.index.mark(self._running, marked, deleted=False)

    def _update(self, table: StoreTable, entry: IndexEntry, value: bytes) -> None:
        """Replace the value of a row, in place or elsewhere."""
        heap = table.heap
        pieces = heap.pieces_of(entry.at)
        columns = column.encode_varbit(entry.key), column.encode_varbit(value)
        if heap.update(self._running, entry.at, columns, self._taking(table)):
            # The space of the old value stays reserved until the commit, so undo always fits.
            self._works.append(reclaim.free_slack(heap, entry.at))
            if pieces is not None:
                self._works.append(reclaim.free_pieces(heap, pieces))
            return
        # No room in place: the row moves, and the key is updated before the old row is marked.
        moved = heap.insert(self._running, columns, self._taking(table))
        table.index.relocate(self._running, entry, moved)
        heap.delete(self._running, entry.at)
        self._works.append(reclaim.purge_row(table, entry.at))

    def _batch(
        self, name: str, at: bytes | None, *, inclusive: bool, reverse: bool
    ) -> list[tuple[bytes, bytes | None]]:
        """Keys and values of one leaf, None for a deleted key; empty at the end. Waits for the first key's lock."""
        while True:
            found: list[tuple[bytes, bytes | None]] = []
            table = self._table(name)
            with self._core.latch:
                self._core.require_whole()
                entries = table.index.batch(at, inclusive=inclusive, reverse=reverse)
                for entry in entries:
                    # The next call waits for this lock, and reads the rest of the leaf.
                    if not self._parts.locks.is_readable(self.number, LockName(name, entry.key)):
                        break
                    found.append((entry.key, None if entry.deleted else _value(table, entry)))
            if found or not entries:
                return found
            # Wait for the lock without holding the latch.
            self._lock(name, entries[0].key, exclusive=False)

    def _table(self, name: str) -> StoreTable:
        self._require_open()
        self._lock(_ALL_TABLES, name.encode(), exclusive=False)
        with self._core.latch:
            return self._parts.tables.get(name)

    def _locked(self, name: str, key: bytes, *, exclusive: bool) -> StoreTable:
        table = self._table(name)
        self._lock(name, key, exclusive=exclusive)
        return table

    def _lock(self, name: str, key: bytes, *, exclusive: bool) -> None:
        self._require_open()
        self._parts.locks.take(self.number, LockName(name, key), exclusive=exclusive)

    def _taking(self, table: StoreTable) -> list[int]:
        """A new list for the overflow pages that are taken in a heap."""
        taken = list[int]()
        self._taken.append((table.heap.container, taken))
        return taken

    def _unused(self) -> list[reclaim.Work]:
        """Work that returns overflow pages left empty by the rollback."""
        return [reclaim.give_back_taken(found, number) for found, numbers in self._taken for number in numbers]

    def _reload(self) -> None:
        if self._tables_changed:
            self._parts.tables.reload()

    def _require_open(self) -> None:
        if self._ended:
            raise UsageError("the transaction has ended")
        self._core.require_whole()


def _value(table: StoreTable, entry: IndexEntry) -> bytes:
    found = table.heap.fetch(entry.at)
    if found is None:
        raise DamageError(
            f"a key of table {table.name!r} leads to a deleted row",
            file=table.heap.container.path,
            consequence="index and heap disagree",
            hint="run verify; restore from a backup and roll forward",
        )
    return column.decode_varbit(found.columns[1])
