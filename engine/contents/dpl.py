"""Entity stores of JE's Direct Persistence Layer: entities and their indexes, by the formats of the store's catalog.

Databases are called ``persist#STORE#CLASS`` and ``persist#STORE#CLASS#KEY`` (a secondary index); the catalog,
``persist#STORE#com.sleepycat.persist.formats``, has one record, a Java object with the list of formats. A record begins
with the number of its format; then come the secondary keys and then the other fields, in the order of the format; in
each group, fields of the superclass come first. The content of a field depends on its declared type. Primitives and
texts are written by tuple bindings (``bindings``). Other objects are preceded by the number of their format; 0 is null,
and a negative number refers to an object earlier in the record. A key has no format numbers: it is a simple value, the
ordinal of an enum, or the fields of a composite key in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.contents.base import Allowance, DecodedRecord, Fields, Json, Source, hexed, unknown
from engine.contents.bindings import PRIMITIVES, SIMPLE, SIMPLE_CLASSES, text
from engine.contents.java_objects import STREAM_HEADER, JavaReader
from engine.errors import FormatError
from engine.format.bytecursor import unpack
from engine.format.sequence_record import decode_sequence

_PREFIX: Final = "persist#"
_CATALOG: Final = "com.sleepycat.persist.formats"
_IMPL: Final = "com.sleepycat.persist.impl."
_DEEPEST: Final = 60
_STRING: Final = "java.lang.String"
_COMPOSITE: Final = "CompositeKeyFormat"
_ENUM: Final = "EnumFormat"
_KEY_KINDS: Final = (_COMPOSITE, _ENUM)
_SEQUENCES: Final = "com.sleepycat.persist.sequences"
# Texts up to this length are repeated; longer ones become references, so that the output stays in proportion to the
# record.
_LONGEST_REPEATED: Final = 40


class StoreDatabase(NamedTuple):
    """The parts of a database name: the store, the class, the secondary key (None: the primary index)."""

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
        name: the class that the format describes.
        keys, fields: secondary keys and other fields; for a composite key, ``fields`` has all fields.
        above: format number of the superclass; None if there is no superclass.
        proxy: format number of the proxy; None if there is no proxy.
        names: names of the constants of an enum.
        primary: field of the primary key; None if the class has no primary key.
        direct_texts: whether fields hold texts without a format number.
        indexes: secondary keys of an entity class and its subclasses, with the types that their indexes hold.
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
    indexes: tuple[ClassField, ...]


@dataclass(frozen=True, slots=True)
class StoreFormats:
    """The formats of a store.

    Attributes:
        by_number: as records refer to them.
        newest: the newest version of each class, which defines its keys.
    """

    by_number: Mapping[int, ClassFormat]
    newest: Mapping[str, ClassFormat]

    @classmethod
    def of(cls, by_number: Mapping[int, ClassFormat]) -> StoreFormats:
        """The formats of a catalog."""
        return cls(by_number, {by_number[number].name: by_number[number] for number in sorted(by_number)})


def store_database(name: str) -> StoreDatabase | None:
    """The parts of a database name; None if the database belongs to no store."""
    parts = name.removeprefix(_PREFIX).split("#") if name.startswith(_PREFIX) else []
    return StoreDatabase(parts[0], parts[1], parts[2] if len(parts) == 3 else None) if len(parts) in (2, 3) else None


def formats_of(value: bytes) -> dict[int, ClassFormat]:
    """The formats of a catalog by number. FormatError, ValueError: the bytes are not a catalog."""
    reader = JavaReader(value.removeprefix(STREAM_HEADER))
    data = reader.whole()
    try:
        return _formats(data, reader.objects)
    # The bytes are valid Java objects, but not a catalog.
    except (AttributeError, KeyError, TypeError) as error:
        raise FormatError("a catalog of entity classes", expected="its objects", found=str(error)[:80]) from error


def _formats(data: Json, objects: Mapping[int, Json]) -> dict[int, ClassFormat]:

    def meant(one: Json) -> Json:
        return objects.get(one["ref"]) if isinstance(one, dict) and list(one) == ["ref"] else one

    def number(one: Json) -> int | None:
        found = meant(one)
        return found.get("id") if isinstance(found, dict) else None

    def fields(found: Iterable[Json] | None) -> tuple[ClassField, ...]:
        listed = [meant(one) for one in found or ()]
        return tuple(ClassField(str(one["name"]), str(one["className"])) for one in listed)

    def indexes(entity: Json) -> Iterator[ClassField]:
        """The secondary keys of an entity class: their map may be wrapped in an unmodifiable map."""
        found = meant(entity["secondaryKeys"]) if isinstance(entity, dict) else None
        inner = meant(found.get("m")) if isinstance(found, dict) and "m" in found else found
        for name, key in inner["entries"] if isinstance(inner, dict) else ():
            # An index on a field of many values has one record for each value, so its keys have the element type.
            described = meant(key)
            yield ClassField(str(name), str(described["elementClassName"] or described["className"]))

    formats: dict[int, ClassFormat] = {}
    for one in map(meant, data["formatList"]):
        if not isinstance(one, dict):
            continue
        primary = meant(one.get("priKeyField"))
        formats[one["id"]] = ClassFormat(
            kind=str(one["class"]).removeprefix(_IMPL),
            name=str(one["className"]),
            keys=fields(meant(one.get("secKeyFields"))),
            fields=fields(meant(one.get("nonKeyFields")) or meant(one.get("fields"))),
            above=number(one.get("superFormat")),
            proxy=number(one.get("proxyFormat")),
            names=tuple(str(name) for name in meant(one.get("names")) or ()),
            primary=fields([primary])[0] if primary is not None else None,
            direct_texts=bool(one.get("newStringFormat")),
            indexes=tuple(indexes(meant(one.get("entityMeta")))),
        )
    return formats


class _Reader:
    """Reads one record."""

    def __init__(self, data: bytes, formats: StoreFormats) -> None:
        self._fields = Fields(data)
        self._formats = formats
        # Limit the output: a damaged catalog may have very long class names, or composite keys whose fields take no
        # bytes.
        self._allowance = Allowance(len(data))
        self._depth = 0
        # Objects by their offsets, and the offsets that something refers to.
        self._seen: dict[int, Json] = {}
        self._meant: set[int] = set()

    def entity(self) -> Json:
        """The whole record."""
        found = self._object()
        self._fields.finish()
        return found

    def key(self, declared: str) -> Json:
        """A whole key of a declared class."""
        found = self._simple_key(declared)
        self._fields.finish()
        return found

    def _simple_key(self, declared: str) -> Json:
        kind = SIMPLE_CLASSES.get(declared)
        if kind is not None:
            return SIMPLE[kind](self._fields)
        one = self._formats.newest.get(declared)
        if one is None or one.kind not in _KEY_KINDS:
            raise FormatError("key of an entity store", expected="a class of keys", found=declared)
        return self._of(one)

    def _packed(self) -> int:
        if not self._fields.left:
            raise FormatError("record of an entity store", expected="a number", found="its end")
        value, self._fields.at = unpack(self._fields.data, self._fields.at)
        return value

    def _format(self, number: int) -> ClassFormat:
        found = self._formats.by_number.get(number)
        if found is None:
            raise FormatError("record of an entity store", expected="a format of its catalog", found=str(number))
        return found

    def _object(self) -> Json:
        """An object preceded by its format number; a ``ref`` equals the ``at`` of an earlier object."""
        start = self._fields.at
        number = self._packed()
        if number == 0:
            return None
        if number < 0:
            return self._again(-number - 1)
        found = self._seen[start] = self._of(self._format(number))
        if start in self._meant:
            _place(found, start)
        return found

    def _again(self, start: int) -> Json:
        found = self._seen.get(start)
        if found is not None and not isinstance(found, (dict, list)) and len(str(found)) <= _LONGEST_REPEATED:
            return found
        self._meant.add(start)
        _place(found, start)
        return {"ref": start}

    def _of(self, one: ClassFormat) -> Json:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise FormatError("record of an entity store", expected=f"a depth of {_DEEPEST} at most")
        self._allowance.spend(len(one.name) + 1)
        found = self._content(one)
        self._depth -= 1
        return found

    def _content(self, one: ClassFormat) -> Json:
        simple = SIMPLE.get(one.kind.removeprefix("SimpleFormat$"))
        if simple is not None:
            return simple(self._fields)
        if one.kind == "ComplexFormat":
            return {"class": one.name, **self._complex(one)}
        if one.kind == _COMPOSITE:
            return {"class": one.name, **{self._name(field): self._simple_key(field.declared) for field in one.fields}}
        if one.kind == _ENUM:
            at = self._packed()
            if not 0 <= at < len(one.names):
                return {"constant": at}
            self._allowance.spend(len(one.names[at]))
            return one.names[at]
        if one.kind == "PrimitiveArrayFormat":
            read = SIMPLE[_LETTERS.get(one.name, "")]
            found = [read(self._fields) for _ in range(self._count())]
            return hexed(bytes(byte & 0xFF for byte in found)) if one.name == "[B" else found
        if one.kind == "ObjectArrayFormat":
            # Elements of a text array need no format number: they are all texts.
            texts = one.name == _TEXT_ARRAY
            return [text(self._fields) if texts else self._object() for _ in range(self._count())]
        if one.kind == "ProxiedFormat":
            return self._proxied(one)
        raise FormatError("record of an entity store", expected="a known kind of format", found=one.kind)

    def _count(self) -> int:
        """A count of elements that take at least a byte each."""
        count = self._packed()
        if not 0 <= count <= self._fields.left:
            raise FormatError("array in an entity", expected=f"{self._fields.left} at most", found=str(count))
        return count

    def _proxied(self, one: ClassFormat) -> Json:
        """An object of a JDK class, read through its proxy: for a collection its elements, for a map two lists."""
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
            above = self._formats.by_number.get(chain[-1].above)
            if above is None or above.kind != "ComplexFormat":
                break
            chain.append(above)
        found: dict[str, Json] = {}
        for level in reversed(chain):
            for field in level.keys:
                found[self._name(field)] = self._key(field.declared, level)
        for level in reversed(chain):
            for field in level.fields:
                found[self._name(field)] = self._value(field.declared, level)
        return found

    def _name(self, field: ClassField) -> str:
        self._allowance.spend(len(field.name))
        return field.name

    def _key(self, declared: str, level: ClassFormat) -> Json:
        if declared in PRIMITIVES or (declared == _STRING and level.direct_texts):
            return self._value(declared, level)
        return self._object()

    def _value(self, declared: str, level: ClassFormat) -> Json:
        kind = PRIMITIVES.get(declared)
        if kind is not None:
            return SIMPLE[kind](self._fields)
        if declared == _STRING and level.direct_texts:
            return text(self._fields)
        return self._object()


def _place(found: Json, start: int) -> None:
    """Record the offset of an object that another object refers to."""
    if isinstance(found, dict):
        found.setdefault("at", start)


# Arrays of primitives, as Java names their classes.
_LETTERS: Final = {
    "[Z": "FBool",
    "[B": "FByte",
    "[C": "FChar",
    "[D": "FDouble",
    "[F": "FFloat",
    "[I": "FInt",
    "[J": "FLong",
    "[S": "FShort",
}
_TEXT_ARRAY: Final = "[Ljava.lang.String;"


@dataclass(frozen=True, slots=True)
class StoreDecoder:
    """Records of the stores of an environment; formats by store."""

    stores: Mapping[str, StoreFormats]

    def decode(self, database: str, key: bytes, data: bytes) -> DecodedRecord:
        """An entity, or an entry of a secondary index."""
        place = store_database(database)
        if place is not None and place.entity == _SEQUENCES:
            return _sequence(key, data)
        if place is not None and place.entity == _CATALOG:
            found = [{"id": number, "class": one.name, "kind": one.kind} for number, one in formats_of(data).items()]
            return DecodedRecord({"catalog": place.store}, {"formats": found}, True)
        if place is None or place.store not in self.stores:
            return unknown(key, data)
        formats = self.stores[place.store]
        one = formats.newest.get(place.entity)
        primary = one.primary if one is not None else None
        if place.key is None:
            shown, known = _key_value(primary, key, formats)
            return DecodedRecord(shown, _Reader(data, formats).entity(), known)
        keys = (*one.indexes, *one.keys) if one is not None else ()
        wanted = next((field for field in keys if field.name == place.key), None)
        shown, known = _key_value(wanted, key, formats)
        leads_to, also = _key_value(primary, data, formats)
        return DecodedRecord(shown, {"primary": leads_to}, known and also)


def _sequence(key: bytes, data: bytes) -> DecodedRecord:
    """A sequence that gives primary keys, by its name."""
    fields = Fields(key)
    name = text(fields)
    fields.finish()
    return DecodedRecord({"sequence": name}, decode_sequence(data)._asdict(), True)


def _key_value(field: ClassField | None, key: bytes, formats: StoreFormats) -> tuple[Json, bool]:
    """A key, decoded by the declared type of its field; as hex if there is no declaration."""
    if field is None:
        return hexed(key), False
    return {field.name: _Reader(key, formats).key(field.declared)}, True


class StoreContents:
    """The kind of contents."""

    name = "dpl"
    title = "entity store (Direct Persistence Layer)"

    def recognises(self, source: Source) -> bool:
        """True if a store has a catalog of formats."""
        return any(place.entity == _CATALOG for name in source.names if (place := store_database(name)) is not None)

    def decoder(self, source: Source) -> StoreDecoder:
        """A decoder with the formats of all stores. Records of a store whose catalog cannot be read stay undecoded."""
        stores: dict[str, StoreFormats] = {}
        for name in source.names:
            place = store_database(name)
            if place is None or place.entity != _CATALOG:
                continue
            for _, value in source.records(name, 16):
                try:
                    stores[place.store] = StoreFormats.of(formats_of(value))
                except (FormatError, ValueError, LookupError, TypeError, AttributeError):
                    # A catalog may be damaged in any way; its store then counts as unknown.
                    continue
        return StoreDecoder(stores)


DPL: Final = StoreContents()
