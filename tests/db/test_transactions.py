"""Transactions through the public interface: isolation, conflicts, abort, prepare, closing (R-TXN-20 to R-TXN-46)."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.errors import RefusedError
from engine.format.entry.ln import LN
from engine.storage.memory import MemoryStorage
from engine.txn.lock_errors import DeadlockError, LockConflictError, LockTimeoutError
from engine.txn.payload import PutMode
from engine.txn.txn import Durability, Isolation, TxnState
from tests.support.logs.decoded import record_of
from tests.support.logs.entries import entries
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def env() -> Environment:
    config = EnvironmentConfig(create=True, lock_timeout_ms=60, node_max_entries=8, checkpoint_bytes=0)
    return Environment(MemoryStorage(), config)


@pytest.fixture
def db(env: Environment) -> Database:
    found = env.create_database("db")
    for key in (b"a", b"c", b"e"):
        found.put(key, b"old")
    return found


def test_an_empty_transaction_writes_nothing(env: Environment, db: Database) -> None:
    """R-TXN-40 (v)."""
    assert env.engine.writer is not None
    before = env.engine.writer.entries
    with env.begin() as txn:
        db.get(b"a", txn)
    assert env.engine.writer.entries == before


def test_abort_returns_to_the_version_before(env: Environment, db: Database) -> None:
    """R-TXN-42, E-CLN-1's operations: several writes of one record go back in one step."""
    txn = env.begin()
    db.put(b"a", b"one", txn)
    db.put(b"a", b"two" * 20, txn)
    db.delete(b"a", txn)
    db.put(b"a", b"three", txn)
    db.put(b"new", b"x", txn)
    db.delete(b"c", txn)
    txn.abort()
    assert dict(db.items()) == {b"a": b"old", b"c": b"old", b"e": b"old"}
    assert env.engine.locks.stats().locks == 0


def test_chain_and_abort_information(env: Environment, db: Database) -> None:
    """R-TXN-31 to R-TXN-33: the second update of a record carries the same abort LSN as the first."""
    txn = env.begin()
    db.put(b"a", b"one", txn)
    db.put(b"a", b"two", txn)
    db.put(b"new", b"x", txn)
    found = [entry for entry in entries(env) if getattr(entry.record(), "txn_id", None) == txn.id]
    first, second, third = (record_of(entry, LN) for entry in found)
    assert first.abort_lsn == second.abort_lsn != -1
    assert first.abort_data == second.abort_data == b"old"
    assert second.last_lsn == found[0].lsn
    assert third.abort_lsn == -1
    assert not third.abort_known_deleted
    txn.commit(Durability.NO_SYNC)


def test_readers_wait_for_writers(env: Environment, db: Database) -> None:
    writer = env.begin()
    db.put(b"a", b"new", writer)
    with pytest.raises(LockTimeoutError):
        db.get(b"a")
    dirty = env.begin(isolation=Isolation.READ_UNCOMMITTED)
    assert db.get(b"a", dirty) == b"new"
    writer.commit()
    assert db.get(b"a") == b"new"


def test_a_missing_key_does_not_wait_for_its_neighbour(env: Environment, db: Database) -> None:
    writer = env.begin()
    db.put(b"c", b"new", writer)
    assert db.get(b"b") is None
    assert db.get(b"a") == b"old"
    db.delete(b"e", writer)
    with pytest.raises(LockTimeoutError):
        db.get(b"e")
    writer.abort()
    assert db.get(b"e") == b"old"


def test_a_lock_conflict_leaves_the_transaction_abort_only(env: Environment, db: Database) -> None:
    one, two = env.begin(), env.begin()
    db.put(b"a", b"1", one)
    with pytest.raises(LockTimeoutError):
        db.put(b"a", b"2", two)
    assert two.state is TxnState.ABORT_ONLY
    with pytest.raises(RefusedError):
        db.put(b"c", b"2", two)
    two.abort()
    one.commit()
    assert db.get(b"a") == b"1"


def test_a_block_that_swallows_a_lock_conflict_does_not_end_as_if_it_had_committed(
    env: Environment, db: Database
) -> None:
    one = env.begin()
    db.put(b"a", b"1", one)
    two = env.begin()

    def block() -> None:
        with two:
            db.put(b"c", b"2", two)
            with contextlib.suppress(LockTimeoutError):
                db.put(b"a", b"2", two)

    with pytest.raises(RefusedError, match=r"is abort-only"):
        block()
    assert two.state is TxnState.ABORTED
    one.commit()
    assert (db.get(b"a"), db.get(b"c")) == (b"1", b"old")


