"""Keys and records as applications know them, and walks over a range of records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.db.engine import Engine
from engine.db.scan import RecordWalker, ScannedRecord, lock_type_of
from engine.format.bytecursor import join_two_part_key
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key, unknown_order
from engine.txn.lock_types import LockType
from engine.txn.txn import Txn

_BATCH: Final = 1 << 20


def comparable_key(state: DatabaseState, key: bytes, data: bytes = b"") -> Key:
    """The comparable form of a key, with duplicates of a key and a data item.

    Raises:
        UnknownOrderError: the order had to be learned, and nothing shows where the key belongs.
    """
    if state.order.plain:
        return key
    learned = state.order.learned
    # Comparing would give it a place at the end, which a later read would take for known.
    if learned is not None and not learned.knows(join_two_part_key(key, data) if state.duplicates else key):
        raise unknown_order(learned.name)
    if not state.duplicates:
        return state.order.wrap(key)
    if state.order.comparator is None:
        return key, data
    return state.order.wrap(join_two_part_key(key, data))


def key_and_data(state: DatabaseState, key: Key, data: bytes) -> tuple[bytes, bytes]:
    """Key and data as the application knows them."""
    if state.order.plain:
        return key, data
    if not state.duplicates:
        return state.order.unwrap(key), data
    first, second = key
    return getattr(first, "stored", first), getattr(second, "stored", second)


def walker_of(
    engine: Engine, state: DatabaseState, locker: Txn | None, *, backward: bool = False, bound: Key | None = None
) -> RecordWalker:
    """A walk under the isolation of a transaction; without one it reads what is committed."""
    lock_type = LockType.READ if locker is None else lock_type_of(locker)
    return RecordWalker(engine, state, locker, lock_type, backward=backward, bound=bound)


def records_between(
    engine: Engine,
    state: DatabaseState,
    low: Key | None,
    high: Key | None,
    *,
    backward: bool = False,
    locker: Txn | None = None,
) -> Iterator[list[ScannedRecord]]:
    """Records with ``low <= key < high``, some at a time; with locks to take, one at a time."""
    walker = walker_of(engine, state, locker, backward=backward, bound=low if backward else high)
    # Locks are kept: no record may be locked that the caller never asked for.
    limit = 1 if locker is not None else _BATCH
    key, inclusive = (high, False) if backward else (low, True)
    while found := walker.step(key, inclusive=inclusive, limit=limit):
        yield found
        key, inclusive = found[-1].key, False
