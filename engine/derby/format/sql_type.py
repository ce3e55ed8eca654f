"""SQL types of columns, and column values, in the bytes that Derby gives them.

The catalogue stores a type as a tagged object:

======================  =====================================================================
field                   encoding
======================  =====================================================================
format id               short, 14
format id of the type   short; 198 (DECIMAL): a boolean follows, true for NUMERIC
name                    string; if it begins with a quote it is a schema, and the name follows
class                   string, only for format id 264 (a type of the user)
precision, scale        int, int; the scale of characters is their collation
nullable                boolean
width                   int: characters, bytes or, for numbers, bytes of the value
======================  =====================================================================

Values:

==============================  ==================================================================================
type                            bytes
==============================  ==================================================================================
SMALLINT, INTEGER, BIGINT       2, 4, 8 bytes
REAL, DOUBLE                    IEEE 754, 4 and 8 bytes
DECIMAL, NUMERIC                scale (byte), length (byte), unscaled number
BOOLEAN                         one byte, 0 or 1
DATE                            int: year in the high 16 bits, then month and day in a byte each
TIME                            int: hour, minute, second in the low three bytes; int 0
TIMESTAMP                       date, time, nanoseconds: three ints
CHAR, VARCHAR, LONG VARCHAR     length in bytes (short; 0: up to the end, where ``E0 00 00`` may follow), modified UTF-8
CLOB                            5 bytes of header with ``F0`` in the middle (10.5 and later), then as above
... FOR BIT DATA, BLOB          a length as in ``column``; old ones have a length in bits (int)
XML                             short 0, then as VARCHAR
==============================  ==================================================================================

Example: ``00 0e 00 13 00 07 INTEGER 00 00 00 0a 00 00 00 00 01 00 00 00 04`` is INTEGER, and ``00 00 03 e8`` is 1000.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from engine.derby.format import column
from engine.derby.format.codec import FieldCursor
from engine.errors import FormatError, caused_by, plural

TYPE_DESCRIPTOR: Final = 14
_DECIMAL_TYPE: Final = 198
_USER_TYPE: Final = 264
_REAL: Final = struct.Struct(">f")
_DOUBLE: Final = struct.Struct(">d")
_STREAM_END: Final = b"\xe0\0\0"
_CLOB_HEADER_BYTES: Final = 5
_CLOB_MAGIC: Final = 0xF0
_BIT_DATA: Final = " FOR BIT DATA"
_NUL: Final = b"\xc0\x80"

SqlValue = int | float | str | bool


class SqlType(NamedTuple):
    """The type of a column.

    Attributes:
        name: the SQL name, such as ``VARCHAR`` or ``CHAR () FOR BIT DATA``; of a type of the user, with its schema.
        precision, scale: of numbers.
        nullable: whether it allows null.
        width: the largest number of characters or bytes.
    """

    name: str
    precision: int
    scale: int
    nullable: bool
    width: int

    @property
    def text(self) -> str:
        """The type as in ``CREATE TABLE``."""
        if self.name in ("DECIMAL", "NUMERIC"):
            return f"{self.name}({self.precision},{self.scale})"
        if self.name in ("CHAR", "VARCHAR", "CLOB", "BLOB"):
            return f"{self.name}({self.width})"
        # The name has empty parentheses: CHAR () FOR BIT DATA.
        return self.name.replace(" ()", f"({self.width})")


def decode_type(data: bytes) -> SqlType:
    """A type of the catalogue. FormatError if the bytes are no type."""
    cursor = FieldCursor(data)
    tag = cursor.short()
    if tag != TYPE_DESCRIPTOR:
        raise FormatError("type of a column", expected=f"format id {TYPE_DESCRIPTOR}", found=str(tag))
    kind = cursor.short()
    is_numeric = kind == _DECIMAL_TYPE and cursor.flag()
    name = cursor.string()
    if name.startswith('"'):
        name = f"{name}.{cursor.string()}"
    if kind == _USER_TYPE:
        cursor.string()
    if is_numeric:
        name = "NUMERIC"
    precision, scale = cursor.fixed_int(), cursor.fixed_int()
    return SqlType(name=name, precision=precision, scale=scale, nullable=cursor.flag(), width=cursor.fixed_int())


def decode_value(kind: SqlType | None, data: bytes) -> SqlValue:
    """The value of a column: a number, a text, or a truth value.

    Decimals, dates and times are texts, since JSON has no such numbers. Bytes, and values of types of the user, are
    texts in hex.

    Arguments:
        kind: the type; None if it is not known, then the value is a text in hex.
        data: the bytes of the column, put together if they are in parts.

    Raises:
        FormatError: the bytes are no value of the type.
    """
    decoder = None if kind is None else _DECODERS.get(kind.name)
    return data.hex() if decoder is None else decoder(data)


def decode_text(data: bytes) -> str:
    """A CHAR, VARCHAR or LONG VARCHAR. FormatError if its length is not right."""
    if len(data) < 2:
        raise FormatError("a text is too short", found=plural(len(data), "byte"))
    length, text = int.from_bytes(data[:2], "big"), data[2:]
    if length == 0:
        return _characters(text.removesuffix(_STREAM_END))
    if length != len(text):
        raise FormatError("a text has another length", expected=plural(length, "byte"), found=plural(len(text), "byte"))
    return _characters(text)


def _characters(data: bytes) -> str:
    """Text from Java's form of UTF-8: U+0000 takes two bytes, and what is beyond U+FFFF two encoded surrogates."""
    try:
        text = data.replace(_NUL, b"\0").decode("utf-8", "surrogatepass")
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeError as error:
        raise caused_by(FormatError("a text is not in Java's form of UTF-8"), error) from error


