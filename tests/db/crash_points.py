"""Crash points of one run of a workload, each recovered and compared; also a program for long runs.

python -m tests.db.crash_points FIRST_SEED LAST_SEED [STEPS]
python -m tests.db.crash_points sectors FIRST_SEED POINTS

The second one counts images that differ: those of ``tests.support.damage.sectors``, of small workloads on small log
files.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable
from typing import Any, Final

from engine.db.environment import Environment
from engine.format.entry.file_header import FILE_HEADER_BYTES
from engine.log.files import LOCK_FILE, list_log_files
from engine.log.tail import find_end
from engine.storage.crash import CrashMode, CrashStorage, SimulatedCrashError
from engine.storage.memory import MemoryStorage
from engine.txn.txn import Durability
from tests.db.later import later_log
from tests.support.damage.sectors import sector_image
from tests.support.environments.busy import BusyWorkload, open_busy
from tests.support.environments.workload import NAMES, State, Workload, contents, open_env

TINY: Final[dict[str, Any]] = {"node_max_entries": 4, "file_max_bytes": 2_000, "buffer_bytes": 700}


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
        allowed = workload.allowed()
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


class LazyWorkload(Workload):
    """Small transactions of which many are not synced when they commit.

    Attributes:
        not_synced: the states before commits that nobody has waited for, oldest first.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed, keys=12)
        self.not_synced: list[State] = []

    def _transaction(self, env: Environment) -> None:
        state: State = {name: dict(records) for name, records in self.committed.items()}
        durability = self.random.choice((Durability.SYNC, Durability.NO_SYNC, Durability.WRITE_NO_SYNC))
        txn = env.begin(durability=durability)
        for _ in range(self.random.randint(1, 12)):
            name = self.random.choice([name for name in NAMES if name in state])
            with env.open_database(name) as db:
                self._write(db, state[name], txn)
        if self.random.random() < 0.2:
            txn.abort()
            return
        self.in_flight = state
        txn.commit()
        # A transaction that has logged nothing syncs nothing (R-TXN-40).
        if durability is Durability.SYNC and state != self.committed:
            self.not_synced = []
        else:
            self.not_synced = [*self.not_synced, self.committed]
        self._done()

    def _naming(self, env: Environment) -> None:
        super()._naming(env)
        self.not_synced = []

    def allowed(self) -> list[State]:
        """What a crash may leave now."""
        return [*self.not_synced, self.committed, *([self.in_flight] if self.in_flight is not None else [])]


class SectorRun:
    """A small workload on small log files, under which sectors are lost, torn and reordered at every operation.

    Arguments:
        seed: of the workload, and of what the crashes leave.
        each: images at each operation; those that were met before are not counted again.
        keep: told of every image, with the states that may be found in it.

    Attributes:
        points: images that were checked.
        refused: how many of them need ``--accept-loss``: a Commit that nobody was told of stands after a lost sector.
        given_up: in how many the last file had no entry to keep.
    """

    def __init__(self, seed: int, *, each: int = 12, keep: Callable[[MemoryStorage, list[State]], None] | None = None):
        self.points = self.refused = self.given_up = 0
        self._workload = LazyWorkload(seed) if seed % 3 else BusyWorkload(seed)
        self._seed, self._each, self._keep = seed, each, keep
        self._storage = CrashStorage(listener=self._before)
        self._seen: set[int] = set()

    def go(self, steps: int) -> None:
        """Run the workload and check every image."""
        env = open_env(self._storage, **TINY)
        self._workload.start(env)
        self._workload.run(env, steps)
        if isinstance(self._workload, BusyWorkload):
            self._workload.finish()
        env.close()

    def _before(self, kind: str, path: str) -> None:
        workload, storage = self._workload, self._storage
        if path == LOCK_FILE:
            return
        allowed = workload.allowed()
        for number in range(self._each):
            image = sector_image(storage, self._seed * 1_000_003 + storage.operations * self._each + number)
            identity = hash((tuple(sorted(image.contents().items())), len(workload.marks)))
            if identity in self._seen:
                continue
            self._seen.add(identity)
            if self._keep is not None:
                self._keep(image, allowed)
            what = f"seed {self._seed}, before operation {storage.operations + 1}, {kind} {path}, image {number}"
            has_log = any(name.endswith(".jdb") for name in image.names())
            tail = find_end(image, list_log_files(image)) if has_log else None
            self.refused += tail is not None and tail.commits_at_risk > 0
            self.given_up += tail is not None and tail.given_up is not None
            self._check(image, allowed, what)
            self.points += 1

    def _check(self, image: MemoryStorage, allowed: list[State], what: str) -> None:
        """Recover, be interrupted in that, recover what is left, compare, stop without a word, recover again."""
        chosen = random.Random(self.points)
        storage = CrashStorage(image.contents(), stop_at=chosen.randint(2, 30))
        # A recovery that ends before that operation has been whole.
        with contextlib.suppress(SimulatedCrashError):
            open_env(storage, halt_on_commit_after_bad=False, **TINY).engine.crash()
        image = sector_image(storage, chosen.randint(0, 1 << 30))
        env = open_env(image, halt_on_commit_after_bad=False, **TINY)
        found, tail = contents(env), env.engine.tail
        env.engine.crash()
        assert found in allowed, what
        if tail is not None:
            # Nothing that was lost looks as if somebody had been told that it is durable.
            assert tail.after.synced == tail.after.acknowledged == 0, what
        for path, data in image.contents().items():
            assert not path.endswith(".jdb") or len(data) > FILE_HEADER_BYTES, f"{what}: {path} is left as a stub"
        with open_env(image, **TINY) as env:
            assert contents(env) == found, f"{what}, recovered again"


def sectors(first_seed: int, points: int) -> None:
    """So many images; a line for each seed."""
    total = refused = given_up = 0
    seed = first_seed
    while total < points:
        run = SectorRun(seed)
        run.go(12)
        total, refused, given_up = total + run.points, refused + run.refused, given_up + run.given_up
        sys.stdout.write(
            f"seed {seed}: {total} points, {refused} refused without --accept-loss, {given_up} last files\n"
        )
        sys.stdout.flush()
        seed += 1


def main() -> None:
    if sys.argv[1] == "sectors":
        sectors(int(sys.argv[2]), int(sys.argv[3]))
        return
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
