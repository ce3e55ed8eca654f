"""Counts of the tree of every database: what JE's DbStat prints (R-UTIL-1, R-UTIL-32), for all databases in one walk.

Nodes and slots are counted as recovery leaves them. A slot with KD or PD counts as deleted; any other slot counts as a
record, even if expired. The fill of a bottom node is its records divided by its room plus one, as in JE.

Example: a tree of 90 records is one root of level 2 over one BIN with room for 128: depth 2, one BIN in the class 60 to
69 %.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.events import SILENT, Listener
from engine.format.entry.db_tree import MAPPING_DB_ID, NAMING_DB_ID
from engine.format.entry.node import SLOT_EMBEDDED
from engine.log.files import LogFiles
from engine.storage.base import Storage
from engine.tree.bin_node import BIN, DELETED
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.verify.report import ERROR
from engine.verify.trees import walk_trees

_CLASSES: Final = 10
_CATALOGUE: Final = {MAPPING_DB_ID: "_jeIdMap", NAMING_DB_ID: "_jeNameMap"}


class TreeProfile(NamedTuple):
    """The tree of one database.

    Attributes:
        depth: number of levels, 0 without a tree.
        nodes_by_level: nodes of level 1, 2, and so on.
        records, deleted: slots of bottom nodes.
        bins_by_fill: number of bottom nodes that are 0 to 9 % full, 10 to 19 % and so on; the last class ends at 100 %.
        embedded: number of records whose data is in their slots.
    """

    name: str
    db_id: int
    depth: int
    bins: int
    ins: int
    records: int
    deleted: int
    embedded: int
    nodes_by_level: tuple[int, ...]
    bins_by_fill: tuple[int, ...]


class StatsReport(NamedTuple):
    """Statistics of the trees of an environment; ``damaged`` if a part could not be read and is missing in
    the counts.
    """

    trees: tuple[TreeProfile, ...]
    damaged: bool


def tree_stats(storage: Storage, files: LogFiles, listener: Listener = SILENT) -> StatsReport:
    """Count the nodes and slots of every database, ascending by id, including JE's own databases but not temporary
    ones.

    Raises:
        UnsupportedError: a file is of a log version that this program does not read.
        StorageError: a file cannot be read.
    """
    counting = _TreeCounter()
    found = walk_trees(storage, files, counting, listener=listener)
    trees = tuple(counting.counts[db_id].stats() for db_id in sorted(counting.counts))
    return StatsReport(trees, not found.recovered or any(one.severity == ERROR for one in found.findings))


class _TreeCounter:
    def __init__(self) -> None:
        self.counts: dict[int, _Counts] = {}

    def begin(self, db: DatabaseState) -> None:
        """Begin the counts of the next database."""
        self.counts[db.id] = _Counts(db)

    def visit(self, db: DatabaseState, node: IN) -> None:
        """Count a node."""
        self.counts[db.id].add(node)


class _Counts:
    """Accumulates the counts of one tree."""

    def __init__(self, db: DatabaseState) -> None:
        self._db = db
        self._levels: dict[int, int] = {}
        self._fill = [0] * _CLASSES
        self._records = self._deleted = self._embedded = 0

    def add(self, node: IN) -> None:
        self._levels[node.height] = self._levels.get(node.height, 0) + 1
        if not isinstance(node, BIN):
            return
        deleted = sum(1 for state in node.states if state & DELETED)
        live = len(node) - deleted
        self._deleted += deleted
        self._records += live
        self._embedded += sum(1 for state in node.states if state & SLOT_EMBEDDED and not state & DELETED)
        # JE divides by the room plus one, so a full node is below 100 %.
        self._fill[min(live * 100 // (node.max_entries + 1) // _CLASSES, _CLASSES - 1)] += 1

    def stats(self) -> TreeProfile:
        depth = max(self._levels, default=0)
        levels = tuple(self._levels.get(level, 0) for level in range(1, depth + 1))
        name = _CATALOGUE.get(self._db.id, self._db.label)
        return TreeProfile(
            name=name,
            db_id=self._db.id,
            depth=depth,
            bins=levels[0] if levels else 0,
            ins=sum(levels[1:]),
            records=self._records,
            deleted=self._deleted,
            embedded=self._embedded,
            nodes_by_level=levels,
            bins_by_fill=tuple(self._fill),
        )
