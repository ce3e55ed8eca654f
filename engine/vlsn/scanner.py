"""Scanners: reading an index in one direction, for a feeder (forward) or for syncup (backward).

Rules R-VLSN-25, 26. A scanner keeps the last bucket and queries the index only if that bucket does not own the VLSN.
``start`` gives the place to begin reading the log and is called once; then ``precise`` gives the place to which the
reader may jump, if it is known, so that it need not read everything in between.

Example, stride 3, buckets {1..4: 1 4} and {6..8: 6}. Forward from 2: start gives the LSN of 1; precise(4) gives that of
4; precise(5) gives NULL; approximate(5) that of 4, the last of the bucket before the gap; precise(6) that of 6.
"""

from __future__ import annotations

from engine.errors import JetoolError
from engine.format.lsn import NULL_LSN
from engine.vlsn.ghost import Bucket
from engine.vlsn.index import VLSNIndex


class _Scanner:
    __slots__ = ("_bucket", "_index")

    def __init__(self, index: VLSNIndex) -> None:
        self._index = index
        self._bucket: Bucket | None = None

    def _begin(self, bucket: Bucket) -> Bucket:
        if self._bucket is not None:
            raise JetoolError("VLSN scanner: start is called once")
        self._bucket = bucket
        return bucket

    def _in_hand(self) -> Bucket:
        if self._bucket is None:
            raise JetoolError("VLSN scanner: start is called first")
        return self._bucket


class ForwardScanner(_Scanner):
    """Reads VLSNs in ascending order."""

    def start(self, vlsn: int) -> int:
        """LSN at or before the entry of a VLSN in the range, where reading begins."""
        return self._begin(self._index.lte_bucket(vlsn)).lte(vlsn)

    def precise(self, vlsn: int) -> int:
        """LSN of the VLSN, or NULL_LSN if it is not known."""
        bucket = self._owner(vlsn)
        return NULL_LSN if bucket is None else bucket.get(vlsn)

    def approximate(self, vlsn: int) -> int:
        """LSN of the nearest mapped VLSN at or before ``vlsn``."""
        bucket = self._owner(vlsn)
        # In a gap, the end of the previous bucket is the nearest place.
        return self._index.lte_bucket(vlsn).last_lsn if bucket is None else bucket.lte(vlsn)

    def _owner(self, vlsn: int) -> Bucket | None:
        bucket = self._in_hand()
        # The stream is read in one direction: the next bucket is looked up once, not for each VLSN.
        if vlsn > bucket.last:
            bucket = self._bucket = self._index.gte_bucket(vlsn)
        return bucket if bucket.owns(vlsn) else None


class BackwardScanner(_Scanner):
    """Reads VLSNs in descending order."""

    def start(self, vlsn: int) -> int:
        """LSN at or after the entry of a VLSN in the range, where reading begins."""
        return self._begin(self._index.gte_bucket(vlsn)).gte(vlsn)

    def precise(self, vlsn: int) -> int:
        """LSN of the VLSN, or NULL_LSN if it is not known."""
        bucket = self._in_hand()
        if vlsn < bucket.first:
            bucket = self._bucket = self._index.lte_bucket(vlsn)
        return bucket.get(vlsn) if bucket.owns(vlsn) else NULL_LSN
