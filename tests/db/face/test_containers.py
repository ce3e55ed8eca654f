"""Databases, secondaries and cursors as containers: items, membership, slices, iteration in both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.secondary import SecondaryConfig, SecondaryDatabase
from engine.db.secondary_cursor import join
from engine.db.sequence import SequenceConfig
from engine.errors import ArgumentError, ClosedError, TransactionAbortedError, TransactionStateError
from engine.storage.memory import MemoryStorage
from engine.txn.txn import Isolation

KEYS = [b"", b"a", b"a\xff", b"a\xff\x00", b"ab", b"b", b"ba", b"bb", b"c", b"\xff", b"\xff\xff", b"\xff\xff\x01"]
BOUNDS: list[bytes | None] = [None, b"", b"a", b"a\xff", b"aa", b"b", b"c", b"d", b"\xff\xff"]


@pytest.fixture
def env() -> Iterator[Environment]:
    with Environment(MemoryStorage(), EnvironmentConfig(create=True)) as opened:
        yield opened


def filled(env: Environment, name: str = "db", **options: Any) -> Database:
    # Nodes so small that a range crosses several.
    db = env.create_database(name, DatabaseOptions(max_entries=4, **options))
    for key in KEYS:
        db.put(key, b"1")
        if db.duplicates:
            db.put(key, b"2")
    return db


def model(db: Database) -> list[tuple[bytes, bytes]]:
    return [(key, data) for key in sorted(KEYS) for data in ((b"1", b"2") if db.duplicates else (b"1",))]


def test_items_of_a_database(env: Environment) -> None:
    db = filled(env)
    assert b"a" in db
    assert bytearray(b"a") in db
    assert b"zz" not in db
    assert db[b"a"] == db[memoryview(b"a")] == b"1"
    db[b"a"] = bytearray(b"2")
    assert db[b"a"] == b"2"
    del db[b"a"]
    assert b"a" not in db
    for missing in (b"a", bytearray(b"a")):
        with pytest.raises(KeyError) as refused:
            db[missing]
        assert refused.value.args == (b"a",)
        with pytest.raises(KeyError) as refused:
            del db[missing]
        assert refused.value.args == (b"a",)


def test_a_database_is_true_and_has_no_length(env: Environment) -> None:
    db = env.create_database("empty")
    assert bool(db) is True
    assert db.count() == 0
    with pytest.raises(TypeError):
        len(db)  # type: ignore[arg-type]


def test_items_with_duplicates(env: Environment) -> None:
    db = filled(env, duplicates=True)
    assert db[b"a"] == b"1"
    db[b"a"] = b"0"
    assert db[b"a"] == b"0"
    assert [data for key, data in db[b"a":b"a\x00"]] == [b"0", b"1", b"2"]
    del db[b"a"]
    assert b"a" not in db


@pytest.mark.parametrize("duplicates", [False, True])
def test_slices(env: Environment, duplicates: bool) -> None:
    db = filled(env, duplicates=duplicates)
    every = model(db)
    assert list(db) == every
    assert list(reversed(db)) == every[::-1]
    for start in BOUNDS:
        for end in BOUNDS:
            wanted = [
                (key, data) for key, data in every if (start is None or key >= start) and (end is None or key < end)
            ]
            found = db[start:end]
            # It can be iterated more than once.
            assert list(found) == list(found) == list(db.items(start, end)) == wanted
            assert list(reversed(found)) == wanted[::-1]
            for txn in (None, env.begin(), env.begin(isolation=Isolation.SERIALIZABLE)):
                with db.cursor(txn) as cursor:
                    assert list(cursor.items(start, end)) == wanted
                    assert list(cursor.items(start, end, reverse=True)) == wanted[::-1]
                    assert cursor.current() == (wanted[0] if wanted else None)
                if txn is not None:
                    txn.abort()


@pytest.mark.parametrize("duplicates", [False, True])
def test_prefixes(env: Environment, duplicates: bool) -> None:
    db = filled(env, duplicates=duplicates)
    for prefix in (b"", b"a", b"a\xff", b"b", b"\xff", b"\xff\xff", b"q"):
        wanted = [record for record in model(db) if record[0].startswith(prefix)]
        assert list(db.items(prefix=prefix)) == wanted
        assert list(db.items(prefix=bytearray(prefix), reverse=True)) == wanted[::-1]
        with db.cursor() as cursor:
            assert list(cursor.items(prefix=prefix)) == wanted
            assert list(cursor.items(prefix=prefix, reverse=True)) == wanted[::-1]


def test_prefixes_where_a_class_orders_the_keys() -> None:
    """The keys with a prefix do not stand together there."""
    config = EnvironmentConfig(create=True, comparators={"Backward": lambda key: key[::-1]})
    with Environment(MemoryStorage(), config) as env:
        db = env.create_database("db", DatabaseOptions(comparator="Backward", max_entries=4))
        for key in KEYS:
            db[key] = b"1"
        wanted = [key for key in sorted(KEYS, key=lambda key: key[::-1]) if key.startswith(b"a")]
        assert wanted != sorted(wanted)
        assert [key for key, _ in db.items(prefix=b"a")] == wanted
        assert [key for key, _ in db.items(prefix=b"a", reverse=True)] == wanted[::-1]
        with db.cursor() as cursor:
            assert [key for key, _ in cursor.items(prefix=b"a")] == wanted


def test_slices_that_are_refused(env: Environment) -> None:
    db = filled(env)
    for call in (
        lambda: db[b"a":b"b":2],
        lambda: db["a":b"b"],
        lambda: db[b"a":"b"],
        lambda: db.items(b"a", prefix=b"b"),
        lambda: db.cursor().items(b"a", prefix=b"b"),
        lambda: db.__delitem__(slice(b"a", b"b")),  # type: ignore[arg-type]
        lambda: db.__setitem__(slice(b"a", b"b"), b"x"),  # type: ignore[index]
    ):
        with pytest.raises(ArgumentError):
            call()
    assert list(db) == model(db)


def test_a_cursor_is_iterated_from_where_it_stands(env: Environment) -> None:
    db = filled(env)
    with db.cursor() as cursor:
        assert list(cursor) == model(db)
    with db.cursor() as cursor:
        assert list(reversed(cursor)) == model(db)[::-1]
    with db.cursor() as cursor:
        cursor.search(b"b")
        assert [key for key, _ in cursor] == [key for key in sorted(KEYS) if key >= b"b"]
        cursor.search(b"b")
        assert [key for key, _ in reversed(cursor)] == [key for key in sorted(KEYS, reverse=True) if key <= b"b"]
        # A record that has gone meanwhile is left out.
        cursor.search(b"b")
        del db[b"b"]
        assert [key for key, _ in cursor] == [key for key in sorted(KEYS) if key > b"b"]


def test_a_loop_changes_the_record_of_its_cursor(env: Environment) -> None:
    db = filled(env)
    with env.begin() as txn, db.cursor(txn) as cursor:
        for key, data in cursor.items(b"a", b"b"):
            if key == b"ab":
                cursor.delete()
            else:
                cursor.put_current(data + b"+")
    assert list(db[b"a":b"b"]) == [(key, b"1+") for key in sorted(KEYS) if b"a" <= key < b"b" and key != b"ab"]
    assert db[b"b"] == b"1"


def test_a_range_of_a_cursor_waits_for_no_record_beyond_it(env: Environment) -> None:
    db = filled(env)
    with env.begin() as writer:
        for key in (b"ab", b"c"):
            db.put(key, b"locked", writer)
        with env.begin() as reader, db.cursor(reader) as cursor:
            wanted = [b"b", b"ba", b"bb"]
            assert [key for key, _ in cursor.items(b"b", b"c")] == wanted
            assert [key for key, _ in cursor.items(b"b", b"c", reverse=True)] == wanted[::-1]


def cities(env: Environment, *, duplicates: bool = True) -> tuple[Database, SecondaryDatabase]:
    people = env.create_database("people")
    config = SecondaryConfig(
        create=True, duplicates=duplicates, key_creator=lambda key, data: data.partition(b",")[2] or None
    )
    by_city = env.open_secondary("city", people, config)
    for number, city in enumerate((b"London", b"Leeds", b"Erlangen", b"", b"Lodz", b"Essen")):
        people[b"%d" % number] = b"somebody," + city
    if duplicates:
        people[b"9"] = b"somebody,London"
    return people, by_city


@pytest.mark.parametrize("duplicates", [False, True])
def test_items_of_a_secondary(env: Environment, duplicates: bool) -> None:
    people, by_city = cities(env, duplicates=duplicates)
    assert bool(by_city) is True
    assert b"London" in by_city
    assert bytearray(b"London") in by_city
    assert b"Paris" not in by_city
    assert by_city[b"London"] == (b"London", b"0", b"somebody,London")
    every = list(by_city)
    assert [found.key for found in every] == sorted(found.key for found in every)
    assert len(every) == by_city.count() == (6 if duplicates else 5)
    assert list(reversed(by_city)) == every[::-1]
    for start in (None, b"", b"E", b"Leeds", b"London", b"M"):
        for end in (None, b"", b"Leeds", b"London", b"Lp", b"Z"):
            wanted = [
                found for found in every if (start is None or found.key >= start) and (end is None or found.key < end)
            ]
            assert list(by_city[start:end]) == wanted
            assert list(reversed(by_city[start:end])) == wanted[::-1]
            for isolation in (Isolation.REPEATABLE_READ, Isolation.SERIALIZABLE, Isolation.READ_COMMITTED):
                with env.begin(isolation=isolation) as txn:
                    assert list(by_city.items(start, end, txn=txn)) == wanted
                    assert list(by_city.items(start, end, reverse=True, txn=txn)) == wanted[::-1]
    for prefix in (b"", b"L", b"Lo", b"E", b"X"):
        wanted = [found for found in every if found.key.startswith(prefix)]
        assert list(by_city.items(prefix=prefix)) == wanted
        assert list(by_city.items(prefix=prefix, reverse=True)) == wanted[::-1]
    del by_city[b"London"]
    assert b"0" not in people
    for missing in (lambda: by_city[b"London"], lambda: by_city.__delitem__(b"London")):
        with pytest.raises(KeyError) as refused:
            missing()
        assert refused.value.args == (b"London",)
    # Python 3.11 raises the one, later releases the other.
    with pytest.raises((AttributeError, TypeError)):
        by_city[b"Rome"] = b"x"  # type: ignore[index]


def test_a_cursor_over_a_secondary_is_iterated_from_where_it_stands(env: Environment) -> None:
    _, by_city = cities(env)
    every = list(by_city)
    with by_city.cursor() as cursor:
        assert list(cursor) == every
        assert list(reversed(cursor)) == every[::-1]
        cursor.search_both(b"London", b"0")
        assert list(cursor) == every[-2:]
        cursor.search_both(b"London", b"0")
        assert list(reversed(cursor)) == every[-2::-1]
        assert list(cursor.items(b"F", b"Lo")) == [every[2]] + [found for found in every[3:] if found.key < b"Lo"]


CLOSED: dict[str, Callable[[Database], object]] = {
    "get": lambda db: db.get(b"a"),
    "item": lambda db: db[b"a"],
    "in": lambda db: b"a" in db,
    "slice": lambda db: db[b"a":b"b"],
    "items": lambda db: db.items(),
    "put": lambda db: db.put(b"a", b"b"),
    "delete": lambda db: db.delete(b"a"),
    "cursor": lambda db: db.cursor(),
}


@pytest.mark.parametrize("name", CLOSED)
def test_what_is_closed_is_refused(env: Environment, name: str) -> None:
    db = filled(env)
    begun = db.items()
    db.close()
    with pytest.raises(ClosedError, match="handle of database 'db' is closed"):
        CLOSED[name](db)
    with pytest.raises(ClosedError):
        list(begun)
    db = env.open_database("db")
    env.close()
    with pytest.raises(ClosedError, match="the environment memory: is closed"):
        CLOSED[name](db)


def test_a_closed_cursor_is_refused(env: Environment) -> None:
    _, by_city = cities(env)
    for cursor in (by_city.database.cursor(), by_city.cursor()):
        with cursor:
            cursor.first()
        cursor.close()
        for call in (cursor.first, cursor.next, cursor.count, cursor.delete, cursor.dup, cursor.items):
            with pytest.raises(ClosedError, match="the cursor is closed"):
                call()


def test_transactions_that_have_ended(env: Environment) -> None:
    db = filled(env)
    txn = env.begin()
    txn.commit()
    with pytest.raises(TransactionStateError) as committed:
        db.put(b"a", b"x", txn)
    assert not isinstance(committed.value, TransactionAbortedError)
    txn = env.begin()
    txn.abort()
    for call in (lambda: db.put(b"a", b"x", txn), lambda: db.get(b"a", txn), lambda: db.cursor(txn).first()):
        with pytest.raises(TransactionAbortedError):
            call()
    assert db[b"a"] == b"1"


def test_transactions_of_others_are_refused(env: Environment) -> None:
    db = filled(env)
    with Environment(MemoryStorage(), EnvironmentConfig(create=True)) as other, other.begin() as txn:
        wrong: Any
        for wrong, text in ((txn, "another environment"), (b"default", "wrong type for the transaction")):
            for call in (
                lambda wrong: db.get(b"a", wrong),
                lambda wrong: db.put(b"a", b"x", wrong),
                lambda wrong: db.delete(b"a", wrong),
                lambda wrong: db.items(txn=wrong),
                lambda wrong: db.cursor(wrong),
                lambda wrong: db.sequence(b"ids", txn=wrong),
                lambda wrong: env.create_database("x", txn=wrong),
                lambda wrong: env.open_database("db", wrong),
            ):
                with pytest.raises(ArgumentError, match=text):
                    call(wrong)
    assert list(db) == model(db)
    assert env.database_names() == ["db"]


def test_what_a_join_refuses(env: Environment) -> None:
    db = filled(env)
    for wrong in (None, [None], [db.cursor()], "text", 7):
        with pytest.raises(ArgumentError, match="cursors of a join"):
            join(wrong)  # type: ignore[arg-type]


def test_reprs(env: Environment) -> None:
    """They name what it is and whether it is open, and never raise."""
    assert repr(env) == "<Environment 'memory', open>".replace("memory", env.home)
    people, by_city = cities(env)
    ids = people.sequence(b"ids", SEQUENCE)
    txn = env.begin()
    cursor, over = people.cursor(), by_city.cursor()
    everything = (env, people, by_city, ids, txn, cursor, over, people[b"a":])
    assert repr(people) == "<Database 'people', open>"
    assert repr(filled(env, duplicates=True)) == "<Database 'db' with duplicates, open>"
    assert repr(by_city) == "<SecondaryDatabase 'city' of 'people', open>"
    assert repr(ids) == "<Sequence b'ids' of 'people', 0 stored>"
    assert repr(txn) == f"<Transaction {txn.id}, open>"
    assert repr(cursor) == "<Cursor of 'people', on no record>"
    cursor.first()
    over.first()
    assert repr(cursor) == "<Cursor of 'people', at b'0'>"
    assert "at b'Erlangen'" in repr(over)
    assert repr(people[b"a":]) == "<RecordRange b'a':>"
    assert repr(people[: b"k" * 1000]) == f"<RecordRange :{b'k' * 40!r}...>"
    cursor.close()
    assert repr(cursor) == "<Cursor of 'people', closed>"
    txn.abort()
    assert repr(txn) == f"<Transaction {txn.id}, aborted>"
    by_city.close()
    assert repr(by_city) == "<SecondaryDatabase 'city' of 'people', closed>"
    people.close()
    assert "database closed" in repr(people_cursor(env))
    env.close()
    assert repr(env).endswith(", closed>")
    for thing in everything:
        assert repr(thing).startswith(f"<{type(thing).__name__} ")


SEQUENCE = SequenceConfig(create=True)


def people_cursor(env: Environment) -> Any:
    with env.open_database("people") as db:
        return db.cursor()
