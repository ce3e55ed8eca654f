"""``rollbacks --against`` predicts what syncup decides: the two are computed apart, from logs and by questions."""

from __future__ import annotations

import pytest

from engine.db.environment import Environment
from engine.inspect.log_stream import read_stream
from engine.log.files import list_log_files
from engine.rep.rollback import RollbackProhibitedError
from engine.rep.syncup import Action, check_rollback_limit
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.vlsn import syncup_decision as d
from engine.vlsn.syncup_decision import Policy, Prediction, predict
from tests.rep.test_rollback import parted
from tests.support.environments.oracle import named
from tests.support.groups.pairs import plan_for
from tests.support.groups.streams import open_replicated

LIMIT = 10


def predicted(master: Environment, replica: Environment) -> Prediction:
    for env in (master, replica):
        assert env.engine.writer is not None
        env.engine.writer.flush(sync=False)
    own, other = (read_stream(env.engine.storage, list_log_files(env.engine.storage)) for env in (replica, master))
    return predict(own.facts, own.gaps, other.facts, Policy(LIMIT))


def decided(master: Environment, replica: Environment) -> tuple[str, int | None, int, int]:
    """The outcome in the words of the prediction, the matchpoint's LSN, commits passed, durable ones."""
    plan = plan_for(master, replica)
    outcome = {
        Action.START: d.NOTHING,
        Action.SOFT_ROLLBACK: d.SOFT_ROLLBACK,
        Action.HARD_RECOVERY: d.HARD_RECOVERY,
        Action.NETWORK_RESTORE: d.NETWORK_RESTORE,
    }[plan.action]
    if plan.action is Action.HARD_RECOVERY:
        try:
            check_rollback_limit(replica.engine, plan, LIMIT)
        except RollbackProhibitedError:
            outcome = d.PROHIBITED
    lsn = None if plan.matchpoint is None else plan.matchpoint.lsn
    return outcome, lsn, len(plan.passed.commits), plan.passed.durable


def told(found: Prediction) -> tuple[str, int | None, int, int]:
    lsn = None if found.matchpoint is None else found.matchpoint.lsn
    return found.decision.outcome, lsn, found.passed.commits, found.passed.durable_commits


@pytest.mark.parametrize(
    ("commits", "unfinished", "outcome"),
    [(0, 3, d.SOFT_ROLLBACK), (3, 0, d.HARD_RECOVERY), (10, 2, d.HARD_RECOVERY), (11, 1, d.PROHIBITED)],
)
def test_an_old_master(commits: int, unfinished: int, outcome: str) -> None:
    """An old master with N commits beyond the matchpoint and limit 10."""
    old, new, _ = parted(4, unfinished=unfinished, commits=commits)
    found = predicted(new, old)
    assert found.decision.outcome == outcome
    assert found.passed.commits == commits
    assert told(found) == decided(new, old)


@pytest.mark.parametrize("group", ["ha-rollback", "ha-rollback-begun", "ha-rollback-ckpt", "ha-group"])
def test_nodes_of_real_groups(group: str) -> None:
    """Every node as the replica of every other, also of one that is after it."""
    nodes = {}
    for number in (1, 2, 3):
        storage = DiskStorage(named(f"je-18.3.20/{group}/node{number}").path / "env")
        files = {name: storage.open(name).read(0, 1 << 24) for name in storage.names() if name.endswith(".jdb")}
        nodes[number] = open_replicated(MemoryStorage(files))
    for replica in nodes:
        for master in nodes:
            if replica != master:
                found = predicted(nodes[master], nodes[replica])
                assert told(found) == decided(nodes[master], nodes[replica]), (replica, master)
