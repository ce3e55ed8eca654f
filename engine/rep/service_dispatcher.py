"""Where a node is called: every connection proves that it knows the secret, and is passed on by its purpose.

A connection has a thread of its own. What goes wrong with one is told to its caller, and touches nothing else.

Who has not proved to know the secret may be anybody, and must not keep members out:

* The proof has to come within 3 seconds, all of it.
* At most 16 callers of one address, and 64 in all, may be without it. One more ends the oldest of them, not the newest:
  a member's proof takes milliseconds, an idle socket never comes to an end by itself.
* After the proof members (replicas and voters) and operators have places of their own, 64 and 32.
"""

from __future__ import annotations

import socket
import threading
from typing import Any, Final, Protocol

from engine.errors import JetoolError
from engine.rep import messages
from engine.rep.frames import Channel, address_text
from engine.rep.handshake import Answerer, Hello, Identity, Purpose
from engine.rep.messages import Message, NodeStatus
from engine.rep.records import RecordHost, answer
from engine.rep.service_port import ServicePort
from engine.rep.settings import NodeConfig

_MOST_UNPROVED: Final = 64
_MOST_UNPROVED_OF_AN_ADDRESS: Final = 16
_MOST_MEMBERS: Final = 64
_MOST_OPERATORS: Final = 32
_MEMBER_PURPOSES: Final = frozenset((Purpose.FEED, Purpose.ELECT))
_PROOF_S: Final = 3.0
_REQUEST_S: Final = 3.0


class ServiceHost(RecordHost, Protocol):
    """What answers; the node."""

    def identity(self) -> Identity:
        """Who it is."""

    def feed(self, answerer: Answerer, hello: Hello, channel: Channel) -> None:
        """Feed a replica until it is gone, or turn it away."""

    def hear_voter(self, answerer: Answerer, hello: Hello, channel: Channel) -> None:
        """Hear another voter until it is gone, or turn it away."""

    def status(self) -> NodeStatus:
        """What it says of itself."""

    def make_master(self, node: str, timeout_s: float, *, force: bool) -> None:
        """Give the role of the master to a node; with ``force`` take it, or give it up at once."""


class Admission:
    """Who is connected, and who has to go so that others can come.

    Attributes:
        connections: all of them.
    """

    def __init__(self) -> None:
        self.connections: set[Channel] = set()
        self._mutex = threading.Lock()
        # Those without a proof in the order of their coming, with their address.
        self._unproved: dict[Channel, str] = {}
        self._proved: dict[Channel, bool] = {}

    def come(self, channel: Channel, host: str) -> None:
        """Take a caller in; the oldest without a proof goes where there are too many."""
        with self._mutex:
            neighbors = [other for other, address in self._unproved.items() if address == host]
            oldest = None
            if len(neighbors) >= _MOST_UNPROVED_OF_AN_ADDRESS:
                oldest = neighbors[0]
            elif len(self._unproved) >= _MOST_UNPROVED:
                oldest = next(iter(self._unproved))
            if oldest is not None:
                del self._unproved[oldest]
            self._unproved[channel] = host
            self.connections.add(channel)
        if oldest is not None:
            oldest.close()

    def prove(self, channel: Channel, *, member: bool) -> bool:
        """A caller has proved itself; whether there is a place for it."""
        with self._mutex:
            if self._unproved.pop(channel, None) is None:
                return False  # It had to go a moment ago.
            places = _MOST_MEMBERS if member else _MOST_OPERATORS
            if sum(one is member for one in self._proved.values()) >= places:
                return False
            self._proved[channel] = member
            return True

    def leave(self, channel: Channel) -> None:
        """A connection has ended."""
        with self._mutex:
            self._unproved.pop(channel, None)
            self._proved.pop(channel, None)
            self.connections.discard(channel)


class ServiceDispatcher:
    """Listens and answers.

    Arguments:
        host: who is called.
        config: address and limits.
        secret: the shared secret, checked.
    """

    def __init__(self, host: ServiceHost, config: NodeConfig, secret: bytes) -> None:
        self._host = host
        self._config = config
        self._secret = secret
        self.admission = Admission()
        self._port = ServicePort(config.listen, f"{config.name} listens", self._take)

    def start(self) -> None:
        """Begin to listen.

        Raises:
            StorageError: the address cannot be listened on.
        """
        self._port.start()

    def close(self) -> None:
        """Take no more calls, and end all connections."""
        self._port.close()
        for channel in list(self.admission.connections):
            channel.close()

    def _take(self, sock: socket.socket, address: Any) -> None:
        try:
            channel = Channel(sock, address_text(address))
        except OSError:  # The caller has gone.
            sock.close()
            return
        self.admission.come(channel, str(address[0]))
        threading.Thread(target=self._answer, args=(channel,), name=f"{channel.peer} calls", daemon=True).start()

    def _answer(self, channel: Channel) -> None:
        try:
            answerer = Answerer(channel, self._secret)
            hello = answerer.listen(_PROOF_S)
            if not self.admission.prove(channel, member=hello.purpose in _MEMBER_PURPOSES):
                raise answerer.refusal("too many are connected", hint="try again when others have ended")
            # Only after the proof: a stranger must not learn which group this is.
            answerer.check(hello, self._host.identity(), self._config.max_skew_ms)
            if hello.purpose == Purpose.FEED:
                self._host.feed(answerer, hello, channel)
            elif hello.purpose == Purpose.ELECT:
                self._host.hear_voter(answerer, hello, channel)
            elif hello.purpose in (Purpose.STATUS, Purpose.TRANSFER, Purpose.RECORDS):
                answerer.welcome()
                self._serve(channel)
            else:
                raise answerer.refusal(f"purpose {hello.purpose} is not known here")
        except JetoolError:
            return  # The caller has been told.
        finally:
            channel.close()
            self.admission.leave(channel)

    def _serve(self, channel: Channel) -> None:
        """One request of an operator."""
        frame = channel.receive(_REQUEST_S)
        if frame.type == Message.STATUS:
            channel.send(Message.STATUS, messages.encode_status(self._host.status()))
            return
        if (reply := answer(self._host, frame)) is not None:
            channel.send(*reply)
            return
        if frame.type != Message.TRANSFER:
            raise messages.nonsense(channel.peer, f"message {frame.type}")
        node, force, timeout_s = messages.decode_transfer(frame.payload)
        try:
            self._host.make_master(node, timeout_s, force=force)
        except JetoolError as error:
            channel.send(Message.FAILED, messages.encode_text(str(error)))
            return
        channel.send(Message.DONE)
