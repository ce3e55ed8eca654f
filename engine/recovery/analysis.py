"""The first walk of recovery over its part of the log (passes 1 to 6, R-REC-10 to R-REC-19).

One forward walk collects the input of those passes: nodes, ends of transactions and rollbacks, MapLNs, and the extremes
of the id sequences. Items that can number millions are kept in a few bytes each.

The hook receives every entry from CkptStart on. Entries that affect others, or belong to the replication stream, are
passed one by one; all others are counted by type and file.
"""

from __future__ import annotations

from array import array
from typing import Final

from engine.events import SILENT, Listener, Progress
from engine.format.bytecursor import sorted_unpack
from engine.format.codecs import decode_body
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import MapLN, NameLN
from engine.format.entry_types import (
    ABORT,
    COMMIT,
    EXTINCT_SCAN_LNS,
    FILE_SUMMARY_LN,
    FILE_SUMMARY_LNS,
    MAP_LNS,
    NAME_LNS,
    NODE_ENTRIES,
    ROLLBACK_START,
    ROLLBACKS,
    TXN_ENDS,
    TXN_FATES,
)
from engine.format.fast.header import TYPES, header_lengths
from engine.format.fast.loops import COUNT, KEEP, STOP, TALLY, no_tallies
from engine.format.fast.txn_end import ended_transaction
from engine.format.fast.walks import sift
from engine.format.header import FLAGS_AT, REPLICATED, TYPE_AT
from engine.format.lsn import NULL_LSN, file_of
from engine.log.access import LogAccess
from engine.log.passes import LogRange, RangePiece, RawEntry, bytes_of, forward_pieces, raw_at
from engine.recovery.hooks import RecoveryHook
from engine.recovery.node_replay import NodeLog, is_provisional, logged_node
from engine.recovery.result import RecoveryResult

ENDS: Final = TXN_FATES | ROLLBACKS
# Entries that affect others: they replace versions of a node, or reset the counters of a file.
_WITH_CONSEQUENCES: Final = NODE_ENTRIES | FILE_SUMMARY_LNS
_LOOKED_AT: Final = NODE_ENTRIES | MAP_LNS | NAME_LNS | EXTINCT_SCAN_LNS | ENDS
# Passed to the hook one by one; other types are counted.
_TOLD: Final = _WITH_CONSEQUENCES | {ROLLBACK_START}


def _actions(*, hook: bool, ends_only: bool = False) -> list[int]:
    """The action of the walk for an entry, by ``type | flags << 8``, in the form of ``loops.sift``."""
    kept = [number in (ENDS if ends_only else _LOOKED_AT) for number in range(TYPES)]
    if not hook:
        return [KEEP if keep else 0 for keep in kept] * TYPES
    told = [number in _TOLD for number in range(TYPES)]
    # A FileSummaryLN resets the counts of its file, so the tallies up to it must be reported first (R-REC-18).
    stop = [STOP if number == FILE_SUMMARY_LN else 0 for number in range(TYPES)]
    local = [
        KEEP | after if one else COUNT | (KEEP if keep else 0)
        for one, keep, after in zip(told, kept, stop, strict=True)
    ]
    # The hook receives every replicated entry individually, since each has a VLSN (R-REC-16).
    shared = [KEEP | after for after in stop]
    return [action for flags in range(TYPES) for action in (shared if flags & REPLICATED else local)]


_ENDS_ONLY: Final = _actions(hook=False, ends_only=True)
_ENDS_AND_NODES: Final = _actions(hook=False)
_EVERYTHING: Final = _actions(hook=True)


