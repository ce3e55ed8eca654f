"""Lines of text files, and what they say as columns: CSV and JSON, one record a line.

Lines come from a whole file, also a compressed one, or are those that begin in a range of its bytes. A batch of CSV
lines is parsed as one block. When that does not give one row a line (a quote that is not closed swallows what follows),
the batch is parsed line by line instead, so that the bad line is the one that is rejected. A block of a file is parsed
as it is (``parse_block``) where that comes to the same: every line is a record, and nothing is wrong with any.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from engine.errors import plural
from engine.pipeline.load.input.text_records import BadRecord, csv_fields, json_object

# A block is held some ten times while it is parsed.
_READ_BYTES: Final = 2 << 20
_LOOK_BYTES: Final = 1 << 16
_NEWLINE: Final = b"\n"


def blocks_of(path: str, start: int, stop: int | None) -> Iterator[bytes]:
    """Blocks of whole lines in order, without the end of the last one.

    Arguments:
        path: of the file.
        start, stop: bytes; a line belongs to the range that its first byte is in. With None for ``stop`` the file is
            read from its beginning, and decompressed when its name says so.

    Raises:
        OSError: it cannot be read, or its compression is damaged.
    """
    return _whole_file(path) if stop is None else _range(path, start, stop)


def lines_of(block: bytes) -> Any:
    """The lines of a block, without their ends, as an array of ``large_binary``."""
    # Blocks lack their last newline, which would make one more, empty line.
    return _bare(pc.split_pattern(pa.array([block], pa.large_binary()), _NEWLINE)[0].values)


def first_lines(path: str, count: int) -> list[bytes]:
    """The first lines of a file, or fewer."""
    found: list[bytes] = []
    with pa.input_stream(path, compression="detect") as stream:
        rest = b""
        while len(found) < count and (data := stream.read(_LOOK_BYTES)):
            *whole, rest = (rest + data).split(_NEWLINE)
            found += whole
    if rest and len(found) < count:
        # The last line need not end with a newline.
        found.append(rest)
    return [line.rstrip(b"\r") for line in found[:count]]


def _whole_file(path: str) -> Iterator[bytes]:
    with pa.input_stream(path, compression="detect") as stream:
        yield from _blocks(stream, None)


def _range(path: str, start: int, stop: int) -> Iterator[bytes]:
    with pa.OSFile(path) as file:
        size = file.size()
        begin, end = (_line_start(file, at, size) for at in (start, stop))
        file.seek(begin)
        yield from _blocks(file, end - begin)


def _blocks(stream: Any, left: int | None) -> Iterator[bytes]:
    """Blocks of whole lines, without the end of the last one; ``left`` bytes, or all."""
    rest: list[bytes] = []
    while data := stream.read(_READ_BYTES if left is None else min(_READ_BYTES, left)):
        left = None if left is None else left - len(data)
        whole, newline, tail = data.rpartition(_NEWLINE)
        if not newline:
            # A line longer than a block: parts are joined once, not over and over.
            rest.append(data)
            continue
        yield b"".join((*rest, whole))
        rest = [tail]
    if last := b"".join(rest):
        yield last


def _line_start(file: Any, at: int, size: int) -> int:
    """Where the first line begins that does so at a byte or after it; the size of the file when none does."""
    if at == 0 or at >= size:
        return min(at, size)
    # From one byte before: a line that begins exactly here has its newline there.
    file.seek(at - 1, os.SEEK_SET)
    at -= 1
    while data := file.read(_LOOK_BYTES):
        found = int(data.find(_NEWLINE))
        if found >= 0:
            return at + found + 1
        at += len(data)
    return size


def _bare(lines: Any) -> Any:
    """Lines without a carriage return at their ends."""
    ends = pc.binary_slice(lines, -1)
    cut = pc.equal(ends, pa.scalar(b"\r", ends.type))
    return pc.if_else(cut, pc.binary_slice(lines, 0, -1), lines) if pc.any(cut).as_py() else lines


class BadLine(NamedTuple):
    """A line that is no record: its row in the batch, the column (from 1) or None, and why."""

    row: int
    column: int | None
    reason: str


class ParsedLines(NamedTuple):
    """What a batch of lines came to.

    Attributes:
        table: the records.
        rows: the row of each in the batch.
        bad: lines that hold no record.
    """

    table: Any
    rows: Any
    bad: list[BadLine]


def parse_csv(lines: Any, names: tuple[str, ...], needed: tuple[str, ...], delimiter: str) -> ParsedLines:
    """Parse lines of CSV; columns are bytes.

    Arguments:
        lines: an Arrow array of lines, without their ends.
        names: of all columns.
        needed: of those that are wanted.
    """
    bad: list[BadLine] = []
    text = pc.cast(lines, pa.large_binary())
    count = len(text)

    def skip(row: Any) -> str:
        # Arrow counts lines from 1; rows of the batch are counted from 0.
        bad.append(BadLine(row.number - 1, min(row.expected_columns, row.actual_columns) + 1, _columns(row)))
        return "skip"

    # One block for all lines: a call of the parser for each would cost far more.
    block = pc.binary_join(pa.LargeListArray.from_arrays([0, count], text), pa.scalar(b"\n", text.type))[0].as_buffer()
    if count and _is_open(text[-1].as_py()):
        return _csv_by_line(text.to_pylist(), names, needed, delimiter)
    try:
        table = _parsed(block, names, needed, delimiter, skip)
    except pa.ArrowInvalid:
        return _csv_by_line(text.to_pylist(), names, needed, delimiter)
    # A quote that was left open has joined lines without an error.
    if len(table) + len(bad) != count:
        return _csv_by_line(text.to_pylist(), names, needed, delimiter)
    rows = np.delete(np.arange(count), [found.row for found in bad]) if bad else np.arange(count)
    return ParsedLines(table, rows, bad)


def count_of(block: bytes) -> int:
    """How many lines a block has."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == _NEWLINE[0])) + 1


