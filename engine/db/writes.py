"""Writing records of one database, including its secondaries and the foreign keys that refer to it.

Most databases have neither, and a write is one call. Otherwise one transaction does the following:

1. Lock the record and read its old data.
2. Call the key creators; nothing has changed yet, so they may raise.
3. For a deletion: apply the rule of each referring record: refuse, delete it too, or change it (``ForeignKeyDelete``).
4. Change the record, and the entries of each secondary whose key was added or removed; a deletion removes the entries
   first.

An error after step 2 makes the transaction abort-only, since a part of the change may have been made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from engine.db.engine import Engine
from engine.db.record_keys import key_and_data, key_bounds
from engine.db.scan import RecordWalker, records_between
from engine.errors import ClosedError, JetoolError, RefusedError
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.tree.tree import find_bin
from engine.txn.lock_types import LockType
from engine.txn.payload import USER, Payload, PutMode
from engine.txn.txn import Txn


class PrimaryChange(NamedTuple):
    """A change of a record that has secondaries; ``old`` or ``new`` is None if there was, or is, no record.

    Attributes:
        key: the record's key.
        expiration_before, expiration: the old and the new expiration; 0 for never.
    """

    key: bytes
    old: bytes | None
    new: bytes | None
    expiration_before: int
    expiration: int


class Dependent(Protocol):
    """A secondary, as seen by its primary and by its foreign key database."""

    def prepare(self, change: PrimaryChange) -> Callable[[Txn], None]:
        """Call the key creator; the returned function makes the change in a transaction."""

    def referred_deleted(self, key: bytes, locker: Txn) -> None:
        """Called before a record to which foreign keys may refer is deleted."""


class Dependents:
    """The dependents of one database: its secondaries, and the secondaries whose foreign keys refer to it.

    Attributes:
        deleting: the records that are being deleted, each with its transaction.
    """

    def __init__(self) -> None:
        self.secondaries: list[Dependent] = []
        self.referrers: list[Dependent] = []
        self.deleting: set[tuple[Txn, Key]] = set()

    def __bool__(self) -> bool:
        return bool(self.secondaries or self.referrers)

    def remove(self, dependent: Dependent) -> None:
        """Remove a dependent."""
        self.secondaries = [other for other in self.secondaries if other is not dependent]
        self.referrers = [other for other in self.referrers if other is not dependent]


def expiration_of(engine: Engine, state: DatabaseState, key: Key) -> int:
    """The expiration of a record; 0 for never, or if there is no record."""
    with engine.latch:
        node = find_bin(engine.ctx, state, key)
        index, exact = node.find(key) if node is not None else (0, False)
        return node.expirations[index] if node is not None and exact else 0


class RecordWriter:
    """Writes records of one database.

    Arguments:
        engine, state: the database.
        dependents: the database's dependents; others may add to it.
    """

    def __init__(self, engine: Engine, state: DatabaseState, dependents: Dependents) -> None:
        self._engine = engine
        self._state = state
        self.dependents = dependents
        self._deleting = dependents.deleting

    def put(self, key: Key, payload: Payload, locker: Txn, mode: PutMode = PutMode.OVERWRITE) -> bool:
        """Insert or update a record; False if the mode did not allow it."""
        if mode is PutMode.NEW_KEY:
            return self._put_new_key(key, payload, locker)
        if not self.dependents.secondaries:
            return self._engine.records.put(self._state, key, payload, locker, mode)
        while True:
            old = self._locked(key, locker)
            if mode is (PutMode.UPDATE_ONLY if old is None else PutMode.INSERT_ONLY):
                return False
            before = 0 if old is None else expiration_of(self._engine, self._state, key)
            after = before if old is not None and payload.keeps_expiration else payload.expiration
            change = PrimaryChange(
                key=key_and_data(self._state, key, b"")[0],
                old=old,
                new=payload.data,
                expiration_before=before,
                expiration=after,
            )
            steps = [secondary.prepare(change) for secondary in self.dependents.secondaries]
            # A record that does not exist cannot be locked: another transaction may have inserted it meanwhile.
            wanted = PutMode.INSERT_ONLY if old is None else PutMode.UPDATE_ONLY
            if self._engine.records.put(self._state, key, payload, locker, wanted):
                self._go(steps, locker)
                return True

    def _put_new_key(self, key: Key, payload: Payload, locker: Txn) -> bool:
        if not self._state.duplicates:
            return self.put(key, payload, locker, PutMode.INSERT_ONLY)
        low, high = key_bounds(self._state, key_and_data(self._state, key, b"")[0])
        between = partial(records_between, self._engine, self._state, low, high, locker=locker)
        if any(between()) or not self.put(key, payload, locker, PutMode.INSERT_ONLY):
            return False
        # Another transaction may have inserted a different item meanwhile. Then each waits for the lock on the other's
        # item, and at least one is refused.
        if sum(len(found) for found in between()) > 1:
            self.delete(key, locker)
            return False
        return True

    def delete(self, key: Key, locker: Txn) -> bool:
        """Delete a record; False if it does not exist."""
        if not self.dependents:
            return self._engine.records.delete(self._state, key, locker, Payload(None, USER), even_expired=False)
        # The record is being deleted already, by the deletion that led here along foreign keys in a circle.
        if (locker, key) in self._deleting:
            return True
        old = self._locked(key, locker)
        if old is None:
            return False
        stored = key_and_data(self._state, key, b"")[0]
        before = expiration_of(self._engine, self._state, key)
        change = PrimaryChange(key=stored, old=old, new=None, expiration_before=before, expiration=0)
        steps = [secondary.prepare(change) for secondary in self.dependents.secondaries]
        self._deleting.add((locker, key))
        try:
            self._go([partial(referrer.referred_deleted, stored) for referrer in self.dependents.referrers], locker)
            self._go(steps, locker)
        finally:
            self._deleting.discard((locker, key))
        return self._engine.records.delete(self._state, key, locker, Payload(None, USER))

    def _locked(self, key: Key, locker: Txn) -> bytes | None:
        locker.check_usable()
        found = RecordWalker(self._engine, self._state, locker, LockType.WRITE, backward=False).exact(key)
        return None if found is None else found.data

    @staticmethod
    def _go(steps: list[Callable[[Txn], None]], locker: Txn) -> None:
        try:
            for step in steps:
                step(locker)
        except BaseException as error:
            # Applies also to errors of the application's nullifier: a part of the change has been made.
            locker.set_abort_only(error if isinstance(error, JetoolError) else RefusedError(str(error)))
            raise


class Handle:
    """Used by cursors: a database, and whether its handle is open.

    Arguments:
        engine, state: the database.
        writer: writes its records.
    """

    def __init__(self, engine: Engine, state: DatabaseState, writer: RecordWriter) -> None:
        self.engine = engine
        self.state = state
        self.writer = writer
        self.is_open = True

    @property
    def condition(self) -> str:
        """Whether the handle can be used, in one or two words."""
        if not self.is_open:
            return "closed"
        return "environment closed" if self.engine.stopped else "removed" if self.state.deleted else "open"

    def check(self) -> None:
        """Refuse if the handle or the environment is closed, or the database was removed."""
        if self.is_open and not self.engine.stopped and not self.state.deleted:
            return
        if not self.is_open:
            raise ClosedError(f"the handle of database {self.state.name or ''!r} is closed")
        if self.engine.stopped:
            raise ClosedError("the environment is closed", file=self.engine.home)
        raise ClosedError(f"database {self.state.name or ''!r} has been removed")
