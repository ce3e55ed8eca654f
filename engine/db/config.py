"""Settings of an environment: the ``je.*`` parameters by their names, and ``je.properties`` (je-behaviour.md 0).

Precedence, as in JE: the file ``je.properties`` in the environment overrides the settings of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from engine.db.memory import default_cache_bytes, share_of_heap
from engine.errors import NotFoundError, UsageError, plural
from engine.format.versions import NEWEST_VERSION, WRITTEN_VERSION
from engine.storage.base import Storage
from engine.tree.comparators import SortKey
from engine.vlsn.limits import DEFAULT_CACHE_SIZE, DEFAULT_LIMITS, BucketLimits

if TYPE_CHECKING:
    from engine.catalog.catalog import Catalog
    from engine.cleaner.tracker import UtilizationTracker

PROPERTIES_FILE: Final = "je.properties"
# Recovering a smaller log takes less time than starting a process.
_WORTH_READING_AHEAD_BYTES: Final = 32 << 20


def read_ahead_for(jobs: int) -> int:
    """``EnvironmentConfig.read_ahead_bytes`` for a number of processes that recovery may use."""
    return _WORTH_READING_AHEAD_BYTES if jobs > 1 else 0


class ExtinctionStatus(Enum):
    """An application's answer about a record (JE's ExtinctionFilter); MAYBE_EXTINCT if that is not decided yet."""

    EXTINCT = "extinct"
    NOT_EXTINCT = "not extinct"
    MAYBE_EXTINCT = "maybe extinct"


class RecoveredParts(Protocol):
    """An environment after recovery: an ``engine.db.parts.EnvironmentParts``."""

    @property
    def catalog(self) -> Catalog:
        """The databases that recovery has found."""

    @property
    def utilization(self) -> UtilizationTracker:
        """The utilization that recovery has counted."""


@dataclass(frozen=True, slots=True)
class EnvironmentConfig:
    """How an environment is opened.

    Attributes:
        read_only: change nothing, lock nothing, create nothing.
        create: make the environment if it does not exist.
        replicated: a newly created environment belongs to a replication group.
        log_version: of a newly created environment, 17 to 26; an existing log is continued in its own version.
        transactional: operations without a transaction get one of their own.
        file_max_bytes: je.log.fileMax.
        buffer_bytes: je.log.bufferSize.
        queue_bytes, use_queue: je.log.writeQueueSize, je.log.useWriteQueue: size of the queue that buffers writes
            during an fsync.
        fsync_timeout_ms: je.log.fsyncTimeout: a thread that waits this long for a group commit syncs by itself.
        group_interval_ms, group_threshold: je.log.groupCommitInterval, je.log.groupCommitThreshold; 0 for none.
        node_max_entries: je.nodeMaxEntries, of new databases.
        bin_delta_percent: je.tree.binDelta.
        blind_puts: je.tree.binDeltaBlindPuts: give deltas the bloom filters that JE's blind puts use. Off by default,
            unlike in JE: nothing here reads the filters, and they slow checkpoints down.
        max_embedded_bytes: je.tree.maxEmbeddedLN.
        lock_timeout_ms, txn_timeout_ms: je.lock.timeout, je.txn.timeout; 0 for none.
        deadlock_detect, deadlock_delay_ms: je.lock.deadlockDetect, je.lock.deadlockDetectDelay.
        checkpoint_bytes: je.checkpointer.bytesInterval; with 0 no checkpoint is triggered by bytes.
        checkpoint_interval_ms: je.checkpointer.wakeupInterval; used only when ``checkpoint_bytes`` is 0.
        checkpoint_high_priority: je.checkpointer.highPriority.
        run_cleaner: je.env.runCleaner: clean in a thread; without it the log is cleaned only on request.
        cleaner_min_utilization, cleaner_min_file_utilization, cleaner_min_age, cleaner_two_pass_gap,
            cleaner_two_pass_threshold, cleaner_bytes, cleaner_interval_ms, cleaner_look_ahead_bytes, cleaner_expunge,
            cleaner_gradual, cleaner_force_files: je.cleaner.minUtilization, minFileUtilization, minAge, twoPassGap,
            twoPassThreshold, bytesInterval, wakeupInterval, lookAheadCacheSize, expunge, gradualExpiration,
            forceCleanFiles.
        keep_reserved_files: delete no reserved file.
        reactivated_files: numbers of reserved files that are in use, so that they are neither deleted nor taken for
            cleaned; ``Cleaner.reactivate`` removes their records.
        ttl_purge_delay_ms: je.env.ttlLnPurgeDelay: how long expired records are kept.
        max_disk, free_disk, reserved_disk: je.maxDisk, je.freeDisk, je.reservedDisk, in bytes; 0 for none. Unlike in
            JE, je.freeDisk defaults to 0: short commands must not fail on a disk that is nearly full.
        vlsn_min_size: je.rep.minVLSNIndexSize.
        run_checkpointer: je.env.runCheckpointer: True takes checkpoints in a thread, False only on request; with None
            the writing threads take them when they are due.
        run_evictor, run_compressor: je.env.runEvictor, je.env.runINCompressor: in threads of their own.
        compressor_interval_ms: je.compressor.wakeupInterval.
        flush_sync_ms, flush_no_sync_ms: je.log.flushSyncInterval, je.log.flushNoSyncInterval: how often a thread syncs,
            or writes out, commits that were made without sync; 0 for never.
        cache_bytes: je.maxMemory: the memory that nodes may take, during recovery too. Changed nodes beyond it are
            logged, or, where nothing can be logged, kept in the system's temporary directory. By default a share of the
            free memory (``engine.db.memory``); je.maxMemoryPercent is a share of a JVM's heap.
        cache_is_fixed: je.properties does not change ``cache_bytes``.
        read_ahead_bytes: if the log has at least this size, recovery may fork a process that reads ahead, in programs
            with one thread; 0 for never.
        halt_on_commit_after_bad: je.haltOnCommitAfterChecksumException: refuse to open when a Commit follows the first
            bad entry of the last file (D-5). On by default; if off, as in JE, the Commit is cut off.
        halt_on_record_after_bad: the same for records outside transactions, which JE promises to keep only after a
            checkpoint or a sync. Off by default: as in JE, these records are cut off.
        mark_damage: for long-running processes. A bad entry met after opening makes the environment invalid and leaves
            the restore marker, so that JE and this program refuse to open it (R-LOG-37, R-LOG-40). Otherwise only the
            operation that meets the bad entry fails.
        force_checkpoint, force_new_file: je.env.recoveryForceCheckpoint, je.env.recoveryForceNewFile.
        vlsn_stride, vlsn_mappings, vlsn_distance: je.rep.vlsn.stride, je.rep.vlsn.mappings, je.rep.vlsn.distance.
        vlsn_cache_size: je.rep.vlsn.logCacheSize, a power of two or 0.
        rebuild_vlsn_index: rebuild the VLSN index from the log instead of merging into the stored one.
        comparators: sort keys by Java class name.
        guess_orders: allow keys whose order is not known to be inserted where later searches of this open environment
            find them; for the files of a temporary view that is thrown away. Otherwise an environment that needs this
            is not opened for writing.
        extinction_filters: filters of extinct records by Java class name; they are called with the serialized filter
            and a key.
        extinction_status: called with the name of a database and a key (in an index: the primary key). Returns whether
            the application has discarded the record or is about to, like JE's ExtinctionFilter. The cleaner drops such
            a record without waiting for the task, and it is no error if the file of such a record is missing.
        before_writing: called with the recovered environment before anything on disk changes. If it raises, opening
            ends and nothing has changed.
        clock: gives milliseconds since 1970; None for the system clock.
    """

    read_only: bool = False
    create: bool = False
    replicated: bool = False
    log_version: int = WRITTEN_VERSION
    transactional: bool = True
    file_max_bytes: int = 10_000_000
    buffer_bytes: int = 1 << 20
    queue_bytes: int = 1 << 20
    use_queue: bool = True
    fsync_timeout_ms: int = 500
    group_interval_ms: int = 0
    group_threshold: int = 0
    node_max_entries: int = 128
    bin_delta_percent: int = 25
    blind_puts: bool = False
    max_embedded_bytes: int = 16
    lock_timeout_ms: int = 500
    txn_timeout_ms: int = 0
    deadlock_detect: bool = True
    deadlock_delay_ms: int = 0
    checkpoint_bytes: int = 20_000_000
    checkpoint_interval_ms: int = 0
    checkpoint_high_priority: bool = False
    run_cleaner: bool = False
    cleaner_min_utilization: int = 50
    cleaner_min_file_utilization: int = 5
    cleaner_min_age: int = 2
    cleaner_two_pass_gap: int = 10
    cleaner_two_pass_threshold: int = 0
    cleaner_bytes: int = 0
    cleaner_interval_ms: int = 10_000
    cleaner_look_ahead_bytes: int = 8192
    cleaner_expunge: bool = True
    cleaner_gradual: bool = True
    cleaner_force_files: str = ""
    keep_reserved_files: bool = False
    reactivated_files: frozenset[int] = frozenset()
    ttl_purge_delay_ms: int = 5_000
    max_disk: int = 0
    free_disk: int = 0
    reserved_disk: int = 512 << 20
    vlsn_min_size: int = 1000
    run_checkpointer: bool | None = None
    run_evictor: bool = False
    run_compressor: bool = False
    compressor_interval_ms: int = 5_000
    flush_sync_ms: int = 0
    flush_no_sync_ms: int = 0
    cache_bytes: int = field(default_factory=default_cache_bytes)
    cache_is_fixed: bool = False
    read_ahead_bytes: int = 0
    halt_on_commit_after_bad: bool = True
    halt_on_record_after_bad: bool = False
    mark_damage: bool = False
    force_checkpoint: bool = False
    force_new_file: bool = False
    vlsn_stride: int = DEFAULT_LIMITS.stride
    vlsn_mappings: int = DEFAULT_LIMITS.max_mappings
    vlsn_distance: int = DEFAULT_LIMITS.max_distance
    vlsn_cache_size: int = DEFAULT_CACHE_SIZE
    rebuild_vlsn_index: bool = False
    comparators: Mapping[str, SortKey] = field(default_factory=dict)
    guess_orders: bool = False
    extinction_filters: Mapping[str, Callable[[bytes, bytes], bool]] = field(default_factory=dict)
    extinction_status: Callable[[str, bytes], ExtinctionStatus] | None = None
    before_writing: Callable[[RecoveredParts], None] | None = None
    clock: Callable[[], int] | None = None

    def __post_init__(self) -> None:
        """UsageError if there is no such log version to create."""
        if not WRITTEN_VERSION <= self.log_version <= NEWEST_VERSION:
            raise UsageError(
                "a new environment cannot have this log version",
                expected=f"{WRITTEN_VERSION} to {NEWEST_VERSION}",
                found=str(self.log_version),
            )

    @property
    def cleaner_interval_bytes(self) -> int:
        """The number of log bytes after which the cleaner looks for work again (R-CLN-15)."""
        return self.cleaner_bytes or min(self.file_max_bytes // 4, _MOST_CLEANER_BYTES)

    @property
    def vlsn_limits(self) -> BucketLimits:
        """How the buckets of the VLSN index are filled."""
        return BucketLimits(self.vlsn_stride, self.vlsn_mappings, self.vlsn_distance)

    def with_background(self) -> EnvironmentConfig:
        """A copy with all background threads at JE's intervals, and ``mark_damage``, for long-running processes."""
        return replace(
            self,
            run_checkpointer=True,
            run_cleaner=True,
            run_evictor=True,
            run_compressor=True,
            flush_sync_ms=20_000,
            flush_no_sync_ms=5_000,
            mark_damage=True,
        )

    def with_params(self, params: Mapping[str, str]) -> EnvironmentConfig:
        """A copy with ``je.*`` parameters applied; parameters that this program does not use are ignored.

        Raises:
            UsageError: a value is not of the parameter's kind, or out of its range.
        """
        changes: dict[str, Any] = {}
        for name, text in params.items():
            known = PARAMETERS.get(name)
            if known is None or (known.field == "cache_bytes" and self.cache_is_fixed):
                continue
            value = known.parse(name, text.strip())
            # As in JE, je.maxMemory has precedence over je.maxMemoryPercent, unless it is 0.
            if name == _MEMORY_PERCENT:
                changes.setdefault(known.field, share_of_heap(int(str(value))))
            elif name != _MEMORY or value:
                changes[known.field] = value
        return replace(self, **changes)


