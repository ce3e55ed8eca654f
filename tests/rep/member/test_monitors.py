"""Monitors of JE that are members of a group of ours hear what those of a group of JE hear."""

from __future__ import annotations

from engine.format.entry.group_db import NODE_TYPES
from engine.rep.acks import AckPolicy
from engine.rep.client.call import ask
from engine.rep.client.connection import SocketNetwork
from engine.rep.client.handshake import ELECTABLE
from engine.rep.group import described, release_of
from engine.rep.member.config import JoinConfig
from engine.rep.member.monitors import Monitors
from engine.rep.member.node import JoinedNode
from engine.rep.services.caller import Caller
from engine.rep.services.port import Port, Service
from engine.rep.wire.group_lines import (
    GROUP,
    MONITOR,
    EnsureNode,
    EnsureNodeResponse,
    GroupChange,
    JoinedGroup,
    LeftGroup,
    Members,
    RemoveMember,
)
from engine.rep.wire.lines import Envelope, OkReply, TextMessage
from engine.storage.memory import MemoryStorage
from tests.rep.master import leaders
from tests.rep.master.leaders import leading
from tests.rep.services.test_questions import FACTS, MEMBERS
from tests.support.environments.workload import SMALL
from tests.support.groups.nodes import QUICK, free_ports
from tests.support.groups.recordings import HOME, Player, read
from tests.support.waiting import PATIENCE_S, eventually

PATIENT = QUICK._replace(monitors_s=PATIENCE_S)


class PlayedMonitor:
    """It listens, and keeps what it hears."""

    def __init__(self) -> None:
        (self.listen,) = free_ports(1)
        self.heard: list[tuple[Envelope, TextMessage]] = []
        self._port = Port(self.listen, lambda: {MONITOR.service: Service(self._serve, 4)}, None)
        self._port.start()

    def _serve(self, caller: Caller) -> None:
        self.heard.append(caller.line(MONITOR))

    def close(self) -> None:
        self._port.close()

    def events(self) -> set[tuple[object, ...]]:
        """What happened to whom."""
        found: set[tuple[object, ...]] = set()
        for _, one in self.heard:
            if isinstance(one, GroupChange):
                found.add((one.change, one.node))
            elif isinstance(one, LeftGroup):
                found.add((one.reason, one.node, one.master))
            else:
                assert isinstance(one, JoinedGroup)
                found.add(("JOIN", one.node, one.master))
        return found


def changed(node: JoinedNode, message: TextMessage) -> type[TextMessage]:
    """What the master answers."""
    answer = ask(SocketNetwork(), node.config.listen, GROUP, leaders.GROUP, message, PATIENCE_S)
    assert answer is not None
    return type(answer[1])


def test_it_hears_who_comes_and_goes() -> None:
    monitor = PlayedMonitor()
    record = described("mon", *monitor.listen, NODE_TYPES.index("monitor"), release_of(17), 5)._replace(id=-1)
    try:
        with leading(policy=AckPolicy.NONE, intervals=PATIENT) as master:
            assert changed(master, EnsureNode(node=record)) is EnsureNodeResponse
            config = JoinConfig(
                "n2", free_ports(1)[0], (master.config.listen,), ELECTABLE,
                timeout_s=PATIENCE_S, environment=SMALL, intervals=PATIENT,
            )  # fmt: skip
            other = JoinedNode(MemoryStorage(), config, SocketNetwork())
            other.start()
            try:
                expected: set[tuple[object, ...]] = {("ADD", "mon"), ("ADD", "n2"), ("JOIN", "n2", "n1")}
                eventually(monitor.events, expected)
                # Another one, which is not there.
                gone = record._replace(name="mon2", port=free_ports(1)[0][1])
                assert changed(master, EnsureNode(node=gone)) is EnsureNodeResponse
                assert changed(master, RemoveMember(node="mon2")) is OkReply
                expected |= {("ADD", "mon2"), ("REMOVE", "mon2")}
                eventually(monitor.events, expected)
            finally:
                other.stop()
            expected.add(("NORMAL_SHUTDOWN", "n2", "n1"))
            eventually(monitor.events, expected)
        expected.add(("NORMAL_SHUTDOWN", "n1", "n1"))
        eventually(monitor.events, expected)
    finally:
        monitor.close()


def test_it_hears_the_lines_of_je() -> None:
    """When a node ends, as n4 of the recording did, but for the clock."""
    played = Player(read(HOME / "members" / "038-Monitor-mon1.jsonl")).play()
    theirs = next(one.what for one in played if isinstance(one.what, tuple))
    monitor = PlayedMonitor()
    record = described("mon1", *monitor.listen, NODE_TYPES.index("monitor"), release_of(17), 5)
    members = Members(MEMBERS.group, (record,))
    facts = FACTS._replace(node="n4", members=members)
    told = Monitors(SocketNetwork(), lambda: facts, PATIENCE_S, PATIENCE_S)
    try:
        # It was never there: nobody hears that it goes.
        told.left(failed=False)
        told.joined()
        told.joined()
        told.left(failed=False)
        eventually(lambda: len(monitor.heard), 2)
    finally:
        monitor.close()
    envelope, said = next(one for one in monitor.heard if isinstance(one[1], LeftGroup))
    assert isinstance(said, LeftGroup)
    assert isinstance(theirs[1], LeftGroup)
    assert (envelope, said.node, said.master, said.reason) == (
        theirs[0], theirs[1].node, theirs[1].master, theirs[1].reason,
    )  # fmt: skip
