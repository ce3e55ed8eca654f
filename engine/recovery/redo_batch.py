"""Records that wait for redo: batches in memory, sorted runs in a scratch file.

A batch collects the records of a part of the log, by database and in log order; ``redo_sorted`` then sorts them by key
and visits each node once. A worker process prepares a batch in another form (``PreparedBatch``): its records are sorted
and written to a scratch file, and entries that have to be decoded are only noted, because the worker must not change
trees. Example: the range holds ``k=1`` at 0x0/0x400, a NameLN at 0x0/0x480 and ``k=0`` at 0x0/0x500. The worker
prepares ``deferred = (0x480, 60)`` and the batch ``k=0 k=1``. The process that recovers redoes the NameLN first.

A version is *plain* if its slot needs only key, LSN and size: it has no data in the slot, no expiration, and is not
deleted. If the trees do not fit into the cache, batches become runs, so that each node is read, changed and evicted
only once, whatever the size of the log. A run is a batch that was sorted by key and written in chunks. The bound of a
merge step is the smallest of the last keys in the current chunks. The step takes all records up to the bound from every
run and sorts them: ``list.sort`` recognizes sorted pieces, and keeps the order of the runs for equal keys, which is log
order. The native build merges runs of plain versions in C. A chunk never ends between two versions of one key;
otherwise a later run could supply its version first.

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
from typing import Final, NamedTuple

from engine.format.lsn import file_of
from engine.native import chosen
from engine.storage.scratch import ScratchFile
from engine.tree.apply import RecordVersion, Redo
from engine.tree.bin_node import times_from
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key

# Memory of a waiting record, apart from its key and data.
_RECORD_BYTES: Final = 250
MOST_RECORDS: Final = 200_000
# The limit in bytes of a batch of MOST_RECORDS without keys and data.
MOST_BYTES: Final = MOST_RECORDS * _RECORD_BYTES
_MOST_DEFERRED: Final = 20_000
_NO_LIMIT: Final = 1 << 62
_KEY: Final = itemgetter(0)
CHUNK: Final = 1000
_TIMES: Final = RecordVersion._fields.index("times")
_NO_NUMBERS: Final = array("q")
# Keys, LSNs and sizes of plain versions.
Columns = tuple[list[Key], "array[int]", "array[int]"]
# For each file, the replaced versions that lie in it: their number, the number of those with a known size, and the
# total of these sizes.
Replaced = dict[int, tuple[int, int, int]]


class PreparedBatch(NamedTuple):
    """A batch that a worker prepared, in plain values.

    Attributes:
        read: number of LNs that need no redo and are only counted.
        deferred: entries to decode and redo first: LSN, size, LSN, size, ...
        replaced: versions that the records of ``runs`` replaced.
        runs: for each database its id, the number of its plain versions, and their chunks in the scratch file.
    """

    read: int
    deferred: list[int]
    replaced: Replaced
    runs: list[tuple[int, int, list[int]]]


class RedoBatch:
    """Records that wait for redo, in log order.

    Arguments:
        most_records, most_bytes: limits at which the batch is full.
        defers: entries that have to be decoded are noted and not redone.

    Attributes:
        rows: the records by database.
        records, size_bytes: the number of all records, and the memory that they take.
        replaced: versions that plain updates replaced, not yet reported to the hook.
        deferred: LSN, size, LSN, size, ... of the noted entries.
    """

    def __init__(self, most_records: int = _NO_LIMIT, most_bytes: int = _NO_LIMIT, *, defers: bool = False) -> None:
        self._most_records = most_records
        self._most_bytes = most_bytes
        self.defers = defers
        self.rows: dict[int, list[Redo]] = {}
        self.records = self.size_bytes = 0
        self.replaced: Replaced = {}
        self.deferred: list[int] = []

    def put(self, db_id: int, row: Redo, size_bytes: int) -> None:
        """Add a record; ``size_bytes`` is the size of its key and data."""
        rows = self.rows.get(db_id)
        if rows is None:
            rows = self.rows[db_id] = []
        rows.append(row)
        self.note(size_bytes)

    def note(self, size_bytes: int) -> None:
        """Count a record that the caller has appended to ``rows``."""
        self.records += 1
        self.size_bytes += _RECORD_BYTES + size_bytes

    def is_full(self) -> bool:
        """Whether the records have reached a limit."""
        return (
            self.records >= self._most_records
            or self.size_bytes >= self._most_bytes
            or len(self.deferred) >= 2 * _MOST_DEFERRED
        )

    def replace(self, lsn: int, size_bytes: int) -> None:
        """Count a version that a plain update replaced; ``size_bytes`` is 0 if the update does not give it."""
        versions, sized, total_bytes = self.replaced.get(file_of(lsn), (0, 0, 0))
        self.replaced[file_of(lsn)] = versions + 1, sized + (1 if size_bytes else 0), total_bytes + size_bytes

    def take(self) -> tuple[dict[int, list[Redo]], int]:
        """The records by database and their size; the batch holds no records afterwards."""
        taken = self.rows, self.size_bytes
        self.rows, self.records, self.size_bytes = {}, 0, 0
        return taken

    def take_replaced(self) -> Replaced:
        """The replaced versions; the batch holds no replaced versions afterwards."""
        taken, self.replaced = self.replaced, {}
        return taken

    def prepared(self, read: int, scratch: ScratchFile) -> PreparedBatch:
        """The batch as a worker sends it, its records in the scratch file; the batch is empty afterwards.

        Arguments:
            read: number of LNs that need no redo and are only counted.

        Raises:
            StorageError: the scratch file has no room.
        """
        runs = []
        for db_id, rows in self.take()[0].items():
            rows.sort(key=_KEY)
            runs.append((db_id, len(rows), put_plain(scratch, rows)))
        deferred, self.deferred = self.deferred, []
        return PreparedBatch(read, deferred, self.take_replaced(), runs)


class RedoRuns:
    """The runs of one recovery, by database.

    Arguments:
        chunk: number of records read and written at a time; a merge holds one chunk of every run in memory.

    Attributes:
        records: number of records in all runs.
    """

    def __init__(self, chunk: int = CHUNK) -> None:
        self._chunk = chunk
        self.records = 0
        self._scratch = ScratchFile()
        # By database, for each run: its scratch file, and the places of its chunks.
        self._runs: dict[int, list[tuple[ScratchFile, list[int]]]] = {}

    def databases(self) -> list[int]:
        """Ids of the databases that have runs, in order of their first run."""
        return list(self._runs)

    def add(self, db: DatabaseState, batch: list[Redo]) -> None:
        """Add records as a run.

        Arguments:
            batch: in log order, all after the database's existing records; it is sorted here.

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
                frozen = [(row[0] if bare else unwrap(row[0]), row[1], row[2], _frozen(row[3])) for row in rows]
                places.append(self._scratch.put(marshal.dumps(frozen)))
            else:
                places.append(self._scratch.put(_plain_chunk(rows)))
        self._runs.setdefault(db.id, []).append((self._scratch, places))

    def add_run(self, db_id: int, scratch: ScratchFile, places: list[int], records: int) -> None:
        """Keep a run that ``put_plain`` wrote. Its scratch file must stay open. See ``add`` for the order."""
        self.records += records
        self._runs.setdefault(db_id, []).append((scratch, places))

    def merged(self, db: DatabaseState) -> Iterator[list[Redo]]:
        """The records of a database in batches, ordered by key; records with the same key are in log order."""
        reading = [_Reading(db, scratch, places) for scratch, places in self._runs[db.id]]
        while reading:
            bound: Key = min([one.keys[-1] for one in reading])
            yield _plain_up_to(reading, bound) if all(one.is_plain for one in reading) else _up_to(reading, bound)
            for one in reading:
                one.advance()
            reading = [one for one in reading if one.keys]

    def close(self) -> None:
        """Drop all runs."""
        self._scratch.close()


