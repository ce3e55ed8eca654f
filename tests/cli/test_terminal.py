"""Every command on a terminal of 80 columns, and of 200: lines fit, no word is cut, counts agree with their nouns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.fields import row_of
from jetool.commands.node.events import RoleChange, event_line
from jetool.frame import cli
from jetool.output.shape import Style
from tests.cli import derby_databases
from tests.support import corpus
from tests.support.environments.frontends import rolled, write_frontend, write_images
from tests.support.harness import run

JE = corpus.path() / "je/je-18.3.20"
HEALTHY, DAMAGED, NODE = (JE / name / "env" for name in ("txn-crash", "corrupt-middle", "ha-rollback-thrice/node2"))
ACCOUNTS = ("--db", "accounts")

READERS = (
    ("info",), ("info", "--stats"), ("dbs", "--count"), ("dump-log", "--limit", "30"), ("dump-log", "--stats"),
    ("txns", "--limit", "5"), ("verify", "--full"), ("space", "--why"), ("missing",), ("rollbacks", "--keys"),
    ("vlsn", "map"), ("vlsn", "range"), ("vlsn", "buckets"), ("vlsn", "gaps"), ("vlsn", "check"), ("group", "show"),
    ("recover", "-n"), ("checkpoint", "-n"), ("clean", "-n"), ("crash", "--at", "entry:20", "-n"),
    ("truncate", "--to", "commits:-1", "-n"), ("vlsn", "rebuild", "-n"),
)  # fmt: skip
WRITERS = (
    ("recover", "--accept-loss"), ("checkpoint",), ("put", "key", "value", *ACCOUNTS), ("delete", "nokey", *ACCOUNTS),
    ("get", "nokey", *ACCOUNTS), ("scan", "--limit", "5", *ACCOUNTS), ("history", "0x00000000", *ACCOUNTS), ("clean",),
    ("truncate", "--to", "commits:-1", "--yes"), ("undo",), ("load", "/dev/null", *ACCOUNTS),
)  # fmt: skip
OF_DERBY = (("info",), ("dump-log", "--limit", "30"), ("txns",), ("verify",), ("recover", "-n"), ("checkpoint",))
# A word that is wider than what is left of a line stands on its own.
LONGEST_INDENT = 40
PLURAL = re.compile(r"\b1 (?:bytes|commits|committed transactions|entries|files|lines|nodes|records|slots|stretches)\b")


def called(words: tuple[str, ...], env: Path) -> list[str | Path]:
    """The words with the environment after the name of the command."""
    name = 2 if words[0] in ("vlsn", "group") else 1
    return [*words[:name], env, *words[name:]]


def looked_at(width: int, words: list[str | Path]) -> None:
    shown = run(*words, "--color", "never", "--progress", "never", terminal=True)
    for line in (*shown.text.splitlines(), *shown.err.splitlines()):
        assert len(line) <= width or max(map(len, line.split())) > width - LONGEST_INDENT, (words, line)
        assert "…" not in line, (words, line)
        assert not PLURAL.search(line), (words, line)
    assert shown.text or shown.err, words


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("env", [HEALTHY, DAMAGED, NODE], ids=["healthy", "damaged", "node"])
def test_what_reads(env: Path, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words in READERS:
        looked_at(width, called(words, env))
    looked_at(width, ["diff", env, HEALTHY])
    assert run("info", env, terminal=True).code in (0, 1)


@pytest.mark.parametrize("env", [HEALTHY, DAMAGED, NODE], ids=["healthy", "damaged", "node"])
def test_what_writes(env: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for number, words in enumerate(WRITERS):
        looked_at(80, called(words, corpus.copy(env, tmp_path / str(number))))
    env = corpus.copy(env, tmp_path / "copy")
    looked_at(80, ["salvage", env, "--to", tmp_path / "saved", "--as", "je"])
    looked_at(80, ["backup", "take", env, tmp_path / "backups"])
    looked_at(80, ["backup", "list", tmp_path / "backups"])
    assert (tmp_path / "saved").exists()


def test_what_serves_frontends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    meta = Path("meta")
    (meta / "bdb").mkdir(parents=True)
    write_frontend(meta / "bdb", rolled(1, 60, 30), epochs=2, replicated=True)
    write_images(meta, (30,))
    for width in (80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        for words in (("list",), ("check",), ("stats",), ("compare", meta), ("show", "20..22"), ("plan-skip", "20")):
            looked_at(width, ["journal", words[0], meta, *words[1:]])
        looked_at(width, ["journal", "truncate", meta, "--after", "40", "-n"])
    # Columns as wide as what is in them.
    shown = run("journal", "compare", meta, meta, "--color", "never", "--progress", "never", terminal=True).text
    assert shown.splitlines()[2].split()[:4] == ["meta/bdb", "fe1_9010_1700000000000", "FOLLOWER", "2"]


def test_a_node_says_why_it_has_no_master() -> None:
    row = RoleChange(
        time=0, node="n1", role="unknown", master=None, last_vlsn=None, problem="127.0.0.1:5902 cannot be reached"
    )
    assert event_line("event", row_of(row), Style(width=80)) == (
        "1970-01-01T00:00:00.000Z  n1  unknown  127.0.0.1:5902 cannot be reached"
    )
    row = RoleChange(time=0, node="n1", role="replica", master="db2:5001", last_vlsn=9, problem=None)
    assert event_line("event", row_of(row), Style()).endswith("  n1  replica  master db2:5001  VLSN 9")


def test_what_serves_derby(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    env = derby_databases.extract(derby_databases.FIVE, tmp_path)
    for words in OF_DERBY:
        looked_at(80, called(words, env))
    columns = run("dump-log", env, "--limit", "1", "--color", "never", terminal=True).text.splitlines()[0]
    assert columns.endswith(" LENGTH DETAIL")
    assert run("dump-log", env, "--limit", "1").text.splitlines()[0].endswith(" UNDOES           DETAIL")


@pytest.mark.parametrize("name", [*(name for name, _ in cli.commands()), "vlsn", "group", "node", "fleet", "backup"])
def test_help(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(*name.split(), "--help", terminal=True).text
    # Examples are there to be copied.
    body = shown.partition("\nExamples:")[0]
    assert [line for line in body.splitlines() if len(line) > 80] == []
    # Only what may be repeated, an argument, has dots after it.
    assert [line for line in body.splitlines() if re.search(r"[a-z]\.\.\.(\s|$)", line)] == []


def test_what_is_piped_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    piped = run("dump-log", HEALTHY, "--limit", "9")
    assert max(map(len, piped.text.splitlines())) > 200
    on_terminal = run("dump-log", HEALTHY, "--limit", "9", "--color", "never", "--progress", "never", terminal=True)
    assert on_terminal.text.split() == piped.text.split(), "folded, and nothing left out"


def test_a_scale_of_rollbacks() -> None:
    shown = run("rollbacks", NODE).text.splitlines()
    first, axis, bars, vlsns = shown[-4:]
    assert first.split() == ["0x0/0x0", "0x0/0x9c31"]
    assert (axis[0], axis[-1], len(axis)) == ("|", "|", 80)
    assert re.fullmatch(r" +<=+\] +<=+\]", bars)
    assert vlsns.split() == ["VLSN", "128", "315"]
    assert [bars.index("<"), bars.rindex("<")] == [vlsns.index("128"), vlsns.index("315")]
    # In bytes of log: the first period took back 0x268c..0x3575 of 0x9c31.
    assert abs(bars.index("]") - 79 * 0x3575 // 0x9C31) <= 1


def test_rows_of_long_values_stand_below_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    long = corpus.copy(HEALTHY, tmp_path / ("deep" * 20))
    shown = run("salvage", long, "--to", tmp_path / "x", "-n", "--color", "never", "--progress", "never", terminal=True)
    assert re.search(r"\n  problem +-\n  damages +0\n", shown.text)
    assert "not shown" not in shown.text
