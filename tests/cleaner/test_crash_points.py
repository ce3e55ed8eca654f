"""Crash at every write of workloads that clean; ``python -m tests.cleaner.crash_points`` runs as many as one likes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cleaner.crash_points import CleaningRun, busy, updates
from tests.cleaner.workload import CleaningWorkload

pytestmark = pytest.mark.exhaustive


def test_crash_points_of_a_busy_cleaner() -> None:
    """Every removal, and every fifth of all other operations."""
    run = busy(60, every=6, verified=6)
    run.go(60)
    workload = run.workload
    assert isinstance(workload, CleaningWorkload)
    assert run.points > 60
    assert workload.cleaned > 3
    assert run.removals > 0


def test_crash_points_of_plain_updates() -> None:
    run = updates(4, every=5, verified=6)
    run.go(40)
    assert run.points > 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("make", [busy, updates])
def test_every_crash_point(make: Callable[[int], CleaningRun], seed: int) -> None:
    run = make(seed)
    run.go(80)
    assert run.points > 300
