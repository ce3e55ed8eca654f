"""The log as a sequence of records: reading forward, backward or one record, and finding its end.

The end of the log is not recorded anywhere; it is found (derby-log-format.md 11.1). G is the end of the last
complete record. At position p of file n:

1. fewer than 4 bytes left: end. Fuzzy when p is not exactly the file's length.
2. length word 0: end of this file. Without a next file the log ends here. A next file must be a log file of the right
   number; otherwise Derby refuses to boot (``ScanEnd.obstacle``). The previous instant in its header must be G;
   otherwise the log ends here and the next file is ignored. If the next file holds no record, the log ends in the next
   file.
3. length word + 16 beyond the file: end, fuzzy.
4. instant below G: end, fuzzy. Derby accepts an instant above G and then fails; here any instant but the right one ends
   the log, and ``ScanEnd.derby_fails`` is then set.
5. body that cannot be decoded: as 4. Trailing length that differs: end, fuzzy.
6. checksum record: the bytes that it announces must be there and match, otherwise end, fuzzy.

The append position, where a recovering engine writes next, is the end of the last ordinary record: it lies before a
checksum record whose group failed. Everything from it to the end of that file must be zeroed before writing.

A damaged byte in the middle of the log looks exactly like a torn tail. ``log_tail`` looks for records after it.

Example: in ``crash-five-transactions`` the last group starts with the checksum record at (1,42284) and ends at
(1,42645). If any byte of it is damaged, the log ends at (1,42284), and the commit at (1,42612) is lost.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.derby.database import LOG_DIRECTORY, DerbyDatabase
from engine.derby.format import instant, log_file
from engine.derby.format.log_file import ENVELOPE, HEADER_SIZE, OVERHEAD, TRAILER, LogFileHeader
from engine.derby.format.operations.transaction import CRC32, Checksum
from engine.derby.format.record import CHECKSUM, Record, decode_body
from engine.errors import DamageError, FormatError, NotFoundError, caused_by, plural
from engine.storage.base import ReadFile

_WINDOW: Final = 1 << 20


class ScanEnd(NamedTuple):
    """Where and why a forward scan stopped.

    Attributes:
        stopped_at: instant where no record could be read.
        good_end: G, end of the last complete record, checksum records included.
        append: where a recovering engine writes next.
        fuzzy: whether the log ends neither in zeros nor at the end of a file.
        reason: one clause for messages.
        derby_fails: whether Derby fails here instead of treating it as the end.
        obstacle: why the next log file keeps Derby from booting, else None.
    """

    stopped_at: int
    good_end: int
    append: int
    fuzzy: bool
    reason: str
    derby_fails: bool = False
    obstacle: str | None = None


class DerbyLogFiles:
    """The log files of a database, read through windows of one megabyte.

    Arguments:
        database: the database.
    """

    __slots__ = ("_file", "_number", "_size", "_start", "_window", "database")

    def __init__(self, database: DerbyDatabase) -> None:
        self.database = database
        self._file: ReadFile | None = None
        self._number = 0
        self._size = 0
        self._start = 0
        self._window = b""

    def numbers(self) -> list[int]:
        """Numbers of the log files that exist, ascending."""
        if self.database.storage.stat(LOG_DIRECTORY) is None:
            return []
        found = (log_file.number_of(name) for name in self.database.storage.names(LOG_DIRECTORY))
        return sorted(number for number in found if number is not None)

    def path(self, number: int) -> str:
        """The path of a log file below the database directory."""
        return f"{LOG_DIRECTORY}/{log_file.file_name(number)}"

    def exists(self, number: int) -> bool:
        """Whether the file exists."""
        return self.database.storage.stat(self.path(number)) is not None

    def size(self, number: int) -> int:
        """Length of the file in bytes; NotFoundError when it is absent."""
        self._select(number)
        return self._size

    def read(self, number: int, position: int, length: int) -> bytes:
        """Up to ``length`` bytes; fewer only at the end of the file."""
        self._select(number)
        begin = self._load(position, length)
        return self._window[begin : begin + length]

    def _load(self, position: int, length: int) -> int:
        """Read a part of the file into the window, as far as it exists; return the offset of the part in the window."""
        begin = position - self._start
        if begin < 0 or begin + length > len(self._window):
            assert self._file is not None
            # The window may hold fewer bytes than requested if the file has no more.
            length = min(length, max(self._size - position, 0))
            if begin >= 0 and begin + length <= len(self._window):
                return begin
            # When reading backward, most of the window lies before the requested bytes.
            self._start = max(0, position - _WINDOW // 2) if begin < 0 else position
            begin = position - self._start
            self._window = self._file.read(self._start, max(begin + length, _WINDOW))
        return begin

    def header(self, number: int) -> LogFileHeader:
        """The header of a log file. DamageError when it is short, foreign or numbered otherwise."""
        try:
            header = log_file.decode(self.read(number, 0, HEADER_SIZE))
        except FormatError as error:
            raise caused_by(_damaged(self, instant.make(number, 0), str(error)), error) from error
        if header.number != number:
            raise _damaged(self, instant.make(number, 0), f"the header says that this is log file {header.number}")
        return header

    def record(self, at: int) -> Record:
        """The record at an instant. DamageError: there is no record at the instant."""
        found = self.try_record(at)
        if isinstance(found, str):
            raise _damaged(self, at, found)
        return found

    def try_record(self, at: int) -> Record | str:
        """The record at an instant, or the reason why it is missing.

        Strict: instant, lengths and body must be right.
        """
        # Inlined, since it runs for every record and every candidate of a search.
        number, position = at >> 32, at & 0xFFFFFFFF
        if number != self._number:
            self._select(number)
        begin = self._load(position, ENVELOPE.size)
        if begin + ENVELOPE.size > len(self._window):
            return "the file ends inside the envelope of a record"
        length, stated = ENVELOPE.unpack_from(self._window, begin)
        # The instant is tested first: in the zeros after the end it differs, and that is the usual case.
        if stated != at:
            return f"the envelope states the instant {instant.show(stated)}"
        if length <= 0 or position + length + OVERHEAD > self._size:
            return f"a record of {plural(length, 'byte')} does not fit into the file"
        begin = self._load(position, length + OVERHEAD) + ENVELOPE.size
        end = begin + length
        if end + TRAILER.size > len(self._window):
            # Another process may write: the sizes were right a moment ago.
            return "the file became shorter while it was read"
        trailing = TRAILER.unpack_from(self._window, end)[0]
        if trailing != length:
            return f"the lengths of a record differ: {length} in front, {trailing} after"
        try:
            return decode_body(at, self._window[begin:end])
        except FormatError as error:
            return str(error)

    def group_matches(self, checksum: Record) -> bool:
        """Whether the bytes covered by a checksum record exist and match it."""
        operation = checksum.operation
        # Refuse a damaged negative length, and any algorithm but CRC-32.
        if not isinstance(operation, Checksum) or operation.algorithm != CRC32 or operation.length < 0:
            return False
        number, position = instant.file_of(checksum.end), instant.position_of(checksum.end)
        covered = self.read(number, position, operation.length)
        return len(covered) == operation.length and zlib.crc32(covered) == operation.value

    def forget(self) -> None:
        """Drop cached bytes; call it after a log file was changed."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self._number = 0
        self._window = b""

    def _select(self, number: int) -> None:
        if number == self._number:
            return
        self.forget()
        if number <= 0:
            raise NotFoundError(f"there is no log file {number}", hint="log files are numbered from 1")
        self._file = self.database.storage.open(self.path(number))
        self._size = self._file.size()
        self._start = 0
        self._number = number


