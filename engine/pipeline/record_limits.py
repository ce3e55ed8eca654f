"""Derives limits of environments, databases and keys from conditions on rows of ``jerecords``.

Spark tests every row against all conditions again, so limits may be wider than the conditions. Equality, IN and
comparisons give limits, which must all hold; other conditions give no limits. Spark compares keys by their bytes, and
so do databases without a comparator class; in other databases keys are not limited.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)


class RecordLimits(NamedTuple):
    """The limits of the rows that can meet the conditions.

    Attributes:
        environments, dbs: paths and names; None for all.
        low, high: keys from ``low`` on, below ``high``; None for no limit.
    """

    environments: frozenset[str] | None = None
    dbs: frozenset[str] | None = None
    low: bytes | None = None
    high: bytes | None = None

    @property
    def no_key(self) -> bool:
        """Whether the limits exclude every key."""
        return self.low is not None and self.high is not None and self.low >= self.high


def limits_of(filters: Iterable[Filter]) -> RecordLimits:
    """The limits from all conditions together."""
    names: dict[str, frozenset[str]] = {}
    lows: list[bytes] = []
    highs: list[bytes] = []
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        values = _values_of(one)
        if len(attribute) != 1 or not values:
            continue
        column = attribute[0]
        if column == "key" and all(isinstance(value, (bytes, bytearray)) for value in values):
            least, most = bytes(min(values)), bytes(max(values))
            if not isinstance(one, (LessThan, LessThanOrEqual)):
                # The next possible key is the same key with a zero byte appended.
                lows.append(least + b"\0" if isinstance(one, GreaterThan) else least)
            if not isinstance(one, (GreaterThan, GreaterThanOrEqual)):
                highs.append(most if isinstance(one, LessThan) else most + b"\0")
        elif column in ("environment", "db") and isinstance(one, (EqualTo, EqualNullSafe, In)):
            found = frozenset(map(str, values))
            names[column] = names[column] & found if column in names else found
    return RecordLimits(names.get("environment"), names.get("db"), max(lows, default=None), min(highs, default=None))


def _values_of(one: Filter) -> list[Any]:
    """The values that a condition compares with; empty for other conditions and for comparisons with null."""
    if isinstance(one, In):
        return [value for value in one.value if value is not None]
    if isinstance(one, (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)):
        return [] if one.value is None else [one.value]
    return []
