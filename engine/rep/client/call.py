"""Calls to the services of a node of JE: a connection, the request for the service, then messages of the service.

All messages are encoded by a table of ``engine.rep.wire``, so no call can send a message that the service does not
know. Each step has a deadline, and the connection is closed however the call ends.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, TypeVar

from engine.errors import FormatError, NotFoundError, plural
from engine.rep.client.connection import Address, Connection, Network
from engine.rep.client.tls import TlsConnection
from engine.rep.peers import DisconnectedError, PeerError, SilentError, address_text
from engine.rep.wire.batches import Arrived
from engine.rep.wire.inbox import Inbox
from engine.rep.wire.lines import NO_CHECK, VERSION_MISMATCH, Envelope, LineTable, ProtocolErrorReply, TextMessage
from engine.rep.wire.messages import Message, Table
from engine.rep.wire.services import Status, encode_service_request

M = TypeVar("M", bound=Message)
# One attempt in this program's version, one in the version of the node.
_ATTEMPTS: Final = 2
# Every byte extends the deadline, so without this minimum rate a file or an entry could take days.
_LEAST_BYTES_S: Final = 1024
_REASONS: Final = {
    Status.BUSY: "it is busy",
    Status.FORMAT_ERROR: "it takes the request for malformed",
    Status.UNKNOWN_SERVICE: "it does not have the service now",
    Status.INVALID: "it does not accept who asks",
    Status.AUTHENTICATE: "the node requires authentication",
}
# A peer that expects TLS closes this way, and so does a peer that is not a node of JE.
_PLAIN_CLOSED: Final = "is it a node of JE? A node that uses TLS needs --tls-ca"
# A node of JE that does not trust the caller closes the TLS connection this way.
_TLS_CLOSED: Final = "does it trust the certificate of --tls-cert? Its log shows why it closes the connection"


class TurnedAwayError(DisconnectedError):
    """The node closed the connection after the TLS handshake: it does not trust the caller, or is being stopped."""


class ServiceError(PeerError):
    """The node does not connect the caller to the service.

    Arguments:
        status: the answer of the node.
    """

    def __init__(self, peer: str, service: str, status: Status) -> None:
        self.status = status
        hint = "over TLS --tls-cert shows who asks; tokens are not supported" if status is Status.AUTHENTICATE else None
        super().__init__(f"{peer} refuses {service}", found=_REASONS.get(status, status.name), hint=hint)


class AnswerError(PeerError):
    """The node has answered a line with an error."""

    def __init__(self, peer: str, envelope: Envelope, complaint: TextMessage) -> None:
        self.envelope = envelope
        self.complaint = complaint
        super().__init__(f"{peer} refuses the request", found=getattr(complaint, "text", None))


class Call:
    """A connection to a service; use as a context manager.

    Arguments:
        network: opens the connection.
        address: where the node listens.
        service: name of the service.
        timeout_s: timeout of each step.

    Raises:
        DisconnectedError: no process answers there.
        ServiceError: the node refuses the service.
        PeerError: the peer is not a node of JE.
    """

    def __init__(self, network: Network, address: Address, service: str, timeout_s: float) -> None:
        self.peer = address_text(address)
        self._timeout_s = timeout_s
        self._inbox = Inbox(from_client=False)
        # For the current message or file: seconds of waiting, and number of received bytes.
        self._waited_s = 0.0
        self._came = 0
        self._connection: Connection = network.connect(address, self._deadline())
        try:
            self._connection.send(encode_service_request(service), self._deadline())
            status = self._status()
            if status is not Status.OK:
                raise ServiceError(self.peer, service, status)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Call:
        """The call."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def send(self, table: Table, version: int, message: Message) -> None:
        """Send a message of the client's side."""
        self._connection.send(table.encode(message, version, client=True), self._deadline())

    def receive(self, table: Table, version: int, *kinds: type[M]) -> M:
        """Receive the next message, which must be one of the given classes.

        Raises:
            DisconnectedError: no message arrived.
            PeerError: another message arrived, or invalid bytes.
        """
        deadline = self._deadline()
        try:
            while (message := self._inbox.message(table, version)) is None:
                self._feed(deadline)
        except FormatError as error:
            raise self._nonsense(error) from error
        if not isinstance(message, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            found = f"{type(message).__name__} {getattr(message, 'text', '')}".rstrip()
            raise PeerError(f"{self.peer} answers something else", expected=expected, found=found)
        return message

    def stream(self, version: int, silence_s: float, wait_s: float | None = None) -> list[Arrived]:
        """The received messages of a stream; entries come without their messages.

        Arguments:
            silence_s: longest time without a message, unless a long one is being received.
            wait_s: how long this call waits; None: until a message arrives.

        Returns:
            At least one message; none if ``wait_s`` is over.

        Raises:
            DisconnectedError: nothing came. PeerError: an invalid message arrived.
        """
        until = None if wait_s is None else time.monotonic() + wait_s
        try:
            while not (found := self._inbox.stream(version)):
                if until is not None and time.monotonic() >= until:
                    return []
                self._paced(silence_s, until)
        except FormatError as error:
            raise self._nonsense(error) from error
        self._waited_s, self._came = 0.0, 0
        return found

    def raw(self, most: int) -> bytes:
        """Receive unframed bytes, at least one and at most ``most``.

        Raises:
            DisconnectedError: the bytes arrive too slowly, or the connection ended.
        """
        while not (data := self._inbox.raw(most)):
            self._paced(self._timeout_s, None)
        return data

    def line(self, table: LineTable, envelope: Envelope, message: TextMessage) -> tuple[Envelope, TextMessage] | None:
        """Send a line and return the answer; None if the node closes without an answer."""
        deadline = self._deadline()
        self._connection.send(table.encode(envelope, message, client=True), deadline)
        try:
            while (answer := self._inbox.line(table)) is None:
                data = self._connection.receive(deadline)
                if not data:
                    return None
                self._inbox.feed(data)
        except FormatError as error:
            raise self._nonsense(error) from error
        return answer

    def _status(self) -> Status:
        deadline = self._deadline()
        try:
            while (status := self._inbox.status()) is None:
                data = self._connection.receive(deadline)
                if not data:
                    what = f"{self.peer} closes the connection without an answer"
                    if isinstance(self._connection, TlsConnection):
                        raise TurnedAwayError(what, hint=_TLS_CLOSED)
                    raise DisconnectedError(what, hint=_PLAIN_CLOSED)
                self._inbox.feed(data)
        except FormatError as error:
            raise PeerError(f"{self.peer} is no node of JE", found=error.found) from error
        return status

    def _paced(self, most_s: float, until: float | None) -> None:
        """Wait for bytes until a deadline. SilentError: too few bytes have arrived by then."""
        begun, before = time.monotonic(), len(self._inbox)
        deadline = begun + max(most_s - self._waited_s, 0.001)
        try:
            self._feed(deadline if until is None else min(deadline, until))
        except SilentError:
            if until is None or until > deadline:
                raise
        self._waited_s += time.monotonic() - begun
        self._came += len(self._inbox) - before
        if self._waited_s < most_s:
            return
        if self._came < most_s * _LEAST_BYTES_S:
            raise SilentError(f"{self.peer} does not answer in time", found=plural(self._came, "byte"))
        self._waited_s, self._came = 0.0, 0

    def _feed(self, deadline: float) -> None:
        data = self._connection.receive(deadline)
        if not data:
            raise DisconnectedError(f"{self.peer} has closed the connection")
        self._inbox.feed(data)

    def _nonsense(self, error: FormatError) -> PeerError:
        return PeerError(f"{self.peer} says what makes no sense here", found=str(error))

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_s


def ask(
    network: Network, address: Address, table: LineTable, group: str, message: TextMessage, timeout_s: float
) -> tuple[Envelope, TextMessage] | None:
    """Ask a text service one question; if the node's version of the protocol is lower, ask again in that version.

    Returns:
        The answer; None if the node closes without an answer.

    Raises:
        AnswerError: the node answers with an error.
        PeerError: as ``Call``.
    """
    version = table.version
    for attempt in range(_ATTEMPTS):
        with Call(network, address, table.service, timeout_s) as call:
            answer = call.line(table, Envelope(version, group, NO_CHECK), message)
        if answer is None:
            return None
        envelope, said = answer
        if isinstance(said, ProtocolErrorReply):
            if said.problem == VERSION_MISMATCH and attempt == 0 and float(envelope.version) < float(version):
                version = envelope.version
                continue
            raise AnswerError(address_text(address), envelope, said)
        return envelope, said
    raise NotFoundError(f"{address_text(address)} speaks no version of {table.service} in common")
