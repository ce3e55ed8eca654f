"""Objects written by Java serialization (protocol 2), read without their classes.

In a stream of JE's ``SerialBinding`` a class is given by its id in the class catalog, preceded by one byte of length;
any other stream contains the description of the class. Values are returned for JSON: an object has its class, its
fields, and the data written by the class's own ``writeObject`` (``extra``); wrappers of numbers become numbers, and
lists become lists. A reference to an earlier object is ``{"ref": number}``, so that cycles end and nothing is printed
twice.
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
# References may repeat a text, so the output is limited to this many times the input.
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
    """The description of a class in a stream; ``above`` is its serializable superclass, or None."""

    name: str
    flags: int
    fields: tuple[JavaField, ...]
    above: JavaClass | None

    def chain(self) -> list[JavaClass]:
        """The class and its superclasses, the class itself first. FormatError: the chain is too long."""
        found: list[JavaClass] = []
        one: JavaClass | None = self
        while one is not None:
            if len(found) == _DEEPEST:
                raise FormatError("class of a Java object", expected=f"{_DEEPEST} classes above it at most")
            found.append(one)
            one = one.above
        return found


class _Block(NamedTuple):
    """Block data that a class's own method wrote."""

    data: bytes


class _Seen(NamedTuple):
    """A reference to an earlier object."""

    number: int


def _letter(fields: Fields) -> str:
    number = fields.number(2, signed=False)
    # A lone surrogate cannot be printed.
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
        classes: descriptions by class catalog id; None if the stream contains them.

    Attributes:
        objects: the decoded value of each object, by its reference number.
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
        """The only object of the stream. FormatError, ValueError: there is no object, or more than one."""
        found = self._content()
        self._fields.finish()
        return found

    def description(self) -> JavaClass:
        """The class description that makes up the whole stream; errors as ``whole``."""
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
            # The class name of the field follows; skip it.
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
        """Data that the class's own method wrote, up to the end mark."""
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
        # Fields of a class come after those of its superclass.
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
        # A later reference to an enum constant is printed as its name.
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
    """The simplest JSON form of an object that loses none of its data; internals of wrappers, lists and maps are
    dropped.
    """
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
