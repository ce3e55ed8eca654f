"""Sorts versions by database and key, with bounded memory.

Versions are collected in tables by database and node. At the memory limit their rows are sorted and written to a
nameless temporary file as a run; at the end the runs are merged, a batch of rows of each at a time. Some runs are
merged earlier if there are many, or if a batch of each would take too much memory. Versions are left out of the runs
once a newer version has committed.
"""

from __future__ import annotations

import heapq
import marshal
import struct
import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import IO, Final, NamedTuple

from engine.errors import StorageError, caused_by
from engine.recovery.result import TxnLsns
from engine.rescue.salvage.versions import IN_TXN, KEY_BYTES, VOID, KeyVersions, LNVersion, Packed
from engine.storage.scratch import read_kept

# Database, key, node, number of the run, versions. No two rows of a run have the first three in common.
Row = tuple[int, bytes, int, int, Packed]
Group = tuple[int, bytes, list[tuple[int, KeyVersions]]]
Table = dict[bytes, KeyVersions]

MOST_BYTES: Final = 192 << 20
_MOST_RUNS: Final = 128
# Memory for batches while runs are merged.
_MERGE_BYTES: Final = 64 << 20
_BATCH: Final = 256
_BATCH_BYTES: Final = 1 << 18
_LENGTH: Final = struct.Struct("<Q")


class _Run(NamedTuple):
    """Sorted rows in a file, and the size of its largest batch in bytes."""

    file: IO[bytes]
    largest: int


class SortedVersions:
    """Takes versions in any order and gives them back by database and key.

    Arguments:
        commits: by node, committed transactions in the part of the log read so far.
        most_bytes: approximate memory limit.
        merge_bytes: memory limit for batches of runs during a merge.

    Attributes:
        held: bytes in memory; code that adds versions increases it and then calls ``make_room``.
    """

    def __init__(self, commits: list[TxnLsns], most_bytes: int = MOST_BYTES, merge_bytes: int = _MERGE_BYTES) -> None:
        self._merge_bytes = merge_bytes
        self._commits = commits
        self._most_bytes = most_bytes
        self._tables: dict[tuple[int, int], Table] = {}
        self._runs: list[_Run] = []
        self._count = 0
        self.held: int = 0

    def table(self, database: int, node: int) -> Table:
        """Versions of a database on a node by key: always the same table, which ``make_room`` empties."""
        table = self._tables.get((database, node))
        if table is None:
            table = self._tables[database, node] = {}
        return table

    def add(self, database: int, key: bytes, node: int, versions: Packed, size: int) -> None:
        """Versions of a record, and the bytes that it takes."""
        table = self.table(database, node)
        found = table.get(key)
        if found is None:
            found = table[key] = KeyVersions()
            self.held += KEY_BYTES + len(key)
        found.join(versions)
        self.held += size
        self.make_room()

    def make_room(self) -> None:
        """Begin a new run when too much is held.

        Raises:
            StorageError: the temporary directory is full.
        """
        if self.held < self._most_bytes:
            return
        self._runs.append(_written(self._sorted()))
        self._count += 1
        for table in self._tables.values():
            table.clear()
        self.held = 0
        if len(self._runs) >= _MOST_RUNS:
            self._merge_runs(1)

    def groups(self) -> Iterator[Group]:
        """Database, key, and the versions on each node, in order. Iterate once."""
        if not self._runs and len({node for _, node in self._tables}) == 1:
            yield from self._groups_of_one()
            return
        self._merge_runs(_MOST_RUNS)
        sources = [_read(run) for run in self._runs]
        rows = _merged([*sources, _batches(self._sorted())]) if sources else self._sorted()
        at, last, nodes = -1, b"", [(0, KeyVersions())]
        for database, key, node, _, packed in rows:
            if database != at or key != last:
                if at >= 0:
                    yield at, last, nodes
                at, last, nodes = database, key, []
            if not nodes or nodes[-1][0] != node:
                nodes.append((node, KeyVersions()))
            nodes[-1][1].join(packed)
        if at >= 0:
            yield at, last, nodes

    def _groups_of_one(self) -> Iterator[Group]:
        """The groups of one node, whose rows are all in memory."""
        for database, node in sorted(self._tables):
            table = self._tables[database, node]
            for key in sorted(table):
                # Released at once, since the decoded rows need the memory.
                yield database, key, [(node, table.pop(key))]

    def close(self) -> None:
        """Release the temporary files."""
        for run in self._runs:
            run.file.close()
        self._runs.clear()

    def _merge_runs(self, most: int) -> None:
        """Merge runs until at most ``most`` are left and a batch of each fits into memory; two runs always fit."""
        while len(self._runs) > most or (
            len(self._runs) > 2 and sum([run.largest for run in self._runs]) > self._merge_bytes
        ):
            self._runs.sort(key=_largest)
            count, held = 0, 0
            for run in self._runs:
                held += run.largest
                if count >= 2 and held > self._merge_bytes:
                    break
                count += 1
            merged = _written(_merged([_read(run) for run in self._runs[:count]]))
            for run in self._runs[:count]:
                run.file.close()
            self._runs = [*self._runs[count:], merged]

    def _sorted(self) -> Iterator[Row]:
        """The rows in memory, in order."""
        databases: dict[int, list[int]] = {}
        for database, node in self._tables:
            databases.setdefault(database, []).append(node)
        for database in sorted(databases):
            parts = [self._rows_of(database, node) for node in sorted(databases[database])]
            yield from parts[0] if len(parts) == 1 else heapq.merge(*parts)

    def _rows_of(self, database: int, node: int) -> Iterator[Row]:
        table, commits, run = self._tables[database, node], self._commits[node], self._count
        for key in sorted(table):
            lns, slot = table[key].packed()
            if len(lns) > 1:
                lns = _of_interest(lns, commits)
            yield database, key, node, run, (lns, slot)


