"""Random requests against a naive model, and random threads against the conflict table."""

from __future__ import annotations

import random
import threading
import time
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.txn.lock_errors import LockConflictError
from engine.txn.lock_types import CONFLICTS, DEMOTED, UPGRADES, Conflict, Grant, LockType, UpgradeKind
from engine.txn.locks import LockTable
from tests.support.lockers import GRANTED, PATIENCE, Call, TestLocker

Held = dict[TestLocker, LockType]


def expect(held: Held, locker: TestLocker, lock_type: LockType) -> Grant:
    """What a request that must not wait gets; changes ``held`` when it is granted."""
    others = [CONFLICTS[own][lock_type] for owner, own in held.items() if owner.group != locker.group]
    if locker not in held:
        if any(conflict is not Conflict.ALLOW for conflict in others):
            return Grant.DENIED
        held[locker] = lock_type
        return Grant.NEW
    upgrade = UPGRADES[held[locker]][lock_type]
    if upgrade.kind is UpgradeKind.SAME:
        return Grant.EXISTING
    stopped = (Conflict.RESTART,) if upgrade.kind is UpgradeKind.NOW else (Conflict.RESTART, Conflict.BLOCK)
    if any(conflict in stopped for conflict in others):
        return Grant.DENIED
    held[locker] = upgrade.result
    return Grant.EXISTING if upgrade.kind is UpgradeKind.NOW else Grant.PROMOTED


def legal(held: Held, locker: TestLocker, lock_type: LockType) -> bool:
    return locker not in held or UPGRADES[held[locker]][lock_type].kind is not UpgradeKind.ILLEGAL


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.sampled_from(["release", "demote", *LockType])))
)
def test_requests_that_do_not_wait(steps: list[tuple[int, int, LockType | str]]) -> None:
    table = LockTable()
    txn = TestLocker(1)
    lockers = [txn, TestLocker(1, group=txn), TestLocker(2), TestLocker(3)]
    model: list[Held] = [{}, {}]
    for who, lsn, action in steps:
        locker, held = lockers[who], model[lsn]
        if action == "release":
            assert table.release(lsn, locker) == (held.pop(locker, None) is not None)
        elif action == "demote":
            table.demote(lsn, locker)
            if locker in held:
                held[locker] = DEMOTED.get(held[locker], held[locker])
        elif isinstance(action, LockType) and legal(held, locker, action):
            assert table.lock(lsn, locker, action, wait=False) is expect(held, locker, action)
        assert dict(table.owners(lsn)) == held
    assert table.stats().locks == sum(bool(held) for held in model)


def test_owners_never_conflict() -> None:
    """Six threads take all types of locks, wait, time out and deadlock; each grant is checked against all owners."""
    table = LockTable()
    numbers = iter(range(1, 1_000_000))
    number_guard = threading.Lock()

    def check(lsn: int, locker: TestLocker) -> None:
        owners = table.owners(lsn)
        mine = dict(owners)[locker]
        for other, held in owners:
            # RANGE_INSERT lets readers and writers in beside it, not the other way round for ranges.
            either = {CONFLICTS[held][mine], CONFLICTS[mine][held]}
            assert other is locker or Conflict.ALLOW in either, owners

    def work(seed: int) -> int:
        chance = random.Random(seed)
        finished = 0
        while finished < 80:
            with number_guard:
                txn = TestLocker(next(numbers), lock_timeout_ms=50)
            lsns: set[int] = set()
            try:
                for _ in range(chance.randint(1, 4)):
                    lsn, lock_type = chance.randrange(4), chance.choice(list(LockType))
                    own = table.held(lsn, txn)
                    if own is not None and UPGRADES[own][lock_type].kind is UpgradeKind.ILLEGAL:
                        continue
                    if table.lock(lsn, txn, lock_type) in GRANTED:
                        lsns.add(lsn)
                        check(lsn, txn)
                    # Let the others in while the locks are held.
                    time.sleep(0.0001)
                finished += 1
            except LockConflictError:
                assert txn.abort_only is not None
            finally:
                table.release_many(lsns, txn)
        return finished

    calls = [Call(partial(work, seed)) for seed in range(6)]
    for call in calls:
        call.join(PATIENCE * 3)
    assert [call.result() for call in calls] == [80] * 6
    stats = table.stats()
    assert (stats.locks, stats.waiters) == (0, 0)
    assert min(stats.waits, stats.deadlocks) > 0
