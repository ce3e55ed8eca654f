"""What is left of an environment after a write has failed: the first error is heard, nothing uncommitted is seen."""

from __future__ import annotations

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.transaction import Transaction
from engine.errors import RefusedError, StorageError
from engine.storage.faulty import Effect, FaultyStorage, Rule
from engine.storage.memory import MemoryStorage
from engine.txn.lock_errors import LockConflictError
from engine.txn.txn import Durability

CONFIG = EnvironmentConfig(create=True, buffer_bytes=1024, lock_timeout_ms=30, checkpoint_bytes=0)


def failing(inner: MemoryStorage, nth: int) -> FaultyStorage:
    return FaultyStorage(inner, [Rule("write", Effect.SHORTEN, nth, "*.jdb"), Rule("write", Effect.FAIL, 0, "never")])


def fill(env: Environment) -> None:
    with env.create_database("db") as db:
        db.put(b"before", b"committed")
        with env.begin(durability=Durability.NO_SYNC) as txn:
            for number in range(200):
                db.put(b"%04d" % number, b"x" * 50, txn)


@pytest.mark.parametrize("nth", range(2, 22, 3))
def test_the_first_error_is_the_one_that_is_raised(nth: int) -> None:
    """Not that of the abort, nor that of closing, which only say that the environment is invalid."""
    inner = MemoryStorage()
    with pytest.raises(StorageError, match="injected"), Environment(failing(inner, nth), CONFIG) as env:
        fill(env)
    left = MemoryStorage({path: data for path, data in inner.contents().items() if path.endswith(".jdb")})
    with Environment(left, CONFIG) as again:
        if "db" in again.database_names():
            with again.open_database("db") as db:
                assert dict(db.items()) in ({}, {b"before": b"committed"})


def test_nothing_uncommitted_is_seen_afterwards() -> None:
    inner = MemoryStorage()
    env = Environment(failing(inner, 14), CONFIG)
    db = env.create_database("db")
    db.put(b"k", b"committed")
    txn = env.begin()
    db.put(b"k", b"never", txn)
    with pytest.raises(StorageError):
        write_much(db, txn)
    txn.abort()
    with pytest.raises(RefusedError):
        db.put(b"other", b"v")
    with pytest.raises(LockConflictError):
        db.get(b"k")
    env.close()
    with pytest.raises(RefusedError, match="closed"):
        db.get(b"k")
    with Environment(inner, EnvironmentConfig()) as again:
        assert dict(again.open_database("db").items()) == {b"k": b"committed"}


def test_an_error_in_the_block_is_not_replaced_by_that_of_closing() -> None:
    env = Environment(MemoryStorage(), CONFIG)
    db = env.create_database("db")
    db.put(b"k", b"v", env.begin())
    with pytest.raises(ZeroDivisionError), env:
        raise ZeroDivisionError
    with pytest.raises(RefusedError, match="closed"):
        list(db.items())


def write_much(db: Database, txn: Transaction) -> None:
    for number in range(1000):
        db.put(b"%04d" % number, b"x" * 100, txn)
