"""One log file as stretches of plain, intact entries, and what stands between them.

``FileReader.entries`` makes an object of every entry. Who wants few of them, or only some of their bytes, takes
stretches: the fast walks check headers, links and checksums, and stop at whatever is not plain. That comes as an entry
or as damage, exactly as ``entries`` gives it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from engine.format.fast.header import PAIRS, PLAIN_HEADER, TYPES, header_lengths
from engine.format.fast.loops import KEEP
from engine.format.fast.walks import sift, walk_of
from engine.format.header import (
    BAD_PREV,
    GOOD,
    HEADER_BYTES,
    HEADER_WITH_VLSN_BYTES,
    REPLICATED,
    VLSN_AT,
    VLSN_FIELD,
    is_invisible,
)
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import Damage, LogEntry, log_entry
from engine.log.reader import FileReader
from engine.log.window import look


class Stretch(NamedTuple):
    """Plain, intact entries, one after the other.

    Attributes:
        base_lsn: that of ``data[0]``, which need not begin an entry.
        version: log version of the file.
        data: the buffer that holds them.
        start, end: where they begin and end in it.
        last_vlsn: that of the last replicated entry up to here; NULL_VLSN without one.
    """

    base_lsn: int
    version: int
    data: bytes
    start: int
    end: int
    last_vlsn: int


def stretches(reader: FileReader) -> Iterator[Stretch | LogEntry | Damage]:
    """The whole file in log order.

    Raises:
        StorageError: the file cannot be read.
    """
    window, version = reader.window, reader.version
    walk = walk_of(version)
    yield from reader.header_damage(0)
    offset = prev = 0
    vlsn = NULL_VLSN
    while offset < window.size_bytes:
        if not window.holds(offset, min(HEADER_WITH_VLSN_BYTES, window.size_bytes - offset)):
            window.reach(offset, HEADER_WITH_VLSN_BYTES)
        base, data = window.base, window.data
        start = offset - base
        # Without a link to compare with, the entry is looked at alone.
        if prev >= 0:
            end, prev, vlsn = walk.check(data, start, base, prev, vlsn)
            if end > start:
                yield Stretch(reader.file.number << 32 | base, version, data, start, end, vlsn)
                offset = base + end
                # The walk ends at the edge of the window, too.
                if offset >= window.size_bytes or not window.at_end():
                    continue
        examined = look(window, offset, version, prev)
        if examined.verdict not in (GOOD, BAD_PREV):
            damage = reader.damage(offset, examined)
            yield damage
            prev = -1
            offset += damage.length
            continue
        if examined.verdict == BAD_PREV and (broken := reader.broken_link(offset, examined)) is not None:
            yield broken
        entry = reader.entry(offset, examined)
        if entry.flags & REPLICATED and not is_invisible(entry.flags, version):
            vlsn = entry.vlsn
        yield entry
        prev = offset
        offset += examined.header_bytes + entry.item_size


def entries_of(stretch: Stretch, wanted: frozenset[int]) -> Iterator[LogEntry]:
    """The entries of some types in a stretch."""
    found: list[int] = []
    lengths = header_lengths(stretch.version)
    sift(stretch.data, stretch.start, stretch.end, _actions(wanted), lengths, found, [])
    for pos in found:
        yield entry_at(stretch.data, pos, stretch.base_lsn, stretch.version)


def entry_at(data: bytes, pos: int, base_lsn: int, version: int) -> LogEntry:
    """The entry at a position of a stretch."""
    checksum, pair, prev, size = PLAIN_HEADER.unpack_from(data, pos)
    length = header_lengths(version)[pair]
    vlsn = NULL_VLSN if length == HEADER_BYTES else VLSN_FIELD.unpack_from(data, pos + VLSN_AT)[0]
    return log_entry(
        lsn=base_lsn + pos, type_number=pair & 0xFF, version=version, flags=pair >> 8, prev_offset=prev,
        item_size=size, vlsn=vlsn, checksum=checksum, checksum_ok=True, body=data[pos + length : pos + length + size],
    )  # fmt: skip


@cache
def _actions(wanted: frozenset[int]) -> list[int]:
    return [KEEP if number in wanted else 0 for number in range(TYPES)] * (PAIRS // TYPES)
