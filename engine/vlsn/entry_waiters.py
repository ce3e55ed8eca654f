"""Waiting for the next VLSN, and a cache of recent log items for waiters.

Rules R-VLSN-60 to 62. Feeders that have sent everything wait for the next entry. All of them wait for the same VLSN, so
one latch suffices; the put of that VLSN hands the log item to every waiter. A waiter that arrives shortly after finds
the item in a small cache; later ones read the log.

Example: the range ends at 10. Two feeders wait for 11. put(11) wakes both with the item of 11. If 12 is put first, both
are woken without an item: 11 is already in the log, since the log is written in VLSN order.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from engine.errors import JetoolError, RefusedError, UsageError
from engine.format.vlsn import NULL_VLSN
from engine.vlsn.vlsn_range import next_vlsn

# The cache is for entries that are sent right after being written; very long ones are read from the log.
_CACHED_BYTES: Final = 1 << 20
_MOST_SLOTS: Final = 1024
# How long a wait for consistency sleeps before it checks whether a rollback has lowered its target.
RECHECK_MS: Final = 1000


class LogItem(NamedTuple):
    """A log entry that is to be sent by feeders."""

    vlsn: int
    lsn: int
    type_number: int
    body: bytes


class WaitTimeoutError(RefusedError):
    """The awaited VLSN did not arrive in time, or the index is being closed."""

    kind = "wait_timeout"


class LogItemCache:
    """The latest log items, by VLSN modulo size (R-VLSN-62).

    Arguments:
        size: number of slots, a power of two up to 1024, or 0 for no cache (``je.rep.vlsn.logCacheSize``).

    Raises:
        UsageError: the size is neither.
    """

    __slots__ = ("_bytes", "_mask", "_slots")

    def __init__(self, size: int) -> None:
        if size & (size - 1) or not 0 <= size <= _MOST_SLOTS:
            raise UsageError(
                "je.rep.vlsn.logCacheSize", expected=f"0 or a power of two up to {_MOST_SLOTS}", found=str(size)
            )
        self._slots: list[LogItem | None] = [None] * size
        self._mask = size - 1
        self._bytes = _CACHED_BYTES // size if size else 0

    def put(self, item: LogItem) -> None:
        """Put an item into its slot, replacing the one there, unless it is very long."""
        if self._slots:
            self._slots[item.vlsn & self._mask] = item if len(item.body) <= self._bytes else None

    def get(self, vlsn: int) -> LogItem | None:
        """The item of a VLSN, if it is still there."""
        item = self._slots[vlsn & self._mask] if self._slots else None
        return item if item is not None and item.vlsn == vlsn else None

    def clear(self) -> None:
        """Forget all items."""
        self._slots = [None] * len(self._slots)


class PutLatch:
    """A latch on which all waiters for one VLSN wait.

    Attributes:
        vlsn: the VLSN.
        waiters: number of waiting threads.
    """

    __slots__ = ("_error", "_event", "_item", "vlsn", "waiters")

    def __init__(self, vlsn: int) -> None:
        self.vlsn = vlsn
        self.waiters = 0
        self._event = threading.Event()
        self._item: LogItem | None = None
        self._error: JetoolError | None = None

    def open(self, item: LogItem | None) -> None:
        """Wake the waiters; they get the item if it has their VLSN."""
        self._item = item if item is not None and item.vlsn == self.vlsn else None
        self._event.set()

    def fail(self, error: JetoolError) -> None:
        """Wake the waiters with an error."""
        self._error = error
        self._event.set()

    def wait(self, timeout_ms: int) -> LogItem | None:
        """Wait until the latch is opened.

        Raises:
            WaitTimeoutError: the latch was not opened within ``timeout_ms`` milliseconds.
            JetoolError: the error passed to ``fail``.
        """
        if not self._event.wait(timeout_ms / 1000):
            raise WaitTimeoutError(f"VLSN {self.vlsn} was not written within {timeout_ms} ms")
        if self._error is not None:
            raise self._error
        return self._item


class EntryWaiters:
    """The waiters for the next VLSN, and the cache for late ones.

    A put advances the range before it calls ``arrived``, and a waiter checks the range under the mutex that ``arrived``
    takes. So either the waiter sees the new range, or the put sees the waiter.

    Arguments:
        last: returns the current last VLSN of the range.
        cache_size: slots of the log item cache.
        recheck_ms: how long a wait for consistency sleeps before it looks at its target again.
    """

    def __init__(self, last: Callable[[], int], cache_size: int, recheck_ms: int = RECHECK_MS) -> None:
        self._last = last
        self._recheck_ms = recheck_ms
        self._mutex = threading.Lock()
        self._cache = LogItemCache(cache_size)
        self._latch: PutLatch | None = None
        self._failure: JetoolError | None = None
        self.hits = 0
        self.misses = 0

    @property
    def awaited(self) -> tuple[int, int]:
        """The VLSN that threads wait for, and their number; NULL_VLSN and 0 without any."""
        with self._mutex:
            return (self._latch.vlsn, self._latch.waiters) if self._latch is not None else (NULL_VLSN, 0)

    def arrived(self, vlsn: int, item: LogItem | None) -> None:
        """Note that an entry has been registered."""
        with self._mutex:
            if item is not None:
                self._cache.put(item)
            latch = self._latch
            # The log is written in VLSN order: a higher VLSN shows that the awaited one is in the log.
            if latch is not None and vlsn >= latch.vlsn:
                self._latch = None
                latch.open(item)

    def clear(self) -> None:
        """Drop all cached items: VLSNs are about to be reused, or files to be deleted."""
        with self._mutex:
            self._cache.clear()

    def fail(self, error: JetoolError) -> None:
        """End all waits, now and later, with an error."""
        with self._mutex:
            self._failure = error
            if self._latch is not None:
                self._latch.fail(error)
                self._latch = None

    def wait_for(self, vlsn: int, timeout_ms: int) -> LogItem | None:
        """See ``VLSNIndex.wait_for``."""
        with self._mutex:
            if self._failure is not None:
                raise self._failure
            if self._last() >= vlsn:
                item = self._cache.get(vlsn)
                self.hits += item is not None
                self.misses += item is None
                return item
            latch = self._latch
            if latch is not None and latch.vlsn != vlsn and self._last() >= latch.vlsn:
                # The put of the awaited VLSN has advanced the range but not called ``arrived`` yet: let the waiters
                # read the log.
                latch.open(None)
                latch = None
            if latch is None:
                latch = self._latch = PutLatch(vlsn)
            elif latch.vlsn != vlsn:
                raise JetoolError(f"VLSN index: others wait for VLSN {latch.vlsn}", found=f"a wait for {vlsn}")
            latch.waiters += 1
        try:
            return latch.wait(timeout_ms)
        finally:
            with self._mutex:
                latch.waiters -= 1
                # A wait that timed out must not block a wait for another VLSN.
                if not latch.waiters and self._latch is latch:
                    self._latch = None

    def await_range(self, target: Callable[[], int], timeout_ms: int) -> None:
        """Wait until the range reaches the first value of ``target``, or a later value if that is lower."""
        deadline = time.monotonic() + timeout_ms / 1000 if timeout_ms else None
        least = target()
        while (last := self._last()) < (least := min(least, target())):
            left = self._recheck_ms if deadline is None else int((deadline - time.monotonic()) * 1000)
            if left <= 0:
                raise WaitTimeoutError(f"VLSN index: {least} is allocated, but only {last} is registered")
            try:
                # Wait in short steps: a rollback may lower the target without waking this wait.
                self.wait_for(next_vlsn(last), min(left, self._recheck_ms))
            except WaitTimeoutError:
                if self._failure is not None:
                    raise
