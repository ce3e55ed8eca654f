"""The registry of operations: number, name, family, record and layout, one line each.

Scanner, dump, recovery dispatch and statistics all read ``BY_ID`` and ``BY_CLASS``. A layout is a string of field kinds
(``layout.KINDS``) or, where a field depends on another one, a pair of functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard

from engine.aries.format import codec
from engine.aries.format.codec import Cursor
from engine.aries.format.operations import container, layout, page, transaction
from engine.errors import FormatError

CONTAINER = "container"
TRANSACTION = "transaction"
PAGE = "page"

PageOperation = (
    page.Insert
    | page.Delete
    | page.UpdateField
    | page.Update
    | page.Purge
    | page.CopyRows
    | page.InitPage
    | page.InvalidatePage
    | page.AllocatePage
    | page.ChainAllocationPage
    | page.CompressSpace
    | page.OldCompressSpace
    | page.SetReservedSpace
    | page.LogicalUndo
    | page.PhysicalUndo
)
ContainerFamily = (
    container.ContainerOperation
    | container.ContainerUndo
    | container.RemoveFile
    | container.EncryptContainer
    | container.EncryptContainerUndo
)
TransactionFamily = transaction.Begin | transaction.End | transaction.Checkpoint | transaction.Checksum
Operation = PageOperation | ContainerFamily | TransactionFamily


class OperationType(NamedTuple):
    """One line of the registry.

    Attributes:
        number: format id in the log.
        name: what output calls it.
        family: ``container``, ``transaction`` or ``page``.
        record: the NamedTuple that holds its fields.
        read: decodes the fields behind the format id.
        write: appends them.
    """

    number: int
    name: str
    family: str
    record: Callable[..., Any]
    read: Callable[[Cursor], Any]
    write: Callable[[bytearray, Any], None]


def _simple(number: int, name: str, family: str, record: Callable[..., Any], kinds: str) -> OperationType:
    """A registry line for an operation whose fields do not depend on each other."""
    readers = [layout.KINDS[kind].read for kind in kinds.split()]
    writers = [layout.KINDS[kind].write for kind in kinds.split()]

    def read(cursor: Cursor) -> Any:
        return record(*[reader(cursor) for reader in readers])

    def write(out: bytearray, operation: Any) -> None:
        for writer, value in zip(writers, operation, strict=True):
            writer(out, value)

    return OperationType(number, name, family, record, read, write)


_KEY = "clong clong clong clong"
_LOGICAL = _KEY + " cint logical"

_TYPES = (
    _simple(97, "ChainAllocPage", PAGE, page.ChainAllocationPage, _KEY + " clong clong"),
    _simple(101, "Delete", PAGE, page.Delete, _LOGICAL + " cint bool"),
    _simple(102, "EndXact", TRANSACTION, transaction.End, "global_id cint"),
    _simple(103, "Insert", PAGE, page.Insert, _LOGICAL + " cint byte"),
    _simple(104, "LogicalUndo", PAGE, page.LogicalUndo, _KEY + " cint"),
    _simple(105, "PhysicalUndo", PAGE, page.PhysicalUndo, _KEY),
    OperationType(106, "Purge", PAGE, page.Purge, page.read_purge, page.write_purge),
    _simple(107, "ContainerUndo", CONTAINER, container.ContainerUndo, "clong clong clong"),
    _simple(108, "Update", PAGE, page.Update, _KEY + " cint cint"),
    _simple(109, "UpdateField", PAGE, page.UpdateField, _LOGICAL + " cint cint"),
    _simple(111, "AllocPage", PAGE, page.AllocatePage, _KEY + " clong cint cint"),
    _simple(113, "InvalidatePage", PAGE, page.InvalidatePage, _KEY),
    _simple(169, "BeginXact", TRANSACTION, transaction.Begin, "int global_id"),
    OperationType(210, "CopyRows", PAGE, page.CopyRows, page.read_copy_rows, page.write_copy_rows),
    _simple(241, "InitPage", PAGE, page.InitPage, _KEY + " cint cint clong int"),
    OperationType(
        242,
        "Container",
        CONTAINER,
        container.ContainerOperation,
        container.read_container,
        container.write_container,
    ),
    OperationType(
        263,
        "Checkpoint",
        TRANSACTION,
        transaction.Checkpoint,
        transaction.read_checkpoint,
        transaction.write_checkpoint,
    ),
    _simple(287, "SetReservedSpace", PAGE, page.SetReservedSpace, _KEY + " cint cint cint cint"),
    _simple(291, "RemoveFile", CONTAINER, container.RemoveFile, "string long bool"),
    _simple(453, "Checksum", TRANSACTION, transaction.Checksum, "byte int long"),
    _simple(454, "OldCompressSpace", PAGE, page.OldCompressSpace, _KEY + " cint cint"),
    _simple(459, "EncryptContainer", CONTAINER, container.EncryptContainer, "clong clong"),
    _simple(460, "EncryptContainerUndo", CONTAINER, container.EncryptContainerUndo, ""),
    _simple(465, "CompressSpace", PAGE, page.CompressSpace, _KEY + " int cint"),
)

BY_ID: dict[int, OperationType] = {line.number: line for line in _TYPES}
BY_CLASS: dict[type, OperationType] = {line.record: line for line in _TYPES if isinstance(line.record, type)}
BY_NAME: dict[str, OperationType] = {line.name.lower(): line for line in _TYPES}


def read_operation(cursor: Cursor) -> Operation:
    """An operation object; FormatError when its format id is unknown."""
    number = cursor.short()
    line = BY_ID.get(number)
    if line is None:
        raise FormatError("unknown log operation", found=f"format id {number}")
    operation: Operation = line.read(cursor)
    return operation


def write_operation(out: bytearray, operation: Operation) -> None:
    """Append an operation object."""
    line = BY_CLASS[type(operation)]
    codec.put_short(out, line.number)
    line.write(out, operation)


def type_of(operation: Operation) -> OperationType:
    """The registry line of an operation."""
    return BY_CLASS[type(operation)]


def is_page_operation(operation: Operation) -> TypeGuard[PageOperation]:
    """Whether the operation is on one page."""
    return BY_CLASS[type(operation)].family == PAGE
