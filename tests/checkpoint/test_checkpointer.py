"""The ten steps as the log shows them: flags, levels, climbing, MapLNs, triggers (E-CKPT-2, R-CKPT-2 to R-CKPT-29)."""

from __future__ import annotations

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import RefusedError, UsageError
from engine.format.header import Provisional
from engine.storage.memory import MemoryStorage
from engine.tree.in_node import root_in_memory
from tests.support.logs.entries import entries, node_flags

NO, YES, BEFORE = Provisional.NO, Provisional.YES, Provisional.BEFORE_CKPT_END


@pytest.fixture
def env() -> Environment:
    """A five-level tree with everything clean."""
    config = EnvironmentConfig(create=True, node_max_entries=4, checkpoint_bytes=0)
    env = Environment(MemoryStorage(), config)
    db = env.create_database("deep")
    with env.begin() as txn:
        for number in range(200):
            db.put(b"%04d" % number, b"v" * 20, txn)
    env.checkpoint(force=True, minimize=True)
    root = root_in_memory(db.state)
    assert root is not None
    assert root.height >= 5
    return env


def dirty_one_bin(env: Environment, key: bytes = b"0100") -> int:
    with env.open_database("deep") as db:
        db.put(key, b"w" * 20)
    assert env.engine.writer is not None
    return env.engine.writer.last_lsn


def test_normal_checkpoint_flushes_two_levels(env: Environment) -> None:
    """E-CKPT-2, left column: BIN YES, level 2 NO, nothing above."""
    after = dirty_one_bin(env)
    report = env.checkpoint(force=True)
    db_id = env.open_database("deep").state.id
    assert [(level, flag) for _, level, flag in node_flags(env, after, db_id)] == [(1, YES), (2, NO)]
    assert report is not None
    assert report.highest[db_id] & 0xFFFF == 2


def test_minimized_checkpoint_flushes_to_the_root(env: Environment) -> None:
    """E-CKPT-2, right column: BIN YES, middle levels BEFORE_CKPT_END, root NO."""
    after = dirty_one_bin(env)
    env.checkpoint(force=True, minimize=True)
    state = env.open_database("deep").state
    root = root_in_memory(state)
    assert root is not None
    top = root.height
    flags = [(level, flag) for _, level, flag in node_flags(env, after, state.id)]
    assert flags == [(1, YES), *((level, BEFORE) for level in range(2, top)), (top, NO)]


def test_idle_checkpoints_climb(env: Environment) -> None:
    """R-CKPT-29: the parents of the highest flushed level stay dirty, so the next checkpoint goes one level higher."""
    dirty_one_bin(env)
    db_id = env.open_database("deep").state.id
    levels = []
    for _ in range(4):
        report = env.checkpoint(force=True)
        assert report is not None
        levels.append(report.highest[db_id] & 0xFFFF)
    assert levels == [2, 3, 4, 5]


def test_order_of_entries(env: Environment) -> None:
    """R-CKPT-18 to 20: CkptStart, nodes, root with its MapLN, mapping tree, DbTree, summaries, CkptEnd."""
    after = dirty_one_bin(env)
    env.checkpoint(force=True, minimize=True)
    names = [entry.type_name for entry in entries(env, after) if entry.type_name not in ("Commit",)]
    assert names[0] == "CkptStart"
    assert names[-1] == "CkptEnd"
    assert names.index("MapLN") > names.index("IN")
    assert names[-2] == "FileSummaryLN"


def test_first_active_is_that_of_the_oldest_open_transaction(env: Environment) -> None:
    """R-CKPT-10, E-CKPT-3."""
    db = env.open_database("deep")
    old = env.begin()
    db.put(b"0001", b"open", old)
    first = old.inner.first_lsn
    report = env.checkpoint(force=True)
    assert report is not None
    assert report.first_active_lsn == first < report.ckpt_start_lsn
    old.abort()
    report = env.checkpoint(force=True)
    assert report is not None
    assert report.first_active_lsn == report.ckpt_start_lsn


def test_bytes_interval() -> None:
    """R-CKPT-2, T-41: one checkpoint each time that so many bytes have been logged."""
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True, checkpoint_bytes=50_000))
    db = env.create_database("db")
    before = env.engine.checkpointer.last_id
    for number in range(300):
        db.put(b"%04d" % number, b"v" * 1000)
    taken = env.engine.checkpointer.last_id - before
    assert 4 <= taken <= 9


def test_not_due_means_nothing(env: Environment) -> None:
    dirty_one_bin(env)
    assert env.checkpoint() is None
    assert env.checkpoint(kbytes=1_000_000) is None
    assert env.checkpoint(minutes=60) is None


def test_second_open_writes_nothing() -> None:
    """T-38, R-REC-64: an environment that was closed is opened and closed again without a byte."""
    storage = MemoryStorage()
    with Environment(storage, EnvironmentConfig(create=True)) as env, env.create_database("db") as db:
        db.put(b"k", b"v")
    before = storage.contents()
    Environment(storage).close()
    assert storage.contents() == before


def test_read_only_takes_none() -> None:
    storage = MemoryStorage()
    Environment(storage, EnvironmentConfig(create=True)).close()
    with Environment(storage, EnvironmentConfig(read_only=True)) as env, pytest.raises(RefusedError):
        env.checkpoint(force=True)


def test_high_priority_logs_the_same_sequence() -> None:
    """R-CKPT-24: without concurrency the log is the same either way."""
    logs = []
    for high in (False, True):
        config = EnvironmentConfig(
            create=True, node_max_entries=4, checkpoint_bytes=0, checkpoint_high_priority=high, clock=lambda: 1
        )
        env = Environment(MemoryStorage(), config)
        db = env.create_database("db")
        with env.begin() as txn:
            for number in range(100):
                db.put(b"%04d" % (number * 37 % 100), b"v", txn)
        env.checkpoint(force=True, minimize=True)
        logs.append([(entry.lsn, entry.type_name, entry.provisional) for entry in entries(env)])
    assert logs[0] == logs[1]


def test_time_interval() -> None:
    """R-CKPT-2: by time when bytes are off, and only when something was logged."""
    now = [1_000_000]
    config = EnvironmentConfig(create=True, checkpoint_bytes=0, checkpoint_interval_ms=60_000, clock=lambda: now[0])
    env = Environment(MemoryStorage(), config)
    db = env.create_database("db")
    before = env.engine.checkpointer.last_id
    db.put(b"a", b"1")
    assert env.engine.checkpointer.last_id == before
    now[0] += 61_000
    db.put(b"b", b"2")
    assert env.engine.checkpointer.last_id == before + 1


def test_parameters_by_name() -> None:
    """je-behaviour.md 0: je.properties overrides the program's settings."""
    storage = MemoryStorage({"je.properties": b"# ours\nje.nodeMaxEntries=16\nje.lock.timeout=2 s\nje.unknown=1\n"})
    with Environment(storage, EnvironmentConfig(create=True, node_max_entries=64)) as env:
        assert env.config.node_max_entries == 16
        assert env.config.lock_timeout_ms == 2000
    with pytest.raises(UsageError):
        EnvironmentConfig().with_params({"je.nodeMaxEntries": "2"})
