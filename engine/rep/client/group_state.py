"""Finds the members of a group, its master, and the position of each node (je-ha-protocol.md sections 12 and 13).

Read-only: It uses NodeState for the name of a node and of its group, Group for the members, BinaryNodeState of all
members at the same time, and Learner if no member claims to be the master. No request waits for another request, and
nodes that do not answer are part of the result.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from engine.errors import FormatError, NotFoundError, RefusedError, UsageError
from engine.format.entry.group_db import NODE_TYPES, GroupNode
from engine.rep.client.call import AnswerError, Call, TurnedAwayError, ask
from engine.rep.client.connection import Address, Network
from engine.rep.peers import DisconnectedError, PeerError, address_text
from engine.rep.wire.election_lines import LEARNER, MasterAnswer, MasterQuery
from engine.rep.wire.group_lines import GROUP, STATE, GroupRequest, GroupResponse, Members, StateRequest, StateResponse
from engine.rep.wire.lines import GROUP_MISMATCH, ProtocolErrorReply
from engine.rep.wire.node_state import NODE_STATE, VERSION, NodeStateError, NodeStateRequest, NodeStateResponse

MASTER: Final = "MASTER"
UNKNOWN: Final = "UNKNOWN"
# A group without members: nodes answer with their own group.
_UNNAMED: Final = "?"
_MOST_AT_ONCE: Final = 16
_CHECK_ADDRESSES: Final = "check the addresses; are they nodes of JE? Nodes that use TLS need --tls-ca"
# Every listed node is called, so the length of the list must be limited. Groups have a handful of nodes.
_MOST_NODES: Final = 256
# A monitor lacks this service, and an external node need not listen at its address.
_ARBITER: Final = NODE_TYPES.index("arbiter")
_SILENT: Final = frozenset(map(NODE_TYPES.index, ("monitor", "external")))


class NodeLook(NamedTuple):
    """One node.

    Attributes:
        member: record of the node in the group; None if it is not a stored member.
        said: the node's own answer; None if it gave no answer.
        problem: why the node gave no answer; else empty.
    """

    name: str
    address: Address
    member: GroupNode | None
    said: NodeStateResponse | None
    problem: str = ""

    @property
    def state(self) -> str | None:
        """MASTER, REPLICA, UNKNOWN or DETACHED, as reported by the node."""
        return None if self.said is None else self.said.state

    @property
    def load(self) -> float | None:
        """The load of the node's machine; None if unknown."""
        try:
            load = float(self.said.load) if self.said is not None else -1.0
        except ValueError:
            return None
        return load if math.isfinite(load) and load >= 0 else None


class GroupLook(NamedTuple):
    """A group according to its nodes.

    Attributes:
        members: the records of the first node that answered.
        nodes: every member that is not removed, and every other node that was called.
        elected: the master according to the Learner of a node, used if no node claims to be master; else empty.
    """

    group: str
    members: Members
    nodes: tuple[NodeLook, ...]
    elected: str

    @property
    def masters(self) -> tuple[NodeLook, ...]:
        """Nodes that claim to be the master."""
        return tuple(node for node in self.nodes if node.state == MASTER)

    @property
    def master_address(self) -> Address | None:
        """Address of the master: if several nodes claim it, the one that most nodes follow."""
        votes = Counter(node.said.master for node in self.nodes if node.said is not None and node.said.master)
        if self.masters:
            return max(self.masters, key=lambda node: votes[node.name]).address
        return next((node.address for node in self.nodes if node.name == self.elected), None)

    @property
    def master(self) -> str | None:
        """The name of the master; if several nodes claim it, the first."""
        return self.masters[0].name if self.masters else self.elected or None

    def lag(self, node: NodeLook) -> int | None:
        """Number of VLSNs by which a node's last transaction end is behind the master's; an arbiter is never behind."""
        if node.said is None or (node.member is not None and node.member.type == _ARBITER):
            return None
        ends = [one.said.commit_vlsn for one in self.masters if one.said is not None]
        # There is no master to ask, so use the node's last information about it.
        end = max(ends) if ends else node.said.master_commit_vlsn
        return max(end - node.said.commit_vlsn, 0) if end > 0 else None


class _Seed(NamedTuple):
    address: Address
    group: str
    state: StateResponse


def check_group(name: str) -> None:
    """Refuse a group name that cannot be sent.

    Raises:
        UsageError: the name is empty, or not printable ASCII without bars.
    """
    if not name or not name.isascii() or not name.isprintable() or "|" in name:
        raise UsageError("the name of a group is printable ASCII without bars", found=repr(name))


def look(network: Network, addresses: Sequence[Address], group: str | None, timeout_s: float) -> GroupLook:
    """Inspect the group of some nodes.

    Arguments:
        addresses: one or more nodes; the others are found from them.
        group: the name of the group; None to take it from the nodes.
        timeout_s: timeout of each step of each call.

    Raises:
        NotFoundError: no node answers. PeerError: nodes only answer with a refusal.
        RefusedError: the nodes belong to different groups, or not to the named group.
    """
    seeds, problems = _seeds(network, addresses, group, timeout_s)
    if not seeds:
        # A refusal is more informative than the absence of a node.
        for error in problems.values():
            if not isinstance(error, DisconnectedError) or isinstance(error, TurnedAwayError):
                raise error
        raise NotFoundError(
            "no node answers",
            found="; ".join(map(str, problems.values())),
            hint=_CHECK_ADDRESSES,
        )
    groups = sorted({seed.group for seed in seeds})
    if len(groups) > 1:
        raise RefusedError(
            "the nodes belong to different groups", found=", ".join(groups), hint="name the nodes of one group"
        )
    members = _members(network, seeds, timeout_s)
    asked = {node.name or "": node for node in members.nodes if not node.removed}
    if len(asked) > _MOST_NODES:
        raise PeerError(
            "the list of nodes is too long for a group",
            expected=f"up to {_MOST_NODES}",
            found=f"{len(asked)}, from {address_text(seeds[0].address)}",
            consequence="no other node was called",
            hint="check the address; group show HOST:PORT of another node says what that one has",
        )
    found = _ask_all(network, groups[0], _places(asked, seeds), asked, timeout_s)
    known = {node.address for node in found}
    found += [
        NodeLook(address_text(address), address, None, None, str(problem))
        for address, problem in problems.items()
        if address not in known
    ]
    elected = "" if any(node.state == MASTER for node in found) else _elected(network, seeds, timeout_s)
    return GroupLook(groups[0], members, tuple(found), elected)


