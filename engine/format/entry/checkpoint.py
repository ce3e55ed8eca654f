"""CkptStart (19) and CkptEnd (20), je-log-format.md 6.4 and 6.5.

CkptStart: time, id, invoker. CkptEnd:

=============================  =========  =====================================================
invoker                        string     recovery, api, daemon, cleaner, close (R-CKPT-4)
time                           time
checkpointStartLsn             lsn        the matching CkptStart
flags                          u8         0x01 rootLsn follows; 0x02 cleaned files are deleted (since v7)
rootLsn                        lsn        with flag 0x01: a DbTree
firstActiveLsn                 lsn        not after checkpointStartLsn
last local, replicated ids     6 × plong  node, database, transaction, each local then replicated
extinction ids                 2 × plong  local, replicated; since v17
id                             plong
cleaner summary                           v8 to v10: plong, pint, n × 4 pint
completedScanIds               n × plong  since v23
=============================  =========  =====================================================
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.bytecursor import ByteReader, ByteWriter
from engine.format.fields import Shape, shape
from engine.format.lsn import NULL_LSN
from engine.format.versions import COMPLETED_SCANS, EXTINCTION

HAS_ROOT: Final = 0x01
CLEANED_FILES_TO_DELETE: Final = 0x02
_CLEANER_SUMMARY: Final = (8, 9, 10)


class CkptStart(NamedTuple):
    """The start of a checkpoint."""

    time: int
    id: int
    invoker: str


class CkptEnd(NamedTuple):
    """The end of a checkpoint; ``root_lsn`` is NULL_LSN when flag 0x01 is clear."""

    invoker: str
    time: int
    ckpt_start_lsn: int
    flags: int
    root_lsn: int
    first_active_lsn: int
    last_local_node_id: int
    last_replicated_node_id: int
    last_local_db_id: int
    last_replicated_db_id: int
    last_local_txn_id: int
    last_replicated_txn_id: int
    last_local_extinction_id: int
    last_replicated_extinction_id: int
    id: int
    cleaner_summary: tuple[int, ...]
    completed_scan_ids: tuple[int, ...]


CKPT_START: Final[Shape] = shape(CkptStart, "time:time id:int invoker:text")
CKPT_END: Final[Shape] = shape(
    CkptEnd,
    "invoker:text time:time ckpt_start_lsn:lsn flags:hex root_lsn:lsn first_active_lsn:lsn last_local_node_id:int "
    "last_replicated_node_id:int last_local_db_id:int last_replicated_db_id:int last_local_txn_id:int "
    "last_replicated_txn_id:int last_local_extinction_id:int last_replicated_extinction_id:int id:int "
    "cleaner_summary:ints completed_scan_ids:ints",
)


def decode_ckpt_start(body: bytes, version: int) -> CkptStart:
    """Decode a CkptStart body, any version."""
    reader = ByteReader(body)
    record = CkptStart(reader.packed(), reader.packed(), reader.string())
    reader.finish()
    return record


def encode_ckpt_start(record: CkptStart, version: int) -> bytes:
    """Encode a CkptStart body."""
    return ByteWriter().packed(record.time, record.id).string(record.invoker).getvalue()


def decode_ckpt_end(body: bytes, version: int) -> CkptEnd:
    """Decode a CkptEnd body, any version."""
    reader = ByteReader(body)
    invoker, time, start, flags = reader.string(), reader.packed(), reader.packed(), reader.u8()
    root = reader.packed() if flags & HAS_ROOT else NULL_LSN
    first_active = reader.packed()
    ids = [reader.packed() for _ in range(6)]
    ids += [reader.packed(), reader.packed()] if version >= EXTINCTION else [0, 0]
    checkpoint_id = reader.packed()
    summary = _decode_cleaner_summary(reader) if version in _CLEANER_SUMMARY else ()
    scans = tuple(reader.packed() for _ in range(reader.count())) if version >= COMPLETED_SCANS else ()
    reader.finish()
    return CkptEnd._make((invoker, time, start, flags, root, first_active, *ids, checkpoint_id, summary, scans))


def encode_ckpt_end(record: CkptEnd, version: int) -> bytes:
    """Encode a CkptEnd body."""
    writer = ByteWriter().string(record.invoker).packed(record.time, record.ckpt_start_lsn).u8(record.flags)
    if record.flags & HAS_ROOT:
        writer.packed(record.root_lsn)
    writer.packed(record.first_active_lsn, *record[6:12])
    if version >= EXTINCTION:
        writer.packed(record.last_local_extinction_id, record.last_replicated_extinction_id)
    writer.packed(record.id)
    if version in _CLEANER_SUMMARY:
        file_number, adjustments, *sizes = record.cleaner_summary
        writer.packed(file_number, adjustments, len(sizes) // 4, *sizes)
    if version >= COMPLETED_SCANS:
        writer.packed(len(record.completed_scan_ids), *record.completed_scan_ids)
    return writer.getvalue()


def _decode_cleaner_summary(reader: ByteReader) -> tuple[int, ...]:
    """End file number and initial adjustments, then four numbers for each of the recent average sizes."""
    head = (reader.packed(), reader.packed())
    return head + tuple(reader.packed() for _ in range(4 * reader.count(4)))
