"""One database: get, put, delete, ranges, cursors.

Without a transaction, a read sees committed records and keeps no lock. A write then has a transaction of its own; in a
database that is not transactional, it is logged without a transaction. In a database with sorted duplicates a record is
a key *with* one of its data items.

A database can be used like a dictionary of its committed records: ``db[key]``, ``key in db``, ``db[key] = data``,
``del db[key]``, ``for key, data in db``, ``db[b"a":b"m"]``, ``reversed(db)``. It has no ``len``: ``count`` walks over
the whole tree. Threads may share a handle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, overload

from engine.arguments import BytesLike, bytes_of
from engine.db.arguments import check_record
from engine.db.cursor import Cursor
from engine.db.engine import Engine
from engine.db.key_range import KeyBounds, RecordRange, key_range, single_key
from engine.db.record_keys import comparable_key, key_and_data, key_bounds
from engine.db.scan import LiveSlots, data_at, has_whole_slots, live_slots, lock_of, records_between
from engine.db.transaction import Transaction, inner_of
from engine.db.write_operation import write_operation
from engine.db.writes import Dependents, Handle, RecordWriter
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key, UnknownOrderError
from engine.tree.tree import find_by_walk, read_ln, share_before
from engine.txn.payload import PutMode, user_payload
from engine.txn.txn import LockMode, Txn

if TYPE_CHECKING:
    from engine.db.sequence import Sequence, SequenceConfig
    from engine.db.whole_tree import PreloadReport, TreeStats

# Number of records between two progress reports.
_TOLD_RECORDS: Final = 1000
# Looked up once: getting a member from the enumeration class costs as much as a tenth of a read.
_DEFAULT: Final = LockMode.DEFAULT
_NEW_KEY: Final = PutMode.NEW_KEY


class Database:
    """A handle of a database, created by ``Environment.open_database`` and ``create_database``.

    Arguments:
        engine, state: the environment and the database.
        dependents: the secondaries of the database, and the secondaries whose foreign keys refer to it.

    Attributes:
        handle: used by cursors and secondaries.
    """

    def __init__(self, engine: Engine, state: DatabaseState, dependents: Dependents) -> None:
        self._engine = engine
        self._dependents = dependents
        self._writer = RecordWriter(engine, state, dependents)
        self.handle = Handle(engine, state, self._writer)
        self.state = state
        self._plain = state.order.plain
        # The log does not record whether a database is transactional; as in JE, each handle sets it again.
        if not engine.read_only and not state.internal:
            state.transactional = engine.config.transactional and not state.deferred
        state.handles += 1

    @property
    def name(self) -> str:
        """The name of the database."""
        return self.state.name or ""

    @property
    def duplicates(self) -> bool:
        """Whether a key may have several data items."""
        return self.state.duplicates

    def close(self) -> None:
        """Close the handle. Closing twice is harmless."""
        if self.handle.is_open:
            self.handle.is_open = False
            self.state.handles -= 1

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        more = " with duplicates" if self.duplicates else ""
        return f"<Database {self.name!r}{more}, {self.handle.condition}>"

    def get(
        self,
        key: BytesLike,
        txn: Transaction | None = None,
        *,
        for_update: bool = False,
        lock: LockMode = LockMode.DEFAULT,
    ) -> bytes | None:
        """The data of a record; with duplicates the first data item of the key; None without a record.

        Arguments:
            txn: the transaction that takes the locks; None reads committed records.
            for_update: take a write lock, since an update follows; short for ``LockMode.RMW``.
            lock: a lock mode that overrides the isolation of the transaction.
        """
        if type(key) is not bytes:
            key = bytes_of(key, "key")
        if txn is None and self._plain and not for_update and lock is _DEFAULT:
            # The fast path for most reads, without the calls of the general one.
            engine, state, handle = self._engine, self.state, self.handle
            if not handle.is_open or engine.stopped or state.deleted:
                handle.check()
            return data_at(engine, state, key)
        if for_update:
            lock = LockMode.RMW
        if self.duplicates or (lock is LockMode.READ_COMMITTED and txn is not None):
            with self.cursor(txn) as cursor:
                first = cursor.search(key, lock)
                return None if first is None else first[1]
        self._check()
        self._require_shown(key)
        if txn is None:
            # Without a transaction the read waits for a writer, but keeps no lock.
            return data_at(self._engine, self.state, key if self._plain else self._key(key), lock)
        # The same as ``inner_of``, without the call.
        is_ours = type(txn) is Transaction and txn.engine is self._engine
        locker = txn.inner if is_ours else inner_of(txn, self._engine)
        assert locker is not None
        locker.check_usable()
        data = self._engine.records.get(self.state, self._key(key), locker, lock_of(locker, lock))
        self._engine.keep_budget()
        return data

    def _require_shown(self, key: bytes) -> None:
        """If the order of keys is learned, find the key by a walk, so that the following search begins at its node.

        Raises:
            UnknownOrderError: no node has the key, but the Java class may treat another key as equal to it.
        """
        learned = self.state.order.learned
        if learned is None:
            return
        with self._engine.latch:
            learned.near = find_by_walk(self._engine.ctx, self.state, self.state.order.wrap(key))
        if learned.near is None or learned.skipped:
            raise UnknownOrderError(learned)

    def has(self, key: BytesLike, data: BytesLike) -> bool:
        """Whether a key has a data item."""
        with self.cursor() as cursor:
            return cursor.search_both(key, data) is not None

    def put(
        self,
        key: BytesLike,
        data: BytesLike,
        txn: Transaction | None = None,
        *,
        mode: PutMode = PutMode.OVERWRITE,
        expiration: int = 0,
        update_expiration: bool = False,
    ) -> bool:
        """Insert or update a record; with duplicates add a data item.

        Arguments:
            mode: what to do if the record exists, or does not; an expired record counts as missing. NEW_KEY also
                forbids other items of the same key, like JE's putNoOverwrite; INSERT_ONLY forbids only the same item,
                like putNoDupData.
            expiration: for a new record: days since 1970, or negative hours; 0 for none.
            update_expiration: an update sets the expiration too; otherwise the record keeps its own.

        Returns:
            False when the mode did not allow it.
        """
        engine, state, handle = self._engine, self.state, self.handle
        # The same as ``_check``, without the call; ``check_writes`` checks the rest.
        if not handle.is_open or state.deleted:
            handle.check()
        if type(key) is not bytes:
            key = bytes_of(key, "key")
        if type(data) is not bytes:
            data = bytes_of(data, "data")
        check_record(key, data, expiration, mode)
        wanted, stored = (key, data) if self._plain else (self._key(key, data), b"" if self.duplicates else data)
        if txn is not None and not state.deferred and not self._dependents.secondaries and mode is not _NEW_KEY:
            # The same as ``operation``, without creating its object.
            locker = inner_of(txn, engine)
            assert locker is not None
            engine.check_writes()
            done = engine.records.put_user(state, wanted, stored, locker, mode, expiration, update_expiration)
            if engine.ctx.used_bytes > engine.evictor.budget_bytes:
                engine.keep_budget()
            return done
        self._check()
        payload = user_payload(stored, expiration, update_expiration)
        with write_operation(engine, inner_of(txn, engine), db=state) as operation:
            return self._writer.put(wanted, payload, operation, mode)

    def delete(self, key: BytesLike, txn: Transaction | None = None, *, data: BytesLike | None = None) -> int:
        """Delete a record; with duplicates all data items of the key, or only ``data``.

        Returns:
            The number of records deleted.
        """
        self._check()
        key, data, given = bytes_of(key, "key"), None if data is None else bytes_of(data, "data"), self._inner(txn)
        keys = [self._key(key, data or b"")]
        if self.duplicates and data is None:
            low, high = key_bounds(self.state, key)
            between = records_between(self._engine, self.state, low, high, locker=given)
            keys = [record.key for found in between for record in found]
        removed = 0
        with write_operation(self._engine, given, db=self.state) as locker:
            for wanted in keys:
                removed += self._writer.delete(wanted, locker)
        return removed

    def items(
        self,
        start: BytesLike | None = None,
        end: BytesLike | None = None,
        *,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        txn: Transaction | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Records with ``start <= key < end``, in key order or in reverse.

        Arguments:
            prefix: only keys that begin with it; not together with start or end.
            txn: the transaction that takes the locks.
        """
        self._check()
        return self._items(key_range(self.state, start, end, prefix), reverse, self._inner(txn))

    def _items(self, wanted: KeyBounds, reverse: bool, locker: Txn | None) -> Iterator[tuple[bytes, bytes]]:
        low, high, prefix = wanted
        # The handle may have been closed since the call of ``items``.
        self._check()
        for found in records_between(self._engine, self.state, low, high, backward=reverse, locker=locker):
            if self._plain:
                for plain, data, _ in found:
                    yield plain, data
            else:
                for record in found:
                    key, data = key_and_data(self.state, record.key, record.data)
                    if prefix is None or key.startswith(prefix):
                        yield key, data

    def cursor(self, txn: Transaction | None = None) -> Cursor:
        """A cursor, which stands on no record."""
        self._check()
        return Cursor(self.handle, txn)

    def sequence(
        self, key: BytesLike, config: SequenceConfig | None = None, txn: Transaction | None = None
    ) -> Sequence:
        """A sequence whose state is the record of a key; see ``engine.db.sequence``."""
        from engine.db.sequence import Sequence, SequenceConfig

        self._check()
        return Sequence(self._engine, self.state, bytes_of(key, "key"), config or SequenceConfig(), txn, self._check)

    def scan_disk_order(self, *, keys_only: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """All records at this moment, committed or not, in disk order; see ``engine.db.whole_tree``."""
        from engine.db.whole_tree import scan_disk_order

        self._check()
        return scan_disk_order(self._engine, self.state, keys_only=keys_only)

    def preload(
        self, *, records: bool = False, max_bytes: int | None = None, max_ms: int | None = None
    ) -> PreloadReport:
        """Load the tree, and with ``records`` the data of its records, into the cache, within the limits given."""
        from engine.db.whole_tree import preload

        self._check()
        return preload(self._engine, self.state, records=records, max_bytes=max_bytes, max_ms=max_ms)

    def stats(self) -> TreeStats:
        """Count the nodes and slots of the tree by walking it."""
        from engine.db.whole_tree import tree_stats

        self._check()
        return tree_stats(self._engine, self.state)

    def sync(self) -> None:
        """Make the database durable: a deferred-write database from memory, others by syncing the log."""
        self._check()
        self._engine.check_writable()
        if self.state.deferred and not self.state.temporary:
            self._engine.checkpointer.sync_database(self.state)
        self._engine.sync()

    def count(self, told: Callable[[int, float], None] | None = None) -> int:
        """Number of records, by walking over all leaf nodes; records are not read.

        Arguments:
            told: called repeatedly with the number of records so far, and the share of the tree counted so far, 0 to 1.
        """
        slots = self.slots()
        total = due = 0
        if slots is None:
            runs = ([self._key(key, data)] for key, data in self.items())
        else:
            runs = (found.keys for found in slots)
        for keys in runs:
            total += len(keys)
            # There is nothing to report for a node whose records are all deleted.
            if told is not None and total >= due and keys:
                due = total + _TOLD_RECORDS
                with self._engine.latch:
                    told(total, share_before(self._engine.ctx, self.state, keys[-1]))
        return total

    def slots(self, start: BytesLike | None = None, end: BytesLike | None = None) -> Iterator[LiveSlots] | None:
        """The records as their slots describe them, one leaf node at a time; None if the slots alone are not reliable.

        Arguments:
            start, end: first key, and the key to stop before; not allowed where a class orders the keys.
        """
        self._check()
        low, high, _ = key_range(self.state, start, end)
        return live_slots(self._engine, self.state, low, high) if has_whole_slots(self._engine) else None

    def data_at(self, lsn: int) -> bytes | None:
        """The data of the record that a slot references by LSN.

        Raises:
            DamageError: the entry at the LSN is not a record of this database.
        """
        with self._engine.latch:
            return read_ln(self._engine.ctx, self.state, lsn).data

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self.items()

    def __reversed__(self) -> Iterator[tuple[bytes, bytes]]:
        return self.items(reverse=True)

    @overload
    def __getitem__(self, key: BytesLike) -> bytes: ...

    @overload
    def __getitem__(self, key: slice[Any, Any, Any]) -> RecordRange[tuple[bytes, bytes]]: ...

    def __getitem__(self, key: BytesLike | slice[Any, Any, Any]) -> bytes | RecordRange[tuple[bytes, bytes]]:
        """The data of a key, with duplicates its first data item; or the records of a slice of keys, in key order.

        Raises:
            KeyError: the key has no record.
        """
        if isinstance(key, slice):
            self._check()
            return RecordRange(self.items, key)
        data = self.get(key)
        if data is None:
            raise KeyError(bytes(key))
        return data

    def __setitem__(self, key: BytesLike, data: BytesLike) -> None:
        """Insert or update a record in a transaction of its own; with duplicates add a data item."""
        self.put(single_key(key, "assigned to"), data)

    def __delitem__(self, key: BytesLike) -> None:
        """Delete the record of a key, with duplicates all its data items, in a transaction of its own.

        Raises:
            KeyError: the key has no record.
        """
        if not self.delete(single_key(key, "deleted")):
            raise KeyError(bytes(key))

    def __contains__(self, key: object) -> bool:
        """Whether a key has a record."""
        return self.get(bytes_of(key, "key")) is not None

    def _key(self, key: bytes, data: bytes = b"") -> Key:
        return key if self._plain else comparable_key(self.state, key, data)

    def _inner(self, txn: Transaction | None) -> Txn | None:
        return inner_of(txn, self._engine)

    def _check(self) -> None:
        self.handle.check()
