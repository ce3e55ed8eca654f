"""Oracle NoSQL, Qpid and Heritrix: every documented form, and any bytes."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contents import registry
from engine.contents.base import modified_utf8
from engine.contents.nosql import NOSQL, components, table_id
from engine.contents.qpid import CONTENT, ENTRIES, HIERARCHY, METADATA, OBJECTS

QUEUE = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


class Given(NamedTuple):
    """A source of these databases and records."""

    names: Sequence[str]
    found: Mapping[str, Sequence[tuple[bytes, bytes]]] = {}
    orders: Mapping[str, str] = {}

    def records(self, name: str, limit: int, *, last: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return iter(self.found.get(name, ())[:limit])

    def comparators(self) -> Mapping[str, str]:
        return self.orders


def sortable(value: int) -> bytes:
    return struct.pack(">Q", value + (1 << 63))


def sortable_uuid(value: uuid.UUID) -> bytes:
    halves = struct.unpack(">qq", value.bytes)
    return b"".join(sortable(half) for half in halves)


def decode(name: str, database: str, key: bytes, data: bytes) -> tuple[object, object, bool]:
    return registry.decode(registry.find(name).decoder(Given(())), database, key, data)


def test_nosql_keys() -> None:
    assert components(b"users\0alice\xffmail\x001") == (["users", "alice"], ["mail", "1"])
    assert components(b"users") == (["users"], [])
    assert modified_utf8(b"a\xc0\x80\xed\xa0\xbd\xed\xb8\x80") == "a\0\U0001f600"
    # As SortableString of Oracle NoSQL 25.3 writes these numbers.
    sortable_ids = {"r": 2, "p": 0, "o": -1, "\xaf": 63, "q0": 128, "s\xaf": 511, "q000": 1 << 21}
    assert {text: table_id(text) for text in sortable_ids} == sortable_ids
    with pytest.raises(ValueError):
        table_id("")
    with pytest.raises(ValueError):
        table_id("\x01")


def test_nosql_records() -> None:
    key = b"r\0alice"
    assert decode("nosql", "p7", key, b"\x01\x05\xaa") == (
        {"table": 2, "major": ["alice"], "minor": []},
        {"format": 1, "table_version": 5, "rest": {"hex": "aa"}},
        False,
    )
    assert [
        decode("nosql", "p7", key, bytes.fromhex(value))[1] for value in ("0302 05aa", "0400 05aa", "0401 02 05aa")
    ] == [
        {"format": 3, "region": 2, "table_version": 5, "rest": {"hex": "aa"}},
        {"format": 4, "table_version": 5, "rest": {"hex": "aa"}},
        {"format": 4, "region": 2, "table_version": 5, "rest": {"hex": "aa"}},
    ]
    assert decode("nosql", "p7", key, b"\x04\x03\x02\x02{}\x05")[1] == {
        "format": 4, "region": 2, "with_metadata": True, "rest": {"hex": "027b7d05"},
    }  # fmt: skip
    assert decode("nosql", "p7", key, b"\x03\x88\x05") == ({"hex": key.hex()}, {"hex": "038805"}, False)
    assert decode("nosql", "p7", key, b"\x00body") == (
        {"major": ["r", "alice"], "minor": []}, {"format": 0, "rest": {"hex": "626f6479"}}, False,
    )  # fmt: skip
    assert decode("nosql", "p7", key, b"\xfe\x01")[1] == {"format": "avro", "rest": {"hex": "fe01"}}
    assert decode("nosql", "p7", key, b"") == ({"major": ["r", "alice"], "minor": []}, None, True)
    assert decode("nosql", "TableMetadata", b"k", b"v") == ({"hex": "6b"}, {"hex": "76"}, False)


def test_nosql_is_known_by_its_order() -> None:
    order = "oracle.kv.Key$BytesComparator"
    assert NOSQL.recognises(Given(("p1", "x"), orders={"p1": order}))
    assert not NOSQL.recognises(Given(("p1", "x")))
    assert NOSQL.recognises(Given(("TableMetadata", "SecurityMetadata")))


def test_qpid_records() -> None:
    header = b"\x10\x20"
    assert decode("qpid", "MESSAGE_METADATA", sortable(9), struct.pack(">I", 3 + (1 << 31)) + b"\x01" + header) == (
        {"message": 9}, {"type": 1, "header": {"hex": "1020"}}, False,
    )  # fmt: skip
    assert decode("qpid", "MESSAGE_CONTENT", sortable(9), b"hello") == ({"message": 9}, {"body": "hello"}, True)
    assert decode("qpid", "MESSAGE_CONTENT", sortable(9), b"\xff") == ({"message": 9}, {"body": {"hex": "ff"}}, True)
    entry = sortable_uuid(QUEUE) + sortable(9)
    assert decode("qpid", "QUEUE_ENTRIES", entry, b"") == ({"queue": str(QUEUE), "message": 9}, None, True)
    assert decode("qpid", "CONFIGURED_OBJECTS", sortable_uuid(QUEUE), b'Queue\0{"name":"orders"}\0') == (
        {"object": str(QUEUE)}, {"type": "Queue", "attributes": {"name": "orders"}}, True,
    )  # fmt: skip
    child = sortable_uuid(QUEUE) + b"VirtualHost\0"
    assert decode("qpid", "CONFIGURED_OBJECT_HIERARCHY", child, sortable_uuid(QUEUE)) == (
        {"object": str(QUEUE), "parent_type": "VirtualHost"}, {"parent": str(QUEUE)}, True,
    )  # fmt: skip
    assert decode("qpid", "QUEUE_ENTRIES", entry + b"x", b"")[2] is False
    assert decode("qpid", "LINKS", b"k", b"v")[2] is False


def test_heritrix_records() -> None:
    key = b"example.com\0" + bytes((1, 2)) + (77).to_bytes(6, "big")
    place = {"queue": "example.com", "directive": 1, "precedence": 2, "ordinal": 77}
    found = decode("heritrix", "pending", key, b"\xac\xed\x00http://example.com/a\x00")
    assert (found[0], found[2]) == (place, False)
    assert found[1] == {"uri": "http://example.com/a", "object": {"hex": b"\xac\xed\x00http://example.com/a\x00".hex()}}
    assert decode("heritrix", "pending", b"example.com\0", b"") == ({"queue": "example.com"}, {"head": True}, True)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (Given(("MESSAGE_METADATA", "MESSAGE_CONTENT", "QUEUE_ENTRIES")), "qpid"),
        (Given(("/dc=com/id2entry", "/dc=com/dn2id")), "opendj"),
        (Given(("dc_com_id2entry", "dc_com_dn2id")), "opendj"),
        (Given(("/dc=com/id2entry", "/dc=org/dn2id")), None),
        (Given(("pending",), {"pending": [(b"host\0" + bytes(8), b"")]}), "heritrix"),
        (Given(("pending",), {"pending": [(b"order-1", b"x")]}), None),
        (Given(("pending",)), None),
        (Given(("edgestore", "graphindex")), None),
    ],
)
def test_environments_are_recognised(source: Given, expected: str | None) -> None:
    found = registry.recognise(source)
    assert (found.name if found is not None else None) == expected


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes(key: bytes, data: bytes) -> None:
    places = {"nosql": ("p1",), "heritrix": ("pending",), "qpid": (METADATA, CONTENT, ENTRIES, OBJECTS, HIERARCHY)}
    for name, databases in places.items():
        for database in databases:
            assert json.dumps(decode(name, database, key, data), ensure_ascii=False).encode("utf-8")
