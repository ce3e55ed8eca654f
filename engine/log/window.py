"""A sliding buffer over one file, so that memory does not grow with the file.

The buffer covers ``[base, base + len(data))`` of the file. ``reach`` moves it so that it begins at an offset and holds
at least so many bytes, as far as the file goes. Files up to ``WINDOW_BYTES`` are read in one piece.
"""

from __future__ import annotations

from typing import Final
from zlib import adler32

from engine.storage.base import ReadFile

WINDOW_BYTES: Final = 16 << 20
_PIECE_BYTES: Final = 1 << 20


class Window:
    """The buffer. ``data`` and ``base`` are read directly by the scanning loops.

    Arguments:
        file: the file.
        size_bytes: where it ends for this pass; bytes that a live writer adds later are not looked at.
        window_bytes: how much to hold.
    """

    __slots__ = ("_file", "_window_bytes", "base", "data", "size_bytes")

    def __init__(self, file: ReadFile, size_bytes: int, window_bytes: int = WINDOW_BYTES) -> None:
        self._file = file
        self._window_bytes = window_bytes
        self.size_bytes = size_bytes
        self.base = 0
        self.data = b""

    def reach(self, offset: int, length: int) -> None:
        """Make the buffer begin at ``offset`` and hold ``length`` bytes, if the file has them.

        A file that has shrunk since it was listed ends where it ends now.
        """
        wanted = min(max(length, self._window_bytes), self.size_bytes - offset)
        self.data = self._file.read(offset, max(wanted, 0))
        self.base = offset
        if len(self.data) < wanted:
            self.size_bytes = offset + len(self.data)

    def holds(self, offset: int, length: int) -> bool:
        """Whether the buffer has these bytes."""
        return self.base <= offset and offset + length <= self.base + len(self.data)

    def bytes_at(self, offset: int, length: int) -> bytes:
        """Bytes of the file; moves the buffer when it does not hold them. Shorter at the end of the file."""
        if not self.holds(offset, min(length, self.size_bytes - offset)):
            self.reach(offset, length)
        start = offset - self.base
        return self.data[start : start + length]

    def at_end(self) -> bool:
        """Whether the buffer reaches to the end of the file."""
        return self.base + len(self.data) >= self.size_bytes

    def checksum_of(self, offset: int, length: int, start: int) -> int:
        """Continue an Adler-32 sum over bytes of the file without holding them all."""
        total = start
        for piece in range(offset, offset + length, _PIECE_BYTES):
            total = adler32(self._file.read(piece, min(_PIECE_BYTES, offset + length - piece)), total)
        return total
