"""What a database's need of memory depends on: mean sizes of its records, the prefix of its keys, the form of its tree;
and what the cache of this engine needs for such records.

Every record is read once, in key order, and memory holds one of them. The common prefix is that of runs of as many
consecutive keys as a node has on average, because the keys of a bottom node are consecutive.

The figure for this engine is measured: a database of such records is made in memory, and its cache is asked how much
the nodes take. It holds with the data of all records in the cache.

Example: 1,000 keys ``user0000`` to ``user0999`` with 40 bytes each in a database with key prefixing: 8 and 40 bytes,
a prefix of 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.evictor.je_cache_size import CacheLoad
from engine.storage.memory import MemoryStorage

_SAMPLED: Final = 2_000
# Keeps the data of all records of a sample, whatever their size.
_SAMPLE_BYTES: Final = 16 << 20
_LEAST_RECORDS: Final = 20
_TOLD: Final = 10_000


class CacheFacts(NamedTuple):
    """The records and the tree of a database.

    Attributes:
        records: live ones.
        key_bytes, data_bytes, prefix_bytes: means, rounded up, so that the need is not understated.
        node_max: places of a node.
        bins, upper_nodes: number of nodes of its tree now.
    """

    records: int
    key_bytes: int
    data_bytes: int
    prefix_bytes: int
    node_max: int
    duplicates: bool
    bins: int
    upper_nodes: int


def cache_facts(database: Database, told: Callable[[int, int], None]) -> CacheFacts:
    """Read a database.

    Arguments:
        told: called now and then with the number of records that were read, and of all.

    Raises:
        DamageError: a record cannot be read.
    """
    state, stats = database.state, database.stats()
    run = max(2, stats.records // max(stats.bins, 1))
    records = keys = data = 0
    prefixes = runs = 0
    first = last = b""
    for key, value in database.items():
        whole = key + value if state.duplicates else key
        if records % run == 0:
            first = whole
        last = whole
        records, keys, data = records + 1, keys + len(key), data + len(value)
        if records % run == 0:
            prefixes, runs = prefixes + _common(first, last), runs + 1
        if records % _TOLD == 0:
            told(records, stats.records)
    if not runs and records > 1:
        prefixes, runs = _common(first, last), 1
    has_prefix = state.prefixing or state.duplicates
    return CacheFacts(
        records=records,
        key_bytes=-(-keys // max(records, 1)),
        data_bytes=-(-data // max(records, 1)),
        prefix_bytes=prefixes // runs if has_prefix and runs else 0,
        node_max=state.max_entries,
        duplicates=state.duplicates,
        bins=stats.bins,
        upper_nodes=stats.ins,
    )


def own_cache_bytes(load: CacheLoad) -> int:
    """What the cache of this engine takes for such records, by a sample of at most 2,000 of them."""
    key, data = load.key_bytes, load.data_bytes or 0
    fitting = _SAMPLE_BYTES // (key + data + 1)
    # Small keys do not differ often enough for a large sample.
    count = max(1, min(load.records, _SAMPLED, max(fitting, _LEAST_RECORDS), 1 << 8 * min(key, 4)))
    options = DatabaseOptions(
        duplicates=load.duplicates, key_prefixing=load.prefix_bytes > 0, max_entries=max(load.node_max, 4)
    )
    config = EnvironmentConfig(create=True, run_checkpointer=False, cache_bytes=4 * _SAMPLE_BYTES)
    with Environment(MemoryStorage(), config) as env, env.create_database("sample", options) as db:
        before = env.stats().cache_bytes
        with env.begin() as txn:
            for number in range(count):
                db.put(number.to_bytes(max(key, 4), "big")[-key:].rjust(key, b"\0"), bytes(data), txn)
        used = env.stats().cache_bytes - before
    return int(used * load.records // count)


def _common(first: bytes, last: bytes) -> int:
    """The length of the common prefix."""
    length = min(len(first), len(last))
    return next((at for at in range(length) if first[at] != last[at]), length)
