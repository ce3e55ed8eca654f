"""Walking records in key order, with or without locks (R-TXN-20).

A walk remembers a key, not a place: between two steps the tree may be split, compressed or pruned, and the next step
finds the place again. When no locks are taken, one step returns a whole BIN, and the records of the next BINs are read
ahead (``engine.tree.values_ahead``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.db.engine import Engine
from engine.errors import DamageError, UnsupportedError
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.lsn import NULL_LSN
from engine.format.versions import TWO_PART_DUPLICATES
from engine.native import records_of
from engine.tree.bin_node import BIN, is_expired
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.tree.tree import edge_bin, find_bin, find_plain, next_bin, read_around, slot_data, slot_values
from engine.tree.values_ahead import ValuesAhead, live_within, slots_within
from engine.txn.lock_types import Grant, LockType
from engine.txn.records import end_marker, gap_lsn
from engine.txn.txn import Isolation, LockMode, Txn

_new_tuple: Final = tuple.__new__
_RANGES: Final = (LockType.RANGE_READ, LockType.RANGE_WRITE)


class ScannedRecord(NamedTuple):
    """A record: its key in comparable form, its data, its LSN."""

    key: Key
    data: bytes
    lsn: int


class LiveSlots(NamedTuple):
    """The live records of one BIN, ascending.

    Attributes:
        keys: in comparable form.
        sizes: sizes of their entries; 0 if not known.
        data: None where it must be read at the LSN.
    """

    keys: list[Key]
    sizes: list[int]
    lsns: list[int]
    data: list[bytes | None]


class ScanBatch(NamedTuple):
    """The result of one step: the records, whether the walk is finished, and the lock to wait for (NULL_LSN: none)."""

    records: list[ScannedRecord]
    at_end: bool
    wait_lsn: int


def lock_type_of(locker: Txn | None, *, write: bool = False) -> LockType | None:
    """The type of lock that a read takes under the transaction's isolation; None reads without a lock."""
    if locker is None or locker.isolation is Isolation.READ_UNCOMMITTED:
        return LockType.WRITE if write else None
    if locker.isolation is Isolation.SERIALIZABLE:
        return LockType.RANGE_WRITE if write else LockType.RANGE_READ
    return LockType.WRITE if write else LockType.READ


