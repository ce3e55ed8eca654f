"""Output records of ``jetool diff`` for two nodes of a group: sync points, extra entries, and what syncup would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from engine.fields import ABSENT, Absent, Bool, Choices, Int, Key, Lsn, Text, Time, Vlsn, record
from engine.format.entry_types import type_name
from engine.format.lsn import NULL_LSN
from engine.format.stream_facts import StreamFacts, SyncPoint
from engine.format.vlsn import NULL_VLSN
from engine.vlsn.compare import Surplus
from engine.vlsn.syncup_decision import OUTCOMES, Policy, Prediction


@record()
class CommonMatchpoint(NamedTuple):
    """The last sync point that both nodes have."""

    vlsn: Annotated[Vlsn, "its VLSN, the same on both nodes"]
    type: Annotated[Text, "Commit, Abort or Matchpoint"]
    txn: Annotated[Int | None, "the transaction that ended; null for a Matchpoint"]
    master: Annotated[Int, "node id of the master that wrote it"]
    time: Annotated[Time, "when, by the master's clock"]
    lsn: Annotated[Lsn, "where the first node has it"]
    other_lsn: Annotated[Lsn, "where the other node has it"]


@record()
class StreamSurplus(NamedTuple):
    """The entries of a node after the matchpoint."""

    first: Annotated[Vlsn, "first VLSN after the matchpoint; null for none"]
    last: Annotated[Vlsn, "last VLSN"]
    entries: Annotated[Int, "how many VLSNs"]
    commits: Annotated[Int, "commits among them"]
    durable_commits: Annotated[Int, "commits that the node knows to be on a majority"]
    aborts: Annotated[Int, "aborts among them"]
    earliest_txn: Annotated[Int | None, "the transaction that ended first; null for none"]
    earliest_time: Annotated[Time | None, "when it ended"]


@record()
class StreamEndRow(NamedTuple):
    """A node's stream."""

    first: Annotated[Vlsn, "first VLSN of the log; null for none"]
    last: Annotated[Vlsn, "last VLSN"]
    last_sync: Annotated[Vlsn, "last Commit, Abort or Matchpoint"]
    last_txn_end: Annotated[Vlsn, "last Commit or Abort"]


@record()
class LostCommit(NamedTuple):
    """A commit that would be rolled back."""

    vlsn: Annotated[Vlsn, "VLSN of the Commit"]
    lsn: Annotated[Lsn, "where it is"]
    txn: Annotated[Int, "its transaction"]
    time: Annotated[Time, "when it committed"]
    dtvlsn: Annotated[Vlsn, "VLSN up to which a majority had everything then; 0 when not known"]


@record()
class LostRecord(NamedTuple):
    """A record that would be rolled back."""

    lsn: Annotated[Lsn, "where it is"]
    txn: Annotated[Int, "its transaction"]
    db: Annotated[Int, "id of its database"]
    key: Annotated[Key, "its key"]
    invisible: Annotated[Bool, "whether it is marked invisible already"]


@record()
class RejoinPrediction(NamedTuple):
    """What a node would undo to rejoin."""

    against: Annotated[Text, "the node that it would follow"]
    outcome: Annotated[Text, "what would happen", Choices(OUTCOMES)]
    reason: Annotated[Text, "why"]
    allowed: Annotated[Bool, "it can rejoin by itself"]
    limit: Annotated[Int, "most durable commits that it may give up"]
    matchpoint_vlsn: Annotated[Vlsn, "the last sync point that both nodes have; null for none"]
    matchpoint_lsn: Annotated[Lsn, "where this node has it; a hard recovery cuts the log off there"]
    matchpoint_time: Annotated[Time | None, "when it was written"]
    entries: Annotated[Int, "VLSNs after it on this node, which would be taken back"]
    commits_passed: Annotated[Int, "commits among them"]
    durable_commits: Annotated[Int, "commits among them that the node knows to be on a majority"]
    aborts_passed: Annotated[Int, "aborts among them"]
    earliest_txn: Annotated[Int | None, "the earliest transaction that would be given up"]
    earliest_time: Annotated[Time | None, "when it ended"]
    ln_count: Annotated[Int, "records that would be taken back"]
    txns: Annotated[Sequence[Int], "transactions that they belong to"]
    commits: Annotated[Sequence[LostCommit] | Absent, "with --txns: the commits"] = ABSENT
    records: Annotated[Sequence[LostRecord] | Absent, "with --keys: the records"] = ABSENT


