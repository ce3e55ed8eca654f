"""``dump-log`` on real Derby databases, against the recorded decoding of every record."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from tests.cli.derby_databases import FIVE, NAMES, copy_of_je, damage, damage_cases, extract, manifest, recorded
from tests.support.harness import assert_valid, assert_valid_error, run

GROUPS = {
    "first": "FIRST",
    "last": "LAST",
    "compensation": "COMPENSATION",
    "commit": "COMMIT",
    "abort": "ABORT",
    "prepared": "PREPARE",
    "need-lock": "XA_NEEDLOCK",
    "raw-store": "RAWSTORE",
    "file-resource": "FILE_RESOURCE",
    "checksum": "CHECKSUM",
}
RENAMED = {
    "record_id": "recid",
    "new_page": "newpage",
    "page_status": "do",
    "new_highest": "newhigh",
    "pages_removed": "ntrunc",
    "value": "new",
    "old_value": "old",
    "flags": "flag",
    "next_record_id": "nextid",
    "page_offset": "offset",
    "page_format": "pformat",
}
HEAD = [
    "rec",
    "instant",
    "file",
    "offset",
    "operation",
    "group",
    "transaction",
    "undo_instant",
    "container",
    "page",
    "version",
    "length",
    "data_bytes",
    "after_end",
    "checksum_ok",
    "segment",
]


def global_id(text: str | None) -> Any:
    if text is None:
        return None
    number, first, second = text.split(":")
    return {"format": int(number), "gtrid": first, "bqual": second}


def operation(entry: dict[str, Any]) -> dict[str, Any]:
    """The fields of the operation in the form of records.jsonl.gz."""
    if entry["operation"] == "Checksum":
        return {"algo": entry["algorithm"], "dlen": entry["covered_bytes"], "value": entry["checksum"]}
    if entry["operation"] in ("BeginXact", "EndXact"):
        return {"status": entry["status"], "gid": global_id(entry["global_id"])}
    if entry["operation"] == "Checkpoint":
        table = [
            {
                "xid": one["transaction"],
                "gid": global_id(one["global_id"]),
                "first": one["first"] or "null",
                "last": one["last"] or "null",
                "status": one["status"],
            }
            for one in entry["table"]
        ]
        found = {"redoLWM": entry["redo_lwm"], "undoLWM": entry["undo_lwm"], "ttab": table}
        return found | {"ntrunc": entry["truncation_points"]}
    found = {"seg": entry["segment"], "cont": entry["container"]}
    if entry["page"] is None:
        kind = {"what": entry["kind"].upper()} if "kind" in entry else {}
        return {**found, "cver": entry["version"], **kind}
    found |= {"page": entry["page"], "pver": entry["version"]}
    for name, value in entry.items():
        if name == "logical":
            found["undo"] = "B2I" if value else None
        elif name == "record_ids":
            found |= {"recids": value, "nrows": len(value)}
        elif name == "copied_rows":
            found |= {"rows": [list(row.values()) for row in value], "nrows": len(value)}
        elif name not in HEAD:
            found[RENAMED.get(name, name)] = value
    return found


def as_recorded(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry in the form of records.jsonl.gz."""
    found = {
        "group": "|".join(GROUPS[name] for name in entry["group"]),
        "instant": entry["instant"],
        "length": entry["length"],
        "op": {**operation(entry), "type": entry["operation"]},
        "xid": entry["transaction"],
    }
    if entry["undo_instant"] is not None:
        found["undo_instant"] = entry["undo_instant"]
    if entry["data_bytes"]:
        found["optional_length"] = entry["data_bytes"]
    if entry["checksum_ok"] is not None:
        found["checksum_ok"] = entry["checksum_ok"]
    return found


def entries(database: Path, *options: str) -> list[dict[str, Any]]:
    """What NDJSON has in front of its summary, which must be right."""
    result = run("dump-log", database, "--format", "ndjson", *options)
    assert result.code == 0, result.err
    lines = result.lines()
    assert lines[-1]["rec"] == "summary"
    assert lines[-1]["entries"] == len(lines) - 1
    assert lines[-1]["complete"]
    return lines[:-1]


