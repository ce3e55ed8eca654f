"""A spill file: queues of bytes that several processes append to, and that may be larger than memory.

A process buffers what it adds; ``flush`` appends it to a nameless file in the system's temporary directory, shared by
all workers that start after ``share``. A flush is one write to the end of the file, so that processes do not wait for
each other. Each part begins with the name of its queue and its length in bytes, so that a process finds the parts that
others have flushed since it started.

Example: queue 7 with 16 bytes, queue 9 with 8: ``7 16 ... 9 8 ...``; names and lengths have eight bytes each.
"""

from __future__ import annotations

import fcntl
import os
from struct import Struct
from typing import IO, Final

from engine.storage.scratch import nameless_file, read_kept

_HEAD: Final = Struct("<qq")


class SpillFile:
    """Queues of bytes; the name of a queue is a number.

    Attributes:
        waiting: bytes by queue that were added and not flushed. Callers append to these bytearrays directly.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, bytearray] = {}
        self._file: IO[bytes] | None = None
        # By queue: the places of its parts and their lengths, as far as the file has been read.
        self._places: dict[int, list[tuple[int, int]]] = {}
        self._known = 0

    def share(self) -> bool:
        """Make the file, before the workers that share it start; False if it cannot be made."""
        try:
            if self._file is None:
                self._file = nameless_file()
                fcntl.fcntl(self._file.fileno(), fcntl.F_SETFL, os.O_APPEND)
        except OSError:
            return False
        return True

    def flush(self) -> bool:
        """Append the buffered bytes to the file; False if there is no room: they are then lost."""
        if not self.waiting:
            return True
        if not self.share() or self._file is None:
            return False
        parts: list[bytes | bytearray] = []
        for name, data in self.waiting.items():
            parts += [_HEAD.pack(name, len(data)), data]
        whole = b"".join(parts)
        self.waiting.clear()
        try:
            # Append in one write; otherwise the bytes of another process could come in between.
            return os.write(self._file.fileno(), whole) == len(whole)
        except OSError:
            return False

    def names(self) -> list[int]:
        """The names of all queues, ascending."""
        self._look()
        return sorted({*self._places, *self.waiting})

    def take(self, name: int) -> bytes:
        """The bytes of a queue; within a part they keep their order.

        Raises:
            StorageError: the file cannot be read.
        """
        self._look()
        parts: list[bytes | bytearray] = [self._read(*place) for place in self._places.get(name, ())]
        return b"".join([*parts, self.waiting.get(name, b"")])

    def clear(self) -> None:
        """Forget everything; the file stays shared."""
        self.waiting.clear()
        self._places.clear()
        self._known = 0
        if self._file is not None:
            os.ftruncate(self._file.fileno(), 0)

    def close(self) -> None:
        """Forget everything, and the file."""
        self.waiting.clear()
        self._places.clear()
        self._known = 0
        if self._file is not None:
            self._file.close()
            self._file = None

    def _look(self) -> None:
        """Find the parts that were flushed since the last look."""
        if self._file is None:
            return
        end = os.fstat(self._file.fileno()).st_size
        while self._known < end:
            name, length = _HEAD.unpack(self._read(self._known, _HEAD.size))
            self._places.setdefault(name, []).append((self._known + _HEAD.size, length))
            self._known += _HEAD.size + length

    def _read(self, place: int, length: int) -> bytes:
        assert self._file is not None
        return read_kept(self._file.fileno(), length, place)
