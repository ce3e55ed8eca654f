"""Recovery, pass by pass (R-REC-1 to R-REC-66).

Order: end of log; last checkpoint; the mapping tree's INs, its MapLNs; the INs of all other trees; undo backwards; redo
forwards. One forward walk collects what passes 1 to 6 look at; the LN passes stream over the log.

A read-only recovery does all of it in memory: it writes nothing, marks nothing invisible, cuts nothing (R-REC-7). The
result tells the caller what is left to do on disk; the environment above takes the closing checkpoint.

Example (E-REC-1): ``100 CkptStart | 120 CkptEnd | 150 UPD K (T1, abort 50) | 200 Commit T1``: the walk begins at 100;
T1 is committed; redo takes K from 50 to 150.
"""

from __future__ import annotations

import gc
import struct
from array import array
from collections.abc import Iterator, Mapping
from typing import Final

from engine.catalog.catalog import Catalog
from engine.errors import DamageError, FormatError, caused_by
from engine.events import SILENT, Listener
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.db_tree import ENV_REPLICATED, DbTree
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import MapLN, NameLN
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.format.entry.txn_end import Prepare, ended_transaction
from engine.format.entry_types import ABORT, COMMIT, PREPARE, ROLLBACK_END, ROLLBACK_START, decode_body
from engine.format.header import REPLICATED
from engine.format.lsn import NULL_LSN, file_of, format_lsn
from engine.format.packed import sorted_unpack
from engine.format.scan import COUNT, KEEP, STOP, TALLY, header_lengths
from engine.format.walks import sift
from engine.log.passes import LogRange, Piece, Raw, forward_pieces, raw_at, verify
from engine.log.tail import Tail, find_last_checkpoint
from engine.recovery.hooks import CacheKeeper, RecoveryHook
from engine.recovery.info import PassCount, RecoveryResult
from engine.recovery.ins import IN_TYPES, OLD_DUP_TYPES, NodeLog, is_provisional, logged_node, replay
from engine.recovery.legacy_dups import LegacyDuplicates
from engine.recovery.lns import LNPasses, leaf_of
from engine.recovery.rollback_tracker import RollbackTracker
from engine.tree.apply import redo_ln
from engine.tree.keys import SortKey
from engine.tree.state import TreeContext

MAP_LN_TYPES: Final = frozenset((3, 4))
NAME_LN_TYPES: Final = frozenset((5, 6))
EXTINCTION_TYPES: Final = frozenset((41, 42))
FILE_SUMMARY_LN: Final = 11
_END_TYPES: Final = frozenset((COMMIT, ABORT, PREPARE, ROLLBACK_START, ROLLBACK_END))
# Entries that say something of others: earlier versions of a node, the counters of a file.
_WITH_CONSEQUENCES: Final = IN_TYPES | OLD_DUP_TYPES | {FILE_SUMMARY_LN}
_NODES: Final = IN_TYPES | OLD_DUP_TYPES
_LOOKED_AT: Final = _NODES | MAP_LN_TYPES | NAME_LN_TYPES | EXTINCTION_TYPES | _END_TYPES
# What the hook hears of one by one; of the others it hears how many there are.
_TOLD: Final = _WITH_CONSEQUENCES | {ROLLBACK_START}
_TYPES: Final = 256


def _actions(*, hook: bool, ends_only: bool = False) -> list[int]:
    """What the walk does with an entry, by ``type | flags << 8``, as ``scan.sift`` takes it."""
    kept = [number in (_END_TYPES if ends_only else _LOOKED_AT) for number in range(_TYPES)]
    if not hook:
        return [KEEP if keep else 0 for keep in kept] * _TYPES
    told = [number in _TOLD for number in range(_TYPES)]
    stop = [STOP if number == FILE_SUMMARY_LN else 0 for number in range(_TYPES)]
    local = [
        KEEP | after if one else COUNT | (KEEP if keep else 0)
        for one, keep, after in zip(told, kept, stop, strict=True)
    ]
    shared = [KEEP | after for after in stop]
    return [action for flags in range(_TYPES) for action in (shared if flags & REPLICATED else local)]


_ENDS_ONLY: Final = _actions(hook=False, ends_only=True)
_ENDS_AND_NODES: Final = _actions(hook=False)
_EVERYTHING: Final = _actions(hook=True)


