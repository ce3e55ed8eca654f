"""Records on their way in and out, whatever the kind of the environment: what ``put``, ``scan`` and ``dump`` share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from jetool.app.options import Run
from jetool.output.je_dump import JeDumpEncoder
from jetool.output.shape import Field, Row, Shape, row_of
from jetool.rows.record_rows import DECODED_RECORD, RECORD, text_line, write_records

if TYPE_CHECKING:
    from engine.inspect.contents import Decoding

_COMPLETE: Final = Field("complete", "bool", "false when there is, or may be, more")
_REASON: Final = Field("reason", "text", "why it is not complete; null when it is", null=True)
DUMP_END: Final = Shape(
    "summary",
    "The end of the dump.",
    (
        Field("db", "text", "name of the database"),
        Field("duplicates", "bool", "whether it holds sorted duplicates"),
        Field("records", "int", "how many records there are"),
        _COMPLETE,
        _REASON,
    ),
)

SCAN_END: Final = Shape(
    "summary",
    "The end of the scan.",
    (
        Field("records", "int", "how many were printed"),
        _COMPLETE,
        _REASON,
    ),
)

# The end of a table of what recovery sees: databases, the items of a key.
TABLE_END: Final = Shape("summary", "The end.", (Field("count", "int", "how many rows"), _COMPLETE, _REASON))


def completeness(unseen: str | None) -> Row:
    """What the summary of such a table says besides the count.

    Arguments:
        unseen: what of the log was not seen, for which rows may be missing or wrong.
    """
    return row_of(TABLE_END.fields[1:], (unseen is None, unseen))


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
    decoding: Decoding | None = None,
) -> None:
    """Print records up to a limit, and whether those were all.

    Arguments:
        unseen: what of the log was not seen, for which records may be missing.
        db: the database, for ``decoding``.
        decoding: how records are decoded; None: they are not.
    """
    with run.out.stream(RECORD if decoding is None else DECODED_RECORD, line=text_line) as stream:
        count = write_records(stream, islice(records, limit), db, decoding, run.listener)
        # One record more is looked at, not printed: it tells whether the limit cut something off.
        left_out = limit is not None and count >= limit and next(records, None) is not None
        reason = unseen or ("--limit left some out" if left_out else None)
        stream.end(SCAN_END.row((count, reason is None, reason)))


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
    with run.out.stream(RECORD, encoder=encoder) as stream:
        count = write_records(stream, records, listener=run.listener)
        stream.end(DUMP_END.row((name, duplicates, count, unseen is None, unseen)))
