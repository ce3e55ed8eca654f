"""Changes of a group, asked of its master by the tools of JE."""

from __future__ import annotations

import pytest

from engine.errors import JetoolError
from engine.format.entry.group_db import NODE_TYPES, GroupNode
from engine.rep.acks import AckPolicy
from engine.rep.client.call import ask
from engine.rep.client.connection import SocketNetwork
from engine.rep.group import committed_members, described
from engine.rep.member.node import JoinedNode
from engine.rep.peers import PeerError
from engine.rep.status import Role
from engine.rep.wire import feeder as f
from engine.rep.wire.group_lines import (
    GROUP,
    DeleteMember,
    EnsureNode,
    EnsureNodeResponse,
    GroupFailure,
    RemoveMember,
    TransferMaster,
    TransferMasterResponse,
    UpdateAddress,
)
from engine.rep.wire.lines import OkReply, TextMessage
from tests.rep.master import leaders
from tests.rep.master.leaders import follower, leading
from tests.rep.master.voters import Voters
from tests.support.groups.group_double import GroupDouble, NodeDouble
from tests.support.groups.playing import operations
from tests.support.waiting import PATIENCE_S, eventually


def asked(node: JoinedNode, message: TextMessage) -> TextMessage:
    """The answer of the master."""
    answer = ask(SocketNetwork(), node.config.listen, GROUP, leaders.GROUP, message, PATIENCE_S)
    assert answer is not None
    return answer[1]


def reason(answer: TextMessage) -> str:
    """Why not."""
    assert isinstance(answer, GroupFailure)
    return answer.reason


def test_members_go_and_move_and_monitors_come() -> None:
    with leading() as node:
        replica = follower(node)
        assert reason(asked(node, DeleteMember(node="n2"))) == "MEMBER_ACTIVE"
        assert reason(asked(node, UpdateAddress(node="n2", host="h", port=9))) == "IS_REPLICA"
        assert reason(asked(node, RemoveMember(node="n1"))) == "IS_MASTER"
        assert reason(asked(node, RemoveMember(node="nobody"))) == "MEMBER_NOT_FOUND"
        with replica.acknowledging():
            assert asked(node, EnsureNode(node=monitor())) == EnsureNodeResponse(name="mon", id=3)
            assert isinstance(asked(node, RemoveMember(node="n2")), OkReply)
        replica.close()
        eventually(lambda: node.feeders() == 0)
        with pytest.raises(PeerError, match="no longer a member"):
            follower(node)
        assert reason(asked(node, UpdateAddress(node="n2", host="h", port=9))) == "MEMBER_NOT_FOUND"
        # As in JE, a removal is final: the record of the removed member stays.
        assert reason(asked(node, DeleteMember(node="n2"))) == "MEMBER_NOT_FOUND"
        assert reason(asked(node, RemoveMember(node="n2"))) == "MEMBER_NOT_FOUND"
        # Nobody but this node votes any more, so nobody has to acknowledge.
        assert isinstance(asked(node, DeleteMember(node="mon")), OkReply)
        found = committed_members(node.environment.engine)
        assert found is not None
        assert {one.name: one.removed for one in found.nodes} == {"n1": False, "n2": True}


def monitor() -> GroupNode:
    """A monitor, as it asks to be made a member."""
    return described("mon", "localhost", 7030, NODE_TYPES.index("monitor"), "18.3.20", 5)._replace(id=-1)


def test_a_change_that_nobody_acknowledges_is_not_done() -> None:
    """A majority of two has to be there; a single one moves at once."""
    with leading(ack_timeout_s=0.1) as node:
        follower(node).close()
        eventually(lambda: node.feeders() == 0)
        assert reason(asked(node, UpdateAddress(node="n2", host="localhost", port=7099))) == "DEFAULT"
        asked_for = asked(node, EnsureNode(node=monitor()))
        assert reason(asked_for) == "DEFAULT"
    with leading(policy=AckPolicy.NONE) as node:
        assert isinstance(asked(node, EnsureNode(node=monitor())), EnsureNodeResponse)
        assert isinstance(asked(node, UpdateAddress(node="mon", host="localhost", port=7099)), OkReply)
        found = committed_members(node.environment.engine)
        assert found is not None
        assert [(one.name, one.port) for one in found.nodes if one.name == "mon"] == [("mon", 7099)]


def test_the_master_is_transferred() -> None:
    """To a replica that has everything; the members hear of it, the new one first, and this node leads no more."""
    log = operations()[:9]
    network = Voters(GroupDouble([NodeDouble("n2", 7011, log), NodeDouble("n3", 7012, log)], ""), {})
    with leading(network=network, policy=AckPolicy.NONE) as node:
        db = node.environment.create_database("x")
        assert reason(asked(node, TransferMaster(nodes=("n2",), timeout_ms=100, force=False))) == "TRANSFER_FAIL"
        replica = follower(node)
        assert reason(asked(node, TransferMaster(nodes=("n2",), timeout_ms=100, force=False))) == "TRANSFER_FAIL"
        db.put(b"k", b"still")
        answer = asked(node, TransferMaster(nodes=("n1",), timeout_ms=100, force=False))
        assert answer == TransferMasterResponse(winner="n1")
        replica.send(f.HeartbeatResponse(syncup_vlsn=-1, txn_end_vlsn=node.stream_range().last_txn_end))
        answer = asked(node, TransferMaster(nodes=("n3", "n2"), timeout_ms=PATIENCE_S * 1000, force=False))
        assert answer == TransferMasterResponse(winner="n2")
        eventually(lambda: node.role is not Role.MASTER)
        told = [(port, result.value.node) for port, result in network.results if result.value.node == "n2"]
        assert told == [(7011, "n2")]
        with pytest.raises(JetoolError):
            db.put(b"k", b"too late")
        replica.close()
