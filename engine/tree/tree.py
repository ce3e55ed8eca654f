"""Searching one tree, fetching nodes on demand, and creating a tree (R-TREE-2, R-TREE-6).

All functions run under ``TreeContext.latch``. A node is read at most once: from then on its parent's ``kids`` hold it
until the evictor removes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.errors import DamageError
from engine.format.entry.legacy import OldDelta
from engine.format.entry.ln import LN
from engine.format.entry.node import SLOT_EMBEDDED, NodeRecord
from engine.format.entry_types import (
    BIN_TYPE,
    DELTA_TYPE,
    FULL_NODES,
    IN_TYPE,
    OLD_DELTA_TYPE,
)
from engine.format.fast.ln import plain_data
from engine.format.lsn import NULL_LSN, format_lsn
from engine.log.entry import LogEntry
from engine.native import ascends, covering, live_slot
from engine.tree.bin_node import BIN, DELETED
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN, root_in_memory
from engine.tree.keys import Key, LearnedOrder
from engine.tree.node_codec import (
    apply_delta,
    apply_old_delta,
    apply_usual_delta,
    check_level,
    decode_usual,
    decode_usual_delta,
    level_base,
    node_from,
)
from engine.tree.spill import is_spilled

_MAX_LEVELS: Final = 64
_ABOVE_LEAVES: Final = 2
# The share of the slots whose data is in memory from which on a node is worth reading as a whole.
_DENSE: Final = 16
# Slots whose entries hold no data for readers.
_NO_DATA: Final = DELETED | SLOT_EMBEDDED


class LeafRange(NamedTuple):
    """A leaf node as its parent describes it.

    Attributes:
        low, high: the keys that it covers, from ``low`` on and before ``high``; None for no bound.
        lsn: its last logged version; NULL_LSN if the node in memory differs from it.
    """

    low: Key | None
    high: Key | None
    lsn: int


def fetch_node(ctx: TreeContext, db: DatabaseState, lsn: int) -> IN:
    """Read the node that was logged at an LSN; a delta is applied to its full version.

    Raises:
        DamageError: the entry is not a node of this database.
    """
    return node_at(ctx, db, ctx.access.read(lsn))


def node_at(ctx: TreeContext, db: DatabaseState, entry: LogEntry) -> IN:
    """The node for an entry that was read."""
    if entry.type_number == BIN_TYPE:
        usual = decode_usual(db, entry.body, entry.version)
        if usual is not None:
            usual.full_lsn, usual.full_size = entry.lsn, entry.total_bytes
            _check_order(db, usual, entry)
            return usual
    delta = decode_usual_delta(db, entry.body, entry.version) if entry.type_number == DELTA_TYPE else None
    if delta is not None:
        full = _full_version(ctx, db, delta.head.full_lsn)
        apply_usual_delta(full, delta)
        full.delta_lsn, full.delta_size = entry.lsn, entry.total_bytes
        _check_order(db, full, entry)
        return full
    record = entry.record()
    if isinstance(record, NodeRecord) and entry.type_number in FULL_NODES:
        node = node_from(db, record)
        node.full_lsn, node.full_size = entry.lsn, entry.total_bytes
    elif isinstance(record, NodeRecord) and entry.type_number == DELTA_TYPE:
        # Deltas exist only in the log; in memory nodes are complete (R-TREE-35).
        node = _full_version(ctx, db, record.prev_full_lsn)
        apply_delta(node, record)
        node.delta_lsn, node.delta_size = entry.lsn, entry.total_bytes
    elif isinstance(record, OldDelta) and entry.type_number == OLD_DELTA_TYPE:
        node = _full_version(ctx, db, record.last_full_lsn)
        apply_old_delta(node, record)
        node.delta_lsn, node.delta_size = entry.lsn, entry.total_bytes
    else:
        raise _not_a_node(db, entry)
    _check_order(db, node, entry)
    # The checksum is right, so the reference leads to the wrong place.
    if record.db_id != db.id or (entry.type_number == IN_TYPE and (isinstance(node, BIN) or not len(node))):
        raise _not_a_node(db, entry)
    return node


def _check_order(db: DatabaseState, node: IN, entry: LogEntry) -> None:
    """Refuse a node whose keys are not in order, in which searches would fail."""
    keys = node.keys
    # The key of slot 0 of an upper node has no meaning (R-TREE-6).
    first = 0 if isinstance(node, BIN) else 1
    if ascends is not None and ascends(keys, first):
        return
    for at in range(first + 1, len(keys)):
        if not keys[at - 1] < keys[at]:
            raise DamageError(
                f"keys of a node of {db.label} are out of order",
                lsn=format_lsn(entry.lsn),
                consequence="records after them cannot be found",
                hint="jetool verify shows what is damaged; restore these files from a backup",
            )


def _full_version(ctx: TreeContext, db: DatabaseState, lsn: int) -> BIN:
    """The complete BIN that a delta references; it cannot be a delta itself."""
    entry = ctx.access.read(lsn)
    node = node_at(ctx, db, entry) if entry.type_number == BIN_TYPE else None
    if not isinstance(node, BIN):
        raise _not_a_node(db, entry)
    return node


def enlist(ctx: TreeContext, node: IN) -> None:
    """Register a node that is now in memory and in its tree (R-TREE-8)."""
    node.in_tree = True
    ctx.nodes[id(node)] = node
    ctx.account(node)


def delist(ctx: TreeContext, node: IN) -> None:
    """Unregister a node that has left memory."""
    node.in_tree = False
    ctx.nodes.pop(id(node), None)
    ctx.used_bytes -= node.accounted
    node.accounted = 0


def root_of(ctx: TreeContext, db: DatabaseState) -> IN | None:
    """The root of a tree, read if necessary; None if there is no tree."""
    root = db.root
    if isinstance(root, IN):
        return root
    if db.root_lsn == NULL_LSN:
        return None
    found = fetch_node(ctx, db, db.root_lsn)
    found.is_root = True
    db.root = found
    enlist(ctx, found)
    return found


def child_of(ctx: TreeContext, parent: IN, index: int) -> IN:
    """A child, read if necessary."""
    child = parent.kids[index]
    if child is None:
        lsn = parent.lsns[index]
        if is_spilled(lsn):
            assert ctx.spill is not None
            # The slot has its LSN again: no mark may reach the log.
            child, parent.lsns[index] = ctx.spill.back(parent.db, lsn)
        else:
            child = fetch_node(ctx, parent.db, lsn)
            # Check the child before it is linked: a wrong level could make searches go wrong or never end.
            check_level(parent.db, child, lsn, parent.level - 1)
        parent.attach(index, child)
        enlist(ctx, child)
    return child


def find_bin(ctx: TreeContext, db: DatabaseState, key: Key) -> BIN | None:
    """The BIN that covers a key; None if there is no tree."""
    learned = db.order.learned
    if learned is not None:
        return _find_learned(ctx, db, learned, key)
    node = root_of(ctx, db)
    while node is not None and not isinstance(node, BIN):
        node = child_of(ctx, node, node.slot_for(key))
    if node is not None:
        ctx.ticks += 1
        node.touched = ctx.ticks
    return node


def _find_learned(ctx: TreeContext, db: DatabaseState, learned: LearnedOrder, key: Key) -> BIN | None:
    """The BIN that has a key; if no BIN has the key, the BIN to which a descent leads."""
    near = learned.near
    if isinstance(near, BIN) and near.in_tree and near.db is db and key in near.keys:
        return near
    # Checked before the descent, which assigns a place to a key that has no place.
    is_shown = learned.places is not None and learned.knows(db.order.unwrap(key))
    node = root_of(ctx, db)
    while node is not None and not isinstance(node, BIN):
        node = child_of(ctx, node, node.slot_for(key))
    if is_shown and node is not None and not node.find(key)[1]:
        node = find_by_walk(ctx, db, key) or node
    learned.near = node
    return node


def find_by_walk(ctx: TreeContext, db: DatabaseState, key: Key) -> BIN | None:
    """The BIN that has a key, found by searching all of them; None if no BIN has it."""
    return next((node for node in bins(ctx, db) if key in node.keys), None)


def find_plain(ctx: TreeContext, db: DatabaseState, key: Key) -> tuple[BIN | None, int, bytes | None]:
    """Find a live record that does not expire: its BIN, slot and data. Data is None if it is not in memory.

    If there is no such record the slot is negative. If the BIN is None, the caller has to search with ``find_bin``.
    """
    node = root_in_memory(db)
    if live_slot is None or covering is None or node is None:
        return None, -1, None
    while not isinstance(node, BIN):
        slot = covering(node.keys, key)
        below = node.kids[slot] if slot is not None and slot < len(node.kids) else None
        if below is None:
            return None, -1, None
        node = below
    found = live_slot(node.keys, node.lsns, node.states, node.values, node.expirations, key)
    if found is None:
        return None, -1, None
    ctx.ticks += 1
    node.touched = ctx.ticks
    return node, found[0], found[1]


def edge_bin(ctx: TreeContext, db: DatabaseState, *, last: bool = False) -> BIN | None:
    """The first or the last BIN of a tree."""
    node = root_of(ctx, db)
    while node is not None and not isinstance(node, BIN):
        node = child_of(ctx, node, len(node) - 1 if last else 0)
    return node


def next_bin(ctx: TreeContext, node: BIN, *, backward: bool = False) -> BIN | None:
    """The neighbour of a BIN in key order; None at the end."""
    current: IN = node
    while current.parent is not None:
        parent = current.parent
        index = parent.slot_of(current) + (-1 if backward else 1)
        if 0 <= index < len(parent):
            below = child_of(ctx, parent, index)
            while not isinstance(below, BIN):
                below = child_of(ctx, below, len(below) - 1 if backward else 0)
            ctx.ticks += 1
            below.touched = ctx.ticks
            return below
        current = parent
    return None


def share_before(ctx: TreeContext, db: DatabaseState, key: Key) -> float:
    """The share of a tree before a key, 0 to 1, estimated from the upper nodes in memory."""
    share, width = 0.0, 1.0
    node = root_of(ctx, db)
    while node is not None and len(node) and not isinstance(node, BIN):
        index = node.slot_for(key)
        width /= len(node)
        share += width * index
        node = node.kids[index]
    return share


def leaf_ranges(ctx: TreeContext, db: DatabaseState, key: Key | None) -> list[LeafRange]:
    """All leaves below the lowest upper node that covers a key (None: below the first such node); none of them is read.

    A tree without upper nodes is one leaf without an LSN.
    """
    low: Key | None = None
    high: Key | None = None
    node = root_of(ctx, db)
    while node is not None and len(node) and node.height > _ABOVE_LEAVES:
        index = 0 if key is None else node.slot_for(key)
        low = node.keys[index] if index else low
        high = node.keys[index + 1] if index + 1 < len(node) else high
        node = child_of(ctx, node, index)
    if node is None or not len(node) or node.height != _ABOVE_LEAVES:
        return [LeafRange(low, high, NULL_LSN)]
    found = []
    for index, kid in enumerate(node.kids):
        begin = node.keys[index] if index else low
        end = node.keys[index + 1] if index + 1 < len(node) else high
        found.append(LeafRange(begin, end, NULL_LSN if kid is not None and kid.dirty else node.lsns[index]))
    return found


def bins(ctx: TreeContext, db: DatabaseState) -> Iterator[BIN]:
    """All BINs in key order."""
    node = edge_bin(ctx, db)
    while node is not None:
        yield node
        node = next_bin(ctx, node)


def find_parent(ctx: TreeContext, db: DatabaseState, node_id: int, level: int, ident: Key) -> tuple[IN, int] | None:
    """Find the slot whose child has a node id, searching by identifier key; children are not read (R-REC-22).

    Arguments:
        node_id, level, ident: of the child.

    Returns:
        The node one level above and the slot that covers the key, if the tree has that level; the caller checks that
        the child is the expected one.
    """
    node = root_of(ctx, db)
    # The node is the root itself, or its level does not exist in the tree (R-REC-22).
    if node is None or node.level <= level or node.node_id == node_id:
        return None
    for _ in range(_MAX_LEVELS):
        index = node.slot_for(ident)
        # Stop above the child: it may be the version whose file is gone.
        if node.level == level + 1:
            return node, index
        node = child_of(ctx, node, index)
    return None


def new_tree(ctx: TreeContext, db: DatabaseState, key: Key) -> BIN:
    """Create an empty BIN under a root of level 2, in memory only (R-TREE-2).

    Arguments:
        key: the first key; it becomes both identifier keys.
    """
    base = level_base(db.id)
    root = IN(db, ctx.node_ids.next(), base + 2, key, db.max_entries)
    leaf = BIN(db, ctx.node_ids.next(), base + 1, key, db.max_entries)
    root.is_root = True
    root.insert_child(0, key, NULL_LSN, leaf)
    leaf.dirty = True
    db.root = root
    enlist(ctx, root)
    enlist(ctx, leaf)
    return leaf


def read_ln(ctx: TreeContext, db: DatabaseState, lsn: int) -> LN:
    """The leaf record at an LSN.

    Raises:
        DamageError: the entry is not an LN of this database.
    """
    entry = ctx.access.read(lsn, allow_invisible=True)
    record = entry.record()
    if not isinstance(record, LN) or record.db_id != db.id:
        raise DamageError(
            f"a slot of {db.label} does not lead to a record of it",
            lsn=format_lsn(lsn),
            found=entry.type_name,
            hint="run jetool verify",
        )
    return record


def slot_data(ctx: TreeContext, node: BIN, index: int, *, cache: bool = False) -> bytes | None:
    """The data of a live slot; None if its LN is a deletion (possible until v7), or was discarded.

    Arguments:
        cache: keep the data in the slot.
    """
    value = node.values[index]
    if value is not None:
        return value
    # The key contains the whole record (R-TREE-19).
    if node.db.duplicates:
        return b""
    if node.states[index] & SLOT_EMBEDDED:
        return b""
    lsn, size = node.lsns[index], node.sizes[index]
    try:
        data = ctx.access.user_data(lsn, size, node.db.id)
        if data is None:
            data = _data_of(ctx, node.db, lsn, ctx.access.user_entry(lsn, size) if size else None)
    except DamageError:
        if not _was_discarded(ctx, node, index):
            raise
        return None
    if cache and data is not None:
        node.values[index] = data
        node.data_bytes += len(data)
    return data


def read_around(ctx: TreeContext, node: BIN, data: bytes) -> None:
    """After data was read: once a node holds the data of one slot in sixteen, read that of all others from maps.

    The records of such a node are asked for one after the other, in whatever order. Together they take less time, since
    their memory is prefetched, and only pages that are in memory already are read.

    Arguments:
        data: of the slot that was read last.
    """
    most = len(node) * len(data)
    if not node.data_bytes - len(data) <= most // _DENSE < node.data_bytes:
        return
    values, states = node.values, node.states
    missing = [at for at in range(len(node)) if values[at] is None and not states[at] & _NO_DATA]
    found = ctx.access.user_values(node.lsns, node.sizes, missing, node.db.id, in_memory=True) if missing else None
    if found is not None:
        for at, value in zip(missing, found, strict=True):
            if value is not None:
                values[at] = value
                node.data_bytes += len(value)


def without_data(node: BIN, chosen: list[int]) -> list[int]:
    """The chosen slots whose data has to be read at their LSNs."""
    if node.db.duplicates:
        return []
    values, states = node.values, node.states
    return [at for at in chosen if values[at] is None and not states[at] & SLOT_EMBEDDED]


def slot_values(
    ctx: TreeContext, node: BIN, chosen: list[int], ahead: dict[int, bytes | None] | None = None
) -> list[bytes | None]:
    """Like ``slot_data``, for several slots: their LNs are read in log order, neighbouring ones at once.

    Arguments:
        ahead: data that was read before, by LSN.
    """
    if node.db.duplicates:
        return [b""] * len(chosen)
    values, lsns, sizes = node.values, node.lsns, node.sizes
    missing = without_data(node, chosen)
    read: dict[int, bytes | None] = {}
    if missing:
        mapped = (
            [ahead.get(lsns[at]) for at in missing]
            if ahead
            else ctx.access.user_values(lsns, sizes, missing, node.db.id)
        )
        if mapped is not None:
            rest = [at for at, data in zip(missing, mapped, strict=True) if data is None]
            if not rest and len(missing) == len(chosen):
                return mapped
            read = dict(zip(missing, mapped, strict=True))
            missing = rest
    if missing:
        # In log order neighbouring entries can be read at once, and the disk is read forward.
        missing.sort(key=lsns.__getitem__)
        try:
            entries = ctx.access.user_entries([lsns[at] for at in missing], [sizes[at] for at in missing])
            for at, entry in zip(missing, entries, strict=True):
                read[at] = _data_of(ctx, node.db, lsns[at], entry)
        except DamageError:
            if ctx.may_be_extinct is None:
                raise
            # Read one at a time, so that an error names the LSN.
            for at in missing:
                read[at] = slot_data(ctx, node, at)
    found: list[bytes | None] = []
    for at in chosen:
        value = values[at]
        found.append(value if value is not None else read.get(at, b""))
    return found


def _was_discarded(ctx: TreeContext, node: BIN, index: int) -> bool:
    """Whether a record that cannot be read was discarded: its file is gone, and its range is extinct."""
    if ctx.may_be_extinct is None or ctx.access.has_file(node.lsns[index] >> 32):
        return False
    return ctx.may_be_extinct(node.db, node.keys[index])


def values_at(ctx: TreeContext, db: DatabaseState, lsns: list[int], sizes: list[int]) -> list[bytes | None]:
    """The data of records at ascending LSNs, with the sizes of their entries (0: not known); None for a deletion."""
    entries = ctx.access.user_entries(lsns, sizes)
    return [_data_of(ctx, db, lsn, entry) for lsn, entry in zip(lsns, entries, strict=True)]


def _data_of(ctx: TreeContext, db: DatabaseState, lsn: int, entry: bytes | None) -> bytes | None:
    if entry is not None:
        data = plain_data(entry, ctx.access.version_of(lsn >> 32), db.id)
        if data is not None:
            return data
    return read_ln(ctx, db, lsn).data


def _not_a_node(db: DatabaseState, entry: LogEntry) -> DamageError:
    return DamageError(
        f"a reference of {db.label} does not lead to a node of it",
        lsn=format_lsn(entry.lsn),
        found=entry.type_name,
        hint="run jetool verify",
    )
