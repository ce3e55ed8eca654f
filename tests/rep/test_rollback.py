"""Syncup and rollback (R-SYNC-3 to R-SYNC-30, T-8 to T-10, T-12), with a crash at every step of R-SYNC-8."""

from __future__ import annotations

import threading

import pytest

from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.format.vlsn import NULL_VLSN
from engine.rep.rollback import MatchpointLocation, RollbackProhibitedError, SoftRollback
from engine.rep.stream import entry_at
from engine.rep.syncup import (
    Action,
    Answer,
    AnswerKind,
    LogSurplus,
    SurplusCommit,
    check_rollback_limit,
    decide,
    find_plan,
)
from engine.storage.crash import CrashMode, CrashStorage
from engine.storage.memory import MemoryStorage
from tests.support.environments.workload import State, Workload, contents
from tests.support.groups.pairs import catch_up, join, lead, plan_for
from tests.support.groups.streams import check_index, open_alone, open_replicated, states, visible_stream
from tests.support.waiting import PATIENCE_S


def parted(seed: int, *, unfinished: int = 3, commits: int = 0) -> tuple[Environment, Environment, State]:
    """An old master that stopped with work that nobody has, and the new one that went on without it.

    Returns:
        The old master, detached again; the new one; what the new one holds.
    """
    old, new = open_alone(MemoryStorage()), open_replicated(MemoryStorage())
    workload = Workload(seed)
    workload.start(old)
    workload.run(old, 40)
    catch_up(old, new)
    for i in range(commits):
        with old.open_database("plain") as db:
            db.put(b"lost %d" % i, b"x" * 30)
    for i in range(unfinished):
        txn = old.begin()
        for name in ("plain", "dups"):
            with old.open_database(name) as db:
                for key in range(6):
                    db.put(b"%04d" % (key * 3 + i * 20), b"never %d" % key, txn)
                    if key % 2:
                        db.delete(b"%04d" % (key * 3 + i * 20), txn)
    old.sync()
    old.engine.crash()
    lead(new, 2)
    workload.run(new, 20)
    return open_replicated(old.engine.storage), new, workload.committed


def test_an_old_master_with_unfinished_work_rejoins() -> None:
    old, new, expected = parted(1)
    old, plans = join(new, old)
    assert [plan.action for plan in plans] == [Action.SOFT_ROLLBACK]
    assert contents(old) == contents(new) == expected
    check_index(old)
    old.engine.crash()
    old = open_replicated(old.engine.storage)
    assert contents(old) == expected
    check_index(old)
    assert not old.engine.recovery.rolled_back


def test_an_old_master_with_lost_commits_rejoins() -> None:
    """T-12: T > M; the log is cut at M, and M itself comes again."""
    old, new, expected = parted(2, commits=3)
    plan = plan_for(new, old)
    assert (plan.action, len(plan.passed.commits)) == (Action.HARD_RECOVERY, 3)
    old, plans = join(new, old)
    assert plans[0].action is Action.HARD_RECOVERY
    assert contents(old) == contents(new) == expected
    check_index(old)
    assert any(name.endswith(".bad") for name in old.engine.storage.names())


def test_too_many_lost_commits_are_refused() -> None:
    """T-12, R-SYNC-25: the limit counts durable commits, and the message names file and offset."""
    old, new, _ = parted(3, commits=11)
    before = {
        name: old.engine.storage.open(name).read(0, 1 << 20)
        for name in old.engine.storage.names()
        if name.endswith("jdb")
    }
    plan = plan_for(new, old)
    assert plan.matchpoint is not None
    assert plan.passed.durable == 11
    check_rollback_limit(old.engine, plan, 11)
    with pytest.raises(RollbackProhibitedError) as caught:
        check_rollback_limit(old.engine, plan, 10)
    lsn = plan.matchpoint.lsn
    assert f"({lsn >> 32:08x}.jdb), offset {lsn & 0xFFFFFFFF:#x}" in str(caught.value.hint)
    assert str(plan.passed.commits[-1].txn_id) in str(caught.value)
    assert {n: old.engine.storage.open(n).read(0, 1 << 20) for n in before} == before
    passed = plan.passed._replace(commits=tuple(c._replace(durable=False) for c in plan.passed.commits))
    check_rollback_limit(old.engine, plan._replace(passed=passed), 10)


