"""Work over log files in several processes.

One task is one file: where entries begin is known only from a file's start. With n processes the one that asks does
every
n-th task itself and n - 1 forked ones do the others, each its own share, in order. A worker hands over one result
before
it begins the next but one, since a pipe holds little; so memory does not grow with the log, and results come in the
order
of the tasks. There is no pool and no queue: for files that are checked in 25 ms each, starting one would cost more than
the second process gains on a small log.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from engine.errors import JetoolError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Task = TypeVar("Task")
Result = TypeVar("Result")


def map_in_order(function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    """Apply a function to tasks, in this process or in several.

    Arguments:
        function: defined at the top of a module, or a ``functools.partial`` of one; results and errors are pickled.
        tasks: what to do.
        jobs: how many processes, this one included.

    Raises:
        Whatever the function raises, in the order of the tasks; JetoolError when a worker was killed.
    """
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield function(task)
        return
    # Ten milliseconds of every start, for those who do not need it.
    import multiprocessing

    # Forked workers start in milliseconds; the parent has no threads at this point.
    context: Any = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else None)
    count = min(jobs, len(tasks))
    workers, receivers = [], []
    for share in range(1, count):
        receiver, sender = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(function, tasks[share::count], sender), daemon=True)
        worker.start()
        sender.close()
        workers.append(worker)
        receivers.append(receiver)
    try:
        for number, task in enumerate(tasks):
            share = number % count
            yield function(task) if share == 0 else _received(receivers[share - 1])
    finally:
        for worker, receiver in zip(workers, receivers, strict=True):
            receiver.close()
            worker.terminate()
            worker.join()


def _work(function: Callable[[Task], Result], tasks: Sequence[Task], sender: Connection[Any, Any]) -> None:
    """Do one share, in a process of its own."""
    # An interrupt is for the parent, which then ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for task in tasks:
        try:
            outcome: tuple[bool, object] = (True, function(task))
        except Exception as error:
            outcome = (False, error)
        try:
            sender.send(outcome)
        except OSError:
            # The parent has stopped listening.
            return


def _received(receiver: Connection[Any, Any]) -> Any:
    try:
        good, value = receiver.recv()
    except EOFError as error:
        raise JetoolError(
            "a worker process was killed", consequence="the work is incomplete", hint="run again with --jobs 1"
        ) from error
    if not good:
        raise value
    return value
