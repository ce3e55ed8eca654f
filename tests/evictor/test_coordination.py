"""Eviction and checkpoints: the coordination table in all three states (R-CKPT-40 to R-CKPT-43, E-CKPT-5)."""

from __future__ import annotations

import pytest

from engine.checkpoint.dirty_map import CkptState
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import MapLN
from engine.format.header import Provisional
from engine.storage.memory import MemoryStorage
from engine.tree.bin_node import BIN
from engine.tree.in_node import IN, root_in_memory
from engine.tree.tree import find_bin
from tests.support.logs.entries import entries, node_flags

NO, YES = Provisional.NO, Provisional.YES


def deep_env() -> Environment:
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True, node_max_entries=4, checkpoint_bytes=0))
    db = env.create_database("deep")
    with env.begin() as txn:
        for number in range(200):
            db.put(b"%04d" % number, b"v" * 20, txn)
    env.checkpoint(force=True, minimize=True)
    return env


def bin_of(env: Environment, key: bytes) -> BIN:
    state = env.open_database("deep").state
    node = find_bin(env.engine.ctx, state, key)
    assert node is not None
    return node


def test_no_checkpoint_means_no() -> None:
    """Row 5: without a checkpoint every level is logged NO."""
    env = deep_env()
    node = bin_of(env, b"0100")
    current: IN | None = node
    while current is not None:
        assert env.engine.checkpointer.map.eviction_provisional(current) is NO
        current = current.parent


def test_incomplete_adds_the_parent_and_says_yes() -> None:
    """Rows 1 and 3; a root is NO (row 5)."""
    env = deep_env()
    dirty = env.engine.checkpointer.map
    dirty.begin(flush_all=False, extra_level=False)
    assert dirty.state is CkptState.INCOMPLETE
    node = bin_of(env, b"0100")
    assert node.parent is not None
    assert dirty.eviction_provisional(node) is YES
    assert dirty.take(node.db, node.parent.node_id, node.parent.level) is not None
    assert dirty.highest(node.db) & 0xFFFF == 2
    root = root_in_memory(node.db)
    assert root is not None
    assert dirty.eviction_provisional(root) is NO


def test_complete_compares_with_the_highest_level() -> None:
    """Row 4, and row 5 for a database without entries in the map."""
    env = deep_env()
    dirty = env.engine.checkpointer.map
    node = bin_of(env, b"0100")
    dirty.begin(flush_all=False, extra_level=False)
    dirty.build()
    assert dirty.eviction_provisional(node) is NO
    with env.open_database("deep") as db:
        db.put(b"0100", b"w")
    dirty.begin(flush_all=False, extra_level=False)
    dirty.build()
    assert dirty.state is CkptState.COMPLETE
    assert dirty.highest(node.db) & 0xFFFF == 2
    assert node.parent is not None
    assert dirty.eviction_provisional(node) is YES
    assert dirty.eviction_provisional(node.parent) is NO


def test_evicted_during_a_checkpoint_is_reachable() -> None:
    """E-CKPT-5: a dirty BIN that is evicted while the map is complete; its parent is flushed and leads to it."""
    env = deep_env()
    with env.open_database("deep") as db:
        db.put(b"0100", b"evicted")
        db.put(b"0180", b"flushed")
    node = bin_of(env, b"0100")
    after = env.engine.writer.last_lsn if env.engine.writer is not None else 0
    original = env.engine.checkpointer.map.build

    def build_then_evict() -> None:
        original()
        assert env.engine.evictor.evict(node)

    env.engine.checkpointer.map.build = build_then_evict  # type: ignore[method-assign]
    env.checkpoint(force=True)
    flags = [(level, flag) for _, level, flag in node_flags(env, after, node.db.id)]
    assert flags[0] == (1, YES)
    assert flags.count((2, NO)) == 2
    env.engine.crash()
    with Environment(env.engine.storage, EnvironmentConfig(read_only=True)) as again:
        assert again.open_database("deep").get(b"0100") == b"evicted"


