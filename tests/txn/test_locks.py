"""Queues, promotions, denial, stealing, timeouts and transfer (R-TXN-1, 5, 7, 8, 24, 26; T-76, T-77, T-80)."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from engine.errors import JetoolError, RefusedError
from engine.txn.lock_errors import LockPreemptedError, LockTimeoutError, TransactionTimeoutError
from engine.txn.lock_types import Grant, LockType
from engine.txn.locks import LockTable
from engine.txn.txn import Txn, note_lock
from tests.support.lockers import TestLocker, ask, until

READ, WRITE, RANGE_READ, RANGE_WRITE, RANGE_INSERT = LockType


def lockers(count: int, **options: Any) -> list[TestLocker]:
    return [TestLocker(number + 1, **options) for number in range(count)]


def test_readers_then_a_writer() -> None:
    """T-77 MultipleReadersSingleWrite."""
    table = LockTable()
    one, two, three = lockers(3)
    assert table.lock(100, one, READ) is Grant.NEW
    assert table.lock(100, two, READ) is Grant.NEW
    assert table.lock(100, two, READ) is Grant.EXISTING
    writer = ask(table, 100, three, WRITE)
    assert table.waiters(100) == [three]
    table.release(100, one)
    assert writer.is_alive()
    table.release(100, two)
    assert writer.result() is Grant.NEW
    assert table.owners(100) == [(three, WRITE)]


def test_first_in_first_out_and_sweep() -> None:
    """R-TXN-5, 8: a compatible request waits after a writer; the sweep stops at the first that does not fit."""
    table = LockTable()
    one, two, three, four, five = lockers(5)
    table.lock(100, one, WRITE)
    calls = [ask(table, 100, who, how) for who, how in ((two, READ), (three, READ), (four, WRITE), (five, READ))]
    assert table.waiters(100) == [two, three, four, five]
    table.release(100, one)
    assert [calls[0].result(), calls[1].result()] == [Grant.NEW, Grant.NEW]
    assert table.waiters(100) == [four, five]
    table.release(100, three)
    assert table.waiters(100) == [four, five]
    table.release(100, two)
    assert calls[2].result() is Grant.NEW
    assert calls[3].is_alive()
    table.release(100, four)
    assert calls[3].result() is Grant.NEW


def test_promotion_goes_to_the_head() -> None:
    """R-TXN-5; T-76 testPromotion, T-77 UpgradeLock."""
    table = LockTable()
    one, two, three = lockers(3)
    table.lock(100, one, READ)
    table.lock(100, two, READ)
    writer = ask(table, 100, three, WRITE)
    promotion = ask(table, 100, one, WRITE)
    assert table.waiters(100) == [one, three]
    table.release(100, two)
    assert promotion.result() is Grant.PROMOTED
    assert writer.is_alive()
    table.release(100, one)
    assert writer.result() is Grant.NEW


def test_jump_ahead_passes_waiters_but_not_owners() -> None:
    table = LockTable()
    one, two, three, four = lockers(4)
    table.lock(100, one, READ)
    writer = ask(table, 100, two, WRITE)
    assert table.lock(100, three, READ, wait=False) is Grant.DENIED
    assert table.lock(100, three, READ, jump_ahead=True) is Grant.NEW
    table.release_many((100,), one)
    table.release_many((100,), three)
    assert writer.result() is Grant.NEW
    assert table.lock(100, four, READ, wait=False, jump_ahead=True) is Grant.DENIED


def test_denied_leaves_no_trace() -> None:
    """R-TXN-7; T-77 NonBlocking."""
    table = LockTable()
    one, two = lockers(2)
    table.lock(100, one, READ)
    table.lock(100, two, READ)
    assert table.lock(100, two, WRITE, wait=False) is Grant.DENIED
    assert table.held(100, two) is READ
    assert table.waiters(100) == []
    assert two.abort_only is None


def test_lockers_of_one_group_share() -> None:
    table = LockTable()
    txn = TestLocker(7)
    helper, other = TestLocker(7, group=txn), TestLocker(8)
    table.lock(100, txn, WRITE)
    assert table.lock(100, helper, READ) is Grant.NEW
    waiting = ask(table, 100, other, READ)
    # Only the group owns the lock, so a further request of it need not queue.
    assert table.lock(100, TestLocker(7, group=txn), READ, wait=False) is Grant.NEW
    assert table.release(100, helper)
    assert waiting.is_alive()
    assert not table.release(100, helper)


def test_release_many_counts_and_frees() -> None:
    table, one = LockTable(), TestLocker(1)
    for lsn in range(1000):
        table.lock(lsn, one, WRITE)
    assert table.stats().locks == 1000
    assert table.release_many([*range(1000), 5000], one) == 1000
    assert table.stats().locks == 0


def test_demotion_lets_readers_in() -> None:
    table = LockTable()
    one, two, three = lockers(3)
    table.lock(100, one, WRITE)
    table.lock(200, one, RANGE_WRITE)
    reader, scanner = ask(table, 100, two, READ), ask(table, 200, three, RANGE_READ)
    table.demote(100, one)
    table.demote(200, one)
    table.demote(300, one)
    assert (reader.result(), scanner.result()) == (Grant.NEW, Grant.NEW)
    assert (table.held(100, one), table.held(200, one)) == (READ, RANGE_READ)


def test_transfer_write_locks_the_new_version_for_all_sharers() -> None:
    """R-TXN-1: the new LSN is locked for the whole group, the old lock stays, its waiters too."""
    table = LockTable()
    txn = TestLocker(7)
    helper, other = TestLocker(7, group=txn), TestLocker(8)
    table.lock(100, txn, RANGE_WRITE)
    table.lock(100, helper, READ)
    waiting = ask(table, 100, other, READ)
    assert table.transfer(100, 200, write=True) == [(txn, RANGE_WRITE), (helper, WRITE)]
    assert table.lock(200, other, READ, wait=False) is Grant.DENIED
    assert waiting.is_alive()
    table.release(100, txn)
    table.release(100, helper)
    assert waiting.result() is Grant.NEW
    assert table.owners(200) == [(txn, RANGE_WRITE), (helper, WRITE)]


def test_a_lock_that_nobody_shares_is_passed_on() -> None:
    """As ``transfer`` would; with others at it, or none, that has to do it."""
    table = LockTable()
    txn, other = TestLocker(7), TestLocker(8)
    table.lock(100, txn, READ)
    assert table.pass_on(100, 200, txn) is True
    assert table.owners(200) == table.transfer(100, 201, write=True) == [(txn, WRITE)]
    assert table.pass_on(100, 200, txn) is False
    assert table.pass_on(100, 300, other) is False
    assert table.pass_on(101, 300, txn) is False
    table.lock(100, other, READ)
    assert table.pass_on(100, 300, txn) is False
    table.lock(102, txn, RANGE_INSERT)
    assert table.pass_on(102, 300, txn) is False
    assert table.owners(300) == []


def test_transfer_of_a_moved_version_keeps_types() -> None:
    table = LockTable()
    one, two = lockers(2)
    table.lock(100, one, READ)
    table.lock(100, two, RANGE_READ)
    assert table.transfer(100, 200, write=False) == [(one, READ), (two, RANGE_READ)]
    assert table.transfer(999, 300, write=False) == []
    with pytest.raises(JetoolError, match="0x0/0xc8"):
        table.transfer(100, 200, write=False)


def test_lock_timeout() -> None:
    table = LockTable()
    one, two, three = TestLocker(1), TestLocker(2, lock_timeout_ms=30), TestLocker(3)
    table.lock(100, one, READ)
    writer = ask(table, 100, two, WRITE)
    reader = ask(table, 100, three, READ)
    error = writer.result()
    assert isinstance(error, LockTimeoutError)
    assert isinstance(error, RefusedError)
    assert (error.exit_code, error.kind, error.locker_id, error.lock_lsn) == (3, "lock_timeout", 2, 100)
    assert "owned by transaction 1 READ" in str(error)
    assert two.abort_only is error
    # Who waited only after the writer is granted when it gives up.
    assert reader.result() is Grant.NEW
    assert table.stats().timeouts == 1


@pytest.mark.parametrize(
    ("lock_ms", "txn_ms", "expected"),
    [
        (30, 10_000, LockTimeoutError),
        (10_000, 30, TransactionTimeoutError),
        (0, 30, TransactionTimeoutError),
        (30, 0, LockTimeoutError),
        (30, 30, TransactionTimeoutError),
    ],
)
def test_which_timeout_fires(lock_ms: int, txn_ms: int, expected: type[Exception]) -> None:
    """T-80. When both have passed it is the transaction's."""
    table = LockTable()
    table.lock(100, TestLocker(1), WRITE)
    # Its own timeout begins with the transaction, a lock's with the wait.
    two = TestLocker(2, lock_timeout_ms=lock_ms, txn_timeout_ms=txn_ms)
    error = ask(table, 100, two, READ).result()
    assert type(error) is expected
    assert two.abort_only is error
    assert table.waiters(100) == []


