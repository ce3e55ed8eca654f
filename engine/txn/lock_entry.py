"""One lock: its owners and its queue, without threads or clocks.

Rules: R-TXN-3 to 8. Most locks have one owner. The first owner is stored in a separate field, so that such a lock stays
small: a transaction of a million writes holds a million locks.

* A request is granted if no other owner conflicts and no request waits before it. The second condition does not apply
  to promotions and to requests that may jump ahead.
* A promotion waits at the head of the queue, every other request at its end.
* A request that conflicts with an insertion waits like any other. Once no owner of another group holds an insertion
  lock, it is answered with RESTART and owns nothing.
* Lockers of one group (a transaction and its read-committed helpers) never conflict with each other.

Example, lock on 0x0/0x64: owner T1 READ; waiting T3 WRITE, T4 READ. T2 requests READ: it is compatible with T1 but
waits after T4 (R-TXN-5). T1 requests WRITE: granted at once, since it is the only owner. T1 releases: T3 is granted; T4
is not compatible with it, which ends the sweep (R-TXN-8).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from threading import Condition
from typing import Protocol

from engine.errors import JetoolError
from engine.txn.lock_errors import LockConflictError, LockPreemptedError
from engine.txn.lock_types import CONFLICTS, UPGRADES, Conflict, Grant, LockType, UpgradeKind


class Locker(Protocol):
    """An owner of locks: a transaction, or one of its helpers. Compared and hashed by identity.

    The lock table calls ``set_abort_only`` and ``set_preempted`` while it holds its own mutex; they only record the
    fact. A preempted locker raises the error in its next operation; a read-only locker that is about to close may
    ignore it.
    """

    @property
    def id(self) -> int:
        """Transaction id; replicated ones are negative."""

    @property
    def group(self) -> Hashable:
        """Lockers with equal groups share locks. A transaction may be its own group."""

    @property
    def preemptable(self) -> bool:
        """Whether an importunate locker may take the locks of this locker."""

    @property
    def importunate(self) -> bool:
        """Whether it takes a lock from preemptable owners when its lock timeout expires (replay of the stream)."""

    @property
    def lock_timeout_ms(self) -> int:
        """Longest wait for one lock in milliseconds; 0 waits for ever."""

    @property
    def txn_deadline(self) -> float | None:
        """End of the transaction's own timeout, on ``time.monotonic``; None if there is no timeout."""

    def set_abort_only(self, cause: LockConflictError) -> None:
        """From now on the transaction can only be aborted."""

    def set_preempted(self, cause: LockPreemptedError) -> None:
        """Note that this locker has lost a lock by preemption."""


class Waiter:
    """A request in a queue.

    Attributes:
        promotes: whether it widens a lock that the locker holds.
        restarts: whether it waits for an insertion and will own nothing.
        outcome: the grant, or the error that ends the wait; None while it waits.
        wakeup: signalled when the outcome is set.
    """

    __slots__ = ("lock", "lock_type", "locker", "outcome", "promotes", "restarts", "wakeup")

    def __init__(self, lock: LockEntry, locker: Locker, lock_type: LockType, wakeup: Condition) -> None:
        self.lock = lock
        self.locker = locker
        self.lock_type = lock_type
        self.promotes = False
        self.restarts = False
        self.outcome: Grant | LockConflictError | None = None
        self.wakeup = wakeup


