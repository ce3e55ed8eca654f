"""The registry of operations: number, name, family, record and layout, one line each.

Scanner, dump, recovery dispatch and statistics all read ``BY_ID`` and ``BY_CLASS``. A layout is a string of field kinds
(``layout.KINDS``) or, where a field depends on another field, a pair of functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

from engine.derby.format import codec
from engine.derby.format.codec import FieldCursor
from engine.derby.format.operations import container, layout, page, transaction
from engine.errors import FormatError

CONTAINER: Final = "container"
TRANSACTION: Final = "transaction"
PAGE: Final = "page"
_new_tuple: Final = tuple.__new__

PageOperation: TypeAlias = (
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
ContainerFamily: TypeAlias = (
    container.ContainerOperation
    | container.ContainerUndo
    | container.RemoveFile
    | container.EncryptContainer
    | container.EncryptContainerUndo
)
TransactionFamily: TypeAlias = transaction.Begin | transaction.End | transaction.CheckpointRecord | transaction.Checksum
Operation: TypeAlias = PageOperation | ContainerFamily | TransactionFamily


class OperationType(NamedTuple):
    """One line of the registry.

    Attributes:
        number: format id in the log.
        name: name of the operation in output.
        family: ``container``, ``transaction`` or ``page``.
        record: the NamedTuple that holds its fields.
        read: decodes the fields after the format id.
        write: appends them.
    """

    number: int
    name: str
    family: str
    record: Callable[..., Any]
    read: Callable[[FieldCursor], Any]
    write: Callable[[bytearray, Any], None]


def _keyed(number: int, name: str, record: type[Any], kinds: str = "") -> OperationType:
    """A registry line for an operation on one page; ``kinds`` describes the fields after the page key."""
    writers = [layout.KINDS[kind].write for kind in ("clong clong clong clong " + kinds).split()]
    readers = [layout.KINDS[kind].read for kind in kinds.split()]

    def read(cursor: FieldCursor) -> Any:
        # Faster than record(...): a NamedTuple's constructor is a Python function.
        return _new_tuple(record, (*cursor.page_key(), *[reader(cursor) for reader in readers]))

    def write(out: bytearray, operation: Any) -> None:
        for writer, value in zip(writers, operation, strict=True):
            writer(out, value)

    return OperationType(number, name, PAGE, record, read, write)


def _simple(number: int, name: str, family: str, record: Callable[..., Any], kinds: str) -> OperationType:
    """A registry line for an operation whose fields do not depend on each other."""
    readers = [layout.KINDS[kind].read for kind in kinds.split()]
    writers = [layout.KINDS[kind].write for kind in kinds.split()]

    def read(cursor: FieldCursor) -> Any:
        return record(*[reader(cursor) for reader in readers])

    def write(out: bytearray, operation: Any) -> None:
        for writer, value in zip(writers, operation, strict=True):
            writer(out, value)

    return OperationType(number, name, family, record, read, write)


_LOGICAL: Final = "cint logical "

_TYPES = (
    _keyed(97, "ChainAllocPage", page.ChainAllocationPage, "clong clong"),
    _keyed(101, "Delete", page.Delete, _LOGICAL + "cint bool"),
    _simple(102, "EndXact", TRANSACTION, transaction.End, "global_id cint"),
    _keyed(103, "Insert", page.Insert, _LOGICAL + "cint byte"),
    _keyed(104, "LogicalUndo", page.LogicalUndo, "cint"),
    _keyed(105, "PhysicalUndo", page.PhysicalUndo),
    OperationType(106, "Purge", PAGE, page.Purge, page.read_purge, page.write_purge),
    _simple(107, "ContainerUndo", CONTAINER, container.ContainerUndo, "clong clong clong"),
    _keyed(108, "Update", page.Update, "cint cint"),
    _keyed(109, "UpdateField", page.UpdateField, _LOGICAL + "cint cint"),
    _keyed(111, "AllocPage", page.AllocatePage, "clong cint cint"),
    _keyed(113, "InvalidatePage", page.InvalidatePage),
    _simple(169, "BeginXact", TRANSACTION, transaction.Begin, "int global_id"),
    OperationType(210, "CopyRows", PAGE, page.CopyRows, page.read_copy_rows, page.write_copy_rows),
    _keyed(241, "InitPage", page.InitPage, "cint cint clong int"),
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
        transaction.CheckpointRecord,
        transaction.read_checkpoint,
        transaction.write_checkpoint,
    ),
    _keyed(287, "SetReservedSpace", page.SetReservedSpace, "cint cint cint cint"),
    _simple(291, "RemoveFile", CONTAINER, container.RemoveFile, "string long bool"),
    _simple(453, "Checksum", TRANSACTION, transaction.Checksum, "byte int long"),
    _keyed(454, "OldCompressSpace", page.OldCompressSpace, "cint cint"),
    _simple(459, "EncryptContainer", CONTAINER, container.EncryptContainer, "clong clong"),
    _simple(460, "EncryptContainerUndo", CONTAINER, container.EncryptContainerUndo, ""),
    _keyed(465, "CompressSpace", page.CompressSpace, "int cint"),
)

BY_ID: dict[int, OperationType] = {line.number: line for line in _TYPES}
BY_CLASS: dict[type, OperationType] = {line.record: line for line in _TYPES if isinstance(line.record, type)}
BY_NAME: dict[str, OperationType] = {line.name.lower(): line for line in _TYPES}


def page_operation(number: int, name: str, record: type[Any], kinds: str = "") -> OperationType:
    """A line for a page operation; its record begins with segment, container, page and version.

    Arguments:
        number: format id in the log.
        name: name of the operation in output.
        record: the NamedTuple that holds its fields.
        kinds: kinds of the fields after the first four, see ``layout``.
    """
    return _keyed(number, name, record, kinds)


def register(line: OperationType) -> None:
    """Add an operation. ValueError when its number, name or record is taken."""
    if line.number in BY_ID or line.name.lower() in BY_NAME or line.record in BY_CLASS:
        raise ValueError(f"operation {line.number} ({line.name}) is there already")
    assert isinstance(line.record, type)
    BY_ID[line.number] = line
    BY_CLASS[line.record] = line
    BY_NAME[line.name.lower()] = line


def read_operation(cursor: FieldCursor) -> Operation:
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
