"""The VLSN index of a replicated environment in its database, and the hook by which recovery fills it (R-VLSN-70,
R-VLSN-75, R-REC-63).

``StoredIndex`` adapts the database ``_jeVlsnMapDb`` for the index. ``VLSNHook`` collects the mappings of the recovery
range. ``VLSNParticipant`` stores the index before every CkptEnd, so that the database always covers everything logged
before CkptStart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Protocol

from engine.db.parts import EnvironmentParts
from engine.format.entry.rollback import RollbackStart, decode_rollback_start
from engine.format.entry_types import ROLLBACK_START, STREAM_ENTRIES
from engine.format.header import REPLICATED, is_invisible
from engine.format.lsn import NULL_LSN, file_of
from engine.log.access import LogAccess
from engine.log.passes import LogRange, RawEntry, forward
from engine.recovery.hooks import RecoveryHook
from engine.tree.bin_node import BIN
from engine.tree.database_state import DatabaseState
from engine.tree.tree import find_bin, next_bin, slot_data
from engine.txn.payload import USER, Payload, PutMode
from engine.txn.txn import Durability, Txn
from engine.vlsn.index import VLSNIndex
from engine.vlsn.limits import BucketLimits
from engine.vlsn.tracker import VLSNRecoveryTracker


class StoredIndex:
    """The committed records of ``_jeVlsnMapDb``.

    Arguments:
        parts, state: the environment and the database.
    """

    def __init__(self, parts: EnvironmentParts, state: DatabaseState) -> None:
        self._parts = parts
        self._state = state

    def at_or_below(self, key: bytes) -> tuple[bytes, bytes] | None:
        """The record with the greatest key not above ``key``."""
        return self._near(key, backward=True)

    def at_or_above(self, key: bytes) -> tuple[bytes, bytes] | None:
        """The record with the least key not below ``key``."""
        return self._near(key, backward=False)

    def begin(self) -> _StoreTxn:
        """Begin a local transaction."""
        return _StoreTxn(self._parts, self._state)

    def _near(self, key: bytes, *, backward: bool) -> tuple[bytes, bytes] | None:
        ctx = self._parts.ctx
        with ctx.latch:
            node: BIN | None = find_bin(ctx, self._state, key)
            if node is None:
                return None
            index = bisect_right(node.keys, key) - 1 if backward else bisect_left(node.keys, key)
            while node is not None:
                while 0 <= index < len(node):
                    data = slot_data(ctx, node, index) if node.is_live(index) else None
                    if data is not None:
                        return node.keys[index], data
                    index += -1 if backward else 1
                node = next_bin(ctx, node, backward=backward)
                index = len(node) - 1 if node is not None and backward else 0
        return None


class _StoreTxn:
    """A local transaction on the index."""

    def __init__(self, parts: EnvironmentParts, state: DatabaseState) -> None:
        self._parts = parts
        self._state = state
        # The transaction is local: every node has its own index, which is not part of the stream (R-VLSN-40).
        self._txn: Txn = parts.txns.begin(durability=Durability.NO_SYNC)

    def put(self, key: bytes, data: bytes) -> None:
        """Store a record."""
        self._parts.records.put(self._state, key, Payload(data, USER), self._txn, PutMode.OVERWRITE)

    def delete(self, key: bytes) -> None:
        """Remove a record."""
        self._parts.records.delete(self._state, key, self._txn, Payload(None, USER))

    def commit(self, *, sync: bool) -> None:
        """Make the changes permanent."""
        self._parts.txns.commit(self._txn, Durability.SYNC if sync else Durability.NO_SYNC)

    def abort(self) -> None:
        """Undo the changes."""
        self._parts.txns.abort(self._txn)


class VLSNHook:
    """Collects the replication stream of the recovery range.

    Arguments:
        limits: limits on the size of buckets.
    """

    def __init__(self, limits: BucketLimits) -> None:
        self.tracker = VLSNRecoveryTracker(limits)

    def saw_entry(self, raw: RawEntry) -> None:
        """Collect a replicated entry, or a RollbackStart; called in log order."""
        if raw.type_number == ROLLBACK_START:
            self.tracker.roll_back(decode_rollback_start(raw.body, raw.version))
        elif not is_invisible(raw.flags, raw.version):
            self.tracker.track(raw.vlsn, raw.lsn, raw.type_number)


class HookGroup:
    """Passes every entry to utilization, and replicated entries to the collector of the stream.

    Arguments:
        utilization: counts every entry.
        stream: receives replicated entries and rollbacks.
    """

    def __init__(self, utilization: RecoveryHook, stream: VLSNHook) -> None:
        self._stream = stream
        self._count = utilization.saw_entry
        self.saw_entries = utilization.saw_entries
        self.saw_summary = utilization.saw_summary
        self.redone = utilization.redone
        self.is_obsolete = utilization.is_obsolete
        self.replaced = utilization.replaced
        self.undone = utilization.undone

    @property
    def hears_all(self) -> bool:
        """False: ``redone`` need not be called for plain insertions, which pass 1 has reported."""
        return False

    def saw_entry(self, raw: RawEntry, *, provisional: bool, partial_start: int) -> None:
        """Receive an entry of pass 1."""
        self._count(raw, provisional=provisional, partial_start=partial_start)
        if raw.flags & REPLICATED or raw.type_number == ROLLBACK_START:
            self._stream.saw_entry(raw)


class VLSNParticipant:
    """Stores the index during checkpoints (R-CKPT-8, R-CKPT-19)."""

    def __init__(self, index: VLSNIndex) -> None:
        self._index = index

    def checkpoint_begins(self) -> bool:
        """Returns False: this participant releases no file."""
        return False

    def checkpoint_started(self) -> None:
        """Make sure that every VLSN allocated before CkptStart is in memory."""
        self._index.await_consistency()

    def before_checkpoint_end(self) -> None:
        """Store buckets and range, without sync."""
        self._index.flush(sync=False)

    def checkpoint_ended(self) -> None:
        """Do nothing: no action waits for this."""


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