class RecordWalker:
    """Steps through one database.

    Arguments:
        engine, state: the database.
        locker: the transaction that takes the locks; None reads committed records without keeping locks.
        lock_type: the lock to take on each record; None reads without locks.
        backward: towards smaller keys.
        bound: end of the walk: before this key, or, backward, after it. A record beyond it is neither returned nor
            waited for. A serializable walk still locks the next record, since its lock guards the gap.
    """

    def __init__(
        self,
        engine: Engine,
        state: DatabaseState,
        locker: Txn | None,
        lock_type: LockType | None,
        *,
        backward: bool,
        bound: Key | None = None,
    ) -> None:
        self._engine = engine
        self._state = state
        self._locker = locker
        self._lock_type = lock_type
        self._backward = backward
        self._bound = bound
        self._ahead = ValuesAhead(engine.ctx, state, backward=backward, bound=bound)

    def step(self, key: Key | None, *, inclusive: bool, limit: int) -> list[ScannedRecord]:
        """The next records after (or from) a key; None begins at the edge of the database. Empty at the end."""
        while True:
            with self._engine.ctx.latch:
                step = self._step(key, inclusive, limit)
            # Evict after the latch is released, when this walk uses no node.
            self._engine.keep_budget()
            is_known = self._state.order.learned is None
            if (
                is_known
                and step.records
                and key is not None
                and not self._goes_on(key, step.records[-1].key, inclusive)
            ):
                raise _circle(self._state)
            if step.records or (step.at_end and step.wait_lsn == NULL_LSN):
                return step.records
            if step.wait_lsn != NULL_LSN:
                # Wait without the latch; then find the place again, since the tree may have changed.
                self._wait(step.wait_lsn)

    def exact(self, key: Key) -> ScannedRecord | None:
        """The record of a key, or None; neighbouring records are neither locked nor waited for."""
        ctx = self._engine.ctx
        while True:
            with ctx.latch:
                node = find_bin(ctx, self._state, key)
                index, exact = node.find(key) if node is not None else (0, False)
                if node is None or not exact:
                    return None
                expires = node.expirations[index] != 0
                live = node.is_live(index) and not (expires and self._has_expired(node, index, self._engine.now_ms()))
                # A pending deletion may be undone: wait for its transaction.
                if not live and (node.lsns[index] == NULL_LSN or not self._is_pending(node, index)):
                    return None
                wait_lsn = self._lock(node, index)
                if wait_lsn == NULL_LSN:
                    data = slot_data(ctx, node, index, cache=True) if live else None
                    ctx.account(node)
                    # Under a comparator the stored key may differ from the searched one and still be equal.
                    return None if data is None else ScannedRecord(node.keys[index], data, node.lsns[index])
            self._wait(wait_lsn)

    def _goes_on(self, key: Key, last: Key, inclusive: bool) -> bool:
        """Whether a step has advanced; in a damaged tree it might not, and the walk would never end."""
        if last == key:
            return inclusive
        return bool(last < key if self._backward else last > key)

    def _step(self, key: Key | None, inclusive: bool, limit: int) -> ScanBatch:
        node, index = self._place(key, inclusive)
        # A backward walk begins at the upper end of a gap. The record after the gap guards it, so lock that record
        # first.
        if self._backward and self._lock_type in _RANGES:
            wait_lsn = self._lock_range(end_marker(self._state) if node is None else self._gap(node, index + 1))
            if wait_lsn != NULL_LSN:
                return ScanBatch([], False, wait_lsn)
        found: list[ScannedRecord] = []
        now = self._engine.now_ms()
        direction = -1 if self._backward else 1
        in_bulk = limit > 1 and self._locker is None and (self._lock_type is None or self._engine.locks.is_idle())
        while node is not None:
            if self._state.order.learned is not None:
                self._state.order.learned.near = node
            if in_bulk:
                # No locks are held, and the latch prevents new ones.
                first, behind = slots_within(node, index, self._bound, backward=self._backward)
                found = _live(self._engine.ctx, node, live_within(node, first, behind, now), self._ahead.values(node))
                if self._backward:
                    found.reverse()
                if first > 0 if self._backward else behind < len(node):
                    return ScanBatch(found, True, NULL_LSN)
                index = -1 if self._backward else len(node)
            while 0 <= index < len(node):
                if self._bound is not None and self._is_beyond(node.keys[index]):
                    return ScanBatch(found, True, self._lock_beyond(node, index))
                if node.is_live(index) and not self._has_expired(node, index, now):
                    wait_lsn = self._lock(node, index)
                    if wait_lsn != NULL_LSN:
                        # Return the records found so far first; the next step waits.
                        return ScanBatch(found, False, wait_lsn)
                    data = slot_data(self._engine.ctx, node, index)
                    if data is not None:
                        found.append(ScannedRecord(node.keys[index], data, node.lsns[index]))
                        if len(found) >= limit:
                            return ScanBatch(found, False, NULL_LSN)
                elif node.lsns[index] != NULL_LSN and self._is_pending(node, index):
                    wait_lsn = self._lock(node, index)
                    if wait_lsn != NULL_LSN:
                        return ScanBatch(found, False, wait_lsn)
                index += direction
            if found:
                if in_bulk:
                    self._ahead.note_step(node, now)
                return ScanBatch(found, False, NULL_LSN)
            node = next_bin(self._engine.ctx, node, backward=self._backward)
            index = len(node) - 1 if node is not None and self._backward else 0
        return ScanBatch(found, True, self._lock_end())

    def _is_beyond(self, key: Key) -> bool:
        return bool(key < self._bound if self._backward else key >= self._bound)

    def _lock_beyond(self, node: BIN, index: int) -> int:
        """Lock the record after the last one of the walk, for the gap in front of it."""
        # A backward walk has already locked the gap.
        if self._backward or self._lock_type not in _RANGES:
            return NULL_LSN
        return self._lock_range(self._gap(node, index))

    def _gap(self, node: BIN, index: int) -> int:
        """The LSN whose lock guards the gap in front of a slot; a walk that begins after a gap locks it too."""
        return gap_lsn(self._engine.ctx, node, index)

    def _place(self, key: Key | None, inclusive: bool) -> tuple[BIN | None, int]:
        ctx = self._engine.ctx
        if key is None:
            node = edge_bin(ctx, self._state, last=self._backward)
            return node, len(node) - 1 if node is not None and self._backward else 0
        node = find_bin(ctx, self._state, key)
        if node is None:
            return None, 0
        if self._backward:
            return node, (bisect_right(node.keys, key) if inclusive else bisect_left(node.keys, key)) - 1
        return node, bisect_left(node.keys, key) if inclusive else bisect_right(node.keys, key)

    def _has_expired(self, node: BIN, index: int, now_ms: int) -> bool:
        """Whether a record has expired; a transaction still sees records that expired after it locked them
        (R-CLN-50).
        """
        if not is_expired(node.expirations[index], now_ms):
            return False
        locker, lsn = self._locker, node.lsns[index]
        return locker is None or lsn not in locker.locks or lsn in (locker.expired or ())

    def _is_pending(self, node: BIN, index: int) -> bool:
        """Whether the slot holds a deletion whose transaction may still be open; a locking reader has to wait for
        its end.
        """
        return self._lock_type is not None and bool(node.states[index] & 0x08) and not self._engine.locks.is_idle()

    def _lock(self, node: BIN, index: int) -> int:
        """Lock a record without waiting; returns the LSN to wait for, or NULL_LSN."""
        locks, lsn = self._engine.locks, node.lsns[index]
        if self._locker is not None:
            return self._engine.records.lock_slot(node, index, self._locker, self._lock_type)
        # The version has no lock owner, and under the latch no writer can lock it.
        if self._lock_type is None or locks.is_idle() or not locks.owners(lsn):
            return NULL_LSN
        passing = self._engine.passing_locker()
        granted = locks.lock(lsn, passing, self._lock_type, wait=False)
        if granted is Grant.DENIED:
            return lsn
        # If the lock is granted, the version is committed; this read needs no more.
        locks.release(lsn, passing)
        return NULL_LSN

    def _lock_end(self) -> int:
        """Lock the end of the database; a serializable scan does this when it passes the last record."""
        return NULL_LSN if self._backward else self._lock_range(end_marker(self._state))

    def _lock_range(self, lsn: int) -> int:
        """Take the lock that guards a gap, in a serializable walk only; returns the LSN to wait for, or NULL_LSN."""
        locker = self._locker
        if locker is None or self._lock_type is None or self._lock_type not in _RANGES:
            return NULL_LSN
        if lsn in locker.locks:
            return NULL_LSN
        granted = self._engine.locks.lock(lsn, locker, self._lock_type, wait=False)
        if granted in (Grant.NEW, Grant.EXISTING, Grant.PROMOTED):
            locker.locks[lsn] = None
            return NULL_LSN
        return lsn

    def _wait(self, lsn: int) -> None:
        locker = self._locker
        if locker is not None:
            self._engine.records.wait_for(lsn, locker, self._lock_type)
            return
        passing = self._engine.passing_locker()
        assert self._lock_type is not None
        self._engine.locks.lock(lsn, passing, self._lock_type)
        passing.locks[lsn] = None
        # Release all of its locks: the cleaner may just have moved the version to another LSN.
        self._engine.txns.end_operation(passing)


