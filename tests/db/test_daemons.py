"""Background threads: they do their work, end with the environment, and do not fail in silence (R-CKPT-2, R-LOG-27,
R-EVT-1, R-TREE-50)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError, RefusedError, StorageError, UsageError
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.tree.tree import bins
from engine.txn.txn import Durability
from engine.verify.trees import verify_trees
from tests.support.damage.faulty_storage import Effect, FaultyStorage, Rule
from tests.support.waiting import PATIENCE_S

CONFIG = EnvironmentConfig(create=True, node_max_entries=8, checkpoint_bytes=0, file_max_bytes=100_000)
SECONDS = PATIENCE_S


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that a thread does."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.002)


def rests(figure: Callable[[], int], seconds: float) -> bool:
    """Whether a figure stays as it is for some time."""
    before = figure()
    time.sleep(seconds)
    return figure() == before


def running() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("jetool-")]


class Watch:
    """A checkpoint participant that does something when a checkpoint has begun."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action

    def checkpoint_begins(self) -> bool:
        return False

    def checkpoint_started(self) -> None:
        self._action()

    def before_checkpoint_end(self) -> None: ...

    def checkpoint_ended(self) -> None: ...


def write_until_refused(env: Environment) -> str:
    """Commit without sync until the environment refuses; the refusal."""
    with env.open_database("d") as db:
        deadline, number = time.monotonic() + SECONDS, 0
        while time.monotonic() < deadline:
            number += 1
            try:
                with env.begin(durability=Durability.NO_SYNC) as txn:
                    db.put(b"%06d" % (number % 500), b"." * 50, txn)
            except RefusedError as error:
                return str(error)
    raise AssertionError("never refused")


def opened(storage: Any = None, **changes: Any) -> Environment:
    return Environment(MemoryStorage() if storage is None else storage, replace(CONFIG, **changes))


def test_there_are_none_unless_asked_for() -> None:
    with opened():
        assert running() == []
    config = EnvironmentConfig().with_background()
    assert (config.run_checkpointer, config.flush_sync_ms, config.flush_no_sync_ms) == (True, 20_000, 5_000)
    with Environment(MemoryStorage(), replace(config, create=True)):
        assert sorted(running()) == [
            "jetool-checkpointer",
            "jetool-cleaner",
            "jetool-compressor",
            "jetool-evictor",
            "jetool-flusher",
        ]
    assert running() == []


def test_a_reader_has_none() -> None:
    storage = MemoryStorage()
    opened(storage).close()
    with Environment(storage, EnvironmentConfig(read_only=True).with_background()):
        assert running() == []


def test_checkpoints_by_bytes() -> None:
    with opened(run_checkpointer=True, checkpoint_bytes=20_000) as env, env.create_database("d") as db:
        seen: list[str] = []
        env.engine.checkpointer.participants.append(Watch(lambda: seen.append(threading.current_thread().name)))
        before = env.engine.checkpointer.last_id
        for i in range(1000):
            db.put(b"%04d" % i, b"." * 50)
            if i % 250 == 0:
                until(lambda: not env.engine.checkpointer.is_due())
        until(lambda: env.engine.checkpointer.last_id >= before + 2)
        assert set(seen) == {"jetool-checkpointer"}


def test_checkpoints_by_time() -> None:
    with opened(run_checkpointer=True, checkpoint_interval_ms=40) as env, env.create_database("d") as db:
        for i in range(3):
            before = env.engine.checkpointer.last_id
            db.put(b"%d" % i, b"v")
            until(lambda before=before: env.engine.checkpointer.last_id > before)  # type: ignore[misc]
        idle = env.engine.checkpointer.last_id
        time.sleep(0.15)
        # Nothing was logged since, so nothing is due.
        assert env.engine.checkpointer.last_id <= idle + 1


def test_no_checkpoints_when_they_are_switched_off() -> None:
    with opened(run_checkpointer=False, checkpoint_bytes=5_000) as env, env.create_database("d") as db:
        before = env.engine.checkpointer.last_id
        for i in range(200):
            db.put(b"%04d" % i, b"." * 50)
        assert env.engine.checkpointer.is_due()
        assert env.engine.checkpointer.last_id == before


def test_the_evictor_keeps_the_budget() -> None:
    budget = 300_000
    with opened(run_evictor=True, cache_bytes=budget) as env, env.create_database("d") as db:
        for i in range(3000):
            db.put(b"%05d" % i, b"." * 50)
            assert env.engine.ctx.used_bytes < budget * 1.3
        until(lambda: env.engine.ctx.used_bytes <= budget)
        assert env.engine.evictor.evicted > 0
        assert db.count() == 3000


def test_the_compressor_removes_deleted_slots() -> None:
    with opened(run_compressor=True, compressor_interval_ms=10) as env, env.create_database("d") as db:
        for i in range(100):
            db.put(b"%04d" % i, b"v")
        for i in range(95):
            db.delete(b"%04d" % i)

        def slots() -> int:
            # The compressor changes the tree meanwhile.
            with env.engine.latch:
                return sum(len(node) for node in bins(env.engine.ctx, db.state))

        until(lambda: slots() < 20)
        assert db.count() == 5


def test_the_flusher_writes_out_and_syncs_what_has_committed() -> None:
    with opened(flush_no_sync_ms=20, flush_sync_ms=120) as env, env.create_database("d") as db:
        assert env.engine.writer is not None
        with env.begin(durability=Durability.NO_SYNC) as txn:
            db.put(b"k", b"v", txn)
        writer, lsn = env.engine.writer, env.engine.writer.last_lsn
        until(lambda: writer.find(lsn >> 32, lsn & 0xFFFFFFFF) is None)
        until(lambda: writer.group.syncs > 0)
        # Without a commit nothing is synced again.
        until(lambda: rests(lambda: writer.group.syncs, 0.3))


