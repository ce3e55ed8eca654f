"""What a caller passes is checked before a node changes: a wrong type is refused, and nothing after it is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.secondary import SecondaryConfig, SecondaryDatabase
from engine.errors import ArgumentError, UsageError
from engine.storage.memory import MemoryStorage

Call = Callable[[Environment, Database, Any], object]
WRONG = ["text", None, 7, 1.5, ["a"], object()]


def cursor_call(name: str, *before: Any) -> Call:
    def call(env: Environment, db: Database, wrong: Any) -> object:
        with env.begin() as txn, db.cursor(txn) as cursor:
            cursor.first()
            return getattr(cursor, name)(*before, wrong)

    return call


def no_text(wrong: Any) -> Any:
    """For names, of which a text is the right type."""
    return 7 if wrong == "text" else wrong


def no_bound(wrong: Any) -> Any:
    """For bounds, where None is no bound."""
    return 7 if wrong is None else wrong


def prepared(env: Environment, gtrid: Any, bqual: Any) -> None:
    with env.begin() as txn:
        txn.prepare(1, gtrid, bqual)


def secondary_call(env: Environment, call: Callable[[SecondaryDatabase], object]) -> None:
    config = SecondaryConfig(create=True, key_creator=lambda _key, _data: None)
    names = env.database_names()
    primary = env.open_database("primary") if "primary" in names else env.create_database("primary")
    with primary, env.open_secondary("by", primary, config) as by:
        call(by)


CALLS: dict[str, Call] = {
    "put key": lambda env, db, wrong: db.put(wrong, b"x"),
    "put data": lambda env, db, wrong: db.put(b"a", wrong),
    "put in a transaction": lambda env, db, wrong: in_transaction(env, db, wrong),
    "get": lambda env, db, wrong: db.get(wrong),
    "delete": lambda env, db, wrong: db.delete(wrong),
    "item": lambda env, db, wrong: db[wrong],
    "in": lambda env, db, wrong: wrong in db,
    "set item key": lambda env, db, wrong: db.__setitem__(wrong, b"x"),
    "set item data": lambda env, db, wrong: db.__setitem__(b"a", wrong),
    "delete item": lambda env, db, wrong: db.__delitem__(wrong),
    "slice": lambda env, db, wrong: db[no_bound(wrong):],
    "items": lambda env, db, wrong: db.items(no_bound(wrong)),
    "items end": lambda env, db, wrong: db.items(b"a", no_bound(wrong)),
    "items prefix": lambda env, db, wrong: db.items(prefix=no_bound(wrong)),
    "slots": lambda env, db, wrong: db.slots(no_bound(wrong)),
    "prepare gtrid": lambda env, db, wrong: prepared(env, wrong, b"b"),
    "prepare bqual": lambda env, db, wrong: prepared(env, b"g", wrong),
    "discard": lambda env, db, wrong: env.discard_extinct(["db"], begin=no_bound(wrong)),
    "has": lambda env, db, wrong: db.has(b"a", wrong),
    "sequence": lambda env, db, wrong: db.sequence(wrong),
    "secondary get": lambda env, db, wrong: secondary_call(env, lambda by: by.get(wrong)),
    "secondary item": lambda env, db, wrong: secondary_call(env, lambda by: by[wrong]),
    "secondary in": lambda env, db, wrong: secondary_call(env, lambda by: wrong in by),
    "secondary delete": lambda env, db, wrong: secondary_call(env, lambda by: by.delete(wrong)),
    "secondary delete item": lambda env, db, wrong: secondary_call(env, lambda by: by.__delitem__(wrong)),
    "secondary items": lambda env, db, wrong: secondary_call(env, lambda by: by.items(no_bound(wrong))),
    "secondary search": lambda env, db, wrong: secondary_call(env, lambda by: by.cursor().search(wrong)),
    "secondary search_range": lambda env, db, wrong: secondary_call(env, lambda by: by.cursor().search_range(wrong)),
    "secondary search_both": lambda env, db, wrong: secondary_call(env, lambda by: by.cursor().search_both(wrong, b"")),
    "cursor items": lambda env, db, wrong: db.cursor().items(no_bound(wrong)),
    "search": cursor_call("search"),
    "search_range": cursor_call("search_range"),
    "search_both": cursor_call("search_both", b"a"),
    "search_both_range": cursor_call("search_both_range", b"a"),
    "cursor put": cursor_call("put", b"a"),
    "put_current": cursor_call("put_current"),
    "create": lambda env, db, wrong: env.create_database(no_text(wrong)),
    "open": lambda env, db, wrong: env.open_database(no_text(wrong)),
    "rename": lambda env, db, wrong: env.rename_database("db", no_text(wrong)),
    "remove": lambda env, db, wrong: env.remove_database(no_text(wrong)),
}  # fmt: skip


def in_transaction(env: Environment, db: Database, wrong: Any) -> None:
    with env.begin() as txn:
        db.put(b"before", b"1", txn)
        db.put(wrong, b"x", txn)


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_type_is_refused_and_later_commits_stay(name: str, empty: bool, duplicates: bool) -> None:
    storage = MemoryStorage()
    env = Environment(storage, EnvironmentConfig(create=True))
    db = env.create_database("db", DatabaseOptions(duplicates=duplicates))
    if not empty:
        db.put(b"first", b"1")
    for wrong in WRONG:
        with pytest.raises(ArgumentError) as refused:
            CALLS[name](env, db, wrong)
        assert isinstance(refused.value, TypeError)
        assert isinstance(refused.value, UsageError)
        if wrong == "text" and "bytes" in str(refused.value):
            assert re.search(r"found str; encode it, as in \w+\.encode\(\)$", str(refused.value))
    expected = {b"%03d" % number: b"later" for number in range(100)}
    for key, data in expected.items():
        db.put(key, data)
    env.checkpoint(force=True)
    env.close()
    with Environment(storage, EnvironmentConfig(read_only=True)) as again, again.open_database("db") as found:
        assert {key: data for key, data in found if key != b"first"} == expected


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_like_is_copied(kind: Callable[[bytearray], Any]) -> None:
    storage = MemoryStorage()
    with Environment(storage, EnvironmentConfig(create=True)) as env:
        db = env.create_database("db")
        key, data = bytearray(b"key"), bytearray(b"some longer data, not embedded")
        db.put(kind(key), kind(data))
        assert db.get(kind(key)) == bytes(data)
        with env.begin() as txn:
            db.put(kind(bytearray(b"other")), kind(data), txn)
        key[:], data[:] = b"KEY", b"X" * len(data)
        assert db.get(b"key") == b"some longer data, not embedded"
        assert db.delete(kind(bytearray(b"other"))) == 1
    with Environment(storage, EnvironmentConfig(read_only=True)) as again, again.open_database("db") as found:
        assert list(found) == [(b"key", b"some longer data, not embedded")]


def test_the_home_is_a_path_or_a_storage() -> None:
    for wrong in (None, b"/data/env"):
        with pytest.raises(ArgumentError, match="home of an environment"):
            Environment(wrong)  # type: ignore[arg-type]


def test_values_without_a_meaning_are_refused() -> None:
    with Environment(MemoryStorage(), EnvironmentConfig(create=True)) as env:
        db = env.create_database("db")
        for expiration in (1 << 31, -(1 << 31) - 1, 10**30, "tomorrow"):
            with pytest.raises(ArgumentError, match="expiration"):
                db.put(b"a", b"b", expiration=expiration)  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="mode"):
            db.put(b"a", b"b", mode="insert")  # type: ignore[arg-type]
        for entries in (0, 3, 1 << 20, "many"):
            with pytest.raises(ArgumentError, match="nodes"):
                env.create_database("x", DatabaseOptions(max_entries=entries))  # type: ignore[arg-type]
        assert list(db) == []
        assert env.database_names() == ["db"]


def test_a_key_creator_that_returns_text_changes_nothing() -> None:
    storage = MemoryStorage()
    env = Environment(storage, EnvironmentConfig(create=True))
    db = env.create_database("db")
    made: list[Any] = ["text"]
    config = SecondaryConfig(create=True, duplicates=True, key_creator=lambda _key, _data: made[0])
    with env.open_secondary("by", db, config) as by:
        with pytest.raises(ArgumentError, match="secondary key"):
            db.put(b"a", b"1")
        made[0] = b"k"
        db.put(b"b", b"2")
        assert [found.primary_key for found in by] == [b"b"]
        assert list(db) == [(b"b", b"2")]
    env.close()
