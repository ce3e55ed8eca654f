"""Replaying INs (passes 1, 2, 5 and 6; R-REC-20 to R-REC-25).

Roots are replayed first, then all other nodes, each in log order. A node replaces the version in its parent's slot if
that version is older and is the same node; nothing is ever inserted. The node itself is read when it is next needed.

A checkpoint must log a node below its highest level with YES or BEFORE_CKPT_END. Recovery cannot detect that it used NO
instead (E-CKPT-4), because eviction between checkpoints correctly logs such nodes with NO (R-CKPT-45). A bottom node
like this is replayed even if the file of its old version is gone; JE fails here. For an upper node, the search for the
parent needs that file, and recovery fails with an error that names it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from engine.errors import DamageError
from engine.events import Progress
from engine.format.entry.db_tree import MAPPING_DB_ID
from engine.format.entry.legacy import OldDelta, decode_old_delta
from engine.format.entry.node import ROOT, decode_node
from engine.format.entry_types import OLD_DELTA_TYPE, OLD_DELTAS, TREE_NODE_ENTRIES
from engine.format.fast.bin import NodeHead, decode_node_head
from engine.format.header import BEFORE_CKPT_END, FLAGS_AT, PROVISIONAL, header_bytes
from engine.format.lsn import NULL_LSN, file_of, offset_of
from engine.log.passes import RawEntry
from engine.recovery.hooks import CacheKeeper
from engine.recovery.result import PassCount
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN, root_in_memory
from engine.tree.keys import PLAIN
from engine.tree.spill import is_spilled
from engine.tree.tree import child_of, delist, find_parent
from engine.txn.undo import DatabaseFinder

# Enough for the head of a node with a key of ordinary length.
_HEAD_BYTES: Final = 256


class LoggedNode(NamedTuple):
    """A node entry of the recovery range: its place, its size, and its database and type."""

    lsn: int
    size: int
    type_number: int
    version: int
    db_id: int
    is_root: bool


class NodeLog:
    """The node entries of a recovery range in log order, in 24 bytes each: there can be millions.

    Of each node only the newest version is replayed. An older one would be put below the version of its parent at that
    time; the newest one then takes its slot, or a newer parent replaces the whole branch. So a version at LSN 0x0/0x100
    has no effect when the same node stands at 0x0/0x900 too.
    """

    def __init__(self) -> None:
        # By id of a node, the index of its newest version.
        self._newest: dict[int, int] = {}
        self._superseded = bytearray()
        self._lsns = array("q")
        self._sizes = array("I")
        self._db_ids = array("q")
        self._types = bytearray()
        self._versions = bytearray()
        self._roots = bytearray()

    def add(self, node: LoggedNode, node_id: int) -> None:
        """Add a node entry."""
        # Old deltas hold no id. A new root takes the place of the old one without a search.
        if node_id and not node.is_root:
            before = self._newest.get(node_id)
            # An id of two databases is damage: both are replayed.
            if before is not None and self._db_ids[before] == node.db_id:
                self._superseded[before] = True
            self._newest[node_id] = len(self._superseded)
        self._superseded.append(False)
        self._lsns.append(node.lsn)
        self._sizes.append(node.size)
        self._db_ids.append(node.db_id)
        self._types.append(node.type_number)
        self._versions.append(node.version)
        self._roots.append(node.is_root)

    def chosen(self, *, mapping: bool, roots: bool) -> Iterator[LoggedNode]:
        """Entries of the mapping tree or of all other trees, without trees of duplicates; either roots or others. Of
        each other node only the newest version.
        """
        db_ids, types, are_roots, superseded = self._db_ids, self._types, self._roots, self._superseded
        for at in range(len(db_ids)):
            if (
                (db_ids[at] == MAPPING_DB_ID) == mapping
                and bool(are_roots[at]) == roots
                and types[at] in TREE_NODE_ENTRIES
                and not superseded[at]
            ):
                yield LoggedNode(self._lsns[at], self._sizes[at], types[at], self._versions[at], db_ids[at], roots)

    def count(self, *, mapping: bool) -> int:
        """The number of entries in the mapping tree, or in all other trees."""
        of_mapping = self._db_ids.count(MAPPING_DB_ID)
        return of_mapping if mapping else len(self._db_ids) - of_mapping

    def superseded(self, *, mapping: bool) -> int:
        """The number of entries of nodes that have a newer version."""
        marked = zip(self._db_ids, self._superseded, strict=True)
        return sum(one for db_id, one in marked if (db_id == MAPPING_DB_ID) == mapping)

    def __iter__(self) -> Iterator[LoggedNode]:
        fields = zip(
            self._lsns, self._sizes, self._types, self._versions, self._db_ids, map(bool, self._roots), strict=True
        )
        return (LoggedNode._make(row) for row in fields)


def passes_over(db: DatabaseState) -> bool:
    """Whether to skip an entry of a database, because a reader does not know the order of its keys. Counts the
    entry.
    """
    learned = db.order.learned
    if learned is None or not learned.may_guess or not learned.is_unknown:
        return False
    learned.skipped += 1
    return True


def is_provisional(raw: RawEntry, ckpt_end_lsn: int) -> bool:
    """Whether recovery ignores the entry (R-REC-24)."""
    if raw.flags & PROVISIONAL:
        return True
    return bool(raw.flags & BEFORE_CKPT_END) and raw.lsn < ckpt_end_lsn


def logged_node(raw: RawEntry) -> tuple[LoggedNode, int]:
    """The place and kind of a node entry, and the node's id (0 for old deltas, which hold no id)."""
    if raw.type_number in OLD_DELTAS:
        delta = decode_old_delta(raw.body, raw.version)
        return LoggedNode(raw.lsn, raw.size, raw.type_number, raw.version, delta.db_id, False), 0
    head = _head_of(raw.body, raw.version, raw.type_number)
    is_root = bool(head.flags & ROOT)
    return LoggedNode(raw.lsn, raw.size, raw.type_number, raw.version, head.db_id, is_root), head.node_id