def test_eviction_without_checkpoint_is_replayed() -> None:
    """R-CKPT-45: the evicted node is logged NO, recovery replays it."""
    env = deep_env()
    with env.open_database("deep") as db:
        for number in range(0, 200, 3):
            db.put(b"%04d" % number, b"new")
    assert env.engine.evict() > 10
    with env.open_database("deep") as db:
        assert db.get(b"0003") == b"new"
    env.sync()
    env.engine.crash()
    with Environment(env.engine.storage, EnvironmentConfig(read_only=True)) as again:
        found = dict(again.open_database("deep").items())
    assert all(found[b"%04d" % n] == (b"new" if n % 3 == 0 else b"v" * 20) for n in range(200))


def test_cache_stays_within_its_budget() -> None:
    """R-EVT-1: nodes take no more than the cache and a little, whatever the size of the environment."""
    budget = 1 << 20
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True, cache_bytes=budget, checkpoint_bytes=500_000))
    db = env.create_database("big")
    most = 0
    for start in range(0, 12_000, 100):
        with env.begin() as txn:
            for number in range(start, start + 100):
                db.put(b"%08d" % (number * 7919 % 12_000), b"v" * 100, txn)
        most = max(most, env.engine.ctx.used_bytes)
    assert most <= budget * 1.3
    assert env.engine.evictor.evicted > 0
    assert sum(1 for _ in db.items()) == 12_000
    assert env.engine.ctx.used_bytes <= budget * 1.3


def test_a_read_only_environment_keeps_dirty_nodes() -> None:
    """T-89: what recovery has changed in memory cannot be logged, so it stays."""
    env = deep_env()
    with env.open_database("deep") as db:
        db.put(b"0100", b"redone")
    env.sync()
    env.engine.crash()
    with Environment(env.engine.storage, EnvironmentConfig(read_only=True)) as again:
        again.engine.evict()
        assert again.open_database("deep").get(b"0100") == b"redone"
        again.engine.evict()
        assert again.open_database("deep").count() == 200


@pytest.mark.parametrize("dirty", [False, True])
def test_a_root_leaves_and_comes_back(dirty: bool) -> None:
    """T-89, R-EVT-6: a dirty root is logged NO, its MapLN after it; the next search reads it again."""
    env = deep_env()
    db = env.open_database("deep")
    if dirty:
        db.put(b"0100", b"changed")
    assert env.engine.writer is not None
    after = env.engine.writer.last_lsn
    env.engine.evict()
    roots = [db.state.root]
    assert roots == [None]
    mine = node_flags(env, after, db.state.id)
    assert mine[-1:] == ([("IN", 5, NO)] if dirty else [])
    mapped = [
        r.content.database.db_id
        for e in entries(env, after)
        if isinstance(r := e.record(), LN) and isinstance(r.content, MapLN)
    ]
    assert (db.state.id in mapped) == dirty
    assert {node.db.id for node in env.engine.ctx.nodes.values()} <= {0, 1}
    assert db.get(b"0100") == (b"changed" if dirty else b"v" * 20)
    assert db.state.root is not None
    env.engine.evict()
    db.put(b"0101", b"behind")
    env.checkpoint(force=True)
    env.engine.evict()
    env.sync()
    env.engine.crash()
    with Environment(env.engine.storage) as again:
        found = dict(again.open_database("deep").items())
    assert (found[b"0100"], found[b"0101"]) == (b"changed" if dirty else b"v" * 20, b"behind")
    assert len(found) == 200


def test_roots_of_many_databases_do_not_fill_the_cache() -> None:
    """R-EVT-1: what databases take that nobody uses is given back."""
    budget = 200_000
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True, cache_bytes=budget, checkpoint_bytes=0))
    for number in range(300):
        with env.create_database(f"db{number:03}") as db:
            db.put(b"key", b"%d" % number)
    assert env.engine.ctx.used_bytes <= budget * 1.3
    for number in range(0, 300, 7):
        with env.open_database(f"db{number:03}") as db:
            assert db.get(b"key") == b"%d" % number
    env.close()
