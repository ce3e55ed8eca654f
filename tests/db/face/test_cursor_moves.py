"""Movements among duplicates, locks of single operations, and writes at a cursor; the rules are JE's."""

from __future__ import annotations

import random
import time
from bisect import bisect_left, bisect_right

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.cursor import Record
from engine.db.database import Database
from engine.db.environment import Environment
from engine.errors import RefusedError
from engine.storage.memory import MemoryStorage
from engine.tree.tree import find_bin
from engine.txn.lock_errors import LockConflictError
from engine.txn.payload import PutMode
from engine.txn.txn import Isolation, LockMode

HOUR = int(time.time() // 3600)


def make(*, duplicates: bool = True) -> tuple[Environment, Database]:
    config = EnvironmentConfig(create=True, node_max_entries=4, checkpoint_bytes=0, lock_timeout_ms=20)
    env = Environment(MemoryStorage(), config)
    options = DatabaseOptions(duplicates=duplicates, max_entries=4)
    return env, env.create_database("db", options)


class Model:
    """A cursor over a sorted list."""

    def __init__(self, records: list[Record], *, duplicates: bool) -> None:
        self.records = records
        self._duplicates = duplicates
        self.at: Record | None = None

    def move(self, name: str, key: bytes, data: bytes) -> Record | None:
        all_, at = self.records, self.at or (b"", b"")
        keys = [record[0] for record in all_]
        dups = self._duplicates
        index: int | None = None
        same = False
        if name in ("first", "last"):
            index = 0 if name == "first" else len(all_) - 1
        elif name in ("next", "prev", "next_no_dup", "prev_no_dup") and self.at is None:
            index = 0 if name.startswith("next") else len(all_) - 1
        elif name in ("next", "next_dup"):
            index, same = bisect_right(all_, at), name == "next_dup"
        elif name in ("prev", "prev_dup"):
            index, same = bisect_left(all_, at) - 1, name == "prev_dup"
        elif name == "next_no_dup":
            index = bisect_right(keys, at[0])
        elif name == "prev_no_dup":
            index = bisect_left(keys, at[0]) - 1
        elif name == "search_range":
            index = bisect_left(keys, key)
        else:
            index = bisect_left(all_, (key, b"" if name == "search" else data))
        if not 0 <= index < len(all_):
            return None
        found = all_[index]
        if same and (not dups or found[0] != at[0]):
            return None
        exact = name == "search_both" or (name == "search_both_range" and not dups)
        if name.startswith("search") and name != "search_range" and found[0] != key:
            return None
        if exact and found[1] != data:
            return None
        self.at = found
        return found


MOVES = (
    "first", "last", "next", "prev", "next_dup", "prev_dup", "next_no_dup", "prev_no_dup",
    "search", "search_range", "search_both", "search_both_range",
)  # fmt: skip


@pytest.mark.parametrize("isolation", [None, *Isolation])
@pytest.mark.parametrize("duplicates", [True, False])
def test_movements_agree_with_a_list(duplicates: bool, isolation: Isolation | None) -> None:
    env, db = make(duplicates=duplicates)
    chosen = random.Random(13)
    for _ in range(60):
        db.put(
            chosen.choice((b"a", b"b", b"ba", b"b\0", b"c")) + chosen.choice((b"", b"x")), b"%d" % chosen.randint(0, 30)
        )
    model = Model(list(db.items()), duplicates=duplicates)
    txn = None if isolation is None else env.begin(isolation=isolation)
    met: list[tuple[str, Record | None]] = []
    expected: list[tuple[str, Record | None]] = []
    with db.cursor(txn) as cursor:
        for _ in range(600):
            name = chosen.choice(MOVES)
            key, data = chosen.choice((b"a", b"b", b"bb", b"cx", b"")), b"%d" % chosen.randint(0, 30)
            if name.endswith("_dup") and "no" not in name and model.at is None:
                continue
            arguments = {"search": (key,), "search_range": (key,), "search_both": (key, data)}.get(name, ())
            arguments = (key, data) if name == "search_both_range" else arguments
            expected.append((name, model.move(name, key, data)))
            met.append((name, getattr(cursor, name)(*arguments)))
            assert cursor.current() == model.at
    assert met == expected
    if txn is not None:
        txn.commit()


def test_another_cursor_on_the_same_record() -> None:
    env, db = make()
    for item in (b"1", b"2", b"3"):
        db.put(b"k", item)
    with env.begin() as txn, db.cursor(txn) as cursor:
        cursor.search_both(b"k", b"2")
        with cursor.dup() as other, cursor.dup(same_position=False) as nowhere:
            assert other.next() == (b"k", b"3")
            assert cursor.current() == (b"k", b"2")
            assert nowhere.current() is None
            # The same transaction: what one has written the other does not wait for.
            cursor.delete()
            assert other.prev() == (b"k", b"1")


def test_the_lock_of_one_operation() -> None:
    env, db = make()
    db.put(b"k", b"1")
    with env.begin() as reader:
        assert db.get(b"k", reader, lock=LockMode.READ_UNCOMMITTED) == b"1"
        assert not reader.inner.locks
        with db.cursor(reader) as cursor:
            cursor.first(LockMode.READ_COMMITTED)
            assert len(reader.inner.locks) == 1
        # The cursor has left it.
        assert not reader.inner.locks
        assert db.get(b"k", reader, lock=LockMode.READ_COMMITTED) == b"1"
        assert not reader.inner.locks
        assert db.delete(b"k") == 1


def test_a_lock_that_was_there_before_stays() -> None:
    env, db = make()
    db.put(b"k", b"1")
    with env.begin() as reader:
        assert db.get(b"k", reader) == b"1"
        with db.cursor(reader) as cursor:
            cursor.first(LockMode.READ_COMMITTED)
        with pytest.raises(LockConflictError):
            db.delete(b"k")


def test_a_read_for_a_change_keeps_others_from_reading() -> None:
    env, db = make()
    db.put(b"k", b"1")
    with env.begin(isolation=Isolation.READ_COMMITTED) as txn:
        with db.cursor(txn) as cursor:
            cursor.first(LockMode.RMW)
        with pytest.raises(LockConflictError):
            db.get(b"k")
        assert db.get(b"k", lock=LockMode.READ_UNCOMMITTED) == b"1"


def test_what_is_not_committed_is_seen_only_when_asked_for() -> None:
    env, db = make()
    db.put(b"a", b"1")
    with env.begin() as writer:
        db.put(b"b", b"2", writer)
        with db.cursor() as cursor:
            assert cursor.last(LockMode.READ_UNCOMMITTED) == (b"b", b"2")
            with pytest.raises(LockConflictError):
                cursor.last()


def test_a_neighbour_of_the_key_is_not_waited_for() -> None:
    env, db = make()
    db.put(b"a", b"1")
    with env.begin() as writer, env.begin() as reader, db.cursor(reader) as cursor:
        db.put(b"b", b"2", writer)
        assert cursor.search(b"a") == (b"a", b"1")
        assert cursor.next_dup() is None
        assert cursor.search(b"aa") is None
        assert cursor.search_both_range(b"a", b"2") is None


def expiration_of(env: Environment, db: Database, key: bytes, data: bytes) -> int:
    wanted = (key, data) if db.duplicates else key
    node = find_bin(env.engine.ctx, db.state, wanted)
    assert node is not None
    return node.expirations[node.find(wanted)[0]]


@pytest.mark.parametrize("duplicates", [True, False])
def test_expirations_at_a_cursor(duplicates: bool) -> None:
    """JE's rule: that of a new record is set, that of an old one only on request."""
    env, db = make(duplicates=duplicates)
    with db.cursor() as cursor:
        assert cursor.put(b"k", b"v", expiration=-(HOUR + 5))
        assert cursor.current() == (b"k", b"v")
        assert expiration_of(env, db, b"k", b"v") == -(HOUR + 5)
        cursor.put_current(b"v", expiration=-(HOUR + 9))
        assert expiration_of(env, db, b"k", b"v") == -(HOUR + 5)
        cursor.put_current(b"v", expiration=-(HOUR + 9), update_expiration=True)
        assert expiration_of(env, db, b"k", b"v") == -(HOUR + 9)
        db.put(b"k", b"v")
        assert expiration_of(env, db, b"k", b"v") == -(HOUR + 9)
        cursor.put_current(b"v", update_expiration=True)
        assert expiration_of(env, db, b"k", b"v") == 0


def test_an_expired_record_is_no_record() -> None:
    _, db = make(duplicates=False)
    db.put(b"k", b"old", expiration=-(HOUR - 5))
    assert db.get(b"k") is None
    assert not db.put(b"k", b"x", mode=PutMode.UPDATE_ONLY)
    assert db.put(b"k", b"new", mode=PutMode.INSERT_ONLY)
    # The old expiration is not kept: there was no record.
    assert db.get(b"k") == b"new"
    db.put(b"k", b"old", expiration=-(HOUR - 5), update_expiration=True)
    assert db.delete(b"k") == 0


def test_a_new_key_among_duplicates() -> None:
    """JE's putNoOverwrite: any data item of the key is in the way, one that is not committed is waited for."""
    config = EnvironmentConfig(create=True, lock_timeout_ms=20)
    options = DatabaseOptions(duplicates=True)
    with Environment(MemoryStorage(), config) as env, env.create_database("d", options) as db:
        for neighbour in (b"k0", b"l", b"j"):
            db.put(neighbour, b"x")
        first, second = env.begin(), env.begin()
        assert db.put(b"k", b"1", first, mode=PutMode.NEW_KEY)
        with pytest.raises(LockConflictError):
            db.put(b"k", b"2", second, mode=PutMode.NEW_KEY)
        second.abort()
        first.abort()
        with env.begin() as txn:
            assert db.put(b"k", b"2", txn, mode=PutMode.NEW_KEY)
            assert not db.put(b"k", b"3", txn, mode=PutMode.NEW_KEY)
        for data in (b"1", b"2", b"3"):
            assert not db.put(b"k", data, mode=PutMode.NEW_KEY)
            with db.cursor() as cursor:
                assert not cursor.put(b"k", data, mode=PutMode.NEW_KEY)
        assert db.put(b"k", b"3", mode=PutMode.INSERT_ONLY)
        assert [data for key, data in db.items() if key == b"k"] == [b"2", b"3"]
        assert db.delete(b"k") == 2
        assert db.put(b"k", b"4", mode=PutMode.NEW_KEY)
        db.put(b"old", b"1", expiration=20_000)
        assert db.put(b"old", b"2", mode=PutMode.NEW_KEY)


def test_replacing_among_duplicates() -> None:
    _, db = make()
    db.put(b"k", b"1")
    db.put(b"k", b"2")
    with db.cursor() as cursor:
        cursor.search_both(b"k", b"2")
        cursor.put_current(b"2")
        for other in (b"1", b"3"):
            with pytest.raises(RefusedError, match="not equal"):
                cursor.put_current(other)
    assert list(db) == [(b"k", b"1"), (b"k", b"2")]
    assert db.has(b"k", b"2")
    assert not db.has(b"k", b"3")
