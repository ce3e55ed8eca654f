"""The promises of a member in elections, and notification of results (je-ha-protocol.md 12.2).

The running master promises like any other member, and suggests itself with a ranking above every log: so an election
started by a node that has lost contact with it ends with the same master. Nodes that wait for the result of an election
are notified of the master when its term begins, and every minute.

Example: node 2 starts, finds no master, and sends P; this master answers PR with ranking 9223372036854775806, node 2
sends A for it, then RE to all: the master stays the same, now elected by a later proposal.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Final, NamedTuple

from engine.errors import FormatError, JetoolError
from engine.format.entry.group_db import NODE_TYPES, GroupNode
from engine.format.entry.txn_end import LAST_TERM
from engine.rep.client.call import ask
from engine.rep.client.connection import Address, Network
from engine.rep.group import release_of
from engine.rep.intervals import USUAL_INTERVALS
from engine.rep.master.promises import Promises
from engine.rep.services.caller import Caller
from engine.rep.services.port import Service
from engine.rep.services.questions import NodeFacts, refusal
from engine.rep.wire.election_lines import (
    ACCEPTOR,
    LEARNER,
    Accept,
    AcceptReply,
    MasterAnswer,
    Promise,
    Proposal,
    Propose,
    Reject,
    Result,
    Suggestion,
)
from engine.rep.wire.lines import BAD_FORMAT, Envelope, LineTable, ProtocolErrorReply, TextMessage

_PLACES: Final = 8
# Above every VLSN, and below the ranking of the target of a transfer.
RUNNING_MASTER: Final = (1 << 63) - 2
_NO_ID: Final = -1
# What an arbiter suggests, whose port follows: nothing.
NO_NODE: Final = Suggestion("null", 0, "NullNode", _NO_ID)
_PRIORITY: Final = 1
_MOMENT_S: Final = 0.3
_MACHINE_BITS: Final = 128
_LAST_COUNTER: Final = (1 << 32) - 1
# Node types that are notified of results.
LEARNERS: Final = tuple(map(NODE_TYPES.index, ("electable", "arbiter", "monitor")))


class Vote(NamedTuple):
    """The vote of a node in a promise.

    Attributes:
        suggestion: the node that the voter suggests: itself.
        ranking: how far the log goes: the DTVLSN and the last VLSN.
        priority: decides between equal logs; 0 if it must not be elected.
        node_id: id of the node; -1 for a running master. An arbiter names the master whose commit it acknowledged last.
        term: the term of the last data of the log; None before log version 22, which has no terms.
    """

    suggestion: Suggestion
    ranking: tuple[int, int]
    priority: int
    node_id: int
    term: int | None = None


def running_master(mine: Suggestion, *, has_terms: bool) -> Vote:
    """The vote of a running master: it wins the election against any other node."""
    if has_terms:
        return Vote(mine, (RUNNING_MASTER, RUNNING_MASTER), _PRIORITY, _NO_ID, LAST_TERM)
    return Vote(mine, (RUNNING_MASTER, 0), _PRIORITY, _NO_ID)


def new_proposal(term: int | None = None) -> Proposal:
    """A unique proposal for the current time. It is later than ``term``: its time becomes the term of the winner."""
    return Proposal(max(time.time_ns() // 1_000_000, (term or 0) + 1), secrets.randbits(_MACHINE_BITS), 1)


class Acceptor:
    """The service by name.

    A replica that has promised replays no commit before the election ends: a commit that it acknowledged meanwhile
    would not be in the ranking that it gave. If no result arrives within some seconds, it continues and the promise is
    void.

    Arguments:
        facts: returns the current facts of the node.
        vote: returns the current vote of the node; None while the node has no vote.
        given: called after this node has accepted a proposal.
        promise_s: longest wait for the result after a promise.
        keep: called with each new promise and acceptance, before it is given.

    Attributes:
        services: by name.
        given: the last accepted proposal, and the node that it proposes.
    """

    def __init__(
        self,
        facts: Callable[[], NodeFacts],
        vote: Callable[[], Vote | None],
        given: Callable[[], None] = lambda: None,
        promise_s: float = USUAL_INTERVALS.promise_s,
        keep: Callable[[Promises], None] = lambda _: None,
    ) -> None:
        self._facts = facts
        self._vote = vote
        self._changed = threading.Condition()
        self._promised: Proposal | None = None
        self._accepted: Suggestion | None = None
        self._pending: Proposal | None = None
        self._until = 0.0
        self._gave = given
        self._promise_s = promise_s
        self._keep = keep
        self.given: tuple[Proposal, Suggestion] | None = None
        self.services = {ACCEPTOR.service: Service(self._serve, _PLACES)}

    @contextmanager
    def committing(self) -> Iterator[None]:
        """A block for work that changes the ranking of the log; it waits for a pending election and delays promises."""
        with self._changed:
            while self._pending is not None:
                left = self._until - time.monotonic()
                if left <= 0:
                    # Make the promise void: the proposer could still use it, but the ranking in it is about to change.
                    if self._promised == self._pending:
                        self._promised = _after(self._pending)
                        self._keep(Promises(self._promised, self.given))
                    self._pending = None
                elif not self._changed.wait(left):
                    continue
            yield

    def restore(self, promises: Promises) -> None:
        """Take over what was promised before a restart. What was not accepted since is void: the log may have grown."""
        with self._changed:
            if self._promised is None and promises.promised is not None:
                given = promises.accepted
                used = given is not None and given[0] == promises.promised
                self._promised = promises.promised if used else _after(promises.promised)
                self._accepted, self.given = given[1] if given is not None else None, given

    def ended(self, proposal: Proposal) -> None:
        """Note that the election of a proposal, or a later one, has ended."""
        with self._changed:
            if self._pending is not None and proposal >= self._pending:
                self._pending = None
                self._changed.notify_all()

    def let_go(self) -> None:
        """Wake all waiters."""
        with self._changed:
            self._pending = None
            self._changed.notify_all()

    def _serve(self, caller: Caller) -> None:
        facts = self._facts()
        own = Envelope(ACCEPTOR.version, facts.group, facts.node_id)
        try:
            asked, message = caller.line(ACCEPTOR)
        except FormatError as error:
            caller.say(ACCEPTOR, own, ProtocolErrorReply(problem=BAD_FORMAT, text=f"{error.what}: not understood"))
            return
        refused = refusal(ACCEPTOR, asked, facts)
        said = refused if refused is not None else self.answer(message)
        if said is not None:
            caller.say(ACCEPTOR, own if refused is not None else own._replace(version=asked.version), said)

    def answer(self, message: TextMessage) -> TextMessage | None:
        """The answer to a proposer; None: no answer."""
        said = self._decide(message)
        if isinstance(said, AcceptReply):
            self._gave()
        return said

    def _decide(self, message: TextMessage) -> TextMessage | None:
        log_version = self._facts().log_version
        with self._changed:
            promised = self._promised
            if isinstance(message, Propose):
                if promised is not None and promised > message.proposal:
                    return Reject(proposal=promised)
                vote = self._vote()
                if vote is None:
                    return None
                if vote.term is not None and message.proposal.time_ms <= vote.term < LAST_TERM:
                    # The clock of the proposer is late: its winner would have an earlier term than this log.
                    return Reject(proposal=Proposal(vote.term, (1 << _MACHINE_BITS) - 1, _LAST_COUNTER))
                self._keep(Promises(message.proposal, self.given))
                self._promised = message.proposal
                if vote.ranking[0] < RUNNING_MASTER:
                    self._pending, self._until = message.proposal, time.monotonic() + self._promise_s
                return Promise(
                    proposal=message.proposal,
                    accepted=self._accepted,
                    suggestion=vote.suggestion,
                    major_ranking=vote.ranking[0],
                    priority=vote.priority,
                    log_version=log_version,
                    je_version=release_of(log_version),
                    minor_ranking=vote.ranking[1],
                    node_id=vote.node_id,
                    term=vote.term,
                )
            if isinstance(message, Accept):
                if promised != message.proposal:
                    return Reject(proposal=promised or message.proposal)
                self._keep(Promises(message.proposal, (message.proposal, message.value)))
                self._accepted = message.value
                self.given = message.proposal, message.value
                return AcceptReply(proposal=message.proposal, value=message.value)
        return None


def _after(proposal: Proposal) -> Proposal:
    """The first proposal after a given proposal."""
    if proposal.counter < _LAST_COUNTER:
        return proposal._replace(counter=proposal.counter + 1)
    return Proposal(proposal.time_ms + 1, 0, 0)


def ask_all(
    network: Network,
    table: LineTable,
    group: str,
    message: TextMessage,
    places: Iterable[Address],
    timeout_s: float,
    enough: Callable[[Mapping[Address, TextMessage]], bool] = lambda _: False,
) -> dict[Address, TextMessage]:
    """Send a line to several nodes at the same time; return the answers received.

    Arguments:
        timeout_s: timeout of each step.
        enough: whether these answers suffice; then the others get only a short time.
    """

    def one(place: Address) -> TextMessage | None:
        try:
            answer = ask(network, place, table, group, message, timeout_s)
        except JetoolError:
            return None
        return None if answer is None else answer[1]

    found: dict[Address, TextMessage] = {}
    pool = ThreadPoolExecutor(_PLACES)
    try:
        asked = {pool.submit(one, place): place for place in places}
        left, patience_s = set(asked), None
        while left:
            done, left = wait(left, patience_s, FIRST_COMPLETED)
            if not done:
                break
            found.update({asked[future]: said for future in done if (said := future.result()) is not None})
            if enough(found):
                patience_s = _MOMENT_S
    finally:
        # A suspended node accepts connections and never answers: do not wait for its timeout.
        pool.shutdown(wait=False, cancel_futures=True)
    return found


class Herald:
    """Notifies the members of the master when a term begins, and then repeatedly.

    Arguments:
        network: opens connections to the members.
        group: the name of the group.
        mine: address of this node, which is not notified.
        members: returns the current members of the group.
        elected: returns the current result; None ends the notifications.
        timeout_s: timeout of each step.
        announce_s: pause between two notifications.
    """

    def __init__(
        self,
        network: Network,
        group: str,
        mine: Address,
        members: Callable[[], tuple[GroupNode, ...]],
        elected: Callable[[], MasterAnswer | None],
        timeout_s: float,
        announce_s: float,
    ) -> None:
        self._network = network
        self._group = group
        self._mine = mine
        self._members = members
        self._elected = elected
        self._timeout_s = timeout_s
        self._announce_s = announce_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="herald", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Start no more notifications; those under way are completed."""
        self._over.set()

    def tell(self, result: Result) -> None:
        """Notify all members of a result, the winner first."""
        places = {
            (node.host or "", node.port) for node in self._members() if node.type in LEARNERS and not node.removed
        } - {self._mine}
        winner = (result.value.host, result.value.port)
        for some in ({winner} & places, places - {winner}):
            ask_all(self._network, LEARNER, self._group, result, some, self._timeout_s)

    def _tell(self) -> None:
        while not self._over.is_set() and (elected := self._elected()) is not None:
            self.tell(Result(proposal=elected.proposal, value=elected.value))
            self._over.wait(self._announce_s)
