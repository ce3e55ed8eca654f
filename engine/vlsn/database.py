"""The database of flushed buckets, as the VLSN index uses it.

The engine implements ``IndexDatabase`` over ``_jeVlsnMapDb``; tests use a sorted mapping. Records are raw: keys are
``t_long`` numbers (-1 the range, otherwise a bucket's first VLSN), so that byte order is VLSN order (je-log-format.md
11.2).

All writes of one operation are in one local transaction. The index does all reads before its first write, so an
implementation need not make a transaction's own changes visible to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from engine.errors import DamageError, FormatError
from engine.format.entry.internal_db import (
    RANGE_KEY,
    decode_vlsn_bucket,
    decode_vlsn_range,
    encode_vlsn_bucket,
    encode_vlsn_range,
)
from engine.format.tuples import long_key, parse_long_key
from engine.vlsn.ghost import Bucket, bucket_of
from engine.vlsn.vlsn_range import EMPTY_RANGE, VLSNRange

DATABASE_NAME: Final = "_jeVlsnMapDb"
_LARGEST: Final = (1 << 63) - 1
Record = tuple[bytes, bytes]


class IndexTxn(Protocol):
    """A local transaction on the database."""

    def put(self, key: bytes, data: bytes) -> None:
        """Store a record, replacing one with the same key."""

    def delete(self, key: bytes) -> None:
        """Remove an existing record."""

    def commit(self, *, sync: bool) -> None:
        """Make the changes permanent; with ``sync`` they are durable on return."""

    def abort(self) -> None:
        """Undo the changes."""


class IndexDatabase(Protocol):
    """Committed records in key order."""

    def at_or_below(self, key: bytes) -> Record | None:
        """The record with the greatest key not above ``key``."""

    def at_or_above(self, key: bytes) -> Record | None:
        """The record with the least key not below ``key``."""

    def begin(self) -> IndexTxn:
        """Begin a local transaction."""


def read_range(database: IndexDatabase) -> VLSNRange:
    """The stored range; empty if nothing has been stored.

    Raises:
        DamageError: the record is malformed.
    """
    key = long_key(RANGE_KEY)
    found = database.at_or_below(key)
    # Only a malformed record could sort before the range.
    if found is None or found[0] != key:
        return EMPTY_RANGE
    try:
        return VLSNRange(*decode_vlsn_range(found[1]))
    except FormatError as error:
        raise _malformed("range", error) from error


def bucket_at_or_below(database: IndexDatabase, vlsn: int) -> Bucket | None:
    """The last stored bucket that begins at or before a VLSN."""
    return _bucket(database.at_or_below(long_key(vlsn)))


def bucket_at_or_above(database: IndexDatabase, vlsn: int) -> Bucket | None:
    """The first stored bucket that begins at or after a VLSN."""
    # No key is above the largest number: a forged VLSN can lead to such a request.
    return _bucket(database.at_or_above(long_key(vlsn))) if vlsn <= _LARGEST else None


def last_bucket(database: IndexDatabase) -> Bucket | None:
    """The last stored bucket."""
    return _bucket(database.at_or_below(long_key(_LARGEST)))


def buckets_from(database: IndexDatabase, vlsn: int) -> Iterator[Bucket]:
    """Stored buckets that begin at or after a VLSN, ascending."""
    bucket = bucket_at_or_above(database, vlsn)
    while bucket is not None:
        yield bucket
        bucket = bucket_at_or_above(database, bucket.first + 1)


def put_bucket(txn: IndexTxn, bucket: Bucket) -> None:
    """Store a bucket under its first VLSN."""
    txn.put(long_key(bucket.first), encode_vlsn_bucket(bucket.record()))


def put_range(txn: IndexTxn, vlsn_range: VLSNRange) -> None:
    """Store the range."""
    txn.put(long_key(RANGE_KEY), encode_vlsn_range(vlsn_range.record()))


def delete_bucket(txn: IndexTxn, first: int) -> None:
    """Remove the bucket that begins at a VLSN."""
    txn.delete(long_key(first))


def _bucket(record: Record | None) -> Bucket | None:
    if record is None:
        return None
    try:
        key = parse_long_key(record[0])
        # The range record sorts before every bucket, so a search below the first bucket ends here.
        if key == RANGE_KEY:
            return None
        bucket = bucket_of(decode_vlsn_bucket(record[1]))
    except FormatError as error:
        raise _malformed("bucket", error) from error
    if bucket.first != key:
        raise DamageError(
            "VLSN index: a bucket is stored under another VLSN", expected=str(bucket.first), found=str(key), hint=_HINT
        )
    return bucket


_HINT = "run jetool vlsn check, then jetool vlsn rebuild"


def _malformed(what: str, error: FormatError) -> DamageError:
    return DamageError(f"VLSN index: malformed {what} record", found=str(error), hint=_HINT)
