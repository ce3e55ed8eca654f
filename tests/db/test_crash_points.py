"""Crash at every counted write and sync; what was committed is there, nothing else is, and recovery can be repeated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.errors import JetoolError
from engine.storage.crash import CrashMode, CrashStorage
from engine.storage.memory import MemoryStorage
from tests.db.workload import Workload, contents, open_env


def run_until_crash(seed: int, steps: int, stop_at: int) -> tuple[CrashStorage, Workload]:
    storage = CrashStorage(stop_at=stop_at)
    workload = Workload(seed, keys=30)
    try:
        env = open_env(storage)
        workload.start(env)
        workload.run(env, steps)
        env.close()
    except JetoolError:
        assert storage.crashed
    return storage, workload


def check_image(image: MemoryStorage, workload: Workload, what: str) -> None:
    """Recover, compare, crash during nothing, recover again, write, compare."""
    allowed = [workload.committed] + ([workload.in_flight] if workload.in_flight is not None else [])
    env = open_env(image)
    found = contents(env)
    assert found in allowed, what
    env.crash()
    with open_env(image) as env:
        assert contents(env) == found, f"{what}, recovered twice"
        if "plain" in found:
            with env.open_database("plain") as db:
                db.put(b"after", b"crash")
    with open_env(image, read_only=True, create=False) as env:
        if "plain" in found:
            assert contents(env)["plain"] == {**found["plain"], b"after": b"crash"}, f"{what}, written after recovery"


def crash_points(seed: int, steps: int, every: int) -> Iterator[int]:
    total = run_until_crash(seed, steps, 0)[0].operations
    return iter(range(1, total + 1, every))


@pytest.mark.parametrize("mode", CrashMode)
def test_crash_points(mode: CrashMode) -> None:
    checked = 0
    for stop_at in crash_points(5, 30, 1):
        storage, workload = run_until_crash(5, 30, stop_at)
        check_image(storage.image(mode, stop_at), workload, f"crash at operation {stop_at}, {mode.value}")
        checked += 1
    assert checked > 20


@pytest.mark.slow
@pytest.mark.parametrize("mode", CrashMode)
@pytest.mark.parametrize("seed", range(26))
def test_crash_at_every_operation(mode: CrashMode, seed: int) -> None:
    for stop_at in crash_points(seed, 60, 1):
        storage, workload = run_until_crash(seed, 60, stop_at)
        check_image(storage.image(mode, stop_at), workload, f"seed {seed}, operation {stop_at}, {mode.value}")
