"""Judging damage: a torn tail, as every crash leaves it, or lost data.

In any file but the last, damage is real damage. In the last file (R-LOG-31) it is the tail of the log, which the next
writer cuts off. That is harmless unless a durable entry is intact after it: a Commit, a CkptEnd, or a record outside
transactions (deviation D-5). A bad file header is not a torn tail: JE refuses such a file. The exception is a bad
header with nothing after it, in a file after the end of the log: JE was about to begin that file (R-LOG-30).

*Commits after a bad entry*: had they been durable?

A crash in the middle of a write leaves some of its sectors on disk and others not. So an intact Commit can follow a bad
entry although its write never finished, and no client was told that it committed. Damage to bytes that had been synced
leaves the same sequence of entries, but then the commits were real. Three signs distinguish the two cases.

* Some entries are written only after a preceding sync has finished, and so prove that everything before that sync was
  durable: the CkptStart after a CkptEnd, the RollbackEnd after a RollbackStart, and the next file.
* The durable VLSN of a transaction end (DTVLSN) proves that a majority of the group has acknowledged all commits up to
  it.
* The bad bytes themselves: parts that a write has not reached are whole sectors of zeros. If there are no such sectors,
  the entry was written and changed afterwards. This is a hint, not a proof.

There is no other sign: the presence of a Commit or a CkptEnd does not show that the following sync took place.

Example: ``bad INS_LN_TX, Commit, CkptStart, CkptEnd, Commit, CkptStart``: the first Commit was durable, the second may
not have been.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.errors import FormatError
from engine.format.entry.ln import LN
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import (
    CKPT_END,
    CKPT_START,
    COMMIT,
    DURABLE_ENTRIES,
    PLAIN_LNS,
    ROLLBACK_END,
    ROLLBACK_START,
    TXN_ENDS,
)
from engine.format.lsn import NULL_LSN, offset_of
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import Damage, LogEntry
from engine.storage.base import ReadFile

if TYPE_CHECKING:
    from engine.log.check import DamagedStretch

# A file at least this large, relative to the longest one, ended because the next entry did not fit.
_FULL: Final = 0.99
# Shorter files do not count as full; je.log.fileMax is at least 1,000,000.
_LEAST_BYTES: Final = 10_000


def is_harmless(seen: DamagedStretch, end_file: int) -> bool:
    """Whether a stretch of damage is a torn tail without valuable entries after it.

    Arguments:
        seen: the damage, and the evidence after it in its file.
        end_file: number of the last file that holds entries.
    """
    damage = seen.damage
    in_tail = damage.lsn >> 32 >= end_file
    # Length 0 is a broken link between good entries, which no interrupted write leaves.
    if not in_tail or not damage.length or is_damaged_header(seen, end_file):
        return False
    return not any(seen.after) and not was_durable(seen)


def was_durable(seen: DamagedStretch) -> bool:
    """Whether the damaged entry is itself of a durable type, such as a Commit, and an intact entry follows it.

    Arguments:
        seen: see ``is_harmless``.
    """
    return seen.damage.has_next and seen.damage.type_number in DURABLE_ENTRIES


def is_damaged_header(seen: DamagedStretch, end_file: int) -> bool:
    """Whether the damage is a bad file header, for which JE refuses the file.

    Arguments:
        seen, end_file: see ``is_harmless``.
    """
    damage = seen.damage
    # After the end of the log, a bad header belongs to a file that was being created (R-LOG-30).
    return damage.reason == "header" and not (damage.is_tail and damage.lsn >> 32 > end_file)


def is_full(size_bytes: int, earlier: Sequence[int]) -> bool:
    """Whether the last file has reached the size at which this log begins a new file.

    Nothing in a log refers to later files. A last file that is full is the only trace of a lost file after it.

    Arguments:
        size_bytes: size of the last file.
        earlier: sizes of the earlier files; two of them must have nearly the same size, which then counts as full.
    """
    longest = max(earlier, default=0)
    full = max(longest * _FULL, _LEAST_BYTES)
    # If the last file exceeds all earlier ones, it had another size limit, which is unknown: it does not count as full.
    return sum(size >= full for size in earlier) > 1 and full <= size_bytes <= longest / _FULL


_SECTOR: Final = 512
# For longer damage only the beginning is examined.
_MOST_BYTES: Final = 1 << 20
# For an entry whose body cannot be decoded.
_NO_DATABASE: Final = -1
# By entry type: the type of the earlier entry whose sync must finish before an entry of this type is written.
_PROOFS: Final = {CKPT_START: CKPT_END, ROLLBACK_END: ROLLBACK_START}


class AfterDamage(NamedTuple):
    """The evidence after the first bad entry of a last file.

    Attributes:
        commits: intact Commits.
        synced: how many of the commits, counted from the first, the log proves to have been durable.
        shown_by: the entry that proves it; NULL_LSN if a later file proves it, or if there is no proof.
        acknowledged: how many of the commits a majority of the group has acknowledged, according to the log.
        torn: the bad bytes contain whole sectors of zeros, as after an interrupted write.
        records: (database id, number) of the intact records outside transactions, by database id.
    """

    commits: int = 0
    synced: int = 0
    shown_by: int = NULL_LSN
    acknowledged: int = 0
    torn: bool = False
    records: tuple[tuple[int, int], ...] = ()

    def in_words(self) -> str:
        """A description for an operator who has to decide about losing the commits."""
        if self.commits == self.synced:
            by = "a later file" if self.shown_by == NULL_LSN else "what was logged after their sync"
            known = f"{self._share(self.commits)} durable, as {by} shows"
        elif self.synced:
            known = f"{self._share(self.synced)} durable, as what was logged after their sync shows"
        else:
            known = f"nothing in the log shows that {'it was' if self.commits == 1 else 'they were'} durable"
        if self.acknowledged:
            known += f"; {self._share(self.acknowledged)} acknowledged by the group"
        if self.commits == self.synced:
            return known
        if self.torn:
            return f"{known}; the bad bytes hold empty sectors, as a write leaves that a crash interrupted"
        return f"{known}; the bad bytes hold no empty sector, so they were rather changed after they were written"

    def _share(self, count: int) -> str:
        """A number of commits as text, with a verb."""
        if self.commits == 1:
            return "it was"
        return "all of them were" if count == self.commits else f"{count} of them {'was' if count == 1 else 'were'}"


class AfterDamageCount:
    """Collects ``AfterDamage`` from the intact entries after the bad one, in log order."""

    def __init__(self) -> None:
        self.commits = 0
        self._synced = 0
        self._shown_by = NULL_LSN
        self._before: dict[int, int] = {}
        self._vlsns: list[int] = []
        self._dtvlsn = NULL_VLSN
        self.records: Counter[int] = Counter()

    def add(self, entry: LogEntry) -> None:
        """Add the next entry."""
        number = entry.type_number
        if number == COMMIT:
            self.commits += 1
            self._vlsns.append(entry.vlsn)
        elif number in PLAIN_LNS:
            self.records[_database(entry)] += 1
        # The DTVLSN of a later entry covers the commits before it: a majority of the group has them.
        if number in TXN_ENDS and entry.replicated:
            self._dtvlsn = max(self._dtvlsn, _dtvlsn(entry))
        if number in _PROOFS.values():
            # A CkptEnd or RollbackStart: its sync covers all commits so far, if a later entry proves that it finished.
            self._before[number] = self.commits
        # A CkptStart or RollbackEnd is written only after that sync, so its presence is the proof.
        synced = self._before.get(_PROOFS.get(number, 0), 0)
        if synced > self._synced:
            self._synced, self._shown_by = synced, entry.lsn

    def result(self, handle: ReadFile, damage: Damage, *, has_later_file: bool) -> AfterDamage:
        """The result.

        Arguments:
            handle, damage: the file, and its first bad entry.
            has_later_file: a later file was begun; before that, this file was synced.
        """
        acknowledged = sum(NULL_VLSN != vlsn <= self._dtvlsn for vlsn in self._vlsns)
        # A file is synced before its successor is begun (R-LOG-13), which proves all commits at once.
        synced, shown_by = (self.commits, NULL_LSN) if has_later_file else (self._synced, self._shown_by)
        torn = _has_empty_sector(handle, damage)
        return AfterDamage(self.commits, synced, shown_by, acknowledged, torn, tuple(sorted(self.records.items())))


def _database(entry: LogEntry) -> int:
    try:
        record = entry.record()
    except FormatError:
        return _NO_DATABASE
    return record.db_id if isinstance(record, LN) else _NO_DATABASE


def _dtvlsn(entry: LogEntry) -> int:
    try:
        record = entry.record()
    except FormatError:
        return NULL_VLSN
    return record.dtvlsn if isinstance(record, TxnEnd) else NULL_VLSN


def _has_empty_sector(handle: ReadFile, damage: Damage) -> bool:
    """Whether a whole sector of zeros overlaps the bad bytes."""
    start = offset_of(damage.lsn) // _SECTOR * _SECTOR
    end = offset_of(damage.lsn) + min(damage.length, _MOST_BYTES)
    data = handle.read(start, -(-(end - start) // _SECTOR) * _SECTOR)
    sectors = (data[at : at + _SECTOR] for at in range(0, len(data), _SECTOR))
    return any(len(sector) == _SECTOR and not any(sector) for sector in sectors)
