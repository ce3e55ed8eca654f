"""Field kinds of operations: each kind reads and writes one field.

A layout is a string of kind names, one for each field of the record. Most kinds are scalars of ``codec``; the others:

==========  ==========================================================================================
kind        bytes
==========  ==========================================================================================
logical     object: null (0), or format id 95 with no fields = undo may search the B-tree
global_id   object: null, or format id 328: int format id, byte length, id, byte length, branch
instant     object: format id 130, clong file, clong position; null allowed where the table says so
==========  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from engine.derby.format import codec, instant
from engine.derby.format.codec import FieldCursor
from engine.errors import FormatError, plural

NULL_ID: Final = 0
BTREE_UNDO_ID: Final = 95
INSTANT_ID: Final = 130
GLOBAL_ID: Final = 328


class GlobalId(NamedTuple):
    """The name that an external transaction manager gave a transaction."""

    format_id: int
    global_part: bytes
    branch_part: bytes


class FieldKind(NamedTuple):
    """How one kind of field is read and written."""

    read: Callable[[FieldCursor], Any]
    write: Callable[[bytearray, Any], None]


def expect_id(cursor: FieldCursor, wanted: int, what: str) -> None:
    """Read a format id; raise if it is not the expected one."""
    found = cursor.short()
    if found != wanted:
        raise FormatError(f"not {what}", expected=f"format id {wanted}", found=str(found))


def _read_logical(cursor: FieldCursor) -> bool:
    found = cursor.short()
    if found not in (NULL_ID, BTREE_UNDO_ID):
        raise FormatError("unknown logical-undo object", expected="format id 0 or 95", found=str(found))
    return found == BTREE_UNDO_ID


def _write_logical(out: bytearray, value: bool) -> None:
    codec.put_short(out, BTREE_UNDO_ID if value else NULL_ID)


def read_global_id(cursor: FieldCursor) -> GlobalId | None:
    """A global transaction id, or None."""
    found = cursor.short()
    if found == NULL_ID:
        return None
    if found != GLOBAL_ID:
        raise FormatError("unknown global transaction id", expected="format id 0 or 328", found=str(found))
    return GlobalId(cursor.fixed_int(), cursor.raw(cursor.byte()), cursor.raw(cursor.byte()))


def write_global_id(out: bytearray, value: GlobalId | None) -> None:
    """Append a global transaction id, or null."""
    if value is None:
        codec.put_short(out, NULL_ID)
        return
    codec.put_short(out, GLOBAL_ID)
    codec.put_int(out, value.format_id)
    for part in (value.global_part, value.branch_part):
        if len(part) > 255:
            raise FormatError("a part of a global transaction id is too long", found=plural(len(part), "byte"))
        out.append(len(part))
        out += part


def read_instant(cursor: FieldCursor, *, nullable: bool = False) -> int:
    """An instant object; 0 for null where that is allowed."""
    found = cursor.short()
    if found == NULL_ID and nullable:
        return instant.NONE
    if found != INSTANT_ID:
        raise FormatError("not an instant", expected=f"format id {INSTANT_ID}", found=str(found))
    file, position = cursor.clong(), cursor.clong()
    # Compressed longs are wider than the two halves of an instant.
    if file > instant.MAX_FILE or position > 0xFFFFFFFF:
        raise FormatError("an instant is out of range", found=f"({file},{position})")
    return instant.make(file, position)


def write_instant(out: bytearray, value: int, *, nullable: bool = False) -> None:
    """Append an instant object; null for 0 where that is allowed."""
    if nullable and value == instant.NONE:
        codec.put_short(out, NULL_ID)
        return
    codec.put_short(out, INSTANT_ID)
    codec.put_clong(out, instant.file_of(value))
    codec.put_clong(out, instant.position_of(value))


def _write_byte(out: bytearray, value: int) -> None:
    if not 0 <= value <= 255:
        raise FormatError("a number does not fit into a byte", found=str(value))
    out.append(value)


def _write_bool(out: bytearray, value: bool) -> None:
    out.append(1 if value else 0)


KINDS: dict[str, FieldKind] = {
    "byte": FieldKind(FieldCursor.byte, _write_byte),
    "bool": FieldKind(FieldCursor.flag, _write_bool),
    "short": FieldKind(FieldCursor.short, codec.put_short),
    "int": FieldKind(FieldCursor.fixed_int, codec.put_int),
    "long": FieldKind(FieldCursor.fixed_long, codec.put_long),
    "cint": FieldKind(FieldCursor.cint, codec.put_cint),
    "clong": FieldKind(FieldCursor.clong, codec.put_clong),
    "string": FieldKind(FieldCursor.string, codec.put_string),
    "logical": FieldKind(_read_logical, _write_logical),
    "global_id": FieldKind(read_global_id, write_global_id),
}
