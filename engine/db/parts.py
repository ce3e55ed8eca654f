"""The parts of an open environment, connected.

Lower packages call upwards through protocols that they define; this module connects the implementations. The
utilization tracker is the writer's observer and the recovery hook. Utilization and VLSN index are checkpoint
participants. The compressor gives the trees access to the locks of slots. Naming writes the MapLN of a database whose
tree has grown by a level.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.catalog.catalog import Catalog
from engine.catalog.name_operations import NamingOperations
from engine.checkpoint.checkpointer import Checkpointer, LastIds
from engine.cleaner.cleaner import Cleaner, CleanerSettings
from engine.cleaner.deletion import DeletionSettings
from engine.cleaner.disk_limits import DiskLimits
from engine.cleaner.expiration import ExpirationProfile
from engine.cleaner.file_processor import CleaningParts
from engine.cleaner.file_records import FileRecords
from engine.cleaner.file_states import FileStates
from engine.cleaner.selection import CleaningLimits, parse_file_ranges
from engine.cleaner.tracker import UtilizationTracker
from engine.db.compressor import Compressor
from engine.db.config import EnvironmentConfig
from engine.db.extinction import ExtinctionParts, Extinctions, ExtinctRecords
from engine.events import Listener
from engine.evictor.evictor import Evictor
from engine.format.entry.db_tree import ENV_REPLICATED
from engine.format.versions import NO_DATABASES_IN_RESERVED
from engine.log.access import LogAccess
from engine.log.group_commit import GroupSettings
from engine.log.tail import Tail
from engine.log.writer import LogWriter
from engine.recovery.result import RecoveryResult
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import root_in_memory
from engine.tree.node_log import settle
from engine.tree.spill import Spill
from engine.txn.locks import LockTable
from engine.txn.manager import TxnManager
from engine.txn.records import Records
from engine.vlsn.index import VLSNIndex

Clock = Callable[[], int]


class EnvironmentParts:
    """The parts of one environment.

    Arguments:
        config: how it is opened.
        ctx, catalog: trees and databases, recovered or new.
        utilization: the utilization as recovery has counted it.
        recovery: the result of recovery.
        listener: receives the steps of checkpoints.

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
        self.ctx = ctx
        self.catalog = catalog
        self.utilization = utilization
        self.recovery = recovery
        self.clock: Clock = config.clock or system_clock
        self.tail: Tail | None = None
        self.writer: LogWriter | None = None
        self.cleaner: Cleaner | None = None
        self.extinctions: Extinctions | None = None
        self._extinct = ExtinctRecords(ctx, catalog, config.extinction_status)
        ctx.may_be_extinct = self._extinct.may_be_gone
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

    def _is_temporary(self, db_id: int) -> bool:
        state = self.catalog.by_id(db_id)
        return state is not None and state.temporary

    def attach_writer(self, end_lsn: int, last_lsn: int, *, new_file: bool, data_directories: int) -> None:
        """Connect the log writer; from now on changes are logged.

        Arguments:
            end_lsn, last_lsn: the end of the log, and its last entry.
            new_file: begin a new file with the next entry.
            data_directories: number of directories that the log is spread over; 0 for none.
        """
        config = self.config
        expiration = ExpirationProfile(self.ctx, self.catalog, self.records, self.txns, end_lsn)
        self.ctx.expiring = expiration
        # Expiration comes before utilization, whose summaries then count the records that expiration writes.
        self.checkpointer.participants += [expiration, self.utilization]
        self.extinctions = self._make_extinctions()
        self.checkpointer.participants.append(self.extinctions)
        # The cleaner comes last: it may delete files only after all other participants have ended.
        self.cleaner = self._make_cleaner(expiration)
        self.checkpointer.participants.append(self.cleaner)
        # Load the cleaner's file states before the summaries: summaries of reserved files do not count.
        self.cleaner.load()
        # Load the stored summaries before the writer exists, which counts its first entry on top of them.
        self.utilization.load()
        self.writer = LogWriter(
            self.ctx.access,
            end_lsn,
            last_lsn,
            new_file=new_file,
            file_max=config.file_max_bytes,
            buffer_bytes=config.buffer_bytes,
            queue_bytes=config.queue_bytes if config.use_queue else 0,
            data_directories=data_directories,
            clock=self.clock,
            version=self.ctx.log_version,
            # Connected here, because every logged entry must be counted from the first one on.
            observer=self.utilization,
            group=GroupSettings(
                timeout_ms=config.fsync_timeout_ms,
                interval_ms=config.group_interval_ms,
                threshold=config.group_threshold,
            ),
        )
        self.ctx.writer = self.writer
        self.ctx.latch.unexpected = self.ctx.fail
        # Recovery does not set this; from now on transactions may lock slots.
        self.ctx.locks = self.compressor
        self.ctx.root_logged = self._root_logged
        self.naming.removed = self.utilization.count_removed
        roots = [root_in_memory(db) for db in self.catalog.loaded()]
        # ``settle`` comes last: it logs nodes, so everything above has to be connected.
        settle(self.ctx, [root for root in roots if root is not None])

    def _make_cleaner(self, expiration: ExpirationProfile) -> Cleaner:
        config = self.config
        parts = CleaningParts(
            ctx=self.ctx,
            catalog=self.catalog,
            naming=self.naming,
            txns=self.txns,
            locks=self.locks,
            utilization=self.utilization,
            states=FileStates(),
            between=self._keep_budget,
            now_ms=self.clock,
            purge_delay_ms=config.ttl_purge_delay_ms,
            look_ahead_bytes=config.cleaner_look_ahead_bytes,
            is_extinct=None if config.extinction_status is None else self._extinct.are_gone,
        )
        limits = CleaningLimits(
            min_utilization=config.cleaner_min_utilization,
            min_file_utilization=config.cleaner_min_file_utilization,
            min_age=config.cleaner_min_age,
            two_pass_gap=config.cleaner_two_pass_gap,
            two_pass_threshold=config.cleaner_two_pass_threshold,
        )
        deletion = DeletionSettings(
            expunge=config.cleaner_expunge,
            deletes=not config.keep_reserved_files,
            limits=DiskLimits(config.max_disk, config.free_disk, config.reserved_disk),
            ahead_bytes=3 * config.cleaner_interval_bytes,
            min_index_size=config.vlsn_min_size,
            replicated=bool(self.catalog.flags & ENV_REPLICATED),
        )
        settings = CleanerSettings(
            limits=limits,
            forced=parse_file_ranges(config.cleaner_force_files) if config.cleaner_force_files else (),
            reactivated=config.reactivated_files,
            gradual=config.cleaner_gradual,
            deletion=deletion,
            records_db_ids=self.ctx.log_version < NO_DATABASES_IN_RESERVED,
        )
        records = FileRecords(self.ctx, self.catalog, self.naming, self.records, self.txns)
        return Cleaner(parts, records, expiration, settings)

    def _make_extinctions(self) -> Extinctions:
        parts = ExtinctionParts(
            ctx=self.ctx,
            catalog=self.catalog,
            naming=self.naming,
            records=self.records,
            txns=self.txns,
            locks=self.locks,
            utilization=self.utilization,
            checkpointer=self.checkpointer,
            filters=self.config.extinction_filters,
            between=self._keep_budget,
        )
        return Extinctions(parts)

    def _keep_budget(self) -> None:
        if self.evictor.is_over():
            self.evictor.run()

    def _root_logged(self, db: DatabaseState) -> None:
        self.naming.write_map_ln(db)


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
