"""Redo of LNs (pass 8; R-REC-50 to R-REC-58).

Redo applies the writes since CkptStart of committed transactions and of non-transactional operations. Plain versions
are collected into a batch straight from the bytes of the log; any other LN is decoded (``_redo_one``). A full batch is
sorted and applied. Once the trees have outgrown the cache, batches are kept as sorted runs until the end of the range
(``RedoRuns``), so that each node is visited once.

If the range is large, a worker process and this process share the preparation of batches, each taking different parts
of the range (``engine.workers``). Only this process changes trees, in log order.

Example: CkptStart is 0x0/0x300, a committed transaction wrote ``k=1`` at 0x0/0x400, an unfinished one ``k=2`` at
0x0/0x480. The batch holds ``k=1``; 0x480 was undone by pass 7 and is skipped.
"""

from __future__ import annotations

import contextlib
from operator import itemgetter
from typing import Final

from engine.errors import StorageError
from engine.events import SILENT, Listener, Progress
from engine.format.entry.db_tree import NAMING_DB_ID
from engine.format.entry.ln import EMBEDDED, HAS_PRIOR_SIZE, LN
from engine.format.entry.ln_content import NameLN
from engine.format.entry_types import COMMON_PUTS, REDO_LNS, TRANSACTIONAL
from engine.format.fast.header import header_lengths, item_size
from engine.format.fast.ln import plain_fields, replaced_version
from engine.format.header import BEFORE_CKPT_END, FLAGS_AT, INVISIBLE, PROVISIONAL, TYPE_AT, is_invisible
from engine.format.lsn import NULL_LSN, file_of, is_null, offset_of
from engine.log.passes import (
    LogRange,
    RangePiece,
    RawEntry,
    bytes_of,
    forward_pieces,
    positions,
    raw_at,
    shares_of,
)
from engine.recovery.node_replay import is_provisional, passes_over
from engine.recovery.redo_batch import (
    MOST_BYTES,
    MOST_RECORDS,
    PreparedBatch,
    RedoBatch,
    RedoRuns,
    Replaced,
    plain_rows,
)
from engine.recovery.result import PassCount
from engine.recovery.undo_pass import LNPass, LNPassParts, ln_of
from engine.storage.scratch import ScratchFile
from engine.tree.apply import KEY_OF_REDO, Redo, leaf_of, redo_ln, redo_sorted
from engine.tree.database_state import DatabaseState
from engine.workers.process import can_fork
from engine.workers.shared_work import SharedWork

# Flags of LNs whose redo needs more than key and LSN; and of LNs that record the size of the version they replace.
_NOT_PLAIN: Final = EMBEDDED
_REPLACES: Final = HAS_PRIOR_SIZE << 8
_INVISIBLE_OR_PROVISIONAL: Final = INVISIBLE | PROVISIONAL | BEFORE_CKPT_END
# The fraction of the cache that waiting records may take.
_BATCH_PART: Final = 4
_LSN: Final = itemgetter(1)


