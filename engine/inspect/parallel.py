"""Work over log files in several processes.

One task is one file: where entries begin is known only from a file's start. With n processes the one that asks does a
share itself and n - 1 forked ones do the others. There is no pool: for files that are checked in 25 ms each, starting
one would cost more than the second process gains on a small log. Results come in the order of the tasks.

* ``map_small`` is for results of a few kilobytes, such as counts. Whoever is free takes the next task, so that a busy
  core or a short last file leaves nobody waiting. Results that arrive early are kept.
* ``map_in_order`` is for results of any size, such as rendered entries. Every n-th task belongs to the same process. A
  worker hands over one result before it begins the next but one, since a pipe holds little; so memory does not grow
  with the log.

Tasks are given away by number (``engine.storage.work_queue``); of many tasks a number stands for several.

Where there is no fork, all work is done in this process.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from struct import Struct
from typing import Any, Final, TypeVar

from engine.errors import JetoolError
from engine.storage.work_queue import MOST_TICKETS, Tickets

Task = TypeVar("Task")
Result = TypeVar("Result")

_LENGTH: Final = Struct("<Q")
_READ_BYTES: Final = 1 << 20
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def map_in_order(function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> Generator[Result, None, None]:
    """Apply a function to tasks, in this process or in several.

    Arguments:
        function: any; its results and errors are pickled.
        tasks: what to do.
        jobs: how many processes, this one included.

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
    """The same for small results: whoever is free takes the next task."""
    count = _processes(tasks, jobs)
    if count == 1:
        yield from map(function, tasks)
        return
    step = -(-len(tasks) // MOST_TICKETS)
    with closing(Tickets(range(0, len(tasks), step))) as tickets, _Workers() as workers:
        numbers = _numbers(tickets, step, len(tasks))
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
    return max(min(jobs, len(tasks)), 1) if hasattr(os, "fork") else 1


def _outcome(function: Callable[[Task], Result], task: Task) -> tuple[bool, Any]:
    """The result, or the error."""
    try:
        return True, function(task)
    except Exception as error:
        return False, error


def _numbers(tickets: Tickets, step: int, end: int) -> Iterator[int]:
    """Take numbers until there are none; each stands for so many, up to ``end``."""
    while (first := tickets.take()) is not None:
        yield from range(first, min(first + step, end))


class _Workers:
    """Forked processes, and what they have handed over.

    Attributes:
        done: outcomes by number of the task.
    """

    def __init__(self) -> None:
        self.done: dict[int, tuple[bool, Any]] = {}
        self._pids: list[int] = []
        # What has arrived of a message that is not complete, by descriptor.
        self._received: dict[int, bytearray] = {}

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._received:
            os.close(handle)
        for pid in self._pids:
            # Nobody has waited for it yet, so its number cannot be another process's by now.
            os.kill(pid, signal.SIGTERM)
        for pid in self._pids:
            os.waitpid(pid, 0)

    def start(self, function: Callable[[Task], Result], tasks: Sequence[Task], numbers: Iterable[int]) -> None:
        """Fork a process that does the tasks of these numbers. This process has no threads at that point."""
        receiving, sending = os.pipe()
        # The worker may be told to end while it is being made: a handler of this process would run there, amid what
        # Python repairs after a fork, and what it raises would be lost. So a signal waits until the worker is ready.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            pid = os.fork()
            if pid == 0:
                _work(function, tasks, numbers, sending, [receiving, *self._received])
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        # Only the worker has this end now: when it dies, the pipe ends.
        os.close(sending)
        self._pids.append(pid)
        self._received[receiving] = bytearray()

    def look(self) -> None:
        """Receive what is there, without waiting."""
        for handle in _ready(self._received, wait=False):
            self._receive(handle)

    def wait_for(self, number: int, worker: int | None = None) -> Any:
        """The result of a task that a worker has taken; ``worker`` says which one if that is known.

        Raises:
            JetoolError: the worker was killed.
            Exception: what the function raised.
        """
        handles = list(self._received)
        while number not in self.done:
            ready = _ready(handles, wait=True) if worker is None else [handles[worker]]
            open_ones = [handle for handle in ready if self._receive(handle)]
            if len(open_ones) < len(ready) and number not in self.done:
                handles = [handle for handle in handles if handle in open_ones or handle not in ready]
                if worker is not None or not handles:
                    raise JetoolError(
                        "a worker process was killed", consequence="the work is incomplete", hint="run with --jobs 1"
                    )
        return self.take(number)

    def take(self, number: int) -> Any:
        """A result that is there. Raises what the function raised."""
        good, value = self.done.pop(number)
        if not good:
            raise value
        return value

    def _receive(self, handle: int) -> bool:
        """Read once from a worker; False when it has ended."""
        piece = os.read(handle, _READ_BYTES)
        data = self._received[handle]
        data += piece
        while len(data) >= _LENGTH.size and len(data) >= (end := _LENGTH.size + _LENGTH.unpack_from(data)[0]):
            # Safe to unpickle: only a fork of this process can write here. A view, since results may be large.
            number, outcome = pickle.loads(memoryview(data)[_LENGTH.size : end])
            del data[:end]
            self.done[number] = outcome
        return bool(piece)


def _ready(handles: Iterable[int], *, wait: bool) -> list[int]:
    """Those of the descriptors that can be read; ``poll``, since ``select`` ends at descriptor 1023."""
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    return [handle for handle, _ in poll.poll(None if wait else 0)]


def _work(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    numbers: Iterable[int],
    sending: int,
    inherited: Sequence[int],
) -> None:
    """Do a share, in a process of its own, and end it without the parent's cleaning up."""
    try:
        # An interrupt is for the parent, which then ends the workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        for handle in inherited:
            os.close(handle)
        for number in numbers:
            # While the parent is waited for, the message alone is held.
            message = pickle.dumps((number, _outcome(function, tasks[number])), pickle.HIGHEST_PROTOCOL)
            _send(sending, _LENGTH.pack(len(message)))
            _send(sending, message)
    except BaseException:
        # The parent has stopped listening, or a result cannot be sent: it sees that this process has ended early.
        os._exit(1)
    os._exit(0)


def _send(handle: int, message: bytes) -> None:
    rest = memoryview(message)
    while rest:
        # A pipe takes what fits, and then waits for the reader.
        rest = rest[os.write(handle, rest) :]
