"""The changes of each page operation, and of its compensation, on the page: the functions behind ``loggable``.

Every function takes the page, the operation and the optional data of the operation's record; an undo also takes the
record id that a logical CLR names. None of the functions handles versions: the caller compares them and sets the new
one. They raise FormatError when page and record do not fit together; the page may be half changed then.
"""

from __future__ import annotations

from engine.derby.format import allocation, page, row
from engine.derby.format.codec import FieldCursor
from engine.derby.format.operations import page as operations
from engine.derby.pages import LiveAllocation, LivePage, Page
from engine.errors import FormatError


def do_insert(target: Page, operation: operations.Insert, data: bytes) -> None:
    """Put the row at the slot."""
    _rows_of(target).insert_logged(operation.slot, data, operation.record_id)


def undo_insert(target: Page, operation: operations.Insert, _: bytes, record_id: int) -> None:
    """Mark the row deleted, or purge it (flag 0x02)."""
    slot = _slot_of(target, record_id)
    # Insert flag 0x02 (R-DRB-53): no other transaction can have seen the row, so no mark is needed.
    if operation.flags & operations.INSERT_UNDO_WITH_PURGE:
        _rows_of(target).purge(slot)
    else:
        _rows_of(target).mark(slot, deleted=True)


def do_delete(target: Page, operation: operations.Delete, _: bytes) -> None:
    """Set or clear the deleted mark."""
    _expect(target, operation.slot, operation.record_id).mark(operation.slot, deleted=operation.delete)


def undo_delete(target: Page, operation: operations.Delete, _: bytes, record_id: int) -> None:
    """Clear or set it."""
    _rows_of(target).mark(_slot_of(target, record_id), deleted=not operation.delete)


def do_update_field(target: Page, operation: operations.UpdateField, data: bytes) -> None:
    """Put the new field in the place of the old one."""
    _put_field(
        _expect(target, operation.slot, operation.record_id),
        operation.slot,
        operation.field,
        row.read_field(FieldCursor(data)),
    )


def undo_update_field(target: Page, operation: operations.UpdateField, data: bytes, record_id: int) -> None:
    """Put the old field back."""
    cursor = FieldCursor(data)
    # The data holds the new field first, then the old one.
    row.read_field(cursor)
    _put_field(_rows_of(target), _slot_of(target, record_id), operation.field, row.read_field(cursor))


def do_update(target: Page, operation: operations.Update, data: bytes) -> None:
    """Put the new row in the place of the old one."""
    _put_row(_expect(target, operation.slot, operation.record_id), operation.slot, row.read_row(FieldCursor(data)))


def undo_update(target: Page, operation: operations.Update, data: bytes, _: int) -> None:
    """Put the old values back; the row is found by its id."""
    cursor = FieldCursor(data)
    # The data holds the new row first, then the old one; fields left out are taken from the row on the page.
    row.read_row(cursor)
    _put_row(_rows_of(target), _slot_of(target, operation.record_id), row.read_row(cursor))


def do_purge(target: Page, operation: operations.Purge, _: bytes) -> None:
    """Take the rows off the page."""
    for record_id in operation.record_ids:
        # Each purge moves the rows after it down, so the slot stays the same.
        _expect(target, operation.slot, record_id).purge(operation.slot)


def undo_purge(target: Page, operation: operations.Purge, data: bytes, _: int) -> None:
    """Put the purged rows back at the same slots."""
    cursor = FieldCursor(data)
    for index in range(len(operation.record_ids)):
        _rows_of(target).insert(operation.slot + index, row.read_row(cursor))


def do_copy_rows(target: Page, operation: operations.CopyRows, data: bytes) -> None:
    """Put the rows at the slot, with their reserves."""
    cursor, rows = FieldCursor(data), _rows_of(target)
    # The data holds the rows under their old ids; the operation gives each a new one.
    for slot, copied in enumerate(operation.rows, operation.slot):
        rows.insert(slot, _renamed(row.read_row(cursor), copied.record_id))
        # Inserting reserves what the container demands; the source page may have reserved more.
        if copied.reserved_bytes > len(rows.rows[slot].slack):
            rows.reserve(slot, copied.reserved_bytes)


def undo_copy_rows(target: Page, operation: operations.CopyRows, _: bytes, __: int) -> None:
    """Purge them."""
    for copied in operation.rows:
        _expect(target, operation.slot, copied.record_id).purge(operation.slot)


