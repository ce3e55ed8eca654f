"""An environment: recovery when it is opened, the databases in it, the closing checkpoint.

Opening for writing, in this order: lock byte 0 of ``je.lck``; find the end of the log; refuse when committed
transactions stand behind a bad entry (D-5); recover in memory; cut the file at the end of the log and set invisible
bits; finish what committed naming operations left; take a checkpoint (R-REC-64). Nothing is changed before recovery has
succeeded.

Opening for reading takes no lock, creates nothing, and recovers in memory only; the log is seen as of that moment.

Example::

    with Environment("/data/env", EnvironmentConfig(create=True)) as env:
        orders = env.create_database("orders")
        with env.begin() as txn:
            orders.put(b"4711", b"three crates", txn=txn)
        print(orders.get(b"4711"))
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from engine.catalog.catalog import Catalog, empty_root
from engine.catalog.naming import DatabaseOptions, Naming
from engine.checkpoint.checkpointer import Checkpointer, CheckpointReport, LastIds
from engine.cleaner.tracker import UtilizationTracker
from engine.db.compressor import Compressor
from engine.db.config import EnvironmentConfig, read_properties
from engine.db.database import Database
from engine.db.transaction import Transaction
from engine.db.vlsn_store import DATABASE_NAME as VLSN_DATABASE
from engine.db.vlsn_store import HookGroup, StoredIndex, VLSNHook, VLSNParticipant
from engine.errors import NotFoundError, RefusedError, UnsupportedError
from engine.events import SILENT, Listener
from engine.evictor.evictor import Evictor
from engine.format.checksum import INVISIBLE
from engine.format.entry.db_tree import ENV_REPLICATED
from engine.format.entry.file_header import FILE_HEADER_BYTES
from engine.format.entry.ln import LN
from engine.format.lsn import NULL_LSN, file_of, format_lsn, make_lsn, offset_of
from engine.format.versions import PRIOR_VERSION, WRITTEN_VERSION
from engine.log.access import LogAccess
from engine.log.files import LogFiles, list_log_files
from engine.log.tail import Tail, find_end
from engine.log.writer import LogWriter
from engine.recovery.info import RecoveryResult
from engine.recovery.manager import Recovery
from engine.storage.base import Lock, Storage
from engine.storage.disk import DiskStorage
from engine.tree.apply import version_before
from engine.tree.state import DatabaseState, TreeContext
from engine.txn.lock_types import LockType
from engine.txn.locks import LockTable
from engine.txn.manager import TxnManager
from engine.txn.records import Records
from engine.txn.txn import Before, Durability, Isolation, Txn, TxnState
from engine.vlsn.index import VLSNIndex
from engine.vlsn.merge import open_index

LOCK_FILE: Final = "je.lck"
_WRITER_BYTE: Final = 0
_FLAGS_AT: Final = 5

# POSIX locks do not exclude threads of one process, so writers of this process are remembered here.
_open_for_writing: set[str] = set()
_open_mutex = threading.Lock()


class EnvironmentStats(NamedTuple):
    """Counters of an open environment; sizes in bytes."""

    log_files: int
    end_lsn: int
    entries_logged: int
    log_reads: int
    file_flips: int
    syncs: int
    commits: int
    aborts: int
    active_transactions: int
    locks: int
    lock_waits: int
    deadlocks: int
    nodes_in_memory: int
    cache_bytes: int
    checkpoints: int


class Environment:
    """An open environment.

    Arguments:
        home: its directory, or a storage that holds its files.
        config: how it is opened.
        listener: hears the steps of recovery and checkpoints.

    Raises:
        NotFoundError: there is no environment, and none is to be created.
        RefusedError: another writer has it open; a restore marker; commits behind a bad entry.
        DamageError: the log cannot be recovered.
        UnsupportedError: a log version that cannot be read, or not be written.
    """

    def __init__(
        self, home: str | Path | Storage, config: EnvironmentConfig | None = None, listener: Listener = SILENT
    ) -> None:
        self.storage: Storage = DiskStorage(home) if isinstance(home, (str, Path)) else home
        given = config or EnvironmentConfig()
        self.config = given.with_params(read_properties(self.storage)) if self._exists() else given
        self._listener = listener
        self._lock: Lock | None = None
        self._closed = False
        self._owned_root = ""
        self._data_directories = 0
        self._recovering = True
        self.vlsn_index: VLSNIndex | None = None
        self.writer: LogWriter | None = None
        self.recovery = RecoveryResult()
        self.tail: Tail | None = None
        try:
            if not self.config.read_only:
                self._lock_for_writing()
            self._open()
        except BaseException:
            self._release()
            raise

    # What callers use.

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def read_only(self) -> bool:
        """Whether nothing is changed."""
        return self.config.read_only

    @property
    def replicated(self) -> bool:
        """Whether it belongs to a replication group."""
        return bool(self.catalog.flags & ENV_REPLICATED)

    def database_names(self, *, internal: bool = False) -> list[str]:
        """Names of the databases, in the order of the naming tree."""
        with self.ctx.latch:
            found = list(self.catalog.names(internal=internal))
            return [name for name, db_id in found if self._is_visible(db_id)]

    def open_database(self, name: str) -> Database:
        """A handle of a database; close it when done.

        Raises:
            NotFoundError: there is none of that name.
        """
        self._check_open()
        with self.ctx.latch:
            state = self.catalog.by_name(name)
        if state is None:
            raise NotFoundError(
                f"no database of the name {name!r}", file=self.storage.root, hint="jetool dbs lists them"
            )
        return Database(self, state)

    def create_database(
        self, name: str, options: DatabaseOptions | None = None, txn: Transaction | None = None
    ) -> Database:
        """Make a database and open it.

        Arguments:
            options: how it is made.
            txn: the transaction that makes it; a transaction of its own otherwise.

        Raises:
            RefusedError: there is one of that name, or the environment is read-only.
        """
        options = options or DatabaseOptions(max_entries=self.config.node_max_entries)
        with self.operation(txn) as locker:
            state = self.naming.create(name, options, locker)
        state.transactional = self.config.transactional
        return Database(self, state)

    def remove_database(self, name: str, txn: Transaction | None = None) -> None:
        """Remove a database and its records."""
        with self.operation(txn) as locker:
            state = self.naming.remove(name, locker)
            self._after_commit(locker, lambda: self.naming.finish_removal(state))

    def rename_database(self, old: str, new: str, txn: Transaction | None = None) -> None:
        """Give a database another name."""
        with self.operation(txn) as locker:
            state = self.naming.rename(old, new, locker)
            self._after_commit(locker, lambda: self.naming.finish_rename(state, new))

    def truncate_database(self, name: str, txn: Transaction | None = None) -> None:
        """Remove all records of a database."""
        with self.operation(txn) as locker:
            old, _ = self.naming.truncate(name, locker)
            self._after_commit(locker, lambda: self.naming.finish_removal(old))

    def begin(
        self, *, isolation: Isolation = Isolation.REPEATABLE_READ, durability: Durability = Durability.SYNC
    ) -> Transaction:
        """Begin a transaction. As a context manager it commits at the end, and aborts on an error."""
        self._check_own_writes()
        return Transaction(self, self.txns.begin(isolation=isolation, durability=durability))

    def checkpoint(
        self, *, force: bool = False, minimize: bool = False, kbytes: int = 0, minutes: int = 0, invoker: str = "api"
    ) -> CheckpointReport | None:
        """Take a checkpoint if one is due; see ``Checkpointer.run``."""
        self._check_writable()
        self.compressor.run()
        return self.checkpointer.run(invoker, force=force, minimize=minimize, kbytes=kbytes, minutes=minutes)

    def compress(self) -> int:
        """Remove deleted slots and empty branches; returns how many slots went."""
        self._check_writable()
        return self.compressor.run()

    def sync(self) -> None:
        """Make everything logged so far durable."""
        self._check_writable()
        assert self.writer is not None
        self.writer.flush(sync=True)

    def stats(self) -> EnvironmentStats:
        """The counters."""
        locks = self.locks.stats()
        writer = self.writer
        return EnvironmentStats(
            len(self.ctx.access.files()), writer.next_lsn if writer is not None else self.recovery.end_lsn,
            writer.entries if writer is not None else 0, self.ctx.access.reads, writer.flips if writer is not None else
            0, writer.syncs if writer is not None else 0, self.txns.commits, self.txns.aborts,
            len(self.txns.registered), locks.locks, locks.waits, locks.deadlocks, len(self.ctx.nodes),
            self.ctx.used_bytes, self.checkpointer.last_id,
        )  # fmt: skip

    def close(self) -> None:
        """Close: abort what is open, take a checkpoint if something was logged, release the lock (R-TXN-46).

        Raises:
            RefusedError: transactions were open; they have been aborted, prepared ones left open.
        """
        if self._closed:
            return
        self._closed = True
        left: list[int] = []
        try:
            writer = self.writer
            if writer is not None and not writer.failed:
                left = self._end_transactions()
                if writer.last_lsn != self.checkpointer.last_end:
                    self.compressor.run()
                    self.checkpointer.run("close", force=True, minimize=True)
            if writer is not None:
                writer.close()
        finally:
            self._release()
        if left:
            raise RefusedError(
                f"the environment was closed with open transactions: {', '.join(map(str, left))}",
                consequence="they have been aborted",
                hint="commit or abort transactions before closing",
            )

    def crash(self) -> None:
        """Stop without a word, as a crash would: nothing is written any more. For drills."""
        self._closed = True
        if self.writer is not None:
            self.writer.invalidate(RefusedError("the environment has been stopped"))
            self.writer.close()
        self._release()

    # What databases and transactions use.

    @contextmanager
    def operation(self, txn: Transaction | None, *, db: DatabaseState | None = None) -> Iterator[Txn]:
        """The locker of one writing operation: the given transaction, one of its own, or none at all (R-TXN-34)."""
        self._check_own_writes()
        if txn is not None:
            yield txn.inner
            self.keep_budget()
            return
        transactional = self.config.transactional if db is None else db.transactional
        locker = self.txns.begin(transactional=transactional or db is None)
        try:
            yield locker
        except BaseException:
            if locker.transactional:
                self._abort(locker)
            else:
                self.txns.end_operation(locker)
            raise
        if locker.transactional:
            self.commit(locker)
        else:
            if locker.deleted:
                self.compressor.add(locker)
            self.txns.end_operation(locker)
        self.after_write()

    def commit(self, locker: Txn, durability: Durability | None = None) -> int:
        """Commit and run what waits for the commit."""
        lsn = self.txns.commit(locker, durability)
        for action in self._committed.pop(locker.id, []):
            action()
        return lsn

    def abort(self, locker: Txn) -> None:
        """Abort a transaction."""
        self._abort(locker)

    def after_write(self) -> None:
        """Keep the cache within its budget, and checkpoint when enough was written; called without the latch."""
        self.keep_budget()
        if self.checkpointer.is_due():
            self.compressor.run()
            self.checkpointer.run("daemon", wait=False)

    def keep_budget(self) -> None:
        """Evict when the nodes in memory take more than the cache may."""
        if self.evictor.is_over():
            self.evictor.run()

    def evict(self) -> int:
        """Evict everything that may leave; returns how many nodes did."""
        self._check_open()
        return self.evictor.run(0)

    def passing_locker(self) -> Txn:
        """A locker for one read without a transaction."""
        return self.txns.begin(transactional=False)

    def now_ms(self) -> int:
        """The time by which records expire."""
        return self._clock()

    # Opening.

    def _exists(self) -> bool:
        found = self.storage.stat()
        return found is not None and found.is_directory

    def _lock_for_writing(self) -> None:
        if not self._exists():
            if not self.config.create:
                raise NotFoundError(
                    "no such directory", file=self.storage.root, hint="check the path of the environment"
                )
            self.storage.make_directory("")
        if not self.config.create:
            list_log_files(self.storage)
        # Storages in memory exclude writers by their own locks.
        root = os.path.realpath(self.storage.root) if isinstance(self.storage, DiskStorage) else ""
        with _open_mutex:
            if root and root in _open_for_writing:
                raise RefusedError("the environment is open for writing in this process", file=self.storage.root)
            self.storage.open_rw(LOCK_FILE, create=True).close()
            self._lock = self.storage.lock(LOCK_FILE, _WRITER_BYTE, exclusive=True)
            if root:
                _open_for_writing.add(root)
                self._owned_root = root

    def _open(self) -> None:
        try:
            files = list_log_files(self.storage)
        except NotFoundError:
            if self.config.read_only or not self.config.create:
                raise
            self._create()
            return
        if self.config.create and not self.config.read_only and _holds_nothing(files):
            # A crash while the environment was being made: nothing was in it.
            self._create()
            return
        self._data_directories = files.data_directories
        self.tail = find_end(self.storage, files)
        if not self.config.read_only and self.config.create and self.tail.entries <= 1 and len(files.files) == 1:
            self._create()
            return
        if not self.config.read_only:
            self._check_tail(self.tail)
        self.ctx = self._context(LogAccess(self.storage, files.files))
        self.utilization = UtilizationTracker(self.ctx)
        self._vlsn_hook = VLSNHook()
        recovery = Recovery(
            self.ctx,
            self.tail,
            self.config.comparators,
            self._listener,
            resurrect=not self.config.read_only,
            hook=None if self.config.read_only else HookGroup(self.utilization, self._vlsn_hook),
        )
        self.catalog = recovery.run()
        self.recovery = recovery.result
        self._wire()
        if not self.config.read_only:
            self._make_writable(self.tail)

    def _check_tail(self, tail: Tail) -> None:
        """What forbids opening for writing; nothing has been changed yet."""
        if tail.commits_at_risk and self.config.halt_on_commit_after_bad:
            damage = tail.damage
            assert damage is not None
            raise RefusedError(
                f"{tail.commits_at_risk} committed transactions stand behind a bad entry",
                file=f"{self.storage.root}/{damage.path}",
                lsn=format_lsn(damage.lsn),
                consequence=f"opening for writing would cut away {tail.cut_bytes} bytes and lose them",
                hint="jetool salvage saves them; recover --accept-loss gives them up",
            )
        if tail.version > WRITTEN_VERSION:
            raise UnsupportedError(
                "the environment was written by a newer JE",
                file=self.storage.root,
                expected=f"log version {WRITTEN_VERSION} or earlier",
                found=str(tail.version),
                consequence="it can be read, not changed",
            )

    def _create(self) -> None:
        """A new environment (R-REC-2, je-log-format.md 9.6)."""
        self.recovery.new_environment = True
        self.ctx = self._context(LogAccess(self.storage, ()))
        self.catalog = Catalog(self.ctx, empty_root(), self.config.comparators)
        self.utilization = UtilizationTracker(self.ctx)
        self._wire()
        self._attach_writer(make_lsn(0, 0), NULL_LSN, new_file=False)
        self.naming.write_root()
        self._make_internal_databases()
        self.checkpointer.run("recovery", force=True, minimize=True)
        self._recovering = False

    def _context(self, access: LogAccess) -> TreeContext:
        ctx = TreeContext(access)
        ctx.max_embedded = self.config.max_embedded_bytes
        ctx.delta_percent = self.config.bin_delta_percent
        return ctx

    def _wire(self) -> None:
        """Connect the parts."""
        config, ctx = self.config, self.ctx
        self._clock = config.clock or _system_clock
        self._committed: dict[int, list[Callable[[], None]]] = {}
        self.locks = LockTable()
        self.txns = TxnManager(
            ctx,
            self.locks,
            self.catalog,
            last_id=self.recovery.ids.txn,
            last_replicated_id=self.recovery.ids.replicated_txn,
            clock=self._clock,
        )
        self.txns.lock_timeout_ms = config.lock_timeout_ms
        self.txns.txn_timeout_ms = config.txn_timeout_ms
        self.records = Records(ctx, self.locks)
        self.records.guards_gaps = lambda: self.txns.serializable > 0
        self.compressor = Compressor(ctx, self.locks)
        self.txns.compress_later = self.compressor.add
        self.naming = Naming(ctx, self.catalog, self.records, self.txns)
        self.naming.root_lsn = self.recovery.root_lsn
        self.checkpointer = Checkpointer(
            ctx,
            self.catalog,
            self.naming,
            self.txns,
            last_id=self.recovery.checkpoint_id,
            last_start=self.recovery.ckpt_start_lsn,
            last_end=self.recovery.ckpt_end_lsn,
            clock=self._clock,
            listener=self._listener,
        )
        ids = self.recovery.ids
        self.checkpointer.ids = LastIds(ids.replicated_node, ids.extinction, ids.replicated_extinction)
        self.checkpointer.bytes_interval = config.checkpoint_bytes
        self.evictor = Evictor(ctx, config.cache_bytes, self.checkpointer.map.eviction_provisional)

    def _attach_writer(self, end_lsn: int, last_lsn: int, *, new_file: bool) -> None:
        writer = LogWriter(
            self.ctx.access,
            end_lsn,
            last_lsn,
            new_file=new_file,
            file_max=self.config.file_max_bytes,
            buffer_bytes=self.config.buffer_bytes,
            data_directories=self._data_directories,
            clock=self._clock,
        )
        self.utilization.connect(self.catalog, self.naming, self.records, self.txns)
        self.checkpointer.participants.append(self.utilization)
        self.utilization.load()
        writer.observer = self.utilization
        self.writer = writer
        self.ctx.writer = writer
        self.ctx.locks = self.compressor
        self.ctx.root_logged = self._root_logged

    def _make_writable(self, tail: Tail) -> None:
        """Recovery has succeeded in memory; now the same on disk."""
        self._set_invisible(self.recovery.rolled_back)
        for path in tail.set_aside:
            self.storage.rename(path, _bad_name(self.storage, path))
        if tail.cut_bytes:
            file = self.storage.open_rw(tail.last_file.path)
            file.truncate(offset_of(tail.end_lsn))
            file.sync()
            file.close()
        self._attach_writer(tail.end_lsn, tail.last_lsn, new_file=tail.immutable or tail.version < WRITTEN_VERSION)
        self._resurrect()
        if tail.version < PRIOR_VERSION:
            self._put_names_into_map_lns()
        self._finish_naming()
        if self.replicated:
            self._open_vlsn_index()
        result = self.recovery
        if not result.last_entry_is_ckpt_end or self.config.force_checkpoint or self._is_changed():
            self.checkpointer.run("recovery", force=True, minimize=True)
        self._recovering = False

    def _open_vlsn_index(self) -> None:
        """Merge what recovery saw of the replication stream into the stored index (R-REC-63, R-VLSN-75)."""
        with self.ctx.latch:
            state = self.catalog.by_name(VLSN_DATABASE)
        if state is None:
            return
        self.vlsn_index = open_index(StoredIndex(self, state), recovered=self._vlsn_hook.tracker)
        self.checkpointer.participants.insert(0, VLSNParticipant(self.vlsn_index))

    def _is_changed(self) -> bool:
        return self.writer is not None and self.writer.entries > 0

    def _set_invisible(self, lsns: list[int]) -> None:
        """Mark entries of rollback periods that a crash left unmarked (R-LOG-46, R-RB-32)."""
        by_file: dict[int, list[int]] = {}
        for lsn in sorted(lsns):
            by_file.setdefault(file_of(lsn), []).append(offset_of(lsn))
        paths = {file.number: file.path for file in self.ctx.access.files()}
        for number, offsets in by_file.items():
            file = self.storage.open_rw(paths[number])
            for offset in offsets:
                flags = file.read(offset + _FLAGS_AT, 1)[0]
                file.write(offset + _FLAGS_AT, bytes((flags | INVISIBLE,)))
            file.sync()
            file.close()

    def _put_names_into_map_lns(self) -> None:
        """Since log version 16 every MapLN holds its database's name, and readers of later logs rely on it."""
        with self.ctx.latch:
            for name, db_id in list(self.catalog.names(internal=True)):
                state = self.catalog.by_id(db_id)
                if state is not None:
                    state.name, state.dirty = name, True

    def _resurrect(self) -> None:
        """Transactions that recovery leaves open keep their locks and their place in firstActive (R-REC-47, 51)."""
        for found in self.recovery.resurrected.values():
            txn = Txn(found.txn_id, lock_timeout_ms=0)
            txn.state = TxnState.PREPARED if found.prepare is not None else TxnState.OPEN
            txn.first_lsn, txn.last_lsn = found.first_lsn, found.last_lsn
            self.txns.adopt(txn)
            for lsn in reversed(found.lns):
                record = self.ctx.access.read(lsn).record()
                assert isinstance(record, LN)
                db = self.catalog.by_id(record.db_id)
                if db is not None:
                    self._relock(txn, db, record, lsn)

    def _relock(self, txn: Txn, db: DatabaseState, record: LN, lsn: int) -> None:
        self.locks.lock(lsn, txn, LockType.WRITE, wait=False)
        txn.locks[lsn] = None
        before = version_before(record)
        countable = before.lsn != NULL_LSN and not before.known_deleted and before.data is None and not db.duplicates
        txn.writes[lsn] = (
            db,
            Before(
                before.lsn,
                before.known_deleted,
                before.data,
                before.vlsn,
                before.expiration,
                record.prior_size,
                countable,
            ),
        )
        if record.data is None:
            txn.deleted.append((db, db.order.wrap(record.key)))

    def prepared(self) -> dict[tuple[int, bytes, bytes], Transaction]:
        """Prepared transactions by their XID (format id, gtrid, bqual), to be committed or aborted (R-TXN-44)."""
        found = {}
        for txn_id, txn in self.txns.registered.items():
            left = self.recovery.resurrected.get(txn_id)
            if txn.state is TxnState.PREPARED and left is not None and left.prepare is not None:
                xid = (left.prepare.format_id, left.prepare.gtrid or b"", left.prepare.bqual or b"")
                found[xid] = Transaction(self, txn)
        return found

    def _finish_naming(self) -> None:
        """Removals, truncations, renames that had committed; temporary databases (R-REC-60 to R-REC-62)."""
        for db_id in sorted(self.recovery.databases_removed):
            state = self.catalog.by_id(db_id)
            if state is not None:
                self.naming.finish_removal(state)
        for db_id, name in self.recovery.renamed.items():
            state = self.catalog.by_id(db_id)
            if state is not None and state.name != name:
                self.naming.finish_rename(state, name)
        with self.ctx.latch:
            found = list(self.catalog.names(internal=True))
        for name, db_id in found:
            state = self.catalog.by_id(db_id)
            if state is not None and state.temporary:
                with self.operation(None) as locker:
                    self.naming.remove(name, locker)
                self.naming.finish_removal(state)

    def _make_internal_databases(self) -> None:
        for name in ("_jeUtilization", "_jeReservedFilesDb", "_jeExpiration", "_jeExtinctScansDb"):
            txn = self.txns.begin(durability=Durability.NO_SYNC)
            self.naming.create(name, DatabaseOptions(), txn, internal=True)
            self.txns.commit(txn)

    # Small helpers.

    def _root_logged(self, db: DatabaseState) -> None:
        self.naming.write_map_ln(db)

    def _after_commit(self, locker: Txn, action: Callable[[], None]) -> None:
        self._committed.setdefault(locker.id, []).append(action)

    def _abort(self, locker: Txn) -> None:
        self._committed.pop(locker.id, None)
        self.txns.abort(locker)

    def _is_visible(self, db_id: int) -> bool:
        state = self.catalog.by_id(db_id)
        return state is not None and not state.temporary

    def _end_transactions(self) -> list[int]:
        left = []
        for txn in list(self.txns.registered.values()):
            if txn.state in (TxnState.OPEN, TxnState.ABORT_ONLY) and txn.id > 0:
                left.append(txn.id)
                self._abort(txn)
        return left

    def _check_open(self) -> None:
        if self._closed:
            raise RefusedError("the environment is closed", file=self.storage.root)

    def _check_writable(self) -> None:
        self._check_open()
        if self.read_only:
            raise RefusedError("the environment is open for reading only", file=self.storage.root)

    def _check_own_writes(self) -> None:
        """Records of a replicated environment come from its master; here it can be recovered and checkpointed."""
        self._check_writable()
        if self.replicated and not self._recovering:
            raise RefusedError(
                "the environment belongs to a replication group",
                file=self.storage.root,
                consequence="a write that the group does not know would part this node from it",
                hint="write through the group's master",
            )

    def _release(self) -> None:
        if hasattr(self, "ctx"):
            self.ctx.access.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        if self._owned_root:
            with _open_mutex:
                _open_for_writing.discard(self._owned_root)
            self._owned_root = ""


def _holds_nothing(files: LogFiles) -> bool:
    """Whether there is but a file 0 without room for a header."""
    return [file.number for file in files.files] == [0] and files.files[0].size_bytes < FILE_HEADER_BYTES


def _system_clock() -> int:
    import time

    return int(time.time() * 1000)


def _bad_name(storage: Storage, path: str) -> str:
    """The name under which a last file without any entry is kept (R-LOG-30)."""
    base = path.rsplit(".", 1)[0] + ".bad"
    name, count = base, 0
    while storage.stat(name) is not None:
        count += 1
        name = f"{base}.{count}"
    return name
