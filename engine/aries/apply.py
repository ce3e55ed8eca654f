"""Do and undo: what an operation, and its compensation, change on their page.

Doing applies the encoded record to the page, by the same code for redo and, in a running store, for the change itself
(R-DRB-2). Undoing is what a CLR does, in redo as well as when it is written (R-DRB-36): the operation that it
compensates is undone with that operation's own data, on the page and at the row that the CLR names.

========================  ==========================================  =====================================
operation                 do                                          undo (R-DRB-52, 53)
========================  ==========================================  =====================================
Insert                    put the row at the slot                     mark it deleted, or purge it (flag 2)
Delete                    set or clear the mark                       the other way round
UpdateField, Update       put the new values                          put the old values
Purge                     take rows off                               put them back at the same slots
CopyRows                  put rows, with their reserves               purge them
InitPage                  empty, valid                                mark invalid
InvalidatePage            mark invalid                                mark valid
AllocPage                 set the status of the page                  set the undo status
ChainAllocPage            link the next allocation page               no next page
CompressSpace             cut the maps                                cut the maps again
SetReservedSpace          set the reserve                             (never undone)
========================  ==========================================  =====================================

Neither looks at versions; the caller compares them and sets the new one.
"""

from __future__ import annotations

from engine.aries.format import allocation, page, row
from engine.aries.format.codec import Cursor
from engine.aries.format.operations import page as operations
from engine.aries.format.operations.registry import PageOperation
from engine.aries.pages import LiveAllocation, LivePage, Page
from engine.errors import FormatError


def do(target: Page, operation: PageOperation, data: bytes) -> None:
    """Apply an operation to its page.

    Arguments:
        target: the page.
        operation: any page operation but a CLR.
        data: the optional data of its record.

    Raises: FormatError when page and record do not fit together; the page may be half changed then.
    """
    if isinstance(operation, operations.InitPage):
        _initialise(target, operation)
    elif isinstance(operation, operations.InvalidatePage):
        target.set_status(page.INVALID)
    elif isinstance(target, LivePage):
        _do_rows(target, operation, data)
    else:
        _do_allocation(target, operation)


def undo(target: Page, operation: PageOperation, data: bytes, record_id: int | None) -> None:
    """Apply the compensation of an operation.

    Arguments:
        target: the page that the CLR names.
        operation: the operation that is undone.
        data: the optional data of *its* record.
        record_id: the row that a logical CLR names, None for a physical one.

    Raises: FormatError when page and record do not fit together.
    """
    if isinstance(operation, operations.InitPage):
        target.set_status(page.INVALID)
    elif isinstance(operation, operations.InvalidatePage):
        target.set_status(page.VALID)
    elif isinstance(target, LiveAllocation):
        _undo_allocation(target, operation)
    elif record_id is not None:
        _undo_row(target, operation, data, record_id)
    else:
        _undo_rows(target, operation, data)


def _initialise(target: Page, operation: operations.InitPage) -> None:
    if isinstance(target, LiveAllocation):
        target.initialise(operation.next_record_id)
    else:
        overflow = operation.flags & operations.INIT_OVERFLOW != 0
        target.initialise(operation.next_record_id, overflow=overflow)


def _do_rows(target: LivePage, operation: PageOperation, data: bytes) -> None:
    cursor = Cursor(data)
    match operation:
        case operations.Insert():
            target.insert(operation.slot, _renamed(row.read_row(cursor), operation.record_id))
        case operations.Delete():
            _expect(target, operation.slot, operation.record_id)
            target.mark(operation.slot, deleted=operation.delete)
        case operations.UpdateField():
            _expect(target, operation.slot, operation.record_id)
            _put_field(target, operation.slot, operation.field, row.read_field(cursor))
        case operations.Update():
            _expect(target, operation.slot, operation.record_id)
            _put_row(target, operation.slot, row.read_row(cursor))
        case operations.Purge():
            for record_id in operation.record_ids:
                _expect(target, operation.slot, record_id)
                target.purge(operation.slot)
        case operations.CopyRows():
            for index, copied in enumerate(operation.rows):
                slot = operation.slot + index
                target.insert(slot, _renamed(row.read_row(cursor), copied.record_id))
                if copied.reserved_bytes > len(target.rows[slot].slack):
                    target.reserve(slot, copied.reserved_bytes)
        case operations.SetReservedSpace():
            _expect(target, operation.slot, operation.record_id)
            target.reserve(operation.slot, operation.value)
        case _:
            raise _misplaced(operation, "a stored page")


