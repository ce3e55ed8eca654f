"""A member of a group of JE that votes: what it promises, whom it elects, what it acknowledges."""

from __future__ import annotations

import pytest

from engine.format.entry.group_db import GroupNode, RepGroup
from engine.format.entry.txn_end import LAST_TERM, PRE_TERM, TxnEnd
from engine.format.entry_types import COMMIT
from engine.log.files import PROMISES_FILE
from engine.rep.client.call import ask
from engine.rep.client.connection import SocketNetwork
from engine.rep.group import Membership
from engine.rep.master.election import RUNNING_MASTER, Acceptor, Vote, new_proposal
from engine.rep.master.promises import NO_PROMISES, PromiseFile, Promises
from engine.rep.member.config import JoinConfig
from engine.rep.member.elections import Voter
from engine.rep.peers import DisconnectedError
from engine.rep.wire import feeder as f
from engine.rep.wire.election_lines import (
    ACCEPTOR,
    Accept,
    AcceptReply,
    MasterAnswer,
    Promise,
    Proposal,
    Propose,
    Reject,
    Result,
    Suggestion,
)
from engine.storage.base import write_synced
from engine.storage.memory import MemoryStorage
from tests.rep.master.voters import Answer, Voters, voting
from tests.rep.services.scripted import recorded, replayed
from tests.rep.services.test_questions import FACTS
from tests.support.groups.group_double import GroupDouble, NodeDouble
from tests.support.groups.nodes import free_ports
from tests.support.groups.playing import LISTEN, group_of, joined, operations
from tests.support.groups.recordings import HOME
from tests.support.waiting import PATIENCE_S

MINE = Suggestion(*LISTEN, "copy1", 3)
OTHERS = (7002, 7003)
FIRST, LATER = Proposal(5, 1, 1), Proposal(9, 1, 1)
TERM = 1_795_362_064_923


@pytest.mark.parametrize("name", ["008-Acceptor-n2", "009-Acceptor-n3"])
def test_it_promises_as_a_replica_of_je(name: str) -> None:
    """With the place of its log; n3 has priority 0."""
    recording, theirs = recorded(HOME / "elections" / f"{name}.jsonl")
    promise = theirs[-1].what
    assert isinstance(promise, tuple)
    assert isinstance(promise[1], Promise)
    said = promise[1]
    vote = Vote(said.suggestion, (23, 25), 1 if said.node_id == 2 else 0, said.node_id)
    acceptor = Acceptor(lambda: FACTS._replace(node=said.suggestion.node, node_id=said.node_id), lambda: vote)
    mine = replayed(lambda: acceptor.services, recording)
    assert [played.what for played in mine] == [played.what for played in theirs]


def acceptor_of(promise_s: float = PATIENCE_S) -> Acceptor:
    return Acceptor(lambda: FACTS, lambda: Vote(MINE, (40, 44), 1, 3), promise_s=promise_s)


def test_a_promise_holds_commits_until_there_is_a_result() -> None:
    """Of that election or a later one; without one the promise is void when commits go on."""
    for result, kept in ((LATER, True), (FIRST, True), (Proposal(4, 1, 1), False)):
        acceptor = acceptor_of(PATIENCE_S if kept else 0.0)
        assert isinstance(acceptor.answer(Propose(proposal=FIRST)), Promise)
        acceptor.ended(result)
        with acceptor.committing():
            pass
        answer = acceptor.answer(Accept(proposal=FIRST, value=MINE))
        assert isinstance(answer, AcceptReply if kept else Reject)
        assert acceptor.given == ((FIRST, MINE) if kept else None)


@pytest.mark.parametrize("counter", [1, (1 << 32) - 1])
def test_a_promise_that_nobody_has_used_in_time_is_void(counter: int) -> None:
    acceptor, proposal = acceptor_of(promise_s=0.0), FIRST._replace(counter=counter)
    acceptor.answer(Propose(proposal=proposal))
    with acceptor.committing():
        pass
    refused = acceptor.answer(Accept(proposal=proposal, value=MINE))
    assert isinstance(refused, Reject)
    assert refused.proposal > proposal
    assert isinstance(acceptor.answer(Propose(proposal=LATER)), Promise)