def parse_block(block: bytes, count: int, names: tuple[str, ...], needed: tuple[str, ...], delimiter: str) -> Any:
    """The records of a block of lines, one of each line; None where its lines have to be looked at.

    Arguments:
        count: of the lines.
    """
    # An empty line is no record, but the parser takes it for one where there is one column; what ends a line may have
    # two bytes.
    if len(names) < 2 or b"\r" in block or _is_open(block[block.rfind(_NEWLINE) + 1 :]):
        return None
    try:
        table = _parsed(pa.py_buffer(block), names, needed, delimiter, None)
    except pa.ArrowInvalid:
        return None
    return table if len(table) == count else None


def _parsed(
    block: Any, names: tuple[str, ...], needed: tuple[str, ...], delimiter: str, skip: Callable[[Any], str] | None
) -> Any:
    return pacsv.read_csv(
        pa.BufferReader(block),
        read_options=pacsv.ReadOptions(use_threads=False, column_names=list(names), block_size=len(block) + 1),
        parse_options=pacsv.ParseOptions(delimiter=delimiter, invalid_row_handler=skip, ignore_empty_lines=False),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.large_binary()),
            include_columns=list(needed),
            strings_can_be_null=False,
        ),
    )


def _is_open(line: bytes) -> bool:
    """Whether a quote of the last line of a block may not be closed, which Arrow takes for the end of a field."""
    return bool(line.count(b'"') % 2)


def _columns(row: Any) -> str:
    return f"{plural(row.actual_columns, 'column')}, expected {row.expected_columns}"


def _csv_by_line(lines: list[bytes], names: tuple[str, ...], needed: tuple[str, ...], delimiter: str) -> ParsedLines:
    bad: list[BadLine] = []
    rows: list[int] = []
    found: list[list[str]] = []
    for row, line in enumerate(lines):
        fields = csv_fields(line, len(names), delimiter)
        if isinstance(fields, BadRecord):
            bad.append(BadLine(row, *fields))
            continue
        rows.append(row)
        found.append(fields)
    places = [names.index(name) for name in needed]
    columns = [[record[at].encode("utf-8", "surrogateescape") for record in found] for at in places]
    table = pa.table([pa.array(column, pa.large_binary()) for column in columns], names=list(needed))
    return ParsedLines(table, np.array(rows, np.int64), bad)


def parse_json(lines: Any, needed: tuple[str, ...] | None) -> tuple[list[dict[str, Any]], list[int], list[BadLine]]:
    """Parse JSON lines.

    Arguments:
        lines: an Arrow array of lines.
        needed: columns that every record must have a place for; None for all that it has.

    Returns:
        Records, their rows, and the lines that hold no record.
    """
    records: list[dict[str, Any]] = []
    rows: list[int] = []
    bad: list[BadLine] = []
    for row, line in enumerate(pc.cast(lines, pa.large_binary()).to_pylist()):
        record = json_object(line)
        if isinstance(record, BadRecord):
            bad.append(BadLine(row, *record))
            continue
        rows.append(row)
        records.append(record if needed is None else {name: record.get(name) for name in needed})
    return records, rows, bad
