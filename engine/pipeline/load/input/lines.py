"""Lines of text files, and their columns: CSV and JSON, one record a line.

Lines are read from a whole file, which may be compressed, or from a range of its bytes. A batch of CSV lines is parsed
as one block. If that does not give one row per line (an unclosed quote swallows the following lines), the batch is
parsed line by line instead, so that only the bad line is rejected. A block of a file is parsed directly
(``parse_block``) if the result is the same: every line is a valid record.
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

# Parsing needs about ten times the memory of a block.
_READ_BYTES: Final = 2 << 20
_LOOK_BYTES: Final = 1 << 16
_NEWLINE: Final = b"\n"


def blocks_of(
    path: str, start: int, stop: int | None, read_bytes: int = _READ_BYTES, look_bytes: int = _LOOK_BYTES
) -> Iterator[bytes]:
    """Blocks of whole lines in order, without the end of the last line.

    Arguments:
        path: of the file.
        start, stop: range in bytes; a line belongs to the range of its first byte. If ``stop`` is None, the file is
            read from its beginning, and decompressed according to its name.
        read_bytes: how much is read at a time; a line may be longer.
        look_bytes: the same in the search for the first line.

    Raises:
        OSError: the file cannot be read, or its compression is damaged.
    """
    if stop is None:
        with pa.input_stream(path, compression="detect") as stream:
            yield from _blocks(stream, None, read_bytes)
        return
    with pa.OSFile(path) as file:
        size = file.size()
        begin, end = (_line_start(file, at, size, look_bytes) for at in (start, stop))
        file.seek(begin)
        yield from _blocks(file, end - begin, read_bytes)


def lines_of(block: bytes) -> Any:
    """The lines of a block, without their ends, as an array of ``large_binary``."""
    # Blocks lack their last newline, which would add an empty line.
    return _bare(pc.split_pattern(pa.array([block], pa.large_binary()), _NEWLINE)[0].values)


def first_lines(path: str, count: int) -> list[bytes]:
    """The first lines of a file; fewer if it is shorter."""
    found: list[bytes] = []
    with pa.input_stream(path, compression="detect") as stream:
        rest = b""
        while len(found) < count and (data := stream.read(_LOOK_BYTES)):
            *whole, rest = (rest + data).split(_NEWLINE)
            found += whole
    if rest and len(found) < count:
        # The last line may lack a newline.
        found.append(rest)
    return [line.rstrip(b"\r") for line in found[:count]]


def _blocks(stream: Any, left: int | None, read_bytes: int) -> Iterator[bytes]:
    """Blocks of whole lines, without the end of the last one; up to ``left`` bytes, or all."""
    rest: list[bytes] = []
    while data := stream.read(read_bytes if left is None else min(read_bytes, left)):
        left = None if left is None else left - len(data)
        whole, newline, tail = data.rpartition(_NEWLINE)
        if not newline:
            # A line longer than a block: its parts are joined only once.
            rest.append(data)
            continue
        yield b"".join((*rest, whole))
        rest = [tail]
    if last := b"".join(rest):
        yield last


def _line_start(file: Any, at: int, size: int, look_bytes: int) -> int:
    """Where the first line at or after a byte begins; the size of the file if no line does."""
    if at == 0 or at >= size:
        return min(at, size)
    # Start one byte earlier, where the newline is if a line begins exactly here.
    file.seek(at - 1, os.SEEK_SET)
    at -= 1
    while data := file.read(look_bytes):
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
    """A line that is not a record: its row in the batch, the column (from 1) or None, and the reason."""

    row: int
    column: int | None
    reason: str


class ParsedLines(NamedTuple):
    """The result of parsing a batch of lines.

    Attributes:
        table: the records.
        rows: the row of each record in the batch.
        bad: lines that are not records.
    """

    table: Any
    rows: Any
    bad: list[BadLine]


def parse_csv(lines: Any, names: tuple[str, ...], needed: tuple[str, ...], delimiter: str) -> ParsedLines:
    """Parse lines of CSV; columns are bytes.

    Arguments:
        lines: an Arrow array of lines, without their ends.
        names: of all columns.
        needed: names of the wanted columns.
    """
    bad: list[BadLine] = []
    text = pc.cast(lines, pa.large_binary())
    count = len(text)

    def skip(row: Any) -> str:
        # Arrow counts lines from 1; rows of the batch are counted from 0.
        bad.append(BadLine(row.number - 1, min(row.expected_columns, row.actual_columns) + 1, _columns(row)))
        return "skip"

    # Parse all lines as one block: a call of the parser for each line would cost far more.
    block = pc.binary_join(pa.LargeListArray.from_arrays([0, count], text), pa.scalar(b"\n", text.type))[0].as_buffer()
    if count and _is_open(text[-1].as_py()):
        return _csv_by_line(text.to_pylist(), names, needed, delimiter)
    try:
        table = _parsed(block, names, needed, delimiter, skip)
    except pa.ArrowInvalid:
        return _csv_by_line(text.to_pylist(), names, needed, delimiter)
    # An unclosed quote has joined lines without an error.
    if len(table) + len(bad) != count:
        return _csv_by_line(text.to_pylist(), names, needed, delimiter)
    rows = np.delete(np.arange(count), [found.row for found in bad]) if bad else np.arange(count)
    return ParsedLines(table, rows, bad)


def count_of(block: bytes) -> int:
    """Number of lines in a block."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == _NEWLINE[0])) + 1


def parse_block(block: bytes, count: int, names: tuple[str, ...], needed: tuple[str, ...], delimiter: str) -> Any:
    """The records of a block of lines, one for each line; None if its lines must be parsed one by one.

    Arguments:
        count: of the lines.
    """
    # An empty line is not a record, but the parser treats it as one if there is one column. A line end may have two
    # bytes.
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
        needed: columns that the result must have; None for the columns that occur.

    Returns:
        Records, their rows, and the lines that are not records.
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
