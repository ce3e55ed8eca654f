"""Command lines as people type them: a directory without a command, ``help``, ``version``, ``-o``, ``-s``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from jetool.commands.help_page import as_text
from jetool.frame import table
from tests.support import corpus
from tests.support.harness import REPOSITORY, run


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with one record."""
    made = tmp_path_factory.mktemp("natural") / "info"
    made.mkdir()
    with Environment(made, EnvironmentConfig(create=True)) as opened, opened.create_database("d") as db:
        db.put(b"k", b"v")
    return made


def test_a_directory_alone_is_info(env: Path) -> None:
    assert run(str(env), "--json").out == run("info", str(env), "--json").out
    assert run("--json", str(env)).out == run("info", str(env), "--json").out
    assert run(str(env), "--quick").code == 0


def test_a_directory_of_the_name_of_a_command_is_the_command(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a directory that holds one called ``info``; ``./info`` means the directory."""
    monkeypatch.chdir(env.parent)
    assert run("info").code == 2
    assert run("./info", "--json").out == run("info", "./info", "--json").out


@pytest.mark.parametrize("name", ["je/je-18.3.20/ha-group/node1/env", ""])
def test_groups_have_a_command_for_a_directory(env: Path, name: str) -> None:
    place = corpus.path() / name if name else env
    for group, inner in (("vlsn", "range"), ("group", "show"), ("journal", "list")):
        short, whole = run(group, str(place), "--json"), run(group, inner, str(place), "--json")
        assert (short.code, short.out, short.err) == (whole.code, whole.out, whole.err)


@pytest.mark.parametrize("words", [("vlsn", "rnage"), ("jurnal",), ("group", "shwo")])
def test_a_mistyped_command_is_no_directory(words: tuple[str, ...]) -> None:
    done = run(*words, "/data/env")
    assert done.code == 2
    assert "is not a command" in done.err


def test_a_directory_that_does_not_exist_is_named() -> None:
    done = run("/no/such/dir")
    assert done.code == 4
    assert "/no/such/dir" in done.err


def test_version_has_three_spellings() -> None:
    assert run("version").out == run("-V").out == run("--version").out != b""


@pytest.mark.parametrize("row", table.COMMANDS, ids=lambda row: row.name)
def test_help_prints_the_help_of_every_command(row: table.CommandRow) -> None:
    done = run("help", row.name)
    assert done.code == 0
    assert done.text.startswith(f"Usage: jetool {row.name}")


def test_help_of_a_subcommand() -> None:
    assert run("help", "vlsn", "map").text.startswith("Usage: jetool vlsn map")
    assert run("help", "print-log").text.startswith("Usage: jetool")


PAGES = sorted((REPOSITORY / "man").glob("jetool-*.[57]"))


def test_help_lists_commands_and_pages() -> None:
    out = run("help").text
    names = {path.name.split("-", 1)[1].rpartition(".")[0] for path in PAGES}
    assert names > {"runbook", "log"}
    assert names <= {word.strip(" ,") for word in out.split("Pages of the manual", 1)[1].split()}
    assert all(row.name in out for row in table.COMMANDS)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_help_prints_every_page_of_the_manual(path: Path) -> None:
    name = path.name.removeprefix("jetool-").rpartition(".")[0]
    # A command of the same name comes first.
    out = as_text(path.read_text(encoding="utf-8"))
    assert "* 3" not in out
    if name not in {row.name for row in table.COMMANDS}:
        assert run("help", name).text == out + "\n"
    assert out.startswith("NAME\n    jetool-")
    # No request and no escape of roff is left, and no line is longer than the page but examples and tables.
    assert not [line for line in out.splitlines() if line.startswith(".") or "\\f" in line or "\\-" in line]
    assert not [line for line in out.splitlines() if len(line) > 100 and not line.startswith("        ")]


def test_a_page_that_does_not_exist() -> None:
    done = run("help", "nonsense")
    assert done.code == 4
    assert "nonsense" in done.err


def test_output_format_by_one_letter(env: Path) -> None:
    assert json.loads(run("info", str(env), "-o", "json").out) == json.loads(run("info", str(env), "--json").out)
    assert run("-o", "json", "dbs", str(env)).out == run("dbs", str(env), "--json").out


def test_the_database_as_tools_of_je_name_it(env: Path) -> None:
    assert run("get", str(env), "k", "-s", "d").out == run("get", str(env), "k", "--db", "d").out
    assert run("dump", str(env), "-s", "d").out == run("dump", str(env), "--db", "d").out


def test_a_time_ago_needs_no_sign(env: Path) -> None:
    assert run("txns", str(env), "--since", "1h").out == run("txns", str(env), "--since", "-1h").out
    assert run("txns", str(env), "--since", "soon").code == 2


def test_a_point_may_be_an_lsn_alone(env: Path, tmp_path: Path) -> None:
    short = run("truncate", str(env), "--to", "0x0/0x1", "-n")
    whole = run("truncate", str(env), "--to", "lsn:0x0/0x1", "-n")
    assert (short.code, short.err) == (whole.code, whole.err)
    assert short.code not in (0, 2)
