"""Work in several processes: results in order, errors as they are, no worker left behind."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from engine.errors import DamageError, JetoolError
from engine.workers.parallel import map_in_order, map_small


def children() -> set[int]:
    """The children of this process, with those that have ended and were not waited for."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                found.add(int(path.parent.name))
    return found


@pytest.fixture(autouse=True)
def before() -> Iterator[set[int]]:
    """The children from before: Spark's, when tests that ran in this process have used it. No test leaves more."""
    found = children()
    yield found
    assert children() <= found


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


def test_a_killed_worker_is_an_error() -> None:
    with pytest.raises(JetoolError, match="a worker process was killed"):
        list(map_in_order(killed, range(4), 2))


def test_leaving_early_leaves_no_process(before: set[int]) -> None:
    results = map_in_order(large, range(50), 2)
    next(results)
    assert children() > before
    results.close()
    assert children() <= before


@pytest.mark.parametrize("jobs", [1, 2, 3])
@pytest.mark.parametrize("tasks", [0, 1, 7, 2500])
def test_small_results_come_in_the_order_of_the_tasks_and_once(jobs: int, tasks: int) -> None:
    """2,500 tasks are more than there are numbers in the pipe, so that each number stands for several."""
    found = list(map_small(squared, range(tasks), jobs))
    assert [square for square, _ in found] == [number * number for number in range(tasks)]
    assert len({pid for _, pid in found}) <= jobs


def slow_for_the_parent(number: int, parent: int, done: tuple[int, int]) -> tuple[int, int]:
    """The parent is at its first task until the worker has done all others."""
    if os.getpid() != parent:
        os.write(done[1], b".")
    else:
        assert sum(len(os.read(done[0], 1)) for _ in range(49)) == 49
    return number, os.getpid()


def test_who_is_free_takes_the_next_task() -> None:
    done = os.pipe()
    try:
        found = list(map_small(partial(slow_for_the_parent, parent=os.getpid(), done=done), range(50), 2))
    finally:
        for handle in done:
            os.close(handle)
    assert [number for number, _ in found] == list(range(50))
    assert sum(pid == os.getpid() for _, pid in found) <= 1


def test_results_larger_than_a_pipe_may_be_called_small() -> None:
    assert list(map_small(large, range(9), 2)) == [large(number) for number in range(9)]


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_an_error_of_a_small_task_comes_where_it_stands(jobs: int) -> None:
    found: list[int] = []
    with pytest.raises(DamageError, match="stopped") as caught:
        found.extend(map_small(damaged, range(9), jobs))
    assert found == [0, 1, 2, 3, 4]
    assert caught.value.fields()["lsn"] == "0x5/0x0"


def killed_in_a_worker(number: int, parent: int, taken: tuple[int, int]) -> int:
    """The parent is at its first task until the worker has taken one, too."""
    if os.getpid() != parent:
        os.write(taken[1], b"...")
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.read(taken[0], 1) == b"."
    return number


def test_a_killed_worker_takes_its_small_task_along() -> None:
    taken = os.pipe()
    try:
        with pytest.raises(JetoolError, match="a worker process was killed"):
            list(map_small(partial(killed_in_a_worker, parent=os.getpid(), taken=taken), range(4), 2))
    finally:
        for handle in taken:
            os.close(handle)


def test_leaving_small_tasks_early_leaves_no_process(before: set[int]) -> None:
    results = map_small(large, range(50), 2)
    next(results)
    assert children() > before
    results.close()
    assert children() <= before


def unsendable(number: int) -> object:
    return (lambda: number) if number == 1 else number


def test_a_result_that_cannot_be_sent_is_an_error() -> None:
    with pytest.raises(JetoolError, match="a worker process was killed"):
        list(map_in_order(unsendable, range(4), 2))


@pytest.mark.parametrize("spread", [map_in_order, map_small])
def test_a_process_with_many_files_open(spread: Callable[..., Iterator[tuple[int, int]]]) -> None:
    """Descriptors beyond 1023, where ``select`` ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Where the system allows fewer, as many as it allows.
    limit = 2200 if hard == resource.RLIM_INFINITY else min(2200, hard)
    many = limit // 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    handles = [os.open(os.devnull, os.O_RDONLY) for _ in range(many)]
    try:
        assert [square for square, _ in spread(squared, range(7), 2)] == [number * number for number in range(7)]
    finally:
        for handle in handles:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
