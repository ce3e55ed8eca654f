"""A log file: its name, its 24-byte header and the envelope of its records.

======  ====  ============================================================================
offset  size  content
======  ====  ============================================================================
0       int   format id 128
4       int   9
8       long  N of ``logN.dat``
16      long  instant just after the last record of the previous file; 0 in the first file
24            records; after the last record of a file left by a log switch four zero bytes
======  ====  ============================================================================

Envelope of a record: int L, long instant (its own file number and position), L bytes of body, int L again. A record
never crosses a file boundary.
"""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple

from engine.derby.format.control import OBSOLETE_VERSION
from engine.errors import FormatError, plural

FORMAT_ID: Final = 128

_HEADER: Final = struct.Struct(">iiqq")
HEADER_SIZE: Final = _HEADER.size
assert HEADER_SIZE == 24

ENVELOPE: Final = struct.Struct(">iq")
TRAILER: Final = struct.Struct(">i")
OVERHEAD: Final = ENVELOPE.size + TRAILER.size
assert OVERHEAD == 16
END_MARKER: Final = bytes(4)

_NAME: Final = re.compile(r"log([1-9]\d{0,9})\.dat")


class LogFileHeader(NamedTuple):
    """The header of a log file, fields in on-disk order."""

    number: int
    previous_end: int


def file_name(number: int) -> str:
    """The name of log file ``number``."""
    return f"log{number}.dat"


def number_of(name: str) -> int | None:
    """The number in the name of a log file, or None for another name."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def decode(data: bytes) -> LogFileHeader:
    """Decode the header at the start of ``data``; FormatError if it is short or of another format."""
    if len(data) < HEADER_SIZE:
        raise FormatError(
            "the log file is shorter than its header", expected=f"{HEADER_SIZE} bytes", found=plural(len(data), "byte")
        )
    format_id, obsolete, number, previous_end = _HEADER.unpack_from(data)
    if format_id != FORMAT_ID or obsolete != OBSOLETE_VERSION:
        raise FormatError("not a Derby log file", expected="format id 128, number 9", found=f"{format_id}, {obsolete}")
    return LogFileHeader(number, previous_end)


def encode(header: LogFileHeader) -> bytes:
    """The 24 bytes of the header."""
    return _HEADER.pack(FORMAT_ID, OBSOLETE_VERSION, header.number, header.previous_end)


def wrap(instant: int, body: bytes) -> bytes:
    """A body in its envelope."""
    return ENVELOPE.pack(len(body), instant) + body + TRAILER.pack(len(body))
