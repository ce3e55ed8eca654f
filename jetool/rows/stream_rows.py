"""Two nodes of a group side by side, as rows: sync points, what a node has beyond the other, what syncup would do."""

from __future__ import annotations

from typing import Any, Final

from engine.format.entry_types import type_name
from engine.format.lsn import NULL_LSN
from engine.format.stream_facts import StreamFacts, SyncPoint
from engine.format.vlsn import NULL_VLSN
from engine.vlsn.compare import Surplus
from engine.vlsn.syncup_decision import OUTCOMES, Policy, Prediction
from jetool.output.shape import Field, Row, Shape

MATCHPOINT_FIELDS: Final = (
    Field("vlsn", "vlsn", "its VLSN, the same on both nodes"),
    Field("type", "text", "Commit, Abort or Matchpoint"),
    Field("txn", "int", "the transaction that ended; null for a Matchpoint", null=True),
    Field("master", "int", "node id of the master that wrote it"),
    Field("time", "time", "when, by the master's clock"),
    Field("lsn", "lsn", "where the first node has it"),
    Field("other_lsn", "lsn", "where the other node has it"),
)
SURPLUS_FIELDS: Final = (
    Field("first", "vlsn", "first VLSN after the matchpoint; null for none"),
    Field("last", "vlsn", "last VLSN"),
    Field("entries", "int", "how many VLSNs"),
    Field("commits", "int", "commits among them"),
    Field("durable_commits", "int", "commits that the node knows to be on a majority"),
    Field("aborts", "int", "aborts among them"),
    Field("earliest_txn", "int", "the transaction that ended first; null for none", null=True),
    Field("earliest_time", "time", "when it ended", null=True),
)
END_FIELDS: Final = (
    Field("first", "vlsn", "first VLSN of the log; null for none"),
    Field("last", "vlsn", "last VLSN"),
    Field("last_sync", "vlsn", "last Commit, Abort or Matchpoint"),
    Field("last_txn_end", "vlsn", "last Commit or Abort"),
)
COMMIT_FIELDS: Final = (
    Field("vlsn", "vlsn", "VLSN of the Commit"),
    Field("lsn", "lsn", "where it is"),
    Field("txn", "int", "its transaction"),
    Field("time", "time", "when it committed"),
    Field("dtvlsn", "vlsn", "VLSN up to which a majority had everything then; 0 when not known"),
)
RECORD_FIELDS: Final = (
    Field("lsn", "lsn", "where it is"),
    Field("txn", "int", "its transaction"),
    Field("db", "int", "id of its database"),
    Field("key", "key", "its key"),
    Field("invisible", "bool", "whether it is marked invisible already"),
)
PREDICTION_FIELDS: Final = (
    Field("against", "text", "the node that it would follow"),
    Field("outcome", "text", "what would happen", choices=OUTCOMES),
    Field("reason", "text", "why"),
    Field("allowed", "bool", "it can rejoin by itself"),
    Field("limit", "int", "most durable commits that it may give up"),
    Field("matchpoint_vlsn", "vlsn", "the last sync point that both nodes have; null for none"),
    Field("matchpoint_lsn", "lsn", "where this node has it; a hard recovery cuts the log off there"),
    Field("matchpoint_time", "time", "when it was written", null=True),
    Field("entries", "int", "VLSNs after it on this node, which would be taken back"),
    Field("commits_passed", "int", "commits among them"),
    Field("durable_commits", "int", "commits among them that the node knows to be on a majority"),
    Field("aborts_passed", "int", "aborts among them"),
    Field("earliest_txn", "int", "the earliest transaction that would be given up", null=True),
    Field("earliest_time", "time", "when it ended", null=True),
    Field("ln_count", "int", "records that would be taken back"),
    Field("txns", "ints", "transactions that they belong to"),
    Field("commits", "records", "with --txns: the commits", optional=True, fields=COMMIT_FIELDS),
    Field("records", "records", "with --keys: the records", optional=True, fields=RECORD_FIELDS),
)
_MATCHPOINT: Final = Shape("matchpoint", "The last sync point that both nodes have.", MATCHPOINT_FIELDS)
_SURPLUS: Final = Shape("surplus", "What a node has after the matchpoint.", SURPLUS_FIELDS)
_END: Final = Shape("stream", "A node's stream.", END_FIELDS)
_COMMIT: Final = Shape("commit", "A commit that would be given up.", COMMIT_FIELDS)
_RECORD: Final = Shape("record", "A record that would be taken back.", RECORD_FIELDS)
_REJOINS: Final = ("nothing", "soft-rollback", "start-over", "hard-recovery")


def matchpoint_row(point: SyncPoint | None, other: SyncPoint | None) -> Row | None:
    """The matchpoint of two nodes, None without one."""
    if point is None or other is None:
        return None
    txn = point.id if point.is_txn_end else None
    name = type_name(point.type_number)
    return _MATCHPOINT.row((point.vlsn, name, txn, point.master_id, point.time, point.lsn, other.lsn))


def surplus_row(surplus: Surplus) -> Row:
    """What a node has after the matchpoint."""
    first = surplus.earliest
    return _SURPLUS.row(
        (
            surplus.first, surplus.last, surplus.entries, surplus.commits, surplus.durable_commits, surplus.aborts,
            first.id if first is not None else None, first.time if first is not None else None,
        )
    )  # fmt: skip


def stream_row(facts: StreamFacts) -> Row:
    """First and last VLSN of a node, and the landmarks."""
    points = facts.sync_points
    last_end = next((point.vlsn for point in reversed(points) if point.is_txn_end), NULL_VLSN)
    return _END.row((facts.first, facts.last, points[-1].vlsn if len(points) else NULL_VLSN, last_end))


def prediction_row(
    other: str, found: Prediction, policy: Policy, records: list[tuple[int, int, int, bytes, bool]],
    commits: list[SyncPoint], *, txns: bool, keys: bool,
) -> Row:  # fmt: skip
    """What a node would do.

    Arguments:
        other: the node that it would follow.
        found, policy: the prediction, and what it was made by.
        records: LSN, transaction, database, key and invisibility of each record that would be taken back.
        commits: those that would be given up.
        txns, keys: list commits, list records.
    """
    decision, match, surplus = found.decision, found.matchpoint, found.surplus
    values: list[Any] = [
        other, decision.outcome, decision.reason, decision.outcome in _REJOINS, policy.limit,
        match.vlsn if match is not None else NULL_VLSN, match.lsn if match is not None else NULL_LSN,
        match.time if match is not None else None, surplus.entries, surplus.commits, surplus.durable_commits,
        surplus.aborts, surplus.earliest.id if surplus.earliest is not None else None,
        surplus.earliest.time if surplus.earliest is not None else None, len(records),
        sorted({record[1] for record in records}),
    ]  # fmt: skip
    fields = [field for field in PREDICTION_FIELDS if not field.optional]
    row = [(field.name, field.kind, value) for field, value in zip(fields, values, strict=True)]
    if txns:
        row.append(("commits", "records", [_COMMIT.row((p.vlsn, p.lsn, p.id, p.time, p.dtvlsn)) for p in commits]))
    if keys:
        row.append(("records", "records", [_RECORD.row(record) for record in records]))
    return row
