"""Entity stores of JE's Direct Persistence Layer: entities and their indexes, by the formats of the store's catalog.

Databases are called ``persist#STORE#CLASS`` and ``persist#STORE#CLASS#KEY`` (a secondary index); the catalog,
``persist#STORE#com.sleepycat.persist.formats``, has one record, a Java object with the list of formats. A record begins
with the number of its format; then come the secondary keys and the other fields, each of the class above before those
of the class itself, in the order of the format. What stands in a field depends on its declared type: primitives and
texts as tuple bindings write them, other objects with the number of their own format before them, 0 for null, a
negative number for an object that stands earlier in the record.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.contents.base import DecodedRecord, Fields, Json, Source, hexed, modified_utf8, unknown
from engine.contents.java_objects import STREAM_HEADER, JavaReader
from engine.errors import FormatError
from engine.format.bytecursor import unpack

_PREFIX: Final = "persist#"
_CATALOG: Final = "com.sleepycat.persist.formats"
_IMPL: Final = "com.sleepycat.persist.impl."
_DEEPEST: Final = 60
_STRING: Final = "java.lang.String"


class StoreDatabase(NamedTuple):
    """The name of a database: the store, the class, the secondary key (None: the primary index)."""

    store: str
    entity: str
    key: str | None


class ClassField(NamedTuple):
    """A field of a format: its name, and its declared class."""

    name: str
    declared: str


class ClassFormat(NamedTuple):
    """A format of a catalog.

    Attributes:
        kind: the class of the format, without its package.
        name: the class that it is of.
        keys, fields: secondary keys and other fields.
        above: number of the format of the class above; None without one.
        proxy: number of the format of the proxy; None without one.
        names: of the constants of an enum.
        primary: field of the primary key; None where the class has none.
        direct_texts: texts stand in fields without a number.
    """

    kind: str
    name: str
    keys: tuple[ClassField, ...]
    fields: tuple[ClassField, ...]
    above: int | None
    proxy: int | None
    names: tuple[str, ...]
    primary: ClassField | None
    direct_texts: bool


def _float(form: str, size: int) -> Callable[[Fields], Json]:
    """A sortable float: all bits of a negative one are flipped, of another one the sign alone."""

    def read(fields: Fields) -> Json:
        bits, sign = fields.number(size, signed=False), 1 << (8 * size - 1)
        bits = bits ^ sign if bits & sign else ~bits & (2 * sign - 1)
        value: float = struct.unpack(form, bits.to_bytes(size, "big"))[0]
        return value if value - value == 0 else str(value)

    return read


def _text(fields: Fields) -> str | None:
    found = fields.until(0)
    return None if found == b"\xff" else modified_utf8(found)


def _character(fields: Fields) -> Json:
    number = fields.number(2, signed=False)
    return chr(number) if not 0xD800 <= number < 0xE000 else number


_SIMPLE: Final[dict[str, Callable[[Fields], Json]]] = {
    "FBool": lambda fields: fields.number(1) != 0,
    "FByte": lambda fields: fields.sortable(1),
    "FChar": _character,
    "FDate": lambda fields: {"time_ms": fields.sortable(8)},
    "FDouble": _float(">d", 8),
    "FFloat": _float(">f", 4),
    "FInt": lambda fields: fields.sortable(4),
    "FLong": lambda fields: fields.sortable(8),
    "FShort": lambda fields: fields.sortable(2),
    "FString": _text,
}
_PRIMITIVES: Final = {
    "boolean": "FBool", "byte": "FByte", "char": "FChar", "double": "FDouble", "float": "FFloat", "int": "FInt",
    "long": "FLong", "short": "FShort",
}  # fmt: skip
_KEYS: Final = _PRIMITIVES | {
    "java.lang.Boolean": "FBool", "java.lang.Byte": "FByte", "java.lang.Character": "FChar",
    "java.lang.Double": "FDouble", "java.lang.Float": "FFloat", "java.lang.Integer": "FInt", "java.lang.Long": "FLong",
    "java.lang.Short": "FShort", "java.util.Date": "FDate", _STRING: "FString",
}  # fmt: skip


def store_database(name: str) -> StoreDatabase | None:
    """The parts of a name; None for a database of no store."""
    parts = name.removeprefix(_PREFIX).split("#") if name.startswith(_PREFIX) else []
    return StoreDatabase(parts[0], parts[1], parts[2] if len(parts) == 3 else None) if len(parts) in (2, 3) else None


def formats_of(value: bytes) -> dict[int, ClassFormat]:
    """The formats of a catalog by number. FormatError, ValueError: it is none."""
    reader = JavaReader(value.removeprefix(STREAM_HEADER))
    data = reader.whole()
    objects = reader.objects

    def meant(one: Json) -> Json:
        return objects.get(one["ref"]) if isinstance(one, dict) and list(one) == ["ref"] else one

    def number(one: Json) -> int | None:
        found = meant(one)
        return found.get("id") if isinstance(found, dict) else None

    def fields(found: Iterable[Json] | None) -> tuple[ClassField, ...]:
        listed = [meant(one) for one in found or ()]
        return tuple(ClassField(str(one["name"]), str(one["className"])) for one in listed)

    formats: dict[int, ClassFormat] = {}
    for one in map(meant, data["formatList"]):
        if not isinstance(one, dict):
            continue
        primary = meant(one.get("priKeyField"))
        formats[one["id"]] = ClassFormat(
            kind=str(one["class"]).removeprefix(_IMPL),
            name=str(one["className"]),
            keys=fields(meant(one.get("secKeyFields"))),
            fields=fields(meant(one.get("nonKeyFields"))),
            above=number(one.get("superFormat")),
            proxy=number(one.get("proxyFormat")),
            names=tuple(str(name) for name in meant(one.get("names")) or ()),
            primary=fields([primary])[0] if primary is not None else None,
            direct_texts=bool(one.get("newStringFormat")),
        )
    return formats


class _Reader:
    """Reads one record."""

    def __init__(self, data: bytes, formats: Mapping[int, ClassFormat]) -> None:
        self._fields = Fields(data)
        self._formats = formats
        self._depth = 0

    def entity(self) -> Json:
        """The whole record."""
        found = self._of(self._format(self._packed()))
        self._fields.finish()
        return found

    def _packed(self) -> int:
        if not self._fields.left:
            raise FormatError("record of an entity store", expected="a number", found="its end")
        value, self._fields.at = unpack(self._fields.data, self._fields.at)
        return value

    def _format(self, number: int) -> ClassFormat:
        found = self._formats.get(number)
        if found is None:
            raise FormatError("record of an entity store", expected="a format of its catalog", found=str(number))
        return found

    def _object(self) -> Json:
        """An object with the number of its format before it."""
        number = self._packed()
        if number == 0:
            return None
        return {"ref": -number - 1} if number < 0 else self._of(self._format(number))

    def _of(self, one: ClassFormat) -> Json:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise FormatError("record of an entity store", expected=f"a depth of {_DEEPEST} at most")
        found = self._content(one)
        self._depth -= 1
        return found

    def _content(self, one: ClassFormat) -> Json:
        simple = _SIMPLE.get(one.kind.removeprefix("SimpleFormat$"))
        if simple is not None:
            return simple(self._fields)
        if one.kind == "ComplexFormat":
            return {"class": one.name, **self._complex(one)}
        if one.kind == "EnumFormat":
            at = self._packed()
            return one.names[at] if 0 <= at < len(one.names) else {"constant": at}
        if one.kind == "PrimitiveArrayFormat":
            read = _SIMPLE[_LETTERS.get(one.name, "")]
            found = [read(self._fields) for _ in range(self._count())]
            return hexed(bytes(byte & 0xFF for byte in found)) if one.name == "[B" else found
        if one.kind == "ObjectArrayFormat":
            # Texts need no number: nothing else can stand there.
            texts = one.name == _TEXT_ARRAY
            return [_text(self._fields) if texts else self._object() for _ in range(self._count())]
        if one.kind == "ProxiedFormat":
            return self._proxied(one)
        raise FormatError("record of an entity store", expected="a known kind of format", found=one.kind)

    def _count(self) -> int:
        """A number of things, each of which takes a byte at least."""
        count = self._packed()
        if not 0 <= count <= self._fields.left:
            raise FormatError("array in an entity", expected=f"{self._fields.left} at most", found=str(count))
        return count

    def _proxied(self, one: ClassFormat) -> Json:
        """An object of a class of Java's, by its proxy: that of a collection has elements, that of a map two lists."""
        if one.proxy is None:
            raise FormatError("record of an entity store", expected="a proxy", found=one.name)
        found = self._complex(self._format(one.proxy))
        if list(found) == ["elements"]:
            return found["elements"]
        keys, values = found.get("keys"), found.get("values")
        if set(found) == {"keys", "values"} and isinstance(keys, list) and isinstance(values, list):
            return {"entries": [list(pair) for pair in zip(keys, values, strict=False)]}
        return {"class": one.name, **found}

    def _complex(self, one: ClassFormat) -> dict[str, Json]:
        chain = [one]
        while chain[-1].above is not None and len(chain) < _DEEPEST:
            above = self._formats.get(chain[-1].above)
            if above is None or above.kind != "ComplexFormat":
                break
            chain.append(above)
        found: dict[str, Json] = {}
        for level in reversed(chain):
            for field in level.keys:
                found[field.name] = self._key(field.declared, level)
        for level in reversed(chain):
            for field in level.fields:
                found[field.name] = self._value(field.declared, level)
        return found

    def _key(self, declared: str, level: ClassFormat) -> Json:
        if declared in _PRIMITIVES or (declared == _STRING and level.direct_texts):
            return self._value(declared, level)
        return self._object()

    def _value(self, declared: str, level: ClassFormat) -> Json:
        kind = _PRIMITIVES.get(declared)
        if kind is not None:
            return _SIMPLE[kind](self._fields)
        if declared == _STRING and level.direct_texts:
            return _text(self._fields)
        return self._object()


