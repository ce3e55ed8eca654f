"""How large the buckets of the VLSN index become, and how many of them stay in memory.

Apart from the index, because every configuration has these numbers, and few environments have an index.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class BucketLimits(NamedTuple):
    """The limits at which a bucket is full.

    Attributes:
        stride: an offset is stored for one VLSN in this number (``je.rep.vlsn.stride``).
        max_mappings: number of offsets in a bucket (``je.rep.vlsn.mappings``).
        max_distance: maximum distance in bytes from the last offset to a later VLSN (``je.rep.vlsn.distance``).
    """

    stride: int = 10
    max_mappings: int = 1000
    max_distance: int = 100_000


DEFAULT_LIMITS: Final = BucketLimits()
# je.rep.vlsn.logCacheSize: entries of the stream that stay in memory for feeders.
DEFAULT_CACHE_SIZE: Final = 32
