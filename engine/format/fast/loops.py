"""The loops over the entries of one buffer, interpreted: headers and checksums, no bodies.

The loops have three users: the engine's readers, the dump command, and Spark tasks that hold a file's bytes. They take
bytes and return positions and counts, so that a pass over a log pays only for what it uses.

``check_plain`` checks plain entries and stops at the first that is not plain. For passes that need only types, links
and VLSNs, ``follow_links`` goes from header to header and computes no checksum. ``sift`` does not check links either:
it picks the entries of some types out of bytes that have been checked before. ``pick_open`` picks the LNs of
transactions that have not ended.

General twin: ``header.examine``, entry by entry. ``engine.native`` has the same loops in C; ``walks``
chooses between the two.

The loops touch each byte at most once. ``check_plain`` counts per pair of type and flags (``Sizes``), which is enough
for every statistic of a log: provisional counts, bytes, smallest, largest.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Callable
from struct import error as StructError  # noqa: N812 - there is no better name for it
from typing import Final
from zlib import adler32

from engine.errors import FormatError
from engine.format.bytecursor import unpack
from engine.format.fast.header import LINK, PAIRS, PLAIN_HEADER, REPLICATED_IN_PAIR, TYPES, plain_pairs
from engine.format.header import CHECKSUM_BYTES, HEADER_BYTES, HEADER_WITH_VLSN_BYTES, VLSN_AT, VLSN_FIELD
from engine.format.lsn import NULL_LSN

# Actions of sift() for an entry, by ``type | flags << 8``; may be combined.
KEEP: Final = 1
COUNT: Final = 2
STOP: Final = 4
# Action of pick_open() for an entry that KEEP does not select.
LOOK: Final = 8
# Numbers per type: entries, bytes with headers, the largest.
TALLY: Final = 3
# For calls that count nothing.
NO_TALLIES: Final = array("q")


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
        """The functions to call with a size, for the pairs met so far."""
        return self._appends

    def meet(self, pair: int) -> bool:
        """Prepare for a new pair. False if it is already known, or not plain."""
        if pair in self.by_pair or pair not in self._plain:
            return False
        sizes: list[int] = []
        self.by_pair[pair] = sizes
        self._appends[pair] = sizes.append
        return True


def check_plain(
    data: bytes, pos: int, base: int, prev_offset: int, last_vlsn: int, with_vlsn: int, sizes: Sizes
) -> tuple[int, int, int]:
    """Check plain entries until one is not plain or the buffer ends.

    Arguments:
        data: the buffer.
        pos: where the first entry begins in it.
        base: file offset of the buffer's first byte.
        prev_offset: file offset of the entry before the first entry in the buffer (0 at the start of a file).
        last_vlsn: the last VLSN of the replication stream so far; each VLSN must be above it.
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
                # The size is checked before the checksum: the claim of a damaged size must not cost time.
                if pair & with_vlsn:
                    after = pos + HEADER_WITH_VLSN_BYTES + size
                    if prev != prev_offset or after > end or adler32(data[pos + CHECKSUM_BYTES : after]) != checksum:
                        break
                    if pair & REPLICATED_IN_PAIR:
                        vlsn = VLSN_FIELD.unpack_from(data, pos + VLSN_AT)[0]
                        if vlsn <= last_vlsn:
                            break
                        last_vlsn = vlsn
                else:
                    after = pos + HEADER_BYTES + size
                    if prev != prev_offset or after > end or adler32(data[pos + CHECKSUM_BYTES : after]) != checksum:
                        break
                append(size)
                prev_offset = base + pos
                pos = after
        except KeyError:
            # A new pair, or a pair that is not plain.
            if sizes.meet(pair):
                continue
        except StructError:
            # No room for a header: the buffer's end.
            pass
        return pos, prev_offset, last_vlsn


