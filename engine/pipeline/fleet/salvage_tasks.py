"""What executors do for salvage: functions over Arrow batches, for ``mapInArrow``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.format.bytecursor import join_two_part_key, split_two_part_key
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.pipeline.inventory import LogPart
from engine.pipeline.worker import settle_worker
from engine.rescue.salvage import scan

# Where records come from: recovery, or the log.
TREE: Final = "tree"
LOG: Final = "log"
_BATCH_BYTES: Final = 16 << 20

ROWS: Final = (
    "source string, env string, db string, dups boolean, key binary, data binary, vlsn bigint, lsn bigint, "
    "deleted boolean, from string"
)


RECORDS: Final = "source string, environment string, db string, key binary, data binary, vlsn bigint, from string"


def scan_task(tasks: list[list[LogPart]], surveys: Mapping[str, scan.LogSurvey], ids: Iterator[Any]) -> Iterator[Any]:
    """Versions out of the parts of tasks; batches of task numbers come in."""
    settle_worker()
    schema = arrow(scan.VERSION_SCHEMA)
    for number in _numbers(ids):
        rows = (
            row
            for part in tasks[number]
            for row in scan.versions(part.env, part.files, part.end_file, surveys[part.env])
        )
        yield from batches(rows, schema)


def ends_task(tasks: list[list[LogPart]], ids: Iterator[Any]) -> Iterator[Any]:
    """Ends of transactions, likewise."""
    settle_worker()
    schema = arrow(scan.END_SCHEMA)
    for number in _numbers(ids):
        yield from batches(
            (row for part in tasks[number] for row in scan.ends(part.env, part.files, part.end_file)), schema
        )


def _numbers(batches: Iterator[Any]) -> Iterator[int]:
    return (number for batch in batches for number in batch.column(0).to_pylist())


def fold(batches: Iterator[Any]) -> Iterator[Any]:
    """Records of recovery as versions; with duplicates key and data become one key."""
    import pyarrow as pa

    for batch in batches:
        columns = batch.to_pydict()
        count = batch.num_rows
        pairs = list(zip(columns["dups"], columns["key"], columns["data"], strict=True))
        columns["key"] = [join_two_part_key(key, data) if dups else key for dups, key, data in pairs]
        columns["data"] = [b"" if dups else data for dups, _, data in pairs]
        columns |= {"lsn": [NULL_LSN] * count, "deleted": [False] * count, "from": [TREE] * count}
        yield pa.RecordBatch.from_pydict(columns, schema=arrow(ROWS))


def unfold(batches: Iterator[Any]) -> Iterator[Any]:
    """Live versions as records; with duplicates one key becomes key and data."""
    import pyarrow as pa

    for batch in batches:
        columns = batch.to_pydict()
        split = [
            split_two_part_key(key) if dups else (key, data or b"")
            for dups, key, data in zip(columns["dups"], columns["key"], columns["data"], strict=True)
        ]
        vlsns = [None if vlsn == NULL_VLSN else vlsn for vlsn in columns["vlsn"]]
        values = (
            columns["source"], columns["env"], columns["db"], [key for key, _ in split], [data for _, data in split],
            vlsns, columns["from"],
        )  # fmt: skip
        schema = arrow(RECORDS)
        arrays = [pa.array(value, field.type) for value, field in zip(values, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def batches(rows: Iterator[tuple[Any, ...]], schema: Any, most_rows: int = 4096) -> Iterator[Any]:
    """Rows as Arrow batches of so many rows, or of 16 MiB of bytes.

    Arguments:
        rows: values in the order of the schema.
        schema: an Arrow schema.
        most_rows: how many rows a batch has.
    """
    batch: list[tuple[Any, ...]] = []
    held = 0
    for row in rows:
        batch.append(row)
        held += sum(len(value) for value in row if isinstance(value, bytes))
        if len(batch) >= most_rows or held >= _BATCH_BYTES:
            yield _batch(batch, schema)
            batch, held = [], 0
    if batch:
        yield _batch(batch, schema)


def _batch(rows: list[tuple[Any, ...]], schema: Any) -> Any:
    import pyarrow as pa

    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def arrow(schema: str) -> Any:
    """The Arrow schema for one of Spark's, of the kinds that salvage has."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "bigint": pa.int64(), "binary": pa.binary(), "boolean": pa.bool_()}
    columns = (column.split() for column in schema.split(", "))
    return pa.schema([pa.field(name, kinds[kind]) for name, kind in columns])
