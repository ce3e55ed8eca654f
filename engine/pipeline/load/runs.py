"""Sorted runs: tasks write them from their part of the source (step 1 of a load), and merge them (step 2).

``Binary`` is an Arrow column of byte strings as numpy sees it: offsets and bytes. Keys are sorted by eight bytes at a
time: all keys share a prefix (that of the smallest and the largest); the next eight bytes of each, as a big-endian
number, order nearly all of them, at the speed of numbers. Only keys with equal words are compared in full.

Records are collected up to ``run_bytes``; then they are sorted, all but one of equal keys are dropped, and the rest is
written as an Arrow file with the columns ``key``, ``value`` and ``rank``. The rank decides which of equal keys is
later. A run's samples are keys at equal distances in bytes. The samples of all runs together give the cuts into parts
of about equal size for any distribution of keys (``cuts_of``).

A merge reads every run batch by batch. Each round takes a piece of every run. The records up to the smallest of the
pieces' last keys are concatenated, sorted and deduplicated. No run holds another record with a key of this round, since
a run holds each key once. All pieces have the same size, so nearly all of each piece is used up in the round: about
``_ROUND_BATCHES`` batches for any number of runs. Batches are small, so that many runs can each hold one. More than
``_MOST_RUNS`` runs are merged in two steps: the first step merges groups of them into larger runs. The start of a key
range in a run is searched in a memory map of the file, which touches few pages.

Rows are copied a piece at a time, while they are written; the order of all rows of a run is computed before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
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
    """A column of byte strings: value i is ``data[ends[i] : ends[i + 1]]``.

    Arguments:
        column: an Arrow array of type ``large_binary`` without nulls.
    """

    __slots__ = ("_lengths", "column", "data", "ends")

    def __init__(self, column: Any) -> None:
        self.column = column
        _, offsets, data = column.buffers()
        # A slice shares the buffers of the whole column and begins at its own offset.
        self.ends = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
        self.data = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
        self._lengths: Numbers | None = None

    def __len__(self) -> int:
        return len(self.column)

    @property
    def lengths(self) -> Numbers:
        """Of the values."""
        # Computed on first use, since reading single values does not need the lengths.
        if self._lengths is None:
            self._lengths = np.diff(self.ends)
        return self._lengths

    def at(self, row: int) -> bytes:
        """One value."""
        return self.data[self.ends[row] : self.ends[row + 1]].tobytes()

    def cut(self, start: int, stop: int) -> Binary:
        """Some of the rows, without copying."""
        return Binary(self.column.slice(start, stop - start))

    def matrix(self, rows: Numbers) -> npt.NDArray[np.uint8]:
        """Values of equal length as a matrix, one a row."""
        length = int(self.lengths[rows[0]])
        starts = self.ends[rows]
        # Adjacent rows are a view; only scattered rows are copied.
        if int(starts[-1]) - int(starts[0]) == length * (len(rows) - 1) and (np.diff(starts) == length).all():
            first = int(starts[0])
            return self.data[first : first + length * len(rows)].reshape(len(rows), length)
        if not length:
            return np.empty((len(rows), 0), np.uint8)
        return self._windows(f"V{length}")[starts].view(np.uint8).reshape(len(rows), length)

    def words(self, skip: int) -> npt.NDArray[np.uint64]:
        """Eight bytes of every value after the first ``skip``, as big-endian numbers.

        Short values are padded with zeros.
        """
        left = np.clip(self.lengths - skip, 0, _WORD)
        least = int(left.min()) if len(self) else _WORD
        starts, ends = self.ends[:-1] + skip, self.ends[1:]
        if least == _WORD:
            return self._windows(">u8")[starts].astype(np.uint64) if len(self) else np.empty(0, np.uint64)
        if int(self.lengths.min()) >= _WORD:
            # For a short value, read its last eight bytes and shift out the preceding ones; a shift by all eight bytes
            # is undefined.
            found = self._windows(">u8")[np.minimum(starts, ends - _WORD)].astype(np.uint64)
            return np.where(left > 0, found << ((_WORD - left) * 8 % (_WORD * 8)).astype(np.uint64), np.uint64(0))
        columns = np.arange(_WORD)
        # Indices past the last value must still be valid: what they read is masked out.
        at = np.minimum(starts[:, None] + columns, max(len(self.data) - 1, 0))
        known = columns < left[:, None]
        parts = np.where(known, self.data[at] if len(self.data) else 0, 0).astype(np.uint8)
        return np.ascontiguousarray(parts).view(">u8").reshape(-1).astype(np.uint64)

    def _windows(self, kind: str) -> npt.NDArray[Any]:
        """The bytes viewed as overlapping elements of a type, one starting at every byte."""
        width = np.dtype(kind).itemsize
        return np.ndarray((max(len(self.data) - width + 1, 0),), kind, self.data, 0, (1,))


def order_of(keys: Binary, ranks: Numbers) -> Numbers:
    """The rows in ascending order of key and then of rank."""
    if len(keys) < 2:
        return np.arange(len(keys))
    ends = pc.min_max(keys.column)
    # All keys share the common prefix of the smallest and the largest.
    words = keys.words(common_length(ends["min"].as_py(), ends["max"].as_py()))
    order = np.argsort(words)
    found = words[order]
    # Keys with equal words may differ later, or in zeros at their ends.
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
    """For a sorted column: the rows that begin a new key."""
    fresh = np.ones(len(keys), bool)
    if len(keys) > 1:
        column = keys.column
        fresh[1:] = pc.not_equal(column.slice(1), column.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    return fresh


LAST: Final = "last"
FIRST: Final = "first"
ERROR: Final = "error"
SCHEMA: Final = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary()), ("rank", pa.int64())])

# Records of a batch; a merge holds a batch of each run.
_BATCH_ROWS: Final = 1024
_BATCH_BYTES: Final = 256 << 10
# Number of rows copied at a time.
_PIECE_ROWS: Final = 8192
_SAMPLES: Final = 64
# Keys of samples are truncated to this length; a cut need not be an existing key.
_SAMPLE_BYTES: Final = 64
_SHOWN_KEY_BYTES: Final = 32


class SortedRun(NamedTuple):
    """A sorted run.

    Attributes:
        path: path of the Arrow file.
        records: in it.
        size: bytes of keys and values.
        duplicates: number of dropped records.
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
        keep: which record is kept if several have the same key: ``LAST``, ``FIRST``, or ``ERROR`` to refuse them.
    """

    def __init__(self, directory: str, run_bytes: int, keep: str) -> None:
        self._directory = Path(directory)
        self._run_bytes = run_bytes
        self._keep = keep
        self._tables: list[Any] = []
        self._size = 0
        self._made = 0

    def add(self, table: Any) -> Iterator[SortedRun]:
        """Take records; return the run that is full now, if any.

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
        # The pieces are released before the sort.
        self._tables, self._size = [], 0
        keys, ranks = Binary(one_chunk(table["key"])), one_chunk(table["rank"]).to_numpy()
        order, dropped = resolved(keys, order_of(keys, ranks), self._keep)
        path = self._directory / f"run-{os.getpid()}-{time.time_ns():x}-{self._made}.arrow"
        self._made += 1
        write_run(path, taken(table, order))
        lengths = (keys.lengths + Binary(one_chunk(table["value"])).lengths)[order]
        return SortedRun(str(path), len(order), int(lengths.sum()), dropped, _samples(keys, order, np.cumsum(lengths)))


