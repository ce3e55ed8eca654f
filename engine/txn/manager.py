"""All transactions of an environment: ids, registration, commit, abort, prepare (R-TXN-30, R-TXN-40 to R-TXN-46).

A transaction is registered from its creation until its locks are released. An abort releases them after the undo, so
that a CkptStart between the Abort entry and the undo still finds the transaction (R-TXN-43).

Example: ``100 INS_LN_TX (T1) | 150 Abort (T1) | 160 CkptStart | undo of 100``. firstActive of that checkpoint is 100,
since T1 is registered until the undo is done; recovery reads from 100 and undoes it again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from engine.errors import JetoolError, UnsupportedError
from engine.format.entry.txn_end import Prepare, TxnEnd, encode_prepare, encode_txn_end
from engine.format.entry_types import ABORT, COMMIT, PREPARE
from engine.format.fast.txn_end import encode_local_end
from engine.format.lsn import NULL_LSN
from engine.format.versions import LAST_WITH_PREPARE
from engine.format.vlsn import NEXT_VLSN, NULL_VLSN
from engine.log.writer import LogWriter
from engine.tree.apply import has_own_ln
from engine.tree.context import TreeContext
from engine.txn.locks import LockTable
from engine.txn.txn import Durability, Isolation, StreamEnd, Txn, TxnState
from engine.txn.undo import DatabaseFinder, undo_txn


class Stamp(NamedTuple):
    """The fields that a master puts into a Commit or Abort: its own VLSN, the node's id, the DTVLSN."""

    vlsn: int
    master_id: int
    dtvlsn: int


class CommitGate(Protocol):
    """Called before and after a replicated commit is logged; implemented by the replication group."""

    def committing(self) -> None:
        """Called before the Commit is logged. Raises RefusedError: there are too few replicas to acknowledge it."""

    def stamp(self, *, awaited: bool) -> Stamp:
        """The stamp of the entry being logged; ``awaited`` for the Commit of a transaction that has written. Called
        under the log write latch.
        """

    def committed(self, txn: Txn) -> None:
        """Called after the Commit is logged, with its locks still held. Raises RefusedError: too few replicas
        acknowledged it.
        """


