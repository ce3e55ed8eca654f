"""Journals that the log holds but recovery does not read, because they come after damage in its last file (D-5).

The log ends at its first bad entry; intact entries after it no longer belong to the environment. Opening the
environment for writing cuts them off. These journals are therefore read from the log itself, by transaction.

Example: recovery reads journals 1 to 250, the entry of journal 251 is bad, and 252 to 261 follow it with their Commits.
``journals`` is 252 to 261, ``destroyed`` is 251, and ``broken_txns`` is 1: the Commit of journal 251 names a bad entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.contents.journals import KEY_BYTES, journal_id, journal_name
from engine.db.environment import Environment
from engine.errors import FormatError
from engine.format.codecs import Record
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import NameLN
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT, NAME_LNS, TXN_ENDS, USER_LNS
from engine.format.lsn import NULL_LSN
from engine.journals.extents import MOST_HOLES, IdRange, JournalExtents
from engine.log.entry import Damage, LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log

_WANTED: Final = USER_LNS | NAME_LNS | TXN_ENDS


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
    engine = env.engine
    tail, recovery = engine.tail, engine.recovery
    if tail is None or not tail.commits_at_risk:
        return None
    storage = engine.storage
    log = scan_log(storage, list_log_files(storage), types=_WANTED, marker=True)
    walk = _Walk(env, extents, tail.end_lsn)
    # Begin at firstActive: a transaction that spans the damage may have begun before the last checkpoint, but not
    # before its firstActive.
    first = recovery.first_active_lsn
    for item in log.between(log.place_after(first) if first != NULL_LSN else NULL_LSN).entries():
        walk.take(item)
    found = walk.result()
    return UnseenJournals(tail.end_lsn, found, _destroyed(extents, found), walk.broken)


def read_values(env: Environment, journals: list[UnseenJournal]) -> Iterator[tuple[UnseenJournal, bytes]]:
    """Unseen journals with their values, in the same order."""
    storage = env.engine.storage
    log = scan_log(storage, list_log_files(storage), marker=True)
    for one in journals:
        entry = log.entry_at(one.lsn)
        record = _record(entry) if entry is not None else None
        yield one, record.data if isinstance(record, LN) and record.data is not None else b""


class _Walk:
    """Collects journals by transaction while the log is read from before the damage to its last byte."""

    def __init__(self, env: Environment, extents: JournalExtents, end_lsn: int) -> None:
        self._family = extents.family
        self._last = extents.last if extents.last is not None else -1
        self._end_lsn = end_lsn
        catalog = env.engine.catalog
        self._names = {db_id: name for name, db_id in catalog.names()}
        self._open: dict[int, list[UnseenJournal]] = {}
        self._broken_open: set[int] = set()
        self._damages: list[tuple[int, int]] = []
        self._found: dict[int, UnseenJournal] = {}
        self.broken = 0

    def take(self, item: LogEntry | Damage) -> None:
        """Add the next entry or damage of the log."""
        if isinstance(item, Damage):
            if item.lsn >= self._end_lsn:
                self._damages.append((item.lsn, item.end_lsn))
            return
        record = None if item.invisible else _record(item)
        if isinstance(record, TxnEnd):
            self._end(item, record)
        elif isinstance(record, LN) and isinstance(record.content, NameLN):
            # Take the name from the log: a database that was created after the damage is in no tree.
            self._names.setdefault(record.content.db_id, record.key.decode("utf-8", "replace"))
        elif isinstance(record, LN):
            self._ln(item, record)

    def result(self) -> tuple[UnseenJournal, ...]:
        """The journals found, ascending by id."""
        for journals in self._open.values():
            for one in journals:
                # After the damage, an entry without a Commit was uncommitted; before it, the damaged bytes may be its
                # Commit.
                if one.lsn < self._end_lsn and one.id > self._last:
                    self._found.setdefault(one.id, one)
        return tuple(self._found[number] for number in sorted(self._found))

    def _ln(self, entry: LogEntry, record: LN) -> None:
        if record.txn_id is not None and self._is_bad(record.last_lsn):
            self._broken_open.add(record.txn_id)
        named = journal_name(self._names.get(record.db_id, ""))
        if named is None or named.family != self._family or record.data is None or len(record.key) != KEY_BYTES:
            return
        one = UnseenJournal(
            id=journal_id(record.key),
            database=self._names[record.db_id],
            lsn=entry.lsn,
            vlsn=entry.vlsn,
            txn=record.txn_id,
            time_ms=None,
            committed=record.txn_id is None,
        )
        if record.txn_id is not None:
            self._open.setdefault(record.txn_id, []).append(one)
        elif entry.lsn >= self._end_lsn:
            self._found[one.id] = one

    def _end(self, entry: LogEntry, record: TxnEnd) -> None:
        journals = self._open.pop(record.id, [])
        broken = self._is_bad(record.last_lsn) or record.id in self._broken_open
        self._broken_open.discard(record.id)
        if entry.lsn < self._end_lsn or entry.type_number != COMMIT:
            return
        self.broken += broken
        for one in journals:
            self._found[one.id] = one._replace(time_ms=record.time, committed=True)

    def _is_bad(self, lsn: int) -> bool:
        return any(first <= lsn < end for first, end in self._damages)


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
            ranges.append(IdRange(last + 1, one.id - 1))
        last = max(one.id, last if last is not None else one.id)
    return tuple(ranges)