def replay_root(ctx: TreeContext, db: DatabaseState, node: LoggedNode) -> bool:
    """Install a root if it is newer than the known root (R-REC-21)."""
    # The MapLN may have been logged after this root, or with it (R-REC-21).
    if db.root_lsn != NULL_LSN and db.root_lsn >= node.lsn:
        return False
    root = root_in_memory(db)
    if root is not None:
        # The nodes in memory below the old root belong to a tree that was replaced.
        drop_subtree(ctx, root)
        db.root = None
    db.root_lsn = node.lsn
    db.dirty = True
    return True


def replay_node(
    ctx: TreeContext, db: DatabaseState, logged: LoggedNode, replayed: dict[int, int], verified: bool
) -> bool:
    """Put a node into its parent's slot if it is newer (R-REC-22). Returns whether it was newer.

    Arguments:
        verified: whether its checksum was verified.
        replayed: ids of the nodes that were put into slots so far, by LSN; the id of this node is added.
    """
    head = _verified_head(ctx, logged) if verified else _head(ctx, logged.lsn)
    # Trees of v6 and v7 are ordered by main keys alone (je-log-format.md 12.2).
    order = PLAIN if db.old_duplicates else db.order
    found = find_parent(ctx, db, head.node_id, head.level, order.wrap(head.ident))
    if found is None:
        return False
    parent, index = found
    # The slot of a spilled node holds a mark instead of an LSN. Reading the node back restores the LSN.
    if is_spilled(parent.lsns[index]):
        child_of(ctx, parent, index)
    # If another node is in the slot, the branch of this node was pruned or split away later (R-REC-22).
    if parent.lsns[index] >= logged.lsn or not _is_same_node(ctx, parent, index, head.node_id, replayed):
        return False
    # Only one version of each node stays in the dictionary.
    replayed.pop(parent.lsns[index], None)
    replayed[logged.lsn] = head.node_id
    kid = parent.kids[index]
    if kid is not None:
        # Nodes read from the older version must not remain in memory in place of this version.
        drop_subtree(ctx, kid)
        parent.kids[index] = None
    parent.set_child_lsn(index, logged.lsn, logged.size)
    return True


def drop_subtree(ctx: TreeContext, node: IN) -> None:
    """Remove a node and everything below it from memory."""
    for kid in node.kids:
        if kid is not None:
            drop_subtree(ctx, kid)
    delist(ctx, node)


def replay(
    ctx: TreeContext,
    nodes: Iterable[LoggedNode],
    find: DatabaseFinder,
    count: PassCount,
    *,
    progress: Progress,
    roots: bool,
    verified: bool,
    keeper: CacheKeeper | None = None,
) -> None:
    """Replay nodes in log order; either all of them are roots, or all of them are other nodes.

    Arguments:
        verified: whether all their checksums were verified.
    """
    replayed: dict[int, int] = {}
    for logged in nodes:
        progress.add(1)
        count.read += 1
        db = find.by_id(logged.db_id)
        if db is None:
            count.deleted += 1
            continue
        if not roots and passes_over(db):
            continue
        done = replay_root(ctx, db, logged) if roots else replay_node(ctx, db, logged, replayed, verified)
        count.processed += done
        if keeper is not None:
            keeper.keep_room()


def _head_of(body: bytes, version: int, type_number: int) -> NodeHead:
    head = decode_node_head(body, len(body), version, type_number)
    if head is not None:
        return head
    node = decode_node(body, version, type_number, with_slots=False)
    lsns = node.prev_full_lsn, node.prev_delta_lsn
    return NodeHead(node.db_id, *lsns, node.node_id, node.identifier_key, node.flags, node.level)


def _verified_head(ctx: TreeContext, logged: LoggedNode) -> NodeHead:
    """The head of a node whose checksum was verified, so that its first bytes are enough."""
    access = ctx.access
    if logged.type_number not in OLD_DELTAS:
        access.reads += 1
        access.at_lsn = logged.lsn
        data = access.handle(file_of(logged.lsn)).read(offset_of(logged.lsn), min(logged.size, _HEAD_BYTES))
        # If the file has shrunk since, the general decoder reports it.
        length = header_bytes(data[FLAGS_AT], logged.version) if len(data) > FLAGS_AT else 0
        head = decode_node_head(data[length:], logged.size - length, logged.version, logged.type_number)
        if head is not None:
            return head
    return _head(ctx, logged.lsn)


def _head(ctx: TreeContext, lsn: int) -> NodeHead:
    entry = ctx.access.read(lsn)
    # Old deltas have no node id; their full version has one.
    if entry.type_number == OLD_DELTA_TYPE:
        record = entry.record()
        assert isinstance(record, OldDelta)
        entry = ctx.access.read(record.last_full_lsn)
    return _head_of(entry.body, entry.version, entry.type_number)


def _is_same_node(ctx: TreeContext, parent: IN, index: int, node_id: int, replayed: dict[int, int]) -> bool:
    kid = parent.kids[index]
    if kid is not None:
        return kid.node_id == node_id
    known = replayed.get(parent.lsns[index])
    if known is not None:
        return known == node_id
    try:
        return _head(ctx, parent.lsns[index]).node_id == node_id
    except DamageError:
        # The file of the old version may be gone. The slot can then only belong to this node.
        return True
