"""Service ``LogFileFeeder``: the log files of a live node (je-ha-protocol.md section 11).

Versions 2 (18.3: digests are SHA-1) and 4 (25.3: SHA-256, and the files over further connections). Version 3 is read,
so that recordings can be decoded, and never offered: if a copy in that version breaks off, a 25.3 node becomes invalid.

Between FileStart and FileEnd are the unframed bytes of the file, with the length given in FileStart.
"""

from __future__ import annotations

from typing import Annotated, Final

from engine.rep.wire.messages import Message, Since, Table, message
from engine.rep.wire.values import BYTES, FLAG, INT, LONG, RELEASE, TEXT, TEXTS

OFFERED_VERSION: Final = 4
OLDER_VERSION: Final = 2
SERVICE: Final = "LogFileFeeder"
# The placeholder for a name if a client of version 4 requests all files.
END_OF_QUESTIONS: Final = "END"
# Enough for a million names of twelve characters.
_NAMES_BODY: Final = 16 << 20


@message(1001)
class ClientVersion(Message):
    """The version of the client, and an id, by which an interrupted copy is resumed."""

    version: Annotated[int, INT]
    client_id: Annotated[int, INT]


@message(1002)
class ServerVersion(Message):
    """The agreed version."""

    version: Annotated[int, INT]
    node_id: Annotated[int, INT]


@message(1003)
class IncompatibleVersion(Message):
    """There is no common version."""

    text: Annotated[str, TEXT]


@message(1004)
class CopyProtocolError(Message):
    """An error reported by the server."""

    text: Annotated[str, TEXT]


@message(1)
class FeederInfoReq(Message):
    """Request for the load of the node."""


@message(2)
class FeederInfoResp(Message):
    """Number of other copies and active replicas, and the VLSN range of the node."""

    load: Annotated[int, INT]
    first_vlsn: Annotated[int, LONG]
    last_vlsn: Annotated[int, LONG]
    log_version: Annotated[int | None, INT, Since(3)] = None
    je_version: Annotated[str | None, RELEASE, Since(3)] = None


@message(3)
class FileListReq(Message):
    """Begin the backup; request the list of files."""


@message(4, limit=_NAMES_BODY)
class FileListResp(Message):
    """The files; none of them changes any more."""

    names: Annotated[tuple[str, ...], TEXTS]


@message(5)
class FileReq(Message):
    """Request a listed file."""

    name: Annotated[str, TEXT]


@message(6)
class FileStart(Message):
    """The number of bytes of the file that follow."""

    name: Annotated[str, TEXT]
    length: Annotated[int, LONG]
    modified_ms: Annotated[int, LONG]


@message(7)
class FileEnd(Message):
    """The end of a file's bytes, with the name and length of the file."""

    name: Annotated[str, TEXT]
    length: Annotated[int, LONG]
    modified_ms: Annotated[int, LONG]
    digest: Annotated[bytes, BYTES]


@message(8)
class FileInfoReq(Message):
    """Request the length, and optionally the digest, of a listed file."""

    name: Annotated[str, TEXT]
    with_digest: Annotated[bool, FLAG]


@message(9)
class FileInfoResp(Message):
    """Length and digest; the digest may be empty if it was not requested."""

    name: Annotated[str, TEXT]
    length: Annotated[int, LONG]
    modified_ms: Annotated[int, LONG]
    digest: Annotated[bytes, BYTES]


@message(10)
class Done(Message):
    """Release the files."""


@message(11, since=4)
class ThreadCount(Message):
    """A number: first the service for requesting files, then the number of connections."""

    count: Annotated[int, INT]


LOG_FILES: Final = Table(
    SERVICE,
    client=(ClientVersion, FeederInfoReq, FileListReq, FileReq, FileInfoReq, Done, ThreadCount),
    server=(
        ServerVersion,
        IncompatibleVersion,
        CopyProtocolError,
        FeederInfoResp,
        FileListResp,
        FileStart,
        FileEnd,
        FileInfoResp,
        ThreadCount,
    ),
)


def file_service(client_id: int, chosen: int) -> str:
    """The service of the connections that carry files in version 4."""
    return f"{SERVICE}{client_id}{chosen}"
