"""Several copies of one environment: the one to start from, and what the others lack."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from engine import Environment, EnvironmentConfig
from tests.support.harness import assert_valid, run


def _put(env: Path, first: int, last: int) -> None:
    with Environment(str(env), EnvironmentConfig()) as opened, opened.open_database("d") as db:
        for number in range(first, last):
            db.put(b"key%d" % number, b"value-%d" % number)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An environment, a copy with eight records more, and a copy of that with damage after four of them."""
    assert run("create", tmp_path / "old", "--db", "d").code == 0
    _put(tmp_path / "old", 0, 10)
    shutil.copytree(tmp_path / "old", tmp_path / "grown")
    _put(tmp_path / "grown", 10, 18)
    shutil.copytree(tmp_path / "grown", tmp_path / "damaged")
    _put(tmp_path / "damaged", 18, 23)
    log = tmp_path / "damaged" / "00000000.jdb"
    data = bytearray(log.read_bytes())
    data[data.index(b"value-14")] ^= 1
    log.write_bytes(data)
    assert run("create", tmp_path / "other", "--db", "d").code == 0
    return tmp_path


def _groups(*places: Path) -> Any:
    done = run("doctor", *places, "--json")
    assert_valid("doctor", done.out)
    return done.json()["groups"]


def test_copies_side_by_side(place: Path) -> None:
    (found,) = _groups(place / "old", place / "other", place / "grown", place / "damaged")
    assert (found["group"], found["uuid"], found["basis"]) == (None, None, "log")
    assert found["start"] == str(place / "grown")
    ranks = {Path(one["directory"]).name: one for one in found["nodes"]}
    assert list(ranks) == ["old", "grown", "damaged"]
    assert (ranks["old"]["standing"], ranks["old"]["behind"], ranks["old"]["own"]) == ("behind", 8, 0)
    assert ranks["grown"]["standing"] == "start"
    # The damaged one has the Commits before its damage only.
    assert (ranks["damaged"]["standing"], ranks["damaged"]["behind"], ranks["damaged"]["own"]) == ("behind", 4, 0)
    assert [step["command"].split()[:2] for step in found["next"]] == [["jetool", "diff"]] * 2


def test_equal_copies(place: Path) -> None:
    shutil.copytree(place / "grown", place / "again")
    (found,) = _groups(place / "grown", place / "again")
    assert sorted(one["standing"] for one in found["nodes"]) == ["same", "start"]
    assert found["next"] == []


def test_copies_that_parted(place: Path) -> None:
    shutil.copytree(place / "old", place / "fork")
    _put(place / "fork", 30, 33)
    done = run("doctor", place / "grown", place / "fork")
    (found,) = _groups(place / "grown", place / "fork")
    assert found["start"] == str(place / "fork")
    rank = next(one for one in found["nodes"] if one["standing"] == "forked")
    assert (rank["behind"], rank["own"]) == (3, 8)
    assert f"copies of one environment: start from {place / 'fork'}" in done.text
    assert "has 8 commits that only it has, look at them before they are lost" in done.text


def test_a_log_that_cannot_be_read_is_left_out(place: Path) -> None:
    gone = place / "gone"
    gone.mkdir()
    (gone / "00000000.jdb").write_text("no log")
    (found,) = _groups(place / "old", gone, place / "grown")
    assert {Path(one["directory"]).name for one in found["nodes"]} == {"old", "grown"}


def test_other_environments_are_not_compared(place: Path) -> None:
    assert _groups(place / "old", place / "other") == []