class ForwardScan:
    """Iterates over the records from an instant to the end of the log, checksum records included.

    Arguments:
        log: the log files.
        start: instant of a record, or of the first byte after a file's header.

    ``end`` is set when the iteration is exhausted. A scan can be iterated once.
    """

    __slots__ = ("_append", "_at", "_good_end", "end", "log")

    def __init__(self, log: DerbyLogFiles, start: int) -> None:
        self.log = log
        self._at = start
        self._good_end = start
        self._append = start
        self.end: ScanEnd | None = None

    def __iter__(self) -> Iterator[Record]:
        while self.end is None:
            found = self.log.try_record(self._at)
            if isinstance(found, str) or (found.group & CHECKSUM and not self.log.group_matches(found)):
                self.end = self._no_record(found)
                continue
            # A checksum record is part of the log only with its group, so writing may have to continue before it.
            if found.group & CHECKSUM == 0:
                self._append = found.end
            self._at = self._good_end = found.end
            yield found

    def run(self) -> ScanEnd:
        """Scan to the end and ignore the records."""
        for _ in self:
            pass
        assert self.end is not None
        return self.end

    def _no_record(self, found: Record | str) -> ScanEnd | None:
        """The end of the log (rules 1 to 6); None when only a file ends, and the scan moves to the next one."""
        number, position = instant.file_of(self._at), instant.position_of(self._at)
        if not isinstance(found, str):
            return self._stop("the bytes after a checksum record do not match it", fuzzy=True)
        word = self.log.read(number, position, TRAILER.size)
        if len(word) < TRAILER.size:
            # Rule 1: a preallocated file that is full ends exactly here.
            exact = not word and position == self.log.size(number)
            return self._stop("the log file ends" if exact else "a few bytes are left over", fuzzy=not exact)
        length = TRAILER.unpack(word)[0]
        if length == 0:
            return self._next_file(number)
        # Rule 3.
        if length > 0 and position + length + OVERHEAD > self.log.size(number):
            return self._stop(f"a record of {plural(length, 'byte')} reaches beyond the file", fuzzy=True)
        return self._stop(found, fuzzy=True, derby_fails=self._derby_fails(number, position, length))

    def _derby_fails(self, number: int, position: int, length: int) -> bool:
        """Whether Derby reads on although no record is there: the instant is not below G, and no length stops it."""
        front = self.log.read(number, position, ENVELOPE.size)
        if len(front) < ENVELOPE.size or ENVELOPE.unpack(front)[1] < self._good_end:
            return False
        if length < 0:
            return True
        trailing = self.log.read(number, position + ENVELOPE.size + length, TRAILER.size)
        return len(trailing) == TRAILER.size and TRAILER.unpack(trailing)[0] >= length

    def _next_file(self, number: int) -> ScanEnd | None:
        """Rule 2: an end marker or preallocated zeros."""
        following = number + 1
        if not self.log.exists(following):
            return self._stop("end marker, no next file", fuzzy=False)
        try:
            header = self.log.header(following)
        except DamageError as error:
            return self._stop("end marker, next file is not usable", fuzzy=False, obstacle=str(error))
        # The next file is a leftover of an earlier log: its records do not follow these.
        if header.previous_end != self._good_end:
            return self._stop("end marker, next file does not continue this one", fuzzy=False)
        self._at = instant.make(following, HEADER_SIZE)
        # G remains the end of the last record, even if the new file has no record; only the append position moves.
        self._append = self._at
        return None

    def _stop(self, reason: str, *, fuzzy: bool, derby_fails: bool = False, obstacle: str | None = None) -> ScanEnd:
        return ScanEnd(
            stopped_at=self._at,
            good_end=self._good_end,
            append=self._append,
            fuzzy=fuzzy,
            reason=reason,
            derby_fails=derby_fails,
            obstacle=obstacle,
        )


