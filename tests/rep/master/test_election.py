"""A running master in elections: what it answers is what running masters of JE answered, and others hear of it."""

from __future__ import annotations

import threading

import pytest

from engine.rep.master.election import Acceptor, running_master
from engine.rep.services.questions import NodeFacts
from engine.rep.wire.election_lines import ACCEPTOR, Accept, AcceptReply, Promise, Proposal, Propose, Reject, Suggestion
from engine.rep.wire.lines import ProtocolErrorReply
from engine.rep.wire.services import encode_service_request
from tests.rep.master.leaders import follower, leading
from tests.rep.services.scripted import recorded, replayed, served
from tests.rep.services.test_questions import FACTS
from tests.support.groups.group_double import GroupDouble, NodeDouble
from tests.support.groups.nodes import QUICK
from tests.support.groups.playing import operations
from tests.support.groups.recordings import HOME
from tests.support.waiting import PATIENCE_S, eventually

RUNNING = ("fork-aborts/026-Acceptor-n3", "fork-beyond-limit/041-Acceptor-n3", "fork-hard/025-Acceptor-n3")
FIRST = Proposal(0, 0, 0)
MINE = Suggestion("localhost", 15010, "n2", 2)


def running(mine: Suggestion, facts: NodeFacts) -> Acceptor:
    """That of a running master."""
    found = Acceptor(lambda: facts, lambda: running_master(mine, has_terms=False))
    for message in (Propose(proposal=FIRST), Accept(proposal=FIRST, value=mine)):
        found.answer(message)
    return found


@pytest.mark.parametrize("name", RUNNING)
def test_it_promises_as_a_running_master_of_je(name: str) -> None:
    recording, theirs = recorded(HOME / f"{name}.jsonl")
    promise = theirs[-1].what
    assert isinstance(promise, tuple)
    assert isinstance(promise[1], Promise)
    acceptor = running(promise[1].suggestion, FACTS._replace(node="n3", node_id=3))
    mine = replayed(lambda: acceptor.services, recording)
    assert [played.what for played in mine] == [played.what for played in theirs]


def asked(acceptor: Acceptor, line: str) -> object:
    """The answer to a line."""
    said = served(lambda: acceptor.services, encode_service_request("Acceptor") + f"2.0|WIREGRP|1|{line}\n".encode())
    return ACCEPTOR.decode(said[1:], client=False)[1] if len(said) > 1 else None


def test_proposals_are_kept_in_order() -> None:
    acceptor = running(MINE, FACTS)
    early, late = f"{1:056x}", f"{2:056x}"
    value = "localhost$$$15010$$$n1$$$1"
    assert isinstance(asked(acceptor, f"P|{late}"), Promise)
    assert asked(acceptor, f"P|{early}") == Reject(proposal=Proposal(0, 0, 2))
    assert asked(acceptor, f"A|{early}|{value}") == Reject(proposal=Proposal(0, 0, 2))
    assert isinstance(asked(acceptor, f"A|{late}|{value}"), AcceptReply)
    promise = asked(acceptor, f"P|{late}")
    assert isinstance(promise, Promise)
    assert (promise.accepted, promise.suggestion) == (Suggestion("localhost", 15010, "n1", 1), MINE)
    assert isinstance(asked(acceptor, "P|nonsense"), ProtocolErrorReply)
    assert asked(acceptor, "X") is None


def test_members_hear_of_the_master() -> None:
    """Again and again, those too that have come since."""
    told = threading.Event()
    network = GroupDouble([NodeDouble("n2", 7011, operations()[:9])], "", on_connect=told.set)
    with leading(network=network, intervals=QUICK._replace(announce_s=0.05)) as node:
        replica = follower(node)
        assert told.wait(PATIENCE_S)
        replica.close()
        eventually(lambda: node.feeders() == 0)