def test_read_committed_gives_its_lock_back(env: Environment, db: Database) -> None:
    """R-TXN-20: the lock goes when the cursor moves; repeatable read keeps it."""
    for isolation, free in ((Isolation.READ_COMMITTED, True), (Isolation.REPEATABLE_READ, False)):
        reader = env.begin(isolation=isolation)
        cursor = db.cursor(reader)
        assert cursor.first() == (b"a", b"old")
        assert cursor.next() == (b"c", b"old")
        writer = env.begin()
        if free:
            assert db.put(b"a", b"old", writer)
        else:
            with pytest.raises(LockTimeoutError):
                db.put(b"a", b"new", writer)
        writer.abort()
        reader.abort()


def test_serializable_scans_keep_insertions_out(env: Environment, db: Database) -> None:
    """R-TXN-20, T-76: neither a gap nor the end of the database may be filled after a serializable scan."""
    reader = env.begin(isolation=Isolation.SERIALIZABLE)
    assert [key for key, _ in db.items(txn=reader)] == [b"a", b"c", b"e"]
    for key in (b"b", b"z"):
        writer = env.begin()
        with pytest.raises(LockTimeoutError):
            db.put(key, b"phantom", writer)
        writer.abort()
    reader.commit()
    assert db.put(b"b", b"now")


