"""Known orders of keys, by the Java class that a database names or by a name that a user gives.

A database whose class is in ``BUILT_IN`` is treated like one with plain keys: it is searched, checked and written. For
the classes of other applications there are three ways: the user names an order (``ORDERS``), a Python package provides
one as an entry point of the group ``jetool.orders``, or a program registers a function
(``EnvironmentConfig.comparators``). An order is a function from the stored key to a value that Python compares as the
class compares keys; keys with equal values are the same key. Without any of these the order is learned
(``engine.tree.order``).

==================================================================  ==============================================
class                                                               order
==================================================================  ==============================================
``oracle.kv.Key$BytesComparator`` (Oracle NoSQL, ``p1``, ``p2``)    ``ff-first``: it divides major from minor
                                                                    components by 0xff
``org.opends.server.backends.jeb.AttributeIndex$KeyComparator``     ``signed-bytes``
(OpenDJ 2 and 3 and its relatives: ``dn2id``, ``dn2uri``)
==================================================================  ==============================================

In every order by bytes except ``descending``, a key that is a prefix of another comes first. Doris and StarRocks have
plain keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import total_ordering
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from engine.errors import UsageError

SortKey = Callable[[bytes], Any]
GROUP: Final = "jetool.orders"
_FF_FIRST: Final = bytes((value + 1) & 0xFF for value in range(256))
_SIGNED: Final = bytes(value ^ 0x80 for value in range(256))


@total_ordering
class DescendingKey:
    """Unsigned bytes in descending order; the sort key of a reversing comparator."""

    __slots__ = ("stored",)

    def __init__(self, stored: bytes) -> None:
        self.stored = stored

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DescendingKey) and self.stored == other.stored

    def __lt__(self, other: DescendingKey) -> bool:
        return self.stored > other.stored

    def __hash__(self) -> int:
        return hash(self.stored)


class NamedOrder(NamedTuple):
    """An order that a user can name: a short description, and its sort key."""

    text: str
    sort_key: SortKey


def _ascending(stored: bytes) -> bytes:
    return stored


def _ff_first(stored: bytes) -> bytes:
    return stored.translate(_FF_FIRST)


def _signed(stored: bytes) -> bytes:
    return stored.translate(_SIGNED)


def _from_last(stored: bytes) -> bytes:
    return stored[::-1]


def _shortest_first(stored: bytes) -> tuple[int, bytes]:
    return len(stored), stored


def _longest_first(stored: bytes) -> tuple[int, bytes]:
    return -len(stored), stored


def _decimal(stored: bytes) -> tuple[int, int, bytes]:
    digits = stored[1:] if stored[:1] in (b"-", b"+") else stored
    # int() also accepts blanks and underscores, which no number in Java has; such keys come after all numbers.
    if not digits.isdigit() or len(digits) > _MOST_DIGITS:
        return 1, 0, stored
    return 0, int(stored), b""


def _ignore_case(stored: bytes) -> bytes:
    return stored.lower()


_MOST_DIGITS: Final = 1000
ORDERS: Final[Mapping[str, NamedOrder]] = MappingProxyType(
    {
        "ascending": NamedOrder("unsigned bytes, as without a class", _ascending),
        "descending": NamedOrder("unsigned bytes, the highest first", DescendingKey),
        "signed-bytes": NamedOrder("signed bytes: 0x80 to 0xff before 0x00", _signed),
        "ff-first": NamedOrder("unsigned bytes, but 0xff before all others", _ff_first),
        "from-last": NamedOrder("unsigned bytes from the last one to the first; little-endian numbers", _from_last),
        "shortest-first": NamedOrder("by length, then by unsigned bytes", _shortest_first),
        "longest-first": NamedOrder("by length, the longest first, then by unsigned bytes", _longest_first),
        "decimal": NamedOrder("decimal numbers in ASCII, by value; 07 and 7 are one key", _decimal),
        "ignore-case": NamedOrder("bytes with A to Z as a to z; Key and key are one key", _ignore_case),
    }
)
BUILT_IN: Final[Mapping[str, SortKey]] = MappingProxyType(
    {
        "oracle.kv.Key$BytesComparator": _ff_first,
        "org.opends.server.backends.jeb.AttributeIndex$KeyComparator": _signed,
    }
)


def find_order(name: str) -> SortKey:
    """The sort key of an order that a user has named.

    Raises:
        UsageError: no order has that name, or the package that provides it cannot be loaded.
    """
    if name in ORDERS:
        return ORDERS[name].sort_key
    # Search the installed packages only for names that are not built in, since this takes time.
    from importlib.metadata import entry_points

    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        raise UsageError(f"no order {name!r}", expected=", ".join([*ORDERS, *sorted(found)]))
    try:
        sort_key = found[name].load()
    except Exception as error:
        # The package may raise anything; the error must name the order.
        raise UsageError(f"the order {name!r} cannot be loaded", found=f"{type(error).__name__}: {error}") from error
    if not callable(sort_key):
        raise UsageError(f"the order {name!r} is not a function", found=type(sort_key).__name__)
    loaded: SortKey = sort_key
    return loaded
