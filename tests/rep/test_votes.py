"""Votes: what a voter says, keeps and refuses; without a network."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DamageError, FormatError, StorageError, UnsupportedError
from engine.format.bytecursor import ByteWriter
from engine.rep.election import messages
from engine.rep.election.ballot import FILE, Ballot
from engine.rep.election.elections import Elections
from engine.rep.election.links import VoterMessage
from engine.rep.election.messages import FrameKind, LeaderBeat, Said, Summons, Vote, VoteRequest, VoterJoin
from engine.rep.election.rank import Rank, VoterState, may_stand
from engine.rep.frames import Frame, address_text
from engine.rep.handshake import NO_UUID, Identity
from engine.rep.node import RepNode
from engine.rep.settings import ElectionConfig, NodeConfig
from engine.rep.terms import Terms, TermStart
from engine.rep.voting import Position
from engine.storage.base import Storage
from engine.storage.crash import CrashMode, CrashStorage
from engine.storage.memory import MemoryStorage
from tests.rep.nodes import SECRET, config_of
from tests.support.faulty_storage import Effect, FaultyStorage, Rule

NUMBERS = st.integers(0, 1 << 40)
RANKS = st.builds(Rank, NUMBERS, NUMBERS, st.integers(0, (1 << 31) - 1))
SAID = st.one_of(
    st.builds(VoterState, NUMBERS, st.booleans(), st.none() | RANKS),
    st.builds(VoteRequest, NUMBERS, st.booleans(), RANKS),
    *(st.builds(made, NUMBERS) for made in (Vote, LeaderBeat, messages.VoterAlive, Summons)),
)


@given(SAID)
def test_messages_come_back(said: Said) -> None:
    frame = messages.encode(said)
    assert messages.decode(frame) == said
    assert type(messages.decode(frame)) is type(said)
    for cut in range(len(frame.payload)):
        with pytest.raises(FormatError):
            messages.decode(Frame(frame.type, frame.payload[:cut]))


@given(st.integers(0, 255), st.binary(max_size=60))
def test_hostile_messages_are_refused(kind: int, payload: bytes) -> None:
    """Whatever the bytes, there is a message of numbers within their bounds, or a FormatError."""
    for decode in (messages.decode, lambda frame: messages.decode_join(frame.payload)):
        try:
            said = decode(Frame(kind, payload))
        except FormatError:
            continue
        assert 0 < said.voters <= 50 if isinstance(said, VoterJoin) else 0 <= said.term < 1 << 48


@pytest.mark.parametrize(
    "frame",
    [
        Frame(FrameKind.BEAT, ByteWriter().i64(1 << 48).getvalue()),
        Frame(FrameKind.VOTE, b"\xff" * 8),
        Frame(99, bytes(8)),
        Frame(FrameKind.JOIN, bytes(8)),
        messages.encode(VoteRequest(1, False, Rank(1, 2, 3)))._replace(type=FrameKind.BEAT),
    ],
)  # fmt: skip
def test_impossible_messages(frame: Frame) -> None:
    with pytest.raises(FormatError):
        messages.decode(frame)


@pytest.mark.parametrize("join", [VoterJoin(0, "n"), VoterJoin(51, "n"), VoterJoin(-1, "n"), VoterJoin(3, "n\x1b[2J")])
def test_impossible_greetings(join: VoterJoin) -> None:
    with pytest.raises(FormatError, match="not possible"):
        messages.decode_join(messages.encode_join(join))


def standings(**ranks: tuple[int, int, int] | None) -> dict[str, VoterState]:
    return {name: VoterState(4, False, Rank(*rank) if rank else None) for name, rank in ranks.items()}


@pytest.mark.parametrize(
    ("mine", "others", "patient", "may"),
    [
        ((5, 120, 1), standings(n3=(5, 118, 1)), True, True),
        ((5, 118, 1), standings(n3=(5, 120, 1)), False, False),  # It would have one vote, its own.
        ((5, 118, 9), standings(n3=(5, 120, 1)), False, False),  # VLSN before priority.
        ((6, 50, 1), standings(n3=(5, 60, 1)), True, True),  # The term of the log before VLSN.
        ((5, 120, 0), standings(n3=(5, 118, 1)), False, False),  # Priority 0 never stands,
        ((5, 120, 1), standings(n3=(5, 120, 0)), True, True),  # and nobody waits for it,
        ((5, 120, 1), standings(n3=(5, 121, 0)), False, False),  # but it keeps its vote.
        ((5, 120, 1), {}, False, False),
        ((5, 120, 1), standings(n3=None), False, False),
        (None, standings(n3=(5, 1, 1)), False, False),
        ((5, 120, 1), standings(n1=(5, 120, 1)), True, False),  # Equal: the first name,
        ((5, 120, 1), standings(n1=(5, 120, 1)), False, True),  # unless it does not come forward.
        ((5, 120, 1), standings(n1=(5, 130, 1), n3=(5, 1, 1)), True, False),
        ((5, 120, 1), standings(n1=(5, 130, 1), n3=(5, 1, 1)), False, True),
        ((5, 120, 1), {"n3": VoterState(4, True, Rank(5, 1, 1))}, False, False),  # It has a master.
        ((0, 0, 1), standings(n3=(0, 0, 1)), False, False),  # A new group: everybody has to be there.
        ((0, 0, 1), standings(n3=(0, 0, 1), n4=(0, 0, 1)), True, True),
        ((0, 0, 1), standings(n3=(0, 0, 1), n4=(0, 5, 1)), False, False),
    ],
)
def test_who_may_stand(
    mine: tuple[int, int, int] | None, others: dict[str, VoterState], patient: bool, may: bool
) -> None:
    assert may_stand("n2", Rank(*mine) if mine else None, others, 3, patient=patient) is may


def test_a_ballot_at_every_crash() -> None:
    """When ``vote`` has returned the vote is there, whatever survives; before, it is there or not, never torn."""
    for stop_at in range(1, 30):
        storage, done = CrashStorage(stop_at=stop_at), 0
        try:
            ballot = Ballot(storage)
            for term in (3, 7):
                ballot.vote(term)
                ballot.note_terms(Terms().begun(term, 10 * term))
                done = term
        except StorageError:
            pass
        for mode in CrashMode:
            found = Ballot(storage.image(mode, stop_at))
            assert found.voted >= done, (stop_at, mode)
            assert found.terms.term >= done, (stop_at, mode)
        if not storage.crashed:
            return
    pytest.fail("the list of operations does not end")


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b'{"voted":3}', b"[" * 70_000, b'{"voted":1,"term":0,"starts":[],"check":"0"}']
)
def test_a_damaged_ballot_stops_the_node(data: bytes) -> None:
    storage = MemoryStorage({FILE: data})
    with pytest.raises(DamageError, match="could vote twice") as caught:
        Ballot(storage)
    assert FILE in str(caught.value)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pysyncobj", None)
    with pytest.raises(UnsupportedError, match="pysyncobj") as caught:
        RepNode(MemoryStorage(), config_of(0, [("h", 1), ("h", 2)], election=ElectionConfig()))
    assert "jetool[elect]" in str(caught.value.hint)


@dataclass
class Booth:
    """A voter n1 of five, whose connections are two lists, and a node that notes what it is told."""

    storage: Storage = field(default_factory=MemoryStorage)
    last: int = 100
    priority: int = 1
    events: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        peers = tuple((f"n{number}", number) for number in range(2, 6))
        config = NodeConfig("n1", ("n1", 1), peers, SECRET)
        self.elections = Elections(self, config, ElectionConfig(self.priority, 1000), SECRET, self.storage)
        for address, link in self.elections._links.links.items():
            link.name = address[0]
            link.send = lambda said, name=address[0]: self.events.append(f"{name}: {said}")  # type: ignore[method-assign, misc]

    def hear(self, name: str, said: Said) -> list[str]:
        """What happens when somebody says something."""
        self.events.clear()
        self.elections._hear(VoterMessage(name, said))
        self.elections._tell_node(0)
        return list(self.events)

    def identity(self) -> Identity:
        return Identity("", NO_UUID, "n1", "n1", 1)

    def position(self) -> Position:
        return Position(self.last, self.last, True)

    def leave_masters_before(self, term: int) -> None:
        self.events.append(f"leave {term}")

    def elected(self, term: int) -> None:
        self.events.append(f"elected {term}")

    def deposed(self) -> None:
        self.events.append("deposed")

    def fail(self, error: Exception) -> None:
        raise error


def asks(term: int, vlsn: int = 100, *, summoned: bool = False, priority: int = 1) -> VoteRequest:
    return VoteRequest(term, summoned, Rank(0, vlsn, priority))


def test_a_vote_is_given_once_in_a_term() -> None:
    booth = Booth()
    assert "n2: Vote(term=5)" in booth.hear("n2", asks(5))
    assert not any("Vote" in event for event in booth.hear("n3", asks(5)))
    assert not any("Vote" in event for event in booth.hear("n2", asks(5)))
    assert "n3: Vote(term=6)" in booth.hear("n3", asks(6))


def test_a_vote_is_not_given_again_after_a_restart() -> None:
    """The library remembers nothing; the ballot does."""
    storage = MemoryStorage()
    Booth(storage).hear("n2", asks(5))
    again = Booth(storage)
    assert again.elections.term == 5
    for name in ("n3", "n2"):
        assert not any("Vote" in event for event in again.hear(name, asks(5, 999)))
    assert not any("Vote" in event for event in again.hear("n3", asks(4, 999)))
    assert "n3: Vote(term=6)" in again.hear("n3", asks(6))


def test_a_vote_for_oneself_counts_as_one() -> None:
    storage = MemoryStorage()
    booth = Booth(storage)
    booth.elections.request("n2:2", 5)
    assert booth.events[0] == "leave 5"
    assert booth.events[1].startswith("n2: VoteRequest(term=5, summoned=False, rank=Rank(term=0, vlsn=100")
    booth.elections.request("n3:3", 5)
    assert len(booth.events) == 3
    again = Booth(storage)
    again.elections.request("n2:2", 5)
    assert again.events == []
    assert not any("Vote" in event for event in again.hear("n3", asks(5)))


def test_masters_are_left_before_the_vote_and_the_vote_is_durable_before_it_is_sent() -> None:
    order: list[str] = []
    booth = Booth(CrashStorage(listener=lambda kind, path: order.append(kind)))
    booth.events = order
    booth.elections._hear(VoterMessage("n2", asks(5)))
    operations = ["create", "truncate", "write", "sync", "rename", "sync_directory"]
    assert order == ["leave 5", *operations, "n2: Vote(term=5)"]


def test_what_was_acknowledged_on_the_way_counts() -> None:
    """The rank is compared again when no acknowledgement can leave any more."""
    booth = Booth()
    leave = booth.leave_masters_before

    def leave_later(term: int) -> None:
        leave(term)
        booth.last = 101

    booth.leave_masters_before = leave_later  # type: ignore[method-assign]
    assert booth.hear("n2", asks(5)) == ["leave 5", "leave 5"]
    assert booth.elections.term == 5


def test_a_node_that_is_ranked_higher_keeps_its_vote() -> None:
    booth = Booth()
    assert booth.hear("n2", asks(5, 99, priority=9)) == ["leave 5"]
    assert booth.hear("n2", asks(6, 100, priority=0)) == ["leave 6"]
    assert "n2: Vote(term=7)" in booth.hear("n2", asks(7, 100))


def test_priority_does_not_bind_whom_an_operator_wants() -> None:
    booth = Booth(priority=5)
    assert booth.hear("n2", asks(5, 100, priority=4)) == ["leave 5"]
    assert "n2: Vote(term=6)" in booth.hear("n2", asks(6, 100, priority=4, summoned=True))
    assert booth.hear("n2", asks(7, 99, priority=9, summoned=True)) == ["leave 7"]


def test_a_vote_that_cannot_be_noted_is_not_sent() -> None:
    rules = [Rule("sync", Effect.FAIL, nth=0, path="*ballot*")]
    booth = Booth(FaultyStorage(MemoryStorage(), rules))
    with pytest.raises(StorageError):
        booth.hear("n2", asks(5))
    assert not any("Vote" in event for event in booth.events)


def test_who_has_a_master_hears_no_other_candidate_unless_the_master_sent_it() -> None:
    booth = Booth()
    booth.elections._hear(VoterMessage("n2", LeaderBeat(5)))
    booth.elections._tell_node(0)
    assert booth.elections.leader == ("n2", 2)
    assert booth.hear("n3", asks(6, 999)) == []
    assert booth.elections.term == 5
    assert "n3: Vote(term=6)" in booth.hear("n3", asks(6, 999, summoned=True))


def test_a_beat_of_an_earlier_term_is_not_answered() -> None:
    booth = Booth()
    assert "n2: VoterAlive(term=6)" in booth.hear("n2", LeaderBeat(6))
    assert booth.hear("n3", LeaderBeat(5)) == []
    assert booth.elections.leader == ("n2", 2)


def test_a_higher_term_ends_the_leader() -> None:
    """From whoever knows it; and five voters need three votes, of three voters."""
    booth = elected(Booth())
    assert booth.hear("n5", VoterState(9, False, None)) == ["leave 9", "deposed"]
    assert (booth.elections.term, booth.elections.leader) == (9, None)


def elected(booth: Booth) -> Booth:
    raft = booth.elections._raft
    raft._library._SyncObj__raftElectionDeadline = 0
    raft.connected("n2:2", True)
    raft.tick()
    term = booth.elections._raft.term
    assert sum("Request" in event for event in booth.events) == 4
    for _ in range(3):
        assert "elected" not in " ".join(booth.hear("n2", Vote(term)))
    assert f"elected {term}" in booth.hear("n3", Vote(term))
    assert booth.elections.begin_term(101) == Terms(term, (TermStart(term, 101),))
    return booth


def test_a_leader_does_not_give_way_to_a_lower_rank_even_when_summoned() -> None:
    booth = elected(Booth())
    assert booth.hear("n3", asks(7, 99, summoned=True)) == []
    assert "deposed" in booth.hear("n3", asks(8, 100, summoned=True))


def test_strangers_and_summons_of_others_are_not_heard() -> None:
    booth = Booth()
    assert booth.hear("n9", asks(5, 999)) == []
    booth.hear("n2", LeaderBeat(5))
    booth.hear("n3", Summons(5))
    assert booth.elections._summoned_until == 0
    booth.hear("n2", Summons(4))
    assert booth.elections._summoned_until == 0
    booth.hear("n2", Summons(5))
    assert booth.elections._summoned_until > 0
    assert address_text(("n2", 2)) == "n2:2"
