"""Records in the words of Derby's own trace (a debug build in dump-only mode), to compare line by line."""

from __future__ import annotations

from typing import Any

from engine.derby.format import instant
from engine.derby.format.operations import container, page, transaction
from engine.derby.format.record import Record

_STATUS = {1: "Aborted", 2: "Prepared", 4: "Committed"}


def trace_line(record: Record) -> str:
    """One line of derby-trace.txt.gz; a checkpoint shows its first line only."""
    number = "Null" if record.transaction is None else str(record.transaction)
    op = record.operation
    if isinstance(op, transaction.CheckpointRecord):
        return f"scanned {number} : Checkpoint : \tredoLWM {instant.show(op.redo_lwm)}"
    where = f" instant = {instant.show(record.instant)}"
    if record.undo_instant is not None:
        return f"scanned {number} : {_clr(op)}{where} undoInstant : {instant.show(record.undo_instant)}"
    return f"scanned {number} : {_ordinary(op)}{where} logEnd = {instant.show(record.end)}"


def _page(op: Any) -> str:
    return f"Page Operation: Page({op.page},Container({op.segment}, {op.container})) pageVersion {op.version} : "


def _clr(op: Any) -> str:
    if isinstance(op, page.PhysicalUndo):
        return f"CLR (Physical Undo): {_page(op)}undo Operation not set"
    if isinstance(op, page.LogicalUndo):
        return f"CLR : (logical undo) {_page(op)} undoRecordId = {op.record_id} undo Operation not set"
    return f"Space Operation: Container({op.segment}, {op.container})"


def _gid(value: Any) -> str:
    if value is None:
        return "null"
    return f"({value.format_id},{value.global_part.hex()},{value.branch_part.hex()})"


def _ids(op: Any) -> str:
    ids = op.record_ids if isinstance(op, page.Purge) else [row.record_id for row in op.rows]
    return "".join(f" (recordId={number})" for number in ids)


def _ordinary(op: Any) -> str:
    if isinstance(op, transaction.Begin):
        return f"BeginXact {_gid(op.global_id)} transactionStatus {op.status:x}"
    if isinstance(op, transaction.End):
        status = _STATUS[op.status]
        return f"EndXact {_gid(op.global_id)} {status} : transactionStatus =  {status}"
    if isinstance(op, transaction.Checksum):
        return f"Checksum Operation  algorithm = {op.algorithm} value = {op.value} data length= {op.length}"
    if isinstance(op, container.ContainerOperation):
        key = f"Container({op.segment}, {op.container})"
        return f"Space Operation: {key} {container.KIND_NAMES[op.kind].upper()} container {key}"
    return _page(op) + _page_detail(op)


def _page_detail(op: Any) -> str:
    match op:
        case page.Insert():
            return f"Insert :  Slot={op.slot} recordId={op.record_id}"
        case page.Delete():
            return f" Delete : Slot={op.slot} recordId={op.record_id} delete={str(op.delete).lower()}"
        case page.UpdateField():
            return f"UpdateField :  Slot={op.slot} recordId={op.record_id} fieldId={op.field}"
        case page.Update():
            return f"Update  Slot={op.slot} recordId={op.record_id}"
        case page.Purge():
            return f"Purge : {len(op.record_ids)} slots starting at {op.slot}{_ids(op)}"
        case page.CopyRows():
            return f"CopyRows : {len(op.rows)} to slots starting at {op.slot}{_ids(op)}"
        case page.InitPage():
            overflow, reuse = bool(op.flags & 2), bool(op.flags & 1)
            flags = f"Overflow = {str(overflow).lower()} reuse {str(reuse).lower()}"
            return f"Init Page.  {flags} nextRecordId {op.next_record_id}"
        case page.InvalidatePage():
            return "Invalidate Page - it has been deallocated"
        case page.AllocatePage():
            return f" Change page allocation status of {op.new_page} to {op.status}(undo {op.undo_status})"
        case page.CompressSpace():
            what = f"newHighestPage = {op.new_highest};num_pages_truncated = {op.pages_removed}"
            return f" CompressSpaceOperation: {what} to Page({op.page},Container({op.segment}, {op.container}))"
        case page.SetReservedSpace():
            return f"Set Reserved space of recordId {op.record_id} from {op.old_value} to {op.value}"
    raise AssertionError(op)
