"""Values written by JE's tuple bindings: the format of keys and fields of DPL entities.

Readers take bytes and return values for JSON; a character or number without a JSON form becomes a string or an int. The
byte order of the encoded forms is the order of the values. A BigDecimal is its sign (one byte), its exponent times the
sign (sorted packed), and its digits without trailing zeros in groups of nine, each sorted packed; -1 ends them. The
groups of a negative number are stored as ``-group - 1``; the number 0 is stored as 0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from engine.contents.base import Fields, Json, hexed, modified_utf8
from engine.errors import FormatError, plural
from engine.format.bytecursor import sorted_unpack

_NULL_TEXT: Final = b"\xff"
_GROUP_DIGITS: Final = 9
_MOST_SCALE: Final = 1 << 31
_END_OF_GROUPS: Final = -1
# Longer integers are shown in hex, because Python refuses to print them in decimal; no application uses them.
_MOST_INTEGER_BYTES: Final = 1700


def text(fields: Fields) -> str | None:
    """A text, up to its zero byte; None for null."""
    found = fields.until(0)
    return None if found == _NULL_TEXT else modified_utf8(found)


def character(fields: Fields) -> Json:
    """A character; for a lone surrogate its code as a number."""
    number = fields.number(2, signed=False)
    return chr(number) if not 0xD800 <= number < 0xE000 else number


def sortable_float(form: str, size: int) -> Callable[[Fields], Json]:
    """A reader of sortable floats: all bits of a negative number are flipped, only the sign bit of others."""

    def read(fields: Fields) -> Json:
        bits, sign = fields.number(size, signed=False), 1 << (8 * size - 1)
        bits = bits ^ sign if bits & sign else ~bits & (2 * sign - 1)
        value: float = struct.unpack(form, bits.to_bytes(size, "big"))[0]
        return value if value - value == 0 else str(value)

    return read


def big_integer(fields: Fields) -> Json:
    """An integer of any size: its length in bytes, negated for a negative integer, then its bytes in sortable form."""
    length = fields.sortable(2)
    if not length:
        raise FormatError("large integer", expected="a byte at least", found=plural(0, "byte"))
    size = abs(length)
    raw = fields.raw(size)
    # The sign bit of the integer's first byte is also flipped.
    raw = bytes((raw[0] ^ 0x80,)) + raw[1:]
    if size > _MOST_INTEGER_BYTES:
        return hexed(raw)
    return int.from_bytes(raw, "big", signed=True)


def sorted_decimal(fields: Fields) -> str:
    """A decimal, as text with all its digits."""
    sign, exponent = fields.sortable(1), _packed(fields)
    digits = ""
    while (group := _packed(fields)) != _END_OF_GROUPS:
        group = group if group >= 0 else -group - 1
        digits += f"{group:0{_GROUP_DIGITS}}"
        if group >= 10**_GROUP_DIGITS:
            raise FormatError("digits of a decimal", expected=f"{_GROUP_DIGITS} in a group", found=str(group))
    digits = digits.rstrip("0")
    if sign not in (-1, 0, 1) or bool(digits) != bool(sign):
        raise FormatError("large decimal", expected="digits that go with its sign", found=f"sign {sign}")
    if not sign:
        return "0"
    place = exponent * sign - (len(digits) - 1)
    if not -_MOST_SCALE <= place <= _MOST_SCALE:
        raise FormatError("large decimal", expected="an exponent that Java's have", found=str(place))
    return str(Decimal((int(sign < 0), tuple(map(int, digits)), place)))


def _packed(fields: Fields) -> int:
    if not fields.left:
        raise FormatError("large decimal", expected="a number", found="its end")
    value, fields.at = sorted_unpack(fields.data, fields.at)
    return value


# By the name of the class of a DPL format.
SIMPLE: Final[dict[str, Callable[[Fields], Json]]] = {
    "FBigDec": sorted_decimal,
    "FBigInt": big_integer,
    "FBool": lambda fields: fields.number(1) != 0,
    "FByte": lambda fields: fields.sortable(1),
    "FChar": character,
    "FDate": lambda fields: {"time_ms": fields.sortable(8)},
    "FDouble": sortable_float(">d", 8),
    "FFloat": sortable_float(">f", 4),
    "FInt": lambda fields: fields.sortable(4),
    "FLong": lambda fields: fields.sortable(8),
    "FShort": lambda fields: fields.sortable(2),
    "FString": text,
}
PRIMITIVES: Final = {
    "boolean": "FBool",
    "byte": "FByte",
    "char": "FChar",
    "double": "FDouble",
    "float": "FFloat",
    "int": "FInt",
    "long": "FLong",
    "short": "FShort",
}
# Classes whose values are used directly as keys.
SIMPLE_CLASSES: Final = PRIMITIVES | {
    "java.lang.Boolean": "FBool",
    "java.lang.Byte": "FByte",
    "java.lang.Character": "FChar",
    "java.lang.Double": "FDouble",
    "java.lang.Float": "FFloat",
    "java.lang.Integer": "FInt",
    "java.lang.Long": "FLong",
    "java.lang.Short": "FShort",
    "java.lang.String": "FString",
    "java.math.BigDecimal": "FBigDec",
    "java.math.BigInteger": "FBigInt",
    "java.util.Date": "FDate",
}
