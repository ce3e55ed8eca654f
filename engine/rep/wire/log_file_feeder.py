"""Service ``LogFileFeeder``: the log files of a live node (je-ha-protocol.md section 11).

Versions 2 (18.3: digests are SHA-1) and 4 (25.3: SHA-256, and the files over further connections). Version 3 is read,
so that recordings can be, and never offered: a 25.3 node at which a copy of that version breaks off becomes invalid.

Between FileStart and FileEnd come the bytes of the file, as many as FileStart says, without a frame.
"""

from __future__ import annotations

from typing import Annotated, Final

from engine.rep.wire.messages import Message, Since, Table, message
from engine.rep.wire.values import BYTES, FLAG, INT, LONG, RELEASE, TEXT, TEXTS

OFFERED_VERSION: Final = 4
OLDER_VERSION: Final = 2
SERVICE: Final = "LogFileFeeder"
# What stands for a name where a client of version 4 has asked for all.
END_OF_QUESTIONS: Final = "END"
# A million names of twelve characters.
_NAMES_BODY: Final = 16 << 20


@message(1001)
class ClientVersion(Message):
    """The version that the client speaks; its id says which copy goes on after a cut."""

    version: Annotated[int, INT]
    client_id: Annotated[int, INT]


@message(1002)
class ServerVersion(Message):
    """The version to go on in."""

    version: Annotated[int, INT]
    node_id: Annotated[int, INT]


@message(1003)
class IncompatibleVersion(Message):
    """They have no version in common."""

    text: Annotated[str, TEXT]


@message(1004)
class CopyProtocolError(Message):
    """What the server has to complain about."""

    text: Annotated[str, TEXT]


@message(1)
class FeederInfoReq(Message):
    """How busy is the node?"""


@message(2)
class FeederInfoResp(Message):
    """Other copies and active replicas, and the VLSNs that the node has."""

    load: Annotated[int, INT]
    first_vlsn: Annotated[int, LONG]
    last_vlsn: Annotated[int, LONG]
    log_version: Annotated[int | None, INT, Since(3)] = None
    je_version: Annotated[str | None, RELEASE, Since(3)] = None


@message(3)
class FileListReq(Message):
    """Begin the backup: what files are there?"""


@message(4, limit=_NAMES_BODY)
class FileListResp(Message):
    """These; none of them changes any more."""

    names: Annotated[tuple[str, ...], TEXTS]


@message(5)
class FileReq(Message):
    """Send a file of the list."""

    name: Annotated[str, TEXT]


@message(6)
class FileStart(Message):
    """So many bytes follow."""

    name: Annotated[str, TEXT]
    length: Annotated[int, LONG]
    modified_ms: Annotated[int, LONG]


@message(7)
class FileEnd(Message):
    """They were these."""

    name: Annotated[str, TEXT]
    length: Annotated[int, LONG]
    modified_ms: Annotated[int, LONG]
    digest: Annotated[bytes, BYTES]


@message(8)
class FileInfoReq(Message):
    """Length, and digest if wanted, of a file of the list."""

    name: Annotated[str, TEXT]
    with_digest: Annotated[bool, FLAG]


@message(9)
class FileInfoResp(Message):
    """Those; the digest may be empty when it was not wanted."""

    name: Annotated[str, TEXT]
    length: Annotated[int, LONG]
    modified_ms: Annotated[int, LONG]
    digest: Annotated[bytes, BYTES]


@message(10)
class Done(Message):
    """The files are free again."""


@message(11, since=4)
class ThreadCount(Message):
    """A number: the client says which service the files will be asked of, then over how many connections."""

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
