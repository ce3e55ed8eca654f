"""What a running master says in elections, and to those that do not know it (je-ha-protocol.md 12.2).

A member that has lost sight of the master proposes a new one to all members. The running master promises like any other
one, and suggests itself with a ranking above every log: so the election ends with the same master. Who waits for the
result of an election hears of the master when its term begins, and again every minute.

Example: node 2 starts, finds nobody, and sends P; this master answers PR with ranking 9223372036854775806, node 2 sends
A for it, then RE to all: the master is the same, by a later proposal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from engine.errors import FormatError, JetoolError
from engine.format.entry.group_db import NODE_TYPES, GroupNode
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
_LEARNERS: Final = tuple(map(NODE_TYPES.index, ("electable", "monitor")))


class Acceptor:
    """The service of that name, of a running master.

    Arguments:
        facts: of the node, at the moment.
        mine: this node, as a suggestion.

    Attributes:
        services: by name.
    """

    def __init__(self, facts: Callable[[], NodeFacts], mine: Suggestion) -> None:
        self._facts = facts
        self._mine = mine
        self._mutex = threading.Lock()
        self._promised: Proposal | None = None
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


class Herald:
    """Tells the members who the master is, when a term begins and again and again.

    Arguments:
        network: how to get to them.
        members: of the group, at the moment.
        elected: what to tell, at the moment; None ends it.
        timeout_s: the longest that each step may take.
    """

    def __init__(
        self,
        network: Network,
        group: str,
        members: Callable[[], tuple[GroupNode, ...]],
        elected: Callable[[], MasterAnswer | None],
        timeout_s: float,
    ) -> None:
        self._network = network
        self._group = group
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

    def _tell(self) -> None:
        while not self._over.is_set() and (elected := self._elected()) is not None:
            mine = (elected.value.host, elected.value.port)
            for node in self._members():
                place = (node.host or "", node.port)
                if node.type in _LEARNERS and not node.removed and place != mine and not self._over.is_set():
                    self._tell_one(place, Result(proposal=elected.proposal, value=elected.value))
            self._over.wait(_AGAIN_S)

    def _tell_one(self, place: Address, result: Result) -> None:
        try:
            ask(self._network, place, LEARNER, self._group, result, self._timeout_s)
        except JetoolError:
            # It is not there; it will ask when it comes.
            return
