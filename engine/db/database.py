"""One database: get, put, delete, ranges, cursors.

Without a transaction a read sees committed records and keeps no lock, and a write is a transaction of its own (or, in a
database that is not transactional, logged without one). In a database with sorted duplicates a record is a key *with*
one of its data items.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from engine.db.cursor import Cursor
from engine.db.scan import RecordWalker, is_expired, lock_type_of
from engine.db.transaction import Transaction
from engine.errors import RefusedError
from engine.format.packed import join_two_part_key
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.tree.tree import find_bin
from engine.txn.lock_types import LockType
from engine.txn.records import USER, Payload, PutMode, user_payload
from engine.txn.txn import Txn

if TYPE_CHECKING:
    from engine.db.environment import Environment

_BATCH: Final = 1 << 20


class Database:
    """A handle of a database; ``Environment.open_database`` and ``create_database`` make it.

    Arguments:
        env, state: what it stands for.
    """

    def __init__(self, env: Environment, state: DatabaseState) -> None:
        self._env = env
        self._open = True
        self.state = state
        self._plain = state.order.plain
        if not env.read_only and not state.internal:
            state.transactional = env.config.transactional and not state.deferred
        state.handles += 1

    @property
    def name(self) -> str:
        """Its name."""
        return self.state.name or ""

    @property
    def duplicates(self) -> bool:
        """Whether a key may have several data items."""
        return self.state.duplicates

    def close(self) -> None:
        """Give the handle back. Closing twice is harmless."""
        if self._open:
            self._open = False
            self.state.handles -= 1

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, key: bytes, txn: Transaction | None = None, *, for_update: bool = False) -> bytes | None:
        """The data of a record; with duplicates the first data item of the key; None when there is none.

        Arguments:
            txn: whose locks are taken; None reads what is committed.
            for_update: take a write lock, since an update follows.
        """
        if self.duplicates:
            return next((data for _, data in self.items(start=key, end=key + b"\0", txn=txn)), None)
        self._check()
        locker = txn.inner if txn is not None else None
        if locker is None:
            found = self._walker(None).exact(self._key(key))
            self._env.keep_budget()
            return None if found is None else found.data
        locker.check_usable()
        wanted = self._key(key)
        data = self._env.records.get(self.state, wanted, locker, lock_type_of(locker, write=for_update))
        self._env.keep_budget()
        return None if data is None or self._is_expired(wanted) else data

    def has(self, key: bytes, data: bytes) -> bool:
        """Whether a key has a data item."""
        return any(item == data for _, item in self.items(start=key, end=key + b"\0"))

    def put(
        self,
        key: bytes,
        data: bytes,
        txn: Transaction | None = None,
        *,
        mode: PutMode = PutMode.OVERWRITE,
        expiration: int = 0,
    ) -> bool:
        """Insert or update a record; with duplicates add a data item.

        Arguments:
            mode: what to do where there is a record, or none.
            expiration: days since 1970, or negative hours; 0 for none.

        Returns:
            False when the mode did not allow it.
        """
        self._check()
        env, state = self._env, self.state
        wanted = key if self._plain else self._key(key, data)
        payload = user_payload(b"" if not self._plain and self.duplicates else data, expiration)
        if txn is not None and not state.deferred:
            # What ``operation`` comes to here, without its object.
            env.check_writes()
            done = env.records.put(state, wanted, payload, txn.inner, mode)
            env.keep_budget()
            return done
        with env.operation(txn, db=state) as locker:
            return env.records.put(state, wanted, payload, locker, mode)

    def delete(self, key: bytes, txn: Transaction | None = None, *, data: bytes | None = None) -> int:
        """Delete a record; with duplicates all data items of the key, or one.

        Returns:
            How many records went.
        """
        self._check()
        keys = [self._key(key)]
        if self.duplicates:
            found = self.items(start=key, end=key + b"\0", txn=txn)
            keys = [self._key(key, item) for _, item in found if data is None or item == data]
        removed = 0
        with self._env.operation(txn, db=self.state) as locker:
            for wanted in keys:
                removed += self._env.records.delete(self.state, wanted, locker, Payload(None, USER))
        return removed

    def items(
        self,
        start: bytes | None = None,
        end: bytes | None = None,
        *,
        prefix: bytes | None = None,
        reverse: bool = False,
        txn: Transaction | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Records with ``start <= key < end``, in key order or in reverse.

        Arguments:
            prefix: only keys that begin with it; instead of start and end, and only where keys are in byte order.
            txn: whose locks are taken.
        """
        self._check()
        if prefix is not None:
            start, end = prefix, _after_prefix(prefix)
        locker = txn.inner if txn is not None else None
        low = None if start is None else self._key(start)
        high = None if end is None else self._key(end)
        walker = self._walker(locker, backward=reverse, bound=low if reverse else high)
        limit = 1 if locker is not None else _BATCH
        key, inclusive = (high, False) if reverse else (low, True)
        while True:
            found = walker.step(key, inclusive=inclusive, limit=limit)
            if not found:
                return
            if self._plain:
                for plain, data, _ in found:
                    yield plain, data
            else:
                for record in found:
                    yield self.split(record.key, record.data)
            key, inclusive = found[-1].key, False

    def cursor(self, txn: Transaction | None = None) -> Cursor:
        """A cursor."""
        self._check()
        return Cursor(self._env, self, txn)

    def count(self) -> int:
        """Number of records, by walking over all of them."""
        return sum(1 for _ in self.items())

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self.items()

    def split(self, key: Key, data: bytes) -> tuple[bytes, bytes]:
        """Key and data as the application knows them."""
        if self.state.order.plain:
            return key, data
        if not self.duplicates:
            return self.state.order.unwrap(key), data
        first, second = key
        return getattr(first, "stored", first), getattr(second, "stored", second)

    def key_for(self, key: bytes, data: bytes = b"") -> Key:
        """The comparable form of a key, with duplicates of a key and a data item."""
        return self._key(key, data)

    def _walker(self, locker: Txn | None, *, backward: bool = False, bound: Key | None = None) -> RecordWalker:
        lock_type = LockType.READ if locker is None else lock_type_of(locker)
        return RecordWalker(self._env, self.state, locker, lock_type, backward=backward, bound=bound)

    def _key(self, key: bytes, data: bytes = b"") -> Key:
        if self.state.order.plain:
            return key
        if not self.duplicates:
            return self.state.order.wrap(key)
        if self.state.order.comparator is None:
            return key, data
        return self.state.order.wrap(join_two_part_key(key, data))

    def _is_expired(self, key: Key) -> bool:
        with self._env.ctx.latch:
            node = find_bin(self._env.ctx, self.state, key)
            if node is None:
                return False
            index, exact = node.find(key)
            return exact and is_expired(node.expirations[index], self._env.now_ms())

    def _check(self) -> None:
        if self._open and not self._env.stopped and not self.state.deleted:
            return
        if not self._open:
            raise RefusedError(f"the handle of database {self.name!r} is closed")
        if self._env.stopped:
            raise RefusedError("the environment is closed", file=self._env.storage.root)
        raise RefusedError(f"database {self.name!r} has been removed")


def _after_prefix(prefix: bytes) -> bytes | None:
    """The smallest key that is larger than all keys with a prefix; None when there is none."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,)) if trimmed else None
