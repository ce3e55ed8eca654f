"""The two jobs of a load without Spark, with processes and files of this machine (``--engine local``).

The processes of the first job are reused for the second, since each takes a third of a second to start. They start as
soon as the source shows that they will be needed, while the environment is opened.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from operator import attrgetter
from typing import TypeVar

from engine.errors import UsageError
from engine.events import Listener, counted
from engine.pipeline.load.input import splits
from engine.pipeline.load.input.recipe import TABLE, Recipe
from engine.pipeline.load.input.sorted_runs import PartRead
from engine.pipeline.load.input.sources import Layout, OpenSource
from engine.pipeline.load.log_output import Share, write_share
from engine.pipeline.load.plan import Target, TaskOutput

T = TypeVar("T")
U = TypeVar("U")


class LocalBackend:
    """Reads and writes with processes; a context manager that ends them.

    Arguments:
        jobs: how many.
        listener: receives progress of the steps ``read`` and ``write``.
    """

    def __init__(self, jobs: int, listener: Listener) -> None:
        self.cores = jobs
        self._listener = listener
        self._pool: ProcessPoolExecutor | None = None
        self._workers = 0

    def __enter__(self) -> LocalBackend:
        return self

    def __exit__(self, *_: object) -> None:
        # After an error or an interrupt the remaining tasks are cancelled.
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def open(self, layout: Layout) -> OpenSource:
        """Inspect the files and columns of a source.

        Raises:
            UsageError: a path or a format that only Spark supports. JobError: a file that cannot be read.
        """
        found = splits.opened(layout)
        if found is None:
            raise UsageError(
                "--engine local reads csv, tsv, jsonl, parquet and orc files of this machine",
                expected="files with the same columns, none of them in the names of directories",
                hint="leave out --engine local",
            )
        if found.layout.form != TABLE:
            self._begin(len(self._tasks(found, found.layout.form)))
        return found

    def read(self, opened: OpenSource, recipe: Recipe) -> list[PartRead]:
        """Step 1: runs."""
        work = partial(splits.read_task, recipe, opened.layout.name)
        return self._map(work, self._tasks(opened, recipe.form), attrgetter("read"), "read")

    def write(self, target: Target, shares: list[Share]) -> list[TaskOutput]:
        """Step 2: log files."""
        return self._map(partial(write_share, target), shares, attrgetter("records"), "write")

    def _tasks(self, opened: OpenSource, form: str) -> list[tuple[splits.Split, ...]]:
        return splits.tasks_of(splits.splits_of(opened.layout.name, form, opened.files))

    def _map(self, work: Callable[[T], U], items: list[T], records_of: Callable[[U], int], step: str) -> list[U]:
        pool = self._begin(len(items))
        return self._heard(map(work, items) if pool is None else pool.map(work, items), len(items), records_of, step)

    def _begin(self, tasks: int) -> ProcessPoolExecutor | None:
        """A pool of processes for a number of tasks; None if this process is enough."""
        workers = min(self.cores, tasks)
        if workers > max(self._workers, 1):
            self.__exit__()
            # The matrix products in ``blocks`` are too small to benefit from threads.
            os.environ.setdefault("OMP_NUM_THREADS", "1")
            # Spawn: a fork would inherit the threads' locks and the open environment.
            self._pool, self._workers = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")), workers
            # Each process imports its modules with its first task.
            for _ in range(workers):
                self._pool.submit(_begun)
        return self._pool if workers > 1 else None

    def _heard(self, results: Iterator[U], total: int, records_of: Callable[[U], int], step: str) -> list[U]:
        found: list[U] = []
        records = 0
        self._listener.step(step, 0, total)
        for result in results:
            found.append(result)
            records += records_of(result)
            counted(self._listener, step, len(found), total, records)
        return found


def _begun() -> None:
    """The first task of a process: this module imports what tasks need."""