def _circle(state: DatabaseState) -> DamageError:
    return DamageError(
        f"the tree of {state.label} leads back to keys that were passed",
        consequence="its records cannot be walked over",
        hint="jetool verify shows what is damaged; restore these files from a backup",
    )


def _live(ctx: TreeContext, node: BIN, chosen: list[int], ahead: dict[int, bytes | None] | None) -> list[ScannedRecord]:
    """The records in slots, ascending."""
    keys, lsns = node.keys, node.lsns
    values = slot_values(ctx, node, chosen, ahead)
    if records_of is not None:
        return records_of(ScannedRecord, keys, values, lsns, chosen)
    found: list[ScannedRecord] = []
    for at, data in zip(chosen, values, strict=True):
        if data is not None:
            found.append(_new_tuple(ScannedRecord, (keys[at], data, lsns[at])))
    return found


def live_slots(
    engine: Engine, state: DatabaseState, low: Key | None = None, high: Key | None = None
) -> Iterator[LiveSlots]:
    """The live records of a database, one BIN at a time, without their data: no LN is read, and no lock is taken.

    Arguments:
        low, high: only records with ``low <= key < high``; None for no bound.
    """
    last: Key | None = None
    is_whole = False
    learned = state.order.learned
    while not is_whole:
        with engine.ctx.latch:
            at = low if last is None else last
            node = edge_bin(engine.ctx, state) if at is None else find_bin(engine.ctx, state, at)
            index = 0
            if at is not None and node is not None:
                index = bisect_left(node.keys, at) if last is None else bisect_right(node.keys, at)
                if index >= len(node):
                    node, index = next_bin(engine.ctx, node), 0
            # Several nodes per latch; between two latches the evictor may remove any node, so the place is found again.
            batches: list[LiveSlots] = []
            now = engine.now_ms()
            while node is not None and len(batches) < _NODES_AT_ONCE:
                if index < len(node):
                    if learned is not None:
                        learned.near = node
                    elif last is not None and not last < node.keys[index]:
                        raise _circle(state)
                    last = node.keys[-1]
                    end = len(node) if high is None or last < high else bisect_left(node.keys, high)
                    batches.append(_slots(node, index, end, now))
                    if end < len(node):
                        is_whole = True
                        break
                node, index = next_bin(engine.ctx, node), 0
        engine.keep_budget()
        if not batches:
            return
        yield from batches


