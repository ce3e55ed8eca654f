"""``recover --estimate``: what recovery would read and take, without a recovery; and progress that was missing."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.log.files import list_log_files
from engine.log.tail import find_end
from engine.storage.disk import DiskStorage
from tests.cli import derby_databases
from tests.support import corpus
from tests.support.harness import run

JE = corpus.path() / "je/je-18.3.20"


class Steps:
    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int]] = []

    def step(self, name: str, done: int, total: int) -> None:
        self.heard.append((name, done, total))

    def of(self, name: str) -> list[tuple[int, int]]:
        return [(done, total) for step, done, total in self.heard if step == name]


@pytest.mark.parametrize("name", ["txn-crash", "multi-ckpt-crash", "ha-rollback-begun/node2"])
def test_an_estimate_agrees_with_the_recovery(name: str, tmp_path: Path) -> None:
    """The logs are small, so that the sample is all of what recovery reads, and its counts are exact."""
    env = corpus.copy(JE / name / "env", tmp_path / "env")
    before = corpus.digests(env)
    found = run("recover", env, "--estimate", "--json")
    assert found.code == 0
    assert corpus.digests(env) == before, "nothing is changed, no lock file made"
    estimated = found.json()
    done = run("recover", env, "-n", "--json").json()
    for field in ("ckpt_end_lsn", "first_active_lsn"):
        assert estimated[field] == done[field]
    assert estimated["end_lsn"] == done["end_lsn_before"]
    work = run("info", env, "--json").json()["recovery"]
    assert (estimated["entries"], estimated["lns"]) == (work["entries"], work["lns"])
    phases = {phase["name"]: phase for phase in estimated["phases"]}
    assert phases["UNDO_DATA_RECORDS"]["log_bytes"] == phases["REDO_DATA_RECORDS"]["log_bytes"] == work["bytes"]
    assert set(phases) <= {phase["name"] for phase in done["phases"]}
    assert estimated["expected_ms"] == sum(phase["expected_ms"] for phase in phases.values())
    least, most = estimated["checkpoint_least_bytes"], estimated["checkpoint_most_bytes"]
    assert 0 < least <= most


def test_what_recovery_would_refuse_is_said() -> None:
    found = run("recover", JE / "corrupt-middle/env", "-n", "--estimate", "--json")
    assert (found.code, found.json()["commits_at_risk"]) == (3, 3)
    assert "3 committed transactions among them" in found.err


def test_what_excludes_each_other(tmp_path: Path) -> None:
    assert run("recover", JE / "txn-crash/env", "--estimate", "--accept-loss", "-n").code == 2
    derby = derby_databases.extract(derby_databases.FIVE, tmp_path)
    assert "--estimate" in run("recover", derby, "--estimate").err


def test_the_search_for_the_end_of_a_large_file_tells_bytes(tmp_path: Path) -> None:
    config = EnvironmentConfig(create=True, run_checkpointer=False, checkpoint_bytes=1 << 40)
    with Environment(tmp_path / "env", config) as env:
        db = env.create_database("large")
        for number in range(24):
            db.put(b"%d" % number, bytes(400_000))
    steps = Steps()
    storage = DiskStorage(tmp_path / "env")
    tail = find_end(storage, list_log_files(storage), steps)
    told = steps.of("FIND_END_OF_LOG")
    assert tail.last_file.size_bytes > 9_000_000
    assert {total for _, total in told} == {tail.last_file.size_bytes}
    places = [done for done, _ in told]
    # At least once in each two windows of a mebibyte.
    assert all(0 < after - before <= 2 << 20 for before, after in pairwise([*places, tail.last_file.size_bytes]))


def test_the_closing_checkpoint_tells_how_many_nodes_are_left(tmp_path: Path) -> None:
    steps = Steps()
    with Environment(tmp_path / "env", EnvironmentConfig(create=True, run_checkpointer=False)) as env:
        db = env.create_database("many")
        with env.begin() as txn:
            for number in range(3000):
                db.put(b"%06d" % number, b"x", txn=txn)
    assert run("recover", tmp_path / "env").code == 0
    with Environment(tmp_path / "env", EnvironmentConfig(run_checkpointer=False), steps) as env:
        db = env.open_database("many")
        for number in range(0, 3000, 50):
            db.put(b"%06d" % number, b"y")
    told = [(done, total) for done, total in steps.of("checkpoint flush") if total]
    assert len(told) > 20
    assert all(0 < done <= total for done, total in told)
    assert told[-1][0] == told[-1][1]


def test_progress_as_json_has_percent_for_the_end_of_the_log() -> None:
    shown = run("recover", JE / "txn-crash/env", "-n", "--json", "--progress", "json").err
    lines = [json.loads(line) for line in shown.splitlines()]
    told = [line for line in lines if line["step"] == "FIND_END_OF_LOG"]
    assert told[0]["percent"] == 0.0
