"""Converting duplicates of log versions 6 and 7 (je-log-format.md 12.2) to the form of later versions.

Until v7 the data items of a key form a separate tree (DIN, DBIN) once there are two of them; with one item, the slot of
the main tree leads to its LN. During recovery this module keeps, for each main key of such a database, either a
*single* version or a set of *items*, to which undo and redo are applied. At the end all live records are put into an
ordinary tree with two-part keys, as JE 5 and later do when they open such an environment.

Special rules for single slots: an LN with data -1 deletes the one existing item, whatever it is; undo restores the LN
at the abort LSN, which may hold a different item than the undone one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.catalog.catalog import Catalog
from engine.errors import DamageError
from engine.format.bytecursor import join_two_part_key
from engine.format.entry.legacy import OldDelta
from engine.format.entry.ln import LN
from engine.format.entry.node import KNOWN_DELETED, NodeRecord
from engine.format.entry_types import (
    DEL_DUP_LNS,
    DIN_TYPE,
    DUP_DELTA_TYPE,
    DUP_NODES,
)
from engine.format.lsn import NULL_LSN, format_lsn, is_null
from engine.format.versions import TWO_PART_DUPLICATES
from engine.log.passes import RawEntry
from engine.recovery.node_replay import LoggedNode
from engine.tree.bin_node import BIN
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.keys import UnknownOrderError
from engine.tree.split import bin_for_insert
from engine.tree.tree import bins

_MAX_DEPTH: Final = 64


class _Versions:
    """The versions of one main key: LSN by item, or the LSN of the single slot under None."""

    __slots__ = ("items", "single")

    def __init__(self) -> None:
        self.items: dict[bytes, int] = {}
        self.single = NULL_LSN


class LegacyDuplicates:
    """The old duplicates databases of an environment.

    Arguments:
        ctx, catalog: the trees and databases, after the IN passes.
        nodes: the node entries of the recovery range.
        last_version: log version of the last file; JE 5 and later convert every such database when they open it.
    """

    def __init__(self, ctx: TreeContext, catalog: Catalog, nodes: Iterable[LoggedNode], last_version: int) -> None:
        self._ctx = ctx
        self._catalog = catalog
        self._keys: dict[int, dict[bytes, _Versions]] = {}
        self._newest: dict[tuple[int, int], int] = {}
        self._deltas: dict[int, int] = {}
        # JE 5 or later has opened this environment and converted all such databases.
        if last_version >= TWO_PART_DUPLICATES:
            return
        self._overlay(nodes)
        for db_id in catalog.ids():
            db = catalog.by_id(db_id)
            if db is not None and db.old_duplicates:
                learned = db.order.learned
                if learned is not None and not learned.may_guess:
                    # The conversion needs the order, since all records go into a new tree.
                    raise UnknownOrderError(learned)
                self._keys[db_id] = self._load(db)

    def owns(self, db: DatabaseState) -> bool:
        """Whether this object handles the records of a database during recovery."""
        return db.id in self._keys

    def undo(self, db: DatabaseState, raw: RawEntry, record: LN) -> None:
        """Undo one LN."""
        versions = self._keys[db.id].get(record.key)
        if versions is None:
            return
        # If the version before was known deleted, there is no earlier item, whatever the abort LSN is.
        before = NULL_LSN if is_null(record.abort_lsn) or record.abort_known_deleted else record.abort_lsn
        if versions.single == raw.lsn:
            versions.single = before
            return
        for item, lsn in list(versions.items.items()):
            if lsn == raw.lsn:
                del versions.items[item]
                if before != NULL_LSN:
                    # The previous version may hold a different item than the undone one.
                    versions.items[self._item_at(before, item)] = before

    def redo(self, db: DatabaseState, raw: RawEntry, record: LN) -> None:
        """Redo one LN."""
        versions = self._keys[db.id].setdefault(record.key, _Versions())
        if raw.type_number in DEL_DUP_LNS:
            # A deletion in a tree of duplicates has its item in the tail; its key is the main key.
            item = record.tail if isinstance(record.tail, bytes) else b""
            # From here on there can be several items, so the item of the single slot must be determined.
            self._spread(versions)
            if versions.items.get(item, NULL_LSN) < raw.lsn:
                versions.items[item] = raw.lsn
        elif record.data is None:
            if versions.items:
                versions.items = {item: lsn for item, lsn in versions.items.items() if lsn > raw.lsn}
            elif versions.single < raw.lsn:
                versions.single = raw.lsn
        else:
            self._spread(versions)
            if versions.items.get(record.data, NULL_LSN) < raw.lsn:
                versions.items[record.data] = raw.lsn

    def finish(self) -> None:
        """Put all live records into trees with two-part keys."""
        for db_id, keys in self._keys.items():
            db = self._catalog.by_id(db_id)
            if db is None:
                continue
            # Begin a new tree: the old nodes are in the order of main keys and cannot be searched by pairs.
            db.root, db.root_lsn = None, NULL_LSN
            db.converted()
            for key in sorted(keys):
                versions = keys[key]
                self._spread(versions)
                for item in sorted(versions.items):
                    self._put(db, key, item, versions.items[item])
        self._keys = {}

    def _put(self, db: DatabaseState, key: bytes, item: bytes, lsn: int) -> None:
        entry = self._ctx.access.read(lsn)
        record = entry.record()
        # The LN deletes an item: redo kept its LSN only to recognize older versions.
        if not isinstance(record, LN) or record.data is None:
            return
        pair = db.order.wrap(join_two_part_key(key, item))
        node = bin_for_insert(self._ctx, db, pair)
        index, exact = node.find(pair)
        node.put(index, pair, exact, lsn, 0, b"", 0, 0)

    def _spread(self, versions: _Versions) -> None:
        """Turn a single version into an item."""
        if versions.single == NULL_LSN:
            return
        record = self._ctx.access.read(versions.single).record()
        if isinstance(record, LN) and record.data is not None:
            versions.items.setdefault(record.data, versions.single)
        versions.single = NULL_LSN

    def _item_at(self, lsn: int, otherwise: bytes) -> bytes:
        record = self._ctx.access.read(lsn).record()
        return record.data if isinstance(record, LN) and record.data is not None else otherwise

    def _overlay(self, nodes: Iterable[LoggedNode]) -> None:
        """Find the newest version of every DIN and DBIN in the recovery range, and the newest delta of every DBIN."""
        for logged in nodes:
            if logged.type_number in DUP_NODES:
                record = self._node(logged.lsn)
                self._newest[(record.db_id, record.node_id)] = logged.lsn
            elif logged.type_number == DUP_DELTA_TYPE:
                delta = self._ctx.access.read(logged.lsn).record()
                assert isinstance(delta, OldDelta)
                # Old deltas have no node id: they are identified by the full version that they reference.
                self._deltas[delta.last_full_lsn] = logged.lsn

    def _load(self, db: DatabaseState) -> dict[bytes, _Versions]:
        keys: dict[bytes, _Versions] = {}
        for node in bins(self._ctx, db):
            for index in range(len(node)):
                if node.lsns[index] != NULL_LSN and not node.states[index] & KNOWN_DELETED:
                    keys[node.keys[index]] = self._versions_at(node, index)
        # Remove these nodes from memory, because ``finish`` creates a new tree.
        for resident in [n for n in self._ctx.nodes.values() if n.db is db]:
            self._ctx.nodes.pop(id(resident))
        return keys

    def _versions_at(self, node: BIN, index: int) -> _Versions:
        versions = _Versions()
        entry = self._ctx.access.read(node.lsns[index])
        if entry.type_number == DIN_TYPE:
            self._items(entry.lsn, versions.items, 0)
        else:
            versions.single = entry.lsn
        return versions

    def _items(self, lsn: int, items: dict[bytes, int], depth: int) -> None:
        """Collect the items below a DIN or DBIN."""
        record = self._node(lsn)
        newest = self._newest.get((record.db_id, record.node_id), NULL_LSN)
        # The parent was not logged after the newest version of this node, and references an older one.
        if newest > lsn:
            lsn, record = newest, self._node(newest)
        if depth > _MAX_DEPTH:
            raise DamageError("a duplicates tree is too deep", lsn=format_lsn(lsn))
        entry = self._ctx.access.read(lsn)
        for slot in record.slots:
            if entry.type_number == DIN_TYPE:
                self._items(slot.lsn, items, depth + 1)
            elif slot.lsn != NULL_LSN and not slot.state & KNOWN_DELETED:
                items[record.full_key(slot)] = slot.lsn
        delta_lsn = self._deltas.get(lsn)
        if delta_lsn is not None:
            delta = self._ctx.access.read(delta_lsn).record()
            assert isinstance(delta, OldDelta)
            for changed in delta.slots:
                items.pop(changed.key, None)
                if changed.lsn != NULL_LSN and not changed.state & KNOWN_DELETED:
                    items[changed.key] = changed.lsn

    def _node(self, lsn: int) -> NodeRecord:
        entry = self._ctx.access.read(lsn)
        record = entry.record()
        if not isinstance(record, NodeRecord) or entry.type_number not in DUP_NODES:
            raise DamageError("a duplicates tree leads to no node of its kind", lsn=format_lsn(lsn))
        return record
