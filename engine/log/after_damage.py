"""What the log tells of the commits that stand after a bad entry of its last file: had they been made durable?

A crash in the middle of a write leaves some sectors of it on disk and others not. So an intact Commit can stand after a
bad entry although its write never ended, and nobody was told that it committed. Damage to what had been written leaves
the same order of entries, and then the commits were real. Three things tell the one from the other.

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

from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import ABORT, CKPT_END, CKPT_START, COMMIT, ROLLBACK_END, ROLLBACK_START
from engine.format.lsn import NULL_LSN, offset_of
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import Damage, LogEntry
from engine.storage.base import ReadFile

_SECTOR: Final = 512
# Of longer damage only the beginning is looked at.
_MOST_BYTES: Final = 1 << 20
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
    """

    commits: int = 0
    synced: int = 0
    shown_by: int = NULL_LSN
    acknowledged: int = 0
    torn: bool = False

    def in_words(self) -> str:
        """What an operator should know before he gives the commits up."""
        if self.commits == self.synced:
            by = "a later file" if self.shown_by == NULL_LSN else "what was logged after their sync"
            known = f"all of them were durable, as {by} shows"
        elif self.synced:
            known = f"{self.synced} of them were durable, as what was logged after their sync shows"
        else:
            known = "nothing in the log shows that they were durable"
        if self.acknowledged:
            known += f"; {self.acknowledged} of them were acknowledged by the group"
        if self.commits == self.synced:
            return known
        if self.torn:
            return f"{known}; the bad bytes hold empty sectors, as a write leaves that a crash interrupted"
        return f"{known}; the bad bytes hold no empty sector, so they were rather changed after they were written"


class AfterDamageCount:
    """Collects ``AfterDamage`` from the intact entries after the bad one, in log order."""

    def __init__(self) -> None:
        self.commits = 0
        self._synced = 0
        self._shown_by = NULL_LSN
        self._before: dict[int, int] = {}
        self._vlsns: list[int] = []
        self._dtvlsn = NULL_VLSN

    def add(self, entry: LogEntry) -> None:
        """One more entry."""
        number = entry.type_number
        if number == COMMIT:
            self.commits += 1
            self._vlsns.append(entry.vlsn)
        if number in (COMMIT, ABORT) and entry.replicated:
            self._dtvlsn = max(self._dtvlsn, _dtvlsn(entry))
        if number in _PROOFS.values():
            self._before[number] = self.commits
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
        synced, shown_by = (self.commits, NULL_LSN) if has_later_file else (self._synced, self._shown_by)
        return AfterDamage(self.commits, synced, shown_by, acknowledged, _has_empty_sector(handle, damage))


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
