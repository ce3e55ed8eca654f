"""Log entries as rows for JSON, NDJSON and CSV: the header, then the fields of the body from
``engine.format.describe``.

Byte arrays are printed in hex under ``<name>_hex``. The data of a record is printed only on request; its size is always
printed. Fields that an entry does not have are left out, apart from ``db`` and ``txn``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast

from engine.fields import Bool, Choices, Field, Int, Lsn, Shape, Text, Vlsn, record, row_of, shape_of
from engine.format.describe import describe, describe_scan, describe_slots
from engine.format.entry import db_tree, ln_content, node
from engine.format.entry.ln import LN
from engine.format.entry.node import NodeRecord
from engine.format.entry_types import DELTA_TYPE, EXTINCT_SCAN_LNS, type_name
from engine.format.fields import FieldValue
from engine.format.fields import Shape as EntryShape
from engine.log.entry import Damage, LogEntry
from jetool.frame.decode_option import DecodedFields, decoded

if TYPE_CHECKING:
    from engine.inspect.contents import DecodingPlan
    from engine.inspect.explain import EntryExplanation


class BodyView(NamedTuple):
    """Which parts of bodies to print.

    Attributes:
        nodes: ``none``, ``summary`` or ``slots``.
        data: print the data of records.
        decoding: how records are decoded; None: they are not.
    """

    nodes: str = "summary"
    data: bool = False
    decoding: DecodingPlan | None = None


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

ENTRY: Final = Shape("entry", "One entry of the log.", shape_of(EntryRow).fields + _BODY)
# The shape with --data --decode; decoded fields occur for LNs.
DECODED_ENTRY: Final = ENTRY._replace(fields=(*ENTRY.fields, *shape_of(DecodedFields).fields))


@record("bad")
class BadStretch(NamedTuple):
    """A stretch of a file without a readable entry, or (length 0) a broken link between two entries."""

    lsn: Annotated[Lsn, "where it begins"]
    path: Annotated[Text, "the damaged file"]
    offset: Annotated[Int, "offset in the file, bytes"]
    skipped: Annotated[Int, "bytes up to the next entry or the end of the file"]
    reason: Annotated[Text, "type, size, checksum, prev-offset, cut, header, short, file-number"]
    expected: Annotated[Text, "what the format asks for"]
    found: Annotated[Text, "what is there"]
    says: Annotated[Text | None, "the type that the damaged header names"]
    next_lsn: Annotated[Lsn, "the next readable entry in the file"]
    found_by: Annotated[Text, "size chain, prev-offset chain, search, next file, end of log; empty for a link"]


@record("summary")
class DumpSummary(NamedTuple):
    """The end of the stream."""

    entries: Annotated[Int, "entries printed"]
    bad: Annotated[Int, "stretches of damage, broken links, and bodies that cannot be decoded"]
    skipped_bytes: Annotated[Int, "bytes of damage"]
    files: Annotated[Int, "files read"]
    complete: Annotated[Bool, "the whole selection was read"]


def entry_row(
    entry: LogEntry,
    record: tuple[Any, ...] | None,
    error: str,
    view: BodyView,
    explained: EntryExplanation | None = None,
) -> list[FieldValue]:
    """An entry as names, kinds and values of the shape ENTRY.

    Arguments:
        entry: the entry.
        record: the decoded body; None if it cannot be decoded or is not printed.
        error: the reason why it cannot be decoded, or "".
        view: what to show.
        explained: what recovery does with it, when that is to be shown.
    """
    lsn = entry.lsn
    body: list[FieldValue] = []
    if record is not None:
        body = describe(record, delta=entry.type_number == DELTA_TYPE)
        if isinstance(record, LN) and entry.type_number in EXTINCT_SCAN_LNS:
            body += describe_scan(record)
    # db and txn have their own columns in every row, so they are not repeated with the body.
    known = {field.name: field.value for field in body if field.name in ("db", "txn")}
    header = EntryRow(
        lsn=lsn,
        file=lsn >> 32,
        offset=lsn & 0xFFFFFFFF,
        type=entry.type_name,
        version=entry.version,
        provisional=entry.provisional.value,
        replicated=entry.replicated,
        invisible=entry.invisible,
        vlsn=entry.vlsn,
        prev=entry.prev_offset,
        size=entry.item_size,
        checksum=entry.checksum,
        checksum_ok=entry.checksum_ok,
        db=cast(int | None, known.get("db")),
        txn=cast(int | None, known.get("txn")),
    )
    row = [FieldValue(*field) for field in row_of(header)]
    if explained is not None:
        row += [FieldValue("recovery", "text", explained.action), FieldValue("why", "text", explained.why)]
    row += [_named(field) for field in body if field.name not in known and (view.data or field.name != "data")]
    if isinstance(record, NodeRecord) and view.nodes == "slots":
        slots = [
            [_named(field) for field in slot] for slot in describe_slots(record, delta=entry.type_number == DELTA_TYPE)
        ]
        row.append(FieldValue("slot_list", "records", slots))
    if error:
        row.append(FieldValue("error", "text", error))
    if view.decoding is not None and isinstance(record, LN):
        row += meaning_of(record, view.decoding)
    return row


def meaning_of(record: LN, decoding: DecodingPlan) -> list[FieldValue]:
    """The decoded form of a record; empty for records of internal databases."""
    found = decoding.logged(record.db_id, record.key, record.data)
    return [] if found is None else [FieldValue(*field) for field in row_of(decoded(found))]


def _named(field: FieldValue) -> FieldValue:
    # JSON has no type for bytes, so the suffix of the name marks the text as hex.
    if field.kind == "bytes":
        return FieldValue(f"{field.name}_hex", "bytes", field.value)
    if field.name == "slot_list" and isinstance(field.value, tuple):
        return FieldValue("slot_list", "records", [[_named(part) for part in describe(slot)] for slot in field.value])
    # Rename the field: DupCountLN has a number with the same name, and a name must have a single type in a schema.
    if field.name == "dup_count" and field.kind == "record":
        return FieldValue("dup_count_ref", "record", field.value)
    return field


def bad_stretch(damage: Damage) -> BadStretch:
    """A stretch of damage."""
    return BadStretch(
        lsn=damage.lsn,
        path=damage.path,
        offset=damage.lsn & 0xFFFFFFFF,
        skipped=damage.length,
        reason=damage.reason,
        expected=damage.expected,
        found=damage.found,
        says=type_name(damage.type_number) if damage.type_number else None,
        next_lsn=damage.next_lsn,
        found_by=damage.found_by,
    )
