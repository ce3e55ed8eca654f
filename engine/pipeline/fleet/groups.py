"""Compares the nodes of a replication group: which is newest, and where each pair last agreed.

Nodes are ranked as in an election of JE: by their durable VLSN, then by their last VLSN; where no durable VLSN is known
(logs before version 13), by the last VLSN alone. The last commit breaks ties. So an old master whose last work reached
no other node ranks below the nodes that a majority followed.

Example: A has the durable VLSN 122 and ends with 160; B and C have 195 and end with 195. Ranks: B and C 1, A 3. Between
A and B the matchpoint is 150; A has 10 VLSNs after it, B 45.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final, NamedTuple

from engine.format.stream_facts import SyncPoint
from engine.format.vlsn import NULL_VLSN
from engine.pipeline.fleet.node_streams import NodeStream
from engine.vlsn.compare import Comparison, compare

# The group of nodes whose group is unknown.
UNKNOWN_GROUP: Final = "unknown group"


class FleetNode(NamedTuple):
    """One node.

    Attributes:
        env: the directory of the environment.
        group: name of the replication group; empty if the environment is not replicated.
        group_key: identifies the group: the inventory's name for it, or its UUID.
        first_vlsn, last_vlsn: range of the stream after recovery; NULL_VLSN if the node has no stream.
        last_sync: the last Commit, Abort or Matchpoint.
        last_commit: the last Commit; None if the log holds no Commit.
        dtvlsn: the durable VLSN of the node; 0 if unknown.
        rollbacks: number of rollbacks.
        damages: number of damaged stretches that were skipped.
        problem: why a part could not be read; empty if all was read.
    """

    env: str
    group: str
    group_key: str
    first_vlsn: int
    last_vlsn: int
    last_sync: int
    last_commit: SyncPoint | None
    dtvlsn: int
    rollbacks: int
    damages: int
    problem: str

    @property
    def is_replicated(self) -> bool:
        """Whether the node has a replication stream."""
        return self.last_vlsn != NULL_VLSN

    @property
    def ranking(self) -> tuple[int, int, int]:
        """The sort key of the node; a greater key means a newer node."""
        commit = self.last_commit.vlsn if self.last_commit is not None else NULL_VLSN
        # Without a durable VLSN only the last VLSN decides.
        if self.dtvlsn <= 0:
            return self.last_vlsn, 0, commit
        return self.dtvlsn, self.last_vlsn, commit


class NodePair(NamedTuple):
    """Two nodes of a group."""

    env: str
    other: str
    comparison: Comparison


class RankedNode(NamedTuple):
    """A node with its rank in its group, from 1; equal nodes share a rank. 0: not replicated."""

    node: FleetNode
    rank: int


def node_of(env: str, stream: NodeStream, group: str = "") -> FleetNode:
    """The facts of one node.

    Arguments:
        env: the directory of the environment.
        stream: the stream of the node, joined from all files.
        group: the group that the inventory puts it in; "" if it names none.
    """
    facts = stream.facts
    points = facts.sync_points
    commit = next((point for point in reversed(points) if point.is_commit), None)
    ends = (point.dtvlsn for point in reversed(points) if point.is_txn_end)
    replicated = facts.last != NULL_VLSN
    name = group or (stream.group.name if stream.group is not None else UNKNOWN_GROUP)
    key = group or (stream.group.uuid if stream.group is not None else UNKNOWN_GROUP)
    return FleetNode(
        env=env,
        group=name if replicated else "",
        group_key=key if replicated else "",
        first_vlsn=facts.first,
        last_vlsn=facts.last,
        last_sync=points[-1].vlsn if len(points) else NULL_VLSN,
        last_commit=commit,
        dtvlsn=next(ends, 0),
        rollbacks=len(facts.rollbacks),
        damages=stream.damages,
        problem=stream.problem,
    )


def rank(nodes: list[FleetNode]) -> list[RankedNode]:
    """Nodes by group, the newest first; nodes without replication last."""
    found: list[RankedNode] = []
    keys = dict.fromkeys(node.group_key for node in nodes if node.is_replicated)
    for key in keys:
        members = [node for node in nodes if node.group_key == key]
        members.sort(key=lambda node: (tuple(-value for value in node.ranking), node.env))
        place = 0
        for index, node in enumerate(members):
            # Equal nodes share a rank, and the following ranks are skipped: 1, 1, 3.
            if not index or node.ranking != members[index - 1].ranking:
                place = index + 1
            found.append(RankedNode(node, place))
    return found + [RankedNode(node, 0) for node in nodes if not node.is_replicated]


def compare_group(streams: Mapping[str, NodeStream]) -> Iterator[NodePair]:
    """Each two nodes of one group.

    Arguments:
        streams: by environment.
    """
    for env, other in combinations(sorted(streams), 2):
        yield NodePair(env, other, compare(streams[env].facts, streams[other].facts))
