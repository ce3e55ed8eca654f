"""Members of a group that has an arbiter: whose acknowledgements count, and who is elected."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine.format.entry.group_db import GroupNode
from engine.format.entry.txn_end import FIRST_TERM, PRE_TERM
from engine.format.entry_types import COMMIT
from engine.rep.acks import AckPolicy, InsufficientAcksError, InsufficientReplicasError
from engine.rep.client.connection import SocketNetwork
from engine.rep.client.group_state import look
from engine.rep.group import Membership
from engine.rep.master.election import NO_NODE, RUNNING_MASTER
from engine.rep.member.node import JoinedNode
from engine.rep.peers import DisconnectedError, PeerError
from engine.rep.wire import feeder as f
from engine.rep.wire.election_lines import Accept, AcceptReply, Promise, Propose
from engine.rep.wire.lines import TextMessage
from tests.rep.master.leaders import PATIENCE_S, PlayedReplica, follower, leading
from tests.rep.master.voters import Answer, voting
from tests.rep.member.test_voting import TERM, Members
from tests.support.groups.nodes import gate_of, waiting_for
from tests.support.waiting import eventually

OURS, THEIRS = 3, 2


@contextmanager
def arbitrated(policy: AckPolicy = AckPolicy.SIMPLE_MAJORITY) -> Iterator[tuple[JoinedNode, PlayedReplica]]:
    """A master whose other data node is gone, and an arbiter."""
    with leading(policy=policy) as node:
        other = follower(node)
        with other.acknowledging():
            arbiter = PlayedReplica(node.config.listen, "a1", "ARBITER", 7012)
            node.environment.create_database("x").close()
            eventually(lambda: node.feeders() == 2)
        other.close()
        eventually(lambda: node.feeders() == 1)
        yield node, arbiter
        arbiter.close()


def test_the_arbiter_takes_the_place_of_the_missing_data_node() -> None:
    """It gets the commits that wait for it, and nothing else."""
    with arbitrated() as (node, arbiter):
        done: list[bool] = []
        with node.environment.open_database("x") as db:
            writer = threading.Thread(target=lambda: done.append(db.put(b"k", b"1")))
            writer.start()
            while not arbiter.awaited:
                arbiter.read()
            # What it answers to heartbeats is no acknowledgement.
            last = node.stream_range().last
            arbiter.send(f.HeartbeatResponse(syncup_vlsn=-1, txn_end_vlsn=last))
            assert [(entry.type_number, entry.vlsn) for entry in arbiter.entries] == [(COMMIT, last)]
            assert arbiter.awaited[0].sync_policy == f.SYNC
            before = node.status().dtvlsn
            assert (done, before < last) == ([], True)
            end = arbiter.entries[0].record()
            arbiter.send(f.Ack(txn_id=getattr(end, "id", 0)))
            writer.join(PATIENCE_S)
            assert (done, node.status().dtvlsn) == ([True], last)
            assert gate_of(node).has_majority
            arbiter.close()
            eventually(lambda: node.feeders() == 0)
            assert not gate_of(node).has_majority
            with waiting_for(node, 0.1), pytest.raises(InsufficientReplicasError):
                db.put(b"k", b"2")


def test_a_data_node_that_is_late_is_replaced_too() -> None:
    with leading() as node:
        arbiter = PlayedReplica(node.config.listen, "a1", "ARBITER", 7012)
        node.environment.create_database("x").close()
        silent = follower(node)
        with node.environment.open_database("x") as db, waiting_for(node, 0.2):
            writer = threading.Thread(target=lambda: db.put(b"k", b"1"))
            writer.start()
            with arbiter.acknowledging():
                writer.join(PATIENCE_S)
            assert not writer.is_alive()
        assert [commit.entry.vlsn for commit in arbiter.awaited] == [node.stream_range().last]
        arbiter.close()
        silent.close()


def test_where_its_acknowledgement_does_not_count() -> None:
    """The policy ALL is about data nodes, and of three data nodes an arbiter replaces none."""
    with arbitrated(AckPolicy.ALL) as (node, _), waiting_for(node, 0.1), pytest.raises(InsufficientReplicasError):
        node.environment.create_database("y")
    with arbitrated() as (node, arbiter):
        with arbiter.acknowledging():
            PlayedReplica(node.config.listen, "n3", port=7013).close()
            eventually(lambda: gate_of(node).electable == 3)
        with waiting_for(node, 0.1), pytest.raises((InsufficientReplicasError, InsufficientAcksError)):
            node.environment.create_database("y")


def test_a_group_has_one_arbiter() -> None:
    with arbitrated() as (node, _):
        with pytest.raises(PeerError) as refused:
            PlayedReplica(node.config.listen, "a2", "ARBITER", 7014)
        assert "An Arbiter node already exists" in str(refused.value.fields()["found"])
        found = look(SocketNetwork(), [node.config.listen], None, PATIENCE_S)
        arbiter = next(one for one in found.nodes if one.name == "a1")
        # It has no position in the stream, so it cannot be late.
        assert found.lag(arbiter) is None


def arbitrating(ranking: tuple[int, int], node_id: int, port: int = 7003, term: int | None = None) -> Answer:
    """An arbiter that has acknowledged a commit of a master."""

    def answer(message: TextMessage) -> TextMessage | None:
        if isinstance(message, Propose):
            return Promise(
                proposal=message.proposal, accepted=None, suggestion=NO_NODE._replace(port=port),
                major_ranking=ranking[0], priority=-(1 << 31), log_version=17, je_version="18.3.20",
                minor_ranking=ranking[1], node_id=node_id, term=term,
            )  # fmt: skip
        assert isinstance(message, Accept)
        return AcceptReply(proposal=message.proposal, value=message.value)

    return answer


def with_arbiter(n2: Answer | None, arbiter: Answer, *more: GroupNode, term: int | None = None) -> Members:
    """A member of ours with the log (40, 44), of id 3, another data node of id 2, and an arbiter."""
    members = Members(n2, arbiter, term=term)
    group, (first, second, mine) = members.members
    members.members = Membership(group, (first, second._replace(type=3), *more, mine))
    return members


@pytest.mark.parametrize(
    ("n2", "arbiter", "winner"),
    [
        # Alone with the arbiter: a log that reaches its commit, or the master of this commit.
        (None, arbitrating((-1, -1), -1), "copy1"),
        (None, arbitrating((40, 44), THEIRS), "copy1"),
        (None, arbitrating((40, 45), THEIRS), None),
        (None, arbitrating((41, 40), THEIRS), None),
        (None, arbitrating((40, 45), OURS), "copy1"),
        (None, arbitrating((40, 45), -1), None),
        # Both data nodes have promised: nothing else is left of the group.
        (voting((40, 44)), arbitrating((40, 90), THEIRS), "copy1"),
        (voting((40, 45)), arbitrating((40, 90), 9), "n2"),
        (voting((RUNNING_MASTER, 0)), arbitrating((90, 90), OURS), "n2"),
    ],
)
def test_who_is_elected_beside_an_arbiter(n2: Answer | None, arbiter: Answer, winner: str | None) -> None:
    members = with_arbiter(n2, arbiter)
    if winner is not None:
        assert members.elect() == winner
        assert {port for port, _ in members.network.results} == {7002, 7003}
        return
    with pytest.raises(DisconnectedError, match="the arbiter has acknowledged a later commit"):
        members.elect()
    assert (members.network.results, members.voter.elected) == ([], None)


@pytest.mark.parametrize(
    ("arbiter", "wins"),
    [
        (arbitrating((90, 90), THEIRS, term=TERM - 1), True),
        (arbitrating((40, 44), THEIRS, term=TERM), True),
        (arbitrating((10, 45), THEIRS, term=TERM), False),
        (arbitrating((10, 10), THEIRS, term=TERM + 1), False),
        (arbitrating((-1, -1), -1, term=FIRST_TERM), True),
        # A commit from before terms is compared by DTVLSN.
        (arbitrating((40, 44), THEIRS, term=PRE_TERM), True),
        (arbitrating((41, 10), THEIRS), False),
    ],
)
def test_terms_of_an_arbiter(arbiter: Answer, wins: bool) -> None:
    members = with_arbiter(None, arbiter, term=TERM)
    if wins:
        assert members.elect() == "copy1"
    else:
        with pytest.raises(DisconnectedError, match="the arbiter has acknowledged a later commit"):
            members.elect()


def test_of_three_data_nodes_all_have_to_promise() -> None:
    """The third one may be the one that has the arbiter's commit."""
    more = GroupNode("n4", 9, 3, 1, True, False, "localhost", 7004, -1, 0, 1, "18.3.20")
    members = with_arbiter(voting((40, 43)), arbitrating((40, 45), 9), more)
    with pytest.raises(DisconnectedError, match="the arbiter has acknowledged a later commit"):
        members.elect()