def test_a_deadlock_has_one_victim(env: Environment, db: Database) -> None:
    """R-TXN-25, T-78."""
    outcomes: list[str] = []
    barrier = threading.Barrier(2)

    def run(first: bytes, second: bytes) -> None:
        txn = env.begin()
        txn.inner.lock_timeout_ms = 5000
        try:
            db.put(first, b"1", txn)
            barrier.wait()
            db.put(second, b"2", txn)
            txn.commit()
            outcomes.append("committed")
        except DeadlockError:
            txn.abort()
            outcomes.append("victim")

    threads = [threading.Thread(target=run, args=pair) for pair in ((b"a", b"c"), (b"c", b"a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(outcomes) == ["committed", "victim"]


def test_put_modes(db: Database) -> None:
    assert not db.put(b"a", b"x", mode=PutMode.INSERT_ONLY)
    assert not db.put(b"zz", b"x", mode=PutMode.UPDATE_ONLY)
    assert db.put(b"zz", b"x", mode=PutMode.INSERT_ONLY)
    assert db.put(b"a", b"x", mode=PutMode.UPDATE_ONLY)
    assert (db.get(b"a"), db.get(b"zz")) == (b"x", b"x")


def test_closing_aborts_and_says_so(env: Environment, db: Database) -> None:
    """R-TXN-46."""
    txn = env.begin()
    db.put(b"a", b"lost", txn)
    with pytest.raises(RefusedError, match=str(txn.id)):
        env.close()
    with Environment(env.engine.storage, EnvironmentConfig(read_only=True)) as again:
        assert again.open_database("db").get(b"a") == b"old"


def test_prepared_transactions_survive(env: Environment, db: Database) -> None:
    """T-52, R-TXN-44, R-REC-42, R-REC-47, R-REC-51: decided after a restart, locked until then."""
    for number, decision in enumerate(("commit", "abort")):
        key = b"p%d" % number
        txn = env.begin()
        db.put(key, b"prepared", txn)
        db.delete(b"c", txn) if decision == "commit" else db.put(b"e", b"changed", txn)
        txn.prepare(1, b"global", decision.encode())
    env.engine.crash()
    again = Environment(env.engine.storage, EnvironmentConfig(lock_timeout_ms=50))
    waiting = again.prepared()
    assert set(waiting) == {(1, b"global", b"commit"), (1, b"global", b"abort")}
    found = again.open_database("db")
    with pytest.raises(LockConflictError):
        found.get(b"p0")
    waiting[(1, b"global", b"commit")].commit()
    waiting[(1, b"global", b"abort")].abort()
    expected = {b"a": b"old", b"e": b"old", b"p0": b"prepared"}
    assert dict(found.items()) == expected
    again.sync()
    again.engine.crash()
    with Environment(env.engine.storage) as last:
        assert dict(last.open_database("db").items()) == expected
        assert last.prepared() == {}


def test_an_undecided_deletion_survives_splits_in_redo(env: Environment, db: Database) -> None:
    """R-TREE-12, R-TREE-50, R-REC-51: in redo nobody holds its lock yet; a split must not take its slot for free."""
    env.checkpoint(force=True)
    txn = env.begin()
    for key in (b"a", b"c", b"e"):
        db.delete(key, txn)
    txn.prepare(1, b"global", b"branch")
    # Slots that come and go: the BIN is full in redo, and was not before.
    for number in range(4):
        db.put(b"b%d" % number, b"short-lived")
        db.delete(b"b%d" % number)
    env.compress()
    added = [b"x%d" % number for number in range(5)]
    for key in added:
        db.put(key, b"new")
    env.engine.crash()
    with Environment(env.engine.storage) as again:
        found = again.open_database("db")
        again.prepared()[(1, b"global", b"branch")].abort()
        assert [key for key, _ in found.items()] == [b"a", b"c", b"e", *added]
        assert found.get(b"c") == b"old"


def test_naming_operations_are_transactional(env: Environment, db: Database) -> None:
    """T-48, R-TREE-4, R-REC-56 to R-REC-62."""
    db.close()
    txn = env.begin()
    env.create_database("other", DatabaseOptions(), txn).close()
    env.rename_database("db", "renamed", txn)
    txn.abort()
    assert env.database_names() == ["db"]
    with env.begin() as txn:
        env.create_database("other", DatabaseOptions(), txn).close()
        env.rename_database("db", "renamed", txn)
    assert env.database_names() == ["other", "renamed"]
    env.truncate_database("renamed")
    assert env.open_database("renamed").count() == 0
    env.remove_database("other")
    env.sync()
    env.engine.crash()
    with Environment(env.engine.storage) as again:
        assert again.database_names() == ["renamed"]


def test_records_expire(env: Environment) -> None:
    """R-CLN-50: hidden when now is after the expiration."""
    db = env.create_database("ttl")
    hour = int(time.time() // 3600)
    db.put(b"gone", b"x", expiration=-(hour - 1))
    db.put(b"here", b"x", expiration=-(hour + 2))
    db.put(b"day", b"y" * 50, expiration=(hour // 24) + 3)
    assert [key for key, _ in db.items()] == [b"day", b"here"]
    env.close()
    with Environment(env.engine.storage, EnvironmentConfig(read_only=True)) as again:
        assert [key for key, _ in again.open_database("ttl").items()] == [b"day", b"here"]


def test_eight_threads_conserve_the_sum() -> None:
    """Concurrency: mixed transfers with deadlocks, checkpoints and compression beside them lose nothing."""
    env = Environment(
        MemoryStorage(),
        EnvironmentConfig(create=True, node_max_entries=8, lock_timeout_ms=2000, checkpoint_bytes=100_000),
    )
    db = env.create_database("accounts")
    with env.begin() as txn:
        for number in range(20):
            db.put(b"%02d" % number, b"1000", txn)
    failures: list[BaseException] = []
    stop = time.monotonic() + 1.5

    def work(seed: int) -> None:
        import random

        chosen = random.Random(seed)
        try:
            while time.monotonic() < stop:
                transfer(env, db, chosen)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    while time.monotonic() < stop:
        env.checkpoint(force=True)
        env.compress()
        time.sleep(0.05)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not failures
    assert sum(int(value) for _, value in db.items()) == 20_000
    assert env.engine.locks.stats().locks == 0
    env.engine.crash()
    with Environment(env.engine.storage, EnvironmentConfig(read_only=True)) as again:
        assert sum(int(value) for _, value in again.open_database("accounts").items()) == 20_000


def transfer(env: Environment, db: Database, chosen: object) -> None:
    import random

    assert isinstance(chosen, random.Random)
    txn = env.begin(durability=Durability.WRITE_NO_SYNC)
    try:
        source, target = (b"%02d" % number for number in chosen.sample(range(20), 2))
        amount = chosen.randint(1, 50)
        have, other = int(db.get(source, txn) or b"0"), int(db.get(target, txn) or b"0")
        db.put(source, b"%d" % (have - amount), txn)
        db.put(target, b"%d" % (other + amount), txn)
        txn.abort() if chosen.random() < 0.1 else txn.commit()
    except LockConflictError:
        txn.abort()
