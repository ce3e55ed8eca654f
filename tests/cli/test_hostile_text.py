"""Names, keys and paths of others: nothing that a log holds steers a terminal, runs in a page or breaks a table.

Each command prints in each format, to a pipe and to a terminal. What is left of its output without our own colours has
no control character and no mark that turns the direction of text, JSON has no value that is none, and each line of CSV
has as many cells as the first.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.contents.journals import encode_json_journal, journal_key
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.rep.group import form_group
from jetool.frame import exits
from tests.support.harness import run

HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07", "\x1b]52;c;ZXZpbA==\x07", "\x9b31m", "a\nb\r\nc", "\rjetool: all is well", "x\x08\x08y",
    "\u202egnp.exe", "\u2066z\u2069", "\u2028\u2029", "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>',
    "&amp;'\"`$(id)", "=cmd|' /C calc'!A0", "@SUM(1)", "-rf", "%s%n{0}{name}", "\u5bbd" * 30, "e\u0301", "a,b;\"c\"\td",
    "N" * 3000, "nul\0nul", "\x7f\x00", "\\x1b[31m", "[bold red]rich[/]", ":smile:", "::error::x", "##teamcity[x]",
)  # fmt: skip
FORMATS = ("text", "json", "ndjson", "csv")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# A line of progress is written over.
PROGRESS = re.compile(r"\r\x1b\[2K|\r|\x1b\[\?25[lh]|\x1b\[\d*[AK]")
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

LOOKS = (
    ("info",), ("info", "--stats"), ("dbs", "--count"), ("dump-log",), ("dump-log", "--stats"), ("txns",), ("verify",),
    ("verify", "--full"), ("space",), ("missing",), ("rollbacks", "--keys"), ("vlsn map",), ("vlsn check",),
    ("group show",), ("recover", "-n"), ("checkpoint", "-n"), ("clean", "-n"), ("truncate", "--to", "commits:-1", "-n"),
    ("salvage", "--to", "/nowhere/x", "-n"), ("watch", "--count", "1", "--fields", "node,problem,place"),
)  # fmt: skip
OF_ONE_DATABASE = (
    ("scan",), ("scan", "--key-format", "utf8", "--data-format", "text"), ("dump",), ("get", "nokey"),
    ("history", "0x1b5b"), ("scan", "--decode", "auto"),
)  # fmt: skip


def write_environment(home: Path) -> None:
    home.mkdir()
    with Environment(home, EnvironmentConfig(create=True, replicated=True)) as env:
        form_group(env, "G\x1b[31m<b>", "n\x1b[31m\n<script>", "h\x1b[31mst", 5001)
        for number, name in enumerate(HOSTILE):
            with env.create_database(name, DatabaseOptions(duplicates=number % 3 == 0)) as db:
                for text in HOSTILE:
                    db.put(text.encode(), text.encode())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    env = tmp_path_factory.mktemp("hostile") / "env \x1b[31m\nx\u202e<script>"
    write_environment(env)
    return env


@pytest.fixture(scope="module")
def damaged(home: Path) -> Path:
    env = home.with_name("damaged")
    shutil.copytree(home, env)
    log = env / "00000000.jdb"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    return env


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} in JSON")


def problems_of(words: list[str | Path], form: str, *, terminal: bool) -> list[str]:
    """What a command prints that it must not, each with its place."""
    shown = run(*words, "--format", form, *(("--color", "always") if terminal else ()), terminal=terminal)
    name = " ".join(map(str, words))
    found = [f"{name}: {shown.err}"] if shown.code == exits.INTERNAL else []
    out, err = shown.out.decode("utf-8", "surrogateescape"), shown.err
    if terminal:
        out, err = COLOUR.sub("", out), PROGRESS.sub("", COLOUR.sub("", err))
    for text in (out, err):
        steering = STEERING.search(text)
        if steering is not None:
            found.append(f"{name}, {form}: {text[max(steering.start() - 60, 0) : steering.end() + 20]!r}")
    if shown.code == exits.USAGE or not out:
        return found
    if form == "json":
        json.loads(out, parse_constant=_no_constant)
    elif form == "ndjson":
        for line in out.removesuffix("\n").split("\n"):
            json.loads(line, parse_constant=_no_constant)
    elif form == "csv" and len({len(row) for row in csv.reader(io.StringIO(out, newline=""))}) != 1:
        found.append(f"{name}: lines of CSV with other numbers of cells")
    return found


def called(words: tuple[str, ...], env: Path) -> list[str | Path]:
    return [*words[0].split(), env, *words[1:]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_what_looks_at_an_environment(home: Path, damaged: Path, form: str, terminal: bool) -> None:
    lines: list[list[str | Path]] = [
        *(called(words, env) for words in LOOKS for env in (home, damaged)),
        ["diff", home, home],
    ]
    assert [one for line in lines for one in problems_of(line, form, terminal=terminal)] == []


@pytest.mark.parametrize("form", FORMATS)
def test_what_looks_at_a_database(home: Path, form: str) -> None:
    found = []
    for number, name in enumerate(HOSTILE):
        words = OF_ONE_DATABASE[number % len(OF_ONE_DATABASE)]
        found += problems_of([*called(words, home), "--db", name], form, terminal=number % 2 == 0)
    for words in OF_ONE_DATABASE:
        for name in (HOSTILE[0], "no\x1b[31m\u202e"):
            found += problems_of([*called(words, home), "--db", name], form, terminal=True)
    assert found == []


@pytest.mark.parametrize("form", FORMATS)
def test_what_looks_at_journals(tmp_path: Path, form: str) -> None:
    meta = tmp_path / "meta\x1b[31m"
    with Environment(tmp_path / "made", EnvironmentConfig(create=True)) as env:
        with env.create_database("1") as db:
            for number, text in enumerate(HOSTILE, 1):
                value = json.dumps({text: text}, ensure_ascii=number % 2 == 0).encode()
                db.put(journal_key(number), encode_json_journal(number, value))
            db.put(journal_key(len(HOSTILE) + 1), b"\0\1\x1b[31mreadable")
            db.put(journal_key(len(HOSTILE) + 2), b"\0\1\0\0\0\x05\x1b[31m")
        env.create_database("epochDB").put(journal_key(1), b"\0")
    (meta / "image").mkdir(parents=True)
    (tmp_path / "made").rename(meta / "bdb")
    (meta / "image/ROLE").write_bytes("role=\x1b[31mX\nname=\u202efe\x07\n".encode())
    (meta / "image/VERSION").write_bytes(b"clusterId=\x1b[31m7\n")
    lines: list[list[str | Path]] = [["journal", word, meta] for word in ("list", "show", "check", "stats")]
    lines += [["journal", "compare", meta, meta], ["scan", meta / "bdb", "--db", "1", "--decode", "auto"]]
    assert [one for line in lines for one in problems_of(line, form, terminal=True)] == []


@pytest.mark.parametrize("form", FORMATS)
def test_what_reads_texts_and_arguments(home: Path, tmp_path: Path, form: str) -> None:
    log, backups, hidden = tmp_path / "x.log", tmp_path / "b\x1b[31m", tmp_path / "no\x1b[31m\n\u202e"
    failure = "com.sleepycat.je.EnvironmentFailureException: (JE 18.3.20) {0} LOG_CHECKSUM: bad lsn=0x1/0x2 {0}\n"
    log.write_text("".join(failure.replace("{0}", text) + f"ERROR XSLA7: {text}\n{text}\n" for text in HOSTILE))
    commands: tuple[list[str | Path], ...] = (
        ["explain", log], ["explain", log, "--env", home], ["explain", hidden], ["info", hidden], ["verify", hidden],
        ["verify", home, "--no\x1b[31m"], ["scan", home, "--db", "-rf", "--key-format", "x\x1b[31m"],
        ["schema", "x\x1b[31m"], ["backup", "take", home, backups], ["backup", "list", backups],
        ["backup", "verify", backups], ["restore", backups, tmp_path / f"r\x1b[31m{form}"],
    )  # fmt: skip
    assert [one for words in commands for one in problems_of(words, form, terminal=True)] == []
    assert STEERING.search(run("nocmd\x1b[31m\u202e").err) is None


def test_the_page(home: Path, damaged: Path, tmp_path: Path) -> None:
    for env in (home, damaged):
        run("info", env, "--html", tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text("utf-8", "strict")
        assert STEERING.search(page) is None
        assert "<script>alert" not in page
        assert "<img" not in page