def state_of(network: Network, address: Address, group: str | None, timeout_s: float) -> tuple[str, StateResponse]:
    """The group and the state of the node at an address; a missing group name is requested first.

    Raises:
        DisconnectedError: the node is not running, or does not answer yet. PeerError: the node belongs to another
            group.
    """
    name = group or _UNNAMED
    try:
        answer = ask(network, address, STATE, name, StateRequest(node=_UNNAMED), timeout_s)
    except AnswerError as error:
        complaint = error.complaint
        mismatch = isinstance(complaint, ProtocolErrorReply) and complaint.problem == GROUP_MISMATCH
        if mismatch and not error.envelope.group:
            # A jetool node that has just started. Do not ask the node again without a name: it might have a group by
            # then, and refuse.
            raise DisconnectedError(f"{address_text(address)} does not know its group yet") from error
        if group is not None or not mismatch:
            raise
        name = error.envelope.group
        try:
            answer = ask(network, address, STATE, name, StateRequest(node=_UNNAMED), timeout_s)
        except FormatError as refused:
            raise PeerError(f"{address_text(address)} is of a group that jetool cannot name", found=name) from refused
    said = None if answer is None else answer[1]
    if not isinstance(said, StateResponse):
        # A node that has just started and does not have its group yet.
        raise DisconnectedError(f"{address_text(address)} does not say what it is", found=type(said).__name__)
    return name, said


def node_state(network: Network, address: Address, node: str, group: str, timeout_s: float) -> NodeStateResponse:
    """The state that a node reports.

    Raises:
        PeerError: the node is not running, has another name, or has never known a master.
    """
    with Call(network, address, NODE_STATE.service, timeout_s) as call:
        call.send(NODE_STATE, VERSION, NodeStateRequest(node=node, group=group))
        answer = call.receive(NODE_STATE, VERSION, NodeStateResponse, NodeStateError)
    if not isinstance(answer, NodeStateResponse):
        raise PeerError(f"{address_text(address)} has another name or no master yet", found=getattr(answer, "text", ""))
    return answer


def _seeds(
    network: Network, addresses: Sequence[Address], group: str | None, timeout_s: float
) -> tuple[list[_Seed], dict[Address, PeerError]]:
    """The nodes that answer at these addresses, and the errors of the others."""
    wanted = list(dict.fromkeys(addresses))

    def one(address: Address) -> _Seed | PeerError:
        try:
            return _Seed(address, *state_of(network, address, group, timeout_s))
        except PeerError as error:
            return error

    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        found = dict(zip(wanted, pool.map(one, wanted), strict=True))
    seeds = [seed for seed in found.values() if isinstance(seed, _Seed)]
    return seeds, {address: said for address, said in found.items() if isinstance(said, PeerError)}


def _members(network: Network, seeds: list[_Seed], timeout_s: float) -> Members:
    problems: list[str] = []
    for seed in seeds:
        try:
            answer = ask(network, seed.address, GROUP, seed.group, GroupRequest(), timeout_s)
        except PeerError as error:
            problems.append(str(error))
            continue
        if answer is not None and isinstance(answer[1], GroupResponse):
            return answer[1].members
        problems.append(f"{address_text(seed.address)} closes the connection without a list of members")
    raise NotFoundError("no node says who is in the group", found="; ".join(problems), hint=_CHECK_ADDRESSES)


def _places(asked: dict[str, GroupNode], seeds: list[_Seed]) -> dict[str, Address]:
    """The address for calling each node: the address given by the caller, or else the address in the group."""
    places = {name: (node.host or "", node.port) for name, node in asked.items()}
    return places | {seed.state.node: seed.address for seed in seeds}


def _ask_all(
    network: Network, group: str, places: dict[str, Address], members: dict[str, GroupNode], timeout_s: float
) -> list[NodeLook]:
    def one(name: str) -> NodeLook:
        member = members.get(name)
        if member is not None and member.type in _SILENT:
            return NodeLook(name, places[name], member, None)
        try:
            return NodeLook(name, places[name], member, node_state(network, places[name], name, group, timeout_s))
        # A node whose name cannot be sent cannot be asked.
        except (PeerError, FormatError) as error:
            return NodeLook(name, places[name], member, None, str(error))

    names = sorted(places, key=lambda name: (members[name].id if name in members else 1 << 31, name))
    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        return list(pool.map(one, names))


def _elected(network: Network, seeds: list[_Seed], timeout_s: float) -> str:
    for seed in seeds:
        try:
            answer = ask(network, seed.address, LEARNER, seed.group, MasterQuery(), timeout_s)
        except PeerError:
            continue
        if answer is not None and isinstance(answer[1], MasterAnswer):
            return answer[1].value.node
    return ""


def answers(node: NodeLook) -> bool:
    """Whether the node is running; monitors and external nodes are not expected to answer."""
    return node.said is not None or (node.member is not None and node.member.type in _SILENT)