def write_run(path: Path, tables: Iterable[Any]) -> None:
    """Write a run.

    Arguments:
        tables: sorted tables of ``SCHEMA``.
    """
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, SCHEMA) as writer:
        for table in tables:
            writer.write_table(table, max_chunksize=_rows_a_batch(table))


def taken(table: Any, order: Numbers) -> Iterator[Any]:
    """Rows of a table in the given order, some thousand at a time."""
    for at in range(0, len(order), _PIECE_ROWS):
        yield table.take(pa.array(order[at : at + _PIECE_ROWS]))


def resolved(keys: Binary, order: Numbers, keep: str) -> tuple[Numbers, int]:
    """Drop all but one of equal keys.

    Arguments:
        keys: of all rows.
        order: the rows, sorted by key and rank.
        keep: see ``RunWriter``.

    Returns:
        The rows that are kept, and the number of dropped ones.

    Raises:
        JobError: there are equal keys that must not be dropped.
    """
    fresh = first_of_equals(Binary(keys.column.take(pa.array(order))))
    dropped = len(fresh) - int(fresh.sum())
    if not dropped:
        return order, 0
    if keep == ERROR:
        key = keys.at(int(order[np.flatnonzero(~fresh)[0]]))
        shown = key[:_SHOWN_KEY_BYTES].hex() + ("..." if len(key) > _SHOWN_KEY_BYTES else "")
        raise JobError("two records have the same key", found=f"0x{shown}")
    # The last of equal keys is the row before the next new key.
    if keep == LAST:
        fresh = np.append(fresh[1:], True)
    return order[fresh], dropped


