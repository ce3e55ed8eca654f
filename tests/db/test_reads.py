"""Reads of one record: the common way beside the general one."""

from __future__ import annotations

from types import SimpleNamespace

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.scan import data_at, walker_of
from engine.storage.memory import MemoryStorage
from engine.txn.txn import LockMode

_HOUR_MS = 3_600_000


def test_the_data_of_a_record_is_the_same_both_ways() -> None:
    """Records, deletions, some that expire, embedded and larger data, in memory and read from the log."""
    storage, now = MemoryStorage(), SimpleNamespace(hours=1_000_000)
    config = EnvironmentConfig(create=True, clock=lambda: now.hours * _HOUR_MS)
    keys = [b"%03d" % number for number in range(400)]
    deleted, expiring = set(keys[::7]), set(keys[3::11]) - set(keys[::7])
    with Environment(storage, config) as env:
        with env.create_database("d", DatabaseOptions()) as db:
            for number, key in enumerate(keys):
                db.put(key, b"v" * (number % 40), expiration=-(now.hours + 2) if key in expiring else 0)
            for key in deleted:
                db.delete(key)
        env.checkpoint(force=True)
    for now.hours, gone in ((1_000_001, deleted), (1_000_003, deleted | expiring)):
        with Environment(storage, config) as env, env.open_database("d") as db:
            for number, key in enumerate(keys):
                expected = None if key in gone else b"v" * (number % 40)
                # The second time from memory.
                for _ in range(2):
                    assert data_at(env.engine, db.state, key) == expected
                walked = walker_of(env.engine, db.state, None).exact(key)
                assert (None if walked is None else walked.data) == expected == db.get(key)
            assert data_at(env.engine, db.state, b"none") is None


def test_a_read_without_a_transaction_waits_for_no_other_record() -> None:
    """While somebody holds a lock the general way is asked; what is not committed is not seen."""
    with Environment(MemoryStorage(), EnvironmentConfig(create=True)) as env, env.create_database("d") as db:
        db.put(b"a", b"1")
        db.put(b"b", b"2")
        with env.begin() as txn:
            db.put(b"a", b"3", txn)
            assert data_at(env.engine, db.state, b"b") == b"2"
            assert data_at(env.engine, db.state, b"a", LockMode.READ_UNCOMMITTED) == b"3"
            txn.abort()
        assert data_at(env.engine, db.state, b"a") == b"1"
