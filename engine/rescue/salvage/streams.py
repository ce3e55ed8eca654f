"""Which logs hold the same replication stream.

A group's name and UUID stand in a record of one log file, which may be gone. But nodes of a group have the same entry
at a VLSN. Its checksum differs, since each node has LSNs of its own in its entries; of a record the database, the
transaction, key and data are the same, and of a Commit or an Abort the transaction. A replica gives these the time at
which it replays them, mostly within moments. A sample of the stream is enough to compare.

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
# So many entries are kept at most: all whose VLSN is divisible by a power of two.
_MOST: Final = 1 << 14
# Of what two logs of one stream have in common, so much is the same.
_LEAST_SHARE: Final = 0.8
# Streams of two groups that one program has made, one after the other, are at least so far apart.
_FAR_MS: Final = 60_000


class StreamSample:
    """Entries of the stream of one log by VLSN.

    Attributes:
        marks: a checksum of what nodes have in common of the entry.
        times: of Commits and Aborts.
    """

    def __init__(self) -> None:
        self._step = 1
        self.marks: dict[int, int] = {}
        self.times: dict[int, int] = {}

    def take(self, entry: LogEntry) -> None:
        """An entry; the last visible one of a VLSN counts."""
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
        """Whether both are of one stream; the ends may differ where one of them will roll back."""
        both = self.marks.keys() & other.marks.keys()
        same = sum(self.marks[vlsn] == other.marks[vlsn] for vlsn in both)
        if not both or same < len(both) * _LEAST_SHARE:
            return False
        times = (abs(self.times[vlsn] - other.times[vlsn]) for vlsn in self.times.keys() & other.times.keys())
        return min(times, default=_FAR_MS) < _FAR_MS


def sample_stream(storage: Storage, files: LogFiles) -> StreamSample:
    """Read the stream of a log; what cannot be read is stepped over."""
    sample = StreamSample()
    for scan in scan_log(storage, files, types=_SAMPLED).by_file():
        try:
            for entry in scan.good_entries():
                sample.take(entry)
        except JetoolError:
            continue
    return sample