@pytest.mark.parametrize("place", ["before", "after", "across"])
def test_transactions_end_before_after_or_across_the_matchpoint(place: str) -> None:
    """T-8: before M untouched; after M undone whole; across M undone in part and finished by the entries sent again."""
    master, replica = open_alone(MemoryStorage()), open_replicated(MemoryStorage())
    db = master.create_database("t")
    db.put(b"a", b"0")
    db.put(b"z", b"0")
    txn = master.begin()
    if place != "after":
        db.put(b"a", b"1", txn)
        db.put(b"b", b"1", txn)
    if place == "before":
        txn.commit()
    db.put(b"mark", b"matchpoint")
    assert master.engine.vlsn_index is not None
    matchpoint = master.engine.vlsn_index.range.last
    if place != "before":
        db.put(b"a", b"2", txn)
        db.delete(b"z", txn)
        if place == "across":
            db.delete(b"b", txn)
        db.put(b"a", b"3", txn)
    else:
        later = master.begin()
        db.put(b"c", b"1", later)
    catch_up(master, replica)
    SoftRollback(replica.engine, MatchpointLocation(matchpoint, entry_lsn(replica, matchpoint))).run()
    check_index(replica)
    assert (txn.id in replica.engine.txns.registered) == (place == "across")
    if place != "before":
        txn.commit()
    catch_up(master, replica)
    wanted = {
        "before": {b"a": b"1", b"b": b"1", b"z": b"0"},
        "after": {b"a": b"3"},
        "across": {b"a": b"3"},
    }[place]
    if place == "before":
        master.engine.abort(later.inner)
        catch_up(master, replica)
    assert contents(replica) == {"t": {**wanted, b"mark": b"matchpoint"}} == contents(master)
    replica.engine.crash()
    assert contents(open_replicated(replica.engine.storage)) == contents(master)


def entry_lsn(env: Environment, vlsn: int) -> int:
    return entry_at(env.engine, vlsn)[0]


def test_rolled_back_database_operations_leave_no_database() -> None:
    """T-9: create, remove, rename, truncate, all unfinished."""
    old, new = open_alone(MemoryStorage()), open_replicated(MemoryStorage())
    for name in ("kept", "removed", "renamed", "truncated"):
        with old.create_database(name) as db:
            db.put(b"k", name.encode())
    # The first removal makes the database of extinctions, in a transaction of its own.
    old.create_database("gone").close()
    old.remove_database("gone")
    catch_up(old, new)
    expected = contents(new)
    txn = old.begin()
    with old.create_database("made", txn=txn) as db:
        db.put(b"k", b"v", txn)
    old.remove_database("removed", txn)
    old.rename_database("renamed", "other", txn)
    old.truncate_database("truncated", txn)
    old.sync()
    old.engine.crash()
    lead(new, 2)
    with new.create_database("made") as db:
        db.put(b"k", b"of the new master")
    old, plans = join(new, open_replicated(old.engine.storage))
    assert plans[0].action is Action.SOFT_ROLLBACK
    assert contents(old) == contents(new) == {**expected, "made": {b"k": b"of the new master"}}
    check_index(old)
    old.close()
    assert contents(open_replicated(old.engine.storage)) == contents(new)


def test_nodes_that_part_again_and_again() -> None:
    """Roles change, work is lost each time, periods nest; all nodes end equal, twice recovered."""
    first, second, _ = parted(11)
    workload = Workload(12, ddl=False)
    for round_ in range(6):
        first, _ = join(second, first)
        assert contents(first) == contents(second)
        workload.committed = contents(second)
        # The master starts work that never reaches the other one, and stops.
        for i in range(2 + round_ % 2):
            txn = second.begin()
            with second.open_database("plain") as db:
                for key in range(4):
                    db.put(b"%04d" % (key + i * 10), b"round %d" % round_, txn)
        if round_ % 3 == 2:
            with second.open_database("plain") as db:
                db.put(b"lost", b"x")
        second.checkpoint(force=True)
        second.engine.crash()
        lead(first, 1 + round_ % 2)
        workload.run(first, 15)
        first, second = open_replicated(second.engine.storage), first
    first, _ = join(second, first)
    for node in (first, second):
        check_index(node)
        assert contents(node) == workload.committed


STEPS = ("RollbackStart", "undo", "invisible bits", "RollbackEnd", "VLSN index")


class StopAtError(Exception):
    """The process dies between two steps."""


class StopAt:
    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[str] = []

    def step(self, name: str, done: int, total: int) -> None:
        self.seen.append(name)
        if name == f"rollback {self.name}":
            raise StopAtError(name)


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_between_the_steps(step: str) -> None:
    """R-SYNC-9: the state is that before or after the rollback; recovered twice it is the same."""
    old, new, expected = parted(21)
    listener = StopAt(step)
    with pytest.raises(StopAtError):
        join(new, old, listener)
    assert [name.removeprefix("rollback ") for name in listener.seen] == list(STEPS[: STEPS.index(step) + 1])
    old.engine.crash()
    for _ in range(2):
        old = open_replicated(old.engine.storage)
        check_index(old)
        old.engine.crash()
    old, plans = join(new, open_replicated(old.engine.storage))
    assert plans[0].action is (Action.SOFT_ROLLBACK if step == "RollbackStart" else Action.START)
    assert contents(old) == expected
    check_index(old)


def image_of(storage: MemoryStorage) -> dict[str, bytes]:
    return {path: data for path, data in storage.contents().items() if path != "je.lck"}


def rolled_back(files: dict[str, bytes], plan: MatchpointLocation, stop_at: int) -> CrashStorage:
    """Roll back on a storage that stops at an operation; 0 for never."""
    storage = CrashStorage(files=files, stop_at=0)
    env = open_replicated(storage)
    storage.stop_at = storage.operations + stop_at if stop_at else 0
    try:
        SoftRollback(env.engine, plan).run()
    except JetoolError:
        assert storage.crashed
    return storage


