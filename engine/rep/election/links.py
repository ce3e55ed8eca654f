"""The connections between voters.

Each voter calls each other one, and speaks on the connection that it made; on those that were made to it, it listens.
Whom an address leads to is known once that node has said its name on a connection that this one made: until then what
a node of that name says is not heard.

* Nothing here waits for a peer but its own thread: what cannot be sent, or heard, in time is dropped, as a network
  might. Raft asks for no more.
* Both sides must know the same number of voters: otherwise their majorities might have no node in common.
* A peer that is silent is called anew: TCP may take minutes to notice that a network is there again.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from engine.errors import FormatError, plural
from engine.rep import messages
from engine.rep.election.messages import LONGEST, FrameKind, Said, VoterJoin, decode, decode_join, encode, encode_join
from engine.rep.frames import Channel, DisconnectedError, Frame, PeerError, address_text
from engine.rep.handshake import Answerer, Hello, Identity, Purpose, call
from engine.rep.messages import Message, nonsense
from engine.rep.settings import Address

_MOST_WAITING: Final = 100
_MOST_HEARD: Final = 1000
_CALL_TIMEOUT_S: Final = 3.0
_JOIN_S: Final = 10.0
_END_S: Final = 1.0


class VoterMessage(NamedTuple):
    """Something that a voter has said, in the queue of what the election has to do."""

    name: str
    said: Said


class Link:
    """The way to one other voter.

    Arguments:
        address: where it listens.
        join: calls it, and returns the connection and its name.
        retry_s: pause between two calls.

    Attributes:
        name: of the node there, once it is known.
        up: whether what is sent goes out.
        joined: whether it ever was up.
        problem: why it is not up.
    """

    def __init__(self, address: Address, join: Callable[[Address], tuple[Channel, str]], retry_s: float) -> None:
        self.address = address
        self.name: str | None = None
        self.up = self.joined = False
        self.problem: PeerError | None = None
        self._join = join
        self._retry_s = retry_s
        self._changed = threading.Condition()
        self._waiting: deque[Said] = deque(maxlen=_MOST_WAITING)
        self._channel: Channel | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"votes to {address_text(address)}", daemon=True)

    def start(self) -> None:
        """Begin to call."""
        self._thread.start()

    def send(self, said: Said) -> None:
        """Send something, if the peer can be reached."""
        with self._changed:
            # What cannot go out now would be out of date by the time it can; Raft says it again.
            if self.up:
                self._waiting.append(said)
                self._changed.notify()

    def call_anew(self) -> None:
        """Give this connection up."""
        if (channel := self._channel) is not None:
            channel.close()

    def close(self) -> None:
        """Give up for good."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self.call_anew()

    def join(self) -> None:
        """Wait for the end of the thread; one that is calling ends by itself a little later."""
        self._thread.join(_END_S)

    def _run(self) -> None:
        while not self._closed:
            try:
                channel, self.name = self._join(self.address)
                self._speak(channel)
            except PeerError as error:
                self.problem = error
            with self._changed:
                self._changed.wait_for(lambda: self._closed, self._retry_s)

    def _speak(self, channel: Channel) -> None:
        """Send what there is until the connection ends."""
        with self._changed:
            self._channel, self.up, self.joined, self.problem = channel, not self._closed, True, None
            # What was meant for an earlier connection may be of an earlier term.
            self._waiting.clear()
        try:
            while self.up:
                with self._changed:
                    self._changed.wait_for(lambda: self._waiting or self._closed)
                    said = self._waiting.popleft() if self._waiting and not self._closed else None
                if said is None:
                    return
                channel.send(*encode(said))
        finally:
            with self._changed:
                self.up, self._channel = False, None
            channel.close()


