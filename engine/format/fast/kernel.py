"""The walks over headers, written for the native build.

Twins: ``check_plain``, ``follow_links`` and ``sift`` of ``loops``, which is where rules and results are described;
``walks`` chooses. There are two of each because neither serves both builds: over a log of 50 MB these take, compiled by
mypyc, 0.34, 0.07 and 0.09 of the time of those, and interpreted 3.2, 6.2 and 2.3 of it. What makes the difference is
that numbers are native ones and bytes are read one by one; a header costs no object at all. So the module stays in what
mypyc compiles to plain C: functions over ``bytes`` and lists, variables of type ``i64``, no class.

It also runs interpreted, which is how the tests compare it with ``loops`` on any machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import adler32

from engine.format.fast.header import REPLICATED_IN_PAIR
from engine.format.fast.loops import COUNT, KEEP, STOP, TALLY
from engine.format.header import (
    CHECKSUM_BYTES,
    FLAGS_AT,
    HEADER_BYTES,
    HEADER_WITH_VLSN_BYTES,
    PREV_AT,
    SIZE_AT,
    TYPE_AT,
    VLSN_AT,
)

if TYPE_CHECKING:
    # Only mypyc reads these annotations; nothing has to be installed to run the module.
    from mypy_extensions import i64

_VLSN_BYTES: Final = HEADER_WITH_VLSN_BYTES - HEADER_BYTES


def is_compiled() -> bool:
    """Whether this is the native build."""
    return not __file__.endswith(".py")


def walk(
    data: bytes, start: int, base: int, prev: int, last: int, with_vlsn: int, slots: list[int], tallies: list[int]
) -> tuple[int, int, int]:
    """Check entries as ``loops.check_plain`` does.

    Arguments:
        data, start, base, prev, last, with_vlsn: as ``data``, ``pos``, ``base``, ``prev_offset``, ``last_vlsn`` and
            ``with_vlsn`` there.
        slots: by ``type | flags << 8`` where in ``tallies`` the pair is counted; 0 for pairs that stop the walk.
        tallies: entries, bytes of items, smallest item and largest item of each slot; added to.

    Returns:
        As ``check_plain``.
    """
    pos: i64 = start
    end: i64 = len(data)
    origin: i64 = base
    prev_offset: i64 = prev
    last_vlsn: i64 = last
    vlsn_bits: i64 = with_vlsn
    # Of the pair met last and of another one before it, such as records and Commits by turns: entries, bytes, smallest
    # and largest item. These are counted here first.
    pair_a: i64 = -1
    entries_a: i64 = 0
    total_a: i64 = 0
    least_a: i64 = 0
    most_a: i64 = 0
    pair_b: i64 = -1
    entries_b: i64 = 0
    total_b: i64 = 0
    least_b: i64 = 0
    most_b: i64 = 0
    while pos + HEADER_BYTES <= end:
        type_number: i64 = data[pos + TYPE_AT]
        flags: i64 = data[pos + FLAGS_AT]
        pair: i64 = type_number | flags << 8
        p0: i64 = data[pos + PREV_AT]
        p1: i64 = data[pos + PREV_AT + 1]
        p2: i64 = data[pos + PREV_AT + 2]
        p3: i64 = data[pos + PREV_AT + 3]
        if p0 | p1 << 8 | p2 << 16 | p3 << 24 != prev_offset:
            break
        if pair != pair_a and pair != pair_b and slots[pair] == 0:
            break
        s0: i64 = data[pos + SIZE_AT]
        s1: i64 = data[pos + SIZE_AT + 1]
        s2: i64 = data[pos + SIZE_AT + 2]
        s3: i64 = data[pos + SIZE_AT + 3]
        size: i64 = s0 | s1 << 8 | s2 << 16 | s3 << 24
        after: i64 = pos + HEADER_BYTES + size
        vlsn: i64 = last_vlsn
        if pair & vlsn_bits:
            after += _VLSN_BYTES
        # The size comes before the sum: what a damaged one claims must cost nothing.
        if after > end:
            break
        c0: i64 = data[pos]
        c1: i64 = data[pos + 1]
        c2: i64 = data[pos + 2]
        c3: i64 = data[pos + 3]
        found: i64 = adler32(data[pos + CHECKSUM_BYTES : after])
        if found != c0 | c1 << 8 | c2 << 16 | c3 << 24:
            break
        if pair & REPLICATED_IN_PAIR:
            vlsn = _vlsn_at(data, pos + VLSN_AT)
            if vlsn <= last_vlsn:
                break
            last_vlsn = vlsn
        if pair == pair_b:
            entries_b += 1
            total_b += size
            if size < least_b:
                least_b = size
            if size > most_b:
                most_b = size
        elif pair == pair_a:
            entries_a += 1
            total_a += size
            if size < least_a:
                least_a = size
            if size > most_a:
                most_a = size
        else:
            if pair_b >= 0:
                _count(tallies, slots[pair_b], entries_b, total_b, least_b, most_b)
            pair_b, entries_b, total_b, least_b, most_b = pair_a, entries_a, total_a, least_a, most_a
            pair_a, entries_a, total_a, least_a, most_a = pair, 1, size, size, size
        prev_offset = origin + pos
        pos = after
    if pair_a >= 0:
        _count(tallies, slots[pair_a], entries_a, total_a, least_a, most_a)
    if pair_b >= 0:
        _count(tallies, slots[pair_b], entries_b, total_b, least_b, most_b)
    return pos, prev_offset, last_vlsn


def _count(tallies: list[int], slot: i64, entries: i64, total: i64, least: i64, most: i64) -> None:
    """Add to a tally."""
    tallies[slot] += entries
    tallies[slot + 1] += total
    if least < tallies[slot + 2]:
        tallies[slot + 2] = least
    if most > tallies[slot + 3]:
        tallies[slot + 3] = most


def follow(
    data: bytes, start: int, end: int, base: int, prev: int, last: int, lengths: list[int]
) -> tuple[int, int, int, int, int]:
    """Step from header to header as ``loops.follow_links`` does; the same arguments and result.

    Takes nothing back: it looks before it steps.
    """
    pos: i64 = start
    limit: i64 = end
    origin: i64 = base
    prev_offset: i64 = prev
    last_vlsn: i64 = last
    entries: i64 = 0
    replicated: i64 = 0
    while pos + HEADER_BYTES + _VLSN_BYTES <= limit:
        p0: i64 = data[pos + PREV_AT]
        p1: i64 = data[pos + PREV_AT + 1]
        p2: i64 = data[pos + PREV_AT + 2]
        p3: i64 = data[pos + PREV_AT + 3]
        if p0 | p1 << 8 | p2 << 16 | p3 << 24 != prev_offset:
            break
        type_number: i64 = data[pos + TYPE_AT]
        flags: i64 = data[pos + FLAGS_AT]
        pair: i64 = type_number | flags << 8
        length: i64 = lengths[pair]
        s0: i64 = data[pos + SIZE_AT]
        s1: i64 = data[pos + SIZE_AT + 1]
        s2: i64 = data[pos + SIZE_AT + 2]
        s3: i64 = data[pos + SIZE_AT + 3]
        after: i64 = pos + length + (s0 | s1 << 8 | s2 << 16 | s3 << 24)
        # True of what must not be stepped over too: its length reaches beyond every buffer.
        if after > limit:
            break
        if pair & REPLICATED_IN_PAIR:
            vlsn: i64 = _vlsn_at(data, pos + VLSN_AT)
            if vlsn <= last_vlsn:
                break
            last_vlsn = vlsn
            replicated += 1
        entries += 1
        prev_offset = origin + pos
        pos = after
    return pos, prev_offset, last_vlsn, entries, replicated


def sift(
    data: bytes, start: int, until: int, actions: list[int], lengths: list[int], found: list[int], tallies: list[int]
) -> int:
    """Pick entries out of a buffer as ``loops.sift`` does; the same arguments and result."""
    pos: i64 = start
    limit: i64 = until
    end: i64 = len(data)
    # Of the type counted last and of another one before it: entries, bytes, largest entry, as in ``walk``.
    type_a: i64 = -1
    entries_a: i64 = 0
    total_a: i64 = 0
    most_a: i64 = 0
    type_b: i64 = -1
    entries_b: i64 = 0
    total_b: i64 = 0
    most_b: i64 = 0
    while pos < limit and pos + HEADER_BYTES <= end:
        type_number: i64 = data[pos + TYPE_AT]
        flags: i64 = data[pos + FLAGS_AT]
        pair: i64 = type_number | flags << 8
        length: i64 = lengths[pair]
        s0: i64 = data[pos + SIZE_AT]
        s1: i64 = data[pos + SIZE_AT + 1]
        s2: i64 = data[pos + SIZE_AT + 2]
        s3: i64 = data[pos + SIZE_AT + 3]
        total: i64 = length + (s0 | s1 << 8 | s2 << 16 | s3 << 24)
        if pos + total > end:
            break
        action: i64 = actions[pair]
        if action & KEEP:
            found.append(pos)
        if action & COUNT:
            if type_number == type_b:
                entries_b += 1
                total_b += total
                if total > most_b:
                    most_b = total
            elif type_number == type_a:
                entries_a += 1
                total_a += total
                if total > most_a:
                    most_a = total
            else:
                if type_b >= 0:
                    _add(tallies, type_b * TALLY, entries_b, total_b, most_b)
                type_b, entries_b, total_b, most_b = type_a, entries_a, total_a, most_a
                type_a, entries_a, total_a, most_a = type_number, 1, total, total
        pos += total
        if action & STOP:
            break
    if type_a >= 0:
        _add(tallies, type_a * TALLY, entries_a, total_a, most_a)
    if type_b >= 0:
        _add(tallies, type_b * TALLY, entries_b, total_b, most_b)
    return pos


def _add(tallies: list[int], slot: i64, entries: i64, total: i64, most: i64) -> None:
    """Add to the tally of a type."""
    tallies[slot] += entries
    tallies[slot + 1] += total
    if most > tallies[slot + 2]:
        tallies[slot + 2] = most


def _vlsn_at(data: bytes, pos: i64) -> i64:
    number: i64 = data[pos + 7]
    # The sign is in the last byte.
    if number > 0x7F:
        number -= 0x100
    at: i64 = pos + 6
    while at >= pos:
        byte: i64 = data[at]
        number = number * 256 + byte
        at -= 1
    return number
