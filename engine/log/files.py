"""The files of an environment directory (je-log-format.md 2).

``%08x.jdb`` are log files; numbers may have gaps, since the cleaner deletes files in any order. Data sub-directories
``data001`` ... hold them instead if ``je.log.nDataDirectories`` is set. ``%08x.del`` are cleaned files that were kept,
``%08x.bad`` last files that were set aside, ``%08x.tmp`` files being created; ``7fffffff.jdb`` is not data but the
marker "restore required". All other files are ignored.

A file with an unreadable header gets the log version of a neighbouring file. Versions ascend with file numbers and
change only when JE is upgraded (je-log-format.md 3.6), so the best evidence is the nearest file before it, or else the
nearest file after it.

Example: the header of 00000003.jdb is zeros, 00000002.jdb has version 17: the entries of 3 are read as version 17.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, Protocol, TypeVar

from engine.errors import NotFoundError, StorageError, plural
from engine.events import Listener
from engine.format.entry.file_header import FILE_HEADER_BYTES, VERSION_AT
from engine.format.entry_types import FILE_HEADER
from engine.format.header import CHECKSUM_BYTES, TYPE_AT, entry_checksum
from engine.format.lsn import file_of, offset_of
from engine.format.versions import NEWEST_VERSION, is_supported
from engine.storage import base
from engine.storage.base import Storage, write_synced

LOCK_FILE: Final = base.JE_LOCK_FILE
# The promises of a member in elections, since JE 21.3 (``engine.rep.master.promises``).
PROMISES_FILE: Final = "election.persisted"
# Bytes of the lock file: a writer locks the first; readers share the second, which prevents the deletion of files.
WRITER_BYTE: Final = base.WRITER_BYTE
READERS_BYTE: Final = 1
MARKER_FILE_NUMBER: Final = 0x7FFFFFFF

# Bytes of a pass between two reports of progress.
_EVERY_BYTES: Final = 1 << 20
_EVERY_ITEMS: Final = 1 << 11

_LOG_FILE = re.compile(r"([0-9a-f]{8})\.jdb", re.IGNORECASE)
_SET_ASIDE = re.compile(r"([0-9a-f]{8})\.(del|bad|bad\.\d+|bup\.\d+|tmp)", re.IGNORECASE)
_DATA_DIRECTORY = re.compile(r"data\d{3}")


class LogFile(NamedTuple):
    """One log file; ``path`` is relative to the environment."""

    number: int
    path: str
    size_bytes: int


class LogFiles(NamedTuple):
    """The contents of an environment directory.

    Attributes:
        files: log files in ascending order of their number, without the marker.
        marker: the file 7fffffff.jdb, or None.
        set_aside: paths of ``.del``, ``.bad``, ``.bup.N`` and ``.tmp`` files.
        twice: paths with the number of another file (in two data directories).
        data_directories: number of data sub-directories.
    """

    files: tuple[LogFile, ...]
    marker: LogFile | None
    set_aside: tuple[str, ...]
    twice: tuple[str, ...]
    data_directories: int

    def find(self, number: int) -> LogFile | None:
        """The file with that number, or None."""
        return next((file for file in self.files if file.number == number), None)

    def end_file(self) -> int:
        """Number of the last file that holds more than a file header (R-LOG-30).

        The number of the first file if no file does; -1 if there are no files.
        """
        holding = (file.number for file in reversed(self.files) if file.size_bytes > FILE_HEADER_BYTES)
        return next(holding, self.files[0].number if self.files else -1)

    def with_marker(self) -> tuple[LogFile, ...]:
        """The log files and, after them, the marker file."""
        return self.files if self.marker is None else (*self.files, self.marker)

    def missing(self) -> tuple[int, ...]:
        """Missing file numbers between the first and the last file."""
        numbers = {file.number for file in self.files}
        gaps: list[int] = []
        for before, after in zip(self.files, self.files[1:], strict=False):
            # A directory with files 0 and 7ffffffe has a gap of two billion: return only the ends of a gap, not each
            # number.
            span = range(before.number + 1, after.number)
            gaps += span if len(span) <= _MOST_MISSING else (span[0], span[-1])
        return tuple(number for number in gaps if number not in numbers)

    def is_whole(self) -> bool:
        """Whether all files from 0 to the last one exist. If not, the cleaner or something else has deleted some."""
        return not self.missing() and bool(self.files) and self.files[0].number == 0


_MOST_MISSING: Final = 10_000


def list_log_files(storage: Storage) -> LogFiles:
    """List the log files of the environment at the root of a storage.

    Raises:
        NotFoundError: there is no such directory, it is empty, or it holds no log file.
    """
    found = storage.stat()
    if found is None:
        raise NotFoundError("no such directory", file=storage.root, hint="check the path of the environment")
    if not found.is_directory:
        raise NotFoundError(
            "not a directory", file=storage.root, hint="name the environment directory, not a file inside it"
        )
    names = storage.names()
    directories = [name for name in names if _DATA_DIRECTORY.fullmatch(name) and _is_directory(storage, name)]
    paths = names + [f"{directory}/{name}" for directory in directories for name in storage.names(directory)]
    by_number: dict[int, LogFile] = {}
    set_aside, twice = [], []
    for path in paths:
        name = path.rpartition("/")[2]
        if _SET_ASIDE.fullmatch(name):
            set_aside.append(path)
        elif matched := _LOG_FILE.fullmatch(name):
            number = int(matched.group(1), 16)
            if number in by_number:
                twice.append(path)
                continue
            state = storage.stat(path)
            if state is not None and not state.is_directory:
                by_number[number] = LogFile(number, path, state.size_bytes)
    if not by_number:
        raise NotFoundError(
            "no Berkeley DB JE environment",
            file=storage.root,
            expected="log files such as 00000000.jdb",
            found="an empty directory" if not names else plural(len(names), "other file"),
            hint="check the path; log files may be in another directory than the application's configuration",
        )
    marker = by_number.pop(MARKER_FILE_NUMBER, None)
    files = tuple(by_number[number] for number in sorted(by_number))
    return LogFiles(files, marker, tuple(set_aside), tuple(twice), len(directories))


def new_file_name(path: str) -> str:
    """The name of a log file until its header and its first entry are durable; JE ignores such names."""
    return f"{path.removesuffix('.jdb')}.tmp"


def log_file_name(number: int) -> str:
    """The name of a log file: 00000005.jdb."""
    return f"{number:08x}.jdb"


def log_file_path(number: int, data_directories: int) -> str:
    """The path of a new log file.

    Arguments:
        data_directories: number of directories that take files in turn; 0 for none.
    """
    directory = f"data{number % data_directories + 1:03d}/" if data_directories else ""
    return f"{directory}{log_file_name(number)}"


def make_file(storage: Storage, path: str, data: bytes) -> None:
    """Write the first bytes of a file so that header and first entry are on disk together, or neither (R-LOG-16)."""
    temporary = new_file_name(path)
    # Sync before the rename, so that no crash leaves a log file whose first sectors are lost.
    write_synced(storage, temporary, data)
    storage.rename(temporary, path)
    # An fsync of the file does not cover its name, without which its commits would be lost.
    storage.sync_directory(path.rpartition("/")[0])


def log_file_number(name: str) -> int | None:
    """The number in the name of a log file; None for other names."""
    matched = _LOG_FILE.fullmatch(name)
    return int(matched.group(1), 16) if matched else None


def _is_directory(storage: Storage, path: str) -> bool:
    found = storage.stat(path)
    return found is not None and found.is_directory


# The most files that are examined on each side.
_MOST_ASKED: Final = 16


def version_beside(storage: Storage, path: str) -> int:
    """The log version of the nearest readable file in the same directory; the newest version if there is no such file.

    Arguments:
        storage: the environment.
        path: the file, relative to it.
    """
    directory, _, name = path.rpartition("/")
    own = log_file_number(name)
    numbered = {log_file_number(other): other for other in storage.names(directory)}
    numbers = sorted(number for number in numbered if number is not None)
    before = [number for number in reversed(numbers) if own is not None and number < own]
    after = [number for number in numbers if own is not None and number > own]
    for number in before[:_MOST_ASKED] + after[:_MOST_ASKED]:
        version = _version_of(storage, f"{directory}/{numbered[number]}" if directory else numbered[number])
        if version is not None:
            return version
    return NEWEST_VERSION


def header_version(start: bytes) -> int | None:
    """The version in an intact file header; None if the header is not intact.

    Arguments:
        start: the first bytes of a file.
    """
    header = start[:FILE_HEADER_BYTES]
    if len(header) < FILE_HEADER_BYTES or header[TYPE_AT] != FILE_HEADER:
        return None
    # The version determines the bits that the checksum covers, so it is read before the checksum is verified.
    version = int.from_bytes(header[VERSION_AT:], "little", signed=True)
    stored = int.from_bytes(header[:CHECKSUM_BYTES], "little")
    return version if entry_checksum(header, version) == stored else None


def _version_of(storage: Storage, path: str) -> int | None:
    try:
        handle = storage.open(path)
    except (NotFoundError, StorageError):
        return None
    try:
        version = header_version(handle.read(0, FILE_HEADER_BYTES))
    except StorageError:
        return None
    finally:
        handle.close()
    return version if version is not None and is_supported(version) else None


class _Placed(Protocol):
    """An object with a position in the log."""

    @property
    def lsn(self) -> int:
        """The position of the file."""


_Item = TypeVar("_Item", bound=_Placed)


class LogProgress:
    """Reports to a listener how many bytes a pass over log files has read, also within a file.

    Arguments:
        listener: receives the reports.
        name: the step.
        files: the files of the pass, ascending.
        backward: the pass begins at the end.
        every_bytes: bytes between two reports.
    """

    def __init__(
        self,
        listener: Listener,
        name: str,
        files: Sequence[LogFile],
        *,
        backward: bool = False,
        every_bytes: int = _EVERY_BYTES,
    ) -> None:
        self._every_bytes = every_bytes
        self._listener, self._name, self._backward = listener, name, backward
        sizes = [file.size_bytes for file in files]
        self._before = dict(zip((file.number for file in files), accumulate(sizes, initial=0), strict=False))
        self._total = sum(sizes)
        self._next = 1

    def at(self, lsn: int) -> None:
        """Report that the pass has reached an LSN."""
        place = min(self._before.get(file_of(lsn), 0) + offset_of(lsn), self._total)
        done = self._total - place if self._backward else place
        if done >= self._next:
            self._next = done + self._every_bytes
            self._listener.step(self._name, done, self._total)

    def end(self) -> None:
        """Report the end of the pass."""
        self._listener.step(self._name, self._total, self._total)

    def along(self, items: Iterable[_Item], *, every: int | None = None) -> Iterator[_Item]:
        """Yield the items of a pass unchanged, and report progress now and then.

        Arguments:
            every: number of items between two reports; None for the number that suits entries.
        """
        every = every or _EVERY_ITEMS
        for number, item in enumerate(items, 1):
            if not number % every:
                self.at(item.lsn)
            yield item
