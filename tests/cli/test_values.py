"""Values by kind, and keys in all formats."""

from __future__ import annotations

import json
from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fields import LISTS
from engine.format import fields
from engine.inspect import key_formats
from jetool.frame.options import KEY_FORMATS
from jetool.output import shape
from jetool.output.shape import Style, to_json, to_text

BERLIN = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("kind", "value", "text", "plain"),
    [
        ("int", 1459, "1459", 1459),
        ("float", 0.25, "0.25", 0.25),
        ("hex", 0x4B01, "0x4b01", 0x4B01),
        ("level", 0x10001, "0x10001", 0x10001),
        ("bool", True, "yes", True),
        ("bool", False, "no", False),
        ("text", "name", "name", "name"),
        ("text", "a\x1b[31m\n", r"a\1b[31m\0a", "a\x1b[31m\n"),
        ("bytes", b"\x00k", "0x006b", "006b"),
        ("key", b"\x00k", "0x006b", "006b"),
        ("data", b"", "0x", ""),
        ("lsn", 0x1F00002A3C, "0x1f/0x2a3c", "0x1f/0x2a3c"),
        ("lsn", -1, "-", None),
        ("vlsn", 17, "17", 17),
        ("vlsn", -1, "-", None),
        ("time", 0, "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z"),
        ("time", 1_795_269_661_250, "2026-11-21T14:01:01.250Z", "2026-11-21T14:01:01.250Z"),
        ("time", 1 << 62, f"{1 << 62} ms", f"{1 << 62} ms"),
        ("expiration", 0, "-", None),
        ("expiration", 20_781, "2026-11-24", "2026-11-24"),
        ("expiration", -498_758, "2026-11-24T14:00:00.000Z", "2026-11-24T14:00:00.000Z"),
        ("duration_ms", 1250, "1.250 s", 1250),
        ("size_bytes", 10_239, "10239 B", 10_239),
        ("size_bytes", 10_240, "10.0 KiB", 10_240),
        ("size_bytes", 9_961_472, "9.5 MiB", 9_961_472),
        ("size_bytes", 1 << 63, "8.0 EiB", 1 << 63),
        ("ints", (1, 2), "1, 2", [1, 2]),
        ("lsns", (0, -1), "0x0/0x0, -", ["0x0/0x0", None]),
        ("byteses", (b"a",), "0x61", ["61"]),
        ("texts", (), "-", []),
        ("record", [("a", "int", 1), ("b", "lsn", -1)], "{a=1 b=-}", {"a": 1, "b": None}),
        ("records", ([("a", "int", 1)],), "{a=1}", [{"a": 1}]),
    ],
)
def test_kinds(kind: str, value: object, text: str, plain: object) -> None:
    assert to_text(kind, value) == text
    assert to_json(kind, value) == plain
    json.dumps(to_json(kind, value))


@pytest.mark.parametrize("kind", [*shape.KINDS, *LISTS])
def test_none_is_null_in_every_kind(kind: str) -> None:
    assert to_text(kind, None) == "-"
    assert to_json(kind, None) is None


def test_every_kind_of_the_engine_is_known() -> None:
    assert set(shape.KINDS) | set(LISTS) >= fields.KINDS


def test_engine_records_are_described() -> None:
    from engine.format.entry.rollback import Matchpoint

    shown = to_json("record", Matchpoint(*([7] * len(Matchpoint._fields))))
    assert isinstance(shown, dict)
    assert 7 in shown.values()


def test_times_in_another_zone() -> None:
    assert to_text("time", 0, Style(tz=BERLIN)) == "1970-01-01T01:00:00.000+01:00"
    assert to_json("time", 0, Style(tz=BERLIN)) == "1970-01-01T01:00:00.000+01:00"
    assert to_text("expiration", 1, Style(tz=BERLIN)) == "1970-01-02", "expiration is counted in UTC"


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_64_bit_value_has_a_text(value: int) -> None:
    for kind in ("int", "hex", "lsn", "vlsn", "time", "expiration", "duration_ms", "size_bytes", "level"):
        assert to_text(kind, value)
        json.dumps(to_json(kind, value))


@given(st.text())
def test_no_text_reaches_the_terminal_with_control_characters(text: str) -> None:
    assert shape.printable(text).isprintable()


def test_key_and_data_formats_are_separate() -> None:
    style = Style(tz=UTC, key_format="text", data_format="base64")
    assert to_text("key", b"ab", style) == "ab"
    assert to_json("data", b"ab", style) == "YWI="
    assert to_json("bytes", b"ab", style) == "6162"


def test_formats_are_those_of_the_option() -> None:
    assert key_formats.FORMATS == KEY_FORMATS


@given(st.binary(max_size=40) | st.binary(max_size=8).map(lambda data: b"0x" + data), st.sampled_from(KEY_FORMATS))
def test_what_is_shown_can_be_read_back(data: bytes, form: str) -> None:
    shown = key_formats.show(data, form)
    assert shown.isprintable()
    assert key_formats.parse(shown, form) == data


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_tuple_long_sorts_as_numbers(number: int) -> None:
    data = key_formats.parse(str(number), "tuple-long")
    assert key_formats.show(data, "tuple-long") == str(number)
    if number < (1 << 63) - 1:
        assert data < key_formats.parse(str(number + 1), "tuple-long")


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (b"a,b\\\x00\xc3\xa9", "text", r"a,b\\\00\c3\a9"),
        (b"a\\\x00\xc3\xa9\xff", "utf8", r"a\\\00é\ff"),
        (b"\xff\x00", "tuple-string", "0xff00"),
        (b"abc\x00", "tuple-string", "abc"),
        (b"0x41", "text", r"\30x41"),
        (b"0x41\x00", "tuple-string", r"\30x41"),
        (bytes.fromhex("d31d34"), "base64", "0x00"),
        (b"abc", "tuple-string", "0x616263"),
        (b"\x80\x00\x00", "tuple-int", "0x800000"),
        (bytes.fromhex("80000001"), "tuple-int", "1"),
    ],
)
def test_formats(data: bytes, form: str, text: str) -> None:
    assert key_formats.show(data, form) == text


def test_values_that_are_json_as_they_are() -> None:
    for kind in shape.AS_IT_IS:
        for value in (None, True, 7, "x"):
            assert value is None or shape.KINDS[kind].json(value, shape.PLAIN) is value
    assert shape.KINDS.keys() >= shape.AS_IT_IS
