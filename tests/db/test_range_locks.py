"""Which records a bounded read waits for, and which gaps a serializable one guards (R-TXN-3, R-TXN-20)."""

from __future__ import annotations

import pytest

from engine.catalog.naming import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.storage.memory import MemoryStorage
from engine.txn.lock_errors import LockTimeoutError
from engine.txn.txn import Isolation


@pytest.fixture
def env() -> Environment:
    return Environment(MemoryStorage(), EnvironmentConfig(create=True, lock_timeout_ms=50, node_max_entries=4))


def filled(env: Environment, *, duplicates: bool = False) -> Database:
    db = env.create_database("db", DatabaseOptions(duplicates, False, 4))
    for number in range(10):
        db.put(b"%d" % number, b"v")
    return db


@pytest.mark.parametrize("duplicates", [False, True])
def test_a_bounded_walk_leaves_the_record_behind_its_end_alone(env: Environment, duplicates: bool) -> None:
    db = filled(env, duplicates=duplicates)
    writer = env.begin()
    db.delete(b"4", writer, data=b"v")
    db.delete(b"7", writer, data=b"v")
    for txn in (None, env.begin()):
        assert [key for key, _ in db.items(start=b"5", end=b"7", txn=txn)] == [b"5", b"6"]
        assert [key for key, _ in db.items(start=b"5", end=b"7", txn=txn, reverse=True)] == [b"6", b"5"]
    writer.abort()


def test_one_key_of_duplicates_does_not_wait_for_its_neighbours(env: Environment) -> None:
    db = filled(env, duplicates=True)
    writer, other = env.begin(), env.begin()
    db.put(b"5", b"another", writer)
    assert db.get(b"4", other) == b"v"
    assert db.get(b"4") == b"v"
    assert db.delete(b"4", other) == 1
    assert db.put(b"6", b"w", other)
    other.commit()
    writer.commit()
    assert list(db.items(start=b"4", end=b"7")) == [(b"5", b"another"), (b"5", b"v"), (b"6", b"v"), (b"6", b"w")]


def test_a_serializable_range_guards_its_last_gap_and_no_more(env: Environment) -> None:
    db = filled(env)
    reader = env.begin(isolation=Isolation.SERIALIZABLE)
    assert len(list(db.items(start=b"3", end=b"6", txn=reader))) == 3
    for key in (b"33", b"51", b"55"):
        writer = env.begin()
        with pytest.raises(LockTimeoutError):
            db.put(key, b"phantom", writer)
        writer.abort()
    writer = env.begin()
    assert db.put(b"66", b"outside", writer)
    writer.commit()
    assert len(list(db.items(start=b"3", end=b"6", txn=reader))) == 3
    reader.commit()
