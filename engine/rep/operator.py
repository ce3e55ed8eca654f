"""Questions and requests of an operator to running nodes."""

from __future__ import annotations

from typing import Final

from engine.errors import FormatError, RefusedError
from engine.rep import messages
from engine.rep.handshake import NO_UUID, Identity, Purpose, call, check_secret
from engine.rep.messages import Message, NodeStatus, nonsense

_TIMEOUT_S: Final = 5.0
# An operator is no member; the address only has to be possible.
OPERATOR: Final = Identity("", NO_UUID, "operator", "localhost", 1)


def ask_status(address: tuple[str, int], secret: bytes) -> NodeStatus:
    """What a node says of itself.

    Raises:
        DisconnectedError: it cannot be reached. PeerError: it turns us away, or answers nonsense.
    """
    channel = call(address, OPERATOR, Purpose.STATUS, check_secret(secret), _TIMEOUT_S)
    try:
        channel.send(Message.STATUS)
        frame = channel.receive(_TIMEOUT_S)
        if frame.type != Message.STATUS:
            raise nonsense(channel.peer, f"message {frame.type}")
        return messages.decode_status(frame.payload)
    except FormatError as error:
        raise nonsense(channel.peer, error) from error
    finally:
        channel.close()


def ask_transfer(address: tuple[str, int], secret: bytes, node: str, *, force: bool, timeout_s: int) -> None:
    """Ask for another master.

    Arguments:
        address: of the master; with ``force`` of the node that shall become it, or of a master that shall give way.
        node: name of the node that shall be the master.
        force: wait for nobody.
        timeout_s: longest wait for the node to catch up.

    Raises:
        RefusedError: the node says why not. DisconnectedError, PeerError: as ``ask_status``.
    """
    channel = call(address, OPERATOR, Purpose.TRANSFER, check_secret(secret), _TIMEOUT_S)
    try:
        channel.send(Message.TRANSFER, messages.encode_transfer(node, force=force, timeout_s=timeout_s))
        frame = channel.receive(timeout_s * 2 + _TIMEOUT_S)
        if frame.type == Message.FAILED:
            raise RefusedError(f"{channel.peer} refuses", found=messages.decode_text(frame.payload))
        if frame.type != Message.DONE:
            raise nonsense(channel.peer, f"message {frame.type}")
    finally:
        channel.close()
