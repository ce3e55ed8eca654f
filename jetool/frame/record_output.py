"""Input and output of records, for every kind of environment: code that ``put``, ``scan`` and ``dump`` share."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from engine.events import SILENT, Listener
from engine.fields import (
    ABSENT,
    Absent,
    Bool,
    Data,
    FieldName,
    Int,
    Json,
    Key,
    Like,
    Row,
    Shape,
    Text,
    named_row,
    record,
    row_of,
)
from jetool.frame import params
from jetool.frame.decode_option import DecodedFields, decoded, decoded_line, decoded_shape
from jetool.frame.options import Run
from jetool.output.base import Encoder, OutputStream
from jetool.output.columns import rendered, texts_of
from jetool.output.je_dump import JeDumpEncoder
from jetool.output.shape import Style, to_text
from jetool.output.text import TextEncoder, encode

if TYPE_CHECKING:
    from engine.inspect.contents import DecodingPlan

_BATCH: Final = 512
# Formats of keys in which a text stands for itself.
_TEXTS: Final = ("utf8", "text")


@record("record")
class PrintedRecord(NamedTuple):
    """One record; with sorted duplicates one data item of a key."""

    key: Annotated[Key, "the key, in the format of --key-format"]
    data: Annotated[Data, "the data, in the format of --data-format"]
    decoded_key: Annotated[Json | Absent, Like(DecodedFields)] = ABSENT
    decoded_data: Annotated[Json | Absent | None, Like(DecodedFields)] = ABSENT
    known: Annotated[Bool | Absent, Like(DecodedFields)] = ABSENT


@record()
class Completeness(NamedTuple):
    """The summary of a range: whether all records were printed."""

    complete: Annotated[Bool, "false when there is, or may be, more"]
    reason: Annotated[Text | None, "why it is not complete; null when it is"]


@record("summary")
class DumpEnd(NamedTuple):
    """The end of the dump."""

    db: Annotated[Text, "name of the database"]
    duplicates: Annotated[Bool, "whether it holds sorted duplicates"]
    records: Annotated[Int, "how many records there are"]
    complete: Annotated[Bool, Like(Completeness)]
    reason: Annotated[Text | None, Like(Completeness)]


@record("summary")
class ScanSummary(NamedTuple):
    """The end of the scan."""

    records: Annotated[Int, "how many were printed"]
    complete: Annotated[Bool, Like(Completeness)]
    reason: Annotated[Text | None, Like(Completeness)]


@record("summary")
class TableEnd(NamedTuple):
    """The end."""

    # The summary of a table of recovered data: databases, or the items of a key.
    count_: Annotated[Int, "how many rows", FieldName("count")]
    complete: Annotated[Bool, Like(Completeness)]
    reason: Annotated[Text | None, Like(Completeness)]


def printed(found: tuple[bytes, bytes], db: str = "", decoding: DecodingPlan | None = None) -> PrintedRecord:
    """The output record of a database record, decoded if requested."""
    key, data = found
    if decoding is None:
        return PrintedRecord(key=key, data=data)
    means = decoded(decoding.record(db, key, data))
    return PrintedRecord(
        key=key, data=data, decoded_key=means.decoded_key, decoded_data=means.decoded_data, known=means.known
    )


def text_line(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - the signature of TextLine
    """Key and data on one line; the decoded form if there is one."""
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
    """Print records in batches; returns their number. The listener receives ``write`` steps."""
    count, rest = 0, iter(records)
    plain = decoded_shape(PrintedRecord, None)
    while batch := list(islice(rest, _BATCH)):
        if decoding is None:
            keys, data = zip(*batch, strict=True)
            chunk = _chunk_of(stream.encoder, plain, keys, data)
        else:
            chunk = stream.encoder.rows([named_row(printed(one, db, decoding)) for one in batch])
        stream.write(chunk)
        count += len(batch)
        listener.step("write", count, 0)
    return count


def _chunk_of(encoder: Encoder, shape: Shape, keys: Sequence[bytes], data: Sequence[bytes]) -> bytes:
    """Records as they are, without an object for each."""
    if isinstance(encoder, TextEncoder) and encoder.prints_by(text_line):
        texts = texts_of("key", keys, encoder.style), texts_of("data", data, encoder.style)
        return encode("".join([f"{key}  {value}\n" for key, value in zip(*texts, strict=True)]))
    return rendered(encoder, shape, {"key": keys, "data": data})


def completeness(unseen: str | None) -> Row:
    """The fields of a table's summary that state whether the table is complete.

    Arguments:
        unseen: the part of the log that was not read, so that rows may be missing or wrong.
    """
    return row_of(Completeness(complete=unseen is None, reason=unseen))


def read_data(data: bytes) -> bytes:
    """The given data, or for ``-`` the bytes of standard input."""
    return sys.stdin.buffer.read() if data == b"-" else data


def end_of_range(last: bytes | None) -> bytes | None:
    """The smallest key after the last one; in byte order that is the last key with a zero byte appended."""
    return None if last is None else last + b"\0"


def print_range(
    run: Run,
    records: Iterator[tuple[bytes, bytes]],
    limit: int | None,
    unseen: str | None = None,
    *,
    db: str = "",
    decoding: DecodingPlan | None = None,
) -> int:
    """Print records up to a limit, and a summary that states whether those were all; returns their number.

    Arguments:
        unseen: the part of the log that was not read, so that records may be missing.
        db: the database, for ``decode_option``.
        decoding: how records are decoded; None: they are not.
    """
    with run.out.stream(decoded_shape(PrintedRecord, decoding), line=text_line) as stream:
        count = write_records(stream, islice(records, limit), db, decoding, run.listener)
        # Read one more record without printing it, to know whether the limit cut something off.
        left_out = limit is not None and count >= limit and next(records, None) is not None
        reason = unseen or ("--limit left some out" if left_out else None)
        stream.end(ScanSummary(records=count, complete=reason is None, reason=reason))
    return count


def note_prefix(run: Run, env: str, prefix: bytes) -> None:
    """State how a prefix was taken with which no key begins: digits of hex without ``0x`` are a text."""
    from engine.inspect.key_formats import show

    style = params.given_key_format()
    text = show(prefix, style)
    digits = prefix.decode("ascii", "replace")
    is_hex = style in _TEXTS and not len(digits) % 2 and re.fullmatch("[0-9a-fA-F]+", digits) is not None
    run.messages.notice(
        f"no key begins with the bytes 0x{prefix.hex()}" + (f", the text {text!r}" if style in _TEXTS else ""),
        file=env,
        hint=f"--prefix 0x{digits} takes it as hex" if is_hex else "jetool scan without --prefix shows the keys",
    )


def print_dump(
    run: Run,
    name: str,
    records: Iterable[tuple[bytes, bytes]],
    *,
    duplicates: bool,
    printable: bool,
    unseen: str | None = None,
    decoding: DecodingPlan | None = None,
) -> int:
    """Print the records of a database, and their number, which is returned. Other arguments as for ``print_range``."""
    encoder = JeDumpEncoder(duplicates=duplicates, printable=printable) if run.out.format == "je" else None
    with run.out.stream(decoded_shape(PrintedRecord, decoding), encoder=encoder) as stream:
        count = write_records(stream, records, name, decoding, run.listener)
        stream.end(DumpEnd(db=name, duplicates=duplicates, records=count, complete=unseen is None, reason=unseen))
    return count
