"""The database that is read if ``--db`` is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.db.environment import Environment
from tests.support.harness import run

READS = (("get", "ada"), ("scan",), ("dump",), ("history", "ada"))

# Derby has no history.
KINDS = [(derby, words) for words in READS for derby in (False, True) if not (derby and words[0] == "history")]


def _create(path: Path, *names: str, derby: bool = False) -> Path:
    store = ("--store", "derby") if derby else ()
    assert run("create", path, *store, *(word for name in names for word in ("--db", name))).code == 0
    for name in names:
        assert run("put", path, "ada", name, "--db", name).code == 0
    return path


@pytest.mark.parametrize(("derby", "words"), KINDS)
def test_the_only_database_is_read(tmp_path: Path, words: tuple[str, ...], derby: bool) -> None:
    env = _create(tmp_path / "env", "users", derby=derby)
    short = run(words[0], env, *words[1:])
    assert short.out == run(words[0], env, *words[1:], "--db", "users").out
    assert short.code == 0
    assert f"notice: --db users is used, the only database in {env}" in short.err


@pytest.mark.parametrize(("derby", "words"), KINDS)
def test_several_databases_are_listed(tmp_path: Path, words: tuple[str, ...], derby: bool) -> None:
    env = _create(tmp_path / "env", "users", "groups", derby=derby)
    refused = run(words[0], env, *words[1:], "--json") if words[0] != "dump" else run("dump", env)
    assert refused.code == 2
    assert refused.out == b""
    assert "has 2 databases: name one with --db" in refused.err
    assert "groups, users" in refused.err


@pytest.mark.parametrize("words", READS, ids=lambda words: words[0])
def test_an_environment_without_databases(tmp_path: Path, words: tuple[str, ...]) -> None:
    env = _create(tmp_path / "env")
    assert run(words[0], env, *words[1:]).code == 4


@pytest.mark.parametrize("words", [("put", "k", "v"), ("delete", "ada")], ids=lambda words: words[0])
@pytest.mark.parametrize("derby", [False, True], ids=["je", "derby"])
def test_commands_that_write_do_not_guess(tmp_path: Path, words: tuple[str, ...], derby: bool) -> None:
    env = _create(tmp_path / "env", "users", derby=derby)
    before = run("dump", env, "--db", "users").out
    refused = run(words[0], env, *words[1:])
    assert refused.code == 2
    assert "--db" in refused.err
    assert run("dump", env, "--db", "users").out == before


def test_the_database_of_a_point_of_the_past(tmp_path: Path) -> None:
    """One database existed then; today there are two."""
    env = _create(tmp_path / "env", "users")
    with Environment(env) as opened:
        opened.create_database("groups").close()
    assert run("scan", env).code == 2
    then = run("scan", env, "--as-of", "commits:-1")
    assert (then.code, then.out) == (0, run("scan", env, "--db", "users").out)


def test_history_of_a_log_that_cannot_be_recovered(tmp_path: Path) -> None:
    """Its databases are not known, so the option is asked for; with it the history is printed."""
    env = _create(tmp_path / "env", "users")
    assert run("put", env, "ada", "2", "--db", "users").code == 0
    log = env / "00000000.jdb"
    damaged = bytearray(log.read_bytes())
    damaged[80:140] = bytes(60)
    log.write_bytes(damaged)
    refused = run("history", env, "ada")
    assert refused.code == 2
    assert "name one with --db" in refused.err


@pytest.mark.parametrize("derby", [False, True], ids=["je", "derby"])
def test_a_prefix_says_how_it_was_taken(tmp_path: Path, derby: bool) -> None:
    env = _create(tmp_path / "env", "users", derby=derby)
    assert run("put", env, "0x00000a01", "v", "--db", "users").code == 0
    text = run("scan", env, "--prefix", "00000a")
    assert text.code == 0
    assert f"no key begins with the bytes 0x303030303061, the text '00000a' in {env}" in text.err
    assert "next: --prefix 0x00000a takes it as hex" in text.err
    assert "no key begins" not in run("scan", env, "--prefix", "0x00000a").err
    assert "no key begins" not in run("scan", env, "--prefix", "ad").err
    assert "next: jetool scan without --prefix" in run("scan", env, "--prefix", "zoe").err
    assert "the bytes 0x00ff" in run("scan", env, "--prefix", "0x00ff").err
    assert "the text" not in run("scan", env, "--prefix", "ff", "--key-format", "hex").err
