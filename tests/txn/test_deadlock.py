"""Deadlocks: exactly one victim per cycle, the youngest; the others go on (R-TXN-25, scenario T-78)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import pytest

from engine.txn.lock_errors import DeadlockError, LockConflictError, LockTimeoutError
from engine.txn.lock_types import Grant, LockType
from engine.txn.locks import LockTable
from tests.support.lockers import PATIENCE, Call, TestLocker, ask

READ, WRITE = LockType.READ, LockType.WRITE


def finish(table: LockTable, calls: list[tuple[TestLocker, Call]], held: dict[TestLocker, list[int]]) -> list[int]:
    """Let every locker end as its call ends, victims first; returns the ids of the victims."""
    victims = []
    left = list(calls)
    while left:
        done = [(locker, call) for locker, call in left if not call.is_alive()]
        for locker, call in done:
            left.remove((locker, call))
            if isinstance(call.result(), DeadlockError):
                victims.append(locker.id)
            else:
                assert call.result() in (Grant.NEW, Grant.PROMOTED)
            table.release_many(held[locker], locker)
        if not done:
            left[0][1].join(0.002)
    assert table.stats().locks == 0
    return sorted(victims)


def ring(size: int, order: list[int]) -> list[int]:
    """Lockers 1..size own one LSN each and ask for the next one's, in the given order."""
    table = LockTable()
    lockers = [TestLocker(number) for number in range(1, size + 1)]
    lsns = [100 * number for number in range(1, size + 1)]
    for locker, lsn in zip(lockers, lsns, strict=True):
        table.lock(lsn, locker, WRITE)
    calls = [(lockers[at], ask(table, lsns[(at + 1) % size], lockers[at], WRITE)) for at in order]
    victims = finish(table, calls, dict.fromkeys(lockers, lsns))
    assert table.stats().deadlocks == 1
    return victims


@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_ring_has_one_victim_whoever_closes_it(size: int) -> None:
    for last in range(size):
        assert ring(size, [at for at in range(size) if at != last] + [last]) == [size]


def test_two_readers_of_one_lock_both_promote() -> None:
    table, one, two = LockTable(), TestLocker(1), TestLocker(2)
    table.lock(100, one, READ)
    table.lock(100, two, READ)
    calls = [(one, ask(table, 100, one, WRITE)), (two, ask(table, 100, two, WRITE))]
    assert finish(table, calls, {one: [100], two: [100]}) == [2]


def test_cycle_through_the_queue() -> None:
    """T3 waits only because T2 waits in front of it; T2 waits for T1, and T1 asks for what T3 has."""
    table = LockTable()
    one, two, three = (TestLocker(number) for number in (1, 2, 3))
    table.lock(100, one, READ)
    table.lock(200, three, WRITE)
    writer, reader = ask(table, 100, two, WRITE), ask(table, 100, three, READ)
    assert reader.is_alive()
    last = ask(table, 200, one, WRITE)
    assert isinstance(reader.result(), DeadlockError)
    table.release(200, three)
    assert last.result() is Grant.NEW
    assert writer.is_alive()
    table.release(100, one)
    assert writer.result() is Grant.NEW


def test_victim_in_the_middle_of_the_queue_frees_those_behind_it() -> None:
    table = LockTable()
    one, two, three = TestLocker(1), TestLocker(9), TestLocker(3)
    table.lock(100, one, READ)
    table.lock(200, two, WRITE)
    writer, reader = ask(table, 100, two, WRITE), ask(table, 100, three, READ)
    closing = ask(table, 200, one, READ)
    assert isinstance(writer.result(), DeadlockError)
    assert reader.result() is Grant.NEW
    table.release(200, two)
    assert closing.result() is Grant.NEW


def test_two_cycles_that_share_a_locker() -> None:
    """T1 closes a cycle with T2 and one with T3 at once: each has one victim, T1 survives."""
    table = LockTable()
    one, two, three = (TestLocker(number) for number in (1, 2, 3))
    table.lock(100, one, WRITE)
    table.lock(200, two, READ)
    table.lock(200, three, READ)
    calls = [(two, ask(table, 100, two, READ)), (three, ask(table, 100, three, READ))]
    calls.append((one, ask(table, 200, one, WRITE)))
    assert finish(table, calls, {one: [100, 200], two: [100, 200], three: [100, 200]}) == [2, 3]
    assert table.stats().deadlocks == 2


def test_youngest_in_two_cycles_is_the_only_victim() -> None:
    table = LockTable()
    one, two, three = (TestLocker(number) for number in (1, 2, 3))
    table.lock(300, three, WRITE)
    table.lock(100, one, READ)
    table.lock(100, two, READ)
    calls = [(one, ask(table, 300, one, READ)), (two, ask(table, 300, two, READ))]
    calls.append((three, ask(table, 100, three, WRITE)))
    assert finish(table, calls, {one: [100, 300], two: [100, 300], three: [100, 300]}) == [3]
    assert table.stats().deadlocks == 1


def test_no_cycle_no_victim() -> None:
    """T-78 "partial": a chain that leads to a runner is no deadlock."""
    table = LockTable()
    one, two, three = (TestLocker(number, lock_timeout_ms=40) for number in (1, 2, 3))
    table.lock(100, one, WRITE)
    table.lock(200, two, WRITE)
    calls = [ask(table, 100, two, WRITE), ask(table, 200, three, WRITE)]
    assert [type(call.result()) for call in calls] == [LockTimeoutError, LockTimeoutError]
    assert table.stats().deadlocks == 0


