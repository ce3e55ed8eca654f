"""What others ask a node that follows a group: the clients that were recorded get the answers that JE gave them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import FormatError, StorageError
from engine.rep.client.call import Call, ServiceError
from engine.rep.client.connection import SocketNetwork
from engine.rep.client.looking import node_state, state_of
from engine.rep.frames import DisconnectedError, PeerError
from engine.rep.joined.answering import Answering, Conversation, NodeFacts
from engine.rep.wire.group_lines import GroupResponse, StateResponse
from engine.rep.wire.lines import Refused
from engine.rep.wire.node_state import NodeStateError, NodeStateResponse
from engine.rep.wire.services import encode_service_request
from engine.storage.memory import MemoryStorage
from tests.rep.joined.playing import PATIENCE_S, group_of, joined, operations
from tests.rep.nodes import free_ports
from tests.rep.wire.recordings import HOME, Piece, Player, read

FACTS = NodeFacts("WIREGRP", "n2", "n1", "REPLICA", 1_795_360_557_389, 25, 25, None)
# DbPing, the group's own tools and a script: of a master, of a replica, with wrong names, wrong groups, wrong versions.
ASKED = ("007", "008", "009", "010", "013", "018", "019", "021", "022", "023", "024", "026", "027")
RECORDED = sorted(path for path in (HOME / "services").glob("*.jsonl") if path.name[:3] in ASKED)


def facts_of(said: object, server: str) -> NodeFacts:
    """The facts that a recorded answer tells."""
    facts = FACTS._replace(node=server)
    if isinstance(said, NodeStateResponse):
        return facts._replace(
            master=said.master, state=said.state, joined_ms=said.joined_ms, commit_vlsn=said.commit_vlsn,
            master_commit_vlsn=said.master_commit_vlsn,
        )  # fmt: skip
    message = said[1] if isinstance(said, tuple) else None
    if isinstance(message, StateResponse):
        return facts._replace(master=message.master, state=message.state, joined_ms=message.joined_ms)
    return facts._replace(members=message.members) if isinstance(message, GroupResponse) else facts


def comparable(said: object) -> object:
    """An answer without the load of a machine, the feeders of a master, and the words of a complaint."""
    if isinstance(said, NodeStateResponse):
        return replace(said, load="", feeders=0)
    if isinstance(said, NodeStateError):
        return NodeStateError
    if isinstance(said, tuple) and isinstance(said[1], Refused):
        return said[0]._replace(sender=0), said[1].problem
    return said


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_it_answers_as_a_node_of_je(path: Path) -> None:
    """Asked byte by byte."""
    recording = read(path)
    theirs = [played.what for played in Player(recording).play() if not played.client][1]
    conversation = Conversation(lambda: facts_of(theirs, recording.meta["serverNode"]))
    asked = recording.sent(client=True)
    answer = b"".join(conversation.hear(asked[at : at + 1]) for at in range(len(asked)))
    assert conversation.over
    played = Player(recording._replace(pieces=[Piece(True, asked, ""), Piece(False, answer, "")])).play()
    mine = [one.what for one in played if not one.client][1]
    assert comparable(mine) == comparable(theirs)


@given(st.sampled_from(("BinaryNodeState", "NodeState", "Group", "x")), st.binary(max_size=80), st.booleans())
def test_whatever_is_said_to_it(service: str, data: bytes, named: bool) -> None:
    """It answers, waits for more, or refuses what makes no sense."""
    conversation = Conversation(lambda: FACTS)
    try:
        answer = conversation.hear((encode_service_request(service) if named else b"") + data)
    except FormatError:
        return
    assert answer[:1] in (b"", b"\0", b"\3")
    assert len(answer) < 300


def test_a_node_that_runs_is_asked() -> None:
    log, (listen,) = operations(), free_ports(1)
    network = SocketNetwork()
    with joined(group_of(log), MemoryStorage(), answers=True, listen=listen) as node:
        assert node.await_vlsn(log[-1].vlsn, PATIENCE_S)
        assert state_of(network, listen, None, 5)[1].state == "REPLICA"
        said = node_state(network, listen, "copy1", "WIREGRP", 5)
        assert (said.master, said.state, said.commit_vlsn) == ("n1", "REPLICA", log[-1].vlsn)
        with pytest.raises(PeerError, match="another name"):
            node_state(network, listen, "copy2", "WIREGRP", 5)
        with pytest.raises(ServiceError):
            Call(network, listen, "Feeder", 5)
        with pytest.raises(StorageError, match="cannot listen"):
            Answering(listen, lambda: FACTS).start()
    with pytest.raises(DisconnectedError):
        node_state(network, listen, "copy1", "WIREGRP", 5)
