"""The parts that only an environment open for writing has: log writer, cleaner, expiration, and extinction tasks.

``EnvironmentParts`` has a place for each of them, which stays None in a read-only environment. Readers therefore load
neither this package nor the cleaner, the VLSN index and the extinction tasks: together a quarter of the engine.

Example: a new environment gets its writer at LSN 0/0, and the first entry that it logs is the header of file 0.
"""

from __future__ import annotations

from functools import partial

from engine.cleaner.cleaner import Cleaner, CleanerSettings
from engine.cleaner.deletion import DeletionSettings
from engine.cleaner.disk_limits import DiskLimits
from engine.cleaner.expiration import ExpirationProfile
from engine.cleaner.file_processor import CleaningParts
from engine.cleaner.file_records import FileRecords
from engine.cleaner.file_states import FileStates
from engine.cleaner.selection import CleaningLimits, parse_file_ranges
from engine.db.extinction import ExtinctionParts, Extinctions
from engine.db.parts import EnvironmentParts
from engine.format.entry.db_tree import ENV_REPLICATED
from engine.format.versions import NO_DATABASES_IN_RESERVED
from engine.log.group_commit import GroupSettings
from engine.log.writer import LogWriter
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import root_in_memory
from engine.tree.node_log import settle


def attach_writer(
    parts: EnvironmentParts, end_lsn: int, last_lsn: int, *, new_file: bool, data_directories: int
) -> None:
    """Connect the log writer; from now on changes are logged.

    Arguments:
        end_lsn, last_lsn: the end of the log, and its last entry.
        new_file: begin a new file with the next entry.
        data_directories: number of directories that the log is spread over; 0 for none.
    """
    config = parts.config
    expiration = ExpirationProfile(parts.ctx, parts.catalog, parts.records, parts.txns, end_lsn)
    parts.ctx.expiring = expiration
    # Expiration comes before utilization, whose summaries then count the records that expiration writes.
    parts.checkpointer.participants += [expiration, parts.utilization]
    parts.extinctions = _make_extinctions(parts)
    parts.checkpointer.participants.append(parts.extinctions)
    # The cleaner comes last: it may delete files only after all other participants have ended.
    parts.cleaner = _make_cleaner(parts, expiration)
    parts.checkpointer.participants.append(parts.cleaner)
    # Load the cleaner's file states before the summaries: summaries of reserved files do not count.
    parts.cleaner.load()
    # Load the stored summaries before the writer exists, which counts its first entry on top of them.
    parts.utilization.load()
    parts.writer = LogWriter(
        parts.ctx.access,
        end_lsn,
        last_lsn,
        new_file=new_file,
        file_max=config.file_max_bytes,
        buffer_bytes=config.buffer_bytes,
        queue_bytes=config.queue_bytes if config.use_queue else 0,
        data_directories=data_directories,
        clock=parts.clock,
        version=parts.ctx.log_version,
        # Connected here, because every logged entry must be counted from the first one on.
        observer=parts.utilization,
        group=GroupSettings(
            timeout_ms=config.fsync_timeout_ms,
            interval_ms=config.group_interval_ms,
            threshold=config.group_threshold,
        ),
    )
    parts.ctx.writer = parts.writer
    parts.ctx.latch.unexpected = parts.ctx.fail
    # Recovery does not set this; from now on transactions may lock slots.
    parts.ctx.locks = parts.compressor
    parts.ctx.root_logged = partial(_root_logged, parts)
    parts.naming.removed = parts.utilization.count_removed
    roots = [root_in_memory(db) for db in parts.catalog.loaded()]
    # ``settle`` comes last: it logs nodes, so everything above has to be connected.
    settle(parts.ctx, [root for root in roots if root is not None], parts.listener)


def _root_logged(parts: EnvironmentParts, db: DatabaseState) -> None:
    parts.naming.write_map_ln(db)


def _make_cleaner(parts: EnvironmentParts, expiration: ExpirationProfile) -> Cleaner:
    config = parts.config
    cleaning = CleaningParts(
        ctx=parts.ctx,
        catalog=parts.catalog,
        naming=parts.naming,
        txns=parts.txns,
        locks=parts.locks,
        utilization=parts.utilization,
        states=FileStates(),
        between=parts.keep_budget,
        now_ms=parts.clock,
        purge_delay_ms=config.ttl_purge_delay_ms,
        look_ahead_bytes=config.cleaner_look_ahead_bytes,
        is_extinct=None if config.extinction_status is None else parts.extinct_records.are_gone,
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
        replicated=bool(parts.catalog.flags & ENV_REPLICATED),
    )
    settings = CleanerSettings(
        limits=limits,
        forced=parse_file_ranges(config.cleaner_force_files) if config.cleaner_force_files else (),
        reactivated=config.reactivated_files,
        gradual=config.cleaner_gradual,
        deletion=deletion,
        records_db_ids=parts.ctx.log_version < NO_DATABASES_IN_RESERVED,
    )
    records = FileRecords(parts.ctx, parts.catalog, parts.naming, parts.records, parts.txns)
    return Cleaner(cleaning, records, expiration, settings)


def _make_extinctions(parts: EnvironmentParts) -> Extinctions:
    used = ExtinctionParts(
        ctx=parts.ctx,
        catalog=parts.catalog,
        naming=parts.naming,
        records=parts.records,
        txns=parts.txns,
        locks=parts.locks,
        utilization=parts.utilization,
        checkpointer=parts.checkpointer,
        filters=parts.config.extinction_filters,
        between=parts.keep_budget,
    )
    return Extinctions(used)
