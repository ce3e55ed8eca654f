r"""Values of several columns: JSON objects, MessagePack maps, Avro records.

========  ==========================================================================================
format    a record of ``name = "ann", age = 7, note = null``
========  ==========================================================================================
json      ``{"name":"ann","age":7,"note":null}``
msgpack   ``83 a4 6e 61 6d 65 a3 61 6e 6e a3 61 67 65 07 a4 6e 6f 74 65 c0``
avro      ``02 06 61 6e 6e 02 0e 00``: every field is a union of null and its type; ``avro_schema`` says which
========  ==========================================================================================

Bytes are base64 in JSON; dates, times and decimals are text in all three.
"""

from __future__ import annotations

import base64
import datetime
import json
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

_AVRO_NULL, _AVRO_THERE = b"\0", b"\x02"


def encoder(value_format: str, schema: Any) -> Callable[[dict[str, Any]], bytes]:
    """Encodes a record as bytes.

    Arguments:
        value_format: ``json``, ``msgpack`` or ``avro``.
        schema: Arrow schema of the value's columns.
    """
    if value_format == "json":
        return to_json
    if value_format == "msgpack":
        return pack
    # Avro values carry no names, so they follow the order of the schema.
    kinds = [(field.name, _avro_type(field.type)) for field in schema]
    return lambda record: b"".join(_avro_field(record[name], kind) for name, kind in kinds)


def to_json(record: dict[str, Any]) -> bytes:
    """A JSON object, without blanks, in UTF-8."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=_plain).encode("utf-8", "replace")


def avro_schema(schema: Any) -> str:
    """The Avro schema of values, as JSON.

    Arguments:
        schema: Arrow schema of their columns.
    """
    fields = [{"name": field.name, "type": ["null", _avro_type(field.type)]} for field in schema]
    return json.dumps({"type": "record", "name": "value", "fields": fields}, separators=(",", ":"))


def pack(value: Any) -> bytes:
    """A value in MessagePack."""
    if value is None:
        return b"\xc0"
    # Test for bool before int: in Python a bool is an int.
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return _packed_int(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return _head(len(value), None, (b"\xc4", b"\xc5", b"\xc6")) + value
    if isinstance(value, dict):
        items = b"".join(pack(key) + pack(item) for key, item in value.items())
        return _head(len(value), (0x80, 15), (None, b"\xde", b"\xdf")) + items
    if isinstance(value, list | tuple):
        return _head(len(value), (0x90, 15), (None, b"\xdc", b"\xdd")) + b"".join(map(pack, value))
    text = (value if isinstance(value, str) else str(_plain(value))).encode("utf-8", "replace")
    return _head(len(text), (0xA0, 31), (b"\xd9", b"\xda", b"\xdb")) + text


def _head(length: int, fixed: tuple[int, int] | None, leads: tuple[bytes | None, bytes, bytes]) -> bytes:
    if fixed is not None and length <= fixed[1]:
        return bytes((fixed[0] | length,))
    if leads[0] is not None and length < 1 << 8:
        return leads[0] + bytes((length,))
    if length < 1 << 16:
        return leads[1] + struct.pack(">H", length)
    return leads[2] + struct.pack(">I", length)


def _packed_int(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b" if value < 0 else ">B", value)
    for lead, layout, low, high in _INTS:
        if low <= value < high:
            return bytes((lead,)) + struct.pack(layout, value)
    # MessagePack has no integers beyond 64 bits.
    return pack(str(value))


def _plain(value: Any) -> Any:
    """Convert values without a JSON form to text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Decimal | datetime.timedelta):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _avro_type(kind: Any) -> str:
    from pyarrow import types

    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind):
        return "long"
    if types.is_floating(kind):
        return "double"
    return "bytes" if types.is_binary(kind) or types.is_large_binary(kind) else "string"


def _avro_field(value: Any, kind: str) -> bytes:
    if value is None:
        return _AVRO_NULL
    if kind == "boolean":
        return _AVRO_THERE + bytes((bool(value),))
    if kind == "long":
        return _AVRO_THERE + _zigzag(value)
    if kind == "double":
        return _AVRO_THERE + struct.pack("<d", value)
    if kind == "string":
        nested = isinstance(value, dict | list)
        text = value if isinstance(value, str) else to_json(value).decode() if nested else str(_plain(value))
        value = text.encode("utf-8", "replace")
    return b"".join((_AVRO_THERE, _zigzag(len(value)), value))


def _zigzag(value: int) -> bytes:
    # The shift of a negative number is arithmetic, so this is Avro's zigzag for all of 64 bits.
    left = (value << 1) ^ (value >> 63)
    parts = bytearray()
    while left > 0x7F:
        parts.append(left & 0x7F | 0x80)
        left >>= 7
    parts.append(left)
    return bytes(parts)


_INTS: Final = (
    (0xCC, ">B", 0, 1 << 8),
    (0xCD, ">H", 0, 1 << 16),
    (0xCE, ">I", 0, 1 << 32),
    (0xCF, ">Q", 0, 1 << 64),
    (0xD0, ">b", -(1 << 7), 0),
    (0xD1, ">h", -(1 << 15), 0),
    (0xD2, ">i", -(1 << 31), 0),
    (0xD3, ">q", -(1 << 63), 0),
)