def _slots(node: BIN, first: int, end: int, now_ms: int) -> LiveSlots:
    expirations, states, values = node.expirations, node.states, node.values
    # Most nodes have only records that are live and do not expire.
    if node.is_all_live() and not any(expirations):
        chosen = list(range(first, end))
    else:
        chosen = [at for at in range(first, end) if node.is_live(at) and not is_expired(expirations[at], now_ms)]
    if node.db.duplicates:
        # The key contains the whole record.
        data: list[bytes | None] = [b""] * len(chosen)
    else:
        data = [b"" if values[at] is None and states[at] & SLOT_EMBEDDED else values[at] for at in chosen]
    if len(chosen) == len(node):
        return LiveSlots(list(node.keys), list(node.sizes), list(node.lsns), data)
    keys, sizes, lsns = node.keys, node.sizes, node.lsns
    return LiveSlots([keys[at] for at in chosen], [sizes[at] for at in chosen], [lsns[at] for at in chosen], data)


def has_whole_slots(engine: Engine) -> bool:
    """Whether slots alone determine which records exist: no lock is held, and no log file is of version 7 or earlier.

    Up to v7 a slot may lead to a deletion without a flag for it. A file without a readable header (such as a last file
    that a crash left empty) has no version; then each record is read, so that damage is found where it affects a
    record.
    """
    access = engine.ctx.access
    try:
        return engine.locks.is_idle() and all(
            access.version_of(file.number) >= TWO_PART_DUPLICATES for file in access.files()
        )
    except (DamageError, UnsupportedError):
        return False


