"""A cursor over a secondary: each movement finds an entry and returns the record that it leads to.

A writer locks the record first and then its entries. A reader that kept its lock on an entry while waiting for the
record could deadlock with the writer. So, as in JE, the reader waits until the entry is committed but keeps no lock on
it, locks the record, and checks that the entry still leads there; if not, it continues with the next entry. A
serializable transaction keeps the locks on entries, which guard the gaps between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from engine.arguments import BytesLike
from engine.db.cursor import Cursor, Record
from engine.db.key_range import KeyBounds, key_range
from engine.db.record_keys import comparable_key
from engine.db.scan import walker_of
from engine.db.transaction import Transaction, inner_of
from engine.db.write_operation import write_operation
from engine.db.writes import Handle
from engine.errors import ArgumentError, DamageError, RefusedError, UsageError
from engine.txn.txn import Isolation, LockMode

_DEFAULT = LockMode.DEFAULT
Move = Callable[[Cursor], Record | None]


class SecondaryRecord(NamedTuple):
    """A record of a primary, found through a secondary; ``key`` is the secondary key."""

    key: bytes
    primary_key: bytes
    data: bytes


class EntryReader:
    """Reads the records that the entries of a secondary lead to.

    Arguments:
        entries, primary: the two databases.
        keys_of: derives the secondary keys of a record; None if their creator is not known.
    """

    def __init__(self, entries: Handle, primary: Handle, keys_of: Callable[[bytes, bytes], set[bytes]] | None) -> None:
        self.entries = entries
        self.primary = primary
        self._keys_of = keys_of

    def record(self, entry: Record, at: Cursor, lock: LockMode) -> SecondaryRecord | None:
        """The record of an entry; None if the entry was deleted meanwhile.

        Arguments:
            at: a cursor over the primary, whose transaction takes the lock.

        Raises:
            DamageError: there is no record although the entry still exists.
        """
        key, primary_key = entry
        found = at.search(primary_key, lock)
        if at.reads_uncommitted(lock):
            # Without locks an entry may be older or newer than its record.
            if found is None or (self._keys_of is not None and key not in self._keys_of(primary_key, found[1])):
                return None
            return SecondaryRecord(key=key, primary_key=primary_key, data=found[1])
        if not self._leads(key, primary_key):
            return None
        if found is None:
            name, primary = self.entries.state.label, self.primary.state.label
            raise DamageError(
                f"an entry of the secondary {name} leads to no record of {primary}",
                found=f"the key {key!r} of the record {primary_key!r}",
                hint=f"jetool verify --secondary {name}:{primary} shows the differences",
            )
        return SecondaryRecord(key=key, primary_key=primary_key, data=found[1])

    def _leads(self, key: bytes, primary_key: bytes) -> bool:
        """Whether an entry exists. The lock on its record keeps it from changing."""
        state = self.entries.state
        walker = walker_of(self.entries.engine, state, None, LockMode.READ_UNCOMMITTED)
        found = walker.exact(comparable_key(state, key, primary_key))
        return found is not None and (state.duplicates or found.data == primary_key)


class SecondaryCursor:
    """A position in a secondary, created by ``SecondaryDatabase.cursor``. One thread at a time may use it.

    The methods are those of ``Cursor``, with the primary key in the place of a data item. ``delete`` deletes the
    record, and with it its entries in all secondaries.

    Arguments:
        reader: the secondary.
        txn: the transaction that takes the locks; None reads committed records and keeps no lock.
    """

    def __init__(self, reader: EntryReader, txn: Transaction | None) -> None:
        self._reader = reader
        self._txn = txn
        self._locker = inner_of(txn, reader.primary.engine)
        self._entry = Cursor(reader.entries, txn)
        self._record = Cursor(reader.primary, txn)
        self._at: SecondaryRecord | None = None

    def __repr__(self) -> str:
        return f"<SecondaryCursor {self._entry!r}>"

    def dup(self, *, same_position: bool = True) -> SecondaryCursor:
        """Another cursor of the same transaction, on the same record or on none."""
        other = SecondaryCursor(self._reader, self._txn)
        if same_position:
            other._entry, other._at = self._entry.dup(), self._at
        return other

    def first(self, lock: LockMode = _DEFAULT) -> SecondaryRecord | None:
        """The record of the smallest secondary key."""
        return self._go(lambda at: at.first(self._brief(lock)), self._next(lock), lock)

    def last(self, lock: LockMode = _DEFAULT) -> SecondaryRecord | None:
        """The record of the largest secondary key."""
        return self._go(lambda at: at.last(self._brief(lock)), self._prev(lock), lock)

    def next(self, lock: LockMode = _DEFAULT) -> SecondaryRecord | None:
        """The next record; the first one if the cursor stands on none."""
        return self._go(self._next(lock), self._next(lock), lock)

    def prev(self, lock: LockMode = _DEFAULT) -> SecondaryRecord | None:
        """The previous record; the last one if the cursor stands on none."""
        return self._go(self._prev(lock), self._prev(lock), lock)

    def search(self, key: BytesLike, lock: LockMode = _DEFAULT) -> SecondaryRecord | None:
        """The first record of a secondary key."""
        return self._go(lambda at: at.search(key, self._brief(lock)), self._next_dup(lock), lock)

    def search_range(self, key: BytesLike, lock: LockMode = _DEFAULT) -> SecondaryRecord | None:
        """The first record whose secondary key is at or after a key."""
        return self._go(lambda at: at.search_range(key, lock=self._brief(lock)), self._next(lock), lock)

    def search_both(self, key: BytesLike, primary_key: BytesLike, lock: LockMode = _DEFAULT) -> SecondaryRecord | None:
        """The record of a secondary key and a primary key."""
        return self._go(lambda at: at.search_both(key, primary_key, self._brief(lock)), _nothing, lock)

    def search_both_range(
        self, key: BytesLike, primary_key: BytesLike, lock: LockMode = _DEFAULT
    ) -> SecondaryRecord | None:
        """The first record of a secondary key whose primary key is at or after a key."""
        brief = self._brief(lock)
        return self._go(lambda at: at.search_both_range(key, primary_key, brief), self._next_dup(lock), lock)

    def next_dup(self, lock: LockMode = _DEFAULT) -> SecondaryRecord | None:
        """The next record of the same secondary key."""
        return self._go(self._next_dup(lock), self._next_dup(lock), lock)

    def prev_dup(self, lock: LockMode = _DEFAULT) -> SecondaryRecord | None:
        """The previous record of the same secondary key."""
        brief = self._brief(lock)
        return self._go(lambda at: at.prev_dup(brief), lambda at: at.prev_dup(brief), lock)

    def next_no_dup(self, lock: LockMode = _DEFAULT) -> SecondaryRecord | None:
        """The first record of the next secondary key."""
        return self._go(lambda at: at.next_no_dup(self._brief(lock)), self._next(lock), lock)

    def prev_no_dup(self, lock: LockMode = _DEFAULT) -> SecondaryRecord | None:
        """The last record of the previous secondary key."""
        return self._go(lambda at: at.prev_no_dup(self._brief(lock)), self._prev(lock), lock)

    def items(
        self,
        start: BytesLike | None = None,
        end: BytesLike | None = None,
        *,
        prefix: BytesLike | None = None,
        reverse: bool = False,
        lock: LockMode = _DEFAULT,
    ) -> Iterator[SecondaryRecord]:
        """Move over the records with ``start <= secondary key < end``; see ``SecondaryDatabase.items``."""
        self._entry.check()
        return self._items(key_range(self._reader.entries.state, start, end, prefix), lock, reverse)

    def _items(self, wanted: KeyBounds, lock: LockMode, reverse: bool) -> Iterator[SecondaryRecord]:
        low, high, prefix = wanted
        brief = self._brief(lock)
        at, inclusive, bound = (high, False, low) if reverse else (low, True, high)

        def again(moving: Cursor) -> Record | None:
            return moving.move(moving.place, brief, inclusive=False, backward=reverse, bound=bound)

        found = self._go(
            lambda moving: moving.move(at, brief, inclusive=inclusive, backward=reverse, bound=bound), again, lock
        )
        while found is not None:
            if prefix is None or found.key.startswith(prefix):
                yield found
            found = self._go(again, again, lock)

    def __iter__(self) -> Iterator[SecondaryRecord]:
        return self._rest(backward=False)

    def __reversed__(self) -> Iterator[SecondaryRecord]:
        return self._rest(backward=True)

    def _rest(self, *, backward: bool) -> Iterator[SecondaryRecord]:
        here = self._at
        found = None if here is None else self.search_both(here.key, here.primary_key)
        while found is not None or (found := self.prev() if backward else self.next()) is not None:
            yield found
            found = None

    def current(self) -> SecondaryRecord | None:
        """The current record, as it was read."""
        return self._at

    def count(self) -> int:
        """The number of entries of the current record's secondary key."""
        return self._entry.count()

    def delete(self) -> bool:
        """Delete the current record from the primary; False if it is already gone."""
        self._entry.check()
        if self._at is None:
            raise RefusedError("the cursor stands on no record", hint="move it first")
        primary = self._reader.primary
        with write_operation(primary.engine, self._locker, db=primary.state) as locker:
            return primary.writer.delete(comparable_key(primary.state, self._at.primary_key), locker)

    def close(self) -> None:
        """Close the cursor and release its position."""
        self._entry.close()
        self._record.close()
        self._at = None

    def __enter__(self) -> SecondaryCursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def entry(self) -> Record | None:
        """The entry that the cursor stands on: secondary key and primary key."""
        return self._entry.current()

    def next_entry(self, lock: LockMode) -> Record | None:
        """The next entry of the same secondary key, without its record."""
        found = self._entry.next_dup(self._brief(lock))
        if not self._keeps_entries():
            self._entry.give_back()
        return found

    def leads_to(self, primary_key: bytes, lock: LockMode) -> bool:
        """Whether the current secondary key also leads to a primary key."""
        here = self._entry.current()
        with self._entry.dup() as at:
            return here is not None and at.search_both(here[0], primary_key, self._brief(lock)) is not None

    def record(self, entry: Record, lock: LockMode) -> SecondaryRecord | None:
        """The record that an entry leads to; None if the entry was deleted meanwhile."""
        if self._txn is not None:
            return self._reader.record(entry, self._record, lock)
        # Without a transaction, hold locks for this call, so that the entry does not change while its record is read.
        engine = self._reader.primary.engine
        passing = Transaction(engine, engine.passing_locker())
        try:
            return self._reader.record(entry, Cursor(self._reader.primary, passing), lock)
        finally:
            engine.txns.end_operation(passing.inner)

    def _go(self, begin: Move, again: Move, lock: LockMode) -> SecondaryRecord | None:
        # Move a copy: if it finds nothing, this cursor stays where it is.
        moving = self._entry.dup()
        entry = begin(moving)
        while entry is not None:
            if not self._keeps_entries():
                moving.give_back()
            found = self.record(entry, lock)
            if found is not None:
                self._entry.close()
                self._entry, self._at = moving, found
                return found
            entry = again(moving)
        moving.close()
        return None

    def _keeps_entries(self) -> bool:
        return self._locker is not None and self._locker.isolation is Isolation.SERIALIZABLE

    def _brief(self, lock: LockMode) -> LockMode:
        """The lock mode for an entry: no lock is kept, unless the transaction is serializable."""
        if self._keeps_entries() or self._entry.reads_uncommitted(lock):
            return lock
        return LockMode.READ_COMMITTED

    def _next(self, lock: LockMode) -> Move:
        return lambda at: at.next(self._brief(lock))

    def _prev(self, lock: LockMode) -> Move:
        return lambda at: at.prev(self._brief(lock))

    def _next_dup(self, lock: LockMode) -> Move:
        return lambda at: at.next_dup(self._brief(lock))