class LockEntry:
    """The lock of one LSN.

    Attributes:
        lsn: the version that it guards.
        waiters: the queue, first in first out.
    """

    __slots__ = ("_first", "_first_type", "_others", "lsn", "waiters")

    def __init__(self, lsn: int, owner: Locker, lock_type: LockType) -> None:
        self.lsn = lsn
        self._first: Locker | None = owner
        self._first_type = lock_type
        self._others: dict[Locker, LockType] | None = None
        self.waiters: list[Waiter] | None = None

    def owners(self) -> Iterator[tuple[Locker, LockType]]:
        """Owners with their types, oldest first."""
        if self._first is not None:
            yield self._first, self._first_type
        if self._others is not None:
            yield from self._others.items()

    def held(self, locker: Locker) -> LockType | None:
        """The type that the locker itself holds."""
        if self._first is locker:
            return self._first_type
        return None if self._others is None else self._others.get(locker)

    def is_unused(self) -> bool:
        """Whether it has neither owners nor waiters."""
        return self._first is None and not self._others and not self.waiters

    def is_only(self, locker: Locker) -> bool:
        """Whether the locker is the only owner and no request waits."""
        return self._first is locker and not self._others and not self.waiters

    def set_owner(self, locker: Locker, lock_type: LockType) -> None:
        """Make the locker an owner, or change its type."""
        # The separate field may be free while others own the lock, and the locker may be one of them.
        if self._first is locker or (self._first is None and not (self._others and locker in self._others)):
            self._first, self._first_type = locker, lock_type
        elif self._others is None:
            self._others = {locker: lock_type}
        else:
            self._others[locker] = lock_type

    def drop_owner(self, locker: Locker) -> bool:
        """Remove an owner; False if the locker does not own the lock."""
        if self._first is locker:
            self._first = None
            return True
        return self._others is not None and self._others.pop(locker, None) is not None

    def try_grant(self, locker: Locker, lock_type: LockType, *, in_line: bool) -> Grant | None:
        """Grant the request if nothing prevents it.

        Arguments:
            locker, lock_type: the request.
            in_line: whether no other request waits before it.

        Returns:
            The grant; ``Grant.RESTART`` if it conflicts with an insertion; None if the request must wait.

        Raises:
            JetoolError: the locker holds a type that cannot be changed to the requested type.
        """
        held = self.held(locker)
        block = self._worst_conflict(locker, lock_type)
        if held is None:
            if block is Conflict.RESTART:
                return Grant.RESTART
            # A waiter would starve if newcomers compatible with the owners could pass it (R-TXN-5).
            if block is Conflict.BLOCK or not (in_line or self._only_group(locker)):
                return None
            self.set_owner(locker, lock_type)
            return Grant.NEW
        upgrade = UPGRADES[held][lock_type]
        if upgrade.kind is UpgradeKind.SAME:
            return Grant.EXISTING
        if upgrade.kind is UpgradeKind.ILLEGAL:
            raise JetoolError("lock upgrade that no operation asks for", expected=held.name, found=lock_type.name)
        if block is Conflict.RESTART:
            return Grant.RESTART
        # The held lock stays while the promotion waits (R-TXN-7).
        if upgrade.kind is UpgradeKind.WAIT and block is Conflict.BLOCK:
            return None
        self.set_owner(locker, upgrade.result)
        return Grant.PROMOTED if upgrade.kind is UpgradeKind.WAIT else Grant.EXISTING

    def retry(self, waiter: Waiter) -> Grant | None:
        """Grant a waiter's request if that is possible now; it counts as first in line."""
        # The requester waits for the insertion to end and then examines the range again. It gets no lock (R-TXN-3).
        if waiter.restarts:
            return None if self.in_the_way(waiter) else Grant.RESTART
        granted = self.try_grant(waiter.locker, waiter.lock_type, in_line=True)
        if granted is Grant.RESTART:
            waiter.restarts = True
            return None
        return granted

    def insertion_waits(self, locker: Locker, lock_type: LockType) -> bool:
        """Whether a waiting insertion of another group would make the request restart (R-TXN-6)."""
        return any(
            not waiter.restarts
            and waiter.locker.group != locker.group
            and CONFLICTS[waiter.lock_type][lock_type] is Conflict.RESTART
            for waiter in self.waiters or ()
        )

    def enqueue(self, waiter: Waiter) -> None:
        """Put a waiter into the queue."""
        if self.waiters is None:
            self.waiters = []
        if waiter.promotes:
            # Other requests may wait for the lock that the locker holds: at the end of the queue it would wait forever
            # (R-TXN-5).
            self.waiters.insert(0, waiter)
        else:
            self.waiters.append(waiter)

    def dequeue(self, waiter: Waiter) -> None:
        """Remove a waiter, if it is in the queue."""
        if self.waiters is not None and waiter in self.waiters:
            self.waiters.remove(waiter)

    def in_the_way(self, waiter: Waiter) -> list[Locker]:
        """The owners outside the waiter's group that it waits for."""
        found = []
        for owner, held in self.owners():
            conflict = CONFLICTS[held][waiter.lock_type]
            waits = conflict is Conflict.RESTART if waiter.restarts else conflict is not Conflict.ALLOW
            if waits and owner.group != waiter.locker.group:
                found.append(owner)
        return found

    def describe(self) -> str:
        """Owners and waiters as text."""
        owners = ", ".join(f"transaction {owner.id} {held.name}" for owner, held in self.owners())
        waiting = ", ".join(f"transaction {waiter.locker.id} {waiter.lock_type.name}" for waiter in self.waiters or ())
        return f"owned by {owners or 'no locker'}" + (f"; waiting: {waiting}" if waiting else "")

    def _worst_conflict(self, locker: Locker, lock_type: LockType) -> Conflict:
        worst = Conflict.ALLOW
        for owner, held in self.owners():
            if owner is locker or owner.group == locker.group:
                continue
            conflict = CONFLICTS[held][lock_type]
            if conflict is Conflict.RESTART:
                return conflict
            if conflict is Conflict.BLOCK:
                worst = conflict
        return worst

    def _only_group(self, locker: Locker) -> bool:
        return all(owner.group == locker.group for owner, _ in self.owners())
