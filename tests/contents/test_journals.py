"""Journals of frontends: every documented payload, padding, what is not known, and hostile bytes."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contents.base import parse_json
from engine.contents.frontend_files import frontend_files, properties
from engine.contents.journals import (
    BYTES,
    FIELDS,
    JSON,
    NOTHING,
    NUMBER,
    TEXT,
    JournalDecoder,
    OperationPayload,
    decode_journal,
    encode_json_journal,
    is_frontend,
    journal_id,
    journal_key,
    journal_name,
    timestamp_of,
)
from engine.contents.operations import (
    DORIS,
    NAMES,
    STARROCKS,
    codes_of,
    may_skip,
    operation_name,
    product_of_code,
)
from engine.contents.registry import decode
from engine.errors import FormatError
from tests.support.environments.frontends import json_of

OBJECTS = st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=20) | st.none(), max_size=4)


def text_of(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">i", len(raw)) + raw


def value_of(code: int, payload: bytes) -> bytes:
    return struct.pack(">h", code) + payload


# What fe-journals.md 3.3 lists: the code, the payload, what it is.
PAYLOADS = [
    (126, text_of('{"dbId":1,"name":"t"}'), OperationPayload(JSON, {"dbId": 1, "name": "t"}, True, 0)),
    (126, text_of('{"dbId":1}') + bytes(110), OperationPayload(JSON, {"dbId": 1}, True, 110)),
    (13040, text_of('{"ts":1795219200000}'), OperationPayload(JSON, {"ts": 1795219200000}, True, 0)),
    (461, text_of("[1,2]"), OperationPayload(JSON, [1, 2], True, 0)),
    (70, struct.pack(">q", 1_795_219_200_000) + bytes(118), OperationPayload(NUMBER, 1_795_219_200_000, True, 118)),
    (0, text_of("10001"), OperationPayload(NUMBER, 10001, True, 0)),
    (4, text_of("10001") + bytes(3), OperationPayload(NUMBER, 10001, True, 3)),
    (15, text_of("7"), OperationPayload(NUMBER, 7, True, 0)),
    (16, text_of("8"), OperationPayload(NUMBER, 8, True, 0)),
    (72, text_of("100"), OperationPayload(NUMBER, 100, True, 0)),
    (87, text_of("broker"), OperationPayload(TEXT, "broker", True, 0)),
    (90, text_of("répo"), OperationPayload(TEXT, "répo", True, 0)),
    (43, struct.pack(">3q", 1, 2, 3), OperationPayload(FIELDS, {"numbers": [1, 2, 3]}, False, 0)),
    (
        100,
        struct.pack(">q", 9) + text_of("label") + struct.pack(">q", 4) + b"\1\2",
        OperationPayload(FIELDS, {FIELDS: {"transaction": 9, "label": "label", "db": 4}, "rest": {"hex": "0102"}},
        False, 0),
    ),
    (
        10002,
        bytes.fromhex("0000000101ff"),
        OperationPayload(FIELDS, {FIELDS: {"count": 1}, "rest": {"hex": "01ff"}}, False, 0),
    ),
    (59, struct.pack(">i", 2) + b"\1\2", OperationPayload(FIELDS, {FIELDS: {"count": 2}, "rest": {"hex": "0102"}},
    False, 0)), (28, struct.pack(">2q", 5, -6), OperationPayload(FIELDS, {"numbers": [5, -6]}, False, 0)), (84,
    text_of("{}") + b"\1", OperationPayload(JSON, {JSON: {}, "rest": {"hex": "01"}}, False, 0)), (70,
    text_of('{"timestamp":9}') + b"\0", OperationPayload(JSON, {"timestamp": 9}, True, 1)), (11000, text_of("\1\2"),
    OperationPayload(FIELDS, {"message": {"hex": "0102"}}, False, 0)), (36, b"", OperationPayload(NOTHING, None, True,
    0)), (
        50,
        b"\xff\0\0\x07127.0.0.1\0\x23",
        OperationPayload(BYTES, {"hex": "ff0000073132372e302e302e310023", "readable": ["127.0.0.1"]}, False, 0),
    ),
    (
        126,
        text_of('{"a":1}') + text_of("more"),
        OperationPayload(JSON, {JSON: {"a": 1}, "rest": {"hex": text_of("more").hex()}}, False, 0),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("code", "payload", "expected"), PAYLOADS)
def test_documented_payloads(code: int, payload: bytes, expected: OperationPayload) -> None:
    assert decode_journal(value_of(code, payload)) == (code, expected)


@given(st.integers(-1, 32767), OBJECTS, st.integers(0, 300))
def test_json_comes_back_with_its_padding(code: int, value: dict[str, object], padding: int) -> None:
    found = decode_journal(encode_json_journal(code, json.dumps(value).encode(), padding))
    assert (found.code, found.payload) == (code, OperationPayload(JSON, value, True, padding))


@given(st.integers(0, 2**63 - 1))
def test_keys_come_back(number: int) -> None:
    assert journal_id(journal_key(number)) == number


def test_keys_ascend_with_ids() -> None:
    assert journal_key(1).hex() == "8000000000000001"
    assert journal_key(9) < journal_key(10) < journal_key(1 << 40)


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(value: bytes) -> None:
    """Nothing else than FormatError, and what comes out can be printed as JSON."""
    try:
        found = decode_journal(value)
    except FormatError:
        assert len(value) < 2
        return
    assert json.dumps(found.payload.value, ensure_ascii=False).encode()
    assert found.payload.known or found.payload.padding == 0 or found.payload.kind == FIELDS


@given(st.integers(0, 500), st.binary(max_size=60))
def test_changed_lengths_read_nothing_beyond_the_value(length: int, rest: bytes) -> None:
    value = value_of(126, struct.pack(">i", length) + b'{"a":"' + rest)
    found = decode_journal(value)
    assert len(json.dumps(found.payload.value)) <= 8 * len(value) + 100


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000, b'{"a":' * 50_000, b"NaN", b'{"a":Infinity}', b'"\\ud800"', b'{"a":1}x', b"1" * 10_000, b"\xff",
        b"",
    ],
)  # fmt: skip
def test_json_that_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


def test_json_in_brackets_is_no_nesting() -> None:
    assert parse_json(json_of({"sql": "[" * 150})) == {"sql": "[" * 150}
    assert parse_json(b'["\\ud83d\\ude00"]') == ["\U0001f600"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("1", ("", 1)), ("50001", ("", 50001)), ("starmgr_77", ("starmgr_", 77)), ("epochDB", None), ("", None),
        ("-1", None), ("1x", None), ("٣", None), ("starmgr_", None), ("9" * 40, None), ("_jeRepGroupDB", None),
    ],
)  # fmt: skip
def test_names_of_databases(name: str, expected: tuple[str, int] | None) -> None:
    assert journal_name(name) == expected


def test_an_environment_is_known_by_its_databases() -> None:
    assert is_frontend(["1", "50001", "epochDB"])
    assert not is_frontend(["1", "2"])
    assert not is_frontend(["epochDB", "orders"])


def test_tables_of_operations() -> None:
    """The same number means different things, and a code that nobody knows has no name."""
    assert operation_name(DORIS, 105) == "BATCH_REMOVE_TXNS"
    assert operation_name(STARROCKS, 105) == "SAVE_AUTO_INCREMENT_ID"
    assert operation_name(None, 105) is None
    assert operation_name(None, 70) == "TIMESTAMP"
    assert operation_name(DORIS, 9999) is None
    assert [len(NAMES[product]) for product in (None, DORIS, STARROCKS)] == [114, 238, 324]
    assert (product_of_code(212), product_of_code(10325), product_of_code(12110), product_of_code(70)) == (
        DORIS,
        DORIS,
        STARROCKS,
        None,
    )
    assert codes_of(DORIS, "op_timestamp") == codes_of(None, "70") == {70}
    assert codes_of(STARROCKS, "TIMESTAMP_V2") == {13040}
    assert codes_of(DORIS, "NO_SUCH") == frozenset()


def test_what_may_be_skipped() -> None:
    assert may_skip(STARROCKS, 10071) is True
    assert may_skip(STARROCKS, 13000) is False
    assert may_skip(STARROCKS, 31000) is None
    assert may_skip(DORIS, 10) is None


def test_the_decoder_says_what_it_does_not_know() -> None:
    decoder = JournalDecoder(STARROCKS)
    known = decode(decoder, "1", journal_key(5), encode_json_journal(13000, b'{"id":1}', 2))
    assert known == (
        {"id": 5},
        {"op": 13000, "name": "CREATE_TABLE_V2", "payload": {"id": 1}, "padding": 2},
        True,
    )
    assert decode(decoder, "1", journal_key(5), encode_json_journal(31000, b"{}")).known is False
    assert decode(decoder, "1", b"short", b"x") == ({"hex": b"short".hex()}, {"hex": "78"}, False)
    assert decode(decoder, "epochDB", journal_key(3), b"\0") == ({"epoch": 3}, None, True)
    assert decode(decoder, "epochDB", journal_key(3), b"x") == ({"epoch": 3}, {"hex": "78"}, False)
    assert decode(decoder, "metricDB", b"k", b"v").known is False


def test_the_clock() -> None:
    assert timestamp_of(value_of(70, struct.pack(">q", 5))) == 5
    assert timestamp_of(encode_json_journal(70, b'{"timestamp":6}', 9)) == 6
    assert timestamp_of(encode_json_journal(13040, b'{"timestamp":7}')) == 7
    assert timestamp_of(encode_json_journal(13040, b'{"a":7,"b":8}')) is None
    assert timestamp_of(encode_json_journal(1, b'{"timestamp":6}')) is None
    assert timestamp_of(b"") is None


def test_files_beside_the_journals() -> None:
    role = b"#Mon Nov 16 10:00:00 CET 2026\nrole=FOLLOWER\nname=fe1_9010_1\nhostType\\:=IP\n"
    found = frontend_files(
        role, b"clusterId=7\ntoken=x\n", ["image.5", "image.12", "image.ckpt", "image.7.part", "ROLE"]
    )
    assert found == ("FOLLOWER", "fe1_9010_1", "7", (5, 12))
    assert frontend_files(b"", b"\xff\xfe", []) == (None, None, None, ())
    assert properties(b"=x\n!a=b\n a = b=c \n") == {"": "x", "a": "b=c"}
