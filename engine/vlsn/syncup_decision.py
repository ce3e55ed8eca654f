"""What a replica does once its matchpoint with the master is known: the decision table of syncup, as a pure function.

Rules R-SYNC-7, 10, 20 to 27. The syncup of a running replica and the prediction for a node that has not rejoined yet
call the same function if there is a matchpoint, so that prediction and syncup agree.

T is the replica's last commit or abort, S its last sync point, M the matchpoint; - means that none exists:

==========  ==========  ==========  ==============================================================================
T           S           M           outcome
==========  ==========  ==========  ==============================================================================
-           -           -           start-over: nothing ended, nothing common; everything goes, begin at VLSN 1
-           any         -           start-over
-           any         v           soft-rollback to M
v           any         -           network-restore
T ≤ M                               soft-rollback to M; nothing when the log ends at M
T > M                               hard recovery considered, below
==========  ==========  ==========  ==============================================================================

Hard recovery gives up ended transactions: the log is truncated at the matchpoint. In this order:

1. a CkptEnd that deleted cleaned files, or a gap in the file numbers, follows M: network-restore (R-SYNC-21);
2. rollback is disabled, or more durable commits than the limit would be lost: prohibited (R-SYNC-25);
3. otherwise hard-recovery (R-SYNC-26).

Starting over requires a master that still has VLSN 1; otherwise it becomes a network restore (R-SYNC-4).

Example: limit 10, T = 120, M = 90, 14 commits after M, 11 of them durable: prohibited. With 10 durable: hard-recovery.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import plural
from engine.format.stream_facts import StreamFacts, SyncPoint
from engine.format.vlsn import FIRST_VLSN, NULL_VLSN
from engine.vlsn.compare import Surplus, find_matchpoint, surplus_after

NOTHING: Final = "nothing"
SOFT_ROLLBACK: Final = "soft-rollback"
START_OVER: Final = "start-over"
HARD_RECOVERY: Final = "hard-recovery"
PROHIBITED: Final = "prohibited"
NETWORK_RESTORE: Final = "network-restore"
OUTCOMES: Final = (NOTHING, SOFT_ROLLBACK, START_OVER, HARD_RECOVERY, PROHIBITED, NETWORK_RESTORE)

DEFAULT_ROLLBACK_LIMIT: Final = 10


class Policy(NamedTuple):
    """The operator's settings.

    Attributes:
        limit: number of durable commits that may be given up (``je.rep.txnRollbackLimit``).
        disabled: give up no commits (``je.rep.txnRollbackDisabled``).
    """

    limit: int = DEFAULT_ROLLBACK_LIMIT
    disabled: bool = False


class ReplicaEnd(NamedTuple):
    """The replica's end of the stream; NULL_VLSN for missing entries."""

    last: int
    last_sync: int
    last_txn_end: int


class MatchpointSearch(NamedTuple):
    """What the backward search for the matchpoint has passed (R-SYNC-5).

    Attributes:
        commits: number of commits after the matchpoint, which is itself not counted (R-SYNC-27).
        durable_commits: number of these commits that a majority has.
        barrier: a CkptEnd after which cleaned files were deleted was passed.
        gap: a gap in the numbers of the log files was passed.
    """

    commits: int
    durable_commits: int
    barrier: bool = False
    gap: bool = False


class Decision(NamedTuple):
    """One of ``OUTCOMES``, and the reason as a clause."""

    outcome: str
    reason: str


def decide(
    standing: ReplicaEnd, matchpoint: int, passed: MatchpointSearch, policy: Policy, feeder_first: int = FIRST_VLSN
) -> Decision:
    """The outcome according to the table above.

    Arguments:
        standing: the replica's end of the stream.
        matchpoint: VLSN of the matchpoint, or NULL_VLSN.
        passed: what follows the matchpoint in the replica's log.
        policy: the operator's settings.
        feeder_first: the master's first VLSN.
    """
    last, _, last_txn_end = standing
    if matchpoint == NULL_VLSN:
        # Ended transactions can only be given up back to a matchpoint.
        if last_txn_end != NULL_VLSN:
            return Decision(NETWORK_RESTORE, "transactions have ended here, and no sync point is the same")
        # R-SYNC-4: starting over means reading the stream from VLSN 1.
        if feeder_first != FIRST_VLSN:
            return Decision(NETWORK_RESTORE, "the other node has no longer the first VLSN")
        if last == NULL_VLSN:
            return Decision(NOTHING, "the stream is empty; it begins at VLSN 1")
        return Decision(START_OVER, "no transaction has ended here; everything is rolled back")
    if last_txn_end <= matchpoint:
        if last == matchpoint:
            return Decision(NOTHING, "the log ends at the matchpoint")
        return Decision(SOFT_ROLLBACK, "no commit or abort lies after the matchpoint")
    return _hard(passed, policy)


def _hard(passed: MatchpointSearch, policy: Policy) -> Decision:
    # R-SYNC-21: the log before the matchpoint is no longer complete, so it cannot be truncated there.
    if passed.barrier:
        return Decision(NETWORK_RESTORE, "a checkpoint after the matchpoint has deleted log files")
    if passed.gap:
        return Decision(NETWORK_RESTORE, "log files after the matchpoint are missing")
    if policy.disabled:
        return Decision(PROHIBITED, "rollback of ended transactions is disabled")
    are = plural(passed.durable_commits, "durable commit is", "durable commits are")
    if passed.durable_commits > policy.limit:
        return Decision(PROHIBITED, f"{are} more than the limit {policy.limit}")
    return Decision(HARD_RECOVERY, f"{are} within the limit {policy.limit}")


class Prediction(NamedTuple):
    """The predicted outcome if a node joins another node as its replica.

    Attributes:
        matchpoint, feeder_matchpoint: the matchpoint, as each of the two logs describes it; None if there is no
            matchpoint.
        surplus: the entries that the replica would give up.
        passed: the input of the decision.
    """

    decision: Decision
    matchpoint: SyncPoint | None
    feeder_matchpoint: SyncPoint | None
    surplus: Surplus
    passed: MatchpointSearch


def predict(replica: StreamFacts, gaps: tuple[int, ...], feeder: StreamFacts, policy: Policy) -> Prediction:
    """Predict the syncup of a replica from the facts of both logs; nothing is changed.

    Arguments:
        replica: the node that would join.
        gaps: LSNs in the replica's log before which files are missing.
        feeder: the node that it would follow.
        policy: limits.
    """
    found = find_matchpoint(replica, feeder)
    own, other = found if found is not None else (None, None)
    surplus = surplus_after(replica, NULL_VLSN if own is None else own.vlsn)
    # Without a matchpoint everything counts; NULL_VLSN is lower than every LSN.
    match_lsn = NULL_VLSN if own is None else own.lsn
    passed = MatchpointSearch(
        surplus.commits,
        surplus.durable_commits,
        barrier=any(lsn > match_lsn for lsn in replica.barriers),
        gap=any(lsn > match_lsn for lsn in gaps),
    )
    ends = (point.vlsn for point in reversed(replica.sync_points) if point.is_txn_end)
    last_sync = replica.sync_points[-1].vlsn if len(replica.sync_points) else NULL_VLSN
    standing = ReplicaEnd(replica.last, last_sync, next(ends, NULL_VLSN))
    decision = decide(standing, NULL_VLSN if own is None else own.vlsn, passed, policy, feeder.first)
    return Prediction(decision, own, other, surplus, passed)
