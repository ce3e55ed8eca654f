"""An environment: the databases in it, transactions, checkpoints, closing.

``engine.db.opening`` says what happens when it is opened, ``engine.db.parts`` what it is made of.

Example::

    with Environment("/data/env", EnvironmentConfig(create=True)) as env:
        orders = env.create_database("orders")
        with env.begin() as txn:
            orders.put(b"4711", b"three crates", txn=txn)
        print(orders.get(b"4711"))
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from engine.catalog.naming import DatabaseOptions
from engine.catalog.naming_replay import await_end
from engine.checkpoint.checkpointer import CheckpointReport
from engine.db.config import EnvironmentConfig, read_properties
from engine.db.daemons import Daemons
from engine.db.database import Database
from engine.db.opening import WriterLock, is_directory, lock_for_writing, open_parts
from engine.db.operation import WriteOperation
from engine.db.transaction import Transaction
from engine.errors import JetoolError, NotFoundError, RefusedError, UnsupportedError, UsageError
from engine.events import SILENT, Listener
from engine.format.entry.db_tree import ENV_PRESERVES_VLSN, ENV_REPLICATED
from engine.format.entry.ln import LN
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NEXT_VLSN
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.tree.state import DatabaseState
from engine.txn.manager import CommitGate
from engine.txn.txn import Durability, Isolation, Txn, TxnState


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


def _nothing() -> None:
    """What most naming operations have to do at one of the two ends."""


class _AtEnd(NamedTuple):
    """What a naming operation does when its transaction has ended."""

    committed: Callable[[], None]
    aborted: Callable[[], None]


class Environment:
    """An open environment.

    Arguments:
        home: its directory, or a storage that holds its files.
        config: how it is opened.
        listener: hears the steps of recovery and checkpoints.

    Attributes:
        stopped: it has been closed.

    Raises:
        NotFoundError: there is no environment, and none is to be created.
        RefusedError: another writer has it open; a restore marker; commits after a bad entry.
        DamageError: the log cannot be recovered.
        UnsupportedError: a log version that cannot be read.
    """

    def __init__(
        self, home: str | Path | Storage, config: EnvironmentConfig | None = None, listener: Listener = SILENT
    ) -> None:
        self.storage: Storage = DiskStorage(home) if isinstance(home, (str, Path)) else home
        given = config or EnvironmentConfig()
        self.config = given.with_params(read_properties(self.storage)) if is_directory(self.storage) else given
        self._lock: WriterLock | None = None
        self.stopped = False
        self._ends: dict[int, list[_AtEnd]] = {}
        try:
            if not self.config.read_only:
                self._lock = lock_for_writing(self.storage, self.config)
            self.parts = open_parts(self.storage, self.config, listener)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise
        parts = self.parts
        self.ctx, self.catalog, self.recovery, self.tail = parts.ctx, parts.catalog, parts.recovery, parts.tail
        self.locks, self.txns, self.records, self.naming = parts.locks, parts.txns, parts.records, parts.naming
        self.compressor, self.checkpointer, self.evictor = parts.compressor, parts.checkpointer, parts.evictor
        self.utilization, self.writer, self.vlsn_index = parts.utilization, parts.writer, parts.vlsn_index
        # Whether records may be written here without asking a replication group.
        self._on_its_own = not self.config.read_only and not self.replicated
        self.daemons = Daemons(self.config, parts)
        self.daemons.start()

    # What callers use.

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except JetoolError:
            # What went wrong first is what the caller has to hear of.
            if kind is None:
                raise

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

    def open_database(self, name: str, txn: Transaction | None = None) -> Database:
        """A handle of a database; close it when done.

        Arguments:
            txn: the transaction that may have created or renamed it; None sees what is committed.

        Raises:
            NotFoundError: there is none of that name.
            LockConflictError: a transaction that creates, removes or renames it does not end.
        """
        self._check_open()
        with self.ctx.latch:
            if self.locks.is_idle():
                # Nothing is uncommitted, and the latch keeps it so.
                return self._handle(name, self.catalog.by_name(name))
        locker = self.passing_locker() if txn is None else txn.inner
        try:
            return self._handle(name, self.naming.find(name, locker))
        finally:
            if txn is None:
                self.txns.end_operation(locker)

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
        if self.replicated and (options.deferred_write or options.temporary):
            raise UsageError(
                "databases of a replication group are transactional", found="a deferred-write or temporary database"
            )
        if options.temporary and txn is not None:
            raise UsageError(f"database {name} is temporary and takes no transactions")
        # The name of a temporary database has none either: recovery removes the database by its name (R-REC-60).
        with self.operation(txn, transactional=not options.temporary) as locker:
            state = self.naming.create(name, options, locker)
            self.at_end(locker, aborted=lambda: self.naming.finish_removal(state))
        return Database(self, state)

    def remove_database(self, name: str, txn: Transaction | None = None) -> None:
        """Remove a database and its records."""
        with self.operation(txn) as locker:
            state = self.naming.remove(name, locker)
            self.at_end(locker, committed=lambda: self.naming.finish_removal(state))

    def rename_database(self, old: str, new: str, txn: Transaction | None = None) -> None:
        """Give a database another name."""
        with self.operation(txn) as locker:
            state = self.naming.rename(old, new, locker)
            self.at_end(locker, committed=lambda: self.naming.finish_rename(state, new))

    def truncate_database(self, name: str, txn: Transaction | None = None) -> None:
        """Remove all records of a database."""
        with self.operation(txn) as locker:
            old, new = self.naming.truncate(name, locker)
            self.at_end(
                locker,
                committed=lambda: self.naming.finish_removal(old),
                aborted=lambda: self.naming.finish_removal(new),
            )

    def begin(
        self, *, isolation: Isolation = Isolation.REPEATABLE_READ, durability: Durability = Durability.SYNC
    ) -> Transaction:
        """Begin a transaction. As a context manager it commits at the end, and aborts on an error."""
        self.check_writes()
        replicated = not self._on_its_own and self.replicated
        return Transaction(self, self.txns.begin(isolation=isolation, durability=durability, replicated=replicated))

    def lead(self, gate: CommitGate) -> None:
        """Become the master of the replication group: from now on transactions are replicated.

        Transactions of an earlier master that recovery left open are aborted, as part of the stream.

        Arguments:
            gate: asked before and after every replicated commit.

        Raises:
            RefusedError: the environment is not replicated, is read-only, or has no VLSN index.
            UnsupportedError: its slots keep VLSNs.
        """
        self._check_writable()
        if self.vlsn_index is None:
            raise RefusedError("the environment has no VLSN index", file=self.storage.root)
        if self.catalog.flags & ENV_PRESERVES_VLSN:
            raise UnsupportedError(
                "the environment preserves record versions (je.rep.preserveRecordVersion)",
                file=self.storage.root,
                consequence="records cannot be written here without losing them",
            )
        self.txns.gate, self.txns.master_term = gate, self.now_ms()
        for txn in [txn for txn in self.txns.registered.values() if txn.id < 0]:
            txn.vlsn, txn.end = NEXT_VLSN, None
            self.restore_actions(txn)
            self._abort(txn)

    def follow(self) -> None:
        """Stop being the master: nobody but the replay of a stream writes from now on."""
        self.txns.gate = None

    @property
    def leads(self) -> bool:
        """Whether this is the master of its group."""
        return self.txns.gate is not None

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
            JetoolError: what a background thread has failed with; then there was no closing checkpoint.
        """
        if self.stopped:
            return
        self.stopped = True
        self.daemons.stop()
        left: list[int] = []
        try:
            writer = self.writer
            if writer is not None and not writer.failed:
                left = self._end_transactions()
                self._remove_temporary()
                if writer.last_lsn != self.checkpointer.last_end:
                    self.compressor.run()
                    self.checkpointer.run("close", force=True, minimize=True)
            if writer is not None:
                writer.close()
        finally:
            self._release()
        if self.daemons.failure is not None:
            raise self.daemons.failure
        if left:
            raise RefusedError(
                f"the environment was closed with open transactions: {', '.join(map(str, left))}",
                consequence="they have been aborted",
                hint="commit or abort transactions before closing",
            )

    def crash(self) -> None:
        """Stop without a word, as a crash would: nothing is written any more. For drills."""
        self.stopped = True
        if self.writer is not None:
            self.writer.invalidate(RefusedError("the environment has been stopped"))
        self.daemons.stop()
        if self.writer is not None:
            self.writer.close()
        self._release()

    # What databases and transactions use.

    def operation(
        self, txn: Transaction | None, *, db: DatabaseState | None = None, transactional: bool | None = None
    ) -> WriteOperation:
        """One writing operation, as a context whose value is its locker: see ``WriteOperation``.

        Arguments:
            db: what is written to; None for a naming operation.
            transactional: whether there is a transaction of its own; when None, as the database says.

        Raises:
            UsageError: a transaction for a deferred-write database.
            RefusedError: nothing can be written here.
        """
        self.check_writes()
        if txn is not None:
            if db is not None and db.deferred:
                raise UsageError(f"database {db.label} is deferred-write and takes no transactions")
            return WriteOperation(self, txn.inner, given=True)
        if transactional is None:
            transactional = db is None or db.transactional
        locker = self.txns.begin(transactional=transactional or self.replicated, replicated=self.replicated)
        return WriteOperation(self, locker, given=False)

    def commit(self, locker: Txn, durability: Durability | None = None) -> int:
        """Commit and run what waits for the commit."""
        try:
            return self.txns.commit(locker, durability)
        finally:
            # A group that has not acknowledged it is told to the caller; it is committed here all the same.
            if self._ends and locker.state is TxnState.COMMITTED:
                for action in self._ends.pop(locker.id, []):
                    action.committed()

    def at_end(
        self, locker: Txn, *, committed: Callable[[], None] = _nothing, aborted: Callable[[], None] = _nothing
    ) -> None:
        """Run an action when a transaction has committed, or when it has been aborted."""
        self._ends.setdefault(locker.id, []).append(_AtEnd(committed, aborted))

    def restore_actions(self, locker: Txn) -> None:
        """Note again what waits for the end of a transaction that recovery or a rollback has left open."""
        self._ends.pop(locker.id, None)
        lsn = locker.last_lsn
        while lsn != NULL_LSN:
            with self.ctx.latch:
                record = self.ctx.access.read(lsn).record()
            assert isinstance(record, LN)
            await_end(self.naming, record, locker, self.at_end)
            lsn = record.last_lsn

    def abort(self, locker: Txn) -> None:
        """Abort a transaction."""
        self._abort(locker)

    def after_write(self) -> None:
        """Keep the cache within its budget, and checkpoint when enough was written; called without the latch."""
        self.keep_budget()
        if self.config.run_checkpointer is False or not self.checkpointer.is_due():
            return
        if self.daemons.checkpointer is not None:
            self.daemons.checkpointer.wake()
            return
        self.compressor.run()
        self.checkpointer.run("daemon", wait=False)

    def keep_budget(self) -> None:
        """Evict when the nodes in memory take more than the cache may."""
        # As ``evictor.is_over``, without the call: every operation comes by.
        if self.ctx.used_bytes <= self.evictor.budget_bytes:
            return
        if self.daemons.evictor is not None:
            self.daemons.evictor.wake()
            if not self.evictor.is_critical():
                return
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
        return self.parts.clock()

    def prepared(self) -> dict[tuple[int, bytes, bytes], Transaction]:
        """Prepared transactions by their XID (format id, gtrid, bqual), to be committed or aborted (R-TXN-44)."""
        found = {}
        for txn_id, txn in self.txns.registered.items():
            left = self.recovery.resurrected.get(txn_id)
            if txn.state is TxnState.PREPARED and left is not None and left.prepare is not None:
                xid = (left.prepare.format_id, left.prepare.gtrid or b"", left.prepare.bqual or b"")
                found[xid] = Transaction(self, txn)
        return found

    # Small helpers.

    def _handle(self, name: str, state: DatabaseState | None) -> Database:
        if state is None:
            raise NotFoundError(
                f"no database of the name {name!r}", file=self.storage.root, hint="jetool dbs lists them"
            )
        return Database(self, state)

    def _abort(self, locker: Txn) -> None:
        actions = self._ends.pop(locker.id, [])
        self.txns.abort(locker)
        if self.writer is not None and not self.writer.failed:
            for action in actions:
                action.aborted()

    def _is_visible(self, db_id: int) -> bool:
        state = self.catalog.by_id(db_id)
        return state is not None and not state.temporary

    def _remove_temporary(self) -> None:
        """Temporary databases end with the environment (R-TREE-60)."""
        for state in self.catalog.loaded():
            if state.temporary and not self.replicated and state.name is not None:
                state.handles = 0
                txn = self.txns.begin(durability=Durability.NO_SYNC)
                self.naming.remove(state.name, txn)
                self.txns.commit(txn)
                self.naming.finish_removal(state)

    def _end_transactions(self) -> list[int]:
        left = []
        for txn in list(self.txns.registered.values()):
            if txn.state in (TxnState.OPEN, TxnState.ABORT_ONLY) and (txn.id > 0 or self.leads):
                left.append(txn.id)
                self._abort(txn)
        return left

    def _check_open(self) -> None:
        if self.stopped:
            raise RefusedError("the environment is closed", file=self.storage.root)

    def _check_writable(self) -> None:
        self._check_open()
        if self.read_only:
            raise RefusedError("the environment is open for reading only", file=self.storage.root)

    def check_writes(self) -> None:
        """Refuse to write records where that is not possible.

        Those of a replicated environment come from its master; here it can be recovered and checkpointed.
        """
        if self._on_its_own and not self.stopped:
            return
        self._check_writable()
        if self.replicated and not self.leads:
            raise RefusedError(
                "the environment belongs to a replication group",
                file=self.storage.root,
                consequence="a write that the group does not know would part this node from it",
                hint="write through the group's master",
            )

    def _release(self) -> None:
        self.ctx.access.close()
        if self.ctx.spill is not None:
            self.ctx.spill.close()
        if self._lock is not None:
            self._lock.release()
