"""Scenarios of rollback, syncup and the VLSN index that need a whole environment: T-6, T-7, T-9, T-10, T-24, T-26.

The others of T-1 to T-26 are shown in tests/recovery, tests/vlsn and tests/rep; ``tests.scenarios.table`` says where.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.environment import Environment
from engine.errors import DamageError
from engine.format.entry.internal_db import decode_vlsn_range
from engine.format.entry.ln import LN
from engine.format.entry.rollback import Matchpoint as MatchpointEntry
from engine.format.entry.rollback import encode_matchpoint
from engine.format.entry_types import MATCHPOINT
from engine.format.tuples import long_key
from engine.format.versions import WRITTEN_VERSION
from engine.format.vlsn import NEXT_VLSN
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.rep.rollback import MatchpointLocation, SoftRollback
from engine.rep.stream import entry_at
from engine.rep.syncup import Action, LocalLog
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage
from tests.support.corpus import copy
from tests.support.environments.indexes import index_lsns
from tests.support.environments.workload import Workload, contents
from tests.support.groups.pairs import catch_up, join, lead, plan_for
from tests.support.groups.streams import check_index, open_alone, open_replicated, states, visible_stream

Locks = dict[int, set[int]]


def matchpoint(env: Environment) -> int:
    """Log a Matchpoint on a master: a place to roll back to that ends no transaction."""
    assert env.engine.writer is not None
    assert env.engine.vlsn_index is not None
    env.engine.writer.log_in_stream(
        MATCHPOINT, encode_matchpoint(MatchpointEntry(env.engine.now_ms(), 1), WRITTEN_VERSION), NEXT_VLSN
    )
    return env.engine.vlsn_index.range.last


def write_locks(env: Environment) -> Locks:
    """LSNs that each transaction of the stream has locked for writing."""
    return {txn_id: set(txn.writes) for txn_id, txn in env.engine.txns.registered.items() if txn_id < 0}


def master_with_matchpoints(options: DatabaseOptions) -> tuple[Environment, list[int]]:
    """Two transactions that write, change, delete and insert again between four matchpoints; neither ends."""
    env = open_alone(MemoryStorage())
    db = env.create_database("t", options)
    for key in range(12):
        db.put(b"%02d" % key, b"before")
    first, second = env.begin(), env.begin()
    places = [matchpoint(env)]
    for round_ in range(3):
        for key in range(3 + round_):
            db.delete(b"%02d" % key, first)
            db.put(b"%02d" % key, b"first %d" % round_, first)
        db.delete(b"%02d" % (3 + round_), first)
        db.put(b"%02d" % (8 + round_), b"second %d" % round_, second)
        if round_ == 2:
            db.put(b"99", b"third", env.begin())
        places.append(matchpoint(env))
    db.put(b"00", b"after the last", first)
    return env, places


def replayed(master: Environment, places: list[int]) -> tuple[Environment, list[tuple[Any, Locks]]]:
    """A replica that has everything, and what it held at each matchpoint."""
    replica = open_replicated(MemoryStorage())
    seen = []
    for place in places:
        catch_up(master, replica, up_to=place)
        seen.append((states(replica), write_locks(replica)))
    catch_up(master, replica)
    return replica, seen


def roll_back(replica: Environment, vlsn: int) -> None:
    SoftRollback(replica.engine, MatchpointLocation(vlsn, entry_at(replica.engine, vlsn)[0])).run()


@pytest.mark.parametrize("options", [DatabaseOptions(max_entries=6), DatabaseOptions(duplicates=True, max_entries=6)])
def test_rollback_to_every_matchpoint(options: DatabaseOptions) -> None:
    """T-6, T-7: newest first and directly to each give the data and the locks that were there; recovery the same."""
    master, places = master_with_matchpoints(options)
    stepwise, seen = replayed(master, places)
    assert [sum(map(len, locks.values())) for _, locks in seen] == sorted(
        sum(map(len, locks.values())) for _, locks in seen
    )
    assert len(seen[0][1]) == 0 < len(seen[1][1]) == 2 < len(seen[3][1]) == 3
    for at in reversed(range(len(places))):
        roll_back(stepwise, places[at])
        assert (states(stepwise), write_locks(stepwise)) == seen[at]
        check_index(stepwise)
    for at, place in enumerate(places):
        direct, seen = replayed(master, places)
        roll_back(direct, place)
        assert (states(direct), write_locks(direct)) == seen[at]
        direct.engine.crash()
        direct = open_replicated(direct.engine.storage)
        assert states(direct) == seen[at][0]
        check_index(direct)
        # What was taken back comes again.
        catch_up(master, direct)
        assert states(direct) == states(master)


@pytest.mark.parametrize("removed", [("plain",), ("plain", "dups", "prefixed")])
def test_databases_removed_after_a_rollback(removed: tuple[str, ...]) -> None:
    """T-9 testRemove(Some)DatabasesAfterRollback: recovery skips what was rolled back in a database that is gone."""
    old, new = open_alone(MemoryStorage()), open_replicated(MemoryStorage())
    workload = Workload(5)
    workload.start(old)
    workload.run(old, 20)
    old.checkpoint(force=True)
    catch_up(old, new)
    txn = old.begin()
    for name in removed:
        with old.open_database(name) as db:
            for key in range(8):
                db.put(b"%04d" % key, b"never", txn)
    old.sync()
    old.engine.crash()
    lead(new, 2)
    old, plans = join(new, open_replicated(old.engine.storage))
    assert plans[0].action is Action.SOFT_ROLLBACK
    for name in removed:
        new.remove_database(name)
    expected = contents(new)
    assert set(expected) == {"plain", "dups", "prefixed"} - set(removed) | ({"extra"} & set(expected))
    catch_up(new, old)
    for _ in range(2):
        assert contents(old) == expected
        check_index(old)
        old.engine.crash()
        old = open_replicated(old.engine.storage)


def test_the_node_that_rolled_back_becomes_the_master() -> None:
    """T-10: its stream goes on at M + 1, and what it took back is nowhere."""
    old, new = open_alone(MemoryStorage()), open_replicated(MemoryStorage())
    workload = Workload(6)
    workload.start(old)
    workload.run(old, 20)
    catch_up(old, new)
    assert old.engine.vlsn_index is not None
    common = old.engine.vlsn_index.range.last
    txn = old.begin()
    with old.open_database("plain") as db:
        db.put(b"0000", b"never", txn)
    old.sync()
    old.engine.crash()
    old, _ = join(new, open_replicated(old.engine.storage))
    assert old.engine.vlsn_index is not None
    assert old.engine.vlsn_index.range.last == common
    lead(old, 1)
    with old.open_database("plain") as db, old.begin() as again:
        db.put(b"0000", b"of the next term", again)
    assert again.inner.end_vlsn == common + 2
    catch_up(old, new)
    assert contents(new)["plain"][b"0000"] == b"of the next term"
    assert contents(new) == contents(old)
    check_index(old)
    check_index(new)


def test_a_checkpoint_holds_every_vlsn_before_its_start() -> None:
    """T-24 testFlush: four writers, checkpoints beside them; what each stores reaches to its CkptStart (R-CKPT-8)."""
    env = open_alone(MemoryStorage())
    env.create_database("t").close()

    done = threading.Event()

    def write(number: int) -> None:
        with env.open_database("t") as db:
            for key in range(10_000):
                db.put(b"%d-%03d" % (number, key % 100), b"x" * 20)
                if done.is_set():
                    return

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    index = env.engine.vlsn_index
    assert index is not None
    for _ in range(6):
        seen = index.range.last
        while index.range.last < seen + 20:
            time.sleep(0.001)
        env.checkpoint(force=True)
    done.set()
    for writer in writers:
        writer.join()
    env.engine.crash()
    before_start, last, stored = 0, 0, 0
    held: list[int] = []
    for entry in all_entries(env.engine.storage):
        if entry.replicated:
            last = max(last, entry.vlsn)
        elif entry.type_name == "CkptStart":
            before_start = last
        elif entry.type_name == "CkptEnd":
            assert stored >= before_start
            held.append(stored)
        elif entry.type_name.endswith("LN_TX"):
            record: object = entry.record()
            if isinstance(record, LN) and record.key == long_key(-1) and record.data:
                stored = decode_vlsn_range(record.data).last
    assert len(set(held)) > 3
    check_index(open_replicated(env.engine.storage))


def all_entries(storage: Storage) -> list[LogEntry]:
    files = list_log_files(storage).files
    found: list[LogEntry] = []
    for file in files:
        with FileReader(storage, file, is_last=file is files[-1]) as reader:
            found += [entry for entry in reader.entries() if isinstance(entry, LogEntry)]
    return found


def with_dead_files(env: Environment, *, replicated: bool) -> list[str]:
    """Log files in which nothing lives any more, as the cleaner finds them, in the middle of the log.

    Arguments:
        replicated: they hold entries of the stream; otherwise only nodes of trees.

    Returns:
        Their paths; the environment is at a checkpoint after them.
    """
    assert env.engine.writer is not None
    first = (env.engine.writer.next_lsn >> 32) + 1
    env.engine.writer.force_new_file()
    if replicated:
        with env.open_database("plain") as db:
            for number in range(12):
                db.put(b"short-lived %d" % (number % 3), b"x" * 900)
            for number in range(3):
                db.delete(b"short-lived %d" % number)
    else:
        for _ in range(20):
            env.engine.evict()
    last = env.engine.writer.next_lsn >> 32
    env.engine.writer.force_new_file()
    env.compress()
    for name in ("plain", "dups", "prefixed"):
        with env.open_database(name) as db:
            for key, data in list(db.items()):
                db.put(key, data)
    env.create_database("later").close()
    env.remove_database("later")
    for _ in range(2):
        env.checkpoint(force=True, minimize=True)
    assert first <= last
    return [file.path for file in list_log_files(env.engine.storage).files if first <= file.number <= last]


def without_files(env: Environment, paths: list[str]) -> Environment:
    """The environment opened again, as a detached node, after the files have gone."""
    env.close()
    for path in paths:
        env.engine.storage.remove(path)
    return open_replicated(env.engine.storage)


def two_nodes() -> tuple[Environment, Environment, Workload]:
    """A master and a replica that has everything."""
    master, replica = open_alone(MemoryStorage()), open_replicated(MemoryStorage())
    workload = Workload(8, ddl=False)
    workload.start(master)
    workload.run(master, 30)
    catch_up(master, replica)
    return master, replica, workload


def test_a_gap_in_the_log_of_the_replica() -> None:
    """T-26: what was in the gap cannot be given up unseen; only a network restore helps (R-SYNC-21)."""
    old, new, workload = two_nodes()
    paths = with_dead_files(old, replicated=True)
    lead(new, 2)
    workload.run(new, 5)
    old = without_files(old, paths)
    plan = plan_for(new, old)
    assert (plan.action, plan.passed.gap) == (Action.NETWORK_RESTORE, True)
    assert plan.passed.commits


def test_a_gap_in_the_log_of_the_replica_that_nothing_ended_after() -> None:
    """T-26: with no commit after the matchpoint the gap does not matter; its file held nodes only."""
    old, new, workload = two_nodes()
    paths = with_dead_files(old, replicated=False)
    catch_up(old, new)
    txn = old.begin()
    with old.open_database("plain") as db:
        db.put(b"0001", b"never", txn)
    old.sync()
    old.engine.crash()
    lead(new, 2)
    workload.run(new, 5)
    old, plans = join(new, without_files(open_replicated(old.engine.storage), paths))
    assert plans[0].action is Action.SOFT_ROLLBACK
    assert contents(old) == contents(new) == workload.committed


def test_a_gap_in_the_log_of_the_feeder() -> None:
    """T-26: the cleaner has deleted a file and cut the index after it; who needs less is fed, who needs it is not."""
    master, behind, workload = two_nodes()
    paths = with_dead_files(master, replicated=True)
    assert master.engine.vlsn_index is not None
    fed = open_replicated(MemoryStorage())
    catch_up(master, fed)
    workload.run(master, 5)
    stream = visible_stream(master.engine.storage)
    gone = [vlsn for vlsn, entry in stream.items() if f"{entry.lsn >> 32:08x}.jdb" in paths]
    assert gone
    assert master.engine.vlsn_index.truncate_head(max(gone), (stream[max(gone)].lsn >> 32) + 1)
    master = without_files(master, paths)
    lead(master, 1)
    workload.run(master, 5)
    assert plan_for(master, behind).action is Action.NETWORK_RESTORE
    fed, plans = join(master, fed)
    assert [plan.action for plan in plans] == [Action.START]
    assert contents(fed) == contents(master) == workload.committed


def test_a_gap_without_the_stream_is_read_over() -> None:
    """T-26: the cleaner has deleted a file that held nothing of the stream; every VLSN is still there."""
    master, behind, workload = two_nodes()
    paths = with_dead_files(master, replicated=False)
    assert paths
    master = without_files(master, paths)
    lead(master, 1)
    workload.run(master, 5)
    behind, plans = join(master, behind)
    assert [plan.action for plan in plans] == [Action.START]
    assert contents(behind) == contents(master) == workload.committed


def test_a_gap_in_the_stream_is_damage() -> None:
    """T-26: a file with entries of the stream is gone, and the index still counts on it."""
    master, behind, _ = two_nodes()
    paths = with_dead_files(master, replicated=True)
    master = without_files(master, paths)
    lead(master, 1)
    with pytest.raises(DamageError, match=r"a VLSN is missing in the log|log file .* is missing"):
        catch_up(master, behind)


def test_matchpoints_that_je_left_visible_are_passed_over(corpus: Path, tmp_path: Path) -> None:
    """JE has left Matchpoint 66 visible inside a rollback period; the stream is read as JE has it, either way."""
    found = corpus / "je/je-18.3.20/rollback-four-periods"
    env = open_replicated(copy(found / "env", tmp_path / "env"))
    expected = index_lsns(found)
    assert env.engine.vlsn_index is not None
    last = env.engine.vlsn_index.range.last
    assert last == 65
    assert {vlsn: entry_at(env.engine, vlsn)[0] for vlsn in range(1, last + 1)} == expected
    log = LocalLog(env.engine)
    seen = []
    while log.back():
        assert log.current is not None
        seen.append(log.current)
    assert seen
    assert all(expected[vlsn] == lsn for vlsn, lsn in seen)
