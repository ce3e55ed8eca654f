"""Cleaning one file: everything that the trees still need is logged again (R-CLN-25 to R-CLN-28).

The whole file is verified first: nothing is copied out of a file with damage. Then its entries are processed in order;
almost all turn out to be dead:

=================  ====================================================================================================
entry              needed when
=================  ====================================================================================================
LN                 the slot of its key leads to it: migrated; a MapLN: its database becomes dirty
IN, BIN            the slot of its parent, or the database's root, leads to it, or the delta of a BIN is based on it:
                   the node becomes dirty, and its next version is a whole one
delta              the slot of its parent leads to it: the BIN becomes dirty
DbTree             it is the root entry: logged again
=================  ====================================================================================================

LNs are collected in a batch and looked up in key order, so that one descent serves all LNs of a BIN. The latch is held
for one BIN at a time. Cleaning never waits for a lock: an LN that is locked becomes pending (``file_states``).

Recorded obsolete offsets are trusted only for LNs outside the replication stream. A rollback may restore an
intermediate version of a transaction, and a crash during a checkpoint may restore an old version of a node that the
checkpoint had already counted; in these cases the tree decides.

Example: 0x3 holds ``INS a | INS b | UPD a | BIN | IN | CkptEnd``, and b has been updated in 0x5. INS a and INS b are
dead, UPD a is logged again, and the BIN becomes dirty unless it has been logged since.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Final, NamedTuple

from engine.catalog.catalog import Catalog
from engine.catalog.name_operations import NamingOperations
from engine.cleaner import tracker
from engine.cleaner.file_records import obsolete_offsets
from engine.cleaner.file_report import FileReport
from engine.cleaner.file_states import FileStates, PendingLN, ReservedContents
from engine.cleaner.migration import migrate
from engine.cleaner.migration_candidates import Sieve
from engine.cleaner.tracker import UtilizationTracker
from engine.errors import DamageError, UnsupportedError
from engine.format.codecs import decode_body
from engine.format.entry.legacy import OldDelta
from engine.format.entry.ln import EMBEDDED, LN
from engine.format.entry.node import KNOWN_DELETED, PENDING_DELETED, SLOT_EMBEDDED, decode_node
from engine.format.entry_types import (
    BIN_TYPE,
    COMMON_LNS,
    DB_TREE,
    DELTA_TYPE,
    DELTAS,
    FILE_HEADER,
    FILE_SUMMARY_LNS,
    LNS,
    MAP_LNS,
    OLD_DELTA_TYPE,
    TRANSACTIONAL,
)
from engine.format.fast.header import header_lengths, item_size
from engine.format.fast.ln import plain_fields
from engine.format.header import FLAGS_AT, TYPE_AT
from engine.format.lsn import NULL_LSN, format_lsn, is_null, make_lsn
from engine.format.versions import EMBEDDED_RECORDS, TWO_PART_DUPLICATES
from engine.log.check import FileCheck, PairTotals, check_file
from engine.log.files import LogFile
from engine.log.passes import LogRange, RangePiece, RawEntry, forward_pieces, raw_at
from engine.log.reader import FileReader
from engine.tree.apply import covering
from engine.tree.bin_node import BIN, is_expired
from engine.tree.compress import compress, tidy
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.keys import Key, UnknownOrderError
from engine.tree.tree import child_of, find_parent, root_of
from engine.txn.lock_types import Grant, LockType
from engine.txn.locks import LockTable
from engine.txn.manager import TxnManager

# Least size of a batch, if je.cleaner.lookAheadCacheSize is smaller.
_LEAST_BATCH_BYTES: Final = 1 << 20
_new_tuple: Final = tuple.__new__


class CleaningParts(NamedTuple):
    """The parts that processing uses.

    Attributes:
        between: called whenever no node is in use, so that the cache can be reduced to its budget.
        now_ms, purge_delay_ms: records that expired longer ago than the delay are dropped.
        look_ahead_bytes: je.cleaner.lookAheadCacheSize.
        is_extinct: whether the application has discarded a record (R-CLN-53); None without such a function.
    """

    ctx: TreeContext
    catalog: Catalog
    naming: NamingOperations
    txns: TxnManager
    locks: LockTable
    utilization: UtilizationTracker
    states: FileStates
    between: Callable[[], None]
    now_ms: Callable[[], int]
    purge_delay_ms: int
    look_ahead_bytes: int
    is_extinct: Callable[[DatabaseState, Key], bool] | None


class _Leaf(NamedTuple):
    """An LN that has to be looked up.

    Attributes:
        lsn, size: LSN and size of the entry.
        piece, pos: its place in the buffer that was read; few entries have to be extracted from it.
    """

    key: Key
    lsn: int
    size: int
    piece: RangePiece
    pos: int


_KEY: Final = itemgetter(0)


def process_file(parts: CleaningParts, file: LogFile, *, count_only: bool = False) -> FileReport:
    """Clean a file, or, with ``count_only``, determine what is needed of it; its state is CLEANED afterwards.

    Raises:
        DamageError: a bad entry in the file, or in the nodes that lead to its records. UnsupportedError: the file holds
            records whose order is not known, or records in the form of v6 and v7.
    """
    check = _checked(parts, file)
    totals: dict[int, PairTotals] = {}
    for pair, found in check.totals.items():
        if pair & 0xFF != FILE_HEADER:
            before = totals.get(pair & 0xFF)
            totals[pair & 0xFF] = found if before is None else before.plus(found)
    run = _Run(parts, FileReport(file.number, totals), count_only=count_only)
    run.read(file)
    if not count_only:
        parts.states.cleaned(
            file.number, ReservedContents(check.first_vlsn, check.last_vlsn, tuple(sorted(run.db_ids)))
        )
    return run.report


def process_pending(parts: CleaningParts) -> int:
    """Process again the LNs that were locked (R-CLN-30); returns how many still are."""
    left = 0
    for pending in parts.states.pending():
        with parts.ctx.latch:
            if _is_still_locked(parts, pending):
                left += 1
            else:
                parts.states.settled(pending.lsn)
        parts.between()
    return left


def _is_still_locked(parts: CleaningParts, pending: PendingLN) -> bool:
    """Process one pending LN; returns whether it is still locked."""
    if pending.db.deleted:
        return False
    run = _Run(parts, FileReport(0, {}), count_only=False)
    # The old version first: a transaction that has it locked may be about to restore it.
    if run.is_locked(pending.lsn):
        return True
    node, _ = covering(parts.ctx, pending.db, pending.key)
    if node is None:
        return False
    entry = parts.ctx.access.read(pending.lsn, allow_invisible=True)
    raw = RawEntry(
        lsn=entry.lsn,
        type_number=entry.type_number,
        version=entry.version,
        flags=entry.flags,
        vlsn=entry.vlsn,
        body=entry.body,
        size=entry.total_bytes,
    )
    index = run.look_at(node, pending.key, raw.lsn, raw.size)
    if index >= 0:
        run.keep(node, index, raw)
    return run.report.lns_locked > 0


def _checked(parts: CleaningParts, file: LogFile) -> FileCheck:
    """Verify every checksum of the file."""
    access = parts.ctx.access
    with FileReader(access.storage, file, is_last=False, version=access.version_of(file.number)) as reader:
        check = check_file(reader)
    if check.damages:
        damage = check.damages[0].damage
        raise DamageError(
            "the file is damaged",
            file=f"{access.storage.root}/{file.path}",
            lsn=format_lsn(damage.lsn),
            expected=damage.expected or None,
            found=damage.found or None,
            consequence="it was not cleaned",
            hint="jetool verify shows what is damaged; restore the file from a backup",
        )
    return check


class _Run:
    """One walk over a file.

    Arguments:
        parts: the parts that it uses.
        report: receives the results.
        count_only: change nothing.

    Attributes:
        db_ids: the databases that have entries in the file.
    """

    def __init__(self, parts: CleaningParts, report: FileReport, *, count_only: bool) -> None:
        self._parts = parts
        self._ctx = parts.ctx
        self._count_only = count_only
        self._batch: dict[int, list[_Leaf]] = {}
        self._batch_bytes = 0
        # Records that expired before this time are dropped: the purge delay has passed too (R-CLN-50).
        self._past_ms = parts.now_ms() - parts.purge_delay_ms
        self._dbs: dict[int, DatabaseState | None] = {}
        self._is_extinct = parts.is_extinct
        self.report = report
        self.db_ids: set[int] = set()

    def read(self, file: LogFile) -> None:
        """Process every entry."""
        sieve = Sieve(self._obsolete_offsets(file.number))
        extent = LogRange(make_lsn(file.number, 0), make_lsn(file.number + 1, 0))
        for piece in forward_pieces(self._ctx.access, extent):
            # Databases that turned out to need no LNs so far.
            sieve.unneeded = {db_id for db_id, db in self._dbs.items() if db is None or db.duplicates}
            for pos in sieve.sift(piece):
                number = piece.data[pos + TYPE_AT]
                if number in LNS:
                    self._take_ln(piece, pos)
                elif number == DB_TREE:
                    self._take_root(raw_at(piece, pos))
                else:
                    self._take_node(raw_at(piece, pos))
        self.report.lns_obsolete += sieve.obsolete
        self.db_ids |= sieve.db_ids
        self._flush_batch()

    def _obsolete_offsets(self, number: int) -> set[int]:
        with self._ctx.latch:
            state = self._parts.catalog.by_name(tracker.DATABASE_NAME)
            found = set() if state is None else obsolete_offsets(self._ctx, state, number)
            found.update(self._parts.utilization.counters(number).new_offsets)
        return found

    def _take_ln(self, piece: RangePiece, at: int) -> None:
        data, version, number = piece.data, piece.version, piece.data[at + TYPE_AT]
        body = at + header_lengths(version)[number | data[at + FLAGS_AT] << 8]
        end = body + item_size(data, at)
        flags, db_id, _, length, pos = (
            plain_fields(data, body, end, version, number in TRANSACTIONAL, True)
            if number in COMMON_LNS
            else (-1, 0, 0, 0, 0)
        )
        key = data[pos + max(length, 0) : end]
        if flags < 0:
            raw = raw_at(piece, at)
            record = decode_body(number, raw.version, raw.body)
            assert isinstance(record, LN)
            flags, db_id, key, length = record.flags, record.db_id, record.key, -1 if record.data is None else 0
        self.db_ids.add(db_id)
        db = self._database(db_id)
        embedded = flags & EMBEDDED and version >= EMBEDDED_RECORDS
        if length < 0 or embedded or db is None or db.duplicates:
            self.report.lns_obsolete += 1
            return
        leaf = _new_tuple(_Leaf, (db.order.wrap(key), piece.lsn + at, end - at, piece, at))
        self._batch.setdefault(db_id, []).append(leaf)
        self._batch_bytes += end - at
        if self._batch_bytes >= max(self._parts.look_ahead_bytes, _LEAST_BATCH_BYTES):
            self._flush_batch()

    def _database(self, db_id: int) -> DatabaseState | None:
        """A database, None if it is gone; looked up once per file and id."""
        if db_id not in self._dbs:
            with self._ctx.latch:
                db = self._parts.catalog.by_id(db_id)
            if db is not None and db.old_duplicates:
                raise UnsupportedError(f"{db.label} holds duplicates in the form of JE 4", hint="open it with JE first")
            if db is not None and db.order.learned is not None:
                raise UnknownOrderError(db.order.learned)
            self._dbs[db_id] = db
        return self._dbs[db_id]

    def _flush_batch(self) -> None:
        """Look up the LNs of the batch, BIN by BIN (R-CLN-27)."""
        batch, self._batch, self._batch_bytes = self._batch, {}, 0
        self._past_ms = self._parts.now_ms() - self._parts.purge_delay_ms
        for db_id, leaves in batch.items():
            db = self._dbs[db_id]
            assert db is not None
            leaves.sort(key=_KEY)
            if db.name == tracker.DATABASE_NAME and not self._count_only:
                self._log_summaries(db, leaves)
            at = 0
            while at < len(leaves):
                with self._ctx.latch:
                    at = self._visit(db, leaves, at)
                self._parts.between()

    def _log_summaries(self, db: DatabaseState, leaves: list[_Leaf]) -> None:
        """Before summaries are migrated, log the counts since the newest summaries of their files.

        Recovery starts counting at the last summary of a file that it meets (R-REC-18), which after migration may be an
        old one. This is done here and not at the migration, since logging a summary may split its BIN.
        """
        utilization = self._parts.utilization
        for number in {int.from_bytes(db.order.unwrap(leaf.key)[:4], "big") for leaf in leaves}:
            if utilization.counts(number):
                utilization.log_if_changed(number)

    def _visit(self, db: DatabaseState, leaves: list[_Leaf], at: int) -> int:
        """Process all LNs from an index on that belong to the same BIN; returns the index of the first that does
        not.
        """
        node, bound = covering(self._ctx, db, leaves[at].key) if not db.deleted else (None, None)
        if node is None:
            self.report.lns_dead += len(leaves) - at
            return len(leaves)
        let_go = self.report.lns_expired + self.report.lns_extinct
        while at < len(leaves) and (bound is None or leaves[at].key < bound):
            leaf = leaves[at]
            index = self.look_at(node, leaf.key, leaf.lsn, leaf.size)
            if index >= 0 and not self._count_only:
                self.keep(node, index, raw_at(leaf.piece, leaf.pos))
            at += 1
        if self.report.lns_expired + self.report.lns_extinct > let_go and not self._count_only and not node.pins:
            tidy(self._ctx, node)
        if node.in_tree:
            self._ctx.account(node)
        return at

    def look_at(self, node: BIN, key: Key, lsn: int, size: int) -> int:
        """Look up one LN of ``size`` bytes by its key (R-CLN-26); returns the slot if the record has to be kept.

        Returns:
            -1 if the record is obsolete or locked.
        """
        report = self.report
        index, exact = node.find(key)
        slot_lsn = node.lsns[index] if exact else NULL_LSN
        if slot_lsn == NULL_LSN or node.states[index] & KNOWN_DELETED:
            report.lns_dead += 1
            return -1
        # Test the lock on the current version: its transaction may abort and restore the version in this file
        # (R-CLN-30).
        if not self._count_only and not node.db.deferred and self.is_locked(slot_lsn):
            self._parts.states.add_pending(PendingLN(lsn, node.db, key))
            report.lns_locked += 1
            report.needed_ln(size)
            return -1
        if slot_lsn != lsn or node.states[index] & (PENDING_DELETED | SLOT_EMBEDDED):
            report.lns_dead += 1
            return -1
        if is_expired(node.expirations[index], self._past_ms):
            # JE leaves the slot live; here it becomes known deleted, so that no search reads it once the file is gone
            # (R-TREE-50).
            if not self._count_only:
                node.set_known_deleted(index)
            report.lns_expired += 1
            return -1
        if self._is_extinct is not None and self._is_extinct(node.db, key):
            # As for expired records; the task of the discard then finds nothing left to do.
            if not self._count_only:
                node.set_known_deleted(index)
                # A delta would keep it in the log (R-TREE-32).
                node.no_delta = True
            report.lns_extinct += 1
            return -1
        report.needed_ln(size)
        report.lns_migrated += 1
        return index

    def keep(self, node: BIN, index: int, raw: RawEntry) -> None:
        """Keep the record of a slot: log it again, or, if it is a MapLN, mark its database dirty."""
        parts, key = self._parts, node.keys[index]
        if raw.type_number in MAP_LNS:
            found = parts.catalog.by_id(int(node.db.order.unwrap(key)))
            if found is None:
                node.set_known_deleted(index)
            else:
                # The next checkpoint logs it.
                found.dirty = True
            return
        if raw.type_number in FILE_SUMMARY_LNS:
            number = int.from_bytes(node.db.order.unwrap(key)[:4], "big")
            if not parts.utilization.counts(number):
                node.set_known_deleted(index)
                return
        self.report.written_bytes += migrate(self._ctx, parts.locks, node, index, raw)

    def is_locked(self, lsn: int) -> bool:
        """Whether a transaction has a version locked for writing, or waits for it."""
        locks = self._parts.locks
        if locks.is_free(lsn):
            return False
        locker = self._parts.txns.begin(transactional=False)
        if locks.lock(lsn, locker, LockType.READ, wait=False) is Grant.DENIED:
            return True
        # The latch keeps the slot unchanged, so release the lock at once. Otherwise migration would transfer it to the
        # new version for this locker too.
        locks.release(lsn, locker)
        return False

    def _take_root(self, raw: RawEntry) -> None:
        """Log the root entry again if it is in use, since a checkpoint logs it only if it is dirty."""
        with self._ctx.latch:
            if self._parts.naming.root_lsn == raw.lsn:
                # The root entry does not count as a needed node: summaries count every entry that is neither LN nor IN
                # as garbage (R-CLN-3).
                self.report.nodes_dirtied += 1
                if not self._count_only:
                    self._parts.naming.write_root()

    def _take_node(self, raw: RawEntry) -> None:
        """Process a node or a delta (R-CLN-28)."""
        if raw.type_number == OLD_DELTA_TYPE:
            self._take_old_delta(raw)
            return
        record = decode_node(raw.body, raw.version, raw.type_number, with_slots=False)
        self.db_ids.add(record.db_id)
        db = self._database(record.db_id)
        # Trees of duplicates were rebuilt when they got two-part keys (je-log-format.md 9.1).
        if db is None or (db.duplicates and raw.version < TWO_PART_DUPLICATES):
            self.report.nodes_dead += 1
            return
        with self._ctx.latch:
            ident = db.order.wrap(record.identifier_key)
            node = self._node_at(db, raw, record.node_id, record.level, ident) if not db.deleted else None
            self._dirty(node, raw, delta=raw.type_number == DELTA_TYPE)
        self._parts.between()

    def _node_at(self, db: DatabaseState, raw: RawEntry, node_id: int, level: int, ident: Key) -> IN | None:
        """The node whose current version this entry is; None for an obsolete entry."""
        root = root_of(self._ctx, db)
        if root is None or db.root_lsn == raw.lsn:
            return root
        found = find_parent(self._ctx, db, node_id, level, ident)
        if found is None:
            return None
        parent, index = found
        if raw.lsn in parent.lsns:
            # Search all slots of the parent: identifier keys of nodes that JE converted from old duplicates may lie
            # outside their nodes.
            return child_of(self._ctx, parent, parent.lsns.index(raw.lsn))
        # The full version of a BIN may be in use under a delta that was logged later (R-TREE-35).
        kid = parent.kids[index]
        if raw.type_number != BIN_TYPE or (kid is None and not self._is_delta(parent.lsns[index])):
            return None
        kid = child_of(self._ctx, parent, index)
        return kid if kid.full_lsn == raw.lsn else None

    def _is_delta(self, lsn: int) -> bool:
        """Whether a slot leads to a delta; determined from the entry, without the BIN."""
        return not is_null(lsn) and self._ctx.access.read(lsn).type_number in DELTAS

    def _dirty(self, node: IN | None, raw: RawEntry, *, delta: bool) -> None:
        """Make the next checkpoint log the node, so that this version is no longer needed afterwards."""
        if node is None:
            self.report.nodes_dead += 1
            return
        self.report.nodes_dirtied += 1
        self.report.needed_node(raw.size)
        if self._count_only:
            return
        node.dirty = True
        if isinstance(node, BIN):
            node.no_delta = node.no_delta or not delta
            # The node is about to be logged, so remove deleted slots first.
            if not node.pins:
                compress(self._ctx, node, dirty_slots=not delta or node.no_delta)
            self._ctx.account(node)

    def _take_old_delta(self, raw: RawEntry) -> None:
        """Process a delta up to v8, which does not hold the id of its node: the node is found by the key of a slot."""
        record = decode_body(raw.type_number, raw.version, raw.body)
        assert isinstance(record, OldDelta)
        self.db_ids.add(record.db_id)
        db = self._database(record.db_id)
        node: IN | None = None
        with self._ctx.latch:
            if db is not None and not db.deleted and record.slots:
                found, _ = covering(self._ctx, db, db.order.wrap(record.slots[0].key))
                node = found if found is not None and found.delta_lsn == raw.lsn else None
            self._dirty(node, raw, delta=True)
