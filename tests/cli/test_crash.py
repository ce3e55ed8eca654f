"""``crash``: what is left, on a copy, and the matrix that recovers and compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.db.environment import Environment as Engine
from engine.inspect.crash_matrix import CommittedModel, Records, run_case
from engine.inspect.crash_points import MODES, crash_points
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from tests.support.environments.copies import copy_of, state_of
from tests.support.environments.oracle import Environment, environments, named
from tests.support.harness import assert_valid, run, spawn

TXN_CRASH = "je-18.3.20/txn-crash"
MANY_FILES = "je-18.3.20/torn-base"


def crash(env: Path, *words: str | Path) -> dict[str, Any]:
    result = run("crash", env, "--format", "ndjson", *words)
    assert result.code == 0, result.err
    assert_valid("crash", result.out, "ndjson")
    return result.lines()[0]


def entries(env: Path) -> list[dict[str, Any]]:
    return [line for line in run("dump-log", env, "--format", "ndjson").lines() if line["rec"] == "entry"]


def test_a_copy_is_cut_in_front_of_the_entry(tmp_path: Path) -> None:
    env = copy_of(named(TXN_CRASH), tmp_path / "env")
    before = state_of(env)
    lost = crash(env, "--at", "step:checkpoint", "--out", tmp_path / "copy")
    every = entries(env)
    cut = max(number for number, entry in enumerate(every) if entry["type"] == "CkptEnd")
    assert lost["lsn"] == lost["end_lsn"] == every[cut]["lsn"]
    assert entries(tmp_path / "copy") == every[:cut]
    assert state_of(env) == before
    assert run("recover", tmp_path / "copy").code == 0


@pytest.mark.parametrize(
    ("place", "number"),
    [("entry:100", 99), ("end", -1), ("type:Commit:5", None), ("step:commit:5", None)],
)
def test_places(tmp_path: Path, place: str, number: int | None) -> None:
    env = copy_of(named(TXN_CRASH), tmp_path / "env")
    every = entries(env)
    wanted = every[number] if number is not None else [e for e in every if e["type"] == "Commit"][4]
    assert crash(env, "--at", place, "-n")["lsn"] == wanted["lsn"]
    assert crash(env, "--at", wanted["lsn"], "--out", tmp_path / "copy")["lsn"] == wanted["lsn"]


@pytest.mark.parametrize("mode", MODES)
def test_modes(tmp_path: Path, mode: str) -> None:
    env = copy_of(named(MANY_FILES), tmp_path / "env")
    every = entries(env)
    place = next(entry["lsn"] for entry in every if entry["file"] == 3 and entry["type"] == "Commit")
    found = crash(env, "--at", place, "--mode", mode, "--seed", "3", "--out", tmp_path / "copy")
    left = entries(tmp_path / "copy")
    at = [entry["lsn"] for entry in every].index(place)
    if mode in ("lost-tail", "torn-write"):
        assert left == every[:at]
        assert found["removed"] == ["00000004.jdb", "00000005.jdb"]
    elif mode == "no-fsync":
        assert left[-1]["type"] == "CkptEnd"
        assert left == every[: len(left)]
    elif mode == "missing-file":
        assert {entry["file"] for entry in left} == {entry["file"] for entry in every} - {3}
    else:
        assert found["changed_bytes"] == (1 if mode == "bit-flip" else 4096)
        assert place not in [entry["lsn"] for entry in left]
        assert run("verify", tmp_path / "copy").code == 1
    assert run("crash", env, "--at", place, "--mode", mode, "--out", tmp_path / "copy").code == 3


def test_in_place_is_confirmed_locked_and_undone(tmp_path: Path) -> None:
    env = copy_of(named(TXN_CRASH), tmp_path / "env")
    original = (env / "00000000.jdb").read_bytes()
    assert run("crash", env, "--in-place").code == 3
    assert (env / "00000000.jdb").read_bytes() == original
    assert run("crash", env, "--in-place", "--yes", "--at", "entry:300").code == 0
    assert len((env / "00000000.jdb").read_bytes()) < len(original)
    assert run("undo", env).code == 0
    assert (env / "00000000.jdb").read_bytes() == original
    with Engine(str(env)):
        assert spawn("crash", env, "--in-place", "--yes").returncode == 3


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--at", "entry:100000"), 4),
        (("--at", "entry:0"), 4),
        (("--at", "entry:Commit"), 2),
        (("--at", "type:Nothing"), 2),
        (("--at", "step:dance"), 2),
        (("--at", "1234"), 2),
        (("--at", "0x0/0x1"), 4),
        (("--at", "entry:1"), 2),
        (("--at", "entry:5", "--mode", "no-fsync"), 4),
        (("--mode", "missing-file"), 2),
        (("--matrix", "none"), 2),
        (("--matrix", "3", "--mode", "bit-flip"), 2),
    ],
)
def test_what_cannot_be_done(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    env = copy_of(named(TXN_CRASH), tmp_path / "env")
    assert run("crash", env, "-n", *words).code == code


@pytest.mark.parametrize("mode", ["lost-tail", "torn-write", "no-fsync"])
def test_the_matrix_passes(tmp_path: Path, mode: str) -> None:
    env = copy_of(named(TXN_CRASH), tmp_path / "env")
    before = state_of(env)
    result = run("crash", env, "--matrix", "12", "--mode", mode, "--seed", "4", "--format", "ndjson")
    assert result.code == 0, result.text
    assert_valid("crash", result.out, "ndjson")
    assert result.lines()[-1] == {"rec": "summary", "cases": 12, "failed": 0, "compared": 12}
    assert state_of(env) == before


@pytest.mark.parametrize("environment", environments("18.3.20", cases=("dups", "multi-ckpt", "cleaned", "empty")))
def test_matrices_of_other_environments(environment: Environment, tmp_path: Path) -> None:
    env = copy_of(environment, tmp_path / "env")
    assert run("crash", env, "--matrix", "6", "--mode", "torn-write").code == 0


class Forgetful(CommittedModel):
    """It expects too little."""

    def at(self, end_lsn: int) -> Records:
        return {db: dict(list(records.items())[1:]) for db, records in super().at(end_lsn).items()}


def test_the_matrix_notices_what_is_wrong() -> None:
    storage = DiskStorage(named(TXN_CRASH).path / "env")
    files = list_log_files(storage)
    model = CommittedModel(storage, files)
    point = crash_points(storage, files)[-1]
    assert run_case(storage, files, model, point, "lost-tail", 0).passed
    case = run_case(storage, files, Forgetful(storage, files), point, "lost-tail", 0)
    assert not case.passed
    assert "does not hold what was committed" in case.problem
