"""The database of an index as a sorted mapping, and short ways to write and show buckets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable

from engine.format.lsn import make_lsn
from engine.vlsn.database import Record, buckets_from
from engine.vlsn.ghost import Bucket, GhostBucket

COMMIT, ABORT, MATCHPOINT, LN = 17, 18, 30, 33


class MemoryTxn:
    """Collects changes and makes them at commit."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database
        self._changes: list[tuple[bytes, bytes | None]] = []

    def put(self, key: bytes, data: bytes) -> None:
        self._database.operation("put")
        self._changes.append((key, data))

    def delete(self, key: bytes) -> None:
        self._database.operation("delete")
        assert self._database.records.get(key) is not None, "deletes a record that is not there"
        self._changes.append((key, None))

    def commit(self, *, sync: bool) -> None:
        self._database.operation("commit")
        for key, data in self._changes:
            self._database.change(key, data)
        self._database.synced += sync

    def abort(self) -> None:
        self._database.aborted += 1


class MemoryDatabase:
    """An ``IndexDatabase`` in memory. ``before`` is called before each operation and may raise."""

    def __init__(self, records: dict[bytes, bytes] | None = None) -> None:
        self.records = dict(records or {})
        self._keys = sorted(self.records)
        self.synced = self.aborted = self.operations = 0
        self.before: Callable[[str], None] | None = None

    def operation(self, name: str) -> None:
        self.operations += 1
        if self.before is not None:
            self.before(name)

    def change(self, key: bytes, data: bytes | None) -> None:
        if data is None:
            del self.records[key]
            self._keys.remove(key)
            return
        if key not in self.records:
            insort(self._keys, key)
        self.records[key] = data

    def at_or_below(self, key: bytes) -> Record | None:
        self.operation("read")
        at = bisect_right(self._keys, key) - 1
        return (self._keys[at], self.records[self._keys[at]]) if at >= 0 else None

    def at_or_above(self, key: bytes) -> Record | None:
        self.operation("read")
        at = bisect_left(self._keys, key)
        return (self._keys[at], self.records[self._keys[at]]) if at < len(self._keys) else None

    def begin(self) -> MemoryTxn:
        return MemoryTxn(self)

    def buckets(self) -> list[str]:
        """The stored buckets, as ``show`` writes them."""
        return [show(bucket) for bucket in buckets_from(self, 1)]


def lsn(text: str) -> int:
    """The LSN written as ``file/offset`` in decimal."""
    file_number, _, offset = text.partition("/")
    return make_lsn(int(file_number), int(offset))


def show(bucket: Bucket) -> str:
    """A bucket as je-behaviour.md writes it: ``{1..12: 1 4 7 10}``, a ghost as ``ghost 4``."""
    if isinstance(bucket, GhostBucket):
        return f"ghost {bucket.first}"
    record = bucket.record()
    known = [str(record.first_vlsn + at * record.stride) for at, offset in enumerate(record.offsets) if offset]
    return f"{{{bucket.first}..{bucket.last}: {' '.join(known)}}}"


def show_all(buckets: Iterable[Bucket]) -> list[str]:
    """Several buckets."""
    return [show(bucket) for bucket in buckets]