_NODES_AT_ONCE: Final = 64
_BATCH: Final = 1 << 20


def lock_of(locker: Txn | None, mode: LockMode) -> LockType | None:
    """The lock that one operation takes; None reads without a lock, including uncommitted records."""
    if mode is LockMode.READ_UNCOMMITTED:
        return None
    if mode is LockMode.READ_COMMITTED:
        return LockType.READ
    if locker is None:
        # Reads committed records and keeps no lock. A read for a later update (RMW) waits for readers too.
        return LockType.WRITE if mode is LockMode.RMW else LockType.READ
    return lock_type_of(locker, write=mode is LockMode.RMW)


def walker_of(
    engine: Engine,
    state: DatabaseState,
    locker: Txn | None,
    mode: LockMode = LockMode.DEFAULT,
    *,
    backward: bool = False,
    bound: Key | None = None,
) -> RecordWalker:
    """A walker with the locks of the mode and the transaction; without a transaction it reads committed records."""
    return RecordWalker(engine, state, locker, lock_of(locker, mode), backward=backward, bound=bound)


def data_at(engine: Engine, state: DatabaseState, key: Key, mode: LockMode = LockMode.DEFAULT) -> bytes | None:
    """The data of a record as a reader without a transaction sees it; None if there is no record.

    Gives the same result as ``walker_of(...).exact``, but faster in the common case: a live record that does not
    expire, while no lock is held. All other cases are left to ``exact``. What was read counts towards the cache.
    """
    ctx: TreeContext = engine.ctx
    latch = ctx.latch
    # Same as a ``with`` statement, which takes three times as long in compiled code.
    latch.acquire()
    try:
        if latch.refusal is not None:
            latch.refusal()
        idle = engine.locks.is_idle()
        node, index, data = find_plain(ctx, state, key) if idle else (None, -1, None)
        if node is not None and (data is not None or index < 0):
            # Nothing was read: the cache is as large as it was.
            return data
        is_found = node is not None
        if node is not None:
            data = slot_data(ctx, node, index, cache=True)
            if data is not None and ctx.used_bytes * 2 < engine.evictor.budget_bytes:
                read_around(ctx, node, data)
            ctx.account(node)
        else:
            is_found, data = _found_plain(ctx, state, key, idle=idle)
    finally:
        latch.release()
    if not is_found:
        found = walker_of(engine, state, None, mode).exact(key)
        data = None if found is None else found.data
    engine.keep_budget()
    return data


def _found_plain(ctx: TreeContext, state: DatabaseState, key: Key, *, idle: bool) -> tuple[bool, bytes | None]:
    """Whether a record needs no further look, and its data: it does not exist, or it does not expire and is live."""
    node = find_bin(ctx, state, key)
    index, exact = node.find(key) if node is not None else (0, False)
    if node is None or not exact:
        return True, None
    if not idle or not node.is_live(index) or node.expirations[index] != 0:
        return False, None
    data = node.values[index]
    if data is None:
        data = slot_data(ctx, node, index, cache=True)
        ctx.account(node)
    return True, data


def records_between(
    engine: Engine,
    state: DatabaseState,
    low: Key | None,
    high: Key | None,
    *,
    backward: bool = False,
    locker: Txn | None = None,
) -> Iterator[list[ScannedRecord]]:
    """Records with ``low <= key < high``, in batches; one at a time if locks are taken."""
    walker = walker_of(engine, state, locker, backward=backward, bound=low if backward else high)
    # Locks are kept, so no record may be locked before the caller asks for it.
    limit = 1 if locker is not None else _BATCH
    key, inclusive = (high, False) if backward else (low, True)
    while found := walker.step(key, inclusive=inclusive, limit=limit):
        yield found
        key, inclusive = found[-1].key, False
