"""Columns of byte strings, and their order.

``Binary`` is an Arrow column of binary values as numpy sees it: offsets and bytes. Keys are sorted by eight bytes at a
time: all keys share a prefix (that of the smallest and the largest); the next eight bytes of each, as a big-endian
number, order nearly all of them, at the speed of numbers. Only keys that tie there are compared in full.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
_WORD: Final = 8


class Binary:
    """A column of byte strings.

    Arguments:
        column: an Arrow array of type ``large_binary`` without nulls.

    Attributes:
        lengths: of the values.
    """

    __slots__ = ("_bytes", "_starts", "column", "lengths")

    def __init__(self, column: Any) -> None:
        self.column = column
        _, offsets, data = column.buffers()
        # A slice shares the buffers of the whole column and begins at its own offset.
        ends = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
        self._starts = ends[:-1]
        self.lengths: Numbers = np.diff(ends)
        self._bytes = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)

    def __len__(self) -> int:
        return len(self.lengths)

    def at(self, row: int) -> bytes:
        """One value."""
        start = int(self._starts[row])
        return self._bytes[start : start + int(self.lengths[row])].tobytes()

    def cut(self, start: int, stop: int) -> Binary:
        """Some of the rows, without copying."""
        return Binary(self.column.slice(start, stop - start))

    def matrix(self, rows: Numbers) -> npt.NDArray[np.uint8]:
        """Values of equal length, one a row."""
        length = int(self.lengths[rows[0]])
        starts = self._starts[rows]
        # Neighbours in memory are a view; only scattered rows are copied.
        if int(starts[-1]) - int(starts[0]) == length * (len(rows) - 1) and (np.diff(starts) == length).all():
            first = int(starts[0])
            return self._bytes[first : first + length * len(rows)].reshape(len(rows), length)
        found: npt.NDArray[np.uint8] = self._bytes[starts[:, None] + np.arange(length)]
        return found

    def words(self, skip: int) -> npt.NDArray[np.uint64]:
        """The eight bytes of every value after the first ``skip``, as big-endian numbers; short ones end in zeros."""
        left = np.maximum(self.lengths - skip, 0)
        columns = np.arange(_WORD)
        if len(self) and int(left.min()) >= _WORD:
            parts = self._bytes[(self._starts + skip)[:, None] + columns]
        else:
            # Indices past the last value must still be valid: what they read is masked out.
            at = np.minimum((self._starts + skip)[:, None] + columns, max(len(self._bytes) - 1, 0))
            known = columns < left[:, None]
            parts = np.where(known, self._bytes[at] if len(self._bytes) else 0, 0).astype(np.uint8)
        return np.ascontiguousarray(parts).view(">u8").reshape(-1).astype(np.uint64)


def order_of(keys: Binary, ranks: Numbers) -> Numbers:
    """The rows in ascending order of key and, where keys are equal, of rank."""
    if len(keys) < 2:
        return np.arange(len(keys))
    ends = pc.min_max(keys.column)
    # All keys share what the smallest and the largest share.
    words = keys.words(common_length(ends["min"].as_py(), ends["max"].as_py()))
    order = np.argsort(words)
    found = words[order]
    # Equal words prove nothing: keys may differ later on, or in zeros at their ends.
    same = found[1:] == found[:-1]
    if not same.any():
        return order
    tied = np.zeros(len(order), bool)
    tied[1:] |= same
    tied[:-1] |= same
    at = np.flatnonzero(tied)
    rows = order[at]
    table = pa.table({"key": keys.column.take(pa.array(rows)), "rank": ranks[rows], "row": rows})
    wanted = [("key", "ascending"), ("rank", "ascending"), ("row", "ascending")]
    order[at] = rows[pc.sort_indices(table, sort_keys=wanted).to_numpy()]
    return order


def common_length(low: bytes, high: bytes) -> int:
    """Length of the common prefix."""
    for index, (a, b) in enumerate(zip(low, high, strict=False)):
        if a != b:
            return index
    return min(len(low), len(high))


def first_of_equals(keys: Binary) -> npt.NDArray[np.bool_]:
    """In a sorted column, which rows begin a new key."""
    fresh = np.ones(len(keys), bool)
    if len(keys) > 1:
        column = keys.column
        fresh[1:] = pc.not_equal(column.slice(1), column.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    return fresh
