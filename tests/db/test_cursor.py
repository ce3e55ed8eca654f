"""Cursors: movement, ranges, duplicates, changes at the cursor."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.errors import RefusedError
from engine.storage.memory import MemoryStorage


def make(*, duplicates: bool = False) -> tuple[Environment, Database]:
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True, node_max_entries=4, checkpoint_bytes=0))
    return env, env.create_database("db", DatabaseOptions(duplicates, False, 4))


def test_movement() -> None:
    _, db = make()
    for number in range(0, 40, 2):
        db.put(b"%02d" % number, b"v%d" % number)
    with db.cursor() as cursor:
        assert cursor.current() is None
        assert cursor.first() == (b"00", b"v0")
        assert cursor.prev() is None
        assert cursor.current() == (b"00", b"v0")
        assert cursor.next() == (b"02", b"v2")
        assert cursor.last() == (b"38", b"v38")
        assert cursor.next() is None
        assert cursor.search(b"07") is None
        assert cursor.current() == (b"38", b"v38")
        assert cursor.search_range(b"07") == (b"08", b"v8")
        assert cursor.search(b"10") == (b"10", b"v10")
        assert cursor.skip(5) == 5
        assert cursor.current() == (b"20", b"v20")
        assert cursor.skip(-100) == 10


def test_changes_at_the_cursor() -> None:
    _, db = make()
    for number in range(10):
        db.put(b"%d" % number, b"v")
    with db.cursor() as cursor:
        cursor.search(b"4")
        cursor.put_current(b"changed")
        assert cursor.delete()
        assert not cursor.delete()
        assert cursor.next() == (b"5", b"v")
        cursor.close()
        with pytest.raises(RefusedError):
            cursor.delete()
    assert db.get(b"4") is None


def test_counting_and_skipping_wait_for_nobody() -> None:
    """What is passed by is counted as it is, committed or not; only where the cursor ends a lock is taken."""
    env, db = make(duplicates=True)
    for number in range(30):
        db.put(b"%02d" % (number // 10), b"%02d" % number)
    writer, txn = env.begin(), env.begin()
    db.put(b"01", b"155", writer)
    with db.cursor(txn) as cursor:
        assert cursor.first() == (b"00", b"00")
        skipped = cursor.skip(25)
        assert skipped == 25
        assert cursor.current() == (b"02", b"24")
        assert cursor.search(b"01") == (b"01", b"10")
        assert cursor.count() == 11
        assert len(txn.inner.locks) == 3
        skipped = cursor.skip(100)
        assert skipped == 20
        assert cursor.skip(-100) == 30
    txn.commit()
    writer.abort()


def test_duplicates() -> None:
    _, db = make(duplicates=True)
    for key, data in ((b"a", b"1"), (b"a", b"2"), (b"a", b"10"), (b"ab", b"0"), (b"b", b"")):
        assert db.put(key, data)
    assert list(db.items()) == [(b"a", b"1"), (b"a", b"10"), (b"a", b"2"), (b"ab", b"0"), (b"b", b"")]
    with db.cursor() as cursor:
        assert cursor.search(b"a") == (b"a", b"1")
        assert cursor.count() == 3
        assert cursor.next_dup() == (b"a", b"10")
        assert cursor.next_dup() == (b"a", b"2")
        assert cursor.next_dup() is None
        assert cursor.prev_dup() == (b"a", b"10")
        assert cursor.next_no_dup() == (b"ab", b"0")
    assert db.get(b"a") == b"1"
    assert db.delete(b"a", data=b"10") == 1
    assert db.delete(b"a") == 2
    assert list(db.items()) == [(b"ab", b"0"), (b"b", b"")]


keys = st.binary(max_size=6)


@settings(max_examples=60)
@given(st.lists(st.tuples(keys, st.binary(max_size=20), st.booleans()), max_size=60), keys, keys)
def test_ranges_agree_with_a_dictionary(changes: list[tuple[bytes, bytes, bool]], low: bytes, high: bytes) -> None:
    env, db = make()
    model: dict[bytes, bytes] = {}
    for key, data, deletes in changes:
        if deletes:
            assert db.delete(key) == (1 if model.pop(key, None) is not None else 0)
        else:
            db.put(key, data)
            model[key] = data
    inside = sorted(key for key in model if low <= key < high)
    assert list(db.items()) == sorted(model.items())
    assert [key for key, _ in db.items(start=low, end=high)] == inside
    assert [key for key, _ in db.items(start=low, end=high, reverse=True)] == inside[::-1]
    assert [key for key, _ in db.items(prefix=low)] == sorted(key for key in model if key.startswith(low))
    env.engine.crash()


@settings(max_examples=40)
@given(st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=4), st.booleans()), max_size=60))
def test_duplicates_agree_with_a_set(changes: list[tuple[bytes, bytes, bool]]) -> None:
    env, db = make(duplicates=True)
    model: set[tuple[bytes, bytes]] = set()
    for key, data, deletes in changes:
        if deletes:
            assert db.delete(key, data=data) == ((key, data) in model)
            model.discard((key, data))
        else:
            db.put(key, data)
            model.add((key, data))
    assert list(db.items()) == sorted(model)
    env.sync()
    env.engine.crash()
    with Environment(env.engine.storage) as again:
        assert list(again.open_database("db").items()) == sorted(model)


def test_a_cursor_of_a_closed_handle_refuses_everything() -> None:
    """``count`` and ``delete`` as well: they used to go on."""
    env, db = make()
    db.put(b"a", b"1")
    cursor = db.cursor()
    assert cursor.first() == (b"a", b"1")
    db.close()
    for call in (cursor.count, cursor.delete, cursor.next, cursor.first, lambda: cursor.put_current(b"2")):
        with pytest.raises(RefusedError, match="is closed"):
            call()
    with env.open_database("db") as again:
        assert list(again) == [(b"a", b"1")]
