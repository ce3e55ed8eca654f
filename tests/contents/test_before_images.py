"""Records of JE 25.3's database of before-images."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contents import registry
from engine.contents.base import DecodedRecord
from engine.contents.before_images import BEFORE_IMAGES_DATABASE, BeforeImageDecoder
from engine.errors import FormatError
from engine.format.entry.ln import LN
from engine.format.lsn import parse_lsn
from engine.inspect.contents import NamesOnly
from engine.log.access import LogAccess
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from tests.support.harness import REPOSITORY, run

GOLDEN = REPOSITORY / "tests/golden/je-26/before-images"

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


def test_an_environment_of_je(tmp_path: Path) -> None:
    """JE wrote it: each before-image is the value in the entry to which its key leads."""
    env = shutil.copytree(GOLDEN, tmp_path / "env")
    result = run("scan", env, "--db", BEFORE_IMAGES_DATABASE, "--decode", "before-images", "--json")
    records = result.json()["records"]
    assert len(records) == 40
    with closing(LogAccess(DiskStorage(env), list_log_files(DiskStorage(env)).files)) as log:
        for one in records:
            replaced = log.read(parse_lsn(one["decoded_key"]["lsn"])).record()
            assert isinstance(replaced, LN)
            assert replaced.data is not None
            assert one["decoded_data"]["value"] == {"hex": replaced.data.hex()}
    values = {bytes.fromhex(one["decoded_data"]["value"]["hex"]).decode() for one in records}
    assert values == {f"value {turn} of {number}" for turn in (0, 1) for number in range(20)}
