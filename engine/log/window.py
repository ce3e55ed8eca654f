"""Looking into one log file: a buffer over it, the entry at an offset, and the next good entry after a bad one.

The buffer covers ``[base, base + len(data))`` of the file, so that memory does not grow with the file. ``reach`` moves
it so that it begins at an offset and holds at least the requested bytes, up to the end of the file. Files up to
``WINDOW_BYTES`` are read in one piece. ``look`` examines the entry at an offset.

Entries are linked twice: forward by size, backward by prevOffset. After a bad entry at offset p, the next one is
searched in three ways, each confirmed by the checksum of the entry found:

1. *Size chain*: if the header still looks right, the next entry begins after its size and points back to p. A file
   header has the same size in every file, so this works for it even if all of its bytes are destroyed.
2. *Prev-offset chain*: the entry that follows a bad one has p as its prevOffset, wherever it is. Searching for these
   four bytes finds it even if the size is destroyed.
3. *Search*: any place after p where type, size and a prevOffset between p and that place make sense. This is needed if
   several consecutive entries are bad.

Ways 2 and 3 search the file piece by piece, so that a hit costs only the bytes before it and not the rest of the file.
A false hit would need a matching 32-bit checksum; data that contains a copy of a log entry fails the check of the
prevOffset. An erased entry has no checksum: it counts only if a good entry that points back to it follows.

Work is bounded: candidates are filtered by their header before a checksum is computed, and the cost of checksums that
do not match is limited, for a whole pass, to a multiple of the file size (``SearchBudget``). Real damage stays far
below the limit. A crafted file, in which every bad entry claims the rest of the file, exceeds it; the rest of that file
is then one stretch of damage.

Example: in 5/0x82c an INS_LN_TX of 66 bytes has a flipped bit in its key. Its size field is intact, so the entry at
5/0x86e is examined; its prevOffset is 0x82c and its checksum is right: found by size chain, 66 bytes skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final
from zlib import adler32

from engine.format.entry.file_header import FILE_HEADER_BYTES
from engine.format.entry_types import ERASED
from engine.format.header import (
    BAD_CHECKSUM,
    GOOD,
    HEADER_BYTES,
    HEADER_WITH_VLSN_BYTES,
    MORE,
    PREV_AT,
    SIZE_AT,
    TYPE_AT,
    EntryCheck,
    entry_checksum,
    examine,
)
from engine.format.versions import HIGHEST_TYPE
from engine.log.entry import BY_PREV_OFFSET, BY_SEARCH, BY_SIZE_CHAIN
from engine.storage.base import ReadFile

WINDOW_BYTES: Final = 16 << 20
# For callers that examine a header or a few entries only.
LOOK_BYTES: Final = 4 << 10
_PIECE_BYTES: Final = 1 << 20


class Window:
    """The buffer. ``data`` and ``base`` are read directly by the scanning loops.

    Arguments:
        file: the file.
        size_bytes: the end of the file for this pass; bytes that a live writer adds later are ignored.
        window_bytes: number of bytes to hold.
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

        If the file has become shorter since it was listed, its current end counts.
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
        """Bytes of the file; moves the buffer if it does not hold them. Fewer at the end of the file."""
        if not self.holds(offset, min(length, self.size_bytes - offset)):
            self.reach(offset, length)
        start = offset - self.base
        return self.data[start : start + length]

    def at_end(self) -> bool:
        """Whether the buffer extends to the end of the file."""
        return self.base + len(self.data) >= self.size_bytes

    def checksum_of(self, offset: int, length: int, start: int) -> int:
        """Continue an Adler-32 checksum over bytes of the file, without holding them all in memory."""
        total = start
        for piece in range(offset, offset + length, _PIECE_BYTES):
            total = adler32(self._file.read(piece, min(_PIECE_BYTES, offset + length - piece)), total)
        return total


# Sizes of the pieces that are searched: most hits are near, so the first ones are small.
_FIRST_PIECE_BYTES: Final = 4 << 10
_LARGEST_PIECE_BYTES: Final = 4 << 20
# Non-matching checksums may cover this multiple of the file's size, and at least this many bytes.
_WASTE_FACTOR: Final = 4
_LEAST_WASTE: Final = 16 << 20
# Examining a candidate counts as much as summing this number of bytes.
_LEAST_COST: Final = 256
# Longest run of erased entries that is followed to reach one with a checksum.
_MOST_ERASED: Final = 100


class SearchBudget:
    """Limits the work that damage may cause in one pass over a file.

    Arguments:
        file_bytes: size of the file.

    Attributes:
        left: number of bytes that may still be summed.
    """

    __slots__ = ("left",)

    def __init__(self, file_bytes: int) -> None:
        self.left = max(_LEAST_WASTE, _WASTE_FACTOR * file_bytes)

    def charge(self, summed_bytes: int) -> None:
        """Count bytes that were summed without a match."""
        self.left -= summed_bytes

    def spend(self, summed_bytes: int) -> bool:
        """Pay for a candidate; False if the budget is used up."""
        self.left -= max(summed_bytes, _LEAST_COST)
        return not self.is_used_up()

    def is_used_up(self) -> bool:
        """Whether the pass has to give up."""
        return self.left < 0


