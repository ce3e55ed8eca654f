"""All transactions of an environment: ids, registration, commit, abort, prepare (R-TXN-30, R-TXN-40 to R-TXN-46).

A transaction is registered from its creation until its locks are released: after the undo of an abort, not before, so
that a CkptStart that falls between the Abort entry and its undo still finds it (R-TXN-43).

Example: ``100 INS_LN_TX (T1) | 150 Abort (T1) | 160 CkptStart | undo of 100``. firstActive of that checkpoint is 100,
since T1 is registered until the undo is done; recovery reads from 100 and undoes it again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from engine.errors import JetoolError
from engine.format.entry.txn_end import Prepare, TxnEnd, encode_prepare, encode_txn_end
from engine.format.entry_types import ABORT, COMMIT, PREPARE
from engine.format.lsn import NULL_LSN
from engine.format.versions import WRITTEN_VERSION
from engine.tree.state import TreeContext
from engine.txn.locks import LockTable
from engine.txn.txn import Durability, Isolation, Txn, TxnState
from engine.txn.undo import DatabaseFinder, undo_txn

_MASTER_NONE: Final = 0


class TxnManager:
    """The transactions of one environment.

    Arguments:
        ctx: the trees.
        locks: the lock table.
        find: databases by id, for undo.
        last_id, last_replicated_id: where the id sequences stand.
        clock: milliseconds since 1970.
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
    ) -> None:
        self._ctx = ctx
        self._find = find
        self._mutex = threading.Lock()
        self._clock = clock or (lambda: int(time.time() * 1000))
        self.locks = locks
        self.last_id = last_id
        self.last_replicated_id = last_replicated_id
        self.registered: dict[int, Txn] = {}
        self.lock_timeout_ms = 500
        self.txn_timeout_ms = 0
        self.serializable = 0
        self.commits = self.aborts = 0
        self.compress_later: Callable[[Txn], None] | None = None

    def begin(
        self,
        *,
        isolation: Isolation = Isolation.REPEATABLE_READ,
        durability: Durability = Durability.SYNC,
        transactional: bool = True,
    ) -> Txn:
        """A new transaction; with ``transactional`` False a locker for one operation, which logs no id."""
        with self._mutex:
            self.last_id += 1
            txn = Txn(
                self.last_id,
                isolation=isolation,
                durability=durability,
                lock_timeout_ms=self.lock_timeout_ms,
                txn_timeout_ms=self.txn_timeout_ms,
                transactional=transactional,
            )
            if transactional:
                self.registered[txn.id] = txn
            self.serializable += isolation is Isolation.SERIALIZABLE
        return txn

    def adopt(self, txn: Txn) -> None:
        """Register a transaction that recovery left open."""
        with self._mutex:
            self.registered[txn.id] = txn

    def first_active_lsn(self) -> int:
        """The smallest first LSN among registered transactions; NULL_LSN when none has written (R-TXN-43)."""
        with self._mutex:
            return min((t.first_lsn for t in self.registered.values() if t.first_lsn != NULL_LSN), default=NULL_LSN)

    def commit(self, txn: Txn, durability: Durability | None = None) -> int:
        """Commit (R-TXN-40, R-TXN-41).

        Returns:
            LSN of the Commit; NULL_LSN when the transaction wrote nothing.

        Raises:
            RefusedError: the transaction is not open. StorageError: the Commit could not be written or synced; the
                transaction is then possibly committed and the environment invalid.
        """
        if txn.state is not TxnState.PREPARED:
            txn.check_usable()
        lsn = NULL_LSN
        writer = self._ctx.writer
        if txn.last_lsn != NULL_LSN and writer is not None:
            body = encode_txn_end(self._end(txn), WRITTEN_VERSION)
            old = [(b.lsn, b.size) for _, b in txn.writes.values() if b.countable and b.lsn != NULL_LSN]
            wanted = durability or txn.durability
            try:
                lsn = writer.log(COMMIT, body, obsolete_lns=old)
                if wanted is not Durability.NO_SYNC:
                    writer.flush(sync=wanted is Durability.SYNC)
            except JetoolError as error:
                txn.state = TxnState.POSSIBLY_COMMITTED
                writer.invalidate(error)
                raise
        txn.state = TxnState.COMMITTED
        self.commits += 1
        if txn.deleted and self.compress_later is not None:
            self.compress_later(txn)
        self._finish(txn)
        return lsn

    def abort(self, txn: Txn) -> None:
        """Abort: log it, take everything back, release the locks (R-TXN-42)."""
        if txn.state in (TxnState.COMMITTED, TxnState.ABORTED, TxnState.POSSIBLY_COMMITTED):
            txn.check_usable()
        writer = self._ctx.writer
        if txn.last_lsn != NULL_LSN and writer is not None:
            writer.log(ABORT, encode_txn_end(self._end(txn), WRITTEN_VERSION))
            undo_txn(self._ctx, self._find, txn)
        txn.state = TxnState.ABORTED
        self.aborts += 1
        if txn.last_lsn != NULL_LSN and self.compress_later is not None:
            self.compress_later(txn)
        self._finish(txn)

    def prepare(self, txn: Txn, format_id: int, gtrid: bytes, bqual: bytes) -> int:
        """First phase of a two-phase commit: durable, and open until decided (R-TXN-44). Returns its LSN."""
        txn.check_usable()
        writer = self._ctx.writer
        assert writer is not None
        record = Prepare(txn.id, self._clock(), format_id, gtrid, bqual)
        lsn = writer.log(PREPARE, encode_prepare(record, WRITTEN_VERSION))
        writer.flush(sync=True)
        txn.state = TxnState.PREPARED
        return lsn

    def end_operation(self, locker: Txn) -> None:
        """Release what a locker of one operation holds."""
        if locker.locks:
            self.locks.release_many(list(locker.locks), locker)
            locker.locks.clear()

    def _end(self, txn: Txn) -> TxnEnd:
        return TxnEnd(txn.last_lsn, txn.id, self._clock(), _MASTER_NONE, 0, 0)

    def _finish(self, txn: Txn) -> None:
        if txn.locks:
            self.locks.release_many(list(txn.locks), txn)
            txn.locks.clear()
        txn.writes.clear()
        with self._mutex:
            self.registered.pop(txn.id, None)
            self.serializable -= txn.isolation is Isolation.SERIALIZABLE
