"""Operations on one page.

Every record starts with the page key and ``version``, the version that the page has *before* the record (R-DRB-4).
``logical`` allows undo to look for the row in the B-tree (R-DRB-54).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.derby.format import codec
from engine.derby.format.codec import FieldCursor

INSERT_DEFAULT: Final = 0x01
INSERT_UNDO_WITH_PURGE: Final = 0x02
INSERT_CONDITIONAL: Final = 0x04
INSERT_OVERFLOW: Final = 0x08
INSERT_SPLIT: Final = 0x10

INIT_REUSE: Final = 0x1
INIT_OVERFLOW: Final = 0x2
INIT_RESTART_IDS: Final = 0x4

ALLOCATED: Final = 0
DEALLOCATED: Final = 1
FREE: Final = 2


class Insert(NamedTuple):
    """A row is put at a slot. Data: the row."""

    segment: int
    container: int
    page: int
    version: int
    record_id: int
    logical: bool
    slot: int
    flags: int


class Delete(NamedTuple):
    """A row is marked deleted, or the mark is taken off. Data: the row, when undo is logical."""

    segment: int
    container: int
    page: int
    version: int
    record_id: int
    logical: bool
    slot: int
    delete: bool


class UpdateField(NamedTuple):
    """One field gets a new value. Data: new field, old field, and the old row when undo is logical."""

    segment: int
    container: int
    page: int
    version: int
    record_id: int
    logical: bool
    slot: int
    field: int


class Update(NamedTuple):
    """A row is replaced. Data: new row, old row; unchanged fields are marked as such."""

    segment: int
    container: int
    page: int
    version: int
    slot: int
    record_id: int


class Purge(NamedTuple):
    """Rows leave the page. Data: the rows."""

    segment: int
    container: int
    page: int
    version: int
    slot: int
    record_ids: tuple[int, ...]


class CopiedRow(NamedTuple):
    """The id of a copied row on its new page, and the bytes reserved after it."""

    record_id: int
    reserved_bytes: int


class CopyRows(NamedTuple):
    """Rows of another page are put at a slot (B-tree split). Data: the rows."""

    segment: int
    container: int
    page: int
    version: int
    slot: int
    rows: tuple[CopiedRow, ...]


class InitPage(NamedTuple):
    """A page comes into use. Recovery ignores ``page_offset``."""

    segment: int
    container: int
    page: int
    version: int
    next_record_id: int
    flags: int
    page_offset: int
    page_format: int


class InvalidatePage(NamedTuple):
    """A page is deallocated."""

    segment: int
    container: int
    page: int
    version: int


class AllocatePage(NamedTuple):
    """On an allocation page: the status of another page changes."""

    segment: int
    container: int
    page: int
    version: int
    new_page: int
    status: int
    undo_status: int


class ChainAllocationPage(NamedTuple):
    """On an allocation page: the next allocation page is linked."""

    segment: int
    container: int
    page: int
    version: int
    next_page: int
    next_offset: int


class CompressSpace(NamedTuple):
    """On an allocation page: free pages at the end of the container are returned."""

    segment: int
    container: int
    page: int
    version: int
    new_highest: int
    pages_removed: int


class OldCompressSpace(NamedTuple):
    """The form of CompressSpace before 10.2, whose highest page index is never -1."""

    segment: int
    container: int
    page: int
    version: int
    new_highest: int
    pages_removed: int


class SetReservedSpace(NamedTuple):
    """The bytes reserved after a row change."""

    segment: int
    container: int
    page: int
    version: int
    slot: int
    record_id: int
    value: int
    old_value: int


class LogicalUndo(NamedTuple):
    """CLR of insert, delete and update field; names the row where it was found."""

    segment: int
    container: int
    page: int
    version: int
    record_id: int


class PhysicalUndo(NamedTuple):
    """CLR of every other page operation."""

    segment: int
    container: int
    page: int
    version: int


def read_purge(cursor: FieldCursor) -> Purge:
    """The fields of operation 106."""
    key = cursor.page_key()
    slot = cursor.cint()
    return Purge(*key, slot, tuple(cursor.cint() for _ in range(cursor.count())))


def write_purge(out: bytearray, operation: Purge) -> None:
    """Append the fields of operation 106."""
    for part in operation[:4]:
        codec.put_clong(out, part)
    codec.put_cint(out, operation.slot)
    codec.put_cint(out, len(operation.record_ids))
    for record_id in operation.record_ids:
        codec.put_cint(out, record_id)


def read_copy_rows(cursor: FieldCursor) -> CopyRows:
    """The fields of operation 210; the number of rows stands before the slot."""
    key = cursor.page_key()
    count = cursor.count()
    slot = cursor.cint()
    return CopyRows(*key, slot, tuple(CopiedRow(cursor.cint(), cursor.cint()) for _ in range(count)))


def write_copy_rows(out: bytearray, operation: CopyRows) -> None:
    """Append the fields of operation 210."""
    for part in operation[:4]:
        codec.put_clong(out, part)
    codec.put_cint(out, len(operation.rows))
    codec.put_cint(out, operation.slot)
    for row in operation.rows:
        codec.put_cint(out, row.record_id)
        codec.put_cint(out, row.reserved_bytes)
