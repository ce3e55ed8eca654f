"""Records on their way in and out, whatever the kind of the environment: what ``put``, ``scan`` and ``dump`` share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, NamedTuple

from engine.fields import Bool, FieldName, Int, Like, Row, Text, record, row_of
from jetool.app.decode_option import decoded_shape
from jetool.app.options import Run
from jetool.output.je_dump import JeDumpEncoder
from jetool.rows.record_rows import PrintedRecord, text_line, write_records

if TYPE_CHECKING:
    from engine.inspect.contents import DecodingPlan


@record()
class Completeness(NamedTuple):
    """Whether what was printed is all."""

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

    # Of a table of what recovery sees: databases, the items of a key.
    count_: Annotated[Int, "how many rows", FieldName("count")]
    complete: Annotated[Bool, Like(Completeness)]
    reason: Annotated[Text | None, Like(Completeness)]


def completeness(unseen: str | None) -> Row:
    """What the summary of such a table says besides the count.

    Arguments:
        unseen: what of the log was not seen, for which rows may be missing or wrong.
    """
    return row_of(Completeness(complete=unseen is None, reason=unseen))


def read_data(data: bytes) -> bytes:
    """The data: as given, or what is on standard input for ``-``."""
    return sys.stdin.buffer.read() if data == b"-" else data


def end_of_range(last: bytes | None) -> bytes | None:
    """The smallest key after the last one: in the order of bytes that is the same with a zero byte."""
    return None if last is None else last + b"\0"


def print_range(
    run: Run,
    records: Iterator[tuple[bytes, bytes]],
    limit: int | None,
    unseen: str | None = None,
    *,
    db: str = "",
    decoding: DecodingPlan | None = None,
) -> None:
    """Print records up to a limit, and whether those were all.

    Arguments:
        unseen: what of the log was not seen, for which records may be missing.
        db: the database, for ``decode_option``.
        decoding: how records are decoded; None: they are not.
    """
    with run.out.stream(decoded_shape(PrintedRecord, decoding), line=text_line) as stream:
        count = write_records(stream, islice(records, limit), db, decoding, run.listener)
        # One record more is looked at, not printed: it tells whether the limit cut something off.
        left_out = limit is not None and count >= limit and next(records, None) is not None
        reason = unseen or ("--limit left some out" if left_out else None)
        stream.end(ScanSummary(records=count, complete=reason is None, reason=reason))


def print_dump(
    run: Run,
    name: str,
    records: Iterable[tuple[bytes, bytes]],
    *,
    duplicates: bool,
    printable: bool,
    unseen: str | None = None,
) -> None:
    """Print the records of a database, and how many there are; ``unseen`` as for ``print_range``."""
    encoder = JeDumpEncoder(duplicates=duplicates, printable=printable) if run.out.format == "je" else None
    with run.out.stream(decoded_shape(PrintedRecord, None), encoder=encoder) as stream:
        count = write_records(stream, records, listener=run.listener)
        stream.end(DumpEnd(db=name, duplicates=duplicates, records=count, complete=unseen is None, reason=unseen))