def _of_interest(lns: list[LNVersion], commits: TxnLsns) -> list[LNVersion]:
    """Drop committed versions that are older than another committed one."""
    committed = [lsn for lsn, flags, _, txn, _, _ in lns if not flags & VOID and (not flags & IN_TXN or txn in commits)]
    if len(committed) < 2:
        return lns
    newest = max(committed)
    older = set(committed)
    return [row for row in lns if row[0] >= newest or row[0] not in older]


def _largest(run: _Run) -> int:
    return run.largest


def _written(rows: Iterable[Row]) -> _Run:
    try:
        return _run_of(rows)
    except OSError as error:
        failure = caused_by(
            StorageError(
                "cannot write a temporary file",
                file=tempfile.gettempdir(),
                found=error.strerror,
                consequence="nothing was written",
                hint="make room there, or name another directory with TMPDIR",
            ),
            error,
        )
    raise failure


def _merged(sources: list[Iterator[list[Row]]]) -> Iterator[Row]:
    """The rows of sorted sources in order.

    A batch of each is in memory. Rows up to the smallest of the last rows are complete and sorted together, which
    merges the batches without a step for every row.
    """
    reading = [(source, batch) for source in sources if (batch := next(source, None))]
    while reading:
        # No two rows have database, key, node and run in common: their versions are never compared.
        bound = min(batch[-1] for _, batch in reading)
        taken: list[Row] = []
        after: list[tuple[Iterator[list[Row]], list[Row]]] = []
        for source, batch in reading:
            if batch[-1] > bound:
                cut = bisect_right(batch, bound)
                taken += batch[:cut]
                after.append((source, batch[cut:]))
                continue
            taken += batch
            following = next(source, None)
            if following:
                after.append((source, following))
        if len(reading) > 1:
            taken.sort()
        reading = after
        yield from taken


def _run_of(rows: Iterable[Row]) -> _Run:
    # Without a name, so that it disappears with the process.
    file = tempfile.TemporaryFile(buffering=1 << 16)  # noqa: SIM115 - closed by ``close``
    largest = 0
    try:
        for batch in _batches(rows):
            # Read in one piece: from a file, marshal would make a call for every number.
            data = marshal.dumps(batch)
            largest = max(largest, len(data))
            file.write(_LENGTH.pack(len(data)))
            file.write(data)
        # A length of 0 ends the run.
        file.write(_LENGTH.pack(0))
        file.flush()
    except BaseException:
        file.close()
        raise
    return _Run(file, largest)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        lns, slot = row[4]
        size += len(row[1]) + (0 if slot is None else len(slot[2]))
        for ln in lns:
            size += len(ln[2])
        if len(batch) == _BATCH or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _read(run: _Run) -> Iterator[list[Row]]:
    handle, place = run.file.fileno(), _LENGTH.size
    while (length := _LENGTH.unpack(read_kept(handle, _LENGTH.size, place - _LENGTH.size))[0]) > 0:
        batch: list[Row] = marshal.loads(read_kept(handle, length, place))
        yield batch
        place += length + _LENGTH.size
