"""Service ``BinaryNodeState``, used by DbPing (je-ha-protocol.md 13.1). It has no version negotiation."""

from __future__ import annotations

from typing import Annotated, Final

from engine.rep.wire.messages import Message, Table, message
from engine.rep.wire.values import BYTES, INT, LONG, RELEASE, TEXT, word

STATES: Final = ("DETACHED", "UNKNOWN", "MASTER", "REPLICA")
VERSION: Final = 1


@message(1)
class NodeStateRequest(Message):
    """Request to a node with this name and group; any other node answers with a ProtocolError."""

    node: Annotated[str, TEXT]
    group: Annotated[str, TEXT]


@message(2)
class NodeStateResponse(Message):
    """What the node is.

    Attributes:
        master: the master that the node knows; a node that has lost its master still names it.
        joined_ms: when it entered its state.
        commit_vlsn: VLSN of its last Commit or Abort.
        master_commit_vlsn: the VLSN last reported by its master; 0 at the master.
        feeders: number of replicas that it feeds.
        load: load of its machine, as a decimal number; negative if unknown.
    """

    node: Annotated[str, TEXT]
    group: Annotated[str, TEXT]
    master: Annotated[str, TEXT]
    je_version: Annotated[str, RELEASE]
    joined_ms: Annotated[int, LONG]
    state: Annotated[str, word(*STATES)]
    commit_vlsn: Annotated[int, LONG]
    master_commit_vlsn: Annotated[int, LONG]
    feeders: Annotated[int, INT]
    log_version: Annotated[int, INT]
    app_state: Annotated[bytes, BYTES]
    load: Annotated[str, TEXT]


@message(1004)
class NodeStateError(Message):
    """The node has another name or group, or has never had a master."""

    text: Annotated[str, TEXT]


NODE_STATE: Final = Table("BinaryNodeState", client=(NodeStateRequest,), server=(NodeStateResponse, NodeStateError))
