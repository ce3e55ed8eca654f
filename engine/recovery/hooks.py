"""Protocols of listeners above recovery: utilization counting, VLSN tracking (R-REC-16 to R-REC-19)."""

from __future__ import annotations

from typing import Protocol

from engine.format.entry.ln import LN
from engine.log.passes import RawEntry
from engine.tree.database_state import DatabaseState


class CacheKeeper(Protocol):
    """Keeps the trees within the cache budget while recovery changes them; implemented by the evictor.

    Attributes:
        budget_bytes: the memory for nodes, and for records that wait for redo.
    """

    budget_bytes: int

    def keep_room(self) -> None:
        """Evict if nodes exceed the budget. Recovery holds no node at these calls, so every node may be evicted."""


class RecoveryHook(Protocol):
    """Receives every entry from CkptStart on, and the effects of redo and undo on LNs.

    Attributes:
        hears_all: if True, ``redone`` is called for every LN. Otherwise recovery may omit plain insertions, which make
            nothing obsolete, and may report plain updates as sums (``replaced``).
    """

    @property
    def hears_all(self) -> bool:
        """See the class."""

    def saw_entries(self, file_number: int, type_number: int, entries: int, size_bytes: int, largest: int) -> None:
        """Called with totals for the entries of one type in a file. ``saw_entry`` is called for nodes, FileSummaryLNs,
        RollbackStarts and entries of the replication stream; totals do not include these.

        Arguments:
            size_bytes, largest: total size of the entries, and size of the largest one, with headers.
        """

    def saw_entry(self, raw: RawEntry, *, provisional: bool, partial_start: int) -> None:
        """Called for any other entry of pass 1, in log order; ``partial_start`` is the CkptStart of an unfinished
        checkpoint.
        """

    def saw_summary(self, raw: RawEntry, record: LN) -> None:
        """Called for a FileSummaryLN of pass 1."""

    def redone(self, raw: RawEntry, record: LN, db: DatabaseState, commit_lsn: int) -> None:
        """Called for an LN that is eligible for redo; ``commit_lsn`` is NULL_LSN without a transaction."""

    def is_obsolete(self, lsn: int, made_by: int) -> bool:
        """Whether a version that an LN has replaced should be counted as obsolete; changes nothing.

        Arguments:
            made_by: the LSN of the entry that made the version obsolete: the LN, or the Commit.
        """

    def replaced(self, file_number: int, versions: int, sized: int, size_bytes: int) -> None:
        """Called with the number of versions in one file that plain updates have replaced; ``redone`` does not report
        these updates.

        Arguments:
            file_number: the file of these versions.
            sized, size_bytes: number of versions with a known size, and their total size.
        """

    def undone(self, raw: RawEntry, record: LN, db: DatabaseState | None) -> None:
        """Called for an LN that was undone, unless it had been undone before the checkpoint."""
