"""The two jobs of a load without Spark: processes of this machine, files of this machine (``--engine local``)."""

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
from engine.pipeline.load.input.reading import PartRead
from engine.pipeline.load.input.recipe import Recipe
from engine.pipeline.load.input.sources import Layout, OpenSource
from engine.pipeline.load.log_output import Share, write_share
from engine.pipeline.load.plan import Target, TaskOutput

T = TypeVar("T")
U = TypeVar("U")


class LocalBackend:
    """Reads and writes with processes.

    Arguments:
        jobs: how many.
        listener: hears the steps ``read`` and ``write``.
    """

    def __init__(self, jobs: int, listener: Listener) -> None:
        self.cores = jobs
        self._listener = listener

    def open(self, layout: Layout) -> OpenSource:
        """Look at a source: its files and columns.

        Raises:
            UsageError: a path or a format that is Spark's. JobError: a file that cannot be read.
        """
        found = splits.opened(layout)
        if found is None:
            raise UsageError(
                "--engine local reads csv, tsv, jsonl, parquet and orc files of this machine",
                expected="files with the same columns, none of them in the names of directories",
                hint="leave out --engine local",
            )
        return found

    def read(self, opened: OpenSource, recipe: Recipe) -> list[PartRead]:
        """Step 1: runs."""
        name = opened.layout.name
        tasks = splits.tasks_of(splits.splits_of(name, recipe.form, opened.files))
        return self._map(partial(splits.read_task, recipe, name), tasks, attrgetter("read"), "read")

    def write(self, target: Target, shares: list[Share]) -> list[TaskOutput]:
        """Step 2: log files."""
        return self._map(partial(write_share, target), shares, attrgetter("records"), "write")

    def _map(self, work: Callable[[T], U], items: list[T], records_of: Callable[[U], int], step: str) -> list[U]:
        workers = min(self.cores, len(items))
        if workers <= 1:
            return self._heard(map(work, items), len(items), records_of, step)
        # The products in ``blocks`` are too small to be worth threads.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        # Spawn: a fork would inherit the threads' locks and the open environment.
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
        try:
            return self._heard(pool.map(work, items), len(items), records_of, step)
        finally:
            # After an error or an interrupt the tasks that have not begun never do.
            pool.shutdown(cancel_futures=True)

    def _heard(self, results: Iterator[U], total: int, records_of: Callable[[U], int], step: str) -> list[U]:
        found: list[U] = []
        records = 0
        self._listener.step(step, 0, total)
        for result in results:
            found.append(result)
            records += records_of(result)
            counted(self._listener, step, len(found), total, records)
        return found
