"""The recordings of real nodes in the corpus (``je-ha-wire``, whose README tells the format), and a player of them.

``replay`` gives what each side sent to the decoders, piece by piece as it was recorded or byte by byte, and notes every
message with the bytes that it came from.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import FormatError
from engine.rep.wire import feeder
from engine.rep.wire.election_lines import ACCEPTOR, LEARNER
from engine.rep.wire.feeder import FEEDER
from engine.rep.wire.group_lines import GROUP, MONITOR, STATE
from engine.rep.wire.inbox import Inbox
from engine.rep.wire.lines import Envelope, LineTable, TextMessage
from engine.rep.wire.log_file_feeder import LOG_FILES, SERVICE, FileStart, ServerVersion
from engine.rep.wire.messages import Message, Table
from engine.rep.wire.node_state import NODE_STATE
from engine.rep.wire.services import Status
from tests.support import corpus

HOME = corpus.path() / "je-ha-wire"
BINARY = {table.service: table for table in (FEEDER, LOG_FILES, NODE_STATE)}
TEXT = {table.service: table for table in (ACCEPTOR, LEARNER, GROUP, STATE, MONITOR)}


class Piece(NamedTuple):
    """What one side sent until the other one did; no data is the end of its stream."""

    client: bool
    data: bytes
    end: str


class Recording(NamedTuple):
    """One connection."""

    path: Path
    meta: dict[str, Any]
    pieces: list[Piece]

    def sent(self, *, client: bool) -> bytes:
        """All bytes of one side."""
        return b"".join(piece.data for piece in self.pieces if piece.client is client)


class Played(NamedTuple):
    """What was decoded: a message, a status, the name of a service, bytes of a file, an end, or what cannot be read.

    Attributes:
        raw: the bytes that it came from.
        version: of a binary message.
    """

    client: bool
    what: object
    raw: bytes
    version: int = 0


def files() -> list[Path]:
    """Every recording."""
    return sorted((*HOME.glob("*/*.jsonl"), *HOME.glob("*/*.jsonl.gz")))


def read(path: Path) -> Recording:
    """One recording."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    first, *rest = map(json.loads, text.splitlines())
    pieces = [Piece(one["from"] == "client", bytes.fromhex(one.get("hex", "")), one.get("end", "")) for one in rest]
    return Recording(path, first["meta"], pieces)


class Player:
    """Takes one connection apart.

    Arguments:
        recording: the connection.
        step: how many bytes the decoders get at a time; 0 for the recorded pieces.
    """

    def __init__(self, recording: Recording, step: int = 0) -> None:
        self._recording = recording
        self._step = step
        self._inboxes = {side: Inbox(from_client=side) for side in (True, False)}
        self._fed = {True: b"", False: b""}
        self._service = ""
        self._status: Status | None = None
        self._version = 0
        self._file_bytes = 0
        self._broken: set[bool] = set()

    def play(self) -> Iterator[Played]:
        """Everything in its order."""
        for client, data, end in self._recording.pieces:
            step = self._step or max(len(data), 1)
            for at in range(0, len(data), step):
                self._fed[client] += data[at : at + step]
                if client not in self._broken:
                    self._inboxes[client].feed(data[at : at + step])
                    yield from self._drain(client)
            if end:
                yield Played(client, end, b"")

    def _drain(self, client: bool) -> Iterator[Played]:
        inbox = self._inboxes[client]
        while client not in self._broken:
            before = len(inbox)
            at = len(self._fed[client]) - before
            try:
                what = self._next(client)
            except FormatError as error:
                self._broken.add(client)
                what = error
            if what is None:
                return
            taken = before - len(inbox)
            yield Played(client, what, self._fed[client][at : at + taken], self._version)

    def _next(self, client: bool) -> object | None:
        inbox = self._inboxes[client]
        if client and not self._service:
            name = inbox.service()
            self._service = name or ""
            return name
        if not client and self._status is None:
            self._status = inbox.status()
            return self._status
        if not client and self._file_bytes:
            raw = inbox.raw(self._file_bytes)
            self._file_bytes -= len(raw)
            return raw or None
        if (lines := TEXT.get(self._service)) is not None:
            return inbox.line(lines)
        return self._message(inbox)

    def _message(self, inbox: Inbox) -> Message | None:
        copying = self._service.startswith(SERVICE)
        table = LOG_FILES if copying else BINARY.get(self._service)
        # A service that there is none of: the answer has said so.
        if table is None:
            return None
        # Connections that carry files are of version 4 and do not say so.
        version = 4 if copying and self._service != SERVICE else self._version
        found = inbox.message(table, version)
        if isinstance(found, feeder.FeederProtocolVersion | ServerVersion):
            self._version = found.version
        elif isinstance(found, FileStart):
            self._file_bytes = found.length
        if version:
            self._version = version
        return found

    @property
    def table(self) -> Table | LineTable:
        """The messages of the service."""
        if self._service in TEXT:
            return TEXT[self._service]
        return LOG_FILES if self._service.startswith(SERVICE) else BINARY[self._service]


def encoded(player: Player, played: Played) -> bytes:
    """The bytes of a decoded message."""
    what, table = played.what, player.table
    if isinstance(table, LineTable):
        assert isinstance(what, tuple)
        envelope, message = what
        assert isinstance(envelope, Envelope)
        assert isinstance(message, TextMessage)
        return table.encode(envelope, message, client=played.client)
    assert isinstance(what, Message)
    return table.encode(what, played.version, client=played.client)
