"""Group commit: one fsync for all callers that asked during the previous one (R-LOG-25).

The first caller becomes leader and syncs. A caller that arrives meanwhile waits. The leader's sync serves this caller
if it began after the caller's bytes were written; otherwise the sync of the next leader does. No caller returns before
its own bytes are durable. A caller that has waited for ``je.log.fsyncTimeout`` syncs by itself.

If ``je.log.groupCommitInterval`` and ``je.log.groupCommitThreshold`` are both above 0, a leader first waits until that
number of callers have joined or that time has passed: fewer fsyncs, but slower commits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from engine.format.lsn import NULL_LSN

DEFAULT_TIMEOUT_MS: Final = 500


class GroupSettings(NamedTuple):
    """How long commits wait for each other.

    Attributes:
        timeout_ms: je.log.fsyncTimeout.
        interval_ms, threshold: je.log.groupCommitInterval and je.log.groupCommitThreshold; 0 for none.
    """

    timeout_ms: int
    interval_ms: int
    threshold: int


UNGROUPED: Final = GroupSettings(timeout_ms=DEFAULT_TIMEOUT_MS, interval_ms=0, threshold=0)


class GroupCommit:
    """Shares fsyncs among the threads that request them.

    Arguments:
        flush_and_sync: writes and syncs everything logged so far; returns the LSN up to which it is durable. Several
            threads may call it at once.

    Attributes:
        timeout_ms: je.log.fsyncTimeout.
        interval_ms, threshold: je.log.groupCommitInterval and je.log.groupCommitThreshold; 0 for none.
        requests, syncs: number of requests, and number of fsyncs for them.
    """

    def __init__(self, flush_and_sync: Callable[[], int], settings: GroupSettings = UNGROUPED) -> None:
        self._flush_and_sync = flush_and_sync
        self._changed = threading.Condition()
        self._durable = NULL_LSN
        self._leading = False
        self._gathering = False
        self._waiting = 0
        self.timeout_ms, self.interval_ms, self.threshold = settings
        self.requests = self.syncs = 0

    def sync(self, lsn: int) -> None:
        """Wait until everything before an LSN is durable.

        Raises:
            StorageError: the fsync failed; the caller's bytes may or may not be on disk.
        """
        with self._changed:
            self.requests += 1
            leads = self._lead_or_wait(lsn)
            # The sync of another caller covered this caller's entries. A caller that neither leads nor is covered has
            # timed out and syncs by itself.
            if not leads and self._durable >= lsn:
                return
        # Stays NULL_LSN if the fsync fails, so that no caller takes the failure for success.
        durable = NULL_LSN
        try:
            durable = self._flush_and_sync()
        finally:
            with self._changed:
                if leads:
                    # Reset it after a failure too; otherwise all waiting callers would wait for a leader that is gone.
                    self._leading = False
                self.syncs += 1
                self._durable = max(self._durable, durable)
                self._changed.notify_all()

    def _lead_or_wait(self, lsn: int) -> bool:
        """Wait to be served, or become leader; True for a leader. The caller holds the condition."""
        if self._durable >= lsn or not self._leading:
            return self._become_leader(lsn)
        deadline = time.monotonic() + self.timeout_ms / 1000
        self._waiting += 1
        if self._gathering:
            # The leader is waiting for members, not for an fsync.
            self._changed.notify_all()
        try:
            while self._leading and self._durable < lsn:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        finally:
            self._waiting -= 1
        # The leader's fsync began before these bytes were written, so another fsync is needed (R-LOG-25).
        return self._become_leader(lsn)

    def _become_leader(self, lsn: int) -> bool:
        """Become leader, unless nothing is left to sync."""
        if self._durable >= lsn:
            return False
        self._leading = True
        self._gather()
        return True

    def _gather(self) -> None:
        """As leader, wait for the group to fill."""
        if self.interval_ms <= 0 or self.threshold <= 0:
            return
        until = time.monotonic() + self.interval_ms / 1000
        self._gathering = True
        try:
            while self._waiting + 1 < self.threshold:
                left = until - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)
        finally:
            self._gathering = False
