"""Errors of a node that is talked to, and how its address is written."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import FormatError, RefusedError


class PeerError(RefusedError):
    """The other node is not who it should be, or says what it must not."""

    kind = "peer"


class DisconnectedError(PeerError):
    """The connection has ended, or nothing came in time."""

    kind = "disconnected"


class SilentError(DisconnectedError):
    """Nothing came in time, or too little."""


def nonsense(peer: str, found: str | FormatError) -> PeerError:
    """The error for a message that has no place in the conversation."""
    return PeerError(f"{peer} says what makes no sense here", found=str(found), consequence="the connection was closed")


def address_text(address: Sequence[object]) -> str:
    """An address as operators write it."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
