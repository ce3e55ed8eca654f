"""Merging runs (step 2 of a load).

Every run gives its records batch by batch. In a round a piece of every batch is looked at, and what lies up to the
smallest of the pieces' last keys is taken, put together, sorted and resolved. At least one piece is used up, and no run
holds another record with a key of this round, since a run holds a key once. Pieces are whole batches while the runs are
few, and smaller ones when they are many: a round never holds more than ``_ROUND_BATCHES`` batches, however many runs
there are. The runs themselves are mapped, not read.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from engine.pipeline.load.runs import one_chunk, resolved
from engine.pipeline.load.sorting import Binary, order_of

_ROUND_BATCHES: Final = 32
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
        self._reader = pa.ipc.open_file(pa.memory_map(path))
        self._next = 0
        self._table: Any = pa.table({})
        self._batch_rows = 0
        if low is not None:
            self._skip_to(low)

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

    def _skip_to(self, low: bytes) -> None:
        """Find the batch that holds the first key from ``low`` on."""
        first, last = 0, self._reader.num_record_batches
        while first < last:
            middle = (first + last) // 2
            keys = Binary(self._reader.get_batch(middle)["key"])
            # Only the last key of a mapped batch is touched, so few pages are read.
            if keys.at(len(keys) - 1) < low:
                first = middle + 1
            else:
                last = middle
        self._next = first
        if self._advance():
            self._table = self._table.slice(position(Binary(one_chunk(self._table["key"])), low))


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
