"""Utilization tracking: what every entry adds to its file, and what it makes obsolete (R-CLN-5 to R-CLN-13).

The writer reports every entry under the log write latch. At each checkpoint the counters of every changed file are
logged as a FileSummaryLN in ``_jeUtilization``, older files first: logging one adds to the current file, whose own
summary comes last and includes itself. Entries logged later (such as CkptEnd) are counted in the next checkpoint's
summaries, or counted again by recovery.

During recovery the same counters are filled from the log (R-REC-18, R-REC-19), without offsets: a missing count only
wastes space, a wrong offset would lose data (R-CLN-10).
"""

from __future__ import annotations

from typing import Final

from engine.catalog.catalog import Catalog
from engine.catalog.name_operations import DatabaseOptions, NamingOperations
from engine.cleaner.file_summary import Counters
from engine.format.entry.ln import EMBEDDED, HAS_PRIOR_SIZE, LN
from engine.format.entry.ln_content import FileSummaryLN
from engine.format.entry.node import (
    KNOWN_DELETED,
    PENDING_DELETED,
    SLOT_EMBEDDED,
    NodeRecord,
    decode_node,
)
from engine.format.entry_types import (
    DELTA_TYPE,
    FILE_HEADER,
    LNS,
    TREE_NODES,
)
from engine.format.fast.bin import NodeHead, decode_node_head
from engine.format.lsn import NULL_LSN, file_of, is_null, offset_of
from engine.format.versions import PRIOR_VERSION
from engine.log.passes import RawEntry
from engine.log.writer import LogWriter
from engine.tree.bin_node import BIN
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.tree import bins, read_ln
from engine.txn.manager import TxnManager
from engine.txn.payload import FILE_SUMMARY, Payload, PutMode
from engine.txn.records import Records
from engine.txn.txn import Durability

DATABASE_NAME: Final = "_jeUtilization"
_SEQUENCE_TOP: Final = 0x7FFFFFFF
# Slots whose LN is already obsolete: deleted, or embedded.
_NO_LN: Final = KNOWN_DELETED | PENDING_DELETED | SLOT_EMBEDDED


