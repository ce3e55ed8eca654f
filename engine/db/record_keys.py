"""Conversion of keys and records between the form of applications and the form that trees compare."""

from __future__ import annotations

from engine.format.bytecursor import PREFIX_ONLY, join_two_part_key
from engine.tree.database_state import DatabaseState
from engine.tree.keys import AFTER_ALL, Key, RegisteredKey, UnknownOrderError


def comparable_key(state: DatabaseState, key: bytes, data: bytes = b"") -> Key:
    """The comparable form of a key; with duplicates, of a key and a data item.

    Raises:
        UnknownOrderError: the order had to be learned, and no node shows where the key belongs.
    """
    if state.order.plain:
        return key
    learned = state.order.learned
    # Without this check the key would sort to the end, and later reads would take it for a known key.
    if learned is not None and not learned.knows(join_two_part_key(key, data) if state.duplicates else key):
        raise UnknownOrderError(learned)
    if not state.duplicates:
        return state.order.wrap(key)
    if state.order.comparator is None:
        return key, data
    return state.order.wrap(join_two_part_key(key, data))


def key_and_data(state: DatabaseState, key: Key, data: bytes) -> tuple[bytes, bytes]:
    """Key and data in the application's form; the data is empty for a prefix-only key (see ``engine.tree.keys``)."""
    if state.order.plain:
        return key, data
    if not state.duplicates:
        return state.order.unwrap(key), data
    first, second = key if len(key) == 2 else (key[0], b"")
    return getattr(first, "stored", first), getattr(second, "stored", second)


def key_bounds(state: DatabaseState, key: bytes) -> tuple[Key, Key]:
    """Bounds of a key in a database with duplicates: all its data items lie after the first and before the second
    bound.

    Raises:
        UnknownOrderError: the order had to be learned.
    """
    learned = state.order.learned
    if learned is not None:
        raise UnknownOrderError(learned)
    (first,) = state.order.wrap(key + PREFIX_ONLY)
    return (first,), (first, AFTER_ALL if state.order.comparator is None else RegisteredKey(b"", AFTER_ALL))


def range_key(state: DatabaseState, key: bytes) -> Key:
    """The comparable key at which the records of a key begin; with duplicates it sorts before or at the first one.

    Raises:
        UnknownOrderError: the order had to be learned, and no node shows where the key belongs.
    """
    if state.duplicates and state.order.learned is None:
        return key_bounds(state, key)[0]
    return comparable_key(state, key)
