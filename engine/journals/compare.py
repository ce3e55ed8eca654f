"""Several nodes side by side: where their journals part, and which of them to start from (fe-journals.md 5).

All nodes of a group have the same journals up to a point. A node that was cut off has fewer; two that were masters
without knowing of each other have different ones from some id on: a **fork**. A journal is the same when operation and
payload are: zero bytes at the end do not count, since a node may have been restored by another release.

To start from is the node whose journals the most nodes have; of several the one that has seen the most masterships, and
then the one with the largest id; an observer only where there is nobody else. That is the order of the vendors'
procedures for a lost quorum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.journals.reading import JournalReader, RawJournal


class NodeJournals(NamedTuple):
    """One node: a name for it, its reader, its first and last id, its highest epoch, whether it may be a master."""

    name: str
    reader: JournalReader
    first: int
    last: int
    epoch: int
    may_lead: bool = True


class Parting(NamedTuple):
    """Where two nodes part.

    Attributes:
        common: the last id that both have and up to which all is the same; None when there is none.
        fork: the first id that differs; None when one is a beginning of the other.
        missing: the first id that only one of them has, where both should; None without such a hole.
    """

    common: int | None
    fork: int | None
    missing: int | None


class NodeStanding(NamedTuple):
    """One node beside the one to start from.

    Attributes:
        node: which of the nodes.
        parting: where it parts from the node to start from.
        behind: journals that the node to start from has after what both have.
        own: journals that only this node has after that.
    """

    node: int
    parting: Parting
    behind: int
    own: int


class Comparison(NamedTuple):
    """Nodes side by side.

    Attributes:
        start: which of the nodes to start from.
        nodes: every node beside it, in the order in which they were given.
        followers: how many nodes have the beginning of its journals, itself included.
    """

    start: int
    nodes: tuple[NodeStanding, ...]
    followers: int


def compare_nodes(nodes: Sequence[NodeJournals]) -> Comparison:
    """Compare nodes.

    Raises:
        DamageError: a journal cannot be read.
    """
    count = len(nodes)
    partings = {
        (one, other): part(nodes[one], nodes[other]) for one in range(count) for other in range(count) if one < other
    }

    def between(one: int, other: int) -> Parting:
        if one == other:
            return Parting(nodes[one].last, None, None)
        return partings[min(one, other), max(one, other)]

    def followers(one: int) -> int:
        return sum(between(one, other).fork is None for other in range(count))

    def rank(one: int) -> tuple[bool, int, int, int]:
        return nodes[one].may_lead, followers(one), nodes[one].epoch, nodes[one].last

    start = max(range(count), key=rank)
    standings = []
    for other in range(count):
        parting = between(start, other)
        base = parting.common if parting.common is not None else min(nodes[start].first, nodes[other].first) - 1
        standings.append(
            NodeStanding(other, parting, max(nodes[start].last - base, 0), max(nodes[other].last - base, 0))
        )
    return Comparison(start, tuple(standings), followers(start))


def part(one: NodeJournals, other: NodeJournals) -> Parting:
    """Where two nodes part: the journals that both should have, in order."""
    first, last = max(one.first, other.first), min(one.last, other.last)
    common: int | None = None
    rights = _in_order(other.reader, first, last)
    right = next(rights, None)
    for left in _in_order(one.reader, first, last):
        if right is None or left.id != right.id:
            ids = left.id if right is None else min(left.id, right.id)
            return Parting(common, None, ids)
        if left.value != right.value and left.value.rstrip(b"\0") != right.value.rstrip(b"\0"):
            return Parting(common, left.id, None)
        common = left.id
        right = next(rights, None)
    return Parting(common, None, None if right is None else right.id)


def _in_order(reader: JournalReader, first: int, last: int) -> Iterator[RawJournal]:
    """Each id once, ascending: where databases overlap, ids that were passed are left out."""
    seen = first - 1
    for _, raw in reader.raw(first, last):
        if raw.id > seen:
            seen = raw.id
            yield raw
