"""The two jobs of a load without Spark: processes of this machine, files of this machine (``--engine local``)."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import UsageError
from engine.events import Listener
from engine.pipeline.load import endings, reading, sources
from engine.pipeline.load.plan import Part, Target
from engine.pipeline.load.reading import LINE, WHERE, Outcome
from engine.pipeline.load.recipe import TABLE, Recipe
from engine.pipeline.load.sources import Layout, Opened
from engine.pipeline.load.tasks import Share, write_share

T = TypeVar("T")
U = TypeVar("U")

_READ_BYTES: Final = 8 << 20
_BATCH_ROWS: Final = 50_000


class LocalBackend:
    """Reads and writes with processes.

    Arguments:
        jobs: how many.
        listener: hears the steps ``read`` and ``write``.
    """

    def __init__(self, jobs: int, listener: Listener) -> None:
        self.cores = jobs
        self._listener = listener

    def open(self, layout: Layout) -> Opened:
        """Look at a source: its files and columns.

        Raises:
            UsageError: a path or a format that is Spark's.
        """
        if layout.name == "avro" or not all(endings.is_local(path) for path in layout.paths):
            raise UsageError("--engine local reads csv, tsv, jsonl, parquet and orc files of this machine")
        files = tuple(file for path in layout.paths for file in endings.files_of(path))
        if layout.form == TABLE:
            return Opened(layout, _table_schema(layout.name, files[0]), (), files, None)
        schema, names = sources.schema_of_lines(layout, sources.first_lines(files[0], sources.SAMPLE_LINES))
        return Opened(layout, schema, names, files, None)

    def read(self, opened: Opened, recipe: Recipe) -> list[Outcome]:
        """Step 1: runs."""
        return self._map(partial(_read_file, recipe, opened.layout.name), list(enumerate(opened.files)), "read")

    def write(self, target: Target, shares: list[Share]) -> list[Part]:
        """Step 2: log files."""
        return self._map(partial(write_share, target), shares, "write")

    def _map(self, function: Callable[[T], U], items: list[T], step: str) -> list[U]:
        workers = min(self.cores, len(items))
        if workers <= 1:
            return [self._told(function(item), step, number, len(items)) for number, item in enumerate(items, 1)]
        # The products in ``ln_block`` are too small to be worth threads.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
        try:
            results = pool.map(function, items)
            return [self._told(result, step, number, len(items)) for number, result in enumerate(results, 1)]
        finally:
            pool.shutdown(cancel_futures=True)

    def _told(self, result: U, step: str, done: int, total: int) -> U:
        self._listener.step(step, done, total)
        return result


def _read_file(recipe: Recipe, name: str, file: tuple[int, str]) -> Outcome:
    origin, path = file
    batches = _lines(path) if recipe.form != TABLE else _tables(name, path, recipe.needed())
    return reading.read(recipe, _placed(origin, batches))


def _placed(origin: int, batches: Iterator[Any]) -> Iterator[Any]:
    """Batches with the columns that say where a record stands."""
    place = 0
    for batch in batches:
        count = len(batch)
        columns = [np.full(count, origin, np.int64), np.zeros(count, np.int64), np.arange(place, place + count)]
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        for column, values in zip(WHERE, columns, strict=True):
            table = table.append_column(column, pa.array(values))
        place += count
        yield from table.combine_chunks().to_batches()


def _lines(path: str) -> Iterator[Any]:
    """The lines of a file, also of a compressed one."""
    left = b""
    with pa.input_stream(path, compression="detect") as stream:
        while data := stream.read(_READ_BYTES):
            whole, newline, rest = (left + data).rpartition(b"\n")
            left = rest
            if newline:
                yield _batch_of(whole)
    if left:
        yield _batch_of(left)


def _batch_of(text: bytes) -> Any:
    lines = pc.split_pattern(pa.array([text], pa.large_binary()), b"\n")[0].values
    return pa.record_batch([_bare(lines)], [LINE])


def _bare(lines: Any) -> Any:
    """Lines without a carriage return at their ends."""
    ends = pc.binary_slice(lines, -1)
    cut = pc.equal(ends, pa.scalar(b"\r", ends.type))
    return pc.if_else(cut, pc.binary_slice(lines, 0, -1), lines) if pc.any(cut).as_py() else lines


def _table_schema(name: str, path: str) -> Any:
    if name == "orc":
        from pyarrow import orc

        return orc.ORCFile(path).schema
    from pyarrow import parquet

    return parquet.read_schema(path)


def _tables(name: str, path: str, columns: tuple[str, ...]) -> Iterator[Any]:
    if name == "orc":
        from pyarrow import orc

        file = orc.ORCFile(path)
        for stripe in range(file.nstripes):
            yield pa.table(file.read_stripe(stripe, list(columns)))
        return
    from pyarrow import parquet

    yield from parquet.ParquetFile(path).iter_batches(_BATCH_ROWS, columns=list(columns))
