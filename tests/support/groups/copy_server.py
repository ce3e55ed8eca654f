"""A node that serves copies of its files, as a network: versions 2, 3 and 4, with whatever may go wrong."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from engine.rep.client.connection import Address
from engine.rep.peers import DisconnectedError
from engine.rep.wire import log_file_feeder as c
from engine.rep.wire.inbox import Inbox
from engine.rep.wire.log_file_feeder import LOG_FILES, SERVICE
from engine.rep.wire.messages import Message


@dataclass
class CopyServer:
    """The node.

    Attributes:
        files: by name.
        version: the highest that it speaks; ``lowest``: it closes on one below.
        cut_after: the bytes that a connection carries at most, one for each connection in turn; then no limit.
        late: how often it does not know the service that it has granted.
        sent: names of files that some copy has got.
        spoil: changes an answer before it leaves.
    """

    files: dict[str, bytes]
    version: int = 2
    lowest: int = 2
    cut_after: list[int] = field(default_factory=list)
    late: int = 0
    spoil: Callable[[Message], Message] = lambda message: message
    connections: list[CopyConnection] = field(default_factory=list)
    opened: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)

    def connect(self, address: Address, deadline: float) -> CopyConnection:
        """A connection to it."""
        connection = CopyConnection(self, self.cut_after.pop(0) if self.cut_after else None)
        self.connections.append(connection)
        return connection


def changing(kind: type[Message], **changes: Any) -> Callable[[Message], Message]:
    """For ``CopyServer.spoil``: other values in all answers of a kind."""

    def changed(said: Message) -> Message:
        # All messages are data classes, by a decorator that hides it.
        return dataclasses.replace(cast("Any", said), **changes) if isinstance(said, kind) else said

    return changed


class CopyConnection:
    """One connection: what the client sends is answered at once."""

    def __init__(self, server: CopyServer, most: int | None) -> None:
        self._server = server
        self._left = most
        self._inbox = Inbox(from_client=True)
        self._out = b""
        self._service: str | None = None
        self._version = 4
        self._client_id = 0
        self._counts: list[int] = []
        self.messages: list[Message] = []
        self.ended = self.closed = False

    def send(self, data: bytes, deadline: float) -> None:
        """Take it, and answer."""
        if self.ended:
            raise DisconnectedError("the connection has ended", found="reset")
        self._inbox.feed(data)
        if self._service is None:
            self._service = self._inbox.service()
            if self._service is None:
                return
            known = self._service == SERVICE or self._service in self._server.opened
            if known and self._service != SERVICE and self._server.late:
                self._server.late -= 1
                known = False
            self._out += b"\0" if known else b"\3"
        while (message := self._inbox.message(LOG_FILES, self._version)) is not None:
            self.messages.append(message)
            self._answer(message)

    def receive(self, deadline: float) -> bytes:
        """Up to a thousand bytes of what was answered."""
        data, self._out = self._out[:1000], self._out[1000:]
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
            if not data:
                self.ended = True
                raise DisconnectedError("the connection has ended", found="reset")
        if not data and not self.ended:
            raise DisconnectedError("the server waits, and so does the client")
        return data

    def end_after(self, most: int) -> None:
        """End when it has carried this many bytes more."""
        self._left = most

    @property
    def has_more(self) -> bool:
        """Whether there is something to receive."""
        return bool(self._out)

    def close(self) -> None:
        """The client has gone."""
        self.closed = True

    def _answer(self, message: Message) -> None:
        server = self._server
        if isinstance(message, c.ClientVersion):
            self._client_id = message.client_id
            if message.version < server.lowest:
                self.ended = True
                return
            self._say(c.ServerVersion(version=min(message.version, server.version), node_id=1))
            self._version = min(message.version, server.version)
        elif isinstance(message, c.FeederInfoReq):
            later: dict[str, Any] = {"log_version": 26, "je_version": "25.3.17"} if self._version >= 3 else {}
            self._say(c.FeederInfoResp(load=2, first_vlsn=1, last_vlsn=100, **later))
        elif isinstance(message, c.FileListReq):
            self._say(c.FileListResp(names=tuple(server.files)))
        elif isinstance(message, c.FileInfoReq) and message.name != c.END_OF_QUESTIONS:
            if message.name not in server.files:
                # JE's node would be lost by now; here a byte was changed on the way.
                self.ended = True
                return
            data = server.files[message.name]
            # As JE: a digest that is known is said, asked for or not.
            known = message.with_digest or message.name in server.sent
            digest = self._digest(data) if known else b""
            self._say(c.FileInfoResp(name=message.name, length=len(data), modified_ms=5, digest=digest))
        elif isinstance(message, c.FileReq):
            if message.name not in server.files:
                self.ended = True
                return
            data = server.files[message.name]
            server.asked.append(message.name)
            self._say(c.FileStart(name=message.name, length=len(data), modified_ms=5))
            self._out += data
            server.sent.add(message.name)
            self._say(c.FileEnd(name=message.name, length=len(data), modified_ms=5, digest=self._digest(data)))
        elif isinstance(message, c.ThreadCount):
            self._counts.append(message.count)
            if len(self._counts) == 2:
                server.opened.add(c.file_service(self._client_id, self._counts[0]))
                self._say(c.ThreadCount(count=1))

    def _digest(self, data: bytes) -> bytes:
        return hashlib.new("sha1" if self._version == 2 else "sha256", data, usedforsecurity=False).digest()

    def _say(self, message: Message) -> None:
        self._out += LOG_FILES.encode(self._server.spoil(message), self._version, client=False)
