"""A node that is told to lead: when it does, who follows it, and what ends its term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.environment import Environment
from engine.errors import JetoolError, NotFoundError, RefusedError, StorageError, UsageError
from engine.events import SILENT
from engine.rep.acks import AckPolicy
from engine.rep.client.call import ask
from engine.rep.client.connection import SocketNetwork
from engine.rep.client.group_state import look
from engine.rep.client.handshake import ELECTABLE
from engine.rep.member.config import JoinConfig
from engine.rep.member.network_restore import NetworkRestore
from engine.rep.member.node import JoinedNode
from engine.rep.peers import PeerError
from engine.rep.records import GetRequest, PutRequest
from engine.rep.remote import get_record, put_record
from engine.rep.services.record_requests import RecordRequests
from engine.rep.status import Role
from engine.rep.wire.election_lines import LEARNER, MasterAnswer, MasterQuery, Proposal, Result, Suggestion
from engine.rep.wire.services import Status, encode_service_request
from engine.storage.memory import MemoryStorage
from tests.rep.master.leaders import GROUP, follower, leading
from tests.rep.master.voters import Answer, Voters, voting
from tests.rep.services.scripted import served
from tests.support.damage.faulty_storage import Effect, FaultyStorage, Rule
from tests.support.environments.workload import SMALL
from tests.support.groups.group_double import GroupDouble, NodeDouble
from tests.support.groups.nodes import QUICK, free_ports, gate_of
from tests.support.groups.playing import described, opened, operations
from tests.support.waiting import PATIENCE_S, eventually

RUNNING = (1 << 63) - 2


def test_a_master_that_cannot_write_ends() -> None:
    """It would be followed by nobody, and elected by everybody: the others could elect no other one."""
    rules: list[Rule] = []
    with leading(FaultyStorage(MemoryStorage(), rules)) as node:
        db = node.environment.create_database("x")
        rules.append(Rule("write", Effect.SHORTEN, nth=0))
        with pytest.raises(JetoolError):
            db.put(b"k", b"v")
        assert node.await_end(PATIENCE_S)
        assert isinstance(node.failure, JetoolError)
        assert node.failure.exit_code == 7
        assert node.role is Role.UNKNOWN
        assert node.facts().state == "UNKNOWN"


def work(env: Environment) -> None:
    """What can be done to records and databases."""
    with env.create_database("x") as x, env.create_database("dups", DatabaseOptions(duplicates=True)) as dups:
        for number in range(40):
            with env.begin() as txn:
                x.put(b"k%d" % (number % 7), b"v%d" % number, txn)
                dups.put(b"d%d" % (number % 3), b"%d" % number, txn)
        x.delete(b"k3")
        txn = env.begin()
        x.put(b"never", b"v", txn)
        env.sync()
        txn.abort()
    for name in ("old", "removed", "emptied"):
        with env.create_database(name) as db:
            db.put(b"k", name.encode())
    env.rename_database("old", "new")
    env.remove_database("removed")
    env.truncate_database("emptied")
    with env.open_database("emptied") as db:
        db.put(b"again", b"v")


def test_a_secondary_of_ours_follows_it() -> None:
    """By JE's protocol on both sides: everything comes, what is done while it follows, too."""
    ours, port = free_ports(2)
    with leading(listen=ours) as node:
        work(node.environment)
        config = JoinConfig("copy", port, (ours,), environment=SMALL, intervals=QUICK)
        copy = JoinedNode(MemoryStorage(), config, SocketNetwork())
        copy.start()
        try:
            assert copy.await_vlsn(node.stream_range().last, PATIENCE_S), copy.failure or copy.problem
            with node.environment.create_database("later") as db:
                db.put(b"k", b"v")
            assert copy.await_vlsn(node.stream_range().last, PATIENCE_S), copy.failure
            assert copy.environment is not None
            assert described(copy.environment) == described(node.environment)
            found = look(SocketNetwork(), [port], None, PATIENCE_S)
            assert found.master_address == ours
            assert [(one.name, one.state) for one in found.nodes] == [("n1", "MASTER"), ("copy", "REPLICA")]
            assert node.status().replicas[0].node == "copy"
        finally:
            copy.stop()


def test_its_files_are_copied_by_a_network_restore() -> None:
    target = MemoryStorage()
    with leading() as node:
        work(node.environment)
        NetworkRestore(target, SocketNetwork(), 10, SILENT, lambda: False).run(node.config.listen)
        expected = described(node.environment)
    restored = opened(target)
    assert described(restored) == expected
    restored.close()


def with_member() -> tuple[MemoryStorage, tuple[str, int]]:
    """The directory of the master of two."""
    storage, (listen,) = MemoryStorage(), free_ports(1)
    with leading(storage, listen=listen) as node:
        replica = follower(node, port=7002)
        eventually(lambda: node.stream_range().last == 16)
        replica.close()
    return storage, listen


def group_now(
    answer: Answer | None = None, master: str = "", down: str = "", nodes: tuple[str, ...] = ("n2",)
) -> Voters:  # fmt: skip
    """What the other members say, and how the first of them votes."""
    log = operations()[:9]
    group = GroupDouble([NodeDouble(name, 7002 + at, log) for at, name in enumerate(nodes)], master, down={down})
    return Voters(group, {} if answer is None else {7002: answer})


