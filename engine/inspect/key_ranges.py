"""Cutting a database into key ranges of about the same size, so that several readers can share it.

Where to cut is what the tree's upper nodes say: their keys separate subtrees of about the same number of leaves. Levels
are read from the root down until one has enough keys, so that finding the ranges of a large database reads a few nodes.

Example: a root with 3 children, 4 ranges wanted: the level below with some 250 keys is read, and every 63rd key of it
begins a range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from engine.db.database import Database
from engine.db.engine import Engine
from engine.tree.bin_node import BIN
from engine.tree.in_node import IN
from engine.tree.keys import Key
from engine.tree.tree import child_of, root_of
from engine.workers.parallel import map_small

Result = TypeVar("Result")
# Of fewer nodes all is done by the time that a process has been made.
_LEAST_CUTS: Final = 127


class KeyRange(NamedTuple):
    """Keys from ``start`` on and before ``end``; None for no bound."""

    start: bytes | None
    end: bytes | None


WHOLE: Final = KeyRange(None, None)


def count_records(engine: Engine, db: Database, jobs: int, told: Callable[[int, float], None] | None = None) -> int:
    """Number of records, counted by several processes; no record is read.

    Arguments:
        engine, db: the database; no other thread uses it.
        jobs: processes.
        told: as for ``Database.count``.
    """
    ranges = worthwhile_ranges(engine, db, jobs)
    if len(ranges) == 1 or db.slots() is None:
        return db.count(told)
    total = 0
    for done, records in enumerate(in_ranges((engine,), partial(_count, db), ranges, jobs), 1):
        total += records
        if told is not None:
            told(total, done / len(ranges))
    return total


def _count(db: Database, keys: KeyRange) -> int:
    slots = db.slots(*keys)
    assert slots is not None
    return sum(len(found.keys) for found in slots)


def worthwhile_ranges(engine: Engine, db: Database, jobs: int) -> list[KeyRange]:
    """Ranges of a database that forks share; one range where it is too small for that, or cannot be shared."""
    cuts = cut_keys(engine, db, _LEAST_CUTS + 1) if jobs > 1 and can_share(engine) else []
    if len(cuts) < _LEAST_CUTS:
        return [WHOLE]
    return [KeyRange(*pair) for pair in pairwise([None, *cuts, None])]


def can_share(engine: Engine) -> bool:
    """Whether forks can work with an open environment."""
    spill = engine.ctx.spill
    # They would write over each other in a scratch file that one process began.
    return engine.read_only and (spill is None or not spill.nodes)


def in_ranges(
    engines: Sequence[Engine], work: Callable[[KeyRange], Result], ranges: Sequence[KeyRange], jobs: int
) -> Iterator[Result]:
    """What a function returns for each range, in their order.

    Arguments:
        engines: those that it works with. Together all processes take as much cache as the first alone would.
        work: its results are small.
        jobs: processes.
    """
    before = [one.evictor.budget_bytes for one in engines]
    for one in engines:
        one.evictor.budget_bytes //= jobs * len(engines)
    try:
        yield from map_small(work, ranges, jobs)
    finally:
        for one, budget_bytes in zip(engines, before, strict=True):
            one.evictor.budget_bytes = budget_bytes


def cut_keys(engine: Engine, db: Database, count: int) -> list[bytes]:
    """Keys at which a database falls into ranges.

    Arguments:
        engine, db: the database.
        count: how many ranges are wanted.

    Returns:
        At most ``count`` - 1 keys, ascending: the ranges are below the first, from it to the second, and so on. Fewer
        where the tree is small, none where a class orders the keys.

    Raises:
        DamageError: a node cannot be read.
    """
    if db.state.order.comparator is not None:
        return []
    with engine.latch:
        found = _separators(engine, db, count)
    # The nodes that were read may have taken the cache above its budget.
    engine.keep_budget()
    # The keys of duplicates are pairs: a range must not cut between the items of one key.
    keys = sorted({key[0] if isinstance(key, tuple) else key for key in found} - {b""})
    if len(keys) < count:
        return keys
    return [keys[number * (len(keys) + 1) // count - 1] for number in range(1, count)]


def _separators(engine: Engine, db: Database, count: int) -> list[Key]:
    """The keys between the nodes of the first level that has enough; that of slot 0 is no key (R-TREE-6)."""
    root = root_of(engine.ctx, db.state)
    level: list[IN] = [] if root is None else [root]
    keys: list[Key] = []
    while level and not isinstance(level[0], BIN):
        keys += [key for node in level for key in node.keys[1:]]
        if len(keys) >= count - 1:
            break
        level = [child_of(engine.ctx, node, index) for node in level for index in range(len(node))]
    return keys
