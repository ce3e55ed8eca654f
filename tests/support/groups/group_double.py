"""A group of JE nodes as a network: entries of recordings, any master, cuts at any byte.

An AssertionError says when a client does what would stop a master (je-ha-protocol.md section 17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from engine.format.entry.group_db import GroupNode, RepGroup
from engine.format.entry_types import COMMIT, TXN_ENDS
from engine.rep.client.connection import Address
from engine.rep.peers import DisconnectedError
from engine.rep.wire import feeder as f
from engine.rep.wire.election_lines import LEARNER, MasterAnswer, Proposal, Suggestion
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.feeder import FEEDER
from engine.rep.wire.group_lines import GROUP, STATE, GroupResponse, Members, StateResponse
from engine.rep.wire.inbox import Inbox
from engine.rep.wire.lines import Envelope, ProtocolErrorReply, TextMessage
from engine.rep.wire.messages import Message
from engine.rep.wire.node_state import NODE_STATE, NodeStateRequest, NodeStateResponse
from engine.rep.wire.values import NameIdPair
from tests.support.groups.recordings import HOME, Player, read

NAME = "WIREGRP"
UUID = (11, 22)
HOST = "localhost"
_TEXTS = {table.service: table for table in (LEARNER, GROUP, STATE)}


@cache
def recorded_entries(path: str) -> tuple[WireEntry, ...]:
    """The entries that a recorded feeder streamed, without gaps, by VLSN."""
    found: dict[int, WireEntry] = {}
    streaming = False
    for played in Player(read(HOME / path)).play():
        streaming = streaming or isinstance(played.what, f.StartStream)
        if streaming and isinstance(played.what, f.Entry | f.Commit):
            found[played.what.entry.vlsn] = played.what.entry
    vlsns = sorted(found)
    assert vlsns == list(range(vlsns[0], vlsns[-1] + 1))
    return tuple(found[vlsn] for vlsn in vlsns)


@dataclass
class NodeDouble:
    """One node: its log from the first VLSN on, and the version of its files, where that is not the group's."""

    name: str
    port: int
    entries: list[WireEntry]
    log_version: int | None = None

    @property
    def first(self) -> int:
        return self.entries[0].vlsn

    @property
    def last(self) -> int:
        return self.entries[-1].vlsn

    def at(self, vlsn: int) -> WireEntry:
        return self.entries[vlsn - self.first]

    @property
    def last_sync(self) -> WireEntry:
        return next(entry for entry in reversed(self.entries) if entry.type_number in TXN_ENDS)


@dataclass
class GroupDouble:
    """The group.

    Attributes:
        nodes: its nodes.
        master: the name of the master; empty for none.
        cut_after: bytes that each stream may carry, one after the other; then no limit.
        batch: entries that a stream sends at once.
        quiet: called at each heartbeat of a stream, when all entries are sent.
        on_connect: called at each connection.
        refuse: given instead of an answer to a message of the handshake, after which it closes; an empty one: nothing.
        long_history: VLSN 1 is not sent.
        clock_ms: by how much their clocks are ahead.
        beats: a heartbeat after each batch, too.
        node_type: of those who follow.
        log_version: of the nodes' files.
        stream: the highest version of the stream that the master offers.
        uuid: of the group.
        needs_ack: whether commits want to be acknowledged.
    """

    nodes: list[NodeDouble]
    master: str
    group: str = NAME
    protocol: int = 9
    je_version: str = "18.3.20"
    cut_after: list[int] = field(default_factory=list)
    batch: int = 7
    quiet: Callable[[], None] = lambda: None
    on_connect: Callable[[], None] = lambda: None
    refuse: Callable[[Message], Message | bytes | None] = lambda message: None
    down: set[str] = field(default_factory=set)
    long_history: bool = False
    clock_ms: int = 0
    beats: bool = False
    node_type: str = "EXTERNAL"
    log_version: int = 17
    stream: int = 16
    uuid: tuple[int, int] = UUID
    needs_ack: bool = False
    streams: list[StreamConnection] = field(default_factory=list)

    def connect(self, address: Address, deadline: float) -> StreamConnection:
        self.on_connect()
        node = next((node for node in self.nodes if node.port == address[1]), None)
        if node is None or node.name in self.down:
            raise DisconnectedError(f"{address[0]}:{address[1]} cannot be reached", found="Connection refused")
        return StreamConnection(self, node)

    def node(self, name: str) -> NodeDouble:
        return next(node for node in self.nodes if node.name == name)

    @property
    def members(self) -> Members:
        nodes = (
            GroupNode(node.name, at + 1, 3, 1, True, False, HOST, node.port, -1, 0, 1, "18.3.20")
            for at, node in enumerate(self.nodes)
        )
        return Members(RepGroup(self.group, *self.uuid, 3, 1, 3, "7.5.0"), tuple(nodes))


