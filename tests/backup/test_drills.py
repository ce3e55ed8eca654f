"""Drills: backups beside a process that writes, killed at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.backup.repository import Repository
from engine.storage.disk import DiskStorage
from jetool.frame import exits
from tests.backup.environments import problems_of
from tests.support.harness import run

pytestmark = pytest.mark.exhaustive

# Numbers in one database, each a transaction; what is there is always 0..n without a gap.
_WRITER = """
import sys, time
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.storage.disk import DiskStorage
config = EnvironmentConfig(create=True, file_max_bytes=60_000, checkpoint_bytes=40_000)
with Environment(DiskStorage(sys.argv[1]), config) as env:
    db = env.create_database("numbers")
    number = 0
    while True:
        with env.begin() as txn:
            db.put(b"%09d" % number, b"x" * 50, txn)
            db.put(b"newest", b"%09d" % number, txn)
        number += 1
        time.sleep(0.0005)
"""


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def records_of_backups(tmp_path: Path, kills: int) -> list[int]:
    """Kill so many backups of an environment that is written to; the records of each that is listed in the end."""
    env, place = tmp_path / "env", tmp_path / "backups"
    env.mkdir()
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, env], env=environ)
    try:
        while not list(env.glob("*.jdb")) or run("dbs", env, "--db", "numbers").code != 0:
            assert writer.poll() is None
            time.sleep(0.05)
        chance = random.Random(kills)
        words = [sys.executable, "-m", "jetool", "-q", "backup", str(env), str(place)]
        began = time.monotonic()
        subprocess.run([*words, "-n"], env=environ, stdout=subprocess.DEVNULL, check=True)
        # About what a backup takes, on a busy machine too.
        span = time.monotonic() - began
        for at in range(kills):
            follow = ["--follow", "--every", "0.01", "--format", "ndjson"] if at % 2 else []
            taking = subprocess.Popen([*words, *follow], env=environ, stdout=subprocess.DEVNULL)
            try:
                time.sleep(span * chance.uniform(0.5, 2))
            finally:
                _kill(taking)
        assert writer.poll() is None
        assert run("backup", env, place).code == exits.DONE
    finally:
        _kill(writer)
    repository = Repository(DiskStorage(str(place)))
    assert problems_of(repository) == []
    counts = []
    for made in repository.ids():
        target = tmp_path / f"restored-{made}"
        assert run("restore", place, target, "--backup", made).code == exits.DONE
        found = run("scan", target, "--db", "numbers", "--key-format", "utf8", "--json").json()["records"]
        keys = [row["key"] for row in found]
        # Nothing is missing and nothing is half there: the numbers are whole up to the newest.
        assert keys == [*(f"{number:09d}" for number in range(len(keys) - 1)), "newest"]
        counts.append(len(keys))
    return counts


def test_backups_killed_beside_a_writer(tmp_path: Path) -> None:
    """Every backup that is listed is whole, and holds what the one before did."""
    counts = records_of_backups(tmp_path, 4)
    assert counts[0] > 0
    assert counts == sorted(counts)


@pytest.mark.slow
def test_a_hundred_backups_killed_beside_a_writer(tmp_path: Path) -> None:
    counts = records_of_backups(tmp_path, 100)
    assert len(counts) > 10
    assert counts == sorted(counts)
