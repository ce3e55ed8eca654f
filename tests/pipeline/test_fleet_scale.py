"""Many environments, bounded memory, more cores, a cluster. Most take minutes: ``-m slow``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from engine import Durability, Environment, EnvironmentConfig
from tests.support import harness
from tests.support.children import child
from tests.support.cluster import standalone
from tests.support.tools import needs
from tests.support.waiting import PATIENCE_S

ENVIRONMENTS = 200
BYTES = 5_200_000
DIFFERENT = 8


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hundred environments of 5 MB: eight that the engine writes, the others copies of them."""
    root = tmp_path_factory.mktemp("fleet")
    for number in range(DIFFERENT):
        _generate(root / f"{number:03d}", number)
    for number in range(DIFFERENT, ENVIRONMENTS):
        shutil.copytree(root / f"{number % DIFFERENT:03d}", root / f"{number:03d}")
    return root


def _generate(path: Path, seed: int) -> None:
    path.mkdir()
    config = EnvironmentConfig(create=True, file_max_bytes=1_000_000, checkpoint_bytes=2_000_000)
    with Environment(str(path), config) as env, env.create_database("d") as db:
        number = 0
        while sum(file.stat().st_size for file in path.glob("*.jdb")) < BYTES:
            with env.begin(durability=Durability.NO_SYNC) as txn:
                for _ in range(100):
                    number += 1
                    db.put((number * 7919 % 20_000 + seed).to_bytes(8, "big"), bytes(100 + number % 50), txn)


class Memory:
    """The most that any Python process below another takes, and all of them together, sampled."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.most_kb = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """The most in kB."""
        self._done.set()
        self._thread.join()
        return self.most_kb

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            for status in _statuses():
                if self._pid in status["above"] and status["name"].startswith("python"):
                    self.most_kb = max(self.most_kb, status["kb"])


def _statuses() -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
            name = fields["Name"].strip()
            found[int(fields["Pid"])] = {
                "name": name, "parent": int(fields["PPid"]), "kb": int(fields.get("VmRSS", "0 kB").split()[0]),
            }  # fmt: skip
        except (OSError, KeyError, ValueError):
            continue
    for status in found.values():
        above, parent = set(), status["parent"]
        while parent in found and parent not in above:
            above.add(parent)
            parent = found[parent]["parent"]
        status["above"] = above | {parent}
    return list(found.values())


def report(root: Path, *words: str) -> tuple[dict[str, Any], float, int]:
    """Run the command in a process of its own; the result, seconds, and the most memory of a Python process in kB."""
    command = [sys.executable, "-m", "jetool", "fleet", "report", f"{root}/*", "--format", "json", *words]
    start = time.monotonic()
    with child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as done:
        memory = Memory(done.pid)
        try:
            out, err = done.communicate(timeout=8 * PATIENCE_S)
        finally:
            most = memory.stop()
    seconds = time.monotonic() - start
    assert done.returncode == 0, err.decode()
    return json.loads(out), seconds, most


def scan_seconds(root: Path, master: str) -> float:
    """The seconds of the job alone, by what it reports as progress."""
    command = [
        sys.executable, "-m", "jetool", "fleet", "report", f"{root}/*", "--master", master, "--progress", "json",
        "--output", os.devnull,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=harness.environment(), timeout=8 * PATIENCE_S)
    assert done.returncode == 0, done.stderr
    times = [line["elapsed_ms"] for line in map(json.loads, done.stderr.splitlines()) if line["step"] == "read logs"]
    return float(times[-1] - times[0]) / 1000


@pytest.mark.slow
def test_two_hundred_environments(fleet: Path) -> None:
    needs("Spark", "Java")
    total = sum(path.stat().st_size for path in fleet.rglob("*.jdb"))
    assert total >= 1_000_000_000
    found, seconds, most_kb = report(fleet, "--html", str(fleet.parent / "fleet.html"))
    print(f"{total / 1e6:.0f} MB in {seconds:.1f} s, most memory of a Python process {most_kb / 1024:.0f} MiB")
    assert found["summary"]["environments"] == ENVIRONMENTS
    assert found["summary"]["bytes"] == total
    assert {record["state"] for record in found["records"]} == {"clean"}
    # A worker holds one window of a file and the facts of its task, the driver the facts of all.
    assert most_kb < 400 * 1024
    assert (fleet.parent / "fleet.html").stat().st_size < 12_000_000


@pytest.mark.slow
def test_it_scales_with_cores(fleet: Path) -> None:
    needs("Spark", "Java", "two cores")
    one, two = scan_seconds(fleet, "local[1]"), scan_seconds(fleet, "local[2]")
    print(f"local[1] {one:.1f} s, local[2] {two:.1f} s")
    assert two < 0.75 * one


@pytest.mark.slow
def test_a_standalone_cluster(tmp_path: Path, corpus: Path) -> None:
    """Executors in processes of their own, which have the package from the driver only."""
    needs("Spark", "Java")
    fixtures = corpus / "je/je-18.3.20"
    command = [
        sys.executable, "-m", "jetool", "fleet", "report", f"{fixtures}/c*/env", f"{fixtures}/ha-*/node?/env", "--json",
    ]  # fmt: skip
    with standalone(tmp_path) as url:
        on_cluster = subprocess.run(
            [*command, "--master", url, "--conf", "spark.executor.memory=512m"],
            capture_output=True, text=True, env=harness.environment(), timeout=8 * PATIENCE_S,
        )  # fmt: skip
    assert on_cluster.returncode == 1, on_cluster.stderr
    local = subprocess.run(command, capture_output=True, text=True, env=harness.environment(), timeout=8 * PATIENCE_S)
    assert json.loads(on_cluster.stdout) == json.loads(local.stdout)
