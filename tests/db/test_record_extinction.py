"""Ranges of records that are discarded by one task (je-log-format.md 10.4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig, ExtinctionStatus
from engine.db.environment import Environment
from engine.db.extinction import EXTINCT_SCAN
from engine.errors import NotFoundError, RefusedError
from engine.format.bytecursor import sorted_pack
from engine.format.entry.internal_db import RecordExtinction, encode_extinct_scan
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.tree.keys import serialized_comparator
from engine.txn.payload import Payload, PutMode
from engine.verify.environment import LEVELS, verify_environment
from engine.verify.report import NOTE
from tests.support.groups.pairs import catch_up, lead
from tests.support.groups.streams import check_index, open_alone, open_replicated

CONFIG = EnvironmentConfig(
    create=True, node_max_entries=8, file_max_bytes=20_000, checkpoint_bytes=0, run_cleaner=False
)
VALUE = b"v" * 60
FILTER = serialized_comparator("com.example.Even")


def filled(storage: MemoryStorage, config: EnvironmentConfig = CONFIG) -> Environment:
    """300 records, and pairs in a database with duplicates."""
    env = Environment(storage, config)
    with env.create_database("d", DatabaseOptions(max_entries=8)) as db, env.begin() as txn:
        for key in range(300):
            db.put(b"%04d" % key, VALUE, txn)
    with env.create_database("pairs", DatabaseOptions(max_entries=8, duplicates=True)) as db, env.begin() as txn:
        for key in range(60):
            db.put(b"%04d" % (key // 3), b"%04d" % key, txn)
    return env


def keys(env: Environment, name: str = "d") -> list[int]:
    with env.open_database(name) as db:
        return [int(key) for key, _ in db.items()]


def kept(first: int, behind: int) -> list[int]:
    return [*range(first), *range(behind, 300)]


def assert_sound(storage: MemoryStorage) -> None:
    report = verify_environment(storage, list_log_files(storage), LEVELS)
    assert [f"{found.code} {found.message}" for found in report.findings if found.severity != NOTE] == []


def obsolete(env: Environment) -> int:
    return sum(counters.obsolete_ln_count for counters in env.engine.utilization.files().values())


def test_a_range_goes() -> None:
    """Keys and counters at once; the task with the next checkpoint."""
    storage = MemoryStorage()
    with filled(storage) as env:
        before, end = obsolete(env), env.end_lsn
        task = env.discard_extinct(["d", "pairs"], begin=b"0010", end=b"0290", label="drill")
        assert env.end_lsn - end < 2_000
        assert keys(env) == kept(10, 290)
        assert keys(env, "pairs") == [key // 3 for key in range(30)]
        # Beside the 280 records, summaries and the first version of the task; pairs were obsolete already.
        assert 280 <= obsolete(env) - before < 300
        assert env.extinctions()[task].count_complete
        with env.open_database("d") as db:
            assert db.stats().bins < 6
        env.checkpoint(force=True)
        assert env.extinctions() == {}
    assert_sound(storage)
    with Environment(storage) as env:
        assert keys(env) == kept(10, 290)
        assert env.discard_extinct(["d"]) == task + 1
        assert keys(env) == []
        with pytest.raises(NotFoundError):
            env.discard_extinct(["e"])


def test_with_its_transaction() -> None:
    storage = MemoryStorage()
    with filled(storage) as env:
        txn = env.begin()
        env.discard_extinct(["d"], end=b"0100", txn=txn)
        assert keys(env) == kept(0, 0)
        txn.abort()
        env.checkpoint(force=True)
        assert keys(env) == kept(0, 0)
        with env.begin() as txn:
            env.discard_extinct(["d"], end=b"0100", txn=txn)
        assert keys(env) == kept(0, 100)


def test_what_is_locked_waits() -> None:
    storage = MemoryStorage()
    with filled(storage) as env, env.open_database("d") as db:
        with env.begin() as txn:
            db.put(b"0050", b"new", txn)
            task = env.discard_extinct(["d"], begin=b"0040", end=b"0060")
            env.checkpoint(force=True)
            assert list(env.extinctions()) == [task]
        assert keys(env) == [*range(40), 50, *range(60, 300)]
        env.checkpoint(force=True)
        assert keys(env) == kept(40, 60)
        assert env.extinctions() == {}
    assert_sound(storage)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_who_opens_it_goes_on(checkpoint: bool) -> None:
    """A crash after the commit; after the checkpoint's end too, when the task was to be deleted."""
    storage = MemoryStorage()
    env = filled(storage)
    env.checkpoint(force=True)
    with env.begin() as txn:
        env.discard_extinct(["d"], begin=b"0100", end=b"0200", txn=txn)
        # As if the process had ended with the commit.
        env.engine.parts.extinctions = None
    if checkpoint:
        env.checkpoint(force=True)
    env.sync()
    env.engine.crash()
    with Environment(storage) as env:
        assert keys(env) == kept(100, 200)
        env.checkpoint(force=True)
        assert env.extinctions() == {}
    assert_sound(storage)


