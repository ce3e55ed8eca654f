"""Parameter types: what an operator writes, and what is refused."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.format.lsn import format_lsn
from jetool.frame import params
from jetool.frame.param_types.places import Address, AddressRange, VlsnRange


def refused(kind: click.ParamType[Any], text: str) -> str:
    with pytest.raises(click.BadParameter) as caught:
        kind.convert(text, None, None)
    return caught.value.message


def test_lsn() -> None:
    assert params.LSN.convert("0x1f/0x2a3c", None, None) == Address(0x1F00002A3C, None)
    assert params.LSN.convert("0X1F/0x2A3C", None, None) == Address(0x1F00002A3C, None)
    assert params.LSN.convert("0x0/0x0", None, None) == Address(0, None)
    for symbol in ("ckpt", "first-active", "end"):
        assert params.LSN.convert(symbol.upper(), None, None) == Address(None, symbol)


@given(st.integers(0, (1 << 63) - 1))
def test_lsn_takes_what_is_printed(lsn: int) -> None:
    assert params.LSN.convert(format_lsn(lsn), None, None).lsn == lsn


def test_bare_decimal_is_refused_with_a_hint() -> None:  # D-8, R-UTIL-11
    assert "0x0/0x4d2" in refused(params.LSN, "1234")
    assert "0x1f/0x4d2" in refused(params.LSN, "31/1234")


@pytest.mark.parametrize(
    "text", ["", "0x", "0x1f", "0x1f/", "/0x2", "0x1f/2a", "0x123456789/0x0", "0x0/0x123456789", "checkpoint", "-1"]
)
def test_not_an_lsn(text: str) -> None:
    assert "0xFILE/0xOFFSET" in refused(params.LSN, text)


def test_lsn_range() -> None:
    first, last = Address(0x100000010, None), Address(0x200000000, None)
    convert = params.LSNS.convert
    assert convert("0x1/0x10..0x2/0x0", None, None) == AddressRange(first, last)
    assert convert("0x1/0x10..", None, None) == AddressRange(first, None)
    assert convert("..0x2/0x0", None, None) == AddressRange(None, last)
    assert convert("ckpt..end", None, None) == AddressRange(Address(None, "ckpt"), Address(None, "end"))
    assert convert("..", None, None) == AddressRange(None, None)
    assert convert("0x1/0x10", None, None) == AddressRange(first, first)
    assert "ends before" in refused(params.LSNS, "0x2/0x0..0x1/0x10")
    refused(params.LSNS, "1..2")


def test_vlsn_and_range() -> None:
    assert params.VLSN.convert("17", None, None) == 17
    assert params.VLSNS.convert("1..5", None, None) == VlsnRange(1, 5)
    assert params.VLSNS.convert("5..", None, None) == VlsnRange(5, None)
    assert params.VLSNS.convert("..5", None, None) == VlsnRange(None, 5)
    assert params.VLSNS.convert("7", None, None) == VlsnRange(7, 7)
    for text in ("0", "-1", "0x10", "1.5", "", "9" * 19, "9" * 30, "١"):
        assert "plain integer" in refused(params.VLSN, text)
    assert "ends before" in refused(params.VLSNS, "5..1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T14:01:01.250Z", "2026-11-21T14:01:01.250+00:00"),
        ("2026-11-21T14:01:01+02:00", "2026-11-21T12:01:01+00:00"),
        ("2026-11-21 14:01", "2026-11-21T14:01:00+00:00"),
        ("2026-11-21", "2026-11-21T00:00:00+00:00"),
    ],
)
def test_time(text: str, expected: str) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=params.TIME.convert(text, None, None))
    assert moment == datetime.fromisoformat(expected)


@pytest.mark.parametrize(("text", "seconds"), [("-90s", 90), ("-15m", 900), ("-2h", 7200), ("-3d", 259_200)])
def test_time_ago(text: str, seconds: int) -> None:
    before = int((time.time() - seconds) * 1000)
    found = params.TIME.convert(text, None, None)
    assert before - 1 <= found <= (time.time() - seconds) * 1000 + 1


def test_time_without_zone_is_in_the_zone_of_tz() -> None:
    context = click.Context(click.Command("x"))
    context.params["tz"] = params.ZONE.convert("+02:00", None, None)
    utc = params.TIME.convert("2026-11-21T12:00Z", None, context)
    assert params.TIME.convert("2026-11-21T14:00", None, context) == utc


@pytest.mark.parametrize("text", ["", "yesterday", "15", "-15", "-1y", "15 m", "2026-13-01", "2026-11-21T25:00"])
def test_not_a_time(text: str) -> None:
    assert "ISO-8601" in refused(params.TIME, text)


def test_zone() -> None:
    moment = datetime(2026, 7, 1, tzinfo=UTC)
    for text, hours in (("UTC", 0), ("utc", 0), ("Z", 0), ("+01:00", 1), ("-0130", -1.5), ("Europe/Berlin", 2)):
        assert params.ZONE.convert(text, None, None).utcoffset(moment) == timedelta(hours=hours)
    local = params.ZONE.convert("local", None, None)
    assert local.utcoffset(moment) == moment.astimezone().utcoffset()
    for text in ("", "Mars/Olympus", "../../etc/passwd", "/etc/passwd", "+25:00", "+01:99"):
        assert "not a time zone" in refused(params.ZONE, text)


@pytest.mark.parametrize(
    ("name", "hours"), [("Asia/Tokyo", 9), (":Europe/Berlin", 2), ("", 0), ("JST-9", 9), ("UTC", 0)]
)
def test_the_local_zone_is_that_of_tz(name: str, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2026, 7, 1, tzinfo=UTC)
    with monkeypatch.context() as patched:
        patched.setenv("TZ", name)
        time.tzset()
        found = params.ZONE.convert("local", None, None).utcoffset(moment)
    time.tzset()
    assert found == timedelta(hours=hours)


def key(text: str, form: str | None) -> bytes:
    context = click.Context(click.Command("x"))
    context.params["key_format"] = form
    return params.KEY.convert(text, None, context)


def test_key() -> None:
    assert key("abc", None) == b"abc"
    assert key("0x00ff", None) == b"\x00\xff"
    assert key("00ff", "hex") == b"\x00\xff"
    assert key("0x00", "base64") == bytes.fromhex("d31d34")
    assert key(r"a\00\\", "text") == b"a\x00\\"
    assert key("-1", "tuple-long") == bytes.fromhex("7fffffffffffffff")
    assert key("0", "tuple-long") == bytes.fromhex("8000000000000000")
    assert key("0", "tuple-int") == bytes.fromhex("80000000")
    assert key("abc", "tuple-string") == b"abc\x00"


@pytest.mark.parametrize(
    ("text", "form"),
    [("0xabc", None), ("0xzz", None), ("abc", "hex"), ("a", "base64"), ("x", "tuple-int"), (str(1 << 31), "tuple-int")],
)
def test_not_a_key(text: str, form: str | None) -> None:
    with pytest.raises(click.BadParameter) as caught:
        key(text, form)
    assert "--key-format" in caught.value.message


def test_fields() -> None:
    assert params.FIELDS.convert("a, b,,c", None, None) == ("a", "b", "c")
    refused(params.FIELDS, " , ")
