"""Removals that JE had not finished (R-REC-61, R-REC-15): databases without a name, and the tasks that lead to them."""

from __future__ import annotations

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.extinction import DATABASE_NAME, EXTINCT_SCAN
from engine.format.bytecursor import sorted_pack
from engine.format.entry.internal_db import DatabaseExtinction, RecordExtinction, encode_extinct_scan
from engine.storage.memory import MemoryStorage
from engine.tree.tree import bins
from engine.txn.payload import Payload, PutMode


def tasks(env: Environment) -> list[bytes]:
    state = env.engine.catalog.by_name(DATABASE_NAME)
    assert state is not None
    return [node.keys[at] for node in bins(env.engine.ctx, state) for at in range(len(node)) if node.is_live(at)]


def add_task(env: Environment, number: int, task: DatabaseExtinction | RecordExtinction) -> None:
    state = env.engine.catalog.by_name(DATABASE_NAME)
    assert state is not None
    txn = env.engine.txns.begin()
    data = encode_extinct_scan(task)
    env.engine.records.put(state, sorted_pack(number), Payload(data, EXTINCT_SCAN), txn, PutMode.OVERWRITE)
    env.engine.txns.commit(txn)


def half_removed() -> MemoryStorage:
    """As JE leaves it: the name has gone in front of the checkpoint, the MapLN has not; a task that only JE can do."""
    storage = MemoryStorage()
    env = Environment(storage, EnvironmentConfig(create=True, checkpoint_bytes=0))
    for name in ("gone", "kept"):
        with env.create_database(name) as db:
            for number in range(20):
                db.put(b"%d" % number, b"v")
    txn = env.engine.txns.begin()
    gone = env.engine.naming.remove("gone", txn)
    env.engine.txns.commit(txn)
    add_task(env, 7, RecordExtinction(0, False, (gone.id + 1,), b"1", b"2", b"filter", "", 0, None))
    env.checkpoint(force=True)
    add_task(env, 8, DatabaseExtinction(0, gone.id))
    env.checkpoint(force=True)
    env.sync()
    env.engine.crash()
    return storage


def test_a_database_that_was_being_removed_is_gone_after_recovery() -> None:
    storage = half_removed()
    with Environment(storage, EnvironmentConfig(read_only=True)) as env:
        ids = env.engine.catalog.ids()
        assert tasks(env) == [sorted_pack(7), sorted_pack(8)]
    with Environment(storage, EnvironmentConfig()) as env:
        assert tasks(env) == [sorted_pack(7)]
        assert len(env.engine.catalog.ids()) == len(ids) - 1
        with env.open_database("kept") as db:
            assert sum(1 for _ in db.items()) == 20
    with Environment(storage, EnvironmentConfig(read_only=True)) as env:
        assert tasks(env) == [sorted_pack(7)]
        assert env.database_names() == ["kept"]


def test_a_task_whose_database_is_gone_is_removed() -> None:
    storage = half_removed()
    with Environment(storage, EnvironmentConfig()) as env:
        add_task(env, 9, DatabaseExtinction(0, 4711))
    with Environment(storage, EnvironmentConfig()) as env:
        assert tasks(env) == [sorted_pack(7)]


def test_a_task_is_never_given_the_id_of_another() -> None:
    """R-REC-15: ids in the recovery range count, not those of the CkptEnd alone."""
    storage = half_removed()
    env = Environment(storage, EnvironmentConfig())
    add_task(env, 40, RecordExtinction(0, False, (3,), b"1", b"2", b"filter", "", 0, None))
    env.sync()
    env.engine.crash()
    with Environment(storage, EnvironmentConfig()) as again:
        assert again.engine.recovery.ids.extinction == 40
    with Environment(storage, EnvironmentConfig(read_only=True)) as again:
        assert again.engine.recovery.ids.extinction == 40