def _clob(data: bytes) -> str:
    if len(data) < _CLOB_HEADER_BYTES or data[2] != _CLOB_MAGIC:
        return decode_text(data)
    text = data[_CLOB_HEADER_BYTES:]
    # A value that came from a stream has no length, but an end.
    return _characters(text if any(data[:2] + data[3:5]) else text.removesuffix(_STREAM_END))


def _bits(data: bytes) -> str:
    if data and not data[0] & 0x80:
        # Before 10.0: a length in bits. Of a stream of unknown length it is 0.
        cursor = FieldCursor(data)
        bits = cursor.fixed_int()
        return cursor.raw((bits + 7) // 8 if bits else cursor.remaining()).hex()
    return column.decode_varbit(data).hex()


def _number(size: int) -> Callable[[bytes], int]:
    def decode(data: bytes) -> int:
        return int.from_bytes(_exactly(data, size), "big", signed=True)

    return decode


def _floating(layout: struct.Struct) -> Callable[[bytes], float | str]:
    def decode(data: bytes) -> float | str:
        value = float(layout.unpack(_exactly(data, layout.size))[0])
        if not math.isfinite(value):
            return str(value)
        # The shortest text that gives the same number of four bytes.
        return value if layout is _DOUBLE else _shortest(value)

    return decode


def _shortest(value: float) -> float:
    for digits in range(6, 9):
        rounded = float(f"{value:.{digits}g}")
        if _REAL.pack(rounded) == _REAL.pack(value):
            return rounded
    return value


def _decimal(data: bytes) -> str:
    cursor = FieldCursor(data)
    scale = cursor.byte()
    number = int.from_bytes(cursor.raw(cursor.byte()), "big", signed=True)
    _require_end(cursor)
    digits = str(abs(number)).rjust(scale + 1, "0")
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def _boolean(data: bytes) -> bool:
    (value,) = _exactly(data, 1)
    if value > 1:
        raise FormatError("a BOOLEAN is neither 0 nor 1", found=str(value))
    return bool(value)


def _date(data: bytes) -> str:
    return _date_text(FieldCursor(_exactly(data, 4)).fixed_int())


def _time(data: bytes) -> str:
    return _time_text(FieldCursor(_exactly(data, 8)).fixed_int())


def _timestamp(data: bytes) -> str:
    cursor = FieldCursor(_exactly(data, 12))
    date, time, nanoseconds = cursor.fixed_int(), cursor.fixed_int(), cursor.fixed_int()
    if not 0 <= nanoseconds < 1_000_000_000:
        raise FormatError("a TIMESTAMP has an impossible fraction", found=str(nanoseconds))
    fraction = f"{nanoseconds:09}".rstrip("0") or "0"
    return f"{_date_text(date)} {_time_text(time)}.{fraction}"


def _date_text(number: int) -> str:
    year, month, day = number >> 16, number >> 8 & 0xFF, number & 0xFF
    if not (year > 0 and 1 <= month <= 12 and 1 <= day <= 31):
        raise FormatError("a date is impossible", found=f"{year}-{month}-{day}")
    return f"{year:04}-{month:02}-{day:02}"


def _time_text(number: int) -> str:
    hour, minute, second = number >> 16, number >> 8 & 0xFF, number & 0xFF
    if not (0 <= hour <= 24 and minute < 60 and second < 62):
        raise FormatError("a time is impossible", found=f"{hour}:{minute}:{second}")
    return f"{hour:02}:{minute:02}:{second:02}"


def _xml(data: bytes) -> str:
    cursor = FieldCursor(data)
    cursor.short()
    return decode_text(cursor.raw(cursor.remaining()))


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise FormatError("a value has another length", expected=plural(size, "byte"), found=plural(len(data), "byte"))
    return data


def _require_end(cursor: FieldCursor) -> None:
    if cursor.remaining():
        raise FormatError("bytes are left over after a value", found=plural(cursor.remaining(), "byte"))


_DECODERS: Final[dict[str, Callable[[bytes], SqlValue]]] = {
    "TINYINT": _number(1),
    "SMALLINT": _number(2),
    "INTEGER": _number(4),
    "BIGINT": _number(8),
    "REAL": _floating(_REAL),
    "DOUBLE": _floating(_DOUBLE),
    "DECIMAL": _decimal,
    "NUMERIC": _decimal,
    "BOOLEAN": _boolean,
    "DATE": _date,
    "TIME": _time,
    "TIMESTAMP": _timestamp,
    "CHAR": decode_text,
    "VARCHAR": decode_text,
    "LONG VARCHAR": decode_text,
    "CLOB": _clob,
    f"CHAR (){_BIT_DATA}": _bits,
    f"VARCHAR (){_BIT_DATA}": _bits,
    f"LONG VARCHAR{_BIT_DATA}": _bits,
    "BLOB": _bits,
    "XML": _xml,
}
