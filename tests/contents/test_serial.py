"""Java objects of JE's ``SerialBinding``: bytes that JE 18.3.20 wrote, and any others."""

from __future__ import annotations

import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contents import registry
from engine.contents.java_objects import JavaReader
from engine.contents.serial import SERIAL
from engine.errors import FormatError
from tests.support.environments.java_objects import CATALOG, CLASSES, HEADER, ORDER, Given

SOURCE: Final = Given({"class_catalog": CATALOG, "orders": [(b"k", ORDER)]})


def test_an_object_as_json() -> None:
    kind = registry.recognise(SOURCE)
    assert kind is SERIAL
    found = registry.decode(kind.decoder(SOURCE), "orders", b"k", ORDER)
    assert (found.key, found.known) == ({"hex": "6b"}, False)
    assert found.data == {
        "class": "Make$Order", "id": 1, "c": "x", "paid": False, "price": 1.5, "boxed": 77, "color": "GREEN",
        "counts": [1, -1], "customer": "customer 1", "items": ["bolt", "bolt"],
        "map": {"class": "java.util.HashMap", "entries": [["k", 5]]}, "nothing": None, "raw": {"hex": "01ff"},
        "self": {"ref": 2}, "when": {"class": "java.util.Date", "time_ms": 1_700_000_000_000},
    }  # fmt: skip


def test_the_catalog() -> None:
    decoder = SERIAL.decoder(SOURCE)
    assert registry.decode(decoder, "class_catalog", b"\x01\x02", CATALOG[2][1]) == (
        {"class_id": "02"}, {"class": "Make$Base", "extends": None, "fields": {"id": "J"}}, True,
    )  # fmt: skip
    assert registry.decode(decoder, "class_catalog", b"\x02Make$Base", b"\x01\x02") == (
        {"class": "Make$Base"}, {"class_id": "02"}, True,
    )  # fmt: skip
    assert registry.decode(decoder, "class_catalog", b"\0", b"\x0c") == (
        {"last_class_id": True}, {"class_id": "0c"}, True,
    )  # fmt: skip


def test_a_class_that_is_not_in_the_catalog() -> None:
    source = Given({"class_catalog": CATALOG[:2]})
    found = registry.decode(SERIAL.decoder(source), "orders", b"k", ORDER)
    assert found == ({"hex": "6b"}, {"hex": ORDER.hex()}, False)


def test_a_stream_with_its_own_classes() -> None:
    base = CLASSES["02"]
    value = bytes.fromhex("73" + base + "0000000000000009")
    assert JavaReader(value).whole() == {"class": "Make$Base", "id": 9}
    assert JavaReader(bytes.fromhex("740003616263")).whole() == "abc"
    with pytest.raises(FormatError):
        JavaReader(value + b"x").whole()


def test_nothing_grows_without_end() -> None:
    """A text that is referred to again and again, and arrays within arrays."""
    objects = CLASSES["07"].replace("025b49", "025b4c")
    text = "74" + f"{60_000:04x}" + "61" * 60_000
    bomb = bytes.fromhex("75" + objects + f"{50_001:08x}" + text + "71007e0002" * 50_000)
    assert len(json.dumps(JavaReader(bomb).whole())) < 20 * len(bomb)
    deep = bytes.fromhex("75" + objects + "00000001") + bytes.fromhex("7571007e000000000001") * 5000
    with pytest.raises(FormatError, match="a depth of"):
        JavaReader(deep).whole()
    with pytest.raises(FormatError, match="elements"):
        JavaReader(bytes.fromhex("75" + CLASSES["07"] + "7fffffff")).whole()


@given(st.binary(max_size=80), st.integers(0, len(ORDER)), st.integers(0, 255))
def test_any_bytes_are_an_object_or_refused(data: bytes, at: int, byte: int) -> None:
    decoder = SERIAL.decoder(SOURCE)
    changed = ORDER[:at] + bytes((byte,)) + ORDER[at + 1 :]
    for value in (data, b"\x73" + data, b"\x75" + data, ORDER[:at] + data, changed):
        found = registry.decode(decoder, "orders", b"k", value)
        assert json.dumps(found.data, ensure_ascii=False).encode("utf-8")
        description = registry.decode(decoder, "class_catalog", b"\x01\x01", HEADER + value)
        assert json.dumps(description.data, ensure_ascii=False).encode("utf-8")
