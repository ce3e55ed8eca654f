"""The master's side of the handshake with a replica (je-ha-protocol.md section 7).

The counterpart of ``engine.rep.client.handshake``, in JE's order: protocol and name, releases, membership, clocks. Each
refusal is the message that JE sends in this case; if JE closes without a message, so does this module. A new member is
recorded in the group before it gets the answer that it is a member.
"""

from __future__ import annotations

import re
import time
from typing import Final, NamedTuple, Protocol

from engine.format.entry.group_db import NODE_TYPES, GroupNode, RepGroup
from engine.rep.client.handshake import UNKNOWN_UUID
from engine.rep.group import ARBITER, ELECTABLE, VOTERS, described, release_of
from engine.rep.master.feeder_entries import OLDEST_STREAM, newest_stream
from engine.rep.master.membership import ConflictError
from engine.rep.peers import PeerError
from engine.rep.services.caller import Caller
from engine.rep.wire.feeder import (
    CACHE_SIZES,
    FEEDER,
    OLDEST_PROTOCOL,
    CacheSizeRequest,
    CacheSizeResponse,
    DuplicateNodeReject,
    FeederJEVersions,
    FeederProtocolVersion,
    JEVersionsReject,
    NodeGroupInfo,
    NodeGroupInfoOK,
    NodeGroupInfoReject,
    ReplicaJEVersions,
    ReplicaProtocolVersion,
    SNTPRequest,
    SNTPResponse,
    offered_protocol,
)
from engine.rep.wire.messages import Message
from engine.rep.wire.values import NameIdPair

# je.rep.preHeartbeatTimeout.
PREPARATION_S: Final = 60.0
_MOST_CLOCK_ROUNDS: Final = 100
_TRANSIENT: Final = frozenset((NODE_TYPES.index("secondary"), NODE_TYPES.index("external")))
_FED: Final = _TRANSIENT | {*VOTERS}
# Characters allowed in a line, between bars, commas and dollars.
_NAME: Final = re.compile(r"[A-Za-z0-9_.\-:]{1,255}", re.ASCII)
_NUMBERS: Final = re.compile(r"\d{1,9}", re.ASCII)


class FedNode(NamedTuple):
    """A node after the handshake.

    Attributes:
        node: the record of the node, or a temporary record while it is connected.
        protocol, stream: agreed versions of the protocol and of the entries.
    """

    node: GroupNode
    protocol: int
    stream: int

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.node.name or ""

    @property
    def acknowledges(self) -> bool:
        """Whether it keeps the stream, and its acknowledgements count."""
        return self.node.type == ELECTABLE

    @property
    def arbitrates(self) -> bool:
        """Whether it is an arbiter."""
        return self.node.type == ARBITER


class HandshakeHost(Protocol):
    """A master."""

    @property
    def pair(self) -> NameIdPair:
        """Name and id of the node."""

    @property
    def group(self) -> RepGroup:
        """The group's record."""

    @property
    def log_version(self) -> int:
        """The version of its log."""

    @property
    def cache_bytes(self) -> int:
        """The size of its cache."""

    def is_in_use(self, name: str) -> bool:
        """Whether a node with that name is connected, or is this node."""

    def known(self, name: str) -> GroupNode | None:
        """The record of a node, or a temporary one."""

    def admit_member(self, node: GroupNode) -> GroupNode:
        """Make a node a member. Raises ConflictError: it cannot be a member; RefusedError: it cannot become one now."""

    def admit_guest(self, caller: Caller, node: GroupNode) -> GroupNode:
        """Assign an id to a node for the time of its connection. Raises ConflictError."""

    def note_release(self, node: GroupNode) -> None:
        """Record that a member now runs another release of JE."""


def greet(caller: Caller, host: HandshakeHost) -> FedNode:
    """Do the handshake with a caller.

    Raises:
        PeerError: the caller was refused and notified, or it sent an invalid message.
        RefusedError: the caller cannot become a member now; it may try again.
    """
    highest = offered_protocol(host.log_version)
    hello = caller.receive(FEEDER, highest, ReplicaProtocolVersion, timeout_s=PREPARATION_S)
    name = hello.node.name
    if host.is_in_use(name):
        text = f"This node: {_shown(name)} is already in active use at the feeder "
        raise _refuse(caller, highest, DuplicateNodeReject(text=text), text)
    version = hello.version if OLDEST_PROTOCOL <= hello.version <= highest else highest
    caller.send(FEEDER, highest, FeederProtocolVersion(version=version, node=host.pair))
    stream, je_version = _versions(caller, host, version)
    info = caller.receive(FEEDER, version, NodeGroupInfo, timeout_s=PREPARATION_S)
    try:
        if info.node != hello.node:
            raise ConflictError(f"The replica node ID sent during protocol negotiation: {hello.node.id} differs")
        node = _member(caller, host, info, je_version)
    except ConflictError as error:
        raise _refuse(caller, version, NodeGroupInfoReject(text=error.what), error.what) from error
    taken = NodeGroupInfoOK(
        uuid_high=host.group.uuid_high, uuid_low=host.group.uuid_low, node=NameIdPair(name, node.id)
    )
    caller.send(FEEDER, version, taken)
    _tell_time(caller, version)
    if version >= CACHE_SIZES:
        caller.receive(FEEDER, version, CacheSizeRequest, timeout_s=PREPARATION_S)
        caller.send(FEEDER, version, CacheSizeResponse(cache_bytes=host.cache_bytes, off_heap_bytes=0))
    return FedNode(node, version, stream)


