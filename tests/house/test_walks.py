"""A command goes through no more of the project than it has to, and recovers an environment once."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.recovery.manager import Recovery
from tests.house import walks
from tests.support.harness import run
from tests.support.modules import is_derbys
from tests.support.tools import needs

# One more is a reason to ask what the new file is for.
MOST_FILES = {"load of three rows": 127, "dump-log of one entry": 29}


@pytest.fixture
def recoveries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where recovery ran, each time."""
    found: list[str] = []
    recover = Recovery.run

    def counted(self: Recovery) -> object:
        found.append(self._ctx.access.storage.root)
        return recover(self)

    monkeypatch.setattr(Recovery, "run", counted)
    return found


def csv_of(path: Path, keys: range) -> Path:
    path.write_text("k,v\n" + "".join(f"{key:04d},{key}\n" for key in keys))
    return path


def test_files_of_a_walk() -> None:
    needs("Spark")
    found = dict(walks.walks())
    assert {name for name, one in found.items() if one.code} == set()
    assert {name: len(found[name].files) for name in MOST_FILES if len(found[name].files) > MOST_FILES[name]} == {}
    for name, one in found.items():
        assert one.recoveries == (name in RECOVERS), name
        assert not [file for file in one.files if file.startswith("engine/derby/") or is_derbys(file)], name


RECOVERS = {"load of three rows", "load of three rows more", "load of a JE dump", "put", "get", "recover"}


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_load_recovers_once(tmp_path: Path, recoveries: list[str], engine: str) -> None:
    """Into an empty database, into one with records, and when nothing is to be changed."""
    needs("Spark")
    env = tmp_path / "env"
    words = ("--db", "d", "--create", "--key", "k", "--engine", engine)
    assert run("create", env).code == 0
    assert recoveries == []
    for records, more in ((range(100), ("-n",)), (range(100), ()), (range(50, 150), ("-n",)), (range(50, 150), ())):
        result = run("load", env, csv_of(tmp_path / "a.csv", records), *words, *more, "--json")
        assert (result.code, result.json()["records"]) == (0, 100), result.err
        assert recoveries == [str(env)]
        recoveries.clear()
    assert run("dbs", env, "--count", "--json").json()["records"][0]["records"] == 150


def test_a_load_of_a_dump_recovers_once(tmp_path: Path, recoveries: list[str]) -> None:
    env, dump = tmp_path / "env", tmp_path / "dump"
    assert run("create", env, "--db", "d").code == 0
    dump.write_text("VERSION=3\nformat=print\nHEADER=END\n k\n v\nDATA=END\n")
    assert run("load", env, dump, "--db", "d").code == 0
    assert recoveries == [str(env)]


def test_a_load_after_a_crash_recovers_once(tmp_path: Path, recoveries: list[str]) -> None:
    """What recovery has cut off and undone stays so, and the loaded records stand after it."""
    needs("Spark")
    env = tmp_path / "env"
    assert run("create", env, "--db", "old").code == 0
    assert run("put", env, "kept", "1", "--db", "old").code == 0
    assert run("put", env, "lost", "2", "--db", "old", "--no-commit").code == 0
    recoveries.clear()
    source = csv_of(tmp_path / "a.csv", range(100))
    assert run("load", env, source, "--db", "d", "--create", "--key", "k", "--engine", "local").code == 0
    assert recoveries == [str(env)]
    assert run("scan", env, "--db", "old", "--key-format", "utf8", "--fields", "key", "--format", "csv").text == (
        "key\nkept\n"
    )
    assert run("verify", env, "--full").code == 0
