"""Members of ours in a group of JE that has no JVM: they lead by turns, and nothing that was acknowledged is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.db.environment import Environment
from engine.rep.client.call import ask
from engine.rep.client.connection import Address, Network, SocketNetwork
from engine.rep.client.group_state import state_of
from engine.rep.client.master_transfer import plan_transfer, transfer_master
from engine.rep.group import committed_members
from engine.rep.master.election import new_proposal
from engine.rep.master.term import LeadConfig
from engine.rep.member.config import JoinConfig
from engine.rep.member.home import Home
from engine.rep.member.node import JoinedNode
from engine.rep.peers import PeerError
from engine.rep.records import GetRequest, PutRequest
from engine.rep.remote import get_record, put_record
from engine.rep.status import Role
from engine.rep.wire.election_lines import ACCEPTOR, Promise, Propose
from engine.rep.wire.feeder import FEEDER, ReplicaProtocolVersion
from engine.rep.wire.lines import Envelope
from engine.rep.wire.values import NameIdPair
from engine.storage.memory import MemoryStorage
from tests.rep.master.leaders import GROUP, leading
from tests.support.environments.workload import SMALL
from tests.support.groups.networks import NotedNetwork
from tests.support.groups.nodes import QUICK, free_ports
from tests.support.groups.playing import described, opened
from tests.support.groups.streams import check_index
from tests.support.waiting import PATIENCE_S, eventually


class Nodes:
    """Nodes of a group of three, each with its directory and address."""

    def __init__(self) -> None:
        self.places: list[Address] = free_ports(3)
        self.storages = [MemoryStorage() for _ in self.places]
        self.running: dict[int, JoinedNode] = {}

    def start(
        self, at: int, priority: int = 1, *, forms: bool = False, alone: bool = False, network: Network | None = None
    ) -> JoinedNode:
        """Start a member with a vote; n1 is the first.

        Arguments:
            forms: it is told to make the group.
            alone: it is not told where the others are.
        """
        others = () if alone else tuple(place for place in self.places if place != self.places[at])
        config = JoinConfig(
            f"n{at + 1}", self.places[at], others, "ELECTABLE", priority,
            LeadConfig(ack_timeout_s=PATIENCE_S), forms, GROUP if forms else None, environment=SMALL, intervals=QUICK,
        )  # fmt: skip
        self.running[at] = node = JoinedNode(self.storages[at], config, network or SocketNetwork())
        node.start()
        return node

    def stop(self, at: int) -> None:
        self.running.pop(at).stop()

    def master(self) -> int:
        """Who leads, as soon as one does."""
        eventually(lambda: any(node.role is Role.MASTER for node in self.running.values()))
        return next(at for at, node in self.running.items() if node.role is Role.MASTER)

    def await_roles(self, master: int) -> None:
        """One leads, and all others follow it."""

        def settled() -> bool:
            for at, node in self.running.items():
                assert node.failure is None
                if node.role is not (Role.MASTER if at == master else Role.REPLICA):
                    return False
            return True

        eventually(settled)

    def close(self) -> None:
        for at in list(self.running):
            self.stop(at)


def formed(priority: int = 1) -> Nodes:
    """Two followers of a group; the first node has written and gone."""
    found = Nodes()
    with leading(found.storages[0], listen=found.places[0], ack_timeout_s=PATIENCE_S) as first:
        found.start(1, priority)
        found.start(2, priority)
        eventually(lambda: len(committed_nodes(first.environment)) == 3)
        write(first.environment, "a")
    return found


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    found = formed()
    yield found
    found.close()


def committed_nodes(env: Environment) -> list[str]:
    """The members that are confirmed; none before the group's database has come."""
    members = committed_members(env.engine)
    return [node.name or "" for node in members.nodes if node.quorum_ack] if members is not None else []


def write(env: Environment, prefix: str) -> None:
    """Ten commits, each acknowledged by a majority."""
    with env.open_database("x") if "x" in env.database_names() else env.create_database("x") as db:
        for number in range(10):
            db.put(b"%s%d" % (prefix.encode(), number), b"v")


def test_they_lead_by_turns(nodes: Nodes) -> None:
    """The master goes, another one leads and has all; the old one comes back, follows, and is given the role again.

    It comes as it was started first: told to lead, and knowing nobody but by its environment.
    """
    second = nodes.master()
    write(nodes.running[second].environment, "b")
    nodes.start(0, forms=True, alone=True)
    nodes.await_roles(second)
    network, place = SocketNetwork(), nodes.places[0]
    # At a replica: it goes on to the master, and comes back with the stream.
    written = put_record(network, place, PutRequest("x", b"k", b"v", True), PATIENCE_S)
    assert written.master == nodes.places[second]
    assert get_record(network, place, GetRequest("x", b"k", written.written.vlsn, PATIENCE_S * 1000), PATIENCE_S) == [
        b"v"
    ]
    transfer_master(network, plan_transfer(network, place, "n1", PATIENCE_S), PATIENCE_S)
    nodes.await_roles(0)
    write(nodes.running[0].environment, "c")
    last = nodes.running[0].stream_range().last
    assert nodes.running[1].await_vlsn(last, PATIENCE_S)
    assert nodes.running[2].await_vlsn(last, PATIENCE_S)
    expected = described(nodes.running[0].environment)
    assert expected["x"]["count"] == 31
    nodes.close()
    for storage in nodes.storages:
        env = opened(storage)
        check_index(env)
        assert described(env) == expected
        env.close()