def _tell_time(caller: Caller, version: int) -> None:
    """Answer questions about the clock until the last one."""
    for _ in range(_MOST_CLOCK_ROUNDS):
        asked = caller.receive(FEEDER, version, SNTPRequest, timeout_s=PREPARATION_S)
        now = _now_ms()
        answer = SNTPResponse(originate_ms=asked.originate_ms, receive_ms=now, transmit_ms=_now_ms())
        caller.send(FEEDER, version, answer)
        if asked.is_last:
            return
    raise PeerError(f"{caller.peer} asks for the time again and again")


def _versions(caller: Caller, host: HandshakeHost, version: int) -> tuple[int, str]:
    """The version of the stream, and the replica's release."""
    said = caller.receive(FEEDER, version, ReplicaJEVersions, timeout_s=PREPARATION_S)
    least, newest, release = host.group.min_je_version, newest_stream(host.log_version), release_of(host.log_version)
    text = ""
    if said.log_version < OLDEST_STREAM:
        text = (
            f"Incompatible log versions. Feeder log version: {newest}, Feeder JE version: {release},"
            f" Replica log version: {said.log_version}, Replica JE version: {said.je_version}"
        )
    elif least and _numbers(least) > _numbers(said.je_version):
        text = (
            f"Unsupported JE version. Feeder JE version: {release}, Feeder min JE version: {least},"
            f" Replica JE version: {said.je_version}"
        )
    if text:
        raise _refuse(caller, version, JEVersionsReject(text=text), text)
    stream = min(newest, said.log_version)
    answer = FeederJEVersions(je_version=release, log_version=stream, min_je_version=least or "")
    caller.send(FEEDER, version, answer)
    return stream, said.je_version


def _member(caller: Caller, host: HandshakeHost, info: NodeGroupInfo, je_version: str) -> GroupNode:
    """The record of the caller, checked against the identity that it reports."""
    name, group = info.node.name, host.group
    node_type = NODE_TYPES.index(info.node_type.lower())
    fit = _NAME.fullmatch(name) and _NAME.fullmatch(info.host) and 0 < info.port < 1 << 16
    if not fit:
        raise ConflictError(f"A node like this is not fed: {_shown(name)} at {_shown(info.host)}")
    if node_type not in _FED:
        raise ConflictError(
            f"This master feeds ELECTABLE, SECONDARY, EXTERNAL and ARBITER nodes: {name} is {info.node_type}"
        )
    release = info.je_version if info.je_version is not None else je_version
    node = described(name, info.host, info.port, node_type, release, _now_ms())
    # Checked before anything is written: a node of another group cannot be a member of this group.
    if info.group != group.name:
        raise ConflictError(
            f"The feeder belongs to the group: {group.name} but replica id {_shown(name)} belongs to the group:"
            f" {_shown(info.group)}"
        )
    uuid = info.uuid_high, info.uuid_low
    if uuid not in (UNKNOWN_UUID, (group.uuid_high, group.uuid_low)):
        raise ConflictError(
            f"The environments have the same name: {group.name} but represent different environment instances."
        )
    known = host.known(name)
    if known is not None and known.removed:
        raise ConflictError(f"Node: {name} is no longer a member of the group. It was explicitly removed.")
    if known is not None and (known.host, known.port, known.type) != (node.host, node.port, node_type):
        raise ConflictError(
            f"Conflicting configuration of {name}: Feeder thinks it is {NODE_TYPES[known.type].upper()} at"
            f" {known.host}:{known.port} Replica is configured as {info.node_type} at {info.host}:{info.port}"
        )
    if node_type in _TRANSIENT:
        return host.admit_guest(caller, node)
    found = known if known is not None and known.quorum_ack else host.admit_member(node)
    if release and release != found.je_version:
        found = found._replace(je_version=release)
        host.note_release(found)
    return found


def _refuse(caller: Caller, version: int, refusal: Message, text: str) -> PeerError:
    caller.send(FEEDER, version, refusal)
    return PeerError(f"{caller.peer} is not fed", found=text)


def _shown(text: str) -> str:
    """A part of a received text, made safe for an answer."""
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in text[:80])


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, _NUMBERS.findall(release)[:3]))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
