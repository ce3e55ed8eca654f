"""The start of a connection: the request for a service, and the answer (je-ha-protocol.md 2.2, 2.3).

The client sends ``Service:``, the length of the name in one byte, the name. The node answers one byte, a ``Status``. If
it requires authentication (``Status.AUTHENTICATE``), the client sends ``Authenticate:``, a length in one byte and the
names of mechanisms; the node answers ``Status.PROCEED`` and ``Mechanism:``, a big-endian length of two bytes, a name
and its parameters, or ``Status.INVALID``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from engine.errors import FormatError
from engine.rep.wire.values import ascii_bytes

SERVICE_PREFIX: Final = b"Service:"
AUTHENTICATE_PREFIX: Final = b"Authenticate:"
MECHANISM_PREFIX: Final = b"Mechanism:"
LONGEST_NAME: Final = 127
LONGEST_MECHANISM: Final = 4096
_MECHANISM_LENGTH_BYTES: Final = 2


class Status(IntEnum):
    """A node's answer to the request for a service."""

    OK = 0
    BUSY = 1
    FORMAT_ERROR = 2
    UNKNOWN_SERVICE = 3
    PROCEED = 4
    INVALID = 5
    AUTHENTICATE = 6


def encode_service_request(service: str) -> bytes:
    """The request for a service.

    Raises:
        FormatError: the name is empty or too long.
    """
    return SERVICE_PREFIX + _named(service, "name of a service")


def encode_authenticate(mechanisms: str) -> bytes:
    """The authentication mechanisms of a client, separated by commas."""
    return AUTHENTICATE_PREFIX + _named(mechanisms, "mechanisms")


def encode_mechanism(mechanism: str) -> bytes:
    """The mechanism chosen by a node, with its parameters."""
    data = ascii_bytes(mechanism)
    if len(data) > LONGEST_MECHANISM:
        raise FormatError("mechanism", expected=f"up to {LONGEST_MECHANISM} bytes", found=str(len(data)))
    return MECHANISM_PREFIX + len(data).to_bytes(_MECHANISM_LENGTH_BYTES, "big") + data


def decode_status(byte: int) -> Status:
    """Decode a node's answer.

    Raises:
        FormatError: nothing that a node answers.
    """
    try:
        return Status(byte)
    except ValueError as error:
        raise FormatError("answer to a request for a service", expected="0..6", found=str(byte)) from error


def split_request(data: bytes, prefix: bytes = SERVICE_PREFIX) -> tuple[str, int] | None:
    """The service name at the start of received bytes, and its size in bytes; None if bytes are missing.

    Raises:
        FormatError: the bytes begin differently, or the length is wrong.
    """
    head = len(prefix) + 1
    if not prefix.startswith(data[: len(prefix)]):
        raise FormatError("begin of a connection", expected=prefix.decode(), found=repr(data[: len(prefix)]))
    if len(data) < head:
        return None
    length = data[len(prefix)]
    if not 0 < length <= LONGEST_NAME:
        raise FormatError("name of a service", expected=f"1..{LONGEST_NAME} bytes", found=str(length))
    end = head + length
    return None if len(data) < end else (_ascii(data[head:end]), end)


def split_mechanism(data: bytes) -> tuple[str, int] | None:
    """The mechanism at the start of received bytes, and its size in bytes; None if bytes are missing.

    Raises:
        FormatError: the bytes begin differently, or the length is wrong.
    """
    at = len(MECHANISM_PREFIX)
    head = at + _MECHANISM_LENGTH_BYTES
    if not MECHANISM_PREFIX.startswith(data[:at]):
        raise FormatError("mechanism", expected=MECHANISM_PREFIX.decode(), found=repr(data[:at]))
    if len(data) < head:
        return None
    length = int.from_bytes(data[at:head], "big")
    if length > LONGEST_MECHANISM:
        raise FormatError("mechanism", expected=f"up to {LONGEST_MECHANISM} bytes", found=str(length))
    end = head + length
    return None if len(data) < end else (_ascii(data[head:end]), end)


def _named(name: str, what: str) -> bytes:
    data = ascii_bytes(name)
    if not 0 < len(data) <= LONGEST_NAME:
        raise FormatError(what, expected=f"1..{LONGEST_NAME} bytes", found=str(len(data)))
    return bytes((len(data),)) + data


def _ascii(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise FormatError("name of a service", expected="ASCII", found=repr(data)) from error
