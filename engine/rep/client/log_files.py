"""Client of the service LogFileFeeder: how busy a node is, the files of its backup, and their bytes.

A node prepares a copy like ``DbBackup``: it begins a new log file, and the files of its list never change again while
the connection lasts, and for five minutes after it breaks: a client that reconnects with the same id gets the same
list. Requests are restricted, since a name that does not exist ends the node (je-ha-protocol.md 11.2): only names from
the list are requested, in the order of the protocol, and ``Done`` ends the copy.

In version 2 the files are sent over the same connection, in version 4 over a second connection.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final, NamedTuple

from engine.errors import plural
from engine.rep.client.call import Call, ServiceError
from engine.rep.client.connection import Address, Network
from engine.rep.peers import DisconnectedError, PeerError
from engine.rep.wire.log_file_feeder import (
    END_OF_QUESTIONS,
    LOG_FILES,
    OFFERED_VERSION,
    OLDER_VERSION,
    SERVICE,
    ClientVersion,
    CopyProtocolError,
    Done,
    FeederInfoReq,
    FeederInfoResp,
    FileEnd,
    FileInfoReq,
    FileInfoResp,
    FileListReq,
    FileListResp,
    FileReq,
    FileStart,
    IncompatibleVersion,
    ServerVersion,
    ThreadCount,
    file_service,
)
from engine.rep.wire.services import Status

_NAME: Final = re.compile(r"(?:data\d{3}/)?[0-7][0-9a-f]{7}\.jdb", re.ASCII)
_MARKER: Final = "7fffffff.jdb"
# Positions in a file have 32 bits.
_LONGEST_FILE: Final = 1 << 32
_PIECE_BYTES: Final = 1 << 18
_DIGESTS: Final = {20: "sha1", 32: "sha256"}
# The number that is sent first is random and below this; nodes of 25.3 send small numbers, too.
_MOST_CHOICES: Final = 100
_ONE_CONNECTION: Final = 1
_REGISTERED_S: Final = 5.0
_PAUSE_S: Final = 0.05


class RemoteFile(NamedTuple):
    """A file of a node's list; the digest is empty if it was not requested."""

    name: str
    size_bytes: int
    digest: bytes


def new_client_id() -> int:
    """A unique id for a copy; ids of nodes are positive."""
    return -1 - secrets.randbelow((1 << 31) - 1)