def test_what_the_flusher_has_synced_survives_a_crash() -> None:
    storage = MemoryStorage()
    env = opened(storage, flush_sync_ms=10)
    db = env.create_database("d")
    with env.begin(durability=Durability.NO_SYNC) as txn:
        db.put(b"k", b"v", txn)
    writer, lsn = env.engine.writer, env.engine.writer.last_lsn if env.engine.writer is not None else 0
    assert writer is not None
    until(lambda: writer.find(lsn >> 32, lsn & 0xFFFFFFFF) is None)
    env.engine.crash()
    assert running() == []
    with opened(storage) as env, env.open_database("d") as db:
        assert db.get(b"k") == b"v"


def test_a_thread_that_fails_stops_the_environment() -> None:
    rules: list[Rule] = []
    storage = FaultyStorage(MemoryStorage(), rules)
    # One file, so that only checkpoints sync: the flip of a file would fail in the writer.
    env = opened(storage, run_checkpointer=True, checkpoint_bytes=10_000, file_max_bytes=100_000_000)
    env.create_database("d").close()
    rules.append(Rule("sync", Effect.FAIL, nth=0, path="*.jdb"))
    assert "invalid" in write_until_refused(env)
    until(lambda: env.engine.daemons.failure is not None)
    rules.clear()
    with pytest.raises(StorageError):
        env.close()
    assert running() == []


def test_a_bug_in_a_thread_is_not_silent() -> None:
    env = opened(run_checkpointer=True, checkpoint_bytes=5_000)
    env.create_database("d").close()
    env.engine.checkpointer.participants.append(Watch(lambda: 1 // 0))
    assert "ZeroDivisionError" in write_until_refused(env)
    until(lambda: env.engine.daemons.failure is not None)
    with pytest.raises(JetoolError, match="checkpointer has failed: ZeroDivisionError"):
        env.close()


def test_closing_waits_for_the_checkpoint_in_hand() -> None:
    storage = MemoryStorage()
    for _ in range(5):
        with opened(storage, run_checkpointer=True, checkpoint_bytes=3_000) as env:
            db = env.open_database("d") if "d" in env.database_names() else env.create_database("d")
            for i in range(60):
                db.put(b"%04d" % i, b"." * 50)
        assert running() == []
        assert verify_trees(storage, list_log_files(storage), ("data",)).findings == ()


def test_all_threads_under_load() -> None:
    """Transfers between accounts by four threads; the sum stays, and the trees are sound."""
    storage = MemoryStorage()
    config = replace(
        CONFIG.with_background(), checkpoint_bytes=15_000, cache_bytes=150_000, compressor_interval_ms=5,
        flush_sync_ms=15, flush_no_sync_ms=5, group_interval_ms=1, group_threshold=3,
    )  # fmt: skip
    with Environment(storage, config) as env, env.create_database("d") as db:
        for i in range(200):
            db.put(b"%04d" % i, b"100")
        threads = [threading.Thread(target=_transfer, args=(env, db, seed)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert env.engine.daemons.failure is None
        assert sum(int(data) for _, data in db.items()) == 20_000
    assert verify_trees(storage, list_log_files(storage), ("data",)).findings == ()
    with opened(storage) as env, env.open_database("d") as db:
        assert sum(int(data) for _, data in db.items()) == 20_000


def _transfer(env: Environment, db: Any, seed: int) -> None:
    chance = random.Random(seed)
    until_time = time.monotonic() + 1.5
    while time.monotonic() < until_time:
        one, other = chance.sample(range(200), 2)
        txn = env.begin(durability=chance.choice(list(Durability)))
        try:
            for number, change in ((one, -1), (other, 1)):
                key = b"%04d" % number
                amount = int(db.get(key, txn, for_update=True)) + change
                db.put(key, b"%d" % amount, txn)
                extra = b"x%05d" % chance.randrange(1000)
                if chance.random() < 0.5:
                    db.put(extra, b"0", txn)
                else:
                    db.delete(extra, txn)
            txn.commit()
        except RefusedError:
            txn.abort()


def test_parameters_in_je_properties() -> None:
    text = (
        b"je.env.runCheckpointer=true\nje.env.runEvictor=false\nje.env.runINCompressor=true\n"
        b"je.compressor.wakeupInterval=2 s\nje.log.flushSyncInterval=30 s\nje.log.groupCommitInterval=500 us\n"
        b"je.log.groupCommitThreshold=8\nje.log.useWriteQueue=false\nje.log.fsyncTimeout=1 s\n"
    )
    storage = MemoryStorage({"je.properties": text})
    with Environment(storage, CONFIG) as env:
        config = env.config
        assert (config.compressor_interval_ms, config.flush_sync_ms, config.group_interval_ms) == (2_000, 30_000, 1)
        assert (config.group_threshold, config.use_queue, config.fsync_timeout_ms) == (8, False, 1_000)
        assert sorted(running()) == ["jetool-checkpointer", "jetool-compressor", "jetool-flusher"]
        assert env.engine.writer is not None
        assert env.engine.writer.group.threshold == 8
    with pytest.raises(UsageError, match="out of range"):
        Environment(MemoryStorage({"je.properties": b"je.log.writeQueueSize=1\n"}), CONFIG)
