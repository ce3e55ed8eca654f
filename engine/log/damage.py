"""Judging damage: the torn tail that every crash leaves, or something lost.

Damage in any file but the last is damage. In the last file (R-LOG-31) it is the tail of the log, cut off by the next
writer. That is harmless unless something durable stands intact after it: a Commit, a CkptEnd, or a
record outside transactions (deviation D-5). A file header is no such tail: JE refuses a file with a bad one. Only where
nothing stands after it, in a file after the one that the log ends in, JE was about to begin that file (R-LOG-30).

*Commits after a bad entry*: had they been made durable?

A crash in the middle of a write leaves some sectors of it on disk and others not. So an intact Commit can stand after a
bad entry although its write never ended, and no client was told that it committed. Damage to bytes that had been synced
leaves the same order of entries, and then the commits were real. Three things tell the one from the other.

* An entry that is only written when a sync before it has ended shows that all before that sync was durable: the
  CkptStart after a CkptEnd, the RollbackEnd after a RollbackStart, and a file after this one.
* The durable VLSN of a transaction end (DTVLSN) shows that a majority of the group has acknowledged all commits up to
  it.
* The bad bytes themselves: what a write has not reached is whole sectors of zeros. Where there are none, the entry had
  been written and was changed afterwards. This is a hint, not a proof.

Nothing shows more: a Commit or a CkptEnd that is there says nothing of the sync that was to follow it.

Example: ``bad INS_LN_TX, Commit, CkptStart, CkptEnd, Commit, CkptStart``: the first Commit was durable, the second may
not have been.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

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
from engine.log.check import DamagedStretch, Evidence
from engine.log.entry import Damage, LogEntry
from engine.storage.base import ReadFile

# A file from this part of the longest one on was ended because the next entry did not fit.
_FULL: Final = 0.99
# Files are not made shorter than this; je.log.fileMax is 1,000,000 at least.
_LEAST_BYTES: Final = 10_000


def is_harmless(seen: DamagedStretch, end_file: int) -> bool:
    """Whether a stretch of damage is a torn tail with nothing of value after it.

    Arguments:
        seen: the damage and what follows it in its file.
        end_file: number of the file that the log ends in.
    """
    damage = seen.damage
    in_tail = damage.lsn >> 32 >= end_file
    # Length 0 is a broken link between good entries, which no interrupted write leaves.
    if not in_tail or not damage.length or is_damaged_header(seen, end_file):
        return False
    return seen.after == Evidence(0, 0, 0) and not was_durable(seen)


def was_durable(seen: DamagedStretch) -> bool:
    """Whether the damaged entry itself once was durable: a Commit, say, that intact entries follow.

    Arguments:
        seen: as for ``is_harmless``.
    """
    return seen.damage.has_next and seen.damage.type_number in DURABLE_ENTRIES


def is_damaged_header(seen: DamagedStretch, end_file: int) -> bool:
    """Whether the damage is a file header for which JE refuses the file.

    Arguments:
        seen, end_file: as for ``is_harmless``.
    """
    damage = seen.damage
    # After the end of the log a bad header is a file that was being begun (R-LOG-30).
    return damage.reason == "header" and not (damage.is_tail and damage.lsn >> 32 > end_file)


def is_full(size_bytes: int, earlier: Sequence[int]) -> bool:
    """Whether a last file is as long as files of this log get before the next one is begun.

    Nothing in a log tells of later files; that it ends where a file is full is what a lost last file leaves.

    Arguments:
        size_bytes: of the last file.
        earlier: of the files before it; two of them must have about one size to show how long files get.
    """
    longest = max(earlier, default=0)
    full = max(longest * _FULL, _LEAST_BYTES)
    # A file that is longer than all before it was written with another size limit, which is not known.
    return sum(size >= full for size in earlier) > 1 and full <= size_bytes <= longest / _FULL


_SECTOR: Final = 512
# Of longer damage only the beginning is looked at.
_MOST_BYTES: Final = 1 << 20
# An entry whose body cannot be read names no database.
_NO_DATABASE: Final = -1
# Entries that are synced, and those that are not written before that sync has ended.
_PROOFS: Final = {CKPT_START: CKPT_END, ROLLBACK_END: ROLLBACK_START}


class AfterDamage(NamedTuple):
    """What stands after the first bad entry of a last file.

    Attributes:
        commits: intact Commits.
        synced: how many of them, the first ones, the log shows to have been durable.
        shown_by: the entry that shows it; NULL_LSN when it is a later file, or when nothing does.
        acknowledged: how many of them a majority of the group has acknowledged, by the log.
        torn: the bad bytes hold whole sectors of zeros, as a write that a crash interrupted leaves them.
        records: (database id, number) of the intact records outside transactions, by id.
    """

    commits: int = 0
    synced: int = 0
    shown_by: int = NULL_LSN
    acknowledged: int = 0
    torn: bool = False
    records: tuple[tuple[int, int], ...] = ()

    def in_words(self) -> str:
        """What an operator should know before he gives the commits up."""
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
        """So many of the commits, with their verb."""
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
        """One more entry."""
        number = entry.type_number
        if number == COMMIT:
            self.commits += 1
            self._vlsns.append(entry.vlsn)
        elif number in PLAIN_LNS:
            self.records[_database(entry)] += 1
        # The DTVLSN of a later entry covers the commits before it: they are on a majority of the group.
        if number in TXN_ENDS and entry.replicated:
            self._dtvlsn = max(self._dtvlsn, _dtvlsn(entry))
        if number in _PROOFS.values():
            # A CkptEnd or RollbackStart: its sync covers all commits so far, if something shows that it ended.
            self._before[number] = self.commits
        # This entry is only written after that sync, so its presence is the proof.
        synced = self._before.get(_PROOFS.get(number, 0), 0)
        if synced > self._synced:
            self._synced, self._shown_by = synced, entry.lsn

    def result(self, handle: ReadFile, damage: Damage, *, has_later_file: bool) -> AfterDamage:
        """What was found.

        Arguments:
            handle, damage: the file, and its first bad entry.
            has_later_file: a file after this one was begun, for which this one was synced.
        """
        acknowledged = sum(NULL_VLSN != vlsn <= self._dtvlsn for vlsn in self._vlsns)
        # A file is synced before its successor is begun (R-LOG-13), which proves all of them at once.
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
    """Whether a whole sector of zeros lies in, or begins or ends in, the bad bytes."""
    start = offset_of(damage.lsn) // _SECTOR * _SECTOR
    end = offset_of(damage.lsn) + min(damage.length, _MOST_BYTES)
    data = handle.read(start, -(-(end - start) // _SECTOR) * _SECTOR)
    sectors = (data[at : at + _SECTOR] for at in range(0, len(data), _SECTOR))
    return any(len(sector) == _SECTOR and not any(sector) for sector in sectors)
