"""Elections, for a member that can lead, and for an arbiter (je-ha-protocol.md 12.2).

A node without a master sends a proposal to all electable members and the arbiter. If a majority promises, the member
with the latest log among them is suggested to all of them. If a majority accepts it, all members are notified that it
is the master. A running master counts as having the latest log. Logs are compared as JE compares them: DTVLSN, last
VLSN, priority, address. Since log version 22 the term of the last Commit or Abort replaces the DTVLSN; if any answer
has no term, as during an upgrade of the group, all are compared by DTVLSN.

An arbiter is never suggested. Its answer shows the last commit that it acknowledged in place of a data node. A log that
ends earlier does not win, unless its node is the master that logged this commit, or all data nodes have promised.

Elections here are stricter than JE's in four points, so that jetool loses no acknowledged commit:

* If a node with priority 0 has the latest log, no node is elected: neither this node nor a node with an earlier log.
* Only members whose promises counted are asked to accept; the logs of others may have grown.
* A replica that has accepted another node as master acknowledges nothing more to the old master, unless the old master
  is elected again.
* JE ignores an arbiter as soon as two data nodes promise, even if the group has a third one.

Example: n2 loses n1 and proposes; n2 answers (40, 44), n3 (40, 47): n3 is suggested, and both accept it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from engine.errors import plural
from engine.format.entry.group_db import GroupNode
from engine.format.entry.txn_end import PRE_TERM
from engine.format.vlsn import NULL_VLSN
from engine.rep.client.connection import Address, Network
from engine.rep.group import ELECTABLE, VOTERS, Membership
from engine.rep.master.election import LEARNERS, NO_NODE, RUNNING_MASTER, Acceptor, Vote, ask_all, new_proposal
from engine.rep.master.promises import Promises
from engine.rep.member.config import JoinConfig
from engine.rep.peers import DisconnectedError
from engine.rep.services.questions import NodeFacts
from engine.rep.wire.election_lines import (
    ACCEPTOR,
    LEARNER,
    Accept,
    AcceptReply,
    MasterAnswer,
    MasterQuery,
    Promise,
    Propose,
    Result,
    Suggestion,
)
from engine.rep.wire.lines import TextMessage

# Time for the winner to accept connections before another election is held.
_WINNER_S: Final = 8.0
# Longest time that a hanging node delays an election.
_STEP_S: Final = 3.0
_FIRST_ID: Final = 1


class Voter:
    """The part of an electable member in elections.

    Arguments:
        config: how the node joins.
        network: opens connections to the other members. facts, vote: return the current facts and vote of the node.
        turned: called when a node other than the previous one was elected.
        keep: called with each promise, before it is given.

    Attributes:
        elected: the result of the last election known to this node.
        acceptor: the promises and the vote of this node.
    """

    def __init__(
        self,
        config: JoinConfig,
        network: Network,
        facts: Callable[[], NodeFacts],
        vote: Callable[[], Vote | None],
        turned: Callable[[], None],
        keep: Callable[[Promises], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._network = network
        self._turned = turned
        self._vote = vote
        self._mutex = threading.Lock()
        self._heard_at = -_WINNER_S
        self._step_s = min(config.timeout_s, _STEP_S)
        self.acceptor = Acceptor(facts, vote, given=turned, promise_s=config.intervals.promise_s, keep=keep)
        self.elected: MasterAnswer | None = None

    @property
    def is_master(self) -> bool:
        """Whether this node was elected last, and has accepted no other node since."""
        return self.is_elected(self._config.name)

    @property
    def elected_ms(self) -> int:
        """The time of the proposal that elected the master, which is the term of the master; 0 if unknown."""
        return self.elected.proposal.time_ms if self.elected is not None else 0

    def is_elected(self, node: str) -> bool:
        """Whether a node was elected last, and no other was accepted since."""
        elected, given = self.elected, self.acceptor.given
        if elected is None or elected.value.node != node:
            return False
        return given is None or given[1].node == node or given[0] < elected.proposal

    def heard(self, result: Result) -> None:
        """The result of an election."""
        if self.learned(MasterAnswer(proposal=result.proposal, value=result.value)):
            self._heard_at = time.monotonic()
            self._turned()
        # Replay may continue from here on; by now a replaced master is no longer followed.
        self.acceptor.ended(result.proposal)

    def has_met_master(self) -> None:
        """Note that the winner leads: if it disappears, another election may be held at once."""
        self._heard_at = -_WINNER_S

    def learned(self, answer: MasterAnswer) -> bool:
        """Take the master named by a node; return whether it is new."""
        with self._mutex:
            if self.elected is not None and answer.proposal <= self.elected.proposal:
                return False
            self.elected = answer
        return True

    def follows(self, master: str) -> bool:
        """Whether nothing known contradicts a master."""
        return self.is_elected(master) or (self.elected is None and self.acceptor.given is None)

    def awaits_result(self, master: str) -> bool:
        """Whether another node was accepted here after the election of a master, and no result is known."""
        elected = self.elected
        return elected is not None and elected.value.node == master and not self.is_elected(master)

    def check(self, master: str) -> None:
        """Refuse to continue with a master after another node was elected, or accepted here.

        Raises:
            DisconnectedError: another node was elected or accepted.
        """
        if not self.follows(master):
            raise DisconnectedError(f"{master} is not known to be the master any more")

    def ask_around(self, group: str, members: Membership) -> None:
        """Ask the other members who the master is."""
        places = [
            (node.host or "", node.port)
            for node in members.nodes
            if node.type in VOTERS and not node.removed and node.name != self._config.name
        ]
        for said in ask_all(self._network, LEARNER, group, MasterQuery(), places, self._step_s).values():
            if isinstance(said, MasterAnswer):
                self.heard(Result(proposal=said.proposal, value=said.value))

    def elect(self, members: Membership, mine: GroupNode, *, unelected: bool = False) -> None:
        """Hold an election, unless one was just held; all members are notified of its result, this node last.

        Arguments:
            unelected: this node wins even if too few members answer, unless an answer shows a later log.

        Raises:
            DisconnectedError: the election had no result; another election may follow.
        """
        elected = self.elected
        if elected is not None and time.monotonic() < self._heard_at + _WINNER_S and not self.is_master:
            raise DisconnectedError(f"{elected.value.node} was elected, and does not lead yet")
        others = {
            (node.host or "", node.port): node
            for node in members.nodes
            if node.type in LEARNERS and not node.removed and node.name != mine.name
        }
        voters = [place for place, node in others.items() if node.type in VOTERS]
        size, group = len(voters) + 1, members.group.name or ""
        vote = self._vote()
        proposal = new_proposal(vote.term if vote is not None and vote.ranking[0] < RUNNING_MASTER else None)

        def ask(message: TextMessage, places: list[Address], kind: type[TextMessage]) -> dict[Address, TextMessage]:
            def is_majority(found: Mapping[Address, TextMessage]) -> bool:
                return 2 * (1 + sum(isinstance(said, kind) for said in found.values())) > size

            said = ask_all(self._network, ACCEPTOR, group, message, places, self._step_s, is_majority)
            # This node answers last: its answer takes no time, and its log may grow while the others answer.
            own = self.acceptor.answer(message)
            found = {**said, **({self._config.listen: own} if own is not None else {})}
            return {place: said for place, said in found.items() if isinstance(said, kind)}

        promises = ask(Propose(proposal=proposal), voters, Promise)
        too_few = 2 * len(promises) <= size
        if too_few and not (unelected and promises):
            raise _too_few("promise a vote", size, len(promises))
        data_nodes = sum(node.type == ELECTABLE for node in (mine, *others.values()))
        winner = _best([said for said in promises.values() if isinstance(said, Promise)], data_nodes)
        if too_few and winner.node != mine.name:
            raise _too_few(f"promise a vote, and the log of {winner.node} is later", size, len(promises))
        accepting = [place for place in promises if place != self._config.listen]
        accepted = ask(Accept(proposal=proposal, value=winner), accepting, AcceptReply)
        if 2 * len(accepted) <= size and not too_few:
            raise _too_few(f"accept {winner.node}", size, len(accepted))
        result = Result(proposal=proposal, value=winner)
        first = {(winner.host, winner.port)} & others.keys()
        for places in (first, others.keys() - first):
            ask_all(self._network, LEARNER, group, result, places, self._step_s)
        self.heard(result)


def _best(promises: list[Promise], data_nodes: int) -> Suggestion:
    """The suggestion of the node with the latest log.

    Arguments:
        data_nodes: number of electable members, which have a log.

    Raises:
        DisconnectedError: that node must not be elected, or an arbiter knows a later commit.
    """
    logs = [promise for promise in promises if not _is_arbiter(promise)]
    has_terms = _have_terms(logs)
    latest = max((_ranking(promise, has_terms) for promise in logs), default=None)
    best = [promise for promise in logs if _ranking(promise, has_terms) == latest]
    fit = [
        promise
        for promise in best
        if (promise.major_ranking or 0) >= RUNNING_MASTER
        or (promise.priority > 0 and promise.suggestion.id >= _FIRST_ID)
    ]
    if not fit:
        raise DisconnectedError(
            "the latest log is that of a node that is not to be elected",
            expected="a priority of 1 or more",
            found=", ".join(sorted(promise.suggestion.node for promise in best)) or "an arbiter alone",
            consequence="there is no master until another node has an equally late log",
        )
    if len(logs) < data_nodes:
        for arbiter in filter(_is_arbiter, promises):
            # The master that logged what the arbiter has acknowledged had it in its log first.
            fit = [promise for promise in fit if arbiter.node_id == promise.suggestion.id or _reaches(promise, arbiter)]
            if not fit:
                raise DisconnectedError(
                    "the arbiter has acknowledged a later commit than any log that was found has",
                    expected=f"VLSN {arbiter.minor_ranking}",
                    found=f"VLSN {best[0].minor_ranking}",
                    consequence="there is no master until the node that has the commit is back",
                )
    return max(fit, key=lambda promise: (promise.priority, promise.suggestion.host, promise.suggestion.port)).suggestion


def _is_arbiter(promise: Promise) -> bool:
    return (promise.suggestion.node, promise.suggestion.id) == (NO_NODE.node, NO_NODE.id)


def _reaches(promise: Promise, arbiter: Promise) -> bool:
    """Whether a log goes as far as the last commit that an arbiter has acknowledged."""
    has_terms = _have_terms([promise, arbiter])
    return _ranking(promise, has_terms) >= _ranking(arbiter, has_terms)


def _have_terms(promises: list[Promise]) -> bool:
    return all((promise.term or 0) > PRE_TERM for promise in promises)


def _ranking(promise: Promise, has_terms: bool) -> tuple[int, int]:
    major = promise.term if has_terms else promise.major_ranking
    return major if major is not None else NULL_VLSN, promise.minor_ranking


def _too_few(verb: str, size: int, found: int) -> DisconnectedError:
    return DisconnectedError(
        f"too few members {verb}",
        expected=f"more than half of {plural(size, 'voting member')}",
        found=str(found),
        hint="start the others; where they are lost for good, jetool node run --lead --force leads without them",
    )
