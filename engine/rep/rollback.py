"""Rollback of a running replica to a matchpoint (R-SYNC-7 to R-SYNC-12, R-SYNC-25 to R-SYNC-27).

*Soft rollback*, if no commit and no abort follows the matchpoint M; its steps, in this order:

1. Log RollbackStart (M, ids of the open transactions) and fsync. Nothing is changed before it is durable.
2. Undo, in memory, every LN > M of these transactions along its chain: each record returns to its version at M, even if
   the same transaction wrote that version. A transaction with no LN left is closed; others keep their locks.
3. Set the invisible bit of those LNs, and of Matchpoints between them, in the files.
4. Fsync the files.
5. Log RollbackEnd and fsync.
6. Cut the VLSN index after M, durably. The next VLSN is M + 1.

No checkpoint is taken meanwhile: a checkpoint after step 5 would contain the index from before step 6, and recovery
would begin after the RollbackStart by which it corrects the index.

After a crash after step 1 recovery finishes the open period; after step 5 nothing is left to do.

*Hard recovery*, if commits or aborts follow M: the log is cut physically at M, including M, and reopened. It is
prohibited if more durable commits than a limit would be lost.

Example (E-RB-4), M below 31: ``31 UPD A, 32 DEL A, 33 UPD B`` | RollbackStart | 33 -> 20, 32 -> 31, 31 -> 10 | bits |
RollbackEnd.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.db.engine import Engine
from engine.db.environment import Environment
from engine.db.read_write.startup import bad_name
from engine.errors import DamageError, JetoolError, RefusedError
from engine.events import SILENT, Listener
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import NameLN, NameOperation
from engine.format.entry.rollback import RollbackEnd, RollbackStart, encode_rollback_end, encode_rollback_start
from engine.format.entry_types import ROLLBACK_END, ROLLBACK_START
from engine.format.lsn import NULL_LSN, file_of, format_lsn, offset_of
from engine.log.files import list_log_files
from engine.log.writer import LogWriter
from engine.storage.base import Storage
from engine.tree.apply import undo_ln
from engine.tree.database_state import DatabaseState
from engine.txn.chain import TxnChain
from engine.txn.rollback import ChainReader, relock, set_invisible, visible_matchpoints
from engine.txn.txn import Txn
from engine.txn.undo import count_undone
from engine.vlsn.index import VLSNIndex

_MAKES_DATABASE: Final = (1, 3)
_PIECE_BYTES: Final = 1 << 20


class MatchpointLocation(NamedTuple):
    """Where two nodes agree: The place to go back to: its VLSN, and its LSN on this node."""

    vlsn: int
    lsn: int


class RollbackProhibitedError(RefusedError):
    """A hard recovery would lose more durable commits than allowed; the message names the place for a manual cut."""

    kind = "rollback_prohibited"


class SoftRollback:
    """One soft rollback of an environment without writers.

    Arguments:
        engine: detached; none of its threads is running.
        matchpoint: the place to go back to.
        listener: called before each step.
    """

    def __init__(self, engine: Engine, matchpoint: MatchpointLocation, listener: Listener = SILENT) -> None:
        self._engine = engine
        self._to = matchpoint
        self._listener = listener
        self._hidden: list[int] = []
        self._unmade: list[DatabaseState] = []

    def run(self) -> int:
        """Do all steps.

        Returns:
            The number of entries that became invisible.

        Raises:
            DamageError: the chain of a transaction is broken. StorageError: the log cannot be written.
            JetoolError: a commit or an abort follows the matchpoint.
        """
        engine, vlsn = self._engine, self._to.vlsn
        index, writer = engine.vlsn_index, engine.writer
        assert index is not None
        assert writer is not None
        if index.range.last == vlsn:
            return 0
        if index.range.last_txn_end > vlsn:
            raise JetoolError("a soft rollback must not pass a commit or an abort", found=str(index.range))
        with engine.checkpointer.held():
            self._roll_back(index, writer)
        for state in self._unmade:
            engine.naming.finish_removal(state)
        return len(self._hidden)

    def _roll_back(self, index: VLSNIndex, writer: LogWriter) -> None:
        """The six steps."""
        engine, (vlsn, lsn) = self._engine, self._to
        active = {txn.id: txn for txn in engine.open_transactions() if txn.id < 0}
        self._step("RollbackStart")
        begun = RollbackStart(vlsn, lsn, engine.now_ms(), tuple(active))
        start = writer.log(ROLLBACK_START, encode_rollback_start(begun, writer.version))
        # RollbackStart is durable before any change: recovery finishes a rollback only if it finds the start
        # (R-SYNC-9).
        writer.flush(sync=True)
        self._step("undo")
        for txn in active.values():
            self._undo(txn)
        # JE leaves Matchpoints visible; here they are hidden, so that each VLSN is visible only once.
        self._hidden += visible_matchpoints(engine.access, lsn, start)
        self._step("invisible bits")
        set_invisible(engine.access, self._hidden)
        self._step("RollbackEnd")
        # The bits must be on disk, since recovery does not mark the entries of a closed period again (R-RB-33).
        ended = RollbackEnd(lsn, start, engine.now_ms())
        writer.log(ROLLBACK_END, encode_rollback_end(ended, writer.version))
        writer.flush(sync=True)
        self._step("VLSN index")
        # Cut the index last: if a crash prevents that, recovery does it by the RollbackStart (R-VLSN-71).
        index.truncate_tail(vlsn + 1, lsn)

    def _undo(self, txn: Txn) -> None:
        """Undo the changes of one transaction after the matchpoint."""
        engine, ctx = self._engine, self._engine.ctx
        chain = TxnChain(txn.last_lsn, txn.id, self._to.lsn, ChainReader(ctx, engine.catalog))
        lsn = txn.last_lsn
        while lsn != NULL_LSN and lsn > self._to.lsn:
            with ctx.latch:
                entry = ctx.access.read(lsn)
                record = entry.record()
                assert isinstance(record, LN)
                db = engine.catalog.by_id(record.db_id)
                # Nothing to undo in a removed database; the entry still becomes invisible.
                if db is not None:
                    self._revert(chain, db, record, lsn)
                    count_undone(ctx, db, record, lsn, entry.total_bytes)
            self._hidden.append(lsn)
            lsn = record.last_lsn
        self._keep(txn, chain)

    def _revert(self, chain: TxnChain, db: DatabaseState, record: LN, lsn: int) -> None:
        undo_ln(self._engine.ctx, db, db.order.wrap(record.key), lsn, chain.take(lsn))
        if isinstance(record.content, NameLN) and isinstance(record.tail, NameOperation):
            made = self._engine.catalog.by_id(record.content.db_id)
            if record.tail.operation in _MAKES_DATABASE and made is not None:
                self._unmade.append(made)

    def _keep(self, txn: Txn, chain: TxnChain) -> None:
        """Reduce the locks of a transaction to those of its remaining entries."""
        engine = self._engine
        if not chain.remaining_lsns:
            txn.last_lsn = NULL_LSN
            engine.ends.restore(txn)
            engine.txns.forget(txn)
            return
        # New locks are taken before the old ones are released, so that no reader gets in between.
        held = list(txn.locks)
        txn.locks, txn.writes = {}, {}
        txn.last_lsn = chain.remaining_lsns[0]
        seen: set[tuple[int, bytes]] = set()
        for lsn in chain.remaining_lsns:
            record = engine.access.read(lsn).record()
            assert isinstance(record, LN)
            db = engine.catalog.by_id(record.db_id)
            # Lock the latest version first: the lock of a record belongs to its newest remaining version (R-TXN-1).
            if db is not None and (db.id, record.key) not in seen:
                seen.add((db.id, record.key))
                relock(engine.locks, txn, db, record, lsn)
        engine.locks.release_many([lsn for lsn in held if lsn not in txn.locks], txn)
        engine.ends.restore(txn)

    def _step(self, name: str) -> None:
        self._listener.step(f"rollback {name}", 0, 0)


def truncate_at(storage: Storage, lsn: int, listener: Listener = SILENT) -> list[str]:
    """Cut the log of a closed environment at an LSN; the removed part is kept beside it in ``.bad`` files (R-SYNC-26).

    Later files are renamed first, starting with the last one, so that a crash leaves a log without a gap.

    Returns:
        The names of the files with the removed parts, for a report.

    Raises:
        DamageError: there is no such file. StorageError: a file cannot be changed.
    """
    found = list_log_files(storage).files
    cut = next((file for file in found if file.number == file_of(lsn)), None)
    if cut is None or offset_of(lsn) > cut.size_bytes:
        raise DamageError("the log cannot be cut at this place", file=storage.root, lsn=format_lsn(lsn))
    kept = []
    for file in reversed(found):
        if file.number > cut.number:
            listener.step("truncate file", 0, 0)
            kept.append(bad_name(storage, file.path))
            storage.rename(file.path, kept[-1])
            storage.sync_directory(file.path.rpartition("/")[0])
    listener.step("truncate tail", 0, 0)
    kept.append(bad_name(storage, cut.path))
    # The copy of the removed part is durable before the cut.
    _copy_tail(storage, cut.path, kept[-1], offset_of(lsn))
    last = storage.open_rw(cut.path)
    try:
        last.truncate(offset_of(lsn))
        last.sync()
    finally:
        last.close()
    return kept


def _copy_tail(storage: Storage, path: str, to: str, offset: int) -> None:
    source, target = storage.open(path), storage.open_rw(to, create=True)
    try:
        at = 0
        while piece := source.read(offset + at, _PIECE_BYTES):
            target.write(at, piece)
            at += len(piece)
        target.sync()
    finally:
        source.close()
        target.close()
    storage.sync_directory(path.rpartition("/")[0])


def hard_recover(engine: Engine, matchpoint: MatchpointLocation, listener: Listener = SILENT) -> Environment:
    """Cut the log at the matchpoint and recover the rest; syncup then finds an earlier matchpoint.

    Arguments:
        engine: detached; it is closed, as a crash would close it.

    Raises:
        JetoolError: see ``truncate_at`` and ``Environment``.
    """
    # A normal close would write a checkpoint after the place of the cut.
    engine.crash()
    truncate_at(engine.storage, matchpoint.lsn, listener)
    return Environment(engine.storage, engine.config, listener)
