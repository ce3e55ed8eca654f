"""Ghost buckets: placeholders for a VLSN whose mapping is gone.

Rule R-VLSN-53. When log cleaning deletes the files at the head of a range, the new first VLSN may lie in a gap between
two buckets. The range must still begin with a bucket, so a ghost stands for the missing VLSN. It answers every lookup
with one of two LSNs between which the entry lies: the start of the first remaining file, and the first mapping that
follows. Like JE, this program makes ghosts only at the head of a range.

Example: buckets {2..3} in file 1 and {5..6} in file 2, range 1..6. Deleting file 1 with VLSN 3 gives range 4..6, the
ghost {4: 0x2/0x0 .. LSN of 5} and {5..6}.
"""

from __future__ import annotations

from engine.format.entry.internal_db import GhostBucketRecord, VLSNBucketRecord
from engine.format.lsn import NULL_LSN
from engine.vlsn.bucket import VLSNBucket, contradiction


class GhostBucket:
    """Stands for the first VLSN of a range whose mapping is gone (R-VLSN-53): its entry lies between two LSNs.

    Arguments:
        first: the VLSN.
        first_possible_lsn: the start of the first remaining log file.
        last_possible_lsn: the first mapping of the following bucket.
    """

    __slots__ = ("closed", "first", "first_possible_lsn", "last_possible_lsn")

    is_ghost = True

    def __init__(self, first: int, first_possible_lsn: int, last_possible_lsn: int) -> None:
        self.first = first
        self.first_possible_lsn = first_possible_lsn
        self.last_possible_lsn = last_possible_lsn
        self.closed = True

    @property
    def last(self) -> int:
        """The VLSN itself."""
        return self.first

    @property
    def last_lsn(self) -> int:
        """The LSN at which to begin reading for later VLSNs."""
        return self.first_possible_lsn

    def owns(self, vlsn: int) -> bool:
        """Whether it stands for this VLSN."""
        return vlsn == self.first

    def put(self, _vlsn: int, _lsn: int) -> bool:
        """Always False: a ghost accepts no mappings."""
        return False

    def get(self, _vlsn: int) -> int:
        """Always NULL_LSN: no exact LSN is known."""
        return NULL_LSN

    def lte(self, _vlsn: int) -> int:
        """The first possible LSN."""
        return self.first_possible_lsn

    def gte(self, _vlsn: int) -> int:
        """The last possible LSN."""
        return self.last_possible_lsn

    def mappings(self) -> list[tuple[int, int]]:
        """Empty: a ghost has no mappings."""
        return []

    def cut_tail(self, delete_start: int, prev_lsn: int) -> GhostBucket | None:
        """The ghost, or None if it is cut off. Its last possible LSN is lowered to ``prev_lsn`` if that is smaller."""
        if self.first >= delete_start:
            return None
        # Everything after the ghost is gone, so its entry cannot lie after the new end.
        if NULL_LSN != prev_lsn < self.last_possible_lsn:
            return GhostBucket(self.first, self.first_possible_lsn, prev_lsn)
        return self

    def cut_head(self, delete_end: int) -> GhostBucket | None:
        """The ghost itself, or None if it is cut off."""
        return self if self.first > delete_end else None

    def record(self) -> GhostBucketRecord:
        """The ghost as a database record."""
        return GhostBucketRecord(self.first, self.first_possible_lsn, self.last_possible_lsn)

    def __str__(self) -> str:
        return f"ghost bucket {self.first}"


Bucket = VLSNBucket | GhostBucket


def bucket_of(record: VLSNBucketRecord | GhostBucketRecord) -> Bucket:
    """The bucket for a database record; it accepts no more mappings.

    Raises:
        DamageError: the record contradicts itself.
    """
    if not isinstance(record, GhostBucketRecord):
        return VLSNBucket.from_record(record)
    if record.vlsn < 1:
        raise contradiction(record.vlsn, "a ghost without a VLSN")
    return GhostBucket(*record)
