"""What listens to recovery from above: utilization counting, VLSN tracking (R-REC-16 to R-REC-19)."""

from __future__ import annotations

from typing import Protocol

from engine.format.entry.ln import LN
from engine.log.passes import RawEntry
from engine.tree.database_state import DatabaseState


class CacheKeeper(Protocol):
    """Keeps the trees within the cache while recovery changes them; the evictor does.

    Attributes:
        budget_bytes: what nodes, and records that wait for redo, may take.
    """

    budget_bytes: int

    def keep_room(self) -> None:
        """Nodes may leave memory now, whatever they hold: called where recovery relies on none."""


class RecoveryHook(Protocol):
    """Hears every entry of the interval from CkptStart on, and what redo and undo make of LNs.

    Attributes:
        hears_all: ``redone`` is called for every LN; otherwise plain insertions, which make nothing obsolete, may be
            left out, and plain updates summed up (``replaced``).
    """

    @property
    def hears_all(self) -> bool:
        """See above."""

    def saw_entries(self, file_number: int, type_number: int, entries: int, size_bytes: int, largest: int) -> None:
        """Entries of one type in a file, counted in bulk: no nodes, FileSummaryLNs or RollbackStarts, and no entries of
        the replication stream.

        Arguments:
            size_bytes, largest: of all of them, and of the largest, with headers.
        """

    def saw_entry(self, raw: RawEntry, *, provisional: bool, partial_start: int) -> None:
        """Any other entry of pass 1, in log order; ``partial_start`` is the CkptStart of an unfinished checkpoint."""

    def saw_summary(self, raw: RawEntry, record: LN) -> None:
        """A FileSummaryLN of pass 1."""

    def redone(self, raw: RawEntry, record: LN, db: DatabaseState, commit_lsn: int) -> None:
        """An LN was eligible for redo; ``commit_lsn`` is NULL_LSN for one without a transaction."""

    def is_obsolete(self, lsn: int, made_by: int) -> bool:
        """Whether a version that an LN has replaced is to be counted; changes nothing.

        Arguments:
            made_by: the LSN since which it is obsolete: of the LN, or of the Commit.
        """

    def replaced(self, file_number: int, versions: int, sized: int, size_bytes: int) -> None:
        """Number of versions in one file that plain updates have replaced; ``redone`` does not report these updates.

        Arguments:
            file_number: where these versions are.
            sized, size_bytes: how many of them have a size that is known, and their bytes together.
        """

    def undone(self, raw: RawEntry, record: LN, db: DatabaseState | None) -> None:
        """An LN was taken back, and not before the checkpoint."""
