"""The only module that redoes or undoes an LN (R-REC-44, R-REC-52), with the record versions that are exchanged.

Transaction abort, recovery and replica rollback all use it. Redo and undo compare the slot's LSN with the entry's, and
are therefore idempotent, whatever a checkpoint has or has not written.

Example (E-REC-1): ``150 UPD K (T1, abort 50)``, ``170 UPD K (T1, abort 50)``, a BIN with K→170 logged, crash. Undo of
170 finds the slot at 170 and sets it to 50; undo of 150 finds 50 and does nothing.

A ``RecordVersion`` is a version that a slot holds, held, or will hold again. Redo puts such versions into the tree,
undo returns to them, a transaction remembers those that it has replaced, and a rollback to a matchpoint chooses among
them.

``redo_sorted`` redoes many LNs of one database at once, in key order. The result is the same as after a call of
``redo_ln``, which has the rules, for each LN. It is several times faster since a BIN is searched once for all the keys
that it covers, each search begins after the previous slot, and a plain version costs only a tuple. Example: keys ``b``,
``d``, ``m`` and a BIN that covers everything below ``k``: one descent for ``b`` and ``d``, one for ``m``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from enum import Enum
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.errors import DamageError
from engine.format.entry.ln import ABORT_TOMBSTONE, EMBEDDED, LN, TOMBSTONE
from engine.format.entry.node import KNOWN_DELETED, PENDING_DELETED, SLOT_EMBEDDED, SLOT_TOMBSTONE
from engine.format.lsn import NULL_LSN, format_lsn, is_null
from engine.format.versions import EMBEDDED_RECORDS, LN_KEY_FIRST, NODE_SIZES
from engine.format.vlsn import NULL_VLSN
from engine.log.passes import RawEntry
from engine.tree.bin_node import BIN, DELETED, UNTIMED, Times, times_from
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.keys import Key, UnknownOrderError
from engine.tree.split import bin_for_insert
from engine.tree.tree import child_of, find_bin, root_of

if TYPE_CHECKING:
    from engine.tree.nodes_ahead import NodesAhead

_new_tuple: Final = tuple.__new__


class RecordVersion(NamedTuple):
    """A version of a record. ``record_version`` creates one faster.

    Attributes:
        lsn: LSN of its LN; NULL_LSN if there was no record.
        size: size of that entry in bytes; 0 if not known.
        key: key of the record, if the database allows keys to change; None otherwise.
        data: data of the record if embedded; None if it has to be read at the LSN.
        expiration: days, or negative hours; 0 for none.
        vlsn: VLSN of an embedded version, else NULL_VLSN.
        known_deleted: the version is a final deletion.
        pending_deleted: the version is a deletion whose transaction may be open, or which a later step may undo.
        times: times of an embedded version, since v19.
        tombstone: the record stands for a deleted one (since v19).
    """

    lsn: int
    size: int = 0
    key: bytes | None = None
    data: bytes | None = None
    expiration: int = 0
    vlsn: int = NULL_VLSN
    known_deleted: bool = False
    pending_deleted: bool = False
    times: Times = UNTIMED
    tombstone: bool = False

    @property
    def deleted(self) -> bool:
        """Whether it is a deletion."""
        return self.known_deleted or self.pending_deleted


def has_own_ln(version: RecordVersion, duplicates: bool) -> bool:
    """Whether a reader needs the LN of a version, so that the LN becomes obsolete only when the version is replaced
    (R-TXN-41).

    Arguments:
        duplicates: whether its database has duplicates, whose LNs are obsolete from the start.
    """
    # Deletions, embedded records and duplicates were counted when they were logged (R-CLN-5).
    return not duplicates and version.lsn != NULL_LSN and version.data is None and not version.known_deleted


def record_version(
    lsn: int,
    size: int = 0,
    key: bytes | None = None,
    data: bytes | None = None,
    expiration: int = 0,
    vlsn: int = NULL_VLSN,
    known_deleted: bool = False,
    pending_deleted: bool = False,
    times: Times = UNTIMED,
    tombstone: bool = False,
) -> RecordVersion:
    """Same as ``RecordVersion(...)``, in half the time; for code that runs for every record."""
    return _new_tuple(
        RecordVersion,
        (lsn, size, key, data, expiration, vlsn, known_deleted, pending_deleted, times, tombstone),
    )


def version_before(record: LN, lsn: int) -> RecordVersion:
    """The version before the transaction, from the abort information of the LN at an LSN (R-REC-44).

    A blind deletion (since v20) does not record where the old version was, since JE did not look. For duplicates, whose
    LNs are never read, the deletion's own LSN is used instead.
    """
    return record_version(
        lsn=lsn if record.blind_deletion else NULL_LSN if is_null(record.abort_lsn) else record.abort_lsn,
        key=record.abort_key,
        data=record.abort_data,
        expiration=record.abort_expiration,
        vlsn=record.abort_vlsn,
        known_deleted=record.abort_known_deleted,
        times=times_from(record.abort_modification_time, record.abort_creation_time),
        tombstone=bool(record.flags2 & ABORT_TOMBSTONE),
    )


class SlotEffect(Enum):
    """The effect on the slot."""

    NOTHING = "nothing"
    CHANGED = "changed"
    QUEUED = "queued"  # changed or found deleted: the compressor may remove the slot


class SlotChange(NamedTuple):
    """The effect, the previous LSN of the slot, and the BIN."""

    applied: SlotEffect
    tree_lsn: int
    node: BIN | None


def undo_ln(ctx: TreeContext, db: DatabaseState, key: Key, lsn: int, to: RecordVersion) -> SlotChange:
    """Undo one LN; never splits, never inserts (R-REC-44).

    Raises:
        DamageError: the slot has no LSN and is not deleted.
        UnknownOrderError: see ``redo_ln``.
    """
    # Search only, no split: undo must not log anything (R-REC-54).
    node = find_bin(ctx, db, key)
    if node is None:
        return SlotChange(SlotEffect.NOTHING, NULL_LSN, None)
    index, exact = node.find(key)
    if not exact:
        # With a learned order the record may be under another key that counts as equal.
        _refuse_guess(db)
        return SlotChange(SlotEffect.NOTHING, NULL_LSN, node)
    tree_lsn = node.lsns[index]
    if tree_lsn == NULL_LSN:
        # A live record without an LSN could not be read (R-TREE-22).
        if not node.states[index] & DELETED:
            raise DamageError(f"a slot of {db.label} has no LSN and is not deleted", lsn=format_lsn(lsn))
        return SlotChange(SlotEffect.QUEUED, NULL_LSN, node)
    # A newer version is in the slot, or undoing a later LN of the chain has restored it in one step (R-REC-45).
    if tree_lsn != lsn:
        return SlotChange(SlotEffect.NOTHING, tree_lsn, node)
    if node.guessed:
        _refuse_guess(db)
    _revert_slot(ctx, node, index, to)
    return SlotChange(SlotEffect.QUEUED if to.lsn == NULL_LSN else SlotEffect.CHANGED, tree_lsn, node)


def _refuse_guess(db: DatabaseState) -> None:
    """Refuse an operation that needs the order of a database, if it is only learned and must not be guessed.

    Raises:
        UnknownOrderError: the order is only learned, and guessing is not allowed.
    """
    learned = db.order.learned
    if learned is not None and not learned.may_guess:
        raise UnknownOrderError(learned)


def _revert_slot(ctx: TreeContext, node: BIN, index: int, to: RecordVersion) -> None:
    """Restore the previous version in a slot."""
    key = node.keys[index] if to.key is None else node.db.order.wrap(to.key)
    if to.lsn == NULL_LSN:
        # The record did not exist: the slot stays as known deleted, for the compressor (R-TREE-22).
        node.put(index, key, True, NULL_LSN, KNOWN_DELETED, None, 0, 0)
        return
    state = KNOWN_DELETED if to.known_deleted else PENDING_DELETED if to.pending_deleted else 0
    # The data comes from the LN that is undone: the old LN was obsolete at once and may have been cleaned (R-TREE-42).
    value = None if state else to.data
    size = 0
    if value is not None:
        state |= SLOT_EMBEDDED
    elif not state and ctx.log_version >= NODE_SIZES and not node.db.duplicates:
        # From this log version on, an LN is read with the size in its slot.
        size = ctx.access.read(to.lsn, allow_invisible=True).total_bytes
    state |= SLOT_TOMBSTONE if to.tombstone else 0
    _note_vlsn(node, key, to.vlsn if value is not None else NULL_VLSN)
    node.put(index, key, True, to.lsn, state, value, size, to.expiration)
    if value is not None:
        node.note_times(key, to.times)


def leaf_of(raw: RawEntry, record: LN, db: DatabaseState, *, resurrected: bool) -> RecordVersion:
    """The version that redo puts into the tree; the deletion of a transaction that is still open is pending
    (R-REC-47).
    """
    embedded = raw.version >= EMBEDDED_RECORDS and bool(record.flags & EMBEDDED)
    content = record.content
    # MapLNs and NameLNs mark a deletion in their content.
    deleted = record.data is None or bool(getattr(content, "deleted", 0))
    data = record.data if embedded and not deleted and not db.duplicates else None
    times, tombstone = UNTIMED, False
    if raw.version >= LN_KEY_FIRST:
        tombstone = bool(record.flags2 & TOMBSTONE)
        if data is not None:
            times = times_from(record.modification_time, record.creation_time)
    return record_version(
        lsn=raw.lsn,
        size=raw.size,
        data=data,
        expiration=record.expiration,
        vlsn=raw.vlsn,
        known_deleted=deleted and not resurrected,
        pending_deleted=deleted and resurrected,
        times=times,
        tombstone=tombstone,
    )


def redo_ln(ctx: TreeContext, db: DatabaseState, key: Key, leaf: RecordVersion, near: BIN | None = None) -> SlotChange:
    """Redo one LN in the tree (R-REC-52). A database without a root is left unchanged (je-log-format.md 14.3).

    Raises:
        UnknownOrderError: the order of keys is only learned, no node has the key, and guessing is not allowed.

    Arguments:
        near: a BIN of this tree that may cover the key; saves the descent if the key lies between its keys.
    """
    # Between two keys of a BIN that is in its tree, no other BIN can cover the key.
    if near is not None and near.in_tree and near.keys and near.keys[0] <= key <= near.keys[-1]:
        node: BIN | None = near
    else:
        node = find_bin(ctx, db, key)
    if node is None:
        return SlotChange(SlotEffect.NOTHING, NULL_LSN, None)
    index, exact = node.find(key)
    if db.order.learned is not None and (not exact or node.guessed):
        _refuse_guess(db)
        # The key is placed by the guessed order, which may be wrong; this happens in memory only.
        db.order.learned.guessed += not exact and not leaf.known_deleted
    if not exact:
        if leaf.known_deleted:
            return SlotChange(SlotEffect.NOTHING, NULL_LSN, node)
        if node.needs_split():
            # Redo may split; then the slot has moved (R-REC-54).
            node = bin_for_insert(ctx, db, key)
            index, exact = node.find(key)
        _put_leaf(node, index, key, False, leaf)
        return _new_tuple(SlotChange, (SlotEffect.CHANGED, NULL_LSN, node))
    tree_lsn = node.lsns[index]
    if leaf.deleted:
        return _redo_deletion(node, index, key, leaf, tree_lsn)
    # A slot without an LSN counts as known deleted, whatever its state bits are (je-log-format.md 8.4).
    known_deleted = node.states[index] & KNOWN_DELETED or tree_lsn == NULL_LSN
    if leaf.lsn > tree_lsn or (known_deleted and tree_lsn == NULL_LSN):
        _put_leaf(node, index, key, True, leaf)
        return _new_tuple(SlotChange, (SlotEffect.CHANGED, tree_lsn, node))
    return SlotChange(SlotEffect.QUEUED if known_deleted else SlotEffect.NOTHING, tree_lsn, node)


def _redo_deletion(node: BIN, index: int, key: Key, leaf: RecordVersion, tree_lsn: int) -> SlotChange:
    # A slot that is already deleted stays unchanged, even for a newer deletion (R-REC-52).
    if node.states[index] & KNOWN_DELETED:
        return SlotChange(SlotEffect.QUEUED, tree_lsn, node)
    if leaf.lsn < tree_lsn:
        return SlotChange(SlotEffect.NOTHING, tree_lsn, node)
    if leaf.lsn == tree_lsn:
        if leaf.known_deleted:
            # The slot was written while the deletion was pending; its transaction has committed since then.
            node.set_known_deleted(index)
        return SlotChange(SlotEffect.QUEUED, tree_lsn, node)
    _put_leaf(node, index, key, True, leaf)
    return SlotChange(SlotEffect.QUEUED, tree_lsn, node)


def _put_leaf(node: BIN, index: int, key: Key, exact: bool, leaf: RecordVersion) -> None:
    if leaf.deleted:
        state = KNOWN_DELETED if leaf.known_deleted else PENDING_DELETED
        node.put(index, key, exact, leaf.lsn, state, None, leaf.size, 0)
        return
    state = SLOT_EMBEDDED if leaf.data is not None else 0
    if leaf.tombstone:
        state |= SLOT_TOMBSTONE
    _note_vlsn(node, key, leaf.vlsn if leaf.data is not None else NULL_VLSN)
    node.put(index, key, exact, leaf.lsn, state, leaf.data, leaf.size, leaf.expiration)
    node.note_times(key, leaf.times)


def _note_vlsn(node: BIN, key: Key, vlsn: int) -> None:
    if vlsn == NULL_VLSN:
        node.vlsns.pop(key, None)
    # A node has VLSNs only if the environment preserves them.
    elif node.vlsns:
        node.vlsns[key] = vlsn


# Key, LSN and size of the entry, and the whole leaf; the leaf is None for a plain version: not deleted, not embedded,
# not expiring.
Redo = tuple[Key, int, int, RecordVersion | None]
KEY_OF_REDO: Final = itemgetter(0)


def redo_sorted(
    ctx: TreeContext,
    db: DatabaseState,
    batch: list[Redo],
    keep_room: Callable[[], None],
    ahead: NodesAhead | None = None,
) -> None:
    """Redo many LNs in a tree.

    Arguments:
        keep_room: called whenever no node is in use, so that any node may be evicted.
        batch: sorted by key, since records of different keys do not depend on each other; versions of the same key
            are in log order.
        ahead: reads the nodes that are needed next.
    """
    node: BIN | None = None
    bound: Key | None = None
    at = 0
    for key, lsn, size, leaf in batch:
        # The key is beyond the node. Between two nodes no node is in use, so ``keep_room`` may evict.
        if node is None or (bound is not None and key >= bound):
            if node is not None:
                ctx.account(node)
            keep_room()
            node, bound = covering(ctx, db, key, ahead)
            at = 0
            # A database without a root is left unchanged (je-log-format.md 14.3).
            if node is None:
                return
            # The whole node may just have been read.
            ctx.account(node)
        keys = node.keys
        if leaf is not None:
            may_split = len(keys) >= node.max_entries
            outcome = redo_ln(ctx, db, key, leaf, node)
            if may_split:
                if outcome.node is not None:
                    ctx.account(outcome.node)
                # The slot may have moved to a sibling, which changes the bound.
                node = None
            continue
        at = bisect_left(keys, key, at)
        if at < len(keys) and keys[at] == key:
            tree_lsn = node.lsns[at]
            # The same test as in ``redo_ln``; without this test redo would not be idempotent (R-REC-58).
            if lsn > tree_lsn or tree_lsn == NULL_LSN:
                _put(node, at, key, True, lsn, size)
            continue
        if len(keys) >= node.max_entries:
            # The split moves half of the slots, so the node and its bound are searched again.
            bin_for_insert(ctx, db, key)
            node, bound = covering(ctx, db, key)
            assert node is not None
            at = bisect_left(node.keys, key)
        _put(node, at, key, False, lsn, size)
    if node is not None:
        ctx.account(node)


def _put(node: BIN, index: int, key: Key, exact: bool, lsn: int, size: int) -> None:
    if node.vlsns:
        node.vlsns.pop(key, None)
    node.put(index, key, exact, lsn, 0, None, size, 0)


def covering(
    ctx: TreeContext, db: DatabaseState, key: Key, ahead: NodesAhead | None = None
) -> tuple[BIN | None, Key | None]:
    """The BIN that covers a key, and the key at which the next BIN begins (None for the last BIN)."""
    node: IN | None = root_of(ctx, db)
    bound: Key | None = None
    while node is not None and not isinstance(node, BIN):
        index = bisect_right(node.keys, key, 1) - 1
        if index + 1 < len(node.keys):
            bound = node.keys[index + 1]
        child = node.kids[index]
        if child is None:
            if ahead is not None:
                ahead.note(node, index)
            child = child_of(ctx, node, index)
        node = child
    if node is not None:
        ctx.ticks += 1
        node.touched = ctx.ticks
    return node, bound
