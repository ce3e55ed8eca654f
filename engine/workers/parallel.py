"""Apply a function to tasks in several processes.

A task is usually one log file: entries can be found only by reading a file from its start. With n processes the calling
process does one share itself, and n - 1 workers do the other shares. There is no pool: a log file is checked in 25 ms,
and on a small log a pool would take longer to start than a second process saves. Results come in the order of the
tasks.

* ``map_small`` is for results of a few kilobytes, such as counts. Each process takes the next task when it is free, so
  that a busy core or a short last file delays no other process. Results that arrive early are kept.
* ``map_in_order`` is for results of any size, such as rendered entries. Every n-th task belongs to the same process. A
  pipe holds little, so a worker runs at most one task ahead of the result that it hands over; memory does not grow with
  the log.

Tasks are taken by number (``engine.workers.process``); if there are many tasks, one number stands for several.

On systems without fork, the calling process does all the work.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeVar

from engine.errors import JetoolError
from engine.workers.process import HAS_FORK, MOST_NUMBERS, WorkerProcess, WorkQueue, readable

Task = TypeVar("Task")
Result = TypeVar("Result")


def map_in_order(function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> Generator[Result, None, None]:
    """Apply a function to tasks, in this process or in several.

    Arguments:
        function: any function; its results and errors are pickled.
        tasks: what to do.
        jobs: number of processes, including this process.

    Raises:
        Whatever the function raises, in the order of the tasks; JetoolError when a worker was killed.
    """
    count = _processes(tasks, jobs)
    if count == 1:
        yield from map(function, tasks)
        return
    shares = [range(share, len(tasks), count) for share in range(1, count)]
    with _Workers() as workers:
        for share in shares:
            workers.start(function, tasks, share)
        for number, task in enumerate(tasks):
            share_number = number % count
            yield function(task) if share_number == 0 else workers.wait_for(number, share_number - 1)


def map_small(function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> Generator[Result, None, None]:
    """Like ``map_in_order``, for small results: each process takes the next task when it is free."""
    count = _processes(tasks, jobs)
    if count == 1:
        yield from map(function, tasks)
        return
    step = -(-len(tasks) // MOST_NUMBERS)
    with closing(WorkQueue(range(0, len(tasks), step))) as queue, _Workers() as workers:
        numbers = _numbers(queue, step, len(tasks))
        for _ in range(1, count):
            workers.start(function, tasks, numbers)
        done = workers.done
        following = 0
        for number in numbers:
            done[number] = _outcome(function, tasks[number])
            workers.look()
            while following in done:
                yield workers.take(following)
                following += 1
        for number in range(following, len(tasks)):
            yield workers.wait_for(number)


def _processes(tasks: Sequence[Task], jobs: int) -> int:
    return max(min(jobs, len(tasks)), 1) if HAS_FORK else 1


def _outcome(function: Callable[[Task], Result], task: Task) -> tuple[bool, Any]:
    """The result, or the error."""
    try:
        return True, function(task)
    except Exception as error:
        return False, error


def _numbers(queue: WorkQueue, step: int, end: int) -> Iterator[int]:
    """Take numbers until the queue is empty; each number stands for ``step`` tasks, up to ``end``."""
    while (first := queue.take()) is not None:
        yield from range(first, min(first + step, end))


class _Workers:
    """The worker processes and the results received from them.

    Attributes:
        done: outcomes by number of the task.
    """

    def __init__(self) -> None:
        self.done: dict[int, tuple[bool, Any]] = {}
        self._workers: list[WorkerProcess] = []

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    def start(self, function: Callable[[Task], Result], tasks: Sequence[Task], numbers: Iterable[int]) -> None:
        """Start a worker that does the tasks of these numbers. This process must have no other threads at that
        point.
        """
        # Imported here: commands that start no worker do not need it.
        import pickle

        def produce() -> Iterator[bytes]:
            for number in numbers:
                # While the worker waits for the parent, it holds only the message.
                yield pickle.dumps((number, _outcome(function, tasks[number])), pickle.HIGHEST_PROTOCOL)

        # Safe to unpickle: only a fork of this process can write to the pipe.
        self._workers.append(WorkerProcess(produce, pickle.loads, self._workers))

    def look(self) -> None:
        """Receive what is available, without waiting."""
        for worker in readable(self._workers, wait=False):
            self._receive(worker)

    def wait_for(self, number: int, worker: int | None = None) -> Any:
        """The result of a task that a worker has taken.

        Arguments:
            worker: the number of the worker; None if it is not known.

        Raises:
            JetoolError: the worker was killed.
            Exception: what the function raised.
        """
        workers = list(self._workers)
        while number not in self.done:
            ready = readable(workers, wait=True) if worker is None else [workers[worker]]
            ended = [one for one in ready if not self._receive(one)]
            if ended and number not in self.done:
                workers = [one for one in workers if one not in ended]
                if worker is not None or not workers:
                    raise JetoolError(
                        "a worker process was killed", consequence="the work is incomplete", hint="run with --jobs 1"
                    )
        return self.take(number)

    def take(self, number: int) -> Any:
        """Remove and return a result that has arrived. Raises what the function raised."""
        good, value = self.done.pop(number)
        if not good:
            raise value
        return value

    def _receive(self, worker: WorkerProcess) -> bool:
        """Read once from a worker; False when it has ended."""
        is_open = worker.read()
        self.done.update(worker.take())
        return is_open
