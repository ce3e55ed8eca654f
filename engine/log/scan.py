"""A pass over a log, declared as a value: files, range and types. All callers walk the log this way.

``scan_log`` declares a pass over an environment, ``scan_file`` one over a single file. The methods of ``LogScan`` run
it: ``entries`` and ``backward`` yield entries and damage, ``stretches`` yields consecutive plain entries as one
``Stretch``, ``check`` counts a file in bulk, and ``map_files`` shares the files among processes. All of them report the
same damage.

Example: a log of the files 0 and 1, with a Commit at 0x0/0x260 and one at 0x1/0x1c4:

    scan = scan_log(storage, files, types=frozenset({COMMIT}))
    [item.lsn for item in scan.entries()]                                 # 0x0/0x260, 0x1/0x1c4
    [item.lsn for item in scan.between(make_lsn(1, 0)).entries()]         # 0x1/0x1c4
    [item.lsn for item in scan.backward()]                                # 0x1/0x1c4, 0x0/0x260

Rules: R-LOG-31 (the end of the log), R-LOG-43 (bounds; forward: start inclusive, finish exclusive; backward: both
inclusive), R-LOG-44 (gaps).

* File numbers may have gaps. A forward pass skips them. A backward pass does so only if the caller allows it, since
  going back over a cleaned file means that entries are missing.
* A backward pass reads each file forward in pieces and reverses the pieces, so that it yields the same entries and the
  same damage as a forward pass, even where prevOffsets are destroyed.
* Recovery and the cleaner read ranges that were verified before, and need neither checksums nor damage. They use
  ``engine.log.passes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from engine.errors import DamageError, JetoolError, NotFoundError
from engine.format.entry.file_header import FileHeader
from engine.format.fast.loops import keeping
from engine.format.header import BAD_CHECKSUM
from engine.format.lsn import NULL_LSN, file_of, format_lsn, make_lsn, offset_of
from engine.log.check import FileCheck, check_file
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import MARKER_FILE_NUMBER, LogFile, LogFiles
from engine.log.reader import FileReader
from engine.log.window import LOOK_BYTES, WINDOW_BYTES
from engine.storage.base import Storage
from engine.workers.parallel import map_in_order, map_small

Item = LogEntry | Damage
Result = TypeVar("Result")

PIECE_BYTES: Final = 1 << 20
# Bytes per read in a pass that follows prevOffsets.
_BACK_BYTES: Final = 1 << 14


class FileHead(NamedTuple):
    """The information at the beginning of a file.

    Attributes:
        version: the log version of its entries.
        header: the header's record; None if it is damaged.
        size_bytes: the length of the file when it was opened.
    """

    version: int
    header: FileHeader | None
    size_bytes: int


class LogScan(NamedTuple):
    """A pass over log files, created by ``scan_log`` and ``scan_file``.

    Attributes:
        storage: the environment.
        files: the files to read, ascending.
        end_file: number of the last file with entries; bad bytes at the end of an earlier file are not a torn tail.
        types: the entry types to yield; None for all. Damage is always yielded.
        start, end: the range; NULL_LSN means no limit.
        past_end: continue after damage in the last file; otherwise that damage is the last item (R-LOG-31).
        piece_bytes: how much of a file a backward pass holds in memory.
        window_bytes: how much of a file is read at a time; small for passes that need few entries.
    """

    storage: Storage
    files: tuple[LogFile, ...]
    end_file: int
    types: frozenset[int] | None = None
    start: int = NULL_LSN
    end: int = NULL_LSN
    past_end: bool = True
    piece_bytes: int = PIECE_BYTES
    window_bytes: int = WINDOW_BYTES

    def between(self, start: int = NULL_LSN, end: int = NULL_LSN) -> LogScan:
        """The same pass over another range."""
        return self._replace(start=start, end=end)

    def of_types(self, types: frozenset[int]) -> LogScan:
        """The same pass for other types."""
        return self._replace(types=types)

    def of_file(self, file: LogFile) -> LogScan:
        """The same pass over one file."""
        return self.of_files((file,))

    def of_files(self, files: Iterable[LogFile]) -> LogScan:
        """The same pass over some of the files, ascending."""
        return self._replace(files=tuple(files))

    def by_file(self) -> list[LogScan]:
        """A pass over each file of the range, for callers that continue after a file that cannot be read."""
        return [self.of_file(file) for file in self._within()]

    def map_files(self, work: Callable[[LogScan], Result], jobs: int, *, small: bool = True) -> Iterator[Result]:
        """Apply a function to a pass over each file, in several processes; results come in the order of the files.

        Arguments:
            work: called with one of ``by_file``; its result and errors are pickled.
            jobs: number of processes, including this process.
            small: results have at most a few kilobytes, and a free process takes the next file. Otherwise a worker runs
                at most one file ahead of the result that it hands over, so that memory stays bounded.
        """
        return (map_small if small else map_in_order)(work, self.by_file(), jobs)

    def entries(self) -> Iterator[Item]:
        """Entries and damage, in log order.

        Raises:
            NotFoundError: neither an entry nor damage begins at ``start``; ``place_after`` gives an LSN that is valid.
            UnsupportedError, StorageError: as ``FileReader``.
        """
        if self.types is None and self.past_end:
            for reader, first, limit in self._parts():
                yield from reader.entries(first, limit)
            return
        types = self.types
        actions = keeping(types)
        for item in self.stretches():
            if isinstance(item, Stretch):
                for pos in item.positions(actions):
                    yield item.entry_at(pos)
            elif types is None or isinstance(item, Damage) or item.type_number in types:
                yield item

    def good_entries(self) -> Iterator[LogEntry]:
        """The entries without the damage; errors as for ``entries``."""
        return (item for item in self.entries() if isinstance(item, LogEntry))

    def stretches(self) -> Iterator[Stretch | Item]:
        """All entries and damage of the range, consecutive plain entries as one ``Stretch``; errors as for ``entries``.

        ``types`` has no effect: use ``Stretch.positions`` to choose; entries outside stretches are yielded too.
        """
        for reader, first, limit in self._parts():
            is_end = not self.past_end and reader.is_last
            for item in reader.stretches(first, limit):
                yield item
                if is_end and isinstance(item, Damage) and item.length:
                    return

    def backward(self, *, over_gaps: bool = False) -> Iterator[Item]:
        """Entries and damage from ``start`` down to ``end``, both inclusive; without ``start``, from the end of the
        log.

        Arguments:
            over_gaps: continue where a file number is missing.

        Raises:
            DamageError: a file number is missing between two files that the pass needs, and ``over_gaps`` is not set.
            NotFoundError: no entry begins at ``start``.
        """
        start, end, types = self.start, self.end, self.types
        above: LogFile | None = None
        for file in reversed(self.between(end)._within()):
            if start != NULL_LSN and file.number > file_of(start):
                continue
            # The marker's number is far above the log; the distance to it is not a gap.
            gap = above is not None and above.number not in (file.number + 1, MARKER_FILE_NUMBER)
            if gap and above is not None and not over_gaps:
                raise DamageError(
                    "cannot read backward over cleaned file",
                    file=f"{self.storage.root}/{above.path}",
                    lsn=format_lsn(make_lsn(above.number, 0)),
                    expected=f"file 0x{above.number - 1:x} before it",
                    found=f"file 0x{file.number:x}",
                )
            above = file
            with self._open(file) as reader:
                last = offset_of(start) if start != NULL_LSN and file.number == file_of(start) else None
                if last is not None:
                    self._expect_entry(reader, last)
                first = offset_of(end) if end != NULL_LSN and file.number == file_of(end) else 0
                for item in _backward(reader, first, last, self.piece_bytes):
                    if types is None or isinstance(item, Damage) or item.type_number in types:
                        yield item

    def back_by_links(self, lsn: int) -> Iterator[LogEntry]:
        """Entries of one file from an LSN back to its header, following prevOffsets as long as they are valid."""
        offset = offset_of(lsn)
        with self._open(self._file(lsn), window_bytes=_BACK_BYTES) as reader:
            while offset > 0 and reader.is_entry(offset):
                entry = next(reader.entries(offset))
                if not isinstance(entry, LogEntry):
                    return
                yield entry
                # Links must lead back; any other link could lead in a circle.
                if entry.prev_offset >= offset:
                    return
                offset = entry.prev_offset

    def check(self, *, with_sizes: bool = True) -> FileCheck:
        """Check the single file of a pass in bulk.

        Arguments:
            with_sizes: sum up bytes by type too.

        Raises:
            UnsupportedError, StorageError: as ``FileReader``.
        """
        (file,) = self.files
        with self._open(file) as reader:
            return check_file(reader, with_sizes=with_sizes)

    def head(self) -> FileHead:
        """The beginning of the single file of a pass; errors as for ``check``."""
        (file,) = self.files
        with self._open(file, window_bytes=LOOK_BYTES) as reader:
            return FileHead(reader.version, reader.header, reader.window.size_bytes)

    def is_readable(self) -> bool:
        """Whether the single file of a pass can be opened and has a version that this program reads."""
        try:
            self.head()
        except JetoolError:
            return False
        return True

    def is_entry(self, lsn: int) -> bool:
        """Whether a good entry begins at an LSN of a file of the pass; errors as for ``check``."""
        with self._open(self._file(lsn), window_bytes=LOOK_BYTES) as reader:
            return reader.is_entry(offset_of(lsn))

    def entry_at(self, lsn: int) -> LogEntry | None:
        """The entry that begins at an LSN; None if there is no good entry, or its file is gone."""
        file = self._find(lsn)
        if lsn == NULL_LSN or file is None:
            return None
        # A longer entry is read in a second piece.
        with self._open(file, window_bytes=LOOK_BYTES) as reader:
            if not reader.is_entry(offset_of(lsn)):
                return None
            item = next(reader.entries(offset_of(lsn)), None)
        return item if isinstance(item, LogEntry) else None

    def despite_checksums(self, damage: Damage) -> Iterator[LogEntry]:
        """The entries of a stretch of damage as their headers name them, without regard to checksums.

        An entry counts only if its size leads to the end of the stretch, or to a header that links back to it.
        """
        at, end = offset_of(damage.lsn), offset_of(damage.lsn) + damage.length
        file = self._find(damage.lsn)
        # A file that began after the pass was declared is not looked at again.
        if damage.reason != BAD_CHECKSUM or file is None:
            return
        with self._open(file) as reader:
            entry = reader.entry_despite_checksum(at, -1, end)
            while entry is not None:
                after = at + entry.total_bytes
                following = reader.entry_despite_checksum(after, at, end) if after < end else None
                if following is None and after != end:
                    return
                yield entry
                entry, at = following, after

    def place_after(self, lsn: int) -> int:
        """A valid start of a pass: the first entry or damage at or after an LSN, or the end of its file."""
        file = self._find(lsn)
        if file is None:
            return lsn
        with self._open(file) as reader:
            if reader.is_entry(offset_of(lsn)):
                return lsn
            after = (item.lsn for item in reader.entries() if offset_of(item.lsn) >= offset_of(lsn))
            return next(after, make_lsn(file.number, file.size_bytes))

    def place_near(self, lsn: int) -> int:
        """A valid start of a pass at or after an LSN, found by a search in the bytes from there on.

        Unlike ``place_after``, it reads nothing before the LSN, and gives the end of the file if it finds no entry.
        """
        file = self._find(lsn)
        if file is None:
            return lsn
        with self._open(file) as reader:
            if not offset_of(lsn) or reader.is_entry(offset_of(lsn)):
                return lsn
            item = next(reader.entries(offset_of(lsn)), None)
            found = item.next_lsn if isinstance(item, Damage) else NULL_LSN
            return make_lsn(file.number, reader.window.size_bytes) if found == NULL_LSN else found

    def place_before(self, lsn: int) -> int:
        """A valid start of a backward pass: the last entry or damage at or before an LSN."""
        file = self._find(lsn)
        if file is None:
            return lsn
        with self._open(file) as reader:
            if reader.is_entry(offset_of(lsn)):
                return lsn
            found = make_lsn(file.number, 0)
            for item in reader.entries():
                if offset_of(item.lsn) > offset_of(lsn):
                    break
                found = item.lsn
            return found

    def _open(self, file: LogFile, version: int | None = None, window_bytes: int | None = None) -> FileReader:
        is_last, window = file.number >= self.end_file, window_bytes or self.window_bytes
        return FileReader(self.storage, file, is_last=is_last, version=version, window_bytes=window)

    def _find(self, lsn: int) -> LogFile | None:
        return next((file for file in self.files if file.number == file_of(lsn)), None)

    def _file(self, lsn: int) -> LogFile:
        file = self._find(lsn)
        if file is None:
            raise NotFoundError("no such log file", file=self.storage.root, lsn=format_lsn(lsn))
        return file

    def _parts(self) -> Iterator[tuple[FileReader, int, int | None]]:
        """A reader of each file of the range, with the first offset and the end offset."""
        start, end = self.start, self.end
        version: int | None = None
        for file in self._within():
            with self._open(file, version) as reader:
                # For the next file, in case its header is unreadable: versions change rarely (je-log-format.md 3.6).
                version = reader.version
                first = offset_of(start) if start != NULL_LSN and file.number == file_of(start) else 0
                if first:
                    # Starting in the middle of an entry would report damage that does not exist.
                    self._expect_entry(reader, first)
                limit = offset_of(end) if end != NULL_LSN and file.number == file_of(end) else None
                yield reader, first, limit

    def _within(self) -> tuple[LogFile, ...]:
        low = 0 if self.start == NULL_LSN else file_of(self.start)
        high = self.files[-1].number if self.end == NULL_LSN and self.files else file_of(self.end)
        return tuple(file for file in self.files if low <= file.number <= high)

    def _expect_entry(self, reader: FileReader, offset: int) -> None:
        # The end of a file is a valid start too: the next file follows.
        if offset == reader.file.size_bytes or reader.is_entry(offset):
            return
        before = after = NULL_LSN
        for item in reader.entries():
            if offset_of(item.lsn) == offset:
                return
            if isinstance(item, LogEntry):
                if offset_of(item.lsn) > offset:
                    after = item.lsn
                    break
                before = item.lsn
        near = " and ".join(format_lsn(lsn) for lsn in (before, after) if lsn != NULL_LSN)
        raise NotFoundError(
            "no entry begins at this LSN",
            file=f"{self.storage.root}/{reader.file.path}",
            lsn=format_lsn(make_lsn(reader.file.number, offset)),
            hint=f"entries near it begin at {near}" if near else "the file holds no entry",
        )


def scan_log(
    storage: Storage,
    files: LogFiles,
    *,
    types: frozenset[int] | None = None,
    start: int = NULL_LSN,
    end: int = NULL_LSN,
    marker: bool = False,
    past_end: bool = True,
) -> LogScan:
    """A pass over an environment.

    Arguments:
        storage: the environment.
        files: the log files.
        types, start, end, past_end: see ``LogScan``.
        marker: read the restore marker, if there is one, after the log (R-LOG-38).
    """
    chosen = files.with_marker() if marker else files.files
    return LogScan(
        storage=storage,
        files=tuple(chosen),
        end_file=files.end_file(),
        types=types,
        start=start,
        end=end,
        past_end=past_end,
    )


def scan_file(
    storage: Storage, file: LogFile, *, is_last: bool, types: frozenset[int] | None = None, past_end: bool = True
) -> LogScan:
    """A pass over one file.

    Arguments:
        storage: the environment.
        file: the file.
        is_last: whether the log ends in it (``LogFiles.end_file``).
        types, past_end: see ``LogScan``.
    """
    end_file = file.number if is_last else file.number + 1
    return LogScan(storage=storage, files=(file,), end_file=end_file, types=types, past_end=past_end)


def _backward(reader: FileReader, first: int, last: int | None, piece_bytes: int) -> Iterator[Item]:
    """One file from ``last`` (None: its end) down to ``first``, both inclusive, in pieces."""
    # The state of the reader is kept for each piece, so that the second pass reports the same damage.
    pieces = [(0, -1, reader.mark())]
    prev, mark = -1, reader.mark()
    for item in reader.entries(end=None if last is None else last + 1):
        offset = offset_of(item.lsn)
        if isinstance(item, LogEntry):
            if offset - pieces[-1][0] >= piece_bytes:
                pieces.append((offset, prev, mark))
            prev = offset
        elif not item.length:
            # A broken link belongs to the following entry, which may begin a piece.
            continue
        else:
            prev = -1
        mark = reader.mark()
    stop = None if last is None else last + 1
    # A second forward pass, piece by piece: memory holds the entries of one piece, not of a file.
    for begin, before, state in reversed(pieces):
        reader.rewind(state)
        for item in reversed(list(reader.entries(begin, stop, before))):
            if offset_of(item.lsn) < first:
                return
            yield item
        stop = begin
