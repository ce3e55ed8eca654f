"""``jetool dump-log``: entry for entry what is in the log, in every format, past damage, with every filter."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from collections import Counter
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment as OpenEnvironment
from engine.errors import StorageError
from engine.format.describe import describe
from engine.format.entry.file_header import FileHeader, encode_file_header
from engine.format.entry.ln import LN
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_fields import ENTRY_SHAPE
from engine.format.entry_types import COMMIT
from engine.format.header import EntryHeader, encode_entry
from engine.format.lsn import NULL_LSN
from engine.log.entry import LogEntry
from engine.storage.disk import DiskStorage
from jetool.commands.dump_log.json_lines import EntryJsonLines
from jetool.commands.dump_log.rows import BodyView, entry_row
from jetool.commands.dump_log.text_lines import LineRenderer
from jetool.output.base import StreamLayout
from jetool.output.jsonl import NdjsonEncoder
from jetool.output.shape import Style
from tests.support.children import child
from tests.support.environments.oracle import Environment, environments
from tests.support.harness import Result, assert_valid, run
from tests.support.logs.ndjson import entry_json
from tests.support.samples import part

GOLDEN = Path(__file__).parent.parent / "golden"
TXN_CRASH = GOLDEN / "je-17" / "txn-crash"
ROLLBACK = GOLDEN / "je-17" / "ha-rollback"
CORRUPT = GOLDEN / "je-17" / "corrupt-middle"
TORN = GOLDEN / "je-17" / "torn-cut-mid"


def dump(env: Path, *options: str) -> Result:
    return run("dump-log", str(env), *options)


def entries(env: Path, *options: str) -> list[dict[str, Any]]:
    result = dump(env, "--format", "ndjson", *options)
    *lines, summary = result.lines()
    assert summary["rec"] == "summary"
    assert summary["entries"] == sum(line["rec"] == "entry" for line in lines)
    return [line for line in lines if line["rec"] == "entry"]


def lsns(found: list[dict[str, Any]]) -> list[str]:
    return [entry["lsn"] for entry in found]


def plain_names(line: dict[str, Any]) -> dict[str, Any]:
    """An NDJSON line with the names that ``describe`` uses: byte arrays without ``_hex``."""
    named = {}
    for name, value in line.items():
        if name == "slot_list":
            named[name] = [plain_names(slot) for slot in value]
        elif name in ("db", "txn") and value is None:
            continue
        else:
            named["dup_count" if name == "dup_count_ref" else name.removesuffix("_hex")] = value
    return named


def without_nulls(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in ("db", "txn") or value is not None}


@pytest.mark.parametrize("environment", part(environments()))
def test_every_entry_is_the_one_that_was_held_against_dbprintlog(environment: Environment) -> None:
    result = dump(environment.path / "env", "--format", "ndjson", "--nodes", "slots", "--data", "--jobs", "1")
    found = [plain_names(line) for line in result.lines() if line["rec"] == "entry"]
    expected = [without_nulls(entry_json(item)) for item in environment.read() if isinstance(item, LogEntry)]
    assert found == expected


@pytest.mark.parametrize("environment", environments())
def test_counts_by_type_are_those_of_dbprintlog(environment: Environment) -> None:
    result = dump(environment.path / "env", "--stats", "--format", "ndjson")
    found = {line["group"]: line for line in result.lines() if line["rec"] == "counted"}
    if environment.release == "3.3.98":
        return  # It has no -SC.
    summary = environment.expected("printlog-summary.csv").decode()
    if "Checksum" in summary:
        return  # Damaged: JE printed an exception and no counts.
    for row in csv.DictReader(io.StringIO(summary)):
        if row["type"] == "key bytes" or not (row["avg bytes"] or "").isdigit():
            break  # Sums and checkpoint intervals follow, or an exception in the middle of JE's output.
        name = {"Root": "DbTree"}.get(row["type"].strip(), row["type"].strip())
        line = found[name]
        counted = [int(row[key].replace(",", "")) for key in ("total count", "provisional count", "total bytes")]
        assert [line["entries"], line["provisional"], line["total_bytes"]] == counted, name


def test_output_is_valid(tmp_path: Path) -> None:
    for env in (TXN_CRASH, ROLLBACK, CORRUPT, GOLDEN / "je-6" / "dups", GOLDEN / "je-26" / "ha-rollback"):
        assert_valid("dump-log", dump(env, "--format", "ndjson", "--nodes", "slots", "--data").out, "ndjson")
        assert_valid("dump-log", dump(env, "--format", "json").out)
        assert_valid("dump-log", dump(env, "--stats", "--json").out)


def test_processes_give_the_same_bytes() -> None:
    for form in ("text", "ndjson", "json", "csv", "xml"):
        one = dump(CORRUPT, "--format", form, "--jobs", "1")
        two = dump(CORRUPT, "--format", form, "--jobs", "2")
        assert one.out == two.out
        assert one.code == two.code == 1


def test_lines_of_text() -> None:
    lines = dump(GOLDEN / "je-17" / "empty").text.splitlines()
    assert lines[0].split() == ["LSN", "TYPE/VER", "PROV", "VLSN", "TXN", "DB", "SIZE", "DETAIL"]
    key = b"_jeUtilization".hex()
    assert " ".join(lines[3].split()) == (
        f"0x0/0x58 BIN/17 yes - - 1 32 node=2 level=0x10001 slots=0 max_entries=128 identifier_key=0x{key} flags=0x4"
    )
    commit = next(line for line in lines if " Commit/17 " in line)
    assert " last_lsn=0x0/0xc7 time=2026-11-" in commit
    assert lines[-1].split() == ["complete", "yes"]


@pytest.mark.parametrize("env", sorted(path for path in GOLDEN.glob("je-*/*") if path.is_dir()), ids=lambda p: p.name)
def test_the_short_way_prints_what_the_general_one_does(env: Path) -> None:
    """Most lines are made without ``describe``; they must not differ from it."""
    lines = LineRenderer(BodyView(), Style())
    for item in Environment(env.name, env)._replace(path=env).read() if (env / "env").is_dir() else read(env):
        assert isinstance(item, LogEntry)
        record = item.record()
        if isinstance(record, LN) and record.content is None and record.tail is None:
            assert lines.entry(item, record, "").endswith("  " + expected_words(lines, item, record))
        if isinstance(record, TxnEnd):
            shown = lines.entry(item, record, "")
            assert sorted(shown.split()[7:]) == sorted(expected_words(lines, item, record).split())


@pytest.mark.parametrize("data", [False, True])
@pytest.mark.parametrize("env", sorted(path for path in GOLDEN.glob("je-*/*") if path.is_dir()), ids=lambda p: p.name)
def test_lines_of_json_are_those_of_the_general_way(env: Path, data: bool) -> None:
    view = BodyView(data=data)
    style = Style(tz=timezone(timedelta(hours=5, minutes=30)))
    lines, encoder = EntryJsonLines(view, style), NdjsonEncoder(StreamLayout((ENTRY_SHAPE,), None, style))
    for item in Environment(env.name, env)._replace(path=env).read() if (env / "env").is_dir() else read(env):
        assert isinstance(item, LogEntry)
        record = item.record()
        made = lines.line(item, record)
        # Of these it makes them itself where nothing is uncommon: everything that the golden logs hold until v18.
        if made is None:
            assert not isinstance(record, TxnEnd)
        else:
            assert isinstance(record, (LN, TxnEnd))
            assert f"{made}\n".encode() == encoder.rows([("entry", entry_row(item, record, "", view))])


@pytest.mark.parametrize("time", [0, -1, -62_135_596_800_001, 1 << 60, 999, 1_700_000_000_123])
def test_times_of_json_lines_are_those_of_the_general_way(time: int) -> None:
    encoder = NdjsonEncoder(StreamLayout((ENTRY_SHAPE,), None, Style()))
    lines = EntryJsonLines(BodyView(), Style())
    for last_lsn in (NULL_LSN, 0x500000020, -5, 1 - (1 << 32)):
        record = TxnEnd(last_lsn, 7, time, 1, -1, 0)
        entry = LogEntry(0x200000030, COMMIT, 17, 0, 16, 20, -1, 99, True, b"")
        made = lines.line(entry, record)
        if made is not None:
            assert f"{made}\n".encode() == encoder.rows([("entry", entry_row(entry, record, "", BodyView()))])
        assert (made is None) == (last_lsn < NULL_LSN)


def expected_words(lines: LineRenderer, item: LogEntry, record: tuple[Any, ...]) -> str:
    words = lines.words(describe(record))
    marks = ("invisible " if item.invisible else "") + ("replicated " if item.replicated else "")
    return marks + words


def read(env: Path) -> list[LogEntry]:
    from engine.log.files import list_log_files
    from engine.log.scan import scan_log

    storage = DiskStorage(env)
    return list(scan_log(storage, list_log_files(storage), marker=True).good_entries())


def test_damage_is_named_and_stepped_over() -> None:
    result = dump(CORRUPT, "--format", "ndjson")
    bad = [line for line in result.lines() if line["rec"] == "bad"]
    assert result.code == 1
    assert bad == [
        {
            "rec": "bad", "lsn": "0x5/0x80e", "path": "00000005.jdb", "offset": 0x80E, "skipped": 56,
            "reason": "checksum", "expected": "0x10e20c33", "found": "0x0e820c23", "says": "INS_LN_TX",
            "next_lsn": "0x5/0x846", "found_by": "size chain",
        }
    ]  # fmt: skip
    behind = [line["lsn"] for line in result.lines() if line.get("lsn", "").startswith("0x5/0x84")]
    assert behind == ["0x5/0x846"]
    assert "0x5/0x80e         BAD 00000005.jdb: wrong checksum of what says it is INS_LN_TX" in dump(CORRUPT).text


def test_a_torn_tail_is_printed_and_no_damage() -> None:
    result = dump(TORN, "--format", "ndjson")
    bad = [line for line in result.lines() if line["rec"] == "bad"]
    assert result.code == 0
    assert [(line["lsn"], line["skipped"], line["reason"], line["found_by"]) for line in bad] == [
        ("0x5/0xc27", 50, "cut", "end of log")
    ]


def test_stop_on_error() -> None:
    result = dump(CORRUPT, "--stop-on-error", "--json")
    assert result.code == 7
    assert result.error()["lsn"] == "0x5/0x80e"
    assert "stopped at the first damage" in result.err


ALL = entries(TXN_CRASH)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--type", "commit"], lambda e: e["type"] == "Commit"),
        (["--type", "ckpt,Abort"], lambda e: e["type"] in ("CkptStart", "CkptEnd", "Abort")),
        (["--type", "in", "--provisional", "yes"],
         lambda e: e["type"] in ("IN", "BIN", "NewBINDelta") and e["provisional"] == "yes"),
        (["--txn", "12", "--txn", "13"], lambda e: e["txn"] in (12, 13)),
        (["--db", "7"], lambda e: e["db"] == 7),
        (["--db", "tags", "--type", "ln"], lambda e: e["db"] == 7 and "LN" in e["type"]),
        (["--node", "2"], lambda e: e.get("node") == 2),
        (["--key", "0x00000aa9"], lambda e: e.get("key_hex") == "00000aa9"),
        (["--key-prefix", "user0000", "--type", "ln"], lambda e: e.get("key_hex", "").startswith(b"user0000".hex())),
        (["--from", "0x0/0x593", "--to", "0x0/0x5df"], lambda e: 0x593 <= e["offset"] <= 0x5DF),
        (["--file", "0x0", "--type", "DbTree"], lambda e: e["type"] == "DbTree"),
        (["--replicated"], lambda e: e["replicated"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_filters(options: list[str], wanted: Any) -> None:
    expected = [entry for entry in ALL if wanted(entry)]
    assert entries(TXN_CRASH, *options) == expected
    assert expected or options == ["--replicated"]


def test_symbolic_addresses() -> None:
    ends = [entry for entry in ALL if entry["type"] == "CkptEnd"]
    assert entries(TXN_CRASH, "--from", "ckpt")[0]["lsn"] == ends[-1]["ckpt_start_lsn"]
    assert entries(TXN_CRASH, "--from", "first-active")[0]["lsn"] == ends[-1]["first_active_lsn"]
    assert lsns(entries(TXN_CRASH, "--from", "end")) == [ALL[-1]["lsn"]]
    assert dump(TXN_CRASH, "--from", "1459").code == 2


def test_times_choose_whole_transactions() -> None:
    commits = [entry for entry in ALL if entry["type"] == "Commit"]
    middle = commits[len(commits) // 2]
    found = entries(TXN_CRASH, "--since", middle["time"])
    assert middle["lsn"] in lsns(found)
    assert all(entry["time"] >= middle["time"] for entry in found if entry["type"] in ("Commit", "Abort"))
    earlier = [e for e in ALL if e.get("time") and e["type"] != "Trace" and e["time"] < middle["time"]]
    assert not set(lsns(earlier)) & set(lsns(found))
    until = entries(TXN_CRASH, "--until", middle["time"])
    assert middle["lsn"] in lsns(until)
    assert all(entry["time"] <= middle["time"] for entry in until if entry["type"] == "Commit")
    # What follows the last time in the log may be of any later time.
    last = max(i for i, entry in enumerate(ALL) if entry.get("time"))
    assert lsns(entries(TXN_CRASH, "--since", "2100-01-01")) == lsns(ALL)[last + 1 :]
    assert lsns(entries(TXN_CRASH, "--since", "1990-01-01")) == lsns(ALL)


def test_rollback_filters() -> None:
    everything = entries(ROLLBACK)
    invisible = [entry for entry in everything if entry["invisible"]]
    assert len(invisible) > 3
    assert entries(ROLLBACK, "--invisible") == invisible
    assert entries(ROLLBACK, "--rolled-back") == invisible
    low, high = invisible[0]["vlsn"], invisible[1]["vlsn"]
    assert {e["vlsn"] for e in entries(ROLLBACK, "--vlsn", f"{low}..{high}")} == {low, high}
    # Not marked yet: the period is open, and the transactions that were active say what belongs to it.
    begun = entries(GOLDEN / "je-17" / "rollback-four-periods", "--rolled-back")
    assert begun


def test_order_and_number() -> None:
    assert lsns(entries(TXN_CRASH, "--reverse")) == lsns(ALL)[::-1]
    assert lsns(entries(TXN_CRASH, "--tail", "7")) == lsns(ALL)[-7:]
    assert lsns(entries(TXN_CRASH, "--limit", "7")) == lsns(ALL)[:7]
    assert lsns(entries(TXN_CRASH, "--reverse", "--limit", "7")) == lsns(ALL)[:-8:-1]
    commits = [entry["lsn"] for entry in ALL if entry["type"] == "Commit"]
    assert lsns(entries(TXN_CRASH, "--tail", "3", "--type", "Commit")) == commits[-3:]
    assert lsns(entries(CORRUPT, "--reverse")) == lsns(entries(CORRUPT))[::-1]
    assert dump(TXN_CRASH, "--tail", "3", "--limit", "2").code == 2
    assert dump(TXN_CRASH, "--follow", "--reverse").code == 2


@pytest.mark.parametrize("more", [(), ("--type", "Commit")], ids=["all", "commits"])
def test_the_last_entries_and_those_that_are_appended(tmp_path: Path, more: tuple[str, ...]) -> None:
    """No entry is printed twice, and none is left out between the two."""
    env = tmp_path / "env"
    assert run("create", env, "--db", "d").code == 0
    assert run("put", env, "a", "1", "--db", "d").code == 0
    before = lsns(entries(env, *more))
    words: list[str | Path] = [sys.executable, "-m", "jetool", "dump-log", env]
    words += ["--follow", "--tail", "2", "--format", "ndjson", *more]
    with child(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = [json.loads(process.stdout.readline())["lsn"] for _ in range(2)]
        assert seen == before[-2:]
        assert run("put", env, "b", "2", "--db", "d").code == 0
        after = lsns(entries(env, *more))
        assert len(after) > len(before)
        seen += [json.loads(process.stdout.readline())["lsn"] for _ in after[len(before) :]]
    assert seen == after[len(before) - 2 :]


@pytest.mark.parametrize("by", ["type", "file", "db", "txn"])
def test_stats(by: str) -> None:
    key = {"type": "type", "file": "file", "db": "db", "txn": "txn"}[by]
    counts = Counter(entry[key] for entry in ALL)
    result = dump(TXN_CRASH, f"--stats={by}", "--format", "ndjson")
    found = {line["group"]: line["entries"] for line in result.lines() if line["rec"] == "counted"}
    names = {None: "none", 0: "00000000.jdb"} if by == "file" else {None: "none"}
    assert found == {names.get(group, str(group)): n for group, n in counts.items()} | {"total": len(ALL)}
    some = dump(TXN_CRASH, "--stats", "--type", "Commit", "--format", "ndjson").lines()
    assert [(line["group"], line["entries"]) for line in some[:-1]] == [
        ("Commit", sum(entry["type"] == "Commit" for entry in ALL)),
        ("total", sum(entry["type"] == "Commit" for entry in ALL)),
    ]


def test_fields_and_csv() -> None:
    result = dump(TXN_CRASH, "--type", "Commit", "--limit", "2", "--format", "csv", "--fields", "lsn,txn,time")
    rows = list(csv.reader(io.StringIO(result.text)))
    assert rows[0] == ["lsn", "txn", "time"]
    assert rows[1][:2] == ["0x0/0x169", "1"]
    wrong = dump(TXN_CRASH, "--fields", "nonsense")
    assert wrong.code == 2
    assert "no field nonsense" in wrong.err


def test_list_of_types() -> None:
    text = dump(TXN_CRASH, "--type", "list").text
    assert " 33  INS_LN_TX" in text
    assert "groups: ln in txn ckpt rep rollback cleaner meta" in text
    assert dump(TXN_CRASH, "--type", "INS_LN_TY").code == 2


def test_no_database_of_a_name() -> None:
    result = dump(TXN_CRASH, "--db", "acounts", "--json")
    assert result.code == 4
    assert "accounts" in result.error()["hint"]


def test_no_entry_at_an_lsn() -> None:
    result = dump(TXN_CRASH, "--from", "0x0/0x594", "--limit", "3")
    assert result.code == 0
    assert "at 0x0/0x594; reading begins at 0x0/0x5b9" in result.err


class TestBadEnvironments:
    """The right exit code and a message that helps."""

    def test_missing_directory(self, tmp_path: Path) -> None:
        result = dump(tmp_path / "nowhere")
        assert result.code == 4
        assert "no such directory" in result.err

    def test_a_file_instead_of_a_directory(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(b"")
        result = dump(tmp_path / "x")
        assert result.code == 4
        assert "not a directory" in result.err

    def test_empty_directory(self, tmp_path: Path) -> None:
        result = dump(tmp_path)
        assert result.code == 4
        assert "an empty directory" in result.err

    def test_directory_without_log_files(self, tmp_path: Path) -> None:
        (tmp_path / "je.properties").write_text("")
        result = dump(tmp_path)
        assert result.code == 4
        assert "1 other file" in result.err

    def test_newer_log_version(self, tmp_path: Path) -> None:
        body = encode_file_header(FileHeader(1795167777586, 0, 0, 27), 17)
        (tmp_path / "00000000.jdb").write_bytes(encode_entry(EntryHeader(0, 25, 0, 0, 24, -1), body, 17))
        for command in ("dump-log", "info", "verify"):
            result = run(command, str(tmp_path))
            assert result.code == 5, command
            assert "expected 1 to 26, found 27" in result.err

    def test_a_file_that_is_no_log(self, tmp_path: Path) -> None:
        (tmp_path / "00000000.jdb").write_bytes(b"PK\x03\x04" + b"this is a spreadsheet and no log " * 100)
        result = dump(tmp_path)
        assert result.code == 5
        assert "not a Berkeley DB JE log" in result.err

    def test_unreadable_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        copied = shutil.copytree(CORRUPT, tmp_path / "env")
        open_really = DiskStorage.open

        def refuse(self: DiskStorage, path: str) -> Any:
            if path == "00000002.jdb":
                raise StorageError("cannot access 00000002.jdb: permission denied", file="00000002.jdb")
            return open_really(self, path)

        monkeypatch.setattr(DiskStorage, "open", refuse)
        result = dump(copied, "--jobs", "1")
        assert result.code == 7
        assert "permission denied" in result.err
        result = run("verify", str(copied), "--json", "--jobs", "1")
        # Damage was found elsewhere, and that is a result.
        assert result.code == 1
        assert "JE-LOG-020" in result.text
        assert "00000002.jdb (it cannot be read)" in result.json()["summary"]["not_checked"]
        torn = shutil.copytree(CORRUPT.parent / "torn-cut-mid", tmp_path / "torn")
        result = run("verify", str(torn), "--json", "--jobs", "1")
        assert result.code == 7
        assert "JE-LOG-020" in result.text


def test_xml_is_well_formed() -> None:
    from xml.etree import ElementTree

    root = ElementTree.fromstring(dump(CORRUPT, "--format", "xml").text)
    assert root.tag == "DbPrintLog"
    assert [e.get("lsn") for e in root.iter("entry")] == lsns(entries(CORRUPT))
    assert len(list(root.iter("bad"))) == 1


def test_json_is_one_value() -> None:
    value = json.loads(dump(TXN_CRASH, "--json", "--limit", "2").text)
    assert [record["lsn"] for record in value["records"]] == ["0x0/0x0", "0x0/0x26"]
    assert value["summary"]["entries"] == 2


def test_tasks_of_extinction(tmp_path: Path) -> None:
    """What is discarded, by fields; text names them too."""
    with OpenEnvironment(tmp_path, EnvironmentConfig(create=True)) as env:
        with env.create_database("d") as db:
            db.put(b"a", b"1")
            number = db.state.id
        env.discard_extinct(["d"], begin=b"a", end=b"b", label="orders of May")
    written, counted, *_ = entries(tmp_path, "--type", "ExtinctScanLN_TX")
    assert (written["task_id"], written["discards"], written["task_databases"]) == (1, "records", [number])
    assert (written["begin_key_hex"], written["end_key_hex"], written["label"]) == ("61", "62", "orders of May")
    assert (written["count_complete"], counted["count_complete"]) == (False, True)
    assert f"task_id=1 discards=records task_databases={number} begin_key=0x61" in dump(tmp_path).text
