"""Comparison of two nodes: where their streams were last the same, and what each has after that.

The comparison uses the facts of a log (``engine.format.stream_facts``), without the log, an index or a feeder. The
matchpoint is the one that syncup would find (R-SYNC-3 to 6): the highest VLSN at which both nodes have the same sync
point. The entries of a node after it are its *surplus*.

=========  ==================================================  =====================================================
relation   what it means                                       what syncup would do
=========  ==================================================  =====================================================
identical  no surplus on either side                           nothing
in-step    after the matchpoint only work in flight            the replica rolls its own back and gets the master's
ahead      only the first node has ended transactions there    as the master: send them; as the replica: give them up
behind     only the second node has                            the same, the other way round
diverged   both have                                           the replica gives its own up
parted     the ranges meet, no sync point is the same          network restore, unless the replica has ended nothing
apart      the ranges do not meet                              network restore
=========  ==================================================  =====================================================

Ended means committed or aborted: undoing unfinished work is harmless (R-SYNC-7); giving up ended transactions is hard
recovery (R-SYNC-20), which has a limit.

Example: A has ``1..8, Commit 9 (txn -20, master 1), 10``, B has ``1..8, Commit 9 (txn -20, master 1), LN 10, Commit 11
(txn -21, master 2)``. Matchpoint 9; surplus of A: VLSN 10, no commit; surplus of B: 10..11, one commit; A is behind.
Entry 10 may be the same on both, but this is not checked: only sync points count.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.stream_facts import StreamFacts, SyncPoint
from engine.format.vlsn import FIRST_VLSN, NULL_VLSN

IDENTICAL: Final = "identical"
IN_STEP: Final = "in-step"
AHEAD: Final = "ahead"
BEHIND: Final = "behind"
DIVERGED: Final = "diverged"
PARTED: Final = "parted"
APART: Final = "apart"


class Surplus(NamedTuple):
    """The entries of a node after a matchpoint.

    Attributes:
        first, last: first and last VLSN of the surplus; NULL_VLSN if the surplus has no VLSN.
        commits, aborts: number of transaction ends in the surplus.
        durable_commits: number of commits that a majority has, as far as the node knows (R-SYNC-5).
        earliest: the first commit or abort after the matchpoint, or None.
    """

    first: int
    last: int
    commits: int
    aborts: int
    durable_commits: int
    earliest: SyncPoint | None

    @property
    def entries(self) -> int:
        """The number of VLSNs."""
        return 0 if self.first == NULL_VLSN else self.last - self.first + 1

    @property
    def ended(self) -> int:
        """The number of transactions that ended in the surplus."""
        return self.commits + self.aborts


NO_SURPLUS: Final = Surplus(NULL_VLSN, NULL_VLSN, 0, 0, 0, None)


class Comparison(NamedTuple):
    """The result of comparing two nodes.

    Attributes:
        relation: from the table above.
        matchpoint, other_matchpoint: the matchpoint, as each of the two logs describes it; None if there is no
            matchpoint.
        surplus, other_surplus: of each node.
    """

    relation: str
    matchpoint: SyncPoint | None
    other_matchpoint: SyncPoint | None
    surplus: Surplus
    other_surplus: Surplus


def compare(one: StreamFacts, other: StreamFacts) -> Comparison:
    """Compare two nodes of a group."""
    found = find_matchpoint(one, other)
    first, second = found if found is not None else (None, None)
    match = NULL_VLSN if first is None else first.vlsn
    surpluses = surplus_after(one, match), surplus_after(other, match)
    return Comparison(_relation(one, other, match, surpluses), first, second, *surpluses)


def find_matchpoint(replica: StreamFacts, feeder: StreamFacts) -> tuple[SyncPoint, SyncPoint] | None:
    """The highest VLSN at which both have the same sync point; symmetric.

    Returns:
        The sync point as each of the two nodes has it, or None.
    """
    # Search backwards from the end, as syncup does.
    for point in reversed(replica.sync_points):
        other = feeder.sync_points.at(point.vlsn)
        if other is not None and point.same_as(other):
            return point, other
        if point.vlsn <= feeder.first:
            break
    return None


def surplus_after(facts: StreamFacts, matchpoint: int) -> Surplus:
    """The entries of a node after a VLSN (NULL_VLSN: all).

    A commit is durable if its VLSN is not above the DTVLSN of the latest commit or abort, or if no DTVLSN is known, as
    with masters before JE 7.2. A commit without records is never counted as durable.
    """
    if facts.last == NULL_VLSN or facts.last <= matchpoint:
        return NO_SURPLUS
    # A Matchpoint entry ends no transaction, so giving it up loses nothing.
    ends = [point for point in facts.sync_points.after(matchpoint) if point.is_txn_end]
    commits = [point for point in ends if point.is_commit]
    # The latest end has the highest DTVLSN.
    dtvlsn = ends[-1].dtvlsn if ends else 0
    durable = sum(point.has_records and (not dtvlsn or point.vlsn <= dtvlsn) for point in commits)
    first = facts.first if matchpoint == NULL_VLSN else max(matchpoint + 1, facts.first)
    return Surplus(first, facts.last, len(commits), len(ends) - len(commits), durable, ends[0] if ends else None)


def _relation(one: StreamFacts, other: StreamFacts, match: int, surpluses: tuple[Surplus, Surplus]) -> str:
    ours, theirs = surpluses
    if match == NULL_VLSN and ours.entries and theirs.entries:
        return PARTED if max(one.first, other.first) <= min(one.last, other.last) else APART
    if match == NULL_VLSN and max(one.first, other.first) > FIRST_VLSN:
        # A node without a stream can only start with the first VLSN.
        return APART
    if ours.ended or theirs.ended:
        return DIVERGED if ours.ended and theirs.ended else AHEAD if ours.ended else BEHIND
    return IN_STEP if ours.entries or theirs.entries else IDENTICAL
