"""What recovery learns of the replication stream while it reads the log from CkptStart on.

Rules R-VLSN-70 to 72. It sees every entry in log order: each replicated, visible entry is registered; each
RollbackStart takes back what follows its matchpoint. In the end it knows better than the stored index, whose end
it replaces (``recovery_merge``).

Example (E-VLSN-1): VLSN 10; 11 to 13 invisible; RollbackStart to 9 clears everything; 10, 11, 12; RollbackStart to 11
leaves 10..11 with last_sync 11 and the last matchpoint 11.
"""

from __future__ import annotations

from engine.format.entry.rollback import RollbackStart
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.vlsn.bucket import DEFAULT_LIMITS, BucketLimits
from engine.vlsn.tracker import VLSNTracker
from engine.vlsn.vlsn_range import next_vlsn


class VLSNRecoveryTracker:
    """Mappings of the part of the log that recovery reads.

    Arguments:
        limits: how buckets are filled; those of the index.

    Attributes:
        tracker: the mappings.
        last_matchpoint_vlsn, last_matchpoint_lsn: of the last RollbackStart; NULL without one.
    """

    def __init__(self, limits: BucketLimits = DEFAULT_LIMITS) -> None:
        self.tracker = VLSNTracker(limits)
        self.last_matchpoint_vlsn = NULL_VLSN
        self.last_matchpoint_lsn = NULL_LSN

    @property
    def is_empty(self) -> bool:
        """Whether no mapping is left."""
        return not self.tracker.buckets

    def track(self, vlsn: int, lsn: int, type_number: int) -> None:
        """Register a replicated, visible entry; entries come in log order."""
        self.tracker.track(vlsn, lsn, type_number)

    def roll_back(self, record: RollbackStart) -> None:
        """Take back what follows a matchpoint (R-VLSN-71).

        A transaction end after it stays noted in the range: JE keeps it, and the check of a log reports it.
        """
        matchpoint = record.matchpoint_vlsn
        self.last_matchpoint_vlsn = matchpoint
        self.last_matchpoint_lsn = record.matchpoint_lsn
        tracker = self.tracker
        # The rollback concerns the stored index alone; ``recovery_merge`` cuts that.
        if tracker.range.is_empty or tracker.range.last <= matchpoint:
            return
        tracker.cut_tail(next_vlsn(matchpoint), record.matchpoint_lsn)
        tracker.ensure_end(record.matchpoint_lsn)
