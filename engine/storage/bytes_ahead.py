"""Bytes of files that are needed soon, read by a thread while the caller works on those of now.

In a log that is larger than the caches of the processor a read of a tree node takes up to a third of the time that it
takes to bring a hundred records into the node. The thread (``engine.native.core.ReadAhead``) reads the bytes of a
batch. Two batches are read at a time, each by a thread of its own. The caller examines the bytes as it examines those
that it reads itself, so damage is found where the caller comes to it.

The pure build has no such threads, and reads nothing ahead. Nor is anything read ahead from a storage that is not a
disk, or that shows a file otherwise than it is.

Example: ``begin([(0x50000082c, file, 0x82c)])``, and later ``take(0x50000082c)``, which returns 4,096 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.native import new_read_ahead
from engine.storage.base import ReadFile, descriptor_of

if TYPE_CHECKING:
    from engine.native import core

_MOST_BATCHES: Final = 2


class BytesAhead:
    """The reads of one caller.

    Arguments:
        length: bytes of each read.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._begun: list[tuple[core.ReadAhead, list[int]]] = []
        self._idle: list[core.ReadAhead] = []
        self._found: dict[int, bytes | None] = {}

    def has_room(self) -> bool:
        """Whether another batch can begin."""
        return new_read_ahead is not None and len(self._begun) < _MOST_BATCHES

    def begin(self, reads: list[tuple[int, ReadFile, int]]) -> bool:
        """Begin a batch.

        Arguments:
            reads: for each read a number of the caller's, the file, and the offset; no file is closed before ``drop``.

        Returns:
            False if there is no thread for it.
        """
        if new_read_ahead is None:
            return False
        numbers: list[int] = []
        handles: list[int] = []
        offsets: list[int] = []
        for number, file, offset in reads:
            handle = descriptor_of(file)
            if handle >= 0:
                numbers.append(number)
                handles.append(handle)
                offsets.append(offset)
        if not numbers:
            return True
        reader = self._idle.pop() if self._idle else new_read_ahead()
        if not reader.begin_raw(handles, offsets, self._length):
            return False
        self._begun.append((reader, numbers))
        return True

    def take(self, number: int) -> bytes | None:
        """The bytes of a read, fewer at the end of the file, and only once; None if they were not read ahead."""
        while self._begun and number not in self._found and any(number in numbers for _, numbers in self._begun):
            reader, numbers = self._begun.pop(0)
            self._found = dict(zip(numbers, reader.finish_raw(), strict=True))
            self._idle.append(reader)
        return self._found.pop(number, None)

    def skip(self) -> None:
        """Forget the batches: the caller goes on elsewhere."""
        for reader, _ in self._begun:
            reader.finish_raw()
            self._idle.append(reader)
        self._begun.clear()
        self._found.clear()

    def drop(self) -> None:
        """Forget everything, and end the threads: files may be closed afterwards."""
        self.skip()
        self._idle.clear()
