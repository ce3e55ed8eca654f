"""Ranges of keys, as callers name them: by two bounds, by a prefix, or by a slice of a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from engine.arguments import BytesLike, bytes_of
from engine.db.record_keys import range_key
from engine.errors import ArgumentError
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key

R = TypeVar("R")
_SHOWN_BYTES = 40


class KeyBounds(NamedTuple):
    """A range of keys in one database, ``low <= key < high`` in comparable form; None is no bound.

    Attributes:
        prefix: set where the order of keys is not that of their bytes: keys without the prefix have to be left out.
    """

    low: Key | None
    high: Key | None
    prefix: bytes | None = None


def key_range(
    state: DatabaseState, start: BytesLike | None, end: BytesLike | None, prefix: BytesLike | None = None
) -> KeyBounds:
    """The range that a caller asks for.

    Raises:
        ArgumentError: a bound is not bytes, or a prefix is given together with a bound.
        UnknownOrderError: the order had to be learned, and no node shows where a bound belongs.
    """
    low = None if start is None else bytes_of(start, "start")
    high = None if end is None else bytes_of(end, "end")
    if prefix is not None:
        prefix = bytes_of(prefix, "prefix")
        if low is not None or high is not None:
            raise ArgumentError("a prefix cannot be used together with start or end")
        if state.order.comparator is not None:
            return KeyBounds(None, None, prefix)
        low, high = prefix, _after_prefix(prefix)
    if state.order.plain:
        return KeyBounds(low, high)
    return KeyBounds(None if low is None else range_key(state, low), None if high is None else range_key(state, high))


class RecordRange(Generic[R]):
    """The records of a range of keys, which ``db[start:end]`` gives; each iteration reads them anew.

    Arguments:
        items: the ``items`` method of the database.
        bounds: a slice of keys; either bound may be left out.

    Raises:
        ArgumentError: a bound is not bytes, or there is a step.
    """

    __slots__ = ("_end", "_items", "_start")

    def __init__(self, items: Callable[..., Iterator[R]], bounds: slice[Any, Any, Any]) -> None:
        if bounds.step is not None:
            raise ArgumentError("a slice of keys has no step", found=repr(bounds.step)[:_SHOWN_BYTES])
        self._items = items
        self._start = None if bounds.start is None else bytes_of(bounds.start, "start")
        self._end = None if bounds.stop is None else bytes_of(bounds.stop, "end")

    def __iter__(self) -> Iterator[R]:
        return self._items(self._start, self._end)

    def __reversed__(self) -> Iterator[R]:
        return self._items(self._start, self._end, reverse=True)

    def __repr__(self) -> str:
        start, end = ("" if bound is None else shown_key(bound) for bound in (self._start, self._end))
        return f"<RecordRange {start}:{end}>"


def single_key(key: object, what: str) -> bytes:
    """The key of ``db[key] = ...`` and ``del db[key]``.

    Raises:
        ArgumentError: it is a slice, or not bytes.
    """
    if isinstance(key, slice):
        raise ArgumentError(
            f"a slice of keys cannot be {what}",
            consequence="nothing was changed",
            hint="go through the keys of the slice one by one",
        )
    return bytes_of(key, "key")


def shown_key(key: bytes) -> str:
    """A key in a ``repr``; the end of a long one is left out."""
    return repr(key) if len(key) <= _SHOWN_BYTES else f"{key[:_SHOWN_BYTES]!r}..."


def _after_prefix(prefix: bytes) -> bytes | None:
    """The smallest key that is larger than all keys with a prefix; None if no key is."""
    # A byte 0xff cannot be incremented: the byte before it is.
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,)) if trimmed else None