def _nothing(_: Cursor) -> None:
    """The movement to the next entry for a search that matches at most one entry: it finds no entry."""


def join(cursors: Sequence[SecondaryCursor], lock: LockMode = _DEFAULT) -> Iterator[Record]:
    """The records that all cursors lead to; each cursor stands on a key of a different secondary.

    The cursor whose key has the fewest entries leads, starting at its current entry; each primary key that it gives is
    checked with the other cursors.

    Example: two cursors on ``city=London`` and ``trade=engineer`` give the engineers of London.

    Returns:
        Primary keys and data, in the order in which the leading cursor gives them.

    Raises:
        UsageError: no cursor is given, or one stands on no record.
        ArgumentError: something else than a cursor over a secondary is given.
    """
    for cursor in cursors if isinstance(cursors, Sequence) else (cursors,):
        if not isinstance(cursor, SecondaryCursor):
            raise ArgumentError(
                "wrong type for the cursors of a join",
                expected="a list of cursors over secondaries",
                found="None" if cursor is None else type(cursor).__name__,
            )
    if not cursors or any(cursor.current() is None for cursor in cursors):
        raise UsageError("a join needs cursors, each on a secondary key")
    return _join(cursors, lock)


def _join(cursors: Sequence[SecondaryCursor], lock: LockMode) -> Iterator[Record]:
    lead, *others = sorted(cursors, key=SecondaryCursor.count)
    with lead.dup() as at:
        entry = at.entry()
        while entry is not None:
            if all(other.leads_to(entry[1], lock) for other in others):
                found = at.record(entry, lock)
                # Check again under the lock on the record, which keeps its entries from changing.
                if found is not None and all(other.leads_to(entry[1], LockMode.READ_UNCOMMITTED) for other in others):
                    yield found.primary_key, found.data
            entry = at.next_entry(lock)
