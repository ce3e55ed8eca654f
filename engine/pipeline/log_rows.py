"""Rows of log entries as Arrow batches, and checks of the schemas of this package's sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from engine.errors import UsageError
from engine.inspect.contents import DecodingPlan
from engine.log.entry import Damage
from engine.pipeline.decoded_columns import DECODED_COLUMNS, decoding_of_task
from engine.pipeline.log_columns import BY_NAME, ColumnFiller, ColumnLimits, Item

_BATCH_ROWS: Final = 8192
_INTEGERS: Final[dict[str, pa.DataType]] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
}
_ARROW: Final = _INTEGERS | {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


class LogRows:
    """Makes rows of the entries of a file.

    Arguments:
        schema: the requested columns.
        conditions: conditions on rows.
        source: the name of the source in errors.
        decode: the decoder; None for no decoder.

    Raises:
        UsageError: the schema has an unknown column, or one of another type.
    """

    def __init__(
        self, schema: StructType, conditions: dict[str, ColumnLimits], source: str, decode: str | None
    ) -> None:
        known = {column.name: column.type for column in BY_NAME.values()}
        check_schema(schema, known if decode is None else known | DECODED_COLUMNS, source)
        self._arrow = arrow_schema(schema)
        self._decode = decode if any(field.name in DECODED_COLUMNS for field in schema.fields) else None
        # Cached by environment for one task: a later task may find more databases.
        self._decodings: dict[str, DecodingPlan | None] = {}
        self.conditions = conditions

    def batches(self, env: str, path: str, items: Iterator[Item]) -> Iterator[pa.RecordBatch]:
        """Rows of entries and damage of one file."""
        if env not in self._decodings:
            self._decodings[env] = decoding_of_task(env, self._decode)
        filling = ColumnFiller(tuple(self._arrow.names), self.conditions, self._decodings[env])
        same = {"environment": env, "path": path}
        for batch in _batches(items):
            count, columns = filling.fill(batch)
            if count:
                yield self._to_arrow(count, columns, same)

    def _to_arrow(self, count: int, columns: dict[str, list[Any]], same: dict[str, str]) -> pa.RecordBatch:
        arrays = []
        for field in self._arrow:
            if field.name in same:
                arrays.append(pa.repeat(pa.scalar(same[field.name], field.type), count))
            elif field.name == "time":
                # Milliseconds since 1970; null for rows without a time.
                arrays.append(pa.array(columns["time"], pa.timestamp("ms", tz="UTC")).cast(field.type))
            else:
                arrays.append(pa.array(columns[field.name], field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)


def check_schema(schema: StructType, known: dict[str, str], source: str) -> None:
    """Refuse a schema with unknown columns; integers may have any width that can hold the values.

    Raises:
        UsageError: names the column and the available ones.
    """
    for field in schema.fields:
        given, wanted = field.dataType.simpleString(), known.get(field.name)
        if wanted is None:
            raise UsageError(f"{source} has no column {field.name}", expected=", ".join(known), found=field.name)
        if given != wanted and not (given in _INTEGERS and wanted in _INTEGERS):
            raise UsageError(f"column {field.name} of {source} is of another type", expected=wanted, found=given)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema for a checked Spark schema."""
    return pa.schema([pa.field(field.name, _ARROW[field.dataType.simpleString()]) for field in schema.fields])


def _batches(items: Iterator[Item]) -> Iterator[list[Item]]:
    """Entries in batches; damage is in the same batch as the entries before it."""
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) >= _BATCH_ROWS or isinstance(item, Damage):
            yield batch
            batch = []
    if batch:
        yield batch
