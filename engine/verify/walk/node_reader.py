"""Reading nodes of trees that may be damaged: problems become findings, and the walk continues with other nodes.

Nodes are read as by ``engine.tree.tree`` (a delta applied to its full version), but problems are reported instead of
raised, and nodes are not kept in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Final

from engine.errors import DamageError, FormatError, plural
from engine.format.entry.legacy import OldDelta
from engine.format.entry.node import NodeRecord
from engine.format.entry_types import BIN_TYPE, DELTA_TYPE, TREE_NODE_ENTRIES
from engine.format.fast.bin import decode_head
from engine.format.lsn import format_lsn, is_null
from engine.log.entry import LogEntry
from engine.tree.bin_node import BIN
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.keys import UnknownOrderError
from engine.tree.node_codec import (
    apply_delta,
    apply_old_delta,
    apply_usual_delta,
    decode_usual,
    decode_usual_delta,
    node_from,
)
from engine.verify import tree_rules as rules
from engine.verify.collector import Collector
from engine.verify.missing_file_refs import LostFiles

_DOES_NOT_FIT: Final = (FormatError, LookupError, ValueError, OverflowError, struct.error)


class NodeReader:
    """Reads single nodes.

    Arguments:
        ctx: the trees; nothing is added to them.
        findings: receives the findings.
        lost: collects references into missing files; gets every node that is read.
        end_lsn: the end of the log; later entries do not count.
    """

    def __init__(self, ctx: TreeContext, findings: Collector, lost: LostFiles, end_lsn: int) -> None:
        self._ctx = ctx
        self._findings = findings
        self._lost = lost
        self._end_lsn = end_lsn

    def read(self, db: DatabaseState, lsn: int) -> IN | None:
        """The complete node at an LSN; None if it cannot be read, which is then already reported."""
        entry = self._entry(db, lsn)
        if entry is None:
            return None
        if (usual := _usual(db, entry)) is not None:
            return usual
        is_delta = entry.type_number == DELTA_TYPE
        delta = decode_usual_delta(db, entry.body, entry.version) if is_delta else None
        record = self._record(db, entry) if delta is None else None
        try:
            if delta is not None:
                head, apply = delta.head, partial(apply_usual_delta, delta=delta)
                return self._with_delta(db, entry, head.full_lsn, head.node_id, apply)
            if record is None:
                return None
            if isinstance(record, OldDelta):
                return self._with_old_delta(db, entry, record)
            if is_delta:
                apply = partial(apply_delta, record=record)
                return self._with_delta(db, entry, record.prev_full_lsn, record.node_id, apply)
            return self._whole(db, entry, record)
        except _DOES_NOT_FIT as error:
            self._findings.add(rules.UNREADABLE, f"{entry.type_name}: {error}", lsn=lsn, db=db)
        except UnknownOrderError:
            # The comparator is not registered and no node has revealed the order yet, so the delta cannot be merged.
            pass
        return None

    def peek(self, db: DatabaseState, mark: int) -> IN | None:
        """A node that recovery changed and evicted to the scratch file; None if the slot does not refer to one."""
        assert self._ctx.spill is not None
        try:
            return self._ctx.spill.peek(db, mark)
        except DamageError as error:
            self._findings.add(rules.UNREADABLE, f"{error.what}: {error.found}", db=db)
            return None

    def _entry(self, db: DatabaseState, lsn: int) -> LogEntry | None:
        self._lost.note_node(db, lsn)
        if lsn >= self._end_lsn and not is_null(lsn):
            self._findings.add(rules.UNREADABLE, "it is after the end of the log", lsn=lsn, db=db)
            return None
        try:
            return self._ctx.access.read(lsn)
        except DamageError as error:
            self._findings.add(rules.UNREADABLE, error.what, lsn=lsn, db=db)
            return None

    def _record(self, db: DatabaseState, entry: LogEntry) -> NodeRecord | OldDelta | None:
        if entry.type_number not in TREE_NODE_ENTRIES:
            self._findings.add(rules.WRONG_TYPE, f"found {entry.type_name}", lsn=entry.lsn, db=db)
            return None
        try:
            record = entry.record()
        except FormatError as error:
            self._findings.add(rules.UNREADABLE, str(error), lsn=entry.lsn, db=db)
            return None
        assert isinstance(record, (NodeRecord, OldDelta))
        # A damaged LSN can point to a good node of another tree.
        if record.db_id != db.id:
            message = f"{entry.type_name} of database {record.db_id} in the tree of database {db.id}"
            self._findings.add(rules.WRONG_DATABASE, message, lsn=entry.lsn, db=db)
            return None
        return record

    def _whole(self, db: DatabaseState, entry: LogEntry, record: NodeRecord) -> IN | None:
        if (record.height == 1) != (entry.type_number == BIN_TYPE):
            message = f"{entry.type_name} says that it is of level 0x{record.level:x}"
            self._findings.add(rules.WRONG_LEVEL, message, lsn=entry.lsn, db=db)
            return None
        if record.n_entries > record.max_entries:
            message = f"{record.n_entries} of {record.max_entries}"
            self._findings.add(rules.TOO_FULL, message, lsn=entry.lsn, db=db)
        if record.key_prefix and not (db.prefixing or db.duplicates):
            self._findings.add(rules.PREFIX, plural(len(record.key_prefix), "byte"), lsn=entry.lsn, db=db)
        node = node_from(db, record)
        node.full_lsn = entry.lsn
        return node

    def _with_delta(
        self, db: DatabaseState, entry: LogEntry, full_lsn: int, node_id: int, apply: Callable[[BIN], None]
    ) -> IN | None:
        full = self._full(db, entry, full_lsn)
        if full is None:
            return None
        if full.node_id != node_id:
            message = f"node {node_id}, its full version is node {full.node_id}"
            self._findings.add(rules.BAD_DELTA, message, lsn=entry.lsn, db=db)
            return None
        apply(full)
        full.delta_lsn = entry.lsn
        return full

    def _with_old_delta(self, db: DatabaseState, entry: LogEntry, record: OldDelta) -> IN | None:
        full = self._full(db, entry, record.last_full_lsn)
        if full is not None:
            apply_old_delta(full, record)
            full.delta_lsn = entry.lsn
        return full

    def _full(self, db: DatabaseState, delta: LogEntry, lsn: int) -> BIN | None:
        """The full version of a delta; never another delta."""
        # A delta is always logged after its full version (R-TREE-33).
        if is_null(lsn) or lsn >= delta.lsn:
            message = f"full version {format_lsn(lsn)}, which is not before the delta"
            self._findings.add(rules.BAD_DELTA, message, lsn=delta.lsn, db=db)
            return None
        entry = self._entry(db, lsn)
        if entry is None:
            return None
        if entry.type_number != BIN_TYPE:
            message = f"full version {format_lsn(lsn)} is {entry.type_name}"
            self._findings.add(rules.BAD_DELTA, message, lsn=delta.lsn, db=db)
            return None
        if (usual := _usual(db, entry)) is not None:
            return usual
        record = self._record(db, entry)
        node = self._whole(db, entry, record) if isinstance(record, NodeRecord) else None
        return node if isinstance(node, BIN) else None


def _usual(db: DatabaseState, entry: LogEntry) -> BIN | None:
    """A BIN of the usual form without problems, read without an object per slot; None: use the full check."""
    if entry.type_number != BIN_TYPE:
        return None
    node = decode_usual(db, entry.body, entry.version)
    if node is None or len(node) > node.max_entries:
        return None
    if not (db.prefixing or db.duplicates):
        head = decode_head(entry.body)
        if head is None or head.prefix:
            return None
    node.full_lsn = entry.lsn
    return node
