"""Renderers: each way of printing in each format, held against the published schemas."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import UsageError
from engine.fields import Field, Shape, named_row, shape_of
from jetool.frame import cli, schemas
from jetool.frame.decode_option import decoded_shape
from jetool.frame.record_output import PrintedRecord, text_line, write_records
from jetool.output import findings_formats, jsonl, text
from jetool.output.base import StreamLayout
from jetool.output.columns import rendered
from jetool.output.csv import CsvEncoder
from jetool.output.findings import FindingRow
from jetool.output.render import Renderer
from jetool.output.shape import PLAIN, Style
from tests.cli import sample
from tests.cli.sample import RULES, Bad, Entry, Found, Summary
from tests.support.harness import assert_valid, run

pytestmark = pytest.mark.usefixtures("samples")


class Memory:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.data = b""
        self.flushed = 0

    def open(self) -> None:
        pass

    def write(self, data: bytes) -> None:
        self.data += data

    def flush(self) -> None:
        self.flushed += 1

    def commit(self) -> None:
        pass

    def abandon(self) -> None:
        pass


@pytest.mark.parametrize("line", ["sample E", "sample E --bad", "control E", "rows E 2", "rows E 0", "check E"])
def test_output_is_valid(line: str) -> None:
    words = line.split()
    assert_valid(words[0], run(*words, "--format", "json").out)
    assert_valid(words[0], run(*words, "--format", "ndjson").out, "ndjson")


def test_validation_refuses_what_is_not_declared() -> None:
    good = run("control", "/data", "--json").json()
    for bad in ({**good, "extra": 1}, {**good, "clean": "yes"}, {k: v for k, v in good.items() if k != "home"}):
        with pytest.raises(Exception, match=r"extra|yes|home"):
            assert_valid("control", json.dumps(bad))
    lines = run("sample", "/data", "--format", "ndjson").text
    with pytest.raises(AssertionError):
        assert_valid("sample", lines[: lines.rindex('{"rec":"summary"')], "ndjson")


def test_stream_as_text() -> None:
    lines = run("sample", "/data", "--bad").text.splitlines()
    assert lines[0].split() == ["rec", "LSN", "type", "key", "VLSN", "skipped"]
    assert lines[1].split() == ["entry", "0x1f/0x2a3c", "CkptStart", "-", "-", "-"]
    assert lines[2].split() == ["entry", "0x1f/0x2a60", "INS_LN_TX", "0x6b65792c31", "17", "-"]
    assert lines[3].split() == ["bad", "0x1f/0x3000", "-", "-", "-", "99", "B"]
    assert lines[-1].split() == ["entries", "2"]
    assert lines[0].index("VLSN") + 4 == lines[2].index("17") + 2, "numbers end where their heading ends"


def test_stream_with_lines_of_its_own() -> None:
    sink = Memory()
    out = Renderer("text", PLAIN, None, sink)
    with out.stream(Entry, line=lambda rec, row, style: f"{rec}:{len(row)}") as stream:
        stream.row(sample.ENTRIES[0])
        stream.end([])
    assert sink.data == b"entry:4\n"
    chosen = Renderer("text", PLAIN, ("type",), sink)
    with chosen.stream(Entry, line=lambda rec, row, style: "own") as stream:
        stream.end([])
    assert sink.data.endswith(b"type\n"), "--fields overrides the command's own line"


def test_stream_as_json_has_commas_between_parts_of_any_size() -> None:
    for sizes in ([], [0], [1], [2, 0, 1], [1, 1, 1]):
        sink = Memory()
        with Renderer("json", PLAIN, None, sink).stream(Entry, Bad) as stream:
            for size in sizes:
                stream.write(stream.encoder.rows([named_row(sample.ENTRIES[0])] * size))
            stream.end(Summary(entries=sum(sizes)))
        value = json.loads(sink.data)
        assert len(value["records"]) == sum(sizes)
        assert value["summary"] == {"entries": sum(sizes)}
        assert_valid("sample", sink.data)


@pytest.mark.parametrize("make", [jsonl.NdjsonEncoder, jsonl.JsonEncoder, CsvEncoder, text.TextEncoder])
def test_encoders_can_go_to_worker_processes(make: type) -> None:
    plan = StreamLayout((shape_of(Entry), shape_of(Bad)), ("lsn", "type"), Style(key_format="text"), sample_line)
    encoder = make(plan)
    rows = [named_row(entry) for entry in sample.ENTRIES]
    assert pickle.loads(pickle.dumps(encoder)).rows(rows) == encoder.rows(rows) != b""


def sample_line(rec: str, row: object, style: Style) -> str:
    return rec


def test_stream_without_a_summary_is_a_bug() -> None:
    out = Renderer("ndjson", PLAIN, None, Memory())
    with pytest.raises(RuntimeError), out.stream(Entry):
        pass
    with pytest.raises(KeyError), out.stream(Entry):
        raise KeyError


def test_flush_reaches_the_sink() -> None:
    sink = Memory()
    stream = Renderer("ndjson", PLAIN, None, sink).stream(Entry)
    stream.flush()
    assert sink.flushed == 1


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"), ("@SUM(A1)", "'@SUM(A1)"), ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"), ("-x", "'-x"),
        ("-5", "-5"), ("+1.5e3", "+1.5e3"), ("a=1", "a=1"), ("", ""), ("'=1", "'=1"),
    ],
)  # fmt: skip
def test_csv_cells_are_no_formulas(tmp_path: Path, text: str, cell: str) -> None:
    """A record whose key a spreadsheet would run; NDJSON has it as it is."""
    with Environment(tmp_path / "env", EnvironmentConfig(create=True)) as env:
        env.create_database("d").put(b"k", text.encode())
    words = ("scan", tmp_path / "env", "--db", "d", "--key-format", "utf8", "--data-format", "utf8")
    rows = list(csv.DictReader(io.StringIO(run(*words, "--format", "csv").text)))
    assert rows[0]["data"] == cell
    assert json.loads(run(*words, "--format", "ndjson").text.splitlines()[0])["data"] == text


def test_csv_can_be_read_back() -> None:
    rows = list(csv.DictReader(io.StringIO(run("sample", "/data", "--format", "csv", "--key-format", "text").text)))
    assert rows[1] == {
        "rec": "entry", "lsn": "0x1f/0x2a60", "type": "INS_LN_TX", "key": "key,1", "vlsn": "17", "skipped": "",
    }  # fmt: skip
    document = next(csv.DictReader(io.StringIO(run("control", "/data", "--format", "csv").text)))
    assert document["clean"] == "true"
    assert json.loads(document["files"]) == [{"name": "00000000.jdb", "size_bytes": 20_000}]
    assert run("rows", "/data", "0", "--format", "csv").text == "lsn,type,key,vlsn\n"


def test_document_as_text() -> None:
    assert run("control", "/data").text == (
        "  home   /data\n  clean  yes\n  ids    1, 2\n\n"
        "ckpt\n  start lsn  0x0/0x10\n\n"
        "files\n  name            size bytes\n  ------------  ------------\n  00000000.jdb      19.5 KiB\n"
    )


def test_headings_are_bold_where_colours_are_wanted() -> None:
    assert "\x1b[1mckpt\x1b[0m" in run("control", "/data", "--color", "always").text
    assert "\x1b" not in run("control", "/data").text
    assert "\x1b[1m" in run("control", "/data", terminal=True).text
    assert "\x1b" not in run("control", "/data", "--color", "never", terminal=True).text
    assert "\x1b" not in run("control", "/data", "--json", "--color", "always").text


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("control", "/data", terminal=True).text
    assert "\x1b" in run("control", "/data", "--color", "always").text


def test_empty_table_has_its_headings() -> None:
    assert run("rows", "/data", "0").text.split() == ["LSN", "type", "key", "VLSN"]
    assert run("rows", "/data", "0", "--json").json() == {"records": [], "summary": {"count": 0}}
    assert run("rows", "/data", "0", "--format", "ndjson").lines() == [{"rec": "summary", "count": 0}]


def test_fields_select_and_order() -> None:
    assert list(run("rows", "/data", "1", "--json", "--fields", "type,lsn").json()["records"][0]) == ["type", "lsn"]
    assert run("rows", "/data", "1", "--format", "csv", "--fields", "type,lsn").text.splitlines()[0] == "type,lsn"
    twice = run("rows", "/data", "1", "--format", "csv", "--fields", "type,lsn,type").text.splitlines()
    assert twice[0] == "type,lsn,type"
    assert twice[1].split(",")[0] == twice[1].split(",")[2] != ""
    assert run("rows", "/data", "1", "--fields", "type,lsn").text.split()[:2] == ["type", "LSN"]
    assert list(run("control", "/data", "--json", "--fields", "clean,home").json()) == ["clean", "home"]
    lines = run("sample", "/data", "--bad", "--format", "ndjson", "--fields", "vlsn,lsn").lines()
    assert list(lines[0]) == ["rec", "vlsn", "lsn"]
    assert list(lines[2]) == ["rec", "lsn", "skipped"], "damage is always whole"
    assert list(lines[3]) == ["rec", "entries"]


@pytest.mark.parametrize("command", ["rows", "control", "sample", "check"])
@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_unknown_field_lists_the_known(command: str, form: str) -> None:
    words = [command, "/data", "1"] if command == "rows" else [command, "/data"]
    result = run(*words, "--fields", "lsn,nope,code,home", "--format", form)
    assert result.code == 2
    assert result.out == b""
    assert "nope" in result.err
    assert "--fields takes " in result.err


def test_findings_as_text_and_json() -> None:
    shown = run("check", "/data")
    assert shown.code == 1
    assert shown.text.splitlines()[:4] == [
        "ERROR JE-LOG-001 0000001f.jdb 0x1f/0x2a3c key 0x00ff",
        "  checksum does not match <&>",
        "  consequence: one record is lost",
        "  remedy: jetool salvage",
    ]
    value = run("check", "/data", "--json").json()
    assert value["findings"][0]["code"] == "JE-LOG-001"
    assert value["summary"] == {"entries": 2}
    assert_valid("check", run("check", "/data", "--clean", "--json").out)


def test_no_findings_leave_the_summary_alone() -> None:
    assert run("check", "/data", "--clean").text == "  entries  2\n"


def test_findings_as_junit() -> None:
    suite = ET.fromstring(run("check", "/data", "--format", "junit").out).find("testsuite")
    assert suite is not None
    assert suite.attrib["tests"] == "2"
    assert suite.attrib["failures"] == "1"
    failures = suite.findall("testcase/failure")
    assert [case.attrib["name"] for case in suite.findall("testcase")] == ["JE-LOG-001", "JE-LOG-002"]
    assert failures[0].text == "0000001f.jdb 0x1f/0x2a3c: " + failures[0].attrib["message"]
    assert "<&>" in failures[0].attrib["message"]
    # What the format's schema requires.
    assert {"name", "timestamp", "hostname", "tests", "failures", "errors", "time"} <= set(suite.attrib)
    assert re.fullmatch(r"\d{4}(-\d\d){2}T\d\d(:\d\d){2}", suite.attrib["timestamp"])
    assert all({"name", "classname", "time"} <= set(case.attrib) for case in suite.findall("testcase"))
    assert [failure.attrib["type"] for failure in failures] == ["error"]
    clean = ET.fromstring(run("check", "/data", "--clean", "--format", "junit").out)
    assert clean.attrib["failures"] == "0"


def test_findings_as_sarif() -> None:
    log = run("check", "/data", "--format", "sarif").json()
    assert log["version"] == "2.1.0"
    (one,) = log["runs"]
    assert [rule["id"] for rule in one["tool"]["driver"]["rules"]] == [code for code, _ in RULES]
    (result,) = one["results"]
    assert (result["ruleId"], result["level"]) == ("JE-LOG-001", "error")
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "0000001f.jdb"}, "region": {"byteOffset": 0x2A3C}}


def test_findings_for_prometheus() -> None:
    before = time.time()
    lines = run("check", "/data", "--format", "prometheus").text.splitlines()
    at = f'host="{os.uname().nodename}",environment="/data"'
    assert f'jetool_findings{{{at},code="JE-LOG-001",severity="error"}} 1' in lines
    assert not any('code="JE-LOG-002"' in line for line in lines)
    assert f'jetool_environment_findings{{{at},severity="error"}} 1' in lines
    assert f"jetool_verify_entries{{{at}}} 2" in lines
    assert f"jetool_verify_complete{{{at}}} 1" in lines
    (when,) = [line for line in lines if line.startswith("jetool_verify_timestamp_seconds{")]
    assert when.startswith(f"jetool_verify_timestamp_seconds{{{at}}} ")
    assert before - 1 <= float(when.split()[-1]) <= time.time() + 1
    series = [line.rsplit(" ", 1)[0] for line in lines if not line.startswith("#")]
    assert len(set(series)) == len(series)
    for name in {one.partition("{")[0] for one in series}:
        assert [line.split()[1:3:1] for line in lines if line.startswith("#") and line.split()[2] == name] == [
            ["HELP", name], ["TYPE", name],
        ]  # fmt: skip


def test_prometheus_of_a_fleet_counts_by_environment() -> None:
    """Quotes in a path are escaped; an environment that could not be checked is not complete."""
    sink = Memory()
    found = Renderer("prometheus", PLAIN, None, sink).findings(RULES, ["/a", '/b"c', "/d"])
    for env in ("/a", "/a", '/b"c'):
        found.add(Found(**vars(sample.FINDINGS[0]), environment=env))
    found.end([("environments", "int", 3)], ["/d"])
    host = os.uname().nodename
    lines = [line for line in sink.data.decode().splitlines() if not line.startswith("#")]
    counts = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}
    assert counts[f'jetool_findings{{host="{host}",environment="/a",code="JE-LOG-001",severity="error"}}'] == 2
    assert counts[f'jetool_environment_findings{{host="{host}",environment="/b\\"c",severity="error"}}'] == 1
    assert counts[f'jetool_environment_findings{{host="{host}",environment="/d",severity="error"}}'] == 0
    assert counts[f'jetool_verify_complete{{host="{host}",environment="/d"}}'] == 0
    assert counts[f'jetool_verify_complete{{host="{host}",environment="/a"}}'] == 1


def test_a_check_that_did_not_end_is_no_success_for_a_build_server() -> None:
    for form in ("junit", "sarif"):
        sink = Memory()
        found = Renderer(form, PLAIN, None, sink).findings(RULES, ["/data"])
        found.end([("checked", "texts", ["log", "tail"])], ["/data"])
        if form == "sarif":
            assert json.loads(sink.data)["runs"][0]["invocations"][0]["executionSuccessful"] is False
            continue
        suite = ET.fromstring(sink.data).find("testsuite")
        assert suite is not None
        assert (suite.attrib["errors"], suite.attrib["tests"]) == ("1", "3")
        assert [case.attrib["name"] for case in suite.findall("testcase") if case.find("error") is not None] == [
            "complete: /data"
        ]
        assert {one.attrib["name"]: one.attrib["value"] for one in suite.findall("properties/property")} == {
            "environment": "/data", "checked": "log, tail",
        }  # fmt: skip


def test_junit_and_sarif_keep_a_bounded_number_but_count_all() -> None:
    sink = Memory()
    found = Renderer("junit", PLAIN, None, sink).findings(RULES, ["/data"])
    finding = Found(**{**vars(sample.FINDINGS[0]), "message": "bad \x00\x1b character", "severity": "warning"})
    for _ in range(findings_formats.MOST_KEPT + 7):
        found.add(finding)
    found.end([])
    failure = ET.fromstring(sink.data).find("testsuite/testcase/failure")
    assert failure is not None
    assert failure.text is not None
    assert failure.text.count("\n") == findings_formats.MOST_KEPT
    assert failure.text.endswith("and 7 more")
    assert failure.attrib["message"] == f"{findings_formats.MOST_KEPT + 7} findings"


def test_every_schema_is_one_and_describes_an_object() -> None:
    for name, command in cli.commands():
        schema = schemas.of(name, command)
        if schema is not None:
            jsonschema_rs.meta.validate(schema)
            assert all(one["type"] == "object" for one in schema.get("anyOf", [schema])), name


def test_findings_take_fields() -> None:
    assert run("check", "/data", "--format", "csv", "--fields", "code").text == "code\nJE-LOG-001\n"
    assert run("check", "/data", "--format", "csv").text.splitlines()[0] == ",".join(shape_of(FindingRow).names())


def test_names_that_are_no_utf8_come_out_as_on_disk() -> None:
    name = b"odd\xff".decode("utf-8", "surrogateescape")
    sink = Memory()
    Renderer("json", PLAIN, ("home",), sink).document(
        sample.Control(home=name, clean=True, ids=[], ckpt=None, files=[])
    )
    assert json.loads(sink.data) == {"home": name}
    assert text.encode(name) == b"odd\xff"


@pytest.mark.parametrize("characters", ["\x7f", "\x9f", "\u202e", "\u2069", "\u2028", "x\u200ey"])
def test_json_spells_them_as_json_does(characters: str) -> None:
    for written in (jsonl.line({"k": characters}), jsonl.pretty({"k": characters})):
        assert written.decode("utf-8").isascii()
        assert json.loads(written) == {"k": characters}


def test_a_name_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    """Nothing is made: JE would know the database by another name."""
    env = tmp_path / "env"
    result = run("create", env, "--db", "bad\udcff")
    assert result.code == 2
    assert "UTF-8" in result.err
    assert not env.exists()
    assert run("create", env).code == 0
    before = {path.name: path.read_bytes() for path in env.glob("*.jdb")}
    with Environment(str(env)) as opened, pytest.raises(UsageError, match="UTF-8"):
        opened.create_database("bad\udcff")
    assert {path.name: path.read_bytes() for path in env.glob("*.jdb")} == before


COLUMNS = Shape(
    "sample",
    "Values of many kinds.",
    tuple(
        Field(kind, kind, "") for kind in ("int", "vlsn", "lsn", "text", "bool", "time", "key", "size_bytes", "ints")
    ),
)
VALUES: list[tuple[Any, ...]] = [
    (0, -1, -1, "plain", True, None, b"k", 5, ()),
    (-7, 3, 0x1F00002A3C, "", False, 0, b"", 10_240, (1,)),
    (1 << 62, None, (0xFFFFFFFF << 32) + 5 - (1 << 64), "\x1b[2J\u202e", None, -1, b"\xff\x00", None, (3, 4)),
    (4, 4, (0x7FFFFFFF << 32) + 0xFFFFFFFF, 'a "quote", \udc80', True, 1 << 60, None, 3, None),
]


# Rows with columns in which all values, or all lengths, are the same; the last columns blank or not.
ALIKE: list[list[tuple[Any, ...]]] = [
    [(number, 5, (7 << 32) + 16 + number, "same", True, 0, b"k", number, last) for number in range(9)]
    for last in ((), None, (1,))
] + [[(5, 5, (number << 32) + 16, f"{number} ", False, number, b"%d" % number, 3, (number,)) for number in range(12)]]


@pytest.mark.parametrize("style", [Style(), Style(key_format="utf8"), Style(data_format="utf8"), Style(width=30)])
@pytest.mark.parametrize("form", ["text", "csv", "json", "ndjson"])
def test_records_are_written_as_rows(form: str, style: Style) -> None:
    records = [(b"", b""), (b"key", b"\x00\xff"), (b"key2", b"x" * 40)] * 3
    memory, other = Memory(), Memory()
    shape = decoded_shape(PrintedRecord, None)
    stream = Renderer(form, style, None, memory).stream(shape, line=text_line)
    assert write_records(stream, records) == len(records)
    again = Renderer(form, style, None, other).stream(shape, line=text_line)
    again.rows(named_row(PrintedRecord(key, data)) for key, data in records)
    assert memory.data == other.data
    assert memory.data


LSNS = Shape("lsns", "Two LSNs, and a text that may be blank.", tuple(
    Field(name, kind, "") for name, kind in (("first", "lsn"), ("text", "text"), ("last", "lsn"), ("end", "text"))
))  # fmt: skip


def values(kind: st.SearchStrategy[Any], size: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(kind, min_size=size, max_size=size)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(["text", "csv", "json", "ndjson"]))
def test_any_columns_are_rendered_as_rows(data: st.DataObject, form: str) -> None:
    encoder = Renderer(form, Style(), None, Memory()).stream(LSNS).encoder
    lsns = st.sampled_from((-1, 0, 5 << 32, (5 << 32) + 0xFFFFFFFF, (6 << 32) + 1, (0xFFFFFFF0 << 32) - (1 << 64)))
    texts = st.sampled_from(("", " ", "a", "a b ", "=1", "\x1b", "\u202e", "a,b", "\udc80", None))
    size = data.draw(st.integers(1, 8))
    column: list[list[Any]] = [data.draw(values(kind, size)) for kind in (lsns, texts, lsns, texts)]
    constant = data.draw(st.sets(st.integers(0, 3)))
    columns: list[list[Any]] = [[one[0]] * size if at in constant else one for at, one in enumerate(column)]
    columns[2] = columns[0] if data.draw(st.booleans()) else columns[2]
    kinds = [(field.name, field.kind) for field in LSNS.fields]
    rows = [[(*kind, value) for kind, value in zip(kinds, row, strict=True)] for row in zip(*columns, strict=True)]
    expected = encoder.rows([("lsns", row) for row in rows])
    assert rendered(encoder, LSNS, dict(zip(LSNS.names(), columns, strict=True))) == expected


@pytest.mark.parametrize("key_format", ["utf8", "hex"])
@pytest.mark.parametrize("selected", [None, ("text", "lsn")])
@pytest.mark.parametrize("form", ["text", "csv", "json", "ndjson"])
def test_columns_are_rendered_as_rows(form: str, selected: tuple[str, ...] | None, key_format: str) -> None:
    memory = Memory()
    encoder = Renderer(form, Style(key_format=key_format), selected, memory).stream(COLUMNS).encoder
    # Few rows, of which each value is another, and many, in which values are repeated.
    for values in (VALUES[:1], VALUES[1:3], VALUES, VALUES * 5, *ALIKE):
        names = COLUMNS.names()
        expected = encoder.rows([("sample", list(zip(names, names, row, strict=True))) for row in values])
        columns = dict(zip(names, zip(*values, strict=True), strict=True))
        assert rendered(encoder, COLUMNS, columns) == expected
        assert expected
