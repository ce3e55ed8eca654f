"""An arbiter of ours in a group of two data nodes: it votes, acknowledges, and keeps what it acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.errors import RefusedError, UsageError
from engine.rep.acks import InsufficientAcksError, InsufficientReplicasError
from engine.rep.arbiter.arbiter_file import FILE_NAME
from engine.rep.arbiter.arbiter_node import ArbiterNode
from engine.rep.client.call import ask
from engine.rep.client.connection import SocketNetwork
from engine.rep.client.group_state import look
from engine.rep.client.handshake import ARBITER
from engine.rep.intervals import NodeIntervals
from engine.rep.master.election import NO_NODE, new_proposal
from engine.rep.master.term import LeadConfig
from engine.rep.member.config import JoinConfig
from engine.rep.member.node import JoinedNode
from engine.rep.peers import PeerError
from engine.rep.status import Role
from engine.rep.wire.election_lines import (
    ACCEPTOR,
    LEARNER,
    Accept,
    AcceptReply,
    MasterAnswer,
    MasterQuery,
    Promise,
    Propose,
    Reject,
    Suggestion,
)
from engine.rep.wire.feeder import FEEDER, ReplicaProtocolVersion
from engine.rep.wire.values import NameIdPair
from engine.storage.memory import MemoryStorage
from tests.rep.master.leaders import GROUP
from tests.support.environments.workload import SMALL
from tests.support.groups.networks import NotedNetwork
from tests.support.groups.nodes import QUICK, free_ports, waiting_for
from tests.support.waiting import PATIENCE_S, eventually


class Three:
    """Two data nodes, 0 and 1, and the arbiter, 2; each with its directory and address."""

    def __init__(self) -> None:
        self.places = free_ports(3)
        self.storages = [MemoryStorage() for _ in self.places]
        self.running: dict[int, JoinedNode | ArbiterNode] = {}

    def start(self, at: int, intervals: NodeIntervals = QUICK) -> JoinedNode | ArbiterNode:
        others = tuple(place for place in self.places if place != self.places[at])
        node_type = ARBITER if at == 2 else "ELECTABLE"
        config = JoinConfig(
            f"n{at}", self.places[at], others, node_type, 1, LeadConfig(ack_timeout_s=PATIENCE_S), at == 0,
            GROUP, environment=SMALL, intervals=intervals,
        )  # fmt: skip
        kind = ArbiterNode if at == 2 else JoinedNode
        node = kind(self.storages[at], config, SocketNetwork())
        node.start()
        self.running[at] = node
        return node

    def stop(self, *nodes: int) -> None:
        for at in nodes:
            self.running.pop(at).stop()

    def await_roles(self, *roles: Role) -> None:
        """The roles of the nodes that run, in order."""
        eventually(lambda: tuple(self.running[at].role for at in sorted(self.running)) == roles)

    def data_node(self, at: int) -> JoinedNode:
        node = self.running[at]
        assert isinstance(node, JoinedNode)
        return node

    def put(self, at: int, key: bytes) -> int:
        """Commit a record; its VLSN."""
        env = self.data_node(at).environment
        db = env.open_database("x") if "x" in env.database_names() else env.create_database("x")
        with db:
            db.put(key, b"data")
        return self.data_node(at).stream_range().last

    def has(self, at: int, key: bytes) -> bool:
        with self.data_node(at).environment.open_database("x") as db:
            return db.get(key) is not None


@pytest.fixture
def three() -> Iterator[Three]:
    group = Three()
    try:
        for at, roles in enumerate(((Role.MASTER,), (Role.MASTER, Role.REPLICA), (Role.MASTER, *[Role.REPLICA] * 2))):
            group.start(at)
            group.await_roles(*roles)
        yield group
    finally:
        group.stop(*list(group.running))


def test_the_commit_that_only_the_arbiter_has_kept_is_not_lost(three: Three) -> None:
    both = three.put(0, b"both")
    assert three.running[2].status().last_vlsn < both
    assert three.data_node(1).await_vlsn(both, PATIENCE_S)
    three.stop(1)
    kept = three.put(0, b"kept")
    assert three.running[2].status().last_vlsn == kept
    # What it has kept outlives it.
    three.stop(2)
    three.start(2)
    assert three.running[2].status().last_vlsn == kept
    three.await_roles(Role.MASTER, Role.REPLICA)
    three.stop(0)
    late = three.start(1)
    eventually(lambda: "the arbiter has acknowledged a later commit" in str(late.problem))
    assert late.role is Role.UNKNOWN
    three.start(0)
    eventually(lambda: Role.MASTER in (three.running[0].role, three.running[1].role))
    eventually(lambda: three.data_node(1).stream_range().last >= kept and late.role is not Role.UNKNOWN)
    assert three.has(1, b"kept")


def test_a_data_node_that_has_everything_leads_with_the_arbiter(three: Three) -> None:
    last = three.put(0, b"both")
    assert three.data_node(1).await_vlsn(last, PATIENCE_S)
    three.stop(0)
    three.await_roles(Role.MASTER, Role.REPLICA)
    kept = three.put(1, b"more")
    assert three.running[2].status().last_vlsn == kept
    found = look(SocketNetwork(), [three.places[2]], None, PATIENCE_S)
    said = {node.name: (node.member.type if node.member else None, node.state) for node in found.nodes}
    assert said == {"n0": (1, None), "n1": (1, "MASTER"), "n2": (3, "REPLICA")}
    three.stop(2)
    with waiting_for(three.data_node(1), 0.1), pytest.raises((InsufficientReplicasError, InsufficientAcksError)):
        three.put(1, b"alone")


def told(three: Three, message: Propose | Accept) -> object:
    """The arbiter's answer."""
    answer = ask(SocketNetwork(), three.places[2], ACCEPTOR, GROUP, message, PATIENCE_S)
    assert answer is not None
    return answer[1]


