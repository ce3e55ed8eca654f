"""A log entry as it is shown: its header, then the fields of its body, each with its kind and one clause of help.

``dump-log`` prints these fields, and the columns of the Spark source ``jelog`` take names, kinds and help from them.
Byte arrays stand in hex under ``<name>_hex``. Names and order of the fields of each body are those of
``engine.format.describe``; here is what they mean. A body has only the fields of its type, so all of them are optional:

    {"lsn": "0x0/0x5b3", "file": 0, "offset": 1459, "type": "CkptStart", ..., "db": null, "txn": null,
     "time": "2026-11-20T10:55:36.884Z", "id": 1, "invoker": "recovery"}
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from engine.fields import Bool, Choices, Field, Int, Lsn, Shape, Text, Vlsn, record, shape_of
from engine.format.entry import db_tree, ln_content, node
from engine.format.fields import Shape as EntryShape


@record("entry")
class EntryRow(NamedTuple):
    """Header fields of an entry, and fields that most bodies have."""

    lsn: Annotated[Lsn, "where the entry begins"]
    file: Annotated[Int, "number of the file"]
    offset: Annotated[Int, "offset of the entry in the file, bytes"]
    type: Annotated[Text, "entry type, as DbPrintLog names it"]
    version: Annotated[Int, "log version of the file"]
    provisional: Annotated[Text, "whether recovery replays it", Choices(("no", "yes", "before_ckpt_end"))]
    replicated: Annotated[Bool, "part of the replication stream"]
    invisible: Annotated[Bool, "rolled back by replication"]
    vlsn: Annotated[Vlsn, "VLSN in the header"]
    prev: Annotated[Int, "offset of the previous entry in the file"]
    size: Annotated[Int, "bytes of the body, without header"]
    checksum: Annotated[Int, "stored Adler-32"]
    checksum_ok: Annotated[Bool | None, "whether it matches; null for erased entries, which have none"]
    db: Annotated[Int | None, "database id; negative for replicated databases"]
    txn: Annotated[Int | None, "transaction id; negative for replicated transactions"]


def _optional(text: str) -> tuple[Field, ...]:
    """Optional fields from lines of ``name kind help``."""
    fields = []
    for line in text.strip().splitlines():
        name, kind, words = line.strip().split(" ", 2)
        fields.append(Field(name, kind, words, null=True, optional=True))
    return tuple(fields)


_BODY = _optional(
    """
    recovery text with --explain: what recovery does with it
    why text with --explain: why
    last_lsn lsn LN: previous LN of the transaction; Commit, Abort: its last LN
    abort_lsn lsn LN: the version of the record before the transaction
    abort_known_deleted bool LN: that version was a deletion
    embedded bool LN: the record is stored in its BIN
    expiration expiration LN: when the record expires
    abort_key_hex bytes LN: key of the version before the transaction
    abort_data_hex bytes LN: its data, when it was embedded
    abort_vlsn vlsn LN: its VLSN
    abort_expiration expiration LN: its expiration
    abort_modification_time time LN: its modification time
    abort_creation_time time LN: its creation time
    prior_size int LN: bytes of the entry that held the version before
    prior_file int LN: number of its file
    tombstone bool LN: a tombstone
    abort_tombstone bool LN: the version before was a tombstone
    blind_deletion bool LN: deleted without reading
    before_image bool LN: before images are on
    modification_time time LN: when the record was changed
    creation_time time LN: when the record was created
    node int node id
    key_hex bytes LN: key
    data_hex bytes LN: data (with --data)
    data_size int LN: bytes of the data
    deleted bool LN: a deletion
    database record MapLN: state of the database
    name text NameLN: name of the database
    named_db int NameLN: database id that the name stands for
    operation text NameLN: none, create, remove, truncate, rename or update_config
    config record NameLN: configuration of the database
    truncated_db int NameLN: id of the database that was truncated
    dup_data_hex bytes DelDupLN: the data item
    dup_count int DupCountLN: number of duplicates
    before_image_expiration expiration LN: when the before image expires
    anchor_lsn lsn FileSummaryLN: the entry before it
    summary record FileSummaryLN: counters
    obsolete_offsets offsets FileSummaryLN: offsets of obsolete entries
    task_id int ExtinctScanLN: id of the task, negative in a replication group
    discards text ExtinctScanLN: records or database
    task_databases ints ExtinctScanLN: ids of the databases
    begin_key_hex bytes ExtinctScanLN: first key of the range
    end_key_hex bytes ExtinctScanLN: first key after it
    filter_hex bytes ExtinctScanLN: serialized Java object that chooses among the keys
    label text ExtinctScanLN: what the application calls it
    count_complete bool ExtinctScanLN: its records are counted as obsolete
    flushed_db int ExtinctScanLN: counted up to this database
    flushed_key_hex bytes ExtinctScanLN: and this key
    level level IN: level with its tree bits, 65537 for a BIN
    is_root bool IN: root of its tree
    is_delta bool IN: only the changed slots
    slots int IN: number of slots
    max_entries int IN: capacity
    identifier_key_hex bytes IN: a key that leads to the node
    prev_full_lsn lsn IN: previous complete version
    prev_delta_lsn lsn IN: previous delta
    flags hex flags of the body
    prev_full_size int IN: bytes of the previous complete version
    prev_delta_size int IN: bytes of the previous delta
    expiration_base expiration BIN: base of the slots' expirations
    creation_base time BIN: base of the slots' creation times
    modification_base time BIN: base of the slots' modification times
    base_file int IN: lowest file number of compact LSNs
    key_prefix_hex bytes IN: common prefix of the keys
    full_bin_slots int BIN-delta: slots of the complete BIN
    full_bin_max_entries int BIN-delta: capacity of the complete BIN
    bloom_filter_hex bytes BIN-delta: filter over the other keys
    dup_key_hex bytes DIN, DBIN: main key
    dup_count_ref record DIN: its DupCountLN
    last_full_lsn lsn BINDelta: the complete BIN
    slot_list records IN: the slots (with --nodes slots)
    deleted_key_hex bytes INDelete: key of the removed node
    main_key_hex bytes INDupDelete: main key
    last_local_db_id int highest local database id
    last_replicated_db_id int lowest replicated database id
    mapping_db record DbTree: the mapping database
    naming_db record DbTree: the naming database
    initial_log_version int DbTree: log version when the environment was made, -1 when not known
    time time time of the entry
    master int Commit, Abort, Matchpoint: node id of the master
    dtvlsn vlsn Commit, Abort: highest durable VLSN
    master_term int Commit, Abort: election term
    id int CkptStart, CkptEnd: number of the checkpoint
    invoker text CkptStart, CkptEnd: who asked for it
    ckpt_start_lsn lsn CkptEnd: the matching CkptStart
    root_lsn lsn CkptEnd: the DbTree
    first_active_lsn lsn CkptEnd: where undo ends
    last_local_node_id int CkptEnd
    last_replicated_node_id int CkptEnd
    last_local_txn_id int CkptEnd
    last_replicated_txn_id int CkptEnd
    last_local_extinction_id int CkptEnd
    last_replicated_extinction_id int CkptEnd
    cleaner_summary ints CkptEnd of versions 8 to 10
    completed_scan_ids ints CkptEnd since version 23
    message text Trace: text
    file_num int FileHeader: file number
    last_entry_in_prev_file int FileHeader: offset of the last entry of the previous file
    log_version int FileHeader: log version
    format_id int Prepare: XID format
    gtrid_hex bytes Prepare: global transaction id
    bqual_hex bytes Prepare: branch qualifier
    matchpoint_vlsn vlsn RollbackStart: where the rollback went back to
    matchpoint_lsn lsn RollbackStart, RollbackEnd: the same as an LSN
    active_txns ints RollbackStart: transactions that were rolled back
    rollback_start_lsn lsn RollbackEnd: its RollbackStart
    filler int ImmutableFile
    failure_type text RestoreRequired: why
    properties text RestoreRequired: details
    content_hex bytes Erased: what is left of the body
    error text why the body cannot be decoded
    """.replace("CkptEnd\n", "CkptEnd: last id given out\n")
)

# Slots have their own field names; other nested records use the engine's shapes.
_SLOT: Final = _optional(
    """
    key_hex bytes key, with the node's prefix
    lsn lsn the child, or the record's LN
    known_deleted bool KD
    pending_deleted bool PD
    dirty bool changed since the complete BIN (deltas)
    embedded bool the record is in the slot
    no_data bool embedded, without data
    tombstone bool a tombstone
    data_hex bytes embedded data
    log_size int bytes of the child's entry
    vlsn vlsn VLSN of the record
    expiration expiration when the record expires
    creation_time time when the record was created
    modification_time time when the record was changed
    state hex state bits (old deltas)
    """
)


def _nested(shape: EntryShape) -> tuple[Field, ...]:
    return tuple(
        Field(field.name, field.kind, field.name.replace("_", " "), null=True, fields=_NESTED.get(field.name, ()))
        for field in shape
    )


_NESTED: Final[dict[str, tuple[Field, ...]]] = {"slot_list": _SLOT}
_NESTED["utilization"] = _nested(db_tree.FILE_UTILIZATION)
_NESTED["database"] = _NESTED["mapping_db"] = _NESTED["naming_db"] = _nested(db_tree.DATABASE_IMPL)
_NESTED["config"] = _nested(ln_content.DATABASE_CONFIG)
_NESTED["summary"] = _nested(ln_content.FILE_SUMMARY)
_NESTED["dup_count_ref"] = _nested(node.DUP_COUNT_REF)
_BODY = tuple(field._replace(fields=_NESTED.get(field.name, ())) for field in _BODY)

ENTRY_SHAPE: Final = Shape("entry", "One entry of the log.", shape_of(EntryRow).fields + _BODY)
