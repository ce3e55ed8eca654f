"""Undo of LNs (pass 7; R-REC-43 to R-REC-48, R-RB-30 to R-RB-33), and the base class it shares with redo (``LNPass``).

Both passes process every LN between firstActive and the end of the log. They read only a few fields of most LNs,
without decoding them: undo needs the transaction id, to see whether the transaction has committed; redo also needs
database, key and LSN. An LN is decoded only if it is uncommon, or if the hook needs the record.

Undo goes backwards and removes from the trees the writes of unfinished transactions and rollback periods. Example:
transaction 12 wrote ``k=1`` at 0x0/0x400 and ``k=2`` at 0x0/0x480, and has no end. Undo meets 0x480 first and sets the
slot back to 0x400; at 0x400 it sets the slot back to the version before the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from engine.catalog.catalog import Catalog
from engine.events import SILENT, Listener, Progress
from engine.format.codecs import codec_of
from engine.format.entry.ln import HAS_ABORT_LSN, LN
from engine.format.entry_types import UNDO_LNS
from engine.format.fast.header import TYPES, header_lengths
from engine.format.fast.ln import bytes_before_database, transaction_of
from engine.format.fast.loops import KEEP, LOOK
from engine.format.fast.walks import pick_open
from engine.format.header import BEFORE_CKPT_END, FLAGS_AT, PROVISIONAL, REPLICATED, TYPE_AT, is_invisible
from engine.format.lsn import NULL_LSN
from engine.log.passes import LogRange, RangePiece, RawEntry, backward_pieces, bytes_of, positions, raw_at
from engine.recovery.hooks import CacheKeeper, RecoveryHook
from engine.recovery.legacy_dups import LegacyDuplicates
from engine.recovery.node_replay import is_provisional, passes_over
from engine.recovery.result import TXN_BITS, PassCount, RecoveryResult, ResurrectedTxn, TxnLsns
from engine.recovery.rollback_tracker import RollbackScan, RollbackTracker
from engine.tree.apply import SlotChange, undo_ln, version_before
from engine.tree.context import TreeContext

# By flags and type: keep provisional LNs, look up the transaction of all other LNs, and skip all other entries.
_OPEN: Final = [
    0 if number not in UNDO_LNS else KEEP if flags & (PROVISIONAL | BEFORE_CKPT_END) else LOOK
    for flags in range(TYPES)
    for number in range(TYPES)
]
_NEVER_FULL: Final = 1 << 62


class LNPassParts(NamedTuple):
    """The data of a pass over LNs.

    Attributes:
        ctx, catalog: the trees and databases, after the IN passes.
        result: the outcomes from pass 3; the passes add their results.
        legacy: duplicates of log versions 6 and 7.
        hook: called for every LN that is redone or undone.
        keeper: evicts nodes. None: all nodes stay in memory.
    """

    ctx: TreeContext
    catalog: Catalog
    result: RecoveryResult
    legacy: LegacyDuplicates
    hook: RecoveryHook | None
    keeper: CacheKeeper | None


class LNPass:
    """A pass over the LNs of the range."""

    def __init__(self, parts: LNPassParts) -> None:
        keeper = parts.keeper
        self._ctx = parts.ctx
        self._catalog = parts.catalog
        self._result = parts.result
        self._legacy = parts.legacy
        self._hook = parts.hook
        self._keep_room: Callable[[], None] = (lambda: None) if keeper is None else keeper.keep_room
        self._budget_bytes = _NEVER_FULL if keeper is None else keeper.budget_bytes

    def _extent(self) -> LogRange:
        return LogRange(self._result.first_active_lsn, self._result.end_lsn)

    def _count(self, name: str) -> PassCount:
        count = PassCount(name, self._result.first_active_lsn, self._result.end_lsn)
        self._result.passes.append(count)
        return count

    def _account(self, outcome: SlotChange) -> None:
        if outcome.node is not None:
            self._ctx.account(outcome.node)


class UndoPass(LNPass):
    """Pass 7.

    Arguments:
        tracker: the rollback periods.
        replicated: whether unfinished replicated transactions stay open.

    Attributes:
        hidden: LSNs that were rolled back; redo must skip them.
    """

    def __init__(self, parts: LNPassParts, tracker: RollbackTracker, *, replicated: bool) -> None:
        super().__init__(parts)
        self._rollback = RollbackScan(parts.ctx, parts.catalog, tracker)
        self._replicated = replicated
        self.hidden: set[int] = set()

    def run(self, listener: Listener = SILENT) -> None:
        """Undo the writes of unfinished transactions and rollback periods in the trees."""
        result = self._result
        count = self._count("UNDO_LNS")
        extent = self._extent()
        progress = Progress(listener, "UNDO_DATA_RECORDS", bytes_of(self._ctx.access, extent))
        for piece in backward_pieces(self._ctx.access, extent):
            for raw in self._unfinished(piece, count):
                self._undo_one(raw, count)
            progress.add(len(piece.data))
        # Redo skips these entries (``hidden``); their invisible bits are set on disk once recovery has succeeded.
        result.rolled_back = self._rollback.take_invisible()

    def _unfinished(self, piece: RangePiece, count: PassCount) -> Iterator[RawEntry]:
        """LNs that undo has to process, the last one first."""
        committed, idle = self._result.fate.committed, self._rollback.is_idle
        lsn, version, data = piece
        lengths = header_lengths(version)
        for pos in reversed(self._candidates(piece, count)):
            self._ctx.access.at_lsn = lsn + pos
            flags = data[pos + FLAGS_AT]
            if idle and not flags & (PROVISIONAL | BEFORE_CKPT_END):
                # Most entries belong to committed transactions: the id alone shows that they need no undo.
                count.read += 1
                peeked = transaction_of(data, pos + lengths[data[pos + TYPE_AT] | flags << 8], version)
                if peeked is None or peeked not in committed:
                    yield raw_at(piece, pos)
                continue
            raw = raw_at(piece, pos)
            # Only LNs in temporary databases are provisional, and recovery removes these databases (R-REC-26).
            if not is_provisional(raw, self._result.ckpt_end_lsn):
                count.read += 1
                yield raw

    def _candidates(self, piece: RangePiece, count: PassCount) -> list[int]:
        """Positions of LNs that undo may have to process, ascending; others are only counted."""
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
        record = ln_of(raw)
        txn_id = record.txn_id
        if txn_id is None:
            return
        # Note the ids of transactions without a Commit or Abort too: these ids are in use (R-REC-15).
        result.ids.saw_txn(txn_id)
        db = self._catalog.by_id(record.db_id)
        # Evict here, before any node is fetched: recovery holds no node at this point.
        self._keep_room()
        if self._rollback.consume(raw, record, db):
            # Redo would otherwise process it, since its invisible bit is not on disk yet (R-RB-32).
            self.hidden.add(raw.lsn)
            count.processed += 1
        elif txn_id in committed:
            return
        elif txn_id in prepared or self._is_replay(raw, txn_id, aborted):
            # The order of these tests is that of R-REC-43; an aborted transaction reaches the end and is undone again.
            self._resurrect(raw, txn_id)
        elif is_invisible(raw.flags, raw.version):
            return
        elif db is None:
            count.deleted += 1
        else:
            count.processed += 1
            result.undone.add(txn_id)
            # An Abort before CkptStart has already counted the LN as obsolete. The summary with that count may be older
            # than the range in which the hook searches for it (R-REC-19).
            if self._hook is not None and not NULL_LSN < aborted.get(txn_id) < result.ckpt_start_lsn:
                self._hook.undone(raw, record, db)
            if self._legacy.owns(db):
                self._legacy.undo(db, raw, record)
            elif not passes_over(db):
                before = version_before(record, raw.lsn)
                self._account(undo_ln(self._ctx, db, db.order.wrap(record.key), raw.lsn, before))

    def _is_replay(self, raw: RawEntry, txn_id: int, aborted: TxnLsns) -> bool:
        return (
            self._replicated
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


def ln_of(raw: RawEntry) -> LN:
    """The decoded LN of an entry."""
    codec = codec_of(raw.type_number)
    assert codec is not None
    record = codec.decode(raw.body, raw.version)
    assert isinstance(record, LN)
    return record
