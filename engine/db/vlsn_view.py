"""The VLSN index of an environment open for reading: as it is stored, and as opening for writing would leave it.

Opening for writing merges what the log holds after the last CkptStart into the stored index (R-VLSN-75). The view does
the same on a copy in memory, so that looking changes nothing, and keeps the reason when the merge is refused: that is
what an operator wants to see.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.db.vlsn_store import DATABASE_NAME, StoredIndex
from engine.errors import DamageError
from engine.format.entry.rollback import RollbackStart, decode_rollback_start
from engine.format.entry_types import ROLLBACK_START, STREAM_ENTRIES
from engine.format.header import REPLICATED, is_invisible
from engine.format.lsn import NULL_LSN, file_of
from engine.log.access import LogAccess
from engine.log.passes import LogRange, RawEntry, forward
from engine.vlsn.index import VLSNIndex
from engine.vlsn.memory_index import MemoryIndex, records_of
from engine.vlsn.recovery_merge import open_index
from engine.vlsn.recovery_tracker import VLSNRecoveryTracker

if TYPE_CHECKING:
    from engine.db.environment import Environment


class StreamListener(Protocol):
    """Hears the stream in log order."""

    def track(self, vlsn: int, lsn: int, type_number: int) -> None:
        """A visible replicated entry."""

    def roll_back(self, record: RollbackStart) -> None:
        """A RollbackStart."""


class IndexView(NamedTuple):
    """The index of an environment.

    Attributes:
        records: what is stored, by key; None when the environment has no index at all.
        merged: the index with what the log has after the checkpoint; None when ``refused``.
        refused: why opening for writing would fail.
        from_lsn: where the part of the log begins that was merged.
    """

    records: dict[bytes, bytes] | None
    merged: VLSNIndex | None
    refused: DamageError | None
    from_lsn: int


def read_index(env: Environment) -> IndexView:
    """The index of an environment that is open for reading.

    Raises:
        DamageError: a node or a record of its database cannot be read.
    """
    with env.ctx.latch:
        state = env.catalog.by_name(DATABASE_NAME)
    start = env.recovery.ckpt_start_lsn
    if state is None:
        return IndexView(None, None, None, start)
    records = records_of(StoredIndex(env.parts, state))
    recovered = VLSNRecoveryTracker(env.config.vlsn_limits)
    try:
        tell_stream(env.ctx.access, LogRange(start, env.recovery.end_lsn), recovered)
        merged = open_index(MemoryIndex(records), env.config.vlsn_limits, recovered)
    except DamageError as error:
        return IndexView(records, None, error, start)
    return IndexView(records, merged, None, start)


def tell_stream(access: LogAccess, extent: LogRange, listener: StreamListener) -> None:
    """Hand the stream of a part of the log to a listener."""
    for raw in _replicable(access, extent):
        if raw.type_number == ROLLBACK_START:
            listener.roll_back(decode_rollback_start(raw.body, raw.version))
        elif raw.flags & REPLICATED and not is_invisible(raw.flags, raw.version):
            listener.track(raw.vlsn, raw.lsn, raw.type_number)


def _replicable(access: LogAccess, extent: LogRange) -> Iterator[RawEntry]:
    """Entries that may matter, file by file, since cleaning leaves gaps in the numbers."""
    first = 0 if extent.start == NULL_LSN else file_of(extent.start)
    for file in access.files():
        if first <= file.number <= file_of(extent.end):
            start = extent.start if file.number == first and extent.start != NULL_LSN else file.number << 32
            end = extent.end if file.number == file_of(extent.end) else (file.number << 32) | file.size_bytes
            yield from forward(access, LogRange(start, end), STREAM_ENTRIES)