def next_good(
    window: Window, bad: int, version: int, header: EntryCheck, budget: SearchBudget
) -> tuple[int, str] | None:
    """The next good entry after a bad entry.

    Arguments:
        window: the window over the file; it is moved.
        bad: offset of the bad entry.
        version: log version of the file.
        header: the result of ``examine`` for the bad entry.
        budget: the budget of this pass over the file.

    Returns:
        The offset of the entry and how it was found; None if the rest of the file has no good entry, or the budget is
        used up.
    """
    if header.verdict == BAD_CHECKSUM:
        # Summed without a match: a file of only such entries would cost the square of its size.
        budget.charge(_claimed_bytes(header))
    if budget.is_used_up():
        return None
    after = -1
    if bad == 0:
        # A file header has the same size in all versions, so its own size field is not needed.
        after = FILE_HEADER_BYTES
    elif header.header is not None and header.header.item_size >= 0:
        after = bad + header.header_bytes + header.header.item_size
    if 0 < after <= window.size_bytes - HEADER_BYTES:
        # The next entry must point back to the bad entry: by size alone any place could match.
        examined = look(window, after, version, bad)
        if examined.verdict == GOOD:
            return after, BY_SIZE_CHAIN
        if examined.verdict == BAD_CHECKSUM:
            budget.charge(_claimed_bytes(examined))
    # After a damaged file header the link is four zero bytes, which occur everywhere.
    link = bad.to_bytes(4, "little") if bad else None
    pattern = _header_pattern(version, min(window.size_bytes >> 24, 255))
    start, length = bad + 1, _FIRST_PIECE_BYTES
    while start < window.size_bytes:
        piece = window.bytes_at(start, length + HEADER_BYTES)
        for places, how in ((_linked_places(piece, link), BY_PREV_OFFSET), (_header_places(piece, pattern), BY_SEARCH)):
            for place in places:
                if 0 <= place < length and _links_after(piece, place, start, bad):
                    if not budget.spend(_candidate_bytes(piece, place, start, version, window.size_bytes)):
                        return None
                    if _is_confirmed(window, start + place, version):
                        return start + place, how
        start += length
        length = min(2 * length, _LARGEST_PIECE_BYTES)
    return None


def _linked_places(piece: bytes, link: bytes | None) -> Iterator[int]:
    """The positions of possible headers whose prevOffset is the link."""
    at = -1 if link is None else piece.find(link)
    while link is not None and at >= 0:
        yield at - PREV_AT
        at = piece.find(link, at + 1)


def _header_places(piece: bytes, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """The positions of bytes that look like a header."""
    return (match.start() for match in pattern.finditer(piece))


def _is_confirmed(window: Window, offset: int, version: int) -> bool:
    """Whether a checksum confirms that an entry begins at ``offset``: its own, or that of an entry linked to it."""
    prev_offset = -1
    for _ in range(_MOST_ERASED):
        examined = look(window, offset, version, prev_offset)
        if examined.verdict != GOOD or examined.header is None:
            return False
        if examined.header.type_number != ERASED:
            return True
        prev_offset = offset
        offset += examined.header_bytes + examined.header.item_size
    return False


def _links_after(piece: bytes, place: int, start: int, bad: int) -> bool:
    """Whether the header at ``place`` of a piece points to the bad entry or to a place between it and the header."""
    # A link to an entry before the bad entry cannot be right, since the successor of that entry is known.
    return bad <= int.from_bytes(piece[place + PREV_AT : place + SIZE_AT], "little") < start + place


def _claimed_bytes(examined: EntryCheck) -> int:
    """Total size of an entry according to its header."""
    return examined.header_bytes + (0 if examined.header is None else examined.header.item_size)


def _candidate_bytes(piece: bytes, place: int, start: int, version: int, file_bytes: int) -> int:
    """Number of bytes to sum for a candidate; 0 if its header rules it out."""
    header = piece[place : place + HEADER_BYTES]
    if len(header) < HEADER_BYTES or not 1 <= header[TYPE_AT] <= HIGHEST_TYPE[version]:
        return 0
    size = int.from_bytes(header[SIZE_AT:], "little", signed=True)
    return size if 0 <= size <= file_bytes - start - place else 0


def look(window: Window, offset: int, version: int, prev_offset: int) -> EntryCheck:
    """Examine the entry at an offset, moving the window as far as needed.

    For an entry larger than the window, the checksum is verified in pieces before any byte is kept, so that a damaged
    size costs no memory.
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
    # No checksum is computed for a size that exceeds the file.
    if offset + examined.expected > window.size_bytes:
        return examined._replace(verdict="cut", found=window.size_bytes - offset)
    return _sum_in_pieces(window, offset, version, prev_offset, examined)


def _examine(window: Window, offset: int, version: int, prev_offset: int) -> EntryCheck:
    end = len(window.data)
    return examine(window.data, offset - window.base, end, version, prev_offset, at_end=window.at_end())


def _sum_in_pieces(window: Window, offset: int, version: int, prev_offset: int, examined: EntryCheck) -> EntryCheck:
    header = examined.header
    assert header is not None
    held = offset - window.base
    head = window.data[held : held + examined.header_bytes]
    found = window.checksum_of(offset + len(head), header.item_size, entry_checksum(head, version))
    if found != header.checksum and header.type_number != ERASED:
        return examined._replace(verdict=BAD_CHECKSUM, expected=header.checksum, found=found)
    # Compare the link after the checksum: a wrong link in an intact entry is a different finding from a damaged entry.
    if prev_offset not in (-1, header.prev_offset):
        return examined._replace(verdict="prev-offset", expected=prev_offset, found=header.prev_offset)
    return examined._replace(verdict=GOOD)


@cache
def _header_pattern(version: int, top_byte: int) -> re.Pattern[bytes]:
    """A pattern for headers: four bytes of checksum, a type, flags, and numbers no larger than the file."""
    highest = re.escape(bytes((HIGHEST_TYPE[version],)))
    # Numbers are little-endian: the last byte is the highest, and no offset or size exceeds the file.
    number = b"...[\\x00-" + re.escape(bytes((top_byte,))) + b"]"
    return re.compile(b"(?s)(?=....[\\x01-" + highest + b"]." + number + number + b")")