def cuts_of(runs: list[SortedRun], parts: int) -> list[bytes]:
    """Keys that cut all runs into parts of about equal size.

    Returns:
        At most ``parts`` - 1 keys, ascending; a part begins at one cut, inclusive, and ends before the next.
    """
    # A sample is weighted by its share of its run, so that small runs do not dominate the cuts.
    weighted = sorted((sample, run.size / len(run.samples)) for run in runs for sample in run.samples)
    total = sum(weight for _, weight in weighted)
    cuts: list[bytes] = []
    seen = 0.0
    for sample, weight in weighted:
        seen += weight
        # Cuts ascend strictly, so that a frequent key does not make empty parts.
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


def _samples(keys: Binary, order: Numbers, ends: Any) -> tuple[bytes, ...]:
    if not len(order):
        return ()
    wanted = np.linspace(0, int(ends[-1]), min(_SAMPLES, len(order)) + 1)[1:]
    # Rounding must not lead past the last row.
    rows = np.minimum(np.searchsorted(ends, wanted), len(order) - 1)
    return tuple(keys.at(int(order[row]))[:_SAMPLE_BYTES] for row in rows)


_ROUND_BATCHES: Final = 32
_MOST_RUNS: Final = 192


class Merge:
    """The records of many runs in one order.

    Arguments:
        paths: of the runs.
        low, high: keys from ``low`` on, below ``high``; None for no limit.
        keep: which of equal keys stays (``runs``).
        most_runs, round_batches: runs open at once, each with a batch in memory; batches of a round.

    Attributes:
        duplicates: number of records dropped so far.
    """

    def __init__(
        self,
        paths: Sequence[str],
        low: bytes | None,
        high: bytes | None,
        keep: str,
        *,
        most_runs: int = _MOST_RUNS,
        round_batches: int = _ROUND_BATCHES,
    ) -> None:
        self._paths = paths
        self._most_runs, self._round_batches = most_runs, round_batches
        self._low, self._high = low, high
        self._keep = keep
        self.duplicates = 0

    def tables(self) -> Iterator[Any]:
        """Tables of ``SCHEMA`` with some thousand records at most, ascending, every key once.

        Raises:
            JobError: equal keys, where none may be dropped.
        """
        paths, made = self._paths, list[Path]()
        try:
            while len(paths) > self._most_runs:
                # Make as few groups as possible, of about equal size, since each grouped run is written once more.
                groups = -(-len(paths) // self._most_runs)
                earlier = made
                made = [self._made_of(paths[number::groups]) for number in range(groups)]
                _remove(earlier)
                paths = [str(path) for path in made]
            yield from self._merged(paths)
        finally:
            _remove(made)

    def _made_of(self, paths: Sequence[str]) -> Path:
        """Merge the range of several runs into one run."""
        path = Path(paths[0]).with_name(f"merged-{os.getpid()}-{time.time_ns():x}.arrow")
        write_run(path, self._merged(paths))
        return path

    def _merged(self, paths: Sequence[str]) -> Iterator[Any]:
        cursors = [_Cursor(path, self._low, self._high) for path in paths]
        while cursors := [cursor for cursor in cursors if cursor.fill(self._round_batches, len(cursors))]:
            if len(cursors) == 1:
                # A run holds each key once, so a single remaining run needs no comparison of keys.
                yield cursors[0].take_all()
            else:
                # All records up to the smallest of the pieces' last keys are in memory.
                pivot = min(cursor.last_key() for cursor in cursors)
                found = pa.Table.from_batches([cursor.take_to(pivot) for cursor in cursors]).combine_chunks()
                keys, ranks = Binary(one_chunk(found["key"])), one_chunk(found["rank"]).to_numpy()
                order, dropped = resolved(keys, order_of(keys, ranks), self._keep)
                self.duplicates += dropped
                yield from taken(found, order)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


class _Cursor:
    """A position in one run, with the records read from there.

    Arguments:
        path: of the run.
        low, high: the range of keys.
    """

    def __init__(self, path: str, low: bytes | None, high: bytes | None) -> None:
        self._low, self._high = low, high
        self._next = 0
        self._batch_rows = self._piece = 1
        if low is not None:
            with pa.memory_map(path) as mapped:
                self._next = _batch_of(pa.ipc.open_file(mapped), low)
        # The file is not mapped, since all pages read so far would stay in memory.
        self._reader = pa.ipc.open_file(pa.OSFile(path))
        # Records from ``_at`` to ``_stop`` are still to be returned.
        self._batch: Any = _one_batch([], SCHEMA)
        self._keys = Binary(self._batch["key"])
        self._at = self._stop = 0

    def fill(self, round_batches: int, runs: int) -> bool:
        """Read the piece of this run for a round; return whether a record is left."""
        count = self._reader.num_record_batches
        batches: list[Any] = []
        rows = self._stop - self._at
        self._piece = max(self._batch_rows * round_batches // runs, 1)
        while self._next < count and rows < self._piece:
            batches.append(batch := self._reader.get_batch(self._next))
            self._batch_rows = len(batch)
            self._piece = max(self._batch_rows * round_batches // runs, 1)
            rows += len(batch)
            self._next += 1
        if batches:
            self._take_in(batches)
        return self._at < self._stop

    def _take_in(self, batches: list[Any]) -> None:
        if self._at < self._stop:
            batches.insert(0, self._batch.slice(self._at, self._stop - self._at))
        self._batch = batches[0] if len(batches) == 1 else _one_batch(batches, SCHEMA)
        self._keys = Binary(self._batch["key"])
        self._at, self._stop = 0, len(self._keys)
        if self._high is not None and self._keys.at(self._stop - 1) >= self._high:
            # The first key beyond the range ends the run.
            self._stop = position(self._keys, self._high, 0, self._stop)
            self._next = self._reader.num_record_batches
        # Only the first batch can hold keys below the range.
        if self._low is not None:
            self._at = position(self._keys, self._low, 0, self._stop)
            self._low = None

    def last_key(self) -> bytes:
        """The last key of the piece."""
        return self._keys.at(min(self._at + self._piece, self._stop) - 1)

    def take_to(self, pivot: bytes) -> Any:
        """The records up to a key, inclusive."""
        # The smallest key after the pivot, so that the pivot itself is included.
        start, self._at = self._at, position(self._keys, pivot + b"\0", self._at, self._stop)
        return self._batch.slice(start, self._at - start)

    def take_all(self) -> Any:
        """The rest of the piece, as a table."""
        start, self._at = self._at, self._stop
        return pa.Table.from_batches([self._batch.slice(start, self._stop - start)])


def _one_batch(batches: list[Any], schema: Any) -> Any:
    """Batches as one."""
    columns = [one_chunk(column) for column in pa.Table.from_batches(batches, schema).columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


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


def position(keys: Binary, key: bytes, first: int, last: int) -> int:
    """Index of the first key that is not smaller than ``key``, among the sorted keys ``first`` to ``last`` - 1."""
    while first < last:
        middle = (first + last) // 2
        if keys.at(middle) < key:
            first = middle + 1
        else:
            last = middle
    return first
