"""Clients that were recorded, and a server of ours that answers them: what both say, decoded."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from engine.rep.peers import DisconnectedError
from engine.rep.services.port import Port, Services
from tests.support.groups.recordings import Piece, Played, Player, Recording, read


class ScriptedConnection:
    """A connection on which a client says what it has recorded, byte by byte or in pieces.

    Arguments:
        asked: what the client says.
        step: how many bytes come at a time.
        waits: called with what was sent by then when the client has nothing more to say; more bytes, none at its end.
    """

    def __init__(self, asked: bytes, step: int, waits: Callable[[bytes], bytes] = lambda _: b"") -> None:
        self._asked = asked
        self._step = step
        self._waits = waits
        self.sent = b""
        self.closed = False

    def send(self, data: bytes, deadline: float) -> None:
        """The server says this."""
        assert deadline > time.monotonic()
        if self.closed:
            raise DisconnectedError("closed")
        self.sent += data

    def receive(self, deadline: float) -> bytes:
        """What comes next."""
        assert deadline > time.monotonic()
        if not self._asked and not self.closed:
            self._asked = self._waits(self.sent)
        data, self._asked = self._asked[: self._step], self._asked[self._step :]
        return data

    def close(self) -> None:
        """The server has ended it."""
        self.closed = True


def port_of(services: Services) -> Port:
    """A port that nobody listens at."""
    return Port(("localhost", 0), services)


def served(services: Services, asked: bytes, step: int = 1) -> bytes:
    """What a client gets that says this and goes."""
    connection = ScriptedConnection(asked, step)
    port_of(services).serve(connection, "a client")
    assert connection.closed
    return connection.sent


def replayed(services: Services, recording: Recording, step: int = 1) -> list[Played]:
    """What the server says to a recorded client, decoded."""
    asked = recording.sent(client=True)
    answer = served(services, asked, step)
    return said(recording._replace(pieces=[Piece(True, asked, ""), Piece(False, answer, "")]))


def said(recording: Recording) -> list[Played]:
    """What the server said in a recording, decoded."""
    return [played for played in Player(recording).play() if not played.client and played.what not in ("fin", "rst")]


def recorded(path: Path) -> tuple[Recording, list[Played]]:
    """A recording, and what its server said."""
    recording = read(path)
    return recording, said(recording)
