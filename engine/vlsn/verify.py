"""Checks of a VLSN index against its own rules (R-VLSN-3, 42). Whether mappings lead to the right entries can only be
checked with the log.

Each finding is one sentence. It is not an error if a range lost its last transaction end when its head was cut (D-10).
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.errors import DamageError
from engine.format.vlsn import NULL_VLSN
from engine.vlsn import database as db
from engine.vlsn.database import IndexDatabase
from engine.vlsn.ghost import Bucket
from engine.vlsn.tracker import VLSNTracker
from engine.vlsn.vlsn_range import EMPTY_RANGE


def problems_of(tracker: VLSNTracker) -> list[str]:
    """The errors in the range and the unflushed buckets."""
    found = tracker.range.problems() + _out_of_order(tracker.buckets, NULL_VLSN)
    # R-VLSN-41: the flush would refuse these buckets.
    if tracker.buckets and tracker.first_tracked <= tracker.last_on_disk:
        found.append(f"{tracker.buckets[0]} begins before the stored buckets end, at {tracker.last_on_disk}")
    last = tracker.buckets[-1].last if tracker.buckets else tracker.last_on_disk
    if last == NULL_VLSN and not tracker.range.is_empty:
        found.append(f"the range {tracker.range} has no bucket")
    elif last != tracker.range.last and not tracker.range.is_empty:
        found.append(f"the last bucket ends at {last}, the range at {tracker.range.last}")
    if tracker.range.is_empty and (tracker.buckets or tracker.last_on_disk != NULL_VLSN):
        found.append("the range is empty, but there are buckets")
    return found


def problems_of_stored(database: IndexDatabase, tracker: VLSNTracker) -> list[str]:
    """The errors in the stored buckets and range, given a tracker."""
    try:
        stored = db.read_range(database)
        buckets = list(db.buckets_from(database, 1))
    except DamageError as error:
        return [str(error)]
    found = _out_of_order(buckets, NULL_VLSN)
    # The stored range may lag behind the unflushed entries; it must never extend beyond them.
    within = tracker.range.first <= stored.first and stored.last <= tracker.range.last
    if stored != EMPTY_RANGE and not within:
        found.append(f"the stored range {stored} is not part of the range {tracker.range}")
    first = buckets[0].first if buckets else NULL_VLSN
    last = buckets[-1].last if buckets else NULL_VLSN
    if buckets and first != stored.first:
        found.append(f"the first stored bucket begins at {first}, the stored range at {stored.first}")
    if last != tracker.last_on_disk:
        found.append(f"the last stored bucket ends at {last}, expected is {tracker.last_on_disk}")
    return found


def _out_of_order(buckets: Iterable[Bucket], last: int) -> list[str]:
    found = []
    for bucket in buckets:
        if bucket.first <= last:
            found.append(f"{bucket} overlaps the one before it, which ends at {last}")
        last = bucket.last
    return found
