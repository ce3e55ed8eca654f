"""Deferred-write and temporary databases (R-TREE-60, R-CKPT-14, R-REC-60), and what removing a database counts."""

from __future__ import annotations

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import UsageError
from engine.format.header import Provisional
from engine.storage.memory import MemoryStorage
from tests.support.logs.entries import entries, node_flags


def make() -> Environment:
    return Environment(MemoryStorage(), EnvironmentConfig(create=True, node_max_entries=8, checkpoint_bytes=0))


def test_nothing_is_logged_until_a_checkpoint() -> None:
    env = make()
    db = env.create_database("deferred", DatabaseOptions(max_entries=8, deferred_write=True))
    db.put(b"first", b"x")
    assert env.engine.writer is not None
    before = env.engine.writer.last_lsn
    for number in range(6):
        db.put(b"%04d" % number, b"v" * (number * 8))
    db.delete(b"0003")
    assert env.engine.writer.last_lsn == before
    assert db.count() == 6
    env.checkpoint(force=True)
    names = [entry.type_name for entry in entries(env, before)]
    assert names.count("INS_LN") == 6
    env.engine.crash()
    with Environment(env.engine.storage, EnvironmentConfig(read_only=True)) as again:
        found = dict(again.open_database("deferred").items())
    assert found == {b"first": b"x", **{b"%04d" % n: b"v" * (n * 8) for n in range(6) if n != 3}}


def test_a_crash_before_the_checkpoint_loses_what_was_not_logged() -> None:
    env = make()
    db = env.create_database("deferred", DatabaseOptions(max_entries=8, deferred_write=True))
    db.put(b"kept", b"x" * 30)
    env.checkpoint(force=True)
    db.put(b"lost", b"x" * 30)
    env.sync()
    env.engine.crash()
    with Environment(env.engine.storage) as again:
        assert dict(again.open_database("deferred").items()) == {b"kept": b"x" * 30}


def test_eviction_logs_records_with_their_bin() -> None:
    """R-TREE-60: eviction of a deferred-write BIN is YES."""
    env = make()
    db = env.create_database("deferred", DatabaseOptions(max_entries=8, deferred_write=True))
    for number in range(100):
        db.put(b"%04d" % number, b"value %d, not embedded at all" % number)
    assert env.engine.writer is not None
    after = env.engine.writer.last_lsn
    assert env.engine.evict() > 5
    assert {flag for _, level, flag in node_flags(env, after, db.state.id) if level == 1} == {Provisional.YES}
    assert dict(db.items()) == {b"%04d" % n: b"value %d, not embedded at all" % n for n in range(100)}
    env.close()
    with Environment(env.engine.storage, EnvironmentConfig(read_only=True)) as again:
        assert again.open_database("deferred").count() == 100


def test_transactions_are_refused() -> None:
    env = make()
    db = env.create_database("deferred", DatabaseOptions(deferred_write=True))
    txn = env.begin()
    with pytest.raises(UsageError):
        db.put(b"k", b"v", txn)
    txn.abort()


@pytest.mark.parametrize("crash", [True, False])
def test_temporary_databases_end_with_the_environment(crash: bool) -> None:
    env = make()
    db = env.create_database("temp", DatabaseOptions(max_entries=8, temporary=True))
    env.create_database("stays").close()
    for number in range(100):
        db.put(b"%04d" % number, b"v" * 40)
    env.engine.evict()
    assert db.count() == 100
    env.checkpoint(force=True)
    db.close()
    env.sync()
    if crash:
        env.engine.crash()
    else:
        env.close()
    with Environment(env.engine.storage, EnvironmentConfig(read_only=True)) as again:
        assert again.database_names() == ["stays"]
    with Environment(env.engine.storage) as again:
        assert again.database_names() == ["stays"]
        assert again.engine.catalog.id_of("temp") is None


def test_removing_a_database_counts_its_records() -> None:
    """R-CLN-8."""
    env = make()
    db = env.create_database("db")
    for number in range(50):
        db.put(b"%04d" % number, b"v" * 40)
    before = env.engine.utilization.counters(0).obsolete_ln_count
    db.close()
    env.remove_database("db")
    assert env.engine.utilization.counters(0).obsolete_ln_count >= before + 50