class Links:
    """All connections of one voter.

    Arguments:
        who: this node, as it tells others.
        peers: addresses of the other voters.
        secret: shared by all.
        retry_s: pause between two calls of a peer that is not there.
        silence_s: after so long a caller that says nothing is given up.
    """

    def __init__(
        self, who: Callable[[], Identity], peers: tuple[Address, ...], secret: bytes, retry_s: float, silence_s: float
    ) -> None:
        self._who = who
        self._secret = secret
        self._silence_s = silence_s
        self.voters = len(peers) + 1
        self.heard: queue.Queue[VoterMessage | Callable[[], None]] = queue.Queue(_MOST_HEARD)
        self.links = {address: Link(address, self._call, retry_s) for address in peers}
        self._callers: dict[str, Channel] = {}
        self._mutex = threading.Lock()

    def start(self) -> None:
        """Call all peers."""
        for link in self.links.values():
            link.start()

    def stop(self) -> None:
        """End all connections."""
        for link in self.links.values():
            link.close()
        with self._mutex:
            for channel in self._callers.values():
                channel.close()
        for link in self.links.values():
            link.join()

    def named(self, name: str) -> Link | None:
        """The way to the node of a name."""
        return next((link for link in self.links.values() if link.name == name), None)

    def refusal(self) -> PeerError | None:
        """Why this node is none of the group's voters: all peers turn it away.

        A refusal comes before the proof: a stranger on the port of a peer could have sent it. A node that has once
        reached a voter knows better, and goes on calling.
        """
        if any(link.joined for link in self.links.values()):
            return None
        problems = [link.problem for link in self.links.values()]
        refusals = [problem for problem in problems if problem and not isinstance(problem, DisconnectedError)]
        # One peer may be wrong about the group; when all refuse, this node is.
        return refusals[0] if refusals and len(refusals) == len(problems) else None

    def answer(self, answerer: Answerer, hello: Hello, channel: Channel) -> None:
        """Listen to a voter until it is gone.

        Raises:
            PeerError: it says what makes no sense, or knows another number of voters. DisconnectedError: it is gone.
        """
        name, mine = hello.identity.node, self._who().node
        if name == mine:
            raise answerer.refusal(f"there is a node {mine!r} already: this one")
        answerer.welcome()
        # What voters say is short: a peer gets no more memory than that.
        channel.narrow(LONGEST)
        try:
            voters = decode_join(_expect(channel, FrameKind.JOIN)).voters
            if voters != self.voters:
                known = plural(self.voters, "voter")
                why = f"{mine!r} knows {known}, {name!r} knows {voters}: start both with all --peers"
                channel.send(Message.FAILED, messages.encode_text(why))
                raise PeerError(f"{channel.peer} was turned away", found=why)
            channel.send(FrameKind.JOIN, encode_join(VoterJoin(self.voters, mine)))
            self._listen(name, channel)
        except FormatError as error:
            raise nonsense(channel.peer, error) from error

    def _listen(self, name: str, channel: Channel) -> None:
        with self._mutex:
            earlier, self._callers[name] = self._callers.get(name), channel
        if earlier is not None:
            # The peer has called anew: its old connection is dead, though TCP may not know that yet.
            earlier.close()
        try:
            while True:
                said = decode(channel.receive(self._silence_s))
                # Dropped rather than awaited: Raft says it again, and this thread has to keep reading.
                with contextlib.suppress(queue.Full):
                    self.heard.put_nowait(VoterMessage(name, said))
        finally:
            with self._mutex, contextlib.suppress(KeyError):
                # A later connection of the same peer may have taken the place.
                if self._callers[name] is channel:
                    del self._callers[name]

    def _call(self, address: Address) -> tuple[Channel, str]:
        channel = call(address, self._who(), Purpose.ELECT, self._secret, _CALL_TIMEOUT_S)
        try:
            channel.narrow(LONGEST)
            channel.send(FrameKind.JOIN, encode_join(VoterJoin(self.voters, self._who().node)))
            name = decode_join(_expect(channel, FrameKind.JOIN)).name
            other = self.named(name)
            # One node under two addresses would vote twice.
            if other is not None and other.address != address:
                raise PeerError(
                    f"{address_text(address)} and {address_text(other.address)} are the same node",
                    found=repr(name),
                    consequence="it would be counted twice",
                    hint="name every other node once in --peers",
                )
        except FormatError as error:
            channel.close()
            raise nonsense(channel.peer, error) from error
        except BaseException:
            channel.close()
            raise
        return channel, name


def _expect(channel: Channel, wanted: FrameKind) -> bytes:
    frame: Frame = channel.receive(_JOIN_S)
    if frame.type == Message.FAILED:
        raise PeerError(f"{channel.peer} turns this node away", found=messages.decode_text(frame.payload))
    if frame.type != wanted:
        raise nonsense(channel.peer, f"message {frame.type}")
    return frame.payload