def do_set_reserved_space(target: Page, operation: operations.SetReservedSpace, _: bytes) -> None:
    """Set the bytes reserved after a row."""
    _expect(target, operation.slot, operation.record_id).reserve(operation.slot, operation.value)


def do_init_page(target: Page, operation: operations.InitPage, _: bytes) -> None:
    """Take the page into use, empty."""
    if isinstance(target, LiveAllocation):
        # An allocation page cannot be an overflow page.
        target.initialise(operation.next_record_id)
    else:
        overflow = operation.flags & operations.INIT_OVERFLOW != 0
        target.initialise(operation.next_record_id, overflow=overflow)


def undo_init_page(target: Page, _: operations.InitPage, __: bytes, ___: int) -> None:
    """Mark it invalid."""
    target.set_status(page.INVALID)


def do_invalidate_page(target: Page, _: operations.InvalidatePage, __: bytes) -> None:
    """Mark the page invalid."""
    target.set_status(page.INVALID)


def undo_invalidate_page(target: Page, _: operations.InvalidatePage, __: bytes, ___: int) -> None:
    """Mark it valid."""
    target.set_status(page.VALID)


def do_allocate_page(target: Page, operation: operations.AllocatePage, _: bytes) -> None:
    """Set the status of the page in the map."""
    _map_of(target).set_page(operation.new_page, free=operation.status != operations.ALLOCATED)


def undo_allocate_page(target: Page, operation: operations.AllocatePage, _: bytes, __: int) -> None:
    """Set its undo status."""
    _map_of(target).set_page(operation.new_page, free=operation.undo_status != operations.ALLOCATED)


def do_chain(target: Page, operation: operations.ChainAllocationPage, _: bytes) -> None:
    """Link the next allocation page."""
    _map_of(target).chain(operation.next_page, operation.next_offset)


def undo_chain(target: Page, _: operations.ChainAllocationPage, __: bytes, ___: int) -> None:
    """No next page."""
    _map_of(target).chain(allocation.NO_PAGE, 0)


def do_compress(target: Page, operation: operations.CompressSpace | operations.OldCompressSpace, _: bytes) -> None:
    """Cut the maps."""
    _map_of(target).compress(operation.new_highest)


def undo_compress(
    target: Page, operation: operations.CompressSpace | operations.OldCompressSpace, _: bytes, __: int
) -> None:
    """Cut the maps again: returned pages no longer exist."""
    _map_of(target).compress(operation.new_highest)


def _rows_of(target: Page) -> LivePage:
    if not isinstance(target, LivePage):
        raise FormatError("a record for rows does not belong to an allocation page")
    return target


def _map_of(target: Page) -> LiveAllocation:
    if not isinstance(target, LiveAllocation):
        raise FormatError("a record for an allocation page does not belong to a page of rows")
    return target


def _slot_of(target: Page, record_id: int) -> int:
    slot = _rows_of(target).slot_of(record_id)
    if slot is None:
        raise FormatError("the row of a compensation is not on its page", found=f"no record {record_id}")
    return slot


def _expect(target: Page, slot: int, record_id: int) -> LivePage:
    """The page; FormatError if the row at the slot has another id."""
    rows = _rows_of(target)
    found = rows.row_at(slot).record_id
    if found != record_id:
        raise FormatError("another row is at the slot", expected=f"record {record_id}", found=f"record {found}")
    return rows


def _put_field(target: LivePage, slot: int, number: int, field: row.RowField) -> None:
    old = target.row_at(slot).decoded()
    # Field numbers count through the whole row, even on the page of a later piece.
    index = number - old.header.first_field
    if not 0 <= index < len(old.fields):
        raise FormatError("a row has no such field", expected=f"below {len(old.fields)}", found=str(index))
    fields = old.fields[:index] + (field,) + old.fields[index + 1 :]
    target.replace(slot, row.DecodedRow(old.header, fields))


def _put_row(target: LivePage, slot: int, image: row.DecodedRow) -> None:
    target.replace(slot, row.merge(image, target.row_at(slot).decoded()))


def _renamed(image: row.DecodedRow, record_id: int) -> row.DecodedRow:
    """The row of a record, under the record id that the operation gives it."""
    if image.header.record_id == record_id:
        return image
    return row.DecodedRow(image.header._replace(record_id=record_id), image.fields)