def _do_allocation(target: LiveAllocation, operation: PageOperation) -> None:
    match operation:
        case operations.AllocatePage():
            target.set_page(operation.new_page, free=operation.status != operations.ALLOCATED)
        case operations.ChainAllocationPage():
            target.chain(operation.next_page, operation.next_offset)
        case operations.CompressSpace() | operations.OldCompressSpace():
            target.compress(operation.new_highest)
        case _:
            raise _misplaced(operation, "an allocation page")


def _undo_allocation(target: LiveAllocation, operation: PageOperation) -> None:
    match operation:
        case operations.AllocatePage():
            target.set_page(operation.new_page, free=operation.undo_status != operations.ALLOCATED)
        case operations.ChainAllocationPage():
            target.chain(allocation.NO_PAGE, 0)
        case operations.CompressSpace() | operations.OldCompressSpace():
            target.compress(operation.new_highest)
        case _:
            raise _misplaced(operation, "an allocation page")


def _undo_row(target: LivePage, operation: PageOperation, data: bytes, record_id: int) -> None:
    slot = target.slot_of(record_id)
    if slot is None:
        raise FormatError("the row of a compensation is not on its page", found=f"no record {record_id}")
    match operation:
        case operations.Insert():
            if operation.flags & operations.INSERT_UNDO_WITH_PURGE:
                target.purge(slot)
            else:
                target.mark(slot, deleted=True)
        case operations.Delete():
            target.mark(slot, deleted=not operation.delete)
        case operations.UpdateField():
            cursor = Cursor(data)
            row.read_field(cursor)
            _put_field(target, slot, operation.field, row.read_field(cursor))
        case _:
            raise _misplaced(operation, "a logical compensation")


def _undo_rows(target: LivePage, operation: PageOperation, data: bytes) -> None:
    cursor = Cursor(data)
    match operation:
        case operations.Update():
            slot = target.slot_of(operation.record_id)
            if slot is None:
                raise FormatError(
                    "the row of a compensation is not on its page", found=f"no record {operation.record_id}"
                )
            row.read_row(cursor)
            _put_row(target, slot, row.read_row(cursor))
        case operations.Purge():
            for index in range(len(operation.record_ids)):
                target.insert(operation.slot + index, row.read_row(cursor))
        case operations.CopyRows():
            for copied in operation.rows:
                _expect(target, operation.slot, copied.record_id)
                target.purge(operation.slot)
        case _:
            raise _misplaced(operation, "a physical compensation")


def _put_field(target: LivePage, slot: int, number: int, field: row.Field) -> None:
    old = target.row_at(slot).decoded()
    index = number - old.header.first_field
    if not 0 <= index < len(old.fields):
        raise FormatError("a row has no such field", expected=f"below {len(old.fields)}", found=str(index))
    fields = old.fields[:index] + (field,) + old.fields[index + 1 :]
    target.replace(slot, row.Row(old.header, fields))


def _put_row(target: LivePage, slot: int, image: row.Row) -> None:
    target.replace(slot, row.merge(image, target.row_at(slot).decoded()))


def _renamed(image: row.Row, record_id: int) -> row.Row:
    """The row under the record id that the operation gives it."""
    if image.header.record_id == record_id:
        return image
    return row.Row(image.header._replace(record_id=record_id), image.fields)


def _expect(target: LivePage, slot: int, record_id: int) -> None:
    found = target.row_at(slot).record_id
    if found != record_id:
        raise FormatError("another row is at the slot", expected=f"record {record_id}", found=f"record {found}")


def _misplaced(operation: PageOperation, where: str) -> FormatError:
    return FormatError(f"a {type(operation).__name__} record does not belong to {where}")
