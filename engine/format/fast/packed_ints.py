"""A long row of integers: all but the end of it is kept compressed.

For columns of tables that grow with a log. Reads and changes are mostly near the end, so a segment is compressed when
two later ones have begun. It compresses well, since bytes of equal significance are stored together, and most bytes of
ascending or small numbers are equal. A compressed segment that is read is unpacked, and stays unpacked until several
others have been read.

Example: 12 million LSNs of a log, in order, take 20 MB instead of 96.

General twin: ``array.array``, which keeps every integer uncompressed.
"""

from __future__ import annotations

import zlib
from array import array
from typing import Final

_BITS: Final = 15
_SEGMENT: Final = 1 << _BITS
_MASK: Final = _SEGMENT - 1
_LEVEL: Final = 1
# Number of unpacked segments besides those at the end.
_MOST_RECENT: Final = 3


class PackedInts:
    """Integers that can be appended, read and replaced.

    Arguments:
        code: type code of ``array``, which limits their size.
    """

    def __init__(self, code: str) -> None:
        self._code = code
        self._tail: array[int] = array(code)
        self._base = 0
        self._packed: list[bytes] = []
        # By number; the most recently used one comes last.
        self._recent: dict[int, array[int]] = {}
        self._changed: set[int] = set()

    def __len__(self) -> int:
        return self._base + len(self._tail)

    def append(self, value: int) -> None:
        """Append an integer."""
        tail = self._tail
        tail.append(value)
        if len(tail) == 2 * _SEGMENT:
            self._packed.append(_pack(tail[:_SEGMENT]))
            self._tail = tail[_SEGMENT:]
            self._base += _SEGMENT

    def extend(self, data: bytes) -> None:
        """Append the integers of an array, given as its bytes."""
        self._tail.frombytes(data)
        while len(self._tail) >= 2 * _SEGMENT:
            self._packed.append(_pack(self._tail[:_SEGMENT]))
            self._tail = self._tail[_SEGMENT:]
            self._base += _SEGMENT

    def get(self, at: int) -> int:
        """The integer at an index."""
        base = self._base
        if at >= base:
            return self._tail[at - base]
        return self._segment(at >> _BITS)[at & _MASK]

    def put(self, at: int, value: int) -> None:
        """Replace the integer at an index."""
        base = self._base
        if at >= base:
            self._tail[at - base] = value
            return
        self._segment(at >> _BITS)[at & _MASK] = value
        self._changed.add(at >> _BITS)

    def between(self, first: int, end: int) -> list[int]:
        """The integers from ``first`` up to but not including ``end``."""
        found: list[int] = []
        while first < min(end, self._base):
            stop = min((first | _MASK) + 1, end)
            segment = self._segment(first >> _BITS)
            found += segment[first & _MASK : (first & _MASK) + stop - first]
            first = stop
        if first < end:
            found += self._tail[first - self._base : end - self._base]
        return found

    def _segment(self, number: int) -> array[int]:
        recent = self._recent
        segment = recent.get(number)
        if segment is None:
            segment = _unpack(self._packed[number], self._code)
            if len(recent) == _MOST_RECENT:
                oldest = next(iter(recent))
                gone = recent.pop(oldest)
                if oldest in self._changed:
                    self._packed[oldest] = _pack(gone)
                    self._changed.remove(oldest)
        else:
            del recent[number]
        recent[number] = segment
        return segment


def _pack(segment: array[int]) -> bytes:
    data, size = segment.tobytes(), segment.itemsize
    return zlib.compress(b"".join([data[at::size] for at in range(size)]), _LEVEL)


def _unpack(packed: bytes, code: str) -> array[int]:
    segment: array[int] = array(code)
    planes, size = zlib.decompress(packed), segment.itemsize
    data, count = bytearray(len(planes)), len(planes) // size
    for at in range(size):
        data[at::size] = planes[at * count : (at + 1) * count]
    segment.frombytes(bytes(data))
    return segment
