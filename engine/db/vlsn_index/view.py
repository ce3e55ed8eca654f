"""The VLSN index of an environment open for reading: as stored, and as opening for writing would leave it.

Opening for writing merges the stream after the last CkptStart into the stored index (R-VLSN-75). The view does
the same on a copy in memory, so that reading changes nothing. If the merge is refused, the view keeps the reason for
the operator.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.db.parts import EnvironmentParts
from engine.db.vlsn_index.head import cut_missing
from engine.db.vlsn_index.store import StoredIndex, tell_stream
from engine.errors import DamageError
from engine.log.passes import LogRange
from engine.vlsn.database import DATABASE_NAME
from engine.vlsn.index import VLSNIndex
from engine.vlsn.memory_index import MemoryIndex, records_of
from engine.vlsn.recovery_merge import open_index
from engine.vlsn.tracker import VLSNRecoveryTracker


class IndexView(NamedTuple):
    """The index of an environment.

    Attributes:
        records: the stored records by key; None if the environment has no index.
        merged: the index merged with the log after the checkpoint; None if ``refused``.
        refused: why opening for writing would fail.
        from_lsn: start of the part of the log that was merged.
    """

    records: dict[bytes, bytes] | None
    merged: VLSNIndex | None
    refused: DamageError | None
    from_lsn: int


def read_index(parts: EnvironmentParts) -> IndexView:
    """The index of an environment that was recovered for reading.

    Raises:
        DamageError: a node or a record of its database cannot be read.
    """
    with parts.ctx.latch:
        state = parts.catalog.by_name(DATABASE_NAME)
    start = parts.recovery.ckpt_start_lsn
    if state is None:
        return IndexView(None, None, None, start)
    records = records_of(StoredIndex(parts, state))
    recovered = VLSNRecoveryTracker(parts.config.vlsn_limits)
    try:
        tell_stream(parts.ctx.access, LogRange(start, parts.recovery.end_lsn), recovered)
        merged = open_index(MemoryIndex(records), parts.config.vlsn_limits, recovered)
        cut_missing(parts, merged)
    except DamageError as error:
        return IndexView(records, None, error, start)
    return IndexView(records, merged, None, start)
