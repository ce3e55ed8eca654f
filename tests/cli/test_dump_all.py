"""``dump --all``: every database into a file of its own, and ``dump --decode``."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from tests.support import corpus
from tests.support.environments.frontends import rolled, write_frontend
from tests.support.harness import assert_valid, run

NAMES = ("users", "../up", ".hidden", "a/b", "Users", "ü")
FILES = ("users", "db-..%2fup", "db-.hidden", "a%2fb", "Users~2", "%c3%bc")


@pytest.fixture
def env(tmp_path: Path) -> Path:
    path = tmp_path / "env"
    path.mkdir()
    with Environment(path, EnvironmentConfig(create=True)) as opened:
        for name in NAMES:
            with opened.create_database(name) as db:
                db.put(b"k", name.encode())
    return path


def test_each_database_is_a_file(env: Path, tmp_path: Path) -> None:
    done = run("dump", env, "--all", tmp_path / "out")
    assert done.code == 0
    # Which of two names that differ in case alone is numbered depends on the order of the names.
    shown = {path.name for path in (tmp_path / "out").iterdir()}
    assert {name.lower() for name in shown} == {f"{name}.dump".lower() for name in FILES}
    lines = run("dump", env, "--all", tmp_path / "again", "--format", "ndjson")
    assert_valid("dump", lines.out, "ndjson")
    *files, summary = lines.lines()
    assert {one["db"] for one in files} == set(NAMES)
    assert (summary["databases"], summary["records"], summary["complete"]) == (6, 6, True)
    for one in files:
        alone = run("dump", env, "--db", one["db"], "--format", "ndjson").out
        assert (tmp_path / "again" / one["file"]).read_bytes() == alone
        assert one["bytes"] == len(alone)


@pytest.mark.parametrize("form", ["je", "json", "csv"])
def test_formats(env: Path, tmp_path: Path, form: str) -> None:
    assert run("dump", env, "--all", tmp_path / "out", "--format", form).code == 0
    ending = "dump" if form == "je" else form
    alone = run("dump", env, "--db", "a/b", "--format", form).out
    assert (tmp_path / "out" / f"a%2fb.{ending}").read_bytes() == alone


def test_nothing_is_overwritten(env: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "users.dump").write_text("old")
    refused = run("dump", env, "--all", tmp_path / "out")
    assert refused.code == 3
    assert "not empty" in refused.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["users.dump"]
    assert run("dump", env, "--all", env).code == 3
    for words in (("--db", "users"), ("--format", "json", "--fields", "key")):
        assert run("dump", env, "--all", tmp_path / "new", *words).code == 2
    assert not (tmp_path / "new").exists()


def test_an_incomplete_dump_says_so(tmp_path: Path) -> None:
    damaged = corpus.path() / "je/je-18.3.20/corrupt-middle/env"
    done = run("dump", damaged, "--all", tmp_path / "out", "--format", "json")
    assert done.code == 1
    assert_valid("dump", done.out)
    assert done.json()["summary"]["complete"] is False


def test_tables_of_a_page_store(tmp_path: Path) -> None:
    env = tmp_path / "store"
    assert run("create", env, "--store", "derby", "--db", "a", "--db", "b").code == 0
    assert run("put", env, "k", "v", "--db", "b").code == 0
    assert run("dump", env, "--all", tmp_path / "out").code == 0
    for name in ("a", "b"):
        assert (tmp_path / "out" / f"{name}.dump").read_bytes() == run("dump", env, "--db", name).out


def test_a_dump_is_decoded(tmp_path: Path) -> None:
    write_frontend(tmp_path, rolled(1, 5, 100))
    words = ("dump", tmp_path, "--db", "1", "--format", "ndjson")
    plain, decoded = run(*words), run(*words, "--decode", "auto")
    assert_valid("dump", decoded.out, "ndjson")
    assert [one["decoded_key"] for one in decoded.lines()[:-1]] == [{"id": number} for number in range(1, 6)]
    assert "decoded_key" not in plain.text
    scanned = run("scan", tmp_path, "--db", "1", "--format", "ndjson", "--decode", "auto")
    assert decoded.lines()[:-1] == scanned.lines()[:-1]
    assert run("dump", tmp_path, "--db", "1", "--decode", "auto").code == 2
