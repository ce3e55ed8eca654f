"""One term of a master: the gate of its commits, and the replicas that it feeds.

It begins with a Matchpoint entry that has the master's node id: a place at which syncup tells the streams of two
masters apart. It ends by ``transfer``, which loses nothing, or by ``close``.

Where masters are elected it is the term of an election. Only voters are fed then, and commits need a majority of
voters, whoever is a member already: a commit and an election always have a node in common. A voter that is new becomes
a member when it is being fed, since that is a commit like any other.

Example: VLSN 40 is the last Commit. ``transfer("b")``: commits are held, those under way are awaited, b acknowledges
40, PROMOTE is sent. b begins its own term with Matchpoint 41.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

from engine.db.environment import Environment
from engine.errors import JetoolError, NotFoundError, RefusedError
from engine.format.entry.rollback import Matchpoint, encode_matchpoint
from engine.format.entry_types import MATCHPOINT
from engine.format.versions import WRITTEN_VERSION
from engine.format.vlsn import NEXT_VLSN
from engine.rep import messages
from engine.rep.acks import GroupGate
from engine.rep.feeder import FeederSession
from engine.rep.frames import Channel
from engine.rep.group import Membership, add_member, check_name, read_membership
from engine.rep.handshake import Identity
from engine.rep.messages import Message, ReplicaProgress
from engine.rep.settings import NodeConfig
from engine.rep.terms import NO_TERMS, Terms, encode_terms
from engine.rep.voting import Election

_TRIES: Final = 10
_PAUSE_S: Final = 0.02


class Mastership:
    """Leads an environment, from now on.

    Arguments:
        env: detached; its group has this node as a member.
        config: name, policy, timeouts.
        terms: of the stream, with this one last where masters are elected.
        election: that it was elected in, or None.

    Raises:
        RefusedError: the node is no member of the group.
    """

    def __init__(
        self, env: Environment, config: NodeConfig, terms: Terms = NO_TERMS, election: Election | None = None
    ) -> None:
        engine = env.engine
        members = read_membership(engine)
        mine = members.node(config.name) if members is not None else None
        if members is None or mine is None or engine.vlsn_index is None:
            raise RefusedError(
                f"{config.name!r} is no member of the group", file=env.home,
                hint="give the name under which it joined, or let it join a running master first",
            )  # fmt: skip
        self._env = env
        self._index = engine.vlsn_index
        self._heartbeat_s = config.heartbeat_s
        self._election = election
        self._membership = threading.Lock()
        self.terms = terms
        self._feeders: dict[str, FeederSession] = {}
        self.gate = GroupGate(engine.vlsn_index, mine.id, config.policy, config.ack_timeout_s)
        self._count(members)
        engine.lead(self.gate)
        assert engine.writer is not None
        # The first entry of the term: its time and node id are those of no other master.
        entry = encode_matchpoint(Matchpoint(engine.now_ms(), mine.id), WRITTEN_VERSION)
        engine.writer.log_in_stream(MATCHPOINT, entry, NEXT_VLSN)
        # Before anybody can replay it: a replica must not have an entry that its master may lose.
        env.sync()

    def feed(self, channel: Channel, who: Identity) -> None:
        """Feed a replica until it is gone; one that is new becomes a member first.

        Raises:
            JetoolError: it cannot become one; see ``FeederSession.run``. The replica has been told.
        """
        try:
            check_name("node", who.node)
            # First of all: by these the replica decides whether to follow.
            channel.send(Message.TERMS, encode_terms(self.terms))
            self._admit(who)
        except JetoolError as error:
            channel.send(Message.FAILED, messages.encode_text(str(error)))
            raise
        earlier = self._feeders.get(who.node)
        # The replica has called again: its old session is dead, though TCP may not know that yet.
        if earlier is not None:
            earlier.close()
        session = FeederSession(
            self._env.engine, self.gate, channel, who.node, self._heartbeat_s, lambda: self._note_member(who)
        )
        self._feeders[who.node] = session
        try:
            session.run()
        finally:
            # A later session of the same replica may have taken the place.
            if self._feeders.get(who.node) is session:
                del self._feeders[who.node]

    def transfer(self, node: str, timeout_s: float, hand_over: Callable[[], None] | None = None) -> None:
        """Make a connected replica the master. Afterwards this term is over; commits are still held.

        Arguments:
            hand_over: how it is told, when it has everything; PROMOTE when None.

        Raises:
            RefusedError: a commit is not logged, or the replica does not catch up, in time; commits go on.
            NotFoundError: it is not connected.
        """
        feeder = self._feeders.get(node)
        if feeder is None or not feeder.fed:
            raise NotFoundError(f"no replica {node!r} is connected", hint="jetool node status lists them")
        self._await_member(node, timeout_s)
        try:
            # In this order: no commit may come after the VLSN that the replica has to acknowledge.
            self.gate.hold(timeout_s)
            if not self.gate.await_acked(node, self._index.range.last_txn_end, timeout_s):
                raise RefusedError(
                    f"{node!r} did not catch up within {timeout_s:g} s", consequence="this node is still the master"
                )
            (hand_over or feeder.promote)()
        except JetoolError:
            # Still the master: what was held goes on.
            self.gate.go_on()
            raise

    def _await_member(self, node: str, timeout_s: float) -> None:
        """One that has just come is being made a member: a commit, which would be held."""
        deadline = time.monotonic() + timeout_s
        while (members := read_membership(self._env.engine)) is None or members.node(node) is None:
            if time.monotonic() > deadline:
                raise RefusedError(f"{node!r} is no member of the group yet", hint="try again when a majority is there")
            time.sleep(_PAUSE_S)

    def replicas(self) -> tuple[ReplicaProgress, ...]:
        """How far the replicas are."""
        return tuple(ReplicaProgress(name, *progress) for name, progress in self.gate.progress().items())

    def close(self, why: str) -> None:
        """Refuse commits from now on, and feed nobody."""
        self.gate.close(why)
        for feeder in list(self._feeders.values()):
            feeder.close()

    def _admit(self, who: Identity) -> None:
        if self._election is not None:
            if not self._election.is_voter(who.node):
                raise RefusedError(
                    f"the master has not met {who.node!r} as a voter",
                    consequence="it is not fed: its acknowledgements would count for a majority of the voters",
                )
            return
        # One at a time: two newcomers would be given the same id.
        with self._membership:
            members = read_membership(self._env.engine)
            if members is None or members.node(who.node) is None:
                members = add_member(self._env, who.node, who.host, who.port)
            self._count(members)

    def _count(self, members: Membership) -> None:
        # Commits and elections count the same nodes, so that any two majorities have one in common.
        self.gate.electable = len(members.electable) if self._election is None else self._election.voters

    def _note_member(self, who: Identity) -> None:
        """One that is being fed may have moved, or be new. A thread of its own: the commit is to be acknowledged."""

        def note() -> None:
            for _ in range(_TRIES):
                if who.node not in self._feeders:
                    return
                with self._membership, contextlib.suppress(JetoolError):
                    add_member(self._env, who.node, who.host, who.port)
                    return

        threading.Thread(target=note, name=f"membership of {who.node}", daemon=True).start()
