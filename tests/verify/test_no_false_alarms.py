"""No false alarms: every environment that real JE left behind, and those that we write, crash and recover."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import JetoolError
from engine.log.files import LOCK_FILE, list_log_files
from engine.storage.crash import CrashMode, CrashStorage
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.verify.environment import LEVELS, verify_environment
from engine.verify.report import NOTE
from engine.verify.trees import verify_trees
from tests.support import corpus
from tests.support.environments.busy import BusyWorkload, open_busy
from tests.support.environments.workload import Workload, open_env

FIXTURES = corpus.path() / "je"
MANIFESTS = sorted(FIXTURES.rglob("manifest.json"))
ALL = ("tree", "refs", "data", "space")


def test_fixtures_are_there() -> None:
    assert len(MANIFESTS) == 114


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: str(path.parent.relative_to(FIXTURES)))
def test_trees_of_real_environments(manifest: Path) -> None:
    """What JE opens has no errors; what JE refuses, but for a restore marker, cannot be recovered here either."""
    said = json.loads(manifest.read_text())
    storage = DiskStorage(manifest.parent / "env")
    found = verify_trees(storage, list_log_files(storage), ALL)
    refused = said["onOpen"]["forWriting"] != "ok" and manifest.parent.name != "restore-required"
    assert [f.code for f in found.findings if f.severity != NOTE] == (["JE-TREE-001"] if refused else [])
    assert found.recovered is not refused
    if not refused:
        assert found.records >= sum(db["records"] for db in said["databases"])


class Crashes:
    """Verifies the environment that each crash would leave, before recovery and after it, while a workload runs.

    Arguments:
        every: which operations on files are crash points.
    """

    def __init__(self, every: int) -> None:
        self.storage = CrashStorage(listener=self._before)
        self.points = 0
        self._every = every

    def _before(self, kind: str, path: str) -> None:
        number = self.storage.operations
        if path == LOCK_FILE or number % self._every:
            return
        for mode in CrashMode:
            what = f"before operation {number}, {kind} {path}, {mode.value}"
            image = self.storage.image(mode, number)
            _assert_sound(image, what)
            env = open_env(image)
            if number // self._every % 2:
                env.close()
            else:
                env.engine.crash()
            _assert_sound(image, f"{what}, recovered")
            self.points += 1


@pytest.mark.parametrize("seed", range(3))
def test_our_own_crashed_environments(seed: int) -> None:
    """Small nodes, so trees of many levels."""
    crashes, workload = Crashes(7), Workload(seed, keys=30)
    with open_env(crashes.storage) as env:
        workload.start(env)
        workload.run(env, 50)
    assert crashes.points > 10


@pytest.mark.parametrize("seed", range(2))
def test_trees_that_change_their_shape(seed: int) -> None:
    """Reverse splits, pruned branches, deltas, eviction during checkpoints, names."""
    crashes, workload = Crashes(13), BusyWorkload(seed)
    env = open_busy(crashes.storage)
    workload.start(env)
    workload.run(env, 60)
    workload.finish()
    env.close()
    assert crashes.points > 10


def _assert_sound(image: MemoryStorage, what: str) -> None:
    try:
        files = list_log_files(image)
    except JetoolError:
        return
    found = verify_trees(image, files, ALL)
    if not found.recovered:
        # A crash while the environment was being made.
        assert "no root entry" in found.findings[0].message, what
        return
    assert [(f.code, f.message) for f in found.findings if f.severity != NOTE] == [], what


def test_levels_and_what_they_do_not_check() -> None:
    storage = MemoryStorage()
    with open_env(storage) as env, env.create_database("d") as db:
        db.put(b"k", b"v")
    files = list_log_files(storage)
    for levels, checked, missing in (
        (("tail",), ("tail",), ("log", "bodies", "references", "trees", "data")),
        (("tree",), ("tail", "tree"), ("log", "bodies", "references", "data")),
        (("data",), ("tail", "tree", "refs", "data"), ("log", "bodies of obsolete entries")),
        (("space",), ("tail", "tree", "space"), ("log", "bodies", "references", "data")),
        (LEVELS, LEVELS, ("bodies of obsolete entries",)),
    ):
        report = verify_environment(storage, files, levels)
        assert report.checked == checked
        not_counted = () if "space" in checked else ("utilization",)
        assert report.not_checked == (*missing, *not_counted, "replication index")
        assert (report.nodes is None) == ("tree" not in checked)
        assert report.findings == ()
