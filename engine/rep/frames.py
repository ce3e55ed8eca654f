"""Frames between two nodes.

=======  ==========================================================================
bytes    field
=======  ==========================================================================
4        length of what follows the type, big-endian
1        type
n        payload
16       once both have proved that they know the secret: HMAC-SHA256, cut to 16
=======  ==========================================================================

* A length above the limit ends the connection before anything is allocated; memory grows with the bytes that have come,
  not with the length that was announced. Before the proof the limit is 4 KiB.
* The HMAC covers direction (by its key), number of the frame, type and payload: nothing can be changed, left out,
  repeated or put elsewhere on the way.
* Any violation closes the connection. There is no way to resynchronise, and none is needed: syncup begins again.
"""

from __future__ import annotations

import contextlib
import hmac
import select
import socket
import threading
import time
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from engine.errors import RefusedError

_HEAD: Final = Struct(">IB")
_TIMEVAL: Final = Struct("@ll")
_SEND_TIMEOUT_S: Final = 20
_TAG_BYTES: Final = 16
_RECEIVE_BYTES: Final = 1 << 18
LIMIT_BEFORE_PROOF: Final = 4096
LIMIT: Final = 160 << 20


class PeerError(RefusedError):
    """The other node is not who it should be, or says what it must not.

    Attributes:
        proved: whether the other side had proved that it knows the secret. Where not, anybody may have said it.
    """

    kind = "peer"
    proved = True


class DisconnectedError(PeerError):
    """The connection has ended, or nothing came in time."""

    kind = "disconnected"


class Frame(NamedTuple):
    """One message."""

    type: int
    payload: bytes


def address_text(address: Sequence[object]) -> str:
    """An address as operators write it."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


class Channel:
    """A connection that carries frames; one thread receives, any may send.

    Arguments:
        sock: connected.
        peer: how messages name the other side.
    """

    def __init__(self, sock: socket.socket, peer: str) -> None:
        sock.settimeout(None)
        # A peer that does not read must not hold a sender for ever.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(_SEND_TIMEOUT_S, 0))
        # Acknowledgements are short, and a commit waits for each.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self.peer = peer
        self._sending = threading.Lock()
        self._buffer = bytearray()
        self._limit = LIMIT_BEFORE_PROOF
        self._send_key = self._receive_key = b""
        self._sent = self._received = 0
        self._closed = False

    def secure(self, send_key: bytes, receive_key: bytes) -> None:
        """From now on frames carry an HMAC, and may be long."""
        self._send_key, self._receive_key, self._limit = send_key, receive_key, LIMIT

    def narrow(self, limit: int) -> None:
        """From now on frames are no longer than this many bytes."""
        self._limit = limit

    def send(self, frame_type: int, payload: bytes = b"") -> None:
        """Send one frame.

        Raises:
            DisconnectedError: the connection has ended.
        """
        # Number and bytes in one step: frames leave in the order of their numbers.
        with self._sending:
            head = _HEAD.pack(len(payload), frame_type)
            tag = self._tag(self._send_key, self._sent, head, payload)
            self._sent += 1
            try:
                self._socket.sendall(b"".join((head, payload, tag)))
            except OSError as error:
                raise self._gone(error) from error

    def receive(self, timeout_s: float) -> Frame:
        """The next frame.

        Arguments:
            timeout_s: how long the whole frame may take.

        Raises:
            DisconnectedError: the connection has ended, or the frame did not come in time.
            PeerError: it is too long, or its HMAC is wrong.
        """
        deadline = time.monotonic() + timeout_s
        self._fill(_HEAD.size, deadline)
        length, frame_type = _HEAD.unpack_from(self._buffer)
        # Before anything of that length is awaited.
        if length > self._limit:
            self.close()
            raise PeerError(
                f"{self.peer} sends too long a message",
                expected=f"at most {self._limit} bytes",
                found=str(length),
            )
        end = _HEAD.size + length
        whole = end + (_TAG_BYTES if self._receive_key else 0)
        self._fill(whole, deadline)
        head, payload = bytes(self._buffer[: _HEAD.size]), bytes(self._buffer[_HEAD.size : end])
        tag = bytes(self._buffer[end:whole])
        del self._buffer[:whole]
        # Without a key, before the proof, both tags are empty.
        if not hmac.compare_digest(tag, self._tag(self._receive_key, self._received, head, payload)):
            self.close()
            raise PeerError(f"a message of {self.peer} was changed on the way", consequence="the connection was closed")
        self._received += 1
        return Frame(frame_type, payload)

    def has_frame(self) -> bool:
        """Whether more has come already; a hint for batching."""
        return len(self._buffer) >= _HEAD.size

    def close(self) -> None:
        """End the connection; a thread that waits in ``receive`` is woken. Closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        # Closing alone does not wake a thread that waits for the socket.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _fill(self, wanted: int, deadline: float) -> None:
        while len(self._buffer) < wanted:
            left = deadline - time.monotonic()
            if left <= 0:
                raise DisconnectedError(f"{self.peer} does not answer")
            try:
                # Not by the timeout of the socket, which would hold for the thread that sends too.
                waiting = select.poll()
                waiting.register(self._socket, select.POLLIN)
                data = self._socket.recv(_RECEIVE_BYTES) if waiting.poll(left * 1000) else None
            except (OSError, ValueError) as error:
                raise self._gone(error) from error
            if data is None:
                raise DisconnectedError(f"{self.peer} does not answer")
            if not data:
                raise DisconnectedError(f"{self.peer} has closed the connection")
            self._buffer += data

    def _tag(self, key: bytes, number: int, head: bytes, payload: bytes) -> bytes:
        if not key:
            return b""
        return hmac.digest(key, number.to_bytes(8, "big") + head + payload, "sha256")[:_TAG_BYTES]

    def _gone(self, error: Exception) -> DisconnectedError:
        return DisconnectedError(f"the connection with {self.peer} has ended", found=str(error) or "it was closed")
