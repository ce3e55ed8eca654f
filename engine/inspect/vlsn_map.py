"""VLSNs per log file, and the gaps between them, from the log itself.

VLSNs of visible replicated entries are consecutive in log order (je-log-format.md 11.1). Two functions get the first
and the last VLSN of a file, and the number of its VLSNs:

* ``map_file`` follows headers only, as DbPrintLog -vd does: it checks types, sizes, prevOffsets and the order of VLSNs,
  but not checksums. If anything is unusual (a broken link, an entry cut off, a rollback), the file is checked in full,
  so that damage is reported as elsewhere. It does not detect damage inside a body.
* ``gaps_of_file`` checks every byte. If the number does not fit the range, or the file holds a rollback, it finds the
  gaps entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engine.format.entry_types import ROLLBACK_START
from engine.format.fast.header import header_lengths, steps
from engine.format.fast.walks import follow
from engine.format.header import GOOD, HEADER_WITH_VLSN_BYTES, REPLICATED, EntryHeader, is_invisible
from engine.format.vlsn import NULL_VLSN
from engine.log.check import STOP_AT_FIRST, DamagedStretch, FileCheck, check_file
from engine.log.entry import LogEntry
from engine.log.files import LogFile, LogFiles
from engine.log.reader import FileReader
from engine.log.window import Window, look
from engine.storage.base import Storage


class Gap(NamedTuple):
    """Missing VLSNs ``first`` to ``last``, with the file before and the file after them."""

    first: int
    last: int
    after_path: str
    before_path: str


class FileVlsns(NamedTuple):
    """The VLSNs of one file.

    Attributes:
        first, last: NULL_VLSN if the file holds no VLSN.
        visible: visible replicated entries.
        inner_gaps: missing VLSNs (first, last) between two entries of this file.
    """

    path: str
    size_bytes: int
    first: int
    last: int
    visible: int
    invisible: int
    entries: int
    inner_gaps: tuple[tuple[int, int], ...]
    damages: tuple[DamagedStretch, ...]


def map_file(storage: Storage, end_file: int, file: LogFile) -> FileVlsns:
    """The VLSNs of one file by its headers; ``inner_gaps`` is left empty.

    Arguments:
        storage: the environment.
        end_file: number of the file that the log ends in.
        file: which one.
    """
    with FileReader(storage, file, is_last=file.number >= end_file) as reader:
        found = _by_headers(reader)
        return _from_check(check_file(reader), ()) if found is None else found


def vlsn_ends(storage: Storage, files: LogFiles) -> tuple[int, int] | None:
    """First and last VLSN of the visible entries of a log, each file read once at most and only as far as needed.

    Returns:
        Both are NULL_VLSN for a log without VLSNs. None if damage was found, so that the log must be read entry by
        entry.
    """
    end_file = files.end_file()
    known: dict[int, FileVlsns] = {}

    def first_with_some(chosen: Iterable[LogFile]) -> FileVlsns | None:
        for file in chosen:
            if file.number not in known:
                known[file.number] = map_file(storage, end_file, file)
            found = known[file.number]
            if found.damages or found.first != NULL_VLSN:
                return found
        return None

    earliest = first_with_some(files.files)
    if earliest is None:
        return NULL_VLSN, NULL_VLSN
    latest = first_with_some(reversed(files.files))
    if latest is None or earliest.damages or latest.damages:
        return None
    return earliest.first, latest.last


def gaps_of_file(storage: Storage, end_file: int, file: LogFile) -> FileVlsns:
    """The VLSNs of one file and the gaps between them, every entry checked; arguments as for ``map_file``."""
    with FileReader(storage, file, is_last=file.number >= end_file) as reader:
        check = check_file(reader)
        # The number of VLSNs equals the length of their range, so no VLSN is missing.
        whole = check.vlsn_count == 0 or check.last_vlsn - check.first_vlsn + 1 == check.vlsn_count
        return _from_check(check, () if whole and not check.rollbacks else _inner_gaps(reader))


def _from_check(check: FileCheck, gaps: tuple[tuple[int, int], ...]) -> FileVlsns:
    return FileVlsns(
        path=check.file.path,
        size_bytes=check.size_bytes,
        first=check.first_vlsn,
        last=check.last_vlsn,
        visible=check.vlsn_count,
        invisible=len(check.invisible),
        entries=check.entries,
        inner_gaps=gaps,
        damages=check.damages,
    )


def _by_headers(reader: FileReader) -> FileVlsns | None:
    """Follow the headers of a file; None if anything is unusual."""
    window, lengths = reader.window, steps(reader.version)
    if any(reader.header_damage(0)):
        return None
    offset = prev = entries = visible = invisible = 0
    # STOP_AT_FIRST makes the loop stop at the first VLSN, so that ``first`` can be set.
    first, last = NULL_VLSN, STOP_AT_FIRST
    while offset < window.size_bytes:
        if not window.holds(offset, min(HEADER_WITH_VLSN_BYTES, window.size_bytes - offset)):
            window.reach(offset, HEADER_WITH_VLSN_BYTES)
        base = window.base
        pos, prev, last, stepped, counted = follow(
            window.data, offset - base, len(window.data), base, prev, last, lengths
        )
        entries, visible = entries + stepped, visible + counted
        if stepped:
            offset = base + pos
            continue
        # The loop stops at the first VLSN, at an invisible entry, at the edge of the buffer, and where the file needs a
        # full check.
        header = _odd_header(window, offset, reader.version, prev)
        if header is None:
            return None
        if is_invisible(header.flags, reader.version):
            invisible += 1
        elif header.flags & REPLICATED:
            # A repeated VLSN means a rollback or damage.
            if first != NULL_VLSN and header.vlsn <= last:
                return None
            first, last = header.vlsn if first == NULL_VLSN else first, header.vlsn
            visible += 1
        entries, prev = entries + 1, offset
        offset += header_lengths(reader.version)[header.flags << 8] + header.item_size
    last = NULL_VLSN if first == NULL_VLSN else last
    return FileVlsns(
        path=reader.file.path,
        size_bytes=window.size_bytes,
        first=first,
        last=last,
        visible=visible,
        invisible=invisible,
        entries=entries,
        inner_gaps=(),
        damages=(),
    )


def _odd_header(window: Window, offset: int, version: int, prev: int) -> EntryHeader | None:
    """The header of an entry that is linked to the one before it and ends within the file; else None."""
    examined = look(window, offset, version, prev)
    if examined.verdict != GOOD or examined.header is None or examined.header.type_number == ROLLBACK_START:
        return None
    return examined.header


def find_gaps(files: Sequence[FileVlsns]) -> list[Gap]:
    """Missing VLSNs between the first and the last of the log."""
    gaps: list[Gap] = []
    last, last_path = NULL_VLSN, ""
    for found in files:
        if found.first == NULL_VLSN:
            continue
        if last != NULL_VLSN and found.first > last + 1:
            gaps.append(Gap(last + 1, found.first - 1, last_path, found.path))
        gaps += [Gap(first, end, found.path, found.path) for first, end in found.inner_gaps]
        last, last_path = found.last, found.path
    return gaps


def _inner_gaps(reader: FileReader) -> tuple[tuple[int, int], ...]:
    visible = (
        item.vlsn
        for item in reader.entries()
        if isinstance(item, LogEntry) and item.flags & REPLICATED and not item.invisible
    )
    return tuple(_missing(sorted(set(visible))))


def _missing(vlsns: Iterable[int]) -> Iterable[tuple[int, int]]:
    before = NULL_VLSN
    for vlsn in vlsns:
        if before != NULL_VLSN and vlsn > before + 1:
            yield before + 1, vlsn - 1
        before = vlsn