def test_a_transaction_already_too_old_does_not_wait() -> None:
    table = LockTable()
    table.lock(100, TestLocker(1), WRITE)
    old = TestLocker(2, lock_timeout_ms=60_000, txn_timeout_ms=1)
    time.sleep(0.01)
    with pytest.raises(TransactionTimeoutError):
        table.lock(100, old, READ)
    assert table.lock(200, old, WRITE) is Grant.NEW


def test_restart_waiter_times_out() -> None:
    table = LockTable()
    table.lock(100, TestLocker(1), RANGE_INSERT)
    assert isinstance(ask(table, 100, TestLocker(2, lock_timeout_ms=20), RANGE_READ).result(), LockTimeoutError)


def test_importunate_locker_steals() -> None:
    """R-TXN-26; T-77 Importunate."""
    table = LockTable()
    victim, queued = TestLocker(1), TestLocker(2)
    replay = TestLocker(-11, importunate=True, lock_timeout_ms=10)
    table.lock(100, victim, READ)
    table.lock(200, victim, READ)
    waiting = ask(table, 100, queued, WRITE)
    assert ask(table, 100, replay, WRITE).result() is Grant.NEW
    assert table.owners(100) == [(replay, WRITE)]
    assert isinstance(victim.preempted, LockPreemptedError)
    assert victim.preempted.lock_lsn == 100
    assert table.held(200, victim) is READ
    assert waiting.is_alive()
    assert table.stats().preemptions == 1
    assert not table.release(100, victim)
    table.release(100, replay)
    assert waiting.result() is Grant.NEW


