"""Operations of transaction management: begin, end, checkpoint, checksum.

Status bits: 1 aborted, 2 prepared, 4 committed (end records); 0x10 internal, to be rolled back first (begin records).

The checkpoint's table lists every transaction that has written and not ended, including the checkpoint transaction (its
last record is null). Recovery rebuilds it by scanning from the undo low water mark and never reads it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.derby.format import codec
from engine.derby.format.codec import FieldCursor
from engine.derby.format.operations import layout
from engine.derby.format.operations.layout import GlobalId
from engine.errors import FormatError

ABORTED: Final = 1
PREPARED: Final = 2
COMMITTED: Final = 4
INTERNAL: Final = 0x10

CRC32: Final = 1

TRANSACTION_ID: Final = 147
TABLE_ID: Final = 262
ENTRY_ID: Final = 261


class Begin(NamedTuple):
    """First record of a transaction."""

    status: int
    global_id: GlobalId | None


class End(NamedTuple):
    """Commit, abort or prepare."""

    global_id: GlobalId | None
    status: int


class TableEntry(NamedTuple):
    """One transaction in a checkpoint's table; ``first`` and ``last`` are instants, 0 = null."""

    transaction: int
    global_id: GlobalId | None
    first: int
    last: int
    status: int


class CheckpointRecord(NamedTuple):
    """Redo work starts at ``redo_lwm``, transaction bookkeeping at ``undo_lwm`` (R-DRB-22)."""

    redo_lwm: int
    undo_lwm: int
    truncation_points: int
    table: tuple[TableEntry, ...] | None


class Checksum(NamedTuple):
    """Guards the ``length`` bytes after it: the content of one log buffer when it was written."""

    algorithm: int
    length: int
    value: int


def read_transaction_id(cursor: FieldCursor) -> int | None:
    """A transaction id object, or None (checksum records)."""
    found = cursor.short()
    if found == layout.NULL_ID:
        return None
    if found != TRANSACTION_ID:
        raise FormatError("not a transaction id", expected=f"format id {TRANSACTION_ID}", found=str(found))
    return cursor.clong()


def write_transaction_id(out: bytearray, value: int | None) -> None:
    """Append a transaction id object, or null."""
    if value is None:
        codec.put_short(out, layout.NULL_ID)
        return
    codec.put_short(out, TRANSACTION_ID)
    codec.put_clong(out, value)


def read_checkpoint(cursor: FieldCursor) -> CheckpointRecord:
    """The fields of operation 263."""
    redo_lwm, undo_lwm = cursor.clong(), cursor.clong()
    points = cursor.cint()
    if points != 0:
        raise FormatError("a checkpoint has truncation points", expected="0", found=str(points))
    has_table = cursor.cint()
    if has_table > 1:
        raise FormatError("a checkpoint announces its table badly", expected="0 or 1", found=str(has_table))
    if not has_table:
        return CheckpointRecord(redo_lwm, undo_lwm, points, None)
    layout.expect_id(cursor, TABLE_ID, "a transaction table")
    table = tuple(_read_entry(cursor) for _ in range(cursor.count()))
    return CheckpointRecord(redo_lwm, undo_lwm, points, table)


def write_checkpoint(out: bytearray, operation: CheckpointRecord) -> None:
    """Append the fields of operation 263."""
    codec.put_clong(out, operation.redo_lwm)
    codec.put_clong(out, operation.undo_lwm)
    codec.put_cint(out, operation.truncation_points)
    codec.put_cint(out, 0 if operation.table is None else 1)
    if operation.table is None:
        return
    codec.put_short(out, TABLE_ID)
    codec.put_cint(out, len(operation.table))
    for entry in operation.table:
        codec.put_short(out, ENTRY_ID)
        write_transaction_id(out, entry.transaction)
        layout.write_global_id(out, entry.global_id)
        layout.write_instant(out, entry.first, nullable=True)
        layout.write_instant(out, entry.last, nullable=True)
        codec.put_int(out, entry.status)


def _read_entry(cursor: FieldCursor) -> TableEntry:
    layout.expect_id(cursor, ENTRY_ID, "an entry of a transaction table")
    transaction = read_transaction_id(cursor)
    if transaction is None:
        raise FormatError("an entry of a transaction table has no transaction")
    global_id = layout.read_global_id(cursor)
    first = layout.read_instant(cursor, nullable=True)
    last = layout.read_instant(cursor, nullable=True)
    return TableEntry(transaction, global_id, first, last, cursor.fixed_int())
