"""Numbered parts of one piece of work, done by a worker and by this process.

A process that is free takes the next number (``engine.workers.process``). A part returns a plain value and writes large
results to a scratch file; each of the two processes has its own scratch file.

A worker only saves time. If the worker ends early, for whatever reason, this process does the remaining parts and meets
the same errors. Recovery prepares redo this way: a worker sorts the records of one part of the log while this process
sorts those of another.
"""

from __future__ import annotations

import gc
import marshal
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from engine.storage.scratch import ScratchFile
from engine.workers.process import WorkerProcess, WorkQueue


class ValueWorker:
    """A worker that sends plain values; if it cannot be started, there are no values.

    Arguments:
        produce: runs in the worker and yields the values. The last value must be recognizable as the last.
    """

    def __init__(self, produce: Callable[[], Iterable[Any]]) -> None:
        self._worker: WorkerProcess | None = None
        try:
            self._worker = WorkerProcess(lambda: _marshalled(produce), marshal.loads)
        except OSError:
            # No room for a process: the caller does the work.
            return

    def has_value(self) -> bool:
        """Whether ``values`` yields a value, or ends, without a long wait."""
        return self._worker is None or self._worker.is_ready()

    def values(self) -> Iterator[Any]:
        """The values as they arrive, until the worker ends."""
        worker = self._worker
        while worker is not None:
            is_open = worker.read()
            yield from worker.take()
            if not is_open:
                return

    def close(self) -> None:
        """End the worker, wherever it is. A second call does nothing."""
        if self._worker is not None:
            self._worker.end()


def _marshalled(produce: Callable[[], Iterable[Any]]) -> Iterator[bytes]:
    # The worker ends soon, so collecting its garbage is not worth the time.
    gc.disable()
    yield from map(marshal.dumps, produce())


class PartResult(NamedTuple):
    """The result of a part.

    Attributes:
        value: None when the part failed, in either process.
        scratch: the file that holds its bytes.
    """

    value: Any
    scratch: ScratchFile


class SharedWork:
    """Work shared by a worker, which starts at once, and this process; ``close`` ends it.

    Arguments:
        parts: number of parts, at most ``MOST_NUMBERS``.
        work: does the part of a number; returns plain values, and writes large results to the file.

    Raises:
        StorageError: there is no room for scratch files.
    """

    def __init__(self, parts: int, work: Callable[[int, ScratchFile], Any]) -> None:
        self._parts = parts
        self._work = work
        self._here, self._there = ScratchFile(), ScratchFile()
        # Made before the fork, so that both processes have the same file.
        self._there.make()
        self._queue = WorkQueue(range(parts))
        self._worker = ValueWorker(self._elsewhere)
        self._values = self._worker.values()
        self._done: dict[int, PartResult] = {}
        # One read may bring several values; the worker counts as ended only after the last of them.
        self._is_open = True

    def results(self) -> Iterator[PartResult]:
        """The result of each part, in order of their numbers; this process works while it waits."""
        for number in range(self._parts):
            while number not in self._done:
                if self._is_open and self._worker.has_value():
                    self._receive()
                elif (taken := self._queue.take()) is not None:
                    self._done[taken] = PartResult(_tried(self._work, taken, self._here), self._here)
                elif self._is_open:
                    self._receive()
                else:
                    # The worker took the part but ended before it was done.
                    self._done[number] = PartResult(None, self._here)
            yield self._done.pop(number)

    def close(self) -> None:
        """End the worker, and forget everything. A second call does nothing."""
        self._worker.close()
        self._queue.close()
        self._here.close()
        self._there.close()

    def _receive(self) -> None:
        for number, value in self._values:
            self._done[number] = PartResult(value, self._there)
            return
        self._is_open = False

    def _elsewhere(self) -> Iterator[tuple[int, Any]]:
        while (taken := self._queue.take()) is not None:
            yield taken, _tried(self._work, taken, self._there)


def _tried(work: Callable[[int, ScratchFile], Any], number: int, scratch: ScratchFile) -> Any:
    """The result of a part; None if it fails: the process that does it later meets the same error."""
    try:
        return work(number, scratch)
    except Exception:
        return None
