"""Trees while they are used: splits, searches, comparators, the ends of transactions, compression (T-71 to T-88)."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.errors import RefusedError, StorageError
from engine.format.entry.db_tree import DatabaseImpl
from engine.format.lsn import NULL_LSN
from engine.storage.memory import MemoryStorage
from engine.tree.bin_node import BIN
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.tree import bins, find_bin, find_parent, root_of
from engine.txn.txn import TxnState
from tests.scenarios.script import keys_of
from tests.support.damage.faulty_storage import Effect, FaultyStorage, Rule
from tests.support.logs.entries import entries, node_flags
from tests.support.waiting import PATIENCE_S


def make(max_entries: int = 4, **options: Any) -> tuple[Environment, Database]:
    env = Environment(
        MemoryStorage(),
        EnvironmentConfig(create=True, node_max_entries=max_entries, checkpoint_bytes=0, lock_timeout_ms=50),
    )
    return env, env.create_database("db", DatabaseOptions(max_entries=max_entries, **options))


def key(number: int) -> bytes:
    return b"%04d" % number


def nodes_of(env: Environment, db: Database) -> list[IN]:
    found: dict[int, IN] = {}
    for leaf in bins(env.engine.ctx, db.state):
        node: IN | None = leaf
        while node is not None:
            found[id(node)] = node
            node = node.parent
    return list(found.values())


def check_shape(env: Environment, db: Database) -> None:
    """Levels, ranges, identifier keys, sizes of a tree (R-TREE-2, 7, 16)."""
    for node in nodes_of(env, db):
        assert len(node) <= node.max_entries
        assert node.keys[1:] == sorted(set(node.keys[1:]))
        parent = node.parent
        if parent is None:
            assert node.is_root
            continue
        index = parent.slot_of(node)
        assert node.level == parent.level - 1
        assert parent.slot_for(node.ident) == index
        inside = node.keys if isinstance(node, BIN) else node.keys[1:]
        assert not index or all(parent.keys[index] <= found for found in inside)
        assert index + 1 == len(parent) or all(found < parent.keys[index + 1] for found in inside)


def test_the_first_slot_is_promoted() -> None:
    """T-71: keys below everything come in at slot 0 of each level, and are found through it (R-TREE-6, R-TREE-13)."""
    env, db = make()
    for number in range(200, 0, -1):
        db.put(key(number), b"v")
        check_shape(env, db)
    assert keys_of(db) == [key(number) for number in range(1, 201)]


def test_a_node_larger_than_its_database_allows_now() -> None:
    """T-71: the fan-out is reduced; nodes that are too large are split when they are met, one half at a time."""
    env, db = make(64)
    for number in range(60):
        db.put(key(number), b"v")
    db.state.max_entries = 8
    for node in nodes_of(env, db):
        node.max_entries = 8
    rest = list(range(60, 200))
    random.Random(1).shuffle(rest)
    for number in rest:
        db.put(key(number), b"v")
    for number in range(60):
        db.put(key(number), b"w")
    assert max(len(node) for node in nodes_of(env, db)) <= 64
    assert keys_of(db) == [key(number) for number in range(200)]
    env.sync()
    env.engine.crash()
    with Environment(env.engine.storage) as again, again.open_database("db") as found:
        assert keys_of(found) == [key(number) for number in range(200)]


def test_threads_that_split_the_same_nodes() -> None:
    """T-71: no insertion is lost, and the tree has its shape."""
    env, db = make()
    failures: list[BaseException] = []

    def insert(first: int) -> None:
        try:
            for number in range(first, 600, 6):
                db.put(key(number), b"%d" % number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=insert, args=(first,)) for first in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not failures
    check_shape(env, db)
    assert dict(db.items()) == {key(number): b"%d" % number for number in range(600)}


class LengthFirst(tuple[int, bytes]):
    """A key that is compared by its length, then by its bytes; a prefix of bytes says nothing of such an order."""

    @property
    def stored(self) -> bytes:
        """The bytes."""
        return self[1]


def length_first(stored: bytes) -> LengthFirst:
    return LengthFirst((len(stored), stored))


def test_prefixes_with_an_order_of_their_own() -> None:
    """T-73, R-TREE-18: the prefix is that of all keys of the node, not of its first and last one."""
    name = "app.LengthFirst"
    config = EnvironmentConfig(create=True, node_max_entries=8, checkpoint_bytes=0, comparators={name: length_first})
    env = Environment(MemoryStorage(), config)
    db = env.create_database("db", DatabaseOptions(key_prefixing=True, max_entries=8))
    impl: DatabaseImpl = db.state.impl._replace(btree_comparator=java_string(name))
    state = DatabaseState(impl, env.engine.catalog.comparators)
    state.name = "db"
    env.engine.catalog.add(state)
    env.engine.naming.write_map_ln(state)
    with env.open_database("db") as ordered:
        stored = [b"p" * length + bytes((65 + length * 7 % 26,)) for length in range(60)] + [b"pz", b"ppz", b"a"]
        for number, found in enumerate(stored):
            ordered.put(found, b"%d" % number)
        expected = sorted(stored, key=lambda found: (len(found), found))
        assert keys_of(ordered) == expected
        env.checkpoint(force=True)
    env.sync()
    env.engine.crash()
    again = Environment(env.engine.storage, EnvironmentConfig(comparators={name: length_first}))
    with again, again.open_database("db") as reopened:
        assert keys_of(reopened) == expected
        assert reopened.get(b"ppz") == b"61"


def java_string(text: str) -> bytes:
    """A comparator class name as a MapLN stores it: a serialised Java string."""
    return b"\xac\xed\x00\x05t" + len(text).to_bytes(2, "big") + text.encode()


def test_exact_and_inexact_searches() -> None:
    """T-75: the slot of a key or where it would go, in BINs and above, with slot 0 as minus infinity."""
    env, db = make(128)
    for number in range(0, 40, 2):
        db.put(key(number), b"v")
    leaf = next(bins(env.engine.ctx, db.state))
    assert [leaf.find(key(number)) for number in (0, 1, 2, 38, 39)] == [
        (0, True), (1, False), (1, True), (19, True), (20, False),
    ]  # fmt: skip
    assert leaf.find(b"") == (0, False)
    root = root_of(env.engine.ctx, db.state)
    assert root is not None
    assert [root.slot_for(found) for found in (b"", key(5), b"\xff")] == [0, 0, 0]
    for index in (5, 0, 17):
        gone = leaf.keys[index]
        leaf.remove_slot(index)
        assert leaf.find(gone) == (index, False)


def test_parents_by_id_and_key() -> None:
    """T-75, R-TREE-7: every node is found again by its id and identifier key; none that is not there."""
    env, db = make()
    order = list(range(300))
    random.Random(7).shuffle(order)
    for number in order:
        db.put(key(number), b"v")
    for number in range(50, 120):
        db.delete(key(number))
    env.compress()
    for node in nodes_of(env, db):
        found = find_parent(env.engine.ctx, db.state, node.node_id, node.level, node.ident)
        if node.is_root:
            assert found is None
            continue
        assert found is not None
        parent, index = found
        assert parent is node.parent
        assert parent.kids[index] is node
    top = root_of(env.engine.ctx, db.state)
    assert top is not None
    assert find_parent(env.engine.ctx, db.state, 1 << 40, top.level, b"x") is None


def test_a_commit_releases_and_an_abort_never_splits() -> None:
    """T-79: locks go at both ends; undo changes slots and no more."""
    env, db = make()
    for number in range(30):
        db.put(key(number), b"v")
    for commits in (True, False):
        txn = env.begin()
        for number in range(0, 30, 5):
            db.put(key(number), b"w" * 20, txn)
        db.delete(key(1), txn)
        assert env.engine.locks.stats().locks > 0
        assert env.engine.writer is not None
        after = env.engine.writer.last_lsn
        txn.commit() if commits else txn.abort()
        assert env.engine.locks.stats().locks == 0
        assert node_flags(env, after, db.state.id) == []
        assert [entry.type_name for entry in entries(env, after)] == ["Commit" if commits else "Abort"]
    assert db.count() == 29


def test_a_cursor_ends_with_its_transaction() -> None:
    """T-79: a cursor that is left open over the end of its transaction is refused, and changes nothing."""
    env, db = make()
    db.put(key(1), b"v")
    for commits in (True, False):
        txn = env.begin()
        cursor = db.cursor(txn)
        assert cursor.first() == (key(1), b"v")
        txn.commit() if commits else txn.abort()
        for use in (cursor.next, cursor.first, cursor.delete):
            with pytest.raises(RefusedError):
                use()
        with pytest.raises(RefusedError):
            cursor.put_current(b"w")
        with pytest.raises(RefusedError):
            txn.commit()
    assert db.get(key(1)) == b"v"
    assert env.engine.locks.stats().locks == 0


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_commit_that_may_have_reached_the_log(operation: str) -> None:
    """T-79, R-TXN-45: neither committed nor aborted: possibly committed; nothing is undone, the environment ends."""
    inner = MemoryStorage()
    rule = Rule(operation, Effect.FAIL, 0, "never")
    env = Environment(FaultyStorage(inner, [rule]), EnvironmentConfig(create=True, checkpoint_bytes=0))
    db = env.create_database("db")
    txn = env.begin()
    db.put(b"k", b"v", txn)
    rule.path = "*.jdb"
    with pytest.raises(StorageError):
        txn.commit()
    assert txn.state is TxnState.POSSIBLY_COMMITTED
    for use in (txn.commit, txn.abort, lambda: db.put(b"k2", b"v")):
        with pytest.raises(RefusedError):
            use()
    env.close()
    with Environment(inner) as again, again.open_database("db") as found:
        assert dict(found.items()) in ({}, {b"k": b"v"})


@pytest.mark.parametrize("duplicates", [False, True])
def test_compression_under_cursors(duplicates: bool) -> None:
    """T-88: a cursor whose record, BIN, or whole branch is compressed away goes on after it, in both directions."""
    env, db = make(duplicates=duplicates)
    for number in range(60):
        db.put(key(number), b"v")
    forward, backward = db.cursor(), db.cursor()
    forward.search(key(20))
    backward.search(key(40))
    for number in range(10, 50):
        db.delete(key(number))
    assert env.compress() > 20
    check_shape(env, db)
    assert not forward.delete()
    assert forward.next() == (key(50), b"v")
    assert backward.prev() == (key(9), b"v")
    assert [found for found, _ in db.items(reverse=True)] == [key(n) for n in (*range(59, 49, -1), *range(9, -1, -1))]


def test_empty_bins_are_passed() -> None:
    """T-88: scans in both directions over BINs whose slots are all deleted, before they are compressed and after."""
    env, db = make()
    for number in range(100):
        db.put(key(number), b"v")
    for number in range(20, 80):
        db.delete(key(number))
    expected = [key(number) for number in (*range(20), *range(80, 100))]
    for _ in range(2):
        assert keys_of(db) == expected
        assert [found for found, _ in db.items(reverse=True)] == expected[::-1]
        with db.cursor() as cursor:
            assert cursor.search_range(key(30)) == (key(80), b"v")
            assert cursor.prev() == (key(19), b"v")
        env.compress()
    assert all(len(node) for node in bins(env.engine.ctx, db.state))


def test_what_a_transaction_holds_is_not_compressed() -> None:
    """T-88, R-TREE-50: a slot whose version is locked stays; after an abort it is a record again."""
    env, db = make(8)
    for number in range(6):
        db.put(key(number), b"v")
    txn = env.begin()
    for number in range(6):
        db.delete(key(number), txn)
    assert env.compress() == 0
    env.engine.evict()
    assert env.compress() == 0
    txn.abort()
    env.compress()
    assert db.count() == 6
    leaf = find_bin(env.engine.ctx, db.state, key(0))
    assert leaf is not None
    assert NULL_LSN not in leaf.lsns


def test_a_delta_is_preferred_to_compression() -> None:
    """T-88, R-TREE-53: where the next version would be a delta, dirty deleted slots wait for a full one."""
    env, db = make(128)
    for number in range(100):
        db.put(key(number), b"v" * 20)
    env.checkpoint(force=True)
    db.delete(key(5))
    assert env.compress() == 0
    assert env.engine.writer is not None
    after = env.engine.writer.last_lsn
    env.checkpoint(force=True)
    assert node_flags(env, after, db.state.id)[0][0] == "NewBINDelta"
    for number in range(6, 60):
        db.delete(key(number))
    assert env.compress() == 55
    env.checkpoint(force=True)
    env.sync()
    env.engine.crash()
    with Environment(env.engine.storage) as again, again.open_database("db") as found:
        assert keys_of(found) == [key(number) for number in (*range(5), *range(60, 100))]
