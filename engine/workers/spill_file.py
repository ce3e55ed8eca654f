"""A spill file: lists of numbers that several processes append to, and that may be larger than memory.

A process buffers the numbers that it adds; ``flush`` appends them to a nameless file in the system's temporary
directory, shared by all workers that start after ``share``. A flush is one write to the end of the file, so that
processes do not wait for each other. Each part begins with the name of its list and its length in bytes, so that a
process finds the parts that others have flushed since it started.

Example: list 7 with two numbers, list 9 with one: ``7 16 n n 9 8 n``, eight bytes each.
"""

from __future__ import annotations

import fcntl
import os
from array import array
from struct import Struct
from typing import IO, Final

from engine.errors import StorageError
from engine.storage.scratch import nameless_file

_HEAD: Final = Struct("<qq")


class SpillFile:
    """Lists of signed 64-bit numbers; the name of a list is a number.

    Attributes:
        waiting: numbers by list that were added and not flushed. Callers append to these lists directly.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, list[int]] = {}
        self._file: IO[bytes] | None = None
        # By list name: the places of its parts and their lengths, as far as the file has been read.
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
        """Append the buffered numbers to the file; False if there is no room: the numbers are then lost."""
        if not self.waiting:
            return True
        if not self.share() or self._file is None:
            return False
        parts = []
        for name, numbers in self.waiting.items():
            data = array("q", numbers).tobytes()
            parts += [_HEAD.pack(name, len(data)), data]
        whole = b"".join(parts)
        self.waiting.clear()
        try:
            # Append in one write; otherwise the numbers of another process could come in between.
            return os.write(self._file.fileno(), whole) == len(whole)
        except OSError:
            return False

    def names(self) -> list[int]:
        """The names of all lists, ascending."""
        self._look()
        return sorted({*self._places, *self.waiting})

    def take(self, name: int) -> array[int]:
        """The numbers of a list; within a part they keep their order.

        Raises:
            StorageError: the numbers cannot be read.
        """
        self._look()
        found = array("q")
        for place, length in self._places.get(name, ()):
            found.frombytes(self._read(place, length))
        found.extend(self.waiting.get(name, ()))
        return found

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
        try:
            data = os.pread(self._file.fileno(), length, place)
        except OSError as error:
            raise StorageError("the scratch file cannot be read", found=error.strerror or str(error)) from error
        if len(data) != length:
            raise StorageError("the scratch file has lost bytes", hint="run the command again")
        return data