def test_importunate_locker_waits_for_one_that_is_not_preemptable() -> None:
    table = LockTable()
    firm, soft = TestLocker(1, preemptable=False), TestLocker(2)
    replay = TestLocker(-11, importunate=True, lock_timeout_ms=5)
    table.lock(100, firm, READ)
    table.lock(100, soft, READ)
    call = ask(table, 100, replay, WRITE)
    until(lambda: soft.preempted is not None)
    assert call.is_alive()
    assert firm.preempted is None
    table.release(100, firm)
    assert call.result() is Grant.NEW


def test_stealing_leaves_compatible_owners_alone() -> None:
    table = LockTable()
    reader, writer_of_other = TestLocker(1), TestLocker(2)
    replay = TestLocker(-11, importunate=True, lock_timeout_ms=5)
    table.lock(100, reader, RANGE_INSERT)
    table.lock(100, writer_of_other, READ)
    assert table.lock(100, replay, WRITE, wait=False) is Grant.DENIED
    assert ask(table, 100, replay, WRITE).result() is Grant.NEW
    assert reader.preempted is None
    assert writer_of_other.preempted is not None


class Interrupted(BaseException):
    """Stands for a KeyboardInterrupt in the waiting thread."""


def test_interrupted_wait_leaves_no_place_in_the_queue() -> None:
    readings = iter((0.0, 0.0))

    def clock() -> float:
        for reading in readings:
            return reading
        raise Interrupted

    table = LockTable(clock=clock)
    one, two = TestLocker(1), TestLocker(2)
    table.lock(100, one, WRITE)
    with pytest.raises(Interrupted):
        table.lock(100, two, READ)
    assert table.waiters(100) == []
    table.release(100, one)
    assert table.stats().locks == 0


def test_a_lock_that_moves_while_its_owner_ends_goes_too() -> None:
    """The cleaner logs a record again that a reader has locked, between two batches of what the reader gives back."""
    moved = True

    class Mutex:
        def __init__(self) -> None:
            self._lock = threading.Lock()

        def __enter__(self) -> None:
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            nonlocal moved
            self._lock.release()
            if not moved:
                moved = True
                assert table.transfer(5, 5000, write=False, noted=note_lock) == [(txn, READ)]

    table, txn = LockTable(mutex=Mutex()), Txn(1)
    for lsn in range(600):
        table.lock(lsn, txn, READ)
        txn.locks[lsn] = None
    moved = False
    table.release_all(txn.locks, txn)
    assert txn.locks == {}
    assert table.stats().locks == 0
