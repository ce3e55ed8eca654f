"""Finds logs that hold the same replication stream.

A group's name and UUID are in a record of one log file, which may be lost. But nodes of a group have the same entry at
a VLSN. Its checksum differs, since entries contain LSNs of the node. But a record has the same database, transaction,
key and data, and a Commit or Abort the same transaction, although its time is that of the replay, mostly moments later.
A sample of the stream is enough to compare.

Example: two logs, at VLSN 4096 both have the Commit of transaction -31, 20 ms apart, and all records that both have are
the same: one group.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from engine.errors import JetoolError
from engine.format.entry.ln import LN
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import STREAM_RECORDS, TXN_ENDS
from engine.log.entry import LogEntry
from engine.log.files import LogFiles
from engine.log.scan import scan_log
from engine.rescue.salvage.scan import decoded
from engine.storage.base import Storage

_SAMPLED: Final = TXN_ENDS | STREAM_RECORDS
# Most entries kept: those whose VLSN is divisible by a power of two.
_MOST: Final = 1 << 14
# Least share of equal entries among the common VLSNs of two logs of one stream.
_LEAST_SHARE: Final = 0.8
# Least difference in time between the streams of two groups written by one program, one after the other.
_FAR_MS: Final = 60_000


class StreamSample:
    """Entries of the stream of one log by VLSN.

    Attributes:
        marks: checksums of the parts of entries that are the same on all nodes.
        times: times of Commits and Aborts.
    """

    def __init__(self) -> None:
        self._step = 1
        self.marks: dict[int, int] = {}
        self.times: dict[int, int] = {}

    def take(self, entry: LogEntry) -> None:
        """Take an entry; the last visible one of a VLSN counts."""
        if not entry.replicated or entry.invisible or entry.vlsn % self._step:
            return
        record = decoded(entry)
        if isinstance(record, TxnEnd):
            self.marks[entry.vlsn] = crc32(f"{entry.type_number} {record.id}".encode())
            self.times[entry.vlsn] = record.time
        elif isinstance(record, LN):
            fields = record.db_id, record.txn_id, record.key, record.data
            self.marks[entry.vlsn] = crc32(repr(fields).encode())
        if len(self.marks) > _MOST:
            self._step *= 2
            self.marks = {vlsn: mark for vlsn, mark in self.marks.items() if not vlsn % self._step}
            self.times = {vlsn: time for vlsn, time in self.times.items() if not vlsn % self._step}

    def is_of(self, other: StreamSample) -> bool:
        """Whether both belong to one stream; the ends may differ if one of them will roll back."""
        both = self.marks.keys() & other.marks.keys()
        same = sum(self.marks[vlsn] == other.marks[vlsn] for vlsn in both)
        if not both or same < len(both) * _LEAST_SHARE:
            return False
        times = (abs(self.times[vlsn] - other.times[vlsn]) for vlsn in self.times.keys() & other.times.keys())
        return min(times, default=_FAR_MS) < _FAR_MS


def sample_stream(storage: Storage, files: LogFiles) -> StreamSample:
    """Read the stream of a log; unreadable parts are skipped."""
    sample = StreamSample()
    for scan in scan_log(storage, files, types=_SAMPLED).by_file():
        try:
            for entry in scan.good_entries():
                sample.take(entry)
        except JetoolError:
            continue
    return sample
