"""Walking the entries of one buffer: headers and checksums, no bodies.

Three users share this module: the engine's readers, the dump command, and Spark tasks that hold a file's bytes. It
takes bytes and returns positions and counts, so that a pass over a log pays for nothing that it does not use.

*Plain* entries are checked in one tight loop (``check_plain``): known type, size within the buffer, prevOffset equal to
the entry before, checksum right, and for entries of the replication stream a VLSN above the one before. The loop stops
at the first entry that is anything else and leaves it to ``examine``, which says what it is:

* a good entry that is rare: invisible, or of a type in ``RARE_ENTRIES``,
* an entry that reaches beyond the buffer (``MORE``), or
* damage, with the reason.

Where only types, links and VLSNs matter, ``follow_links`` goes from header to header and takes no checksum. ``sift``
does not even look at links: it picks the entries of some types out of bytes that have been checked before.

The loops touch each byte at most once. What ``check_plain`` counts, it counts per pair of type and flags (``Sizes``),
which is enough for every statistic of a log: provisional counts, bytes, smallest, largest.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812 - there is no better name for it
from typing import Final, NamedTuple
from zlib import adler32

from engine.format.checksum import INVISIBLE, entry_checksum
from engine.format.entry_types import (
    ERASED,
    RARE_ENTRIES,
    ROLLBACK_START,
    is_valid_type,
)
from engine.format.header import (
    HEADER_BYTES,
    HEADER_WITH_VLSN_BYTES,
    REPLICATED,
    VERSION_BITS_V6,
    VLSN_FIELD,
    VLSN_PRESENT,
    EntryHeader,
    decode_header,
    has_vlsn,
)
from engine.format.versions import INVISIBLE_BIT, VLSN_PRESENT_BIT

# The fixed header with type and flags read as one number, type in the low byte, and the size as unsigned, so that a
# negative one reaches beyond every buffer.
PLAIN_HEADER: Final = Struct("<IHII")
assert PLAIN_HEADER.size == HEADER_BYTES

# The same without the checksum, but with what follows: the VLSN of entries that have one.
LINK: Final = Struct("<4xHIIq")
assert LINK.size == HEADER_WITH_VLSN_BYTES

# What sift() does with an entry, by ``type | flags << 8``; may be combined.
KEEP: Final = 1
COUNT: Final = 2
STOP: Final = 4
# Per type: entries, bytes with headers, the largest.
TALLY: Final = 3

# Results of examine().
GOOD: Final = "good"
MORE: Final = "more"
BAD_TYPE: Final = "type"
BAD_SIZE: Final = "size"
BAD_CHECKSUM: Final = "checksum"
BAD_PREV: Final = "prev-offset"
CUT: Final = "cut"

_REPLICATED_IN_PAIR: Final = REPLICATED << 8

# Longer than any buffer.
_BEYOND: Final = 1 << 40


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


_lengths_by_version: Final[dict[int, list[int]]] = {}
_plain_by_version: Final[dict[int, frozenset[int]]] = {}
_steps_by_version: Final[dict[int, list[int]]] = {}


def header_lengths(version: int) -> list[int]:
    """Header length by ``type | flags << 8``, for all 65,536 pairs."""
    table = _lengths_by_version.get(version)
    if table is None:
        table = []
        for flags in range(256):
            length = HEADER_WITH_VLSN_BYTES if has_vlsn(flags, version) else HEADER_BYTES
            table += [length] * 256
        _lengths_by_version[version] = table
    return table


def plain_pairs(version: int) -> frozenset[int]:
    """The pairs ``type | flags << 8`` of plain entries; ``examine`` has to look at all others."""
    pairs = _plain_by_version.get(version)
    if pairs is None:
        types = [number for number in range(256) if is_valid_type(number, version) and number not in RARE_ENTRIES]
        rare = INVISIBLE if version >= INVISIBLE_BIT else VERSION_BITS_V6
        usual = 0 if version >= INVISIBLE_BIT else version
        pairs = frozenset(t | flags << 8 for flags in range(256) if flags & rare == usual for t in types)
        _plain_by_version[version] = pairs
    return pairs


class Sizes:
    """Item sizes of plain entries, collected by ``type | flags << 8``.

    Attributes:
        by_pair: the sizes in log order.
    """

    __slots__ = ("_appends", "_plain", "by_pair")

    def __init__(self, version: int) -> None:
        self._plain = plain_pairs(version)
        self._appends: dict[int, Callable[[int], None]] = {}
        self.by_pair: dict[int, list[int]] = {}

    def appends(self) -> dict[int, Callable[[int], None]]:
        """What to call with a size, for the pairs met so far."""
        return self._appends

    def meet(self, pair: int) -> bool:
        """Prepare for a pair that is new. False when it is already known, or not a plain one."""
        if pair in self.by_pair or pair not in self._plain:
            return False
        sizes: list[int] = []
        self.by_pair[pair] = sizes
        self._appends[pair] = sizes.append
        return True


def vlsn_bits(version: int) -> int:
    """The bits of ``type | flags << 8`` that say that a VLSN is in the header."""
    return (REPLICATED | VLSN_PRESENT if version >= VLSN_PRESENT_BIT else REPLICATED) << 8


def check_plain(
    data: bytes, pos: int, base: int, prev_offset: int, last_vlsn: int, with_vlsn: int, sizes: Sizes
) -> tuple[int, int, int]:
    """Check plain entries until one is not plain or the buffer ends.

    Arguments:
        data: the buffer.
        pos: where the first entry begins in it.
        base: file offset of the buffer's first byte.
        prev_offset: file offset of the entry before the first one (0 at the start of a file).
        last_vlsn: the last VLSN of the replication stream seen so far; each one must be above it.
        with_vlsn: from ``vlsn_bits``.
        sizes: item sizes; extended.

    Returns:
        The position where it stopped, the file offset of the last good entry, the last VLSN.
    """
    unpack = PLAIN_HEADER.unpack_from
    appends = sizes.appends()
    end = len(data)
    while True:
        pair = -1
        try:
            while True:
                checksum, pair, prev, size = unpack(data, pos)
                append = appends[pair]
                # The size comes before the sum: what a damaged one claims must cost nothing.
                if pair & with_vlsn:
                    after = pos + HEADER_WITH_VLSN_BYTES + size
                    if prev != prev_offset or after > end or adler32(data[pos + 4 : after]) != checksum:
                        break
                    if pair & _REPLICATED_IN_PAIR:
                        vlsn = VLSN_FIELD.unpack_from(data, pos + HEADER_BYTES)[0]
                        if vlsn <= last_vlsn:
                            break
                        last_vlsn = vlsn
                else:
                    after = pos + HEADER_BYTES + size
                    if prev != prev_offset or after > end or adler32(data[pos + 4 : after]) != checksum:
                        break
                append(size)
                prev_offset = base + pos
                pos = after
        except KeyError:
            # A pair that was not met yet, or one that is not plain.
            if sizes.meet(pair):
                continue
        except StructError:
            # No room for a header: the buffer's end.
            pass
        return pos, prev_offset, last_vlsn


def steps(version: int) -> list[int]:
    """Header length by ``type | flags << 8`` for ``follow_links``; of entries that it has to stop at, ``_BEYOND``."""
    table = _steps_by_version.get(version)
    if table is None:
        known = [is_valid_type(number, version) and number != ROLLBACK_START for number in range(256)]
        rows = {length: [length if one else _BEYOND for one in known] for length in set(header_lengths(version)[::256])}
        rare = INVISIBLE if version >= INVISIBLE_BIT else VERSION_BITS_V6
        usual = 0 if version >= INVISIBLE_BIT else version
        table = []
        for flags, length in enumerate(header_lengths(version)[::256]):
            table += rows[length] if flags & rare == usual else [_BEYOND] * 256
        _steps_by_version[version] = table
    return table


def follow_links(
    data: bytes, pos: int, end: int, base: int, prev_offset: int, last_vlsn: int, lengths: list[int]
) -> tuple[int, int, int, int, int]:
    """Step from entry to entry by their headers alone, as long as each is of a known type and points back to the last.

    Bodies are not looked at and no checksum is taken, so that this costs a third of ``check_plain``.

    Arguments:
        data, pos, base, prev_offset, last_vlsn: as for ``check_plain``.
        end: where the buffer's valid bytes end.
        lengths: from ``steps``.

    Returns:
        The position where it stopped, the file offset of the entry before it, the last VLSN, how many entries were
        stepped over and how many of them are part of the replication stream.
    """
    unpack = LINK.unpack_from
    last_header = end - HEADER_WITH_VLSN_BYTES
    entries = replicated = 0
    vlsn_before = last_vlsn
    while pos <= last_header:
        pair, prev, size, vlsn = unpack(data, pos)
        if prev != prev_offset:
            break
        if pair & _REPLICATED_IN_PAIR:
            if vlsn <= last_vlsn:
                break
            vlsn_before, last_vlsn = last_vlsn, vlsn
            replicated += 1
        prev_offset = base + pos
        pos += lengths[pair] + size
        entries += 1
    if pos > end:
        # Stepped over what reaches beyond the buffer, or what must not be stepped over at all: take it back.
        pos = prev_offset - base
        pair, prev_offset, _, _ = unpack(data, pos)
        entries -= 1
        if pair & _REPLICATED_IN_PAIR:
            last_vlsn = vlsn_before
            replicated -= 1
    return pos, prev_offset, last_vlsn, entries, replicated


def sift(
    data: bytes, pos: int, until: int, actions: list[int], lengths: list[int], found: list[int], tallies: list[int]
) -> int:
    """Pick entries out of a buffer whose checksums are known to be right.

    Arguments:
        data, pos: as for ``check_plain``.
        until: entries that begin here or later are left alone.
        actions: for each ``type | flags << 8`` what to do with the entry: 0, or of KEEP (note where it is), COUNT
            (tally it) and STOP (after it).
        lengths: from ``header_lengths``.
        found: extended by the positions of those that are kept.
        tallies: ``TALLY`` numbers for each type; added to.

    Returns:
        The position where it stopped: that of an entry which begins at ``until`` or later or reaches beyond the
        buffer, or after one that stops.
    """
    unpack = PLAIN_HEADER.unpack_from
    end = len(data)
    until = min(until, end - HEADER_BYTES + 1)
    while pos < until:
        _, pair, _, size = unpack(data, pos)
        total = lengths[pair] + size
        if pos + total > end:
            break
        action = actions[pair]
        if action:
            if action & KEEP:
                found.append(pos)
            if action & COUNT:
                slot = (pair & 0xFF) * TALLY
                tallies[slot] += 1
                tallies[slot + 1] += total
                tallies[slot + 2] = max(tallies[slot + 2], total)
            if action & STOP:
                return int(pos + total)
        pos += total
    return pos


def examine(data: bytes, pos: int, end: int, version: int, prev_offset: int, *, at_end: bool) -> EntryCheck:
    """Say what the entry at ``pos`` is.

    Arguments:
        data, pos: as for ``check_plain``.
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
    if not is_valid_type(data[pos + 4], version):
        return EntryCheck(BAD_TYPE, None, 0, 0, data[pos + 4])
    flags = data[pos + 5]
    if version < INVISIBLE_BIT and flags & VERSION_BITS_V6 != version:
        return EntryCheck(BAD_TYPE, None, 0, version, flags & VERSION_BITS_V6)
    length = HEADER_WITH_VLSN_BYTES if has_vlsn(flags, version) else HEADER_BYTES
    if room < length:
        return EntryCheck(CUT, None, length, length, room)
    header = decode_header(data, pos, version)
    if header.item_size < 0:
        return EntryCheck(BAD_SIZE, header, length, 0, header.item_size)
    total = length + header.item_size
    if total > room:
        return EntryCheck(CUT if at_end else MORE, header, length, total, room)
    if header.type_number != ERASED:
        found = entry_checksum(memoryview(data)[pos : pos + total], version)
        if found != header.checksum:
            return EntryCheck(BAD_CHECKSUM, header, length, header.checksum, found)
    if prev_offset not in (-1, header.prev_offset):
        return EntryCheck(BAD_PREV, header, length, prev_offset, header.prev_offset)
    return EntryCheck(GOOD, header, length, total, total)
