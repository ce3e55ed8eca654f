"""Key order: how stored keys become values that Python compares as the database does.

A node keeps its keys in *comparable* form, so that ``bisect`` works on them directly:

* plain databases: the bytes themselves, which Python compares as unsigned bytes, the shorter first;
* duplicates databases: the pair ``(key, data)`` of the two-part key. Comparing the stored bytes would be wrong
  (je-log-format.md 12.1);
* databases with a comparator class: whatever a function that the caller registered under the class name makes of the
  bytes. Without one the order is not known: such a database can be read in the order of its nodes, not searched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import total_ordering
from typing import Any, Final, NamedTuple

from engine.errors import UnsupportedError
from engine.format.packed import join_two_part_key, split_two_part_key

# Bytes, a pair of bytes, or what a registered function returns.
Key = Any
SortKey = Callable[[bytes], Any]

_SERIALIZED_STRING: Final = b"\xac\xed\x00\x05t"
_NAME_AT: Final = len(_SERIALIZED_STRING) + 2


class KeyOrder(NamedTuple):
    """How one database orders its keys.

    Attributes:
        duplicates: keys are two-part keys.
        wrap: stored bytes to comparable form.
        unwrap: and back.
        comparator: name of the Java class when the order is not plain; None otherwise.
    """

    duplicates: bool
    wrap: Callable[[bytes], Key]
    unwrap: Callable[[Key], bytes]
    comparator: str | None

    @property
    def plain(self) -> bool:
        """Whether comparable form and stored form are the same bytes."""
        return not self.duplicates and self.comparator is None


def _same(stored: bytes) -> bytes:
    return stored


def _join(key: tuple[bytes, bytes]) -> bytes:
    return join_two_part_key(*key)


PLAIN: Final = KeyOrder(False, _same, _same, None)
TWO_PART: Final = KeyOrder(True, split_two_part_key, _join, None)


@total_ordering
class Ordered:
    """A key under a registered order: compares by the sort key, remembers the stored bytes."""

    __slots__ = ("sort", "stored")

    def __init__(self, stored: bytes, sort: Any) -> None:
        self.stored = stored
        self.sort = sort

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ordered) and bool(self.sort == other.sort)

    def __lt__(self, other: Ordered) -> bool:
        return bool(self.sort < other.sort)

    def __hash__(self) -> int:
        return hash(self.stored)


@total_ordering
class Descending:
    """Unsigned bytes in descending order; the sort key of a reversing comparator."""

    __slots__ = ("stored",)

    def __init__(self, stored: bytes) -> None:
        self.stored = stored

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and self.stored == other.stored

    def __lt__(self, other: Descending) -> bool:
        return self.stored > other.stored

    def __hash__(self) -> int:
        return hash(self.stored)


def comparator_name(serialized: bytes | None) -> str | None:
    """The class that a serialized comparator names; None when there is none.

    A comparator is a serialized ``String`` with the class name, or the object itself, which shows as
    ``serialized object``.
    """
    if not serialized:
        return None
    if serialized.startswith(_SERIALIZED_STRING):
        return serialized[_NAME_AT:].decode("utf-8", "replace")
    return "serialized object"


def key_order(
    duplicates: bool, btree: bytes | None, duplicate: bytes | None, registered: Mapping[str, SortKey]
) -> KeyOrder:
    """The order of a database.

    Arguments:
        duplicates: it holds sorted duplicates in two-part keys.
        btree, duplicate: its serialized comparators, empty or None for none.
        registered: sort keys by class name.
    """
    names = (comparator_name(btree), comparator_name(duplicate))
    if names == (None, None):
        return TWO_PART if duplicates else PLAIN
    sorts = [_sort_key(name, registered) for name in names]
    label = ", ".join(name for name in names if name)
    if not duplicates:
        return KeyOrder(False, lambda stored: Ordered(stored, sorts[0](stored)), lambda key: bytes(key.stored), label)
    return KeyOrder(True, lambda stored: _wrap_pair(stored, sorts[0], sorts[1]), _unwrap_pair, label)


def unknown_order(name: str) -> UnsupportedError:
    """The error of a search in a database whose order nobody registered."""
    return UnsupportedError(
        "the order of a database is that of a Java class",
        expected="a registered sort key",
        found=name,
        consequence="its records cannot be searched or changed",
        hint="name an equivalent order for the class when opening the environment",
    )


def _sort_key(name: str | None, registered: Mapping[str, SortKey]) -> SortKey:
    if name is None:
        return _same
    known = registered.get(name)
    if known is not None:
        return known

    def refuse(_: bytes) -> Any:
        raise unknown_order(name)

    return refuse


def _wrap_pair(stored: bytes, first: SortKey, second: SortKey) -> Key:
    key, data = split_two_part_key(stored)
    return Ordered(key, first(key)), Ordered(data, second(data))


def _unwrap_pair(key: Key) -> bytes:
    return join_two_part_key(key[0].stored, key[1].stored)
