"""The salvage code that runs in tasks: rows of a source; on Spark in Arrow batches, for ``mapInArrow``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from engine.format.vlsn import NULL_VLSN
from engine.inspect.contents import DecodingPlan
from engine.pipeline.decoded_columns import decoded_values
from engine.pipeline.python_side import settle_worker
from engine.rescue.salvage.collect import Salvage
from engine.rescue.salvage.meanings import decoding_of_source
from engine.rescue.salvage.results import DoubtfulVersion, LostVersion, Salvaged, SalvagedDatabase
from engine.rescue.salvage.sources import SalvageSource

# Kinds of rows.
RECORD: Final = "record"
LOST: Final = "lost"
DOUBT: Final = "doubt"
ORPHAN: Final = "orphan"
_BATCH_BYTES: Final = 16 << 20

ROWS: Final = (
    "kind string, source string, environment string, db string, key binary, data binary, vlsn bigint, lsn bigint, "
    "from string, stood_in boolean, confirmed boolean, decoded_key string, decoded_data string, known boolean"
)


def source_task(sources: Sequence[SalvageSource], decode: str | None, ids: Iterator[Any]) -> Iterator[Any]:
    """Salvage sources; it takes batches of their numbers and yields rows."""
    settle_worker()
    schema = arrow(ROWS)
    for batch in ids:
        for number in batch.column(0).to_pylist():
            yield from batches(source_rows(sources[number], decode), schema)


def source_rows(source: SalvageSource, decode: str | None) -> Iterator[tuple[Any, ...]]:
    """The rows of one source: values in the order of ``ROWS``."""
    done = Salvage([source])
    decoding = None if decode is None else decoding_of_source(source, decode)
    for one in done.rows():
        database = done.databases[one.database]
        yield (*_row(source.name, database, one), *_meaning(decoding, database, one))


def _meaning(decoding: DecodingPlan | None, database: SalvagedDatabase, one: Salvaged) -> tuple[Any, ...]:
    if decoding is None or database.orphan:
        return decoded_values(None)
    data = None if isinstance(one, LostVersion) else one.data
    return decoded_values(decoding.record(database.db.name, one.key, data))


def _row(source: str, database: SalvagedDatabase, one: Salvaged) -> tuple[Any, ...]:
    name = database.db.name
    if isinstance(one, LostVersion):
        return LOST, source, one.env, name, one.key, None, None, one.lsn, None, one.stood_in, None
    if isinstance(one, DoubtfulVersion):
        return DOUBT, source, one.env, name, one.key, one.data, None, one.lsn, None, None, None
    kind = ORPHAN if database.orphan else RECORD
    vlsn = None if one.vlsn == NULL_VLSN else one.vlsn
    return kind, source, one.env, name, one.key, one.data, vlsn, one.lsn, one.origin, one.stood_in, one.confirmed


def batches(rows: Iterator[tuple[Any, ...]], schema: Any, most_rows: int = 4096) -> Iterator[Any]:
    """Rows as Arrow batches, limited by rows and by 16 MiB of bytes.

    Arguments:
        rows: values in the order of the schema.
        schema: an Arrow schema.
        most_rows: the most rows of a batch.
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
    """The Arrow schema for a Spark schema with the types that salvage uses."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "bigint": pa.int64(), "binary": pa.binary(), "boolean": pa.bool_()}
    columns = (column.split() for column in schema.split(", "))
    return pa.schema([pa.field(name, kinds[kind]) for name, kind in columns])
