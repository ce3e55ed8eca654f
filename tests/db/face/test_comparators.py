"""Databases whose order is that of a Java class, made and written here; their bytes are those of JE."""

from __future__ import annotations

import random
from itertools import groupby

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.secondary import SecondaryConfig
from engine.errors import RefusedError, UnsupportedError, UsageError
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.tree.comparators import DescendingKey
from engine.tree.keys import comparator_name, key_order, serialized_comparator
from engine.verify.environment import verify_environment


def first_byte(stored: bytes) -> bytes:
    """A partial order: what else is in the data makes no difference."""
    return stored[:1]


ORDERS = {"Falling": DescendingKey, "First": first_byte}
CONFIG = EnvironmentConfig(create=True, node_max_entries=4, checkpoint_bytes=0, comparators=ORDERS)
FALLING = DatabaseOptions(max_entries=4, comparator="Falling")
FALLING_DUPLICATES = DatabaseOptions(duplicates=True, max_entries=4, comparator="Falling", duplicate_comparator="First")


def filled(options: DatabaseOptions) -> tuple[Environment, Database, dict[tuple[bytes, bytes], tuple[bytes, bytes]]]:
    """A database, and what is in it, by key and what tells data items apart."""
    env = Environment(MemoryStorage(), CONFIG)
    db = env.create_database("db", options)
    chosen = random.Random(7)
    model: dict[tuple[bytes, bytes], tuple[bytes, bytes]] = {}
    for number in range(300):
        key, data = b"%d" % chosen.randrange(60), b"%d of %d" % (chosen.randrange(10), number)
        at = (key, data[:1] if options.duplicates else b"")
        if chosen.random() < 0.2:
            db.delete(key, data=data)
            model.pop(at, None)
        else:
            assert db.put(key, data)
            model[at] = (key, data)
    return env, db, model


def ordered(model: dict[tuple[bytes, bytes], tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [model[at] for at in sorted(model, key=lambda at: (DescendingKey(at[0]), at[1]))]


@pytest.mark.parametrize("options", [FALLING, FALLING_DUPLICATES])
def test_records_are_in_the_order_of_the_class(options: DatabaseOptions) -> None:
    env, db, model = filled(options)
    expected = ordered(model)
    assert len(expected) > 30
    assert list(db) == expected
    env.sync()
    env.engine.crash()
    storage = env.engine.storage
    with Environment(storage, CONFIG) as again, again.open_database("db") as found:
        assert list(found) == expected
    report = verify_environment(storage, list_log_files(storage), ("log", "data"), comparators=ORDERS)
    assert [finding.message for finding in report.findings] == []
    # Who does not know the class learns the order from the nodes, and reads.
    with Environment(storage, EnvironmentConfig(read_only=True)) as stranger, stranger.open_database("db") as found:
        assert sorted(found) == sorted(expected)


def test_cursors_among_duplicates() -> None:
    _, db, model = filled(FALLING_DUPLICATES)
    groups = [list(group) for _, group in groupby(ordered(model), key=lambda record: record[0])]
    with db.cursor() as cursor:
        for group in groups:
            assert cursor.next_no_dup() == group[0]
            assert [cursor.next_dup() for _ in group] == [*group[1:], None]
            assert cursor.count() == len(group)
        for before, group in zip(groups[::-1][1:], groups[::-1], strict=False):
            assert cursor.search(group[0][0]) == group[0]
            assert cursor.prev_dup() is None
            assert cursor.prev_no_dup() == before[-1]
        key, data = groups[3][-1]
        assert cursor.search_both(key, data[:1] + b" or another") == (key, data)
        assert cursor.search_both_range(key, b"") == groups[3][0]
        assert cursor.search_both_range(key, b"\xff") is None
    # 6 comes after 60 to 69 here, and is no beginning of theirs.
    assert db.delete(b"5") == len([at for at in model if at[0] == b"5"])
    assert {key for key, _ in db} == {at[0] for at in model} - {b"5"}


def test_replacing_a_data_item_by_an_equal_one() -> None:
    env, db, _ = filled(FALLING_DUPLICATES)
    db.put(b"x", b"1 old")
    db.put(b"x", b"2")
    with db.cursor() as cursor:
        cursor.search_both(b"x", b"1")
        cursor.put_current(b"1 new")
        assert cursor.current() == (b"x", b"1 new")
        with pytest.raises(RefusedError, match="not equal"):
            cursor.put_current(b"3")
    expected = [(b"x", b"1 new"), (b"x", b"2")]
    assert list(db)[:2] == expected
    env.sync()
    env.engine.crash()
    with Environment(env.engine.storage, CONFIG) as again, again.open_database("db") as found:
        assert list(found)[:2] == expected


def test_a_primary_and_a_secondary_with_an_order_of_their_own() -> None:
    env = Environment(MemoryStorage(), CONFIG)
    db = env.create_database("db", FALLING)
    env.create_database("by", FALLING_DUPLICATES._replace(duplicate_comparator="Falling")).close()
    with env.open_secondary("by", db, SecondaryConfig(key_creator=lambda _, data: data)) as by:
        for number in range(30):
            db.put(b"%02d" % number, b"%d" % (number % 3))
        assert [found.primary_key for found in by.items(b"1", b"0")] == [b"%02d" % at for at in range(28, 0, -3)]
        db.delete(b"28")
        assert by.get(b"1") is not None
        assert by.delete(b"1") == 9


def test_the_stored_form_is_that_of_je() -> None:
    # Of a comparator class given to JE 18.3.20.
    assert serialized_comparator("Falling") == bytes.fromhex("aced000574000746616c6c696e67")
    assert serialized_comparator(None) == b""
    assert comparator_name(bytes.fromhex("aced000574000746616c6c696e67")) == "Falling"
    # Of a comparator object.
    assert comparator_name(bytes.fromhex("aced000573720007") + b"Falling" + bytes(10)) == "Falling"
    assert comparator_name(b"\xac\xed\x00\x05p") == "serialized object"
    order = key_order(False, bytes.fromhex("aced000573720007") + b"Falling" + bytes(10), None, ORDERS)
    assert order.wrap(b"b") < order.wrap(b"a")


def test_what_cannot_be_made() -> None:
    env = Environment(MemoryStorage(), CONFIG)
    with pytest.raises(UnsupportedError, match="order"):
        env.create_database("db", DatabaseOptions(comparator="com.example.Unknown"))
    with pytest.raises(UsageError, match="no duplicates"):
        env.create_database("db", DatabaseOptions(duplicate_comparator="First"))
    assert env.database_names() == []
