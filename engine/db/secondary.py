"""A secondary database finds the records of a primary by other keys, which a key creator derives from the records.

A secondary is stored as in JE: a database whose records are the secondary key with the primary key as data. With
duplicates a secondary key may lead to several records; without, it is unique. Nothing in the log marks it as a
secondary: as in JE, each program opens it with its primary and its key creator. While it is open, every handle and
cursor of the primary maintains it in the transaction that writes the record. Its entries expire with their records.

Example::

    def city(key: bytes, data: bytes) -> bytes | None:
        return data.split(b",")[1]

    people = env.create_database("people")
    by_city = env.open_secondary("people.city", people, SecondaryConfig(key_creator=city, create=True))
    people.put(b"4711", b"Ada,London")
    print(by_city[b"London"])  # SecondaryRecord(key=b'London', primary_key=b'4711', data=b'Ada,London')

Foreign keys: with ``foreign_key_database`` a secondary key must be a key of that database, and ``on_foreign_delete``
determines what happens to the referring records when that key is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, overload

from engine.arguments import BytesLike, bytes_of
from engine.db.database import Database
from engine.db.key_range import RecordRange, single_key
from engine.db.record_keys import comparable_key, key_and_data, key_bounds
from engine.db.scan import RecordWalker, lock_type_of, records_between
from engine.db.secondary_cursor import EntryReader, SecondaryCursor, SecondaryRecord
from engine.db.transaction import Transaction, inner_of
from engine.db.write_operation import write_operation
from engine.db.writes import Handle, PrimaryChange, expiration_of
from engine.errors import DamageError, RefusedError, UsageError
from engine.tree.keys import Key
from engine.txn.lock_types import LockType
from engine.txn.payload import USER, Payload, PutMode, user_payload
from engine.txn.txn import LockMode, Txn

KeyCreator = Callable[[bytes, bytes], bytes | None]
MultiKeyCreator = Callable[[bytes, bytes], Iterable[bytes]]
Nullifier = Callable[[bytes, bytes, bytes], bytes | None]


class UniqueConstraintError(RefusedError):
    """The new secondary key already leads to another record, in a secondary without duplicates."""


class ForeignConstraintError(RefusedError):
    """A secondary key does not exist in the foreign key database."""


class DeleteConstraintError(RefusedError):
    """Other records refer to the record that was to be deleted."""


class ForeignKeyDelete(Enum):
    """What happens to a record when the record that its foreign key refers to is deleted.

    ABORT: the deletion is refused. CASCADE: the referring record is deleted too. NULLIFY: a function of the application
    changes the referring record so that it no longer has the key.
    """

    ABORT = "abort"
    CASCADE = "cascade"
    NULLIFY = "nullify"


@dataclass(frozen=True)
class SecondaryConfig:
    """How a secondary is opened.

    Attributes:
        key_creator: derives the secondary key from a record's key and data; None: the record is not in the secondary.
        multi_key_creator: the alternative for any number of keys per record. Reading needs neither creator.
        create: create the database if it does not exist.
        duplicates: a secondary key may lead to several records; otherwise it is unique.
        populate: fill an empty secondary from its primary when it is opened.
        immutable: updates never change the secondary keys of a record, so updates need not check.
        foreign_key_database: the database that must contain every secondary key.
        on_foreign_delete: what the deletion of a key in that database does.
        nullifier: for NULLIFY: called with a record's key, its data and the secondary key; returns the data without
            that key, or None to leave the record unchanged.
    """

    key_creator: KeyCreator | None = None
    multi_key_creator: MultiKeyCreator | None = None
    create: bool = False
    duplicates: bool = True
    populate: bool = True
    immutable: bool = False
    foreign_key_database: Database | None = None
    on_foreign_delete: ForeignKeyDelete = ForeignKeyDelete.ABORT
    nullifier: Nullifier | None = None


class SecondaryDatabase:
    """A handle of a secondary, created by ``Environment.open_secondary``. A dependent of its primary.

    Arguments:
        database: the secondary's own records.
        primary: the database whose records they lead to.
        config: how it is opened.

    Raises:
        UsageError: the configuration makes no sense.
    """

    def __init__(self, database: Database, primary: Database, config: SecondaryConfig) -> None:
        _check(database, primary, config)
        self._db = database
        self._primary = primary
        self._config = config
        self._engine = database.handle.engine
        self._state = database.state
        self._reader = EntryReader(database.handle, primary.handle, self._keys if _creates(config) else None)
        self._foreign: Handle | None = None
        # While False, entries may be missing, or exist before ``populate`` reaches their records: neither is damage.
        self._populated = False
        primary.handle.writer.dependents.secondaries.append(self)
        if config.foreign_key_database is not None:
            self._foreign = config.foreign_key_database.handle
            self._foreign.writer.dependents.referrers.append(self)

    @property
    def name(self) -> str:
        """The name of the secondary."""
        return self._db.name

    @property
    def primary(self) -> Database:
        """The database that its records lead to."""
        return self._primary

    @property
    def database(self) -> Database:
        """The entries of the secondary: secondary key and primary key."""
        return self._db

    def __repr__(self) -> str:
        return f"<SecondaryDatabase {self.name!r} of {self._primary.name!r}, {self._db.handle.condition}>"

    def close(self) -> None:
        """Close the handle; from now on the primary does not maintain the secondary. Closing twice is harmless."""
        self._primary.handle.writer.dependents.remove(self)
        if self._foreign is not None:
            self._foreign.writer.dependents.remove(self)
        self._db.close()

    def __enter__(self) -> SecondaryDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(
        self, key: BytesLike, txn: Transaction | None = None, *, lock: LockMode = LockMode.DEFAULT
    ) -> SecondaryRecord | None:
        """The record of a secondary key; if there are several, the one with the smallest primary key."""
        with self.cursor(txn) as cursor:
            return cursor.search(key, lock)

    def items(
        self,
        start: BytesLike | None = None,
        end: BytesLike | None = None,
        *,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        txn: Transaction | None = None,
    ) -> Iterator[SecondaryRecord]:
        """Records with ``start <= secondary key < end``, ordered by secondary key and then by primary key, or in
        reverse.

        Arguments:
            prefix: only secondary keys that begin with it; not together with start or end.
            txn: the transaction that takes the locks.
        """
        cursor = self.cursor(txn)
        return _closing(cursor, cursor.items(start, end, prefix=prefix, reverse=reverse))

    def cursor(self, txn: Transaction | None = None) -> SecondaryCursor:
        """A cursor over its records, which stands on none."""
        self._db.handle.check()
        return SecondaryCursor(self._reader, txn)

    def delete(self, key: BytesLike, txn: Transaction | None = None) -> int:
        """Delete all records of a secondary key from the primary; returns the number deleted."""
        self._db.handle.check()
        wanted, removed = bytes_of(key, "key"), 0
        with write_operation(self._engine, inner_of(txn, self._engine), db=self._primary.state) as locker:
            for primary_key in self._primary_keys(wanted, locker):
                removed += self._primary.handle.writer.delete(comparable_key(self._primary.state, primary_key), locker)
        return removed

    def count(self) -> int:
        """Number of entries, by walking over all of them."""
        return self._db.count()

    def __iter__(self) -> Iterator[SecondaryRecord]:
        return self.items()

    def __reversed__(self) -> Iterator[SecondaryRecord]:
        return self.items(reverse=True)

    @overload
    def __getitem__(self, key: BytesLike) -> SecondaryRecord: ...

    @overload
    def __getitem__(self, key: slice[Any, Any, Any]) -> RecordRange[SecondaryRecord]: ...

    def __getitem__(self, key: BytesLike | slice[Any, Any, Any]) -> SecondaryRecord | RecordRange[SecondaryRecord]:
        """The first record of a secondary key; or the records of a slice of secondary keys.

        Raises:
            KeyError: no record has the secondary key.
        """
        if isinstance(key, slice):
            self._db.handle.check()
            return RecordRange(self.items, key)
        found = self.get(key)
        if found is None:
            raise KeyError(bytes(key))
        return found

    def __delitem__(self, key: BytesLike) -> None:
        """Delete all records of a secondary key from the primary.

        Raises:
            KeyError: no record has the secondary key.
        """
        if not self.delete(single_key(key, "deleted")):
            raise KeyError(bytes(key))

    def __contains__(self, key: object) -> bool:
        """Whether a record has the secondary key."""
        return self.get(bytes_of(key, "key")) is not None

    def populate(self, txn: Transaction | None = None) -> None:
        """Fill the secondary from the primary, in one transaction, if it is empty and the environment is writable."""
        engine = self._engine
        replica = engine.replicated and not engine.leads
        wanted = self._config.populate and not engine.read_only and not replica and _creates(self._config)
        if wanted and next(iter(self._db.items(txn=txn)), None) is None:
            with write_operation(engine, inner_of(txn, engine), db=self._state) as locker:
                for found in records_between(engine, self._primary.state, None, None, locker=locker):
                    for record in found:
                        self._populate_from(record.key, record.data, locker)
        self._populated = True

    # The methods that the primary calls.

    def prepare(self, change: PrimaryChange) -> Callable[[Txn], None]:
        """Call the key creator; the returned function makes the change in a transaction."""
        self._db.handle.check()
        retimed = change.new is not None and change.expiration != change.expiration_before
        if self._config.immutable and change.old is not None and change.new is not None:
            kept = self._keys(change.key, change.new) if retimed else set()
            return partial(self._maintain, change, set(), set(), kept)
        old = set() if change.old is None else self._keys(change.key, change.old)
        new = set() if change.new is None else self._keys(change.key, change.new)
        return partial(self._maintain, change, old - new, new - old, old & new if retimed else set())

    def referred_deleted(self, key: bytes, locker: Txn) -> None:
        """Called before a record of the foreign key database is deleted: refuse, or change the referring records."""
        action, primary = self._config.on_foreign_delete, self._primary
        lock_type = LockType.READ if action is ForeignKeyDelete.ABORT else LockType.WRITE
        for primary_key in self._primary_keys(key, locker, lock_type):
            wanted = comparable_key(primary.state, primary_key)
            if action is ForeignKeyDelete.ABORT:
                raise DeleteConstraintError(
                    f"records of {primary.name} refer to the record, through {self.name}",
                    found=f"the key {primary_key!r}",
                    consequence="it cannot be deleted",
                )
            if action is ForeignKeyDelete.CASCADE:
                if not primary.handle.writer.delete(wanted, locker) and self._populated:
                    raise self._corrupt(key, primary_key, "it leads to a record that is not there")
                continue
            record = RecordWalker(self._engine, primary.state, locker, LockType.WRITE, backward=False).exact(wanted)
            if record is None:
                raise self._corrupt(key, primary_key, "it leads to a record that is not there")
            assert self._config.nullifier is not None
            data = self._config.nullifier(primary_key, record.data, key)
            if data is not None:
                primary.handle.writer.put(wanted, user_payload(data, 0), locker, PutMode.UPDATE_ONLY)

    def _maintain(
        self, change: PrimaryChange, gone: set[bytes], come: set[bytes], kept: set[bytes], locker: Txn
    ) -> None:
        # Sorted, so that two transactions lock in the same order.
        for key in sorted(gone):
            self._remove(key, change, locker)
        for key in sorted(come):
            self._insert(key, change, locker)
        for key in sorted(kept):
            at, data = self._entry(key, change.key)
            payload = user_payload(data, change.expiration, True)
            self._engine.records.put(self._state, at, payload, locker, PutMode.OVERWRITE)

    def _insert(self, key: bytes, change: PrimaryChange, locker: Txn) -> None:
        if self._foreign is not None and not self._has_foreign(key, locker):
            raise ForeignConstraintError(
                f"a key of {self.name} is not in {self._foreign.state.label}",
                found=f"{key!r}, of the record {change.key!r} of {self._primary.name}",
                hint="insert it there first",
            )
        at, data = self._entry(key, change.key)
        payload = user_payload(data, change.expiration)
        if self._engine.records.put(self._state, at, payload, locker, PutMode.INSERT_ONLY):
            return
        present = RecordWalker(self._engine, self._state, locker, LockType.READ, backward=False).exact(at)
        is_same = present is not None and present.data == data
        if is_same and not self._populated:
            return
        if is_same:
            raise self._corrupt(key, change.key, "it is there already")
        raise UniqueConstraintError(
            f"a key of {self.name} is there already, and leads to another record",
            found=f"{key!r}, of the record {change.key!r} of {self._primary.name}",
        )

    def _remove(self, key: bytes, change: PrimaryChange, locker: Txn) -> None:
        at, data = self._entry(key, change.key)
        present = RecordWalker(self._engine, self._state, locker, LockType.WRITE, backward=False).exact(at)
        if present is not None and present.data == data:
            self._engine.records.delete(self._state, at, locker, Payload(None, USER))
        # An entry with an expiration may disappear before its record.
        elif self._populated and not change.expiration_before:
            raise self._corrupt(key, change.key, "it is missing")

    def _populate_from(self, at: Key, data: bytes, locker: Txn) -> None:
        primary = self._primary.state
        expiration = expiration_of(self._engine, primary, at)
        key = key_and_data(primary, at, b"")[0]
        change = PrimaryChange(key=key, old=None, new=data, expiration_before=0, expiration=expiration)
        self.prepare(change)(locker)

    def _has_foreign(self, key: bytes, locker: Txn) -> bool:
        assert self._foreign is not None
        state = self._foreign.state
        walker = RecordWalker(self._engine, state, locker, lock_type_of(locker) or LockType.READ, backward=False)
        return walker.exact(comparable_key(state, key)) is not None

    def _primary_keys(self, key: bytes, locker: Txn, lock_type: LockType = LockType.WRITE) -> list[bytes]:
        """The primary keys of a secondary key. Their entries are locked whatever the isolation, so that no other
        transaction can delete them.
        """
        if not self._state.duplicates:
            walker = RecordWalker(self._engine, self._state, locker, lock_type, backward=False)
            only = walker.exact(comparable_key(self._state, key))
            return [] if only is None else [only.data]
        at, high = key_bounds(self._state, key)
        walker = RecordWalker(self._engine, self._state, locker, lock_type, backward=False, bound=high)
        keys = []
        while found := walker.step(at, inclusive=False, limit=1):
            at = found[0].key
            keys.append(key_and_data(self._state, at, b"")[1])
        return keys

    def _entry(self, key: bytes, primary_key: bytes) -> tuple[Key, bytes]:
        """The entry for a secondary key and a primary key, as the database stores it."""
        at = comparable_key(self._state, key, primary_key)
        return (at, b"") if self._state.duplicates else (at, primary_key)

    def _keys(self, key: bytes, data: bytes) -> set[bytes]:
        config = self._config
        if config.multi_key_creator is not None:
            return {bytes_of(made, "secondary key") for made in config.multi_key_creator(key, data)}
        if config.key_creator is None:
            raise UsageError(
                f"the secondary {self.name} was opened without a key creator",
                consequence="records of its primary cannot be changed while it is open",
            )
        made = config.key_creator(key, data)
        return set() if made is None else {bytes_of(made, "secondary key")}

    def _corrupt(self, key: bytes, primary_key: bytes, what: str) -> DamageError:
        return DamageError(
            f"the secondary {self.name} does not agree with {self._primary.name}: {what}",
            found=f"the key {key!r} of the record {primary_key!r}",
            hint=f"jetool verify --secondary {self.name}:{self._primary.name} shows the differences",
        )


def _closing(cursor: SecondaryCursor, records: Iterator[SecondaryRecord]) -> Iterator[SecondaryRecord]:
    with cursor:
        yield from records


def _creates(config: SecondaryConfig) -> bool:
    return config.key_creator is not None or config.multi_key_creator is not None


def _check(database: Database, primary: Database, config: SecondaryConfig) -> None:
    foreign = config.foreign_key_database
    wrong: str | None = None
    if config.key_creator is not None and config.multi_key_creator is not None:
        wrong = "a key creator and a multi-key creator"
    elif not _creates(config) and not database.handle.engine.read_only:
        wrong = "no key creator, in an environment that is open for writing"
    elif primary.duplicates:
        wrong = "a primary with duplicates"
    elif database.duplicates != config.duplicates:
        wrong = "a database that was made with duplicates" if database.duplicates else "one that was made without them"
    elif database.state.deferred != primary.state.deferred:
        wrong = "one of the two is deferred-write"
    elif foreign is not None and foreign.duplicates:
        wrong = "a foreign key database with duplicates"
    elif (config.on_foreign_delete is ForeignKeyDelete.NULLIFY) != (config.nullifier is not None):
        wrong = "a nullifier without NULLIFY, or NULLIFY without one"
    if wrong is not None:
        raise UsageError(f"the secondary {database.name} cannot be opened with this configuration", found=wrong)
