"""Records of databases as rows: ``scan``, ``get`` and ``dump`` print the same shape."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from engine.events import SILENT, Listener
from jetool.app.decoding import DECODED_FIELDS, decoded, decoded_line
from jetool.output.base import OutputStream
from jetool.output.shape import Field, Row, Shape, Style, to_text

if TYPE_CHECKING:
    from engine.inspect.contents import Decoding

RECORD: Final = Shape(
    "record",
    "One record; with sorted duplicates one data item of a key.",
    (
        Field("key", "key", "the key, as --key-format says"),
        Field("data", "data", "the data, as --data-format says"),
    ),
)
DECODED_RECORD: Final = RECORD._replace(fields=(*RECORD.fields, *DECODED_FIELDS))

_BATCH: Final = 512


def record_row(record: tuple[bytes, bytes], db: str = "", decoding: Decoding | None = None) -> Row:
    """A record as a row, of a database; decoded when that is asked for."""
    row = (("key", "key", record[0]), ("data", "data", record[1]))
    return row if decoding is None else (*row, *decoded(decoding.record(db, *record)))


def text_line(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - the signature of TextLine
    """Key and data on one line; what they mean where they were decoded."""
    line = decoded_line(row, style)
    if line is not None:
        return line
    return "  ".join(to_text(kind, value, style) for _, kind, value in row)


def write_records(
    stream: OutputStream,
    records: Iterable[tuple[bytes, bytes]],
    db: str = "",
    decoding: Decoding | None = None,
    listener: Listener = SILENT,
) -> int:
    """Print records in batches; returns how many there were. The listener hears ``write``."""
    count, rest = 0, iter(records)
    while batch := list(islice(rest, _BATCH)):
        stream.write(stream.encoder.rows([("record", record_row(record, db, decoding)) for record in batch]))
        count += len(batch)
        listener.step("write", count, 0)
    return count
