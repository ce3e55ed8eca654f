"""Work in several processes: results in order, errors as they are, no worker left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal

import pytest

from engine.errors import DamageError, JetoolError
from engine.log.parallel import map_in_order


def squared(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def large(number: int) -> bytes:
    return bytes((number,)) * 1_000_000


def damaged(number: int) -> int:
    if number == 5:
        raise DamageError("stopped", file="00000005.jdb", lsn="0x5/0x0", expected="a", found="b")
    return number


def killed(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("jobs", [1, 2, 3, 8])
def test_results_in_the_order_of_the_tasks(jobs: int) -> None:
    found = list(map_in_order(squared, range(7), jobs))
    assert [square for square, _ in found] == [number * number for number in range(7)]
    assert len({pid for _, pid in found}) == min(jobs, 7)


def test_results_larger_than_a_pipe() -> None:
    assert list(map_in_order(large, range(9), 2)) == [large(number) for number in range(9)]


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_an_error_comes_where_its_task_stands_with_all_its_fields(jobs: int) -> None:
    found: list[int] = []
    with pytest.raises(DamageError, match="stopped") as caught:
        found.extend(map_in_order(damaged, range(9), jobs))
    assert found == [0, 1, 2, 3, 4]
    assert caught.value.fields()["lsn"] == "0x5/0x0"
    assert multiprocessing.active_children() == []


def test_a_killed_worker_is_an_error() -> None:
    with pytest.raises(JetoolError, match="a worker process was killed"):
        list(map_in_order(killed, range(4), 2))


def test_leaving_early_leaves_no_process() -> None:
    results = map_in_order(large, range(50), 2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []
