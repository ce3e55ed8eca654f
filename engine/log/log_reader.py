"""Reading a whole log, forward and backward, over all of its files.

Rules: R-LOG-43 (forward: start inclusive, finish exclusive; backward: both inclusive), R-LOG-44 (gaps). A backward pass
reads each file forward in pieces and turns the pieces round, so that it meets the same entries and the same damage as a
forward pass, also where prevOffsets are destroyed.

File numbers may have gaps. A forward pass steps over them; a backward one does so only when the caller allows it, since
going back over a cleaned file means that something is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.errors import DamageError, NotFoundError
from engine.format.lsn import NULL_LSN, file_of, format_lsn, make_lsn, offset_of
from engine.log.entry import Damage, LogEntry
from engine.log.files import MARKER_FILE_NUMBER, LogFile, LogFiles
from engine.log.reader import FileReader
from engine.storage.base import Storage

Item = LogEntry | Damage

_PIECE_BYTES: Final = 1 << 20


class LogReader:
    """Reads the entries of an environment.

    Arguments:
        storage: the environment.
        files: its log files.
    """

    __slots__ = ("_end_file", "_files", "_storage")

    def __init__(self, storage: Storage, files: LogFiles) -> None:
        self._storage = storage
        self._files = files.with_marker()
        self._end_file = files.end_file()

    def open(self, file: LogFile, version: int | None = None) -> FileReader:
        """A reader of one file; ``version`` serves when its header cannot be read (None: ask the files beside it)."""
        return FileReader(self._storage, file, is_last=file.number >= self._end_file, version=version)

    def forward(self, start: int = NULL_LSN, end: int = NULL_LSN) -> Iterator[Item]:
        """Entries and damage in ``[start, end)``; NULL_LSN is no limit.

        Raises:
            NotFoundError: no entry begins at ``start``.
            UnsupportedError, StorageError: as ``FileReader``.
        """
        version: int | None = None
        for file in self._within(start, end):
            with self.open(file, version) as reader:
                # For the next file, should its header be unreadable: versions change rarely (je-log-format.md 3.6).
                version = reader.version
                first = offset_of(start) if start != NULL_LSN and file.number == file_of(start) else 0
                if first:
                    # Reading from the middle of an entry would report damage that is not there.
                    self._expect_entry(reader, first)
                limit = offset_of(end) if end != NULL_LSN and file.number == file_of(end) else None
                yield from reader.entries(first, limit)

    def backward(self, start: int = NULL_LSN, end: int = NULL_LSN, *, over_gaps: bool = False) -> Iterator[Item]:
        """Entries and damage from ``start`` down to ``end``, both inclusive; NULL_LSN is no limit.

        Arguments:
            start: the last entry of the pass; NULL_LSN begins at the end of the log.
            end: the first one.
            over_gaps: go on where a file number is missing.

        Raises:
            DamageError: a file number is missing between two files that the pass needs, and ``over_gaps`` is not set.
            NotFoundError: no entry begins at ``start``.
        """
        above: LogFile | None = None
        for file in reversed(self._within(end, NULL_LSN)):
            if start != NULL_LSN and file.number > file_of(start):
                continue
            # The marker is numbered far above the log; the distance to it is no gap.
            gap = above is not None and above.number not in (file.number + 1, MARKER_FILE_NUMBER)
            if gap and above is not None and not over_gaps:
                raise DamageError(
                    "cannot read backward over cleaned file",
                    file=f"{self._storage.root}/{above.path}",
                    lsn=format_lsn(make_lsn(above.number, 0)),
                    expected=f"file 0x{above.number - 1:x} before it",
                    found=f"file 0x{file.number:x}",
                )
            above = file
            with self.open(file) as reader:
                last = offset_of(start) if start != NULL_LSN and file.number == file_of(start) else None
                if last is not None:
                    self._expect_entry(reader, last)
                first = offset_of(end) if end != NULL_LSN and file.number == file_of(end) else 0
                yield from _backward(reader, first, last)

    def entry_at(self, lsn: int) -> LogEntry | None:
        """The entry that begins at an LSN, None when no good one does or its file is gone."""
        file = next((file for file in self._files if file.number == file_of(lsn)), None)
        if lsn == NULL_LSN or file is None:
            return None
        with self.open(file) as reader:
            if not reader.is_entry(offset_of(lsn)):
                return None
            item = next(reader.entries(offset_of(lsn)), None)
        return item if isinstance(item, LogEntry) else None

    def _within(self, start: int, end: int) -> tuple[LogFile, ...]:
        low = 0 if start == NULL_LSN else file_of(start)
        high = self._files[-1].number if end == NULL_LSN and self._files else file_of(end)
        return tuple(file for file in self._files if low <= file.number <= high)

    def _expect_entry(self, reader: FileReader, offset: int) -> None:
        if reader.is_entry(offset):
            return
        before = after = NULL_LSN
        for item in reader.entries():
            if isinstance(item, LogEntry):
                if offset_of(item.lsn) > offset:
                    after = item.lsn
                    break
                before = item.lsn
        near = " and ".join(format_lsn(lsn) for lsn in (before, after) if lsn != NULL_LSN)
        raise NotFoundError(
            "no entry begins at this LSN",
            file=f"{self._storage.root}/{reader.file.path}",
            lsn=format_lsn(make_lsn(reader.file.number, offset)),
            hint=f"entries near it begin at {near}" if near else "the file holds no entry",
        )


def _backward(reader: FileReader, first: int, last: int | None) -> Iterator[Item]:
    """One file from ``last`` (None: its end) down to ``first``, both inclusive, a piece at a time."""
    # The state of the reader goes with each piece, so that the second pass reports the same damage.
    pieces = [(0, -1, reader.mark())]
    prev, mark = -1, reader.mark()
    for item in reader.entries(end=None if last is None else last + 1):
        offset = offset_of(item.lsn)
        if isinstance(item, LogEntry):
            if offset - pieces[-1][0] >= _PIECE_BYTES:
                pieces.append((offset, prev, mark))
            prev = offset
        elif not item.length:
            # A broken link belongs to the entry that follows, which may begin a piece.
            continue
        else:
            prev = -1
        mark = reader.mark()
    stop = None if last is None else last + 1
    # Forward once more, piece by piece: memory holds the entries of one piece, not of a file.
    for begin, before, state in reversed(pieces):
        reader.rewind(state)
        for item in reversed(list(reader.entries(begin, stop, before))):
            if offset_of(item.lsn) < first:
                return
            yield item
        stop = begin
