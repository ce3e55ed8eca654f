"""The parts of an open environment, connected.

``engine.db.read_write`` adds the parts that only an environment open for writing has.

Lower packages call upwards through protocols that they define; this module connects the implementations. The
utilization tracker is the writer's observer and the recovery hook. Utilization and VLSN index are checkpoint
participants. The compressor gives the trees access to the locks of slots. Naming writes the MapLN of a database whose
tree has grown by a level.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.catalog.catalog import Catalog
from engine.catalog.name_operations import NamingOperations
from engine.checkpoint.checkpointer import Checkpointer, LastIds
from engine.cleaner.tracker import UtilizationTracker
from engine.db.compressor import Compressor
from engine.db.config import EnvironmentConfig
from engine.events import Listener
from engine.evictor.evictor import Evictor
from engine.log.access import LogAccess
from engine.log.tail import Tail
from engine.recovery.result import RecoveryResult
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.spill import Spill
from engine.txn.locks import LockTable
from engine.txn.manager import TxnManager
from engine.txn.records import Records

if TYPE_CHECKING:
    # Loaded only with an environment that is open for writing, or for records whose files are missing.
    from engine.cleaner.cleaner import Cleaner
    from engine.db.extinction import Extinctions, ExtinctRecords
    from engine.log.writer import LogWriter
    from engine.tree.keys import Key
    from engine.vlsn.index import VLSNIndex

Clock = Callable[[], int]


class EnvironmentParts:
    """The parts of one environment.

    Arguments:
        config: how it is opened.
        ctx, catalog: trees and databases, recovered or new.
        utilization: the utilization as recovery has counted it.
        recovery: the result of recovery.
        listener: receives the steps of checkpoints, and of logging what recovery has changed.

    Attributes:
        tail: the end of the log at opening; None for a new environment.
        writer, cleaner: None in a read-only environment.
        extinctions: tasks that discard records; None in a read-only environment.
        vlsn_index: present in a replicated environment that is open for writing.
        stream_gaps: VLSNs (first, last) that the log lacks, if the index was rebuilt; the index begins after the last
            gap.
    """

    def __init__(
        self,
        config: EnvironmentConfig,
        ctx: TreeContext,
        catalog: Catalog,
        utilization: UtilizationTracker,
        recovery: RecoveryResult,
        listener: Listener,
    ) -> None:
        self.config = config
        self.listener = listener
        self.ctx = ctx
        self.catalog = catalog
        self.utilization = utilization
        self.recovery = recovery
        self.clock: Clock = config.clock or system_clock
        self.tail: Tail | None = None
        self.writer: LogWriter | None = None
        self.cleaner: Cleaner | None = None
        self.extinctions: Extinctions | None = None
        self._extinct_records: ExtinctRecords | None = None
        ctx.may_be_extinct = self._may_be_extinct
        self.vlsn_index: VLSNIndex | None = None
        self.stream_gaps: tuple[tuple[int, int], ...] = ()
        self.locks = LockTable(
            deadlock_detect=config.deadlock_detect, deadlock_detect_delay_ms=config.deadlock_delay_ms
        )
        ids = recovery.ids
        self.compressor = Compressor(ctx, self.locks)
        self.txns = TxnManager(
            ctx,
            self.locks,
            catalog,
            last_id=ids.txn,
            last_replicated_id=ids.replicated_txn,
            clock=self.clock,
            lock_timeout_ms=config.lock_timeout_ms,
            txn_timeout_ms=config.txn_timeout_ms,
            compress_later=self.compressor.add,
        )
        self.records = Records(ctx, self.locks, self.clock, self.txns.guards_gaps)
        self.naming = NamingOperations(ctx, catalog, self.records, self.txns, recovery.root_lsn)
        utilization.connect(catalog, self.naming, self.records, self.txns)
        self.checkpointer = Checkpointer(
            ctx,
            catalog,
            self.naming,
            self.txns,
            last_id=recovery.checkpoint_id,
            last_start=recovery.ckpt_start_lsn,
            last_end=recovery.ckpt_end_lsn,
            ids=LastIds(ids.replicated_node, ids.extinction, ids.replicated_extinction),
            bytes_interval=config.checkpoint_bytes,
            time_interval_ms=config.checkpoint_interval_ms,
            high_priority=config.checkpoint_high_priority,
            clock=self.clock,
            listener=listener,
        )
        self.evictor = Evictor(ctx, config.cache_bytes, self.checkpointer.map.eviction_provisional)

    @property
    def records_after_damage(self) -> int:
        """Number of intact records after the damage that ends the log. Only records outside transactions, in databases
        of users that are not temporary, count.
        """
        records = () if self.tail is None else self.tail.after.records
        if not records:
            return 0
        with self.ctx.latch:
            users = {db_id for _, db_id in self.catalog.names()}
            kept = {db_id for db_id, _ in records if db_id in users and not self._is_temporary(db_id)}
        return sum(count for db_id, count in records if db_id in kept)

    @property
    def extinct_records(self) -> ExtinctRecords:
        """Which records are gone, or may be, although slots still lead to them."""
        if self._extinct_records is None:
            # Few environments have a slot whose record may be gone.
            from engine.db.extinction import ExtinctRecords

            self._extinct_records = ExtinctRecords(self.ctx, self.catalog, self.config.extinction_status)
        return self._extinct_records

    def keep_budget(self) -> None:
        """Evict if the nodes in memory exceed the cache; called when no node is in use."""
        if self.evictor.is_over():
            self.evictor.run()

    def _may_be_extinct(self, db: DatabaseState, key: Key) -> bool:
        return self.extinct_records.may_be_gone(db, key)

    def _is_temporary(self, db_id: int) -> bool:
        state = self.catalog.by_id(db_id)
        return state is not None and state.temporary


def make_context(config: EnvironmentConfig, access: LogAccess) -> TreeContext:
    """Empty trees over a log."""
    return TreeContext(
        access,
        max_embedded=config.max_embedded_bytes,
        delta_percent=config.bin_delta_percent,
        blind_puts=config.blind_puts,
        spill=Spill(),
    )


def system_clock() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)
