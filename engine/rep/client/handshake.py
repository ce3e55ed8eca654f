"""The handshake of a node that follows a master (je-ha-protocol.md section 7, 10.1).

The type of the node is EXTERNAL, or SECONDARY for a node with an environment: nothing is written in the group, and the
master keeps the node in memory while the connection lasts. A node of type ELECTABLE becomes a stored member, which has
a vote. The order of the four questions is fixed, and a wrong question would end the master, so this module runs all of
them and returns the agreed values. Groups with untested releases are refused.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from typing import Final, NamedTuple

from engine.errors import UnsupportedError
from engine.format.versions import WRITTEN_VERSION
from engine.rep.client.call import Call
from engine.rep.client.connection import Address, Network
from engine.rep.group import release_of
from engine.rep.peers import DisconnectedError, PeerError
from engine.rep.wire.feeder import (
    CACHE_SIZES,
    FEEDER,
    CacheSizeRequest,
    CacheSizeResponse,
    DuplicateNodeReject,
    FeederJEVersions,
    FeederProtocolVersion,
    JEVersionsReject,
    NodeGroupInfo,
    NodeGroupInfoOK,
    NodeGroupInfoReject,
    ProtocolError,
    ReplicaJEVersions,
    ReplicaProtocolVersion,
    SNTPRequest,
    SNTPResponse,
    offered_protocol,
)
from engine.rep.wire.values import NameIdPair

# 7.3.8 uses version 6; below that requests have another form.
OLDEST_SPOKEN: Final = 6
OLDEST_RELEASE: Final = (7, 3)
NEWEST_RELEASE: Final = (25, 3)
NEW_NODE: Final = -1
EXTERNAL: Final = "EXTERNAL"
SECONDARY: Final = "SECONDARY"
ELECTABLE: Final = "ELECTABLE"
ARBITER: Final = "ARBITER"
UNKNOWN_UUID: Final = (0, 0)
_PORT: Final = 1
_ROUNDS: Final = 3
_CLOSE_ENOUGH_MS: Final = 2
_NUMBERS: Final = re.compile(r"(\d{1,4})\.(\d{1,4})\.", re.ASCII)


class NameInUseError(PeerError):
    """The master still has a connected node with that name."""


class NodeIdentity(NamedTuple):
    """The identity that a node reports: it must be the same for the same name, or the master refuses it.

    Attributes:
        host, port: the address that the node reports; nothing connects to a node of type EXTERNAL.
        node_type: ``EXTERNAL``, ``SECONDARY``, or ``ELECTABLE`` for a member that votes and acknowledges, ``ARBITER``.
        log_version: of its log; it decides the reported release, the accepted entries, and the offered protocol.
        cache_bytes: size of its cache.
        id: of a member that knows it. A master of JE that has not confirmed the record of a member refuses it without.
    """

    name: str
    host: str
    port: int
    node_type: str
    log_version: int = WRITTEN_VERSION
    cache_bytes: int = 0
    id: int = NEW_NODE


class FeederAgreement(NamedTuple):
    """The values agreed with a master; the next message is about the position to start at.

    Attributes:
        call: the connection.
        version: of the protocol.
        je_version: the master's release.
        log_version: log version of the stream.
        uuid: identity of the group, as two signed numbers.
        node_id: id of this node during the connection.
        clock_ms: how far the master's clock is ahead of the local one.
    """

    call: Call
    version: int
    je_version: str
    log_version: int
    uuid: tuple[int, int]
    node_id: int
    clock_ms: int


def new_name() -> str:
    """A unique name for a client."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:32]
    return f"jetool-{host}-{os.getpid()}-{secrets.token_hex(4)}"


def check_release(je_version: str, peer: str, *, force: bool) -> None:
    """Refuse a release that was never tested with this protocol.

    Raises:
        UnsupportedError: the release is outside of 7.3 to 25.3, and ``force`` is not set.
    """
    found = _NUMBERS.match(f"{je_version}.")
    release = (int(found[1]), int(found[2])) if found is not None else (0, 0)
    if not force and not OLDEST_RELEASE <= release <= NEWEST_RELEASE:
        raise UnsupportedError(
            f"{peer} runs a release of JE that jetool was never tried with",
            expected="7.3 to 25.3",
            found=je_version or "none",
            consequence="nothing was asked of it, since a wrong byte can stop a node",
            hint="add --force to continue anyway",
        )


