"""Reading journals by id: their content, LSN and commit time.

The time of a journal is the time of its transaction's Commit, which follows soon after it in the log. After the cleaner
has moved a journal, its entry names no transaction. Its time is then taken from the **clock**, the latest journal
before it that holds a time (a master writes one about every ten seconds).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

from engine.contents.journals import KEY_BYTES, Journal, decode_journal, journal_id, journal_key, timestamp_of
from engine.db.environment import Environment
from engine.db.record_keys import comparable_key, key_and_data
from engine.db.scan import records_between
from engine.errors import DamageError, FormatError, JetoolError, NotFoundError
from engine.format.entry.ln import LN
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import TXN_ENDS
from engine.format.lsn import NULL_LSN, format_lsn
from engine.format.vlsn import NULL_VLSN
from engine.journals.extents import JournalExtent, JournalExtents
from engine.journals.id_range import IdRange
from engine.journals.unseen import UnseenJournals, read_unseen, read_values
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log

# Limits of the search for a Commit after a journal, and for a clock journal before it.
_COMMIT_WITHIN: Final = 20_000
_CLOCK_WITHIN: Final = 4096
# If the current pass over the log is at most this far before the place, continue it instead of starting a new one.
_READ_ON_BYTES: Final = 4 << 20
_MOST_TIMES: Final = 50_000
_WHOLE: Final = (1 << 63) - 1
# Ids that ``read_back`` reads at once.
_BACK_IDS: Final = 256


class RawJournal(NamedTuple):
    """A journal as it is stored: its id, value and LSN."""

    id: int
    value: bytes
    lsn: int


class FoundJournal(NamedTuple):
    """A journal with its database, LSN, transaction and time.

    Attributes:
        database: the database of the journal.
        journal: None if the value is too short to hold a code.
        txn: the transaction that wrote it; None if the log no longer records it.
        vlsn: NULL_VLSN outside a stream.
        time_ms: commit time, or the time of the clock; None if neither is known.
        seen: recovery sees it. False: the journal or its Commit comes after damage in the log (``unseen``).
    """

    id: int
    database: str
    value: bytes
    journal: Journal | None
    lsn: int
    vlsn: int
    txn: int | None
    time_ms: int | None
    seen: bool = True


class JournalReader:
    """Reads the journals of one family.

    Arguments:
        env: the environment; the caller closes it.
        extents: the journal databases of the family.
    """

    def __init__(self, env: Environment, extents: JournalExtents) -> None:
        self._env = env
        self._extents = extents
        self._names = [one.name_id for one in extents.databases]
        self._commits = CommitTimes(env)

    def raw(self, first: int = 0, last: int = _WHOLE) -> Iterator[tuple[str, RawJournal]]:
        """Journals of a range of ids, as stored, in the order of the databases; keys that are not ids are left out.

        Raises:
            DamageError: a journal cannot be read.
        """
        # A database may hold ids above the next one's first id (its name), so every database in the range is read.
        for extent in self._extents.databases:
            if extent.first is None or extent.last is None or extent.first > last or extent.last < first:
                continue
            yield from self._raw_of(extent, first, last)

    def _raw_of(self, extent: JournalExtent, first: int, last: int) -> Iterator[tuple[str, RawJournal]]:
        """As ``raw``, of one database."""
        low, high = journal_key(max(first, 0)), journal_key(min(max(last, -1) + 1, _WHOLE))
        with self._env.open_database(extent.name) as db:
            state = db.state
            ends, plain = (comparable_key(state, low), comparable_key(state, high)), state.order.plain
            for batch in records_between(self._env.engine, state, *ends):
                for key, data, lsn in batch:
                    # A frontend's keys are ordered by bytes; other orders use a comparable form that must be
                    # converted back.
                    if not plain:
                        key, data = key_and_data(state, key, data)
                    if len(key) == KEY_BYTES:
                        yield extent.name, RawJournal(journal_id(key), data, lsn)

    def read(self, first: int, last: int) -> Iterator[FoundJournal]:
        """Journals of a range of ids, with transactions and times."""
        return self._with_times(self.raw(first, last))

    def read_back(self, first: int, last: int) -> Iterator[FoundJournal]:
        """As ``read``, in the opposite order. Only a part of the range is in memory."""
        for extent in reversed(self._extents.databases):
            if extent.first is None or extent.last is None:
                continue
            low, high, ids = max(extent.first, first), min(extent.last, last), _BACK_IDS
            while high >= low:
                begin = max(low, high - ids + 1)
                part = list(self._with_times(self._raw_of(extent, begin, high)))
                yield from reversed(part)
                # A hole may be of any length, so pass over it in growing steps.
                high, ids = begin - 1, _BACK_IDS if part else ids * 2

    def _with_times(self, journals: Iterable[tuple[str, RawJournal]]) -> Iterator[FoundJournal]:
        clock: int | None = None
        asked = False
        for database, raw in journals:
            clock = timestamp_of(raw.value) or clock
            found = self._found(database, raw)
            if found.time_ms is None:
                # Search for the clock only when needed: most journals have a Commit, and the clock may be thousands of
                # journals away.
                if clock is None and not asked:
                    clock, asked = self.clock_before(raw.id), True
                found = found._replace(time_ms=clock)
            yield found

    def find(self, wanted: int) -> FoundJournal:
        """One journal.

        Raises:
            NotFoundError: no journal has that id.
        """
        for found in self.read(wanted, wanted):
            return found
        have = f"{self._extents.first} to {self._extents.last}"
        raise NotFoundError(
            f"no journal {wanted}",
            file=self._env.home,
            expected=f"an id from {have}" if self._extents.journals else None,
            found=self._why(wanted),
            hint=f"jetool journal check {self._env.home} shows what is missing and what that means",
        )

    @cached_property
    def unseen(self) -> UnseenJournals | None:
        """The journals after damage in the log; None if no Commit follows the damage."""
        return read_unseen(self._env, self._extents)

    def read_unseen(self, first: int, last: int) -> Iterator[FoundJournal]:
        """Yield the journals with ids of a range that are in the log, but that recovery does not read."""
        for one, value in read_values(self._env, self.unseen.between(first, last) if self.unseen is not None else []):
            yield FoundJournal(
                id=one.id,
                database=one.database,
                value=value,
                journal=_decoded(value),
                lsn=one.lsn,
                vlsn=one.vlsn,
                txn=one.txn,
                time_ms=one.time_ms,
                seen=False,
            )

    def is_unseen(self, wanted: int) -> bool:
        """Whether the log has a journal of this id that recovery does not read."""
        return self.unseen is not None and bool(self.unseen.between(wanted, wanted))

    def destroyed(self, first: int, last: int) -> list[IdRange]:
        """The parts of a range of ids that have no intact entry because of damage; the first ``MOST_HOLES``."""
        gone = self.unseen.destroyed if self.unseen is not None else ()
        return [
            IdRange(first=max(one.first, first), last=min(one.last, last))
            for one in gone
            if one.first <= last and one.last >= first
        ]

    def clock_before(self, wanted: int) -> int | None:
        """The time of the newest clock journal before an id; None if no clock journal is near enough."""
        for extent in reversed(self._extents.databases[: bisect_right(self._names, wanted)]):
            with self._env.open_database(extent.name) as db:
                records = db.items(end=journal_key(wanted), reverse=True)
                for _, value in islice(records, _CLOCK_WITHIN):
                    found = timestamp_of(value)
                    if found is not None:
                        return found
                if extent.journals > _CLOCK_WITHIN:
                    return None
        return None

    def time_of(self, wanted: int) -> int | None:
        """When a journal was written: its Commit, or the clock before it."""
        found = next(iter(self.read(wanted, wanted)), None)
        return found.time_ms if found is not None else self.clock_before(wanted)

    def first_since(self, time_ms: int) -> int | None:
        """The first journal written at or after a time, or None.

        A binary search finds the journal, because the times of journals ascend.
        """
        if self._extents.first is None or self._extents.last is None:
            return None
        low, high = self._extents.first, self._extents.last + 1
        while low < high:
            middle = (low + high) // 2
            time = self.time_of(middle)
            if time is not None and time >= time_ms:
                high = middle
            else:
                low = middle + 1
        return low if low <= self._extents.last else None

    def _found(self, database: str, raw: RawJournal) -> FoundJournal:
        ctx = self._env.engine.ctx
        txn, vlsn, time = None, NULL_VLSN, None
        try:
            entry = ctx.access.read(raw.lsn)
            vlsn, record = entry.vlsn, entry.record()
            txn = record.txn_id if isinstance(record, LN) else None
            time = self._commits.of(raw.lsn, txn) if txn is not None else None
        except (DamageError, FormatError):
            # Return the journal without transaction and time: its value was already read.
            pass
        return FoundJournal(
            id=raw.id,
            database=database,
            value=raw.value,
            journal=_decoded(raw.value),
            lsn=raw.lsn,
            vlsn=vlsn,
            txn=txn,
            time_ms=time,
        )

    def _why(self, wanted: int) -> str:
        for extent in self._extents.databases:
            if any(hole.first <= wanted <= hole.last for hole in extent.holes):
                return f"a hole in database {extent.name}"
        unseen = self.unseen
        if unseen is None:
            return "it is not among them"
        damage = format_lsn(unseen.damage_lsn)
        for one in unseen.between(wanted, wanted):
            return f"it is not seen: it stands at {format_lsn(one.lsn)}, and the log is damaged at {damage}"
        if any(gone.first <= wanted <= gone.last for gone in unseen.destroyed):
            return f"no intact entry of it; the log is damaged at {damage}, and later journals stand after that"
        return f"it is not among them; the log is damaged at {damage}"


def _decoded(value: bytes) -> Journal | None:
    try:
        return decode_journal(value)
    except FormatError:
        return None


class CommitTimes:
    """Commit times of transactions, from the Commits that follow their writes in the log.

    Arguments:
        env: the environment.
    """

    def __init__(self, env: Environment) -> None:
        storage = env.engine.storage
        self._log = scan_log(storage, list_log_files(storage), marker=True)
        self._times: dict[int, int] = {}
        self._pass: Iterator[object] | None = None
        self._start = self._at = NULL_LSN

    def of(self, lsn: int, txn: int) -> int | None:
        """Commit time of the transaction that wrote the entry at an LSN; None if its Commit is not near."""
        found = self._times.get(txn)
        if found is not None:
            return found
        if self._pass is None or not self._start <= lsn <= self._at + _READ_ON_BYTES:
            self._pass, self._start, self._at = self._log.between(lsn).entries(), lsn, lsn
        try:
            return self._read_on(txn)
        except (JetoolError, StopIteration):
            self._pass = None
            return None

    def _read_on(self, txn: int) -> int | None:
        assert self._pass is not None
        if len(self._times) > _MOST_TIMES:
            self._times.clear()
        for _ in range(_COMMIT_WITHIN):
            item = next(self._pass)
            if not isinstance(item, LogEntry):
                continue
            self._at = item.lsn
            if item.type_number in TXN_ENDS:
                record = item.record()
                if isinstance(record, TxnEnd):
                    self._times[record.id] = record.time
                    if record.id == txn:
                        return record.time
        return None