def put_plain(scratch: ScratchFile, batch: list[Redo]) -> list[int]:
    """Write plain versions whose keys are bytes, sorted by key, as the chunks of a run; returns their places."""
    return [scratch.put(_plain_chunk(rows)) for rows in _in_chunks(batch, CHUNK)]


def plain_rows(scratch: ScratchFile, places: list[int]) -> list[Redo]:
    """The versions that were passed to ``put_plain``."""
    rows: list[Redo] = []
    for place in places:
        rows += _plain_rows_of(marshal.loads(scratch.get(place)))
    return rows


def _plain_chunk(rows: list[Redo]) -> bytes:
    """Encode plain versions whose keys are bytes, as columns, which takes half the time of rows."""
    lsns = array("q", [row[1] for row in rows])
    sizes = array("q", [row[2] for row in rows])
    return marshal.dumps(([row[0] for row in rows], lsns.tobytes(), sizes.tobytes()))


def _plain_rows_of(columns: tuple[list[bytes], bytes, bytes]) -> list[Redo]:
    keys, lsns, sizes = columns
    return list(zip(keys, array("q", lsns), array("q", sizes), repeat(None)))


class _Reading:
    """A run that is merged, with its current chunk.

    The records of a chunk of plain versions are made when they are taken: until then a merge holds columns, and looks
    for its bound in a list of keys.

    Attributes:
        keys: of the current chunk; none if the run was read to its end.
        columns: of a chunk of plain versions: keys, LSNs, sizes.
        is_plain: whether the current chunk is one of plain versions.
        at: the number of records of the chunk that were taken.
    """

    def __init__(self, db: DatabaseState, scratch: ScratchFile, places: list[int]) -> None:
        self._db = db
        self._scratch = scratch
        self._places = places
        self._next = 0
        self._rows: list[Redo] = []
        self.at = 0
        self.is_plain = True
        self.keys: list[Key] = []
        self.columns: Columns = [], _NO_NUMBERS, _NO_NUMBERS
        self.advance()

    def advance(self) -> None:
        """Read the next chunk if all records of this one were taken."""
        if self.at < len(self.keys):
            return
        self.at = 0
        if self._next == len(self._places):
            self.keys = []
            return
        found = marshal.loads(self._scratch.get(self._places[self._next]))
        self._next += 1
        # A chunk of plain versions is a tuple of columns, any other a list of rows.
        self.is_plain = isinstance(found, tuple)
        if self.is_plain:
            keys, lsns, sizes = found
            self.keys, self.columns = keys, (keys, array("q", lsns), array("q", sizes))
            return
        wrap, bare = self._db.order.wrap, self._db.order.comparator is None
        self._rows = [(row[0] if bare else wrap(row[0]), row[1], row[2], _thawed(row[3])) for row in found]
        self.keys = [row[0] for row in self._rows]

    def up_to(self, bound: Key) -> list[Redo]:
        """Take the next records of the chunk whose keys are not above a bound."""
        start = self.at
        end = self.at = bisect_right(self.keys, bound, start)
        if not self.is_plain:
            return self._rows[start:end]
        keys, lsns, sizes = self.columns
        return list(zip(keys[start:end], lsns[start:end], sizes[start:end], repeat(None)))


