"""``spark.read.format("jerecords")``: the records of databases as rows, as recovery would leave them.

``load`` takes one or more comma-separated paths or globs. Options:

* ``db``: the database; by default all except JE's own. Environments without this database are skipped; it is an error
  if no environment has it.
* ``partitions``: number of key ranges for each database; by default one for each 64 MB of log. Each task recovers the
  environment in memory again, which takes no time after a checkpoint, and reads its range. If recovery has much to
  read, after a crash, it is done once (``recovered_once``). If a single recovery is impossible, there are no more tasks
  than processors, unless the ranges are large enough.
* ``pushDown``: ``true`` uses conditions on environment, db and key to limit the environments opened and the keys read
  (``record_limits``): one key of a large database is found by a search. Use the data frame of this ``load`` for one
  query only: Spark would apply the conditions of the first query to a second one.
* ``onDamage``: ``fail`` (the default) refuses an environment if damage in its log may make records missing or wrong;
  ``ignore`` reads the records that recovery gives.
* ``asOf``: the records as they were at a point of the log, ``lsn:0xF/0xO``, ``vlsn:N``, ``time:2026-11-21T14:00:00Z``,
  ``txn:ID`` or ``commits:-N``; it is looked up once in each environment, before the tasks begin. It is refused if files
  of that time were deleted; the error names the oldest point for which all files exist.
* ``decode``: the name of a decoder, or ``auto``: adds the columns decoded_key and decoded_data, JSON as text, and
  known. With ``auto`` they are null if no decoder recognises an environment.

Nothing is changed. Columns: environment, db, key, data. Only the columns of the schema are built.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from itertools import islice, pairwise
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from engine.db.environment import Environment
from engine.errors import DamageError, NotFoundError
from engine.format.lsn import file_of
from engine.inspect.contents import DecodingPlan
from engine.inspect.key_ranges import cut_keys
from engine.pipeline.decoded_columns import DECODED_COLUMNS, decoded_columns, decoder_option, decoding_here
from engine.pipeline.inventory import LEAST_TASK_BYTES
from engine.pipeline.log_rows import arrow_schema, check_schema
from engine.pipeline.python_side import plain_errors, settle_worker
from engine.pipeline.record_limits import RecordLimits, limits_of
from engine.pipeline.recovered_once import RecoveredView, opened_view, recovered_once
from engine.pipeline.source_options import (
    any_text,
    chosen_options,
    environments_of,
    one_of,
    whole_number,
    yes_or_no,
)
from engine.rescue.history import view_at
from engine.rescue.points import Point, parse_point
from engine.storage.disk import DiskStorage

FORMAT: Final = "jerecords"
COLUMNS: Final = {"environment": "string", "db": "string", "key": "binary", "data": "binary"}
_FAIL: Final = "fail"
_IGNORE: Final = "ignore"
_BATCH_ROWS: Final = 4096
_BATCH_BYTES: Final = 16 << 20
_OPTIONS: Final = {
    "asOf": lambda _, text: parse_point(text),
    "db": any_text,
    "decode": decoder_option,
    "onDamage": one_of(_FAIL, _IGNORE),
    "partitions": whole_number,
    "pushDown": yes_or_no,
}


class RecordSource(DataSource):
    """The data source ``jerecords``.

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
        """All columns."""
        columns = COLUMNS | DECODED_COLUMNS if "decode" in self._chosen else COLUMNS
        return ", ".join(f"{name} {kind}" for name, kind in columns.items())

    @plain_errors()
    def reader(self, schema: StructType) -> RecordSourceReader:
        """A reader of the columns of a schema, the caller's or our own."""
        chosen = self._chosen
        return RecordSourceReader(
            schema,
            environments_of(self.options),
            chosen.get("db"),
            chosen.get("partitions"),
            ignore_damage=chosen.get("onDamage") == _IGNORE,
            decode=chosen.get("decode"),
            point=chosen.get("asOf"),
            push_down=chosen.get("pushDown", False),
        )


class DatabaseKeyRange(InputPartition):
    """Records of one database with ``low <= key < high``; None for no limit.

    Arguments:
        view: the environment as it is read.
    """

    def __init__(self, view: RecoveredView, db: str, low: bytes | None, high: bytes | None) -> None:
        super().__init__((view, db, low, high))
        self.view, self.db, self.low, self.high = view, db, low, high


