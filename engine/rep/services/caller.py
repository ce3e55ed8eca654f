"""The connection of a caller: its request for a service, then messages of the service.

The server's counterpart of ``engine.rep.client.call``. All messages are encoded by a table of ``engine.rep.wire``,
except the bytes of files, which are unframed. Each step has a deadline.
"""

from __future__ import annotations

import time
from typing import Final, TypeVar

from engine.errors import FormatError
from engine.rep.client.connection import Connection
from engine.rep.peers import DisconnectedError, PeerError
from engine.rep.wire.inbox import Inbox
from engine.rep.wire.lines import Envelope, LineTable, TextMessage
from engine.rep.wire.messages import Message, Table
from engine.rep.wire.services import Status

M = TypeVar("M", bound=Message)
# Default timeout of a step.
STEP_S: Final = 10.0


class Caller:
    """A connection of a client.

    Arguments:
        connection: just accepted.
        peer: name of the client in messages.
        trusted: whether it presented a certificate trusted by this node, or runs on the same machine.
    """

    def __init__(self, connection: Connection, peer: str, *, trusted: bool = False) -> None:
        self._connection = connection
        self.trusted = trusted
        self._inbox = Inbox(from_client=True)
        self.peer = peer

    def close(self) -> None:
        """Close the connection, even while another thread waits for the client."""
        self._connection.close()

    def service(self) -> str:
        """The requested service.

        Raises:
            FormatError: none. DisconnectedError: the client has disconnected.
        """
        deadline = time.monotonic() + STEP_S
        while (name := self._inbox.service()) is None:
            self._feed(deadline)
        return name

    def answer(self, status: Status) -> None:
        """Answer whether the service accepts the connection."""
        self._connection.send(bytes((status,)), time.monotonic() + STEP_S)

    def send(self, table: Table, version: int, message: Message) -> None:
        """Send a message of the server."""
        self._connection.send(table.encode(message, version, client=False), time.monotonic() + STEP_S)

    def send_all(self, frames: bytes, timeout_s: float) -> None:
        """Send encoded messages, or bytes of a file."""
        self._connection.send(frames, time.monotonic() + timeout_s)

    def receive(self, table: Table, version: int, *kinds: type[M], timeout_s: float = STEP_S) -> M:
        """Receive the next message, which must be one of the given classes.

        Raises:
            DisconnectedError: no message arrived. PeerError: another message arrived, or invalid bytes.
        """
        deadline = time.monotonic() + timeout_s
        try:
            while (message := self._inbox.message(table, version)) is None:
                self._feed(deadline)
        except FormatError as error:
            raise PeerError(f"{self.peer} says what makes no sense here", found=str(error)) from error
        if not isinstance(message, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise PeerError(f"{self.peer} says something else", expected=expected, found=type(message).__name__)
        return message

    def line(self, table: LineTable) -> tuple[Envelope, TextMessage]:
        """The line of the client.

        Raises:
            FormatError: the line is not a message of the table. DisconnectedError: none came.
        """
        deadline = time.monotonic() + STEP_S
        while (line := self._inbox.line(table)) is None:
            self._feed(deadline)
        return line

    def say(self, table: LineTable, envelope: Envelope, message: TextMessage) -> None:
        """Answer with a line."""
        self._connection.send(table.encode(envelope, message, client=False), time.monotonic() + STEP_S)

    def _feed(self, deadline: float) -> None:
        data = self._connection.receive(deadline)
        if not data:
            raise DisconnectedError(f"{self.peer} has closed the connection")
        self._inbox.feed(data)
