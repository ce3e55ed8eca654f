"""A directory that holds one environment, and the current directory in place of an argument."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.environments.frontends import rolled, write_frontend
from tests.support.harness import run

READS = (
    ("info", "--json", "--fields", "files,bytes"), ("dbs",), ("scan", "--db", "1"), ("dump", "--db", "1"),
    ("dump-log", "--tail", "3"), ("txns",), ("verify", "--json"), ("space",), ("missing",), ("rollbacks",),
    ("vlsn", "gaps"), ("vlsn", "range"),
)  # fmt: skip
WRITES = (
    ("recover",), ("checkpoint",), ("clean",), ("put", "k", "v", "--db", "1"), ("delete", "k", "--db", "1"),
    ("undo",), ("truncate", "--to", "commits:-1"),
    ("group", "reset", "--group", "G", "--node", "n", "--address", "h:1", "--yes"),
)  # fmt: skip


@pytest.fixture(scope="module")
def frontend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a frontend; its environment is ``meta/bdb``."""
    root = tmp_path_factory.mktemp("fe")
    (root / "meta" / "bdb").mkdir(parents=True)
    (root / "meta" / "image").mkdir()
    write_frontend(root / "meta" / "bdb", rolled(1, 20, 100), replicated=True)
    return root


def _called(words: tuple[str, ...], *more: str | Path) -> list[str | Path]:
    """The words with an environment after the names of the command."""
    names = 2 if words[0] in ("vlsn", "group") else 1
    return [*words[:names], *more, *words[names:]]


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_commands_that_read_find_the_environment(frontend: Path, words: tuple[str, ...]) -> None:
    env = frontend / "meta" / "bdb"
    whole = run(*_called(words, env))
    assert whole.code == 0
    for place in (frontend, frontend / "meta"):
        short = run(*_called(words, place))
        assert short.out == whole.out, place
        assert short.code == 0
        assert f"notice: {env} is used, the only environment in {place}\n" in short.err
    assert "is used" not in whole.err


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_no_argument_is_the_current_directory(
    frontend: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(frontend / "meta" / "bdb")
    assert run(*_called(words)).out == run(*_called(words, ".")).out != b""
    # Only inside an environment: one level above it, something else may be meant.
    monkeypatch.chdir(frontend)
    assert run(*_called(words)).code == 2


def test_a_key_alone_inside_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = tmp_path / "env"
    assert run("create", env, "--db", "users").code == 0
    assert run("put", env, "ada", "1", "--db", "users").code == 0
    monkeypatch.chdir(env)
    assert run("get", "ada").out == run("get", env, "ada", "--db", "users").out != b""
    assert run("history", "ada").out == run("history", env, "ada", "--db", "users").out != b""
    # A path is the environment, and the key is missing.
    assert run("get", "../env").code == 2


@pytest.mark.parametrize("words", WRITES, ids=lambda words: words[0])
def test_commands_that_write_take_only_what_was_named(
    frontend: Path, tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(frontend, tmp_path / "fe")
    env = tmp_path / "fe" / "meta" / "bdb"
    before = {path.name: path.read_bytes() for path in env.iterdir()}
    assert run(*_called(words, tmp_path / "fe")).code in (2, 4)
    monkeypatch.chdir(env)
    assert run(*_called(words)).code == 2
    assert {path.name: path.read_bytes() for path in env.iterdir()} == before
    assert run(*_called(words, ".")).code != 2


def test_several_environments_are_listed(frontend: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(frontend, tmp_path / name)
    done = run("info", tmp_path)
    assert done.code == 4
    assert f"2 environments below the directory: name one in {tmp_path}" in done.err
    assert f"{tmp_path}/a/meta/bdb, {tmp_path}/b/meta/bdb" in done.err
    both = run("verify", tmp_path / "a", tmp_path / "b")
    assert both.code == 0
    assert both.text.count(": sound: ") == 2


@pytest.mark.parametrize("left", ["je.lck", "je.info.0", "je.properties"])
def test_an_environment_without_its_log_is_no_parent(frontend: Path, tmp_path: Path, left: str) -> None:
    """A backup inside it is sound, and the environment is not."""
    shutil.copytree(frontend / "meta" / "bdb", tmp_path / "env" / "backup")
    (tmp_path / "env" / left).write_text("")
    done = run("verify", tmp_path / "env")
    assert done.code == 4
    assert "no Berkeley DB JE environment" in done.err


def test_the_other_directories_of_a_command(frontend: Path, tmp_path: Path) -> None:
    """``diff`` has two environments."""
    shutil.copytree(frontend, tmp_path / "fe")
    env, other = frontend / "meta" / "bdb", tmp_path / "fe" / "meta" / "bdb"
    assert run("diff", frontend, tmp_path / "fe", "--json").out == run("diff", env, other, "--json").out
