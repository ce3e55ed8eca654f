"""Elections, for a node that leads: it is elected before it does, and stays so (je-ha-protocol.md 12.2).

Whoever shall lead members that vote proposes itself to them: a majority has to promise that it takes no earlier
proposal, and none of these may have a later log; then a majority has to accept it. So two nodes that become master at
the same time cannot both be followed by a majority. It proposes nobody else: where another log is later, that node, or
any other one but this, has to stand.

A member that has lost sight of the master proposes a new one to all members. The running master promises like any other
one, and suggests itself with a ranking above every log: so the election ends with the same master. Who waits for the
result of an election hears of the master when its term begins, and again every minute.

Example: node 2 starts, finds nobody, and sends P; this master answers PR with ranking 9223372036854775806, node 2 sends
A for it, then RE to all: the master is the same, by a later proposal.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from engine.errors import FormatError, JetoolError, RefusedError, plural
from engine.format.entry.group_db import NODE_TYPES, GroupNode
from engine.format.vlsn import NULL_VLSN
from engine.rep.client.call import ask
from engine.rep.client.connection import Address, Network
from engine.rep.client.handshake import LOG_VERSION, RELEASE
from engine.rep.serving.caller import Caller
from engine.rep.serving.port import Service
from engine.rep.serving.questions import NodeFacts, refusal
from engine.rep.wire.election_lines import (
    ACCEPTOR,
    LEARNER,
    Accept,
    Accepted,
    MasterAnswer,
    Promise,
    Proposal,
    Propose,
    Reject,
    Result,
    Suggestion,
)
from engine.rep.wire.lines import BAD_FORMAT, Envelope, Refused, TextMessage

_PLACES: Final = 8
# Above every VLSN, and below that of the target of a transfer.
_RUNNING_MASTER: Final = (1 << 63) - 2
_NO_ID: Final = -1
_PRIORITY: Final = 1
_AGAIN_S: Final = 60.0
_ROUNDS: Final = 3
_PAUSE_S: Final = 1.0
_MACHINE_BITS: Final = 128
_NOTHING_CHANGED: Final = "it does not lead; nothing was changed"
_LEARNERS: Final = tuple(map(NODE_TYPES.index, ("electable", "monitor")))


def new_proposal() -> Proposal:
    """A proposal of this moment, which no other node makes."""
    return Proposal(time.time_ns() // 1_000_000, secrets.randbits(_MACHINE_BITS), 1)


class Acceptor:
    """The service of that name, of a running master.

    Arguments:
        facts: of the node, at the moment.
        mine: this node, as a suggestion.
        elected: by which proposal it was.

    Attributes:
        services: by name.
    """

    def __init__(self, facts: Callable[[], NodeFacts], mine: Suggestion, elected: Proposal | None = None) -> None:
        self._facts = facts
        self._mine = mine
        self._mutex = threading.Lock()
        self._promised = elected
        # As if it had been elected, which its term is.
        self._accepted = mine
        self.services = {ACCEPTOR.service: Service(self._serve, _PLACES)}

    def _serve(self, caller: Caller) -> None:
        facts = self._facts()
        own = Envelope(ACCEPTOR.version, facts.group, facts.node_id)
        try:
            asked, message = caller.line(ACCEPTOR)
        except FormatError as error:
            caller.say(ACCEPTOR, own, Refused(problem=BAD_FORMAT, text=f"{error.what}: not understood"))
            return
        refused = refusal(ACCEPTOR, asked, facts)
        said = refused if refused is not None else self._answer(message)
        if said is not None:
            caller.say(ACCEPTOR, own if refused is not None else own._replace(version=asked.version), said)

    def _answer(self, message: TextMessage) -> TextMessage | None:
        with self._mutex:
            promised = self._promised
            if isinstance(message, Propose):
                if promised is not None and promised > message.proposal:
                    return Reject(proposal=promised)
                self._promised = message.proposal
                return Promise(
                    proposal=message.proposal,
                    accepted=self._accepted,
                    suggestion=self._mine,
                    major_ranking=_RUNNING_MASTER,
                    priority=_PRIORITY,
                    log_version=LOG_VERSION,
                    je_version=RELEASE,
                    minor_ranking=0,
                    node_id=_NO_ID,
                )
            if isinstance(message, Accept):
                if promised != message.proposal:
                    return Reject(proposal=promised or message.proposal)
                self._accepted = message.value
                return Accepted(proposal=message.proposal, value=message.value)
        return None


class Standing(NamedTuple):
    """A node that stands for election.

    Attributes:
        group: its name.
        mine: the node.
        ranking: the DTVLSN of its log, and its last Commit or Abort.
        voters: where the other electable members are.
    """

    group: str
    mine: Suggestion
    ranking: tuple[int, int]
    voters: tuple[Address, ...]


def stand(network: Network, standing: Standing, timeout_s: float, where: str) -> Proposal:
    """Be elected by a majority.

    Arguments:
        timeout_s: the longest that each step may take.
        where: the environment, for errors.

    Raises:
        TooFewVotersError: no majority answers. RefusedError: another node is master, has a later log, or is about to be
            elected.
    """
    for _ in range(_ROUNDS):
        proposal = new_proposal()
        answers = _ask_all(network, standing, Propose(proposal=proposal), timeout_s)
        promises = [said for said in answers if isinstance(said, Promise) and said.proposal == proposal]
        for promise in promises:
            _compare(standing, promise, where)
        if _is_majority(standing, len(promises)):
            answers = _ask_all(network, standing, Accept(proposal=proposal, value=standing.mine), timeout_s)
            if _is_majority(standing, sum(isinstance(said, Accepted) for said in answers)):
                return proposal
        elif not any(isinstance(said, Reject) for said in answers):
            raise TooFewVotersError(
                "too few members answer to be elected by a majority", file=where,
                expected=f"more than half of {plural(len(standing.voters) + 1, 'electable member')}, this one included",
                found=str(len(promises) + 1), consequence=_NOTHING_CHANGED,
                hint="start the others; or, where they are lost for good, add --force",
            )  # fmt: skip
        # Somebody else has proposed later: his election ends first.
        time.sleep(_PAUSE_S)
    raise RefusedError(
        "the members are electing another master", file=where, consequence=_NOTHING_CHANGED,
        hint="jetool group show names it",
    )  # fmt: skip


class TooFewVotersError(RefusedError):
    """No majority of the electable members answers."""


def _ask_all(
    network: Network, standing: Standing, message: TextMessage, timeout_s: float
) -> list[TextMessage | None]:  # fmt: skip
    def one(place: Address) -> TextMessage | None:
        try:
            answer = ask(network, place, ACCEPTOR, standing.group, message, timeout_s)
        except JetoolError:
            return None
        return None if answer is None else answer[1]

    with ThreadPoolExecutor(_PLACES) as pool:
        return list(pool.map(one, standing.voters))


def _is_majority(standing: Standing, others: int) -> bool:
    return 2 * (others + 1) > len(standing.voters) + 1


def _compare(standing: Standing, promise: Promise, where: str) -> None:
    theirs = promise.major_ranking if promise.major_ranking is not None else NULL_VLSN, promise.minor_ranking
    if theirs[0] >= _RUNNING_MASTER:
        raise RefusedError(
            f"{promise.suggestion.node} is the master of the group", file=where, consequence=_NOTHING_CHANGED,
            hint="jetool node run --join follows it under another name",
        )  # fmt: skip
    if theirs > standing.ranking:
        raise RefusedError(
            f"the log of {promise.suggestion.node} is later", file=where,
            expected=f"none after VLSN {standing.ranking[1]}", found=f"VLSN {theirs[1]}", consequence=_NOTHING_CHANGED,
            hint="start the other electable nodes; a majority of them elects the master",
        )  # fmt: skip


class Herald:
    """Tells the members who the master is, when a term begins and again and again.

    Arguments:
        network: how to get to them.
        group: its name.
        mine: where this node is, which is not told.
        members: of the group, at the moment.
        elected: what to tell, at the moment; None ends it.
        timeout_s: the longest that each step may take.
    """

    def __init__(
        self,
        network: Network,
        group: str,
        mine: Address,
        members: Callable[[], tuple[GroupNode, ...]],
        elected: Callable[[], MasterAnswer | None],
        timeout_s: float,
    ) -> None:
        self._network = network
        self._group = group
        self._mine = mine
        self._members = members
        self._elected = elected
        self._timeout_s = timeout_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="herald", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Tell nobody any more; who is being told now is told to the end."""
        self._over.set()

    def tell(self, result: Result) -> None:
        """Tell all members a result, the winner first."""
        places = [
            (node.host or "", node.port) for node in self._members() if node.type in _LEARNERS and not node.removed
        ]
        winner = (result.value.host, result.value.port)
        for place in sorted(places, key=lambda one: one != winner):
            if place != self._mine:
                self._tell_one(place, result)

    def _tell(self) -> None:
        while not self._over.is_set() and (elected := self._elected()) is not None:
            self.tell(Result(proposal=elected.proposal, value=elected.value))
            self._over.wait(_AGAIN_S)

    def _tell_one(self, place: Address, result: Result) -> None:
        try:
            ask(self._network, place, LEARNER, self._group, result, self._timeout_s)
        except JetoolError:
            # It is not there; it will ask when it comes.
            return
