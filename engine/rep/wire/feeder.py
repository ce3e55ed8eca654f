"""Service ``Feeder``: handshake, syncup and stream between a master and its follower.

Bodies are those of je-ha-protocol.md 5.1 to 5.4, protocol versions 3 to 14. The replica is the client. Never sent from
by this program: a request for the id of a database, since an unknown name stops the master. Unknown and therefore
refused on arrival: additions of 25.3 that no recording shows (changing filters, pings of the syncup, entries with
before-image).
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from engine.errors import FormatError, plural
from engine.format.bytecursor import ByteReader, ByteWriter
from engine.format.entry.group_db import GroupNode, encode_group_node, read_group_node
from engine.format.versions import WRITTEN_VERSION
from engine.rep.wire.entries import LONGEST_ENTRY, WireEntry, read_entry, write_entry
from engine.rep.wire.messages import SHORT_BODY, Message, Since, Table, message
from engine.rep.wire.values import (
    BYTES,
    FLAG,
    INT,
    LONG,
    LONGS,
    PAIR,
    RELEASE,
    TEXT,
    NameIdPair,
    Value,
    read_count,
    small,
    small_int,
    word,
)

OLDEST_PROTOCOL: Final = 3
NEWEST_PROTOCOL: Final = 14
# The highest version of 18.3, which 25.3 also accepts: subscribers and nodes with a log of that release offer it.
OFFERED_PROTOCOL: Final = 9
# The first version in which a handshake ends with the sizes of the caches.
CACHE_SIZES: Final = 10
NODE_TYPE_WORDS: Final = ("MONITOR", "ELECTABLE", "SECONDARY", "ARBITER", "EXTERNAL")
# Types of EntryRequest.
DEFAULT: Final = 0
AVAILABLE: Final = 1
NOW: Final = 2
# Sync policies of a Commit.
SYNC: Final = 0
NO_SYNC: Final = 1
WRITE_NO_SYNC: Final = 2

_ENTRY_BODY: Final = LONGEST_ENTRY + 64
_MEMBERS_BODY: Final = 1 << 20
_ENTRY: Final[Value[WireEntry]] = Value(read_entry, write_entry)
_NODE_TYPE: Final = word(*NODE_TYPE_WORDS)


def offered_protocol(log_version: int) -> int:
    """The highest version of the protocol that a node with a log of the given version speaks."""
    return OFFERED_PROTOCOL if log_version <= WRITTEN_VERSION else NEWEST_PROTOCOL


class Provider(NamedTuple):
    """A node for a network restore in a RestoreResponse; ``room`` is the length of its record with padding."""

    node: GroupNode
    room: int


def _read_providers(reader: ByteReader) -> tuple[Provider, ...]:
    return tuple(_read_provider(reader) for _ in range(read_count(reader, 4)))


def _read_provider(reader: ByteReader) -> Provider:
    room = reader.i32()
    record = ByteReader(reader.raw(room))
    node = read_group_node(record)
    # The sender sends its whole buffer.
    if any(record.rest()):
        raise FormatError("padding of a member's record", expected="zeros", found="other bytes")
    return Provider(node, room)


def _write_providers(writer: ByteWriter, providers: tuple[Provider, ...]) -> ByteWriter:
    writer.i32(len(providers))
    for node, room in providers:
        record = encode_group_node(node)
        if len(record) > room:
            raise FormatError("record of a member", expected=f"up to {plural(room, 'byte')}", found=str(len(record)))
        writer.i32(room).raw(record.ljust(room, b"\0"))
    return writer


_PROVIDERS: Final[Value[tuple[Provider, ...]]] = Value(_read_providers, _write_providers)


@message(1)
class ReplicaProtocolVersion(Message):
    """The highest protocol version of the replica, and its identity."""

    version: Annotated[int, INT]
    node: Annotated[NameIdPair, PAIR]


@message(2)
class FeederProtocolVersion(Message):
    """The agreed version, and the identity of the feeder."""

    version: Annotated[int, INT]
    node: Annotated[NameIdPair, PAIR]


@message(3)
class DuplicateNodeReject(Message):
    """The name is in use."""

    text: Annotated[str, TEXT]


@message(4)
class ReplicaJEVersions(Message):
    """The replica's release, and the highest log version that it can read."""

    je_version: Annotated[str, RELEASE]
    log_version: Annotated[int, INT]


