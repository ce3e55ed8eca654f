"""The lock table, which threads call to lock record versions.

Rules: R-TXN-1 (locks belong to LSNs; logging a new version moves them), 3 to 8 (grants and queues), 24 (timeouts),
25 (deadlocks), 26 (importunate lockers). Isolation (R-TXN-20) and R-TXN-10, 11 are the caller's part:

* read-uncommitted takes no locks; read-committed takes READ with a helper locker of the same group and releases it when
  the cursor moves; repeatable read keeps READ to the end; serializable takes the range types, and locks a made-up LSN
  for the end of the database when a scan passes the last record;
* while a node is latched the caller requests with ``wait=False``; if that is DENIED, it releases the latch, waits,
  takes the latch again and searches the slot again, since its LSN may have changed;
* a slot that is known deleted, or whose LSN is NULL, has no lock.

One mutex guards the table. It is held for the few steps of one request, never while a thread waits or during a call
that could wait. Only a version without an owner is locked without the mutex, in one step. The locker's callbacks only
record a fact. Each waiter sleeps on its own condition, so that a release wakes exactly the waiters that it grants.

The table has no list of a locker's locks: the transaction keeps it, because it needs one for its write locks anyway.

Example: T1 holds WRITE on 0x0/0x64 and logs a new version at 0x0/0xc8. ``transfer(0x64, 0xc8, write=True)`` gives WRITE
on 0xc8 to T1, and to every locker that shares its lock, before the node is unlatched. The lock on 0x64 stays: it guards
the version to which an abort returns. T2, which waits for it, finds the slot at 0xc8 once it is granted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, NamedTuple

from engine.errors import JetoolError, plural
from engine.format.lsn import format_lsn
from engine.txn.deadlock import choose_victim, describe_cycle, find_cycle
from engine.txn.lock_entry import LockEntry, Locker, Waiter
from engine.txn.lock_errors import (
    DeadlockError,
    LockConflictError,
    LockPreemptedError,
    LockTimeoutError,
    TransactionTimeoutError,
)
from engine.txn.lock_types import DEMOTED, Grant, LockType

_RELEASE_BATCH: Final = 256
_NEW: Final = Grant.NEW
_WRITE: Final = LockType.WRITE
_RANGE_WRITE: Final = LockType.RANGE_WRITE
_RANGE_INSERT: Final = LockType.RANGE_INSERT
_TRY_AGAIN: Final = "abort the transaction and try it again"


class LockStats(NamedTuple):
    """Counters since the table was created; ``locks`` and ``waiters`` are current values."""

    requests: int
    waits: int
    timeouts: int
    deadlocks: int
    preemptions: int
    locks: int
    waiters: int


class LockTable:
    """All record locks of one environment.

    Arguments:
        deadlock_detect: whether to search for cycles (``je.lock.deadlockDetect``).
        deadlock_detect_delay_ms: how long a request waits before it searches (``je.lock.deadlockDetectDelay``).
        clock: a monotonic clock, in seconds.
        mutex: guards the table; None for a lock of its own.
    """

    def __init__(
        self,
        *,
        deadlock_detect: bool = True,
        deadlock_detect_delay_ms: int = 0,
        clock: Callable[[], float] = time.monotonic,
        mutex: Any = None,
    ) -> None:
        self._mutex = mutex if mutex is not None else threading.Lock()
        self._locks: dict[int, LockEntry] = {}
        self._waiting: dict[Hashable, list[Waiter]] = {}
        self._detect = deadlock_detect
        self._detect_delay = deadlock_detect_delay_ms / 1000
        self._clock = clock
        self._requests = self._waits = self._timeouts = self._deadlocks = self._preemptions = 0

    def lock(
        self, lsn: int, locker: Locker, lock_type: LockType, *, wait: bool = True, jump_ahead: bool = False
    ) -> Grant:
        """Lock a record version.

        Arguments:
            lsn: the version.
            locker, lock_type: the requester and the type.
            wait: False returns DENIED if it would have to wait; a lock that the locker holds stays unchanged.
            jump_ahead: do not queue behind waiters if the owners allow the request (used only for the READ lock of a
                database handle on its NameLN).

        Returns:
            NEW, PROMOTED or EXISTING: the lock is held now. DENIED, RESTART: see ``Grant``.

        Raises:
            LockTimeoutError, TransactionTimeoutError, DeadlockError: the locker is abort-only.
            JetoolError: the locker holds a type that cannot be changed to the requested type.
        """
        locks = self._locks
        self._requests += 1
        if lsn not in locks:
            # Without the mutex: ``setdefault`` is atomic, and there is no owner or queue to check.
            made = LockEntry(lsn, locker, lock_type)
            if locks.setdefault(lsn, made) is made:
                return _NEW
        with self._mutex:
            entry = locks.get(lsn)
            if entry is None:
                # The last owner has released the lock since the first look.
                made = LockEntry(lsn, locker, lock_type)
                entry = locks.setdefault(lsn, made)
                if entry is made:
                    return _NEW
            granted = entry.try_grant(locker, lock_type, in_line=jump_ahead or not entry.waiters)
            if granted is not None and granted is not Grant.RESTART:
                return granted
            # The caller holds a latch; it has to release it and request again (R-TXN-10).
            if not wait:
                return Grant.DENIED
            waiter = Waiter(entry, locker, lock_type, threading.Condition(self._mutex))
            # Waiting insertions count like owners (R-TXN-6).
            waiter.restarts = granted is Grant.RESTART or entry.insertion_waits(locker, lock_type)
            waiter.promotes = not waiter.restarts and entry.held(locker) is not None
            return self._wait(waiter)

    def release(self, lsn: int, locker: Locker) -> bool:
        """Release a lock and grant it to waiters. False if the locker does not hold it."""
        with self._mutex:
            return self._release(lsn, locker)

    def release_many(self, lsns: Iterable[int], locker: Locker) -> int:
        """Release locks, in batches so that other threads can proceed in between. Returns the number that were held."""
        held = list(lsns)
        released = 0
        for first in range(0, len(held), _RELEASE_BATCH):
            with self._mutex:
                for lsn in held[first : first + _RELEASE_BATCH]:
                    released += self._release(lsn, locker)
        return released

    def release_all(self, held: dict[int, None], locker: Locker) -> None:
        """Release all locks of a locker, in batches, and empty its list.

        The list is not copied: the cleaner may move a version meanwhile, and then adds the lock on the moved version.
        """
        while held:
            with self._mutex:
                for _ in range(min(len(held), _RELEASE_BATCH)):
                    lsn, _nothing = held.popitem()
                    self._release(lsn, locker)

    def demote(self, lsn: int, locker: Locker) -> None:
        """Turn a write lock into the corresponding read lock; other types stay unchanged."""
        with self._mutex:
            entry = self._locks.get(lsn)
            held = None if entry is None else entry.held(locker)
            if entry is not None and held is not None and held in DEMOTED:
                entry.set_owner(locker, DEMOTED[held])
                self._sweep(entry)

    def transfer(
        self, old_lsn: int, new_lsn: int, *, write: bool, noted: Callable[[Locker, int], None] | None = None
    ) -> list[tuple[Locker, LockType]]:
        """Give every owner of a lock the lock on the version that replaces the old one (R-TXN-1).

        RANGE_INSERT locks are not transferred: the owner of a gap determines which version guards the gap now.

        Arguments:
            old_lsn, new_lsn: the versions. The old lock stays; its owners release it when they end.
            write: whether the owners wrote the new version and therefore get a write lock. False if the version only
                moved (migration), so that each keeps its type.
            noted: called with each owner and the new LSN, while the old lock cannot be released, because the owner may
                be ending in another thread.

        Returns:
            The owners of the new lock.

        Raises:
            JetoolError: the new version is already locked, which is impossible if the caller holds the node's latch.
        """
        with self._mutex:
            # The new version is not visible yet: the node is still latched.
            if new_lsn in self._locks:
                raise JetoolError("a new version is locked by somebody else", lsn=format_lsn(new_lsn))
            # Within one hold of the mutex: no waiter may be granted in between.
            old = self._locks.get(old_lsn)
            if old is None:
                return []
            given = [
                (owner, _on_new_version(held) if write else held)
                for owner, held in old.owners()
                if held is not LockType.RANGE_INSERT
            ]
            for owner, lock_type in given:
                entry = self._locks.get(new_lsn)
                if entry is None:
                    self._locks[new_lsn] = LockEntry(new_lsn, owner, lock_type)
                else:
                    entry.set_owner(owner, lock_type)
                if noted is not None:
                    noted(owner, new_lsn)
            return given

    def pass_on(self, old_lsn: int, new_lsn: int, locker: Locker) -> bool:
        """Like ``transfer``, for a version that the locker has written, if its lock is neither shared nor awaited, as
        in almost all cases.

        Returns:
            False if there are other owners or waiters, or the locker holds no lock to pass on; then nothing has
            changed.
        """
        with self._mutex:
            old = self._locks.get(old_lsn)
            if old is None or new_lsn in self._locks or not old.is_only(locker):
                return False
            held = old.held(locker)
            if held is None or held is _RANGE_INSERT:
                return False
            self._locks[new_lsn] = LockEntry(new_lsn, locker, _on_new_version(held))
            return True

    def is_idle(self) -> bool:
        """Whether no lock is held or awaited. Read without the mutex, so only a hint for readers."""
        return not self._locks

    def is_free(self, lsn: int) -> bool:
        """Whether the lock of a version is neither held nor awaited; read without the mutex, see ``is_idle``."""
        return lsn not in self._locks

    def held(self, lsn: int, locker: Locker) -> LockType | None:
        """The type that the locker holds on the version, or None."""
        with self._mutex:
            entry = self._locks.get(lsn)
            return None if entry is None else entry.held(locker)

    def owners(self, lsn: int) -> list[tuple[Locker, LockType]]:
        """The owners of the lock, oldest first."""
        with self._mutex:
            entry = self._locks.get(lsn)
            return [] if entry is None else list(entry.owners())

    def waiters(self, lsn: int) -> list[Locker]:
        """The waiters for the lock, in queue order."""
        with self._mutex:
            entry = self._locks.get(lsn)
            return [] if entry is None else [waiter.locker for waiter in entry.waiters or ()]

    def stats(self) -> LockStats:
        """The counters."""
        with self._mutex:
            waiting = sum(map(len, self._waiting.values()))
            counted = (self._requests, self._waits, self._timeouts, self._deadlocks, self._preemptions)
            return LockStats(*counted, len(self._locks), waiting)

    # The following methods run under the mutex.

    def _release(self, lsn: int, locker: Locker) -> bool:
        entry = self._locks.get(lsn)
        if entry is not None and entry.is_only(locker):
            del self._locks[lsn]
            return True
        if entry is None or not entry.drop_owner(locker):
            return False
        self._sweep(entry)
        return True

    def _sweep(self, entry: LockEntry) -> None:
        """Grant waiters from the head of the queue until one is not compatible (R-TXN-8)."""
        while entry.waiters:
            waiter = entry.waiters[0]
            granted = entry.retry(waiter)
            # Later requests stay in the queue, even if they are compatible (R-TXN-8).
            if granted is None:
                break
            self._settle(waiter, granted)
        if entry.is_unused():
            del self._locks[entry.lsn]

    def _settle(self, waiter: Waiter, outcome: Grant | LockConflictError) -> None:
        waiter.outcome = outcome
        waiter.lock.dequeue(waiter)
        group = self._waiting[waiter.locker.group]
        group.remove(waiter)
        if not group:
            del self._waiting[waiter.locker.group]
        waiter.wakeup.notify()

    def _fail(self, waiter: Waiter, error: LockConflictError) -> None:
        """End a wait without the lock; waiters behind this waiter may have waited only for it."""
        waiter.locker.set_abort_only(error)
        self._settle(waiter, error)
        self._sweep(waiter.lock)

    def _wait(self, waiter: Waiter) -> Grant:
        self._waits += 1
        waiter.lock.enqueue(waiter)
        self._waiting.setdefault(waiter.locker.group, []).append(waiter)
        try:
            self._await_outcome(waiter)
        except BaseException:
            # After an interrupt, leave neither a place in the queue nor an unrecorded lock.
            if waiter.outcome is None:
                self._settle(waiter, Grant.DENIED)
                self._sweep(waiter.lock)
            elif waiter.outcome is Grant.NEW:
                self._release(waiter.lock.lsn, waiter.locker)
            raise
        outcome = waiter.outcome
        if isinstance(outcome, LockConflictError):
            raise outcome
        assert outcome is not None
        return outcome

    def _await_outcome(self, waiter: Waiter) -> None:
        locker = waiter.locker
        started = self._clock()
        detect_at = started + self._detect_delay if self._detect else None
        lock_deadline = self._lock_deadline(locker, started)
        while waiter.outcome is None:
            now = self._clock()
            # Replay cannot be given up, so the transaction timeout does not apply to importunate lockers.
            deadlines = [lock_deadline, None if locker.importunate else locker.txn_deadline, detect_at]
            deadline = min((moment for moment in deadlines if moment is not None), default=None)
            if deadline is None or now < deadline:
                waiter.wakeup.wait(None if deadline is None else deadline - now)
            elif detect_at is not None:
                # Search for deadlocks before any timeout: if a victim releases its lock, this request need not fail.
                detect_at = None
                if self._break_deadlocks(waiter):
                    lock_deadline = self._lock_deadline(locker, now)
            elif locker.importunate:
                # This request has waited for its lock timeout; replay takes precedence over readers (R-TXN-26).
                self._steal(waiter)
                lock_deadline = self._lock_deadline(locker, now)
            else:
                self._time_out(waiter, now, started)

    def _lock_deadline(self, locker: Locker, now: float) -> float | None:
        return now + locker.lock_timeout_ms / 1000 if locker.lock_timeout_ms else None

    def _time_out(self, waiter: Waiter, now: float, started: float) -> None:
        locker, lsn = waiter.locker, waiter.lock.lsn
        self._timeouts += 1
        waited = f"{(now - started) * 1000:.0f} ms"
        found = waiter.lock.describe()
        # If both timeouts have passed, report the transaction timeout; otherwise it would hardly ever be reported.
        if locker.txn_deadline is not None and now >= locker.txn_deadline:
            what = f"transaction timeout after {waited} of waiting for {waiter.lock_type.name}"
            error: LockConflictError = TransactionTimeoutError(
                what, locker_id=locker.id, lock_lsn=lsn, found=found, hint=_TRY_AGAIN
            )
        else:
            what = f"lock timeout after {waited} of waiting for {waiter.lock_type.name}"
            error = LockTimeoutError(what, locker_id=locker.id, lock_lsn=lsn, found=found, hint=_TRY_AGAIN)
        self._fail(waiter, error)

    def _break_deadlocks(self, waiter: Waiter) -> bool:
        """Choose a victim for each cycle through a request until no cycle is left. True if there was one."""
        before = self._deadlocks
        # One request may close several cycles, and its own failure ends all of them.
        while waiter.outcome is None and (cycle := find_cycle(waiter, self._waiting)):
            victim = choose_victim(cycle)
            self._deadlocks += 1
            error = DeadlockError(
                f"deadlock of {plural(len(cycle), 'transaction')}",
                locker_id=victim.locker.id,
                lock_lsn=victim.lock.lsn,
                found=describe_cycle(cycle),
                hint=_TRY_AGAIN,
            )
            self._fail(victim, error)
        return self._deadlocks > before

    def _steal(self, waiter: Waiter) -> None:
        """Take the lock from preemptable owners (R-TXN-26). If other owners remain, the request waits once more."""
        entry = waiter.lock
        for owner in entry.in_the_way(waiter):
            if not owner.preemptable:
                continue
            self._preemptions += 1
            error = LockPreemptedError(
                "a lock was taken away by the replay of the replication stream",
                locker_id=owner.id,
                lock_lsn=entry.lsn,
                found=f"transaction {waiter.locker.id} needs it",
                hint=_TRY_AGAIN,
            )
            entry.drop_owner(owner)
            owner.set_preempted(error)
        # Grant to this waiter before the sweep: the lock was taken for it, not for the head of the queue.
        granted = entry.retry(waiter)
        if granted is not None:
            self._settle(waiter, granted)
        self._sweep(entry)


def _on_new_version(held: LockType) -> LockType:
    """The type that an owner gets on a version that it, or a locker of its group, has written."""
    if held is _WRITE or held is _RANGE_WRITE:
        return held
    return _RANGE_WRITE if held is LockType.RANGE_READ else _WRITE
