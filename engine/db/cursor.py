"""A cursor: a position among the records of a database (R-TXN-20).

It stands on a record, or on none. It remembers the key, so it survives splits, compression and the deletion of its own
record: ``next`` goes on after that key.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.db.engine import Engine
from engine.db.scan import ScannedRecord, comparable_key, key_and_data, records_between, walker_of
from engine.db.transaction import Transaction, inner_of
from engine.errors import RefusedError
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.txn.records import USER, Payload, PutMode
from engine.txn.txn import Isolation

Record = tuple[bytes, bytes]


class Cursor:
    """A position in a database; ``Database.cursor`` makes it.

    Arguments:
        engine, state: the database.
        txn: whose locks it takes; None reads committed records and keeps no lock.
        check: refuses when the database's handle or the environment is closed.
    """

    def __init__(
        self, engine: Engine, state: DatabaseState, txn: Transaction | None, check: Callable[[], None]
    ) -> None:
        self._check = check
        self._engine = engine
        self._state = state
        self._txn = txn
        self._at: ScannedRecord | None = None
        self._held = -1

    def first(self) -> Record | None:
        """The smallest record, or None in an empty database."""
        return self._move(None, inclusive=True, backward=False)

    def last(self) -> Record | None:
        """The largest record, or None in an empty database."""
        return self._move(None, inclusive=True, backward=True)

    def next(self) -> Record | None:
        """The record after; the first one when the cursor stands nowhere. None at the end; it stays where it is."""
        return self._move(self._key(), inclusive=False, backward=False)

    def prev(self) -> Record | None:
        """The record before; the last one when the cursor stands nowhere."""
        return self._move(self._key(), inclusive=False, backward=True)

    def search(self, key: bytes) -> Record | None:
        """The record of a key; with duplicates its first. None, and the cursor stays, when there is none."""
        before = self._at
        found = self.search_range(key)
        if found is None or found[0] != key:
            self._at = before
            return None
        return found

    def search_range(self, key: bytes, data: bytes = b"") -> Record | None:
        """The first record at or after a key (with duplicates: key and data item)."""
        return self._move(comparable_key(self._state, key, data), inclusive=True, backward=False)

    def next_dup(self) -> Record | None:
        """The next data item of the same key; None when there is none."""
        return self._within_key(backward=False)

    def prev_dup(self) -> Record | None:
        """The data item before, of the same key."""
        return self._within_key(backward=True)

    def next_no_dup(self) -> Record | None:
        """The first record of the next key."""
        here = self.current()
        found = self.next()
        while here is not None and found is not None and found[0] == here[0]:
            found = self.next()
        return found

    def count(self) -> int:
        """How many data items the key of the current record has."""
        self._check()
        here = self.current()
        if here is None:
            raise self._nowhere()
        # The key with a zero byte is the next possible key, so all data items lie before it.
        low, high = comparable_key(self._state, here[0]), comparable_key(self._state, here[0] + b"\0")
        return sum(map(len, records_between(self._engine, self._state, low, high, locker=inner_of(self._txn))))

    def skip(self, records: int) -> int:
        """Move over records, forward or (negative) backward; returns how many there were."""
        moved = 0
        for _ in range(abs(records)):
            if (self.next() if records > 0 else self.prev()) is None:
                break
            moved += 1
        return moved

    def current(self) -> Record | None:
        """The record that the cursor stands on."""
        return None if self._at is None else key_and_data(self._state, self._at.key, self._at.data)

    def put_current(self, data: bytes) -> None:
        """Replace the data of the current record; not with duplicates, where the data is part of the key."""
        self._check()
        if self._at is None:
            raise self._nowhere()
        if self._state.duplicates:
            raise RefusedError("a data item of a duplicates database is replaced by deleting and inserting it")
        with self._engine.operation(inner_of(self._txn), db=self._state) as locker:
            payload = Payload(data, USER)
            done = self._engine.records.put(self._state, self._at.key, payload, locker, PutMode.UPDATE_ONLY)
        if not done:
            raise RefusedError("the cursor's record has been deleted")
        self._at = self._at._replace(data=data)

    def delete(self) -> bool:
        """Delete the current record; False when it is gone already. The cursor keeps its place."""
        self._check()
        if self._at is None:
            raise self._nowhere()
        with self._engine.operation(inner_of(self._txn), db=self._state) as locker:
            return self._engine.records.delete(self._state, self._at.key, locker, Payload(None, USER))

    def close(self) -> None:
        """Give up the position."""
        self._release()
        self._at = None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _key(self) -> Key | None:
        return None if self._at is None else self._at.key

    def _move(self, key: Key | None, *, inclusive: bool, backward: bool) -> Record | None:
        self._check()
        locker = inner_of(self._txn)
        if locker is not None:
            locker.check_usable()
        found = walker_of(self._engine, self._state, locker, backward=backward).step(key, inclusive=inclusive, limit=1)
        if not found:
            return None
        # Only after the new record is locked: without a record the cursor keeps its place and its lock.
        self._release()
        self._at = found[0]
        self._held = found[0].lsn
        return self.current()

    def _within_key(self, *, backward: bool) -> Record | None:
        before, here = self._at, self.current()
        if here is None:
            raise self._nowhere()
        found = self.prev() if backward else self.next()
        if found is None or found[0] != here[0]:
            self._at = before
            return None
        return found

    def _release(self) -> None:
        """Under read-committed the lock on the record that is left is given back."""
        locker = inner_of(self._txn)
        # A write lock is held to the end of the transaction (R-TXN-20).
        if locker is not None and locker.isolation is Isolation.READ_COMMITTED and self._held not in locker.writes:
            self._engine.locks.release(self._held, locker)
            locker.locks.pop(self._held, None)

    def _nowhere(self) -> RefusedError:
        return RefusedError("the cursor stands on no record", hint="move it first")