@message(5)
class FeederJEVersions(Message):
    """The feeder's release, the log version of the stream, the least release of a member."""

    je_version: Annotated[str, RELEASE]
    log_version: Annotated[int, INT]
    min_je_version: Annotated[str | None, RELEASE, Since(7)] = None


@message(6)
class JEVersionsReject(Message):
    """The releases, or their log versions, do not fit."""

    text: Annotated[str, TEXT]


@message(7)
class NodeGroupInfo(Message):
    """The group of the replica, and its type there; a UUID of zeros: not known yet."""

    group: Annotated[str, TEXT]
    uuid_high: Annotated[int, LONG]
    uuid_low: Annotated[int, LONG]
    node: Annotated[NameIdPair, PAIR]
    host: Annotated[str, TEXT]
    port: Annotated[int, INT]
    node_type: Annotated[str, _NODE_TYPE]
    designated_primary: Annotated[bool, FLAG]
    je_version: Annotated[str | None, RELEASE, Since(5)] = None


@message(8)
class NodeGroupInfoOK(Message):
    """The group's UUID, and the id assigned to the replica."""

    uuid_high: Annotated[int, LONG]
    uuid_low: Annotated[int, LONG]
    node: Annotated[NameIdPair, PAIR]


@message(9)
class NodeGroupInfoReject(Message):
    """The replica does not belong to this group, or its identity differs from its record."""

    text: Annotated[str, TEXT]


@message(10)
class SNTPRequest(Message):
    """A request for the clock; the last one ends the handshake."""

    originate_ms: Annotated[int, LONG]
    is_last: Annotated[bool, FLAG]


@message(11)
class SNTPResponse(Message):
    """Times when the request was sent and received, and when the answer was sent."""

    originate_ms: Annotated[int, LONG]
    receive_ms: Annotated[int, LONG]
    transmit_ms: Annotated[int, LONG]


@message(12)
class ReAuthenticate(Message):
    """A fresh token."""

    token: Annotated[bytes, BYTES]


@message(13, since=8)
class DBIdRequest(Message):
    """The id of a database, by its name."""

    name: Annotated[str, TEXT]


@message(14, since=8)
class DBIdResponse(Message):
    """The id of the requested database."""

    id: Annotated[int, LONG]


@message(15, since=9)
class SecurityFailureResponse(Message):
    """The token is invalid."""

    text: Annotated[str, TEXT]


@message(18, since=10)
class CacheSizeRequest(Message):
    """Size of the replica's cache in bytes."""

    cache_bytes: Annotated[int, LONG]
    off_heap_bytes: Annotated[int, LONG]


@message(19, since=10)
class CacheSizeResponse(Message):
    """Size of the feeder's cache."""

    cache_bytes: Annotated[int, LONG]
    off_heap_bytes: Annotated[int, LONG]


@message(20, since=14)
class SyncupPing(Message):
    """Keeps the connection alive during a long syncup; it is answered by the same message."""


@message(101, limit=_ENTRY_BODY)
class Entry(Message):
    """An entry of the stream."""

    entry: Annotated[WireEntry, _ENTRY]


@message(102)
class StartStream(Message):
    """Request to send from this VLSN on. The filter is a Java object, of JE's subscribers only; empty for no filter."""

    vlsn: Annotated[int, LONG]
    filter: Annotated[bytes | None, BYTES, Since(6)] = None


