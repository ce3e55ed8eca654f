"""The entry header: 14 bytes, 22 with a VLSN (je-log-format.md 3.3 and 3.4).

======  ====  =====================================================================
offset  type  field
======  ====  =====================================================================
0       u32   checksum, Adler-32 of all that follows
4       u8    entry type
5       u8    flags
6       u32   prevOffset: header of the previous entry in the same file
10      i32   item size: bytes of the body
14      i64   VLSN, only when the flags say so
======  ====  =====================================================================

The checksum has the start value 1. Since log version 7 the INVISIBLE bit is cleared before the sum is taken, so that it
can be set in place later (R-LOG-41). Entries of type ``Erased`` keep the checksum of the original entry; it must not be
checked.

Flags: 0x80 provisional YES, 0x40 provisional BEFORE_CKPT_END (ignored under 0x80), 0x20 replicated, 0x10 invisible
(since v7), 0x08 VLSN present (since v8). In version 6 the low five bits hold the log version instead, and until v5 the
entry's own version, which is 0 to 5.

``examine`` determines what the entry at a position of a buffer is: the general way, with every possible reason for a
bad entry. Readers process *plain* entries by the loops of ``engine.format.fast``. A plain entry has a known type, a
size within the buffer, a prevOffset equal to the previous entry, the right checksum, and, in the replication stream, a
VLSN above the previous one. The loops stop at the first entry that is not plain, and ``examine`` classifies it:

* a good but rare entry: invisible, or of a type in ``RARE_ENTRIES``,
* an entry that extends beyond the buffer (``MORE``), or
* damage, with the reason.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import Final, NamedTuple
from zlib import adler32

from engine.format.entry_types import ERASED, is_valid_type
from engine.format.versions import INVISIBLE_BIT, PACKED_NUMBERS, VLSN_PRESENT_BIT
from engine.format.vlsn import NULL_VLSN

# The fields, as the codec reads them. The plain numbers below cost nothing in compiled code.
HEADER: Final = Struct("<IBBIi")
VLSN_FIELD: Final = Struct("<q")
HEADER_BYTES: Final = 14
HEADER_WITH_VLSN_BYTES: Final = 22
# Positions of single fields; the checksum covers everything from the type on.
CHECKSUM_BYTES: Final = 4
TYPE_AT: Final = 4
FLAGS_AT: Final = 5
PREV_AT: Final = 6
SIZE_AT: Final = 10
VLSN_AT: Final = 14
assert HEADER.pack(1, 2, 3, 4, 5) == b"".join(
    (
        (1).to_bytes(TYPE_AT, "little"),
        (2).to_bytes(FLAGS_AT - TYPE_AT, "little"),
        (3).to_bytes(PREV_AT - FLAGS_AT, "little"),
        (4).to_bytes(SIZE_AT - PREV_AT, "little"),
        (5).to_bytes(VLSN_AT - SIZE_AT, "little"),
    )
)
assert (TYPE_AT, HEADER_BYTES, HEADER_BYTES + VLSN_FIELD.size) == (CHECKSUM_BYTES, VLSN_AT, HEADER_WITH_VLSN_BYTES)

PROVISIONAL: Final = 0x80
BEFORE_CKPT_END: Final = 0x40
REPLICATED: Final = 0x20
INVISIBLE: Final = 0x10
VLSN_PRESENT: Final = 0x08
VERSION_BITS_V6: Final = 0x1F


class Provisional(Enum):
    """Whether recovery replays the entry (R-REC-24); the value is the word of the command line."""

    NO = "no"
    YES = "yes"
    BEFORE_CKPT_END = "before_ckpt_end"


PROVISIONAL_FLAGS: Final = {
    Provisional.NO: 0,
    Provisional.YES: PROVISIONAL,
    Provisional.BEFORE_CKPT_END: BEFORE_CKPT_END,
}
# The names that DbPrintLog uses.
JE_PROVISIONAL: Final = {
    Provisional.NO: "NO",
    Provisional.YES: "YES",
    Provisional.BEFORE_CKPT_END: "BEFORE_CKPT_END",
}


class EntryHeader(NamedTuple):
    """A decoded header; ``vlsn`` is NULL_VLSN for an entry without a VLSN."""

    checksum: int
    type_number: int
    flags: int
    prev_offset: int
    item_size: int
    vlsn: int


def provisional_of(flags: int) -> Provisional:
    """The provisional state that a flags byte holds."""
    if flags & PROVISIONAL:
        return Provisional.YES
    return Provisional.BEFORE_CKPT_END if flags & BEFORE_CKPT_END else Provisional.NO


def has_vlsn(flags: int, version: int) -> bool:
    """Whether eight bytes of VLSN follow the fixed header."""
    return bool(flags & (REPLICATED | VLSN_PRESENT)) if version >= VLSN_PRESENT_BIT else bool(flags & REPLICATED)


def header_bytes(flags: int, version: int) -> int:
    """Bytes of the header of an entry."""
    return HEADER_WITH_VLSN_BYTES if has_vlsn(flags, version) else HEADER_BYTES


def is_invisible(flags: int, version: int) -> bool:
    """Whether replication has rolled the entry back; until v6 there is no such bit."""
    return version >= INVISIBLE_BIT and bool(flags & INVISIBLE)


def has_own_version(flags: int, version: int) -> bool:
    """Whether the low bits of the flags hold a version that entries of the file can have; since v7 they hold none."""
    if version >= INVISIBLE_BIT:
        return True
    # v6 repeats its version in every header; before, each type has its own.
    held = flags & VERSION_BITS_V6
    return held == version if version == PACKED_NUMBERS else held < PACKED_NUMBERS


def decode_header(data: bytes, pos: int, version: int) -> EntryHeader:
    """The header at ``pos``.

    Raises:
        struct.error: the header does not fit into ``data``.
    """
    checksum, type_number, flags, prev_offset, item_size = HEADER.unpack_from(data, pos)
    vlsn = VLSN_FIELD.unpack_from(data, pos + HEADER_BYTES)[0] if has_vlsn(flags, version) else NULL_VLSN
    return EntryHeader(checksum, type_number, flags, prev_offset, item_size, vlsn)


def entry_checksum(entry: bytes | memoryview, version: int) -> int:
    """The correct checksum of the entry, as an unsigned 32-bit number.

    For an entry larger than the read window, this computes the checksum of the first piece; add the others with
    ``zlib.adler32(piece, sum)``.

    Arguments:
        entry: header and body; the checksum does not cover the first four bytes, which store it.
        version: log version of the file.
    """
    flags = entry[FLAGS_AT]
    # The bit is set in place after the checksum was taken, so it does not count (R-LOG-41).
    if flags & INVISIBLE and version >= INVISIBLE_BIT:
        return adler32(entry[FLAGS_AT + 1 :], adler32(bytes((entry[TYPE_AT], flags & ~INVISIBLE))))
    return adler32(entry[CHECKSUM_BYTES:])


def encode_entry(header: EntryHeader, body: bytes, version: int) -> bytes:
    """A whole entry with the right checksum.

    Arguments:
        header: type, flags, prevOffset and VLSN are taken from it; checksum and item size are computed.
        body: the encoded body.
        version: log version of the file; in version 6 the caller puts the version into the flags.
    """
    tail = VLSN_FIELD.pack(header.vlsn) + body if has_vlsn(header.flags, version) else body
    entry = HEADER.pack(0, header.type_number, header.flags, header.prev_offset, len(body)) + tail
    return entry_checksum(entry, version).to_bytes(CHECKSUM_BYTES, "little") + entry[CHECKSUM_BYTES:]


# Results of examine().
GOOD: Final = "good"
MORE: Final = "more"
BAD_TYPE: Final = "type"
BAD_SIZE: Final = "size"
BAD_CHECKSUM: Final = "checksum"
BAD_PREV: Final = "prev-offset"
CUT: Final = "cut"


class EntryCheck(NamedTuple):
    """The result of ``examine`` for one entry.

    Attributes:
        verdict: GOOD, MORE, or the reason why the entry is bad.
        header: the decoded header; None if it could not be decoded.
        header_bytes: 14 or 22.
        expected, found: the two numbers that the reason compares.
    """

    verdict: str
    header: EntryHeader | None
    header_bytes: int
    expected: int
    found: int


def examine(data: bytes, pos: int, end: int, version: int, prev_offset: int, *, at_end: bool) -> EntryCheck:
    """Classify the entry at ``pos``.

    Arguments:
        data, pos: the buffer, and the position of the entry.
        end: the end of the buffer's valid bytes.
        version: log version of the file.
        prev_offset: the prevOffset that the entry must have; -1 accepts any (after damage).
        at_end: the buffer extends to the end of the file, so that missing bytes are missing for good.

    Returns:
        The verdict. ``CUT`` means that the file ends within the entry.
    """
    room = end - pos
    if room < HEADER_WITH_VLSN_BYTES and not at_end:
        return EntryCheck(MORE, None, 0, HEADER_WITH_VLSN_BYTES, room)
    if room < HEADER_BYTES:
        return EntryCheck(CUT, None, 0, HEADER_BYTES, room)
    if not is_valid_type(data[pos + TYPE_AT], version):
        return EntryCheck(BAD_TYPE, None, 0, 0, data[pos + TYPE_AT])
    flags = data[pos + FLAGS_AT]
    if not has_own_version(flags, version):
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
    # An erased entry still has the checksum of the original entry.
    if header.type_number != ERASED:
        found = entry_checksum(memoryview(data)[pos : pos + total], version)
        if found != header.checksum:
            return EntryCheck(BAD_CHECKSUM, header, length, header.checksum, found)
    # Compare the link last, since only the link of an intact entry means something.
    if prev_offset not in (-1, header.prev_offset):
        return EntryCheck(BAD_PREV, header, length, prev_offset, header.prev_offset)
    return EntryCheck(GOOD, header, length, total, total)
