"""``spark.read.format("jelog")``: the entries of the logs of many environments as rows.

``load`` takes one or more comma-separated paths or globs; the files must have the same path on all executors. Nothing
is changed. Options:

* ``data``: ``true`` adds the column ``data_hex``
* ``decode``: the name of a decoder, or ``auto``, adds the columns ``decoded_key`` and ``decoded_data``, JSON as text,
  and ``known``: the meaning of records of users' databases to their application. Each task recovers its environments in
  memory for the names of databases; with ``auto`` the columns are null if no decoder recognises an environment
* ``partitionBytes``: least size read by a task; a file of more than four times that (and of 1 MB) is cut into parts.
  Each task walks over the parts before its own, since entries can only be found from the start of a file
* ``pushDown``: ``true`` tests Spark's conditions before rows are built; conditions on ``environment``, ``path`` or
  ``file`` exclude whole files. Use the data frame of this ``load`` for one query only: Spark would apply the conditions
  of the first query to a second one

Columns are those of ``log_columns``. Spark's API has no column pruning. Pass a schema with the needed columns, and only
those are built::

    spark.read.format("jelog").schema("type string, size bigint").load("/data/*/je").groupBy("type").sum("size")

``spark.readStream.format("jelog")`` follows the logs instead: see ``log_stream_source``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from engine.errors import UsageError
from engine.format.lsn import make_lsn, offset_of
from engine.log.entry import Stretch
from engine.log.files import LogFile, LogFiles, list_log_files
from engine.log.scan import LogScan, scan_file
from engine.pipeline.decoded_columns import DECODED_COLUMNS, decoder_option
from engine.pipeline.inventory import LEAST_TASK_BYTES, LogPart, each_at_once, pack, parts_of
from engine.pipeline.log_columns import BY_NAME, COLUMNS, DATA, ColumnLimits, Item, wants_file
from engine.pipeline.log_rows import LogRows
from engine.pipeline.log_stream_source import STREAM_OPTIONS, LogStreamReader
from engine.pipeline.python_side import plain_errors, settle_worker
from engine.pipeline.source_options import (
    chosen_options,
    environments_of,
    whole_number,
    yes_or_no,
)
from engine.storage.disk import DiskStorage

FORMAT: Final = "jelog"
# A file of more than this many times a task's share is cut: walking over entries takes a tenth of the time of making
# rows.
_CUT: Final = 4
_LEAST_CUT_BYTES: Final = 1 << 20
_OPTIONS: Final = {
    "data": yes_or_no,
    "decode": decoder_option,
    "partitionBytes": whole_number,
    "pushDown": yes_or_no,
    **STREAM_OPTIONS,
}


class LogSource(DataSource):
    """The data source ``jelog``.

    Raises:
        UsageError: an unknown option, or a value that an option cannot have. NotFoundError: there is no such directory.
    """

    @plain_errors()
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._chosen = chosen_options(FORMAT, options, _OPTIONS)
        environments_of(options)

    @classmethod
    def name(cls) -> str:
        """What ``spark.read.format`` takes."""
        return FORMAT

    def schema(self) -> str:
        """All columns; those of ``data`` and ``decode`` only with these options."""
        columns = (*COLUMNS, DATA) if self._chosen.get("data", False) else COLUMNS
        found = {column.name: column.type for column in columns}
        if "decode" in self._chosen:
            found |= DECODED_COLUMNS
        return ", ".join(f"{name} {kind}" for name, kind in found.items())

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802 - Spark's name
        """A reader of new entries."""
        return LogStreamReader(schema, self.options, self._chosen, FORMAT)

    @plain_errors()
    def reader(self, schema: StructType) -> LogSourceReader:
        """A reader of the columns of a schema, given by the caller or complete.

        Raises:
            UsageError: an option that only a stream has, or an unknown column.
        """
        chosen = self._chosen
        for name in STREAM_OPTIONS:
            if name in chosen:
                raise UsageError(f"{name} is an option of spark.readStream", consequence="nothing was read")
        return LogSourceReader(
            schema,
            environments_of(self.options),
            chosen.get("partitionBytes", LEAST_TASK_BYTES),
            chosen.get("decode"),
            push_down=chosen.get("pushDown", False),
        )


class Files(InputPartition):
    """What one task reads.

    Arguments:
        begin, stop: byte range of a single file in which entries begin; ``stop`` is None for the end of the file.
    """

    def __init__(self, parts: Sequence[LogPart], begin: int = 0, stop: int | None = None) -> None:
        super().__init__((tuple(parts), begin, stop))
        self.parts, self.begin, self.stop = tuple(parts), begin, stop


class LogSourceReader(DataSourceReader):
    """Reads log files of environments; planned on the driver, ``read`` on executors.

    Arguments:
        schema: the columns that are wanted.
        environments: directories.
        least_bytes: how much a task reads.
        decode: the decoder; None for none.
        push_down: whether conditions limit the data that is read.
        least_cut_bytes: smaller files are never cut.

    Raises:
        UsageError: the schema has an unknown column, or one of another type.
    """

    def __init__(
        self,
        schema: StructType,
        environments: Sequence[str],
        least_bytes: int,
        decode: str | None,
        *,
        push_down: bool = False,
        least_cut_bytes: int = _LEAST_CUT_BYTES,
    ) -> None:
        self._push_down = push_down
        self._rows = LogRows(schema, {}, FORMAT, decode)
        self._environments = tuple(environments)
        self._least_bytes = least_bytes
        self._most_bytes = max(_CUT * least_bytes, least_cut_bytes)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the conditions that ``ColumnLimits`` can express, if ``pushDown`` is set; return the others."""
        if not self._push_down:
            return filters
        self._rows.conditions, rest = conditions_of(filters, BY_NAME)
        return rest

    @plain_errors()
    def partitions(self) -> Sequence[InputPartition]:
        """Divide log files into tasks of enough bytes each."""
        parts, cut = [], []
        for env, files in zip(self._environments, each_at_once(_listed, self._environments), strict=True):
            # The marker file has rows too, since it makes JE refuse to open the environment (R-LOG-38).
            part = parts_of(env, files, marker=True)
            wanted = [file for file in part.files if wants_file(self._rows.conditions, env, file.path, file.number)]
            for file in wanted:
                if file.size_bytes > self._most_bytes:
                    cut += [
                        Files([part._replace(files=(file,))], begin, min(begin + self._most_bytes, file.size_bytes))
                        for begin in range(0, file.size_bytes, self._most_bytes)
                    ]
            whole = tuple(file for file in wanted if file.size_bytes <= self._most_bytes)
            parts.append(part._replace(files=whole))
        # Put the longest tasks first, so that they begin first.
        return [*cut, *(Files(task) for task in pack(parts, self._least_bytes))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of the files of one task."""
        settle_worker()
        assert isinstance(partition, Files)
        with plain_errors():
            for part in partition.parts:
                storage = DiskStorage(part.env)
                for file in part.files:
                    # Only in the last file may the log end in a torn entry.
                    scan = scan_file(storage, file, is_last=file.number >= part.end_file)
                    items = scan.entries() if partition.stop is None else _between(scan, file, partition)
                    yield from self._rows.batches(part.env, file.path, items)


def _listed(env: str) -> LogFiles:
    return list_log_files(DiskStorage(env))


def _between(scan: LogScan, file: LogFile, wanted: Files) -> Iterator[Item]:
    """The entries and damage that begin in a part of a file, as found by a pass over the whole file."""
    assert wanted.stop is not None
    for item in scan.between(end=make_lsn(file.number, wanted.stop)).stretches():
        if isinstance(item, Stretch):
            # Entries before the part are skipped without making an object for each.
            if offset_of(item.lsn) + item.end <= wanted.begin:
                continue
            yield from (entry for entry in item.entries_of(None) if offset_of(entry.lsn) >= wanted.begin)
        elif offset_of(item.lsn) >= wanted.begin:
            yield item


def conditions_of(filters: Iterable[Filter], known: Any) -> tuple[dict[str, ColumnLimits], list[Filter]]:
    """Conditions on columns, and the filters that cannot be conditions."""
    conditions: dict[str, ColumnLimits] = {}
    rest = []
    for one in filters:
        limits = _limits_of(one)
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        # Spark tests conditions on ``time``: its literals are timestamps, and this module uses milliseconds.
        if limits is None or len(attribute) != 1 or attribute[0] not in known or attribute[0] == "time":
            rest.append(one)
            continue
        name = attribute[0]
        conditions[name] = conditions[name].both(limits) if name in conditions else limits
    return conditions, rest


def _limits_of(one: Filter) -> ColumnLimits | None:
    if isinstance(one, IsNotNull):
        # Any limits exclude null.
        return ColumnLimits()
    value = getattr(one, "value", None)
    if isinstance(one, In):
        # Spark passes binary literals as bytearrays, which cannot be hashed.
        return ColumnLimits(frozenset(bytes(v) if isinstance(v, bytearray) else v for v in one.value if v is not None))
    if isinstance(one, (EqualTo, EqualNullSafe)) and value is not None:
        return ColumnLimits(frozenset((bytes(value) if isinstance(value, bytearray) else value,)))
    # Bounds are only supported for integers; other conditions are returned to Spark.
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if isinstance(one, (GreaterThan, GreaterThanOrEqual)):
        return ColumnLimits(low=value + isinstance(one, GreaterThan))
    if isinstance(one, (LessThan, LessThanOrEqual)):
        return ColumnLimits(high=value - isinstance(one, LessThan))
    return None