@message(103)
class Heartbeat(Message):
    """The feeder's clock, and the VLSN of its last transaction end."""

    time_ms: Annotated[int, LONG]
    txn_end_vlsn: Annotated[int, LONG]
    id: Annotated[int | None, INT, Since(11)] = None
    filtered_vlsn: Annotated[int | None, LONG, Since(12)] = None
    passed_vlsn: Annotated[int | None, LONG, Since(12)] = None
    commit_ms: Annotated[int | None, LONG, Since(12)] = None
    modified_ms: Annotated[int | None, LONG, Since(12)] = None
    sent_ms: Annotated[int | None, LONG, Since(13)] = None


@message(104)
class HeartbeatResponse(Message):
    """The position of the replica; -1 if it has no position. The id is -1 if it does not answer a heartbeat."""

    syncup_vlsn: Annotated[int, LONG]
    txn_end_vlsn: Annotated[int | None, LONG, Since(4)] = None
    id: Annotated[int | None, INT, Since(11)] = None
    durable_vlsn: Annotated[int | None, LONG, Since(14)] = None
    sent_ms: Annotated[int | None, LONG, Since(13)] = None


@message(105, limit=_ENTRY_BODY)
class Commit(Message):
    """A Commit (25.3: or an Abort), and whether an acknowledgement is awaited."""

    needs_ack: Annotated[bool, FLAG]
    sync_policy: Annotated[int, small(WRITE_NO_SYNC, "sync policy")]
    entry: Annotated[WireEntry, _ENTRY]


@message(106)
class Ack(Message):
    """The transaction has the requested durability on the replica."""

    txn_id: Annotated[int, LONG]
    durable_vlsn: Annotated[int | None, LONG, Since(14)] = None


@message(107)
class EntryRequest(Message):
    """Request for the entry at a VLSN: DEFAULT, AVAILABLE or NOW."""

    vlsn: Annotated[int, LONG]
    kind: Annotated[int | None, small_int(NOW, "type of a request"), Since(7)] = None


@message(108)
class EntryNotFound(Message):
    """The feeder no longer has the VLSN."""


@message(109, limit=_ENTRY_BODY)
class AlternateMatchpoint(Message):
    """The feeder does not have the VLSN yet; this is its last entry that can be a matchpoint."""

    entry: Annotated[WireEntry, _ENTRY]


@message(110)
class RestoreRequest(Message):
    """There is no matchpoint; which nodes can be used for a network restore?"""

    vlsn: Annotated[int, LONG]


@message(111, limit=_MEMBERS_BODY)
class RestoreResponse(Message):
    """These nodes, possibly including the sender of the request."""

    cbvlsn: Annotated[int, LONG]
    providers: Annotated[tuple[Provider, ...], _PROVIDERS]


@message(112)
class ShutdownRequest(Message):
    """The group is shutting down."""

    time_ms: Annotated[int, LONG]


@message(113)
class ShutdownResponse(Message):
    """The shutdown is accepted."""


@message(114, limit=SHORT_BODY)
class GroupAck(Message):
    """Several acknowledgements; zeros at the end do not count."""

    txn_ids: Annotated[tuple[int, ...], LONGS]
    durable_vlsn: Annotated[int | None, LONG, Since(14)] = None


@message(1004)
class ProtocolError(Message):
    """An error reported to the other side."""

    text: Annotated[str, TEXT]


FEEDER: Final = Table(
    "Feeder",
    client=(
        ReplicaProtocolVersion, ReplicaJEVersions, NodeGroupInfo, SNTPRequest, ReAuthenticate, DBIdRequest,
        CacheSizeRequest, SyncupPing, StartStream, HeartbeatResponse, Ack, EntryRequest, RestoreRequest,
        ShutdownResponse, GroupAck,
    ),
    server=(
        FeederProtocolVersion, DuplicateNodeReject, FeederJEVersions, JEVersionsReject, NodeGroupInfoOK,
        NodeGroupInfoReject, SNTPResponse, DBIdResponse, SecurityFailureResponse, CacheSizeResponse, SyncupPing, Entry,
        Heartbeat, Commit, EntryNotFound, AlternateMatchpoint, RestoreResponse, ShutdownRequest, ProtocolError,
    ),
    received_only=(DBIdRequest,),
)  # fmt: skip
