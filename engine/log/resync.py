"""Finding the next good entry behind damage.

Entries are linked twice: forward by size, backward by prevOffset. From a bad entry at offset p the next one is looked
for
in three ways, each confirmed by the checksum of what it finds:

1. *Size chain*: if the header still looks right, the next entry begins behind its size and points back to p.
2. *Prev-offset chain*: the entry that follows a bad one holds p as its prevOffset, wherever it stands. Searching for
   these four bytes finds it even when the size is destroyed.
3. *Search*: any place behind p where type, size and a prevOffset between p and that place make sense. It is needed when
   several entries in a row are bad.

A wrong hit would need a matching 32-bit checksum; data that contains a copy of a log entry fails on the prevOffset.
Work
is bounded: candidates are filtered by their header before any checksum is taken, and the bytes that are summed for
candidates that fail are limited to a multiple of the file.

Example: in 5/0x82c an INS_LN_TX of 66 bytes has a flipped bit in its key. Its size field is intact, so the entry at
5/0x86e is examined; it names 0x82c as the entry before it and its sum is right: found by size chain, 66 bytes skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from engine.format.checksum import entry_checksum
from engine.format.entry_types import ERASED
from engine.format.header import HEADER_BYTES, HEADER_WITH_VLSN_BYTES
from engine.format.scan import GOOD, MORE, Examined, examine
from engine.format.versions import HIGHEST_TYPE
from engine.log.entry import BY_PREV_OFFSET, BY_SEARCH, BY_SIZE_CHAIN
from engine.log.window import Window

_SEARCH_BYTES: Final = 4 << 20
_PREV_AT: Final = 6
# Failed candidates may cost this many times the file's size in checksums, and at least this many bytes.
_WASTE_FACTOR: Final = 4
_LEAST_WASTE: Final = 16 << 20


def next_good(window: Window, bad: int, version: int, header: Examined) -> tuple[int, str] | None:
    """The next good entry behind a bad one.

    Arguments:
        window: over the file; it is moved.
        bad: offset of the bad entry.
        version: log version of the file.
        header: what ``examine`` said of it.

    Returns:
        Its offset and how it was found, or None when the rest of the file holds none.
    """
    if header.header is not None and header.header.item_size >= 0:
        after = bad + header.header_bytes + header.header.item_size
        if after + HEADER_BYTES <= window.size_bytes and is_good(window, after, version, bad):
            return after, BY_SIZE_CHAIN
    budget = _Budget(max(_LEAST_WASTE, _WASTE_FACTOR * window.size_bytes))
    link = bad.to_bytes(4, "little")
    for at in _find(window, bad + 1 + _PREV_AT, re.compile(re.escape(link))):
        if budget.allows(window, at - _PREV_AT, version) and is_good(window, at - _PREV_AT, version, bad):
            return at - _PREV_AT, BY_PREV_OFFSET
    for at in _find(window, bad + 1, _header_pattern(version, window.size_bytes)):
        prev = int.from_bytes(window.bytes_at(at + _PREV_AT, 4), "little")
        if bad <= prev < at and budget.allows(window, at, version) and is_good(window, at, version, -1):
            return at, BY_SEARCH
    return None


def is_good(window: Window, offset: int, version: int, prev_offset: int) -> bool:
    """Whether a good entry with the prevOffset (-1: any) begins at ``offset``."""
    examined = look(window, offset, version, prev_offset)
    return examined.verdict == GOOD


def look(window: Window, offset: int, version: int, prev_offset: int) -> Examined:
    """Examine the entry at an offset, moving the window as far as needed.

    An entry larger than the window is summed in pieces before a byte of it is kept, so that a damaged size costs no
    memory.
    """
    if not window.holds(offset, min(HEADER_WITH_VLSN_BYTES, window.size_bytes - offset)):
        window.reach(offset, HEADER_WITH_VLSN_BYTES)
    examined = _examine(window, offset, version, prev_offset)
    if examined.verdict != MORE:
        return examined
    window.reach(offset, HEADER_WITH_VLSN_BYTES)
    examined = _examine(window, offset, version, prev_offset)
    if examined.verdict != MORE or examined.header is None:
        return examined
    if offset + examined.expected > window.size_bytes:
        return examined._replace(verdict="cut", found=window.size_bytes - offset)
    return _sum_in_pieces(window, offset, version, prev_offset, examined)


def _examine(window: Window, offset: int, version: int, prev_offset: int) -> Examined:
    end = len(window.data)
    return examine(window.data, offset - window.base, end, version, prev_offset, at_end=window.at_end())


def _sum_in_pieces(window: Window, offset: int, version: int, prev_offset: int, examined: Examined) -> Examined:
    header = examined.header
    assert header is not None
    held = offset - window.base
    head = window.data[held : held + examined.header_bytes]
    found = window.checksum_of(offset + len(head), header.item_size, entry_checksum(head, version))
    if found != header.checksum and header.type_number != ERASED:
        return examined._replace(verdict="checksum", expected=header.checksum, found=found)
    if prev_offset not in (-1, header.prev_offset):
        return examined._replace(verdict="prev-offset", expected=prev_offset, found=header.prev_offset)
    return examined._replace(verdict=GOOD)


class _Budget:
    """Limits the bytes that are summed for candidates."""

    __slots__ = ("_left",)

    def __init__(self, limit: int) -> None:
        self._left = limit

    def allows(self, window: Window, offset: int, version: int) -> bool:
        """Whether a candidate may be summed; takes its size from the budget."""
        header = window.bytes_at(offset, HEADER_BYTES)
        if offset < 0 or len(header) < HEADER_BYTES or not 1 <= header[4] <= HIGHEST_TYPE[version]:
            return False
        size = int.from_bytes(header[10:14], "little", signed=True)
        if size < 0 or offset + HEADER_BYTES + size > window.size_bytes:
            return False
        self._left -= HEADER_BYTES + size
        return self._left >= 0


def _header_pattern(version: int, file_bytes: int) -> re.Pattern[bytes]:
    """What a header looks like: four bytes of checksum, a type, flags, and numbers no larger than the file."""
    highest = re.escape(bytes((HIGHEST_TYPE[version],)))
    top = re.escape(bytes((min(file_bytes >> 24, 255),)))
    number = b"...[\\x00-" + top + b"]"
    return re.compile(b"(?s)(?=....[\\x01-" + highest + b"]." + number + number + b")")


def _find(window: Window, start: int, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """Offsets of the file at which a pattern of at most ``HEADER_BYTES`` bytes matches, ascending."""
    offset = start
    while offset < window.size_bytes:
        piece = window.bytes_at(offset, _SEARCH_BYTES + HEADER_BYTES)
        for match in pattern.finditer(piece):
            if match.start() < _SEARCH_BYTES:
                yield offset + match.start()
        offset += _SEARCH_BYTES
