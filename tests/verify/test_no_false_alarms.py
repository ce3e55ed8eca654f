"""No false alarms: every environment that real JE left behind, and those that we write, crash and recover."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from engine.errors import JetoolError
from engine.log.files import list_log_files
from engine.storage.crash import CrashMode
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.verify.environment import LEVELS, verify_environment
from engine.verify.report import NOTE
from engine.verify.trees import verify_trees
from tests.db.test_crash_points import run_until_crash
from tests.db.workload import open_env

FIXTURES = Path(__file__).resolve().parents[3] / "shared" / "fixtures" / "je"
MANIFESTS = sorted(FIXTURES.rglob("manifest.json"))
ALL = ("tree", "refs", "data")


def test_fixtures_are_there() -> None:
    if not MANIFESTS:
        if os.environ.get("CI"):
            pytest.fail(f"no fixtures in {FIXTURES}")
        pytest.skip(f"needs {FIXTURES}")
    assert len(MANIFESTS) >= 114


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


@pytest.mark.parametrize("seed", range(3))
def test_our_own_crashed_environments(seed: int) -> None:
    """Small nodes, so trees of many levels; at every tenth crash point, before recovery and after it."""
    total = run_until_crash(seed, 40, 0)[0].operations
    checked = 0
    for stop_at in range(10, total, 10):
        storage, _ = run_until_crash(seed, 40, stop_at)
        for mode in CrashMode:
            image = storage.image(mode, stop_at)
            _assert_sound(image, f"{mode.value} at {stop_at}")
            env = open_env(image)
            if stop_at % 20:
                env.close()
            else:
                env.crash()
            _assert_sound(image, f"{mode.value} at {stop_at}, recovered")
            checked += 1
    assert checked > 10


def _assert_sound(image: MemoryStorage, what: str) -> None:
    try:
        files = list_log_files(image)
    except JetoolError:
        return
    found = verify_trees(image, files, ALL)
    assert [(f.code, f.message) for f in found.findings if f.severity != NOTE] == [], what


def test_levels_and_what_they_do_not_check() -> None:
    storage = MemoryStorage()
    with open_env(storage) as env, env.create_database("d") as db:
        db.put(b"k", b"v")
    files = list_log_files(storage)
    for levels, checked, missing in (
        (("tail",), ("tail",), ("log", "bodies", "references", "trees", "data")),
        (("tree",), ("tree",), ("log", "tail", "bodies", "references", "data")),
        (("data",), ("tree", "refs", "data"), ("log", "tail", "bodies of obsolete entries")),
        (LEVELS, LEVELS, ("bodies of obsolete entries",)),
    ):
        report = verify_environment(storage, files, levels)
        assert report.checked == checked
        assert report.not_checked == (*missing, "utilization", "replication index")
        assert (report.nodes is None) == ("tree" not in checked)
        assert report.findings == ()
