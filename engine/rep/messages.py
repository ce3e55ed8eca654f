"""What two nodes say after the handshake.

=========  ===========  ==============================================================
message    from         payload
=========  ===========  ==============================================================
ASK        replica      i64 VLSN, u8 first question: the entry there (R-SYNC-4)
START      replica      i64 VLSN: send from here on
RESTORE    replica      send the files
ACK        replica      i64 VLSN: everything up to it is on disk
ENTRY      master       i64 VLSN, u8 type, body: answer to ASK
ALTERNATE  master       the same: another candidate
NOT_FOUND  master       answer to ASK
ENTRIES    master       i64 first VLSN, then per entry u8 type, plong length, body
HEARTBEAT  master       i64 clock in ms, i64 last VLSN, i64 DTVLSN
PROMOTE    master       become the master after what was sent; where masters are named by hand
TERMS      master       the first message: terms of its stream (``engine.rep.terms``)
FILE       master       name, i64 length; then PIECEs, then FILE_END with its SHA-256
RESTORED   master       i32 number of files
STATUS     any node     a ``NodeStatus``
TRANSFER   operator     name of the node, u8 force, i32 seconds
DONE       any node     the request has been carried out
FAILED     any node     why not
PUT ...    operator     requests for records and their answers: see ``engine.rep.records``
=========  ===========  ==============================================================

Decoders take bytes from a peer that has proved to know the secret, and still believe nothing: every length is checked
against the bytes that are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import ByteReader, ByteWriter
from engine.rep.frames import PeerError
from engine.rep.stream import StreamEntry


class Message(IntEnum):
    """Frame types."""

    ASK = 10
    START = 11
    RESTORE = 12
    ACK = 13
    ENTRY = 20
    ALTERNATE = 21
    NOT_FOUND = 22
    ENTRIES = 23
    HEARTBEAT = 24
    PROMOTE = 25
    FILE = 26
    PIECE = 27
    FILE_END = 28
    RESTORED = 29
    TERMS = 30
    STATUS = 40
    TRANSFER = 41
    DONE = 42
    FAILED = 43
    PUT = 50
    DELETE = 51
    GET = 52
    WRITTEN = 53
    RECORDS = 54
    REFUSAL = 55


class Heartbeat(NamedTuple):
    """What a master says when it has nothing to send."""

    clock_ms: int
    last_vlsn: int
    dtvlsn: int


class ReplicaProgress(NamedTuple):
    """A replica as its master sees it."""

    node: str
    connected: bool
    acked_vlsn: int


class NodeStatus(NamedTuple):
    """What a node says of itself.

    Attributes:
        role: master, replica, or unknown while it looks for the master.
        master: address of the master that it knows, or empty.
        dtvlsn: the highest VLSN that it knows to be durable on a majority.
        term: the highest that it knows; 0 where masters are named by hand.
        priority: in elections; -1 where there are none.
    """

    group: str
    node: str
    role: str
    master: str
    first_vlsn: int
    last_vlsn: int
    last_sync: int
    last_txn_end: int
    dtvlsn: int
    replicas: tuple[ReplicaProgress, ...]
    term: int = 0
    priority: int = -1

    @property
    def elects(self) -> bool:
        """Whether its master is elected."""
        return self.priority >= 0


# An empty name, a flag, a VLSN: what bounds the number of replicas that a peer announces.
_LEAST_REPLICA_BYTES: Final = 10


def encode_vlsn(vlsn: int, flag: int | None = None) -> bytes:
    """A VLSN, and a flag where the message has one."""
    writer = ByteWriter().i64(vlsn)
    return writer.getvalue() if flag is None else writer.u8(flag).getvalue()


def decode_vlsn(payload: bytes) -> int:
    """A VLSN alone."""
    reader = ByteReader(payload)
    vlsn = reader.i64()
    reader.finish()
    return vlsn


def decode_ask(payload: bytes) -> tuple[int, bool]:
    """The VLSN that is asked for, and whether it is the first question."""
    reader = ByteReader(payload)
    asked = reader.i64(), bool(reader.u8())
    reader.finish()
    return asked


def encode_entry(entry: StreamEntry) -> bytes:
    """One entry."""
    return ByteWriter().i64(entry.vlsn).u8(entry.type_number).raw(entry.body).getvalue()


def decode_entry(payload: bytes) -> StreamEntry:
    """One entry."""
    reader = ByteReader(payload)
    return StreamEntry(reader.i64(), reader.u8(), reader.rest())


def encode_entries(entries: Iterable[StreamEntry]) -> bytes:
    """Entries with consecutive VLSNs, at least one."""
    writer = ByteWriter()
    first = True
    for entry in entries:
        if first:
            writer.i64(entry.vlsn)
            first = False
        writer.u8(entry.type_number).byte_array(entry.body)
    return writer.getvalue()


def decode_entries(payload: bytes) -> Iterator[StreamEntry]:
    """Entries with consecutive VLSNs, one by one: two bytes of a frame make an entry, and an object is far larger."""
    reader = ByteReader(payload)
    vlsn = reader.i64()
    while reader.remaining():
        yield StreamEntry(vlsn, reader.u8(), reader.byte_array())
        vlsn += 1


def encode_heartbeat(beat: Heartbeat) -> bytes:
    """A heartbeat."""
    return ByteWriter().i64(beat.clock_ms).i64(beat.last_vlsn).i64(beat.dtvlsn).getvalue()


def decode_heartbeat(payload: bytes) -> Heartbeat:
    """A heartbeat."""
    reader = ByteReader(payload)
    beat = Heartbeat(reader.i64(), reader.i64(), reader.i64())
    reader.finish()
    return beat


def encode_file(name: str, size: int) -> bytes:
    """The head of a file."""
    return ByteWriter().string(name).i64(size).getvalue()


def decode_file(payload: bytes) -> tuple[str, int]:
    """Name and length of a file that follows."""
    reader = ByteReader(payload)
    head = reader.string(), reader.i64()
    reader.finish()
    return head


def encode_text(text: str) -> bytes:
    """A reason."""
    return text[:2000].encode("utf-8", "surrogateescape")


def decode_text(payload: bytes) -> str:
    """A reason, made fit for a terminal."""
    text = payload[:2000].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in text)


def encode_transfer(node: str, *, force: bool, timeout_s: int) -> bytes:
    """A request for another master."""
    return ByteWriter().string(node).u8(force).i32(timeout_s).getvalue()


def decode_transfer(payload: bytes) -> tuple[str, bool, int]:
    """Node, force, seconds."""
    reader = ByteReader(payload)
    request = reader.string(), bool(reader.u8()), reader.i32()
    reader.finish()
    return request


def encode_status(status: NodeStatus) -> bytes:
    """What a node says of itself."""
    writer = ByteWriter()
    for text in status[:4]:
        writer.string(str(text))
    for number in (status.first_vlsn, status.last_vlsn, status.last_sync, status.last_txn_end, status.dtvlsn):
        writer.i64(number)
    writer.packed(len(status.replicas))
    for replica in status.replicas:
        writer.string(replica.node).u8(replica.connected).i64(replica.acked_vlsn)
    return writer.i64(status.term).i32(status.priority).getvalue()


def decode_status(payload: bytes) -> NodeStatus:
    """What a node says of itself."""
    reader = ByteReader(payload)
    texts = [decode_text(reader.byte_array()) for _ in range(4)]
    group, node, role, master = texts
    first, last, sync, txn_end, dtvlsn = (reader.i64() for _ in range(5))
    replicas = [
        ReplicaProgress(decode_text(reader.byte_array()), bool(reader.u8()), reader.i64())
        for _ in range(reader.count(_LEAST_REPLICA_BYTES))
    ]
    term, priority = reader.i64(), reader.i32()
    reader.finish()
    return NodeStatus(
        group=group,
        node=node,
        role=role,
        master=master,
        first_vlsn=first,
        last_vlsn=last,
        last_sync=sync,
        last_txn_end=txn_end,
        dtvlsn=dtvlsn,
        replicas=tuple(replicas),
        term=term,
        priority=priority,
    )


def nonsense(peer: str, found: str | FormatError) -> PeerError:
    """The error for a message that has no place in the conversation."""
    return PeerError(f"{peer} says what makes no sense here", found=str(found), consequence="the connection was closed")
