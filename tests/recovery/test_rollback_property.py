"""Random replicas with nested, open and disjoint rollbacks: recovery gives the records that were there."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recovery.replica_model import Recovery, Replica, visible

STEPS = {
    "write": 10, "write_locally": 1, "commit": 2, "abort": 1, "matchpoint": 4, "checkpoint": 1, "roll_back": 3,
}  # fmt: skip


def run_replica(seed: int, steps: int) -> Replica:
    chance = random.Random(seed)
    replica = Replica(chance)
    for name in chance.choices(list(STEPS), weights=list(STEPS.values()), k=steps):
        getattr(replica, name)()
    return replica


def check(replica: Replica) -> Recovery:
    recovery = Recovery(replica)
    recovery.run()
    in_range = {lsn: start for lsn, start in replica.owner.items() if lsn >= replica.first_active}
    assert recovery.owner == in_range
    assert visible(recovery.tree) == visible(replica.tree)
    # What an open period left visible is hidden now; a completed rollback has hidden its own before.
    before_ckpt = [lsn for lsn in in_range if lsn not in recovery.invisible]
    assert set(recovery.hidden) == set(in_range) - replica.invisible - set(before_ckpt)
    assert all(lsn < replica.ckpt_start for lsn in before_ckpt)
    return recovery


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 120))
def test_recovery_gives_the_records_of_the_replica(seed: int, steps: int) -> None:
    check(run_replica(seed, steps))


def test_the_model_meets_every_case() -> None:
    """The random replicas nest rollbacks, leave them open, and take checkpoints inside the bracket."""
    nested = opened = straddling = hidden = 0
    for seed in range(60):
        replica = run_replica(seed, 100)
        recovery = check(replica)
        hidden += len(recovery.hidden)
        starts = [lsn for lsn, (kind, _) in replica.log.items() if kind == "RS"]
        ends = {what.rollback_start_lsn for kind, what in replica.log.values() if kind == "RE"}  # type: ignore[attr-defined]
        opened += len(set(starts) - ends)
        matchpoints = [replica.log[lsn][1].matchpoint_lsn for lsn in starts]  # type: ignore[attr-defined]
        nested += sum(late < early for early, late in zip(starts, matchpoints[1:], strict=False))
        straddling += sum(lsn < replica.ckpt_start < lsn + 20 for lsn in starts)
    assert min(nested, opened, straddling, hidden) > 10


def test_recovery_twice_hides_nothing_more() -> None:
    """R-RB-32: the bits are written once; a second recovery finds them."""
    for seed in range(40):
        replica = run_replica(seed, 100)
        first = check(replica)
        replica.invisible = first.invisible
        second = check(replica)
        assert second.hidden == []
        assert visible(second.tree) == visible(first.tree)