def instants(database: Path, *options: str) -> list[str]:
    return [entry["instant"] for entry in entries(database, *options)]


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that no test changes."""
    return extract(FIVE, tmp_path_factory.mktemp("five"))


@pytest.mark.parametrize("name", NAMES)
def test_every_record_is_the_recorded_one(name: str, tmp_path: Path) -> None:
    database = extract(name, tmp_path)
    result = run("dump-log", database, "--format", "ndjson")
    assert result.code == 0
    *found, summary = result.lines()
    assert [as_recorded(entry) for entry in found] == recorded(name)
    assert not any(entry["after_end"] for entry in found)
    files = len(manifest(name)["log_files"])
    assert summary == {
        "rec": "summary", "entries": len(found), "bad": 0, "skipped_bytes": 0, "files": files, "complete": True,
    }  # fmt: skip
    assert all(entry["instant"] == f"({entry['file']},{entry['offset']})" for entry in found)


@pytest.mark.parametrize("name", NAMES)
def test_every_format(name: str, tmp_path: Path) -> None:
    database = extract(name, tmp_path)
    count = len(recorded(name))
    for form in ("json", "ndjson"):
        result = run("dump-log", database, "--data", "--format", form)
        assert result.code == 0
        assert_valid("dump-log", result.out, form)
    rows = list(csv.DictReader(io.StringIO(run("dump-log", database, "--format", "csv").text)))
    assert [row["instant"] for row in rows] == [one["instant"] for one in recorded(name)]
    text = run("dump-log", database, "--data").text.splitlines()
    assert text[0].split()[:3] == ["INSTANT", "OPERATION", "TXN"]
    assert [line.split()[0] for line in text[1 : count + 1]] == [one["instant"] for one in recorded(name)]
    assert [line.split()[1] for line in text[1 : count + 1]] == [one["op"]["type"] for one in recorded(name)]
    assert text[count + 1] == ""


def test_text_of_a_record_with_its_row(five: Path) -> None:
    """The insert at (1,40777) of derby-log-format.md 19."""
    line = run("dump-log", five, "--from", "1,40777", "--limit", "1", "--data").text.splitlines()[1]
    assert line.split() == [
        "(1,40777)",
        "Insert",
        "194",
        "1185",
        "1",
        "8",
        "43",
        "-",
        "data_bytes=16",
        "record_id=13",
        "logical",
        "slot=7",
        "flags=0x1",
        "rows=[{status=0x0",
        "record_id=13",
        "fields=[{status=0x0",
        "data=0x00000014},",
        "{status=0x0",
        "data=0x00010d}]}]",
    ]


def test_clrs_name_what_they_undo(tmp_path: Path) -> None:
    database = extract("clean-shutdown", tmp_path)
    found = entries(database, "--type", "clr")
    expected = [one for one in recorded("clean-shutdown") if "undo_instant" in one]
    assert [as_recorded(entry) for entry in found] == expected
    assert expected


FILTERS: list[tuple[list[str], Any]] = [
    (["--txn", "194", "--txn", "196"], lambda e: e["xid"] in (194, 196)),
    (["--type", "insert,Delete"], lambda e: e["op"]["type"] in ("Insert", "Delete")),
    (["--type", "txn"], lambda e: e["op"]["type"] in ("BeginXact", "EndXact")),
    (["--type", "ckpt"], lambda e: e["op"]["type"] == "Checkpoint"),
    (["--type", "container"], lambda e: e["op"]["type"] == "Container"),
    (["--container", "1185"], lambda e: e["op"].get("cont") == 1185),
    (["--container", "1185", "--page", "1", "--txn", "194"],
     lambda e: e["op"].get("cont") == 1185 and e["op"].get("page") == 1 and e["xid"] == 194),
    (["--file", "log1.dat", "--type", "Purge"], lambda e: e["op"]["type"] == "Purge"),
    (["--file", "0x1", "--type", "Purge"], lambda e: e["op"]["type"] == "Purge"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "wanted"), FILTERS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_filters(five: Path, options: list[str], wanted: Any) -> None:
    expected = [one for one in recorded(FIVE) if wanted(one)]
    assert expected
    assert [as_recorded(entry) for entry in entries(five, *options)] == expected


def test_addresses(five: Path) -> None:
    every = [one["instant"] for one in recorded(FIVE)]
    assert instants(five, "--from", "(1,41725)", "--to", "1,41924") == every[every.index("(1,41725)") :][:4]
    assert instants(five, "--from", "0x1/0xa2fd", "--to", "ckpt") == ["(1,41725)"]
    assert instants(five, "--from", "ckpt", "--limit", "1") == ["(1,41725)"]
    assert instants(five, "--from", "first-active", "--limit", "1") == ["(1,40674)"]
    assert instants(five, "--from", "end") == every[-1:]


def test_limit_tail_and_reverse(tmp_path: Path) -> None:
    database = extract("crash-log-files", tmp_path)
    every = [one["instant"] for one in recorded("crash-log-files")]
    assert instants(database, "--limit", "5") == every[:5]
    assert instants(database, "--tail", "700") == every[-700:]
    assert instants(database, "--tail", "7", "--reverse") == every[:-8:-1]
    assert instants(database, "--reverse") == every[::-1]
    told = run("dump-log", database, "--reverse", "--progress", "json").err
    assert '"step":"dump"' in told
    assert (
        instants(database, "--reverse", "--limit", "3", "--type", "Insert")
        == [one["instant"] for one in reversed(recorded("crash-log-files")) if one["op"]["type"] == "Insert"][:3]
    )


@pytest.mark.parametrize("by", ["type", "file", "txn", "container"])
def test_stats(five: Path, by: str) -> None:
    result = run("dump-log", five, f"--stats={by}", "--format", "ndjson")
    assert_valid("dump-log", result.out, "ndjson")
    *rows, summary = result.lines()
    assert summary["entries"] == len(recorded(FIVE))
    assert sum(row["records"] for row in rows[:-1]) == rows[-1]["records"] == len(recorded(FIVE))
    assert rows[-1]["total_bytes"] == sum(one["length"] + 16 for one in recorded(FIVE))
    if by == "type":
        counted = {row["group"]: row["records"] for row in rows[:-1]}
        scan = manifest(FIVE)["scan"]["by_type"]
        assert counted == scan
    assert "total" in run("dump-log", five, f"--stats={by}").text


@pytest.mark.parametrize(
    "options",
    [
        ["--vlsn", "1..2"], ["--since", "-1h"], ["--until", "2026-01-01"], ["--db", "x"], ["--key", "0x00"],
        ["--prefix", "a"], ["--node-id", "1"], ["--provisional", "no"], ["--replicated"], ["--invisible"],
        ["--rolled-back"], ["--follow"], ["--nodes", "slots"], ["--stats=db"], ["--format", "xml"],
        ["--type", "INS_LN_TX"], ["--file", "00000001.jdb"],
    ],
    ids=lambda options: options[0],
)  # fmt: skip
def test_options_without_meaning_are_named(five: Path, options: list[str]) -> None:
    result = run("dump-log", five, *options)
    assert result.code == 2
    assert result.out == b""
    assert options[0].partition("=")[0] in result.err
    assert "Derby" in result.err


def test_options_of_derby_are_named_on_a_je_environment(tmp_path: Path) -> None:
    je = copy_of_je(tmp_path)
    for options in (["--container", "1"], ["--page", "1"], ["--stats=container"], ["--type", "CopyRows"],
                    ["--file", "log1.dat"], ["--from", "1,24"]):  # fmt: skip
        result = run("dump-log", je, *options, "--json")
        assert result.code == 2, options
        assert_valid_error(result)
        assert "JE environment" in result.err


def test_wrong_places(five: Path) -> None:
    assert run("dump-log", five, "--from", "9,24").code == 4
    assert run("dump-log", five, "--file", "log2.dat").code == 4
    assert run("dump-log", five, "--from", "41725").code == 2
    assert run("dump-log", five, "--from", "1,99999999999").code == 2
    assert run("dump-log", five, "--file", "log99999999999.dat").code == 2


def test_list_of_operations(five: Path) -> None:
    text = run("dump-log", five, "--type", "list").text
    assert "103  Insert" in text
    assert "groups: page container transaction txn ckpt clr" in text


def test_fields(five: Path) -> None:
    found = run("dump-log", five, "--fields", "instant,page,record_id", "--from", "1,41924", "--limit", "1", "--json")
    assert found.json()["records"] == [{"rec": "entry", "instant": "(1,41924)", "page": 1, "record_id": 18}]


def test_records_after_the_end_are_shown_and_marked(tmp_path: Path) -> None:
    """The commits of 194 and 200 lie after a damaged group: Derby would drop them in silence."""
    database = extract(FIVE, tmp_path)
    case = next(case for case in damage_cases() if case["damage"].startswith("one byte changed"))
    damage(database, case)
    result = run("dump-log", database, "--format", "ndjson")
    assert result.code == 1
    assert_valid("dump-log", result.out, "ndjson")
    *found, summary = result.lines()
    bad = [line for line in found if line["rec"] == "bad"]
    assert [(one["instant"], one["skipped"], one["next_instant"]) for one in bad] == [
        ("(1,41854)", 0, "(1,41891)"), ("(1,41891)", 33, "(1,41924)"),
    ]  # fmt: skip
    assert {one["path"] for one in bad} == {"log/log1.dat"}
    assert (summary["bad"], summary["skipped_bytes"]) == (2, 33)
    after_end = [one for one in found if one.get("after_end")]
    assert next(one["instant"] for one in after_end) == "(1,41854)"
    assert [one["transaction"] for one in after_end if "commit" in one["group"]] == [194, 200]
    assert "valid records lie after the end of the log, 2 commits among them" in result.err
    assert "AFTER-THE-END" in run("dump-log", database).text
    stopped = run("dump-log", database, "--stop-on-error", "--json")
    assert stopped.code == 7
    assert stopped.error()["lsn"] == "(1,41854)"


def test_a_torn_tail_is_no_damage(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    damage(database, next(case for case in damage_cases() if case["damage"] == "last ten bytes are zero"))
    result = run("dump-log", database, "--format", "ndjson")
    assert result.code == 0
    assert [line["rec"] for line in result.lines()].count("bad") > 0


def test_explain_says_what_recovery_does(five: Path) -> None:
    """Nine records are redone from redoLWM (1,41652) on; loser 196 is compensated by nine CLRs."""
    result = run("dump-log", five, "--explain", "--format", "ndjson")
    assert_valid("dump-log", result.out, "ndjson")
    found = result.lines()[:-1]
    assert [one["instant"] for one in found] == [one["instant"] for one in recorded(FIVE)]
    assert {one["recovery"] for one in found if one["instant"] < "(1,40674)" and len(one["instant"]) == 9} == {"unread"}
    assert sum(one["recovery"] == "redo" for one in found) == 9
    undone = [one for one in found if one["undone"]]
    assert {one["transaction"] for one in undone} == {196}
    assert len(undone) == 9
    assert all(one["why"] for one in found)
    text = run("dump-log", five, "--explain", "--from", "1,41924", "--limit", "1").text
    assert "recovery=redo" in text


def test_explain_of_a_damaged_log(tmp_path: Path) -> None:
    for number, case in enumerate(damage_cases()):
        database = extract(FIVE, tmp_path / str(number))
        damage(database, case)
        result = run("dump-log", database, "--explain", "--format", "ndjson")
        assert result.code in (0, 1, 5, 7), case["damage"]
        if result.code in (0, 1):
            assert_valid("dump-log", result.out, "ndjson")