def backward(log: DerbyLogFiles, end: int) -> Iterator[Record]:
    """Records before an instant, last first, to the first file that exists (derby-log-format.md 11.2).

    Arguments:
        log: the log files.
        end: the end of a record, or position 24 of a file.

    Raises: DamageError when a length does not lead to a record.
    """
    at = end
    while True:
        number, position = instant.file_of(at), instant.position_of(at)
        # No record of this file lies before the position, so the walk continues at the end of the previous file.
        if position <= HEADER_SIZE:
            previous = log.header(number).previous_end
            if previous == instant.NONE or not log.exists(instant.file_of(previous)):
                return
            at = previous
            continue
        word = log.read(number, position - TRAILER.size, TRAILER.size)
        length = TRAILER.unpack(word)[0] if len(word) == TRAILER.size else 0
        if length <= 0 or length + OVERHEAD > position - HEADER_SIZE:
            raise _damaged(log, at, "no record ends here")
        at -= length + OVERHEAD
        yield log.record(at)


def _damaged(log: DerbyLogFiles, at: int, what: str) -> DamageError:
    path = log.path(instant.file_of(at))
    return DamageError(
        what,
        file=log.database.name(path),
        lsn=instant.show(at),
        consequence="the log cannot be read on from here",
        hint="run verify to see what follows",
    )
