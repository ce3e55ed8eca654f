"""Ranges, buckets and entries of the VLSN index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.fields import ABSENT, Absent, Bool, Choices, FieldName, Int, Like, Lsn, SizeBytes, Text, Vlsn, record
from engine.format.stream_facts import StreamFacts
from engine.format.vlsn import NULL_VLSN
from engine.log.files import log_file_name
from engine.vlsn.ghost import Bucket, GhostBucket
from engine.vlsn.vlsn_range import VLSNRange


@record()
class Landmarks(NamedTuple):
    """A range of VLSNs."""

    first: Annotated[Vlsn, "first VLSN; null for an empty range"]
    last: Annotated[Vlsn, "last VLSN"]
    last_sync: Annotated[Vlsn, "last Commit, Abort or Matchpoint"]
    last_txn_end: Annotated[Vlsn, "last Commit or Abort"]
    entries: Annotated[Int, "how many VLSNs"]


@record("range")
class NodeRange(NamedTuple):
    """The VLSNs that a node has."""

    first: Annotated[Vlsn, Like(Landmarks)]
    last: Annotated[Vlsn, Like(Landmarks)]
    last_sync: Annotated[Vlsn, Like(Landmarks)]
    last_txn_end: Annotated[Vlsn, Like(Landmarks)]
    entries: Annotated[Int, Like(Landmarks)]
    source: Annotated[Text, "where they are from", Choices(("index", "log"))]
    index_: Annotated[
        Landmarks | Absent | None, "by the index, as recovery leaves it; null without one", FieldName("index")
    ] = ABSENT
    log: Annotated[Landmarks | Absent, "by the log"] = ABSENT
    differences: Annotated[Sequence[Text] | Absent, "what index and log disagree about"] = ABSENT


@record()
class VlsnOffset(NamedTuple):
    """A mapping of a bucket."""

    vlsn: Annotated[Vlsn, "the VLSN"]
    lsn: Annotated[Lsn, "its LSN"]


@record("bucket")
class IndexBucket(NamedTuple):
    """One bucket of the index: mappings of a stretch of one file."""

    first_vlsn: Annotated[Vlsn, "first VLSN"]
    last_vlsn: Annotated[Vlsn, "last VLSN"]
    file: Annotated[Text | None, "the log file; null for a ghost"]
    stride: Annotated[Int | None, "every how many VLSNs an offset is kept; null for a ghost"]
    mappings: Annotated[Int, "VLSNs whose LSN is kept, the last one's included"]
    first_lsn: Annotated[Lsn, "LSN of the first that is kept; of a ghost, where its entry may be at the earliest"]
    last_lsn: Annotated[Lsn, "LSN of the last VLSN; of a ghost, where its entry may be at the latest"]
    ghost: Annotated[Bool, "stands for the first VLSN, whose mapping is gone"]
    offsets: Annotated[Sequence[VlsnOffset] | Absent, "with --offsets: the mappings"] = ABSENT


@record("found")
class VlsnPlace(NamedTuple):
    """The entry of a VLSN."""

    vlsn: Annotated[Vlsn, "the VLSN"]
    lsn: Annotated[Lsn, "where its entry is"]
    type: Annotated[Text, "its type"]
    how: Annotated[Text, "by the index alone, or by reading from there", Choices(("bucket", "scan"))]
    bucket_first: Annotated[Vlsn, "first VLSN of the bucket that was asked"]
    bucket_last: Annotated[Vlsn, "last VLSN of it"]
    from_lsn: Annotated[Lsn, "where reading began"]
    scanned_entries: Annotated[Int, "entries that were read to get there"]
    scanned_bytes: Annotated[SizeBytes, "bytes of the log that they take"]


def landmarks_of(facts: StreamFacts) -> VLSNRange:
    """The range according to the log."""
    points = facts.sync_points
    end = next((point.vlsn for point in reversed(points) if point.is_txn_end), NULL_VLSN)
    return VLSNRange(facts.first, facts.last, points[-1].vlsn if len(points) else NULL_VLSN, end)


def range_of_log(facts: StreamFacts) -> Landmarks:
    """The range of the log; missing VLSNs are not counted."""
    missing = sum(last - first + 1 for first, last, _ in facts.gaps)
    return _landmarks(landmarks_of(facts), missing)


def range_of_index(found: VLSNRange) -> Landmarks:
    """The range of the index."""
    return _landmarks(found, 0)


def _landmarks(found: VLSNRange, missing: int) -> Landmarks:
    return Landmarks(
        first=found.first,
        last=found.last,
        last_sync=found.last_sync,
        last_txn_end=found.last_txn_end,
        entries=0 if found.is_empty else found.last - found.first + 1 - missing,
    )


def index_bucket(bucket: Bucket, paths: dict[int, str], *, offsets: bool) -> IndexBucket:
    """One bucket.

    Arguments:
        bucket: the bucket.
        paths: log files by number.
        offsets: list every mapping.
    """
    mappings = bucket.mappings()
    kept = [VlsnOffset(vlsn=vlsn, lsn=lsn) for vlsn, lsn in mappings] if offsets else ABSENT
    # A ghost bucket records only the LSNs between which the entry lies (R-VLSN-53).
    if isinstance(bucket, GhostBucket):
        return IndexBucket(
            first_vlsn=bucket.first,
            last_vlsn=bucket.last,
            file=None,
            stride=None,
            mappings=0,
            first_lsn=bucket.first_possible_lsn,
            last_lsn=bucket.last_possible_lsn,
            ghost=True,
            offsets=kept,
        )
    return IndexBucket(
        first_vlsn=bucket.first,
        last_vlsn=bucket.last,
        file=paths.get(bucket.file_number, log_file_name(bucket.file_number)),
        stride=bucket.record().stride,
        mappings=len(mappings),
        first_lsn=mappings[0][1],
        last_lsn=bucket.last_lsn,
        ghost=False,
        offsets=kept,
    )
