"""Short questions to a node of a group about the master, the members and its own state (je-ha-protocol.md 12, 13).

``Learner``, ``Group``, ``NodeState`` and ``BinaryNodeState`` (DbPing, ``group show``). The questions change nothing;
requests that only a master can execute are refused, as JE's replicas do.

* The Learner names the master only while this node is the master or follows it. A node without a vote ignores election
  results, which any process could send. Requests to stop elections are always ignored.
* A line in a lower version of the protocol is answered in that version. A line in a higher version, of another group,
  from a sender that is not a member, or malformed, is answered by an error with the node's own version, group and id.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.versions import WRITTEN_VERSION
from engine.rep.client.handshake import NEW_NODE
from engine.rep.group import release_of
from engine.rep.services.caller import Caller
from engine.rep.services.port import Service
from engine.rep.wire.election_lines import LEARNER, MasterAnswer, MasterQuery, Result
from engine.rep.wire.group_lines import (
    GROUP,
    STATE,
    GroupFailure,
    GroupRequest,
    GroupResponse,
    Members,
    StateRequest,
    StateResponse,
)
from engine.rep.wire.lines import (
    BAD_FORMAT,
    GROUP_MISMATCH,
    NO_CHECK,
    NOT_A_MEMBER,
    VERSION_MISMATCH,
    Envelope,
    LineTable,
    ProtocolErrorReply,
    TextMessage,
)
from engine.rep.wire.node_state import NODE_STATE, VERSION, NodeStateError, NodeStateRequest, NodeStateResponse

_PLACES: Final = 16
_ACTIVE: Final = ("MASTER", "REPLICA")
_IS_REPLICA: Final = "IS_REPLICA"
_FORMAT_2: Final = 2
_OLD_GROUP: Final = "3"


class NodeFacts(NamedTuple):
    """The state that a node reports.

    Attributes:
        node_id: id of the node in the group; -1 while it has no id.
        master: the name of the master that the node follows or last followed, or its own name; empty if there is no
            master.
        elected: the election result for that master; None if unknown.
        state: MASTER, REPLICA, or UNKNOWN while it has no master.
        joined_ms: when it joined.
        commit_vlsn, master_commit_vlsn: the last transaction end, here and on the master; the latter is 0 on the
            master.
        feeders: number of replicas that the node feeds.
        members: the members in its own copy of the group database.
        log_version: version of its log.
        knows_all: whether ``members`` has everyone; otherwise senders that are not in it are answered too.
    """

    group: str
    node: str
    master: str
    state: str
    joined_ms: int
    commit_vlsn: int
    master_commit_vlsn: int
    members: Members | None
    node_id: int = NEW_NODE
    elected: MasterAnswer | None = None
    feeders: int = 0
    log_version: int = WRITTEN_VERSION
    knows_all: bool = True


class Questions:
    """The services.

    Arguments:
        facts: returns the current facts of the node.
        heard: called with election results; None: results are ignored.
        change: handles requests that only a master can do; None: such requests are refused.

    Attributes:
        services: by name.
    """

    def __init__(
        self,
        facts: Callable[[], NodeFacts],
        heard: Callable[[Result], None] = lambda _: None,
        change: Callable[[TextMessage], TextMessage] | None = None,
    ) -> None:
        self._facts = facts
        self._heard = heard
        self._change = change
        self.services = {NODE_STATE.service: Service(self._tell_state, _PLACES)}
        for table in (LEARNER, GROUP, STATE):
            self.services[table.service] = Service(self._of(table), _PLACES)

    def _of(self, table: LineTable) -> Callable[[Caller], None]:
        return lambda caller: self._tell(caller, table)

    def _tell_state(self, caller: Caller) -> None:
        request = caller.receive(NODE_STATE, VERSION, NodeStateRequest)
        caller.send(NODE_STATE, VERSION, self._state(request))

    def _state(self, request: NodeStateRequest) -> NodeStateResponse | NodeStateError:
        facts = self._facts()
        if (request.node, request.group) != (facts.node, facts.group) or not facts.master:
            return NodeStateError(text="another node, another group, or no master yet")
        return NodeStateResponse(
            node=facts.node,
            group=facts.group,
            master=facts.master,
            je_version=release_of(facts.log_version),
            joined_ms=facts.joined_ms,
            state=facts.state,
            commit_vlsn=facts.commit_vlsn,
            master_commit_vlsn=facts.master_commit_vlsn,
            feeders=facts.feeders,
            log_version=facts.log_version,
            app_state=b"",
            load=f"{os.getloadavg()[0]:.2f}",
        )

    def _tell(self, caller: Caller, table: LineTable) -> None:
        facts = self._facts()
        try:
            asked, message = caller.line(table)
        except FormatError as error:
            complaint = ProtocolErrorReply(problem=BAD_FORMAT, text=f"{error.what}: not understood")
            caller.say(table, Envelope(table.version, facts.group, facts.node_id), complaint)
            return
        said = refusal(table, asked, facts)
        if said is not None:
            caller.say(table, Envelope(table.version, facts.group, facts.node_id), said)
            return
        answer = self._answer(asked, message, facts)
        if answer is not None:
            caller.say(table, Envelope(asked.version, facts.group, NO_CHECK), answer)

    def _answer(self, asked: Envelope, message: TextMessage, facts: NodeFacts) -> TextMessage | None:
        """None closes the connection without an answer, as a node of JE does if it has no answer to give."""
        if isinstance(message, Result):
            self._heard(message)
            return None
        if isinstance(message, MasterQuery):
            return facts.elected if facts.state in _ACTIVE else None
        if isinstance(message, StateRequest):
            if not facts.master:
                return None
            return StateResponse(node=facts.node, master=facts.master, joined_ms=facts.joined_ms, state=facts.state)
        if isinstance(message, GroupRequest):
            if facts.members is None:
                return GroupFailure(text="no group info yet", reason="DEFAULT")
            return GroupResponse(members=_in_format(facts.members, asked.version))
        if type(message) in _CHANGES:
            if facts.state == "MASTER" and self._change is not None:
                return self._change(message)
            return GroupFailure(text="this can be done at the master only", reason=_IS_REPLICA)
        return None


_CHANGES: Final = {kind for kind, client in GROUP.classes() if client} - {GroupRequest}


def refusal(table: LineTable, asked: Envelope, facts: NodeFacts) -> ProtocolErrorReply | None:
    """The fault of a sender, tested in JE's order; None without a fault."""
    if float(asked.version) > float(table.version):
        return ProtocolErrorReply(problem=VERSION_MISMATCH, text=f"This node speaks version {table.version}")
    if asked.group != facts.group:
        return ProtocolErrorReply(problem=GROUP_MISMATCH, text=f"Group name mismatch; this group name: {facts.group}")
    ids = {node.id for node in facts.members.nodes if not node.removed} if facts.members is not None else set()
    if ids and facts.knows_all and asked.sender not in (ids | {NO_CHECK, facts.node_id}):
        return ProtocolErrorReply(problem=NOT_A_MEMBER, text=f"There is no member of id {asked.sender}")
    return None


def _in_format(members: Members, version: str) -> Members:
    """The records in the form for senders of an earlier version."""
    if float(version) > float(_OLD_GROUP) or members.group.format_version <= _FORMAT_2:
        return members
    return Members(
        members.group._replace(format_version=_FORMAT_2, min_je_version=None),
        tuple(node._replace(format_version=_FORMAT_2, je_version=None) for node in members.nodes),
    )
