"""``spark.readStream.format("jelog")``: entries that are appended to the logs of environments, without a connection.

The directories are only read, other processes may write them, and batches can be repeated exactly, since log files grow
only at their end. So with a checkpoint and a sink that supports it (files do), each entry is written exactly once, even
if processes are killed. Options besides those of the batch source:

* ``startingOffset``: ``earliest`` (the default) or ``latest``, for a query without a checkpoint
* ``failOnDataLoss``: ``false`` continues if log files were deleted before they were read, or the log was cut

An offset has, for each environment, a file number and the offset after the last complete entry. Incomplete bytes after
this offset count as still being written: the next batch reads them again, and they count as damage if a later file
exists, which shows that the writer has continued.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from engine.errors import DamageError
from engine.inspect.follow import end_of_last
from engine.log.files import LogFile, LogFiles, list_log_files, log_file_name
from engine.log.reader import FileReader
from engine.pipeline.log_rows import LogRows
from engine.pipeline.python_side import plain_errors, settle_worker
from engine.pipeline.source_options import environments_of, one_of, yes_or_no
from engine.storage.disk import DiskStorage

STARTS: Final = ("earliest", "latest")
STREAM_OPTIONS: Final = {"startingOffset": one_of(*STARTS), "failOnDataLoss": yes_or_no}
_FILE: Final = "file"
_AT: Final = "offset"
Offset = dict[str, dict[str, int]]


class LogFilePart(NamedTuple):
    """A part of a log file."""

    env: str
    file: LogFile
    start: int
    end: int
    is_last: bool


class Ranges(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: Sequence[LogFilePart]) -> None:
        super().__init__(tuple(ranges))
        self.ranges = tuple(ranges)


class LogStreamReader(DataSourceStreamReader):
    """Follows logs; planned on the driver, ``read`` on executors.

    Arguments:
        schema: the columns that are wanted.
        options: Spark's, with the environments.
        chosen: the values of the options of the source.
        source: name of this data source, for errors.
    """

    def __init__(self, schema: StructType, options: Mapping[str, str], chosen: Mapping[str, Any], source: str) -> None:
        # Nothing is checked here: pyspark 4.3 hides an error of this constructor by one of its own.
        self._schema, self._options, self._source = schema, options, source
        self._decode = chosen.get("decode")
        self._start = chosen.get("startingOffset", STARTS[0])
        self._fails = chosen.get("failOnDataLoss", True)

    @cached_property
    def _rows(self) -> LogRows:
        """Raises UsageError if the schema has an unknown column, or one of another type."""
        return LogRows(self._schema, {}, self._source, self._decode)

    @cached_property
    def _environments(self) -> list[str]:
        return environments_of(self._options)

    @plain_errors()
    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The initial offset: the beginning or the end of each log."""
        return self._ends({}) if self._start == STARTS[1] else {}

    @plain_errors()
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802, ARG002 - Spark's
        """The end of each log."""
        return self._ends(start)

    @plain_errors()
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The files between two offsets, one task for each part of a file.

        Raises:
            DamageError: entries to be read no longer exist. UsageError: the schema has an unknown column, or one of
                another type.
        """
        # Made here, so that errors of the schema are not those of tasks.
        _ = self._rows
        return [Ranges((part,)) for env in end for part in self._between(env, start.get(env), end[env])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of one task."""
        settle_worker()
        assert isinstance(partition, Ranges)
        with plain_errors():
            for env, file, start, end, is_last in partition.ranges:
                # This is not a ``LogScan``, which refuses a start within an entry. The log may have been cut and
                # continued after the last offset; then the bytes up to the next entry are a row of damage.
                with FileReader(DiskStorage(env), file, is_last=is_last) as reader:
                    yield from self._rows.batches(env, file.path, reader.entries(start, end))

    def _ends(self, known: Offset) -> Offset:
        found: Offset = {}
        for env in self._environments:
            files = list_log_files(DiskStorage(env))
            if not files.files:
                if env in known:
                    found[env] = known[env]
                continue
            last = files.files[-1]
            before = known.get(env, {_FILE: -1, _AT: 0})
            at = before[_AT] if before[_FILE] == last.number else 0
            found[env] = {_FILE: last.number, _AT: end_of_last(DiskStorage(env), last, at)}
        return found

    def _between(self, env: str, start: dict[str, int] | None, end: dict[str, int]) -> Iterator[LogFilePart]:
        files = list_log_files(DiskStorage(env))
        if start is not None and self._fails:
            _check_whole(env, files, start, end)
        for file in files.files:
            if file.number > end[_FILE] or (start is not None and file.number < start[_FILE]):
                continue
            first = start[_AT] if start is not None and file.number == start[_FILE] else 0
            last = end[_AT] if file.number == end[_FILE] else file.size_bytes
            if first < last:
                yield LogFilePart(env, file, first, last, is_last=file.number == end[_FILE])


def _check_whole(env: str, files: LogFiles, start: dict[str, int], end: dict[str, int]) -> None:
    """Refuse to continue after entries were lost.

    Raises:
        DamageError: naming the file.
    """
    file = files.find(start[_FILE])
    place = log_file_name(start[_FILE])
    if (end[_FILE], end[_AT]) < (start[_FILE], start[_AT]) or (file is not None and file.size_bytes < start[_AT]):
        what, found = "the log was cut before the place that the stream has come to", "it is shorter now"
    elif file is None and end[_FILE] > start[_FILE]:
        what, found = "log files were deleted that the stream may not have read to their end", "the file is gone"
    else:
        return
    raise DamageError(
        what,
        file=f"{env}/{place}",
        found=found,
        consequence="entries may be missing",
        hint="set failOnDataLoss to false to continue anyway, or begin with a new checkpoint",
    )