class RecordSourceReader(DataSourceReader):
    """Reads databases; planned on the driver, ``read`` on executors.

    Arguments:
        schema: the columns that are wanted.
        environments: directories.
        db: name of the database; None for all.
        ranges: key ranges per database; None: by the size of the log.
        ignore_damage: read even if damage in the log may make records missing.
        decode: the decoder; None for none.
        point: read the environments as they were at this point.
        push_down: whether conditions limit the data that is read.

    Raises:
        UsageError: the schema has an unknown column, or one of another type.
    """

    def __init__(
        self,
        schema: StructType,
        environments: Sequence[str],
        db: str | None,
        ranges: int | None,
        *,
        ignore_damage: bool = False,
        decode: str | None = None,
        point: Point | None = None,
        push_down: bool = False,
    ) -> None:
        check_schema(schema, COLUMNS if decode is None else COLUMNS | DECODED_COLUMNS, FORMAT)
        self._arrow = arrow_schema(schema)
        self._environments = tuple(environments)
        self._db = db
        self._ranges = ranges
        self._ignore_damage = ignore_damage
        self._decode = decode
        self._point = point
        self._push_down = push_down
        self._limits = RecordLimits()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the limits, if ``pushDown`` is set; Spark still tests every row."""
        if self._push_down:
            self._limits = limits_of(filters)
        return filters

    @plain_errors()
    def partitions(self) -> Sequence[InputPartition]:
        """Key ranges of every database.

        Raises:
            NotFoundError: no environment has the database. DamageError: the log of an environment is damaged.
                JetoolError: an environment cannot be recovered.
        """
        found: list[DatabaseKeyRange] = []
        is_there = False
        for env in self._environments:
            if self._limits.environments is not None and env not in self._limits.environments:
                # The limits exclude this environment, so it does not matter whether it has the database.
                is_there = True
                continue
            end_lsn = None if self._point is None else view_at(DiskStorage(env), self._point)[1].end_lsn
            view = recovered_once(env, end_lsn)
            with opened_view(view) as opened:
                if opened.unseen and not self._ignore_damage:
                    raise DamageError(
                        "the log is damaged",
                        file=env,
                        found=opened.unseen,
                        consequence="records may be missing",
                        hint=f'jetool verify {env} shows it; .option("onDamage", "ignore") reads what recovery leaves',
                    )
                names = [
                    name for name in opened.database_names(internal=self._db is not None) if self._db in (None, name)
                ]
                is_there = is_there or bool(names)
                for name in names:
                    if self._limits.dbs is None or name in self._limits.dbs:
                        found += self._cut(opened, view, name)
        # Environments without the database are skipped; the name is wrong only if all are.
        if not is_there and self._db is not None:
            raise NotFoundError(
                f"no database {self._db!r}",
                file=", ".join(self._environments[:3]),
                hint=f"jetool dbs {self._environments[0]} lists them",
            )
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Records of one range."""
        settle_worker()
        assert isinstance(partition, DatabaseKeyRange)
        with plain_errors(), opened_view(partition.view) as opened, opened.open_database(partition.db) as db:
            decoding = decoding_here(opened, self._decode)
            records = db.items(start=partition.low, end=partition.high)
            while batch := _take(records):
                yield self._to_arrow(partition, batch, decoding)

    def _cut(self, opened: Environment, view: RecoveredView, name: str) -> list[DatabaseKeyRange]:
        wanted = self._ranges or _tasks_for(opened)
        low, high = self._limits.low, self._limits.high
        with opened.open_database(name) as db:
            if db.state.order.comparator is not None:
                low = high = None
            elif self._limits.no_key:
                return []
            keys = cut_keys(opened.engine, db, wanted) if wanted > 1 else []
        within = [key for key in keys if (low is None or key > low) and (high is None or key < high)]
        bounds = [low, *within, high]
        return [DatabaseKeyRange(view, name, low, high) for low, high in pairwise(bounds)]

    def _to_arrow(
        self, partition: DatabaseKeyRange, batch: list[tuple[bytes, bytes]], decoding: DecodingPlan | None
    ) -> pa.RecordBatch:
        arrays: list[Any] = []
        # Only if a column is requested: decoding takes longer than reading.
        wanted = any(field.name in DECODED_COLUMNS for field in self._arrow)
        meanings = decoded_columns(decoding, partition.db, batch) if wanted else {}
        for field in self._arrow:
            if field.name in ("environment", "db"):
                value = partition.view.env if field.name == "environment" else partition.db
                arrays.append(pa.repeat(pa.scalar(value, field.type), len(batch)))
            elif field.name in meanings:
                arrays.append(pa.array(meanings[field.name], field.type))
            else:
                arrays.append(pa.array([record[field.name == "data"] for record in batch], field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)


def _tasks_for(opened: Environment) -> int:
    """Number of tasks that read a database."""
    files = opened.engine.log_files()
    log_bytes = sum(file.size_bytes for file in files)
    recovery = opened.engine.recovery
    first = 0 if recovery is None else file_of(max(recovery.first_active_lsn, 0))
    redone_bytes = sum(file.size_bytes for file in files if file.number >= first)
    # Every task repeats this recovery, so the number of tasks is limited: recovery must not read more than the ranges.
    most = max(os.cpu_count() or 1, log_bytes // max(redone_bytes, 1))
    return max(1, min(log_bytes // LEAST_TASK_BYTES, most))


def _take(records: Iterator[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The next batch, limited by records and bytes."""
    batch: list[tuple[bytes, bytes]] = []
    size = 0
    for record in islice(records, _BATCH_ROWS):
        batch.append(record)
        size += len(record[0]) + len(record[1])
        # Arrow's plain binary columns reach 2 GiB; large records stay far below that.
        if size >= _BATCH_BYTES:
            break
    return batch
