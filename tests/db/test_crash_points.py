"""Crash at every counted write and sync; what was committed is there, nothing else is, and recovery can be repeated.

One run of a workload gives all its crash points: before each operation that the storage counts, the images that a
crash would leave there are recovered and compared with the model. ``python -m tests.db.crash_points`` does the same
with as many seeds as one has time for.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.errors import JetoolError
from engine.storage.crash import CrashMode, CrashStorage
from tests.db.crash_points import CrashRun, busy, check_image, later, plain
from tests.db.workload import Workload, open_env


@pytest.mark.parametrize("make", [plain, busy, later])
def test_crash_points(make: Callable[[int], CrashRun]) -> None:
    run = make(5)
    run.go(steps=16)
    assert run.points > 100


@pytest.mark.slow
@pytest.mark.parametrize("make", [plain, busy, later])
@pytest.mark.parametrize("seed", range(20))
def test_crash_at_every_operation(make: Callable[[int], CrashRun], seed: int) -> None:
    run = make(seed)
    run.go(steps=60)
    assert run.points > 500


@pytest.mark.parametrize("mode", CrashMode)
@pytest.mark.parametrize("stop_at", [1, 7, 20, 41, 60])
def test_an_environment_that_has_crashed_fails_and_leaves_the_same(mode: CrashMode, stop_at: int) -> None:
    """The process goes on for a while: nothing that it does reaches the files any more."""
    storage = CrashStorage(stop_at=stop_at)
    workload = Workload(5, keys=30)
    with pytest.raises(JetoolError):
        run_to_the_end(storage, workload)
    assert storage.crashed
    allowed = [workload.committed] + ([workload.in_flight] if workload.in_flight is not None else [])
    check_image(storage.image(mode, stop_at), allowed, f"operation {stop_at}, {mode.value}")


def run_to_the_end(storage: CrashStorage, workload: Workload) -> None:
    env = open_env(storage)
    workload.start(env)
    workload.run(env, 30)
    env.close()