def test_a_node_without_a_vote_says_nothing() -> None:
    acceptor = Acceptor(lambda: FACTS, lambda: None)
    assert acceptor.answer(Propose(proposal=FIRST)) is None


class Members:
    """A member of ours in a group of three.

    Arguments:
        n2, n3: how the others vote; one that is None is down.
        priority: of this node.
        term: of its log.
    """

    def __init__(self, n2: Answer | None, n3: Answer | None, priority: int = 1, term: int | None = None) -> None:
        nodes = [NodeDouble(f"n{port - 7000}", port, operations()[:9]) for port in OTHERS]
        answers = {port: answer for port, answer in zip(OTHERS, (n2, n3), strict=True) if answer is not None}
        self.network = Voters(GroupDouble(nodes, ""), answers)
        self.turns: list[str] = []
        config = JoinConfig("copy1", LISTEN, (), "ELECTABLE", priority)
        vote = Vote(MINE, (40, 44), priority, MINE.id, term)
        self.voter = Voter(config, self.network, lambda: FACTS, lambda: vote, lambda: self.turns.append("turn"))
        places = [*((f"n{port - 7000}", ("localhost", port)) for port in OTHERS), ("copy1", LISTEN)]
        records = [
            GroupNode(name, at, 3, 1, True, False, *place, -1, 0, 1, "18.3.20")
            for at, (name, place) in enumerate(places, start=1)
        ]
        self.members = Membership(RepGroup("WIREGRP", 11, 22, 3, 1, 3, "7.5.0"), tuple(records))

    def elect(self) -> str:
        """Whom they elect."""
        self.voter.elect(self.members, self.members.nodes[-1])
        assert self.voter.elected is not None
        return self.voter.elected.value.node


@pytest.mark.parametrize(
    ("n2", "n3", "winner"),
    [
        (voting((40, 43)), voting((39, 90), port=7003), "copy1"),
        (voting((40, 45)), voting((40, 44), port=7003), "n2"),
        (voting((41, 1)), None, "n2"),
        (None, voting((40, 44), port=7003, priority=2), "n3"),
        (voting((40, 44)), voting((40, 44), port=7003, priority=0), "copy1"),
        (voting((RUNNING_MASTER, 0), priority=0), voting((90, 90), port=7003), "n2"),
    ],
)
def test_the_latest_log_is_elected(n2: Answer | None, n3: Answer | None, winner: str) -> None:
    """Then priority and address decide. The winner hears of it first, and then the others."""
    members = Members(n2, n3)
    assert members.elect() == winner
    told = [port for port, result in members.network.results if result.value.node == winner]
    assert (set(told), members.voter.is_master) == (set(OTHERS), winner == "copy1")
    assert winner == "copy1" or told[0] == int(winner[1:]) + 7000


@pytest.mark.parametrize(
    ("n2", "n3", "winner"),
    [
        (voting((39, 30), term=TERM + 1), voting((90, 90), port=7003, term=TERM - 1), "n2"),
        (voting((90, 43), term=TERM), voting((39, 45), port=7003, term=TERM), "n3"),
        (voting((90, 43), term=TERM), None, "copy1"),
        (voting((39, 30), term=TERM + 1), voting((41, 1), port=7003), "n3"),
        (voting((39, 30), term=PRE_TERM), voting((39, 31), port=7003, term=TERM + 1), "copy1"),
        (voting((RUNNING_MASTER, 0)), voting((90, 90), port=7003, term=TERM + 1), "n2"),
        (voting((RUNNING_MASTER, RUNNING_MASTER), priority=0, term=LAST_TERM), None, "n2"),
    ],
)
def test_the_latest_term_is_elected(n2: Answer | None, n3: Answer | None, winner: str) -> None:
    """Then the last VLSN; the DTVLSN decides only while a log has no terms."""
    assert Members(n2, n3, term=TERM).elect() == winner


