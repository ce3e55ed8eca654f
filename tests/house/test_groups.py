"""Tests of one group run in one worker, so that what they share (a Spark session, a cluster) is started once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import harness

TESTS = """
import os
import pytest

@pytest.mark.xdist_group("shared")
@pytest.mark.parametrize("number", range(6))
def test_in_a_group(number, tmp_path_factory):
    place = tmp_path_factory.getbasetemp().parent / f"worker-{os.environ['PYTEST_XDIST_WORKER']}"
    place.touch()
"""


def test_a_group_has_one_worker(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    place = tmp_path / "base"
    words = ("-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadgroup", "--basetemp", str(place), "test_some.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path, env=harness.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert len(list(place.glob("worker-*"))) == 1
