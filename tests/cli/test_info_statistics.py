"""``jetool info --stats-file``: JE's own statistics as a table, as rows, and as a page."""

from __future__ import annotations

import csv
import html
import io
import re
from pathlib import Path

import pytest

from jetool.frame import exits
from tests.support import corpus
from tests.support.harness import assert_valid, run

ENV = corpus.path() / "je/je-18.3.20/txn-crash/env"
HEAD = "time,Cache:cacheTotalBytes,Cleaning:minUtilization,I/O:fSyncMaxMs,Op:priInsert,Other:<b>,Jvm:loadAverage"
ROWS = (
    "2026-11-28 12:45:00.000 UTC,1048576,-1, ,10,a,0.5",
    "2026-11-28 12:46:00.000 UTC,2097152,-1,7, ,,1.5",
    "2026-11-28 12:47:00.000 UTC,4194304,-1,9,30,b,1",
    "cut,1",
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "je.stat.csv"
    path.write_text("\n".join((HEAD, *ROWS)) + "\n")
    return path


def test_a_table(file: Path) -> None:
    result = run("info", "--stats-file", file)
    assert result.code == exits.DONE, result.err
    rows = {line.split()[0]: line.split()[1:] for line in result.text.splitlines() if re.match(r"  [A-Z]\S*:", line)}
    assert rows["Cache:cacheTotalBytes"] == ["1.0M", "2.0M", "4.0M", "4.0M", "▁▃█"]
    assert rows["I/O:fSyncMaxMs"] == ["0", "7", "9", "9", "▁▆█"]
    assert rows["Op:priInsert"] == ["0", "10", "30", "30", "▃▁█"]
    # What JE has not determined says nothing, and what does not matter is for programs.
    assert rows.keys() == {"Cache:cacheTotalBytes", "I/O:fSyncMaxMs", "Op:priInsert", "Jvm:loadAverage"}
    assert re.search(r"bad lines +1$", result.text, re.M)


@pytest.mark.parametrize("width", [80, 200])
def test_a_terminal(file: Path, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = run("info", "--stats-file", file, terminal=True).text
    # The path of the file is a word that cannot be folded.
    assert all(len(line) <= width for line in shown.splitlines() if str(file) not in line)
    assert re.search(r"column +min +median +max +last +plot", shown)


def test_every_row_for_programs(file: Path) -> None:
    result = run("info", "--stats-file", file, "--json")
    assert_valid("info", result.out)
    found = result.json()
    assert (found["rows"], found["bad_lines"]) == (3, 1)
    assert found["values"][1] == {
        "time": "2026-11-28T12:46:00.000Z",
        "values": {"Cache:cacheTotalBytes": 2097152, "Cleaning:minUtilization": -1, "I/O:fSyncMaxMs": 7,
                   "Jvm:loadAverage": 1.5},
    }  # fmt: skip
    assert [column["median"] for column in found["columns"] if column["column"] == "Op:priInsert"] == [10]
    assert_valid("info", run("info", "--stats-file", file, "--format", "ndjson").out, "ndjson")
    cells = list(csv.DictReader(io.StringIO(run("info", "--stats-file", file, "--format", "csv").text)))
    assert cells[0] == {"time": "2026-11-28T12:45:00.000Z", "column": "Cache:cacheTotalBytes", "value": "1048576"}
    assert [cell["value"] for cell in cells if cell["column"] == "Op:priInsert"] == ["10", "30"]


def test_a_page(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "stats.html"
    result = run("info", "--stats-file", file, "--html", target)
    assert result.code == exits.DONE
    page = target.read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<h3>") == 4
    words = html.unescape(re.sub("<[^>]*>", " ", page))
    for word in ("Op:priInsert", "Cache:cacheTotalBytes", "4.0M"):
        assert word in words
    assert not re.search(r"(src|href)=[\"'](?!#)|url\(|@import", page)
    # A single row draws no line, and the figures are there all the same.
    file.write_text(f"{HEAD}\n{ROWS[0]}\n")
    assert run("info", "--stats-file", file, "--html", target).code == exits.DONE
    assert "Op:priInsert" in target.read_text()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--stats-file", "{file}", "--quick"], exits.USAGE, "and nothing else"),
        (["{env}", "--stats-file", "{file}"], exits.USAGE, "and nothing else"),
        (["-h", "{env}", "--stats-file", "{file}"], exits.USAGE, "and nothing else"),
        (["--stats-file", "/nowhere/je.stat.csv"], exits.NOT_FOUND, "no such file"),
        (["--stats-file", "{env}"], exits.NOT_FOUND, "no such file"),
        (["--stats-file", "{env}/00000000.jdb"], exits.UNSUPPORTED, "not a file of JE's statistics"),
        (["--stats-file", "{file}", "--html", "/nowhere/x.html"], exits.INCOMPLETE, "cannot write"),
    ],
)
def test_what_is_refused(words: list[str], code: int, said: str, file: Path) -> None:
    result = run("info", *(word.format(file=file, env=ENV) for word in words))
    assert (result.code, result.out) == (code, b""), result.err
    assert said in result.err


def test_the_environment_is_needed_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("info").code == exits.USAGE
    # The variable names an environment, which is not the subject here.
    monkeypatch.setenv("JETOOL_HOME", str(ENV))
    assert run("info", "--stats-file", "/nowhere").code == exits.NOT_FOUND
