"""Crash points of one run of a workload, each recovered and compared; also a program for long runs.

python -m tests.db.crash_points FIRST_SEED LAST_SEED [STEPS]
"""

from __future__ import annotations

import sys

from engine.db.environment import Environment
from engine.db.opening import LOCK_FILE
from engine.storage.crash import CrashMode, CrashStorage
from engine.storage.memory import MemoryStorage
from tests.db.busy import BusyWorkload, open_busy
from tests.db.later import later_log
from tests.db.workload import State, Workload, contents, open_env


def check_image(image: MemoryStorage, allowed: list[State], what: str) -> None:
    """Recover, compare, stop without a word, recover again, compare, write, compare."""
    env = open_env(image)
    found = contents(env)
    assert found in allowed, what
    env.engine.crash()
    with open_env(image) as env:
        assert contents(env) == found, f"{what}, recovered twice"
        if "plain" in found:
            with env.open_database("plain") as db:
                db.put(b"after", b"crash")
    with open_env(image, read_only=True, create=False) as env:
        if "plain" in found:
            assert contents(env)["plain"] == {**found["plain"], b"after": b"crash"}, f"{what}, written after recovery"


class CrashRun:
    """A workload under which every counted operation is a crash point, three times over.

    Arguments:
        files: the environment that it begins with; none: it makes one.
    """

    def __init__(self, workload: Workload, files: dict[str, bytes] | None = None) -> None:
        self.workload = workload
        self.points = 0
        self._storage = CrashStorage(files, listener=self._before)

    def go(self, steps: int) -> None:
        """Run the workload and check every point."""
        env = self.open(self._storage)
        self.workload.start(env)
        self.workload.run(env, steps)
        if isinstance(self.workload, BusyWorkload):
            self.workload.finish()
        env.close()

    def open(self, storage: CrashStorage) -> Environment:
        """The environment that the workload runs in."""
        return open_busy(storage) if isinstance(self.workload, BusyWorkload) else open_env(storage)

    def _before(self, kind: str, path: str) -> None:
        workload = self.workload
        if path == LOCK_FILE:
            return  # nothing is there yet, and opening is under a lock of the process
        allowed = [workload.committed] + ([workload.in_flight] if workload.in_flight is not None else [])
        for mode in CrashMode:
            what = f"before operation {self._storage.operations + 1}, {kind} {path}, {mode.value}"
            check_image(self._storage.image(mode, self._storage.operations), allowed, what)
            self.points += 1


def plain(seed: int) -> CrashRun:
    """Mixed transactions."""
    return CrashRun(Workload(seed, keys=30))


def busy(seed: int) -> CrashRun:
    """Trees that change their shape, eviction during checkpoints, names."""
    return CrashRun(BusyWorkload(seed))


def later(seed: int) -> CrashRun:
    """Mixed transactions in a log that a later JE has begun to write."""
    return CrashRun(Workload(seed, keys=30), later_log(26))


def main() -> None:
    first, last = int(sys.argv[1]), int(sys.argv[2])
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    total = 0
    for seed in range(first, last):
        for make in (plain, busy, later):
            run = make(seed)
            run.go(steps)
            total += run.points
        sys.stdout.write(f"seed {seed}: {total} points\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