def follow_links(
    data: bytes, pos: int, end: int, base: int, prev_offset: int, last_vlsn: int, lengths: list[int]
) -> tuple[int, int, int, int, int]:
    """Step from header to header as long as each entry has a known type and points back to the previous one.

    Bodies are not read and no checksum is computed, so this costs a third of ``check_plain``.

    Arguments:
        data, pos, base, prev_offset, last_vlsn: as for ``check_plain``.
        end: the end of the buffer's valid bytes.
        lengths: from ``steps``.

    Returns:
        The position where it stopped, the file offset of the entry before it, the last VLSN, the number of entries
        stepped over, and how many of them are part of the replication stream.
    """
    unpack = LINK.unpack_from
    last_header = end - HEADER_WITH_VLSN_BYTES
    entries = replicated = 0
    vlsn_before = last_vlsn
    while pos <= last_header:
        pair, prev, size, vlsn = unpack(data, pos)
        if prev != prev_offset:
            break
        if pair & REPLICATED_IN_PAIR:
            if vlsn <= last_vlsn:
                break
            vlsn_before, last_vlsn = last_vlsn, vlsn
            replicated += 1
        prev_offset = base + pos
        pos += lengths[pair] + size
        entries += 1
    if pos > end:
        # The last step went beyond the buffer, or over an entry at which to stop: undo it.
        pos = prev_offset - base
        pair, prev_offset, _, _ = unpack(data, pos)
        entries -= 1
        if pair & REPLICATED_IN_PAIR:
            last_vlsn = vlsn_before
            replicated -= 1
    return pos, prev_offset, last_vlsn, entries, replicated


def sift(
    data: bytes, pos: int, until: int, actions: list[int], lengths: list[int], found: list[int], tallies: array[int]
) -> int:
    """Pick entries out of a buffer whose checksums have been verified.

    Arguments:
        data, pos: as for ``check_plain``.
        until: entries that begin here or later are ignored.
        actions: for each ``type | flags << 8`` the action for the entry: 0, or a combination of KEEP (note its
            position), COUNT (tally it) and STOP (stop after it).
        lengths: from ``header_lengths``.
        found: extended by the positions of the kept entries.
        tallies: from ``no_tallies``: ``TALLY`` numbers for each type; increased.

    Returns:
        The position where it stopped: that of the first entry that begins at ``until`` or later or exceeds the buffer,
        or the one after an entry with STOP.
    """
    unpack = PLAIN_HEADER.unpack_from
    end = len(data)
    # A header must fit before the end of the buffer.
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


def pick_open(
    data: bytes,
    actions: list[int],
    lengths: list[int],
    flag_bytes: int,
    has_abort_lsn: int,
    chunks: dict[int, array[int]],
    bits: int,
    found: list[int],
) -> int:
    """Pick the LNs of transactions that have not ended, for a log version whose LNs begin with flags and database id.

    Arguments:
        data: begins with an entry; checksums have been verified.
        actions: for each ``type | flags << 8`` 0 (not such an LN), LOOK (decide by its transaction) or KEEP (always
            pick).
        lengths: from ``header_lengths``.
        flag_bytes: number of bytes before the database id.
        has_abort_lsn: the flag for an LSN between database id and transaction id.
        chunks: LSNs of ends, first by the upper bits of a transaction's id, then by its lowest bits; NULL_LSN if the
            transaction has no end.
        bits: number of lowest bits.
        found: extended by the positions of the picked entries, and of entries that do not fit.

    Returns:
        The number of entries that were examined and not picked.
    """
    pos, passed, end = 0, 0, len(data)
    while pos + HEADER_BYTES <= end:
        _, pair, _, size = PLAIN_HEADER.unpack_from(data, pos)
        body = pos + lengths[pair]
        if body + size > end:
            break
        if actions[pair]:
            chunk: array[int] | None = None
            if not actions[pair] & KEEP:
                with contextlib.suppress(FormatError, IndexError):
                    _, at = unpack(data, body + flag_bytes)
                    if data[body] & has_abort_lsn:
                        _, at = unpack(data, at)
                    txn_id, _ = unpack(data, at)
                    chunk = chunks.get(txn_id >> bits)
            if chunk is None or chunk[txn_id & (1 << bits) - 1] == NULL_LSN:
                found.append(pos)
            else:
                passed += 1
        pos = body + size
    return passed


def no_tallies() -> array[int]:
    """An empty tally for ``sift``, with zeros for all types."""
    return array("q", [0]) * (TYPES * TALLY)


_keeping: Final[dict[frozenset[int] | None, list[int]]] = {}


def keeping(types: frozenset[int] | None) -> list[int]:
    """Actions for ``sift`` by ``type | flags << 8``: keep entries of the given types; None keeps all."""
    actions = _keeping.get(types)
    if actions is None:
        row = [KEEP if types is None or number in types else 0 for number in range(TYPES)]
        actions = _keeping[types] = row * (PAIRS // TYPES)
    return actions
