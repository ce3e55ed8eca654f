"""Undo and redo of LNs (passes 7 and 8; R-REC-43 to R-REC-58, R-RB-30 to R-RB-33).

Both passes look at every LN of the range, and of most they need a few fields: undo the transaction id, to see that it
has committed; redo that, database, key and LSN. These are read where the entry lies; a record is made of what is
uncommon only, or where the hook has to hear of it. What plain updates have replaced is summed up for the hook by file.
Redo collects and brings in a batch of records at once, sorted (``redo_sorted``). Once the trees have outgrown the
cache, batches wait as runs until all are known (``redo_runs``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Final

from engine.catalog.catalog import Catalog
from engine.errors import StorageError
from engine.events import SILENT, Listener, Progress
from engine.format.codecs import codec_of
from engine.format.entry.db_tree import NAMING_DB_ID
from engine.format.entry.ln import EMBEDDED, HAS_ABORT_LSN, HAS_PRIOR_SIZE, LN
from engine.format.entry.ln_content import NameLN
from engine.format.entry_types import COMMON_PUTS, REDO_LNS, TRANSACTIONAL, UNDO_LNS
from engine.format.fast.header import TYPES, header_lengths, item_size
from engine.format.fast.ln import bytes_before_database, plain_fields, replaced_version, transaction_of
from engine.format.fast.loops import KEEP, LOOK
from engine.format.fast.walks import pick_open
from engine.format.header import BEFORE_CKPT_END, FLAGS_AT, INVISIBLE, PROVISIONAL, REPLICATED, TYPE_AT, is_invisible
from engine.format.lsn import NULL_LSN, file_of, is_null, offset_of
from engine.log.passes import (
    LogRange,
    RangePiece,
    RawEntry,
    backward_pieces,
    bytes_of,
    forward_pieces,
    positions,
    raw_at,
    shares_of,
)
from engine.recovery.hooks import CacheKeeper, RecoveryHook
from engine.recovery.legacy_dups import LegacyDuplicates
from engine.recovery.node_replay import is_provisional, passes_over
from engine.recovery.redo_runs import RedoRuns, plain_rows, put_plain
from engine.recovery.result import TXN_BITS, PassCount, RecoveryResult, ResurrectedTxn, TxnLsns
from engine.recovery.rollback_tracker import RollbackScan, RollbackTracker
from engine.storage.scratch import ScratchFile
from engine.tree.apply import (
    Redo,
    SlotChange,
    leaf_of,
    redo_ln,
    redo_sorted,
    undo_ln,
    version_before,
)
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.workers.process import can_fork
from engine.workers.shared_work import SharedWork

_new_tuple: Final = tuple.__new__
# Versions of which redo needs more than key and LSN, and those that say what they replace.
_NOT_PLAIN: Final = EMBEDDED
_REPLACES: Final = HAS_PRIOR_SIZE << 8
_INVISIBLE_OR_PROVISIONAL: Final = INVISIBLE | PROVISIONAL | BEFORE_CKPT_END
# Undo has to look at LNs of transactions that have not committed, and at provisional ones.
_OPEN: Final = [
    0 if number not in UNDO_LNS else KEEP if flags & (PROVISIONAL | BEFORE_CKPT_END) else LOOK
    for flags in range(TYPES)
    for number in range(TYPES)
]
# Records that are sorted together, what each takes while it waits, and how much of the cache all of them may take.
_BATCH: Final = 200_000
_WAITING_BYTES: Final = 250
_BATCH_PART: Final = 4
_NEVER_FULL: Final = 1 << 62
# Entries of a part found ahead that need a closer look, two numbers for each.
_MOST_OTHERS: Final = 40_000
# By file what has been replaced there: versions, those of a size that is known, bytes of these.
Replaced = dict[int, tuple[int, int, int]]
# What is found ahead: LNs that count and are not brought in; LSN and size of those that need a closer look; what has
# been replaced; by database how many plain versions there are, and the chunks that hold them.
Found = tuple[int, list[int], Replaced, list[tuple[int, int, list[int]]]]
_KEY: Final = itemgetter(0)
_LSN: Final = itemgetter(1)


class LNPasses:
    """Passes 7 and 8.

    Arguments:
        ctx, catalog: trees and databases after the IN passes.
        result: the sets of pass 3; what is found goes there.
        tracker: the rollback periods.
        legacy: duplicates of v6 and v7.
        hook: hears of every LN that is redone or undone.
        keeper: lets nodes leave memory.

    Attributes:
        replicated: unfinished replicated transactions stay open.
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
        # Without a keeper all nodes stay.
        self._keep_room: Callable[[], None] = (lambda: None) if keeper is None else keeper.keep_room
        self._batch_bytes = keeper.budget_bytes // _BATCH_PART if keeper is not None else _BATCH * _WAITING_BYTES
        self._budget_bytes = keeper.budget_bytes if keeper is not None else _NEVER_FULL
        self._catalog = catalog
        self._result = result
        self._rollback = RollbackScan(ctx, catalog, tracker)
        self._legacy = legacy
        self._hook = hook
        self._hidden: set[int] = set()
        self._waiting: dict[int, list[Redo]] = {}
        self._runs: RedoRuns | None = None
        self._in_batch = self._waiting_bytes = 0
        # By plain updates; the hook has not heard of it yet.
        self._replaced: Replaced = {}
        # While something is found ahead: entries that need a closer look.
        self._others: list[int] | None = None
        self._holds_back = False
        self._shares: list[LogRange] = []
        self._shared: SharedWork | None = None
        self.replicated = False

    def begin(self, read_ahead_bytes: int) -> None:
        """Begin to read for redo, in a process of its own (``engine.workers``), if the range has so many bytes.

        Arguments:
            read_ahead_bytes: 0 for never. ``close`` has to be called in every case.
        """
        access, extent = self._ctx.access, self._extent()
        enough = 0 < read_ahead_bytes <= bytes_of(access, extent)
        if enough and not (self._hook is not None and self._hook.hears_all) and can_fork():
            self._shares = shares_of(access, extent)
            # Without room for what they find, one process has to do.
            with contextlib.suppress(StorageError):
                self._shared = SharedWork(len(self._shares), self._found_in)

    def close(self) -> None:
        """Let go of process and scratch files."""
        if self._shared is not None:
            self._shared.close()
        if self._runs is not None:
            self._runs.close()

    def _extent(self) -> LogRange:
        return LogRange(self._result.first_active_lsn, self._result.end_lsn)

    def undo(self, listener: Listener = SILENT) -> None:
        """Take back what unfinished transactions and rollback periods left in the trees."""
        result = self._result
        count = self._count("UNDO_LNS")
        extent = self._extent()
        progress = Progress(listener, "UNDO_DATA_RECORDS", bytes_of(self._ctx.access, extent))
        for piece in backward_pieces(self._ctx.access, extent):
            for raw in self._unfinished(piece, count):
                self._undo_one(raw, count)
            progress.add(len(piece.data))
        # Redo skips them already; the bits are set on disk once recovery has succeeded.
        result.rolled_back = self._rollback.take_invisible()

    def _unfinished(self, piece: RangePiece, count: PassCount) -> Iterator[RawEntry]:
        """LNs that undo has to look at, the last one first."""
        committed, idle = self._result.fate.committed, self._rollback.is_idle
        lsn, version, data = piece
        lengths = header_lengths(version)
        for pos in reversed(self._candidates(piece, count)):
            self._ctx.access.at_lsn = lsn + pos
            flags = data[pos + FLAGS_AT]
            if idle and not flags & (PROVISIONAL | BEFORE_CKPT_END):
                # Most entries are of committed transactions: their id is enough.
                count.read += 1
                peeked = transaction_of(data, pos + lengths[data[pos + TYPE_AT] | flags << 8], version)
                if peeked is None or peeked not in committed:
                    yield raw_at(piece, pos)
                continue
            raw = raw_at(piece, pos)
            # LNs are provisional in temporary databases only, which recovery removes (R-REC-26).
            if not is_provisional(raw, self._result.ckpt_end_lsn):
                count.read += 1
                yield raw

    def _candidates(self, piece: RangePiece, count: PassCount) -> list[int]:
        """Where LNs begin that undo may have to look at, ascending; others are only counted."""
        flag_bytes = bytes_before_database(piece.version)
        if not self._rollback.is_idle or not flag_bytes:
            return positions(piece, UNDO_LNS)
        found: list[int] = []
        lengths, ended = header_lengths(piece.version), self._result.fate.committed.chunks()
        count.read += pick_open(piece.data, _OPEN, lengths, flag_bytes, HAS_ABORT_LSN, ended, TXN_BITS, found)
        return found

    def _undo_one(self, raw: RawEntry, count: PassCount) -> None:
        result = self._result
        committed, aborted, prepared = result.fate
        record = _decode(raw)
        txn_id = record.txn_id
        if txn_id is None:
            return
        # Also of transactions without an end: their ids are used up (R-REC-15).
        result.ids.saw_txn(txn_id)
        db = self._catalog.by_id(record.db_id)
        # Before any node is fetched: here recovery relies on none.
        self._keep_room()
        if self._rollback.consume(raw, record, db):
            # Redo would meet it before its invisible bit is on disk (R-RB-32).
            self._hidden.add(raw.lsn)
            count.processed += 1
        elif txn_id in committed:
            return
        elif txn_id in prepared or self._is_replay(raw, txn_id, aborted):
            # The order of these tests is R-REC-43; an aborted transaction falls through and is undone once more.
            self._resurrect(raw, txn_id)
        elif is_invisible(raw.flags, raw.version):
            return
        elif db is None:
            count.deleted += 1
        else:
            count.processed += 1
            result.undone.add(txn_id)
            # What an Abort before CkptStart took back was counted then; the summary that says so may be older than the
            # interval, in which the hook looks for it (R-REC-19).
            if self._hook is not None and not NULL_LSN < aborted.get(txn_id) < result.ckpt_start_lsn:
                self._hook.undone(raw, record, db)
            if self._legacy.owns(db):
                self._legacy.undo(db, raw, record)
            elif not passes_over(db):
                before = version_before(record, raw.lsn)
                self._account(undo_ln(self._ctx, db, db.order.wrap(record.key), raw.lsn, before))

    def redo(self, listener: Listener = SILENT) -> None:
        """Bring in what finished transactions and operations without one wrote since the checkpoint."""
        result = self._result
        count = self._count("REDO_LNS")
        # The fast way looks neither at transactions that were resurrected nor at LSNs that were rolled back.
        closely = bool(result.resurrected or self._hidden) or (self._hook is not None and self._hook.hears_all)
        extent = self._extent()
        progress = Progress(listener, "REDO_DATA_RECORDS", bytes_of(self._ctx.access, extent))
        if self._shared is not None and not closely:
            for share, done in zip(self._shares, self._shared.results(), strict=True):
                if done.value is None:
                    # Whatever failed, such as a disk without room for runs: without them, after all before it.
                    self._apply_runs(listener)
                    self._redo_range(share, count, progress, closely)
                    # Before this process finds anything more: nothing may wait then.
                    self._apply_batch()
                    continue
                # Nodes are visited once, however large the cache is.
                self._runs = self._runs or RedoRuns()
                for part in done.value:
                    self._bring_in(part, done.scratch, self._runs, count)
                progress.add(bytes_of(self._ctx.access, share))
        else:
            self._redo_range(extent, count, progress, closely)
        self._apply_batch()
        self._apply_runs(listener)

    def _tell_replaced(self) -> None:
        """What plain updates have replaced becomes known to the hook."""
        replaced, self._replaced = self._replaced, {}
        if self._hook is not None:
            for number, (versions, sized, size_bytes) in replaced.items():
                self._hook.replaced(number, versions, sized, size_bytes)

    def _redo_range(self, extent: LogRange, count: PassCount, progress: Progress, closely: bool) -> None:
        for piece in forward_pieces(self._ctx.access, extent):
            found = positions(piece, REDO_LNS)
            if closely:
                for pos in found:
                    self._redo_one(piece, pos, count)
            else:
                self._redo_piece(piece, found, count)
            progress.add(len(piece.data))
        self._tell_replaced()

    def _bring_in(self, part: Found, scratch: ScratchFile, runs: RedoRuns, count: PassCount) -> None:
        """Keep what was found ahead."""
        access = self._ctx.access
        read, others, self._replaced, batches = part
        count.read += read
        self._tell_replaced()
        # Before the batch is whole none of it may be kept: a deletion must not come before the insertion.
        self._holds_back = True
        for at in range(0, len(others), 2):
            lsn, size = others[at], others[at + 1]
            number = file_of(lsn)
            data = access.handle(number).read(offset_of(lsn), size)
            self._redo_one(RangePiece(lsn, access.version_of(number), data), 0, count)
        self._holds_back = False
        for db_id, records, places in batches:
            count.read += records
            count.processed += records
            waiting = self._waiting.get(db_id)
            if waiting:
                # By key again only after they are in log order, which those of one key keep.
                waiting += plain_rows(scratch, places)
                waiting.sort(key=_LSN)
            else:
                runs.add_run(db_id, scratch, places, records)
        self._apply_batch()

    def _found_in(self, share: int, scratch: ScratchFile) -> list[Found]:
        """What there is to redo in a part of the range, in parts that are brought in one by one.

        In this process or in a fork; nothing is changed, and nothing waits before or afterwards.
        """
        assert not self._waiting
        assert not self._replaced
        parts: list[Found] = []
        self._others = []
        try:
            count = PassCount("", 0, 0)
            for piece in forward_pieces(self._ctx.access, self._shares[share]):
                self._redo_piece(piece, positions(piece, REDO_LNS), count)
                if self._is_full() or len(self._others) >= _MOST_OTHERS:
                    parts.append(self._found(count, scratch))
            parts.append(self._found(count, scratch))
        finally:
            self._others = None
            self._waiting, self._in_batch, self._waiting_bytes, self._replaced = {}, 0, 0, {}
        return parts

    def _found(self, count: PassCount, scratch: ScratchFile) -> Found:
        """What waits, by key; nothing is counted and nothing waits afterwards."""
        assert self._others is not None
        batches = []
        for db_id, rows in self._waiting.items():
            rows.sort(key=_KEY)
            batches.append((db_id, len(rows), put_plain(scratch, rows)))
        found = count.read - count.processed, self._others, self._replaced, batches
        self._waiting, self._in_batch, self._waiting_bytes, self._others, self._replaced = {}, 0, 0, [], {}
        count.read = count.processed = 0
        return found

    def _redo_piece(self, piece: RangePiece, found: list[int], count: PassCount) -> None:
        """Collect the plain versions among the LNs of a piece, and have a closer look at the others."""
        lsn_base, version, data = piece
        lengths = header_lengths(version)
        access, start, committed = self._ctx.access, self._result.ckpt_start_lsn, self._result.fate.committed
        # The database of the entry before; None when it has to be looked up.
        db: DatabaseState | None = None
        waiting: list[Redo] = []
        for pos in found:
            lsn = access.at_lsn = lsn_base + pos
            number, header_flags = data[pos + TYPE_AT], data[pos + FLAGS_AT]
            at = body = pos + lengths[number | header_flags << 8]
            end = at + item_size(data, pos)
            flags, db_id, txn_id, length, in_txn = -1, 0, 0, 0, False
            if number in COMMON_PUTS and not header_flags & _INVISIBLE_OR_PROVISIONAL:
                in_txn = number in TRANSACTIONAL
                flags, db_id, txn_id, length, at = plain_fields(data, at, end, version, in_txn)
            # Records before CkptStart are on disk; those of unfinished transactions were undone (R-REC-50).
            if flags >= 0 and not flags & _NOT_PLAIN and (lsn < start or (in_txn and txn_id not in committed)):
                count.read += 1
                continue
            if flags < 0 or flags & _NOT_PLAIN or length < 0 or (db := self._plain(db, db_id)) is None:
                if self._others is not None:
                    self._others += (lsn, end - pos)
                else:
                    self._redo_one(piece, pos, count)
                # The long way may have created or removed databases, so this one is looked up again.
                db = None
                continue
            # The batch may have been applied in between, and then this list is no longer the one that waits.
            if waiting is not self._waiting.get(db_id):
                waiting = self._waiting.setdefault(db_id, [])
            count.read += 1
            count.processed += 1
            if flags & _REPLACES and self._hook is not None:
                # An obsolete version counts as of the Commit, not as of the LN that replaced it (R-REC-57).
                abort_lsn, file, size = replaced_version(data, body, in_txn)
                if file >= 0:
                    self._note_replaced(file << 32, size, lsn)
                elif in_txn and not is_null(abort_lsn):
                    self._note_replaced(abort_lsn, size, committed.get(txn_id))
            key = data[at + length : end]
            waiting.append((db.order.wrap(key), lsn, end - pos, None))
            self._has_come(len(key))

    def _note_replaced(self, lsn: int, size: int, made_by: int) -> None:
        """A version has been replaced, of which the hook has to know."""
        if self._hook is not None and self._hook.is_obsolete(lsn, made_by):
            versions, sized, size_bytes = self._replaced.get(file_of(lsn), (0, 0, 0))
            self._replaced[file_of(lsn)] = versions + 1, sized + (1 if size else 0), size_bytes + size

    def _plain(self, before: DatabaseState | None, db_id: int) -> DatabaseState | None:
        """The database of an id, if all there is to do for a plain LN of it is to bring it in."""
        if before is not None and before.id == db_id:
            return before
        db = self._catalog.by_id(db_id)
        if db is None or not self._is_batched(db) or db.duplicates:
            return None
        # Keys that a class compares are objects, which no pipe takes.
        return db if self._others is None or db.order.plain else None

    def _is_batched(self, db: DatabaseState) -> bool:
        # Names take effect at once, old duplicates have no tree yet, and a learned order cannot be sorted by.
        return db.id != NAMING_DB_ID and db.order.learned is None and not self._legacy.owns(db)

    def _redo_one(self, piece: RangePiece, pos: int, count: PassCount) -> None:
        """Look at one LN of any kind."""
        result = self._result
        committed = result.fate.committed
        raw = raw_at(piece, pos)
        self._ctx.access.at_lsn = raw.lsn
        if is_invisible(raw.flags, raw.version) or is_provisional(raw, result.ckpt_end_lsn):
            return
        record = _decode(raw)
        count.read += 1
        txn_id = record.txn_id
        resurrected = txn_id is not None and txn_id in result.resurrected
        finished = txn_id is None or txn_id in committed
        # Only a resurrected transaction is redone from firstActive on: nothing else says what it holds (R-REC-50).
        if not resurrected and (raw.lsn < result.ckpt_start_lsn or not finished):
            return
        if raw.lsn in self._hidden:
            return
        db = self._catalog.by_id(record.db_id)
        if db is None:
            count.deleted += 1
            return
        count.processed += 1
        if self._hook is not None:
            # An obsolete version counts as of the Commit, not as of the LN that replaced it (R-REC-57).
            commit = NULL_LSN if txn_id is None else committed.get(txn_id, NULL_LSN)
            self._hook.redone(raw, record, db, commit)
        # The deletions of an open transaction stay pending, and a name counts at once: no batch for these.
        if resurrected or not self._is_batched(db):
            self._apply(raw, record, db, resurrected)
            return
        leaf = leaf_of(raw, record, db, resurrected=False)
        plain = leaf.data is None and not leaf.deleted and not leaf.expiration and not leaf.tombstone
        batch = self._waiting.setdefault(db.id, [])
        batch.append((db.order.wrap(record.key), raw.lsn, raw.size, None if plain else leaf))
        self._has_come(len(record.key) + (len(leaf.data) if leaf.data is not None else 0))

    def _has_come(self, size_bytes: int) -> None:
        """One more record waits, with so many bytes of key and data."""
        self._in_batch += 1
        self._waiting_bytes += _WAITING_BYTES + size_bytes
        if self._is_full() and self._others is None and not self._holds_back:
            self._apply_batch()

    def _is_full(self) -> bool:
        return self._in_batch >= _BATCH or self._waiting_bytes >= self._batch_bytes

    def _apply_batch(self) -> None:
        """Bring in what has been collected, or keep it until all has."""
        ctx = self._ctx
        batches, self._waiting, self._in_batch = self._waiting, {}, 0
        waiting, self._waiting_bytes = self._waiting_bytes, 0
        self._see_room(waiting)
        if self._runs is not None:
            for db_id, batch in batches.items():
                db = self._catalog.by_id(db_id)
                if db is not None:
                    self._runs.add(db, batch)
            return
        # While they are applied the waiting records take part of the cache, which the keeper has to know.
        ctx.used_bytes += waiting
        for db_id, batch in batches.items():
            db = self._catalog.by_id(db_id)
            if db is not None:
                redo_sorted(ctx, db, batch, self._keep_room)
        ctx.used_bytes -= waiting

    def _see_room(self, waiting_bytes: int) -> None:
        """Keep runs from now on if the cache holds no more batches.

        A batch takes room twice, while it waits and in the nodes. Once nodes have to leave for it, with every further
        batch most of them would come and go once more.
        """
        ctx, spill = self._ctx, self._ctx.spill
        is_full = ctx.used_bytes + 2 * waiting_bytes > self._budget_bytes
        if self._runs is None and spill is not None and (is_full or spill.nodes):
            self._runs = RedoRuns()

    def _apply_runs(self, listener: Listener) -> None:
        """Bring in what has been kept."""
        runs, self._runs = self._runs, None
        if runs is None:
            return
        try:
            progress = Progress(listener, "REDO_SORTED_RECORDS", runs.records)
            for db_id in runs.databases():
                db = self._catalog.by_id(db_id)
                if db is not None:
                    for batch in runs.merged(db):
                        redo_sorted(self._ctx, db, batch, self._keep_room, is_sorted=True)
                        progress.add(len(batch))
        finally:
            runs.close()

    def _apply(self, raw: RawEntry, record: LN, db: DatabaseState, resurrected: bool) -> None:
        if self._legacy.owns(db):
            self._legacy.redo(db, raw, record)
            return
        if passes_over(db):
            return
        key = db.order.wrap(record.key)
        self._account(redo_ln(self._ctx, db, key, leaf_of(raw, record, db, resurrected=resurrected)))
        self._keep_room()
        # One that is still open may yet be taken back, and its naming with it (R-REC-56).
        if isinstance(record.content, NameLN) and not resurrected:
            self._result.note_naming(record, record.content)

    def _account(self, outcome: SlotChange) -> None:
        if outcome.node is not None:
            self._ctx.account(outcome.node)

    def _is_replay(self, raw: RawEntry, txn_id: int, aborted: TxnLsns) -> bool:
        return (
            self.replicated
            and bool(raw.flags & REPLICATED)
            and txn_id not in aborted
            and not is_invisible(raw.flags, raw.version)
        )

    def _resurrect(self, raw: RawEntry, txn_id: int) -> None:
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


def _decode(raw: RawEntry) -> LN:
    codec = codec_of(raw.type_number)
    assert codec is not None
    record = codec.decode(raw.body, raw.version)
    assert isinstance(record, LN)
    return record
