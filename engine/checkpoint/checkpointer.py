"""The checkpoint: ten steps that bound recovery (R-CKPT-1 to R-CKPT-55).

1. Ask the participants whether files will be released: if so, one more level is flushed.
2. State DIRTY_MAP_INCOMPLETE, next id.
3. Log CkptStart; then read firstActive: a transaction that begins later logs its first LN after CkptStart.
4. Build the dirty map; state COMPLETE.
5. Flush it level by level, upwards. The bottom two levels are flushed by sub-tree: BIN, its dirty siblings, their
   parent. When a root is logged, its MapLN is logged too. Then the remaining MapLNs and the root entry follow.
6., 7. Participants write the VLSN index and the utilization.
8. Log CkptEnd and fsync.
9., 10. Participants release files; state NONE.

Logging a node dirties its parent, so the parents of the highest flushed level stay dirty, and the next checkpoint
climbs one level (R-CKPT-29). ``minimize`` flushes up to the roots.

Example (E-CKPT-2), five levels, one dirty BIN: normal: BIN YES, level 2 NO. With ``minimize``: BIN YES, levels 2 to 4
BEFORE_CKPT_END, root NO.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

from engine.catalog.catalog import Catalog
from engine.catalog.name_operations import NamingOperations
from engine.checkpoint.dirty_map import DirtyMap, SelectedNode, checkpoint_provisional
from engine.errors import RefusedError
from engine.events import SILENT, Listener
from engine.format.entry.checkpoint import (
    CLEANED_FILES_TO_DELETE,
    HAS_ROOT,
    CkptEnd,
    CkptStart,
    encode_ckpt_end,
    encode_ckpt_start,
)
from engine.format.entry.node import LEVEL_MASK, MAPPING_TREE
from engine.format.entry_types import CKPT_END, CKPT_START
from engine.format.header import Provisional
from engine.format.lsn import NULL_LSN
from engine.log.writer import LogWriter
from engine.tree.bin_node import BIN
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN, root_in_memory
from engine.tree.node_log import log_node
from engine.tree.tree import find_parent
from engine.txn.manager import TxnManager


class Participant(Protocol):
    """A part of the environment that takes part in checkpoints: cleaner, VLSN index, utilization (R-CKPT-6, R-CKPT-8,
    R-CKPT-19).

    Called at fixed steps; registered with the checkpointer in the order in which they run.
    """

    def checkpoint_begins(self) -> bool:
        """Step 1. Returns whether files will be released after this checkpoint (if so, one more level is flushed)."""

    def checkpoint_started(self) -> None:
        """Step 3, after CkptStart: what was allocated before it must be in memory now (R-CKPT-9)."""

    def before_checkpoint_end(self) -> None:
        """Steps 6 and 7: write what has to be recoverable, without sync."""

    def checkpoint_ended(self) -> None:
        """Step 9: CkptEnd is durable."""


DEFAULT_BYTES_INTERVAL: Final = 20_000_000
_LOWEST_MAPPING_LEVEL: Final = MAPPING_TREE + 1


class CheckpointReport(NamedTuple):
    """What one checkpoint did.

    Attributes:
        full_ins, full_bins, deltas: nodes logged.
        provisional: number of nodes by normalised level and provisional flag.
        highest: highest flush level by database id.
        interval_before, interval_after: bytes that recovery would read before and after the checkpoint.
    """

    id: int
    invoker: str
    ckpt_start_lsn: int
    ckpt_end_lsn: int
    first_active_lsn: int
    root_lsn: int
    full_ins: int
    full_bins: int
    deltas: int
    provisional: dict[tuple[int, str], int]
    highest: dict[int, int]
    interval_before: int
    interval_after: int


class LastIds(NamedTuple):
    """Extreme values of the id sequences that the catalog, the trees and the transactions do not keep."""

    replicated_node: int = -9
    extinction: int = 0
    replicated_extinction: int = 0


NO_IDS: Final = LastIds()


class Checkpointer:
    """Takes checkpoints of one environment.

    Arguments:
        ctx, catalog, naming, txns: the parts.
        last_id: of the last checkpoint.
        last_start, last_end: LSNs of the last checkpoint's entries, NULL_LSN for none.

    Attributes:
        bytes_interval, time_interval_ms: when a checkpoint is due; bytes take precedence, 0 for never.
        high_priority: log each sub-tree in one go (``je.checkpointer.highPriority``).
        participants: called at their steps, in this order.
    """

    def __init__(
        self,
        ctx: TreeContext,
        catalog: Catalog,
        naming: NamingOperations,
        txns: TxnManager,
        *,
        last_id: int = 0,
        last_start: int = NULL_LSN,
        last_end: int = NULL_LSN,
        ids: LastIds = NO_IDS,
        bytes_interval: int = DEFAULT_BYTES_INTERVAL,
        time_interval_ms: int = 0,
        high_priority: bool = False,
        clock: Callable[[], int] | None = None,
        listener: Listener = SILENT,
    ) -> None:
        self._ctx = ctx
        self._catalog = catalog
        self._naming = naming
        self._txns = txns
        self._clock = clock or (lambda: int(time.time() * 1000))
        self._listener = listener
        self._running = threading.Lock()
        self.map = DirtyMap(ctx)
        self.participants: list[Participant] = []
        self.last_id = last_id
        self.last_start = last_start
        self.last_end = last_end
        self.last_time_ms = self._clock()
        self.ids = ids
        self.bytes_interval = bytes_interval
        self.time_interval_ms = time_interval_ms
        self.high_priority = high_priority
        self._counts: Counter[tuple[int, str]] = Counter()
        self._deltas = 0
        ctx.splits_watch.append(self.map)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Exclude checkpoints inside the block; a checkpoint requested meanwhile waits."""
        with self._running:
            yield

    def is_due(self) -> bool:
        """Whether enough was logged, or enough time has passed, since the last checkpoint (R-CKPT-2)."""
        writer = self._ctx.writer
        if writer is not None and not self.bytes_interval and self.time_interval_ms:
            return self._clock() - self.last_time_ms >= self.time_interval_ms and writer.last_lsn != self.last_end
        return (
            writer is not None
            and self.bytes_interval > 0
            and (writer.distance_from(self.last_start) >= self.bytes_interval)
        )

    def run(
        self,
        invoker: str = "api",
        *,
        force: bool = False,
        minimize: bool = False,
        kbytes: int = 0,
        minutes: int = 0,
        wait: bool = True,
    ) -> CheckpointReport | None:
        """Take a checkpoint if one is due.

        Arguments:
            invoker: api, daemon, recovery, close or cleaner (R-CKPT-4).
            force: take a checkpoint even if none is due.
            minimize: flush every database up to its root (R-CKPT-5).
            kbytes, minutes: thresholds that replace the configured interval.
            wait: wait for a checkpoint that is running; otherwise return at once.

        Returns:
            Report of the checkpoint; None when none was due.

        Raises:
            RefusedError: the environment is read-only. StorageError: the log cannot be written.
        """
        writer = self._ctx.writer
        if writer is None:
            raise RefusedError("the environment is read-only", consequence="no checkpoint was taken")
        if not wait and self._running.locked():
            return None
        # One checkpoint at a time. A ``with`` statement releases the lock even when interrupted; an interruption just
        # after a plain ``acquire`` would not, and every later checkpoint would wait for ever.
        with self._running:
            if not force and not self._due(writer, kbytes, minutes):
                return None
            try:
                return self._run(writer, invoker, minimize)
            except BaseException as error:
                self._ctx.fail(error)
                raise
            finally:
                self._end_map()

    def sync_database(self, db: DatabaseState) -> None:
        """Log all of a deferred-write database up to its root (R-TREE-60); the caller syncs the log.

        This works like a checkpoint with nothing else to do, but without CkptStart and CkptEnd: recovery finds the root
        by its MapLN.
        """
        with self._running:
            try:
                with self._ctx.latch:
                    self.map.begin(flush_all=True, extra_level=False)
                    self.map.build_of(db)
                self._flush_levels([])
            except BaseException as error:
                self._ctx.fail(error)
                raise
            finally:
                self._end_map()

    def _end_map(self) -> None:
        # If the latch is refused after a failure, the map is not used again; taking the latch would raise another
        # error.
        if self._ctx.latch.refusal is None:
            with self._ctx.latch:
                self.map.end()

    def _due(self, writer: LogWriter, kbytes: int, minutes: int) -> bool:
        if kbytes:
            return writer.distance_from(self.last_start) >= kbytes * 1024
        if minutes:
            passed = self._clock() - self.last_time_ms >= minutes * 60_000
            return passed and writer.last_lsn != self.last_end
        return self.is_due()

    def _run(self, writer: LogWriter, invoker: str, minimize: bool) -> CheckpointReport:
        before = writer.distance_from(self.last_start)
        self._counts, self._deltas = Counter(), 0
        deletes_files = False
        for participant in self.participants:
            # The call is the first operand of ``or``, so that it is made for every participant.
            deletes_files = participant.checkpoint_begins() or deletes_files
        with self._ctx.latch:
            # Begin the map before CkptStart: eviction uses it from here on.
            self.map.begin(flush_all=minimize, extra_level=deletes_files)
        checkpoint_id = self.last_id + 1
        self._step("CkptStart")
        start = writer.log(
            CKPT_START, encode_ckpt_start(CkptStart(self._clock(), checkpoint_id, invoker), writer.version)
        )
        # Read firstActive after CkptStart: a transaction that begins now logs its first LN after CkptStart. Read
        # earlier, firstActive could miss a transaction that recovery has to undo.
        first_active = self._txns.first_active_lsn()
        first_active = start if first_active == NULL_LSN else min(first_active, start)
        for participant in self.participants:
            participant.checkpoint_started()
        with self._ctx.latch:
            self.map.build()
            # Selected under the same latch as the map: a database dirtied later belongs to the next checkpoint.
            maps = [db for db in self._catalog.loaded() if _needs_map_ln(db)]
        self._step("flush")
        self._flush_levels(maps)
        self._flush_catalog(maps)
        for participant in self.participants:
            participant.before_checkpoint_end()
        self._step("CkptEnd")
        highest = {db.id: self.map.highest(db) for db in self._catalog.loaded() if self.map.highest(db) >= 0}
        end = self._log_end(writer, invoker, checkpoint_id, start, first_active, deletes_files)
        # CkptEnd must be durable before a participant releases files: until then recovery needs the old ones.
        writer.flush(sync=True)
        self.last_id, self.last_start, self.last_end = checkpoint_id, start, end
        self.last_time_ms = self._clock()
        for participant in self.participants:
            participant.checkpoint_ended()
        return self._report(writer, invoker, first_active, highest, before)

    def _flush_levels(self, maps: list[DatabaseState]) -> None:
        """Step 5: flush the levels in ascending order until no level is left (R-CKPT-18)."""
        nodes = 0
        while True:
            with self._ctx.latch:
                level = self.map.lowest_level()
                if level is None:
                    return
                # MapLNs first: logging them dirties the mapping tree, which is flushed next.
                if level >= _LOWEST_MAPPING_LEVEL and maps:
                    self._log_maps(maps)
                entries = self.map.take_level(level)
            for entry in entries:
                with self._ctx.latch:
                    parent = self._take_and_flush(entry)
                    if parent is not None and self.high_priority:
                        self._flush_sub_tree(parent)
                if parent is not None and not self.high_priority:
                    self._flush_sub_tree(parent)
                # Parents come into the map as their children are logged, so the total may grow.
                left = len(self.map)
                nodes = max(nodes, left + 1)
                self._listener.step("checkpoint flush", nodes - left, nodes)

    def _take_and_flush(self, entry: SelectedNode) -> IN | None:
        """Log a node if it is still in the map and its level has to be flushed (R-CKPT-22)."""
        with self._ctx.latch:
            taken = self.map.take(entry.db, entry.node_id, entry.level)
            # Another thread may have logged the node meanwhile, or dropped its database.
            if taken is None or entry.level > self.map.highest(entry.db) or entry.db.deleted:
                return None
            return self._flush(taken)

    def _flush(self, entry: SelectedNode) -> IN | None:
        """Log one node of the map (R-CKPT-21); returns the parent of a logged BIN, None otherwise."""
        db = entry.db
        if entry.is_root:
            root = root_in_memory(db)
            if root is not None and root.is_root and root.node_id == entry.node_id and root.dirty:
                self._log(root, Provisional.NO)
                # R-CKPT-26: nothing leads to the new root until the MapLN, or the root entry, holds its LSN.
                self._naming.write_map_ln(db)
            return None
        found = find_parent(self._ctx, db, entry.node_id, entry.level, entry.ident)
        if found is None:
            return None
        parent, index = found
        # R-CKPT-21: logging the child changes the parent's slot.
        self.map.add_parent(parent)
        kid = parent.kids[index]
        # Evicted, split off or logged since it was selected.
        if kid is None or kid.node_id != entry.node_id or not kid.dirty:
            return None
        self._log(kid, checkpoint_provisional(entry.level, self.map.highest(db)))
        return parent if isinstance(kid, BIN) else None

    def _flush_sub_tree(self, parent: IN) -> None:
        """The dirty siblings of a BIN that are in the map, then their parent (R-CKPT-24).

        With ``high_priority`` the caller holds the latch throughout; otherwise other threads may take it between two
        nodes.
        """
        with self._ctx.latch:
            siblings = [kid for kid in parent.kids if isinstance(kid, BIN) and kid.dirty]
            waiting = [found for kid in siblings if (found := self.map.get(kid)) is not None]
        for entry in waiting:
            self._take_and_flush(entry)
        with self._ctx.latch:
            mine = self.map.get(parent)
            if mine is not None:
                self._take_and_flush(mine)

    def _log(self, node: IN, provisional: Provisional) -> None:
        delta_before = node.delta_lsn if isinstance(node, BIN) else NULL_LSN
        log_node(self._ctx, node, provisional, allow_delta=True)
        is_delta = isinstance(node, BIN) and node.delta_lsn not in (NULL_LSN, delta_before)
        # A delta is allowed, but a full BIN may be logged: so this is determined after logging.
        self._deltas += is_delta
        if not is_delta:
            self._counts[(node.level & LEVEL_MASK, "full")] += 1
        self._counts[(node.level & LEVEL_MASK, provisional.value)] += 1

    def _log_maps(self, maps: list[DatabaseState]) -> None:
        for db in maps:
            if _needs_map_ln(db):
                self._naming.write_map_ln(db)
        maps.clear()

    def _flush_catalog(self, maps: list[DatabaseState]) -> None:
        """Step 5b: the remaining MapLNs, and the root entry if it has changed."""
        with self._ctx.latch:
            self._log_maps(maps)
            catalog = self._catalog
            if catalog.mapping.dirty or catalog.naming.dirty or self._naming.root_lsn == NULL_LSN:
                self._naming.write_root()

    def _log_end(
        self, writer: LogWriter, invoker: str, checkpoint_id: int, start: int, first_active: int, deletes: bool
    ) -> int:
        catalog, txns = self._catalog, self._txns
        record = CkptEnd(
            invoker=invoker, time=self._clock(), ckpt_start_lsn=start,
            flags=HAS_ROOT | (CLEANED_FILES_TO_DELETE if deletes else 0), root_lsn=self._naming.root_lsn,
            first_active_lsn=first_active, last_local_node_id=self._ctx.node_ids.last,
            last_replicated_node_id=self.ids.replicated_node, last_local_db_id=catalog.last_local_db_id,
            last_replicated_db_id=catalog.last_replicated_db_id, last_local_txn_id=txns.last_id,
            last_replicated_txn_id=txns.last_replicated_id, last_local_extinction_id=self.ids.extinction,
            last_replicated_extinction_id=self.ids.replicated_extinction, id=checkpoint_id, cleaner_summary=(),
            completed_scan_ids=(),
        )  # fmt: skip
        return writer.log(CKPT_END, encode_ckpt_end(record, writer.version))

    def _report(
        self, writer: LogWriter, invoker: str, first_active: int, highest: dict[int, int], before: int
    ) -> CheckpointReport:
        full = {level: n for (level, kind), n in self._counts.items() if kind == "full"}
        flags = {key: n for key, n in self._counts.items() if key[1] != "full"}
        return CheckpointReport(
            id=self.last_id,
            invoker=invoker,
            ckpt_start_lsn=self.last_start,
            ckpt_end_lsn=self.last_end,
            first_active_lsn=first_active,
            root_lsn=self._naming.root_lsn,
            full_ins=sum(n for level, n in full.items() if level > 1),
            full_bins=full.get(1, 0),
            deltas=self._deltas,
            provisional=flags,
            highest=highest,
            interval_before=before,
            interval_after=writer.distance_from(self.last_start),
        )

    def _step(self, name: str) -> None:
        self._listener.step(f"checkpoint {name}", 0, 0)


def _needs_map_ln(db: DatabaseState) -> bool:
    """Whether a checkpoint logs a database's MapLN (R-CKPT-11).

    The MapLN of a temporary database is always logged: recovery removes the databases whose MapLNs it sees in its
    range.
    """
    return (db.dirty or db.temporary) and not db.deleted and db.id not in (0, 1)
