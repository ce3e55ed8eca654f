"""Group commit: one fsync for everybody who asked while the one before was under way (R-LOG-25).

The first requester becomes leader and syncs; who comes meanwhile waits, and is served if the leader's sync began after
its bytes were written, else by the next leader. Nobody returns before its own bytes are durable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from engine.format.lsn import NULL_LSN

_WAIT_SECONDS: Final = 0.5


class GroupCommit:
    """Serialises fsyncs.

    Arguments:
        flush_and_sync: writes and syncs everything logged so far; returns the LSN up to which it is durable.
    """

    def __init__(self, flush_and_sync: Callable[[], int]) -> None:
        self._flush_and_sync = flush_and_sync
        self._changed = threading.Condition()
        self._durable = NULL_LSN
        self._leading = False
        self.requests = self.syncs = 0

    def sync(self, lsn: int) -> None:
        """Return when everything before an LSN is durable.

        Raises:
            StorageError: the fsync failed; the caller's bytes may or may not be on disk.
        """
        with self._changed:
            self.requests += 1
            while self._durable < lsn:
                if not self._leading:
                    self._leading = True
                    break
                self._changed.wait(_WAIT_SECONDS)
            else:
                return
        durable = NULL_LSN
        try:
            durable = self._flush_and_sync()
        finally:
            with self._changed:
                self._leading = False
                self.syncs += 1
                self._durable = max(self._durable, durable)
                self._changed.notify_all()