class RedoPass(LNPass):
    """Pass 8; ``close`` must be called, whether the pass ran or not."""

    def __init__(self, parts: LNPassParts) -> None:
        super().__init__(parts)
        keeper = parts.keeper
        self._most_bytes = MOST_BYTES if keeper is None else keeper.budget_bytes // _BATCH_PART
        self._hidden: set[int] = set()
        self._runs: RedoRuns | None = None
        self._shares: list[LogRange] = []
        self._shared: SharedWork | None = None

    def begin(self, read_ahead_bytes: int) -> None:
        """Start the worker, before undo, if the range is long enough.

        Arguments:
            read_ahead_bytes: minimum length of the range for which a worker is started; 0 for never.
        """
        access, extent = self._ctx.access, self._extent()
        enough = 0 < read_ahead_bytes <= bytes_of(access, extent)
        if enough and not self._hears_all() and can_fork():
            self._shares = shares_of(access, extent)
            # Without room for scratch files this process works alone.
            with contextlib.suppress(StorageError):
                self._shared = SharedWork(len(self._shares), self._prepared)

    def close(self) -> None:
        """End the worker, and remove the scratch files."""
        if self._shared is not None:
            self._shared.close()
        if self._runs is not None:
            self._runs.close()

    def run(self, hidden: set[int], listener: Listener = SILENT) -> None:
        """Redo the range.

        Arguments:
            hidden: LSNs that undo rolled back.
        """
        self._hidden = hidden
        count = self._count("REDO_LNS")
        # The fast path does not check resurrected transactions and hidden LSNs, so if there are any, decode every LN.
        decode_all = bool(self._result.resurrected or hidden) or self._hears_all()
        extent = self._extent()
        progress = Progress(listener, "REDO_DATA_RECORDS", bytes_of(self._ctx.access, extent))
        if self._shared is not None and not decode_all:
            for share, done in zip(self._shares, self._shared.results(), strict=True):
                if done.value is None:
                    # The part failed in the worker, for example because the disk had no room for runs. Apply all
                    # earlier runs first.
                    self._apply_runs(listener)
                    self._redo_range(share, count, progress, decode_all=False)
                    continue
                # Prepared batches are kept as runs, so that each node is visited once, whatever the size of the cache.
                self._runs = self._runs or RedoRuns()
                for values in done.value:
                    self._keep_prepared(PreparedBatch._make(values), done.scratch, self._runs, count)
                progress.add(bytes_of(self._ctx.access, share))
        else:
            self._redo_range(extent, count, progress, decode_all=decode_all)
        self._apply_runs(listener)

    def _hears_all(self) -> bool:
        return self._hook is not None and self._hook.hears_all

    def _redo_range(self, extent: LogRange, count: PassCount, progress: Progress, *, decode_all: bool) -> None:
        batch = RedoBatch(MOST_RECORDS, self._most_bytes)
        for piece in forward_pieces(self._ctx.access, extent):
            found = positions(piece, REDO_LNS)
            if decode_all:
                for pos in found:
                    self._redo_one(piece, pos, batch, count)
            else:
                self._redo_piece(piece, found, batch, count)
            progress.add(len(piece.data))
        self._report(batch.take_replaced())
        self._apply(batch)

    def _prepared(self, share: int, scratch: ScratchFile) -> list[tuple[object, ...]]:
        """The batches of a part of the range as plain tuples, in this process or in the worker; no tree changes."""
        prepared: list[tuple[object, ...]] = []
        batch = RedoBatch(MOST_RECORDS, self._most_bytes, defers=True)
        count = PassCount("", 0, 0)
        for piece in forward_pieces(self._ctx.access, self._shares[share]):
            self._redo_piece(piece, positions(piece, REDO_LNS), batch, count)
            if batch.is_full():
                prepared.append(tuple(batch.prepared(count.read - count.processed, scratch)))
                count.read = count.processed = 0
        prepared.append(tuple(batch.prepared(count.read - count.processed, scratch)))
        return prepared

    def _keep_prepared(self, part: PreparedBatch, scratch: ScratchFile, runs: RedoRuns, count: PassCount) -> None:
        """Redo the deferred entries of a prepared batch, and keep its records as runs."""
        access = self._ctx.access
        count.read += part.read
        self._report(part.replaced)
        # No limit: if the deferred entries were applied before the plain ones, a deletion could precede the insertion.
        batch = RedoBatch()
        for at in range(0, len(part.deferred), 2):
            lsn, size = part.deferred[at], part.deferred[at + 1]
            number = file_of(lsn)
            data = access.handle(number).read(offset_of(lsn), size)
            self._redo_one(RangePiece(lsn, access.version_of(number), data), 0, batch, count)
        for db_id, records, places in part.runs:
            count.read += records
            count.processed += records
            rows = batch.rows.get(db_id)
            if rows:
                # Sort by LSN first, so that versions of one key stay in log order when they are sorted by key.
                rows += plain_rows(scratch, places)
                rows.sort(key=_LSN)
            else:
                runs.add_run(db_id, scratch, places, records)
        self._apply(batch)

    def _report(self, replaced: Replaced) -> None:
        """Report to the hook the versions that plain updates have replaced."""
        if self._hook is not None:
            for number, (versions, sized, size_bytes) in replaced.items():
                self._hook.replaced(number, versions, sized, size_bytes)

    def _redo_piece(self, piece: RangePiece, found: list[int], batch: RedoBatch, count: PassCount) -> None:
        """Collect the plain versions among the LNs of a piece, and decode the others."""
        lsn_base, version, data = piece
        lengths = header_lengths(version)
        access, start, committed = self._ctx.access, self._result.ckpt_start_lsn, self._result.fate.committed
        hook = self._hook
        # The database of the previous entry; None if it has to be looked up.
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
            # Records before CkptStart are already in the trees on disk; those of transactions without a Commit were
            # undone (R-REC-50).
            if flags >= 0 and not flags & _NOT_PLAIN and (lsn < start or (in_txn and txn_id not in committed)):
                count.read += 1
                continue
            if flags < 0 or flags & _NOT_PLAIN or length < 0 or (db := self._plain(db, db_id, batch)) is None:
                if batch.defers:
                    batch.deferred += (lsn, end - pos)
                else:
                    self._redo_one(piece, pos, batch, count)
                # The entry may have created or removed a database, so the next one is looked up again.
                db = None
                continue
            # If a full batch was applied in between, the batch has a new list.
            if waiting is not batch.rows.get(db_id):
                waiting = batch.rows.setdefault(db_id, [])
            count.read += 1
            count.processed += 1
            if flags & _REPLACES and hook is not None:
                # A version becomes obsolete with the Commit, not with the LN that replaced it (R-REC-57).
                abort_lsn, file, size = replaced_version(data, body, in_txn)
                if file >= 0:
                    if hook.is_obsolete(file << 32, lsn):
                        batch.replace(file << 32, size)
                elif in_txn and not is_null(abort_lsn) and hook.is_obsolete(abort_lsn, committed.get(txn_id)):
                    batch.replace(abort_lsn, size)
            key = data[at + length : end]
            waiting.append((db.order.wrap(key), lsn, end - pos, None))
            batch.note(len(key))
            if batch.is_full() and not batch.defers:
                self._apply(batch)

    def _plain(self, before: DatabaseState | None, db_id: int, batch: RedoBatch) -> DatabaseState | None:
        """The database with an id if its plain LNs can be added to the batch without decoding; otherwise None."""
        if before is not None and before.id == db_id:
            return before
        db = self._catalog.by_id(db_id)
        if db is None or not self._is_batched(db) or db.duplicates:
            return None
        # Keys compared by a class are objects, which a worker cannot send.
        return db if not batch.defers or db.order.plain else None

    def _is_batched(self, db: DatabaseState) -> bool:
        # Names take effect at once, old duplicates have no tree yet, and a learned order cannot be used for sorting.
        return db.id != NAMING_DB_ID and db.order.learned is None and not self._legacy.owns(db)

    def _redo_one(self, piece: RangePiece, pos: int, batch: RedoBatch, count: PassCount) -> None:
        """Decode one LN of any kind, and redo it or add it to the batch."""
        result = self._result
        committed = result.fate.committed
        raw = raw_at(piece, pos)
        self._ctx.access.at_lsn = raw.lsn
        if is_invisible(raw.flags, raw.version) or is_provisional(raw, result.ckpt_end_lsn):
            return
        record = ln_of(raw)
        count.read += 1
        txn_id = record.txn_id
        resurrected = txn_id is not None and txn_id in result.resurrected
        finished = txn_id is None or txn_id in committed
        # Only a resurrected transaction is redone from firstActive on: no node on disk has its records (R-REC-50).
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
            # A version becomes obsolete with the Commit, not with the LN that replaced it (R-REC-57).
            commit = NULL_LSN if txn_id is None else committed.get(txn_id, NULL_LSN)
            self._hook.redone(raw, record, db, commit)
        # Deletions of an open transaction stay pending, and a name takes effect at once: these cannot wait in a batch.
        if resurrected or not self._is_batched(db):
            self._redo_at_once(raw, record, db, resurrected)
            return
        leaf = leaf_of(raw, record, db, resurrected=False)
        plain = leaf.data is None and not leaf.deleted and not leaf.expiration and not leaf.tombstone
        size_bytes = len(record.key) + (len(leaf.data) if leaf.data is not None else 0)
        batch.put(db.id, (db.order.wrap(record.key), raw.lsn, raw.size, None if plain else leaf), size_bytes)
        if batch.is_full():
            self._apply(batch)

    def _redo_at_once(self, raw: RawEntry, record: LN, db: DatabaseState, resurrected: bool) -> None:
        if self._legacy.owns(db):
            self._legacy.redo(db, raw, record)
            return
        if passes_over(db):
            return
        key = db.order.wrap(record.key)
        self._account(redo_ln(self._ctx, db, key, leaf_of(raw, record, db, resurrected=resurrected)))
        self._keep_room()
        # A transaction that is still open may yet be undone, together with its naming operations (R-REC-56).
        if isinstance(record.content, NameLN) and not resurrected:
            self._result.note_naming(record, record.content)

    def _apply(self, batch: RedoBatch) -> None:
        """Put the records of the batch into the trees, or keep them as runs; the batch is empty afterwards."""
        ctx = self._ctx
        batches, size_bytes = batch.take()
        self._choose_runs(size_bytes)
        if self._runs is not None:
            for db_id, rows in batches.items():
                db = self._catalog.by_id(db_id)
                if db is not None:
                    self._runs.add(db, rows)
            return
        # The records use part of the cache while they are being applied, so the keeper has to count them.
        ctx.used_bytes += size_bytes
        for db_id, rows in batches.items():
            db = self._catalog.by_id(db_id)
            if db is not None:
                rows.sort(key=KEY_OF_REDO)
                redo_sorted(ctx, db, rows, self._keep_room)
        ctx.used_bytes -= size_bytes

    def _choose_runs(self, size_bytes: int) -> None:
        """Keep runs from now on if further batches do not fit into the cache.

        A batch takes memory twice, while it waits and in the nodes. Once nodes have to be evicted for a batch, every
        further batch would read and evict most nodes again.
        """
        ctx, spill = self._ctx, self._ctx.spill
        is_full = ctx.used_bytes + 2 * size_bytes > self._budget_bytes
        if self._runs is None and spill is not None and (is_full or spill.nodes):
            self._runs = RedoRuns()

    def _apply_runs(self, listener: Listener) -> None:
        """Put the records of all runs into the trees."""
        runs, self._runs = self._runs, None
        if runs is None:
            return
        from engine.tree.nodes_ahead import NodesAhead

        ahead = NodesAhead(self._ctx.access)
        try:
            progress = Progress(listener, "REDO_SORTED_RECORDS", runs.records)
            for db_id in runs.databases():
                db = self._catalog.by_id(db_id)
                if db is not None:
                    for rows in runs.merged(db):
                        redo_sorted(self._ctx, db, rows, self._keep_room, ahead)
                        progress.add(len(rows))
        finally:
            ahead.close()
            runs.close()
