"""Connections to nodes of JE: the only interface between the codecs and the network.

``Network`` opens connections, a ``Connection`` carries bytes. ``SocketNetwork`` is the real one; recordings that replay
the answers of a node, and networks that cut, delay and change messages, are other implementations of the two protocols.
Every call has
a deadline, a value of ``time.monotonic``: nothing here waits forever.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import Final, Protocol

from engine.rep.peers import DisconnectedError, SilentError, address_text

Address = tuple[str, int]
_RECEIVE_BYTES: Final = 1 << 18


class Connection(Protocol):
    """Bytes in both directions. Every error of the network is a DisconnectedError."""

    def send(self, data: bytes, deadline: float) -> None:
        """Send all of it."""

    def receive(self, deadline: float) -> bytes:
        """Received bytes, at least one; empty if the other side has closed. SilentError: nothing in time."""

    def close(self) -> None:
        """End it. Closing twice is harmless."""


class Network(Protocol):
    """Opens connections."""

    def connect(self, address: Address, deadline: float) -> Connection:
        """A connection to an address. DisconnectedError: no process listens there."""


class SocketConnection:
    """A TCP connection: one thread may send while another thread receives, each with its own deadline.

    Arguments:
        sock: connected.
        peer: name of the other side in messages.
    """

    def __init__(self, sock: socket.socket, peer: str) -> None:
        # A timeout of the socket itself would apply to both directions.
        sock.setblocking(False)
        self._socket = sock
        self._peer = peer
        self._closed = False

    def send(self, data: bytes, deadline: float) -> None:
        """Send all of it."""
        left = memoryview(data)
        while left:
            try:
                left = left[self._socket.send(left) :]
            except BlockingIOError:
                self._await(select.POLLOUT, deadline)
            except OSError as error:
                raise self._gone(error) from error

    def receive(self, deadline: float) -> bytes:
        """Received bytes; empty if the other side has closed."""
        while True:
            try:
                return self._socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                self._await(select.POLLIN, deadline)
            except OSError as error:
                raise self._gone(error) from error

    def close(self) -> None:
        """Close the connection; a thread that waits here gets an error."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._socket.close()

    def _await(self, event: int, deadline: float) -> None:
        try:
            poll = select.poll()
            poll.register(self._socket, event)
            poll.poll(_left(deadline, self._peer) * 1000)
        except (OSError, ValueError) as error:  # ValueError: another thread has closed the connection.
            raise self._gone(error) from error

    def _gone(self, error: Exception) -> DisconnectedError:
        if self._closed:
            return DisconnectedError(f"the connection with {self._peer} has been closed here")
        return _gone(self._peer, error)


class SocketNetwork:
    """TCP; ``engine.rep.client.tls`` lays TLS on it."""

    def connect(self, address: Address, deadline: float) -> SocketConnection:
        """A connection to an address."""
        peer = address_text(address)
        try:
            sock = socket.create_connection(address, timeout=_left(deadline, peer))
        except (OSError, UnicodeError) as error:
            raise DisconnectedError(f"{peer} cannot be reached", found=_words(error)) from error
        # Requests are short, and the caller waits for each answer.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return SocketConnection(sock, peer)


def _left(deadline: float, peer: str) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise SilentError(f"{peer} does not answer in time")
    return left


def _gone(peer: str, error: Exception) -> DisconnectedError:
    if isinstance(error, TimeoutError):
        return SilentError(f"{peer} does not answer in time")
    return DisconnectedError(f"the connection with {peer} has ended", found=_words(error))


def _words(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
