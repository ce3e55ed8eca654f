"""``jetool watch``: lines, blocks and their ends; wrong words. Screen and exporter: ``test_watch_screen``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jetool.commands import watch
from jetool.frame import exits
from tests.support import corpus
from tests.support.children import child
from tests.support.groups.networks import RecordedNetwork
from tests.support.harness import assert_valid, run
from tests.support.waiting import PATIENCE_S, eventually

ENV = corpus.path() / "je/je-18.3.20/txn-crash/env"
NODE = corpus.path() / "je/je-18.3.20/ha-rollback-thrice/node2/env"


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "network_of", lambda _: RecordedNetwork("services"))


def watching(*words: str | Path, **options: Any) -> list[str]:
    return [sys.executable, "-m", "jetool", "watch", *map(str, words), *options]


def test_a_row_per_environment_and_sample() -> None:
    result = run("watch", ENV, NODE, "--count", "2", "--interval", "0.1", "--format", "ndjson")
    assert result.code == exits.DONE, result.err
    assert_valid("watch", result.out, "ndjson")
    rows = result.lines()
    assert [row["rec"] for row in rows] == ["sample"] * 4 + ["summary"]
    assert [row["node"] for row in rows[:4]] == [str(ENV), str(NODE)] * 2
    assert rows[-1] == {"rec": "summary", "samples": 2, "interrupted": False}
    info = run("info", ENV, "--json").json()
    assert rows[0]["end_of_log"] == info["end_of_log"]
    assert (rows[0]["log_files"], rows[0]["log_bytes"]) == (info["files"], info["bytes"])
    assert rows[0]["checkpoint"] == info["last_checkpoint"]["time"]
    assert rows[1]["vlsn"] == run("info", NODE, "--json").json()["last_vlsn"]
    assert (rows[0]["commit_rate"], rows[2]["commit_rate"]) == (None, 0.0)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_other_formats(form: str) -> None:
    result = run("watch", ENV, "--count", "2", "--interval", "0.1", "--format", form)
    assert result.code == exits.DONE
    if form == "json":
        assert_valid("watch", result.out)
        assert len(result.json()["records"]) == 2
    else:
        assert len(result.text.splitlines()) == 3


def test_blocks_of_text() -> None:
    result = run("watch", ENV, "--count", "2", "--interval", "0.1")
    blocks = result.text.strip().split("\n\n")
    assert (len(blocks), result.code) == (2, exits.DONE)
    lines = blocks[1].splitlines()
    assert lines[1].split()[:3] == ["node", "state", "commit/s"]
    assert "closed" in lines[2]
    chosen = run("watch", ENV, "--count", "1", "--fields", "node,log_files")
    assert chosen.text.splitlines()[0].split() == ["node", "log", "files"]


@pytest.mark.usefixtures("recorded")
def test_a_node_that_does_not_answer() -> None:
    result = run("watch", "localhost:15071", "--count", "1")
    assert result.code == exits.FINDINGS
    lines = result.text.splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["n1", "MASTER"], ["n2", "UNKNOWN"]]
    assert lines[4].startswith("n3    NO ANSWER")
    assert lines[5].startswith("n3: ")
    both = run("watch", "localhost:15071", ENV, "--count", "1", "--format", "ndjson")
    assert [row.get("node") for row in both.lines()] == ["n1", "n2", "n3", str(ENV), None]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["/nowhere"], exits.NOT_FOUND, "no such directory"),
        (["a:1,b"], exits.USAGE, "neither a directory nor the address"),
        (["a:1,"], exits.USAGE, "neither a directory nor the address"),
        (["a:0"], exits.USAGE, "neither a directory nor the address"),
        ([str(ENV), "--json"], exits.USAGE, "watch has no end"),
        ([str(ENV), "--group", "G"], exits.USAGE, "--group is for"),
        ([str(ENV), "--tls-ca", "x"], exits.USAGE, "no node of JE is called"),
        ([str(ENV), "--listen", "9464"], exits.USAGE, "is not an address"),
        ([str(ENV), "--listen", ":0"], exits.USAGE, "is not an address"),
        ([str(ENV), "--listen", ":1", "--fields", "node"], exits.USAGE, "--fields has no effect"),
        ([str(ENV), "--listen", "no.such.host.invalid:9464"], exits.INCOMPLETE, "cannot listen"),
        ([str(ENV), "--count", "0"], exits.USAGE, "--count"),
        ([str(ENV), "--interval", "0"], exits.USAGE, "--interval"),
        ([str(ENV), "--fields", "nothing"], exits.USAGE, "nothing"),
        ([str(ENV), str(Path(__file__).parent)], exits.NOT_FOUND, "no Berkeley DB JE environment"),
    ],
)
def test_what_is_refused(words: list[str], code: int, said: str) -> None:
    result = run("watch", *words)
    assert (result.code, result.out) == (code, b""), result.err
    assert said in result.err


@pytest.mark.usefixtures("recorded")
def test_no_group_at_first() -> None:
    assert run("watch", "localhost:1", "--count", "1").code == exits.NOT_FOUND
    wrong = run("watch", "localhost:15071", "--group", "OTHER", "--count", "1")
    assert wrong.code == exits.REFUSED


@pytest.mark.parametrize("form", ["text", "ndjson"])
def test_an_interrupt_is_the_end_and_no_error(form: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with out.open("wb") as file, child(watching(ENV, "--interval", "0.1", "--format", form), stdout=file) as process:
        eventually(lambda: out.read_bytes().count(b"txn-crash") > 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == exits.DONE
    if form == "ndjson":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert rows[-1]["interrupted"] is True
        assert rows[-1]["samples"] == len(rows) - 1


def test_what_ends_it_otherwise() -> None:
    with child(watching(ENV, "--interval", "60"), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == exits.TERMINATED
    with child(watching(ENV, "--interval", "0.1"), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == exits.PIPE_CLOSED
