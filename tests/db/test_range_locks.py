"""Which records a bounded read waits for, and which gaps a serializable one guards (R-TXN-3, R-TXN-20)."""

from __future__ import annotations

from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
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


def test_a_serializable_walk_backward_guards_what_it_began_behind(env: Environment) -> None:
    db = filled(env)
    walks: tuple[tuple[dict[str, Any], tuple[bytes, ...], tuple[bytes, ...]], ...] = (
        ({"reverse": True}, (b"99", b"45", b"0a"), ()),
        ({"reverse": True, "start": b"3", "end": b"6"}, (b"33", b"55"), (b"66", b"99", b"2")),
    )
    for walk, guarded, free in walks:
        reader = env.begin(isolation=Isolation.SERIALIZABLE)
        before = list(db.items(txn=reader, **walk))
        for key in guarded:
            writer = env.begin()
            with pytest.raises(LockTimeoutError):
                db.put(key, b"phantom", writer)
            writer.abort()
        for key in free:
            writer = env.begin()
            assert db.put(key, b"outside", writer)
            writer.commit()
        assert list(db.items(txn=reader, **walk)) == before
        reader.commit()


def test_an_empty_database_is_guarded_too(env: Environment) -> None:
    db = env.create_database("empty")
    for reverse in (False, True, None):
        reader = env.begin(isolation=Isolation.SERIALIZABLE)
        assert db.get(b"k", reader) is None if reverse is None else list(db.items(txn=reader, reverse=reverse)) == []
        writer = env.begin()
        with pytest.raises(LockTimeoutError):
            db.put(b"k", b"phantom", writer)
        writer.abort()
        reader.commit()


@pytest.mark.parametrize("first", ["scan", "update"])
def test_a_record_of_its_own_guards_its_gap_too(env: Environment, first: str) -> None:
    """R-TXN-4: WRITE and RANGE_READ together are RANGE_WRITE, in either order, and on the next version as well."""
    db = filled(env)
    reader = env.begin(isolation=Isolation.SERIALIZABLE)
    if first == "update":
        db.put(b"5", b"mine", reader)
    before = list(db.items(start=b"4", end=b"6", txn=reader))
    if first == "scan":
        db.put(b"5", b"mine", reader)
    writer = env.begin()
    with pytest.raises(LockTimeoutError):
        db.put(b"45", b"phantom", writer)
    writer.abort()
    assert [key for key, _ in db.items(start=b"4", end=b"6", txn=reader)] == [key for key, _ in before]
    reader.commit()


def test_who_has_read_the_next_record_does_not_insert_past_a_guard(env: Environment) -> None:
    """A lock of the inserter's own on the record after the gap does not stand for the right to insert (R-TXN-3)."""
    db = filled(env)
    reader = env.begin(isolation=Isolation.SERIALIZABLE)
    assert len(list(db.items(start=b"4", end=b"6", txn=reader))) == 2
    writer = env.begin()
    assert db.get(b"5", writer) == b"v"
    with pytest.raises(LockTimeoutError):
        db.put(b"45", b"phantom", writer)
    writer.abort()
    writer = env.begin(isolation=Isolation.SERIALIZABLE)
    assert db.get(b"9", writer) == b"v"
    assert db.put(b"85", b"not guarded by anybody else", writer)
    writer.commit()
    reader.commit()
    assert env.engine.locks.stats().locks == 0


def test_a_serializable_read_of_no_record_keeps_it_away(env: Environment) -> None:
    db = filled(env)
    db.delete(b"7")
    for key in (b"45", b"7", b"99"):
        reader = env.begin(isolation=Isolation.SERIALIZABLE)
        assert db.get(key, reader) is None
        writer = env.begin()
        with pytest.raises(LockTimeoutError):
            db.put(key, b"phantom", writer)
        writer.abort()
        assert db.get(key, reader) is None
        assert db.put(key, b"its own", reader)
        reader.abort()
        assert db.get(key) is None
