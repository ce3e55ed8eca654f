"""The lock table: what threads call to lock record versions.

Rules: R-TXN-1 (locks belong to LSNs; logging a new version moves them), 3 to 8 (grants and queues), 24 (timeouts),
25 (deadlocks), 26 (importunate lockers). Isolation (R-TXN-20) and R-TXN-10, 11 are the caller's part:

* read-uncommitted asks for nothing; read-committed takes READ with a helper locker of the same group and releases it
  when the cursor moves; repeatable read keeps READ to the end; serializable takes the range types, and locks a
  made-up LSN for the end of the database when a scan runs off it;
* while a node is latched the caller asks with ``wait=False``; when that is DENIED it unlatches, waits, latches again
  and looks the slot up once more, since its LSN may have changed;
* a slot whose LSN is NULL, or that is known deleted, has no lock.

One mutex guards the table. It is held for the few steps of one request, never while a thread waits and never over a
call that could wait; only the lock of a version without an owner is made without it, in one step. The locker's own
callbacks only note a fact. Who waits sleeps on a condition of its own, so a
release wakes exactly those that it grants.

The table keeps no list of what a locker holds: the transaction does, because it needs it for its write locks anyway.

Example: T1 holds WRITE on 0x0/0x64 and logs a new version at 0x0/0xc8. ``transfer(0x64, 0xc8, write=True)`` gives T1,
and every locker that shares its lock, WRITE on 0xc8 before the node is unlatched. The lock on 0x64 stays: it guards
the version that an abort returns to, and T2, which waits for it, finds the slot at 0xc8 when it gets it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Final, NamedTuple

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
    """Counters since the table was made; ``locks`` and ``waiters`` are as of now."""

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
        deadlock_detect: look for cycles (``je.lock.deadlockDetect``).
        deadlock_detect_delay_ms: how long a request waits before it looks (``je.lock.deadlockDetectDelay``).
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        *,
        deadlock_detect: bool = True,
        deadlock_detect_delay_ms: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mutex = threading.Lock()
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
            locker, lock_type: who wants what.
            wait: False answers DENIED where it would have to wait; a lock that the locker holds stays as it is.
            jump_ahead: do not queue behind waiters when the owners allow it (the READ lock of a database handle on
            its NameLN, nothing else).

        Returns:
            NEW, PROMOTED or EXISTING: held now. DENIED, RESTART: see ``Grant``.

        Raises:
            LockTimeoutError, TransactionTimeoutError, DeadlockError: the locker is abort-only.
            JetoolError: the locker holds a type that cannot become this one.
        """
        locks = self._locks
        self._requests += 1
        if lsn not in locks:
            # Without the mutex: ``setdefault`` is one step, and there is no owner or queue to be asked.
            made = LockEntry(lsn, locker, lock_type)
            if locks.setdefault(lsn, made) is made:
                return _NEW
        with self._mutex:
            entry = locks.get(lsn)
            if entry is None:
                # It has just been released.
                made = LockEntry(lsn, locker, lock_type)
                entry = locks.setdefault(lsn, made)
                if entry is made:
                    return _NEW
            granted = entry.try_grant(locker, lock_type, in_line=jump_ahead or not entry.waiters)
            if granted is not None and granted is not Grant.RESTART:
                return granted
            # The caller holds a latch; it lets go and asks again (R-TXN-10).
            if not wait:
                return Grant.DENIED
            waiter = Waiter(entry, locker, lock_type, threading.Condition(self._mutex))
            # Waiting insertions count as if they were owners (R-TXN-6).
            waiter.restarts = granted is Grant.RESTART or entry.insertion_waits(locker, lock_type)
            waiter.promotes = not waiter.restarts and entry.held(locker) is not None
            return self._wait(waiter)

    def release(self, lsn: int, locker: Locker) -> bool:
        """Give a lock back and grant it to whom it is due. False when the locker does not hold it."""
        with self._mutex:
            return self._release(lsn, locker)

    def release_many(self, lsns: Iterable[int], locker: Locker) -> int:
        """Give locks back, in batches so that others can go on meanwhile. Returns how many were held."""
        held = list(lsns)
        released = 0
        for first in range(0, len(held), _RELEASE_BATCH):
            with self._mutex:
                for lsn in held[first : first + _RELEASE_BATCH]:
                    released += self._release(lsn, locker)
        return released

    def release_all(self, held: dict[int, None], locker: Locker) -> None:
        """Give back all that a locker holds, in batches, and empty its list.

        Not from a copy of the list: meanwhile the cleaner may move a version, and adds the lock on the new one.
        """
        while held:
            with self._mutex:
                for _ in range(min(len(held), _RELEASE_BATCH)):
                    lsn, _nothing = held.popitem()
                    self._release(lsn, locker)

    def demote(self, lsn: int, locker: Locker) -> None:
        """Turn a write lock into the read lock of its kind; anything else stays."""
        with self._mutex:
            entry = self._locks.get(lsn)
            held = None if entry is None else entry.held(locker)
            if entry is not None and held is not None and held in DEMOTED:
                entry.set_owner(locker, DEMOTED[held])
                self._sweep(entry)

    def transfer(
        self, old_lsn: int, new_lsn: int, *, write: bool, noted: Callable[[Locker, int], None] | None = None
    ) -> list[tuple[Locker, LockType]]:
        """Give every owner of a lock the lock on the version that replaces it (R-TXN-1).

        Not those of RANGE_INSERT: who was granted a gap finds out for itself which version guards it now.

        Arguments:
            old_lsn, new_lsn: the versions. The old lock is kept; its owners release it when they end.
            write: the new version was written by the owners, which therefore get a write lock; False when the version
                only moved (migration), so that each gets what it has.
            noted: told of each owner before anybody can release the old lock: it may be ending in another thread.

        Returns:
            The owners of the new lock.

        Raises:
            JetoolError: the new version is locked already, which cannot be if the caller holds the node's latch.
        """
        with self._mutex:
            # The new version is not visible yet: the node is still latched.
            if new_lsn in self._locks:
                raise JetoolError("a new version is locked by somebody else", lsn=format_lsn(new_lsn))
            # Under one hold of the mutex: no waiter may be granted in between.
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
        """``transfer`` of a version that the locker has written, if its lock is neither shared nor awaited, which is
        almost always.

        Returns:
            False when others have to be asked, or it holds no lock that goes on; then nothing has changed.
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
        """Whether no lock is held or awaited; without the mutex, so a hint for readers."""
        return not self._locks

    def is_free(self, lsn: int) -> bool:
        """Whether the lock of a version is neither held nor awaited; without the mutex, as ``is_idle``."""
        return lsn not in self._locks

    def held(self, lsn: int, locker: Locker) -> LockType | None:
        """The type that the locker holds on the version, or None."""
        with self._mutex:
            entry = self._locks.get(lsn)
            return None if entry is None else entry.held(locker)

    def owners(self, lsn: int) -> list[tuple[Locker, LockType]]:
        """Who owns the lock, oldest first."""
        with self._mutex:
            entry = self._locks.get(lsn)
            return [] if entry is None else list(entry.owners())

    def waiters(self, lsn: int) -> list[Locker]:
        """Who waits for the lock, in the order of the queue."""
        with self._mutex:
            entry = self._locks.get(lsn)
            return [] if entry is None else [waiter.locker for waiter in entry.waiters or ()]

    def stats(self) -> LockStats:
        """The counters."""
        with self._mutex:
            waiting = sum(map(len, self._waiting.values()))
            counted = (self._requests, self._waits, self._timeouts, self._deadlocks, self._preemptions)
            return LockStats(*counted, len(self._locks), waiting)

    # All that follows runs under the mutex.

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
        """Grant waiters from the head of the queue up to the first that is not compatible (R-TXN-8)."""
        while entry.waiters:
            waiter = entry.waiters[0]
            granted = entry.retry(waiter)
            # Those after it stay in line, even where they are compatible (R-TXN-8).
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
        """End a wait without the lock; those after it may have waited for nothing else."""
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
            # An interrupt: leave neither a place in the queue nor an unrecorded lock.
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
            # Replay cannot be given up: for an importunate locker the transaction timeout does not count.
            deadlines = [lock_deadline, None if locker.importunate else locker.txn_deadline, detect_at]
            deadline = min((moment for moment in deadlines if moment is not None), default=None)
            if deadline is None or now < deadline:
                waiter.wakeup.wait(None if deadline is None else deadline - now)
            elif detect_at is not None:
                # Before any timeout, since a victim's release is the better answer, and worth another wait.
                detect_at = None
                if self._break_deadlocks(waiter):
                    lock_deadline = self._lock_deadline(locker, now)
            elif locker.importunate:
                # Readers had their lock timeout; the stream of the master goes before them (R-TXN-26).
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
        # When both have passed it is the transaction's: otherwise that one would hardly ever be seen.
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
        """Take the lock from preemptable owners (R-TXN-26); one that is not is waited for once more."""
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
        # Before the sweep: the lock was taken away for this one, not for the head of the queue.
        granted = entry.retry(waiter)
        if granted is not None:
            self._settle(waiter, granted)
        self._sweep(entry)


def _on_new_version(held: LockType) -> LockType:
    """The type that an owner gets on a version that it, or a locker of its group, has written."""
    if held is _WRITE or held is _RANGE_WRITE:
        return held
    return _RANGE_WRITE if held is LockType.RANGE_READ else _WRITE
