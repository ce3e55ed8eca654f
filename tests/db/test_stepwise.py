"""Cut the log after every entry, recover, compare, recover again, compare (the stepwise method of section 12)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.format.entry_types import COMMIT
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.memory import MemoryStorage
from tests.db.busy import BusyWorkload, open_busy
from tests.db.workload import State, Workload, contents, open_env


class Cuts:
    """A log and what must be visible when it ends after each of its entries."""

    def __init__(self, storage: MemoryStorage, workload: Workload) -> None:
        self.files = {path: data for path, data in storage.contents().items() if path.endswith(".jdb")}
        self.ends: list[tuple[int, int]] = []
        commits = []
        for file in list_log_files(storage).files:
            with FileReader(storage, file, is_last=False) as reader:
                for entry in reader.entries():
                    assert isinstance(entry, LogEntry), entry
                    size = (22 if entry.vlsn != -1 else 14) + entry.item_size
                    self.ends.append((entry.lsn, (entry.lsn & 0xFFFFFFFF) + size))
                    if entry.type_number == COMMIT:
                        commits.append(entry.lsn)
        self.commits = commits
        self.states = {bisect_right(commits, lsn): state for lsn, state in workload.marks}

    def expected(self, lsn: int) -> State:
        """The state when the log ends after the entry at an LSN."""
        return self.states.get(bisect_right(self.commits, lsn), {})

    def image(self, lsn: int, end: int) -> MemoryStorage:
        """The log cut there."""
        last = lsn >> 32
        kept = {path: data for path, data in self.files.items() if int(Path(path).stem, 16) <= last}
        kept[f"{last:08x}.jdb"] = kept[f"{last:08x}.jdb"][:end]
        return MemoryStorage(kept)


def make_cuts(seed: int, steps: int) -> Cuts:
    storage = MemoryStorage()
    workload = Workload(seed, keys=30)
    env = open_env(storage)
    workload.start(env)
    workload.run(env, steps)
    env.close()
    return Cuts(storage, workload)


def make_busy_cuts(seed: int, steps: int) -> Cuts:
    storage = MemoryStorage()
    workload = BusyWorkload(seed)
    env = open_busy(storage)
    workload.start(env)
    workload.run(env, steps)
    workload.finish()
    env.close()
    return Cuts(storage, workload)


def check(cuts: Cuts, step: int) -> int:
    checked = 0
    first = cuts.states and min(lsn for lsn in cuts.commits)
    for lsn, end in cuts.ends[:: step or 1]:
        if lsn < first:
            continue
        expected = cuts.expected(lsn)
        image = cuts.image(lsn, end)
        before = image.contents()
        with open_env(image, read_only=True, create=False) as env:
            assert contents(env) == expected, f"read-only, cut after 0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"
        assert image.contents() == before
        env = open_env(image, create=False)
        assert contents(env) == expected, f"recovered, cut after 0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"
        env.crash()
        with open_env(image, create=False) as env:
            assert contents(env) == expected, f"recovered twice, cut after 0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"
        checked += 1
    return checked


@pytest.mark.parametrize("seed", [1, 2])
def test_every_cut_shows_what_was_committed(seed: int) -> None:
    """T-27, T-29, T-30, T-46, T-49, T-50, E-REC-1, E-REC-2: splits, reverse splits, deletions, aborts, duplicates."""
    assert check(make_cuts(seed, 35), 3) > 50


@pytest.mark.parametrize("seed", [3, 4])
def test_every_cut_where_trees_change_their_shape(seed: int) -> None:
    """T-29, T-36, T-39, T-48: runs of keys that come and go, deltas, eviction during checkpoints, names."""
    assert check(make_busy_cuts(seed, 35), 4) > 50


@pytest.mark.slow
@pytest.mark.parametrize("make", [make_cuts, make_busy_cuts])
@pytest.mark.parametrize("seed", range(10, 20))
def test_every_cut_of_longer_logs(make: Callable[[int, int], Cuts], seed: int) -> None:
    assert check(make(seed, 90), 1) > 300
