"""RollbackStart (28), RollbackEnd (29) and Matchpoint (30), je-log-format.md 6.8 and 6.9.

=====================  ================  ===================
RollbackStart          RollbackEnd       Matchpoint
=====================  ================  ===================
matchpointVLSN plong   matchpointLsn     time
matchpointLsn lsn      rollbackStartLsn  masterId pint
time                   time
n pint, n × plong ids
=====================  ================  ===================
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.bytecursor import ByteReader, ByteWriter
from engine.format.fields import Shape, shape


class RollbackStart(NamedTuple):
    """A replica has begun to roll back to a matchpoint; the ids are those of the transactions that were active."""

    matchpoint_vlsn: int
    matchpoint_lsn: int
    time: int
    active_txn_ids: tuple[int, ...]


class RollbackEnd(NamedTuple):
    """The rollback that began at ``rollback_start_lsn`` is complete."""

    matchpoint_lsn: int
    rollback_start_lsn: int
    time: int


class Matchpoint(NamedTuple):
    """A point at which replica and master can be found equal."""

    time: int
    master_id: int


ROLLBACK_START: Final[Shape] = shape(
    RollbackStart, "matchpoint_vlsn:vlsn matchpoint_lsn:lsn time:time active_txn_ids=active_txns:ints"
)
ROLLBACK_END: Final[Shape] = shape(RollbackEnd, "matchpoint_lsn:lsn rollback_start_lsn:lsn time:time")
MATCHPOINT: Final[Shape] = shape(Matchpoint, "time:time master_id=master:int")


def decode_rollback_start(body: bytes, version: int) -> RollbackStart:
    """Decode a RollbackStart body, since v7."""
    reader = ByteReader(body)
    head = (reader.packed(), reader.packed(), reader.packed())
    record = RollbackStart(*head, tuple(reader.packed() for _ in range(reader.count())))
    reader.finish()
    return record


def encode_rollback_start(record: RollbackStart, version: int) -> bytes:
    """Encode a RollbackStart body."""
    ids = record.active_txn_ids
    return ByteWriter().packed(*record[:3], len(ids), *ids).getvalue()


def decode_rollback_end(body: bytes, version: int) -> RollbackEnd:
    """Decode a RollbackEnd body, since v7."""
    reader = ByteReader(body)
    record = RollbackEnd(reader.packed(), reader.packed(), reader.packed())
    reader.finish()
    return record


def encode_rollback_end(record: RollbackEnd, version: int) -> bytes:
    """Encode a RollbackEnd body."""
    return ByteWriter().packed(*record).getvalue()


def decode_matchpoint(body: bytes, version: int) -> Matchpoint:
    """Decode a Matchpoint body, since v7."""
    reader = ByteReader(body)
    record = Matchpoint(reader.packed(), reader.packed())
    reader.finish()
    return record


def encode_matchpoint(record: Matchpoint, version: int) -> bytes:
    """Encode a Matchpoint body."""
    return ByteWriter().packed(*record).getvalue()
