"""FileHeader (25): the first entry of every log file (je-log-format.md 3.2).

==============================  ====  ==================================================
time                            i64   creation, ms since 1970, not packed
file number                     u32   must equal the number in the file name
lastEntryInPrevFileOffset       i64   offset of the last entry of the file before; 0 in file 0
log version                     i32
==============================  ====  ==================================================

The entry's own header is like any other (type 25, flags 0, prevOffset 0, item size 24); in version 6 the flags hold 6.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from engine.format.fields import Shape, shape
from engine.format.header import HEADER_BYTES

FILE_HEADER_BODY: Final = Struct("<qIqi")
FILE_HEADER_BYTES: Final = HEADER_BYTES + FILE_HEADER_BODY.size
assert FILE_HEADER_BYTES == 38
# Position of the log version in a file; it is the last field of the header.
VERSION_AT: Final = FILE_HEADER_BYTES - 4


class FileHeader(NamedTuple):
    """The body of a file header."""

    time: int
    file_num: int
    last_entry_in_prev_file: int
    log_version: int


FILE_HEADER: Final[Shape] = shape(FileHeader, "time:time file_num:int last_entry_in_prev_file:int log_version:int")


def decode_file_header(body: bytes, version: int) -> FileHeader:
    """Decode the 24 bytes of a file header, any version.

    Raises:
        struct.error: the body has another length.
    """
    return FileHeader._make(FILE_HEADER_BODY.unpack(body))


def encode_file_header(record: FileHeader, version: int) -> bytes:
    """Encode the body of a file header."""
    return FILE_HEADER_BODY.pack(*record)
