"""The one place that redoes or undoes an LN (R-REC-44, R-REC-52).

Transaction abort, recovery and replica rollback all come through here. Both directions compare the slot's LSN with the
entry's: that makes them idempotent, whatever a checkpoint has or has not written.

Example (E-REC-1): ``150 UPD K (T1, abort 50)``, ``170 UPD K (T1, abort 50)``, a BIN with K→170 logged, crash. Undo of
170 finds the slot at 170 and sets it to 50; undo of 150 finds 50 and does nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from engine.errors import DamageError
from engine.format.entry.node import KNOWN_DELETED, PENDING_DELETED, SLOT_EMBEDDED, SLOT_TOMBSTONE
from engine.format.lsn import NULL_LSN, format_lsn
from engine.format.versions import NODE_SIZES
from engine.format.vlsn import NULL_VLSN
from engine.tree.bin_node import BIN, DELETED
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.tree.record_version import RecordVersion
from engine.tree.split import bin_for_insert
from engine.tree.tree import find_bin

_new_tuple: Final = tuple.__new__


class SlotEffect(Enum):
    """What happened to the slot."""

    NOTHING = "nothing"
    CHANGED = "changed"
    QUEUED = "queued"  # changed or found deleted: the compressor may remove the slot


class SlotChange(NamedTuple):
    """What happened, the LSN that the slot had before, and the BIN."""

    applied: SlotEffect
    tree_lsn: int
    node: BIN | None


def undo_ln(ctx: TreeContext, db: DatabaseState, key: Key, lsn: int, to: RecordVersion) -> SlotChange:
    """Take one LN back; never splits, never inserts (R-REC-44).

    Raises:
        DamageError: the slot has no LSN and is not deleted.
    """
    # Only searched, never split: undo must not log anything (R-REC-54).
    node = find_bin(ctx, db, key)
    if node is None:
        return SlotChange(SlotEffect.NOTHING, NULL_LSN, None)
    index, exact = node.find(key)
    if not exact:
        return SlotChange(SlotEffect.NOTHING, NULL_LSN, node)
    tree_lsn = node.lsns[index]
    if tree_lsn == NULL_LSN:
        # A live record without an LSN could not be read (R-TREE-22).
        if not node.states[index] & DELETED:
            raise DamageError(f"a slot of {db.label} has no LSN and is not deleted", lsn=format_lsn(lsn))
        return SlotChange(SlotEffect.QUEUED, NULL_LSN, node)
    # A newer version owns the slot, or a later LN of the chain has restored it in one step (R-REC-45).
    if tree_lsn != lsn:
        return SlotChange(SlotEffect.NOTHING, tree_lsn, node)
    _revert_slot(ctx, node, index, to)
    return SlotChange(SlotEffect.QUEUED if to.lsn == NULL_LSN else SlotEffect.CHANGED, tree_lsn, node)


def _revert_slot(ctx: TreeContext, node: BIN, index: int, to: RecordVersion) -> None:
    """Give a slot the version before."""
    key = node.keys[index] if to.key is None else node.db.order.wrap(to.key)
    if to.lsn == NULL_LSN:
        # The record did not exist: the slot stays as known deleted, for the compressor (R-TREE-22).
        node.put(index, key, True, NULL_LSN, KNOWN_DELETED, None, 0, 0)
        return
    state = KNOWN_DELETED if to.known_deleted else PENDING_DELETED if to.pending_deleted else 0
    # The data comes from the LN that is undone: the old one was obsolete at once and may be cleaned (R-TREE-42).
    value = None if state else to.data
    size = 0
    if value is not None:
        state |= SLOT_EMBEDDED
    elif not state and ctx.log_version >= NODE_SIZES and not node.db.duplicates:
        # Later versions read an LN by the size that its slot says.
        size = ctx.access.read(to.lsn, allow_invisible=True).total_bytes
    state |= SLOT_TOMBSTONE if to.tombstone else 0
    _note_vlsn(node, key, to.vlsn if value is not None else NULL_VLSN)
    node.put(index, key, True, to.lsn, state, value, size, to.expiration)
    if value is not None:
        node.note_times(key, to.times)


def redo_ln(ctx: TreeContext, db: DatabaseState, key: Key, leaf: RecordVersion, near: BIN | None = None) -> SlotChange:
    """Bring one LN into the tree (R-REC-52). A database without a root is left alone (je-log-format.md 14.3).

    Arguments:
        near: a BIN of this tree in which the key may be; saves the descent when it lies between its keys.
    """
    # Between two keys of a BIN that is in its tree, no other BIN can cover the key.
    if near is not None and near.in_tree and near.keys and near.keys[0] <= key <= near.keys[-1]:
        node: BIN | None = near
    else:
        node = find_bin(ctx, db, key)
    if node is None:
        return SlotChange(SlotEffect.NOTHING, NULL_LSN, None)
    index, exact = node.find(key)
    if not exact:
        if leaf.known_deleted:
            return SlotChange(SlotEffect.NOTHING, NULL_LSN, node)
        if node.needs_split():
            # Redo may split, and then the slot has moved (R-REC-54).
            node = bin_for_insert(ctx, db, key)
            index, exact = node.find(key)
        _put_leaf(node, index, key, False, leaf)
        return _new_tuple(SlotChange, (SlotEffect.CHANGED, NULL_LSN, node))
    tree_lsn = node.lsns[index]
    if leaf.deleted:
        return _redo_deletion(node, index, key, leaf, tree_lsn)
    # A slot without an LSN counts as known deleted, whatever its state says (je-log-format.md 8.4).
    known_deleted = node.states[index] & KNOWN_DELETED or tree_lsn == NULL_LSN
    if leaf.lsn > tree_lsn or (known_deleted and tree_lsn == NULL_LSN):
        _put_leaf(node, index, key, True, leaf)
        return _new_tuple(SlotChange, (SlotEffect.CHANGED, tree_lsn, node))
    return SlotChange(SlotEffect.QUEUED if known_deleted else SlotEffect.NOTHING, tree_lsn, node)


def _redo_deletion(node: BIN, index: int, key: Key, leaf: RecordVersion, tree_lsn: int) -> SlotChange:
    # Deleted already: the slot stays as it is, even for a newer deletion (R-REC-52).
    if node.states[index] & KNOWN_DELETED:
        return SlotChange(SlotEffect.QUEUED, tree_lsn, node)
    if leaf.lsn < tree_lsn:
        return SlotChange(SlotEffect.NOTHING, tree_lsn, node)
    if leaf.lsn == tree_lsn:
        if leaf.known_deleted:
            # The slot was written while the deletion was pending; its transaction has committed since.
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
    # Only where the environment preserves VLSNs, which the node shows by having some.
    elif node.vlsns:
        node.vlsns[key] = vlsn
