"""Two nodes side by side: where their streams were last the same, and what each has beyond that.

Works from the facts of a log (``engine.format.stream_facts``) and needs no log, no index and no feeder. The matchpoint
is the one that syncup would find (R-SYNC-3 to 6): the highest VLSN at which both nodes have the same sync point. What a
node has after it is its *surplus*.

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

Ended means committed or aborted: taking back what is still in flight is harmless (R-SYNC-7), giving up ended work is
hard recovery (R-SYNC-20), with a limit.

Example: A has ``1..8, Commit 9 (txn -20, master 1), 10``, B has ``1..8, Commit 9 (txn -20, master 1), LN 10, Commit 11
(txn -21, master 2)``. Matchpoint 9; surplus of A: VLSN 10, no commit; surplus of B: 10..11, one commit; A is behind.
That 10 is the same entry on both is possible and is not looked at: only sync points count.
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
    """What a node has after a matchpoint.

    Attributes:
        first, last: its VLSNs; NULL_VLSN if it has none.
        commits, aborts: ends of transactions among them.
        durable_commits: those of the commits that the node knows to be on a majority (R-SYNC-5).
        earliest: the commit or abort next after the matchpoint, or None.
    """

    first: int
    last: int
    commits: int
    aborts: int
    durable_commits: int
    earliest: SyncPoint | None

    @property
    def entries(self) -> int:
        """How many VLSNs."""
        return 0 if self.first == NULL_VLSN else self.last - self.first + 1

    @property
    def ended(self) -> int:
        """How many transactions ended there."""
        return self.commits + self.aborts


NO_SURPLUS: Final = Surplus(NULL_VLSN, NULL_VLSN, 0, 0, 0, None)


class Comparison(NamedTuple):
    """Two nodes beside each other.

    Attributes:
        relation: from the table above.
        matchpoint, other_matchpoint: the same sync point as each node has it; None without one.
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
        The sync point as each of the two has it, or None.
    """
    # From the end back, as syncup asks.
    for point in reversed(replica.sync_points):
        other = feeder.sync_points.at(point.vlsn)
        if other is not None and point.same_as(other):
            return point, other
        if point.vlsn <= feeder.first:
            break
    return None


def surplus_after(facts: StreamFacts, matchpoint: int) -> Surplus:
    """What a node has after a VLSN (NULL_VLSN: everything).

    A commit is durable when its VLSN is not above the DTVLSN of the latest commit or abort, or when that is not known,
    as with masters before JE 7.2; one that wrote no record never counts.
    """
    if facts.last == NULL_VLSN or facts.last <= matchpoint:
        return NO_SURPLUS
    # A Matchpoint entry ends nothing, so giving it up loses nothing.
    ends = [point for point in facts.sync_points.after(matchpoint) if point.is_txn_end]
    commits = [point for point in ends if point.is_commit]
    # The latest end knows most.
    dtvlsn = ends[-1].dtvlsn if ends else 0
    durable = sum(point.has_records and (not dtvlsn or point.vlsn <= dtvlsn) for point in commits)
    first = facts.first if matchpoint == NULL_VLSN else max(matchpoint + 1, facts.first)
    return Surplus(first, facts.last, len(commits), len(ends) - len(commits), durable, ends[0] if ends else None)


def _relation(one: StreamFacts, other: StreamFacts, match: int, surpluses: tuple[Surplus, Surplus]) -> str:
    ours, theirs = surpluses
    if match == NULL_VLSN and ours.entries and theirs.entries:
        return PARTED if max(one.first, other.first) <= min(one.last, other.last) else APART
    if match == NULL_VLSN and max(one.first, other.first) > FIRST_VLSN:
        # A node without a stream can only begin with the first VLSN.
        return APART
    if ours.ended or theirs.ended:
        return DIVERGED if ours.ended and theirs.ended else AHEAD if ours.ended else BEHIND
    return IN_STEP if ours.entries or theirs.entries else IDENTICAL
