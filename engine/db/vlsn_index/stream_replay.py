"""Handing the replication stream of a part of the log to a listener."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from engine.format.entry.rollback import RollbackStart, decode_rollback_start
from engine.format.entry_types import ROLLBACK_START, STREAM_ENTRIES
from engine.format.header import REPLICATED, is_invisible
from engine.format.lsn import NULL_LSN, file_of
from engine.log.access import LogAccess
from engine.log.passes import LogRange, RawEntry, forward


class StreamListener(Protocol):
    """Receives the stream in log order."""

    def track(self, vlsn: int, lsn: int, type_number: int) -> None:
        """Called for a visible replicated entry."""

    def roll_back(self, record: RollbackStart) -> None:
        """Called for a RollbackStart."""


def tell_stream(access: LogAccess, extent: LogRange, listener: StreamListener) -> None:
    """Hand the stream of a part of the log to a listener."""
    for raw in _replicable(access, extent):
        if raw.type_number == ROLLBACK_START:
            listener.roll_back(decode_rollback_start(raw.body, raw.version))
        elif raw.flags & REPLICATED and not is_invisible(raw.flags, raw.version):
            listener.track(raw.vlsn, raw.lsn, raw.type_number)


def _replicable(access: LogAccess, extent: LogRange) -> Iterator[RawEntry]:
    """Entries that may belong to the stream, file by file, since cleaning leaves gaps in the file numbers."""
    first = 0 if extent.start == NULL_LSN else file_of(extent.start)
    for file in access.files():
        if first <= file.number <= file_of(extent.end):
            start = extent.start if file.number == first and extent.start != NULL_LSN else file.number << 32
            end = extent.end if file.number == file_of(extent.end) else (file.number << 32) | file.size_bytes
            yield from forward(access, LogRange(start, end), STREAM_ENTRIES)
