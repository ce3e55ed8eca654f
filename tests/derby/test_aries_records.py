"""Every record of the six fixture databases, against the recorded decoding and against Derby's own trace."""

from __future__ import annotations

import json

import pytest

from engine.derby.database import DerbyDatabase
from engine.derby.format import describe, instant, record
from engine.derby.format.codec import FieldCursor
from engine.derby.format.log_file import OVERHEAD
from engine.derby.log import DerbyLogFiles, ForwardScan, backward
from tests.derby.derby_fixtures import NAMES, as_fixture, json_of, lines_of, records_of, storage_of
from tests.derby.derby_trace import trace_line


@pytest.mark.parametrize("name", NAMES)
def test_records_equal_the_recorded_ones(name: str) -> None:
    log = DerbyLogFiles(DerbyDatabase(storage_of(name)))
    found = [as_fixture(one, log) for one in ForwardScan(log, instant.make(1, 24))]
    assert found == [json.loads(line) for line in lines_of(name, "records.jsonl.gz")]


@pytest.mark.parametrize("name", NAMES)
def test_records_equal_derbys_trace(name: str) -> None:
    # The trace never prints the very first record, a checksum record.
    found = [trace_line(one) for one in records_of(name)[1:]]
    expected = [line.rstrip() for line in lines_of(name, "derby-trace.txt.gz")]
    assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_encoding_gives_the_same_bytes(name: str) -> None:
    log = DerbyLogFiles(DerbyDatabase(storage_of(name)))
    for one in ForwardScan(log, instant.make(1, 24)):
        number, position = instant.file_of(one.instant), instant.position_of(one.instant)
        assert record.encode(one) == log.read(number, position, one.length + OVERHEAD)


@pytest.mark.parametrize("name", NAMES)
def test_rows_in_records_leave_no_byte_over(name: str) -> None:
    rows = 0
    for one in records_of(name):
        images = describe.images(one)
        rows += len(images)
        fields = dict(describe.describe(one, rows=True))
        assert fields["instant"] == instant.show(one.instant)
        assert json.loads(json.dumps(fields)) == fields
        if one.data:
            assert len(images) > 0
            assert fields["data_bytes"] == len(one.data)
    assert rows > 50


@pytest.mark.parametrize("name", NAMES)
def test_scan_ends_where_the_manifest_says(name: str) -> None:
    scan = ForwardScan(DerbyLogFiles(DerbyDatabase(storage_of(name))), instant.make(1, 24))
    end = scan.run()
    manifest = json_of(name, "manifest.json")["scan"]
    assert instant.show(end.append) == manifest["append_position"]
    assert instant.show(end.good_end) == manifest["end"]
    assert end.fuzzy == manifest["fuzzy_end"]
    assert end.reason == manifest["stopped_because"]


@pytest.mark.parametrize("name", NAMES)
def test_backward_scan_is_the_forward_scan_reversed(name: str) -> None:
    log = DerbyLogFiles(DerbyDatabase(storage_of(name)))
    scan = ForwardScan(log, instant.make(1, 24))
    forward = list(scan)
    assert scan.end is not None
    assert list(backward(log, scan.end.append)) == forward[::-1]


def test_describe_gives_fields_in_on_disk_order() -> None:
    """The insert at (1,40777) of derby-log-format.md 19."""
    one = next(r for r in records_of("crash-five-transactions") if r.instant == instant.make(1, 40777))
    assert describe.describe(one, rows=True) == [
        ("instant", "(1,40777)"),
        ("length", 43),
        ("group", "need-lock|raw-store"),
        ("transaction", 194),
        ("operation", "Insert"),
        ("segment", 0),
        ("container", 0x4A1),
        ("page", 1),
        ("version", 8),
        ("record_id", 13),
        ("logical", True),
        ("slot", 7),
        ("flags", 1),
        ("data_bytes", 16),
        (
            "rows",
            [
                {
                    "status": 0,
                    "record_id": 13,
                    "fields": [{"status": 0, "data": "00000014"}, {"status": 0, "data": "00010d"}],
                }
            ],
        ),
    ]


def test_checkpoint_of_the_format_document() -> None:
    one = next(r for r in records_of("crash-five-transactions") if r.instant == instant.make(1, 41725))
    fields = dict(describe.describe(one))
    assert (fields["redo_lwm"], fields["undo_lwm"]) == ("(1,41652)", "(1,40674)")
    table = fields["table"]
    assert isinstance(table, list)
    assert len(table) == 3
    assert table[0] == {
        "transaction": 194,
        "global_id": None,
        "first": "(1,40674)",
        "last": "(1,40777)",
        "status": 0,
    }


def test_annotated_begin_of_the_format_document() -> None:
    raw = bytes.fromhex("0000001400000001" + "00009EE2" + "00814101009300C200A900000000" + "000000000000" + "00000014")
    body = raw[12:-4]
    one = record.decode_body(instant.make(1, 40674), body)
    assert one.transaction == 194
    assert one.group == 0x101
    assert record.encode(one) == raw
    assert FieldCursor(body).short() == 129
