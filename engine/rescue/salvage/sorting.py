"""Rows in order, with bounded memory.

Rows are tuples of numbers, bytes and None that compare with one another. As many as fit are sorted in memory and go to
a nameless temporary file as a run; at the end the runs are merged. Runs are merged in two levels when there are many,
so that the number of open files is bounded too.
"""

from __future__ import annotations

import heapq
import marshal
import tempfile
from collections.abc import Iterator
from typing import IO, Any, Final

from engine.errors import StorageError

Row = tuple[Any, ...]

_MOST_BYTES: Final = 64 << 20
_ROW_BYTES: Final = 200
_MOST_RUNS: Final = 64
_BATCH: Final = 256


class SortedRows:
    """Takes rows in any order and gives them back in theirs.

    Arguments:
        most_bytes: what rows may take in memory, about.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._rows: list[Row] = []
        self._held = 0
        self._runs: list[IO[bytes]] = []

    def add(self, row: Row, size: int) -> None:
        """One more row.

        Arguments:
            size: bytes of its keys and data.

        Raises:
            StorageError: the temporary directory is full.
        """
        self._rows.append(row)
        self._held += size + _ROW_BYTES
        if self._held >= self._most_bytes:
            self._spill()

    def __iter__(self) -> Iterator[Row]:
        """All rows in order; once."""
        self._rows.sort()
        if not self._runs:
            yield from self._rows
            return
        yield from heapq.merge(*map(_read, self._runs), self._rows)

    def close(self) -> None:
        """Give the temporary files back."""
        for run in self._runs:
            run.close()
        self._runs.clear()

    def _spill(self) -> None:
        self._rows.sort()
        self._runs.append(_written(iter(self._rows)))
        self._rows, self._held = [], 0
        if len(self._runs) >= _MOST_RUNS:
            merged = _written(heapq.merge(*map(_read, self._runs)))
            self.close()
            self._runs.append(merged)


def _written(rows: Iterator[Row]) -> IO[bytes]:
    try:
        # Without a name: it is gone with the process, however that ends.
        file = tempfile.TemporaryFile(buffering=1 << 16)  # noqa: SIM115 - closed by ``close``
        batch: list[Row] = []
        for row in rows:
            batch.append(row)
            if len(batch) == _BATCH:
                marshal.dump(batch, file)
                batch = []
        marshal.dump(batch, file)
        # An empty batch ends the run.
        marshal.dump([], file)
        file.flush()
    except OSError as error:
        raise StorageError(
            "cannot write a temporary file",
            file=tempfile.gettempdir(),
            found=error.strerror,
            consequence="nothing was written",
            hint="make room there, or name another directory with TMPDIR",
        ) from error
    return file


def _read(file: IO[bytes]) -> Iterator[Row]:
    file.seek(0)
    while batch := marshal.load(file):
        yield from batch