class TxnManager:
    """The transactions of one environment.

    Arguments:
        ctx: the trees.
        locks: the lock table.
        find: finds databases by id, for undo.
        last_id, last_replicated_id: current ends of the id sequences.
        clock: milliseconds since 1970.

    Attributes:
        master_term: time when this node became the master, in milliseconds since 1970; in replicated Commits since v22.
    """

    def __init__(
        self,
        ctx: TreeContext,
        locks: LockTable,
        find: DatabaseFinder,
        *,
        last_id: int = 0,
        last_replicated_id: int = -10,
        clock: Callable[[], int] | None = None,
        lock_timeout_ms: int = 500,
        txn_timeout_ms: int = 0,
        compress_later: Callable[[Txn], None] | None = None,
    ) -> None:
        self._ctx = ctx
        self._find = find
        self._mutex = threading.Lock()
        self._clock = clock or (lambda: int(time.time() * 1000))
        self.locks = locks
        self.last_id = last_id
        self.last_replicated_id = last_replicated_id
        self.registered: dict[int, Txn] = {}
        self.lock_timeout_ms = lock_timeout_ms
        self.txn_timeout_ms = txn_timeout_ms
        self.serializable = 0
        self.master_term = 0
        self.commits = self.aborts = 0
        self.compress_later = compress_later
        self.gate: CommitGate | None = None

    def begin(
        self,
        *,
        isolation: Isolation = Isolation.REPEATABLE_READ,
        durability: Durability = Durability.SYNC,
        transactional: bool = True,
        replicated: bool = False,
    ) -> Txn:
        """Begin a transaction; with ``transactional`` False, a locker for one operation, which logs no id.

        Arguments:
            replicated: whether its entries belong to the replication stream; for the master of a group.
        """
        with self._mutex:
            if replicated:
                self.last_replicated_id -= 1
            else:
                self.last_id += 1
            txn = Txn(
                self.last_replicated_id if replicated else self.last_id,
                isolation=isolation,
                durability=durability,
                lock_timeout_ms=self.lock_timeout_ms,
                txn_timeout_ms=self.txn_timeout_ms,
                transactional=transactional,
            )
            if replicated:
                txn.vlsn = NEXT_VLSN
            if transactional:
                # Allocate the id and register under one mutex: a checkpoint must not miss the transaction (R-TXN-43).
                self.registered[txn.id] = txn
            self.serializable += isolation is Isolation.SERIALIZABLE
        return txn

    def guards_gaps(self) -> bool:
        """Whether a serializable transaction is active."""
        return self.serializable > 0

    def adopt(self, txn: Txn) -> None:
        """Register a transaction that recovery left open, or that a master has begun."""
        with self._mutex:
            # If this node becomes the master, its ids continue after those of the stream.
            self.last_replicated_id = min(self.last_replicated_id, txn.id)
            self.registered[txn.id] = txn

    def note_replicated(self, txn_id: int) -> None:
        """Note the id of a stream transaction that needs no registration, since it consists of one entry."""
        with self._mutex:
            self.last_replicated_id = min(self.last_replicated_id, txn_id)

    def first_active_lsn(self) -> int:
        """The smallest first LSN of registered transactions; NULL_LSN if no transaction has written (R-TXN-43)."""
        with self._mutex:
            return min((t.first_lsn for t in self.registered.values() if t.first_lsn != NULL_LSN), default=NULL_LSN)

    def commit(self, txn: Txn, durability: Durability | None = None) -> int:
        """Commit (R-TXN-40, R-TXN-41).

        Returns:
            LSN of the Commit; NULL_LSN if the transaction wrote nothing.

        Raises:
            RefusedError: the transaction is not open; or, in a group, too few replicas are connected or have
                acknowledged it: in the latter case it is still committed here.
            StorageError: the Commit could not be written or synced. After this error, or an interrupt, the transaction
                is possibly committed and the environment invalid (R-TXN-45).
        """
        # A prepared transaction has promised to commit; nothing may prevent that now (R-TXN-44).
        if txn.state is not TxnState.PREPARED:
            txn.check_usable()
        lsn = NULL_LSN
        writer = self._ctx.writer
        gate = self.gate if txn.vlsn == NEXT_VLSN else None
        if txn.last_lsn != NULL_LSN and writer is not None:
            if gate is not None:
                # The group must refuse before anything is logged; later the Commit could not be undone.
                gate.committing()
            old = [(before.lsn, before.size) for db, before in txn.writes.values() if has_own_ln(before, db.duplicates)]
            wanted = durability or txn.durability
            try:
                # Obsolete versions are counted with the Commit: an abort would still need them (R-TXN-41).
                lsn = self._log_end(writer, COMMIT, txn, old)
                if wanted is not Durability.NO_SYNC:
                    writer.flush(sync=wanted is Durability.SYNC)
                txn.state = TxnState.COMMITTED
            except BaseException as error:
                # The Commit may be on disk: undo would contradict it after a restart (R-TXN-45).
                txn.state = TxnState.POSSIBLY_COMMITTED
                if isinstance(error, JetoolError):
                    writer.invalidate(error)
                self._ctx.fail(error)
                raise
        else:
            txn.state = TxnState.COMMITTED
        try:
            self.commits += 1
            if txn.deleted and self.compress_later is not None:
                self.compress_later(txn)
        except BaseException as error:
            # The locks of the transaction are never released, so the environment cannot be used any more.
            self._ctx.fail(error)
            raise
        try:
            if gate is not None and lsn != NULL_LSN:
                # The locks are still held, so that no local reader sees data that the group may still lose.
                gate.committed(txn)
        finally:
            self._finish(txn)
        return lsn

    def commit_nothing(self) -> int:
        """Log a Commit without an LN, to record the DTVLSN (je-ha-protocol.md 6.4); for a master. Returns its VLSN."""
        writer = self._ctx.writer
        assert writer is not None
        txn = self.begin(durability=Durability.NO_SYNC, replicated=True)
        try:
            self._log_end(writer, COMMIT, txn)
            writer.flush(sync=False)
        finally:
            txn.state = TxnState.COMMITTED
            self._finish(txn)
        return txn.end_vlsn

    def abort(self, txn: Txn) -> None:
        """Abort: log it, undo all changes, release the locks (R-TXN-42).

        In an environment that a failed write has made invalid nothing is undone, and the locks stay, so that no
        transaction sees these changes; recovery undoes them.
        """
        if txn.state in (TxnState.COMMITTED, TxnState.ABORTED, TxnState.POSSIBLY_COMMITTED):
            txn.check_usable()
        writer = self._ctx.writer
        if txn.last_lsn != NULL_LSN and writer is not None and writer.failed:
            txn.state = TxnState.ABORTED
            return
        if txn.last_lsn != NULL_LSN and writer is not None:
            try:
                # The entry first: after a crash during the undo, recovery undoes the rest (R-TXN-42).
                self._log_end(writer, ABORT, txn)
                undo_txn(self._ctx, self._find, txn)
            except BaseException as error:
                self._ctx.fail(error)
                raise
        txn.state = TxnState.ABORTED
        self.aborts += 1
        if txn.last_lsn != NULL_LSN and self.compress_later is not None:
            self.compress_later(txn)
        # Unregister last: until the undo is done, a checkpoint must see the first LSN of the transaction (R-TXN-43).
        self._finish(txn)

    def forget(self, txn: Txn) -> None:
        """End a transaction that a rollback has undone completely: release its locks, log nothing (R-SYNC-8)."""
        txn.state = TxnState.ABORTED
        self._finish(txn)

    def prepare(self, txn: Txn, format_id: int, gtrid: bytes, bqual: bytes) -> int:
        """First phase of a two-phase commit: the transaction becomes durable and stays open until it is committed or
        aborted (R-TXN-44). Returns the LSN of the Prepare.

        Raises:
            UnsupportedError: the log version belongs to a JE without prepared transactions, which would undo this
                transaction.
        """
        txn.check_usable()
        writer = self._ctx.writer
        assert writer is not None
        if writer.version > LAST_WITH_PREPARE:
            raise UnsupportedError(
                "a transaction cannot be prepared in this log",
                expected=f"log version {LAST_WITH_PREPARE} or earlier",
                found=str(writer.version),
                consequence="JE releases of this version do not know prepared transactions and would undo it",
                hint="commit or abort it",
            )
        record = Prepare(txn.id, self._clock(), format_id, gtrid, bqual)
        lsn = writer.log(PREPARE, encode_prepare(record, writer.version))
        # The coordinator may decide as soon as this returns, so the vote must be durable.
        writer.flush(sync=True)
        txn.state = TxnState.PREPARED
        return lsn

    def end_operation(self, locker: Txn) -> None:
        """Release the locks of a locker for one operation."""
        if locker.locks:
            self.locks.release_all(locker.locks, locker)

    def _log_end(
        self, writer: LogWriter, type_number: int, txn: Txn, obsolete_lns: Sequence[tuple[int, int]] = ()
    ) -> int:
        """Log the Commit or Abort; returns its LSN."""
        if txn.vlsn == NULL_VLSN:
            body = encode_local_end(txn.last_lsn, txn.id, self._clock(), writer.version)
            return writer.log(type_number, body, obsolete_lns=obsolete_lns)
        # Encoded under the log write latch, where the VLSN is known (R-LOG-8).
        awaited = type_number == COMMIT and txn.last_lsn != NULL_LSN
        return writer.log_in_stream(
            type_number, lambda: self._stamped_end(txn, awaited=awaited), txn.vlsn, obsolete_lns=obsolete_lns
        )

    def _stamped_end(self, txn: Txn, *, awaited: bool) -> bytes:
        """The body of a replicated transaction's end; called under the log write latch."""
        if txn.end is not None:
            txn.end_vlsn = txn.vlsn
            return self._encode_end(txn, txn.end)
        assert self.gate is not None
        txn.end_vlsn, master_id, dtvlsn = self.gate.stamp(awaited=awaited)
        return self._encode_end(txn, StreamEnd(self._clock(), master_id, dtvlsn, self.master_term))

    def _encode_end(self, txn: Txn, end: StreamEnd) -> bytes:
        writer = self._ctx.writer
        assert writer is not None
        record = TxnEnd(txn.last_lsn, txn.id, end.time_ms, end.master_id, end.dtvlsn, end.master_term)
        return encode_txn_end(record, writer.version)

    def _finish(self, txn: Txn) -> None:
        try:
            if txn.locks:
                self.locks.release_all(txn.locks, txn)
            txn.writes.clear()
            with self._mutex:
                self.registered.pop(txn.id, None)
                self.serializable -= txn.isolation is Isolation.SERIALIZABLE
        except BaseException as error:
            self._ctx.fail(error)
            raise
