"""Records according to the trees of a log, at the last whole checkpoint and now.

The trees at a checkpoint show which records were deleted before it; the current trees show which are lost
(``engine.rescue.salvage.trees`` has the walk and an example).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from engine.format.entry.db_tree import NAMING_DB_ID, DatabaseImpl, DbTree
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import MapLN
from engine.format.entry_types import LNS, MAP_LNS
from engine.format.lsn import NULL_LSN, file_of
from engine.format.versions import PRIOR_VERSION, TWO_PART_DUPLICATES
from engine.log.access import LogAccess
from engine.log.entry import BY_SIZE_CHAIN, Damage
from engine.log.files import LogFiles
from engine.rescue.salvage.databases import nameless_name
from engine.rescue.salvage.scan import Checkpoint, LogSurvey
from engine.rescue.salvage.trees import LostBranch, SalvageTreeWalk, index_nodes
from engine.storage.base import Storage
from engine.tree.database_state import INTERNAL_PREFIX

_MOST_DIGITS: Final = 20
# Since v16 JE creates four internal databases in every new environment.
_FIRST_DATABASES: Final = frozenset(range(2, 6))
# First log version in which the parent of a BIN refers to its newest delta.
_DELTAS_IN_PARENTS: Final = 9


class TreeSurvey(NamedTuple):
    """The facts from the trees of a log.

    Attributes:
        time: LSN of CkptStart: records written before it that are in no tree were deleted. NULL_LSN: the trees cannot
            be used.
        bins: LSN of the full version of each BIN of users' databases at that checkpoint, by node id.
        unknown: by database id, the parts of the database at that time that cannot be read.
        unsure: databases whose records at that time are not in the trees.
        removed: databases that were removed before ``time``.
        lost: by database id, the parts of the current database that are lost.
        counts: number of current BINs and of their slots, by database.
        lost_databases: names of the databases without a MapLN.
        lost_internal: number of lost nodes of the mapping and the naming tree.
        absent: numbers of missing log files to which one of these trees refers.
    """

    time: int = NULL_LSN
    bins: Mapping[int, int] = MappingProxyType({})
    unknown: Mapping[int, list[LostBranch]] = MappingProxyType({})
    unsure: frozenset[int] = frozenset()
    removed: frozenset[int] = frozenset()
    lost: Mapping[int, list[LostBranch]] = MappingProxyType({})
    counts: Mapping[int, tuple[int, int]] = MappingProxyType({})
    lost_databases: tuple[str, ...] = ()
    lost_internal: int = 0
    absent: frozenset[int] = frozenset()

    def lost_below(self, db_id: int) -> float:
        """Estimated number of records below the lost nodes of a database, from the average of other nodes."""
        bins, records = self.counts.get(db_id, (0, 0))
        average = records / bins if bins else 1.0
        # Upper nodes have about as many children as BINs have records.
        return sum(average**branch.level for branch in self.lost.get(db_id, ()))


def survey_trees(storage: Storage, files: LogFiles, log: LogSurvey) -> TreeSurvey:
    """Walk over the trees of users' databases.

    Arguments:
        storage, files: the log.
        log: the survey of the log.
    """
    checkpoint = _whole_checkpoint(files, log)
    before, index = index_nodes(storage, files, NULL_LSN if checkpoint is None else checkpoint.end_lsn)
    access = LogAccess(storage, files.files)
    try:
        found = TreeSurvey() if checkpoint is None else _at_checkpoint(SalvageTreeWalk(access, before), log, checkpoint)
        found = _now(SalvageTreeWalk(access, index), log, found)
        present = {file.number for file in files.files}
        absent = {file_of(branch.lsn) for branches in found.lost.values() for branch in branches} - present
        return found._replace(absent=found.absent | absent)
    finally:
        access.close()


def _whole_checkpoint(files: LogFiles, log: LogSurvey) -> Checkpoint | None:
    """The last checkpoint whose entries are all legible."""
    absent = files.missing()
    for one in reversed(log.checkpoints):
        first, last = file_of(one.start_lsn), file_of(one.end_lsn)
        # Up to v8 parents do not refer to deltas.
        if one.version < _DELTAS_IN_PARENTS or not files.files or first < files.files[0].number:
            continue
        if any(first <= number <= last for number in absent):
            continue
        if any(_may_hide_node(damage, one.start_lsn, one.end_lsn) for damage in log.damages):
            continue
        # A rollback to a point before the checkpoint has restored records.
        if not any(low < one.start_lsn < high for low, high, _ in log.periods):
            return one
    return None


def _may_hide_node(damage: Damage, start: int, end: int) -> bool:
    """Whether damage between two LSNs may have taken a node or a MapLN."""
    if not damage.length:
        return file_of(start) <= file_of(damage.lsn) <= file_of(end)
    # This damage is a single entry whose header is intact; the header gives type and size.
    is_other = damage.found_by == BY_SIZE_CHAIN and damage.type_number in LNS - MAP_LNS
    return not is_other and damage.lsn <= end and damage.lsn + damage.length >= start


def _at_checkpoint(walk: SalvageTreeWalk, log: LogSurvey, checkpoint: Checkpoint) -> TreeSurvey:
    """The trees at a checkpoint."""
    catalog = TreeCatalog(walk, checkpoint.root_lsn)
    bins: dict[int, int] = {}
    unknown: dict[int, list[LostBranch]] = {}
    unsure, removed = set(), set()
    for db_id, (map_lsn, _) in log.roots.items():
        impl = catalog.state_of(db_id)
        if impl is None:
            # Created later, or removed before; else its MapLN cannot be read.
            if not catalog.is_whole or catalog.knows(db_id):
                unsure.add(db_id)
            elif map_lsn < checkpoint.start_lsn:
                removed.add(db_id)
            continue
        for node in walk.walk(impl):
            if isinstance(node, LostBranch):
                unknown.setdefault(db_id, []).append(node)
            else:
                bins[node.node_id] = node.full.lsn
                if impl.duplicates and node.full.version < TWO_PART_DUPLICATES:
                    # Items are in trees of their own.
                    unsure.add(db_id)
    return TreeSurvey(
        time=checkpoint.start_lsn,
        bins=bins,
        unknown=unknown,
        unsure=frozenset(unsure),
        removed=frozenset(removed),
    )


def _now(walk: SalvageTreeWalk, log: LogSurvey, found: TreeSurvey) -> TreeSurvey:
    """``found``, completed with the lost parts of the current trees."""
    lost: dict[int, list[LostBranch]] = {}
    counts: dict[int, tuple[int, int]] = {}
    for db_id, (_, impl) in log.roots.items():
        if db_id in found.removed:
            continue
        bins = records = 0
        for node in walk.walk(impl):
            if isinstance(node, LostBranch):
                lost.setdefault(db_id, []).append(node)
                continue
            bins += 1
            records += node.slots
        counts[db_id] = bins, records
    root_lsn = max((one.root_lsn for one in log.checkpoints), default=NULL_LSN)
    catalog = TreeCatalog(walk, root_lsn)
    return found._replace(
        lost=lost,
        counts=counts,
        lost_databases=tuple(catalog.lost(log)),
        lost_internal=len(catalog.branches),
        absent=frozenset(file_of(lsn) for lsn in catalog.unread() if not walk.has_file(file_of(lsn))),
    )


def _is_number(key: bytes) -> bool:
    return key.removeprefix(b"-").isdigit() and len(key) <= _MOST_DIGITS


class TreeCatalog:
    """MapLNs and NameLNs in the checkpoint's mapping and naming tree.

    Arguments:
        root_lsn: of the DbTree.

    Attributes:
        maps, names: LSN of the MapLN by id, and of the NameLN by name.
        branches: lost parts of both trees, each with the id of the tree.
        is_whole: the mapping tree can be read.
        is_known: the DbTree can be read.
    """

    def __init__(self, walk: SalvageTreeWalk, root_lsn: int) -> None:
        root = walk.record(root_lsn)
        self._walk = walk
        self.maps: dict[int, int] = {}
        self.names: dict[str, int] = {}
        self._own: frozenset[int] = frozenset()
        self.branches: list[tuple[int, LostBranch]] = []
        self.is_whole = False
        self.is_known = isinstance(root, DbTree)
        if isinstance(root, DbTree):
            self.maps = {int(key): lsn for key, lsn in self._slots(root.mapping_db) if _is_number(key)}
            self.is_whole = not self.branches
            self.names = {key.decode("utf-8", "replace"): lsn for key, lsn in self._slots(root.naming_db)}
            if root.initial_log_version >= PRIOR_VERSION:
                self._own = _FIRST_DATABASES

    def unread(self) -> list[int]:
        """LSNs of unreadable nodes, MapLNs and NameLNs to which the trees refer."""
        lsns = [*self.maps.values(), *self.names.values()]
        return [branch.lsn for _, branch in self.branches] + [lsn for lsn in lsns if self._walk.entry(lsn) is None]

    def knows(self, db_id: int) -> bool:
        """Whether the mapping tree has a database."""
        return db_id in self.maps

    def state_of(self, db_id: int) -> DatabaseImpl | None:
        """The newest state of a database; None if it does not exist or cannot be read."""
        lsn = max(self.maps.get(db_id, NULL_LSN), self._walk.index.map(db_id))
        record = self._walk.record(lsn)
        content = record.content if isinstance(record, LN) else None
        return content.database if isinstance(content, MapLN) else None

    def lost(self, log: LogSurvey) -> Iterator[str]:
        """Names of databases that have lost their MapLN."""
        known = {*log.roots, *log.removed, *log.internal, *self._own}
        ids = sorted(db_id for db_id in self.maps if db_id not in known and not 0 <= db_id <= NAMING_DB_ID)
        named = {db.name for db in log.dbs.values()} | set(log.names.values())
        # If the NameLNs of these databases are lost too, their names are those in the naming tree that no other
        # database has.
        names = [name for name in self.names if name not in named and self._walk.entry(self.names[name]) is None]
        names = sorted((name for name in names if not name.startswith(INTERNAL_PREFIX)), key=self.names.__getitem__)
        for db_id in ids:
            yield log.names.get(db_id) or (names.pop(0) if names else nameless_name(db_id))

    def _slots(self, impl: DatabaseImpl) -> Iterator[tuple[bytes, int]]:
        for node in self._walk.walk(impl):
            if isinstance(node, LostBranch):
                self.branches.append((impl.db_id, node))
                continue
            yield from ((slot.key, slot.lsn) for slot in node.live())
