"""Networks that are none: recorded nodes that answer, and faults on the way.

A recorded node answers as it did, and an AssertionError says when a client sends what the recorded client did not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from engine.rep.client.connection import Address, Connection, Network, SocketNetwork
from engine.rep.peers import DisconnectedError
from tests.support.groups.recordings import HOME, Recording, files, read

# What differs between two clients that ask the same: the name that a node is not asked by, the group that is wrong.
_SAME = ((rb"STATEREQ\|[^|\n]*", b"STATEREQ|?"), (rb"\|OTHER\|", b"|?|"))


def same_request(data: bytes) -> bytes:
    """Bytes of a client without what may differ."""
    for pattern, new in _SAME:
        data = re.sub(pattern, new, data)
    return data


@cache
def recordings(scenario: str) -> list[Recording]:
    """The connections of a scenario."""
    return [read(path) for path in files() if path.parent == HOME / scenario]


class RecordedNetwork:
    """The nodes of one scenario.

    Arguments:
        scenario: its name, or its connections.
        step: only connections of this step of the story answer; any when empty.
        same: takes out of a recorded client's bytes what may differ.
    """

    def __init__(
        self, scenario: str | list[Recording], step: str = "", same: Callable[[bytes], bytes] = same_request
    ) -> None:
        all_of_it = recordings(scenario) if isinstance(scenario, str) else scenario
        self._recordings = [one for one in all_of_it if step in one.meta["step"]]
        self._same = same
        self.opened: list[RecordedConnection] = []

    def connect(self, address: Address, deadline: float) -> RecordedConnection:
        """A connection to the node of a port; nobody listens where nothing was recorded."""
        there = [one for one in self._recordings if one.meta["port"] == address[1]]
        if not there:
            raise DisconnectedError(f"{address[0]}:{address[1]} cannot be reached", found="Connection refused")
        connection = RecordedConnection(there, self._same)
        self.opened.append(connection)
        return connection


class RecordedConnection:
    """Answers as the last recorded connection in which the client sent the same."""

    def __init__(self, recordings: list[Recording], same: Callable[[bytes], bytes]) -> None:
        self._candidates = recordings
        self._same = same
        self._delivered = 0
        self.sent = b""
        self.closed = False

    def send(self, data: bytes, deadline: float) -> None:
        """Go on in the recordings in which this comes next."""
        assert not self.closed
        self.sent += data
        sent = self._same(self.sent)
        fitting = [one for one in self._candidates if self._same(one.sent(client=True)).startswith(sent)]
        # A service that nobody asked for there and then does not answer; of the others every byte was sent by JE.
        service = self.sent[: 9 + self.sent[8]]
        known = any(one.sent(client=True).startswith(service) for one in self._candidates)
        assert fitting or not known, f"JE never sent {self.sent!r}"
        self._candidates = fitting

    def receive(self, deadline: float) -> bytes:
        """What the node sent by then."""
        if not self._candidates:
            raise DisconnectedError("nothing was recorded")
        recording = self._candidates[-1]
        data, asked = b"", b""
        for piece in recording.pieces:
            if piece.client:
                asked += piece.data
                if len(self._same(asked)) > len(self._same(self.sent)):
                    break
            else:
                data += piece.data
        new = data[self._delivered :]
        if not new and len(self._same(recording.sent(client=True))) > len(self._same(self.sent)):
            raise DisconnectedError("the node waits for more, and so does the client")
        self._delivered = len(data)
        return new

    def close(self) -> None:
        """Nothing more is sent."""
        self.closed = True


class FaultyNetwork:
    """A network that does something to what comes.

    Arguments:
        inner: the real one.
        spoil: gets what has come in all so far, gives what the client sees of it; None ends the connection there.
    """

    def __init__(self, inner: Network, spoil: Callable[[bytes], bytes | None]) -> None:
        self._inner = inner
        self._spoil = spoil

    def connect(self, address: Address, deadline: float) -> FaultyConnection:
        """A connection on which it happens."""
        return FaultyConnection(self._inner.connect(address, deadline), self._spoil)


class FaultyConnection:
    """Passes on what the fault leaves."""

    def __init__(self, inner: Connection, spoil: Callable[[bytes], bytes | None]) -> None:
        self._inner = inner
        self._spoil = spoil
        self._came = b""
        self._given = 0

    def send(self, data: bytes, deadline: float) -> None:
        """Nothing happens to it."""
        self._inner.send(data, deadline)

    def receive(self, deadline: float) -> bytes:
        """What is left of what has come."""
        data = self._inner.receive(deadline)
        self._came += data
        seen = self._spoil(self._came)
        if seen is None:
            raise DisconnectedError("the connection has ended", found="cut")
        new = seen[self._given :]
        self._given = len(seen)
        return new

    def close(self) -> None:
        """End it."""
        self._inner.close()


class NotedNetwork:
    """A network that notes what is sent.

    Attributes:
        sent: the bytes of each call of ``send``.
    """

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def connect(self, address: Address, deadline: float) -> Connection:
        plain, sent = SocketNetwork().connect(address, deadline), self.sent

        class Noting:
            receive, close = plain.receive, plain.close

            def send(self, data: bytes, deadline: float) -> None:
                sent.append(data)
                plain.send(data, deadline)

        return Noting()
