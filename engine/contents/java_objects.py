"""Objects as Java's serialization writes them (protocol 2), read without their classes.

In a stream of JE's ``SerialBinding`` a class is the id that the class catalog gave it, one byte of length before it; in
any other stream its description stands there. Values come out as JSON has them: an object is its class, its fields, and
what its class wrote by a method of its own (``extra``); wrappers of numbers are numbers, lists are lists. A reference
to an object that was there before is ``{"ref": number}``, so that circles end and nothing grows.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from engine.contents.base import Allowance, Fields, Json, hexed, modified_utf8
from engine.errors import FormatError

STREAM_HEADER: Final = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS_DESC, _OBJECT, _STRING, _ARRAY, _CLASS, _BLOCK, _END = range(0x70, 0x79)
_LONG_BLOCK, _LONG_STRING, _PROXY, _ENUM = 0x7A, 0x7C, 0x7D, 0x7E
_FIRST_HANDLE: Final = 0x7E0000
_WRITE_METHOD, _SERIALIZABLE, _EXTERNALIZABLE, _BLOCK_DATA = 1, 2, 4, 8
_DEEPEST: Final = 60
# References may repeat a text: the output is limited to this many times the input.
_MOST_GROWTH: Final = 16
_LEAST_TEXT: Final = 1 << 16
_WRAPPERS: Final = frozenset(f"java.lang.{name}" for name in (
    "Boolean", "Byte", "Character", "Double", "Float", "Integer", "Long", "Short",
))  # fmt: skip
_DATE: Final = "java.util.Date"
_DATE_BYTES: Final = 8
_LISTS: Final = frozenset(
    ("java.util.ArrayList", "java.util.LinkedList", "java.util.HashSet", "java.util.LinkedHashSet")
)
_MAPS: Final = frozenset(("java.util.HashMap", "java.util.LinkedHashMap", "java.util.Hashtable", "java.util.TreeMap"))


class JavaField(NamedTuple):
    """A field: its name, and the letter of its type; ``L`` and ``[`` are objects."""

    name: str
    kind: str


class JavaClass(NamedTuple):
    """What a stream says of a class; ``above`` is the class that it extends, None for none that is serialized."""

    name: str
    flags: int
    fields: tuple[JavaField, ...]
    above: JavaClass | None

    def chain(self) -> list[JavaClass]:
        """The class and those above it, the lowest first. FormatError: there are more than a class of Java has."""
        found: list[JavaClass] = []
        one: JavaClass | None = self
        while one is not None:
            if len(found) == _DEEPEST:
                raise FormatError("class of a Java object", expected=f"{_DEEPEST} classes above it at most")
            found.append(one)
            one = one.above
        return found


class _Block(NamedTuple):
    """Bytes that a class wrote by itself."""

    data: bytes


class _Seen(NamedTuple):
    """An object that was there before."""

    number: int


def _letter(fields: Fields) -> str:
    number = fields.number(2, signed=False)
    # Half of a pair could not be printed.
    return chr(number) if not 0xD800 <= number < 0xE000 else f"\\u{number:04x}"


def _float(form: str, size: int) -> Callable[[Fields], Json]:
    def read(fields: Fields) -> Json:
        value: float = struct.unpack(form, fields.raw(size))[0]
        return value if math.isfinite(value) else str(value)

    return read


_PRIMITIVES: Final[dict[str, Callable[[Fields], Json]]] = {
    "B": lambda fields: fields.number(1),
    "C": _letter,
    "D": _float(">d", 8),
    "F": _float(">f", 4),
    "I": lambda fields: fields.number(4),
    "J": lambda fields: fields.number(8),
    "S": lambda fields: fields.number(2),
    "Z": lambda fields: fields.number(1) != 0,
}


class JavaReader:
    """Reads one stream.

    Arguments:
        data: the stream, without its header.
        classes: descriptions by the ids of a class catalog; None where the stream has them itself.

    Attributes:
        objects: what each object has become, by the number that references to it have.
    """

    def __init__(self, data: bytes, classes: Mapping[bytes, JavaClass] | None = None) -> None:
        self._fields = Fields(data)
        self._classes = classes
        self.objects: dict[int, Json] = {}
        self._handles: list[Any] = []
        self._depth = 0
        # A class is named once, and printed with each of its objects.
        self._names = Allowance(len(data))
        self._text_left = _MOST_GROWTH * len(data) + _LEAST_TEXT

    def whole(self) -> Json:
        """The one object of the stream. FormatError, ValueError: there is no object, or more than one."""
        found = self._content()
        self._fields.finish()
        return found

    def description(self) -> JavaClass:
        """The description of a class that is all of the stream; errors as ``whole``."""
        found = self._class()
        self._fields.finish()
        if found is None:
            raise FormatError("class of a class catalog", expected="a description", found="null")
        return found

    def _content(self) -> Json:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise FormatError("Java object", expected=f"a depth of {_DEEPEST} at most")
        code = self._fields.number(1, signed=False)
        reader = self._READERS.get(code)
        if reader is None:
            raise FormatError("Java object", expected="a known type code", found=f"{code:#04x}")
        found = reader(self)
        self._depth -= 1
        return found

    def _reference(self) -> Json:
        number = self._fields.number(4) - _FIRST_HANDLE
        if not 0 <= number < len(self._handles):
            raise FormatError("reference in a Java object", expected="an object before it", found=str(number))
        found = self._handles[number]
        if isinstance(found, str) and len(found) <= self._text_left:
            self._text_left -= len(found)
            return found
        return {"ref": number}

    def _string(self) -> str:
        return self._text(self._fields.number(2, signed=False))

    def _long_string(self) -> str:
        return self._text(self._fields.number(8, signed=False))

    def _text(self, length: int) -> str:
        found = modified_utf8(self._fields.raw(length))
        self._handles.append(found)
        return found

    def _utf(self) -> str:
        return modified_utf8(self._fields.raw(self._fields.number(2, signed=False)))

    def _class(self) -> JavaClass | None:
        code = self._fields.number(1, signed=False)
        if code == _NULL:
            return None
        if code == _REFERENCE:
            number = self._fields.number(4) - _FIRST_HANDLE
            found = self._handles[number] if 0 <= number < len(self._handles) else None
            if not isinstance(found, JavaClass):
                raise FormatError("class of a Java object", expected="a reference to a class")
            return found
        self._depth += 1
        if self._depth > _DEEPEST:
            raise FormatError("class of a Java object", expected=f"a depth of {_DEEPEST} at most")
        if code == _PROXY:
            found = self._proxy()
        elif code == _CLASS_DESC:
            found = self._described()
        else:
            raise FormatError("class of a Java object", expected="a description", found=f"{code:#04x}")
        self._depth -= 1
        return found

    def _described(self) -> JavaClass:
        fields = self._fields
        at = len(self._handles)
        if self._classes is not None:
            class_id = fields.raw(fields.number(1, signed=False))
            known = self._classes.get(class_id)
            if known is None:
                raise FormatError("class of a Java object", expected="one of the class catalog", found=class_id.hex())
            self._handles.append(known)
            name, flags, listed = known.name, known.flags, known.fields
        else:
            name = self._utf()
            fields.raw(8)
            self._handles.append(None)
            flags = fields.number(1, signed=False)
            listed = tuple(self._field() for _ in range(fields.number(2, signed=False)))
        self._annotations()
        found = JavaClass(name, flags, listed, self._class())
        found.chain()
        self._handles[at] = found
        return found

    def _field(self) -> JavaField:
        kind = self._fields.text(1)
        name = self._utf()
        if kind in "L[":
            # The name of its class.
            self._content()
        elif kind not in _PRIMITIVES:
            raise FormatError("field of a Java class", expected="a known type", found=kind)
        return JavaField(name, kind)

    def _proxy(self) -> JavaClass:
        at = len(self._handles)
        self._handles.append(None)
        count = self._fields.number(4, signed=False)
        if count > self._fields.left:
            raise FormatError("proxy class", expected=f"names of {count}", found=str(self._fields.left))
        names = [self._utf() for _ in range(count)]
        self._annotations()
        found = JavaClass(f"proxy of {', '.join(names)}", _SERIALIZABLE, (), self._class())
        found.chain()
        self._handles[at] = found
        return found

    def _annotations(self) -> list[Json]:
        """What a class wrote by itself, up to the mark of its end."""
        found: list[Json] = []
        while True:
            code = self._fields.number(1, signed=False)
            if code == _END:
                return found
            if code in (_BLOCK, _LONG_BLOCK):
                length = self._fields.number(1 if code == _BLOCK else 4, signed=False)
                found.append(_Block(self._fields.raw(length)))
            else:
                self._fields.at -= 1
                found.append(self._content())

    def _object(self) -> Json:
        described = self._class()
        if described is None:
            raise FormatError("Java object", expected="a class", found="null")
        number = len(self._handles)
        self._handles.append(_Seen(number))
        chain = described.chain()
        self._names.spend(len(described.name) + len(chain))
        found: dict[str, Json] = {}
        extra: list[Json] = []
        # Fields of a class come after those of the class that it extends.
        for level in reversed(chain):
            if level.flags & _EXTERNALIZABLE:
                if not level.flags & _BLOCK_DATA:
                    raise FormatError("externalizable Java object", expected="block data")
                extra += self._annotations()
                continue
            for field in level.fields:
                name = field.name if field.name not in found else f"{level.name}.{field.name}"
                self._names.spend(len(name))
                found[name] = self._value(field.kind)
            if level.flags & _WRITE_METHOD:
                extra += self._annotations()
        self.objects[number] = _plain(described.name, found, extra)
        return self.objects[number]

    def _value(self, kind: str) -> Json:
        read = _PRIMITIVES.get(kind)
        return read(self._fields) if read is not None else self._content()

    def _array(self) -> Json:
        described = self._class()
        if described is None or len(described.name) < 2:
            raise FormatError("Java array", expected="its class")
        number = len(self._handles)
        self._handles.append(_Seen(number))
        count, kind = self._fields.number(4), described.name[1]
        if not 0 <= count <= self._fields.left:
            raise FormatError("Java array", expected=f"{count} elements at most", found=str(self._fields.left))
        if kind == "B":
            return hexed(self._fields.raw(count))
        self.objects[number] = [self._value(kind) for _ in range(count)]
        return self.objects[number]

    def _enum(self) -> Json:
        self._class()
        at = len(self._handles)
        self._handles.append(None)
        name = self._content()
        # Said again, an enum is its name.
        self._handles[at] = name
        return name

    def _class_object(self) -> Json:
        described = self._class()
        self._handles.append(_Seen(len(self._handles)))
        self._names.spend(0 if described is None else len(described.name))
        return {"class": None if described is None else described.name}

    def _nothing(self) -> None:
        return None

    _READERS: Final[dict[int, Callable[[JavaReader], Json]]] = {
        _NULL: _nothing,
        _REFERENCE: _reference,
        _OBJECT: _object,
        _STRING: _string,
        _LONG_STRING: _long_string,
        _ARRAY: _array,
        _CLASS: _class_object,
        _ENUM: _enum,
    }


def _plain(name: str, fields: dict[str, Json], extra: list[Json]) -> Json:
    """An object as simply as can be said without losing anything that is not the class's own business."""
    items = [one for one in extra if not isinstance(one, _Block)]
    if name in _WRAPPERS and list(fields) == ["value"]:
        return fields["value"]
    if name in _LISTS:
        return items
    if name in _MAPS and len(items) % 2 == 0:
        return {"class": name, "entries": [list(pair) for pair in zip(items[::2], items[1::2], strict=True)]}
    found = {"class": name, **fields}
    if name == _DATE and len(extra) == 1 and isinstance(extra[0], _Block) and len(extra[0].data) == _DATE_BYTES:
        return {**found, "time_ms": int.from_bytes(extra[0].data, "big", signed=True)}
    if extra:
        found["extra"] = [hexed(one.data) if isinstance(one, _Block) else one for one in extra]
    return found
