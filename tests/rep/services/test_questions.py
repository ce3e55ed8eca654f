"""What others ask a node of a group: the clients that were recorded get the answers that JE gave them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import StorageError
from engine.rep.client.call import Call, ServiceError, ask
from engine.rep.client.connection import SocketNetwork
from engine.rep.client.group_state import node_state, state_of
from engine.rep.peers import DisconnectedError, PeerError
from engine.rep.services.port import Port
from engine.rep.services.questions import NodeFacts, Questions
from engine.rep.wire.election_lines import LEARNER, MasterAnswer, MasterQuery
from engine.rep.wire.group_lines import GroupFailure, GroupResponse, Members, StateResponse
from engine.rep.wire.lines import ProtocolErrorReply
from engine.rep.wire.node_state import NodeStateError, NodeStateResponse
from engine.rep.wire.services import Status, encode_service_request
from engine.storage.memory import MemoryStorage
from tests.rep.services.scripted import ScriptedConnection, port_of, recorded, replayed, said, served
from tests.support.groups.nodes import free_ports
from tests.support.groups.playing import group_of, joined, operations
from tests.support.groups.recordings import HOME, Player, read
from tests.support.waiting import PATIENCE_S

# DbPing, the group's own tools and a script: of a master, of replicas, with wrong names, groups, versions, senders and
# lines; changes that a replica refuses; what is no service, and no request for one.
ASKED = {*range(1, 3), *range(7, 38), 44, 45, 46, 51, 52, 53, 54, 55}
RECORDED = [path for path in sorted((HOME / "services").glob("*.jsonl")) if int(path.name[:3]) in ASKED]


def services_members() -> Members:
    """The group of the recordings, as its third node joined."""
    (path,) = (HOME / "services").glob("013-*")
    found = next(played.what[1].members for played in said(read(path)) if isinstance(played.what, tuple))
    assert isinstance(found, Members)
    return found


MEMBERS = services_members()
FACTS = NodeFacts("WIREGRP", "n2", "n1", "REPLICA", 1_795_360_557_389, 25, 25, MEMBERS, 2)


def facts_of(answers: list[object], server: str) -> NodeFacts:
    """The facts that a recorded answer tells; a node that does not name a master has lost it."""
    facts = FACTS._replace(node=server, node_id=int(server[1]))
    for what in answers:
        message = what[1] if isinstance(what, tuple) else what
        if isinstance(message, NodeStateResponse):
            return facts._replace(
                master=message.master, state=message.state, joined_ms=message.joined_ms, feeders=message.feeders,
                commit_vlsn=message.commit_vlsn, master_commit_vlsn=message.master_commit_vlsn,
            )  # fmt: skip
        if isinstance(message, StateResponse):
            return facts._replace(master=message.master, state=message.state, joined_ms=message.joined_ms)
        if isinstance(message, MasterAnswer):
            return facts._replace(elected=message)
        if isinstance(message, GroupResponse) and message.members.group.format_version == 3:
            return facts._replace(members=message.members)
    return facts


def comparable(what: object) -> object:
    """An answer without the load of a machine and the words of a complaint."""
    if isinstance(what, NodeStateResponse):
        return replace(what, load="")
    if isinstance(what, NodeStateError):
        return NodeStateError
    if isinstance(what, tuple) and isinstance(what[1], ProtocolErrorReply):
        return what[0], what[1].problem
    if isinstance(what, tuple) and isinstance(what[1], GroupFailure):
        return what[0], what[1].reason
    return what


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_it_answers_as_a_node_of_je(path: Path) -> None:
    """Asked byte by byte."""
    recording, theirs = recorded(path)
    facts = facts_of([played.what for played in theirs], recording.meta["serverNode"])
    questions = Questions(lambda: facts)
    mine = replayed(lambda: questions.services, recording)
    assert [comparable(played.what) for played in mine] == [comparable(played.what) for played in theirs]


NAMES = ("BinaryNodeState", "NodeState", "Group", "Learner", "x")


@given(st.sampled_from(NAMES), st.binary(max_size=80), st.booleans())
def test_whatever_is_said_to_it(service: str, data: bytes, named: bool) -> None:
    """It answers, waits for more, or refuses what makes no sense."""
    questions = Questions(lambda: FACTS)
    answer = served(lambda: questions.services, (encode_service_request(service) if named else b"") + data, 7)
    assert answer[:1] in (b"", b"\0", b"\2", b"\3")
    assert len(answer) < 300


def test_a_result_of_an_election_is_not_believed_and_nothing_stops_the_learner() -> None:
    """From a node without a vote anybody could hear a master that there is none of."""
    elected = next(
        path for path in sorted((HOME / "elections").glob("*-Learner-*.jsonl"))
        if any(isinstance(one.what, tuple) and one.what[1].OP == "RE" for one in Player(read(path)).play())
    )  # fmt: skip
    questions = Questions(lambda: FACTS)
    assert [played.what for played in replayed(lambda: questions.services, read(elected))] == [Status.OK]
    stop = encode_service_request("Learner") + b"2.0|WIREGRP|1|X\n"
    assert served(lambda: questions.services, stop) == b"\0"


def test_places_are_bounded() -> None:
    """Who comes when all are taken is told so."""
    answers: list[bytes] = []
    ask_state = encode_service_request("NodeState") + b"1.0|WIREGRP|-2147483648|STATEREQ|n2\n"

    def facts() -> NodeFacts:
        # While this one is served another one comes.
        answers.append(served(lambda: questions.services, ask_state))
        return FACTS

    questions = Questions(facts)
    assert served(lambda: questions.services, ask_state).startswith(b"\0")
    assert [answer[:1] for answer in answers] == [bytes((Status.BUSY,)), *[bytes((Status.OK,))] * 15]


def test_a_node_that_runs_is_asked() -> None:
    log, (listen,) = operations(), free_ports(1)
    network = SocketNetwork()
    with joined(group_of(log), MemoryStorage(), answers=True, listen=listen) as node:
        assert node.await_vlsn(log[-1].vlsn, PATIENCE_S)
        assert state_of(network, listen, None, PATIENCE_S)[1].state == "REPLICA"
        state = node_state(network, listen, "copy1", "WIREGRP", PATIENCE_S)
        assert (state.master, state.state, state.commit_vlsn) == ("n1", "REPLICA", log[-1].vlsn)
        answer = ask(network, listen, LEARNER, "WIREGRP", MasterQuery(), PATIENCE_S)
        assert answer is not None
        assert isinstance(answer[1], MasterAnswer)
        assert answer[1].value.node == "n1"
        with pytest.raises(PeerError, match="another name"):
            node_state(network, listen, "copy2", "WIREGRP", PATIENCE_S)
        with pytest.raises(ServiceError):
            Call(network, listen, "Feeder", PATIENCE_S)
        with pytest.raises(StorageError, match="cannot listen"):
            Port(listen, dict).start()
    with pytest.raises(DisconnectedError):
        node_state(network, listen, "copy1", "WIREGRP", PATIENCE_S)


@pytest.mark.parametrize("group", [None, "WIREGRP"])
def test_a_node_whose_group_comes_while_it_is_asked(group: str | None) -> None:
    """It answers the first question before it knows its group, and would refuse another one by no name."""
    (listen,) = free_ports(1)
    lives = iter([FACTS._replace(group="", master="", members=None), FACTS])
    questions = Questions(lambda: next(lives))
    port = Port(listen, lambda: questions.services)
    port.bind()
    with pytest.raises(DisconnectedError, match="cannot be reached"):
        state_of(SocketNetwork(), listen, group, PATIENCE_S)
    port.start()
    try:
        with pytest.raises(DisconnectedError, match="does not know its group yet"):
            state_of(SocketNetwork(), listen, group, PATIENCE_S)
        assert state_of(SocketNetwork(), listen, "WIREGRP", PATIENCE_S)[0] == "WIREGRP"
    finally:
        port.close()


def test_who_was_accepted_just_before_the_port_was_closed() -> None:
    """Its thread begins a moment later: nobody would close the connection."""
    port = port_of(Questions(lambda: FACTS).services.copy)
    port.close()
    connection = ScriptedConnection(encode_service_request("NodeState"), 7)
    port.serve(connection, "a client")
    assert (connection.closed, connection.sent) == (True, b"")
