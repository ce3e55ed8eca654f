"""Statistics of trees and of the cleaner, preloading, scans in disk order, and syncing deferred-write databases."""

from __future__ import annotations

import random
import threading
import time

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.whole_tree import TreeStats
from engine.errors import RefusedError
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.tree import fetch_node, find_bin, values_at
from engine.txn.txn import Durability
from engine.verify.environment import verify_environment

HOUR = int(time.time() // 3600)


def make(
    records: int, *, duplicates: bool = False, deferred: bool = False, file_max: int = 100_000
) -> tuple[Environment, Database]:
    config = EnvironmentConfig(create=True, node_max_entries=8, checkpoint_bytes=0, file_max_bytes=file_max)
    env = Environment(MemoryStorage(), config)
    options = DatabaseOptions(duplicates, False, 8, deferred)
    db = env.create_database("db", options)
    order = list(range(records))
    random.Random(5).shuffle(order)
    for number in order:
        # Some are embedded in their slots.
        db.put(b"%05d" % number, b"v" * (number % 40))
    return env, db


def test_statistics_of_a_tree() -> None:
    env, db = make(200)
    for number in range(20):
        db.delete(b"%05d" % number)
    before = db.stats()
    assert (before.records, before.records + before.deleted) == (180, 200)
    env.compress()
    found = db.stats()
    assert found.deleted == 0
    assert found == TreeStats(
        depth=len(found.nodes_by_level),
        bins=found.nodes_by_level[0],
        ins=sum(found.nodes_by_level[1:]),
        records=180,
        deleted=0,
        embedded=sum(1 for number in range(20, 200) if number % 40 <= 16),
        nodes_by_level=found.nodes_by_level,
    )
    assert found.nodes_by_level[-1] == 1
    assert 180 / 8 <= found.bins <= 180 / 3
    assert env.create_database("empty").stats() == TreeStats(0, 0, 0, 0, 0, 0, ())


@pytest.mark.parametrize("evicts", [False, True])
def test_statistics_do_not_depend_on_the_cache(evicts: bool) -> None:
    env, db = make(500)
    expected = db.stats()
    if evicts:
        env.checkpoint(force=True)
        assert env.engine.evict() > 5
    assert db.stats() == expected


def test_preloading() -> None:
    env, db = make(600)
    expected = db.stats()
    env.checkpoint(force=True)
    env.engine.evict()
    before = env.stats()
    assert db.preload(max_bytes=before.cache_bytes + 20_000).ended == "full"
    assert db.preload(max_ms=0).ended == "late"
    whole = db.preload(records=True)
    assert (whole.ended, whole.bins, whole.records) == ("whole", expected.bins, 600)
    reads = env.stats().log_reads
    assert reads > before.log_reads
    assert len(list(db)) == 600
    # Nothing is left to read.
    assert env.stats().log_reads == reads


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("evicts", [False, True])
def test_a_scan_in_disk_order_finds_each_record_once(duplicates: bool, evicts: bool) -> None:
    env, db = make(700, duplicates=duplicates)
    db.put(b"gone", b"x" * 30, expiration=-(HOUR - 2))
    db.delete(b"00007")
    expected = sorted(db)
    if evicts:
        env.checkpoint(force=True)
        env.engine.evict()
        # Some of the nodes are in memory again, changed.
        for number in range(300, 330):
            db.put(b"%05d" % number, b"w" * 25)
        expected = sorted(db)
    found = list(db.scan_disk_order())
    assert found != sorted(found)
    assert sorted(found) == expected
    assert sorted(key for key, _ in db.scan_disk_order(keys_only=True)) == [key for key, _ in expected]


def test_a_scan_in_disk_order_sees_one_moment() -> None:
    """What is written, split, cleaned and deleted meanwhile changes nothing; files wait for the scan."""
    env, db = make(400, file_max=6_000)
    env.checkpoint(force=True)
    env.engine.evict()
    expected = sorted(db)
    env.engine.evict()
    scan = db.scan_disk_order()
    found = [next(scan)]
    for number in range(800):
        db.put(b"%05d" % number, b"new" * 20)
    env.clean_log()
    for _ in range(3):
        env.checkpoint(force=True)
    assert env.cleaner_stats().files_reserved > 0
    found += scan
    assert sorted(found) == expected
    env.checkpoint(force=True)
    assert env.cleaner_stats().files_reserved == 0


def test_a_scan_in_disk_order_reads_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    env, db = make(2_000)
    env.checkpoint(force=True)
    bins = db.stats().bins
    env.engine.evict()
    nodes: list[int] = []
    records: list[int] = []

    def fetching(ctx: TreeContext, state: DatabaseState, lsn: int) -> IN:
        nodes.append(lsn)
        return fetch_node(ctx, state, lsn)

    def reading(ctx: TreeContext, state: DatabaseState, lsns: list[int], sizes: list[int]) -> list[bytes | None]:
        records.extend(lsns)
        return values_at(ctx, state, lsns, sizes)

    monkeypatch.setattr("engine.db.whole_tree.fetch_node", fetching)
    monkeypatch.setattr("engine.db.whole_tree.values_at", reading)
    assert len(list(db.scan_disk_order())) == 2_000
    assert len(nodes) > bins - 5
    assert nodes == sorted(nodes)
    # Those of up to 16 bytes are in their slots.
    assert len(records) == 2_000 * 23 // 40
    assert records == sorted(records)


def test_statistics_of_the_cleaner() -> None:
    env, db = make(300, file_max=6_000)
    for _ in range(5):
        for number in range(300):
            db.put(b"%05d" % number, b"x" * 50)
    assert env.cleaner_stats().files_cleaned == 0
    cleaned = env.clean_log()
    for _ in range(3):
        env.checkpoint(force=True)
    found = env.cleaner_stats()
    assert found.files_cleaned == cleaned > 0
    assert (found.files_in_progress, found.files_reserved, found.files_unusable, found.lns_pending) == (0, 0, 0, 0)
    assert found.files_deleted == cleaned
    assert found.lns_obsolete > found.lns_migrated
    assert found.read_bytes > found.migrated_bytes
    assert found.deleted_bytes > found.read_bytes // 2
    env.close()
    with pytest.raises(RefusedError, match="closed"):
        env.cleaner_stats()


def test_syncing_a_deferred_write_database() -> None:
    """Its nodes up to the root, without a checkpoint; another database is left as it is."""
    env, db = make(300, deferred=True)
    other = env.create_database("other", DatabaseOptions(max_entries=8, deferred_write=True))
    other.put(b"lost", b"x" * 30)
    checkpoints = env.stats().checkpoints
    expected = sorted(db)
    db.sync()
    for number in range(300, 400):
        db.put(b"%05d" % number, b"lost")
    assert env.stats().checkpoints == checkpoints
    env.engine.crash()
    storage = env.engine.storage
    with Environment(storage, EnvironmentConfig(checkpoint_bytes=0)) as again:
        assert sorted(again.open_database("db")) == expected
        assert list(again.open_database("other")) == []
    report = verify_environment(storage, list_log_files(storage), ("log", "data"))
    assert [finding.message for finding in report.findings] == []


def test_deferred_records_keep_their_expirations() -> None:
    """In their LNs too, which verify compares with the slots."""
    env, db = make(20, deferred=True)
    for number in range(40):
        db.put(b"%05d" % number, b"x" * number, expiration=-(HOUR + 5), update_expiration=True)
    db.sync()
    env.engine.crash()
    storage = env.engine.storage
    assert verify_environment(storage, list_log_files(storage), ("log", "data")).findings == ()
    with Environment(storage, EnvironmentConfig(read_only=True)) as again, again.open_database("db") as found:
        wanted = [find_bin(again.engine.ctx, found.state, key) for key, _ in found]
        assert {expiration for node in wanted if node is not None for expiration in node.expirations} == {-(HOUR + 5)}


def test_syncing_again_and_again() -> None:
    env, db = make(0, deferred=True)
    expected: list[tuple[bytes, bytes]] = []
    for step in range(6):
        for number in range(40):
            db.put(b"%03d" % (number * 7 % 41 + step * 40), b"%d" % step * 20)
        db.delete(b"%03d" % (step * 40))
        expected = sorted(db)
        db.sync()
        if step == 3:
            env.checkpoint(force=True)
    db.put(b"lost", b"")
    env.engine.crash()
    with Environment(env.engine.storage) as again, again.open_database("db") as found:
        assert sorted(found) == expected


def test_syncing_while_others_write() -> None:
    env, db = make(0, deferred=True)
    wrong: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for number in range(first, first + 150):
                db.put(b"%05d" % number, b"v" * 20)
                if number % 30 == 0:
                    db.sync()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 1_000, 2_000)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        env.checkpoint(force=True)
    for thread in threads:
        thread.join()
    db.sync()
    env.engine.crash()
    assert wrong == []
    with Environment(env.engine.storage) as again, again.open_database("db") as found:
        assert found.count() == 450


def test_syncing_an_ordinary_database_syncs_the_log() -> None:
    env, db = make(3)
    with env.begin(durability=Durability.NO_SYNC) as txn:
        db.put(b"more", b"", txn)
    before = env.stats().syncs
    db.sync()
    assert env.stats().syncs == before + 1
    env.close()
    with Environment(env.engine.storage, EnvironmentConfig(read_only=True)) as again:
        found = again.open_database("db")
        with pytest.raises(RefusedError, match="reading only"):
            found.sync()
