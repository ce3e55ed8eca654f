"""Sorted runs: what a task makes of its part of the source (step 1 of a load), and merging them (step 2).

``Binary`` is an Arrow column of byte strings as numpy sees it: offsets and bytes. Keys are sorted by eight bytes at a
time: all keys share a prefix (that of the smallest and the largest); the next eight bytes of each, as a big-endian
number, order nearly all of them, at the speed of numbers. Only keys that tie there are compared in full.

Records collect until they take ``run_bytes``; then they are sorted, all but one of equal keys dropped, and written as
an Arrow file with the columns ``key``, ``value`` and ``rank``. The rank says which of equal keys is the later one. A
run's samples are keys at equal distances in bytes. Those of all runs together say where to cut them into parts of about
equal size, however the keys are distributed (``cuts_of``).

In a merge every run gives its records batch by batch. In a round a piece of every batch is looked at, and what lies up
to the smallest of the pieces' last keys is taken, put together, sorted and resolved. At least one piece is used up, and
no run holds another record with a key of this round, since a run holds a key once. Pieces are whole batches while the
runs are few, and smaller ones when they are many: a round never holds more than ``_ROUND_BATCHES`` batches, however
many runs there are. Batches are read one at a time. Where a range of keys begins in a run is looked for in a map of the
file, of which few pages are touched.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import JobError

Numbers = npt.NDArray[np.int64]
_WORD: Final = 8


class Binary:
    """A column of byte strings.

    Arguments:
        column: an Arrow array of type ``large_binary`` without nulls.

    Attributes:
        lengths: of the values.
    """

    __slots__ = ("_bytes", "_starts", "column", "lengths")

    def __init__(self, column: Any) -> None:
        self.column = column
        _, offsets, data = column.buffers()
        # A slice shares the buffers of the whole column and begins at its own offset.
        ends = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
        self._starts = ends[:-1]
        self.lengths: Numbers = np.diff(ends)
        self._bytes = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)

    def __len__(self) -> int:
        return len(self.lengths)

    def at(self, row: int) -> bytes:
        """One value."""
        start = int(self._starts[row])
        return self._bytes[start : start + int(self.lengths[row])].tobytes()

    def cut(self, start: int, stop: int) -> Binary:
        """Some of the rows, without copying."""
        return Binary(self.column.slice(start, stop - start))

    def matrix(self, rows: Numbers) -> npt.NDArray[np.uint8]:
        """Values of equal length, one a row."""
        length = int(self.lengths[rows[0]])
        starts = self._starts[rows]
        # Neighbours in memory are a view; only scattered rows are copied.
        if int(starts[-1]) - int(starts[0]) == length * (len(rows) - 1) and (np.diff(starts) == length).all():
            first = int(starts[0])
            return self._bytes[first : first + length * len(rows)].reshape(len(rows), length)
        found: npt.NDArray[np.uint8] = self._bytes[starts[:, None] + np.arange(length)]
        return found

    def words(self, skip: int) -> npt.NDArray[np.uint64]:
        """The eight bytes of every value after the first ``skip``, as big-endian numbers; short ones end in zeros."""
        left = np.maximum(self.lengths - skip, 0)
        columns = np.arange(_WORD)
        if len(self) and int(left.min()) >= _WORD:
            parts = self._bytes[(self._starts + skip)[:, None] + columns]
        else:
            # Indices past the last value must still be valid: what they read is masked out.
            at = np.minimum((self._starts + skip)[:, None] + columns, max(len(self._bytes) - 1, 0))
            known = columns < left[:, None]
            parts = np.where(known, self._bytes[at] if len(self._bytes) else 0, 0).astype(np.uint8)
        return np.ascontiguousarray(parts).view(">u8").reshape(-1).astype(np.uint64)


def order_of(keys: Binary, ranks: Numbers) -> Numbers:
    """The rows in ascending order of key and, where keys are equal, of rank."""
    if len(keys) < 2:
        return np.arange(len(keys))
    ends = pc.min_max(keys.column)
    # All keys share what the smallest and the largest share.
    words = keys.words(common_length(ends["min"].as_py(), ends["max"].as_py()))
    order = np.argsort(words)
    found = words[order]
    # Equal words prove nothing: keys may differ later on, or in zeros at their ends.
    same = found[1:] == found[:-1]
    if not same.any():
        return order
    tied = np.zeros(len(order), bool)
    tied[1:] |= same
    tied[:-1] |= same
    at = np.flatnonzero(tied)
    rows = order[at]
    table = pa.table({"key": keys.column.take(pa.array(rows)), "rank": ranks[rows], "row": rows})
    wanted = [("key", "ascending"), ("rank", "ascending"), ("row", "ascending")]
    order[at] = rows[pc.sort_indices(table, sort_keys=wanted).to_numpy()]
    return order


def common_length(low: bytes, high: bytes) -> int:
    """Length of the common prefix."""
    for index, (a, b) in enumerate(zip(low, high, strict=False)):
        if a != b:
            return index
    return min(len(low), len(high))


def first_of_equals(keys: Binary) -> npt.NDArray[np.bool_]:
    """In a sorted column, which rows begin a new key."""
    fresh = np.ones(len(keys), bool)
    if len(keys) > 1:
        column = keys.column
        fresh[1:] = pc.not_equal(column.slice(1), column.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    return fresh


LAST: Final = "last"
FIRST: Final = "first"
ERROR: Final = "error"
SCHEMA: Final = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary()), ("rank", pa.int64())])

# A merge holds a batch of each run; smaller ones cost it more rounds.
_BATCH_ROWS: Final = 8192
_BATCH_BYTES: Final = 2 << 20
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


_ROUND_BATCHES: Final = 8
_OWN_FILES: Final = 256


class Merge:
    """The records of many runs in one order.

    Arguments:
        paths: of the runs.
        low, high: keys from ``low`` on, below ``high``; None for no limit.
        keep: which of equal keys stays (``runs``).

    Attributes:
        duplicates: records dropped so far.
    """

    def __init__(self, paths: list[str], low: bytes | None, high: bytes | None, keep: str) -> None:
        self._paths = paths
        self._low, self._high = low, high
        self._keep = keep
        self.duplicates = 0

    def tables(self) -> Iterator[Any]:
        """Tables with the columns ``key`` and ``value``, ascending, every key once.

        Raises:
            JobError: equal keys, where none may be dropped.
        """
        # Every run stays open to the end.
        _allow_files(len(self._paths))
        cursors = [cursor for path in self._paths if (cursor := _Cursor(path, self._low, self._high)).ready()]
        while cursors:
            if len(cursors) == 1:
                # A run holds a key once, so the last one needs no comparison.
                yield cursors[0].take_all()
            else:
                # Up to the least of the last keys every run's records are in its present batch.
                pivot = min(cursor.last_key(len(cursors)) for cursor in cursors)
                found = pa.concat_tables([cursor.take_to(pivot) for cursor in cursors]).combine_chunks()
                keys, ranks = Binary(one_chunk(found["key"])), one_chunk(found["rank"]).to_numpy()
                table, dropped = resolved(found.take(pa.array(order_of(keys, ranks))), self._keep)
                self.duplicates += dropped
                yield table
            cursors = [cursor for cursor in cursors if cursor.ready()]


class _Cursor:
    """A place in one run."""

    def __init__(self, path: str, low: bytes | None, high: bytes | None) -> None:
        self._high = high
        self._next = 0
        self._table: Any = pa.table({})
        self._batch_rows = 0
        if low is not None:
            with pa.memory_map(path) as mapped:
                self._next = _batch_of(pa.ipc.open_file(mapped), low)
        # Not mapped: pages of all that was read so far would stay in memory.
        self._reader = pa.ipc.open_file(pa.OSFile(path))
        if low is not None and self._advance():
            self._table = self._table.slice(position(Binary(one_chunk(self._table["key"])), low))

    def ready(self) -> bool:
        """Whether there is a record left; the next batch is read when this one is used up."""
        return len(self._table) > 0 or self._advance()

    def _advance(self) -> bool:
        while self._next < self._reader.num_record_batches:
            batch = self._reader.get_batch(self._next)
            self._next += 1
            keys = Binary(batch["key"])
            stop = len(keys) if self._high is None else position(keys, self._high)
            # The first key beyond the range ends the run.
            if stop < len(keys):
                self._next = self._reader.num_record_batches
            if stop:
                self._table = pa.Table.from_batches([batch.slice(0, stop)])
                self._batch_rows = stop
                return True
        return False

    def last_key(self, runs: int) -> bytes:
        """The last key of the piece that this run gives to a round of so many runs."""
        rows = min(max(self._batch_rows * _ROUND_BATCHES // runs, 1), len(self._table))
        return Binary(one_chunk(self._table["key"])).at(rows - 1)

    def take_to(self, pivot: bytes) -> Any:
        """The records of the batch up to a key, inclusive."""
        keys = Binary(one_chunk(self._table["key"]))
        # The smallest key after the pivot: up to here the pivot itself is included.
        stop = position(keys, pivot + b"\0")
        taken = self._table.slice(0, stop)
        self._table = self._table.slice(stop)
        return taken

    def take_all(self) -> Any:
        """The rest of the batch."""
        taken, self._table = self._table, self._table.slice(len(self._table))
        return taken


def _batch_of(reader: Any, low: bytes) -> int:
    """The batch of a mapped run that holds the first key from ``low`` on."""
    first, last = 0, reader.num_record_batches
    while first < last:
        middle = (first + last) // 2
        keys = Binary(reader.get_batch(middle)["key"])
        # Only the last key of a mapped batch is touched, so few pages are read.
        if keys.at(len(keys) - 1) < low:
            first = middle + 1
        else:
            last = middle
    return first


def _allow_files(count: int) -> None:
    """Let this process open so many files beside its own, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _OWN_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def position(keys: Binary, key: bytes) -> int:
    """How many of sorted keys are smaller than a key."""
    first, last = 0, len(keys)
    while first < last:
        middle = (first + last) // 2
        if keys.at(middle) < key:
            first = middle + 1
        else:
            last = middle
    return first
