"""The elections of one node: one thread that hears the others, ticks Raft, and tells the node what it is.

In this order, and that is what makes it safe:

1. A vote, for oneself too: leave the masters of earlier terms; only then compare ranks; note the vote durably; send it.
2. A term as master: its beginning is noted durably; then its Matchpoint is logged; then commits begin.
3. A term as replica: the master's terms are noted durably when the log is the beginning of the master's; only then
   anything is acknowledged.

A higher term is taken from whoever knows it, and ends what this node was in its own. A node that has a master does not
hear other candidates, unless the master itself has sent them (``hand_over``). A master whose log cannot be written any
more ends its own term.

Example, n1 hands over to n3: SUMMONS 4 -> n3 drops its stream, stands in term 5 (summoned) -> n1 closes its gate, finds
n3 not below itself, votes; n3 leads term 5, n1 and n2 follow.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Final

from engine.errors import JetoolError, NotFoundError, RefusedError, plural
from engine.rep.election.ballot import Ballot
from engine.rep.election.links import Link, Links, VoterMessage
from engine.rep.election.messages import LeaderBeat, Summons, Vote, VoteRequest
from engine.rep.election.messages import VoterAlive as BeatHeard
from engine.rep.election.raft import BEATS, Raft
from engine.rep.election.rank import PATIENCE, Rank, VoterState, may_stand, may_win, ranks_below
from engine.rep.frames import Channel, address_text
from engine.rep.handshake import Answerer, Hello
from engine.rep.settings import Address, ElectionConfig, NodeConfig
from engine.rep.terms import Terms
from engine.rep.voting import Voter
from engine.storage.base import Storage

# Silence, in election timeouts, after which a connection is given up.
_SILENCE: Final = 3
_MOST_IDLE_S: Final = 0.2


class Elections:
    """Holds ``engine.rep.voting.Election`` for one node.

    Arguments:
        node: is told what it is.
        config: its address, peers and pauses.
        election: priority and timeout.
        secret: shared by all nodes, checked.
        storage: of the environment; the directory exists.

    Raises:
        DamageError: the record of its votes is damaged. UnsupportedError: pysyncobj is not installed.
    """

    def __init__(
        self, node: Voter, config: NodeConfig, election: ElectionConfig, secret: bytes, storage: Storage
    ) -> None:
        self._node = node
        self._name = config.name
        self._timeout_s = election.timeout_s
        self.priority = election.priority
        self._ballot = Ballot(storage)
        # The same list of all nodes may be given to each of them.
        others = tuple(dict.fromkeys(peer for peer in config.peers if peer != config.listen))
        self._links = Links(
            node.identity, others, secret, min(config.retry_s, self._timeout_s), _SILENCE * self._timeout_s
        )
        self._by_peer = {address_text(address): link for address, link in self._links.links.items()}
        self._raft = Raft(config.name, list(self._by_peer), self._timeout_s, self)
        # The library has forgotten the term of an earlier run; the ballot has not.
        self._raft.hear_term(self._ballot.voted)
        self._standings: dict[Address, tuple[float, VoterState]] = {}
        self._up: set[str] = set()
        self._stood = 0
        self._summoned_until = self._beat_at = self._led_at = self._told_at = 0.0
        self._changed = threading.Condition()
        self._led_term = 0
        self.term = self._raft.term
        self.leader: Address | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"{config.name} votes", daemon=True)

    # What the node asks; any thread.

    @property
    def voters(self) -> int:
        """How many nodes vote."""
        return self._links.voters

    def start(self) -> None:
        """Begin to vote."""
        # A vote of an earlier run still binds.
        self._node.leave_masters_before(self.term)
        self._led_at = time.monotonic()
        self._links.start()
        self._thread.start()

    def stop(self) -> None:
        """Vote no more."""
        self._stopping = True
        self._links.stop()
        # The node may stop its election from this very thread, by ``fail``.
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def problem(self) -> JetoolError:
        """Why there is no master."""
        links = self._links.links.values()
        reached = sorted(link.name for link in links if link.up and link.name is not None)
        lost = next((link.problem for link in links if link.problem is not None), None)
        needed = self.voters // 2 + 1
        found = ", ".join(["this one", *reached])
        if len(reached) + 1 >= needed:
            return RefusedError(
                "no master is elected yet", found=f"{found} are there, {plural(needed, 'vote is', 'votes are')} needed"
            )
        return RefusedError(
            "no master is elected",
            expected=f"{needed} of {plural(self.voters, 'node')}",
            found=found + (f" ({lost})" if lost is not None else ""),
        )

    def is_voter(self, node: str) -> bool:
        """Whether a node of this name votes."""
        return self._links.named(node) is not None

    def answer(self, answerer: Answerer, hello: Hello, channel: Channel) -> None:
        """Hear another voter until it is gone, or turn it away; errors as ``Links.answer``."""
        self._links.answer(answerer, hello, channel)

    def begin_term(self, vlsn: int) -> Terms | None:
        """Note durably that this node's term begins at a VLSN; None when it has just lost it."""
        term = self._led_term
        if not term:
            return None
        terms = self._ballot.terms.begun(term, vlsn)
        # Durable before the Matchpoint is logged: no entry of the term may be taken for one of an earlier.
        self._ballot.note_terms(terms)
        return terms

    def adopt(self, terms: Terms) -> None:
        """The log is now the beginning of this master's."""
        self._ballot.note_terms(terms)

    def hand_over(self, node: str, timeout_s: float) -> None:
        """Let another node stand, as the master.

        Raises:
            NotFoundError: it is no voter. RefusedError: it was not elected within the timeout.
        """
        link = self._links.named(node)
        if link is None:
            raise NotFoundError(f"{node!r} does not vote", hint="jetool node status lists the nodes")
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            # Again and again: it may have become a member just now, or the message may be lost.
            self._links.heard.put(lambda: self._summon(link))
            with self._changed:
                if self._changed.wait_for(lambda: self.leader == link.address, min(left, self._timeout_s)):
                    return
        raise RefusedError(
            f"{node!r} was not elected within {timeout_s:g} s",
            consequence="its priority is 0, or it could not win the votes of a majority",
            hint="jetool node status says who is master",
        )

    def stand(self, timeout_s: float) -> None:
        """Stand now, whoever is master.

        Raises:
            RefusedError: not elected within the timeout.
        """
        self._links.heard.put(lambda: self._stand_now(timeout_s))
        with self._changed:
            if not self._changed.wait_for(lambda: self._led_term > 0, timeout_s):
                raise RefusedError(
                    f"{self._name!r} was not elected within {timeout_s:g} s",
                    consequence="a node whose log is newer does not vote for it, or a majority cannot be reached",
                    hint="compare last_txn_end of all nodes: jetool node status",
                )

    # The thread.

    def _run(self) -> None:
        try:
            while not self._stopping:
                try:
                    heard = self._links.heard.get(timeout=min(self._timeout_s / BEATS / 2, _MOST_IDLE_S))
                except queue.Empty:
                    heard = None
                if isinstance(heard, VoterMessage):
                    self._hear(heard)
                elif heard is not None:
                    heard()
                self._advance(time.monotonic())
        except Exception as error:  # A bug too: a node that does not vote must not go on as master.
            self._node.fail(error)
        finally:
            self._raft.close()

    def _advance(self, now: float) -> None:
        """What time brings."""
        refusal = self._links.refusal()
        if refusal is not None:
            raise refusal
        self._watch_links(now)
        if now - self._told_at >= self._timeout_s / BEATS:
            self._told_at = now
            said = VoterState(self._raft.term, self._is_led(now), self._rank())
            for link in self._by_peer.values():
                link.send(said)
        # Its log cannot be written, or is being changed: a higher term ends its own.
        if self._raft.leads and self._rank() is None:
            self._raft.hear_term(self._raft.term + 1)
        # The library stands when it is ticked and its time has come; who may not stand is not ticked.
        if self._raft.leads or self._may_stand(now):
            self._raft.tick()
        self._tell_node(now)

    def _watch_links(self, now: float) -> None:
        for peer, link in self._by_peer.items():
            if link.up != (peer in self._up):
                self._up ^= {peer}
                self._raft.connected(peer, peer in self._up)
                # Until it speaks, take it for one that has a master: silence must not help anybody to stand.
                self._standings[link.address] = (now, VoterState(0, True, None))
            elif link.up and now - self._standings[link.address][0] > _SILENCE * self._timeout_s:
                link.call_anew()

    def _may_stand(self, now: float) -> bool:
        if self._is_led(now):
            rank = self._rank()
            return now < self._summoned_until and rank is not None and rank.priority > 0
        patient = now - self._led_at < PATIENCE * self._timeout_s
        return may_stand(self._name, self._rank(), self._heard_lately(now), self.voters, patient=patient)

    def _heard_lately(self, now: float) -> dict[str, VoterState]:
        return {
            link.name: self._standings[link.address][1]
            for peer, link in self._by_peer.items()
            if link.name is not None and peer in self._up and now - self._standings[link.address][0] < self._timeout_s
        }

    def _tell_node(self, now: float) -> None:
        """Note what has changed, and tell the node."""
        term, led_term = self._raft.term, self._raft.term if self._raft.leads else 0
        leader = None
        if self._is_led(now):
            self._led_at = now
            leader = self._by_peer[self._raft.leader].address if self._raft.leader is not None else None
        if (term, led_term, leader) == (self.term, self._led_term, self.leader):
            return
        # Before the node hears anything else: nothing of an old master may count in the new term.
        if term > self.term:
            self._node.leave_masters_before(term)
        before = self._led_term
        with self._changed:
            self.term, self._led_term, self.leader = term, led_term, leader
            self._changed.notify_all()
        if led_term:
            self._node.elected(led_term)
        elif before:
            self._node.deposed()

    def _is_led(self, now: float) -> bool:
        return self._raft.leads or (self._raft.leader is not None and now - self._beat_at < self._timeout_s)

    def _rank(self) -> Rank | None:
        position = self._node.position()
        if position is None:
            return None
        term = self._ballot.terms.at(position.last_vlsn)
        return Rank(term, position.last_txn_end, self.priority if position.may_lead else 0)

    # What the others say.

    def _hear(self, heard: VoterMessage) -> None:
        link, said, now = self._links.named(heard.name), heard.said, time.monotonic()
        if link is None:
            return
        peer = address_text(link.address)
        if isinstance(said, VoterState):
            self._standings[link.address] = now, said
            self._raft.hear_term(said.term)
        elif isinstance(said, VoteRequest):
            self._hear_request(peer, said, now)
        elif isinstance(said, Vote):
            self._raft.hear_vote(peer, said.term)
        elif isinstance(said, LeaderBeat):
            self._raft.hear_beat(peer, said.term)
            # The library has judged it: a beat of an earlier term keeps nobody in place.
            if (self._raft.term, self._raft.leader) == (said.term, peer):
                self._beat_at = now
        elif isinstance(said, BeatHeard):
            self._raft.hear_answer(peer, said.term)
        elif (self._raft.term, self._raft.leader) == (said.term, peer):
            # Only from the master of this very term: an old summons must not disturb its successor.
            self._hear_summons(peer, self._timeout_s)

    def _hear_request(self, peer: str, said: VoteRequest, now: float) -> None:
        # A node that was cut off comes back with a high term; the master that works is not given up for it.
        if self._is_led(now) and not said.summoned:
            return
        newer = self._may_vote_for(said)
        if newer and said.term >= self._raft.term and said.term > self._ballot.voted:
            # Before the ranks are compared for good: afterwards nothing is acknowledged to an older master.
            self._node.leave_masters_before(said.term)
            newer = self._may_vote_for(said)  # What was acknowledged meanwhile counts.
        # A leader that refuses must not hear the request at all: the higher term alone would depose it.
        if newer or not self._raft.leads:
            self._raft.hear_request(peer, said.term, newer=newer)

    def _may_vote_for(self, said: VoteRequest) -> bool:
        mine = self._rank()
        return mine is not None and ranks_below(mine, said.rank, summoned=said.summoned)

    def _hear_summons(self, leader: str | None, timeout_s: float) -> None:
        self._summoned_until = time.monotonic() + timeout_s
        if leader is not None:
            self._raft.hear_summons(leader, self._raft.term)

    def _stand_now(self, timeout_s: float) -> None:
        """Only where it can win: a candidate that cannot would depose the master for nothing."""
        rank, others = self._rank(), self._heard_lately(time.monotonic())
        ranks = [said.rank for said in others.values() if said.rank is not None]
        if rank is not None and may_win(rank, ranks, self.voters, summoned=True):
            self._hear_summons(self._raft.leader, timeout_s)

    def _summon(self, link: Link) -> None:
        if self._raft.leads:
            link.send(Summons(self._raft.term))

    # What Raft wants to say.

    def request(self, peer: str, term: int) -> None:
        """Ask for a vote, having voted for oneself."""
        # Once in a term; the requests to the other peers follow the same vote.
        if term != self._stood:
            # The library did not see this vote: it was given in an earlier run.
            if term <= self._ballot.voted:
                return
            # In this order: no more acknowledgements to older masters, the vote on disk, the request.
            self._node.leave_masters_before(term)
            self._ballot.vote(term)
            self._stood = term
        rank = self._rank()
        if rank is not None:
            self._by_peer[peer].send(VoteRequest(term, time.monotonic() < self._summoned_until, rank))

    def vote(self, peer: str, term: int) -> None:
        """Give a vote, once in a term, whatever happens between."""
        if term > self._ballot.voted:
            self._ballot.vote(term)
            self._by_peer[peer].send(Vote(term))

    def beat(self, peer: str, term: int) -> None:
        """Say that the master is there."""
        self._by_peer[peer].send(LeaderBeat(term))

    def answer_beat(self, peer: str, term: int) -> None:
        """Say that it was heard."""
        self._by_peer[peer].send(BeatHeard(term))
