"""The loops that walk a buffer: those in C (``engine.native``), or in the pure build those of ``loops``.

Both follow the same rules, which ``loops`` documents, and give the same results.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Final

from engine.format.fast.header import PAIRS, plain_pairs, vlsn_bits
from engine.format.fast.loops import Sizes, check_plain, follow_links
from engine.format.fast.loops import pick_open as pick_open_plain
from engine.format.fast.loops import sift as sift_plain
from engine.format.header import FLAGS_AT, TYPE_AT
from engine.native import chosen, extension

# Entries, bytes of items, smallest item, largest item.
Tally = tuple[int, int, int, int]

_LEAST_OF_NONE: Final = 1 << 40
_NOTHING_YET: Final = (0, 0, _LEAST_OF_NONE, 0)


follow = chosen("follow", follow_links)
sift = chosen("sift", sift_plain)
pick_open = chosen("pick_open", pick_open_plain)


class Walk:
    """Walks plain entries and counts them, interpreted.

    Arguments:
        version: log version of the file.
    """

    def __init__(self, version: int) -> None:
        self._version = version
        self._with_vlsn = vlsn_bits(version)
        self._sizes = Sizes(version)

    def check(self, data: bytes, pos: int, base: int, prev_offset: int, last_vlsn: int) -> tuple[int, int, int]:
        """Check plain entries until one is not plain or the buffer ends; see ``loops.check_plain``."""
        return check_plain(data, pos, base, prev_offset, last_vlsn, self._with_vlsn, self._sizes)

    def take(self, with_bytes: bool) -> Iterator[tuple[int, Tally]]:
        """The counts since the last call, by ``type | flags << 8``; without ``with_bytes`` all sizes are 0."""
        sizes, self._sizes = self._sizes, Sizes(self._version)
        for pair, found in sizes.by_pair.items():
            if found:
                yield pair, (len(found), sum(found), min(found), max(found)) if with_bytes else (len(found), 0, 0, 0)


class NativeWalk:
    """Like ``Walk``, in C.

    Arguments:
        version: log version of the file.
        walk: ``engine.native.core.walk``.
    """

    def __init__(self, version: int, walk: Callable[..., tuple[int, int, int]]) -> None:
        self._walk = walk
        self._plain = plain_pairs(version)
        self._with_vlsn = vlsn_bits(version)
        self._slots = array("q", [0]) * PAIRS
        self._pairs: list[int] = []
        # Slot 0 stops the walk.
        self._tallies = array("q", _NOTHING_YET)

    def check(self, data: bytes, pos: int, base: int, prev_offset: int, last_vlsn: int) -> tuple[int, int, int]:
        """See ``Walk.check``."""
        while True:
            pos, prev_offset, last_vlsn = self._walk(
                data, pos, base, prev_offset, last_vlsn, self._with_vlsn, self._slots, self._tallies
            )
            if not self._meet(data, pos):
                return pos, prev_offset, last_vlsn

    def _meet(self, data: bytes, pos: int) -> bool:
        """Add a tally for the type and flags at which the walk stopped; False if they have one, or are not plain."""
        pair = int.from_bytes(data[pos + TYPE_AT : pos + FLAGS_AT + 1], "little")
        if self._slots[pair] or pair not in self._plain:
            return False
        self._slots[pair] = len(self._tallies)
        self._pairs.append(pair)
        self._tallies.extend(_NOTHING_YET)
        return True

    def take(self, with_bytes: bool) -> Iterator[tuple[int, Tally]]:
        """See ``Walk.take``."""
        tallies = self._tallies
        for pair in self._pairs:
            slot = self._slots[pair]
            entries, total, least, most = tallies[slot : slot + 4]
            if entries:
                tallies[slot : slot + 4] = array("q", _NOTHING_YET)
                yield pair, (entries, total, least, most) if with_bytes else (entries, 0, 0, 0)


def walk_of(version: int) -> Walk | NativeWalk:
    """A walk over files of a log version; the faster implementation that is available."""
    return Walk(version) if extension is None else NativeWalk(version, extension.walk)
