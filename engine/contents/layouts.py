"""Fixed binary structures as values: parts that read one field each, and parts made of parts.

Frontends wrote their journals by Java's ``DataOutput`` before they wrote JSON: numbers big-endian, a text with its
length before it, a list with its count. A **part** reads one such field from ``Fields`` and returns a value for JSON:

    replica = record(tabletId=int64, bad=flag, hosts=many(text))
    replica(Fields(data))                      # {"tabletId": 10001, "bad": False, "hosts": ["be1"]}

A part raises FormatError or ValueError where the bytes have another form, so that a caller can try one layout after
another: a byte that is neither 0 nor 1 is no ``flag``, a text that does not parse is no ``document``. A part reads at
least one byte, and a count is compared with the bytes that are left: work and result are bounded by the payload.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from engine.contents.base import Fields, Json, parse_json
from engine.errors import FormatError

Part: TypeAlias = Callable[[Fields], Json]

# Bytes of the length before a text.
LENGTH_BYTES: Final = 4
_DOUBLE: Final = struct.Struct(">d")


def int64(fields: Fields) -> Json:
    """A long."""
    return fields.number(8)


def int32(fields: Fields) -> Json:
    """An int."""
    return fields.number(4)


def int16(fields: Fields) -> Json:
    """A short."""
    return fields.number(2)


def flag(fields: Fields) -> Json:
    """A boolean: one byte, 0 or 1."""
    byte = fields.number(1)
    if byte not in (0, 1):
        raise FormatError("field of a record", expected="a boolean, 0 or 1", found=f"{byte}")
    return bool(byte)


def double(fields: Fields) -> Json:
    """A double. FormatError: infinite or not a number, for which JSON has no form."""
    (value,) = _DOUBLE.unpack(fields.raw(8))
    if not -float("inf") < value < float("inf"):
        raise FormatError("field of a record", expected="a finite double", found=f"{value}")
    return value


def text(fields: Fields) -> Json:
    """A text: its length in bytes, and UTF-8."""
    return fields.text(fields.number(4))


def document(fields: Fields) -> Json:
    """A text that is a JSON object or array."""
    raw = fields.raw(fields.number(LENGTH_BYTES))
    if raw[:1] not in (b"{", b"["):
        raise FormatError("field of a record", expected="a JSON object or array")
    return parse_json(raw)


def optional(part: Part) -> Part:
    """A boolean, and the part if it is true; otherwise None."""
    return lambda fields: part(fields) if flag(fields) else None


def absent(part: Part) -> Part:
    """A boolean, and the part if it is false; otherwise None."""
    return lambda fields: None if flag(fields) else part(fields)


def many(part: Part, count: Part = int32) -> Part:
    """A count, and as many parts."""

    def read(fields: Fields) -> Json:
        number = count(fields)
        if not 0 <= number <= fields.left:
            raise FormatError("field of a record", expected=f"a count up to {fields.left}", found=f"{number}")
        return [part(fields) for _ in range(number)]

    return read


def nothing(fields: Fields) -> Json:
    """The count of an empty list. FormatError: the list has elements, whose layout is not known."""
    if int32(fields):
        raise FormatError("field of a record", expected="an empty list")
    return []


def properties(fields: Fields) -> Json:
    """A count, and as many pairs of texts: name and value."""
    return dict(many(lambda one: (text(one), text(one)))(fields))


def record(**parts: Part) -> Part:
    """Named parts, one after the other."""
    return lambda fields: {name: part(fields) for name, part in parts.items()}


def each(part: Part, names: str) -> dict[str, Part]:
    """The same part for each of these names, which are separated by spaces: arguments of ``record``."""
    return dict.fromkeys(names.split(), part)


def joined(*parts: Part) -> Part:
    """Records, one after the other, as one."""
    return lambda fields: {name: value for part in parts for name, value in part(fields).items()}


def named(words: str) -> Part:
    """An int that stands for a name, counted from 0; an int beyond the names stays a number."""
    names = words.split()

    def read(fields: Fields) -> Json:
        number = int32(fields)
        return names[number] if 0 <= number < len(names) else number

    return read


def tagged(name: str, choices: Mapping[str, Part]) -> Part:
    """A text that names the layout of the record after it. FormatError: a name without a layout."""

    def read(fields: Fields) -> Json:
        chosen = text(fields)
        if chosen not in choices:
            raise FormatError("field of a record", expected=f"a known {name}")
        return {name: chosen, **choices[chosen](fields)}

    return read