def _up_to(reading: list[_Reading], bound: Key) -> list[Redo]:
    """Take the next records of all runs up to a bound, by key."""
    taken: list[Redo] = []
    for one in reading:
        taken += one.up_to(bound)
    if len(reading) > 1:
        taken.sort(key=_KEY)
    return taken


def _plain_up_to(reading: list[_Reading], bound: Key) -> list[Redo]:
    """Same as ``_up_to``, when all current chunks are of plain versions."""
    places = array("q", [one.at for one in reading])
    taken = _merged_rows([one.columns for one in reading], places, bound)
    if taken is None:
        return _up_to(reading, bound)
    for one, place in zip(reading, places, strict=True):
        one.at = place
    return taken


def merged_plain(columns: list[Columns], places: array[int], bound: Key) -> list[Redo] | None:
    """The rows of sorted runs up to a bound, sorted by key; rows of one key come in the order of their runs.

    Arguments:
        columns: of each run the keys, LSNs and sizes; the numbers are arrays of 64-bit numbers ("q").
        places: for each run, the number of its rows that were taken before; advanced.
        bound: the last key to take.
    """
    taken: list[Redo] = []
    for index, (keys, lsns, sizes) in enumerate(columns):
        start = places[index]
        end = places[index] = bisect_right(keys, bound, start)
        taken += zip(keys[start:end], lsns[start:end], sizes[start:end], repeat(None))
    if len(columns) > 1:
        taken.sort(key=_KEY)
    return taken


_merged_rows: Final = chosen("merged_rows", merged_plain)


def _in_chunks(batch: list[Redo], size: int) -> Iterator[list[Redo]]:
    """Divide a sorted batch into parts; versions of one record stay together."""
    start, count = 0, len(batch)
    while start < count:
        end = min(start + size, count)
        while end < count and batch[end][0] == batch[end - 1][0]:
            end += 1
        yield batch[start:end]
        start = end


def _frozen(leaf: RecordVersion | None) -> tuple[object, ...] | None:
    """A version in the form of plain values."""
    return None if leaf is None else (*leaf[:_TIMES], tuple(leaf.times), *leaf[_TIMES + 1 :])


def _thawed(values: tuple[object, ...] | None) -> RecordVersion | None:
    """The version for plain values."""
    if values is None:
        return None
    leaf = RecordVersion._make(values)
    return leaf._replace(times=times_from(*leaf.times))