class Analysis:
    """The walk, and its results.

    Arguments:
        access: the log.
        result: provides the range; receives the ids, and the outcomes of transactions.
        hook: receives the entries.

    Attributes:
        nodes: the node entries that recovery has to replay.
        ends: number of entries about outcomes: Commit, Abort, Prepare, RollbackStart and RollbackEnd.
        only_ends: whether all of these are Commits or Aborts; otherwise they must be read again, backwards.
        map_lns: LSNs of MapLNs.
    """

    def __init__(self, access: LogAccess, result: RecoveryResult, hook: RecoveryHook | None) -> None:
        self._access = access
        self._result = result
        self._hook = hook
        self._actions = _ENDS_AND_NODES if hook is None else _EVERYTHING
        self.nodes = NodeLog()
        self.ends = 0
        self.only_ends = True
        self.map_lns: list[int] = []

    def run(self, listener: Listener = SILENT) -> None:
        """Do the walk."""
        result = self._result
        tallies = no_tallies()
        extent = LogRange(result.first_active_lsn, result.end_lsn)
        progress = Progress(listener, "READ_DBMAP_INFO", bytes_of(self._access, extent))
        for piece in forward_pieces(self._access, extent):
            # Before CkptStart only outcomes of transactions matter: the checkpoint covers the nodes there.
            start = min(max(result.ckpt_start_lsn - piece.lsn, 0), len(piece.data))
            lengths = header_lengths(piece.version)
            before: list[int] = []
            pos = sift(piece.data, 0, start, _ENDS_ONLY, lengths, before, tallies)
            self._look(piece, before)
            going = True
            # The walk stops at each FileSummaryLN; the tallies up to it are reported first.
            while going:
                found: list[int] = []
                now = sift(piece.data, pos, len(piece.data), self._actions, lengths, found, tallies)
                going, pos = now > pos, now
                if self._hook is not None:
                    _tell_tallies(self._hook, file_of(piece.lsn), tallies)
                self._look(piece, found)
            progress.add(len(piece.data))

    def _look(self, piece: RangePiece, found: list[int]) -> None:
        """Process entries of a piece, in log order."""
        result, hook = self._result, self._hook
        lsn_base, version, data = piece
        lengths = header_lengths(version)
        # Most entries here are ends of transactions: they are noted in groups.
        lsns: list[int] = []
        numbers: list[int] = []
        txn_ids: list[int] = []
        for pos in found:
            number, flags = data[pos + TYPE_AT], data[pos + FLAGS_AT]
            lsn = self._access.at_lsn = lsn_base + pos
            if number in TXN_ENDS:
                lsns.append(lsn)
                numbers.append(number)
                txn_ids.append(ended_transaction(data, pos + lengths[number | flags << 8], version))
                if hook is not None and flags & REPLICATED and lsn >= result.ckpt_start_lsn:
                    self._tell(hook, raw_at(piece, pos))
                continue
            raw = raw_at(piece, pos)
            # The checkpoint's file summaries already count the entries before its CkptStart (R-REC-18).
            if hook is not None and lsn >= result.ckpt_start_lsn and (flags & REPLICATED or number in _TOLD):
                self._tell(hook, raw)
            if number in ENDS:
                self.ends += 1
                self.only_ends = False
            elif number in MAP_LNS:
                self.map_lns.append(lsn)
                self._saw_id(raw)
            elif number in NAME_LNS or number in EXTINCT_SCAN_LNS:
                self._saw_id(raw)
            elif number in NODE_ENTRIES:
                node, node_id = logged_node(raw)
                # Provisional nodes too: their ids are used (R-REC-15).
                result.ids.saw_node(node_id)
                # A provisional node counts only through a parent logged later; replayed alone it could be put under an
                # older parent (R-REC-12).
                if not is_provisional(raw, result.ckpt_end_lsn):
                    self.nodes.add(node, node_id)
        self._saw_ends(lsns, bytes(numbers), txn_ids)

    def _saw_ends(self, lsns: list[int], numbers: bytes, txn_ids: list[int]) -> None:
        """Note Commits and Aborts: there can be millions, so only the last one of each transaction is kept."""
        result = self._result
        self.ends += len(lsns)
        result.ids.saw_txn(max(txn_ids, default=0))
        result.ids.saw_txn(min(txn_ids, default=0))
        result.fate.committed.note_latest(txn_ids, lsns, numbers, COMMIT)
        if ABORT in numbers:
            result.fate.aborted.note_latest(txn_ids, lsns, numbers, ABORT)

    def _tell(self, hook: RecoveryHook, raw: RawEntry) -> None:
        if raw.type_number not in _WITH_CONSEQUENCES:
            hook.saw_entry(raw, provisional=False, partial_start=NULL_LSN)
            return
        if raw.type_number == FILE_SUMMARY_LN:
            record = decode_body(raw.type_number, raw.version, raw.body)
            assert isinstance(record, LN)
            hook.saw_summary(raw, record)
        hook.saw_entry(
            raw,
            provisional=is_provisional(raw, self._result.ckpt_end_lsn),
            partial_start=self._result.partial_ckpt_start,
        )

    def _saw_id(self, raw: RawEntry) -> None:
        record = decode_body(raw.type_number, raw.version, raw.body)
        assert isinstance(record, LN)
        if isinstance(record.content, MapLN):
            self._result.ids.saw_db(record.content.database.db_id)
            if record.content.database.temporary:
                self._result.temporary.add(record.content.database.db_id)
        elif isinstance(record.content, NameLN):
            self._result.ids.saw_db(record.content.db_id)
        elif raw.type_number in EXTINCT_SCAN_LNS:
            self._result.ids.saw_extinction(sorted_unpack(record.key)[0])


def _tell_tallies(hook: RecoveryHook, file_number: int, tallies: array[int]) -> None:
    """Report the tallied entries to the hook, and reset the tallies."""
    for number in range(TYPES):
        slot = number * TALLY
        if tallies[slot]:
            hook.saw_entries(file_number, number, tallies[slot], tallies[slot + 1], tallies[slot + 2])
            tallies[slot] = tallies[slot + 1] = tallies[slot + 2] = 0
