"""Ranges, buckets and entries of the VLSN index as rows."""

from __future__ import annotations

from typing import Any, Final

from engine.format.stream_facts import StreamFacts
from engine.format.vlsn import NULL_VLSN
from engine.vlsn.ghost import Bucket, GhostBucket
from engine.vlsn.vlsn_range import VLSNRange
from jetool.output.shape import Field, Row, Shape

LANDMARKS: Final = (
    Field("first", "vlsn", "first VLSN; null for an empty range"),
    Field("last", "vlsn", "last VLSN"),
    Field("last_sync", "vlsn", "last Commit, Abort or Matchpoint"),
    Field("last_txn_end", "vlsn", "last Commit or Abort"),
    Field("entries", "int", "how many VLSNs"),
)
_RANGE_ROW: Final = Shape("range", "A range of VLSNs.", LANDMARKS)
RANGE: Final = Shape(
    "range",
    "The VLSNs that a node has.",
    (
        *LANDMARKS,
        Field("source", "text", "where they are from", choices=("index", "log")),
        Field("index", "record", "by the index, as recovery leaves it; null without one", null=True, optional=True,
              fields=LANDMARKS),
        Field("log", "record", "by the log", optional=True, fields=LANDMARKS),
        Field("differences", "texts", "what index and log disagree about", optional=True),
    ),
)  # fmt: skip
BUCKET: Final = Shape(
    "bucket",
    "One bucket of the index: mappings of a stretch of one file.",
    (
        Field("first_vlsn", "vlsn", "first VLSN"),
        Field("last_vlsn", "vlsn", "last VLSN"),
        Field("file", "text", "the log file; null for a ghost", null=True),
        Field("stride", "int", "every how many VLSNs an offset is kept; null for a ghost", null=True),
        Field("mappings", "int", "VLSNs whose LSN is kept, the last one's included"),
        Field("first_lsn", "lsn", "LSN of the first that is kept; of a ghost, where its entry may be at the earliest"),
        Field("last_lsn", "lsn", "LSN of the last VLSN; of a ghost, where its entry may be at the latest"),
        Field("ghost", "bool", "stands for the first VLSN, whose mapping is gone"),
        Field("offsets", "records", "with --offsets: the mappings", optional=True, fields=(
            Field("vlsn", "vlsn", "the VLSN"), Field("lsn", "lsn", "its LSN"),
        )),
    ),
)  # fmt: skip
FOUND: Final = Shape(
    "found",
    "The entry of a VLSN.",
    (
        Field("vlsn", "vlsn", "the VLSN"),
        Field("lsn", "lsn", "where its entry is"),
        Field("type", "text", "its type"),
        Field("how", "text", "by the index alone, or by reading from there", choices=("bucket", "scan")),
        Field("bucket_first", "vlsn", "first VLSN of the bucket that was asked"),
        Field("bucket_last", "vlsn", "last VLSN of it"),
        Field("from_lsn", "lsn", "where reading began"),
        Field("scanned_entries", "int", "entries that were read to get there"),
        Field("scanned_bytes", "size_bytes", "bytes of the log that they take"),
    ),
)


def landmarks_of(facts: StreamFacts) -> VLSNRange:
    """The range as the log has it."""
    points = facts.sync_points
    end = next((point.vlsn for point in reversed(points) if point.is_txn_end), NULL_VLSN)
    return VLSNRange(facts.first, facts.last, points[-1].vlsn if len(points) else NULL_VLSN, end)


def range_of_log(facts: StreamFacts) -> list[tuple[str, str, Any]]:
    """The range of the log; missing VLSNs are not counted."""
    missing = sum(last - first + 1 for first, last, _ in facts.gaps)
    return _row(landmarks_of(facts), missing)


def range_of_index(found: VLSNRange) -> list[tuple[str, str, Any]]:
    """The range of the index."""
    return _row(found, 0)


def _row(landmarks: VLSNRange, missing: int) -> list[tuple[str, str, Any]]:
    entries = 0 if landmarks.is_empty else landmarks.last - landmarks.first + 1 - missing
    return list(_RANGE_ROW.row((*landmarks, entries)))


def bucket_row(bucket: Bucket, paths: dict[int, str], *, offsets: bool) -> Row:
    """One bucket.

    Arguments:
        bucket: the bucket.
        paths: log files by number.
        offsets: list every mapping.
    """
    mappings = bucket.mappings()
    values: tuple[Any, ...]
    # A ghost knows only between which LSNs the entry is (R-VLSN-53).
    if isinstance(bucket, GhostBucket):
        values = (None, None, 0, bucket.first_possible_lsn, bucket.last_possible_lsn, True)
    else:
        name = paths.get(bucket.file_number, f"{bucket.file_number:08x}.jdb")
        values = (name, bucket.record().stride, len(mappings), mappings[0][1], bucket.last_lsn, False)
    # Not strict: the offsets are added only when they were asked for.
    row = [(f.name, f.kind, v) for f, v in zip(BUCKET.fields, (bucket.first, bucket.last, *values), strict=False)]
    if offsets:
        row.append(("offsets", "records", [[("vlsn", "vlsn", v), ("lsn", "lsn", lsn)] for v, lsn in mappings]))
    return row
