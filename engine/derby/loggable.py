"""The loggable operations and their three verbs: do, undo, compensate. One registry line for each page operation.

* *Do* applies the encoded record to its page, by the same code in redo and in a running store (R-DRB-2).
* *Compensate* chooses the CLR that undoes the operation: a *logical* one, which names page, version and row and may
  have to look for the row in a B-tree; a *physical* one for the operation's own page; or none (``compensate`` finds the
  place).
* *Undo* is the action of a CLR, both when it is written and in redo (R-DRB-36): the operation that it compensates is
  undone with that operation's own data, on the page and at the row that the CLR names.

========================  ==========================================  ========  =======================================
operation                 do                                          CLR       undo (R-DRB-52, 53)
========================  ==========================================  ========  =======================================
Insert                    put the row at the slot                     logical   mark it deleted, or purge it (flag 2)
Delete                    set or clear the mark                       logical   the other way round
UpdateField               put the new value                           logical   put the old value
Update                    put the new values                          physical  put the old values
Purge                     take rows off                               physical  put them back at the same slots
CopyRows                  put rows, with their reserves               physical  purge them
InitPage                  empty, valid                                physical  mark invalid
InvalidatePage            mark invalid                                physical  mark valid
AllocPage                 set the status of the page                  physical  set the undo status
ChainAllocationPage       link the next allocation page               physical  no next page
CompressSpace             cut the maps                                physical  cut the maps again
SetReservedSpace          set the reserve                             none
========================  ==========================================  ========  =======================================

Version rule (R-DRB-4): an operation raises the version of its page by 1 for each elementary action on a row. Purge of n
rows by n; copy of n rows by n, and 1 more for each row with reserved bytes; everything else by 1. Undo of a purge or of
a copy of n rows by n, every other undo by 1.

The registry can be extended: ``format.operations.registry.register`` takes the codec of a new page operation,
``register`` its verbs; then redo, undo, explain and dump support it. Real Derby refuses such a log; Derby does not use
numbers from 0x7000 on. Operations on containers and transactions are few and fixed; ``redo`` and ``undo`` hold them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from engine.derby import page_actions as actions
from engine.derby.format.operations import page as operations
from engine.derby.format.operations import registry
from engine.derby.pages import Page
from engine.errors import FormatError

LOGICAL: Final = "logical"
PHYSICAL: Final = "physical"
NOT_UNDONE: Final = "none"
_NO_ROW: Final = -1


def _once(_: Any) -> int:
    return 1


class Loggable(NamedTuple):
    """The verbs of one page operation.

    Attributes:
        record: the NamedTuple that holds its fields; segment, container, page and version come first.
        clr: ``LOGICAL``, ``PHYSICAL`` or ``NOT_UNDONE``.
        do: page, operation, optional data.
        undo: page, operation, optional data, record id that a logical CLR names; None when it is never undone.
        raised: by how much doing the operation raises the page version.
        raised_by_undo: by how much undoing the operation raises the page version.
    """

    record: type
    clr: str
    do: Callable[[Page, Any, bytes], None]
    undo: Callable[[Page, Any, bytes, int], None] | None
    raised: Callable[[Any], int] = _once
    raised_by_undo: Callable[[Any], int] = _once


def _purged(operation: operations.Purge) -> int:
    return len(operation.record_ids)


def _copied(operation: operations.CopyRows) -> int:
    return len(operation.rows)


def _copied_and_reserved(operation: operations.CopyRows) -> int:
    return len(operation.rows) + sum(1 for row in operation.rows if row.reserved_bytes > 0)


_LINES: Final = (
    Loggable(operations.Insert, LOGICAL, actions.do_insert, actions.undo_insert),
    Loggable(operations.Delete, LOGICAL, actions.do_delete, actions.undo_delete),
    Loggable(operations.UpdateField, LOGICAL, actions.do_update_field, actions.undo_update_field),
    Loggable(operations.Update, PHYSICAL, actions.do_update, actions.undo_update),
    Loggable(operations.Purge, PHYSICAL, actions.do_purge, actions.undo_purge, _purged, _purged),
    Loggable(
        operations.CopyRows, PHYSICAL, actions.do_copy_rows, actions.undo_copy_rows, _copied_and_reserved, _copied
    ),
    Loggable(operations.InitPage, PHYSICAL, actions.do_init_page, actions.undo_init_page),
    Loggable(operations.InvalidatePage, PHYSICAL, actions.do_invalidate_page, actions.undo_invalidate_page),
    Loggable(operations.AllocatePage, PHYSICAL, actions.do_allocate_page, actions.undo_allocate_page),
    Loggable(operations.ChainAllocationPage, PHYSICAL, actions.do_chain, actions.undo_chain),
    Loggable(operations.CompressSpace, PHYSICAL, actions.do_compress, actions.undo_compress),
    Loggable(operations.OldCompressSpace, PHYSICAL, actions.do_compress, actions.undo_compress),
    Loggable(operations.SetReservedSpace, NOT_UNDONE, actions.do_set_reserved_space, None),
)
BY_CLASS: dict[type, Loggable] = {line.record: line for line in _LINES}


def register(line: Loggable) -> None:
    """Add the verbs of a page operation whose codec is registered. ValueError when the operation has verbs already."""
    if line.record in BY_CLASS:
        raise ValueError(f"{line.record.__name__} has its verbs already")
    BY_CLASS[line.record] = line


def clr_of(operation: registry.Operation) -> str:
    """Which CLR compensates an operation: ``LOGICAL``, ``PHYSICAL`` or ``NOT_UNDONE``.

    Non-page operations are allowed.
    """
    line = BY_CLASS.get(type(operation))
    return NOT_UNDONE if line is None else line.clr


def do(target: Page, operation: registry.PageOperation, data: bytes) -> None:
    """Apply an operation to its page.

    Arguments:
        target: the page.
        operation: any page operation but a CLR.
        data: the optional data of its record.

    Raises: FormatError if page and record do not fit together; the page may then be half changed.
    """
    _line(operation).do(target, operation, data)


def undo(target: Page, operation: registry.PageOperation, data: bytes, record_id: int | None) -> None:
    """Apply the compensation of an operation.

    Arguments:
        target: the page that the CLR names.
        operation: the operation that is undone.
        data: the optional data of that operation's record.
        record_id: the row that a logical CLR names, None for a physical one.

    Raises: FormatError when page and record do not fit together.
    """
    line = _line(operation)
    # A CLR of the wrong kind shows that page and log do not belong together.
    if line.undo is None or (line.clr == LOGICAL) != (record_id is not None):
        raise FormatError(f"a {type(operation).__name__} record is not undone by such a compensation")
    line.undo(target, operation, data, _NO_ROW if record_id is None else record_id)


def raised_by(operation: registry.PageOperation) -> int:
    """By how much doing the operation raises the page version."""
    return _line(operation).raised(operation)


def raised_by_undo(operation: registry.Operation) -> int:
    """By how much undoing the operation raises the page version."""
    return _line(operation).raised_by_undo(operation)


def _line(operation: registry.Operation) -> Loggable:
    line = BY_CLASS.get(type(operation))
    if line is None:
        raise FormatError(f"a {type(operation).__name__} record changes no page by itself")
    return line
