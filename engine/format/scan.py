"""What the entry at a position of a buffer is: the general way, with every reason why it may be bad.

Readers go over *plain* entries by the loops of ``engine.format.fast``: known type, size within the buffer, prevOffset
equal to the entry before, checksum right, and for entries of the replication stream a VLSN above the one before. The
loops stop at the first entry that is anything else and leave it to ``examine``, which says what it is:

* a good entry that is rare: invisible, or of a type in ``RARE_ENTRIES``,
* an entry that reaches beyond the buffer (``MORE``), or
* damage, with the reason.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.entry_types import ERASED, is_valid_type
from engine.format.header import (
    FLAGS_AT,
    HEADER_BYTES,
    HEADER_WITH_VLSN_BYTES,
    TYPE_AT,
    VERSION_BITS_V6,
    EntryHeader,
    decode_header,
    entry_checksum,
    header_bytes,
)
from engine.format.versions import INVISIBLE_BIT

# Results of examine().
GOOD: Final = "good"
MORE: Final = "more"
BAD_TYPE: Final = "type"
BAD_SIZE: Final = "size"
BAD_CHECKSUM: Final = "checksum"
BAD_PREV: Final = "prev-offset"
CUT: Final = "cut"


class EntryCheck(NamedTuple):
    """What ``examine`` says of one entry.

    Attributes:
        verdict: GOOD, MORE, or the reason why the entry is bad.
        header: the decoded header, None when not even that is there.
        header_bytes: 14 or 22.
        expected, found: what the reason compares, as numbers.
    """

    verdict: str
    header: EntryHeader | None
    header_bytes: int
    expected: int
    found: int


def examine(data: bytes, pos: int, end: int, version: int, prev_offset: int, *, at_end: bool) -> EntryCheck:
    """Say what the entry at ``pos`` is.

    Arguments:
        data, pos: the buffer, and where the entry begins in it.
        end: where the buffer's valid bytes end.
        version: log version of the file.
        prev_offset: the prevOffset that the entry must have; -1 accepts any (after damage).
        at_end: the buffer reaches to the end of the file, so that what is missing is missing for good.

    Returns:
        The verdict. ``CUT`` means that the file ends inside the entry.
    """
    room = end - pos
    if room < HEADER_WITH_VLSN_BYTES and not at_end:
        return EntryCheck(MORE, None, 0, HEADER_WITH_VLSN_BYTES, room)
    if room < HEADER_BYTES:
        return EntryCheck(CUT, None, 0, HEADER_BYTES, room)
    if not is_valid_type(data[pos + TYPE_AT], version):
        return EntryCheck(BAD_TYPE, None, 0, 0, data[pos + TYPE_AT])
    flags = data[pos + FLAGS_AT]
    # v6 repeats its version in every header.
    if version < INVISIBLE_BIT and flags & VERSION_BITS_V6 != version:
        return EntryCheck(BAD_TYPE, None, 0, version, flags & VERSION_BITS_V6)
    length = header_bytes(flags, version)
    if room < length:
        return EntryCheck(CUT, None, length, length, room)
    header = decode_header(data, pos, version)
    if header.item_size < 0:
        return EntryCheck(BAD_SIZE, header, length, 0, header.item_size)
    total = length + header.item_size
    if total > room:
        return EntryCheck(CUT if at_end else MORE, header, length, total, room)
    # An erased entry has kept the checksum of what it was.
    if header.type_number != ERASED:
        found = entry_checksum(memoryview(data)[pos : pos + total], version)
        if found != header.checksum:
            return EntryCheck(BAD_CHECKSUM, header, length, header.checksum, found)
    # Last: only of an intact entry can it be said that its link is wrong.
    if prev_offset not in (-1, header.prev_offset):
        return EntryCheck(BAD_PREV, header, length, prev_offset, header.prev_offset)
    return EntryCheck(GOOD, header, length, total, total)
