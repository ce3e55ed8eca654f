"""Lockers and threads for the tests of locking."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

from engine.txn.lock_errors import LockConflictError, LockPreemptedError
from engine.txn.lock_types import Grant, LockType
from engine.txn.locks import LockTable
from tests.support.waiting import PATIENCE_S

PATIENCE = float(PATIENCE_S)


class TestLocker:
    """A locker that notes what it is told. Compared by identity."""

    __test__ = False

    def __init__(
        self,
        id: int,
        *,
        group: Hashable = None,
        lock_timeout_ms: int = 0,
        txn_timeout_ms: int = 0,
        preemptable: bool = True,
        importunate: bool = False,
    ) -> None:
        self.id = id
        self.group: Hashable = self if group is None else group
        self.lock_timeout_ms = lock_timeout_ms
        self.txn_deadline = time.monotonic() + txn_timeout_ms / 1000 if txn_timeout_ms else None
        self.preemptable = preemptable
        self.importunate = importunate
        self.abort_only: LockConflictError | None = None
        self.preempted: LockPreemptedError | None = None

    def set_abort_only(self, cause: LockConflictError) -> None:
        self.abort_only = cause

    def set_preempted(self, cause: LockPreemptedError) -> None:
        self.preempted = cause


class Call(threading.Thread):
    """A call in a thread of its own; ``result`` is its value or the exception."""

    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._function = function
        self._value: object = None
        self.start()

    def run(self) -> None:
        try:
            self._value = self._function()
        except Exception as error:
            self._value = error

    def result(self) -> object:
        """Wait for the end; a call that hangs fails the test."""
        self.join(PATIENCE)
        assert not self.is_alive(), "the call hangs"
        return self._value


def ask(table: LockTable, lsn: int, locker: TestLocker, lock_type: LockType, **how: bool) -> Call:
    """Ask for a lock in another thread, and return when the request is granted, refused or in the queue."""
    call = Call(lambda: table.lock(lsn, locker, lock_type, **how))
    until(lambda: not call.is_alive() or locker in table.waiters(lsn))
    return call


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; fail after a while."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.0005)


GRANTED = (Grant.NEW, Grant.PROMOTED, Grant.EXISTING)