class StreamConnection:
    """One connection: what the client sends is answered at once, a stream when the client waits."""

    def __init__(self, group: GroupDouble, node: NodeDouble) -> None:
        self._group = group
        self._node = node
        self._inbox = Inbox(from_client=True)
        self._out = b""
        self._service: str | None = None
        self._left: int | None = None
        self._stream: Iterator[bytes] | None = None
        self._asked: int | None = None
        self.messages: list[Message] = []
        self._beats = -1
        self.ended = self.closed = False

    def send(self, data: bytes, deadline: float) -> None:
        if self.ended or self._node.name in self._group.down:
            raise DisconnectedError("the connection has ended", found="reset")
        self._inbox.feed(data)
        if self._service is None:
            self._service = self._inbox.service()
            known = self._service != FEEDER.service or self._group.master == self._node.name
            self._out += b"\0" if known else b"\3"
            if self._service == FEEDER.service and known:
                self._group.streams.append(self)
                self._left = self._group.cut_after.pop(0) if self._group.cut_after else None
        if self._service in _TEXTS:
            table = _TEXTS[self._service]
            while (line := self._inbox.line(table)) is not None:
                if table is LEARNER and not self._group.master:
                    self.ended = True
                    return
                self._out += table.encode(*self._line(line[0]), client=False)
        elif self._service == NODE_STATE.service:
            while (message := self._inbox.message(NODE_STATE, 1)) is not None:
                assert isinstance(message, NodeStateRequest)
                self._out += NODE_STATE.encode(self._state(), 1, client=False)
        elif self._service == FEEDER.service:
            while (message := self._inbox.message(FEEDER, self._group.protocol)) is not None:
                self.messages.append(message)
                self._answer(message)
        else:
            self.ended = True

    def receive(self, deadline: float) -> bytes:
        group = self._group
        if self._service == FEEDER.service and (group.master != self._node.name or self._node.name in group.down):
            self.ended = True
        if self._left == 0 or (self.ended and not self._out):
            self.ended = True
            raise DisconnectedError("the connection has ended", found="reset")
        if not self._out and self._stream is not None:
            data = next(self._stream)
            self._out += data
        assert self._out, "the server waits, and so does the client"
        most = len(self._out) if self._left is None else min(self._left, len(self._out))
        data, self._out = self._out[:most], self._out[most:]
        if self._left is not None:
            self._left -= most
        return data

    @property
    def has_more(self) -> bool:
        """Whether there is something to receive."""
        return bool(self._out) or self._stream is not None

    def close(self) -> None:
        self.closed = True

    def _line(self, asked: Envelope) -> tuple[Envelope, TextMessage]:
        group, node = self._group, self._node
        envelope = Envelope(asked.version, group.group, -(1 << 31))
        if asked.group != group.group:
            return envelope, ProtocolErrorReply(problem="GROUP_MISMATCH", text="Group name mismatch")
        if self._service == GROUP.service:
            return envelope, GroupResponse(members=group.members)
        if self._service == LEARNER.service:
            master = group.node(group.master)
            value = Suggestion(HOST, master.port, master.name, 1)
            return envelope, MasterAnswer(proposal=Proposal(1, 2, 3), value=value)
        state = "MASTER" if group.master == node.name else "REPLICA" if group.master else "UNKNOWN"
        return envelope, StateResponse(node=node.name, master=group.master or "n1", joined_ms=1, state=state)

    def _state(self) -> NodeStateResponse:
        group, node = self._group, self._node
        state = "MASTER" if group.master == node.name else "REPLICA" if group.master else "UNKNOWN"
        return NodeStateResponse(
            node=node.name, group=group.group, master=group.master or "n1", je_version=group.je_version, joined_ms=1,
            state=state, commit_vlsn=node.last_sync.vlsn, master_commit_vlsn=0, feeders=1,
            log_version=node.log_version or group.log_version, app_state=b"", load="0.5",
        )  # fmt: skip

    def _answer(self, message: Message) -> None:
        group, node = self._group, self._node
        refusal = group.refuse(message)
        if refusal is not None:
            if isinstance(refusal, Message):
                self.say(refusal)
            self.ended = True
        elif isinstance(message, f.ReplicaProtocolVersion):
            self.say(f.FeederProtocolVersion(version=group.protocol, node=NameIdPair(node.name, 1)))
        elif isinstance(message, f.ReplicaJEVersions):
            least = "7.5.0" if group.protocol >= 7 else None
            agreed = min(group.stream, message.log_version)
            self.say(f.FeederJEVersions(je_version=group.je_version, log_version=agreed, min_je_version=least))
        elif isinstance(message, f.NodeGroupInfo):
            if message.group != group.group or (message.uuid_high, message.uuid_low) not in ((0, 0), group.uuid):
                self.say(f.NodeGroupInfoReject(text="another group, or another uuid"))
                self.ended = True
                return
            assert message.node_type == group.node_type
            given = NameIdPair(message.node.name, (1 << 31) - 1)
            high, low = group.uuid
            self.say(f.NodeGroupInfoOK(uuid_high=high, uuid_low=low, node=given))
        elif isinstance(message, f.SNTPRequest):
            now = message.originate_ms + self._group.clock_ms
            self.say(f.SNTPResponse(originate_ms=message.originate_ms, receive_ms=now, transmit_ms=now))
        elif isinstance(message, f.CacheSizeRequest):
            self.say(f.CacheSizeResponse(cache_bytes=1 << 24, off_heap_bytes=0))
        elif isinstance(message, f.EntryRequest):
            if group.protocol >= f.NEWEST_PROTOCOL and self._asked is None:
                self.say(f.SyncupPing())
            self._requested(message)
        elif isinstance(message, f.StartStream):
            assert self._asked is not None, "StartStream first stops a master"
            assert node.first <= message.vlsn <= node.last + 1, "outside of the range stops a master"
            assert message.filter in (b"", None)
            self._stream = self.streamed(message.vlsn)
        else:
            acks = (f.Ack, f.GroupAck) if group.needs_ack else ()
            if not isinstance(message, f.SyncupPing):
                assert isinstance(message, (f.HeartbeatResponse, f.ShutdownResponse, *acks)), message
                assert self._stream is not None

    def _requested(self, message: f.EntryRequest) -> None:
        node, vlsn = self._node, message.vlsn
        assert self._stream is None
        first_request, self._asked = self._asked is None, vlsn if self._asked is None else self._asked
        assert first_request or vlsn < self._asked, "a request that does not descend stops a master"
        self._asked = vlsn
        kind = message.kind or f.DEFAULT
        if vlsn == 1 and self._group.long_history and kind != f.NOW:
            self.say(f.EntryNotFound())
        elif kind == f.NOW or (kind == f.AVAILABLE and vlsn > node.last):
            self.say(f.Entry(entry=node.at(node.last)))
        elif vlsn < node.first:
            self.say(f.Entry(entry=node.at(node.first)) if kind == f.AVAILABLE else f.EntryNotFound())
        elif vlsn <= node.last:
            self.say(f.Entry(entry=node.at(vlsn)))
        else:
            assert first_request, "a later request above the last stops a master"
            self.say(f.AlternateMatchpoint(entry=node.last_sync))

    def streamed(self, vlsn: int) -> Iterator[bytes]:
        node = self._node
        yield self.heartbeat()
        while True:
            while vlsn <= node.last:
                some = node.entries[vlsn - node.first :][: self._group.batch]
                vlsn += len(some)
                beat = self.heartbeat() if self._group.beats else b""
                yield self.framed(some) + beat
            self._group.quiet()
            yield self.heartbeat()

    def heartbeat(self) -> bytes:
        protocol, filters = self._group.protocol, {}
        if protocol >= f.NEWEST_PROTOCOL:
            self._beats += 1
            filters = {"id": self._beats, "filtered_vlsn": 0, "passed_vlsn": 0, "commit_ms": 0, "modified_ms": 0}
            filters["sent_ms"] = 5
        beat = f.Heartbeat(time_ms=5, txn_end_vlsn=self._node.last_sync.vlsn, **filters)
        return FEEDER.encode(beat, protocol, client=False)

    def framed(self, entries: list[WireEntry]) -> bytes:
        """Entries as a feeder sends them."""
        messages = (
            f.Commit(needs_ack=self._group.needs_ack, sync_policy=f.NO_SYNC, entry=entry)
            if entry.type_number == COMMIT
            else f.Entry(entry=entry)
            for entry in entries
        )
        return b"".join(FEEDER.encode(message, self._group.protocol, client=False) for message in messages)

    def say(self, message: Message) -> None:
        """Say something, asked or not."""
        self._out += FEEDER.encode(message, self._group.protocol, client=False)