class UtilizationTracker:
    """Counts for every log file; a write observer, a recovery hook and a checkpoint participant.

    Arguments:
        ctx: the trees.
    """

    def __init__(self, ctx: TreeContext) -> None:
        self._ctx = ctx
        self._files: dict[int, Counters] = {}
        self._summary_lsns: dict[int, int] = {}
        self._counts_itself = NULL_LSN
        self._left: set[int] = set()
        self._parts: tuple[Catalog, NamingOperations, Records, TxnManager] | None = None

    def connect(self, catalog: Catalog, naming: NamingOperations, records: Records, txns: TxnManager) -> None:
        """Set the parts that are used for writing FileSummaryLNs."""
        self._parts = (catalog, naming, records, txns)

    def leave(self, number: int) -> None:
        """Stop counting a file that has left the live log: it is reserved, or deleted."""
        self._left.add(number)
        self._files.pop(number, None)

    def counts(self, number: int) -> bool:
        """Whether a file belongs to the live log."""
        return number not in self._left and self._ctx.access.has_file(number)

    def counters(self, number: int) -> Counters:
        """The counters of a file."""
        found = self._files.get(number)
        if found is None:
            found = self._files[number] = Counters()
        return found

    def files(self) -> dict[int, Counters]:
        """All counters by file number."""
        return self._files

    # The writer's observer.

    def logged(self, lsn: int, type_number: int, size: int, born_obsolete: bool) -> None:
        """Count an entry that has got its LSN."""
        counters = self._files.get(lsn >> 32) or self.counters(lsn >> 32)
        counters.count_new(type_number, size)
        # The offset is not recorded: the cleaner recognises the LN as obsolete by its entry (R-CLN-5).
        if born_obsolete and type_number in LNS:
            counters.count_obsolete_ln(size, None)

    def obsolete_node(self, lsn: int, *, is_delta: bool) -> None:  # noqa: ARG002
        """Count a node version that was replaced."""
        if self._exists(lsn):
            self.counters(lsn >> 32).count_obsolete_node(offset_of(lsn))

    def obsolete_ln(self, lsn: int, size: int) -> None:
        """Count an LN version that was replaced."""
        if self._exists(lsn):
            self.counters(lsn >> 32).count_obsolete_ln(size, offset_of(lsn))

    # The recovery hook.

    @property
    def hears_all(self) -> bool:
        """False: a plain insertion makes nothing obsolete."""
        return False

    def saw_entries(self, file_number: int, type_number: int, entries: int, size_bytes: int, largest: int) -> None:
        """Count entries of the recovery range that make no others obsolete."""
        if type_number != FILE_HEADER:
            self.counters(file_number).count_many(type_number, entries, size_bytes, largest)

    def saw_entry(self, raw: RawEntry, *, provisional: bool, partial_start: int) -> None:
        """Count an entry of the recovery range, in log order (R-REC-18)."""
        # A FileSummaryLN that lies in the file it summarizes has already counted itself.
        if raw.type_number == FILE_HEADER or raw.lsn == self._counts_itself:
            return
        counters = self.counters(file_of(raw.lsn))
        counters.count_new(raw.type_number, raw.size)
        if raw.type_number in TREE_NODES:
            node = decode_node_head(raw.body, len(raw.body), raw.version, raw.type_number)
            self._saw_node(raw, node or decode_node(raw.body, raw.version, raw.type_number, with_slots=False))
            # The checkpoint that logged this node was not finished, so no parent references the node (R-REC-18).
            if provisional and partial_start != NULL_LSN and raw.lsn > partial_start:
                counters.count_obsolete_node(None)

    def saw_summary(self, raw: RawEntry, record: LN) -> None:
        """Take over a FileSummaryLN of the recovery range, which includes all earlier counts of its file."""
        if len(record.key) == 8:
            number = int.from_bytes(record.key[:4], "big")
            # The summary includes everything counted before, so counting starts anew (R-REC-18).
            self._files[number] = Counters()
            self._summary_lsns[number] = raw.lsn
            self._counts_itself = raw.lsn if number == file_of(raw.lsn) else NULL_LSN

    def redone(self, raw: RawEntry, record: LN, db: DatabaseState, commit_lsn: int) -> None:
        """Count the versions that an LN eligible for redo makes obsolete (R-REC-57)."""
        born = record.data is None or db.duplicates
        if born or (raw.version >= PRIOR_VERSION and record.flags & EMBEDDED):
            self._uncounted_ln(raw.lsn, raw.size, raw.lsn)
        # Until v15 an entry does not record the version that it replaces.
        if raw.version < PRIOR_VERSION or not record.flags2 & HAS_PRIOR_SIZE:
            return
        if record.prior_file >= 0:
            self._uncounted_ln(record.prior_file << 32, record.prior_size, raw.lsn)
        elif not is_null(record.abort_lsn) and commit_lsn != NULL_LSN:
            self._uncounted_ln(record.abort_lsn, record.prior_size, commit_lsn)

    def is_obsolete(self, lsn: int, made_by: int) -> bool:
        """Whether a replaced version is in the live log, and no summary has counted it as obsolete yet (R-REC-19)."""
        return self._exists(lsn) and self._summary_lsns.get(file_of(lsn), NULL_LSN) < made_by

    def replaced(self, file_number: int, versions: int, sized: int, size_bytes: int) -> None:
        """Count obsolete LNs without offsets."""
        self.counters(file_number).count_obsolete_lns(versions, sized, size_bytes)

    def undone(self, raw: RawEntry, record: LN, db: DatabaseState | None) -> None:
        """Count an LN that was undone (R-REC-46)."""
        if record.data is not None and not record.flags & EMBEDDED and (db is None or not db.duplicates):
            self._uncounted_ln(raw.lsn, raw.size, raw.lsn)

    # The checkpoint participant.

    def checkpoint_begins(self) -> bool:
        """Returns False: this participant releases no file."""
        return False

    def checkpoint_started(self) -> None:
        """Nothing has to be made consistent."""

    def before_checkpoint_end(self) -> None:
        """Log a FileSummaryLN for every file that changed (R-CLN-12)."""
        state = self._database()
        writer = self._ctx.writer
        if state is None or writer is None:
            return
        # Logging a summary can begin a new file; then the previously current file has to be logged too.
        logged: set[int] = set()
        while changed := self._changed(file_of(writer.next_lsn)) - logged:
            for number in sorted(changed):
                self._log_summary(writer, state, number)
            logged |= changed
        self._log_summary(writer, state, file_of(writer.next_lsn))

    def log_if_changed(self, number: int) -> None:
        """Log a FileSummaryLN for a file whose counts changed since its last one."""
        state, writer = self._database(), self._ctx.writer
        if state is not None and writer is not None and self.counters(number).changed:
            self._log_summary(writer, state, number)

    def _changed(self, current: int) -> set[int]:
        """Files, except the current one, whose counts changed since their last summary."""
        found = {number for number, counters in list(self._files.items()) if counters.changed}
        return {number for number in found if number != current and self.counts(number)}

    def checkpoint_ended(self) -> None:
        """Do nothing: no action waits for this."""

    def count_removed(self, state: DatabaseState) -> None:
        """Count everything in a removed database as obsolete, without offsets (R-CLN-8)."""
        seen: set[int] = set()
        for node in bins(self._ctx, state):
            self._count_path(node, seen)
            for index, lsn in enumerate(node.lsns):
                readable = not node.states[index] & _NO_LN and not state.duplicates
                if readable and self._exists(lsn):
                    self.counters(file_of(lsn)).count_obsolete_ln(node.sizes[index], None)

    def _count_path(self, node: IN, seen: set[int]) -> None:
        """Count a node and its ancestors, each once."""
        current: IN | None = node
        while current is not None and id(current) not in seen:
            seen.add(id(current))
            lsn = current.lsn()
            if self._exists(lsn):
                self.counters(file_of(lsn)).count_obsolete_node(None)
            current = current.parent

    def load(self) -> None:
        """Add the summaries in the log to the counts of recovery (POPULATE_UTILIZATION_PROFILE)."""
        state = self._database()
        if state is None:
            return
        with self._ctx.latch:
            for node in bins(self._ctx, state):
                for index in range(len(node)):
                    if node.is_live(index) and len(node.keys[index]) == 8:
                        self._load_slot(node, index)

    def _load_slot(self, node: BIN, index: int) -> None:
        key = node.keys[index]
        number = int.from_bytes(key[:4], "big")
        sequence = _SEQUENCE_TOP - int.from_bytes(key[4:], "big")
        # A summary remains without its file if a crash follows the deletion.
        if not self.counts(number):
            return
        counters = self.counters(number)
        if counters.last_sequence >= sequence:
            return
        # Keys descend by sequence number: the first one of a file is its newest, and has the complete counters.
        first = counters.last_sequence < 0
        counters.last_sequence = sequence
        content = read_ln(self._ctx, node.db, node.lsns[index]).content
        if first and isinstance(content, FileSummaryLN) and content.summary is not None:
            counted = counters.summary()
            total = [a + b for a, b in zip(counted, content.summary, strict=True)]
            # The size of the largest LN is a maximum and not a sum.
            total[6] = max(counted.max_ln_size, content.summary.max_ln_size)
            counters.set(type(counted)._make(total))

    def _log_summary(self, writer: LogWriter, state: DatabaseState, number: int) -> None:
        assert self._parts is not None
        _, _, records, txns = self._parts
        counters = self.counters(number)
        counted = counters.total_count + counters.obsolete_in_count + counters.obsolete_ln_count
        # Higher than the previous one in any case: the newest summary must sort first.
        sequence = min(max(counted, counters.last_sequence + 1), _SEQUENCE_TOP)
        key = number.to_bytes(4, "big") + (_SEQUENCE_TOP - sequence).to_bytes(4, "big")
        with self._ctx.latch:
            offsets = tuple(sorted(set(counters.new_offsets)))
            # Offsets that are added while the entry is being written wait for the next summary.
            taken = len(counters.new_offsets)
            # Read before the entry is logged, since logging may begin a new file: the encoded size must not change.
            anchor = writer.last_lsn
            payload = Payload(b"", FILE_SUMMARY, refresh=lambda: FileSummaryLN(anchor, counters.summary(), offsets))
            locker = txns.begin(transactional=False, durability=Durability.NO_SYNC)
            records.put(state, key, payload, locker, PutMode.OVERWRITE)
            txns.end_operation(locker)
            del counters.new_offsets[:taken]
            counters.last_sequence = sequence
            counters.changed = bool(counters.new_offsets)

    def _database(self) -> DatabaseState | None:
        """The utilization database; created if a writable environment has no such database."""
        if self._parts is None:
            return None
        catalog, naming, _, txns = self._parts
        with self._ctx.latch:
            state = catalog.by_name(DATABASE_NAME)
        if state is None and self._ctx.writer is not None:
            txn = txns.begin(durability=Durability.NO_SYNC)
            state = naming.create(DATABASE_NAME, DatabaseOptions(), txn, internal=True)
            txns.commit(txn)
        return state

    def _saw_node(self, raw: RawEntry, node: NodeHead | NodeRecord) -> None:
        for lsn in (node.prev_full_lsn, node.prev_delta_lsn):
            # A delta keeps its full version in use (R-TREE-33).
            if lsn != NULL_LSN and not (raw.type_number == DELTA_TYPE and lsn == node.prev_full_lsn):
                self._uncounted_node(lsn, raw.lsn)

    def _uncounted_node(self, lsn: int, made_by: int) -> None:
        # A summary of the file that was logged later has already counted this version (R-REC-19).
        if self._exists(lsn) and self._summary_lsns.get(file_of(lsn), NULL_LSN) < made_by:
            self.counters(file_of(lsn)).count_obsolete_node(None)

    def _uncounted_ln(self, lsn: int, size: int, made_by: int) -> None:
        if self.is_obsolete(lsn, made_by):
            self.counters(file_of(lsn)).count_obsolete_ln(size, None)

    def _exists(self, lsn: int) -> bool:
        return not is_null(lsn) and self.counts(file_of(lsn))