class _Ends:
    """Ends of transactions and rollbacks in log order: 17 bytes of a Commit or Abort, since there can be millions."""

    def __init__(self) -> None:
        self._lsns = array("q")
        self._txn_ids = array("q")
        self._types = bytearray()
        self._others: dict[int, Raw] = {}

    def add(self, lsn: int, number: int, txn_id: int) -> None:
        """One more Commit or Abort."""
        self._lsns.append(lsn)
        self._types.append(number)
        self._txn_ids.append(txn_id)

    def add_other(self, raw: Raw) -> None:
        """One more of another type."""
        self.add(raw.lsn, raw.type_number, 0)
        self._others[raw.lsn] = raw

    def __len__(self) -> int:
        return len(self._lsns)

    def txn_ids(self) -> array[int]:
        """Of Commits and Aborts; 0 for the others."""
        return self._txn_ids

    def backward(self) -> Iterator[tuple[int, int, int, Raw | None]]:
        """LSN, type and, of a Commit or Abort, the transaction; of others the entry."""
        for at in range(len(self._lsns) - 1, -1, -1):
            lsn = self._lsns[at]
            yield lsn, self._types[at], self._txn_ids[at], self._others.get(lsn) if self._others else None


class Recovery:
    """One recovery of one environment.

    Arguments:
        ctx: empty trees over the log.
        tail: the end of the log.
        comparators: sort keys by class name.
        listener: hears the phases.
        resurrect: leave unfinished replicated transactions open, so that a master can finish them (R-REC-47). Readers
            that only look undo them instead, as a stand-alone open of JE does.
        hook: hears every entry from CkptStart on.
        keeper: lets nodes leave memory; without one the trees are held whole as far as they are touched.
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
        keeper: CacheKeeper | None = None,
    ) -> None:
        self._ctx = ctx
        self._tail = tail
        self._comparators = comparators
        self._listener = listener
        self._resurrect = resurrect
        self._hook = hook
        self._keeper = keeper
        self._nodes = NodeLog()
        self._ends = _Ends()
        self._map_lns: list[int] = []
        self._actions = _ENDS_AND_NODES if hook is None else _EVERYTHING
        self.result = RecoveryResult()
        self.tracker: RollbackTracker | None = None

    def run(self) -> Catalog:
        """Recover.

        Returns:
            The databases as the log leaves them.

        Raises:
            DamageError: the log lacks what recovery needs, or contradicts itself; the message names the LSN.
        """
        # None of the millions of objects that the passes make is part of a cycle; looking for cycles among them again
        # and again would be a tenth of the time.
        collects = gc.isenabled()
        gc.disable()
        try:
            return self._run()
        except (FormatError, LookupError, ValueError, TypeError, OverflowError, AssertionError, struct.error) as error:
            # The checksums are right, so whatever does not fit was written like that (R-REC-66).
            damage = DamageError(
                "recovery has met an entry that contradicts the log",
                file=self._ctx.access.storage.root,
                lsn=format_lsn(self._ctx.access.at_lsn),
                found=str(error) or type(error).__name__,
                consequence="LOG_INTEGRITY: the environment is not recovered",
                hint="jetool verify says what is damaged; restore those files from a backup",
            )
            raise caused_by(damage, error) from error
        finally:
            if collects:
                gc.enable()

    def _run(self) -> Catalog:
        catalog = self._begin()
        self._verify()
        self._walk()
        result = self.result
        # Before redo: its splits make new nodes, and ids are never used twice (R-TREE-7).
        self._ctx.node_ids.last = result.ids.node
        self._replay(catalog, "REDO_DBMAP_INFO", mapping=True)
        self._sets()
        self._redo_map_lns(catalog)
        self._replay(catalog, "REDO_DATA_INFO", mapping=False)
        legacy = LegacyDuplicates(self._ctx, catalog, self._nodes, self._tail.version)
        self._nodes = NodeLog()
        lns = LNPasses(self._ctx, catalog, result, self._tracker(), legacy, self._hook, self._keeper)
        lns.replicated = self._resurrect and bool(catalog.flags & ENV_REPLICATED)
        self._listener.step("UNDO_DATA_RECORDS", 0, 0)
        lns.undo()
        self._listener.step("REDO_DATA_RECORDS", 0, 0)
        lns.redo()
        legacy.finish()
        catalog.last_local_db_id = max(catalog.last_local_db_id, result.ids.db)
        catalog.last_replicated_db_id = min(catalog.last_replicated_db_id, result.ids.replicated_db)
        return catalog

    def _begin(self) -> Catalog:
        """Find the checkpoint and the root (R-REC-4 to R-REC-6)."""
        access, result, tail = self._ctx.access, self.result, self._tail
        self._listener.step("FIND_LAST_CKPT", 0, 0)
        last = find_last_checkpoint(access, tail)
        result.end_lsn, result.last_lsn, result.cut_bytes = tail.end_lsn, tail.last_lsn, tail.cut_bytes
        result.ckpt_end_lsn, result.partial_ckpt_start = last.ckpt_end_lsn, last.partial_ckpt_start
        result.root_lsn = last.root_lsn
        if last.ckpt_end_lsn != NULL_LSN:
            end = access.read(last.ckpt_end_lsn).record()
            assert isinstance(end, CkptEnd)
            result.ckpt_start_lsn, result.first_active_lsn = end.ckpt_start_lsn, end.first_active_lsn
            result.checkpoint_id = end.id
            result.ids.take(end)
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
        return Catalog(self._ctx, root, self._comparators)

    def _verify(self) -> None:
        """Check the files that recovery reads, the last one apart, which has been checked (R-REC-30)."""
        self._listener.step("VERIFY", 0, 0)
        if self.result.ckpt_end_lsn != NULL_LSN:
            verify(self._ctx.access, file_of(self.result.first_active_lsn), self._tail.last_file.number)

    def _walk(self) -> None:
        """One forward walk over the range: nodes, ends of transactions, MapLNs, ids (passes 1 to 6)."""
        result = self.result
        self._listener.step("READ_DBMAP_INFO", 0, 0)
        tallies = [0] * (_TYPES * TALLY)
        for piece in forward_pieces(self._ctx.access, LogRange(result.first_active_lsn, result.end_lsn)):
            start = min(max(result.ckpt_start_lsn - piece.lsn, 0), len(piece.data))
            lengths = header_lengths(piece.version)
            before: list[int] = []
            pos = sift(piece.data, 0, start, _ENDS_ONLY, lengths, before, tallies)
            self._look(piece, before)
            going = True
            while going:
                found: list[int] = []
                now = sift(piece.data, pos, len(piece.data), self._actions, lengths, found, tallies)
                going, pos = now > pos, now
                if self._hook is not None:
                    _tell_tallies(self._hook, file_of(piece.lsn), tallies)
                self._look(piece, found)

    def _look(self, piece: Piece, found: list[int]) -> None:
        """Take note of entries of a piece, in log order."""
        result, hook = self.result, self._hook
        lsn_base, version, data = piece
        lengths = header_lengths(version)
        for pos in found:
            number, flags = data[pos + 4], data[pos + 5]
            lsn = self._ctx.access.at_lsn = lsn_base + pos
            if number in (COMMIT, ABORT):
                self._ends.add(lsn, number, ended_transaction(data, pos + lengths[number | flags << 8], version))
                if hook is not None and flags & REPLICATED and lsn >= result.ckpt_start_lsn:
                    self._tell(hook, raw_at(piece, pos))
                continue
            raw = raw_at(piece, pos)
            if hook is not None and lsn >= result.ckpt_start_lsn and (flags & REPLICATED or number in _TOLD):
                self._tell(hook, raw)
            if number in _END_TYPES:
                self._ends.add_other(raw)
            elif number in MAP_LN_TYPES:
                self._map_lns.append(lsn)
                self._saw_id(raw)
            elif number in NAME_LN_TYPES or number in EXTINCTION_TYPES:
                self._saw_id(raw)
            elif number in _NODES:
                node, node_id = logged_node(raw)
                result.ids.saw_node(node_id)
                if not is_provisional(raw, result.ckpt_end_lsn):
                    self._nodes.add(node)

    def _tell(self, hook: RecoveryHook, raw: Raw) -> None:
        if raw.type_number not in _WITH_CONSEQUENCES:
            hook.saw_entry(raw, provisional=False, partial_start=NULL_LSN)
            return
        if raw.type_number == FILE_SUMMARY_LN:
            record = decode_body(raw.type_number, raw.version, raw.body)
            assert isinstance(record, LN)
            hook.saw_summary(raw, record)
        hook.saw_entry(
            raw,
            provisional=is_provisional(raw, self.result.ckpt_end_lsn),
            partial_start=self.result.partial_ckpt_start,
        )

    def _saw_id(self, raw: Raw) -> None:
        record = decode_body(raw.type_number, raw.version, raw.body)
        assert isinstance(record, LN)
        if isinstance(record.content, MapLN):
            self.result.ids.saw_db(record.content.database.db_id)
            if record.content.database.temporary:
                self.result.temporary.add(record.content.database.db_id)
        elif isinstance(record.content, NameLN):
            self.result.ids.saw_db(record.content.db_id)
        elif raw.type_number in EXTINCTION_TYPES:
            self.result.ids.saw_extinction(sorted_unpack(record.key)[0])

    def _replay(self, catalog: Catalog, name: str, *, mapping: bool) -> None:
        """Roots, then the others, of the mapping tree or of all other trees."""
        self._listener.step(name, 0, 0)
        for roots in (True, False):
            count = self._count(f"{'READ' if roots else 'REDO'}_{'MAP_' if mapping else ''}INS")
            chosen = (n for n in self._nodes if (n.db_id == 0) == mapping and n.type_number in IN_TYPES)
            replay(self._ctx, chosen, catalog, count, roots=roots, keeper=self._keeper)

    def _sets(self) -> None:
        """Which transactions committed, aborted, are prepared; the rollback periods (pass 3, R-REC-40 to R-REC-42)."""
        result = self.result
        tracker = RollbackTracker(result.ckpt_start_lsn)
        count = self._count("UNDO_MAP_LNS")
        count.start = result.first_active_lsn
        committed, aborted, prepared = result.fate
        count.read = count.auxiliary = len(self._ends)
        result.ids.saw_txn(max(self._ends.txn_ids(), default=0))
        result.ids.saw_txn(min(self._ends.txn_ids(), default=0))
        for lsn, number, txn_id, raw in self._ends.backward():
            if number == COMMIT:
                tracker.check_commit(txn_id, lsn)
                committed.setdefault(txn_id, lsn)
            elif number == ABORT:
                aborted.setdefault(txn_id, lsn)
            if raw is None:
                continue
            record = decode_body(raw.type_number, raw.version, raw.body)
            if isinstance(record, RollbackStart):
                tracker.register_start(record, raw.lsn)
            elif isinstance(record, RollbackEnd):
                tracker.register_end(record, raw.lsn)
            elif isinstance(record, Prepare):
                if record.id not in committed and record.id not in aborted:
                    prepared[record.id] = record
                result.ids.saw_txn(record.id)
        tracker.finish(result.first_active_lsn)
        self.tracker = tracker
        result.periods = tracker.periods
        self._ends = _Ends()

    def _redo_map_lns(self, catalog: Catalog) -> None:
        """MapLNs into the mapping tree (pass 4)."""
        count = self._count("REDO_MAP_LNS")
        for lsn in self._map_lns:
            entry = self._ctx.access.read(lsn, allow_invisible=True)
            if entry.invisible:
                continue
            count.read += 1
            record = entry.record()
            assert isinstance(record, LN)
            raw = Raw(lsn, entry.type_number, entry.version, entry.flags, entry.vlsn, entry.body, entry.total_bytes)
            redo_ln(self._ctx, catalog.mapping, record.key, leaf_of(raw, record, catalog.mapping, resurrected=False))
            count.processed += 1
            if self._keeper is not None:
                self._keeper.keep_room()
        self._map_lns = []

    def _tracker(self) -> RollbackTracker:
        assert self.tracker is not None
        return self.tracker

    def _count(self, name: str) -> PassCount:
        count = PassCount(name, self.result.ckpt_start_lsn, self.result.end_lsn)
        self.result.passes.append(count)
        return count


def _tell_tallies(hook: RecoveryHook, file_number: int, tallies: list[int]) -> None:
    """Tell of the entries that were only counted, and begin again."""
    for number in range(_TYPES):
        entries, size_bytes, largest = tallies[number * TALLY : number * TALLY + TALLY]
        if entries:
            hook.saw_entries(file_number, number, entries, size_bytes, largest)
            tallies[number * TALLY : number * TALLY + TALLY] = [0] * TALLY
