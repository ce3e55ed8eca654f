"""Binary search among keys that are bytes, and the path from a root to a record; only in the native build
(``search.c``).

Most of the cost of a search is waiting for the memory of the keys. General twin: ``bisect``, which touches each of them
twice and calls into their type. If something is not bytes, the result is None: use the twin.

Example: in ``[b"b", b"d"]`` the key ``b"d"`` is found at 1; ``b"c"`` is missing, with insertion point 1: ``~1``, -2.
"""

from typing import Any, TypeVar

_Record = TypeVar("_Record", bound=tuple[Any, ...])

def find(keys: list[Any], key: Any, /) -> int | None:
    """The index of a key; if it is missing, ``~`` of its insertion point, a negative number."""

def covering(keys: list[Any], key: Any, /) -> int | None:
    """The last index whose key is not above a key; 0 if every key is above it."""

def ascends(keys: list[Any], first: int, /) -> bool | None:
    """Whether the keys from an index on are strictly ascending."""

def prepare(upper: type, bottom: type, /) -> bool:
    """Set the classes of nodes: ``IN`` and ``BIN``; False if they are not compiled, so that ``record_at`` finds
    nothing.
    """

def record_at(root: object, key: Any, /) -> tuple[Any, int, bytes | None] | None:
    """A live record that does not expire: its BIN, its slot, and its data if in memory; twin: ``find_bin``.

    Nothing is read from disk and nothing changes; the caller holds the latch. The lists of a node are apart in memory,
    and are prefetched together. For a missing key the slot is ``~`` of its insertion point, as in ``find``. None means
    that the twin is needed: a node on the path is not in memory, a key is not bytes, or the record is deleted or may
    expire.
    """

def records_of(
    kind: type[_Record], keys: list[Any], data: list[bytes | None], lsns: list[int], chosen: list[int], /
) -> list[_Record]:
    """Tuples of key, data and LSN of chosen slots, except those without data.

    Arguments:
        kind: a class of named tuples of these three.
        data: of the chosen slots; keys and LSNs are those of all slots.

    Raises:
        IndexError: a slot does not exist.
    """
