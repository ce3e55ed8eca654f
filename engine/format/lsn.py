"""Log sequence numbers: the positions of entries.

An LSN is a 64-bit integer: the file number in the upper half, the byte offset of the entry's header in the lower half.
It is signed, both on disk and here. ``NULL_LSN`` is -1. Comparing the integers gives log order (file numbers stay below
0x80000000). JE prints ``0xFILE/0xOFFSET`` in lower-case hexadecimal, and so does jetool.

An LSN with file number 0xffffffff was never written (*transient*); abort LSNs up to log version 11 can have one, and it
is read as NULL.
"""

from __future__ import annotations

import re
from typing import Final

from engine.errors import UsageError

NULL_LSN: Final = -1

_LSN_TEXT = re.compile(r"0x([0-9a-f]{1,8})/0x([0-9a-f]{1,8})", re.IGNORECASE)


def make_lsn(file_number: int, offset: int) -> int:
    """The LSN of the entry at ``offset`` (bytes) of file ``file_number``."""
    return file_number << 32 | offset


def file_of(lsn: int) -> int:
    """File number of an LSN; 0xffffffff for NULL and transient LSNs."""
    return lsn >> 32 & 0xFFFFFFFF


def offset_of(lsn: int) -> int:
    """Byte offset of an LSN within its file."""
    return lsn & 0xFFFFFFFF


def is_null(lsn: int) -> bool:
    """Whether the LSN references no entry: NULL, or transient."""
    # File number 0xffffffff, as a signed number.
    return lsn >> 32 == -1


def format_lsn(lsn: int) -> str:
    """The LSN in JE's spelling, ``0x1f/0x2a3c``; NULL is ``0xffffffff/0xffffffff``."""
    return f"0x{lsn >> 32 & 0xFFFFFFFF:x}/0x{lsn & 0xFFFFFFFF:x}"


def parse_lsn(text: str) -> int:
    """The LSN for a text in JE's spelling.

    Raises:
        UsageError: the text is not ``0xFILE/0xOFFSET``. A plain number is refused, since JE's own tools read it as
            decimal while their help says hexadecimal (deviation D-8).
    """
    found = _LSN_TEXT.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"not an LSN: {text!r}", expected="0xFILE/0xOFFSET", found=text, hint="for example 0x1f/0x2a3c"
        )
    return make_lsn(int(found.group(1), 16), int(found.group(2), 16))
