"""Locks on keys, held to the end of a transaction, so that the undo of one loser never touches a change of another.

Shared locks are for reading, exclusive ones for writing. A conflicting request waits, and fails after a timeout, which
also ends deadlocks. The caller should then roll back. The only holder of a shared lock can get the exclusive lock.
"""

from __future__ import annotations

import time
from threading import Condition
from typing import NamedTuple

from engine.errors import RefusedError


class LockName(NamedTuple):
    """What is locked: a key of a table."""

    table: str
    key: bytes


class _Held:
    """The holders of a lock: several readers, or one writer."""

    __slots__ = ("readers", "writer")

    def __init__(self) -> None:
        self.readers: set[int] = set()
        self.writer: int | None = None

    def fits(self, owner: int, *, exclusive: bool) -> bool:
        """Whether the lock can be granted to the owner now."""
        if self.writer not in (None, owner):
            return False
        return not exclusive or self.readers <= {owner}


class Locks:
    """The locks of a store.

    Arguments:
        timeout_s: how long a request waits.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._held: dict[LockName, _Held] = {}
        self._owned: dict[int, set[LockName]] = {}
        self._released = Condition()

    def take(self, owner: int, name: LockName, *, exclusive: bool) -> None:
        """Get a lock, waiting for it. RefusedError after the timeout."""
        deadline = time.monotonic() + self._timeout_s
        with self._released:
            while not self._try(owner, name, exclusive=exclusive):
                # Any release wakes this thread; the timeout counts from the request.
                left = deadline - time.monotonic()
                if left <= 0 or not self._released.wait(left):
                    raise self._refused(owner, name)

    def is_readable(self, owner: int, name: LockName) -> bool:
        """Whether no other transaction is changing a key."""
        with self._released:
            held = self._held.get(name)
            return held is None or held.fits(owner, exclusive=False)

    def release_all(self, owner: int) -> None:
        """Release every lock of a transaction."""
        with self._released:
            for name in self._owned.pop(owner, ()):
                held = self._held[name]
                held.readers.discard(owner)
                if held.writer == owner:
                    held.writer = None
                if not held.readers and held.writer is None:
                    del self._held[name]
            # All waiters try again, though most wait for another key.
            self._released.notify_all()

    def _try(self, owner: int, name: LockName, *, exclusive: bool) -> bool:
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = _Held()
        elif not held.fits(owner, exclusive=exclusive):
            return False
        if exclusive:
            held.writer = owner
        else:
            held.readers.add(owner)
        self._owned.setdefault(owner, set()).add(name)
        return True

    def _refused(self, owner: int, name: LockName) -> RefusedError:
        held = self._held.get(name)
        holders = sorted((held.readers | {held.writer or 0}) - {owner, 0}) if held is not None else []
        what = f"a key of {name.table!r} is" if name.table else f"table {name.key.decode()!r} is"
        return RefusedError(
            f"{what} locked by another transaction",
            found=f"held by {', '.join(map(str, holders)) or 'no transaction any more'}",
            consequence="the change was not made; what the transaction has done stays until it ends",
            hint="roll the transaction back and try again",
        )