@pytest.mark.parametrize("name", ["009-Acceptor-n2", "010-Acceptor-n3", "014-Acceptor-n1"])
def test_it_promises_as_a_replica_of_je_25(name: str) -> None:
    """With the term of its log."""
    recording, theirs = recorded(HOME / "elections-25" / f"{name}.jsonl")
    promise = theirs[-1].what
    assert isinstance(promise, tuple)
    assert isinstance(promise[1], Promise)
    said = promise[1]
    vote = Vote(said.suggestion, (said.major_ranking or 0, said.minor_ranking), said.priority, said.node_id, said.term)
    facts = FACTS._replace(node=said.suggestion.node, node_id=said.node_id, log_version=26)
    acceptor = Acceptor(lambda: facts, lambda: vote)
    mine = replayed(lambda: acceptor.services, recording)
    assert [played.what for played in mine] == [played.what for played in theirs]


def test_no_term_begins_before_that_of_the_log() -> None:
    """A proposal of a late clock is refused, and a node whose own clock is late proposes a later time."""
    acceptor = Acceptor(lambda: FACTS, lambda: Vote(MINE, (40, 44), 1, 3, TERM))
    refused = acceptor.answer(Propose(proposal=Proposal(TERM, 5, 1)))
    assert isinstance(refused, Reject)
    assert refused.proposal > Proposal(TERM, 5, 1)
    assert isinstance(acceptor.answer(Propose(proposal=Proposal(TERM + 1, 5, 1))), Promise)
    assert new_proposal(LAST_TERM).time_ms == LAST_TERM + 1


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (Members(None, None), "too few members promise a vote"),
        (Members(voting((40, 44), accepts=False), None), "too few members accept"),
        (Members(voting((40, 45), priority=0), voting((40, 44), port=7003)), "not to be elected"),
        (Members(voting((40, 43)), None, priority=0), "not to be elected"),
    ],
)
def test_nobody_is_elected_where_commits_might_be_lost(members: Members, text: str) -> None:
    with pytest.raises(DisconnectedError, match=text):
        members.elect()
    assert (members.network.results, members.voter.elected) == ([], None)


@pytest.mark.parametrize(
    ("n2", "text"), [(None, ""), (voting((40, 43), accepts=False), "accept"), (voting((40, 45)), "n2 is later")]
)
def test_one_that_shall_lead_unelected(n2: Answer | None, text: str) -> None:
    """Where too few answer; of those that do nobody has a later log."""
    members = Members(n2, None)
    more = GroupNode("n4", 9, 3, 1, True, False, "localhost", 7004, -1, 0, 1, "18.3.20")
    if "later" in text:
        members.members = Membership(members.members.group, (*members.members.nodes, more))
    if not text:
        members.voter.elect(members.members, members.members.nodes[2], unelected=True)
        assert members.voter.is_master
        return
    with pytest.raises(DisconnectedError, match=text):
        members.voter.elect(members.members, members.members.nodes[2], unelected=True)
    assert members.voter.elected is None


def test_the_winner_is_given_time_and_only_the_last_result_counts() -> None:
    members = Members(voting((40, 45)), None)
    assert members.elect() == "n2"
    with pytest.raises(DisconnectedError, match="n2 was elected, and does not lead yet"):
        members.elect()
    members.voter.has_met_master()
    assert members.elect() == "n2"
    known = members.voter.elected
    members.voter.heard(Result(proposal=FIRST, value=MINE))
    assert (members.voter.elected, members.voter.is_master) == (known, False)


def test_who_has_accepted_another_node_follows_the_old_master_no_more() -> None:
    """Until that is elected anew."""
    members = Members(None, None)
    voter, old = members.voter, Suggestion("localhost", 7002, "n2", 2)
    voter.learned(MasterAnswer(proposal=FIRST, value=old))
    voter.check("n2")
    voter.acceptor.answer(Propose(proposal=LATER))
    voter.acceptor.answer(Accept(proposal=LATER, value=Suggestion("localhost", 7003, "n3", 3)))
    assert members.turns == ["turn"]
    with pytest.raises(DisconnectedError, match="not known to be the master any more"):
        voter.check("n2")
    voter.heard(Result(proposal=LATER._replace(time_ms=LATER.time_ms + 1), value=old))
    voter.check("n2")