# Arrays of primitives, as Java names their classes.
_LETTERS: Final = {
    "[Z": "FBool", "[B": "FByte", "[C": "FChar", "[D": "FDouble", "[F": "FFloat", "[I": "FInt", "[J": "FLong",
    "[S": "FShort",
}  # fmt: skip
_TEXT_ARRAY: Final = "[Ljava.lang.String;"


@dataclass(frozen=True, slots=True)
class StoreDecoder:
    """Records of the stores of an environment; formats by store."""

    stores: Mapping[str, Mapping[int, ClassFormat]]

    def decode(self, database: str, key: bytes, data: bytes) -> DecodedRecord:
        """An entity, or an entry of a secondary index."""
        place = store_database(database)
        if place is None or place.store not in self.stores or place.entity == _CATALOG:
            return unknown(key, data)
        formats = self.stores[place.store]
        # The newest version of the class says what its keys are.
        newest = max((number for number, one in formats.items() if one.name == place.entity), default=None)
        one = formats[newest] if newest is not None else None
        primary = one.primary if one is not None else None
        if place.key is None:
            shown, known = _key_value(primary, key)
            return DecodedRecord(shown, _Reader(data, formats).entity(), known)
        wanted = next((field for field in one.keys if field.name == place.key), None) if one is not None else None
        (shown, known), (leads_to, also) = _key_value(wanted, key), _key_value(primary, data)
        return DecodedRecord(shown, {"primary": leads_to}, known and also)


