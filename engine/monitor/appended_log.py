"""Reading what was appended to a log since it was read last.

The first reading goes back from the end of the log, a piece at a time, until it has the last checkpoint with its
interval, or has read ``_MOST_BACK_BYTES``. A piece begins at an entry that is found by a search in the bytes, so that
a last file of a gigabyte is not read from its start. Afterwards each reading begins where the one before ended. Bytes
that are not a whole entry belong to an entry that is being written; they are read again the next time, and count as
damage only once a later file shows that the writer has moved on.

Example: the log ends at 0x17/0x35235e. The first reading begins at its last MiB, 0x17/0x252370, and goes back to
0x17/0x3517dc, the CkptStart. The next one reads from 0x17/0x35235e on, and finds 12 kB.
"""

from __future__ import annotations

from typing import Final

from engine.format.lsn import NULL_LSN, file_of, make_lsn, offset_of
from engine.log.entry import LogEntry, Stretch
from engine.log.files import LogFile, LogFiles
from engine.log.scan import LogScan, scan_log
from engine.monitor.log_tally import LogTally
from engine.storage.base import Storage

_PIECE_BYTES: Final = 1 << 20
_WINDOW_BYTES: Final = 1 << 16
# Without a checkpoint in this much log, the first sample does without, and the next checkpoint makes up for it.
_MOST_BACK_BYTES: Final = 24 << 20


class AppendedLog:
    """A position in a log, and readings up to its end.

    Arguments:
        storage: the environment.
        piece_bytes: how much the first reading takes at a time.
        most_back_bytes: how much it reads at most.

    Attributes:
        end: LSN after the last entry that was read; NULL_LSN before the first reading.
    """

    def __init__(
        self, storage: Storage, piece_bytes: int = _PIECE_BYTES, most_back_bytes: int = _MOST_BACK_BYTES
    ) -> None:
        self._storage = storage
        self._piece_bytes = piece_bytes
        self._most_back_bytes = most_back_bytes
        self.end = NULL_LSN

    def read(self, files: LogFiles) -> LogTally:
        """Read what is new.

        Arguments:
            files: the log files as they are now.

        Raises:
            UnsupportedError: a file has a log version that this program does not read. StorageError: a file cannot be
                read.
        """
        log = small_reads(self._storage, files)
        # A log that ends before the position is another log: it was restored, or rolled back.
        last = files.files[-1] if files.files else None
        if last is None or self.end == NULL_LSN or self.end > make_lsn(last.number, last.size_bytes):
            return self._read_back(log, files)
        return self._read_on(log, files)

    def _read_on(self, log: LogScan, files: LogFiles) -> LogTally:
        tally = LogTally()
        while True:
            here = files.find(file_of(self.end))
            if here is not None and offset_of(self.end) < here.size_bytes and log.is_entry(self.end):
                self._take(log.between(self.end), tally)
                return tally
            # A file that was only begun has no entries yet.
            later = next((file for file in files.files if file.number > file_of(self.end)), None)
            if later is None or later.number > log.end_file:
                return tally
            # A later file exists, and no entry begins here: this file is finished.
            self.end = make_lsn(later.number, 0)

    def _take(self, log: LogScan, tally: LogTally) -> None:
        for item in log.stretches():
            tally.add(item)
            if isinstance(item, Stretch):
                self.end = item.lsn + item.end
            elif isinstance(item, LogEntry):
                self.end = item.lsn + item.total_bytes
            elif file_of(item.lsn) < log.end_file:
                self.end = item.end_lsn

    def _read_back(self, log: LogScan, files: LogFiles) -> LogTally:
        found = LogTally()
        end_file = files.end_file()
        limit, left = NULL_LSN, self._most_back_bytes
        for file in reversed(files.files):
            if file.number > end_file:
                continue
            offset = file.size_bytes
            while offset > 0 and left > 0:
                start = log.place_near(make_lsn(file.number, max(offset - self._piece_bytes, 0)))
                part = LogTally()
                self._take_part(log.of_file(file), file, start, limit, part)
                found.join_earlier(part)
                left -= offset - max(offset - self._piece_bytes, 0)
                offset, limit = max(offset - self._piece_bytes, 0), start
                if _is_enough(found, start):
                    return found
        return found

    def _take_part(self, log: LogScan, file: LogFile, start: int, limit: int, part: LogTally) -> None:
        """Read a piece of a file; the first one, which has no limit, gives the end of the log."""
        if limit == NULL_LSN:
            self.end = start
            self._take(log.between(start), part)
            return
        # The piece after this one begins in this file, or at the start of the next.
        end = limit if file_of(limit) == file.number else NULL_LSN
        if end == NULL_LSN or start < end:
            for item in log.between(start, end).stretches():
                part.add(item)


def small_reads(storage: Storage, files: LogFiles) -> LogScan:
    """A pass over a log that ends at its first damage, and reads little at a time."""
    return scan_log(storage, files, past_end=False)._replace(window_bytes=_WINDOW_BYTES)


def _is_enough(found: LogTally, start: int) -> bool:
    """Whether the interval of the last checkpoint was read: it begins with its CkptStart."""
    return found.checkpoint is not None and start <= found.checkpoint.record.ckpt_start_lsn


def bytes_between(files: LogFiles, start: int, end: int) -> int:
    """Bytes of log between two LSNs, without those of missing files."""
    total = 0
    for file in files.files:
        if file_of(start) <= file.number <= file_of(end):
            first = offset_of(start) if file.number == file_of(start) else 0
            last = offset_of(end) if file.number == file_of(end) else file.size_bytes
            total += max(last - first, 0)
    return total
