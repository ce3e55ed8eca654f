"""The conflict and upgrade tables, each cell against the live lock table (R-TXN-3, 4, 6; scenario T-76).

The expected cells are written out here a second time, in the words of je-behaviour.md.
"""

from __future__ import annotations

import pytest

from engine.errors import JetoolError
from engine.txn.lock_types import Grant, LockType
from engine.txn.locks import LockTable
from tests.support.lockers import TestLocker, ask

TYPES = list(LockType)

CONFLICTS = """
READ          allow  block  allow    block    allow
WRITE         block  block  block    block    allow
RANGE_READ    allow  block  allow    block    block
RANGE_WRITE   block  block  block    block    block
RANGE_INSERT  allow  allow  restart  restart  allow
"""

UPGRADES = """
READ          same     wait:WRITE        now:RANGE_READ   wait:RANGE_WRITE  illegal
WRITE         same     same              now:RANGE_WRITE  now:RANGE_WRITE   illegal
RANGE_READ    same     wait:RANGE_WRITE  same             wait:RANGE_WRITE  illegal
RANGE_WRITE   same     same              same             same              illegal
RANGE_INSERT  illegal  illegal           illegal          illegal           same
"""


def cells(text: str) -> list[tuple[LockType, LockType, str]]:
    rows = [line.split() for line in text.strip().splitlines()]
    return [(LockType[row[0]], request, cell) for row in rows for request, cell in zip(TYPES, row[1:], strict=True)]


@pytest.mark.parametrize(("owner", "request_type", "expected"), cells(CONFLICTS))
def test_conflict_cell(owner: LockType, request_type: LockType, expected: str) -> None:
    table, one, two = LockTable(), TestLocker(1), TestLocker(2)
    assert table.lock(100, one, owner) is Grant.NEW
    assert table.lock(100, two, request_type, wait=False) is (Grant.NEW if expected == "allow" else Grant.DENIED)
    if expected == "allow":
        assert table.owners(100) == [(one, owner), (two, request_type)]
        return
    assert table.owners(100) == [(one, owner)]
    waiting = ask(table, 100, two, request_type)
    assert table.waiters(100) == [two]
    table.release(100, one)
    assert waiting.result() is (Grant.RESTART if expected == "restart" else Grant.NEW)
    assert table.owners(100) == ([] if expected == "restart" else [(two, request_type)])


@pytest.mark.parametrize(("held", "request_type", "expected"), cells(UPGRADES))
def test_upgrade_cell(held: LockType, request_type: LockType, expected: str) -> None:
    table, one = LockTable(), TestLocker(1)
    table.lock(100, one, held)
    if expected == "illegal":
        with pytest.raises(JetoolError, match="upgrade"):
            table.lock(100, one, request_type)
        assert table.held(100, one) is held
        return
    kind, _, result = expected.partition(":")
    assert table.lock(100, one, request_type) is (Grant.PROMOTED if kind == "wait" else Grant.EXISTING)
    assert table.held(100, one) is (LockType[result] if result else held)


@pytest.mark.parametrize(("held", "request_type", "expected"), [c for c in cells(UPGRADES) if "wait" in c[2]])
def test_promotion_checks_other_owners(held: LockType, request_type: LockType, expected: str) -> None:
    table, one, two = LockTable(), TestLocker(1), TestLocker(2)
    table.lock(100, one, held)
    table.lock(100, two, LockType.READ)
    assert table.lock(100, one, request_type, wait=False) is Grant.DENIED
    assert table.held(100, one) is held
    waiting = ask(table, 100, one, request_type)
    table.release(100, two)
    assert waiting.result() is Grant.PROMOTED
    assert table.held(100, one) is LockType[expected.partition(":")[2]]


@pytest.mark.parametrize(("held", "request_type", "expected"), [c for c in cells(UPGRADES) if "now" in c[2]])
def test_widening_is_granted_beside_compatible_owners(held: LockType, request_type: LockType, expected: str) -> None:
    table, one = LockTable(), TestLocker(1)
    table.lock(100, one, held)
    if held is LockType.READ:
        table.lock(100, TestLocker(2), LockType.READ)
        waiting = ask(table, 100, TestLocker(3), LockType.WRITE)
        assert waiting.is_alive()
    assert table.lock(100, one, request_type, wait=False) is Grant.EXISTING
    assert table.held(100, one) is LockType[expected.partition(":")[2]]


@pytest.mark.parametrize("held", [LockType.READ, LockType.WRITE])
def test_widening_waits_for_an_insertion(held: LockType) -> None:
    """An insertion that is under way has changed the range, so a scan cannot just widen its lock over it."""
    table, one, two = LockTable(), TestLocker(1), TestLocker(2)
    table.lock(100, one, held)
    table.lock(100, two, LockType.RANGE_INSERT)
    assert table.lock(100, one, LockType.RANGE_READ, wait=False) is Grant.DENIED
    waiting = ask(table, 100, one, LockType.RANGE_READ)
    table.release(100, two)
    assert waiting.result() is Grant.RESTART
    assert table.held(100, one) is held


@pytest.mark.parametrize("request_type", [LockType.RANGE_READ, LockType.RANGE_WRITE])
def test_waiting_insertion_makes_a_scan_restart(request_type: LockType) -> None:
    """R-TXN-6; T-76 testRangeInsertWaiterConflict."""
    table, reader, inserter, scanner = LockTable(), TestLocker(1), TestLocker(2), TestLocker(3)
    table.lock(100, reader, LockType.RANGE_READ)
    insertion = ask(table, 100, inserter, LockType.RANGE_INSERT)
    scan = ask(table, 100, scanner, request_type)
    assert table.waiters(100) == [inserter, scanner]
    table.release(100, reader)
    assert insertion.result() is Grant.NEW
    assert scan.is_alive()
    table.release(100, inserter)
    assert scan.result() is Grant.RESTART
    assert table.owners(100) == []
    assert table.stats().locks == 0
