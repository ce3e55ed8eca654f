"""What is left of an environment after a write has failed: the first error is heard, nothing uncommitted is seen."""

from __future__ import annotations

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.transaction import Transaction
from engine.errors import RefusedError, StorageError
from engine.format.entry_types import ABORT, COMMIT
from engine.storage.base import WriteFile
from engine.storage.memory import MemoryStorage
from engine.storage.overlay import WrappedFile, WrappedStorage
from engine.txn.lock_errors import LockConflictError
from engine.txn.txn import Durability, TxnState
from tests.support.damage.faulty_storage import Effect, FaultyStorage, Rule
from tests.support.logs.entries import stored_entries

CONFIG = EnvironmentConfig(create=True, buffer_bytes=1024, lock_timeout_ms=30, checkpoint_bytes=0)


def failing(inner: MemoryStorage, nth: int) -> FaultyStorage:
    return FaultyStorage(inner, [Rule("write", Effect.SHORTEN, nth, "0000*"), Rule("write", Effect.FAIL, 0, "never")])


def fill(env: Environment) -> None:
    with env.create_database("db") as db:
        db.put(b"before", b"committed")
        with env.begin(durability=Durability.NO_SYNC) as txn:
            for number in range(200):
                db.put(b"%04d" % number, b"x" * 50, txn)


@pytest.mark.parametrize("nth", range(1, 21, 3))
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


class Interrupting(WrappedStorage):
    """A storage whose next sync is interrupted, as by Ctrl-C, once ``armed`` is set."""

    def __init__(self, base: MemoryStorage) -> None:
        super().__init__(base)
        self.armed = False

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        return _InterruptingFile(self, self._base.open_rw(path, create=create))


class _InterruptingFile(WrappedFile):
    def __init__(self, storage: Interrupting, file: WriteFile) -> None:
        super().__init__(file)
        self._storage = storage

    def sync(self) -> None:
        if self._storage.armed:
            self._storage.armed = False
            raise KeyboardInterrupt
        self._file.sync()


def put_interrupted(storage: Interrupting, db: Database, txn: Transaction | None) -> None:
    """Put a record through a transaction of one's own, or one of the operation's, and be interrupted in its commit."""
    if txn is None:
        storage.armed = True
        db.put(b"k", b"new")
        return
    with txn:
        db.put(b"k", b"new", txn)
        storage.armed = True


@pytest.mark.parametrize("given", [True, False])
def test_a_commit_that_is_interrupted_is_not_aborted(given: bool) -> None:
    """R-TXN-45: the Commit is in the log; an Abort after it would contradict it, and recovery believes the Commit."""
    storage = Interrupting(MemoryStorage())
    env = Environment(storage, CONFIG)
    db = env.create_database("db")
    db.put(b"k", b"old")
    txn = env.begin() if given else None
    with pytest.raises(KeyboardInterrupt), env:
        put_interrupted(storage, db, txn)
    assert txn is None or txn.state is TxnState.POSSIBLY_COMMITTED
    assert env.engine.txns.aborts == 0
    ends = [entry.type_number for entry in stored_entries(storage) if entry.type_number in (COMMIT, ABORT)]
    assert ABORT not in ends
    with Environment(storage, EnvironmentConfig()) as again:
        assert again.open_database("db").get(b"k") == b"new"


def write_much(db: Database, txn: Transaction) -> None:
    for number in range(1000):
        db.put(b"%04d" % number, b"x" * 100, txn)