def test_no_checkpoint_is_taken_inside_a_rollback() -> None:
    """It would keep the index from before, with a CkptStart after the RollbackStart that contradicts it."""
    old, new, expected = parted(23)
    taken: list[threading.Thread] = []

    class Listener:
        def step(self, name: str, done: int, total: int) -> None:
            if name == "rollback VLSN index":
                taken.append(threading.Thread(target=lambda: old.checkpoint(force=True)))
                taken[0].start()
                taken[0].join(0.2)
                assert taken[0].is_alive()

    plan = plan_for(new, old)
    assert plan.matchpoint is not None
    SoftRollback(old.engine, plan.matchpoint, Listener()).run()
    taken[0].join(PATIENCE_S)
    old.engine.crash()
    old = open_replicated(old.engine.storage)
    check_index(old)
    old, _ = join(new, old)
    assert contents(old) == expected


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", CrashMode)
def test_a_crash_at_every_write_and_sync(mode: CrashMode) -> None:
    """Acceptance: counted crash points of R-SYNC-8, recovered twice."""
    old, new, _ = parted(22)
    plan = plan_for(new, old)
    assert plan.matchpoint is not None
    before = states(old)
    old.engine.crash()
    assert isinstance(old.engine.storage, MemoryStorage)
    files = image_of(old.engine.storage)
    clean = rolled_back(files, plan.matchpoint, 0)
    start = CrashStorage(files=files, stop_at=0)
    open_replicated(start)
    total = clean.operations - start.operations
    after = states(open_replicated(clean.image(CrashMode.LOST_TAIL)))
    assert before != after
    assert after[0] == plan.matchpoint.vlsn
    seen = set()
    for stop_at in range(1, total + 1):
        storage = rolled_back(files, plan.matchpoint, stop_at)
        image = storage.image(mode, stop_at)
        env = open_replicated(image)
        found = states(env)
        seen.add(found == after)
        assert found in (before, after), f"{mode}: operation {stop_at} of {total}"
        check_index(env)
        env.engine.crash()
        env = open_replicated(image)
        assert states(env) == found, f"{mode}: operation {stop_at}, recovered twice"
        check_index(env)
    assert total > 8
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("last_txn_end", "matchpoint", "passed", "action"),
    [
        (NULL_VLSN, 5, LogSurplus(), Action.SOFT_ROLLBACK),
        (5, 5, LogSurplus(), Action.SOFT_ROLLBACK),
        (4, 5, LogSurplus(), Action.SOFT_ROLLBACK),
        (6, 5, LogSurplus((SurplusCommit(6, 60, -11, 0, True),)), Action.HARD_RECOVERY),
        (6, 5, LogSurplus((), True), Action.NETWORK_RESTORE),
        (6, 5, LogSurplus((), False, True), Action.NETWORK_RESTORE),
        (4, 5, LogSurplus((), True, True), Action.SOFT_ROLLBACK),
    ],
)
def test_the_decision_table(last_txn_end: int, matchpoint: int, passed: LogSurplus, action: Action) -> None:
    """The table of je-behaviour.md 7.3, and R-SYNC-21."""
    plan = decide(last_txn_end, 9, MatchpointLocation(matchpoint, 50), passed)
    assert plan.action is action
    if action is not Action.NETWORK_RESTORE:
        assert plan.start == matchpoint + 1


def test_nodes_with_nothing_in_common_need_a_restore() -> None:
    node = open_alone(MemoryStorage())
    node.create_database("t").put(b"a", b"b")
    node.close()
    replica = open_replicated(node.engine.storage)
    forms = {vlsn: entry_at(replica.engine, vlsn)[1] for vlsn in range(1, 16)}
    asked: list[int] = []

    def another_master(vlsn: int) -> Answer:
        asked.append(vlsn)
        return Answer(AnswerKind.ENTRY, forms[vlsn]._replace(type_number=18))

    plan = find_plan(replica.engine, another_master)
    assert plan.action is Action.NETWORK_RESTORE
    assert asked == [15, 13, 11, 9, 7, 4, 2]
    assert [commit.vlsn for commit in plan.passed.commits] == asked
    found = find_plan(open_replicated(MemoryStorage()).engine, lambda vlsn: Answer(AnswerKind.NOT_FOUND))
    assert found.action is Action.NETWORK_RESTORE


def test_the_rolled_back_entries_are_invisible_and_their_vlsns_come_again() -> None:
    """R-SYNC-11, R-RB-33."""
    old, new, _ = parted(31)
    assert old.engine.vlsn_index is not None
    last, plan = old.engine.vlsn_index.range.last, plan_for(new, old)
    assert plan.matchpoint is not None
    hidden = {v: e.lsn for v, e in visible_stream(old.engine.storage).items() if v > plan.matchpoint.vlsn}
    assert max(hidden) == last
    old, _ = join(new, old)
    old.sync()
    stream = visible_stream(old.engine.storage)
    assert all(stream[v].lsn != hidden[v] for v in hidden if v in stream)
    for lsn in hidden.values():
        assert old.engine.access.read(lsn, allow_invisible=True).invisible
