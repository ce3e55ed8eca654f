"""Ranges of records that an application has discarded at once (JE's discardExtinctRecords, je-log-format.md 10.4).

The log shows this only by the task, and by nodes without these records: if the nodes are damaged, the records would
reappear. So records written before a committed task count as deleted; those written after it are kept.

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
        lsn, txn: LSN and transaction of the task; records written later are kept. Without a transaction the task counts
            as committed.
        begin, end: the first key, and the key after the last; None for no bound.
        is_whole: all keys between them are discarded, since there is no filter.
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
    """The range of a task, from its record; None for other kinds of tasks, and if it cannot be read."""
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
    """``EXTINCT``, ``MAYBE`` or empty, for a version of a record.

    Arguments:
        ranges: ranges of its database, from tasks in the log of the version.
        ordered: keys are in byte order.
    """
    found = ""
    for one in ranges:
        if lsn < one.lsn and (not ordered or one.holds(key)):
            if one.is_whole and ordered:
                return EXTINCT
            found = MAYBE
    return found
