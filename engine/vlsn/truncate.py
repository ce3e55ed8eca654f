"""The database changes of truncating the index, computed before anything is written.

Rules R-VLSN-50 to 55. Both ends work alike: buckets beyond the cut are deleted, a bucket that straddles it is replaced
by its remaining part, and the new end of the range gets a mapping: at the tail the LSN given by the caller, at the head
a ghost if no bucket begins there.

Example, tail: stored {1..9: 1 4 7} and {10..16: 10 13 16}, cut at 12 with LSN 1/110: {10..16} becomes {10..11: 10}.
Without an LSN the bucket ends at its last stored element: {10..10: 10}.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.errors import JetoolError
from engine.format.lsn import NULL_LSN, make_lsn
from engine.format.vlsn import NULL_VLSN
from engine.vlsn import database as db
from engine.vlsn.database import IndexDatabase, IndexTxn
from engine.vlsn.ghost import Bucket, GhostBucket
from engine.vlsn.tracker import VLSNTracker, cut_bucket_tail
from engine.vlsn.vlsn_range import VLSNRange, next_vlsn


class StoredChanges(NamedTuple):
    """Changes to the database.

    Attributes:
        deleted: first VLSNs of the buckets to delete.
        stored: buckets that are new, or replace one that begins at the same VLSN.
        last_on_disk: last VLSN of the last bucket afterwards; NULL if no bucket is left.
    """

    deleted: list[int]
    stored: list[Bucket]
    last_on_disk: int

    def write(self, txn: IndexTxn) -> None:
        """Apply the changes."""
        for first in self.deleted:
            db.delete_bucket(txn, first)
        for bucket in self.stored:
            db.put_bucket(txn, bucket)


def check_tail(vlsn_range: VLSNRange, delete_start: int, prev_lsn: int) -> None:
    """Check that the tail may be cut.

    Raises:
        JetoolError: a commit or an abort would be removed, or the new last VLSN would have no mapping.
    """
    if vlsn_range.overwrites_commit(delete_start):
        raise JetoolError(
            "VLSN index: cutting its tail overwrites a commit",
            expected=f"a cut after VLSN {vlsn_range.last_txn_end}",
            found=str(delete_start),
        )
    if prev_lsn == NULL_LSN and delete_start > vlsn_range.first:
        raise JetoolError(f"VLSN index: the LSN of VLSN {delete_start - 1} is needed to cut the tail after it")


def stored_tail(
    database: IndexDatabase, delete_start: int, prev_lsn: int, replaced_by: int = NULL_LSN
) -> StoredChanges:
    """The changes that drop ``delete_start`` and later VLSNs from the stored buckets (R-VLSN-50, 55).

    Arguments:
        database: the buckets.
        delete_start, prev_lsn: see ``VLSNIndex.truncate_tail``; a merge has no ``prev_lsn``.
        replaced_by: LSN that a merge gives to ``delete_start``; the entry of an earlier ghost lies before this LSN.
    """
    deleted = [bucket.first for bucket in db.buckets_from(database, delete_start)]
    last = db.bucket_at_or_below(database, delete_start - 1)
    if last is None:
        return StoredChanges(deleted, [], NULL_VLSN)
    # A ghost has no stored element to end at, so it always needs a limit.
    limit = replaced_by if last.is_ghost and prev_lsn == NULL_LSN else prev_lsn
    kept = cut_bucket_tail(last, delete_start, limit)
    if kept is last:
        return StoredChanges(deleted, [], last.last)
    if kept is not None:
        return StoredChanges(deleted, [kept], kept.last)
    # No element of the bucket is left, although it begins before the cut.
    before = db.bucket_at_or_below(database, last.first - 1)
    return StoredChanges([last.first, *deleted], [], NULL_VLSN if before is None else before.last)


def stored_head(database: IndexDatabase, delete_end: int, next_file: int) -> StoredChanges:
    """The changes that drop ``delete_end`` and earlier VLSNs from the stored buckets; a ghost becomes the first if
    needed.
    """
    deleted: list[int] = []
    straddling: Bucket | None = None
    first: Bucket | None = None
    for bucket in db.buckets_from(database, 1):
        if bucket.first > delete_end:
            first = bucket
            break
        deleted.append(bucket.first)
        first = bucket.cut_head(delete_end)
        if first is not None:
            straddling = bucket
            break
    if first is None:
        return StoredChanges(deleted, [], NULL_VLSN)
    stored = [] if straddling is None else [first]
    # R-VLSN-53: the range begins in a gap.
    if first.first > next_vlsn(delete_end):
        stored.append(ghost_before(next_vlsn(delete_end), first, straddling, next_file))
    last = db.last_bucket(database)
    return StoredChanges(deleted, stored, NULL_VLSN if last is None else last.last)


def tracked_head(tracker: VLSNTracker, delete_end: int, next_file: int, *, is_first: bool) -> None:
    """Drop ``delete_end`` and earlier VLSNs from the tracker.

    Arguments:
        tracker, delete_end, next_file: see ``VLSNIndex.truncate_head``.
        is_first: no stored bucket is left, so the range begins in the tracker.
    """
    old = tracker.lte(delete_end)
    tracker.cut_head(delete_end)
    first = tracker.range.first
    if is_first and first != NULL_VLSN and tracker.first_tracked > first:
        straddling = old if old is not None and old.last > delete_end else None
        tracker.buckets.insert(0, ghost_before(first, tracker.buckets[0], straddling, next_file))


def ghost_before(first: int, following: Bucket, straddling: Bucket | None, next_file: int) -> GhostBucket:
    """The ghost for a range that begins before its first bucket (R-VLSN-53).

    Arguments:
        first: the range's first VLSN.
        following: the first remaining bucket.
        straddling: the bucket from which ``following`` was cut, if any: it locates ``first`` more precisely.
        next_file: number of the first remaining log file.
    """
    known = NULL_LSN if straddling is None else straddling.lte(first)
    first_possible = make_lsn(next_file, 0) if known == NULL_LSN else known
    return GhostBucket(first, first_possible, following.gte(following.first))
