"""Fast access to entry headers: type and flags are read as one number, which indexes tables of what depends on both.

General twins: ``header.decode_header``, ``header.has_vlsn`` and ``header.encode_entry``. All loops over entries, and
all code that writes many of them, take layouts from here and from ``header``.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import adler32

from engine.format.entry_types import RARE_ENTRIES, ROLLBACK_START, is_valid_type
from engine.format.header import (
    CHECKSUM_BYTES,
    HEADER,
    HEADER_BYTES,
    HEADER_WITH_VLSN_BYTES,
    INVISIBLE,
    REPLICATED,
    SIZE_AT,
    VERSION_BITS_V6,
    VLSN_FIELD,
    VLSN_PRESENT,
    header_bytes,
)
from engine.format.versions import INVISIBLE_BIT, PACKED_NUMBERS, VLSN_PRESENT_BIT
from engine.format.vlsn import NULL_VLSN

if TYPE_CHECKING:
    # Only mypyc uses these annotations; the module runs without this package.
    from mypy_extensions import i64

# The fixed header with type and flags read as one number, type in the low byte. The size is read as unsigned, so that a
# negative one exceeds every buffer.
PLAIN_HEADER: Final = Struct("<IHII")
# The same without the checksum, but with the following VLSN, which only some entries have.
LINK: Final = Struct("<4xHIIq")
# The part of the header after the checksum, over which the checksum is taken.
SUMMED_HEADER: Final = Struct("<BBIi")
assert PLAIN_HEADER.size == HEADER_BYTES
assert LINK.size == HEADER_WITH_VLSN_BYTES
assert CHECKSUM_BYTES + SUMMED_HEADER.size == HEADER_BYTES
assert HEADER.unpack(PLAIN_HEADER.pack(1, 2 | 3 << 8, 4, 5)) == (1, 2, 3, 4, 5)
assert LINK.pack(2 | 3 << 8, 4, 5, 6)[CHECKSUM_BYTES:] == SUMMED_HEADER.pack(2, 3, 4, 5) + VLSN_FIELD.pack(6)

# The bit of a replicated entry in ``type | flags << 8``.
REPLICATED_IN_PAIR: Final = 0x2000
assert REPLICATED_IN_PAIR == REPLICATED << 8
# The number of types, and of pairs of type and flags.
TYPES: Final = 256
PAIRS: Final = 0x10000

# Longer than any buffer.
_BEYOND: Final = 1 << 40
_lengths_by_version: Final[dict[int, list[int]]] = {}
_plain_by_version: Final[dict[int, frozenset[int]]] = {}
_steps_by_version: Final[dict[int, list[int]]] = {}


def header_lengths(version: int) -> list[int]:
    """Header length by ``type | flags << 8``, for all 65,536 pairs."""
    table = _lengths_by_version.get(version)
    if table is None:
        table = []
        for flags in range(256):
            table += [header_bytes(flags, version)] * TYPES
        _lengths_by_version[version] = table
    return table


def plain_pairs(version: int) -> frozenset[int]:
    """The pairs ``type | flags << 8`` of plain entries; ``examine`` has to check all others.

    Until v5 no entry is plain, because every body has to be translated (``entry.early``).
    """
    pairs = _plain_by_version.get(version)
    if pairs is None:
        readable = range(256) if version >= PACKED_NUMBERS else ()
        types = [number for number in readable if is_valid_type(number, version) and number not in RARE_ENTRIES]
        # In v6 the flags hold the log version.
        rare = INVISIBLE if version >= INVISIBLE_BIT else VERSION_BITS_V6
        usual = 0 if version >= INVISIBLE_BIT else version
        pairs = frozenset(t | flags << 8 for flags in range(256) if flags & rare == usual for t in types)
        _plain_by_version[version] = pairs
    return pairs


def vlsn_bits(version: int) -> int:
    """The bits of ``type | flags << 8`` that indicate a VLSN in the header."""
    return (REPLICATED | VLSN_PRESENT if version >= VLSN_PRESENT_BIT else REPLICATED) << 8


def steps(version: int) -> list[int]:
    """Header length by ``type | flags << 8`` for ``follow_links``; ``_BEYOND`` for entries at which it has to stop."""
    table = _steps_by_version.get(version)
    if table is None:
        known = [is_valid_type(number, version) and number != ROLLBACK_START for number in range(256)]
        rows = {length: [length if one else _BEYOND for one in known] for length in set(header_lengths(version)[::256])}
        rare = INVISIBLE if version >= INVISIBLE_BIT else VERSION_BITS_V6
        usual = 0 if version >= INVISIBLE_BIT else version
        table = []
        for flags, length in enumerate(header_lengths(version)[::256]):
            usable = flags & rare == usual and version >= PACKED_NUMBERS
            table += rows[length] if usable else [_BEYOND] * 256
        _steps_by_version[version] = table
    return table


def item_size(data: bytes, pos: int) -> int:
    """Size of the body of the entry at a position, read as unsigned."""
    s0: i64 = data[pos + SIZE_AT]
    s1: i64 = data[pos + SIZE_AT + 1]
    s2: i64 = data[pos + SIZE_AT + 2]
    s3: i64 = data[pos + SIZE_AT + 3]
    return s0 | s1 << 8 | s2 << 16 | s3 << 24


def is_intact(entry: bytes) -> bool:
    """Whether a complete, visible entry has the right checksum."""
    stored = entry[0] | entry[1] << 8 | entry[2] << 16 | entry[3] << 24
    return adler32(entry[CHECKSUM_BYTES:]) == stored


def sealed(type_number: int, flags: int, prev_offset: int, body: bytes, vlsn: int = NULL_VLSN) -> bytes:
    """Encode a whole visible entry; same as ``header.encode_entry``, for versions with a flag for the VLSN.

    Arguments:
        flags: without the flags that indicate a VLSN.
    """
    if vlsn == NULL_VLSN:
        rest = SUMMED_HEADER.pack(type_number, flags, prev_offset, len(body)) + body
    else:
        flags |= REPLICATED | VLSN_PRESENT
        rest = SUMMED_HEADER.pack(type_number, flags, prev_offset, len(body)) + VLSN_FIELD.pack(vlsn) + body
    return adler32(rest).to_bytes(CHECKSUM_BYTES, "little") + rest
