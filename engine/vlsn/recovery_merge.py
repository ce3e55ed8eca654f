"""Opening the index after recovery: the mappings that recovery found are merged into the stored index.

Rule R-VLSN-75, depending on the result of recovery:

* no entries and no rollback: the stored index is complete;
* only a rollback to M: the same as if only an entry with the VLSN M had been found: the index is cut back to M;
* entries from VLSN f on: if f directly follows the stored end, they are appended. If f is inside the stored range, they
  replace the stored end from f on, and the stored part ends at its last stored element before f. If f is beyond, this
  is damage, since VLSNs would be missing.

Example (E-VLSN-2), stride 4: stored {1..10: 1 5 9}, RollbackStart to 7@1/70 and no entries. Result: range 1..7, {1..5:
1 5}, {7: 1/70}.
"""

from __future__ import annotations

from engine.errors import DamageError
from engine.format.entry_types import MATCHPOINT
from engine.format.vlsn import NULL_VLSN
from engine.vlsn.database import IndexDatabase
from engine.vlsn.index import VLSNIndex
from engine.vlsn.limits import DEFAULT_CACHE_SIZE, DEFAULT_LIMITS, BucketLimits
from engine.vlsn.tracker import VLSNRecoveryTracker
from engine.vlsn.vlsn_range import next_vlsn


def open_index(
    database: IndexDatabase,
    limits: BucketLimits = DEFAULT_LIMITS,
    recovered: VLSNRecoveryTracker | None = None,
    *,
    cache_size: int = DEFAULT_CACHE_SIZE,
    converting: bool = False,
) -> VLSNIndex:
    """Open the index of an environment.

    Arguments:
        database: the stored index; empty for a new environment.
        limits: how buckets are filled.
        recovered: the mappings from recovery; None if it did not track any. The index takes ownership.
        cache_size: slots of the log item cache.
        converting: a stand-alone environment is being converted to a replicated one, so that an empty index may begin
            anywhere.

    Raises:
        DamageError: the stored index is malformed, or ends before the mappings from recovery begin.
    """
    index = VLSNIndex(database, limits, cache_size)
    if recovered is None:
        index.flush(sync=True)
        return index
    if recovered.is_empty:
        if recovered.last_matchpoint_vlsn == NULL_VLSN:
            return index
        # A rollback without entries after it: the matchpoint is the end of the stream.
        recovered.track(recovered.last_matchpoint_vlsn, recovered.last_matchpoint_lsn, MATCHPOINT)
    first, last = recovered.tracker.range.first, index.range.last
    # R-VLSN-3: a range has no holes.
    if first > next_vlsn(last) and not (converting and index.range.is_empty):
        raise DamageError(
            "VLSN index: recoveryTracker should overlap or follow the stored index",
            expected=f"VLSN {next_vlsn(last)} or an earlier one as the first after the checkpoint",
            found=str(first),
            consequence="entries of the replication stream between them cannot be found",
            hint="run jetool vlsn check, then jetool vlsn rebuild",
        )
    index.replace_tail(recovered.tracker, recovered.last_matchpoint_vlsn)
    return index