def _key_value(field: ClassField | None, key: bytes) -> tuple[Json, bool]:
    """A key of a simple type; others are bytes."""
    kind = _KEYS.get(field.declared) if field is not None else None
    if field is None or kind is None:
        return hexed(key), False
    fields = Fields(key)
    found = {field.name: _SIMPLE[kind](fields)}
    fields.finish()
    return found, True


class StoreContents:
    """The kind of contents."""

    name = "dpl"
    title = "entity store (Direct Persistence Layer)"

    def recognises(self, source: Source) -> bool:
        """By a catalog of formats."""
        return any(place.entity == _CATALOG for name in source.names if (place := store_database(name)) is not None)

    def decoder(self, source: Source) -> StoreDecoder:
        """With the formats of all stores; a catalog that cannot be read leaves its store as it is."""
        stores: dict[str, dict[int, ClassFormat]] = {}
        for name in source.names:
            place = store_database(name)
            if place is None or place.entity != _CATALOG:
                continue
            for _, value in source.records(name, 16):
                try:
                    stores[place.store] = formats_of(value)
                except (FormatError, ValueError, LookupError, TypeError, AttributeError):
                    # Whatever is wrong with a catalog of others: its store is then not known.
                    continue
        return StoreDecoder(stores)


DPL: Final = StoreContents()
