"""Ranges of records that an application has discarded at one go (JE's discardExtinctRecords, je-log-format.md 10.4).

All that the log has of it is the task, and nodes without these records: when those are damaged the records would come
back. So what was written before a task that committed counts as gone; what was written after it is a record.

A task may have a filter, a serialized Java object that chooses among the keys of its range. It cannot be run here: such
records are saved, and counted.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.entry.internal_db import RecordExtinction, decode_extinct_scan

EXTINCT: Final = "extinct"
MAYBE: Final = "maybe-extinct"


class ExtinctRange(NamedTuple):
    """The range of one task.

    Attributes:
        lsn, txn: of the task; what was written later stays. No transaction: it has committed.
        begin, end: the first key, and the one after the last; None for all.
        is_whole: all keys between them, as far as can be said: there is no filter.
    """

    lsn: int
    txn: int | None
    db_ids: tuple[int, ...]
    begin: bytes | None
    end: bytes | None
    is_whole: bool

    def holds(self, key: bytes) -> bool:
        """Whether a key is in the range."""
        return (self.begin is None or key >= self.begin) and (self.end is None or key < self.end)


def range_of(data: bytes, lsn: int, txn: int | None) -> ExtinctRange | None:
    """The range of a task, from its record; None for tasks of other kinds, and when it cannot be read."""
    try:
        task = decode_extinct_scan(data)
    except (FormatError, IndexError, ValueError):
        return None
    if not isinstance(task, RecordExtinction):
        return None
    return ExtinctRange(
        lsn=lsn,
        txn=txn,
        db_ids=task.db_ids,
        begin=task.begin_key,
        end=task.end_key,
        is_whole=task.filter is None,
    )


def word_for(ranges: list[ExtinctRange], key: bytes, lsn: int, *, ordered: bool) -> str:
    """``EXTINCT``, ``MAYBE`` or nothing, for a version of a record.

    Arguments:
        ranges: of its database, by tasks of the log that the version stands in.
        ordered: keys are in the order of their bytes.
    """
    found = ""
    for one in ranges:
        if lsn < one.lsn and (not ordered or one.holds(key)):
            if one.is_whole and ordered:
                return EXTINCT
            found = MAYBE
    return found
