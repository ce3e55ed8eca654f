"""What a database is like, and what its records take in this engine's own cache."""

from __future__ import annotations

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.evictor.je_cache_size import CacheLoad
from engine.monitor.cache_facts import CacheFacts, cache_facts, own_cache_bytes
from engine.storage.memory import MemoryStorage

CONFIG = EnvironmentConfig(create=True, run_checkpointer=False)


def filled(env: Environment, count: int, *, key_prefixing: bool) -> Database:
    db = env.create_database("d", DatabaseOptions(key_prefixing=key_prefixing))
    for number in range(count):
        db.put(b"user%04d" % number, b"x" * (40 if number % 2 else 41))
    return db


@pytest.mark.parametrize("prefixing", [False, True])
def test_means_and_prefix(prefixing: bool) -> None:
    with Environment(MemoryStorage(), CONFIG) as env, filled(env, 1000, key_prefixing=prefixing) as db:
        told: list[tuple[int, int]] = []
        found = cache_facts(db, lambda done, total: told.append((done, total)))
        stats = db.stats()
        assert found == CacheFacts(1000, 8, 41, 5 if prefixing else 0, 128, False, stats.bins, stats.ins)


def test_duplicates_count_every_item() -> None:
    with Environment(MemoryStorage(), CONFIG) as env, env.create_database("d", DatabaseOptions(duplicates=True)) as db:
        for number in range(500):
            db.put(b"same key", b"%08d" % number)
        found = cache_facts(db, lambda *_: None)
        assert (found.records, found.key_bytes, found.data_bytes, found.duplicates) == (500, 8, 8, True)
        # The key, and the leading zeros of the items.
        assert 8 + 5 <= found.prefix_bytes < 16


def test_few_and_no_records() -> None:
    with Environment(MemoryStorage(), CONFIG) as env:
        with filled(env, 2, key_prefixing=True) as db:
            assert cache_facts(db, lambda *_: None).prefix_bytes == 7
        with env.create_database("empty", DatabaseOptions(key_prefixing=True)) as db:
            assert cache_facts(db, lambda *_: None)[:4] == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "load",
    [
        CacheLoad(20_000, 8, 8),
        CacheLoad(20_000, 16, 100),
        CacheLoad(20_000, 16, 100, node_max=32),
        CacheLoad(20_000, 12, 8, prefix_bytes=10, duplicates=True),
    ],
)
def test_the_sample_stands_for_the_whole(load: CacheLoad) -> None:
    """What the cache of a real database of that size holds, within a fifth: keys of the sample differ less."""
    config = EnvironmentConfig(create=True, run_checkpointer=False, cache_bytes=1 << 28)
    options = DatabaseOptions(
        duplicates=load.duplicates, key_prefixing=load.prefix_bytes > 0, max_entries=load.node_max
    )
    with Environment(MemoryStorage(), config) as env, env.create_database("d", options) as db:
        before = env.stats().cache_bytes
        with env.begin() as txn:
            for number in range(load.records):
                db.put(b"%0*d" % (load.key_bytes, number), bytes(load.data_bytes or 0), txn)
        assert own_cache_bytes(load) == pytest.approx(env.stats().cache_bytes - before, rel=0.2)


@pytest.mark.parametrize("load", [CacheLoad(1, 1, 0), CacheLoad(10**9, 1, None), CacheLoad(300, 1000, 2_000_000)])
def test_extremes(load: CacheLoad) -> None:
    assert own_cache_bytes(load) >= load.records * (load.data_bytes or 0)
