"""Cut the log after every entry, recover, compare, recover again, compare (the stepwise method, je-behaviour.md 12)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.storage.memory import MemoryStorage
from tests.support.environments.busy import BusyWorkload, open_busy
from tests.support.environments.workload import TINY_CACHE, Workload, open_env
from tests.support.logs.cuts import Cuts, check

pytestmark = pytest.mark.exhaustive


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


@pytest.mark.parametrize("seed", [1, 2])
def test_every_cut_shows_what_was_committed(seed: int) -> None:
    """T-27, T-29, T-30, T-46, T-49, T-50, E-REC-1, E-REC-2: splits, reverse splits, deletions, aborts, duplicates."""
    assert check(make_cuts(seed, 35), 3) > 50


@pytest.mark.parametrize("seed", [3, 4])
def test_every_cut_where_trees_change_their_shape(seed: int) -> None:
    """T-29, T-36, T-39, T-48: runs of keys that come and go, deltas, eviction during checkpoints, names."""
    assert check(make_busy_cuts(seed, 35), 4) > 50


@pytest.mark.parametrize("make", [make_cuts, make_busy_cuts])
def test_every_cut_is_recovered_with_a_cache_of_a_few_nodes(make: Callable[[int, int], Cuts]) -> None:
    """R-EVT-1: changed nodes leave memory in all passes and come back."""
    assert check(make(6, 35), 5, cache_bytes=TINY_CACHE) > 40


@pytest.mark.slow
@pytest.mark.parametrize("make", [make_cuts, make_busy_cuts])
@pytest.mark.parametrize("seed", range(10, 20))
def test_every_cut_of_longer_logs(make: Callable[[int, int], Cuts], seed: int) -> None:
    assert check(make(seed, 90), 1) > 300
