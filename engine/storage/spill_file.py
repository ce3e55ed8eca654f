"""Piles of numbers that several processes make, and that may be more than memory holds.

A process keeps what it adds; ``put`` appends it to a nameless file of the system's temporary directory, which all forks
made after ``share`` have in common. What is put at once is one write to the end of the file, so that processes do not
wait for each other, and it says itself what it is: before the numbers of a pile stand its name and their bytes. A
process that was made before others have put something finds it too.

Example: pile 7 with 2 numbers, pile 9 with one: ``7 16 n n 9 8 n``, eight bytes each.
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


class Piles:
    """Numbers of 64 bits with a sign, in piles that have numbers for names.

    Attributes:
        waiting: what was added and not put yet: who adds millions appends to these lists.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, list[int]] = {}
        self._file: IO[bytes] | None = None
        # By name where its parts begin, and their bytes; up to an end of the file.
        self._places: dict[int, list[tuple[int, int]]] = {}
        self._known = 0

    def share(self) -> bool:
        """Make the file, before processes that are to have it in common; False where there is no place for one."""
        try:
            if self._file is None:
                self._file = nameless_file()
                fcntl.fcntl(self._file.fileno(), fcntl.F_SETFL, os.O_APPEND)
        except OSError:
            return False
        return True

    def put(self) -> bool:
        """Put what waits into the file; False when there is no room for it, and it is lost."""
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
            # In one write, or what another process puts could come in between.
            return os.write(self._file.fileno(), whole) == len(whole)
        except OSError:
            return False

    def names(self) -> list[int]:
        """Those of all piles, ascending."""
        self._look()
        return sorted({*self._places, *self.waiting})

    def take(self, name: int) -> array[int]:
        """The numbers of a pile, those of each part in their order.

        Raises:
            StorageError: they cannot be read.
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
        """Find what was put since."""
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
