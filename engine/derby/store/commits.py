"""Group commit (R-DRB-7): one flush runs at a time, and writes everything appended before it began.

A committing transaction appends its end record and then needs everything up to it to be durable. When a flush is
running it waits and tests again: the flush may have covered its record. Otherwise it writes the buffer, which holds its
own end record and records that others have appended in the meantime. It syncs without holding the latch, so that others
can append. If the record is durable already, the call returns at once.

Example: A flushes to (1,5000). B ends at (1,5200) and C at (1,5300) while A's sync runs; both wait. B wakes first and
flushes to (1,5300): C finds its end durable. Three commits, two syncs.

A failed sync is not repeated: it is unknown which pages the system has dropped. The store stops.
"""

from __future__ import annotations

from threading import Condition

from engine.derby.store.write_path import Core


class DerbyGroupCommit:
    """Makes the log durable for many transactions at once.

    Arguments:
        core: the log, and the latch.

    Attributes:
        flushes: syncs so far.
        waits: number of times that a transaction waited for the flush of another transaction.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ended = Condition(core.latch)
        self._flushing = False
        self.flushes = 0
        self.waits = 0

    def make_durable(self, end: int) -> None:
        """Return when everything before an instant is durable. Called without the latch."""
        while not self._is_durable(end):
            written = None
            try:
                with self._core.stopping():
                    # The bytes are taken under the latch. The sync runs without the latch, so that other threads can
                    # append.
                    with self._core.latch:
                        written = self._core.writer.write_out()
                    if written is not None:
                        written.file.sync()
                        self.flushes += 1
            finally:
                with self._ended:
                    self._flushing = False
                    # After a failed sync nothing counts as durable: it is unknown which pages the system has dropped.
                    if written is not None and not self._core.broken:
                        self._core.writer.synced(written.end)
                    # The waiters test again, and then flush or find the store stopped.
                    self._ended.notify_all()

    def _is_durable(self, end: int) -> bool:
        """Wait for a running flush; if the instant is still not durable, the caller must flush."""
        with self._ended:
            while self._flushing and self._core.writer.durable < end:
                self.waits += 1
                self._ended.wait()
            self._core.require_whole()
            if self._core.writer.durable >= end:
                return True
            # Only one thread at a time gets here; it runs the next flush.
            self._flushing = True
            return False
