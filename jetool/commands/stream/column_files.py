"""Avro and Parquet files of changes, written as changes arrive.

``engine.rep.changes.columns`` defines the columns. A file is complete only with its last bytes, which ``finish``
writes; until then at most ``_GROUP_BYTES`` of keys and data and ``_GROUP_ROWS`` rows wait in memory for the next row
group of Parquet, or the next block of Avro.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import IO, Any, Final, Protocol, cast

from engine.errors import UnsupportedError
from engine.rep.changes.columns import COLUMNS, REQUIRED, Values

AVRO: Final = "avro"
PARQUET: Final = "parquet"
_LIBRARIES: Final = {AVRO: "fastavro.write", PARQUET: "pyarrow.parquet"}
_GROUP_BYTES: Final = 16 << 20
_GROUP_ROWS: Final = 100_000
_KEY, _DATA = list(COLUMNS).index("key"), list(COLUMNS).index("data")
_NAMES: Final = tuple(place for place, name in enumerate(COLUMNS) if name in ("db", "old_name"))
_AVRO_TYPES: Final[dict[str, Any]] = {
    "bigint": "long",
    "int": "int",
    "string": "string",
    "binary": "bytes",
    "boolean": "boolean",
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
}


class RowFile(Protocol):
    """A file to which rows are appended.

    Attributes:
        waiting_bytes: size of the keys and data that are not yet written.
    """

    waiting_bytes: int

    def add(self, rows: Iterable[Values]) -> None:
        """Add rows."""

    def finish(self) -> None:
        """Write the remaining rows, and the end of the file."""

    def abandon(self) -> None:
        """Stop writing; the file stays incomplete."""


def row_file(form: str, group_rows: int = _GROUP_ROWS) -> Callable[[Callable[[bytes], None]], RowFile]:
    """The factory of files of a format; its argument is a function that writes bytes.

    Arguments:
        form: the format.
        group_rows: most rows of a row group of Parquet.

    Raises:
        UnsupportedError: the library for the format is not installed.
    """
    try:
        import_module(_LIBRARIES[form])
    except ImportError as error:
        raise UnsupportedError(
            f"--file-format {form} takes the package {error.name}, which is not installed",
            hint=f"pip install 'jetool[{form}]'",
        ) from error
    return _AvroFile if form == AVRO else partial(_ParquetFile, group_rows=group_rows)


class _ParquetFile:
    """A row group for each ``_GROUP_BYTES``."""

    def __init__(self, write: Callable[[bytes], None], group_rows: int) -> None:
        import pyarrow
        from pyarrow.parquet import ParquetWriter

        types = {
            "bigint": pyarrow.int64(),
            "int": pyarrow.int32(),
            "string": pyarrow.string(),
            "binary": pyarrow.binary(),
            "boolean": pyarrow.bool_(),
            "timestamp": pyarrow.timestamp("us", tz="UTC"),
        }
        self._schema = pyarrow.schema(
            [pyarrow.field(name, types[kind], nullable=name not in REQUIRED) for name, kind in COLUMNS.items()]
        )
        self._end = _Appending(write)
        self._writer = ParquetWriter(self._end, self._schema, compression="zstd")
        self._group_rows = group_rows
        self._rows: list[Values] = []
        self.waiting_bytes = 0

    def add(self, rows: Iterable[Values]) -> None:
        """Add rows."""
        for row in map(_in_utf8, rows):
            self._rows.append(row)
            self.waiting_bytes += len(row[_KEY] or b"") + len(row[_DATA] or b"")
            if self.waiting_bytes >= _GROUP_BYTES or len(self._rows) >= self._group_rows:
                self._write_group()

    def finish(self) -> None:
        """Write the last row group and the footer."""
        self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        """Discard further bytes and close the writer, because it would otherwise write a footer when it is
        garbage-collected.
        """
        self._end.abandon()
        self._writer.close()

    def _write_group(self) -> None:
        import pyarrow

        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pyarrow.array(values, kind) for values, kind in zip(columns, self._schema.types, strict=True)]
            self._writer.write_table(pyarrow.Table.from_arrays(arrays, schema=self._schema))
        self._rows = []
        self.waiting_bytes = 0


class _AvroFile:
    """Blocks of the library's default size, about 16 kB."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        from fastavro.write import Writer

        fields = []
        for name, kind in COLUMNS.items():
            found = _AVRO_TYPES[kind]
            fields.append(
                {"name": name, "type": found}
                if name in REQUIRED
                else {"name": name, "type": ["null", found], "default": None}
            )
        schema = {"type": "record", "name": "Change", "namespace": "jetool", "fields": fields}
        self._writer = Writer(cast(IO[bytes], _Appending(write)), schema, codec="deflate")
        self.waiting_bytes = 0

    def add(self, rows: Iterable[Values]) -> None:
        """Add rows."""
        names = tuple(COLUMNS)
        for row in map(_in_utf8, rows):
            self._writer.write(dict(zip(names, row, strict=True)))

    def finish(self) -> None:
        """Write the last block."""
        self._writer.flush()

    def abandon(self) -> None:
        """The Avro writer writes no footer, so there is nothing to do."""


class _Appending(io.RawIOBase):
    """The file object for the libraries; it can only append."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        super().__init__()
        self._write = write
        self._size = 0

    def abandon(self) -> None:
        """Discard bytes from now on."""
        self._write = lambda _: None

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: Any) -> int:
        """Append."""
        taken = bytes(data)
        self._write(taken)
        self._size += len(taken)
        return len(taken)

    def tell(self) -> int:
        """How much was written."""
        return self._size


def _in_utf8(row: Values) -> Values:
    """A row whose names are valid UTF-8; JE also allows database names that are not."""
    if all(row[place] is None or row[place].isascii() for place in _NAMES):
        return row
    values = list(row)
    for place in _NAMES:
        if values[place] is not None:
            values[place] = values[place].encode("utf-8", "backslashreplace").decode("utf-8")
    return tuple(values)
