"""Reading no faster than a number of bytes per second.

A check of a large environment on a disk that a server uses takes the disk from the server. Each read of a file that
was opened through ``ThrottledStorage`` ends only when its bytes are due. Files are not mapped into memory, because the
system reads maps without asking.

Example: at 1,000,000 bytes per second two reads of 500,000 bytes take one second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from engine.storage.base import ReadFile, Storage
from engine.storage.overlay import WrappedStorage

# Longer reads are divided, so that the rate holds also within a second.
_PIECE_BYTES: Final = 256 << 10


class Throttle:
    """Limits the mean rate of a transfer.

    Arguments:
        bytes_per_s: the limit; None for no limit.
        clock, sleep: the monotonic clock, and what waits by it.
    """

    def __init__(
        self,
        bytes_per_s: int | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_s
        self._clock = clock
        self._sleep = sleep
        self._free_at = 0.0

    def passed(self, length: int) -> None:
        """Account for transferred bytes: wait for the time that they take at the limit."""
        if self._rate is None:
            return
        now = self._clock()
        # Idle time does not count, so no burst follows it.
        self._free_at = max(self._free_at, now) + length / self._rate
        if self._free_at > now:
            self._sleep(self._free_at - now)


class ThrottledStorage(WrappedStorage):
    """A storage whose files are read at a limited rate.

    Arguments:
        base: the storage below.
        throttle: the limit, which all files share. Processes that are forked have limits of their own.
    """

    def __init__(self, base: Storage, throttle: Throttle) -> None:
        super().__init__(base)
        self._throttle = throttle

    def open(self, path: str) -> ReadFile:
        """Open an existing file for reading, at the rate."""
        return _ThrottledFile(self._base.open(path), self._throttle)


class _ThrottledFile:
    """A file that is read at a limited rate."""

    __slots__ = ("_file", "_throttle")

    def __init__(self, file: ReadFile, throttle: Throttle) -> None:
        self._file = file
        self._throttle = throttle

    @property
    def path(self) -> str:
        """The path by which the file was opened."""
        return self._file.path

    def size(self) -> int:
        """Current length in bytes."""
        return self._file.size()

    def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``, in pieces."""
        pieces = []
        while length > 0:
            piece = self._file.read(offset, min(length, _PIECE_BYTES))
            self._throttle.passed(len(piece))
            pieces.append(piece)
            if len(piece) < min(length, _PIECE_BYTES):
                break
            offset, length = offset + len(piece), length - len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
