"""VLSNs per log file, and the gaps between them, from the log itself.

VLSNs of visible replicated entries are consecutive in log order (je-log-format.md 11.1). Per file the bulk check gives
the
first, the last and the number; where the number does not fit, or where a rollback lies in the file, the file is read
entry by entry for the gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engine.format.header import REPLICATED
from engine.format.vlsn import NULL_VLSN
from engine.log.check import SeenDamage, check_file
from engine.log.entry import LogEntry
from engine.log.files import LogFile
from engine.log.reader import FileReader
from engine.storage.base import Storage


class Gap(NamedTuple):
    """Missing VLSNs ``first`` to ``last``, with the files on both sides."""

    first: int
    last: int
    after_path: str
    before_path: str


class FileVlsns(NamedTuple):
    """The VLSNs of one file.

    Attributes:
        first, last: NULL_VLSN when the file has none.
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
    damages: tuple[SeenDamage, ...]


def map_file(storage: Storage, end_file: int, file: LogFile) -> FileVlsns:
    """Read one file.

    Arguments:
        storage: the environment.
        end_file: number of the file that the log ends in.
        file: which one.
    """
    with FileReader(storage, file, is_last=file.number >= end_file) as reader:
        check = check_file(reader)
        whole = check.vlsn_count == 0 or check.last_vlsn - check.first_vlsn + 1 == check.vlsn_count
        gaps = () if whole and not check.rollbacks else _inner_gaps(reader)
    return FileVlsns(
        file.path, check.size_bytes, check.first_vlsn, check.last_vlsn, check.vlsn_count, len(check.invisible),
        check.entries, gaps, check.damages,
    )  # fmt: skip


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