def said_ids(network: NotedNetwork, name: str) -> list[int]:
    """The ids that a node has given of itself in the first messages to masters."""
    found: list[int] = []
    for data in network.sent:
        for node_id in range(-1, 9):
            hello = ReplicaProtocolVersion(version=9, node=NameIdPair(name, node_id))
            if data == FEEDER.encode(hello, 9, client=True):
                found.append(node_id)
    return found


def test_a_member_says_the_id_of_its_own_log() -> None:
    """As JE: -1 until its log has its record, then the id of the record, also after a restart.

    A master of JE 18.3 that has not confirmed the record takes another id for another node at the same address.
    """
    nodes, first, again = Nodes(), NotedNetwork(), NotedNetwork()
    try:
        nodes.start(0, forms=True)
        nodes.await_roles(0)
        nodes.start(1, network=first)
        nodes.await_roles(0)
        eventually(lambda: committed_nodes(nodes.running[1].environment) == ["n1", "n2"])
        assert said_ids(first, "n2")[0] == -1
        nodes.stop(1)
        nodes.start(1, network=again)
        nodes.await_roles(0)
        assert set(said_ids(again, "n2")) == {2}
    finally:
        nodes.close()


def test_one_without_priority_votes_and_is_not_elected() -> None:
    nodes = formed(priority=0)
    try:
        eventually(lambda: "not to be elected" in str(nodes.running[1].problem))
        nodes.start(0)
        nodes.await_roles(0)
        write(nodes.running[0].environment, "b")
        assert described(nodes.running[0].environment)["x"]["count"] == 20
    finally:
        nodes.close()


def test_the_group_is_made_by_one_of_them() -> None:
    """By the node that is told to, and only when nobody is there; afterwards it is a member like any other."""
    nodes = Nodes()
    try:
        nodes.start(0, forms=True)
        nodes.await_roles(0)
        nodes.start(1, forms=True)
        nodes.await_roles(0)
        eventually(lambda: committed_nodes(nodes.running[1].environment) == ["n1", "n2"])
        nodes.stop(0)
        nodes.start(0, forms=True)
        eventually(lambda: {node.role for node in nodes.running.values()} == {Role.MASTER, Role.REPLICA})
        eventually(lambda: len({str(node.facts().members) for node in nodes.running.values()}) == 1)
        members = nodes.running[0].facts().members
        assert members is not None
        assert [node.name for node in members.nodes] == ["n1", "n2"]
    finally:
        nodes.close()


def test_no_second_group_is_made_beside_a_node_that_opens_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """n1 has the group, and listens as soon as it can name it: whoever hears it without a name may make one."""
    nodes = Nodes()
    heard: list[str] = []
    opened_before = Home.open_if_there

    def open_while_asked(home: Home) -> None:
        try:
            heard.append(state_of(SocketNetwork(), nodes.places[0], None, PATIENCE_S)[0])
        except PeerError as error:
            heard.append(error.what)
        opened_before(home)

    try:
        nodes.start(0, forms=True)
        nodes.await_roles(0)
        nodes.stop(0)
        monkeypatch.setattr(Home, "open_if_there", open_while_asked)
        nodes.start(0, forms=True)
        assert ["cannot be reached" in answer for answer in heard] == [True]
        assert nodes.running[0].facts().group == GROUP
    finally:
        nodes.close()


def test_a_member_that_restarts_alone_says_its_id(nodes: Nodes) -> None:
    """JE 25.3 ignores the promise of a node that says no id, and there would be no master while that node waits."""
    nodes.await_roles(nodes.master())
    mine, other = (nodes.running[at].node_id() for at in (1, 2))
    nodes.close()
    again = nodes.start(1)
    assert (again.role, mine == other) == (Role.UNKNOWN, False)
    assert again.facts().node_id == mine
    # Later than those of its own elections meanwhile.
    proposal = new_proposal(new_proposal().time_ms + 60_000)
    said = ask(SocketNetwork(), nodes.places[1], ACCEPTOR, GROUP, Propose(proposal=proposal), PATIENCE_S)
    assert said is not None
    assert (said[0], type(said[1])) == (Envelope("2.0", GROUP, mine), Promise)
