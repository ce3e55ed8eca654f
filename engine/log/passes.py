"""Forward and backward passes over a stretch of the log, for recovery (R-LOG-43, R-LOG-44).

A pass yields ``RawEntry`` entries of the wanted types and skips the others by their headers. It computes no checksums:
recovery verifies its whole range once (``verify``) before the first pass. Memory is bounded by one piece of a file,
whatever the size of the log.

Code that processes millions of entries uses the pieces themselves (``forward_pieces``, ``backward_pieces``), gets the
positions of the wanted entries in each (``positions``), and makes a ``RawEntry`` only where it needs one (``raw_at``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from engine.errors import DamageError, FormatError
from engine.events import SILENT, Listener, Progress
from engine.format.codecs import readable_body
from engine.format.entry.file_header import FILE_HEADER_BYTES, decode_file_header
from engine.format.fast.header import PAIRS, PLAIN_HEADER, header_lengths
from engine.format.fast.loops import NO_TALLIES, keeping
from engine.format.fast.walks import sift
from engine.format.header import HEADER_BYTES, VERSION_BITS_V6, VLSN_AT, VLSN_FIELD
from engine.format.lsn import NULL_LSN, file_of, format_lsn, offset_of
from engine.format.versions import PACKED_NUMBERS
from engine.format.vlsn import NULL_VLSN
from engine.log.access import LogAccess
from engine.log.entry import Damage
from engine.log.files import LogFile, log_file_name
from engine.log.reader import FileReader
from engine.workers.process import MOST_NUMBERS

# Processes share a range by files, in parts of at least this size.
SHARE_BYTES = 24 << 20
_new_tuple: Final = tuple.__new__
_PASS_BY: Final = [0] * PAIRS
# Called with data, header lengths and a list to extend by the wanted positions; returns the position of the first
# incomplete entry.
Pick = Callable[[bytes, list[int], list[int]], int]


class RawEntry(NamedTuple):
    """One entry in a pass; the body is not decoded. A body of v1 to v5 is translated, and ``version`` is then 6."""

    lsn: int
    type_number: int
    version: int
    flags: int
    vlsn: int
    body: bytes
    size: int


class RangePiece(NamedTuple):
    """Whole entries of one file, as many as one read returns.

    Attributes:
        lsn: LSN of the first byte, where an entry begins.
        version: log version of the file.
        data: the bytes.
    """

    lsn: int
    version: int
    data: bytes


class LogRange(NamedTuple):
    """A range of the log: entries that begin in ``[start, end)``; ``start`` NULL_LSN means the first file."""

    start: int
    end: int


def files_in(access: LogAccess, extent: LogRange, *, gaps: bool = False) -> list[LogFile]:
    """The files that a range touches, ascending.

    Arguments:
        gaps: files in between may be missing because the cleaner has deleted them.

    Raises:
        DamageError: the first file is missing, or one between the first and the last (R-LOG-44).
    """
    found = _touched(access, extent)
    numbers = [file.number for file in found]
    # Even if gaps are allowed: without its first file the range lacks its beginning.
    if extent.start != NULL_LSN and numbers and numbers[0] != file_of(extent.start):
        raise _missing(access, file_of(extent.start))
    for before, after in pairwise(numbers):
        if after != before + 1 and not gaps:
            raise _missing(access, before + 1)
    return found


def shares_of(access: LogAccess, extent: LogRange) -> list[LogRange]:
    """Divide a range into parts of whole files, for several processes.

    Raises:
        DamageError: a file of the range is missing.
    """
    files = files_in(access, extent)
    least = max(SHARE_BYTES, sum(file.size_bytes for file in files) // MOST_NUMBERS)
    starts, size_bytes = [extent.start], 0
    for file in files:
        if size_bytes >= least:
            starts.append(file.number << 32)
            size_bytes = 0
        size_bytes += file.size_bytes
    return [LogRange(start, end) for start, end in zip(starts, [*starts[1:], extent.end], strict=True)]


def forward(
    access: LogAccess, extent: LogRange, wanted: frozenset[int] | None, *, gaps: bool = False
) -> Iterator[RawEntry]:
    """Entries of a range in log order.

    Arguments:
        access: the log.
        extent: the part of the log; its entries must be intact.
        wanted: type numbers, or None for all.
        gaps: as in ``files_in``; a caller that passes True must detect missing entries by itself.
    """
    for piece in forward_pieces(access, extent, gaps=gaps):
        for pos in positions(piece, wanted):
            access.at_lsn = piece.lsn + pos
            yield raw_at(piece, pos)


def backward(
    access: LogAccess, extent: LogRange, wanted: frozenset[int], on_gap: Callable[[], None] | None = None
) -> Iterator[RawEntry]:
    """Entries of a range, the last one first.

    Arguments:
        on_gap: called for every gap in the file numbers; None: a gap is damage.
    """
    for piece in backward_pieces(access, extent, on_gap):
        yield from entries_back(access, piece, wanted)


def entries_back(access: LogAccess, piece: RangePiece, wanted: frozenset[int]) -> Iterator[RawEntry]:
    """Entries of a piece, the last one first."""
    for pos in reversed(positions(piece, wanted)):
        access.at_lsn = piece.lsn + pos
        yield raw_at(piece, pos)


def forward_pieces(access: LogAccess, extent: LogRange, *, gaps: bool = False) -> Iterator[RangePiece]:
    """A range in pieces, in log order; arguments as for ``forward``."""
    for file in files_in(access, extent, gaps=gaps):
        start, end = _bounds(access, file, extent)
        for base, data in _pieces(access, file, start, end):
            yield RangePiece((file.number << 32) + base, access.version_of(file.number), data)


def picked_pieces(access: LogAccess, extent: LogRange, pick: Pick) -> Iterator[tuple[RangePiece, list[int]]]:
    """A range in pieces, in log order, with the positions of the picked entries; one walk, for callers that need few of
    many entries.

    Arguments:
        access, extent: as for ``forward``.
        pick: appends the positions of the wanted entries in a buffer to a list, and returns the position of the first
            incomplete entry. It is called with the header lengths of the file, and more than once for an entry that is
            larger than a piece.

    Yields:
        Pieces, which may end within an entry.
    """
    for file in files_in(access, extent):
        pos, end = _bounds(access, file, extent)
        handle, version = access.handle(file.number), access.version_of(file.number)
        lengths = header_lengths(version)
        while pos < end:
            found: list[int] = []
            data = handle.read(pos, min(access.piece_bytes, end - pos))
            taken = pick(data, lengths, found)
            if pos + len(data) < end and not taken:
                # An entry larger than a piece: read it alone, as a whole.
                data = handle.read(pos, _entry_bytes(handle.read(pos, HEADER_BYTES), lengths))
                taken = pick(data, lengths, found)
            if found:
                yield RangePiece((file.number << 32) + pos, version, data), found
            if not taken:
                break
            pos += taken


def backward_pieces(
    access: LogAccess, extent: LogRange, on_gap: Callable[[], None] | None = None
) -> Iterator[RangePiece]:
    """The pieces of ``forward_pieces``, the last one first; arguments as for ``backward``."""
    above: LogFile | None = None
    for file in reversed(_touched(access, extent)):
        if above is not None and above.number != file.number + 1:
            if on_gap is None:
                raise _missing(access, file.number + 1)
            on_gap()
        above = file
        start, end = _bounds(access, file, extent)
        # The ends of pieces can only be found from the front.
        for base, length in reversed([(base, len(data)) for base, data in _pieces(access, file, start, end)]):
            data = access.handle(file.number).read(base, length)
            yield RangePiece((file.number << 32) + base, access.version_of(file.number), data)


def positions(piece: RangePiece, wanted: frozenset[int] | None) -> list[int]:
    """The positions of entries of some types in a piece, ascending; None for all types."""
    found: list[int] = []
    sift(piece.data, 0, len(piece.data), keeping(wanted), header_lengths(piece.version), found, NO_TALLIES)
    return found


def raw_at(piece: RangePiece, pos: int) -> RawEntry:
    """The entry at a position of a piece."""
    lsn, version, data = piece
    _, pair, _, size = PLAIN_HEADER.unpack_from(data, pos)
    length = header_lengths(version)[pair]
    body = pos + length
    vlsn = NULL_VLSN if length == HEADER_BYTES else VLSN_FIELD.unpack_from(data, pos + VLSN_AT)[0]
    content, layout = data[body : body + size], version
    if version < PACKED_NUMBERS:
        layout, content = readable_body(pair & 0xFF, version, pair >> 8 & VERSION_BITS_V6, content)
    # Same as RawEntry(...), but without the Python call of a NamedTuple's constructor.
    return _new_tuple(RawEntry, (lsn + pos, pair & 0xFF, layout, pair >> 8, vlsn, content, length + size))


def bytes_of(access: LogAccess, extent: LogRange) -> int:
    """Size of a range in bytes, for progress; missing files count as empty."""
    return sum(
        max(0, end - start) for start, end in (_bounds(access, file, extent) for file in _touched(access, extent))
    )


def verify(
    access: LogAccess,
    first_file: int,
    last_file: int,
    listener: Listener = SILENT,
    on_changed: Callable[[DamageError], None] | None = None,
) -> None:
    """Check every checksum of the files ``[first_file, last_file)`` (R-LOG-37, R-REC-30), and that no file lost its
    end.

    A file is synced before the next file is begun, and the header of the next file names the last entry (R-LOG-13).
    Entries after the named one are valid: if a kill left a file with only its header, the earlier file was continued.

    Arguments:
        on_changed: called for an entry with a wrong checksum whose size leads to the next entry; None: such an entry is
            an error too.

    Raises:
        DamageError: the first bad entry, or the missing end.
    """
    last_offset, number = -1, -2
    total = sum(file.size_bytes for file in access.files() if first_file <= file.number < last_file)
    progress = Progress(listener, "VERIFY", total)
    for file in access.files():
        if not first_file <= file.number <= last_file:
            continue
        named = _named_end(access, file) if file.number == number + 1 else -1
        if named > last_offset:
            raise _lost_end(access, number, last_offset, named)
        if file.number == last_file:
            return
        # Loaded only for a recovery of several files.
        from engine.log.check import check_file

        # None of these files is the last, so bad bytes at the end are damage, not a torn tail.
        with FileReader(access.storage, file, is_last=False, version=access.version_of(file.number)) as reader:
            check = check_file(reader, with_sizes=False)
            for seen in check.damages:
                if on_changed is None or not _is_in_chain(access, seen.damage):
                    raise _corrupt(access, seen.damage, "recovery cannot read what it has to replay")
                on_changed(_corrupt(access, seen.damage, "recovery reads it as it is"))
            last_offset, number = check.last_offset, file.number
        progress.add(file.size_bytes)


def _is_in_chain(access: LogAccess, damage: Damage) -> bool:
    """Whether the size of a bad entry leads to the next entry, so that passes can step over it."""
    if damage.reason != "checksum" or not damage.has_next:
        return False
    number, offset = file_of(damage.lsn), offset_of(damage.lsn)
    lengths = header_lengths(access.version_of(number))
    return _entry_bytes(access.handle(number).read(offset, HEADER_BYTES), lengths) == damage.length


def _way_on(access: LogAccess) -> str:
    """The hint for damage at which JE refuses too."""
    env = access.storage.root
    return (
        f"restore the file from a backup (jetool verify {env} says what else is damaged), or save what can be read: "
        f"jetool salvage {env} --out NEW"
    )


def _touched(access: LogAccess, extent: LogRange) -> list[LogFile]:
    first = -1 if extent.start == NULL_LSN else file_of(extent.start)
    found = [file for file in access.files() if first <= file.number <= file_of(extent.end)]
    # A last file without entries does not belong to the log yet.
    return [file for file in found if file.number < file_of(extent.end) or offset_of(extent.end) > FILE_HEADER_BYTES]


def require_end(access: LogAccess, last_file: int) -> None:
    """Check that a last file without entries directly follows the last file with entries.

    Such a file is created when the one before is full. If its number is higher, files with entries are missing, and the
    log only appears to end before them. JE continues without an error (D-18).

    Raises:
        DamageError: a file is missing.
    """
    after = next((file for file in access.files() if file.number > last_file), None)
    if after is not None and after.number != last_file + 1:
        raise _missing(access, last_file + 1)


def _missing(access: LogAccess, number: int) -> DamageError:
    return DamageError(
        f"log file {log_file_name(number)} is missing",
        file=access.storage.root,
        lsn=format_lsn(number << 32),
        consequence="recovery needs every file from the checkpoint's first active LSN on",
        hint=_way_on(access),
    )


def _corrupt(access: LogAccess, damage: Damage, consequence: str) -> DamageError:
    return DamageError(
        "the log is damaged before its last file",
        file=f"{access.storage.root}/{damage.path}",
        lsn=format_lsn(damage.lsn),
        expected=damage.expected or None,
        found=damage.found or None,
        consequence=consequence,
        hint=_way_on(access),
    )


def _named_end(access: LogAccess, file: LogFile) -> int:
    """Offset of the previous file's last entry according to this file's header; -1 if there is no header."""
    version = access.version_of(file.number)
    head = access.handle(file.number).read(0, FILE_HEADER_BYTES)
    try:
        return decode_file_header(head[HEADER_BYTES:], version).last_entry_in_prev_file
    except FormatError:
        return -1


def _lost_end(access: LogAccess, number: int, last_offset: int, named: int) -> DamageError:
    return DamageError(
        "a log file has lost entries at its end",
        file=f"{access.storage.root}/{log_file_name(number)}",
        lsn=format_lsn((number << 32) + max(last_offset, 0)),
        expected=f"a last entry at 0x{named:x}, which the next file names",
        found=f"one at 0x{last_offset:x}",
        consequence="recovery cannot read what it has to replay",
        hint=_way_on(access),
    )


def _bounds(access: LogAccess, file: LogFile, extent: LogRange) -> tuple[int, int]:
    start = offset_of(extent.start) if extent.start != NULL_LSN and file.number == file_of(extent.start) else 0
    size = access.handle(file.number).size()
    end = min(offset_of(extent.end), size) if file.number == file_of(extent.end) else size
    return max(start, FILE_HEADER_BYTES), end


def _pieces(access: LogAccess, file: LogFile, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Parts of a file that begin and end at entry boundaries."""
    handle = access.handle(file.number)
    lengths = header_lengths(access.version_of(file.number))
    while start < end:
        data = handle.read(start, min(access.piece_bytes, end - start))
        if start + len(data) >= end:
            yield start, data
            return
        pos = sift(data, 0, len(data), _PASS_BY, lengths, [], NO_TALLIES)
        if pos == 0:
            # An entry larger than a piece: read it alone, as a whole.
            data = handle.read(start, _entry_bytes(handle.read(start, HEADER_BYTES), lengths))
            pos = len(data)
        yield start, data[:pos]
        start += pos


def _entry_bytes(head: bytes, lengths: list[int]) -> int:
    _, pair, _, size = PLAIN_HEADER.unpack_from(head, 0)
    return int(lengths[pair] + size)
