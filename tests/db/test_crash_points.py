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
from tests.db.crash_points import CrashRun, SectorRun, busy, check_image, later, plain
from tests.support.damage.sectors import sector_image
from tests.support.environments.workload import Workload, open_env

pytestmark = pytest.mark.exhaustive


@pytest.mark.parametrize("make", [plain, busy, later])
def test_crash_points(make: Callable[[int], CrashRun]) -> None:
    run = make(5)
    run.go(steps=16)
    assert run.points > 100


@pytest.mark.parametrize("seed", [3, 4, 218])
def test_sectors_in_any_order(seed: int) -> None:
    """R-LOG-16, D-5: lost, torn and reordered sectors on small files, and recovery interrupted in the same way.

    In 218 recovery splits a node that it could not log, and its checkpoint is interrupted between the two halves.
    """
    run = SectorRun(seed)
    run.go(steps=12)
    assert run.points > 60
    assert run.given_up == 0, "no file of ours appears without its first entry"


def test_a_sector_image_loses_what_was_not_synced() -> None:
    """The shim itself: every sector by itself, lengths in between, names in their order; nothing that was synced."""
    storage = CrashStorage()
    file = storage.open_rw("a", create=True)
    file.write(0, b"s" * 1000)
    file.sync()
    file.write(1000, b"1" * 2000)
    file.write(1500, b"2" * 100)
    storage.rename("a", "b")
    storage.open_rw("c", create=True)
    images = [sector_image(storage, seed).contents() for seed in range(400)]
    assert {frozenset(image) for image in images} == {frozenset("a"), frozenset("b"), frozenset("bc")}
    found = [image.get("a") or image["b"] for image in images]
    assert {len(data) for data in found} == {1000, 1024, 1536, 2048, 2560, 3000}
    assert all(data[:1000] == b"s" * 1000 for data in found)
    # The sector at 1024, in which both writes have a part.
    assert {data[1024:1536] for data in found if len(data) >= 1536} == {
        bytes(512), b"1" * 512, b"1" * 476 + b"2" * 36,
    }  # fmt: skip
    whole = [data for data in found if len(data) == 3000]
    assert any(data[2048:2560] == bytes(512) and data[2560:] == b"1" * 440 for data in whole)


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
