"""Journals that the log holds but recovery does not read, because they come after damage in its last file (D-5).

``engine.inspect.unread_records`` reads them from the log itself, by transaction.

Example: recovery reads journals 1 to 250, the entry of journal 251 is bad, and 252 to 261 follow it with their Commits.
``journals`` is 252 to 261, ``destroyed`` is 251, and ``broken_txns`` is 1: the Commit of journal 251 names a bad entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.contents.journals import KEY_BYTES, journal_id, journal_name
from engine.db.environment import Environment
from engine.errors import FormatError
from engine.format.codecs import Record
from engine.format.entry.ln import LN
from engine.inspect.unread_records import UnreadRecord, read_unread
from engine.journals.extents import MOST_HOLES, JournalExtents
from engine.journals.id_range import IdRange
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log


class UnseenJournal(NamedTuple):
    """A journal that recovery does not read.

    Attributes:
        vlsn: NULL_VLSN outside a stream.
        txn: the transaction of the journal; None for a record outside transactions.
        time_ms: commit time; None if its Commit is not in the log.
        committed: the Commit of the journal comes after the damage. False: the journal comes before the damage and has
            neither Commit nor Abort, so the bad bytes may have been its Commit.
    """

    id: int
    database: str
    lsn: int
    vlsn: int
    txn: int | None
    time_ms: int | None
    committed: bool


class UnseenJournals(NamedTuple):
    """The journals of one family that recovery does not read.

    Attributes:
        damage_lsn: where the log ends for recovery.
        journals: ascending by id, only the latest version of each.
        destroyed: ids between the last one that recovery reads and the last of ``journals`` that have no intact entry;
            the first ``MOST_HOLES`` ranges.
        broken_txns: number of transactions (of any database) whose Commit comes after the damage and that have a bad
            entry.
    """

    damage_lsn: int
    journals: tuple[UnseenJournal, ...]
    destroyed: tuple[IdRange, ...]
    broken_txns: int

    def between(self, first: int, last: int) -> list[UnseenJournal]:
        """The journals of a range of ids, both ends inclusive."""
        return [one for one in self.journals if first <= one.id <= last]


def read_unseen(env: Environment, extents: JournalExtents) -> UnseenJournals | None:
    """The journals of a family after the damage at which the log ends; None if no Commit follows it.

    Raises:
        StorageError: a log file cannot be read.
    """

    def is_journal(database: str, record: LN) -> bool:
        named = journal_name(database)
        return (
            named is not None
            and named.family == extents.family
            and record.data is not None
            and len(record.key) == KEY_BYTES
        )

    tail = env.engine.tail
    unread = read_unread(env, is_journal) if tail is not None and tail.commits_at_risk else None
    if unread is None:
        return None
    last = extents.last if extents.last is not None else -1
    # The latest version of each id counts. A journal before the damage may have lost its Commit to it.
    journals = {journal_id(one.key): _journal(one, is_committed=True) for one in unread.committed}
    for one in unread.suspects:
        if journal_id(one.key) > last:
            journals.setdefault(journal_id(one.key), _journal(one, is_committed=False))
    found = tuple(journals[number] for number in sorted(journals))
    return UnseenJournals(unread.damage_lsn, found, _destroyed(extents, found), unread.broken_txns)


def _journal(one: UnreadRecord, *, is_committed: bool) -> UnseenJournal:
    return UnseenJournal(
        id=journal_id(one.key),
        database=one.database,
        lsn=one.lsn,
        vlsn=one.vlsn,
        txn=one.txn,
        time_ms=one.time_ms,
        committed=is_committed,
    )


def read_values(env: Environment, journals: list[UnseenJournal]) -> Iterator[tuple[UnseenJournal, bytes]]:
    """Unseen journals with their values, in the same order."""
    storage = env.engine.storage
    log = scan_log(storage, list_log_files(storage), marker=True)
    for one in journals:
        entry = log.entry_at(one.lsn)
        record = _record(entry) if entry is not None else None
        yield one, record.data if isinstance(record, LN) and record.data is not None else b""


def _record(entry: LogEntry) -> Record | None:
    try:
        return entry.record()
    except FormatError:
        return None


def _destroyed(extents: JournalExtents, found: tuple[UnseenJournal, ...]) -> tuple[IdRange, ...]:
    ranges: list[IdRange] = []
    last = extents.last
    for one in found:
        if last is not None and one.id > last + 1 and len(ranges) < MOST_HOLES:
            ranges.append(IdRange(first=last + 1, last=one.id - 1))
        last = max(one.id, last if last is not None else one.id)
    return tuple(ranges)
