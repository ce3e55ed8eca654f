"""Records that claim far more than they hold: nested, repeated and deflated bombs stay the bytes that they are.

Each of these took seconds to minutes, or gigabytes, before decoders counted what they print (``Allowance``).
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable

import pytest

from engine.contents import registry
from engine.contents.base import Allowance, DecodedRecord, Decoder, hexed, parse_json, unknown
from engine.contents.dpl import ClassField, ClassFormat, StoreDecoder, StoreFormats
from engine.contents.java_objects import JavaReader
from engine.contents.journals import JournalDecoder, journal_key
from engine.contents.nosql import NoSqlDecoder
from engine.contents.opendj import CompressedSchema, LdapDecoder, LdapEntry, compact, encode_entry
from engine.errors import FormatError
from engine.format.bytecursor import pack

LONG = "N" * 60_000
MANY = 20_000
NULL = b"\x70"


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _class(name: str, fields: Iterable[tuple[str, str]] = (), above: bytes = NULL) -> bytes:
    listed = [kind.encode() + _text(field) for kind, field in fields]
    return (
        b"\x72" + _text(name) + bytes(8) + b"\x02" + struct.pack(">H", len(listed)) + b"".join(listed) + b"\x78" + above
    )


def _again(handle: int) -> bytes:
    return b"\x71" + struct.pack(">I", 0x7E0000 + handle)


def _array(items: list[bytes]) -> bytes:
    """An array of objects: its class is handle 0, it is handle 1, the class of its first object handle 2."""
    return b"\x75" + _class("[Ljava.lang.Object;") + struct.pack(">i", len(items)) + b"".join(items)


def _chain(length: int) -> bytes:
    """Objects of classes that extend each other: class ``2 n`` is handle ``2 n``, its object the one after."""
    classes = [_class("a"), *(_class("a", above=_again(2 * number)) for number in range(1, length))]
    return _array([b"\x73" + one for one in classes])


class JavaStreams:
    """Records that are Java objects with the descriptions of their classes."""

    def decode(self, database: str, key: bytes, data: bytes) -> DecodedRecord:
        return DecodedRecord(hexed(key), JavaReader(data).whole(), False)


SERIAL = JavaStreams()


def _java_objects(fields: Iterable[tuple[str, str]], name: str, value: bytes, count: int) -> bytes:
    first = b"\x73" + _class(name, fields) + value
    return _array([first] + [b"\x73" + _again(2) + value] * count)


def _format(kind: str, name: str, fields: Iterable[str] = (), primary: str | None = None) -> ClassFormat:
    return ClassFormat(
        kind=kind,
        name=name,
        keys=(),
        fields=tuple(ClassField(f"f{number}", declared) for number, declared in enumerate(fields)),
        above=None,
        proxy=None,
        names=(LONG,) if kind == "EnumFormat" else (),
        primary=ClassField("id", primary) if primary is not None else None,
        direct_texts=False,
        indexes=(),
    )


def _store(*formats: ClassFormat) -> StoreDecoder:
    return StoreDecoder({"s": StoreFormats.of(dict(enumerate(formats, 1)))})


def _deflated(body: bytes) -> bytes:
    return b"\x02\x01" + compact(len(body)) + zlib.compress(body)


MILLIONS = 3_000_000
COUNT = b"\x84" + struct.pack(">I", MILLIONS)
LDAP = LdapDecoder(CompressedSchema({}, {}))
ENTRIES = "/dc=example/id2entry"
# Parts of parts of a key, none of which takes a byte: 8 to the 20th of them.
COMPOSITE = (
    *(_format("CompositeKeyFormat", f"C{level}", [f"C{level + 1}"] * 8) for level in range(20)),
    _format("CompositeKeyFormat", "C20"),
)

BOMBS: dict[str, tuple[Decoder, str, bytes, bytes]] = {
    "Java: names of classes": (SERIAL, "x", b"k", _java_objects((), LONG, b"", MANY)),
    "Java: names of fields": (SERIAL, "x", b"k", _java_objects([("B", LONG)], "N", b"1", MANY)),
    "Java: classes above classes": (SERIAL, "x", b"k", _chain(100)),
    "Java: arrays in arrays": (SERIAL, "x", b"k", (b"\x75" + _class("[L") + struct.pack(">i", 1)) * 3_000),
    "DPL: parts of a key": (
        _store(*COMPOSITE, _format("ComplexFormat", "E", primary="C0")), "persist#s#E", b"", pack(len(COMPOSITE) + 1),
    ),
    "DPL: names of classes": (
        _store(_format("ObjectArrayFormat", "[LX;"), _format("ComplexFormat", LONG)),
        "persist#s#E", b"", pack(1) + pack(MANY) + pack(2) * MANY,
    ),
    "DPL: constants": (
        _store(_format("ObjectArrayFormat", "[LX;"), _format("EnumFormat", "X")),
        "persist#s#E", b"", pack(1) + pack(MANY) + (pack(2) + pack(0)) * MANY,
    ),
    "NoSQL: an id of a table": (NoSqlDecoder(), "p1", b"1" * 20_000, b"\x01\x01"),
    "LDAP: attributes": (LDAP, ENTRIES, bytes(8), _deflated(b"\x03\x01\x01\x00" + COUNT + b"\0\0" * MILLIONS + b"\0")),
    "LDAP: values": (
        LDAP, ENTRIES, bytes(8), _deflated(b"\x03\x01\x01\x00\x01a\0" + COUNT + b"\x01a" * MILLIONS + b"\0"),
    ),
    "LDAP: object classes": (LDAP, ENTRIES, bytes(8), _deflated(b"\x03\x01\x01" + COUNT + b"\0" * MILLIONS + b"\0\0")),
    "LDAP: a length": (LDAP, ENTRIES, bytes(8), b"\x02\x01" + compact(1 << 40) + zlib.compress(b"a")),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_stays_bytes(name: str) -> None:
    decoder, database, key, data = BOMBS[name]
    found = registry.decode(decoder, database, key, data)
    assert found.data == unknown(key, data).data
    assert not found.known
    json.dumps(found)


def test_large_records_are_decoded() -> None:
    many = registry.decode(SERIAL, "x", b"k", _java_objects([("I", "number")], "com.example.Event", bytes(4), MANY))
    assert many.data == [{"class": "com.example.Event", "number": 0}] * (MANY + 1)
    deep = registry.decode(SERIAL, "x", b"k", _chain(40))
    assert len(deep.data) == 40
    # A group: its members differ in a few digits, and deflate to a tenth.
    members = tuple(f"uid=user{number:06d},ou=people,dc=example,dc=com".encode() for number in range(50_000))
    entry = LdapEntry("cn=all,dc=example", ("groupOfNames",), (("member", members),))
    found = registry.decode(LDAP, ENTRIES, bytes(8), encode_entry(entry, deflate=True))
    assert found.known
    assert found.data["member"] == [one.decode() for one in members]


@pytest.mark.parametrize("text", ["1e999", "-1e999", '{"a":[1e400]}', "NaN", "Infinity"])
def test_a_number_that_json_has_no_form_for(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text.encode())
    value = struct.pack(">hi", 1, len(text)) + text.encode()
    shown = registry.decode(JournalDecoder("doris"), "1", journal_key(5), value).data
    assert "Infinity" not in json.dumps({"payload": shown["payload"]}).replace(text, "")


def test_an_allowance() -> None:
    allowance = Allowance(10, growth=2)
    allowance.spend((1 << 16) + 20)
    with pytest.raises(FormatError, match="in proportion"):
        allowance.spend(1)
