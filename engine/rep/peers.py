"""Errors of other nodes, and the text form of an address."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import FormatError, RefusedError


class PeerError(RefusedError):
    """The other node is not the expected one, or violates the protocol."""

    kind = "peer"


class DisconnectedError(PeerError):
    """The connection has ended, or timed out."""

    kind = "disconnected"


class SilentError(DisconnectedError):
    """Nothing, or too little, was received in time."""


def nonsense(peer: str, found: str | FormatError) -> PeerError:
    """The error for a message that is not allowed at this point of the protocol."""
    return PeerError(f"{peer} says what makes no sense here", found=str(found), consequence="the connection was closed")


def address_text(address: Sequence[object]) -> str:
    """An address in the form ``HOST:PORT``."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
