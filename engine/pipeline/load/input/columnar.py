"""Parquet and ORC files: their columns, and batches of some of their row groups or stripes.

Columns with special types are read as plain types: a dictionary as its values, fixed-width and view types as the
general type, an extension as its storage type, and times in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

_BATCH_ROWS: Final = 50_000
_BATCH_BYTES: Final = 16 << 20
_READ_BYTES: Final = 1 << 20


def schema_of(name: str, path: str) -> Any:
    """Arrow schema of a file.

    Arguments:
        name: ``parquet`` or ``orc``.
        path: of the file.

    Raises:
        OSError, ArrowException: the file is missing, or has another format.
    """
    found = _orc(path).schema if name == "orc" else _parquet(path).schema_arrow
    return pa.schema([(field.name, plain(field.type)) for field in found])


def sizes(name: str, path: str) -> list[int]:
    """Uncompressed size of each row group or stripe of a file.

    Raises:
        OSError, ArrowException: as ``schema_of``.
    """
    if name == "orc":
        file = _orc(path)
        # pyarrow does not report the size of a stripe; an equal share is accurate enough for cutting.
        return [int(file.content_length) // max(file.nstripes, 1)] * int(file.nstripes)
    metadata = _parquet(path).metadata
    return [int(metadata.row_group(number).total_byte_size) for number in range(metadata.num_row_groups)]


def batches(name: str, path: str, start: int, stop: int | None, columns: tuple[str, ...]) -> Iterator[Any]:
    """Record batches of row groups ``start`` to ``stop``; needs memory for one batch (Parquet) or one stripe (ORC).

    Raises:
        OSError, ArrowException: the file is damaged, or lacks a column.
    """
    # A column that is both key and value is read once.
    wanted = list(dict.fromkeys(columns))
    found: Iterator[Any]
    if name == "orc":
        file = _orc(path)
        # Readers keep the column order of the file; below, columns are selected by name.
        found = (file.read_stripe(stripe, wanted) for stripe in range(start, file.nstripes if stop is None else stop))
    else:
        found = _row_groups(_parquet(path), start, stop, wanted)
    for batch in found:
        arrays = [_plain_array(batch.column(column)) for column in wanted]
        yield pa.RecordBatch.from_arrays(arrays, wanted)


def plain(kind: Any) -> Any:
    """The plain type as which a type is read."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return plain(kind.storage_type)
    if types.is_dictionary(kind):
        return plain(kind.value_type)
    if types.is_fixed_size_binary(kind) or types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_timestamp(kind):
        # Spark uses microseconds, so both engines make the same values.
        return pa.timestamp("us", kind.tz and "UTC")
    return pa.float32() if types.is_float16(kind) else kind


def _plain_array(column: Any) -> Any:
    kind = plain(column.type)
    if kind == column.type:
        return column
    # Arrow has no cast from an extension type; its storage is the data.
    if isinstance(column.type, pa.BaseExtensionType):
        return _plain_array(column.storage)
    return column.cast(kind, safe=False)


def _row_groups(file: Any, start: int, stop: int | None, columns: list[str]) -> Iterator[Any]:
    for number in range(start, file.metadata.num_row_groups if stop is None else stop):
        group = file.metadata.row_group(number)
        # A row group of wide rows is read in batches that fit, not in rows of a fixed number.
        fits = _BATCH_BYTES * max(group.num_rows, 1) // max(group.total_byte_size, 1)
        yield from file.iter_batches(max(min(fits, _BATCH_ROWS), 1), row_groups=[number], columns=columns)


def _parquet(path: str) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(path, buffer_size=_READ_BYTES)


def _orc(path: str) -> Any:
    from pyarrow import orc

    return orc.ORCFile(path)
