"""Undo and redo of LNs (passes 7 and 8; R-REC-43 to R-REC-58, R-RB-30 to R-RB-33)."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from engine.catalog.catalog import Catalog
from engine.format.codecs import codec_of
from engine.format.entry.db_tree import NAMING_DB_ID
from engine.format.entry.ln import EMBEDDED, LN, TOMBSTONE, transaction_of
from engine.format.entry.ln_content import NameLN
from engine.format.entry_types import BY_NUMBER
from engine.format.entry_types import LN as LN_FAMILY
from engine.format.header import REPLICATED, is_invisible
from engine.format.lsn import NULL_LSN
from engine.format.versions import EMBEDDED_RECORDS, LN_KEY_FIRST
from engine.log.passes import LogRange, Raw, backward, forward
from engine.recovery.hooks import CacheKeeper, RecoveryHook
from engine.recovery.info import PassCount, RecoveryResult, ResurrectedTxn
from engine.recovery.ins import is_provisional
from engine.recovery.legacy_dups import LegacyDuplicates
from engine.recovery.rollback_scan import RollbackScan
from engine.recovery.rollback_tracker import RollbackTracker
from engine.recovery.txn_lsns import TxnLsns
from engine.tree.apply import Leaf, Outcome, redo_ln, undo_ln, version_before
from engine.tree.bin_node import BIN, UNTIMED, times_from
from engine.tree.keys import Key
from engine.tree.state import DatabaseState, TreeContext

_ALL_LNS: Final = frozenset(t.number for t in BY_NUMBER.values() if t.family == LN_FAMILY)
_MAP_LNS: Final = frozenset((3, 4))
_DUP_COUNTS: Final = frozenset((9, 10))
UNDO_TYPES: Final = frozenset(n for n in _ALL_LNS if BY_NUMBER[n].transactional) - _MAP_LNS - _DUP_COUNTS
REDO_TYPES: Final = _ALL_LNS - _MAP_LNS - _DUP_COUNTS
_REMOVE, _TRUNCATE, _RENAME = 2, 3, 4
_new_tuple: Final = tuple.__new__
_KEY: Final = itemgetter(0)
# Records that are sorted together, what each takes while it waits, and how much of the cache all of them may take.
_BATCH: Final = 200_000
_WAITING_BYTES: Final = 300
_BATCH_PART: Final = 4


def leaf_of(raw: Raw, record: LN, db: DatabaseState, *, resurrected: bool) -> Leaf:
    """What redo needs of a logged LN."""
    embedded = raw.version >= EMBEDDED_RECORDS and bool(record.flags & EMBEDDED)
    content = record.content
    deleted = record.data is None or bool(getattr(content, "deleted", 0))
    data = record.data if embedded and not deleted and not db.duplicates else None
    times, tombstone = UNTIMED, False
    if raw.version >= LN_KEY_FIRST:
        tombstone = bool(record.flags2 & TOMBSTONE)
        if data is not None:
            times = times_from(record.modification_time, record.creation_time)
    return _new_tuple(
        Leaf, (raw.lsn, raw.size, data, record.expiration, raw.vlsn, deleted, resurrected, times, tombstone)
    )


class LNPasses:
    """Passes 7 and 8.

    Arguments:
        ctx, catalog: trees and databases after the IN passes.
        result: the sets of pass 3; what is found goes there.
        tracker: the rollback periods.
        legacy: duplicates of v6 and v7.
        hook: hears of every LN that is redone or undone.
        keeper: lets nodes leave memory.
    """

    def __init__(
        self,
        ctx: TreeContext,
        catalog: Catalog,
        result: RecoveryResult,
        tracker: RollbackTracker,
        legacy: LegacyDuplicates,
        hook: RecoveryHook | None = None,
        keeper: CacheKeeper | None = None,
    ) -> None:
        self._ctx = ctx
        self._keeper = keeper
        self._batch_bytes = keeper.budget_bytes // _BATCH_PART if keeper is not None else _BATCH * _WAITING_BYTES
        self._catalog = catalog
        self._result = result
        self._rollback = RollbackScan(ctx, catalog, tracker)
        self._legacy = legacy
        self._hook = hook
        self._hidden: set[int] = set()
        self._sorted: dict[int, list[tuple[Key, Leaf]]] = {}
        self._in_batch = self._waiting_bytes = 0
        self.replicated = False

    def undo(self) -> None:
        """Take back what unfinished transactions and rollback periods left in the trees."""
        result = self._result
        count = self._count("UNDO_LNS")
        committed, aborted, prepared = result.fate
        for raw in backward(self._ctx.access, LogRange(result.first_active_lsn, result.end_lsn), UNDO_TYPES):
            if is_provisional(raw, result.ckpt_end_lsn):
                continue
            count.read += 1
            if self._rollback.is_idle:
                # Most entries are of committed transactions: their id is enough.
                peeked = transaction_of(raw.body, raw.version)
                if peeked is not None and peeked in committed:
                    continue
            record = _decode(raw)
            txn_id = record.txn_id
            if txn_id is None:
                continue
            result.ids.saw_txn(txn_id)
            db = self._catalog.by_id(record.db_id)
            self._keep_room()
            if self._rollback.consume(raw, record, db):
                self._hidden.add(raw.lsn)
                count.processed += 1
            elif txn_id in committed:
                continue
            elif txn_id in prepared or self._is_replay(raw, txn_id, aborted):
                self._resurrect(raw, txn_id)
            elif is_invisible(raw.flags, raw.version):
                continue
            elif db is None:
                count.deleted += 1
            else:
                count.processed += 1
                result.undone.add(txn_id)
                if self._hook is not None:
                    self._hook.undone(raw, record, db)
                if self._legacy.owns(db):
                    self._legacy.undo(db, raw, record)
                else:
                    self._account(undo_ln(self._ctx, db, db.order.wrap(record.key), raw.lsn, version_before(record)))
        result.rolled_back = self._rollback.take_invisible()

    def redo(self) -> None:
        """Bring in what finished transactions and operations without one wrote since the checkpoint."""
        result = self._result
        count = self._count("REDO_LNS")
        committed = result.fate.committed
        for raw in forward(self._ctx.access, LogRange(result.first_active_lsn, result.end_lsn), REDO_TYPES):
            if is_invisible(raw.flags, raw.version) or is_provisional(raw, result.ckpt_end_lsn):
                continue
            record = _decode(raw)
            count.read += 1
            txn_id = record.txn_id
            resurrected = txn_id is not None and txn_id in result.resurrected
            finished = txn_id is None or txn_id in committed
            if not resurrected and (raw.lsn < result.ckpt_start_lsn or not finished):
                continue
            if raw.lsn in self._hidden:
                continue
            db = self._catalog.by_id(record.db_id)
            if db is None:
                count.deleted += 1
                continue
            count.processed += 1
            if self._hook is not None:
                commit = NULL_LSN if txn_id is None else committed.get(txn_id, NULL_LSN)
                self._hook.redone(raw, record, db, commit)
            if resurrected or db.id == NAMING_DB_ID or db.order.learned is not None or self._legacy.owns(db):
                self._apply(raw, record, db, resurrected)
                continue
            key = db.order.wrap(record.key)
            batch = self._sorted.get(db.id)
            if batch is None:
                batch = self._sorted[db.id] = []
            leaf = leaf_of(raw, record, db, resurrected=False)
            batch.append((key, leaf))
            self._in_batch += 1
            self._waiting_bytes += _WAITING_BYTES + len(record.key) + (len(leaf.data) if leaf.data is not None else 0)
            if self._in_batch >= _BATCH or self._waiting_bytes >= self._batch_bytes:
                self._apply_sorted()
        self._apply_sorted()

    def _apply_sorted(self) -> None:
        """Apply a batch in the order of keys, and for each key in the order of the log.

        Neighbours share a BIN then, which saves most descents; records of different keys do not depend on each other.
        """
        ctx = self._ctx
        batches, self._sorted, self._in_batch = self._sorted, {}, 0
        waiting, self._waiting_bytes = self._waiting_bytes, 0
        ctx.used_bytes += waiting
        for db_id, batch in batches.items():
            db = self._catalog.by_id(db_id)
            if db is None:
                continue
            # Sorting keeps what has the same key in the order of the log.
            batch.sort(key=_KEY)
            near: BIN | None = None
            for key, leaf in batch:
                node = redo_ln(ctx, db, key, leaf, near).node
                if node is not near:
                    # With the first record the whole of it was read, with the last it has grown.
                    if near is not None and near.in_tree:
                        ctx.account(near)
                    near = node
                    self._keep_room()
            if near is not None and near.in_tree:
                ctx.account(near)
        ctx.used_bytes -= waiting

    def _apply(self, raw: Raw, record: LN, db: DatabaseState, resurrected: bool) -> None:
        if self._legacy.owns(db):
            self._legacy.redo(db, raw, record)
            return
        key = db.order.wrap(record.key)
        self._account(redo_ln(self._ctx, db, key, leaf_of(raw, record, db, resurrected=resurrected)))
        self._keep_room()
        if isinstance(record.content, NameLN) and not resurrected:
            self._note_naming(record, record.content)

    def _account(self, outcome: Outcome) -> None:
        if outcome.node is not None:
            self._ctx.account(outcome.node)

    def _keep_room(self) -> None:
        if self._keeper is not None:
            self._keeper.keep_room()

    def _note_naming(self, record: LN, content: NameLN) -> None:
        """What a committed naming operation leaves to be finished (R-REC-56)."""
        operation = getattr(record.tail, "operation", 0)
        if operation == _REMOVE:
            self._result.databases_removed.add(content.db_id)
        elif operation == _TRUNCATE:
            old = getattr(record.tail, "truncated_db_id", None)
            if old is not None:
                self._result.databases_removed.add(old)
        elif operation == _RENAME:
            self._result.renamed[content.db_id] = record.key.decode("utf-8", "surrogateescape")

    def _is_replay(self, raw: Raw, txn_id: int, aborted: TxnLsns) -> bool:
        return (
            self.replicated
            and bool(raw.flags & REPLICATED)
            and txn_id not in aborted
            and not is_invisible(raw.flags, raw.version)
        )

    def _resurrect(self, raw: Raw, txn_id: int) -> None:
        txn = self._result.resurrected.get(txn_id)
        if txn is None:
            txn = ResurrectedTxn(txn_id, self._result.fate.prepared.get(txn_id))
            txn.last_lsn = raw.lsn
            self._result.resurrected[txn_id] = txn
        txn.first_lsn = raw.lsn
        txn.lns.append(raw.lsn)

    def _count(self, name: str) -> PassCount:
        count = PassCount(name, self._result.first_active_lsn, self._result.end_lsn)
        self._result.passes.append(count)
        return count


def _decode(raw: Raw) -> LN:
    codec = codec_of(raw.type_number)
    assert codec is not None
    record = codec.decode(raw.body, raw.version)
    assert isinstance(record, LN)
    return record
