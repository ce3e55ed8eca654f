"""An open environment from inside: its connected parts, and the operations on them.

``Environment`` wraps it for applications. ``Environment.engine`` gives it to code that needs the internals:
replication, the pipeline, checks and repairs. Such code takes an ``Engine`` and uses its parts, one step deep:
``engine.records.put(...)``. The Environment makes the handles of databases and transactions; they work on the Engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.checkpoint.checkpointer import CheckpointReport
from engine.db.config import EnvironmentConfig, read_properties
from engine.db.daemons import Daemons
from engine.db.startup import WriterLock, is_directory, lock_for_reading, lock_for_writing, open_for_reading
from engine.db.txn_ends import TxnEnds
from engine.errors import ClosedError, ReadOnlyError, RefusedError, UnsupportedError, plural
from engine.events import Listener
from engine.format.entry.db_tree import ENV_PRESERVES_VLSN, ENV_REPLICATED
from engine.format.lsn import format_lsn
from engine.format.vlsn import NEXT_VLSN
from engine.log.access import LogAccess
from engine.log.files import LogFile
from engine.log.latch import Latch
from engine.recovery.rollback_tracker import RollbackPeriod
from engine.storage.base import Lock, Storage
from engine.tree.context import NodeIds
from engine.tree.database_state import DatabaseState
from engine.txn.manager import CommitGate
from engine.txn.txn import Durability, Isolation, Txn, TxnState

if TYPE_CHECKING:
    from engine.vlsn.vlsn_range import VLSNRange


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


class Engine:
    """The connected parts of an open environment, and the operations on them.

    Arguments:
        storage: holds the files.
        config: how it is opened; ``je.properties`` overrides it.
        listener: receives the steps of recovery and checkpoints.

    Attributes:
        config: as it was opened.
        stopped: the environment has been closed, or has crashed.
        latch, access, node_ids: members of ``ctx``: the latch held during every access to a tree; entries by LSN; ids
            of new nodes.
        ctx, catalog, locks, txns, records, naming, compressor, checkpointer, evictor, utilization: the parts.
        recovery, tail: the result of recovery, and the end of the log at opening; ``tail`` is None in a new
            environment.
        writer, cleaner: None in a read-only environment.
        vlsn_index: present in a replicated environment that is open for writing.
        daemons, ends: the background threads; the actions that wait for the ends of transactions.
        stream_gaps: VLSNs (first, last) that the log lacks, if the index was rebuilt.

    Raises:
        NotFoundError, RefusedError, DamageError, UnsupportedError: see ``Environment``.
    """

    def __init__(self, storage: Storage, config: EnvironmentConfig, listener: Listener) -> None:
        self.storage = storage
        # The environment's own file overrides the caller, as in JE.
        self.config = config.with_params(read_properties(storage)) if is_directory(storage) else config
        self._lock: WriterLock | Lock | None = None
        self.stopped = False
        try:
            # Lock before the files are listed, so that no other process changes them.
            if self.config.read_only:
                self._lock = lock_for_reading(storage)
                self.parts = open_for_reading(storage, self.config, listener)
            else:
                # A quarter of the engine, which readers do not load.
                from engine.db.read_write.startup import open_for_writing

                self._lock = lock_for_writing(storage, self.config)
                self.parts = open_for_writing(storage, self.config, listener)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise
        parts = self.parts
        self.ctx, self.catalog, self.recovery, self.tail = parts.ctx, parts.catalog, parts.recovery, parts.tail
        self.latch: Latch = parts.ctx.latch
        self.access: LogAccess = parts.ctx.access
        self.node_ids: NodeIds = parts.ctx.node_ids
        self.locks, self.txns, self.records, self.naming = parts.locks, parts.txns, parts.records, parts.naming
        self.compressor, self.checkpointer, self.evictor = parts.compressor, parts.checkpointer, parts.evictor
        self.utilization, self.writer, self.vlsn_index = parts.utilization, parts.writer, parts.vlsn_index
        self.cleaner = parts.cleaner
        self.stream_gaps = parts.stream_gaps
        # Whether records may be written here without a replication group.
        self._on_its_own = not self.config.read_only and not self.replicated
        self.daemons = Daemons(self.config, parts)
        self.ends = TxnEnds(parts, self.daemons)
        self._limited = bool(self.config.max_disk or self.config.free_disk)
        self._flips = -1
        # Start the threads last, because they use the parts.
        self.daemons.start()

    @property
    def home(self) -> str:
        """The directory, as messages name it."""
        return self.storage.root

    @property
    def read_only(self) -> bool:
        """Whether the environment is open for reading only."""
        return self.config.read_only

    @property
    def replicated(self) -> bool:
        """Whether it belongs to a replication group."""
        return bool(self.catalog.flags & ENV_REPLICATED)

    @property
    def leads(self) -> bool:
        """Whether this is the master of its group."""
        return self.txns.gate is not None

    @property
    def end_lsn(self) -> int:
        """The current end of the log."""
        return self.writer.next_lsn if self.writer is not None else self.recovery.end_lsn

    @property
    def unseen(self) -> str | None:
        """What recovery could not use: commits or records after damage (D-5), or entries that changed (D-16)."""
        if self.tail is not None and self.tail.commits_at_risk:
            after = format_lsn(self.tail.end_lsn)
            lost = self.tail.commits_at_risk
            verb = "is" if lost == 1 else "are"
            return f"{plural(lost, 'committed transaction')} after damage at {after} {verb} not seen"
        if records := self.records_after_damage:
            assert self.tail is not None
            verb = "is" if records == 1 else "are"
            at = format_lsn(self.tail.end_lsn)
            return f"{plural(records, 'record')} outside transactions after damage at {at} {verb} not seen"
        if self.recovery.changed:
            return f"the entry at {self.recovery.changed[0].lsn} is damaged, and was read as it is"
        return None

    @property
    def records_after_damage(self) -> int:
        """See ``EnvironmentParts``."""
        return self.parts.records_after_damage

    @property
    def log_version(self) -> int:
        """The log version of new entries."""
        return self.ctx.log_version

    @property
    def rollback_periods(self) -> list[RollbackPeriod]:
        """The rollbacks that recovery met."""
        return self.recovery.periods

    def log_files(self) -> list[LogFile]:
        """The files of the log."""
        return self.access.files()

    @property
    def stream_range(self) -> VLSNRange:
        """The range of VLSNs present; the empty range in an environment without an index."""
        if self.vlsn_index is not None:
            return self.vlsn_index.range
        from engine.vlsn.vlsn_range import EMPTY_RANGE

        return EMPTY_RANGE

    def open_transactions(self) -> list[Txn]:
        """The transactions that are neither committed nor aborted."""
        return list(self.txns.registered.values())

    def open_transaction(self, txn_id: int) -> Txn | None:
        """The open transaction with this id."""
        return self.txns.registered.get(txn_id)

    def database(self, name: str) -> DatabaseState | None:
        """The database of a name, whether its creation has committed or not."""
        with self.latch:
            return self.catalog.by_name(name)

    def begin(
        self, *, isolation: Isolation = Isolation.REPEATABLE_READ, durability: Durability = Durability.SYNC
    ) -> Txn:
        """Begin a transaction that writes."""
        self.check_writes()
        replicated = not self._on_its_own and self.replicated
        return self.txns.begin(isolation=isolation, durability=durability, replicated=replicated)

    def lead(self, gate: CommitGate, term: int = 0) -> None:
        """Become the master of the replication group: from now on transactions are replicated.

        Transactions of an earlier master that recovery left open are aborted, as part of the stream.

        Arguments:
            gate: called before and after every replicated commit.
            term: when its term began, milliseconds since 1970; 0: now.

        Raises:
            RefusedError: the environment is not replicated, is read-only, or has no VLSN index.
            UnsupportedError: the slots of the environment keep VLSNs.
        """
        self.check_writable()
        if self.vlsn_index is None:
            raise RefusedError("the environment has no VLSN index", file=self.home)
        if self.catalog.flags & ENV_PRESERVES_VLSN:
            raise UnsupportedError(
                "the environment preserves record versions (je.rep.preserveRecordVersion)",
                file=self.home,
                consequence="records cannot be written here without losing them",
            )
        self.txns.gate, self.txns.master_term = gate, term or self.now_ms()
        # The Aborts are part of the stream, so that replicas end these transactions as well.
        for txn in [txn for txn in self.open_transactions() if txn.id < 0]:
            txn.vlsn, txn.end = NEXT_VLSN, None
            # Recovery registers no end actions. Without them a database that the transaction created would stay.
            self.ends.restore(txn)
            self.abort(txn)

    def follow(self) -> None:
        """Stop being the master: only the replay of a stream writes from now on."""
        self.txns.gate = None

    def checkpoint(
        self, *, force: bool = False, minimize: bool = False, kbytes: int = 0, minutes: int = 0, invoker: str = "api"
    ) -> CheckpointReport | None:
        """Take a checkpoint if one is due; see ``Checkpointer.run``."""
        self.check_writable()
        if self._limited:
            self._check_limits()
        self.compressor.run()
        return self.checkpointer.run(invoker, force=force, minimize=minimize, kbytes=kbytes, minutes=minutes)

    def compress(self) -> int:
        """Remove deleted slots and empty branches; returns the number of slots removed."""
        self.check_writable()
        return self.compressor.run()

    def clean(self) -> int:
        """Clean log files while one is worth it; returns how many were cleaned. The next checkpoints delete them.

        Raises:
            UnsupportedError: the environment preserves record versions. StorageError: the log cannot be written.
        """
        self.check_writable()
        assert self.cleaner is not None
        return self.cleaner.clean()

    def sync(self) -> None:
        """Make everything logged so far durable."""
        self.check_writable()
        assert self.writer is not None
        self.writer.flush(sync=True)

    def stats(self) -> EnvironmentStats:
        """The counters of the environment."""
        locks = self.locks.stats()
        writer = self.writer
        return EnvironmentStats(
            log_files=len(self.access.files()),
            end_lsn=writer.next_lsn if writer is not None else self.recovery.end_lsn,
            entries_logged=writer.entries if writer is not None else 0,
            log_reads=self.access.reads,
            file_flips=writer.flips if writer is not None else 0,
            syncs=writer.syncs if writer is not None else 0,
            commits=self.txns.commits,
            aborts=self.txns.aborts,
            active_transactions=len(self.txns.registered),
            locks=locks.locks,
            lock_waits=locks.waits,
            deadlocks=locks.deadlocks,
            nodes_in_memory=len(self.ctx.nodes),
            cache_bytes=self.ctx.used_bytes,
            checkpoints=self.checkpointer.last_id,
        )

    def close(self) -> None:
        """Close: abort open transactions, take a checkpoint if something was logged, release the lock (R-TXN-46).

        Raises:
            RefusedError: transactions were open; they have been aborted, except prepared ones, which stay open.
            JetoolError: the error of a background thread that has failed; then no closing checkpoint was taken.
        """
        if self.stopped:
            return
        self.stopped = True
        # Stop the threads first: none may begin a checkpoint while the parts are closed.
        self.daemons.stop()
        left: list[int] = []
        try:
            writer = self.writer
            if writer is not None and not writer.failed:
                # End transactions before the checkpoint, so that the log ends with nothing left to undo.
                left = self._end_transactions()
                self._remove_temporary()
                # Nothing was logged after the last CkptEnd: another checkpoint would record the same state.
                if writer.last_lsn != self.checkpointer.last_end:
                    self.compressor.run()
                    self.checkpointer.run("close", force=True, minimize=True)
            if writer is not None:
                writer.close()
        finally:
            self._release()
        if self.daemons.failure is not None:
            # Raised after the release of the lock, which must not depend on errors of threads.
            raise self.daemons.failure
        if left:
            raise RefusedError(
                f"the environment was closed with open transactions: {', '.join(map(str, left))}",
                consequence="they have been aborted",
                hint="commit or abort transactions before closing",
            )

    def crash(self) -> None:
        """Stop as a crash would: nothing more is written. For drills."""
        self.stopped = True
        if self.writer is not None:
            # Refuse writes before stopping the threads: their remaining work must not reach the log.
            self.writer.invalidate(RefusedError("the environment has been stopped"))
        self.daemons.stop()
        if self.writer is not None:
            self.writer.close()
        self._release()

    def commit(self, locker: Txn, durability: Durability | None = None) -> int:
        """Commit, and run the actions that wait for the commit."""
        finished = False
        try:
            try:
                return self.txns.commit(locker, durability)
            finally:
                # Also if the group has not acknowledged the commit: the caller gets the error, but here the transaction
                # is committed.
                if self.ends.waiting and locker.state is TxnState.COMMITTED:
                    self.ends.committed(locker)
                finished = True
        except BaseException as error:
            if not finished:
                # The transaction is committed, but its end actions did not all run, so memory may be wrong.
                self.ctx.fail(error)
            raise

    def commit_nothing(self) -> int:
        """Log a Commit without an LN, to record the DTVLSN; for a master. Returns its VLSN."""
        vlsn = self.txns.commit_nothing()
        self.after_write()
        return vlsn

    def abort(self, locker: Txn) -> None:
        """Abort a transaction, and run the actions that wait for the abort."""
        try:
            actions = self.ends.take(locker)
            self.txns.abort(locker)
            # After a failed write nothing was undone, so no action may run.
            if self.writer is not None and not self.writer.failed:
                for action in actions:
                    action.aborted()
        except BaseException as error:
            self.ctx.fail(error)
            raise

    def after_write(self) -> None:
        """Keep the cache within its budget, and checkpoint if enough was written; called without the latch."""
        self.keep_budget()
        cleaning = self.daemons.cleaner
        if cleaning is not None and self.daemons.cleaning_is_due():
            cleaning.wake()
        if self.config.run_checkpointer is False or not self.checkpointer.is_due():
            return
        if self.daemons.checkpointer is not None:
            # The thread takes the checkpoint; the writer whose write made it due does not wait.
            self.daemons.checkpointer.wake()
            return
        self.compressor.run()
        self.checkpointer.run("daemon", wait=False)

    def keep_budget(self) -> None:
        """Evict if the nodes in memory exceed the cache budget."""
        # The same as ``evictor.is_over``, without the call: this runs in every operation.
        if self.ctx.used_bytes <= self.evictor.budget_bytes:
            return
        if self.daemons.evictor is not None:
            self.daemons.evictor.wake()
            # Far over the budget the thread alone would not keep up (R-EVT-1).
            if not self.evictor.is_critical():
                return
        self.evictor.run()

    def check_log(self) -> None:
        """Refuse if nothing can be logged any more.

        Raises:
            JetoolError: the reason.
        """
        self.check_writable()
        assert self.writer is not None
        self.writer.check()

    def evict(self) -> int:
        """Evict everything that can be evicted; returns the number of nodes evicted."""
        self.check_open()
        return self.evictor.run(0)

    def passing_locker(self) -> Txn:
        """A locker for one read without a transaction."""
        return self.txns.begin(transactional=False)

    def now_ms(self) -> int:
        """The current time, for the expiration of records."""
        return self.parts.clock()

    def check_open(self) -> None:
        """Refuse an operation that needs an open environment."""
        if self.stopped:
            raise ClosedError("the environment is closed", file=self.home)

    def check_writable(self) -> None:
        """Refuse an operation that needs an environment open for writing."""
        self.check_open()
        if self.read_only:
            raise ReadOnlyError("the environment is open for reading only", file=self.home)

    def check_writes(self) -> None:
        """Refuse to write records where that is not possible.

        Records of a replicated environment come from its master; locally it can only be recovered and checkpointed.
        """
        if self._limited:
            self._check_limits()
        if self._on_its_own and not self.stopped:
            return
        self.check_writable()
        if self.replicated and not self.leads:
            raise RefusedError(
                "the environment belongs to a replication group",
                file=self.home,
                consequence="a write that the group does not get would make this node diverge from it",
                hint="write through the group's master",
            )

    def _check_limits(self) -> None:
        """Refuse to write while the log exceeds its disk limits (R-CLN-43)."""
        if self.cleaner is not None and self.writer is not None:
            deletion = self.cleaner.deletion
            # Checked again with every new file, and as long as a limit is exceeded.
            if self._flips != self.writer.flips or deletion.violation is not None:
                self._flips = self.writer.flips
                deletion.manage()
            if deletion.violation is not None:
                raise deletion.violation

    def _remove_temporary(self) -> None:
        """Remove the temporary databases, which end with the environment (R-TREE-60)."""
        for state in self.catalog.loaded():
            if state.temporary and not self.replicated and state.name is not None:
                state.handles = 0
                txn = self.txns.begin(durability=Durability.NO_SYNC)
                self.naming.remove(state.name, txn)
                self.txns.commit(txn)
                self.naming.finish_removal(state)

    def _end_transactions(self) -> list[int]:
        left = []
        for txn in self.open_transactions():
            # Prepared transactions wait for their coordinator, replicated ones for their master (R-TXN-46).
            if txn.state in (TxnState.OPEN, TxnState.ABORT_ONLY) and (txn.id > 0 or self.leads):
                left.append(txn.id)
                self.abort(txn)
        return left

    def _release(self) -> None:
        self.access.close()
        if self.ctx.spill is not None:
            self.ctx.spill.close()
        if self._lock is not None:
            self._lock.release()
