"""Dividing a database into key ranges of about the same size, so that several readers can share it.

The boundaries are keys of the tree's upper nodes, which separate subtrees with about the same number of leaves. Levels
are read from the root down until one has enough keys, so even for a large database only a few nodes are read.

Example: a root with 3 children, 4 ranges wanted: the level below, with some 250 keys, is read, and every 63rd of its
keys begins a range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from engine.db.database import Database
from engine.db.engine import Engine
from engine.db.memory import LEAST_CACHE_BYTES
from engine.storage.disk import maps_shared_by
from engine.tree.bin_node import BIN
from engine.tree.in_node import IN
from engine.tree.keys import Key
from engine.tree.tree import child_of, root_of
from engine.workers.parallel import map_small

Result = TypeVar("Result")
# With fewer nodes the work takes less time than starting a process.
_LEAST_CUTS: Final = 127


class KeyRange(NamedTuple):
    """Keys from ``start`` on and before ``end``; None for no bound."""

    start: bytes | None
    end: bytes | None


WHOLE: Final = KeyRange(None, None)


def count_records(
    engine: Engine,
    db: Database,
    jobs: int,
    told: Callable[[int, float], None] | None = None,
    least_cuts: int = _LEAST_CUTS,
) -> int:
    """Count records in several processes; the records are not read.

    Arguments:
        engine, db: the database; no other thread uses it.
        jobs: processes.
        told: as for ``Database.count``.
        least_cuts: as for ``worthwhile_ranges``.
    """
    ranges = worthwhile_ranges(engine, db, jobs, least_cuts)
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


def worthwhile_ranges(engine: Engine, db: Database, jobs: int, least_cuts: int = _LEAST_CUTS) -> list[KeyRange]:
    """Ranges of a database for forked workers; one range if the database is too small, or forks cannot share the
    environment.

    Arguments:
        jobs: processes.
        least_cuts: a database whose tree cannot be cut so often is too small.
    """
    cuts = cut_keys(engine, db, least_cuts + 1) if jobs > 1 and can_share(engine) else []
    if len(cuts) < least_cuts:
        return [WHOLE]
    return [KeyRange(*pair) for pair in pairwise([None, *cuts, None])]


def can_share(engine: Engine) -> bool:
    """Whether forked workers can use the open environment."""
    spill = engine.ctx.spill
    # Forks would overwrite each other's pages in an inherited scratch file.
    return engine.read_only and (spill is None or not spill.nodes)


def in_ranges(
    engines: Sequence[Engine], work: Callable[[KeyRange], Result], ranges: Sequence[KeyRange], jobs: int
) -> Iterator[Result]:
    """Call a function for each range in forked workers; the results in the order of the ranges.

    Arguments:
        engines: the engines that ``work`` uses. All processes together use no more memory for maps of files than one
            alone would, and only the least cache: each node of a range is read once.
        work: the function; its results should be small.
        jobs: processes.
    """
    before = [one.evictor.budget_bytes for one in engines]
    for one in engines:
        one.evictor.budget_bytes = min(one.evictor.budget_bytes, LEAST_CACHE_BYTES) // (jobs * len(engines))
    try:
        with maps_shared_by(jobs):
            yield from map_small(work, ranges, jobs)
    finally:
        for one, budget_bytes in zip(engines, before, strict=True):
            one.evictor.budget_bytes = budget_bytes


def cut_keys(engine: Engine, db: Database, count: int) -> list[bytes]:
    """Boundary keys that divide a database into ranges.

    Arguments:
        engine, db: the database.
        count: number of wanted ranges.

    Returns:
        At most ``count`` - 1 keys, ascending: the ranges are below the first, from it to the second, and so on. There
        are fewer keys if the tree is small, and none if the database has a custom comparator.

    Raises:
        DamageError: a node cannot be read.
    """
    if db.state.order.comparator is not None:
        return []
    with engine.latch:
        found = _separators(engine, db, count)
    # Reading the nodes may have pushed the cache above its budget.
    engine.keep_budget()
    # The keys of duplicates are pairs: a range must not cut between the items of one key.
    keys = sorted({key[0] if isinstance(key, tuple) else key for key in found} - {b""})
    if len(keys) < count:
        return keys
    return [keys[number * (len(keys) + 1) // count - 1] for number in range(1, count)]


def _separators(engine: Engine, db: Database, count: int) -> list[Key]:
    """The keys between the nodes of the first level that has enough of them; slot 0 has no real key (R-TREE-6)."""
    root = root_of(engine.ctx, db.state)
    level: list[IN] = [] if root is None else [root]
    keys: list[Key] = []
    while level and not isinstance(level[0], BIN):
        keys += [key for node in level for key in node.keys[1:]]
        if len(keys) >= count - 1:
            break
        level = [child_of(engine.ctx, node, index) for node in level for index in range(len(node))]
    return keys
