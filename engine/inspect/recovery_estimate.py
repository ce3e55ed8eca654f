"""The cost of a recovery, estimated from the end of the log and a sample of the entries that recovery reads.

The estimate reads the last file (as recovery does first), the last CkptEnd, and the first ``SAMPLE_BYTES`` from
firstActive on, whose entries are decoded as recovery decodes them. The sample gives a time per byte for this machine
and this log; each phase takes a fixed multiple of it (``_FACTORS``). The factors differ for records of other sizes and
for trees larger than the cache, so the estimate distinguishes a minute from an hour, not 40 seconds from 50.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.events import SILENT, Listener
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry_types import BY_NUMBER
from engine.format.entry_types import LN as LN_FAMILY
from engine.format.entry_types import NODE as NODE_FAMILY
from engine.format.lsn import NULL_LSN, file_of, make_lsn, offset_of
from engine.log.access import LogAccess
from engine.log.entry import LogEntry
from engine.log.files import LogFiles
from engine.log.scan import scan_log
from engine.log.tail import Tail, find_end, find_last_checkpoint
from engine.storage.base import Storage

SAMPLE_BYTES: Final = 4 << 20
# CPU time per byte of each phase relative to the sample, measured with a log of 647,000 records of 200 bytes.
_FACTORS: Final = {
    "FIND_LAST_CKPT": 0.06,
    "VERIFY": 0.07,
    "READ_DBMAP_INFO": 0.09,
    "UNDO_DATA_RECORDS": 0.26,
    "REDO_DATA_RECORDS": 1.37,
    "checkpoint flush": 0.05,
}
# The phase that reads nothing from the log, because the trees are in memory.
_READS_NOTHING: Final = "checkpoint flush"
# The default number of entries in a BIN, and the average fill of nodes in grown trees (R-TREE-7).
_MAX_ENTRIES: Final = 128
_FILL: Final = 0.7
# Bytes of a dirty slot in a logged BIN without its key, and of a BIN without its slots.
_SLOT_BYTES: Final = 14
_BIN_BYTES: Final = 60


class PhaseEstimate(NamedTuple):
    """A phase: the part of the log that it reads, and its expected time."""

    name: str
    from_lsn: int
    log_bytes: int
    expected_ms: int


class RecoveryEstimate(NamedTuple):
    """What recovery would do.

    Attributes:
        tail: the end of the log.
        ckpt_end_lsn, first_active_lsn: LSNs of the last checkpoint; NULL_LSN if there is no checkpoint.
        redo_lsn: start of redo.
        phases: in order.
        entries, lns: number of entries that recovery would read, and of LNs among them, extrapolated from the sample.
        sample_bytes, sample_ms: size of the sample, and the time that it took.
        checkpoint_least_bytes, checkpoint_most_bytes: bytes that the closing checkpoint would write: if the records are
            close together in their trees, and if each is in a node of its own.
    """

    tail: Tail
    ckpt_end_lsn: int
    first_active_lsn: int
    redo_lsn: int
    phases: tuple[PhaseEstimate, ...]
    entries: int
    lns: int
    sample_bytes: int
    sample_ms: int
    checkpoint_least_bytes: int
    checkpoint_most_bytes: int

    @property
    def expected_ms(self) -> int:
        """All phases together."""
        return sum(phase.expected_ms for phase in self.phases)


class _Sample(NamedTuple):
    log_bytes: int
    seconds: float
    entries: int
    lns: int
    key_bytes: int


def estimate_recovery(storage: Storage, files: LogFiles, listener: Listener = SILENT) -> RecoveryEstimate:
    """Estimate a recovery; nothing is changed.

    Raises:
        RefusedError, DamageError: as ``find_end`` and recovery.
    """
    started = time.perf_counter()
    tail = find_end(storage, files, listener)
    last_file_ms = _ms(time.perf_counter() - started)
    access = LogAccess(storage, files.files)
    last = find_last_checkpoint(access, tail)
    first_active = redo = NULL_LSN
    start = make_lsn(files.files[0].number, 0)
    if last.ckpt_end_lsn != NULL_LSN:
        end = access.read(last.ckpt_end_lsn).record()
        assert isinstance(end, CkptEnd)
        first_active, redo = end.first_active_lsn, end.ckpt_start_lsn
        start = first_active
    interval = _bytes_between(files, start, tail.end_lsn)
    sample = _sample(storage, files, start, tail.end_lsn)
    share = interval / max(sample.log_bytes, 1)
    seconds = sample.seconds * share
    lns = round(sample.lns * share)
    phases = [
        PhaseEstimate("FIND_END_OF_LOG", make_lsn(tail.last_file.number, 0), tail.last_file.size_bytes, last_file_ms)
    ]
    # The last file is already checked by the search for the end of the log.
    checked = max(interval - offset_of(tail.end_lsn), 0)
    for name, factor in _FACTORS.items():
        size = checked if name == "VERIFY" else interval
        expected = _ms(seconds * factor * size / max(interval, 1))
        none = name == _READS_NOTHING
        phases.append(PhaseEstimate(name, NULL_LSN if none else start, 0 if none else size, expected))
    slot = _SLOT_BYTES + sample.key_bytes // max(sample.lns, 1)
    node = _BIN_BYTES + round(slot * _MAX_ENTRIES * _FILL)
    least = -(-lns // round(_MAX_ENTRIES * _FILL)) * node
    return RecoveryEstimate(
        tail=tail,
        ckpt_end_lsn=last.ckpt_end_lsn,
        first_active_lsn=first_active,
        redo_lsn=start if redo == NULL_LSN else redo,
        phases=tuple(phases),
        entries=round(sample.entries * share),
        lns=lns,
        sample_bytes=sample.log_bytes,
        sample_ms=_ms(sample.seconds),
        checkpoint_least_bytes=least,
        # Trees cannot be larger than the log that holds them.
        checkpoint_most_bytes=max(min(lns * node, sum(file.size_bytes for file in files.files)), least),
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _bytes_between(files: LogFiles, start: int, end: int) -> int:
    inside = [file for file in files.files if file_of(start) <= file.number <= file_of(end)]
    sizes = {file.number: file.size_bytes for file in inside}
    if file_of(end) in sizes:
        sizes[file_of(end)] = offset_of(end)
    return max(sum(sizes.values()) - (offset_of(start) if file_of(start) in sizes else 0), 0)


def _sample(storage: Storage, files: LogFiles, start: int, end: int) -> _Sample:
    """Read and decode entries from the beginning of what recovery reads."""
    log_bytes = entries = lns = key_bytes = 0
    began = time.perf_counter()
    for item in scan_log(storage, files, start=start, end=end).entries():
        if not isinstance(item, LogEntry):
            log_bytes += item.length
            continue
        log_bytes += item.total_bytes
        entries += 1
        family = BY_NUMBER[item.type_number].family
        if family in (LN_FAMILY, NODE_FAMILY):
            try:
                record = item.record()
            except FormatError:
                # Ignore it here: recovery itself would report the error and stop.
                record = None
            if family == LN_FAMILY:
                lns += 1
                key_bytes += len(getattr(record, "key", b""))
        if log_bytes >= SAMPLE_BYTES:
            break
    return _Sample(log_bytes, time.perf_counter() - began, entries, lns, key_bytes)
