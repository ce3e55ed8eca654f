"""Search among keys that are bytes, and the way from a root to a record; only in the native build (``search.c``).

Most of what a search costs is waiting for the keys that it looks at. General twin: ``bisect``, which touches each of
them twice and calls into their type. Where something is not bytes, the answer is None: ask the twin.

Example: in ``[b"b", b"d"]`` the key ``b"d"`` is found at 1; ``b"c"`` is not there and would go to 1: ``~1``, -2.
"""

from typing import Any, TypeVar

_Record = TypeVar("_Record", bound=tuple[Any, ...])

def find(keys: list[Any], key: Any, /) -> int | None:
    """The place of a key; where it is not there, ``~`` of the place where it would go, a negative number."""

def covering(keys: list[Any], key: Any, /) -> int | None:
    """The last place whose key is not above a key; 0 if every key is above it."""

def ascends(keys: list[Any], first: int, /) -> bool | None:
    """Whether each key from a place on is below the one after it."""

def prepare(upper: type, bottom: type, /) -> bool:
    """Say which classes nodes have: ``IN`` and ``BIN``; False where they are not compiled, so that nothing is found."""

def record_at(root: object, key: Any, /) -> tuple[Any, int, bytes | None] | None:
    """A live record that does not expire: its BIN, its slot, and its data if they are in memory; twin: ``find_bin``.

    Nothing is read and nothing changes; the caller holds the latch. Lists of a node lie apart in memory, and are asked
    for at once. For a key that is not there the slot is ``~`` of the place where it would go, as of ``find``. None asks
    for the twin: some node on the way is not in memory, a key is not bytes, the record is deleted or may expire.
    """

def records_of(
    kind: type[_Record], keys: list[Any], data: list[bytes | None], lsns: list[int], chosen: list[int], /
) -> list[_Record]:
    """Tuples of key, data and LSN of chosen slots; without those that have no data.

    Arguments:
        kind: a class of named tuples of these three.
        data: of the chosen slots; keys and LSNs are those of all slots.

    Raises:
        IndexError: there is no such slot.
    """