def test_filters_of_je() -> None:
    """A task with a filter waits for who knows it."""
    storage = MemoryStorage()
    with filled(storage) as env, env.open_database("d") as db, env.begin() as txn:
        tasks = env.engine.catalog.by_name("_jeExtinctScansDb")
        assert tasks is not None
        task = RecordExtinction(0, False, (db.state.id,), b"0100", None, FILTER, "", 0, None)
        payload = Payload(encode_extinct_scan(task), EXTINCT_SCAN)
        env.engine.records.put(tasks, sorted_pack(1), payload, txn.inner, PutMode.INSERT_ONLY)
    with Environment(storage) as env:
        assert keys(env) == kept(0, 0)
        assert env.extinctions() == {1: task}
    known = {"com.example.Even": lambda java, key: java == FILTER and int(key) % 2 == 0}
    with Environment(storage, EnvironmentConfig(extinction_filters=known)) as env:
        assert keys(env) == [*range(100), *range(101, 300, 2)]
    assert_sound(storage)


def test_files_that_are_gone_with_a_range() -> None:
    """JE's cleaner may let records go before the scan has come by their slots; nobody misses them."""
    storage = MemoryStorage()
    env = filled(storage, replace(CONFIG, file_max_bytes=5_000, bin_delta_percent=0))
    extinctions = env.engine.parts.extinctions
    assert extinctions is not None
    env.engine.checkpointer.participants.remove(extinctions)
    with env.open_database("d") as db, env.begin() as txn:
        # So that the last checkpoint logs every node.
        for key in range(0, 300, 3):
            db.put(b"%04d" % key, VALUE, txn)
        task = env.discard_extinct(["d"], end=b"0250", txn=txn)
        # As if the process had ended with the commit.
        env.engine.ends.waiting.clear()
    env.checkpoint(force=True, minimize=True)
    env.engine.crash()
    storage.remove("00000003.jdb")
    with Environment(storage, EnvironmentConfig(read_only=True)) as env:
        gone = set(kept(0, 0)) - set(keys(env))
        assert len(gone) > 20
        assert max(gone) < 250
        with env.open_database("d") as db:
            assert db.get(b"%04d" % min(gone)) is None
    assert_sound(storage)
    with Environment(storage) as env:
        assert keys(env) == kept(0, 250)
        assert task not in env.extinctions()
    assert_sound(storage)


def test_the_cleaner_asks_the_application() -> None:
    """What it calls extinct is not logged again, and its slot goes with it; what it does not know stays."""
    asked: set[str] = set()

    def status(name: str, key: bytes) -> ExtinctionStatus:
        asked.add(name)
        if int(key) < 100:
            return ExtinctionStatus.EXTINCT
        return ExtinctionStatus.MAYBE_EXTINCT if int(key) < 200 else ExtinctionStatus.NOT_EXTINCT

    storage = MemoryStorage()
    with filled(
        storage, replace(CONFIG, extinction_status=status, cleaner_force_files="0-4", file_max_bytes=5_000)
    ) as env:
        env.checkpoint(force=True)
        assert env.clean_log() >= 5
        assert keys(env) == kept(0, 100)
        assert env.cleaner_stats().lns_extinct == 100
        env.checkpoint(force=True)
        env.discard_extinct(["d"], end=b"0100")
        assert keys(env) == kept(0, 100)
    assert asked == {"d"}
    assert_sound(storage)


def test_in_a_group() -> None:
    """The task is an entry of the stream; each node discards its own records, once the Commit is there."""
    storages = MemoryStorage(), MemoryStorage()
    master, replica = open_alone(storages[0]), open_replicated(storages[1])
    with master.create_database("d") as db, master.begin() as txn:
        for key in range(300):
            db.put(b"%04d" % key, VALUE, txn)
    catch_up(master, replica)
    with pytest.raises(RefusedError, match="replication group"):
        replica.discard_extinct(["d"])
    txn = master.begin()
    assert master.discard_extinct(["d"], begin=b"0100", txn=txn) == -1
    # A crash of the replica before it knows of the Commit.
    catch_up(master, replica)
    replica.engine.crash()
    replica = open_replicated(storages[1])
    assert keys(replica) == kept(0, 0)
    assert replica.extinctions() == {}
    txn.commit()
    aborted = master.begin()
    assert master.discard_extinct(["d"], end=b"0050", txn=aborted) == -2
    aborted.abort()
    catch_up(master, replica)
    for env in (master, replica):
        assert keys(env) == [*range(100)]
        assert env.extinctions()[-1].count_complete
        env.checkpoint(force=True)
        assert env.extinctions() == {}
    # What each wrote to the task for itself is no part of the stream, and the ids go on.
    lead(replica, 2)
    assert replica.discard_extinct(["d"], begin=b"0050") == -3
    third = open_replicated(MemoryStorage())
    catch_up(replica, third)
    assert keys(third) == keys(replica) == [*range(50)]
    for env in (master, replica, third):
        check_index(env)
        env.close()
    for storage in storages:
        assert_sound(storage)
