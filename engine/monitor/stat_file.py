"""JE's own statistics: ``je.stat.csv`` and ``je.config.csv``, which JE's StatCapture writes beside the log.

The first line has the names of the columns, ``time`` and ``Group:name``. Every ``je.stats.collect.interval`` (a minute)
JE appends a row; values that are 0 are blank. When a file has ``je.stats.max.files`` rows or the columns change, JE
renames it and begins a new one. A release of JE has its own set of columns, about 200.

Example::

    time,Cache:cacheTotalBytes,Checkpoints:nCheckpoints
    2026-11-28 12:45:27.284 UTC,3159893,1
    2026-11-28 12:45:46.243 UTC,121830264,
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from engine.errors import NotFoundError, UnsupportedError, plural
from engine.storage.base import Storage

STAT_FILE: Final = "je.stat.csv"
CONFIG_FILE: Final = "je.config.csv"
TIME: Final = "time"
CACHE_BYTES: Final = "Cache:cacheTotalBytes"
# The files that JE renames have a thousand rows of a few kilobytes.
_MOST_BYTES: Final = 64 << 20
_MOST_LINE_BYTES: Final = 1 << 18
_MOST_COLUMNS: Final = 4_000


class StatRow(NamedTuple):
    """A row.

    Attributes:
        time: in ms since 1970; None if it cannot be read.
        values: the texts of the columns, without the time; blank ones are left out.
    """

    time: int | None
    values: dict[str, str]

    def number(self, name: str) -> float | None:
        """The value of a column as a finite number; 0 if it is blank, None if it is no number."""
        try:
            found = float(self.values.get(name) or 0)
        except ValueError:
            return None
        return found if math.isfinite(found) else None


class StatHistory(NamedTuple):
    """A whole file: names of the columns without the time, rows, and the number of lines that are no rows."""

    columns: tuple[str, ...]
    rows: tuple[StatRow, ...]
    bad_lines: int


def read_stat_file(storage: Storage, path: str) -> StatHistory:
    """Read a file of JE's statistics.

    Raises:
        NotFoundError: no such file. UnsupportedError: it is no such file, or too large. StorageError: it cannot be
            read.
    """
    file = storage.open(path)
    try:
        size = file.size()
        if size > _MOST_BYTES:
            raise UnsupportedError(
                "too large for JE's statistics",
                file=f"{storage.root}/{path}",
                expected=f"up to {_MOST_BYTES} bytes",
                found=plural(size, "byte"),
            )
        # The last line may still be being written.
        text = file.read(0, size)
    finally:
        file.close()
    lines = text[: text.rfind(b"\n") + 1].decode("utf-8", "replace").split("\n")[:-1]
    columns = _columns(lines[0]) if lines else ()
    if not columns:
        raise UnsupportedError(
            "not a file of JE's statistics",
            file=f"{storage.root}/{path}",
            expected="a first line that begins with time, and has names such as Cache:cacheTotalBytes",
            found=plural(len(lines), "line"),
            hint="JE's file is je.stat.csv, in the directory of the log",
        )
    rows = [_row(columns, line) for line in lines[1:]]
    good = tuple(row for row in rows if row is not None)
    return StatHistory(columns, good, len(rows) - len(good))


class LastRow:
    """The last row of a file that JE appends to: after the first time only new bytes are read.

    Arguments:
        storage: the environment.
        path: the file.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._columns: tuple[str, ...] = ()
        self._head = b""
        self._read = 0
        self._row: StatRow | None = None

    def read(self) -> StatRow | None:
        """The last whole row; None without one. Raises StorageError."""
        try:
            file = self._storage.open(self._path)
        except NotFoundError:
            return None
        try:
            size = file.size()
            head = file.read(0, min(len(self._head) or _MOST_LINE_BYTES, _MOST_LINE_BYTES))
            # Another first line, or a shorter file: JE has begun a new one.
            if size < self._read or head != self._head or not self._head:
                line, end, _ = head.partition(b"\n")
                # A line without an end is still being written.
                self._head = line + end if end else b""
                self._columns = _columns(line.decode("utf-8", "replace")) if end else ()
                self._read, self._row = len(self._head), None
            start = max(self._read, size - _MOST_LINE_BYTES)
            data = file.read(start, size - start) if self._columns and size > start else b""
        finally:
            file.close()
        whole = data[: data.rfind(b"\n") + 1]
        self._read = start + len(whole)
        lines = whole.decode("utf-8", "replace").split("\n")[:-1]
        found = _row(self._columns, lines[-1]) if lines else None
        self._row = found or self._row
        return self._row


def _columns(line: str) -> tuple[str, ...]:
    names = next(_cells([line]), [])
    is_one = 1 < len(names) <= _MOST_COLUMNS and names[0] == TIME and all(":" in name for name in names[1:])
    return tuple(names[1:]) if is_one else ()


def _row(columns: Sequence[str], line: str) -> StatRow | None:
    """A row; None if the line has another number of cells."""
    cells = next(_cells([line]), [])
    if len(cells) != len(columns) + 1:
        return None
    values = {name: text.strip() for name, text in zip(columns, cells[1:], strict=True)}
    return StatRow(_time_ms(cells[0]), {name: text for name, text in values.items() if text})


def _cells(lines: Sequence[str]) -> Iterator[list[str]]:
    try:
        # Without strictness a quote in a damaged line only changes the cells of that line.
        yield from csv.reader(lines)
    except csv.Error:
        return


def _time_ms(text: str) -> int | None:
    """``2026-11-28 12:45:27.284 UTC`` in ms since 1970; None for another form."""
    try:
        parsed = datetime.strptime(text.strip(), "%Y-%m-%d %H:%M:%S.%f UTC").replace(tzinfo=UTC)
    except ValueError:
        return None
    return round(parsed.timestamp() * 1000)