def test_a_transaction_waits_through_its_helper() -> None:
    """The helper waits, the transaction owns: one group, so the cycle is seen."""
    table = LockTable()
    txn, other = TestLocker(5), TestLocker(4)
    helper = TestLocker(5, group=txn)
    table.lock(100, txn, WRITE)
    table.lock(200, other, WRITE)
    waiting = ask(table, 200, helper, READ)
    closing = ask(table, 100, other, READ)
    assert isinstance(waiting.result(), DeadlockError)
    assert helper.abort_only is not None
    table.release(100, txn)
    assert closing.result() is Grant.NEW


def test_importunate_lockers_are_spared() -> None:
    table = LockTable()
    replay, old = TestLocker(-99, importunate=True), TestLocker(3, preemptable=False)
    table.lock(100, replay, WRITE)
    table.lock(200, old, WRITE)
    waiting = ask(table, 100, old, WRITE)
    closing = ask(table, 200, replay, WRITE)
    assert isinstance(waiting.result(), DeadlockError)
    table.release(200, old)
    assert closing.result() is Grant.NEW


def test_replicated_ids_count_down() -> None:
    table, older, younger = LockTable(), TestLocker(-11), TestLocker(-12)
    table.lock(100, older, WRITE)
    table.lock(200, younger, WRITE)
    calls = [(younger, ask(table, 100, younger, WRITE)), (older, ask(table, 200, older, WRITE))]
    assert finish(table, calls, {older: [100, 200], younger: [100, 200]}) == [-12]


@pytest.mark.parametrize(("delay_ms", "timeout_ms"), [(20, 60_000), (60_000, 60)])
def test_detection_can_wait_but_comes_before_the_timeout(delay_ms: int, timeout_ms: int) -> None:
    table = LockTable(deadlock_detect_delay_ms=delay_ms)
    one, two = TestLocker(1, lock_timeout_ms=timeout_ms), TestLocker(2)
    table.lock(100, one, WRITE)
    table.lock(200, two, WRITE)
    # Who could time out comes last: its whole wait is a deadlock.
    calls = [(two, ask(table, 100, two, WRITE)), (one, ask(table, 200, one, WRITE))]
    assert finish(table, calls, {one: [100, 200], two: [100, 200]}) == [2]
    assert table.stats().timeouts == 0


def test_without_detection_the_timeout_decides() -> None:
    table = LockTable(deadlock_detect=False)
    one, two = TestLocker(1), TestLocker(2, lock_timeout_ms=30)
    table.lock(100, one, WRITE)
    table.lock(200, two, WRITE)
    first, second = ask(table, 200, one, WRITE), ask(table, 100, two, WRITE)
    assert isinstance(second.result(), LockTimeoutError)
    table.release(200, two)
    assert first.result() is Grant.NEW


def test_error_names_the_cycle() -> None:
    table, one, two = LockTable(), TestLocker(1), TestLocker(2)
    table.lock(100, one, WRITE)
    table.lock(200, two, WRITE)
    ask(table, 200, one, WRITE)
    error = ask(table, 100, two, READ).result()
    assert isinstance(error, DeadlockError)
    assert str(error) == (
        "deadlock of 2 transactions at 0x0/0x64: transaction 2 wants READ at 0x0/0x64 -> transaction 1 wants WRITE at "
        "0x0/0xc8; transaction 2 can only be aborted"
    )
    assert error.hint == "abort the transaction and try it again"


def test_many_threads_keep_sums_and_never_hang() -> None:
    """Eight threads move units between accounts under locks: the sum stays, nobody waits for ever, no lock is left."""
    table = LockTable()
    accounts = dict.fromkeys(range(6), 1000)
    ids = iter(range(1, 1_000_000))
    ids_guard = threading.Lock()

    def transfer(seed: int) -> int:
        chance = random.Random(seed)
        done = 0
        while done < 50:
            with ids_guard:
                txn = TestLocker(next(ids), lock_timeout_ms=2_000)
            source, target = chance.sample(range(6), 2)
            held: list[int] = []
            try:
                for account in (source, target):
                    table.lock(account, txn, chance.choice((READ, WRITE)))
                    held.append(account)
                    # Let the others in while the lock is held.
                    time.sleep(0.0001)
                for account in (source, target):
                    table.lock(account, txn, WRITE)
                accounts[source] -= 1
                accounts[target] += 1
                done += 1
            except LockConflictError:
                assert txn.abort_only is not None
            finally:
                table.release_many(held, txn)
        return done

    calls = [Call(bind(transfer, seed)) for seed in range(8)]
    for call in calls:
        call.join(PATIENCE * 3)
    assert [call.result() for call in calls] == [50] * 8
    assert sum(accounts.values()) == 6000
    stats = table.stats()
    assert (stats.locks, stats.waiters) == (0, 0)
    assert min(stats.waits, stats.deadlocks) > 0


def bind(function: Callable[[int], int], seed: int) -> Callable[[], int]:
    return lambda: function(seed)
