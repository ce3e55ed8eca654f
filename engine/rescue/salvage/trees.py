"""The readable parts of the trees at the last legible checkpoint.

Recovery stops at the first node that it cannot read. Here the walk continues with its neighbours: such a node is a lost
*branch*, with the key range known from its parent.

A checkpoint does not log the upper nodes of a tree: recovery puts the nodes below them into their slots. So the walk
begins at the DbTree of the checkpoint, follows LSNs, and uses the newest version in the log of each node
(``NodeIndex``). If the node of a slot cannot be read, a newer node of that level with its identifier key in the range
is used instead, if there is one.

All changes before CkptStart are in these nodes, since the checkpoint has logged all dirty nodes. So a record written
before and missing in all of them had been deleted by then, even if older nodes and LNs contain it. Nothing is known
about records in the key range of a branch. This holds for a checkpoint that is intact from CkptStart to CkptEnd: the
last such one is used, with the nodes of that time. The current losses are found separately, from the newest version of
each node.

Example: an IN with the keys a, g, n; the BIN from g on cannot be read. The branch is g to n; nothing is known of ``h``,
and ``b`` is a record if the first BIN has it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from engine.errors import FormatError, JetoolError
from engine.format.bytecursor import split_two_part_key
from engine.format.entry.db_tree import DatabaseImpl
from engine.format.entry.legacy import OldDelta
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import MapLN
from engine.format.entry.node import KNOWN_DELETED, PENDING_DELETED, NodeRecord, Slot, decode_node
from engine.format.entry_types import BIN_TYPE, BINS, DELTAS, MAP_LNS, OLD_DELTAS, TREE_NODES
from engine.format.lsn import NULL_LSN, is_null
from engine.log.access import LogAccess
from engine.log.entry import LogEntry
from engine.log.files import LogFiles
from engine.log.scan import scan_log
from engine.rescue.salvage.scan import decoded, expiration_of
from engine.storage.base import Storage

_DELETED: Final = KNOWN_DELETED | PENDING_DELETED
# No tree is deeper, so this ends a loop of damaged slots.
_MOST_LEVELS: Final = 32
_INDEXED: Final = TREE_NODES | MAP_LNS


class LostBranch(NamedTuple):
    """A part of a tree whose upper node cannot be read.

    Attributes:
        low, high: the key range of the branch, from ``low`` on and below ``high``; None: no bound.
        lsn: LSN of the unreadable node: a delta's full version, or the target of a slot.
        level: 1 for a BIN.
    """

    low: bytes | None
    high: bytes | None
    lsn: int
    level: int

    def holds(self, key: bytes, *, duplicates: bool) -> bool:
        """Whether a key, which has two parts in a database with duplicates, is in the range."""
        at = _parts(key, duplicates=duplicates)
        return (self.low is None or at >= _parts(self.low, duplicates=duplicates)) and (
            self.high is None or at < _parts(self.high, duplicates=duplicates)
        )


# All keys of a database.
EVERYTHING: Final = LostBranch(None, None, NULL_LSN, 1)


class KeyPlace(NamedTuple):
    """The state of a key range in the trees.

    Attributes:
        is_lost: the node that currently holds the keys may be lost.
        is_unknown: it is unknown which of the keys existed at ``TreeSurvey.time``.
    """

    is_lost: bool
    is_unknown: bool


DECIDED: Final = KeyPlace(is_lost=False, is_unknown=False)
UNPLACED: Final = KeyPlace(is_lost=False, is_unknown=True)


class BranchRanges:
    """Branches of one walk, with ordered, disjoint ranges.

    Arguments:
        branches: in key order.
        duplicates: keys have two parts.
    """

    def __init__(self, branches: list[LostBranch], *, duplicates: bool) -> None:
        self._duplicates = duplicates
        self._branches = branches
        self._lows = [(b"", b"") if one.low is None else _parts(one.low, duplicates=duplicates) for one in branches]

    def __bool__(self) -> bool:
        return bool(self._branches)

    def hold(self, key: bytes) -> bool:
        """Whether a key is in one of the ranges."""
        at = bisect_right(self._lows, _parts(key, duplicates=self._duplicates)) - 1
        return at >= 0 and self._branches[at].holds(key, duplicates=self._duplicates)


class DatabaseBranches(NamedTuple):
    """The branches of one database: currently lost ones, and unknown ones."""

    lost: BranchRanges
    unknown: BranchRanges

    def place(self, key: bytes) -> KeyPlace:
        """The state of a key in the trees."""
        return KeyPlace(is_lost=self.lost.hold(key), is_unknown=self.unknown.hold(key))


class BottomSlot(NamedTuple):
    """A slot of a BIN.

    Attributes:
        expiration: days, or negative hours, since 1970; 0 for none.
    """

    key: bytes
    lsn: int
    state: int
    expiration: int


class Bottom(NamedTuple):
    """A BIN: the full version, and the delta based on it.

    Attributes:
        low, high: the range that its parent gives it.
        full, delta: their entries; no delta: None.
        node_id, slots: node id and number of slots of the full version.
    """

    low: bytes | None
    high: bytes | None
    full: LogEntry
    delta: LogEntry | None
    node_id: int
    slots: int

    def live(self) -> Iterator[BottomSlot]:
        """Slots of records that are not deleted; empty if the slots cannot be decoded."""
        found: dict[bytes, BottomSlot] = {}
        for entry in (self.full, self.delta):
            node = None if entry is None else decoded(entry)
            if isinstance(node, NodeRecord):
                found |= {slot.key: slot for slot in map(partial(_slot_of, node), node.slots)}
            elif isinstance(node, OldDelta):
                found |= {slot.key: BottomSlot(slot.key, slot.lsn, slot.state, 0) for slot in node.slots}
        return (slot for slot in found.values() if not slot.state & _DELETED)


def _slot_of(node: NodeRecord, slot: Slot) -> BottomSlot:
    return BottomSlot(node.full_key(slot), slot.lsn, slot.state, expiration_of(node, slot))


class IndexedNode(NamedTuple):
    """The newest version of a node.

    Attributes:
        ident: the identifier key, which is in the range of the node.
    """

    lsn: int
    db_id: int
    level: int
    is_root: bool
    ident: bytes


class NodeIndex:
    """The newest version of each node of a log; old deltas (v6 to v8) do not count."""

    def __init__(self) -> None:
        self._nodes: dict[int, IndexedNode] = {}
        self._maps: dict[int, int] = {}
        self._roots: dict[int, int] = {}
        self._levels: dict[tuple[int, int], list[IndexedNode]] | None = None
        self._keys: dict[tuple[int, int], list[tuple[bytes, bytes]]] = {}

    def take(self, entry: LogEntry) -> None:
        """Add a node, a delta or a MapLN, in log order."""
        if entry.type_number in MAP_LNS:
            record = decoded(entry)
            if isinstance(record, LN) and isinstance(record.content, MapLN):
                self._maps[record.content.database.db_id] = entry.lsn
            return
        node = _head_of(entry)
        if node is None:
            return
        if node.is_root:
            self._roots[node.db_id] = entry.lsn
        self._nodes[node.node_id] = IndexedNode(
            lsn=entry.lsn, db_id=node.db_id, level=node.height, is_root=node.is_root, ident=node.identifier_key
        )

    def copy(self) -> NodeIndex:
        """The current state of the index."""
        index = NodeIndex()
        index._nodes, index._maps, index._roots = dict(self._nodes), dict(self._maps), dict(self._roots)
        return index

    def newest(self, node_id: int, db_id: int, lsn: int) -> int:
        """LSN of the newest version of the node at an LSN."""
        found = self._nodes.get(node_id)
        return lsn if found is None or found.db_id != db_id else max(lsn, found.lsn)

    def root(self, db_id: int, lsn: int) -> int:
        """LSN of the newest root of a database; the given one if there is no newer one."""
        return max(lsn, self._roots.get(db_id, NULL_LSN))

    def map(self, db_id: int) -> int:
        """LSN of the newest MapLN of a database; NULL_LSN if the database has no MapLN."""
        return self._maps.get(db_id, NULL_LSN)

    def within(self, range_: LostBranch, db_id: int, after: int, *, duplicates: bool) -> list[IndexedNode]:
        """Nodes of a level in a range that were logged after an LSN, by identifier key."""
        if self._levels is None:
            self._levels = {}
            for node in self._nodes.values():
                self._levels.setdefault((node.db_id, node.level), []).append(node)
        place = db_id, range_.level
        keys = self._keys.get(place)
        nodes = self._levels.get(place, [])
        if keys is None:
            nodes.sort(key=lambda node: _parts(node.ident, duplicates=duplicates))
            keys = self._keys[place] = [_parts(node.ident, duplicates=duplicates) for node in nodes]
        low, high = range_.low, range_.high
        first = 0 if low is None else bisect_left(keys, _parts(low, duplicates=duplicates))
        end = len(keys) if high is None else bisect_left(keys, _parts(high, duplicates=duplicates))
        return [node for node in nodes[first:end] if node.lsn > after]


def index_nodes(storage: Storage, files: LogFiles, point: int) -> tuple[NodeIndex, NodeIndex]:
    """Make two indexes of the nodes of a log: up to an LSN, and of the whole log. Unreadable parts are skipped."""
    index = NodeIndex()
    before: NodeIndex | None = None
    for scan in scan_log(storage, files, types=_INDEXED).by_file():
        try:
            for entry in scan.good_entries():
                if before is None and entry.lsn > point:
                    before = index.copy()
                index.take(entry)
        except JetoolError:
            continue
    return before or index, index


class _Place(NamedTuple):
    """The expected place of a node: its LSN, range and level; level 0 for a root, whose level is unknown."""

    lsn: int
    low: bytes | None
    high: bytes | None
    level: int


class SalvageTreeWalk:
    """Walks over trees in key order, and continues after unreadable nodes.

    Arguments:
        access: the log.

    Attributes:
        index: its nodes.
    """

    def __init__(self, access: LogAccess, index: NodeIndex) -> None:
        self._access = access
        self.index = index

    def walk(self, impl: DatabaseImpl) -> Iterator[Bottom | LostBranch]:
        """The BINs of a database, and the lost branches."""
        db_id = impl.db_id
        todo: list[_Place] = []
        if impl.root_exists and not is_null(impl.root_lsn):
            todo.append(_Place(self.index.root(db_id, impl.root_lsn), None, None, 0))
        while todo:
            place = todo.pop()
            node = self._node(db_id, place)
            if isinstance(node, Bottom):
                yield node
            elif isinstance(node, int):
                yield LostBranch(place.low, place.high, node, place.level or 2)
            else:
                record, lsn = node
                todo += reversed(self._children(impl, record, lsn, place))

    def has_file(self, number: int) -> bool:
        """Whether a log file exists."""
        return self._access.has_file(number)

    def entry(self, lsn: int) -> LogEntry | None:
        """The entry at an LSN; None if it cannot be read."""
        try:
            return self._access.read(lsn)
        except JetoolError:
            return None

    def record(self, lsn: int) -> object:
        """The record of the entry; None if it cannot be read."""
        entry = self.entry(lsn)
        return None if entry is None else decoded(entry)

    def _children(self, impl: DatabaseImpl, node: NodeRecord, lsn: int, place: _Place) -> list[_Place]:
        """The places of the children of a node."""
        keys = [node.full_key(slot) for slot in node.slots]
        bounds = [place.low, *keys[1:], place.high]
        found = []
        for at, slot in enumerate(node.slots):
            if is_null(slot.lsn) or slot.state & KNOWN_DELETED:
                continue
            own = _Place(slot.lsn, bounds[at], bounds[at + 1], node.height - 1)
            found += self._split(impl, own, lsn)
        return found

    def _split(self, impl: DatabaseImpl, own: _Place, parent_lsn: int) -> list[_Place]:
        """Divide a place among the nodes logged in its range after its parent.

        The parent is an old version: these nodes were split off later, or are newer versions of a lost node.
        """
        range_ = LostBranch(own.low, own.high, own.lsn, own.level)
        inside = self.index.within(range_, impl.db_id, parent_lsn, duplicates=impl.duplicates)
        if not inside:
            return [own]
        found = self._read(impl.db_id, own)
        known = not isinstance(found, int)
        if not isinstance(found, int):
            newest = self.index.newest(_node_id_of(found), impl.db_id, own.lsn)
            inside = [one for one in inside if one.lsn != newest]
        if not inside:
            return [own]
        places = [own.lsn] if known else []
        places += [one.lsn for one in inside]
        lows = [own.low, *(one.ident for one in inside[0 if known else 1 :])]
        highs = [*lows[1:], own.high]
        return [_Place(*row, own.level) for row in zip(places, lows, highs, strict=True)]

    def _node(self, db_id: int, place: _Place) -> tuple[NodeRecord, int] | Bottom | int:
        """The newest version of the node at a place, with its LSN; or the unreadable LSN."""
        found = self._read(db_id, place)
        if isinstance(found, int):
            return found
        newest = self.index.newest(_node_id_of(found), db_id, place.lsn)
        return found if newest == place.lsn else self._read(db_id, place._replace(lsn=newest))

    def _read(self, db_id: int, place: _Place) -> tuple[NodeRecord, int] | Bottom | int:
        lsn = place.lsn
        entry = self.entry(lsn)
        if entry is None:
            return lsn
        if entry.type_number not in BINS and entry.type_number not in OLD_DELTAS:
            record = decoded(entry)
            if not isinstance(record, NodeRecord) or record.db_id != db_id:
                return lsn
            is_right = record.height == place.level if place.level else record.height <= _MOST_LEVELS
            return (record, lsn) if is_right else lsn
        full, delta = entry, None
        if entry.type_number in DELTAS:
            record = decoded(entry)
            if not isinstance(record, NodeRecord | OldDelta) or record.db_id != db_id:
                return lsn
            full_lsn = record.last_full_lsn if isinstance(record, OldDelta) else record.prev_full_lsn
            found = self.entry(full_lsn)
            if found is None or found.type_number != BIN_TYPE:
                return full_lsn
            full, delta = found, entry
        # Decoded on request, since there are many slots, which are mostly not needed.
        head = _head_of(full)
        if head is None or head.db_id != db_id:
            return full.lsn
        return Bottom(
            low=place.low, high=place.high, full=full, delta=delta, node_id=head.node_id, slots=head.n_entries
        )


def _node_id_of(found: tuple[NodeRecord, int] | Bottom) -> int:
    return found.node_id if isinstance(found, Bottom) else found[0].node_id


def _head_of(entry: LogEntry) -> NodeRecord | None:
    """A node without its slots; None if its body cannot be decoded."""
    try:
        return decode_node(entry.body, entry.version, entry.type_number, with_slots=False)
    except (FormatError, IndexError, ValueError):
        return None


def _parts(key: bytes, *, duplicates: bool) -> tuple[bytes, bytes]:
    """A key in the order of its database."""
    if duplicates:
        try:
            return split_two_part_key(key)
        except (FormatError, IndexError):
            pass
    return key, b""
