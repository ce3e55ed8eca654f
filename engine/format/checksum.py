"""The checksum of an entry: Adler-32, start value 1, over everything after the checksum field itself.

The INVISIBLE bit is cleared before the sum is taken (since log version 7), so that it can be set in place later
(R-LOG-41). Entries of type ``Erased`` keep the checksum of what they were; it must not be checked.
"""

from __future__ import annotations

from typing import Final
from zlib import adler32

from engine.format.versions import INVISIBLE_BIT

CHECKSUM_BYTES: Final = 4
INVISIBLE: Final = 0x10

_TYPE_AT: Final = 4
_FLAGS_AT: Final = 5


def entry_checksum(entry: bytes | memoryview, version: int) -> int:
    """The checksum that the entry should have, as an unsigned 32-bit number.

    An entry larger than the read window is summed in pieces: the first one here, the others with
    ``zlib.adler32(piece, sum)``.

    Arguments:
        entry: header and body; the first four bytes, the stored checksum, are left out of the sum.
        version: log version of the file.
    """
    flags = entry[_FLAGS_AT]
    if flags & INVISIBLE and version >= INVISIBLE_BIT:
        return adler32(entry[_FLAGS_AT + 1 :], adler32(bytes((entry[_TYPE_AT], flags & ~INVISIBLE))))
    return adler32(entry[CHECKSUM_BYTES:])
