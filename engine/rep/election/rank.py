"""Ranks of nodes: who may stand, and for whom to vote.

A rank is the term of the last entry, the VLSN of the last Commit or Abort, the priority; compared in this order.

* A node votes only for a rank that is not below its own. The master has the votes of a majority, an acknowledged commit
  is on a majority: one node is in both, so the master has every acknowledged commit.
* A node stands only when a majority, itself included, has no master, sees it, and ranks no higher. So a node that was
  cut off does not disturb a master that works, and terms do not climb while nobody can win.
* Of those that see each other the highest rank stands (names break ties), so that votes are not split. When that has
  come to nothing for a while, everybody stands for whom a majority could vote.
* Priority does not count when an operator has named the node.
* Priority 0 never stands, and votes like the others: while such a node alone has the newest commit, nobody is master.
* A new group is made only when every voter is there, and none has anything of a group.

Example, three voters, the master dead: n2 (5, 118, 1) and n3 (5, 120, 1). n3 stands, n2 votes for it: 2 of 3. n2 may
not stand: one vote, its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

# So many election timeouts the highest rank has for itself.
PATIENCE: Final = 4


class Rank(NamedTuple):
    """How new a node's log is."""

    term: int
    vlsn: int
    priority: int


class VoterState(NamedTuple):
    """What a voter tells the others, again and again.

    Attributes:
        term: the highest that it knows.
        led: there is a master that it has heard lately, or it is the master.
        rank: None while it cannot tell.
    """

    term: int
    led: bool
    rank: Rank | None


def may_stand(name: str, mine: Rank | None, others: Mapping[str, VoterState], voters: int, *, patient: bool) -> bool:
    """Whether a node may stand.

    Arguments:
        name, mine: of the node.
        others: of those heard lately.
        voters: how many there are, with this node.
        patient: the highest rank still has time to stand.
    """
    if mine is None:
        return False
    # Whoever has a master gives no vote.
    free = {other: said.rank for other, said in others.items() if not said.led and said.rank is not None}
    if not may_win(mine, list(free.values()), voters, summoned=False):
        return False
    # Names break ties: two nodes of one rank must not split the votes.
    return not patient or all((rank, name) < (mine, other) for other, rank in free.items() if rank.priority)


def ranks_below(mine: Rank, other: Rank, *, summoned: bool) -> bool:
    """Whether another node may have our vote. Priorities do not bind whom an operator wants: ``summoned``."""
    return mine[:2] <= other[:2] if summoned else mine <= other


def may_win(mine: Rank, others: Sequence[Rank], voters: int, *, summoned: bool) -> bool:
    """Whether enough of those that can be reached would vote for a node.

    Arguments:
        mine: its rank.
        others: those of the others, as far as they tell.
        voters: how many there are, with this node.
        summoned: it was told to stand.
    """
    votes = 1 + sum(ranks_below(rank, mine, summoned=summoned) for rank in others)
    # Without any VLSN it would make a new group: only when every voter is there.
    needed = voters // 2 + 1 if mine.vlsn else voters
    return mine.priority > 0 and votes >= needed
