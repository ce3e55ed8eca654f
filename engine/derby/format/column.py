"""Column values of the page store's own tables, in the bytes that Derby's types have.

VARCHAR FOR BIT DATA (format id 88): a length, then the bytes. Length: to 31 one byte ``0x80 | n``; to 65535 ``A0``
and a short; else ``C0`` and an int. Row location (format id 90): clong page, cint record id.

Derby compares bit data as if the shorter value were padded with 0x20, so ``a`` and ``a\\x20`` would be one key. A key
in an index therefore ends in a zero byte, so that Derby orders and compares keys as plain bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.derby.format import codec
from engine.derby.format.codec import FieldCursor
from engine.errors import FormatError, plural

VARBIT = 88
LOCATION = 90
_SHORT_LENGTH = 0x80
_TWO_BYTES = 0xA0
_FOUR_BYTES = 0xC0
_KEY_END = b"\0"


class Location(NamedTuple):
    """The location of a row in a heap."""

    page: int
    record_id: int


def encode_varbit(value: bytes) -> bytes:
    """The column of some bytes."""
    if len(value) <= 31:
        return bytes((_SHORT_LENGTH | len(value),)) + value
    if len(value) <= 0xFFFF:
        return bytes((_TWO_BYTES,)) + len(value).to_bytes(2, "big") + value
    return bytes((_FOUR_BYTES,)) + len(value).to_bytes(4, "big") + value


def decode_varbit(column: bytes) -> bytes:
    """The bytes of a column; FormatError when its length is not right."""
    first = column[0] if column else 0
    if first == _TWO_BYTES:
        start, length = 3, int.from_bytes(column[1:3], "big")
    elif first == _FOUR_BYTES:
        start, length = 5, int.from_bytes(column[1:5], "big")
    else:
        start, length = 1, first & 0x1F
    if not first & _SHORT_LENGTH or len(column) != start + length:
        raise FormatError(
            "a column of bytes has another length",
            expected=plural(start + length, "byte"),
            found=plural(len(column), "byte"),
        )
    return column[start:]


def encode_key(key: bytes) -> bytes:
    """The column of a key in an index."""
    return encode_varbit(key + _KEY_END)


def decode_key(column: bytes) -> bytes:
    """The key in a column of an index; FormatError if it does not end in the zero byte."""
    stored = decode_varbit(column)
    if not stored.endswith(_KEY_END):
        raise FormatError("a key in an index does not end in a zero byte")
    return stored[:-1]


def encode_location(location: Location) -> bytes:
    """The column of a row location."""
    out = bytearray()
    codec.put_clong(out, location.page)
    codec.put_cint(out, location.record_id)
    return bytes(out)


def decode_location(column: bytes) -> Location:
    """The row location in a column; FormatError when bytes are missing or left over."""
    cursor = FieldCursor(column)
    found = Location(cursor.clong(), cursor.cint())
    if cursor.remaining():
        raise FormatError("bytes are left over after a row location")
    return found
