"""Reading and writing single records under locks (R-TREE-20 to R-TREE-23, R-TXN-1, R-TXN-10, R-TXN-31 to R-TXN-35).

A write does the following under the latch: find the slot (splitting on the way), lock its version without waiting, log
the LN, move the lock to the new LSN, change the slot. If the lock is not available at once, it is waited for without
the latch; then the slot is searched again, since it may have changed.

Since v19 an LN records when it was written, unless it is a duplicate. Since v26 an update and a deletion also repeat
the creation time of the record, which requires reading the old LN if it is not embedded (as in JE). A put sets no
creation time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from engine.errors import ReadOnlyError
from engine.format.entry.ln import TOMBSTONE
from engine.format.entry.node import KNOWN_DELETED, PENDING_DELETED, SLOT_EMBEDDED, SLOT_TOMBSTONE
from engine.format.header import HEADER_BYTES, HEADER_WITH_VLSN_BYTES
from engine.format.lsn import NULL_LSN, file_of, is_null
from engine.format.versions import CREATION_TIMES, LN_KEY_FIRST
from engine.format.vlsn import NULL_VLSN
from engine.tree.apply import RecordVersion
from engine.tree.bin_node import BIN, DELETED, UNTIMED, Times, is_expired, times_from
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key, UnknownOrderError
from engine.tree.split import bin_for_insert
from engine.tree.tree import find_bin, next_bin, read_ln, slot_data
from engine.txn.ln_body import marks_of, marshalled, record_of, type_of, user_body, version_before, with_times
from engine.txn.lock_types import Grant, LockType
from engine.txn.locks import LockTable
from engine.txn.payload import USER, Payload, PutMode, user_payload
from engine.txn.txn import GapLocker, Txn, note_lock

_END_MARKERS: Final = -(1 << 40)
_RANGES: Final = frozenset((LockType.RANGE_READ, LockType.RANGE_WRITE))
# Looked up once, since every lock request needs it.
_WRITE: Final = LockType.WRITE
_DENIED: Final = Grant.DENIED
_RESTART: Final = Grant.RESTART
_INSERT_ONLY: Final = PutMode.INSERT_ONLY
_UPDATE_ONLY: Final = PutMode.UPDATE_ONLY


def _is_granted(answer: Grant) -> bool:
    return answer is not _DENIED and answer is not _RESTART


def _never() -> bool:
    return False


def _now() -> int:
    return int(time.time() * 1000)


class Records:
    """Record operations of one environment.

    Arguments:
        ctx: the trees.
        locks: the lock table.
        clock: milliseconds since 1970.
        guards_gaps: whether a serializable transaction is active, so that insertions must request the gap into which
            they insert.
    """

    def __init__(
        self,
        ctx: TreeContext,
        locks: LockTable,
        clock: Callable[[], int] = _now,
        guards_gaps: Callable[[], bool] = _never,
    ) -> None:
        self._ctx = ctx
        self._locks = locks
        self._clock = clock
        self._guards_gaps = guards_gaps

    def get(self, db: DatabaseState, key: Key, locker: Txn | None, lock_type: LockType | None) -> bytes | None:
        """The data of a record, or None if it does not exist or has expired.

        Arguments:
            locker, lock_type: the locker, and its lock type; None reads without a lock, including uncommitted data.
        """
        while True:
            with self._ctx.latch:
                node = find_bin(self._ctx, db, key)
                index, exact = node.find(key) if node is not None else (0, False)
                # The data of an expired record is not read: JE's cleaner may have deleted the file (R-CLN-26).
                expired = node is not None and exact and self._has_expired(node, index, locker)
                wait_lsn = NULL_LSN if node is None else self._lock_slot(node, index, exact, locker, lock_type)
                live = node is not None and exact and node.is_live(index) and not expired
                if wait_lsn == NULL_LSN and not live and lock_type in _RANGES:
                    # A repeated serializable read must find no record again, so it locks the gap.
                    gap = end_marker(db) if node is None else gap_lsn(self._ctx, node, index + exact)
                    wait_lsn = self._lock_absence(gap, locker, lock_type)
                if wait_lsn == NULL_LSN:
                    if node is None or not live:
                        return None
                    data = slot_data(self._ctx, node, index, cache=True)
                    self._ctx.account(node)
                    return data
            # Wait without the latch; then search the slot again, as its LSN may have changed.
            self.wait_for(wait_lsn, locker, lock_type)

    def put_user(
        self,
        db: DatabaseState,
        key: Key,
        data: bytes,
        locker: Txn,
        mode: PutMode,
        expiration: int,
        update_expiration: bool,
    ) -> bool:
        """``put`` of a user's record; see ``user_payload``."""
        return self.put(db, key, user_payload(data, expiration, update_expiration), locker, mode)

    def put(self, db: DatabaseState, key: Key, payload: Payload, locker: Txn, mode: PutMode) -> bool:
        """Insert or update a record.

        Returns:
            False if the mode did not allow it.

        Raises:
            LockConflictError: the transaction can only be aborted. ReadOnlyError: the environment is read-only.
        """
        ctx = self._ctx
        _check_writable(ctx, db)
        locker.check_usable()
        while True:
            with ctx.latch:
                # Make room for an update too, since only the BIN shows whether the key exists (R-TREE-11).
                node = bin_for_insert(ctx, db, key)
                index, exact = node.find(key)
                gap = False
                expired = exact and self._has_expired(node, index, locker)
                wait_lsn = self._lock_slot(node, index, exact, locker, _WRITE)
                # An insertion into a deleted slot needs the gap too: to a serializable scan the slot is part of it.
                if wait_lsn == NULL_LSN and self._guards_gaps() and not (exact and node.is_live(index)):
                    gap = True
                    wait_lsn = self._ask_gap(node, index + exact, locker)
                if wait_lsn == NULL_LSN:
                    # The slot is read after the lock is granted; earlier it may show the change of an open transaction.
                    expiration = node.expirations[index] if exact else 0
                    exists = exact and node.is_live(index) and not expired
                    if exists if mode is _INSERT_ONLY else not exists and mode is _UPDATE_ONLY:
                        return False
                    if exists and payload.keeps_expiration and expiration != payload.expiration:
                        payload = Payload(
                            payload.data, payload.kind, expiration, payload.content, payload.tail, payload.refresh
                        )
                    self.write_slot(node, index, exact, key, payload, locker)
                    return True
            if gap:
                self._wait_for_gap(wait_lsn, locker)
            else:
                self.wait_for(wait_lsn, locker, _WRITE)

    def delete(self, db: DatabaseState, key: Key, locker: Txn, payload: Payload, *, even_expired: bool = True) -> bool:
        """Delete a record; False if it does not exist.

        Arguments:
            even_expired: also delete a record that has expired, which applications do not see.
        """
        ctx = self._ctx
        _check_writable(ctx, db)
        locker.check_usable()
        while True:
            with ctx.latch:
                node = find_bin(ctx, db, key)
                if node is None:
                    return False
                index, exact = node.find(key)
                expired = exact and not even_expired and self._has_expired(node, index, locker)
                wait_lsn = self._lock_slot(node, index, exact, locker, LockType.WRITE)
                if wait_lsn == NULL_LSN:
                    # Checked after the lock is granted: a deletion by an open transaction may still be undone.
                    if not exact or not node.is_live(index) or expired:
                        return False
                    self.write_slot(node, index, True, key, payload, locker)
                    return True
            self.wait_for(wait_lsn, locker, LockType.WRITE)

    def write_slot(self, node: BIN, index: int, exact: bool, key: Key, payload: Payload, locker: Txn) -> int:
        """Log an LN and change its slot; the caller holds the latch and the write lock.

        Returns:
            The LSN.
        """
        ctx, db, writer = self._ctx, node.db, self._ctx.writer
        assert writer is not None
        if db.deferred:
            return self._write_deferred(node, index, exact, key, payload, locker)
        old_lsn = node.lsns[index] if exact else NULL_LSN
        old_state = node.states[index] if exact else KNOWN_DELETED
        # Abort information is set by the transaction's first write of the record (R-TXN-32).
        mine = locker.writes.get(old_lsn) if old_lsn != NULL_LSN else None
        before = mine[1] if mine is not None else version_before(node, index, exact)
        embedded = payload.data is not None and payload.kind.embeds and self._embeds(db, payload.data)
        exists = exact and not old_state & DELETED and old_lsn != NULL_LSN
        # The LNs of deletions, embedded records and duplicates are never read by LSN (R-CLN-5).
        born_obsolete = payload.data is None or embedded or db.duplicates
        replaced = exists and not old_state & SLOT_EMBEDDED and not db.duplicates
        number = type_of(payload, exists, locker)
        marks = marks_of(node, index, exact, payload, locker, before, embedded)
        marshal: Callable[[], bytes] | None = None
        timed = writer.version >= LN_KEY_FIRST
        times = self._times(node, index, exists, payload) if timed else UNTIMED
        if payload.kind is USER and not timed:
            body = user_body(db, key, payload, locker, before, marks)
        else:
            record = record_of(db, key, payload, locker, before, marks)
            if timed:
                record = with_times(record, number, writer.version, times, before, payload)
            body, marshal = marshalled(number, writer.version, record, payload.refresh)
        # A version from before the transaction is counted at commit only: an abort needs it (R-CLN-6).
        obsolete = ((old_lsn, node.sizes[index]),) if replaced and (mine or not locker.transactional) else ()
        # The entry is logged before the slot changes, under one latch: no BIN is logged without its LN (R-TXN-35).
        if locker.vlsn == NULL_VLSN:
            lsn = writer.log(
                number, body if marshal is None else marshal, obsolete_lns=obsolete, born_obsolete=born_obsolete
            )
            size = HEADER_BYTES + len(body)
        else:
            lsn = writer.log_in_stream(number, body, locker.vlsn, obsolete_lns=obsolete, born_obsolete=born_obsolete)
            size = HEADER_WITH_VLSN_BYTES + len(body)
        if payload.expiration and ctx.expiring is not None:
            ctx.expiring.expires(lsn, payload.expiration, size)
        if locker.transactional:
            # Move the lock before the latch is released: other threads must find the new LSN locked (R-TXN-1).
            self._move_lock(locker, db, old_lsn, lsn, before)
        if payload.data is None:
            # The slot stays until the transaction has ended and the compressor removes it (R-TREE-21).
            node.put(index, key, exact, lsn, PENDING_DELETED, None, size, 0)
            locker.deleted.append((db, key))
        else:
            value = payload.data if payload.kind.embeds else None
            node.put(index, key, exact, lsn, _state_of(payload, embedded), value, size, payload.expiration)
            if embedded:
                node.note_times(key, times)
        ctx.account(node)
        return lsn

    def _times(self, node: BIN, index: int, exists: bool, payload: Payload) -> Times:
        """The times of a replayed LN, or the current time and the creation time of the record that is replaced."""
        ctx, db = self._ctx, node.db
        if payload.marks is not None:
            return payload.marks.times
        if db.duplicates:
            return UNTIMED
        created = 0
        if exists and ctx.log_version >= CREATION_TIMES and payload.kind is USER and not db.internal:
            created = node.times_of(index).created
            lsn = node.lsns[index]
            # If the file of the old LN is missing, only the creation time is lost; the record can still be replaced.
            if not node.states[index] & SLOT_EMBEDDED and not is_null(lsn) and ctx.access.has_file(file_of(lsn)):
                created = read_ln(ctx, db, lsn).creation_time
        return times_from(self._clock(), created)

    def _write_deferred(self, node: BIN, index: int, exact: bool, key: Key, payload: Payload, locker: Txn) -> int:
        """Change a record of a deferred-write database in memory; it is logged with its BIN (R-TREE-60)."""
        ctx = self._ctx
        old = node.lsns[index] if exact else NULL_LSN
        times = UNTIMED
        if ctx.log_version >= LN_KEY_FIRST and payload.data is not None:
            times = self._times(node, index, exact and node.is_live(index), payload)
        if payload.data is None:
            node.put(index, key, exact, NULL_LSN if is_null(old) else old, KNOWN_DELETED, None, 0, 0)
            locker.deleted.append((node.db, key))
            lsn = old
        else:
            embedded = payload.kind.embeds and self._embeds(node.db, payload.data)
            lsn = ctx.transient_lsn()
            node.put(index, key, exact, lsn, SLOT_EMBEDDED if embedded else 0, payload.data, 0, payload.expiration)
            node.note_times(key, times)
        ctx.account(node)
        return lsn

    def lock_slot(self, node: BIN, index: int, locker: Txn | None, lock_type: LockType | None) -> int:
        """Lock the version in a slot without waiting; returns the LSN to wait for, or NULL_LSN."""
        return self._lock_slot(node, index, True, locker, lock_type)

    def wait_for(self, lsn: int, locker: Txn | None, lock_type: LockType | None) -> Grant:
        """Wait for a lock, without the latch.

        Raises:
            LockConflictError: timeout or deadlock; the locker can only be aborted.
        """
        assert locker is not None
        assert lock_type is not None
        granted = self._locks.lock(lsn, locker, lock_type)
        if _is_granted(granted):
            locker.locks[lsn] = None
        return granted

    def _has_expired(self, node: BIN, index: int, locker: Txn | None) -> bool:
        """Whether a record has expired for a locker that is about to request its lock.

        A locker still sees records that expired after it had locked them (R-CLN-50).
        """
        expiration = node.expirations[index]
        if not expiration or not is_expired(expiration, self._clock()):
            return False
        lsn = node.lsns[index]
        if locker is None or (locker.expired is not None and lsn in locker.expired):
            return True
        if lsn in locker.locks:
            return False
        if locker.expired is None:
            locker.expired = set()
        locker.expired.add(lsn)
        return True

    def _lock_slot(self, node: BIN, index: int, exact: bool, locker: Txn | None, lock_type: LockType | None) -> int:
        # Deferred-write databases are not transactional, and their LSNs are transient.
        if not exact or locker is None or lock_type is None or node.db.deferred:
            return NULL_LSN
        lsn = node.lsns[index]
        # A version written by the locker is already locked, but not the gap in front of it (R-TXN-11).
        if lsn == NULL_LSN or node.states[index] & KNOWN_DELETED or (lsn in locker.writes and lock_type not in _RANGES):
            return NULL_LSN
        if _is_granted(self._locks.lock(lsn, locker, lock_type, wait=False)):
            locker.locks[lsn] = None
            return NULL_LSN
        return lsn

    def _lock_absence(self, lsn: int, locker: Txn | None, lock_type: LockType | None) -> int:
        """Lock the gap where a record would be; for a serializable read without a result."""
        assert locker is not None
        assert lock_type is not None
        if not _is_granted(self._locks.lock(lsn, locker, lock_type, wait=False)):
            return lsn
        locker.locks[lsn] = None
        return NULL_LSN

    def _ask_gap(self, node: BIN, index: int, locker: Txn) -> int:
        """Request the gap in front of a slot (RANGE_INSERT on the following record, or on the end marker).

        Nothing is held afterwards: the record is inserted before the latch is released, and its own lock protects it.
        """
        lsn = gap_lsn(self._ctx, node, index)
        # A separate locker: the transaction's own lock on that record must not be widened (R-TXN-4).
        helper = GapLocker(locker)
        if not _is_granted(self._locks.lock(lsn, helper, LockType.RANGE_INSERT, wait=False)):
            return lsn
        self._locks.release(lsn, helper)
        return NULL_LSN

    def _wait_for_gap(self, lsn: int, locker: Txn) -> None:
        helper = GapLocker(locker)
        if _is_granted(self._locks.lock(lsn, helper, LockType.RANGE_INSERT)):
            self._locks.release(lsn, helper)

    def _move_lock(self, locker: Txn, db: DatabaseState, old_lsn: int, lsn: int, before: RecordVersion) -> None:
        locker.wrote(lsn)
        mine = old_lsn in locker.locks
        if mine and self._locks.pass_on(old_lsn, lsn, locker):
            locker.locks[lsn] = None
        else:
            # Lockers of the group, or readers of the old version, may share the lock (R-TXN-1).
            if not mine or not self._locks.transfer(old_lsn, lsn, write=True, noted=note_lock):
                # The record is new, or its slot had no lock. The new LSN has no owner yet, so the lock is granted.
                self._locks.lock(lsn, locker, _WRITE, wait=False)
                locker.locks[lsn] = None
        # The version before the transaction is carried over to the new LSN (R-TXN-32).
        locker.writes.pop(old_lsn, None)
        locker.writes[lsn] = (db, before)

    def _embeds(self, db: DatabaseState, data: bytes) -> bool:
        return len(data) <= self._ctx.max_embedded and not db.duplicates and not db.internal


def end_marker(db: DatabaseState) -> int:
    """The made-up LSN for the end of a database in range locks (R-TXN-20)."""
    return _END_MARKERS - db.id


def gap_lsn(ctx: TreeContext, node: BIN, index: int) -> int:
    """The LSN whose lock guards the gap in front of a slot: that of the next record, or the end marker."""
    current: BIN | None = node
    while current is not None:
        for at in range(index, len(current)):
            # A known deleted slot has no lock that could guard it (R-TXN-11).
            if current.lsns[at] != NULL_LSN and not current.states[at] & KNOWN_DELETED:
                return current.lsns[at]
        current, index = next_bin(ctx, current), 0
    return end_marker(node.db)


def _state_of(payload: Payload, embedded: bool) -> int:
    """State of the slot of a record that was put."""
    tombstone = payload.marks is not None and payload.marks.flags2 & TOMBSTONE
    return (SLOT_EMBEDDED if embedded else 0) | (SLOT_TOMBSTONE if tombstone else 0)


def _check_writable(ctx: TreeContext, db: DatabaseState) -> None:
    if ctx.writer is None:
        raise ReadOnlyError("the environment is read-only", hint="open it for writing")
    if db.order.learned is not None:
        raise UnknownOrderError(db.order.learned)
