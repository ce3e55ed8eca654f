"""The range of VLSNs that a node has, and the operations that move its ends.

Rules R-VLSN-2, 13, 51, 52, 75. A range is an immutable value: every change makes a new one, and readers take the
current one.

* ``last_sync`` is the last entry that can be a matchpoint (Commit, Abort, Matchpoint), ``last_txn_end`` the last
  Commit or Abort. NULL (-1) sorts before every VLSN; the one after NULL is 1.
* VLSNs that arrive out of order extend the range like any other: no VLSN between its ends is missing from the log.
* Cutting the tail (a rollback) must not remove a commit, and ends at a matchpoint. Cutting the head (log cleaning) must
  leave a matchpoint; it drops ``last_txn_end`` if that is the new first VLSN, as JE does (D-10).

Example: 1, 2 (Commit), 5, 3, 4 (Commit) give first 1, last 5, last_sync 4, last_txn_end 4. A rollback to 4 gives 1..4.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import JetoolError
from engine.format.entry.internal_db import VLSNRangeRecord
from engine.format.entry_types import SYNC_POINTS, TXN_ENDS
from engine.format.vlsn import FIRST_VLSN, NULL_VLSN

# A range is made for every entry that is registered, so this avoids the constructor.
_new_range: Final = tuple.__new__


def next_vlsn(vlsn: int) -> int:
    """The VLSN after ``vlsn``; 1 after NULL."""
    return FIRST_VLSN if vlsn == NULL_VLSN else vlsn + 1


def prev_vlsn(vlsn: int) -> int:
    """The VLSN before ``vlsn``; NULL before 1."""
    return NULL_VLSN if vlsn <= FIRST_VLSN else vlsn - 1


class VLSNRange(NamedTuple):
    """First and last VLSN, last sync point and last transaction end; all NULL if empty."""

    first: int
    last: int
    last_sync: int
    last_txn_end: int

    @property
    def is_empty(self) -> bool:
        """Whether there is no VLSN."""
        return self.first == NULL_VLSN

    def contains(self, vlsn: int) -> bool:
        """Whether the VLSN is in the range."""
        return self.first != NULL_VLSN and self.first <= vlsn <= self.last

    def with_entry(self, vlsn: int, type_number: int) -> VLSNRange:
        """The range extended by an entry (R-VLSN-13)."""
        first, last, last_sync, last_txn_end = self
        if vlsn > last:
            last = vlsn
        if first == NULL_VLSN or vlsn < first:
            first = vlsn
        if type_number in SYNC_POINTS:
            last_sync = max(last_sync, vlsn)
            if type_number in TXN_ENDS:
                last_txn_end = max(last_txn_end, vlsn)
        return _new_range(VLSNRange, (first, last, last_sync, last_txn_end))

    def cut_tail(self, delete_start: int) -> VLSNRange:
        """The range without ``delete_start`` and later VLSNs (R-VLSN-51).

        The last transaction end is kept in any case; ``overwrites_commit`` shows whether that is wrong.
        """
        if delete_start <= self.first:
            return EMPTY_RANGE
        last = prev_vlsn(delete_start)
        # R-VLSN-51: a rollback ends at a matchpoint, so the new last VLSN is a sync point.
        return VLSNRange(self.first, last, last, self.last_txn_end)

    def overwrites_commit(self, delete_start: int) -> bool:
        """Whether cutting the tail would remove a commit or an abort."""
        return self.last_txn_end >= delete_start

    def cut_head(self, delete_end: int) -> VLSNRange:
        """The range without ``delete_end`` and earlier VLSNs (R-VLSN-52).

        Raises:
            JetoolError: the range is empty, or its last matchpoint would be removed.
        """
        if self.is_empty:
            raise JetoolError(f"VLSN index: the range is empty, its head cannot be cut at {delete_end}")
        # R-VLSN-52: without a matchpoint no replica could sync with this node.
        if NULL_VLSN != self.last_sync < delete_end:
            raise JetoolError(
                "VLSN index: log files with the last matchpoint must not be deleted",
                expected=f"a cut before VLSN {self.last_sync}",
                found=str(delete_end),
            )
        if delete_end >= self.last:
            return EMPTY_RANGE
        first = next_vlsn(delete_end)
        return VLSNRange(
            first, self.last, self.last_sync, self.last_txn_end if self.last_txn_end > first else NULL_VLSN
        )

    def merged(self, recovered: VLSNRange, last_matchpoint: int) -> VLSNRange:
        """The range of an index whose end is replaced by the mappings from recovery (R-VLSN-75).

        Arguments:
            recovered: the range of the recovery tracker, not empty.
            last_matchpoint: the last VLSN to which a rollback in the recovery range went back, or NULL.
        """
        if self.is_empty:
            return recovered
        last_sync = self.last_sync if recovered.last_sync == NULL_VLSN else recovered.last_sync
        if last_sync > recovered.last:
            # The stored sync point was rolled back after the range was written; the target of the rollback is still
            # valid.
            last_sync = last_matchpoint
        last_txn_end = self.last_txn_end if recovered.last_txn_end == NULL_VLSN else recovered.last_txn_end
        return VLSNRange(min(self.first, recovered.first), recovered.last, last_sync, last_txn_end)

    def problems(self) -> list[str]:
        """The errors in the range alone (R-VLSN-42)."""
        first, last, last_sync, last_txn_end = self
        if first == NULL_VLSN:
            return [] if self == EMPTY_RANGE else [f"the range {self} is empty and yet has landmarks"]
        found = []
        if not 0 < first <= last:
            found.append(f"the range {self} ends before it begins")
        if last_sync > last:
            found.append(f"the last matchpoint {last_sync} lies after the range {self}")
        if last_txn_end > last:
            found.append(f"the last transaction end {last_txn_end} lies after the range {self}")
        return found

    def record(self) -> VLSNRangeRecord:
        """The range as a database record."""
        return VLSNRangeRecord(*self)

    def __str__(self) -> str:
        return "empty" if self.is_empty else f"{self.first}..{self.last}"


EMPTY_RANGE: Final = VLSNRange(NULL_VLSN, NULL_VLSN, NULL_VLSN, NULL_VLSN)
