"""Recovery, pass by pass (R-REC-1 to R-REC-66).

Order: end of log; last checkpoint; the INs of the mapping tree, then its MapLNs; the INs of all other trees; undo
backwards; redo forwards. One forward walk collects the input of passes 1 to 6; the LN passes read the log again.

All of this happens in memory: recovery writes nothing, sets no invisible bits and truncates no file (R-REC-7). The
result lists the remaining changes on disk. Opening an environment for writing makes these changes, and takes a
checkpoint.

Example (E-REC-1): ``100 CkptStart | 120 CkptEnd | 150 UPD K (T1, abort 50) | 200 Commit T1``: the walk begins at 100;
T1 is committed; redo moves K from 50 to 150.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping
from typing import Final

from engine.catalog.catalog import Catalog
from engine.errors import DamageError, FormatError, caused_by
from engine.events import SILENT, Listener, Progress
from engine.format.codecs import decode_body
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.db_tree import ENV_REPLICATED, DbTree
from engine.format.entry.ln import LN
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.format.entry.txn_end import Prepare
from engine.format.entry_types import COMMIT, TXN_ENDS
from engine.format.fast.txn_end import ended_transaction
from engine.format.lsn import NULL_LSN, file_of, format_lsn
from engine.log.passes import LogRange, RawEntry, backward, require_end, verify
from engine.log.tail import Tail, find_last_checkpoint
from engine.recovery.analysis import ENDS, Analysis
from engine.recovery.hooks import CacheKeeper, RecoveryHook
from engine.recovery.legacy_dups import LegacyDuplicates
from engine.recovery.node_replay import NodeLog, replay
from engine.recovery.redo_pass import RedoPass
from engine.recovery.result import PassCount, RecoveryResult, TxnFate, TxnLsns, changed_entries
from engine.recovery.rollback_tracker import RollbackTracker
from engine.recovery.undo_pass import LNPassParts, UndoPass
from engine.tree.apply import leaf_of, redo_ln
from engine.tree.comparators import SortKey
from engine.tree.context import TreeContext
from engine.tree.keys import UnknownOrderError
from engine.workers.process import can_fork
from engine.workers.shared_work import ValueWorker

# Number of nodes between two progress reports.
_TOLD_NODES: Final = 256
# Exceptions raised by entries that contradict each other.
_CONTRADICTIONS: Final = (FormatError, LookupError, ValueError, TypeError, OverflowError, AssertionError, struct.error)


class Recovery:
    """One recovery of one environment.

    Arguments:
        ctx: empty trees over the log.
        tail: the end of the log.
        comparators: sort keys by class name.
        listener: receives the phases.
        resurrect: leave unfinished replicated transactions open, so that a master can finish them (R-REC-47). Readers
            undo them instead, like a stand-alone open of JE.
        hook: receives every entry from CkptStart on.
        refuse_changed: refuse if there is no checkpoint and entries before the last file have changed (D-16).
        keeper: evicts nodes; None: all nodes that are read stay in memory.
        for_writing: the nodes will be logged, so no order of keys may be guessed.
        check_orders: check the orders of ``comparators`` against the nodes of their databases.
        read_ahead_bytes: minimum number of bytes to redo for which a worker process reads ahead; 0 for never.
    """

    def __init__(
        self,
        ctx: TreeContext,
        tail: Tail,
        comparators: Mapping[str, SortKey],
        listener: Listener = SILENT,
        *,
        resurrect: bool = False,
        hook: RecoveryHook | None = None,
        refuse_changed: bool = False,
        keeper: CacheKeeper | None = None,
        for_writing: bool = False,
        check_orders: bool = False,
        read_ahead_bytes: int = 0,
    ) -> None:
        self._for_writing = for_writing
        self._check_orders = check_orders
        self._read_ahead_bytes = read_ahead_bytes
        self._ctx = ctx
        self._tail = tail
        self._comparators = comparators
        self._listener = listener
        self._resurrect = resurrect
        self._hook = hook
        self._refuse_changed = refuse_changed
        self._keeper = keeper
        self.result = RecoveryResult()
        self._seen = Analysis(ctx.access, self.result, hook)
        self.tracker: RollbackTracker | None = None

    def run(self) -> Catalog:
        """Recover.

        Returns:
            The databases according to the log.

        Raises:
            DamageError: the log lacks something that recovery needs, or contradicts itself; the message names the LSN.
            UnknownOrderError: the nodes will be logged, and redo or undo needs an order of keys that is not known.
        """
        try:
            return self._run()
        except _CONTRADICTIONS as error:
            # The checksums are right, so the contradiction was written this way (R-REC-66).
            damage = DamageError(
                "recovery has met an entry that contradicts the log",
                file=self._ctx.access.storage.root,
                lsn=format_lsn(self._ctx.access.at_lsn),
                found=str(error) or type(error).__name__,
                consequence="LOG_INTEGRITY: the environment is not recovered",
                hint="jetool verify shows what is damaged; restore these files from a backup",
            )
            raise caused_by(damage, error) from error

    def _run(self) -> Catalog:
        catalog = self._begin()
        try:
            self._bring_in(catalog)
        except UnknownOrderError as error:
            raise caused_by(_named(error, catalog, self._ctx.access.storage.root), error) from error
        return catalog

    def _bring_in(self, catalog: Catalog) -> None:
        """Rebuild the trees according to the log, pass by pass."""
        self._look_at_log()
        # If an order of keys has to be learned, it is learned from the logged nodes too, which are not in the tree yet.
        catalog.logged_nodes = lambda db_id: [node.lsn for node in self._seen.nodes if node.db_id == db_id]
        result = self.result
        # Set before redo, whose splits create nodes: ids are never used twice (R-TREE-7).
        self._ctx.node_ids.last = result.ids.node
        # Replay the mapping tree first: its MapLNs reference the roots of all other trees (R-REC-1).
        self._replay(catalog, "REDO_DBMAP_INFO", mapping=True)
        self._sets()
        self._redo_map_lns(catalog)
        self._replay(catalog, "REDO_DATA_INFO", mapping=False)
        legacy = LegacyDuplicates(self._ctx, catalog, self._seen.nodes, self._tail.version)
        self._seen.nodes = NodeLog()
        replicated = self._resurrect and bool(catalog.flags & ENV_REPLICATED)
        tracker = self._tracker()
        parts = LNPassParts(
            ctx=self._ctx, catalog=catalog, result=result, legacy=legacy, hook=self._hook, keeper=self._keeper
        )
        undo = UndoPass(parts, tracker, replicated=replicated)
        redo = RedoPass(parts)
        try:
            # The worker reads ahead for redo while this process does undo.
            redo.begin(self._read_ahead_bytes)
            # Undo first: redo must not find versions of unfinished transactions.
            undo.run(self._listener)
            redo.run(undo.hidden, self._listener)
        finally:
            redo.close()
        # The versions are final after redo, so the old duplicates can be converted.
        legacy.finish()
        # A database whose creation was undone has still used its id (R-REC-15).
        catalog.last_local_db_id = max(catalog.last_local_db_id, result.ids.db)
        catalog.last_replicated_db_id = min(catalog.last_replicated_db_id, result.ids.replicated_db)

    def _begin(self) -> Catalog:
        """Find the checkpoint and the root (R-REC-4 to R-REC-6)."""
        access, result, tail = self._ctx.access, self.result, self._tail
        self._listener.step("FIND_LAST_CKPT", 0, 0)
        last = find_last_checkpoint(access, tail, self._listener)
        result.end_lsn, result.last_lsn, result.cut_bytes = tail.end_lsn, tail.last_lsn, tail.cut_bytes
        result.ckpt_end_lsn, result.partial_ckpt_start = last.ckpt_end_lsn, last.partial_ckpt_start
        result.root_lsn = last.root_lsn
        if last.ckpt_end_lsn != NULL_LSN:
            # An earlier checkpoint cannot be used instead: files that it needs may be gone (R-REC-6).
            end = access.read(last.ckpt_end_lsn).record()
            assert isinstance(end, CkptEnd)
            result.ckpt_start_lsn, result.first_active_lsn = end.ckpt_start_lsn, end.first_active_lsn
            result.checkpoint_id = end.id
            result.ids.take(end)
            # A DbTree after the CkptEnd is newer than the root that the CkptEnd references (R-REC-5).
            if result.root_lsn == NULL_LSN:
                result.root_lsn = end.root_lsn
        result.last_entry_is_ckpt_end = tail.last_lsn == last.ckpt_end_lsn != NULL_LSN
        if result.root_lsn == NULL_LSN:
            raise DamageError(
                "the log has no root entry",
                file=access.storage.root,
                consequence="no database can be found",
                hint="restore the environment from a backup; jetool dump-log shows what the log still holds",
            )
        root = access.read(result.root_lsn).record()
        assert isinstance(root, DbTree)
        return Catalog(
            self._ctx, root, self._comparators, for_writing=self._for_writing, check_orders=self._check_orders
        )

    def _look_at_log(self) -> None:
        """Verify the range and walk over it, in two processes if it is long (``engine.workers``).

        Passes skip entries by their headers and compute no checksums, so no result counts before all checksums are
        verified.
        """
        first, last = self._first_file(), self._tail.last_file.number
        require_end(self._ctx.access, last)
        size_bytes = sum(file.size_bytes for file in self._ctx.access.files() if first <= file.number < last)
        if not 0 < self._read_ahead_bytes <= size_bytes or not can_fork():
            self._verify(self._listener)
            self._seen.run(self._listener)
            return
        worker = ValueWorker(self._verified)
        try:
            self._listener.step("VERIFY", 0, size_bytes)
            try:
                self._seen.run(self._listener)
            except Exception:
                # If a checksum is wrong, raise that error instead: it is the cause of this error.
                self._verify(SILENT)
                raise
            if not any(worker.values()):
                self._verify(self._listener)
        finally:
            worker.close()

    def _verified(self) -> Iterator[bool]:
        """Runs in the worker: yields True if all checksums are right."""
        self._verify(SILENT)
        yield not self.result.changed

    def _first_file(self) -> int:
        """The first file that recovery has to verify."""
        result = self.result
        return file_of(result.first_active_lsn) if result.ckpt_end_lsn != NULL_LSN else 0

    def _verify(self, listener: Listener) -> None:
        """Verify the files that recovery reads, except the last one, which has been verified (R-REC-30)."""
        result, last = self.result, self._tail.last_file.number
        if result.ckpt_end_lsn != NULL_LSN:
            verify(self._ctx.access, self._first_file(), last, listener)
            return
        # Without a checkpoint all files are read. JE verifies none of them, so it may undo a transaction whose Commit
        # is damaged (D-16).
        verify(self._ctx.access, self._first_file(), last, listener, result.changed.append)
        if result.changed and self._refuse_changed:
            raise changed_entries(self._ctx.access.storage.root, result.changed)

    def _replay(self, catalog: Catalog, name: str, *, mapping: bool) -> None:
        """Replay the roots, then the other nodes, of the mapping tree or of all other trees."""
        # Progress counts nodes, not bytes, since they are read individually.
        progress = Progress(self._listener, name, self._seen.nodes.count(mapping=mapping), _TOLD_NODES)
        for roots in (True, False):
            count = self._count(f"{'READ' if roots else 'REDO'}_{'MAP_' if mapping else ''}INS")
            # Roots in a separate pass: a node finds its parent only under the newest root (R-REC-20).
            chosen = self._seen.nodes.chosen(mapping=mapping, roots=roots)
            if not roots:
                superseded = self._seen.nodes.superseded(mapping=mapping)
                count.read += superseded
                progress.add(superseded)
            replay(
                self._ctx,
                chosen,
                catalog,
                count,
                progress=progress,
                roots=roots,
                verified=not self.result.changed,
                keeper=self._keeper,
            )

    def _sets(self) -> None:
        """Determine which transactions committed, aborted, or are prepared, and the rollback periods (pass 3,
        R-REC-40 to R-REC-42).
        """
        result = self.result
        tracker = RollbackTracker(result.ckpt_start_lsn)
        count = self._count("UNDO_MAP_LNS")
        count.start = result.first_active_lsn
        count.read = count.auxiliary = self._seen.ends
        if not self._seen.only_ends:
            self._sets_backwards(tracker)
        # All periods are known now; a period without its RollbackStart is damage (R-RB-15).
        tracker.finish(result.first_active_lsn)
        self.tracker = tracker
        result.periods = tracker.periods

    def _sets_backwards(self, tracker: RollbackTracker) -> None:
        """Read the ends again, backwards, so that the outcome of a transaction is read before its Prepare
        (R-REC-41).
        """
        result = self.result
        result.fate = TxnFate(TxnLsns(), TxnLsns(), {})
        committed, aborted, prepared = result.fate
        for raw in backward(self._ctx.access, LogRange(result.first_active_lsn, result.end_lsn), ENDS):
            if raw.type_number in TXN_ENDS:
                txn_id = ended_transaction(raw.body, 0, raw.version)
                if raw.type_number == COMMIT:
                    # A replicated commit in a rolled-back part contradicts the log (R-RB-20).
                    tracker.check_commit(txn_id, raw.lsn)
                    committed.setdefault(txn_id, raw.lsn)
                else:
                    aborted.setdefault(txn_id, raw.lsn)
                continue
            record = decode_body(raw.type_number, raw.version, raw.body)
            if isinstance(record, RollbackStart):
                tracker.register_start(record, raw.lsn)
            elif isinstance(record, RollbackEnd):
                tracker.register_end(record, raw.lsn)
            elif isinstance(record, Prepare):
                # If the transaction was decided after its Prepare, it is an ordinary finished transaction (R-REC-42).
                if record.id not in committed and record.id not in aborted:
                    prepared[record.id] = record
                result.ids.saw_txn(record.id)

    def _redo_map_lns(self, catalog: Catalog) -> None:
        """Redo MapLNs in the mapping tree (pass 4)."""
        count = self._count("REDO_MAP_LNS")
        for lsn in self._seen.map_lns:
            entry = self._ctx.access.read(lsn, allow_invisible=True)
            # This MapLN was rolled back: MapLNs of old log versions are transactional (R-RB-37).
            if entry.invisible:
                continue
            count.read += 1
            record = entry.record()
            assert isinstance(record, LN)
            # Until v3 a MapLN is written in a transaction of its own, whose Commit a crash may have lost.
            if record.txn_id is not None and record.txn_id not in self.result.fate.committed:
                continue
            raw = RawEntry(
                lsn=lsn,
                type_number=entry.type_number,
                version=entry.version,
                flags=entry.flags,
                vlsn=entry.vlsn,
                body=entry.body,
                size=entry.total_bytes,
            )
            redo_ln(self._ctx, catalog.mapping, record.key, leaf_of(raw, record, catalog.mapping, resurrected=False))
            count.processed += 1
            if self._keeper is not None:
                self._keeper.keep_room()
        self._seen.map_lns = []

    def _tracker(self) -> RollbackTracker:
        assert self.tracker is not None
        return self.tracker

    def _count(self, name: str) -> PassCount:
        count = PassCount(name, self.result.ckpt_start_lsn, self.result.end_lsn)
        self.result.passes.append(count)
        return count


def _named(error: UnknownOrderError, catalog: Catalog, root: str) -> UnknownOrderError:
    """Add the environment and the name of the database to the error; MapLNs before v16 do not hold the name."""
    learned = error.learned
    if not learned.database:
        with contextlib.suppress(DamageError, *_CONTRADICTIONS):
            names = (name for name, db_id in catalog.names(internal=True) if db_id == learned.db_id)
            # Reading the name may fail, since it may be after the end of the log.
            learned.database = next(names, learned.database)
    named = UnknownOrderError(learned)
    named.file = root
    return named
