"""Naming operations: their locks, their two ends, what is left of the aborted ones (R-TREE-4, R-REC-60, R-REC-62)."""

from __future__ import annotations

import threading
import time

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.stream import AloneGate
from engine.errors import NotFoundError, RefusedError, UsageError
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import MapLN
from engine.storage.memory import MemoryStorage
from engine.txn.lock_errors import LockTimeoutError
from engine.txn.txn import Txn
from tests.support.logs.entries import entries
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def env() -> Environment:
    return Environment(MemoryStorage(), EnvironmentConfig(create=True, lock_timeout_ms=50, checkpoint_bytes=0))


def test_what_was_created_by_an_aborted_transaction_is_gone(env: Environment) -> None:
    env.create_database("kept").close()
    before = env.engine.catalog.ids()
    txn = env.begin()
    made = env.create_database("made", None, txn)
    made.put(b"k", b"v" * 30, txn)
    env.truncate_database("kept", txn)
    txn.abort()
    assert env.engine.catalog.ids() == before
    assert env.database_names() == ["kept"]
    with pytest.raises(RefusedError):
        made.put(b"k", b"v")


def test_an_uncommitted_name_cannot_be_opened(env: Environment) -> None:
    txn = env.begin()
    env.create_database("new", None, txn).close()
    with pytest.raises(LockTimeoutError):
        env.open_database("new")
    env.open_database("new", txn).close()
    txn.abort()
    with pytest.raises(NotFoundError):
        env.open_database("new")


@pytest.mark.parametrize("commits", [True, False])
def test_a_name_that_is_being_removed_cannot_be_opened(env: Environment, commits: bool) -> None:
    env.create_database("old").close()
    txn = env.begin()
    env.remove_database("old", txn)
    with pytest.raises(LockTimeoutError):
        env.open_database("old")
    txn.commit() if commits else txn.abort()
    assert env.database_names() == ([] if commits else ["old"])
    if commits:
        with pytest.raises(NotFoundError):
            env.open_database("old")
    else:
        env.open_database("old").close()


def test_waiting_for_a_name_does_not_stop_the_others(env: Environment) -> None:
    """Two creators of one name: who waits holds nothing that the other needs to end."""
    db = env.create_database("data")
    first = env.begin()
    env.create_database("same", None, first).close()
    outcome: list[str] = []

    def second() -> None:
        txn = env.begin()
        txn.inner.lock_timeout_ms = 2000 * PATIENCE_S
        try:
            env.create_database("same", None, txn).close()
            outcome.append("made")
            txn.commit()
        except RefusedError:
            outcome.append("refused")
            txn.abort()

    thread = threading.Thread(target=second)
    thread.start()
    while not env.engine.locks.stats().waiters and thread.is_alive():
        time.sleep(0.001)
    db.put(b"k", b"v")
    first.abort()
    thread.join(PATIENCE_S)
    assert outcome == ["made"]
    assert env.database_names() == ["data", "same"]


def test_open_databases_and_taken_names_are_refused(env: Environment) -> None:
    env.create_database("one").close()
    two = env.create_database("two")
    for refused in (
        lambda: env.remove_database("two"),
        lambda: env.truncate_database("two"),
        lambda: env.rename_database("two", "three"),
        lambda: env.rename_database("one", "two"),
        lambda: env.create_database("one"),
    ):
        with pytest.raises(RefusedError):
            refused()
    with pytest.raises(UsageError):
        env.rename_database("one", "_jeMine")
    with pytest.raises(NotFoundError):
        env.remove_database("none")
    assert env.database_names() == ["one", "two"]
    assert two.put(b"k", b"v")
    assert env.engine.locks.stats().locks == 0


def test_several_operations_of_one_transaction(env: Environment) -> None:
    env.create_database("a").close()
    before = env.engine.catalog.ids()
    for commits in (False, True):
        txn = env.begin()
        env.rename_database("a", "b", txn)
        env.truncate_database("b", txn)
        env.truncate_database("b", txn)
        env.create_database("a", None, txn).close()
        env.remove_database("a", txn)
        txn.commit() if commits else txn.abort()
        assert env.database_names() == (["b"] if commits else ["a"])
        assert len(env.engine.catalog.ids()) == len(before)
    env.sync()
    env.engine.crash()
    with Environment(env.engine.storage) as again:
        assert again.database_names() == ["b"]
        assert len(again.engine.catalog.ids()) == len(before)


def test_every_checkpoint_logs_the_map_ln_of_a_temporary_database(env: Environment) -> None:
    """R-CKPT-11, R-REC-60: recovery removes the temporary databases whose MapLN stands in its range."""
    db = env.create_database("temp", DatabaseOptions(temporary=True))
    for _ in range(3):
        assert env.engine.writer is not None
        after = env.engine.writer.last_lsn
        env.checkpoint(force=True)
        records = [entry.record() for entry in entries(env, after)]
        mapped = [r.content.database.db_id for r in records if isinstance(r, LN) and isinstance(r.content, MapLN)]
        assert db.state.id in mapped


def test_a_temporary_database_cut_anywhere_leaves_nothing(env: Environment) -> None:
    """Its NameLN is not transactional: JE removes it by its name, and could not when that had been undone."""
    before = len(list(entries(env)))
    env.create_database("temp", DatabaseOptions(temporary=True)).put(b"k", b"v")
    env.sync()
    found = list(entries(env))[before:]
    assert [entry.type_name for entry in found][:2] == ["NameLN", "MapLN"]
    data = env.engine.storage.open("00000000.jdb").read(0, 1 << 20)
    env.engine.crash()
    for entry in found:
        cut = Environment(MemoryStorage({"00000000.jdb": data[: (entry.lsn & 0xFFFFFFFF) + entry.total_bytes]}))
        assert list(cut.engine.catalog.names()) == []
        cut.create_database("temp", DatabaseOptions(temporary=True)).close()
        cut.close()


def test_a_name_whose_database_is_lost_stays(env: Environment) -> None:
    """It shows that something is missing (JE-TREE: name without a database); recovery must not wipe it away."""
    state = env.create_database("lost").state
    env.engine.naming.finish_removal(state)
    env.sync()
    env.engine.crash()
    with Environment(env.engine.storage, EnvironmentConfig()) as again:
        assert [name for name, _ in again.engine.catalog.names()] == ["lost"]
        assert again.database_names() == []


class Unacknowledged(AloneGate):
    """A group whose replicas do not answer."""

    def committed(self, txn: Txn) -> None:
        raise RefusedError("too few replicas have acknowledged it")


def test_what_waits_for_a_commit_is_done_although_nobody_acknowledges_it() -> None:
    """The operation is committed here; only the caller is told that the group may not have it."""
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True, replicated=True, checkpoint_bytes=0))
    assert env.engine.vlsn_index is not None
    env.engine.lead(AloneGate(env.engine.vlsn_index, 1))
    gone, old = (env.create_database(name) for name in ("gone", "old"))
    gone.close()
    # The first removal makes the database of extinctions, in a transaction of its own.
    env.create_database("first").close()
    env.remove_database("first")
    old.close()
    env.engine.lead(Unacknowledged(env.engine.vlsn_index, 1))
    with pytest.raises(RefusedError, match="acknowledged"):
        env.remove_database("gone")
    with pytest.raises(RefusedError, match="acknowledged"):
        env.rename_database("old", "new")
    assert env.database_names() == ["new"]
    assert gone.state.id not in env.engine.catalog.ids()
    assert old.state.name == "new"
    env.close()
