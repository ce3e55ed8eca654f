"""Records of JE 25.3's database of before-images."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contents import registry
from engine.contents.base import DecodedRecord
from engine.contents.before_images import BEFORE_IMAGES_DATABASE, BeforeImageDecoder
from engine.errors import FormatError
from engine.inspect.contents import NamesOnly

# What LongBinding and BeforeImagePayLoad of JE 25.3.17 make of an abort LSN, a value and a time.
KEY = bytes.fromhex("800000050000082c")
PLACE = {"lsn": "0x5/0x82c"}
OF_JE = {
    "190000000000000000000000": (b"", 0),
    "19007d0468e5cf8b01000000": (b"", 1_700_000_000_123),
    "19096f6c642076616c75653c000000000000000000": (b"old value", 60),
    "19096f6c642076616c75657d0468e5cf8b01000000": (b"old value", 1_700_000_000_123),
    "197851" + "78" * 200 + "7d0468e5cf8b010000": (b"x" * 200, 1_700_000_000_123),
}


def decoded(data: bytes, key: bytes = KEY) -> DecodedRecord:
    return BeforeImageDecoder().decode(BEFORE_IMAGES_DATABASE, key, data)


@pytest.mark.parametrize("digits", OF_JE)
def test_records_of_je(digits: str) -> None:
    value, modified = OF_JE[digits]
    expected = {"value": {"hex": value.hex()}, "modification_time_ms": modified}
    assert decoded(bytes.fromhex(digits)) == (PLACE, expected, True)


@pytest.mark.parametrize("digits", ["", "18", "19", "1a00000000", "1905616263", "190000ff", "1900" + "00" * 14])
def test_other_bytes_are_refused(digits: str) -> None:
    with pytest.raises(FormatError):
        decoded(bytes.fromhex(digits))
    with pytest.raises(FormatError):
        decoded(bytes.fromhex("19007d0468e5cf8b01000000"), KEY[1:])


@given(st.binary(max_size=40), st.binary(max_size=9))
def test_any_bytes(data: bytes, key: bytes) -> None:
    """Every kind of contents decodes before-images, and leaves other bytes as they are."""
    for kind in ("nosql", "before-images"):
        found = registry.decode(registry.find(kind).decoder(NamesOnly()), BEFORE_IMAGES_DATABASE, key, data)
        assert found.known or found == ({"hex": key.hex()}, {"hex": data.hex()}, False)


def test_other_databases_stay_bytes() -> None:
    assert BeforeImageDecoder().decode("t", b"k", b"v") == ({"hex": "6b"}, {"hex": "76"}, False)
