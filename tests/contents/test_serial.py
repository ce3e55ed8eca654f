"""Java objects of JE's ``SerialBinding``: bytes that JE 18.3.20 wrote, and any others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contents import registry
from engine.contents.java_objects import JavaReader
from engine.contents.serial import SERIAL
from engine.errors import FormatError

# The class catalog of an application with a class Make.Order, by class id, without the header of each stream.
CLASSES: Final = {
    "01": (
        "72000a4d616b65244f72646572000000000000000202000d430001635a00047061696444000570726963654c"
        "0005626f7865647400134c6a6176612f6c616e672f496e74656765723b4c0005636f6c6f7274000c4c4d616b"
        "6524436f6c6f723b5b0006636f756e74737400025b494c0008637573746f6d65727400124c6a6176612f6c61"
        "6e672f537472696e673b4c00056974656d737400104c6a6176612f7574696c2f4c6973743b4c00036d617074"
        "000f4c6a6176612f7574696c2f4d61703b4c00076e6f7468696e677400124c6a6176612f6c616e672f4f626a"
        "6563743b5b00037261777400025b424c000473656c6674000c4c4d616b65244f726465723b4c00047768656e"
        "7400104c6a6176612f7574696c2f446174653b787200094d616b65244261736500000000000000010200014a"
        "000269647870"
    ),
    "02": "7200094d616b65244261736500000000000000010200014a000269647870",
    "03": (
        "7200116a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c7565787200106a"
        "6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870"
    ),
    "04": "7200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870",
    "05": (
        "72000a4d616b6524436f6c6f7200000000000000001200007872000e6a6176612e6c616e672e456e756d00000000000000001200007870"
    ),
    "06": "72000e6a6176612e6c616e672e456e756d00000000000000001200007870",
    "07": "7200025b494dba602676eab2a50200007870",
    "08": "7200136a6176612e7574696c2e41727261794c6973747881d21d99c7619d03000149000473697a657870",
    "09": (
        "7200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f72"
        "4900097468726573686f6c647870"
    ),
    "0a": (
        "72000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c7565787200106a617661"
        "2e6c616e672e4e756d62657286ac951d0b94e08b0200007870"
    ),
    "0b": "7200025b42acf317f8060854e00200007870",
    "0c": "72000e6a6176612e7574696c2e44617465686a81014b5974190300007870",
}
ORDER: Final = bytes.fromhex(
    "7372010178720102787000000000000000010078003ff8000000000000737201037872010478700000004d7e"
    "720105787201067870740005475245454e7572010778700000000200000001ffffffff74000a637573746f6d"
    "6572203173720108787000000002770400000002740004626f6c7471007e000f787372010978703f40000000"
    "00000c770800000010000000017400016b7372010a7871007e0004000000000000000578707572010b787000"
    "00000201ff71007e00027372010c787077080000018bcfe5680078"
)
HEADER: Final = b"\xac\xed\x00\x05"
CATALOG: Final = [
    (b"\0", b"\x0c"),
    *((b"\x01" + bytes.fromhex(key), HEADER + bytes.fromhex(text)) for key, text in CLASSES.items()),
]


class Given(NamedTuple):
    """A source of these records."""

    found: Mapping[str, Sequence[tuple[bytes, bytes]]]

    @property
    def names(self) -> Sequence[str]:
        return sorted(self.found)

    def records(self, name: str, limit: int, *, last: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return iter(self.found[name][:limit])

    def comparators(self) -> Mapping[str, str]:
        return {}


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
