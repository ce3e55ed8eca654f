"""Binary search among keys that are bytes; there only in the native build (``search.c``).

Most of what a search costs is waiting for the keys that it looks at. General twin: ``bisect``, which touches each of
them twice and calls into their type. Where something is not bytes, the answer is None: ask the twin.

Example: in ``[b"b", b"d"]`` the key ``b"d"`` is found at 1; ``b"c"`` is not there and would go to 1: ``~1``, -2.
"""

from typing import Any

def find(keys: list[Any], key: Any, /) -> int | None:
    """The place of a key; where it is not there, ``~`` of the place where it would go, a negative number."""

def covering(keys: list[Any], key: Any, /) -> int | None:
    """The last place whose key is not above a key; 0 where there is none, whatever its key is."""

def ascends(keys: list[Any], first: int, /) -> bool | None:
    """Whether each key from a place on is below the one after it."""