@pytest.mark.parametrize(("node_type", "acknowledges"), [("ELECTABLE", True), ("SECONDARY", False)])
def test_it_acknowledges_each_commit_that_wants_it(node_type: str, acknowledges: bool) -> None:
    log = operations()
    group = group_of(log, node_type=node_type, needs_ack=acknowledges)
    with joined(group, MemoryStorage(), node_type=node_type) as node:
        assert node.await_vlsn(log[-1].vlsn, PATIENCE_S), node.failure or node.problem
    wanted = [end.id for entry in log if isinstance(end := entry.record(), TxnEnd) and entry.type_number == COMMIT]
    said = [
        txn_id
        for message in group.streams[0].messages
        if isinstance(message, f.Ack | f.GroupAck)
        for txn_id in (message.txn_ids if isinstance(message, f.GroupAck) else (message.txn_id,))
    ]
    assert said == (wanted if acknowledges else [])


def test_it_votes_before_its_own_log_says_that_it_is_a_member() -> None:
    """Those that made it one may be gone when their stream ends; it cannot be elected then."""
    log = operations()
    group, told = group_of(log, node_type="ELECTABLE"), Proposal(1 << 50, 1, 1)
    (listen,) = free_ports(1)
    with joined(group, MemoryStorage(), node_type="ELECTABLE", priority=5, answers=True, listen=listen) as node:
        assert node.await_vlsn(log[-1].vlsn, PATIENCE_S), node.failure or node.problem
        said = ask(SocketNetwork(), listen, ACCEPTOR, node.facts().group, Propose(proposal=told), PATIENCE_S)
    assert said is not None
    promise = said[1]
    assert isinstance(promise, Promise)
    ends = [end.dtvlsn for entry in log if isinstance(end := entry.record(), TxnEnd)]
    assert (promise.major_ranking, promise.minor_ranking) == (max(ends), log[-1].vlsn)
    assert (promise.priority, promise.suggestion.node) == (0, "copy1")


def test_promises_outlive_the_member() -> None:
    """In JE's own file. A promise that was not accepted is void after a restart, an acceptance still binds."""
    storage = MemoryStorage()
    kept = PromiseFile(storage)
    assert kept.read() == NO_PROMISES
    first = Acceptor(lambda: FACTS, lambda: Vote(MINE, (40, 44), 1, 3), keep=kept.write)
    first.answer(Propose(proposal=FIRST))
    second = Acceptor(lambda: FACTS, lambda: Vote(MINE, (40, 44), 1, 3), keep=kept.write)
    second.restore(kept.read())
    assert isinstance(second.answer(Accept(proposal=FIRST, value=MINE)), Reject)
    assert isinstance(second.answer(Propose(proposal=FIRST)), Reject)
    for message in (Propose(proposal=LATER), Accept(proposal=LATER, value=MINE)):
        second.answer(message)
    third = Acceptor(lambda: FACTS, lambda: Vote(MINE, (40, 44), 1, 3), keep=kept.write)
    third.restore(kept.read())
    assert third.given == (LATER, MINE)
    assert isinstance(third.answer(Propose(proposal=FIRST)), Reject)
    assert isinstance(third.answer(Accept(proposal=LATER, value=MINE)), AcceptReply)


@pytest.mark.parametrize(
    ("text", "promised"),
    [
        ('{"promisedProposal":"00000179cf2b6c00179cf2b6c00(MIN_TERM)"}', Proposal(1_622_678_400_000, 0, 0)),
        ('{"promisedProposal":"000001a222f3678972f820cccc6072f51ae55a6fa7d65a0800000001"}',
         Proposal(0x1A222F36789, 0x72F820CCCC6072F51AE55A6FA7D65A08, 1)),
        ('{"promisedProposal":17}', None),
        ('{"promisedProposal":null,"acceptedValue":"n2","acceptedProposal":"000001a2"}', None),
        ("[]", None),
        ("{", None),
        ("[" * 50_000, None),
    ],
)  # fmt: skip
def test_the_file_of_promises_as_je_writes_it(text: str, promised: Proposal | None) -> None:
    storage = MemoryStorage()
    write_synced(storage, PROMISES_FILE, text.encode())
    assert PromiseFile(storage).read() == Promises(promised, None)
