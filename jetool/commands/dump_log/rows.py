"""Log entries as rows for JSON, NDJSON and CSV, of the shape that ``engine.format.entry_fields`` declares.

The data of a record is printed only on request; its size is always printed. Fields that an entry does not have are left
out, apart from ``db`` and ``txn``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast

from engine.fields import Bool, Int, Lsn, Text, record, row_of, shape_of
from engine.format.describe import describe, describe_scan, describe_slots
from engine.format.entry.ln import LN
from engine.format.entry.node import NodeRecord
from engine.format.entry_fields import ENTRY_SHAPE, EntryRow
from engine.format.entry_types import DELTA_TYPE, EXTINCT_SCAN_LNS, type_name
from engine.format.fields import FieldValue
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


# The shape with --data --decode; decoded fields occur for LNs.
DECODED_ENTRY: Final = ENTRY_SHAPE._replace(fields=(*ENTRY_SHAPE.fields, *shape_of(DecodedFields).fields))


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
    """An entry as names, kinds and values of the shape ``ENTRY_SHAPE``.

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
        version=entry.own_version,
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