def join(
    network: Network,
    address: Address,
    group: str,
    timeout_s: float,
    *,
    force: bool,
    uuid: tuple[int, int] = UNKNOWN_UUID,
    joining: NodeIdentity | None = None,
) -> FeederAgreement:
    """Go through the handshake with a master; the caller closes the call.

    Arguments:
        address: of the master.
        uuid: identity of the group, if known; a recreated group with the same name is then refused.
        joining: identity of this node; None for a new EXTERNAL node.

    Raises:
        PeerError: the node is not the master, or refuses this node. DisconnectedError: the master may accept it the
            next time.
        UnsupportedError: an unsupported release or protocol version.
    """
    if joining is None:
        name = new_name()
        joining = NodeIdentity(name, name, _PORT, EXTERNAL)
    pair = NameIdPair(joining.name, joining.id)
    offered = offered_protocol(joining.log_version)
    call = Call(network, address, FEEDER.service, timeout_s)
    try:
        call.send(FEEDER, offered, ReplicaProtocolVersion(version=offered, node=pair))
        agreed = call.receive(FEEDER, offered, FeederProtocolVersion, DuplicateNodeReject, ProtocolError)
        if not isinstance(agreed, FeederProtocolVersion):
            raise _refused(call, agreed)
        version = agreed.version
        if not OLDEST_SPOKEN <= version <= offered:
            expected = f"{OLDEST_SPOKEN}..{offered}"
            raise UnsupportedError(f"{call.peer}: protocol of the stream", expected=expected, found=str(version))
        release = release_of(joining.log_version)
        call.send(FEEDER, version, ReplicaJEVersions(je_version=release, log_version=joining.log_version))
        versions = call.receive(FEEDER, version, FeederJEVersions, JEVersionsReject, ProtocolError)
        if not isinstance(versions, FeederJEVersions):
            raise _refused(call, versions, release)
        check_release(versions.je_version, call.peer, force=force)
        call.send(FEEDER, version, _identity(group, joining, uuid))
        taken = _taken(call, version, joining)
        ahead = _clock(call, version)
        _tell_cache(call, version, joining)
        return FeederAgreement(
            call=call,
            version=version,
            je_version=versions.je_version,
            log_version=versions.log_version,
            uuid=(taken.uuid_high, taken.uuid_low),
            node_id=taken.node.id,
            clock_ms=ahead,
        )
    except BaseException:
        call.close()
        raise


def clock_difference(network: Network, address: Address, group: str, timeout_s: float, *, force: bool) -> int:
    """How many milliseconds a master's clock is ahead; the handshake is abandoned before the stream begins."""
    found = join(network, address, group, timeout_s, force=force)
    found.call.close()
    return found.clock_ms


def _taken(call: Call, version: int, joining: NodeIdentity) -> NodeGroupInfoOK:
    """The answer to this node's identity. The master first records a new member, which needs a majority."""
    try:
        taken = call.receive(FEEDER, version, NodeGroupInfoOK, NodeGroupInfoReject, ProtocolError)
    except DisconnectedError as error:
        if joining.node_type not in (ELECTABLE, ARBITER):
            raise
        raise DisconnectedError(
            f"{call.peer} has not made this node a member",
            found=str(error),
            hint="a majority of the electable members has to acknowledge a new one: start the others",
        ) from error
    if isinstance(taken, NodeGroupInfoReject) and taken.text.rstrip().endswith(f"used by the member: {joining.name}"):
        # Two connections of this new member waited at the same time, and the first one has made it a member.
        raise DisconnectedError(f"{call.peer} is making this node a member", found=taken.text)
    if not isinstance(taken, NodeGroupInfoOK):
        raise _refused(call, taken)
    return taken


def _identity(group: str, joining: NodeIdentity, uuid: tuple[int, int]) -> NodeGroupInfo:
    return NodeGroupInfo(
        group=group,
        uuid_high=uuid[0],
        uuid_low=uuid[1],
        node=NameIdPair(joining.name, joining.id),
        host=joining.host,
        port=joining.port,
        node_type=joining.node_type,
        designated_primary=False,
        je_version=release_of(joining.log_version),
    )


def _clock(call: Call, version: int) -> int:
    """How far the master's clock is ahead, from the fastest of a few rounds; the last round ends the handshake."""
    best: tuple[int, int] | None = None
    for number in range(_ROUNDS):
        is_last = number == _ROUNDS - 1 or (best is not None and best[0] <= _CLOSE_ENOUGH_MS)
        left = _now_ms()
        call.send(FEEDER, version, SNTPRequest(originate_ms=left, is_last=is_last))
        answer = call.receive(FEEDER, version, SNTPResponse)
        back = _now_ms()
        ahead = ((answer.receive_ms - left) + (answer.transmit_ms - back)) // 2
        delay = (back - left) - (answer.transmit_ms - answer.receive_ms)
        if best is None or delay < best[0]:
            best = delay, ahead
        if is_last:
            break
    assert best is not None
    return best[1]


def _tell_cache(call: Call, version: int, joining: NodeIdentity) -> None:
    """The last message of the handshake: a master logs a warning if the sizes of the caches differ."""
    if version >= CACHE_SIZES:
        call.send(FEEDER, version, CacheSizeRequest(cache_bytes=joining.cache_bytes, off_heap_bytes=0))
        call.receive(FEEDER, version, CacheSizeResponse)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _refused(call: Call, answer: object, release: str = "") -> PeerError | UnsupportedError:
    text = f"{call.peer} refuses to feed this node"
    found = str(getattr(answer, "text", answer))
    if isinstance(answer, JEVersionsReject):
        return UnsupportedError(
            text,
            found=found,
            hint=f"the group takes no node of release {release} any more, which this client says to be",
        )
    return (NameInUseError if isinstance(answer, DuplicateNodeReject) else PeerError)(text, found=found)
