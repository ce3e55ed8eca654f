"""The decision table of syncup (7.3), hard recovery and its limits (R-SYNC-20 to 27), and predictions."""

from __future__ import annotations

import pytest

from engine.vlsn import syncup_decision as d
from engine.vlsn.syncup_decision import MatchpointSearch, Policy, ReplicaEnd, decide, predict
from tests.vlsn.test_compare import COMMON, facts

NONE = -1
CLEAN = MatchpointSearch(0, 0)


@pytest.mark.parametrize(
    ("standing", "matchpoint", "outcome"),
    [
        (ReplicaEnd(NONE, NONE, NONE), NONE, d.NOTHING),
        (ReplicaEnd(7, NONE, NONE), NONE, d.START_OVER),
        (ReplicaEnd(7, 5, NONE), NONE, d.START_OVER),
        (ReplicaEnd(7, 5, NONE), 5, d.SOFT_ROLLBACK),
        (ReplicaEnd(7, 7, 6), NONE, d.NETWORK_RESTORE),
        (ReplicaEnd(7, 6, 6), 6, d.SOFT_ROLLBACK),
        (ReplicaEnd(9, 8, 6), 8, d.SOFT_ROLLBACK),
        (ReplicaEnd(7, 7, 7), 7, d.NOTHING),
        (ReplicaEnd(7, 7, 7), 6, d.HARD_RECOVERY),
    ],
)
def test_every_row_of_the_table(standing: ReplicaEnd, matchpoint: int, outcome: str) -> None:
    assert decide(standing, matchpoint, CLEAN, Policy()).outcome == outcome


def test_starting_over_needs_the_first_vlsn() -> None:
    assert decide(ReplicaEnd(7, 5, NONE), NONE, CLEAN, Policy(), feeder_first=2).outcome == d.NETWORK_RESTORE
    assert decide(ReplicaEnd(NONE, NONE, NONE), NONE, CLEAN, Policy(), feeder_first=2).outcome == d.NETWORK_RESTORE


@pytest.mark.parametrize(
    ("passed", "policy", "outcome"),
    [
        (MatchpointSearch(40, 10), Policy(10), d.HARD_RECOVERY),
        (MatchpointSearch(11, 11), Policy(10), d.PROHIBITED),
        (MatchpointSearch(1, 0), Policy(0), d.HARD_RECOVERY),
        (MatchpointSearch(1, 1), Policy(0), d.PROHIBITED),
        (MatchpointSearch(1, 0), Policy(10, disabled=True), d.PROHIBITED),
        (MatchpointSearch(99, 99, barrier=True), Policy(10), d.NETWORK_RESTORE),
        (MatchpointSearch(99, 99, gap=True), Policy(10, disabled=True), d.NETWORK_RESTORE),
    ],
)
def test_hard_recovery(passed: MatchpointSearch, policy: Policy, outcome: str) -> None:
    assert decide(ReplicaEnd(20, 20, 20), 10, passed, policy).outcome == outcome


def commits(first: int, count: int, dtvlsn: int) -> str:
    """So many Commits by master 1, one after the other."""
    return " ".join(f"{vlsn}c{100 + vlsn}@1~{dtvlsn}" for vlsn in range(first, first + count))


@pytest.mark.parametrize(("count", "outcome"), [(10, d.HARD_RECOVERY), (11, d.PROHIBITED)])
def test_an_old_master_beyond_the_matchpoint(count: int, outcome: str) -> None:
    """N commits beyond the matchpoint and limit 10."""
    found = predict(facts(COMMON, commits(6, count, 99)), (), facts(COMMON, "6c14@2"), Policy(10))
    assert found.decision.outcome == outcome
    assert found.matchpoint is not None
    assert found.matchpoint.vlsn == 5
    assert found.passed == MatchpointSearch(count, count)
    # What no majority has does not count towards the limit.
    loose = predict(facts(COMMON, commits(6, count, 8)), (), facts(COMMON, "6c14@2"), Policy(10))
    assert (loose.decision.outcome, loose.passed.durable_commits) == (d.HARD_RECOVERY, 3)


def test_barriers_and_gaps_count_behind_the_matchpoint_only() -> None:
    feeder = facts(COMMON, "6c14@2")
    before, behind = facts("ce2", COMMON, commits(6, 1, 9)), facts(COMMON, "ce2", commits(6, 1, 9))
    assert predict(before, (), feeder, Policy()).decision.outcome == d.HARD_RECOVERY
    assert predict(behind, (), feeder, Policy()).decision.outcome == d.NETWORK_RESTORE
    replica = facts(COMMON, commits(6, 1, 9))
    assert predict(replica, (100,), feeder, Policy()).decision.outcome == d.HARD_RECOVERY
    assert predict(replica, (550,), feeder, Policy()).decision.outcome == d.NETWORK_RESTORE


def test_work_in_flight_is_rolled_back_softly() -> None:
    found = predict(facts(COMMON, "6 7 8m3@1"), (), facts(COMMON, "6c14@2"), Policy(0))
    assert (found.decision.outcome, found.surplus.entries, found.passed) == (d.SOFT_ROLLBACK, 3, CLEAN)


def test_nodes_that_have_nothing_in_common() -> None:
    assert predict(facts("1 2c11@1"), (), facts("1 2c11@2"), Policy()).decision.outcome == d.NETWORK_RESTORE
    assert predict(facts("1 2"), (), facts("1 2c11@2"), Policy()).decision.outcome == d.START_OVER
    assert predict(facts(), (), facts("1 2c11@2"), Policy()).decision.outcome == d.NOTHING
