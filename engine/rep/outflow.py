"""The next entries for a feeder: from the item cache of the VLSN index if it still has them, otherwise from the log.

Example: a replica starts at VLSN 61 of 5,000: 61..3,976 and entries logged meanwhile are read from the log in batches;
from then on each wait for the next VLSN returns the entries just logged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.db.engine import Engine
from engine.log.passes import RawEntry
from engine.rep.stream import StreamReader
from engine.vlsn.entry_waiters import WaitTimeoutError


class LoggedEntry(NamedTuple):
    """An entry of the stream in its log form; ``version`` is that of the body."""

    vlsn: int
    type_number: int
    version: int
    body: bytes


class Outflow:
    """The stream of an open environment, for one replica.

    Arguments:
        engine: the environment; it has a VLSN index.
        vlsn: the first VLSN to send.

    Raises:
        NotFoundError: the VLSN is not in the log.
    """

    def __init__(self, engine: Engine, vlsn: int) -> None:
        assert engine.vlsn_index is not None
        assert engine.writer is not None
        self._index = engine.vlsn_index
        self._version = engine.writer.version
        self._reader = StreamReader(engine, vlsn)
        self._reading: Iterator[RawEntry] | None = None

    @property
    def next_vlsn(self) -> int:
        """What comes next."""
        return self._reader.next_vlsn

    def next_batch(self, timeout_ms: int, most_bytes: int, most_entries: int) -> list[LoggedEntry]:
        """The entries available now or within the given time; empty if no entry arrives.

        Raises:
            DamageError: the log is damaged. JetoolError: the environment can no longer be read.
        """
        batch: list[LoggedEntry] = []
        size = 0
        if self._reading is None:
            try:
                item = self._index.wait_for(self._reader.next_vlsn, timeout_ms)
            except WaitTimeoutError:
                return batch
            while item is not None and size < most_bytes and len(batch) < most_entries:
                batch.append(LoggedEntry(item.vlsn, item.type_number, self._version, item.body))
                size += len(item.body)
                self._reader.skip(item)
                # Wait at least 1 ms, since a wait of 0 ms raises an error if there is no entry.
                more = self._index.range.last >= self._reader.next_vlsn
                item = self._index.wait_for(self._reader.next_vlsn, 0) if more else None
            if batch:
                return batch
            # The log item cache no longer has the entry (R-VLSN-62): it is read from the log.
            self._reading = self._reader.raw()
        for raw in self._reading:
            batch.append(LoggedEntry(raw.vlsn, raw.type_number, raw.version, raw.body))
            size += len(raw.body)
            if size >= most_bytes or len(batch) >= most_entries:
                return batch
        self._reading = None
        return batch

    def close(self) -> None:
        """Give the files back."""
        self._reader.close()
