"""Comparing several nodes: where their journals diverge, and which node to start from (fe-journals.md 5).

All nodes of a group have the same journals up to a point. A node that was cut off has fewer. If two nodes were masters
at the same time, their journals differ from some id on, which is called a **fork**. Two journals are equal if operation
and payload are equal. Zero bytes at the end do not count, since another release may have restored a node.

Start from the node whose journals agree with the most nodes; among equals from the one that lacks the fewest ids, then
the one with the highest epoch, then the one with the largest id. An observer is chosen only if there is no other node.
The vendors' procedures for a lost quorum use the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.events import SILENT, Listener, heard
from engine.journals.reader import JournalReader, RawJournal


class NodeJournals(NamedTuple):
    """One node: a name for it, its reader, its first and last id, its highest epoch, whether it may be a master."""

    name: str
    reader: JournalReader
    first: int
    last: int
    epoch: int
    may_lead: bool = True


class DivergencePoint(NamedTuple):
    """Where two nodes part.

    Attributes:
        common: the last id up to which both nodes have the same journals, or None.
        fork: the first id that differs; None if there is no difference.
        missing: the first id in the common range that only one node has; None if there is no such hole.
        lacks: two numbers: how many ids up to the fork only the second node has, and how many only the first node has.
    """

    common: int | None
    fork: int | None
    missing: int | None
    lacks: tuple[int, int]


class NodeStanding(NamedTuple):
    """A node compared with the node to start from.

    Attributes:
        node: index of the node.
        parting: where it diverges from the node to start from.
        behind: number of journals of the node to start from that this node lacks, or has in another version.
        own: number of journals that only this node has, or has in another version.
    """

    node: int
    parting: DivergencePoint
    behind: int
    own: int


class JournalComparison(NamedTuple):
    """Nodes side by side.

    Attributes:
        start: index of the node to start from.
        nodes: every node compared with it, in the given order.
        followers: number of nodes without a fork from it, itself included.
    """

    start: int
    nodes: tuple[NodeStanding, ...]
    followers: int


def compare_nodes(nodes: Sequence[NodeJournals], listener: Listener = SILENT) -> JournalComparison:
    """Compare nodes; the listener receives ``journals`` steps.

    Raises:
        DamageError: a journal cannot be read.
    """
    count = len(nodes)
    partings = {
        (one, other): part(nodes[one], nodes[other], listener)
        for one in range(count)
        for other in range(count)
        if one < other
    }

    def between(one: int, other: int) -> DivergencePoint:
        if one == other:
            return DivergencePoint(nodes[one].last, None, None, (0, 0))
        found = partings[min(one, other), max(one, other)]
        return found if one < other else found._replace(lacks=found.lacks[::-1])

    def followers(one: int) -> int:
        return sum(between(one, other).fork is None for other in range(count))

    def rank(one: int) -> tuple[bool, int, int, int, int]:
        # A frontend's replay stops at a missing id, whatever comes after it.
        holes = sum(between(one, other).lacks[0] for other in range(count))
        return nodes[one].may_lead, followers(one), -holes, nodes[one].epoch, nodes[one].last

    start = max(range(count), key=rank)
    standings = []
    for other in range(count):
        parting = between(start, other)
        # The last id up to which the two nodes were compared.
        base = parting.fork - 1 if parting.fork is not None else min(nodes[start].last, nodes[other].last)
        own, behind = (
            lacks + max(nodes[node].last - max(base, nodes[node].first - 1), 0)
            for lacks, node in zip(parting.lacks, (other, start), strict=True)
        )
        standings.append(NodeStanding(other, parting, behind, own))
    return JournalComparison(start, tuple(standings), followers(start))


def part(one: NodeJournals, other: NodeJournals, listener: Listener = SILENT) -> DivergencePoint:
    """Where two nodes diverge, comparing the journals that both should have in order."""
    first, last = max(one.first, other.first), min(one.last, other.last)
    common = missing = None
    lacks = [0, 0]
    lefts, rights = (
        heard(_in_order(one.reader, first, last), listener, "journals"),
        _in_order(other.reader, first, last),
    )
    left, right = next(lefts, None), next(rights, None)
    while left is not None or right is not None:
        if left is not None and right is not None and left.id == right.id:
            if left.value != right.value and left.value.rstrip(b"\0") != right.value.rstrip(b"\0"):
                return DivergencePoint(common, left.id, missing, (lacks[0], lacks[1]))
            if missing is None:
                common = left.id
            left, right = next(lefts, None), next(rights, None)
            continue
        # Only one node has the lower id; the comparison continues after it.
        if right is None or (left is not None and left.id < right.id):
            assert left is not None
            missing = left.id if missing is None else missing
            lacks[1] += 1
            left = next(lefts, None)
        else:
            missing = right.id if missing is None else missing
            lacks[0] += 1
            right = next(rights, None)
    return DivergencePoint(common, None, missing, (lacks[0], lacks[1]))


def _in_order(reader: JournalReader, first: int, last: int) -> Iterator[RawJournal]:
    """Yield each id once, ascending: where databases overlap, repeated ids are skipped."""
    seen = first - 1
    for _, raw in reader.raw(first, last):
        if raw.id > seen:
            seen = raw.id
            yield raw