WAITING = [
    (
        "n9, which n2 follows, cannot be reached",
        lambda: group_now(voting((9, 9)), master="n9", nodes=("n2", "n9"), down="n9"),
    ),
    ("n2 was elected, and does not lead yet", lambda: group_now(voting((16, 17)))),
    ("not to be elected", lambda: group_now(voting((16, 17), priority=0))),
    ("too few members promise a vote", lambda: group_now(down="n2")),
    ("too few members promise a vote", group_now),
    ("too few members accept n1", lambda: group_now(voting((9, 9), accepts=False))),
]


@pytest.mark.parametrize(("text", "network"), WAITING)
def test_it_does_not_lead_where_commits_might_be_lost(text: str, network: Callable[[], Voters]) -> None:
    """Nothing is logged then, not even by force where somebody answers so."""
    storage, listen = with_member()
    config = standing(listen, unelected="promise" not in text)
    node = JoinedNode(storage, config, network())
    node.start()
    try:
        eventually(lambda: text in str(node.problem))
        assert node.role is Role.UNKNOWN
    finally:
        node.stop()
    env = opened(storage)
    assert env.engine.stream_range.last == 16
    env.close()


def standing(listen: tuple[str, int], **changes: Any) -> JoinConfig:
    """That of a node that is told to lead."""
    usual = JoinConfig("n1", listen, (), ELECTABLE, 1, forms=True, group=GROUP, environment=SMALL, intervals=QUICK)
    return replace(usual, **changes)


@pytest.mark.parametrize("answers", [True, False])
def test_it_leads_again(answers: bool) -> None:
    """Elected by the other member; by force also where that does not answer. The members hear of it."""
    storage, listen = with_member()
    network = group_now(voting((16, 15))) if answers else group_now(down="n2")
    with leading(storage, network, AckPolicy.NONE, listen=listen, unelected=not answers) as node:
        assert node.role is Role.MASTER
        node.environment.create_database("x").close()
        assert node.stream_range().last == 18
        if answers:
            eventually(lambda: bool(network.results))
            port, told_them = network.results[0]
            assert (port, told_them.value) == (7002, Suggestion(*listen, "n1", 1))


def test_under_another_name_or_address_it_does_not_lead() -> None:
    storage, listen = with_member()
    for name, address, group in (("n3", listen, GROUP), ("n1", free_ports(1)[0], GROUP), ("n1", listen, "OTHER")):
        with (
            pytest.raises(RefusedError),
            leading(storage, group_now(voting((9, 9))), name=name, listen=address, group=group),
        ):
            pass


def test_what_cannot_begin_makes_nothing() -> None:
    storage, (listen,) = MemoryStorage(), free_ports(1)
    with pytest.raises(UsageError, match="needs a name"), leading(storage, group=None, listen=listen):
        pass
    with leading(listen=listen), pytest.raises(StorageError, match="cannot listen"), leading(storage, listen=listen):
        pass
    assert [name for name in storage.names() if name.endswith(".jdb")] == []


def test_records_are_written_through_it() -> None:
    """By callers on its own machine; one from elsewhere would need a certificate."""
    with leading(policy=AckPolicy.NONE) as node:
        node.environment.create_database("x").close()
        network, place = SocketNetwork(), node.config.listen
        written = put_record(network, place, PutRequest("x", b"k", b"v", True), PATIENCE_S)
        assert (written.master, written.written.vlsn) == (place, node.stream_range().last)
        assert get_record(network, place, GetRequest("x", b"k", written.written.vlsn, 1000), PATIENCE_S) == [b"v"]
        with pytest.raises(RefusedError, match="there is a record"):
            put_record(network, place, PutRequest("x", b"k", b"v", False), PATIENCE_S)
        with pytest.raises(NotFoundError):
            get_record(network, place, GetRequest("nothing", b"k", 0, 0), PATIENCE_S)
        asked = encode_service_request("JetoolRecords")
        assert served(lambda: RecordRequests(node).services, asked) == bytes((Status.INVALID,))


def told(node: JoinedNode, proposal: Proposal, winner: str) -> None:
    """The result of an election arrives."""
    result = Result(proposal=proposal, value=Suggestion("localhost", 7002, winner, 2))
    assert ask(SocketNetwork(), node.config.listen, LEARNER, GROUP, result, PATIENCE_S) is None


def test_an_election_ends_its_term() -> None:
    """That of another node, and of a later time; then nothing is committed any more, and it follows the other."""
    with leading(policy=AckPolicy.NONE) as node:
        db = node.environment.create_database("x")
        answer = ask(SocketNetwork(), node.config.listen, LEARNER, GROUP, MasterQuery(), PATIENCE_S)
        assert answer is not None
        assert isinstance(answer[1], MasterAnswer)
        mine = answer[1].proposal
        told(node, mine._replace(time_ms=mine.time_ms - 5), "n2")
        told(node, mine._replace(time_ms=mine.time_ms + 5), "n1")
        assert db.put(b"k", b"v")
        gate = gate_of(node)
        told(node, mine._replace(time_ms=mine.time_ms + 6), "n2")
        eventually(lambda: "n2 was elected, and does not lead yet" in str(node.problem))
        with pytest.raises(RefusedError, match="no longer the master: another node was elected"):
            gate.committing()
        with pytest.raises(JetoolError):
            db.put(b"k", b"w")
        with pytest.raises((PeerError, JetoolError)):
            follower(node, "copy", "EXTERNAL")
        assert node.failure is None
