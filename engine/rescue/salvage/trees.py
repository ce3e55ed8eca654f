"""The trees as the last legible checkpoint left them, as far as their nodes can be read.

Recovery stops at the first node that it cannot read. Here the walk goes on beside it: such a node is a *branch* that is
gone, of which its parent knows the range of keys. The walk follows LSNs from the DbTree that the checkpoint names,
so that no older version of a node is taken for the current one.

Everything that changed before CkptStart is in these nodes: the checkpoint has logged all nodes that were dirty. So a
record that was written before, and that none of them has, had been deleted by then, whatever older nodes and LNs say.
A range that is a branch says nothing.

Example: an IN with the keys a, g, n; the BIN from g on cannot be read. The branch is g to n; nothing is known of ``h``,
and ``b`` is a record when the first BIN has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from engine.errors import FormatError, JetoolError
from engine.format.bytecursor import split_two_part_key
from engine.format.entry.db_tree import NAMING_DB_ID, DatabaseImpl, DbTree
from engine.format.entry.legacy import OldDelta
from engine.format.entry.node import KNOWN_DELETED, PENDING_DELETED, NodeRecord
from engine.format.entry_types import BIN_TYPE, BINS, DELTAS
from engine.format.lsn import NULL_LSN, is_null
from engine.format.versions import TWO_PART_DUPLICATES
from engine.log.access import LogAccess
from engine.log.entry import LogEntry
from engine.rescue.salvage.databases import OWN_PREFIX
from engine.rescue.salvage.scan import LogSurvey, decoded

_DELETED: Final = KNOWN_DELETED | PENDING_DELETED
# A tree is never so deep: a loop of damaged slots ends here.
_MOST_LEVELS: Final = 32
# What the mapping tree says of a database.
_SURE: Final = 0
_UNSURE: Final = 1
_REMOVED: Final = 2
# Of log files in which the parent of a BIN leads to its newest delta.
_DELTAS_IN_PARENTS: Final = 9


class Branch(NamedTuple):
    """A part of a tree whose upper node cannot be read.

    Attributes:
        low, high: the keys from and below which it holds; None: no bound.
        lsn: of the node that cannot be read: a delta's full version, or where a slot leads.
        level: 1 for a BIN.
    """

    low: bytes | None
    high: bytes | None
    lsn: int
    level: int

    def holds(self, key: bytes, *, duplicates: bool) -> bool:
        """Whether a key, which has two parts in a database with duplicates, is in the range."""
        if not duplicates:
            return (self.low is None or key >= self.low) and (self.high is None or key < self.high)
        try:
            parts = split_two_part_key(key)
            low = None if self.low is None else split_two_part_key(self.low)
            high = None if self.high is None else split_two_part_key(self.high)
        except (FormatError, IndexError):
            # Bounds can be prefixes that have no two parts.
            return True
        return (low is None or parts >= low) and (high is None or parts < high)


class Bottom(NamedTuple):
    """A BIN: the full version, and the delta that stands on it.

    Attributes:
        low, high: the range that its parent gives it.
        full_lsn: of the full version.
        version: of the log file of the full version.
    """

    low: bytes | None
    high: bytes | None
    full: NodeRecord
    full_lsn: int
    version: int
    delta: NodeRecord | OldDelta | None

    def slots(self) -> dict[bytes, tuple[int, bool]]:
        """LSN by key, and whether the record was deleted."""
        full = self.full
        found = {full.full_key(slot): (slot.lsn, bool(slot.state & _DELETED)) for slot in full.slots}
        delta = self.delta
        if isinstance(delta, NodeRecord):
            found |= {delta.full_key(slot): (slot.lsn, bool(slot.state & _DELETED)) for slot in delta.slots}
        elif delta is not None:
            found |= {slot.key: (slot.lsn, bool(slot.state & _DELETED)) for slot in delta.slots}
        return found


class TreeWalk:
    """Walks over trees in key order, and goes on beside what cannot be read.

    Arguments:
        access: the log.
    """

    def __init__(self, access: LogAccess) -> None:
        self._access = access

    def walk(self, impl: DatabaseImpl) -> Iterator[Bottom | Branch]:
        """The BINs of a database, and the branches that are gone."""
        # A root has one level above BINs at least.
        todo: list[tuple[int, bytes | None, bytes | None, int]] = []
        if impl.root_exists and not is_null(impl.root_lsn):
            todo.append((impl.root_lsn, None, None, 0))
        while todo:
            lsn, low, high, level = todo.pop()
            node = self._node(impl.db_id, lsn, low, high)
            if isinstance(node, Bottom):
                yield node
                continue
            if isinstance(node, int) or (level and node.height != level) or node.height > _MOST_LEVELS:
                yield Branch(low, high, node if isinstance(node, int) else lsn, level or 2)
                continue
            keys = [node.full_key(slot) for slot in node.slots]
            bounds = [low, *keys[1:], high]
            children = [
                (slot.lsn, bounds[at], bounds[at + 1], node.height - 1)
                for at, slot in enumerate(node.slots)
                if not is_null(slot.lsn) and not slot.state & KNOWN_DELETED
            ]
            todo += reversed(children)

    def entry(self, lsn: int) -> LogEntry | None:
        """The entry at an LSN; None when it cannot be read."""
        try:
            return self._access.read(lsn)
        except JetoolError:
            return None

    def record(self, lsn: int) -> object:
        """Its record; None when it cannot be read."""
        entry = self.entry(lsn)
        return None if entry is None else decoded(entry)

    def _node(self, db_id: int, lsn: int, low: bytes | None, high: bytes | None) -> NodeRecord | Bottom | int:
        """The node at an LSN, or the LSN that cannot be read."""
        entry = self.entry(lsn)
        record = None if entry is None else decoded(entry)
        if not isinstance(record, NodeRecord | OldDelta) or entry is None or record.db_id != db_id:
            return lsn
        if isinstance(record, NodeRecord) and entry.type_number not in BINS:
            return record
        if entry.type_number not in DELTAS:
            assert isinstance(record, NodeRecord)
            return Bottom(low, high, record, lsn, entry.version, None)
        full_lsn = record.last_full_lsn if isinstance(record, OldDelta) else record.prev_full_lsn
        entry = self.entry(full_lsn)
        full = None if entry is None else decoded(entry)
        if entry is None or entry.type_number != BIN_TYPE or not isinstance(full, NodeRecord) or full.db_id != db_id:
            return full_lsn
        return Bottom(low, high, full, full_lsn, entry.version, record)


class TreeSurvey(NamedTuple):
    """What the trees of a log say at its last legible checkpoint.

    Attributes:
        time: CkptStart: what was written before it, and is in no tree, was deleted. NULL_LSN: the trees say nothing.
        bins: LSN of the full version of each BIN of users' databases, by node id.
        branches: what is gone of a database, by its id.
        unsure: databases that have records of which the trees say nothing.
        removed: databases that were removed before ``time``.
        counts: BINs and live records in them, by database.
        lost: names of the databases of which no MapLN is left.
    """

    time: int = NULL_LSN
    bins: Mapping[int, int] = MappingProxyType({})
    branches: Mapping[int, list[Branch]] = MappingProxyType({})
    unsure: frozenset[int] = frozenset()
    removed: frozenset[int] = frozenset()
    counts: Mapping[int, tuple[int, int]] = MappingProxyType({})
    lost: tuple[str, ...] = ()


def survey_trees(access: LogAccess, log: LogSurvey) -> TreeSurvey:
    """Walk over the trees of users' databases.

    Arguments:
        access: the log.
        log: what is few in it.
    """
    checkpoint = log.checkpoint
    if checkpoint is None:
        return TreeSurvey()
    walk = TreeWalk(access)
    catalog = _Catalog(walk, checkpoint.root_lsn)
    # Until v8 parents do not lead to deltas: a mapping tree may lack databases.
    catalog.is_whole &= log.checkpoint_version >= _DELTAS_IN_PARENTS
    bins: dict[int, int] = {}
    branches: dict[int, list[Branch]] = {}
    counts: dict[int, tuple[int, int]] = {}
    unsure, removed = set(), set()
    for db_id, (map_lsn, impl) in log.roots.items():
        state = catalog.state_of(db_id, map_lsn, checkpoint.ckpt_start_lsn)
        if state == _REMOVED:
            removed.add(db_id)
            continue
        if state == _UNSURE:
            unsure.add(db_id)
        nodes = records = 0
        for node in walk.walk(impl):
            if isinstance(node, Branch):
                branches.setdefault(db_id, []).append(node)
                continue
            if impl.duplicates and node.version < TWO_PART_DUPLICATES:
                # Items stand in trees of their own.
                unsure.add(db_id)
            bins[node.full.node_id] = node.full_lsn
            nodes += 1
            records += sum(not deleted for _, deleted in node.slots().values())
        counts[db_id] = nodes, records
    return TreeSurvey(
        time=_time_of(log),
        bins=bins,
        branches=branches,
        unsure=frozenset(unsure),
        removed=frozenset(removed),
        counts=counts,
        lost=tuple(catalog.lost(log)),
    )


def _time_of(log: LogSurvey) -> int:
    """Up to where the trees decide; NULL_LSN for nowhere."""
    checkpoint = log.checkpoint
    if checkpoint is None or log.checkpoint_version < _DELTAS_IN_PARENTS:
        return NULL_LSN
    start = checkpoint.ckpt_start_lsn
    # A rollback that goes back beyond the checkpoint has put records back.
    return NULL_LSN if any(low < start < high for low, high, _ in log.periods) else start


class _Catalog:
    """MapLNs and NameLNs as the checkpoint's mapping and naming tree lead to them.

    Arguments:
        root_lsn: of the DbTree.
    """

    def __init__(self, walk: TreeWalk, root_lsn: int) -> None:
        root = walk.record(root_lsn)
        self._walk = walk
        self._maps: dict[int, int] = {}
        self._names: dict[str, int] = {}
        self.is_whole = isinstance(root, DbTree)
        if isinstance(root, DbTree):
            for key, lsn in self._slots(root.mapping_db):
                if key.isdigit() or key[:1] == b"-":
                    self._maps[int(key)] = lsn
            whole = self.is_whole
            self._names = {key.decode("utf-8", "replace"): lsn for key, lsn in self._slots(root.naming_db)}
            self.is_whole = whole

    def state_of(self, db_id: int, map_lsn: int, start: int) -> int:
        """Whether a tree is that of a database at the checkpoint.

        Arguments:
            map_lsn: of its newest legible MapLN.
            start: CkptStart.
        """
        lsn = self._maps.get(db_id)
        if lsn is not None:
            return _SURE if map_lsn >= lsn else _UNSURE
        if map_lsn > start:
            return _SURE
        return _REMOVED if self.is_whole else _UNSURE

    def lost(self, log: LogSurvey) -> Iterator[str]:
        """Names of databases that have lost their MapLN."""
        known = {*log.roots, *log.removed, *log.internal}
        ids = sorted(db_id for db_id in self._maps if db_id not in known and not 0 <= db_id <= NAMING_DB_ID)
        named = {db.name for db in log.dbs.values()} | set(log.names.values())
        # Their NameLNs are as likely gone: then the names are those that the naming tree has besides.
        names = [name for name in self._names if name not in named and self._walk.entry(self._names[name]) is None]
        names = sorted((name for name in names if not name.startswith(OWN_PREFIX)), key=self._names.__getitem__)
        for db_id in ids:
            yield log.names.get(db_id) or (names.pop(0) if names else f"database {db_id}")

    def _slots(self, impl: DatabaseImpl) -> Iterator[tuple[bytes, int]]:
        for node in self._walk.walk(impl):
            if isinstance(node, Branch):
                self.is_whole = False
                continue
            for key, (lsn, deleted) in node.slots().items():
                if not deleted:
                    yield key, lsn
