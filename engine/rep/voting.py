"""What a node and the election of its master ask of each other.

The node owns both protocols; ``engine.rep.election`` is what holds elections, and nothing else knows how.

* The election calls the node from a thread of its own: those calls return at once.
* ``Voter.leave_masters_before`` is what makes a vote safe: when it returns, no acknowledgement leaves the node for a
  master of an earlier term, and no commit of this node is acknowledged as one of an earlier term. Only then the
  position of the log is compared, and the vote sent.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from engine.errors import JetoolError
from engine.rep.frames import Channel
from engine.rep.handshake import Answerer, Hello, Identity
from engine.rep.settings import Address
from engine.rep.terms import Terms


class Position(NamedTuple):
    """How far a node's log goes.

    Attributes:
        last_vlsn, last_txn_end: 0 when there is none.
        may_lead: it is a member of the group, or has nothing of any.
    """

    last_vlsn: int
    last_txn_end: int
    may_lead: bool


class Voter(Protocol):
    """The node, as elections see it."""

    def identity(self) -> Identity:
        """Who it is."""

    def position(self) -> Position | None:
        """How far its log goes; None while it is being rolled back or recovered, and when it cannot be written."""

    def leave_masters_before(self, term: int) -> None:
        """Acknowledge nothing more, and get nothing more acknowledged, in terms before this one."""

    def elected(self, term: int) -> None:
        """It is the master of a term."""

    def deposed(self) -> None:
        """It no longer is."""

    def fail(self, error: Exception) -> None:
        """Elections cannot go on; neither can the node."""


class Election(Protocol):
    """Who is master, as the node sees it."""

    @property
    def term(self) -> int:
        """The highest term known."""

    @property
    def priority(self) -> int:
        """This node's."""

    @property
    def voters(self) -> int:
        """How many nodes vote, this one among them: the number of which commits need a majority."""

    @property
    def leader(self) -> Address | None:
        """Where the master listens, unless it is this node."""

    def start(self) -> None:
        """Begin to vote."""

    def stop(self) -> None:
        """Vote no more."""

    def problem(self) -> JetoolError:
        """Why there is no master."""

    def is_voter(self, node: str) -> bool:
        """Whether a node of this name votes."""

    def answer(self, answerer: Answerer, hello: Hello, channel: Channel) -> None:
        """Hear another voter until it is gone, or turn it away."""

    def begin_term(self, vlsn: int) -> Terms | None:
        """Note durably that this node's term begins at a VLSN; None when it has just lost it."""

    def adopt(self, terms: Terms) -> None:
        """The log is now the beginning of this master's; note its terms durably."""

    def hand_over(self, node: str, timeout_s: float) -> None:
        """Let another node stand, as the master. Raises RefusedError when it was not elected."""

    def stand(self, timeout_s: float) -> None:
        """Stand now, whoever is master. Raises RefusedError when the others vote for somebody else."""
