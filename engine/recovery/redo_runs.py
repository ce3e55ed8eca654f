"""Records that wait for redo and are more than memory holds: sorted runs in a scratch file.

A tree that does not fit into the cache is visited once, in the order of its keys, whatever the size of the log: each of
its nodes is read, changed and put away once. A run is a batch that was collected in log order and sorted by key, in
chunks. A merge takes from the present chunk of every run what is not after the least of their last keys, and sorts it:
``list.sort`` finds the pieces sorted already, and keeps the order of the runs for equal keys, which is that of the log.
So that no later run comes before an earlier one, a chunk ends where a key ends.

Example, chunks of two: run 0 ``a1 c1 | d1``, run 1 ``a2 b2 | c2``. The first bound is ``b``, which gives ``a1 a2 b2``,
the second ``c``, which gives ``c1 c2``; then comes ``d1``.
"""

from __future__ import annotations

import marshal
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import repeat
from operator import itemgetter
from typing import Final

from engine.storage.scratch import ScratchFile
from engine.tree.apply import RecordVersion, Redo
from engine.tree.bin_node import times_from
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key

_KEY: Final = itemgetter(0)
CHUNK: Final = 1000
_TIMES: Final = RecordVersion._fields.index("times")


class RedoRuns:
    """The runs of one recovery, by database.

    Arguments:
        chunk: records that are read and written at a time; of every run so many are in memory while runs are merged.

    Attributes:
        records: in all of them.
    """

    def __init__(self, chunk: int = CHUNK) -> None:
        self._chunk = chunk
        self.records = 0
        self._scratch = ScratchFile()
        # Of each run its chunks, and the file that they are in.
        self._runs: dict[int, list[tuple[ScratchFile, list[int]]]] = {}

    def databases(self) -> list[int]:
        """Ids of the databases that have runs, in the order in which they came."""
        return list(self._runs)

    def add(self, db: DatabaseState, batch: list[Redo]) -> None:
        """Keep records.

        Arguments:
            batch: in log order, all after what the database has so far; it is sorted here.

        Raises:
            StorageError: the scratch file has no room.
        """
        self.records += len(batch)
        batch.sort(key=_KEY)
        bare = db.order.comparator is None
        unwrap = db.order.unwrap
        places: list[int] = []
        for rows in _in_chunks(batch, self._chunk):
            if not bare or any(row[3] is not None for row in rows):
                frozen = [
                    (row[0] if bare else unwrap(row[0]), row[1], row[2], _frozen(row[3])) for row in rows
                ]  # fmt: skip
                places.append(self._scratch.put(marshal.dumps(frozen)))
            else:
                places.append(self._scratch.put(_plain_chunk(rows)))
        self._runs.setdefault(db.id, []).append((self._scratch, places))

    def add_run(self, db_id: int, scratch: ScratchFile, places: list[int], records: int) -> None:
        """Keep records that ``put_plain`` has put into a file, which stays open; which, as for ``add``."""
        self.records += records
        self._runs.setdefault(db_id, []).append((scratch, places))

    def merged(self, db: DatabaseState) -> Iterator[list[Redo]]:
        """The records of a database, many at a time: by key, those of one key in log order."""
        chunks = [_chunks(db, scratch, places) for scratch, places in self._runs[db.id]]
        # The present chunk of each run, and how far it has been taken: cutting it off would copy the rest each time.
        reading: list[tuple[Iterator[list[Redo]], list[Redo], int]] = []
        for source in chunks:
            reading.append((source, next(source), 0))
        while reading:
            bound: Key = min([held[-1][0] for _, held, _ in reading])
            taken: list[Redo] = []
            after: list[tuple[Iterator[list[Redo]], list[Redo], int]] = []
            for source, held, at in reading:
                cut = bisect_right(held, bound, at, key=_KEY)
                taken += held[at:cut]
                if cut == len(held):
                    held, cut = next(source, []), 0
                if held:
                    after.append((source, held, cut))
            if len(reading) > 1:
                taken.sort(key=_KEY)
            reading = after
            yield taken

    def close(self) -> None:
        """Forget everything."""
        self._scratch.close()


def put_plain(scratch: ScratchFile, batch: list[Redo]) -> list[int]:
    """Put plain versions whose keys are bytes, sorted by key, as the chunks of a run; where these are."""
    return [scratch.put(_plain_chunk(rows)) for rows in _in_chunks(batch, CHUNK)]


def plain_rows(scratch: ScratchFile, places: list[int]) -> list[Redo]:
    """The versions that ``put_plain`` was given."""
    rows: list[Redo] = []
    for place in places:
        rows += _plain_rows_of(marshal.loads(scratch.get(place)))
    return rows


def _plain_chunk(rows: list[Redo]) -> bytes:
    """Plain versions whose keys are bytes, by columns: that takes half the time of rows."""
    lsns = array("q", [row[1] for row in rows])
    sizes = array("q", [row[2] for row in rows])
    return marshal.dumps(([row[0] for row in rows], lsns.tobytes(), sizes.tobytes()))


def _plain_rows_of(columns: tuple[list[bytes], bytes, bytes]) -> list[Redo]:
    keys, lsns, sizes = columns
    return list(zip(keys, array("q", lsns), array("q", sizes), repeat(None)))


def _chunks(db: DatabaseState, scratch: ScratchFile, places: list[int]) -> Iterator[list[Redo]]:
    wrap, bare = db.order.wrap, db.order.comparator is None
    for place in places:
        found = marshal.loads(scratch.get(place))
        # A chunk of plain versions is a tuple of columns, any other a list of rows.
        if isinstance(found, tuple):
            yield _plain_rows_of(found)
        else:
            yield [(row[0] if bare else wrap(row[0]), row[1], row[2], _thawed(row[3])) for row in found]


def _in_chunks(batch: list[Redo], size: int) -> Iterator[list[Redo]]:
    """A sorted batch in parts; versions of one record stay together."""
    start, count = 0, len(batch)
    while start < count:
        end = min(start + size, count)
        while end < count and batch[end][0] == batch[end - 1][0]:
            end += 1
        yield batch[start:end]
        start = end


def _frozen(leaf: RecordVersion | None) -> tuple[object, ...] | None:
    """A version as plain values."""
    return None if leaf is None else (*leaf[:_TIMES], tuple(leaf.times), *leaf[_TIMES + 1 :])


def _thawed(values: tuple[object, ...] | None) -> RecordVersion | None:
    """The version of plain values."""
    if values is None:
        return None
    leaf = RecordVersion._make(values)
    return leaf._replace(times=times_from(*leaf.times))
