"""An in-memory database of an index: a copy to read, or to merge into without changing the environment."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from engine.vlsn.database import IndexDatabase, Record


class MemoryIndex:
    """Implements ``IndexDatabase``; changes take effect at commit.

    Arguments:
        records: key to data.
    """

    def __init__(self, records: dict[bytes, bytes] | None = None) -> None:
        self._records = dict(records or {})
        self._keys = sorted(self._records)

    def at_or_below(self, key: bytes) -> Record | None:
        """The record with the greatest key not above ``key``."""
        at = bisect_right(self._keys, key) - 1
        return (self._keys[at], self._records[self._keys[at]]) if at >= 0 else None

    def at_or_above(self, key: bytes) -> Record | None:
        """The record with the least key not below ``key``."""
        at = bisect_left(self._keys, key)
        return (self._keys[at], self._records[self._keys[at]]) if at < len(self._keys) else None

    def begin(self) -> MemoryIndexTxn:
        """Begin a transaction."""
        return MemoryIndexTxn(self)

    def replace(self, changes: dict[bytes, bytes | None]) -> None:
        """Apply changes; None removes a record."""
        self._records.update({key: data for key, data in changes.items() if data is not None})
        for key, data in changes.items():
            if data is None:
                self._records.pop(key, None)
        self._keys = sorted(self._records)


class MemoryIndexTxn:
    """Collects changes."""

    def __init__(self, database: MemoryIndex) -> None:
        self._database = database
        self._changes: dict[bytes, bytes | None] = {}

    def put(self, key: bytes, data: bytes) -> None:
        """Store a record."""
        self._changes[key] = data

    def delete(self, key: bytes) -> None:
        """Remove a record."""
        self._changes[key] = None

    def commit(self, *, sync: bool) -> None:  # noqa: ARG002 - there is nothing to sync
        """Apply the changes."""
        self._database.replace(self._changes)

    def abort(self) -> None:
        """Drop the changes."""
        self._changes.clear()


def records_of(database: IndexDatabase) -> dict[bytes, bytes]:
    """All records of a database, in key order."""
    found: dict[bytes, bytes] = {}
    record = database.at_or_above(b"")
    while record is not None:
        found[record[0]] = record[1]
        # The next possible key in byte order.
        record = database.at_or_above(record[0] + b"\0")
    return found
