"""Appending to the log: records, groups with checksum records, flushing, and switching files.

Groups (derby-log-format.md 8): the first record placed in an empty buffer reserves 37 bytes for a checksum record
before it. The group ends when the buffer is flushed, or when the next record does not fit into the rest of it. A record
larger than a whole buffer is a group of its own. The end marker belongs to no group.

Log switch (R-DRB-11), when a flush leaves the position above the switch interval, before a checkpoint under the same
condition, and when a record would cross the size limit: refuse when the file holds no record; delete a leftover file of
the next number; create it, write its header with the instant of the current end, sync; write four zero bytes to the old
file and sync it; preallocate the new one.

Example, recovery of ``crash-five-transactions``: the end is (1,42645). Nine CLRs and the abort end of transaction 196
are placed from (1,42682) on; the flush at the end writes everything to (1,43101) in one piece: the checksum record at
(1,42645), and its group of 419 bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.derby.format import instant, log_file
from engine.derby.format.log_file import END_MARKER, HEADER_SIZE, OVERHEAD, LogFileHeader
from engine.derby.format.operations.layout import GlobalId
from engine.derby.format.operations.registry import Operation
from engine.derby.format.operations.transaction import ABORTED, COMMITTED, Begin, End
from engine.derby.format.record import (
    ABORT,
    CHECKSUM_RECORD_SIZE,
    COMMIT,
    FIRST,
    LAST,
    RAW_STORE,
    encode_body,
    encode_checksum,
)
from engine.derby.log import DerbyLogFiles
from engine.storage.base import WriteFile

DEFAULT_BUFFER_BYTES = 32_768
DEFAULT_SWITCH_BYTES = 1_048_576
_ZEROS = bytes(1 << 16)
# Closed groups above this are written without waiting for the flush, so that a long rollback stays small in memory.
_LARGEST_UNWRITTEN = 1 << 20


class UnsyncedWrite(NamedTuple):
    """A written range that still has to be synced: the file, and the instant after the range."""

    file: WriteFile
    end: int


class DerbyLogWriter:
    """Appends records to the log.

    Arguments:
        log: the log files.
        end: instant of the next byte to append (``ScanEnd.append``).
        buffer_bytes: size of a log buffer; decides where groups end.
        switch_bytes: position above which a flush switches files, and the preallocated size of a new file.
        checksums: whether groups get checksum records (not after a boot without ``log.ctrl``, R-DRB-42).

    Attributes:
        end: instant of the next byte to append.
        appended_bytes: bytes of the records appended so far.
        durable: instant before which everything is durable.
    """

    __slots__ = (
        "_buffer_bytes",
        "_checksums",
        "_file",
        "_group",
        "_group_start",
        "_log",
        "_ready",
        "_switch_bytes",
        "_unsynced",
        "appended_bytes",
        "durable",
        "end",
    )

    def __init__(
        self,
        log: DerbyLogFiles,
        end: int,
        *,
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
        switch_bytes: int = DEFAULT_SWITCH_BYTES,
        checksums: bool = True,
    ) -> None:
        self._log = log
        self._buffer_bytes = buffer_bytes
        self._switch_bytes = switch_bytes
        self._checksums = checksums
        self._file: WriteFile | None = None
        # Closed groups that are not written yet, and the group that is being filled.
        self._ready = bytearray()
        self._group = bytearray()
        self._group_start = end
        self._unsynced = False
        self.appended_bytes = 0
        self.durable = end
        self.end = end

    @property
    def unflushed_bytes(self) -> int:
        """Number of appended bytes that are not written yet."""
        return len(self._ready) + len(self._group)

    def begin(self, number: int, status: int, global_id: GlobalId | None = None) -> int:
        """Append a begin record and return its instant."""
        return self.append(RAW_STORE | FIRST, number, Begin(status, global_id))

    def finish(self, number: int, *, committed: bool, global_id: GlobalId | None = None) -> int:
        """Append an end record and return its instant. The caller flushes."""
        group = RAW_STORE | LAST | (COMMIT if committed else ABORT)
        return self.append(group, number, End(global_id, COMMITTED if committed else ABORTED))

    def append(
        self, group: int, number: int, operation: Operation, data: bytes = b"", undo_instant: int | None = None
    ) -> int:
        """Append a record and return its instant. It is durable after ``flush``."""
        body = encode_body(group, number, operation, data, undo_instant)
        length = len(body) + OVERHEAD
        # Instants have 28 bits for the position; a record never crosses a file (R-DRB-11).
        if instant.position_of(self.end) + length + CHECKSUM_RECORD_SIZE > instant.MAX_POSITION:
            self.flush()
            self.switch()
        reserve = CHECKSUM_RECORD_SIZE if self._checksums else 0
        # A record larger than a buffer forms a group of its own, as in Derby.
        if self._group and len(self._group) + length > self._buffer_bytes - reserve:
            self._close_group()
        if not self._group:
            self._group_start = self.end
            # Place for the checksum record; it is made when the group is closed, with the bytes it guards.
            self.end += reserve
        at = self.end
        self._group += log_file.wrap(at, body)
        self.end += length
        self.appended_bytes += length
        return at

    def flush(self) -> None:
        """Write and sync everything appended; switch files when the file has grown above the interval."""
        written = self.write_out()
        if written is not None:
            written.file.sync()
            self.synced(written.end)

    def write_out(self) -> UnsyncedWrite | None:
        """Write everything appended; return what must be synced next, None if all is durable."""
        self._close_group()
        if not self._ready and not self._unsynced:
            return None
        self._write()
        self._log.forget()
        return UnsyncedWrite(self._opened(), self.end)

    def synced(self, end: int) -> None:
        """Note that everything before an instant is durable; other threads may have appended since."""
        self.durable = max(self.durable, end)
        # Other threads may have appended since; then the file cannot be switched yet.
        if end == self.end:
            self._unsynced = False
            self.switch_if_due()

    def switch_if_due(self) -> None:
        """Switch files when the position is above the interval and everything is flushed."""
        if instant.position_of(self.end) > self._switch_bytes and not self.unflushed_bytes:
            self.switch()

    def switch(self) -> None:
        """Continue in a new log file. Does nothing when the current file holds no record."""
        number, position = instant.file_of(self.end), instant.position_of(self.end)
        if position <= HEADER_SIZE:
            return
        storage = self._log.database.storage
        following = self._log.path(number + 1)
        # This file was left by a crash during an earlier switch; it holds no valid record.
        if storage.stat(following) is not None:
            storage.remove(following)
        new = storage.open_rw(following, create=True)
        new.write(0, log_file.encode(LogFileHeader(number + 1, self.end)))
        new.sync()
        storage.sync_directory(following.rpartition("/")[0])
        # The end marker comes last: a reader that finds it must find the next file.
        old = self._opened()
        old.write(position, END_MARKER)
        old.sync()
        old.close()
        self._file = new
        # Preallocated as Derby does it: the zeros after the last record mark the end of the log.
        preallocate(new, HEADER_SIZE, self._switch_bytes)
        new.sync()
        self._log.forget()
        self.end = self._group_start = self.durable = instant.make(number + 1, HEADER_SIZE)

    def before_pages(self) -> None:
        """Enforce the write-ahead rule: make everything applied so far durable."""
        self.flush()

    def close(self) -> None:
        """Close the file; unflushed bytes are lost."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _close_group(self) -> None:
        if not self._group:
            return
        # The checksum record is placed before its group, into the 37 bytes reserved for it.
        covered = bytes(self._group)
        if self._checksums:
            self._ready += encode_checksum(self._group_start, covered)
        self._ready += covered
        self._group.clear()
        if len(self._ready) > _LARGEST_UNWRITTEN:
            self._write()

    def _write(self) -> None:
        """Write the closed groups, which end where the group that is being filled starts."""
        if self._ready:
            # ``end`` is the end of the closed groups: no other group has begun yet.
            position = instant.position_of(self.end) - len(self._ready)
            self._opened().write(position, bytes(self._ready))
            self._ready.clear()
            self._unsynced = True

    def _opened(self) -> WriteFile:
        if self._file is None:
            number = instant.file_of(self.end)
            self._file = self._log.database.storage.open_rw(self._log.path(number))
        return self._file


def preallocate(file: WriteFile, start: int, end: int) -> None:
    """Fill a file with zeros up to a length."""
    while start < end:
        part = _ZEROS[: end - start]
        file.write(start, part)
        start += len(part)


def clear_tail(log: DerbyLogFiles, append: int) -> int:
    """Overwrite everything after the append position of a file with zeros and sync; return the number of bytes."""
    number, position = instant.file_of(append), instant.position_of(append)
    size = log.size(number)
    if position >= size:
        return 0
    file = log.database.storage.open_rw(log.path(number))
    try:
        preallocate(file, position, size)
        file.sync()
    finally:
        file.close()
    # The reader's window holds the old bytes.
    log.forget()
    return size - position
