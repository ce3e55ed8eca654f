"""Which entries may hold something that expires, by their first bytes: of the others no object is made.

A user's record says it by the flags before it, a BIN or a delta by its expiration base, after a few numbers of its
head. What is left out does not expire; what is kept may still not, and ``cleaner.expiration`` decodes it and decides.
A head that does not fit its body is kept, so that what is wrong with it is said there.

Twins: ``expirations``, the same in C in the native build, and ``codecs.decode_body``, which keeps every entry;
``cleaner.expiration``, the only user, chooses.

Example, a delta of v17: ``05 | lsn | lsn | ff | ...`` belongs to database 5, has two earlier versions, and the base -1,
so that nothing in it expires.
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

# What says whether an entry of a type may expire; 0 of those that never do.
BY_FLAGS: Final = 1
BY_HEAD: Final = 2
ALWAYS: Final = 3
_LEVEL_AND_MOST: Final = 2
_BASE_FILE_BYTES: Final = 4


class HeadLayout(NamedTuple):
    """How many packed numbers stand in the head of a BIN.

    Attributes:
        before_base: database and versions before, up to the expiration base.
        after_base: between it and the identifier key: other bases, node id.
        before_count: between the prefix and the number of slots.
        has_form: a byte says whether a base file follows.
    """

    before_base: int
    after_base: int
    before_count: int
    has_form: bool


def head_layout(version: int) -> HeadLayout:
    """The layout in a log version that knows of expirations; general twin: ``entry.node.decode_node``."""
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
    """The places of entries that may hold something that expires, in a log that knows of that.

    Arguments:
        data: begins with an entry; checksums are known to be right.
        kinds: what says so, by type number: ``KINDS``.
        layout: from ``head_layout``.
        lengths: from ``header_lengths``.
        found: extended.

    Returns:
        The position of the first entry that is not whole.
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
    """Whether the head of a BIN is whole, and says that nothing in it expires."""
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
            pos += 1 + _BASE_FILE_BYTES if body[pos] == 1 else 1
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