_MEMORY: Final = "je.maxMemory"
_MEMORY_PERCENT: Final = "je.maxMemoryPercent"
_MOST_INT: Final = (1 << 31) - 1
_MOST_LONG: Final = 1 << 62
_MOST_SHOWN: Final = 80
_MOST_PROPERTIES_BYTES: Final = 1 << 20


def _shown(text: str) -> str:
    """A value for a message, no longer than a line."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} and {len(text) - _MOST_SHOWN} more"


class _Parameter(NamedTuple):
    """One ``je.*`` parameter: field, kind (int, long, ms, bool, text) and range. A time above 0 is at least 1 ms.

    As in JE, an int and a time in ms are at most 2^31 - 1, and a long is at most 2^62.
    """

    field: str
    kind: str
    least: int = 0
    limit: int | None = None

    @property
    def most(self) -> int:
        """The largest value."""
        if self.limit is not None:
            return self.limit
        return _MOST_LONG if self.kind == "long" else _MOST_INT

    def parse(self, name: str, text: str) -> object:
        if self.kind == "text":
            return text
        if self.kind == "bool":
            if text.lower() not in ("true", "false"):
                raise UsageError(f"{name} is true or false", found=_shown(text))
            return text.lower() == "true"
        try:
            value = _duration_ms(text) if self.kind == "ms" else int(text)
        # The text is not a number, has more digits than Python converts, or is infinite.
        except (ValueError, OverflowError):
            raise UsageError(f"{name} is a number", found=_shown(text)) from None
        if not self.least <= value <= self.most:
            raise UsageError(f"{name} is out of range", expected=f"{self.least}..{self.most}", found=_shown(text))
        return value


_MOST_CLEANER_BYTES: Final = 100 << 20

PARAMETERS: Final[dict[str, _Parameter]] = {
    "je.log.fileMax": _Parameter("file_max_bytes", "int", 1_000_000, 1 << 30),
    "je.log.bufferSize": _Parameter("buffer_bytes", "int", 1024),
    "je.log.writeQueueSize": _Parameter("queue_bytes", "int", 4096, 256 << 20),
    "je.log.useWriteQueue": _Parameter("use_queue", "bool"),
    "je.log.fsyncTimeout": _Parameter("fsync_timeout_ms", "ms", 10),
    "je.log.groupCommitInterval": _Parameter("group_interval_ms", "ms"),
    "je.log.groupCommitThreshold": _Parameter("group_threshold", "int"),
    "je.log.flushSyncInterval": _Parameter("flush_sync_ms", "ms"),
    "je.log.flushNoSyncInterval": _Parameter("flush_no_sync_ms", "ms"),
    "je.env.runCheckpointer": _Parameter("run_checkpointer", "bool"),
    "je.env.runEvictor": _Parameter("run_evictor", "bool"),
    "je.env.runINCompressor": _Parameter("run_compressor", "bool"),
    "je.compressor.wakeupInterval": _Parameter("compressor_interval_ms", "ms", 1_000, 75 * 60_000),
    "je.nodeMaxEntries": _Parameter("node_max_entries", "int", 4, 32767),
    "je.tree.binDelta": _Parameter("bin_delta_percent", "int", 0, 75),
    "je.tree.binDeltaBlindPuts": _Parameter("blind_puts", "bool"),
    "je.tree.maxEmbeddedLN": _Parameter("max_embedded_bytes", "int"),
    "je.lock.timeout": _Parameter("lock_timeout_ms", "ms"),
    "je.txn.timeout": _Parameter("txn_timeout_ms", "ms"),
    "je.checkpointer.bytesInterval": _Parameter("checkpoint_bytes", "long"),
    "je.checkpointer.wakeupInterval": _Parameter("checkpoint_interval_ms", "ms", 0, 75 * 60_000),
    "je.checkpointer.highPriority": _Parameter("checkpoint_high_priority", "bool"),
    "je.env.runCleaner": _Parameter("run_cleaner", "bool"),
    "je.cleaner.minUtilization": _Parameter("cleaner_min_utilization", "int", 0, 90),
    "je.cleaner.minFileUtilization": _Parameter("cleaner_min_file_utilization", "int", 0, 50),
    "je.cleaner.minAge": _Parameter("cleaner_min_age", "int", 1, 1000),
    "je.cleaner.twoPassGap": _Parameter("cleaner_two_pass_gap", "int", 1, 100),
    "je.cleaner.twoPassThreshold": _Parameter("cleaner_two_pass_threshold", "int", 0, 100),
    "je.cleaner.bytesInterval": _Parameter("cleaner_bytes", "long"),
    "je.cleaner.wakeupInterval": _Parameter("cleaner_interval_ms", "ms", 0, 3_600_000),
    "je.cleaner.lookAheadCacheSize": _Parameter("cleaner_look_ahead_bytes", "int"),
    "je.cleaner.expunge": _Parameter("cleaner_expunge", "bool"),
    "je.cleaner.gradualExpiration": _Parameter("cleaner_gradual", "bool"),
    "je.cleaner.forceCleanFiles": _Parameter("cleaner_force_files", "text"),
    "je.env.ttlLnPurgeDelay": _Parameter("ttl_purge_delay_ms", "ms"),
    "je.maxDisk": _Parameter("max_disk", "long"),
    "je.freeDisk": _Parameter("free_disk", "long"),
    "je.reservedDisk": _Parameter("reserved_disk", "long"),
    "je.rep.minVLSNIndexSize": _Parameter("vlsn_min_size", "int"),
    "je.lock.deadlockDetect": _Parameter("deadlock_detect", "bool"),
    "je.lock.deadlockDetectDelay": _Parameter("deadlock_delay_ms", "ms"),
    "je.env.recoveryForceNewFile": _Parameter("force_new_file", "bool"),
    "je.rep.vlsn.stride": _Parameter("vlsn_stride", "int", 1, (1 << 31) - 1),
    "je.rep.vlsn.mappings": _Parameter("vlsn_mappings", "int", 1, (1 << 31) - 1),
    "je.rep.vlsn.distance": _Parameter("vlsn_distance", "int", 1, (1 << 31) - 1),
    "je.rep.vlsn.logCacheSize": _Parameter("vlsn_cache_size", "int", 0, 1024),
    _MEMORY: _Parameter("cache_bytes", "long"),
    _MEMORY_PERCENT: _Parameter("cache_bytes", "int", 1, 90),
    "je.haltOnCommitAfterChecksumException": _Parameter("halt_on_commit_after_bad", "bool"),
    "je.env.recoveryForceCheckpoint": _Parameter("force_checkpoint", "bool"),
    "je.env.isReadOnly": _Parameter("read_only", "bool"),
    "je.env.isTransactional": _Parameter("transactional", "bool"),
}

_UNITS_MS: Final = {
    "ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000,
    "nanoseconds": 1e-6, "microseconds": 1e-3, "milliseconds": 1, "seconds": 1000, "minutes": 60_000,
    "hours": 3_600_000,
}  # fmt: skip


def read_properties(storage: Storage) -> dict[str, str]:
    """The parameters in the environment's ``je.properties``; empty without one."""
    try:
        file = storage.open(PROPERTIES_FILE)
    except NotFoundError:
        return {}
    try:
        if file.size() > _MOST_PROPERTIES_BYTES:
            raise UsageError(
                f"{PROPERTIES_FILE} is too long for a list of parameters",
                expected=f"up to {_MOST_PROPERTIES_BYTES} bytes",
                found=plural(file.size(), "byte"),
            )
        # Java writes these files in this encoding.
        text = file.read(0, _MOST_PROPERTIES_BYTES).decode("latin-1")
    finally:
        file.close()
    found = {}
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            name, _, value = stripped.partition("=")
            found[name.strip()] = value.strip()
    return found


def _duration_ms(text: str) -> int:
    """A time: a number of microseconds, as JE reads bare numbers, or a number with a unit such as ``500 ms``."""
    number, _, unit = text.partition(" ")
    if not unit:
        # Rounded away from 0, so that a negative time stays one.
        return -(-int(number) // 1000) if not number.strip().startswith("-") else int(number) // 1000
    scale = _UNITS_MS.get(unit.strip().lower())
    if scale is None:
        raise ValueError(unit)
    value = float(number) * scale
    return ceil(value) if value >= 0 else floor(value)
