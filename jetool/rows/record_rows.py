"""Records of databases: ``scan``, ``get`` and ``dump`` print the same class."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from engine.events import SILENT, Listener
from engine.fields import ABSENT, Absent, Bool, Data, Json, Key, Like, Row, named_row, record
from jetool.app.decode_option import DecodedFields, decoded, decoded_line, decoded_shape
from jetool.output.base import OutputStream
from jetool.output.columns import rendered
from jetool.output.shape import Style, to_text

if TYPE_CHECKING:
    from engine.inspect.contents import DecodingPlan


@record("record")
class PrintedRecord(NamedTuple):
    """One record; with sorted duplicates one data item of a key."""

    key: Annotated[Key, "the key, as --key-format says"]
    data: Annotated[Data, "the data, as --data-format says"]
    decoded_key: Annotated[Json | Absent, Like(DecodedFields)] = ABSENT
    decoded_data: Annotated[Json | Absent | None, Like(DecodedFields)] = ABSENT
    known: Annotated[Bool | Absent, Like(DecodedFields)] = ABSENT


_BATCH: Final = 512


def printed(found: tuple[bytes, bytes], db: str = "", decoding: DecodingPlan | None = None) -> PrintedRecord:
    """A record, of a database; decoded when that is asked for."""
    key, data = found
    if decoding is None:
        return PrintedRecord(key=key, data=data)
    means = decoded(decoding.record(db, key, data))
    return PrintedRecord(
        key=key, data=data, decoded_key=means.decoded_key, decoded_data=means.decoded_data, known=means.known
    )


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
    decoding: DecodingPlan | None = None,
    listener: Listener = SILENT,
) -> int:
    """Print records in batches; returns how many there were. The listener hears ``write``."""
    count, rest = 0, iter(records)
    plain = decoded_shape(PrintedRecord, None)
    while batch := list(islice(rest, _BATCH)):
        if decoding is None:
            keys, data = zip(*batch, strict=True)
            chunk = rendered(stream.encoder, plain, {"key": keys, "data": data})
        else:
            chunk = stream.encoder.rows([named_row(printed(one, db, decoding)) for one in batch])
        stream.write(chunk)
        count += len(batch)
        listener.step("write", count, 0)
    return count