class RemoteLog:
    """A connection to the log files of one node; use as a context manager.

    Arguments:
        network: opens the connection to the node.
        address: where the node listens.
        client_id: id of the copy; use the same one after an interruption.
        timeout_s: timeout of each step; computing the digest of a whole file is one step.

    Raises:
        PeerError: the node is not running, or supports no version in which a copy can be interrupted without harm.
    """

    def __init__(self, network: Network, address: Address, client_id: int, timeout_s: float) -> None:
        self._network = network
        self._address = address
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._files: Call | None = None
        self._call, self.version = self._opened()
        self._listed: dict[str, int] = {}
        self._has_asked = False

    def __enter__(self) -> RemoteLog:
        """The connection."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections, that of the files first."""
        if self._files is not None and self._files is not self._call:
            self._files.close()
        self._call.close()

    def info(self) -> FeederInfoResp:
        """How busy the node is, and its part of the stream."""
        self._has_asked = True
        self._call.send(LOG_FILES, self.version, FeederInfoReq())
        return self._call.receive(LOG_FILES, self.version, FeederInfoResp)

    def names(self) -> list[str]:
        """Begin the copy, after ``info``; return its files, in the order of their numbers.

        Raises:
            PeerError: a name is not a log file name.
        """
        # The node accepts this request only after the one of ``info``.
        assert self._has_asked
        self._call.send(LOG_FILES, self.version, FileListReq())
        names = self._call.receive(LOG_FILES, self.version, FileListResp).names
        bad = [name for name in names if _NAME.fullmatch(name) is None or name.endswith(_MARKER)]
        base = [name.rpartition("/")[2] for name in names]
        if bad or len(set(base)) != len(base) or not names:
            found = repr(bad[0][:80]) if bad else plural(len(names), "name")
            raise PeerError(f"{self._call.peer} lists what is no log", expected="log files, each once", found=found)
        self._listed = dict.fromkeys(names, -1)
        return sorted(names, key=lambda name: name.rpartition("/")[2])

    def file(self, name: str, *, digest: bool) -> RemoteFile:
        """Length, and digest if requested, of a listed file; call it before any file is read."""
        assert name in self._listed, name
        assert self._files is None, name
        self._call.send(LOG_FILES, self.version, FileInfoReq(name=name, with_digest=digest))
        said = self._call.receive(LOG_FILES, self.version, FileInfoResp)
        if said.name != name or not 0 <= said.length < _LONGEST_FILE or (digest and len(said.digest) not in _DIGESTS):
            raise PeerError(f"{self._call.peer} answers about another file", expected=name, found=str(said)[:200])
        self._listed[name] = said.length
        # A node sends a digest without a request if it has computed it for another copy.
        return RemoteFile(name, said.length, said.digest if digest else b"")

    def read(self, name: str) -> Iterator[bytes]:
        """The bytes of a listed file, in pieces; call ``file`` for it before.

        Raises:
            DisconnectedError: the connection ended before the file did.
            PeerError: length or digest is wrong, so the pieces must be discarded.
        """
        size = self._listed[name]
        assert size >= 0, name
        call = self._files_call()
        call.send(LOG_FILES, self.version, FileReq(name=name))
        start = call.receive(LOG_FILES, self.version, FileStart)
        if start.name != name or start.length != size:
            raise PeerError(
                f"{call.peer} sends another file", expected=f"{name}, {plural(size, 'byte')}", found=str(start)[:200]
            )
        digests = [hashlib.new(kind, usedforsecurity=False) for kind in _DIGESTS.values()]
        left = size
        while left:
            piece = call.raw(min(left, _PIECE_BYTES))
            left -= len(piece)
            # The node may use either algorithm, so both digests are computed.
            for digest in digests:
                digest.update(piece)
            yield piece
        end = call.receive(LOG_FILES, self.version, FileEnd)
        if end.name != name or end.length != size or end.digest not in [digest.digest() for digest in digests]:
            raise PeerError(f"{name} of {call.peer} has another digest than it was sent with", found=end.digest.hex())

    def done(self) -> None:
        """End the copy: the node may delete its files again."""
        # In version 4 ``Done`` is sent over the connection of the files; the first connection is just closed.
        if self.version == OLDER_VERSION:
            self._call.send(LOG_FILES, self.version, Done())
        elif self._files is not None:
            self._files.send(LOG_FILES, self.version, Done())

    def _opened(self) -> tuple[Call, int]:
        """A connection in version 4 or 2; never in 3, in which a cut ends the node (je-ha-protocol.md 11.4)."""
        for offered in (OFFERED_VERSION, OLDER_VERSION):
            call = Call(self._network, self._address, SERVICE, self._timeout_s)
            try:
                call.send(LOG_FILES, offered, ClientVersion(version=offered, client_id=self._client_id))
                said = call.receive(LOG_FILES, offered, ServerVersion, IncompatibleVersion, CopyProtocolError)
            except DisconnectedError:
                call.close()
                # Nodes of 25.3 close the connection for an unknown version, and older ones may.
                if offered == OLDER_VERSION:
                    raise
                continue
            except BaseException:
                call.close()
                raise
            if isinstance(said, ServerVersion) and said.version in (OFFERED_VERSION, OLDER_VERSION):
                return call, said.version
            call.close()
            raise PeerError(
                f"{call.peer} offers a version of file copies that jetool does not speak",
                expected=f"{OFFERED_VERSION} or {OLDER_VERSION}",
                found=str(getattr(said, "version", getattr(said, "text", ""))),
                consequence="nothing was copied: a copy of version 3 that is cut can end the node",
            )
        raise AssertionError

    def _files_call(self) -> Call:
        """The connection for files."""
        if self._files is None:
            self._files = self._call if self.version == OLDER_VERSION else self._second()
        return self._files

    def _second(self) -> Call:
        """Request a second connection, and open it."""
        chosen = secrets.randbelow(_MOST_CHOICES)
        self._call.send(LOG_FILES, self.version, FileInfoReq(name=END_OF_QUESTIONS, with_digest=False))
        for count in (chosen, _ONE_CONNECTION):
            self._call.send(LOG_FILES, self.version, ThreadCount(count=count))
        granted = self._call.receive(LOG_FILES, self.version, ThreadCount).count
        if granted < 1:
            raise PeerError(f"{self._call.peer} grants no connection for files", found=str(granted))
        service = file_service(self._client_id, chosen)
        until = time.monotonic() + min(self._timeout_s, _REGISTERED_S)
        while True:
            try:
                return Call(self._network, self._address, service, self._timeout_s)
            except ServiceError as error:
                # A node announces the connection a moment before the service is registered.
                if error.status is not Status.UNKNOWN_SERVICE or time.monotonic() >= until:
                    raise
                time.sleep(_PAUSE_S)
