"""Selects the entries that may hold expiring records by their first bytes, so that no object is made for the others.

A user's record has a flag for an expiration in its first bytes; a BIN or a delta has its expiration base after a few
numbers. Entries that are left out have no expiration. Entries that are kept may lack an expiration too;
``cleaner.expiration`` decodes them and decides. A head that does not fit its body is kept, so that the decoder reports
the error.

Twins: ``sift_expirations`` of ``engine.native``, and ``codecs.decode_body``, which corresponds to keeping
every entry. ``cleaner.expiration``, the only user, chooses.

Example, a delta of v17: ``05 | lsn | lsn | ff | ...`` belongs to database 5, has two earlier versions, and the base -1,
so nothing in it expires.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import unpack
from engine.format.entry.ln import HAS_EXPIRATION
from engine.format.entry.node import HAS_PREFIX, LEAST_SLOT_BYTES
from engine.format.entry_types import BINS, BOTTOM_NODES, COMMON_LNS, LNS
from engine.format.fast.bin import NO_BASE
from engine.format.fast.header import PLAIN_HEADER, TYPES
from engine.format.header import HEADER_BYTES
from engine.format.versions import CREATION_TIMES, LN_KEY_FIRST, LONG_LSNS_ONLY, NODE_SIZES

# How to decide whether an entry of a type may expire; 0 for types that never expire.
BY_FLAGS: Final = 1
BY_HEAD: Final = 2
ALWAYS: Final = 3
_LEVEL_AND_MOST: Final = 2
BASE_FILE_BYTES: Final = 4


class HeadLayout(NamedTuple):
    """How many packed integers each part of the head of a BIN has.

    Attributes:
        before_base: up to the expiration base: database id and previous versions.
        after_base: between the expiration base and the identifier key: other bases, node id.
        before_count: between the prefix and the number of slots.
        has_form: a byte shows whether a base file follows.
    """

    before_base: int
    after_base: int
    before_count: int
    has_form: bool


def head_layout(version: int) -> HeadLayout:
    """The head layout of a log version with expirations; general twin: ``entry.node.decode_node``."""
    return HeadLayout(
        before_base=5 if version >= NODE_SIZES else 3,
        after_base=1 + (version >= CREATION_TIMES) + (version >= LN_KEY_FIRST),
        before_count=int(version >= LONG_LSNS_ONLY),
        has_form=version < LONG_LSNS_ONLY,
    )


def _kind(number: int) -> int:
    if number in COMMON_LNS:
        return BY_FLAGS
    if number in BINS:
        return BY_HEAD
    return ALWAYS if number in LNS | BOTTOM_NODES else 0


KINDS: Final = bytes(_kind(number) for number in range(TYPES))


def sift(data: bytes, kinds: bytes, layout: HeadLayout, lengths: list[int], found: list[int]) -> int:
    """Find the entries that may hold expiring records, in a buffer of a log version with expirations.

    Arguments:
        data: begins with an entry; checksums have been verified.
        kinds: by type number, how to decide whether an entry may expire: ``KINDS``.
        layout: from ``head_layout``.
        lengths: from ``header_lengths``.
        found: extended by the positions.

    Returns:
        The position of the first entry that is not complete.
    """
    pos, end = 0, len(data)
    while pos + HEADER_BYTES <= end:
        _, pair, _, size = PLAIN_HEADER.unpack_from(data, pos)
        body = pos + lengths[pair]
        if body + size > end:
            break
        kind = kinds[pair % TYPES]
        if (
            kind == ALWAYS
            or (kind == BY_FLAGS and (not size or data[body] & HAS_EXPIRATION))
            or (kind == BY_HEAD and not _is_lasting(data[body : body + size], layout))
        ):
            found.append(pos)
        pos = body + size
    return pos


def _is_lasting(body: bytes, layout: HeadLayout) -> bool:
    """Whether the head of a BIN is complete and shows that nothing in it expires."""
    try:
        base, pos = unpack(body, _after_numbers(body, 0, layout.before_base))
        if base != NO_BASE:
            return False
        pos = _after_bytes(body, _after_numbers(body, pos, layout.after_base))
        flags = body[pos]
        pos = _after_bytes(body, pos + 1) if flags & HAS_PREFIX else pos + 1
        slots, pos = unpack(body, _after_numbers(body, pos, layout.before_count))
        pos = _after_numbers(body, pos, _LEVEL_AND_MOST)
        if layout.has_form:
            pos += 1 + BASE_FILE_BYTES if body[pos] == 1 else 1
    except (FormatError, IndexError):
        return False
    return pos <= len(body) and 0 <= slots <= (len(body) - pos) // LEAST_SLOT_BYTES


def _after_numbers(body: bytes, pos: int, how_many: int) -> int:
    for _ in range(how_many):
        _, pos = unpack(body, pos)
    return pos


def _after_bytes(body: bytes, pos: int) -> int:
    length, pos = unpack(body, pos)
    if not 0 <= length <= len(body) - pos:
        raise FormatError("a length that does not fit", expected=f"0..{len(body) - pos}", found=str(length))
    return pos + length
