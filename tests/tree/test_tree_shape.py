"""Splits, deltas, prefixes, compression as the log shows them (R-TREE-13, R-TREE-15, R-TREE-30, R-TREE-52)."""

from __future__ import annotations

from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.format.entry.node import NodeRecord
from engine.storage.memory import MemoryStorage
from engine.tree.tree import bins
from tests.support.logs.decoded import record_of
from tests.support.logs.entries import entries, node_flags


def make(max_entries: int = 8, **options: Any) -> tuple[Environment, Database]:
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True, node_max_entries=max_entries, checkpoint_bytes=0))
    return env, env.create_database("db", DatabaseOptions(max_entries=max_entries, **options))


def fill(env: Environment, db: Database, numbers: range, data: bytes = b"v" * 20) -> None:
    with env.begin() as txn:
        for number in numbers:
            db.put(b"%05d" % number, data, txn)


def sizes(env: Environment, db: Database) -> list[int]:
    return [len(node) for node in bins(env.engine.ctx, db.state)]


def test_ascending_and_descending_loads_fill_their_nodes() -> None:
    """R-TREE-13 (v), T-72: 4/4 first, then 7/1 each time; descending 1/7 each time."""
    env, db = make()
    fill(env, db, range(9))
    assert sizes(env, db) == [4, 5]
    fill(env, db, range(9, 40))
    assert sizes(env, db)[1:-1] == [7] * (len(sizes(env, db)) - 2)
    env, db = make()
    fill(env, db, range(40, 0, -1))
    assert sizes(env, db)[1:] == [7] * (len(sizes(env, db)) - 1)


def test_what_a_split_logs() -> None:
    """R-TREE-15: new sibling YES, old node YES, parent NO since it is the root."""
    env, db = make()
    fill(env, db, range(8))
    assert env.engine.writer is not None
    after = env.engine.writer.last_lsn
    fill(env, db, range(8, 9))
    flags = [(level, flag.value) for _, level, flag in node_flags(env, after, db.state.id)]
    assert flags == [(1, "yes"), (1, "yes"), (2, "no")]


def test_the_first_insertion_logs_an_empty_tree() -> None:
    """R-TREE-2: the BIN provisionally, the root not."""
    env, db = make()
    assert env.engine.writer is not None
    after = env.engine.writer.last_lsn
    fill(env, db, range(1))
    assert [(n, f.value) for n, _, f in node_flags(env, after, db.state.id)] == [("BIN", "yes"), ("IN", "no")]


@pytest.mark.parametrize(("dirty", "kind"), [(25, "NewBINDelta"), (26, "BIN")])
def test_delta_or_full(dirty: int, kind: str) -> None:
    """R-TREE-30 (v): of 100 entries 25 dirty ones make a delta, 26 a full BIN."""
    env, db = make(128)
    fill(env, db, range(100))
    env.checkpoint(force=True)
    fill(env, db, range(dirty), b"w" * 20)
    assert env.engine.writer is not None
    after = env.engine.writer.last_lsn
    env.checkpoint(force=True)
    assert node_flags(env, after, db.state.id)[0][0] == kind


def test_deltas_are_cumulative_and_read_back() -> None:
    """R-TREE-31, R-TREE-35, T-36, T-40, T-74."""
    env, db = make(128)
    fill(env, db, range(100))
    env.checkpoint(force=True)
    for number in range(5):
        fill(env, db, range(number, number + 1), b"delta %d" % number)
        env.checkpoint(force=True)
    slots = [
        record_of(entry, NodeRecord).slots
        for entry in entries(env)
        if entry.type_name == "NewBINDelta" and entry.record()[0] == db.state.id
    ]
    assert [len(found) for found in slots] == [1, 2, 3, 4, 5]
    env.engine.crash()
    with Environment(env.engine.storage, EnvironmentConfig(read_only=True)) as again:
        found = dict(again.open_database("db").items())
    assert [found[b"%05d" % n] for n in range(6)] == [b"delta %d" % n for n in range(5)] + [b"v" * 20]


def test_after_compressing_a_dirty_slot_the_next_version_is_full() -> None:
    """T-35, R-TREE-32."""
    env, db = make(128)
    fill(env, db, range(100))
    env.checkpoint(force=True)
    for number in range(40):
        db.delete(b"%05d" % number)
    env.compress()
    assert env.engine.writer is not None
    after = env.engine.writer.last_lsn
    env.checkpoint(force=True)
    assert node_flags(env, after, db.state.id)[0][0] == "BIN"
    assert sizes(env, db) == [60]


def test_deleting_everything_leaves_one_branch() -> None:
    """T-29, T-49, R-TREE-52: the last branch stays and can be used again."""
    env, db = make()
    fill(env, db, range(200))
    assert len(sizes(env, db)) > 20
    for number in range(200):
        assert db.delete(b"%05d" % number) == 1
    env.compress()
    assert sizes(env, db) == [0]
    fill(env, db, range(50))
    assert db.count() == 50
    env.sync()
    env.engine.crash()
    with Environment(env.engine.storage, EnvironmentConfig(read_only=True)) as again:
        assert again.open_database("db").count() == 50


def test_prefixes_are_logged_once() -> None:
    """R-TREE-18: the longest common prefix of all keys; none without prefixing."""
    for prefixing in (True, False):
        env, db = make(128, key_prefixing=prefixing)
        with env.begin() as txn:
            for number in range(20):
                db.put(b"common/%02d" % number, b"v", txn)
        env.checkpoint(force=True)
        nodes = [entry.record() for entry in entries(env) if entry.type_name == "BIN"]
        last = [node for node in nodes if isinstance(node, NodeRecord) and node.db_id == db.state.id][-1]
        assert last.key_prefix == (b"common/" if prefixing else None)
        assert dict(db.items()) == {b"common/%02d" % n: b"v" for n in range(20)}


def test_embedding_limit() -> None:
    """R-TREE-40 (v): 16 bytes are embedded, 17 are not."""
    env, db = make(128)
    for size in (0, 16, 17):
        db.put(b"%02d" % size, b"x" * size)
    env.checkpoint(force=True)
    env.engine.evict()
    node = next(bins(env.engine.ctx, db.state))
    assert [bool(state & 0x10) for state in node.states] == [True, True, False]
    assert [db.get(b"%02d" % size) for size in (0, 16, 17)] == [b"", b"x" * 16, b"x" * 17]