_REJOINS: Final = ("nothing", "soft-rollback", "start-over", "hard-recovery")


def matchpoint_of(point: SyncPoint | None, other: SyncPoint | None) -> CommonMatchpoint | None:
    """The matchpoint of two nodes; None if there is no matchpoint."""
    if point is None or other is None:
        return None
    return CommonMatchpoint(
        vlsn=point.vlsn,
        type=type_name(point.type_number),
        txn=point.id if point.is_txn_end else None,
        master=point.master_id,
        time=point.time,
        lsn=point.lsn,
        other_lsn=other.lsn,
    )


def surplus_of(surplus: Surplus) -> StreamSurplus:
    """The entries of a node after the matchpoint."""
    first = surplus.earliest
    return StreamSurplus(
        first=surplus.first,
        last=surplus.last,
        entries=surplus.entries,
        commits=surplus.commits,
        durable_commits=surplus.durable_commits,
        aborts=surplus.aborts,
        earliest_txn=first.id if first is not None else None,
        earliest_time=first.time if first is not None else None,
    )


def stream_end(facts: StreamFacts) -> StreamEndRow:
    """First and last VLSN of a node, and its last sync point and transaction end."""
    points = facts.sync_points
    return StreamEndRow(
        first=facts.first,
        last=facts.last,
        last_sync=points[-1].vlsn if len(points) else NULL_VLSN,
        last_txn_end=next((point.vlsn for point in reversed(points) if point.is_txn_end), NULL_VLSN),
    )


def rejoin_prediction(
    other: str,
    found: Prediction,
    policy: Policy,
    records: list[tuple[int, int, int, bytes, bool]],
    commits: list[SyncPoint],
    *,
    txns: bool,
    keys: bool,
) -> RejoinPrediction:
    """What a node would undo.

    Arguments:
        other: the node that it would follow.
        found, policy: the prediction, and the policy that it is based on.
        records: LSN, transaction, database, key and invisibility of each record that would be rolled back.
        commits: the commits that would be rolled back.
        txns, keys: whether to list commits and records.
    """
    decision, match, surplus = found.decision, found.matchpoint, found.surplus
    first = surplus.earliest
    lost_commits = [
        LostCommit(vlsn=one.vlsn, lsn=one.lsn, txn=one.id, time=one.time, dtvlsn=one.dtvlsn) for one in commits
    ]
    lost_records = [
        LostRecord(lsn=lsn, txn=txn, db=db, key=key, invisible=invisible) for lsn, txn, db, key, invisible in records
    ]
    return RejoinPrediction(
        against=other,
        outcome=decision.outcome,
        reason=decision.reason,
        allowed=decision.outcome in _REJOINS,
        limit=policy.limit,
        matchpoint_vlsn=match.vlsn if match is not None else NULL_VLSN,
        matchpoint_lsn=match.lsn if match is not None else NULL_LSN,
        matchpoint_time=match.time if match is not None else None,
        entries=surplus.entries,
        commits_passed=surplus.commits,
        durable_commits=surplus.durable_commits,
        aborts_passed=surplus.aborts,
        earliest_txn=first.id if first is not None else None,
        earliest_time=first.time if first is not None else None,
        ln_count=len(records),
        txns=sorted({one.txn for one in lost_records}),
        commits=lost_commits if txns else ABSENT,
        records=lost_records if keys else ABSENT,
    )
