"""The two jobs of a load on Spark.

Files that every machine sees under the same path are read by the tasks themselves (``splits``); a job is then an RDD of
splits, without a data frame, a query planner or records in the JVM. Other sources (``hdfs:``, ``s3a:``, Avro, columns
in directory names) are data frames, and tasks get Arrow batches from Spark's readers.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from engine.events import Listener
from engine.pipeline.job_run import Tally, waiting
from engine.pipeline.load.input import endings, sorted_runs, sources, splits
from engine.pipeline.load.input.recipe import TABLE, Recipe
from engine.pipeline.load.input.sorted_runs import PartRead
from engine.pipeline.load.input.sources import Layout, OpenSource
from engine.pipeline.load.log_output import Share, write_share
from engine.pipeline.load.plan import Target, TaskOutput

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from engine.pipeline.session import Session

T = TypeVar("T")
U = TypeVar("U")

_CONF: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
}
_SPLIT_BYTES: Final = ("spark.sql.files.maxPartitionBytes", 32 << 20)
# monotonically_increasing_id counts the records of a task in its lower bits.
_PLACE: Final = "monotonically_increasing_id() & 8589934591"
_MOST_LITERALS: Final = 64
_SMALL_BYTES: Final = 64 << 20


class SparkBackend:
    """Reads and writes with Spark.

    Arguments:
        start: makes the session when Spark is first needed. Its argument is whether the JVM should start fast rather
            than run fast, because it has little to do.
        listener: receives progress of the steps ``read`` and ``write``.
    """

    def __init__(self, start: Callable[[bool], Session], listener: Listener) -> None:
        self._start = start
        self._quick = True
        self._listener = listener

    @cached_property
    def _session(self) -> Session:
        return self._start(self._quick)

    @property
    def cores(self) -> int:
        """Tasks that run at a time."""
        return self._session.cores

    def open(self, layout: Layout) -> OpenSource:
        """Look at a source: its files and columns."""
        found = splits.opened(layout)
        if found is None:
            return self._opened_by_spark(layout)
        # Use absolute paths: executors of a cluster have other working directories.
        return found._replace(files=tuple(_absolute(file) for file in found.files))

    def _opened_by_spark(self, layout: Layout) -> OpenSource:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._quick = _is_small(layout.paths)
        session = self._session
        with waiting("look", self._listener):
            for name, value in _CONF.items():
                session.spark.conf.set(name, value)
            # Settings of the user are kept.
            if session.context.getConf().get(_SPLIT_BYTES[0]) is None:
                session.spark.conf.set(_SPLIT_BYTES[0], str(_SPLIT_BYTES[1]))
            frame = self._frame(layout, list(layout.paths))
            # Path by path: ``inputFiles`` of all paths together is unordered, but the order decides between equal keys.
            uris = [uri for path in layout.paths for uri in sorted(self._frame(layout, [path]).inputFiles())]
        files, handle = tuple(_shown(uri) for uri in uris), (frame, uris)
        if layout.form == TABLE:
            return OpenSource(layout, to_arrow_schema(frame.schema), (), files, handle)
        taken = session.run(lambda: frame.limit(sources.SAMPLE_LINES).collect(), "look", self._listener)
        schema, names = sources.schema_of_lines(layout, [row[0].encode() for row in taken])
        return OpenSource(layout, schema, names, files, handle)

    def read(self, opened: OpenSource, recipe: Recipe) -> list[PartRead]:
        """Step 1: runs."""
        # The handle exists only if Spark has opened the source.
        if opened.handle is not None:
            return self._read_by_spark(opened, recipe)
        name = opened.layout.name
        tasks = splits.tasks_of(splits.splits_of(name, recipe.form, opened.files))
        return self._each(tasks, partial(splits.read_task, recipe, name), attrgetter("read"), "read")

    def _read_by_spark(self, opened: OpenSource, recipe: Recipe) -> list[PartRead]:
        from pyspark.sql import functions as f

        frame: DataFrame
        frame, uris = opened.handle
        data = (
            [f.col(f"`{name}`") for name in recipe.needed()] if recipe.form == TABLE else [f.col("value").alias("line")]
        )
        path = f.col("_metadata.file_path")
        where = (
            self._origin(path, [_in_metadata(uri) for uri in uris]).cast("long").alias(sorted_runs.WHERE[0]),
            f.col("_metadata.file_block_start").alias(sorted_runs.WHERE[1]),
            f.expr(_PLACE).alias(sorted_runs.WHERE[2]),
        )
        task = partial(_read_task, recipe)
        # Only results are returned to the driver; the records stay in the runs.
        wanted = frame.select(*data, *where).mapInArrow(task, "outcome binary")
        rows = self._session.run(wanted.collect, "read", self._listener)
        return [pickle.loads(row[0]) for row in rows]

    def write(self, target: Target, shares: list[Share]) -> list[TaskOutput]:
        """Step 2: log files."""
        return self._each(shares, partial(write_share, target), attrgetter("records"), "write")

    def _each(self, items: list[T], work: Callable[[T], U], records_of: Callable[[U], int], step: str) -> list[U]:
        """One task for each item."""
        if not items:
            return []
        tally = self._session.tally()
        job = self._session.context.parallelize(items, len(items)).map(partial(_counted, work, records_of, tally))
        return self._session.run(job.collect, step, self._listener, tally)

    def _frame(self, layout: Layout, paths: list[str]) -> DataFrame:
        reader = self._session.spark.read
        named = [endings.local(path) if endings.is_local(path) else path for path in paths]
        absolute = [_absolute(path) if endings.is_local(path) else path for path in named]
        if layout.form != TABLE:
            return reader.text(absolute)
        return reader.format(layout.name).load(absolute)

    def _origin(self, path: Column, files: list[str]) -> Column:
        """The number of the file of a record."""
        from pyspark.sql import functions as f

        if len(files) < 2:
            return f.lit(0)
        if len(files) <= _MOST_LITERALS:
            return f.array_position(f.array(*(f.lit(file) for file in files)), path) - 1
        numbered = f.map_from_arrays(
            f.array(*(f.lit(file) for file in files)), f.array(*(f.lit(number) for number in range(len(files))))
        )
        return f.element_at(numbered, path)


def _counted(work: Callable[[T], U], records_of: Callable[[U], int], tally: Tally, item: T) -> U:
    """Runs on executors: do the work on one item, and add its records to a tally."""
    result = work(item)
    tally.add(records_of(result))
    return result


def _read_task(recipe: Recipe, batches: Iterator[Any]) -> Iterator[Any]:
    outcome = sorted_runs.read(recipe, batches)
    yield pa.record_batch([pa.array([pickle.dumps(outcome)], pa.binary())], names=["outcome"])


def _is_small(paths: tuple[str, ...]) -> bool:
    """Whether Spark's readers have so little to do that a fast start is worth more than fast code."""
    if not all(endings.is_local(path) for path in paths):
        return False
    files = (Path(file) for path in paths for file in endings.files_of(path))
    return sum(file.stat().st_size for file in files) < _SMALL_BYTES


def _in_metadata(uri: str) -> str:
    """A file name in the spelling of the column ``_metadata.file_path``."""
    return re.sub("^file:///", "file:/", uri)


def _shown(uri: str) -> str:
    """A file name in the usual spelling."""
    return unquote(uri.removeprefix("file://")) if uri.startswith("file:///") else uri


def _absolute(path: str) -> str:
    return str(Path(path).absolute())
