"""Log instants, Derby's LSN: file number in the high 32 bits, byte position in the low 32. 0 means none.

Comparing two instants as numbers compares log order. They print as Derby prints them, ``(file,position)``.
"""

from __future__ import annotations

import re
from typing import Final

from engine.errors import UsageError

NONE: Final = 0
MAX_FILE: Final = 2**31 - 1
MAX_POSITION: Final = 0x0FFFFFFF

_TEXT: Final = re.compile(r"\(?\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)?")


def make(file: int, position: int) -> int:
    """The instant of a byte position in a log file."""
    return file << 32 | position


def file_of(instant: int) -> int:
    """The number of the log file."""
    return instant >> 32


def position_of(instant: int) -> int:
    """The byte position in the log file."""
    return instant & 0xFFFFFFFF


def show(instant: int) -> str:
    """The instant as Derby prints it; ``null`` for none."""
    return f"({instant >> 32},{instant & 0xFFFFFFFF})" if instant else "null"


def parse(text: str) -> int:
    """The instant written as ``(1,41725)`` or ``1,41725``. UsageError for other text."""
    found = _TEXT.fullmatch(text.strip())
    if found is None or int(found[1]) > MAX_FILE or int(found[2]) > 0xFFFFFFFF:
        raise UsageError(f"{text!r} is not a log instant", expected="FILE,POSITION such as 1,41725", found=text)
    return make(int(found[1]), int(found[2]))
