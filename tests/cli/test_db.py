"""``jetool db``: a database is removed, renamed or emptied, after a preview, and comes back by undo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine import Environment, EnvironmentConfig
from engine.storage import journal
from engine.storage.disk import DiskStorage
from tests.support import corpus
from tests.support.damage.killing import run_killed
from tests.support.harness import assert_valid, run


@pytest.fixture
def env(tmp_path: Path) -> Path:
    """Two databases, of three records and one."""
    path = tmp_path / "env"
    assert run("create", path, "--db", "orders", "--db", "paths").code == 0
    with Environment(str(path), EnvironmentConfig()) as opened:
        with opened.open_database("orders") as db:
            for key in (b"a", b"b", b"c"):
                db.put(key, b"1")
        with opened.open_database("paths") as db:
            db.put(b"p", b"2")
    return path


def _content(env: Path) -> dict[str, dict[bytes, bytes]]:
    with Environment(str(env), EnvironmentConfig(read_only=True)) as opened:
        found = {}
        for name in opened.database_names():
            with opened.open_database(name) as db:
                found[name] = dict(db)
        return found


def _bytes(env: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in env.glob("*.jdb")}


ORDERS = {b"a": b"1", b"b": b"1", b"c": b"1"}
CHANGES: list[tuple[tuple[str, ...], dict[str, Any], dict[str, dict[bytes, bytes]]]] = [
    (("remove", "orders"), {"new_name": None, "records": 3}, {"paths": {b"p": b"2"}}),
    (("rename", "orders", "sales"), {"new_name": "sales", "records": None}, {"sales": ORDERS, "paths": {b"p": b"2"}}),
    (("truncate", "orders"), {"new_name": "orders", "records": 3}, {"orders": {}, "paths": {b"p": b"2"}}),
]


@pytest.mark.parametrize(("words", "row", "content"), CHANGES)
def test_a_change_and_its_undo(
    env: Path, words: tuple[str, ...], row: dict[str, Any], content: dict[str, dict[bytes, bytes]]
) -> None:
    action, *names = words
    before, files = _content(env), _bytes(env)
    preview = run("db", action, env, *names, "-n", "--json")
    assert (preview.code, preview.json()["dry_run"], _bytes(env)) == (0, True, files)
    done = run("db", action, env, *names, "--json")
    assert_valid(f"db {action}", done.out)
    found = done.json()
    assert (done.code, found["action"], found["db"], found["dry_run"]) == (0, action, "orders", False)
    assert {name: found[name] for name in row} == row
    assert preview.json()["records"] == found["records"]
    assert found["saved_bytes"] > 0
    assert _content(env) == content
    assert run("verify", env, "--full").code == 0
    assert run("undo", env).code == 0
    assert (_content(env), _bytes(env)) == (before, files)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("remove", "none"), 4, "no database 'none'"),
        (("truncate", "_jeUtilization"), 2, "_jeUtilization is a database of JE itself"),
        (("rename", "orders", "paths"), 3, "there is a database 'paths' already"),
        (("rename", "orders", "_jeOrders"), 2, "names that begin with _je are reserved for JE"),
        (("rename", "orders", ""), 2, "the new name is empty"),
    ],
)
def test_names_are_checked_before_the_first_byte(env: Path, words: tuple[str, ...], code: int, message: str) -> None:
    action, *names = words
    files = _bytes(env)
    done = run("db", action, env, *names)
    assert done.code == code
    assert message in done.err
    assert _bytes(env) == files


@pytest.mark.exhaustive
@pytest.mark.parametrize("words", [("remove", "orders"), ("rename", "orders", "sales"), ("truncate", "orders")])
def test_a_kill_leaves_the_old_or_the_new_state(env: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    """The state of a repair that is not finished is the old one after its undo."""
    action, *names = words
    before = _content(env)
    undone = 0
    for at in range(0, 42, 3):
        copy = corpus.copy(env, tmp_path / f"copy{at}")
        assert run_killed(at, "db", action, copy, *names) or at > 30
        if journal.pending_in(DiskStorage(str(copy))) is not None:
            assert run("undo", copy).code == 0
            assert _content(copy) == before
            undone += 1
        else:
            assert (_content(copy) == before) == (undone == 0)
    assert undone > 3


def test_a_node_with_other_members_is_refused(tmp_path: Path) -> None:
    place = corpus.copy(corpus.path() / "je/je-18.3.20/ha-group/node1/env", tmp_path / "env")
    name = run("dbs", place, "--json").json()["records"][0]["name"]
    files = _bytes(tmp_path / "env")
    done = run("db", "remove", tmp_path / "env", name)
    assert done.code == 3
    assert "belongs to a replication group of 3 electable members" in done.err
    assert _bytes(tmp_path / "env") == files
    assert run("info", tmp_path / "env", "--json").json()["interrupted_repair"] is None
