"""Sorted runs: what a task makes of its part of the source (step 1 of a load).

Records collect until they take ``run_bytes``; then they are sorted, all but one of equal keys dropped, and written as
an Arrow file with the columns ``key``, ``value`` and ``rank``. The rank says which of equal keys is the later one.

A run's samples are keys at equal distances in bytes. Those of all runs together say where to cut them into parts of
about equal size, however the keys are distributed (``cuts_of``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from engine.errors import JobError
from engine.pipeline.load.sorting import Binary, first_of_equals, order_of

LAST: Final = "last"
FIRST: Final = "first"
ERROR: Final = "error"
SCHEMA: Final = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary()), ("rank", pa.int64())])

_BATCH_ROWS: Final = 8192
_BATCH_BYTES: Final = 4 << 20
_SAMPLES: Final = 64
# Keys of samples are cut to this; a cut need not be a key.
_SAMPLE_BYTES: Final = 64
_SHOWN_KEY_BYTES: Final = 32


class SortedRun(NamedTuple):
    """A sorted run.

    Attributes:
        path: of the Arrow file.
        records: in it.
        size: bytes of keys and values.
        duplicates: records that were dropped.
        samples: keys, ascending, with about equal numbers of bytes between them.
    """

    path: str
    records: int
    size: int
    duplicates: int
    samples: tuple[bytes, ...]


class RunWriter:
    """Collects records and writes runs.

    Arguments:
        directory: where runs are written.
        run_bytes: size of a run.
        keep: which of equal keys stays: ``LAST``, ``FIRST``, or ``ERROR`` for none.
    """

    def __init__(self, directory: str, run_bytes: int, keep: str) -> None:
        self._directory = Path(directory)
        self._run_bytes = run_bytes
        self._keep = keep
        self._tables: list[Any] = []
        self._size = 0
        self._made = 0

    def add(self, table: Any) -> Iterator[SortedRun]:
        """Take records; gives the run that this has filled, if any.

        Arguments:
            table: of ``SCHEMA``.
        """
        if not len(table):
            return
        self._tables.append(table)
        self._size += table.nbytes
        if self._size >= self._run_bytes:
            yield self._write()

    def finish(self) -> Iterator[SortedRun]:
        """The last run, if any."""
        if self._tables:
            yield self._write()

    def _write(self) -> SortedRun:
        table = pa.concat_tables(self._tables).combine_chunks()
        # The pieces go before the sort, which makes a copy of its own.
        self._tables, self._size = [], 0
        keys, ranks = Binary(one_chunk(table["key"])), one_chunk(table["rank"]).to_numpy()
        kept, dropped = resolved(table.take(pa.array(order_of(keys, ranks))), self._keep)
        path = self._directory / f"run-{os.getpid()}-{time.time_ns():x}-{self._made}.arrow"
        self._made += 1
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
            writer.write_table(kept, max_chunksize=_rows_a_batch(kept))
        lengths = Binary(one_chunk(kept["key"])).lengths + Binary(one_chunk(kept["value"])).lengths
        return SortedRun(str(path), len(kept), int(lengths.sum()), dropped, _samples(kept, np.cumsum(lengths)))


def resolved(table: Any, keep: str) -> tuple[Any, int]:
    """Drop all but one of equal keys.

    Arguments:
        table: sorted by key and rank.
        keep: see ``RunWriter``.

    Returns:
        The table, and how many records were dropped.

    Raises:
        JobError: there are equal keys, and none may be dropped.
    """
    keys = Binary(one_chunk(table["key"]))
    fresh = first_of_equals(keys)
    dropped = len(fresh) - int(fresh.sum())
    if not dropped:
        return table, 0
    if keep == ERROR:
        key = keys.at(int(np.flatnonzero(~fresh)[0]))
        shown = key[:_SHOWN_KEY_BYTES].hex() + ("..." if len(key) > _SHOWN_KEY_BYTES else "")
        raise JobError("two records have the same key", found=f"0x{shown}")
    # The last of equal keys is the row before the next fresh one.
    if keep == LAST:
        fresh = np.append(fresh[1:], True)
    return table.filter(pa.array(fresh)), dropped


def cuts_of(runs: list[SortedRun], parts: int) -> list[bytes]:
    """Keys that cut all runs into parts of about equal size.

    Returns:
        At most ``parts`` - 1 keys, ascending; a part holds the keys from one cut, inclusive, to the next.
    """
    # A sample stands for its share of its run, so that small runs do not draw the cuts.
    weighted = sorted((sample, run.size / len(run.samples)) for run in runs for sample in run.samples)
    total = sum(weight for _, weight in weighted)
    cuts: list[bytes] = []
    seen = 0.0
    for sample, weight in weighted:
        seen += weight
        # Cuts ascend strictly: one frequent key must not make parts without keys.
        if seen >= total * (len(cuts) + 1) / parts and len(cuts) < parts - 1 and (not cuts or sample > cuts[-1]):
            cuts.append(sample)
    return cuts


def one_chunk(column: Any) -> Any:
    """A column of a table as one array."""
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], column.type)


def _rows_a_batch(table: Any) -> int:
    average = max(table.nbytes // max(len(table), 1), 1)
    return int(max(1, min(_BATCH_ROWS, _BATCH_BYTES // average)))


def _samples(table: Any, ends: Any) -> tuple[bytes, ...]:
    if not len(table):
        return ()
    wanted = np.linspace(0, int(ends[-1]), min(_SAMPLES, len(table)) + 1)[1:]
    # Rounding must not lead past the last row.
    rows = np.minimum(np.searchsorted(ends, wanted), len(table) - 1)
    keys = Binary(one_chunk(table["key"]))
    return tuple(keys.at(int(row))[:_SAMPLE_BYTES] for row in rows)