def test_a_master_that_was_replaced_gets_no_acknowledgement(three: Three) -> None:
    last = three.put(0, b"both")
    assert three.data_node(1).await_vlsn(last, PATIENCE_S)
    three.stop(1)
    kept = three.put(0, b"kept")
    proposal, other = new_proposal(), Suggestion(*three.places[1], "n1", 2)
    promise = told(three, Propose(proposal=proposal))
    assert isinstance(promise, Promise)
    suggestion = NO_NODE._replace(port=three.places[2][1])
    assert (promise.suggestion, promise.minor_ranking, promise.node_id) == (suggestion, kept, 1)
    assert isinstance(told(three, Accept(proposal=proposal, value=other)), AcceptReply)
    with waiting_for(three.data_node(0), 0.2), pytest.raises((InsufficientReplicasError, InsufficientAcksError)):
        three.put(0, b"no")
    assert three.running[2].status().last_vlsn == kept
    # After a restart too.
    three.stop(2)
    three.start(2)
    assert isinstance(told(three, Propose(proposal=proposal._replace(time_ms=1))), Reject)
    with waiting_for(three.data_node(0), 0.2), pytest.raises((InsufficientReplicasError, InsufficientAcksError)):
        three.put(0, b"no")
    assert three.running[2].status().last_vlsn == kept


@pytest.mark.parametrize("restarted", [False, True])
def test_a_proposer_that_dies_before_the_result_does_not_stop_the_group(three: Three, restarted: bool) -> None:
    """The arbiter has accepted n1, which dies before anyone hears of it. n0 leads, and is elected again."""
    last = three.put(0, b"both")
    assert three.data_node(1).await_vlsn(last, PATIENCE_S)
    three.stop(1, 2)
    patient = QUICK._replace(promise_s=0.5)
    three.start(2, patient)
    three.await_roles(Role.MASTER, Role.REPLICA)
    kept = three.put(0, b"kept")
    proposal, other = new_proposal(), Suggestion(*three.places[1], "n1", 2)
    assert isinstance(told(three, Propose(proposal=proposal)), Promise)
    assert isinstance(told(three, Accept(proposal=proposal, value=other)), AcceptReply)
    if restarted:
        three.stop(2)
        three.start(2, patient)
    assert three.running[2].status().last_vlsn == kept
    three.await_roles(Role.MASTER, Role.REPLICA)
    assert three.put(0, b"more") == three.running[2].status().last_vlsn
    answer = ask(SocketNetwork(), three.places[2], LEARNER, GROUP, MasterQuery(), PATIENCE_S)
    assert answer is not None
    assert isinstance(answer[1], MasterAnswer)
    # A late result of the dead proposer counts for nothing.
    assert (answer[1].value.node, answer[1].proposal > proposal) == ("n0", True)


def test_an_emptied_directory_has_no_vote_before_a_master_has_it(three: Three) -> None:
    three.put(0, b"both")
    three.stop(1, 2)
    three.stop(0)
    three.storages[2] = MemoryStorage()
    three.start(2)
    assert ask(SocketNetwork(), three.places[2], ACCEPTOR, GROUP, Propose(proposal=new_proposal()), PATIENCE_S) is None
    three.start(1)
    three.start(0)
    eventually(lambda: three.running[2].role is Role.REPLICA)
    assert isinstance(told(three, Propose(proposal=new_proposal())), Promise)


def test_a_member_says_its_id(three: Three) -> None:
    """A master of JE that has not confirmed the record of a member takes another id for another node."""
    config, spy = three.running[2].config, NotedNetwork()
    three.stop(2)
    again = ArbiterNode(three.storages[2], config, spy)
    again.start()
    three.running[2] = again
    eventually(lambda: again.role is Role.REPLICA)
    hello = ReplicaProtocolVersion(version=9, node=NameIdPair("n2", 3))
    assert FEEDER.encode(hello, 9, client=True) in spy.sent


def test_what_it_refuses() -> None:
    (place, other) = free_ports(2)
    config = JoinConfig("a1", place, (other,), ARBITER, intervals=QUICK)
    with pytest.raises(UsageError, match="needs the address"):
        ArbiterNode(MemoryStorage(), JoinConfig("a1", place, (), ARBITER), SocketNetwork())
    storage = MemoryStorage()
    storage.open_rw("00000000.jdb", create=True).close()
    with pytest.raises(RefusedError, match="holds a log"):
        ArbiterNode(storage, config, SocketNetwork()).start()
    assert storage.stat(FILE_NAME) is None


def test_a_second_arbiter_ends(three: Three) -> None:
    place = free_ports(1)[0]
    second = ArbiterNode(MemoryStorage(), JoinConfig("n9", place, (three.places[0],), ARBITER), SocketNetwork())
    second.start()
    try:
        eventually(lambda: second.failure is not None)
        assert isinstance(second.failure, PeerError)
        assert "An Arbiter node already exists" in str(second.failure)
    finally:
        second.stop()
