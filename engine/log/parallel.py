"""Work over log files in several processes.

One task is one file: where entries begin is known only from a file's start. Results come in the order of the tasks,
whatever the order in which they finish, and no more than a few of them wait at any time, so that memory does not grow
with the log.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

Task = TypeVar("Task")
Result = TypeVar("Result")

_AHEAD: Final = 1


def map_in_order(function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    """Apply a function to tasks, in this process or in several.

    Arguments:
        function: defined at the top of a module, or a ``functools.partial`` of one; it and its arguments are pickled.
        tasks: what to do.
        jobs: how many processes; 1 works here.

    Raises:
        Whatever the function raises, in the order of the tasks.
    """
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield function(task)
        return
    # Ten milliseconds of every start, for those who do not need it.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Forked workers start in milliseconds; the parent has no threads at this point.
    context = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else None)
    workers = min(jobs, len(tasks))
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_leave_interrupts_to_parent) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for task in tasks:
                waiting.append(pool.submit(function, task))
                if len(waiting) >= workers + _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _leave_interrupts_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
