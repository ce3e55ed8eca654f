"""Crash at every write, sync, rename and removal of workloads that clean; also a program for long runs.

python -m tests.cleaner.crash_points FIRST_SEED LAST_SEED [STEPS]

Each image is recovered, compared with the model, stopped without a word, recovered again and written to
(``tests.db.crash_points``); then verified at all levels, and cleaned once more with everything that may be.
"""

from __future__ import annotations

import sys
import time

from engine.db.environment import Environment
from engine.log.files import list_log_files
from engine.storage.crash import CrashMode, CrashStorage
from engine.storage.memory import MemoryStorage
from engine.verify.environment import LEVELS, verify_environment
from engine.verify.report import NOTE
from tests.cleaner.workload import CleaningWorkload, ManyUpdates, clean_by_force, clean_by_rules
from tests.db.crash_points import CrashRun, check_image
from tests.support.environments.busy import open_busy
from tests.support.environments.workload import Workload, contents, open_env


class CleaningRun(CrashRun):
    """A workload that cleans, under which every counted operation is a crash point.

    Arguments:
        every: each so many-th point is looked at; the others are passed by.
        verified: each so many-th of them is verified and cleaned, too.
    """

    def __init__(self, workload: Workload, *, every: int = 1, verified: int = 1) -> None:
        super().__init__(workload)
        self._every = every
        self._verified = verified
        self.removals = 0

    def open(self, storage: CrashStorage) -> Environment:
        """The environment; that of the busier workload has checkpoints that run beside eviction."""
        return open_busy(storage) if isinstance(self.workload, CleaningWorkload) else open_env(storage)

    def _before(self, kind: str, path: str) -> None:
        number = self._storage.operations
        self.removals += kind == "remove" and path.endswith(".jdb")
        if path == "je.lck" or (number % self._every and kind != "remove"):
            return
        workload = self.workload
        allowed = [workload.committed] + ([workload.in_flight] if workload.in_flight is not None else [])
        for mode in CrashMode:
            what = f"before operation {number + 1}, {kind} {path}, {mode.value}"
            image = self._storage.image(mode, number)
            if (number // self._every) % self._verified == 0:
                verify_image(image.contents(), what)
            check_image(image, allowed, what)
            if (number // self._every) % self._verified == 0:
                clean_image(image, what)
            self.points += 1


def verify_image(files: dict[str, bytes], what: str) -> None:
    """Recover a copy; nothing that the trees need is missing, and no check finds an error."""
    if not any(path.endswith(".jdb") for path in files):
        return
    storage = MemoryStorage(files)
    open_env(storage).close()
    report = verify_environment(storage, list_log_files(storage), LEVELS)
    found = [f"{found.code} {found.message}" for found in report.findings if found.severity != NOTE]
    # Recovery counts what it undoes, also what had been counted before the checkpoint (R-REC-19): no record is at risk.
    assert [one for one in found if not one.startswith("JE-SPACE")] == [], what


def clean_image(storage: MemoryStorage, what: str) -> None:
    """Clean what was left, file by file, and find the same records before and after, here and after another crash."""
    with open_env(storage) as env:
        before = contents(env)
        for choice in range(4):
            clean_by_force(env, choice * 7)
        clean_by_rules(env)
        env.checkpoint(force=True)
        assert contents(env) == before, f"{what}, cleaned afterwards"
    env = open_env(storage)
    assert contents(env) == before, f"{what}, cleaned and opened again"
    clean_by_rules(env)
    env.engine.sync()
    env.engine.crash()
    with open_env(storage) as env:
        assert contents(env) == before, f"{what}, crashed while cleaned again"


def busy(seed: int, **how: int) -> CleaningRun:
    """Trees that change their shape, under a cleaner that takes any file."""
    return CleaningRun(CleaningWorkload(seed), **how)


def updates(seed: int, **how: int) -> CleaningRun:
    """Plain transactions, under a cleaner that keeps to the rules."""
    return CleaningRun(ManyUpdates(seed, keys=30), **how)


def main() -> None:
    first, last = int(sys.argv[1]), int(sys.argv[2])
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 80
    total, deleted, begun = 0, 0, time.monotonic()
    for seed in range(first, last):
        for make in (busy, updates):
            run = make(seed, verified=5)
            run.go(steps)
            total += run.points
            deleted += run.removals
        sys.stdout.write(f"seed {seed}: {total} points, {deleted} files deleted, {time.monotonic() - begun:.0f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
