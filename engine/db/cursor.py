"""A cursor: a position among the records of a database (R-TXN-20).

A cursor stands on a record, or on no record. It remembers the key of its record, so it survives splits, compression and
the deletion of this record: ``next`` continues after the key. A search without a result leaves the cursor where it was,
with its lock.

``for key, data in cursor`` moves it from its record, or from the first, to the end; ``items`` moves it over a range. It
stands on the record that the loop has, which may be changed or deleted there.

Each movement takes a ``LockMode``. With ``READ_COMMITTED``, as a mode or as the isolation, the lock on a record is
released when the cursor leaves it. Without a transaction no lock is kept.

Example: all data items of a key, beginning at a given data item::

    with db.cursor(txn) as cursor:
        found = cursor.search_both_range(b"key", b"from")
        while found is not None:
            found = cursor.next_dup()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.arguments import BytesLike, bytes_of
from engine.db.arguments import check_record
from engine.db.key_range import KeyBounds, key_range, shown_key
from engine.db.record_keys import comparable_key, key_and_data, key_bounds, range_key
from engine.db.scan import RecordWalker, ScannedRecord, walker_of
from engine.db.transaction import Transaction, inner_of
from engine.db.write_operation import write_operation
from engine.db.writes import Handle
from engine.errors import ClosedError, RefusedError
from engine.tree.keys import Key
from engine.txn.lock_types import LockType
from engine.txn.payload import PutMode, user_payload
from engine.txn.txn import Isolation, LockMode, Txn

Record = tuple[bytes, bytes]
_DEFAULT = LockMode.DEFAULT
_AT_A_TIME: Final = 1000


class Cursor:
    """A position in a database, created by ``Database.cursor``. One thread at a time may use it.

    Arguments:
        handle: the database.
        txn: the transaction that takes the locks; None reads committed records and keeps no lock.
    """

    def __init__(self, handle: Handle, txn: Transaction | None) -> None:
        self._handle = handle
        self._engine = handle.engine
        self._state = handle.state
        self._txn = txn
        self._locker = inner_of(txn, handle.engine)
        self._is_open = True
        self._at: ScannedRecord | None = None
        # The version whose lock is released when the cursor leaves it.
        self._held: int | None = None

    def __repr__(self) -> str:
        if not self._is_open:
            where = "closed"
        elif self._handle.condition != "open":
            where = f"database {self._handle.condition}"
        else:
            here = self.current()
            where = "on no record" if here is None else f"at {shown_key(here[0])}"
        return f"<Cursor of {self._state.name or ''!r}, {where}>"

    def dup(self, *, same_position: bool = True) -> Cursor:
        """Another cursor of the same transaction.

        Arguments:
            same_position: the new cursor stands on the same record; otherwise on none.
        """
        self.check()
        other = Cursor(self._handle, self._txn)
        if same_position:
            other._at = self._at
        return other

    def first(self, lock: LockMode = _DEFAULT) -> Record | None:
        """The smallest record, or None in an empty database."""
        return self.move(None, lock)

    def last(self, lock: LockMode = _DEFAULT) -> Record | None:
        """The largest record, or None in an empty database."""
        return self.move(None, lock, backward=True)

    def next(self, lock: LockMode = _DEFAULT) -> Record | None:
        """The next record; the first one if the cursor stands on none. None at the end: the cursor stays where it
        is.
        """
        return self.move(self.place, lock, inclusive=False)

    def prev(self, lock: LockMode = _DEFAULT) -> Record | None:
        """The previous record; the last one if the cursor stands on none."""
        return self.move(self.place, lock, inclusive=False, backward=True)

    def search(self, key: BytesLike, lock: LockMode = _DEFAULT) -> Record | None:
        """The record of a key; with duplicates its first. None if the key has no record: the cursor stays where it
        is.
        """
        key = bytes_of(key, "key")
        if self._state.duplicates and self._state.order.learned is None:
            low, high = key_bounds(self._state, key)
            return self.move(low, lock, bound=high)
        return self._exact(comparable_key(self._state, key), lock)

    def search_range(self, key: BytesLike, data: BytesLike | None = None, lock: LockMode = _DEFAULT) -> Record | None:
        """The first record at or after a key; with duplicates, at or after a key and a data item."""
        key, data = bytes_of(key, "key"), None if data is None else bytes_of(data, "data")
        return self.move(range_key(self._state, key) if data is None else comparable_key(self._state, key, data), lock)

    def search_both(self, key: BytesLike, data: BytesLike, lock: LockMode = _DEFAULT) -> Record | None:
        """The record of a key and a data item. None if there is no such record: the cursor stays where it is."""
        key, data = bytes_of(key, "key"), bytes_of(data, "data")
        wanted = comparable_key(self._state, key, data)
        return self._exact(wanted, lock, data=None if self._state.duplicates else data)

    def search_both_range(self, key: BytesLike, data: BytesLike, lock: LockMode = _DEFAULT) -> Record | None:
        """The first data item of a key at or after a given one; without duplicates the same as ``search_both``."""
        key, data = bytes_of(key, "key"), bytes_of(data, "data")
        if not self._state.duplicates:
            return self.search_both(key, data, lock)
        _, high = key_bounds(self._state, key)
        return self.move(comparable_key(self._state, key, data), lock, bound=high)

    def next_dup(self, lock: LockMode = _DEFAULT) -> Record | None:
        """The next data item of the same key; None after the last."""
        return self._within_key(lock, backward=False)

    def prev_dup(self, lock: LockMode = _DEFAULT) -> Record | None:
        """The previous data item of the same key."""
        return self._within_key(lock, backward=True)

    def next_no_dup(self, lock: LockMode = _DEFAULT) -> Record | None:
        """The first record of the next key; the first of all if the cursor stands on no record."""
        return self._past_key(lock, backward=False)

    def prev_no_dup(self, lock: LockMode = _DEFAULT) -> Record | None:
        """The last record of the previous key; the last of all if the cursor stands on no record."""
        return self._past_key(lock, backward=True)

    def count(self) -> int:
        """The number of data items of the current record's key; 0 once they are deleted.

        As in JE no record is locked for this: records count whether committed or not.
        """
        self.check()
        here = self.current()
        if here is None:
            raise self._nowhere()
        walker = RecordWalker(self._engine, self._state, None, None, backward=False)
        if not self._state.duplicates:
            return int(walker.exact(comparable_key(self._state, here[0])) is not None)
        low, high = key_bounds(self._state, here[0])
        walker = RecordWalker(self._engine, self._state, None, None, backward=False, bound=high)
        counted, at, inclusive = 0, low, True
        while found := walker.step(at, inclusive=inclusive, limit=_AT_A_TIME):
            counted, at, inclusive = counted + len(found), found[-1].key, False
        return counted

    def skip(self, records: int, lock: LockMode = _DEFAULT) -> int:
        """Move forward over records, or backward if negative; returns the number of records passed.

        Only the last record is locked; those in between are counted whether committed or not, as in JE. A cursor that
        stands on no record starts at the first, or last, record; JE refuses this.
        """
        self._ready()
        walker = RecordWalker(self._engine, self._state, None, None, backward=records < 0)
        while True:
            moved, at = 0, self.place
            while moved < abs(records):
                left = abs(records) - moved
                # One step may return more than needed: all records of a node.
                found = walker.step(at, inclusive=False, limit=left)[:left]
                if not found:
                    break
                moved, at = moved + len(found), found[-1].key
            # While this cursor waited for the lock, the transaction that held the lock may have removed the record by
            # an abort; then move again.
            if at is None or not moved or self._exact(at, lock) is not None:
                return moved

    def current(self) -> Record | None:
        """The current record, as it was read."""
        return None if self._at is None else key_and_data(self._state, self._at.key, self._at.data)

    def reread(self, lock: LockMode = _DEFAULT) -> Record | None:
        """The current record as it is now, locked; None if it has been deleted or has expired.

        Raises:
            RefusedError: the cursor stands on no record.
        """
        if self._at is None:
            raise self._nowhere()
        return self._exact(self._at.key, lock)

    def put(
        self,
        key: BytesLike,
        data: BytesLike,
        *,
        mode: PutMode = PutMode.OVERWRITE,
        expiration: int = 0,
        update_expiration: bool = False,
    ) -> bool:
        """Insert or update a record, and stand on it; see ``Database.put``."""
        self.check()
        key, data = bytes_of(key, "key"), bytes_of(data, "data")
        check_record(key, data, expiration, mode)
        wanted = comparable_key(self._state, key, data)
        payload = user_payload(b"" if self._state.duplicates else data, expiration, update_expiration)
        with write_operation(self._engine, self._locker, db=self._state) as locker:
            if not self._handle.writer.put(wanted, payload, locker, mode):
                return False
        self.give_back()
        self._at = ScannedRecord(wanted, b"" if self._state.duplicates else data, 0)
        return True

    def put_current(self, data: BytesLike, *, expiration: int = 0, update_expiration: bool = False) -> None:
        """Replace the data of the current record.

        With duplicates the data is a part of the key: the new data must be equal under the order of data items, which
        in the default order means identical. This is useful for setting a new expiration.

        Arguments:
            expiration, update_expiration: see ``Database.put``.

        Raises:
            RefusedError: the record is gone, or the new data item would sort to another place.
        """
        self.check()
        data = bytes_of(data, "data")
        if self._at is None:
            raise self._nowhere()
        check_record(b"", data, expiration)
        wanted, kept = self._at.key, data
        if self._state.duplicates:
            wanted, kept = comparable_key(self._state, key_and_data(self._state, wanted, b"")[0], data), b""
            if wanted != self._at.key:
                raise RefusedError(
                    "a data item cannot be replaced by one that is not equal under the order of data items",
                    hint="delete it and insert the other one",
                )
        with write_operation(self._engine, self._locker, db=self._state) as locker:
            payload = user_payload(kept, expiration, update_expiration)
            done = self._handle.writer.put(wanted, payload, locker, PutMode.UPDATE_ONLY)
        if not done:
            raise RefusedError("the cursor's record has been deleted")
        self._at = ScannedRecord(wanted, kept, 0)

    def delete(self) -> bool:
        """Delete the current record; False if it is already gone. The cursor keeps its place."""
        self.check()
        if self._at is None:
            raise self._nowhere()
        with write_operation(self._engine, self._locker, db=self._state) as locker:
            return self._handle.writer.delete(self._at.key, locker)

    def reads_uncommitted(self, lock: LockMode) -> bool:
        """Whether a movement of that mode takes no lock."""
        locker = self._locker
        relaxed = locker is not None and locker.isolation is Isolation.READ_UNCOMMITTED
        return lock is LockMode.READ_UNCOMMITTED or (relaxed and lock is LockMode.DEFAULT)

    def give_back(self) -> None:
        """Release the lock that would be released when the cursor leaves its record."""
        left, self._held = self._held, None
        if left is not None:
            self._give_back(left)

    def close(self) -> None:
        """Close the cursor and release its position. Closing twice is harmless."""
        self.give_back()
        self._at = None
        self._is_open = False

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Record]:
        return self._rest(backward=False)

    def __reversed__(self) -> Iterator[Record]:
        return self._rest(backward=True)

    def items(
        self,
        start: BytesLike | None = None,
        end: BytesLike | None = None,
        *,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        lock: LockMode = _DEFAULT,
    ) -> Iterator[Record]:
        """Move over the records with ``start <= key < end``; see ``Database.items``."""
        self.check()
        return self._items(key_range(self._state, start, end, prefix), lock, reverse)

    def _items(self, wanted: KeyBounds, lock: LockMode, reverse: bool) -> Iterator[Record]:
        low, high, prefix = wanted
        at, inclusive, bound = (high, False, low) if reverse else (low, True, high)
        found = self.move(at, lock, inclusive=inclusive, backward=reverse, bound=bound)
        while found is not None:
            if prefix is None or found[0].startswith(prefix):
                yield found
            found = self.move(self.place, lock, inclusive=False, backward=reverse, bound=bound)

    def _rest(self, *, backward: bool) -> Iterator[Record]:
        found = None if self._at is None else self.reread()
        while found is not None or (found := self.prev() if backward else self.next()) is not None:
            yield found
            found = None

    @property
    def place(self) -> Key | None:
        """The key of its record in comparable form; None if it stands on no record."""
        return None if self._at is None else self._at.key

    def move(
        self,
        key: Key | None,
        lock: LockMode,
        *,
        inclusive: bool = True,
        backward: bool = False,
        bound: Key | None = None,
    ) -> Record | None:
        """The record at or next to a key in comparable form, for cursors over secondaries; see ``RecordWalker``."""
        locker, held = self._ready()
        walker = walker_of(self._engine, self._state, locker, lock, backward=backward, bound=bound)
        found = walker.step(key, inclusive=inclusive, limit=1)
        return self._stand(found[0], locker, lock, held) if found else None

    def _exact(self, key: Key, lock: LockMode, data: bytes | None = None) -> Record | None:
        """The record of exactly this key, and, if ``data`` is given, only with that data."""
        locker, held = self._ready()
        if locker is not None and locker.isolation is Isolation.SERIALIZABLE:
            # The lock on the next record guards the gap before it.
            walker = walker_of(self._engine, self._state, locker, lock)
            found = next(iter(walker.step(key, inclusive=True, limit=1)), None)
        else:
            found = walker_of(self._engine, self._state, locker, lock).exact(key)
        if found is None or found.key != key or (data is not None and found.data != data):
            return None
        return self._stand(found, locker, lock, held)

    def _ready(self) -> tuple[Txn | None, int]:
        """The transaction, and the number of its locks."""
        self.check()
        locker = self._locker
        if locker is None:
            return None, 0
        locker.check_usable()
        return locker, len(locker.locks)

    def _stand(self, found: ScannedRecord, locker: Txn | None, lock: LockMode, held: int) -> Record | None:
        # The old lock is released only now, after the new record is locked.
        left, self._held = self._held, None
        self._at = found
        if locker is not None and _is_brief(locker, lock):
            # A lock that the transaction already held stays: other operations rely on it.
            is_new = len(locker.locks) > held and next(reversed(locker.locks)) == found.lsn
            self._held = found.lsn if is_new or left == found.lsn else None
        if left is not None and left != self._held:
            self._give_back(left)
        return self.current()

    def _within_key(self, lock: LockMode, *, backward: bool) -> Record | None:
        here = self.current()
        if here is None:
            raise self._nowhere()
        if not self._state.duplicates:
            self.check()
            return None
        if self._state.order.learned is None:
            low, high = key_bounds(self._state, here[0])
            return self.move(self.place, lock, inclusive=False, backward=backward, bound=low if backward else high)
        before = self._at
        found = self.prev(lock) if backward else self.next(lock)
        if found is None or found[0] != here[0]:
            self._at = before
            return None
        return found

    def _past_key(self, lock: LockMode, *, backward: bool) -> Record | None:
        here = self.current()
        if here is None or not self._state.duplicates:
            return self.prev(lock) if backward else self.next(lock)
        if self._state.order.learned is None:
            low, high = key_bounds(self._state, here[0])
            return self.move(low if backward else high, lock, inclusive=False, backward=backward)
        before = self._at
        found: Record | None = here
        while found is not None and found[0] == here[0]:
            found = self.prev(lock) if backward else self.next(lock)
        if found is None:
            self._at = before
        return found

    def _give_back(self, lsn: int) -> None:
        locker = self._locker
        # A write lock is held to the end of the transaction (R-TXN-20).
        if locker is None or lsn in locker.writes:
            return
        for owner, lock_type in self._engine.locks.owners(lsn):
            if owner is locker and lock_type is LockType.READ:
                self._engine.locks.release(lsn, locker)
                locker.locks.pop(lsn, None)

    def check(self) -> None:
        """Refuse if the cursor, its handle or the environment is closed."""
        self._handle.check()
        if not self._is_open:
            raise ClosedError("the cursor is closed")

    def _nowhere(self) -> RefusedError:
        if not self._is_open:
            return ClosedError("the cursor is closed")
        return RefusedError("the cursor stands on no record", hint="move it first")


def _is_brief(locker: Txn, lock: LockMode) -> bool:
    """Whether a read's lock is released when the cursor leaves the record."""
    if lock is LockMode.READ_COMMITTED:
        return True
    return lock is LockMode.DEFAULT and locker.isolation is Isolation.READ_COMMITTED
