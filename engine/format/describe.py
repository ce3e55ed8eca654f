"""A record's fields in on-disk order, defined once; the renderers for text, JSON, CSV, XML and the Spark schema use it.

Most records are shown as their shape defines (``fields``). Leaf entries and nodes have their own functions, since their
fields depend on flags: a field that is absent by the flags is omitted here too, except for those that readers of many
entries expect in every one (``_ALWAYS`` in the table below).

==========  ======================================================================================================
entry       fields that are always present
==========  ======================================================================================================
LN          db, txn, key, data, data_size, deleted, abort_lsn, abort_known_deleted, last_lsn, embedded, expiration
IN, BIN     db, node, level, is_root, is_delta, slots (their number)
==========  ======================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from engine.errors import FormatError
from engine.format.bytecursor import sorted_unpack
from engine.format.entry import checkpoint, db_tree, file_header, legacy, markers, rollback, trace, txn_end
from engine.format.entry import ln as ln_module
from engine.format.entry import ln_content as lc
from engine.format.entry import node as node_module
from engine.format.entry.ln import LN
from engine.format.entry.node import NodeRecord, Slot
from engine.format.fast.bin import NO_BASE
from engine.format.fields import FieldValue, Shape

SHAPES: Final[dict[type, Shape]] = {
    checkpoint.CkptStart: checkpoint.CKPT_START,
    checkpoint.CkptEnd: checkpoint.CKPT_END,
    db_tree.DbTree: db_tree.DB_TREE,
    db_tree.DatabaseImpl: db_tree.DATABASE_IMPL,
    db_tree.FileUtilization: db_tree.FILE_UTILIZATION,
    file_header.FileHeader: file_header.FILE_HEADER,
    lc.MapLN: lc.MAP_LN,
    lc.NameLN: lc.NAME_LN,
    lc.DatabaseConfig: lc.DATABASE_CONFIG,
    lc.NameOperation: lc.NAME_OPERATION,
    lc.FileSummary: lc.FILE_SUMMARY,
    lc.FileSummaryLN: lc.FILE_SUMMARY_LN,
    lc.DupCountLN: lc.DUP_COUNT_LN,
    legacy.OldDelta: legacy.OLD_DELTA,
    legacy.DeltaSlot: legacy.DELTA_SLOT,
    legacy.INDelete: legacy.IN_DELETE,
    legacy.INDupDelete: legacy.IN_DUP_DELETE,
    markers.ImmutableFile: markers.IMMUTABLE_FILE,
    markers.RestoreRequired: markers.RESTORE_REQUIRED,
    markers.ErasedEntry: markers.ERASED,
    node_module.DupCountRef: node_module.DUP_COUNT_REF,
    rollback.RollbackStart: rollback.ROLLBACK_START,
    rollback.RollbackEnd: rollback.ROLLBACK_END,
    rollback.Matchpoint: rollback.MATCHPOINT,
    trace.Trace: trace.TRACE,
    txn_end.TxnEnd: txn_end.TXN_END,
    txn_end.Prepare: txn_end.PREPARE,
}

# Optional fields of an LN: shown name, kind, field of the record, the flag bit for its presence, and the flags byte of
# that bit.
_LN_FLAGGED: Final = (
    ("abort_key", "bytes", "abort_key", ln_module.HAS_ABORT_KEY, 1),
    ("abort_data", "bytes", "abort_data", ln_module.HAS_ABORT_DATA, 1),
    ("abort_vlsn", "vlsn", "abort_vlsn", ln_module.HAS_ABORT_VLSN, 1),
    ("abort_expiration", "expiration", "abort_expiration", ln_module.HAS_ABORT_EXPIRATION, 1),
    ("abort_modification_time", "time", "abort_modification_time", ln_module.HAS_ABORT_MODIFICATION_TIME, 2),
    ("abort_creation_time", "time", "abort_creation_time", ln_module.HAS_ABORT_CREATION_TIME, 2),
    ("prior_size", "int", "prior_size", ln_module.HAS_PRIOR_SIZE, 2),
    ("prior_file", "int", "prior_file", ln_module.HAS_PRIOR_FILE, 2),
)
# The base of expirations or times of a node without any.
_LN_FLAGS2: Final = (
    ("tombstone", ln_module.TOMBSTONE),
    ("abort_tombstone", ln_module.ABORT_TOMBSTONE),
    ("blind_deletion", ln_module.BLIND_DELETION),
    ("before_image", ln_module.BEFORE_IMAGE),
)


def describe(record: tuple[Any, ...], *, delta: bool = False) -> list[FieldValue]:
    """The fields of a record.

    Arguments:
        record: any record of ``engine.format.entry``.
        delta: for a node: it is a BIN-delta.

    Returns:
        Name, kind and value of each field, in on-disk order. Values of kind ``record`` and ``records`` are records, to
        be described in the same way.
    """
    if isinstance(record, LN):
        return _describe_ln(record)
    if isinstance(record, NodeRecord):
        return _describe_node(record, delta)
    fields = SHAPES[type(record)]
    values = [FieldValue(field.name, field.kind, value) for field, value in zip(fields, record, strict=True)]
    rename = _RENAMED.get(type(record))
    return values if rename is None else rename(values)


def describe_slots(node: NodeRecord, *, delta: bool) -> list[list[FieldValue]]:
    """The fields of each slot of a node, with full keys and times computed from the node's bases.

    Arguments:
        node: the node.
        delta: the node is a BIN-delta. The dirty bit has a meaning only there (je-log-format.md 8.4); a complete node
            may have it set, and it is shown as False, as in JE.
    """
    hours = bool(node.flags & node_module.EXPIRES_IN_HOURS)
    dirty = node_module.DIRTY if delta else 0
    return [_describe_slot(node, slot, hours, dirty) for slot in node.slots]


def describe_scan(record: LN) -> list[FieldValue]:
    """The fields of an ExtinctScanLN besides those of any LN: the id of the task, and what it discards.

    Empty for a task that is deleted or cannot be decoded.
    """
    from engine.format.entry.internal_db import DatabaseExtinction, decode_extinct_scan

    fields: list[FieldValue] = []
    try:
        fields.append(FieldValue("task_id", "int", sorted_unpack(record.key)[0]))
        task = None if record.data is None else decode_extinct_scan(record.data)
    except (FormatError, IndexError, ValueError):
        return fields
    if isinstance(task, DatabaseExtinction):
        return [
            *fields,
            FieldValue("discards", "text", "database"),
            FieldValue("task_databases", "ints", (task.db_id,)),
        ]
    if task is None:
        return fields
    return [
        *fields,
        FieldValue("discards", "text", "records"),
        FieldValue("task_databases", "ints", task.db_ids),
        FieldValue("begin_key", "bytes", task.begin_key),
        FieldValue("end_key", "bytes", task.end_key),
        FieldValue("filter", "bytes", task.filter),
        FieldValue("label", "text", task.label),
        FieldValue("count_complete", "bool", task.count_complete),
        FieldValue("flushed_db", "int", task.flushed_db_id),
        FieldValue("flushed_key", "bytes", task.flushed_key),
    ]


def operation_name(operation: int) -> str:
    """The word for the operation of a NameLN."""
    return lc.OPERATIONS[operation]


def _describe_ln(record: LN) -> list[FieldValue]:
    data = record.data
    fields = [
        FieldValue("db", "int", record.db_id),
        FieldValue("txn", "int", record.txn_id),
        FieldValue("last_lsn", "lsn", record.last_lsn),
        FieldValue("abort_lsn", "lsn", record.abort_lsn),
        FieldValue("abort_known_deleted", "bool", bool(record.flags & ln_module.ABORT_KNOWN_DELETED)),
        FieldValue("embedded", "bool", bool(record.flags & ln_module.EMBEDDED)),
        FieldValue("expiration", "expiration", record.expiration),
    ]
    for name, kind, attribute, bit, byte in _LN_FLAGGED:
        if bit & (record.flags if byte == 1 else record.flags2):
            fields.append(FieldValue(name, kind, getattr(record, attribute)))
    fields += [FieldValue(name, "bool", True) for name, bit in _LN_FLAGS2 if record.flags2 & bit]
    if record.modification_time:
        fields.append(FieldValue("modification_time", "time", record.modification_time))
    if record.creation_time:
        fields.append(FieldValue("creation_time", "time", record.creation_time))
    if record.node_id is not None:
        fields.append(FieldValue("node", "int", record.node_id))
    fields.append(FieldValue("key", "bytes", record.key))
    fields.append(FieldValue("data", "bytes", data))
    fields.append(FieldValue("data_size", "int", None if data is None else len(data)))
    fields.append(FieldValue("deleted", "bool", data is None))
    if record.content is not None:
        if isinstance(record.content, lc.NameLN):
            fields.append(FieldValue("name", "text", record.key.decode("utf-8", "surrogateescape")))
        fields += _describe_content(record.content)
    if record.tail is not None:
        fields += _describe_tail(record.tail)
    return fields


def _describe_content(content: ln_module.Content) -> list[FieldValue]:
    # ``deleted`` of a MapLN or NameLN only repeats the information in the data length.
    return [field for field in describe(content) if field.name != "deleted"]


def _describe_tail(tail: ln_module.Tail) -> list[FieldValue]:
    if isinstance(tail, lc.NameOperation):
        fields = [FieldValue("operation", "text", operation_name(tail.operation))]
        if tail.config is not None:
            fields.append(FieldValue("config", "record", tail.config))
        if tail.truncated_db_id is not None:
            fields.append(FieldValue("truncated_db", "int", tail.truncated_db_id))
        return fields
    if isinstance(tail, bytes):
        return [FieldValue("dup_data", "bytes", tail)]
    return [FieldValue("before_image_expiration", "expiration", tail)]


def _describe_node(record: NodeRecord, delta: bool) -> list[FieldValue]:
    fields = [
        FieldValue("db", "int", record.db_id),
        FieldValue("node", "int", record.node_id),
        FieldValue("level", "level", record.level),
        FieldValue("is_root", "bool", record.is_root),
        FieldValue("is_delta", "bool", delta),
        FieldValue("slots", "int", record.n_entries),
        FieldValue("max_entries", "int", record.max_entries),
        FieldValue("identifier_key", "bytes", record.identifier_key),
        FieldValue("prev_full_lsn", "lsn", record.prev_full_lsn),
        FieldValue("prev_delta_lsn", "lsn", record.prev_delta_lsn),
        FieldValue("flags", "hex", record.flags),
    ]
    # Elsewhere hours are negative numbers; a node marks them by a flag.
    hours = bool(record.flags & node_module.EXPIRES_IN_HOURS)
    base = record.expiration_base
    optional = (
        ("prev_full_size", "int", record.prev_full_size, record.prev_full_size != 0),
        ("prev_delta_size", "int", record.prev_delta_size, record.prev_delta_size != 0),
        ("expiration_base", "expiration", -base if hours else base, base != NO_BASE),
        ("creation_base", "time", record.creation_base, record.creation_base != NO_BASE),
        ("modification_base", "time", record.modification_base, record.modification_base != NO_BASE),
        ("base_file", "int", record.base_file, record.base_file is not None),
        ("key_prefix", "bytes", record.key_prefix, record.key_prefix is not None),
        ("full_bin_slots", "int", record.full_bin_entries, delta and bool(record.slots)),
        ("full_bin_max_entries", "int", record.full_bin_max_entries, delta and bool(record.slots)),
        ("bloom_filter", "bytes", record.bloom_filter, record.bloom_filter is not None),
        ("dup_key", "bytes", record.dup_key, record.dup_key is not None),
        ("dup_count", "record", record.dup_count, record.dup_count is not None),
    )
    return fields + [FieldValue(name, kind, value) for name, kind, value, present in optional if present]


def _describe_slot(node: NodeRecord, slot: Slot, hours: bool, dirty: int) -> list[FieldValue]:
    state = slot.state
    fields = [
        FieldValue("key", "bytes", node.full_key(slot)),
        FieldValue("lsn", "lsn", slot.lsn),
        FieldValue("known_deleted", "bool", bool(state & node_module.KNOWN_DELETED)),
        FieldValue("pending_deleted", "bool", bool(state & node_module.PENDING_DELETED)),
        FieldValue("dirty", "bool", bool(state & dirty)),
        FieldValue("embedded", "bool", bool(state & node_module.SLOT_EMBEDDED)),
        FieldValue("no_data", "bool", bool(state & node_module.SLOT_NO_DATA)),
    ]
    if state & node_module.SLOT_TOMBSTONE:
        fields.append(FieldValue("tombstone", "bool", True))
    if slot.data is not None:
        fields.append(FieldValue("data", "bytes", slot.data))
    if slot.log_size is not None:
        fields.append(FieldValue("log_size", "int", slot.log_size))
    if slot.vlsn is not None:
        fields.append(FieldValue("vlsn", "vlsn", slot.vlsn))
    if slot.expiration:
        # Offsets are stored plus 1; 0 means none.
        value = node.expiration_base + slot.expiration - 1
        fields.append(FieldValue("expiration", "expiration", -value if hours else value))
    if slot.creation_time:
        fields.append(FieldValue("creation_time", "time", node.creation_base + slot.creation_time - 1))
    if slot.modification_time:
        fields.append(FieldValue("modification_time", "time", node.modification_base + slot.modification_time - 1))
    return fields


def _delta_slots(fields: list[FieldValue]) -> list[FieldValue]:
    """The fields of an old delta: the number of its slots, and the slots under a separate name."""
    slots = fields[-1].value
    count = len(slots) if isinstance(slots, tuple) else 0
    return [*fields[:-1], FieldValue("slots", "int", count), FieldValue("slot_list", "records", slots)]


_RENAMED: Final[dict[type, Callable[[list[FieldValue]], list[FieldValue]]]] = {legacy.OldDelta: _delta_slots}
