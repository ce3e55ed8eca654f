"""A node of a replication group: one environment, one address, one role at a time.

* A node that is told to be the master leads its environment and feeds whoever comes. Any other node looks for the
  master among its peers, syncs up, and replays; when the master goes, it looks again.
* Who is master is decided outside: by hand (``lead``, ``transfer``), or by an election (``engine.rep.voting``). Two
  masters at a time, which only hands can make, part the stream; the one that has to give way loses, at its next syncup,
  what it alone has.
* A node that has voted in a term acknowledges nothing to masters of earlier ones, and gets nothing acknowledged in
  them: ``leave_masters_before`` ends their connections, and what would begin later finds the ``_floor``.
* When the master is made a replica its environment is recovered first: transactions that were open are left to the new
  master, as after a crash.
* What cannot be mended by waiting (damage, a full disk, a refused rollback) stops the node; ``failure`` says why.

Example, three nodes: A leads at VLSN 40; ``transfer("b")``: A refuses commits, waits until b has 40, sends PROMOTE and
steps down; b writes Matchpoint 41 with its own id; A and c find b, agree at 40, and replay 41.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Final

from engine.db.environment import Environment
from engine.errors import JetoolError, RefusedError, UnsupportedError, UsageError
from engine.events import SILENT, Listener
from engine.format.versions import WRITTEN_VERSION
from engine.log.marker import MARKER
from engine.rep.election.ballot import refuse_voter
from engine.rep.election.elections import Elections
from engine.rep.election.raft import require_library
from engine.rep.frames import Channel, DisconnectedError, PeerError, address_text
from engine.rep.group import Membership, check_name, form_group, read_membership
from engine.rep.handshake import (
    NO_UUID,
    Answerer,
    Hello,
    Identity,
    NotMasterError,
    Purpose,
    call,
    check_secret,
)
from engine.rep.mastership import Mastership
from engine.rep.messages import NodeStatus
from engine.rep.replica import JoinLimits, ReplicaSession, SessionEnd, hear_terms, replica_config, restore
from engine.rep.service_dispatcher import ServiceDispatcher
from engine.rep.settings import Address, NodeConfig, Role
from engine.rep.terms import NO_TERMS, Terms
from engine.rep.voting import Election, Position
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.vlsn.vlsn_range import EMPTY_RANGE

_CALL_TIMEOUT_S: Final = 3.0
# So many election timeouts a node that was told to stand waits for the votes.
_STAND: Final = 4
_DEPOSED: Final = "a majority of the voters cannot be reached, or has elected another one"


class RepNode:
    """A running node; ``start`` begins, ``stop`` ends.

    Arguments:
        home: directory of the environment, made when it is missing; or its storage.
        config: how it takes part.
        listener: hears the steps of recovery, rollback and restore.

    Attributes:
        failure: what stopped the node, or None.
        problem: why it has no master at the moment, or None.
    """

    def __init__(self, home: str | Path | Storage, config: NodeConfig, listener: Listener = SILENT) -> None:
        check_name("node", config.name)
        check_name("group", config.group)
        if config.election is not None:
            require_library()
        self._secret = check_secret(config.secret)
        self.config = config
        self._storage: Storage = DiskStorage(home) if isinstance(home, (str, Path)) else home
        self._listener = listener
        self._env: Environment | None = None
        self._membership: Membership | None = None
        self._is_member = False
        self._changed = threading.Condition()
        self._role = Role.UNKNOWN
        self._wants_master = config.master
        self._stopping = False
        self._term: Mastership | None = None
        self._election: Election | None = None
        self._elected = 0
        self._floor = self._followed = 0
        self._has_followed = False
        self._syncing = False
        self._session: ReplicaSession | None = None
        self._channel: Channel | None = None
        self._master: Address | None = None
        self._reception = ServiceDispatcher(self, config, self._secret)
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None
        self.problem: JetoolError | None = None

    # What callers use.

    @property
    def role(self) -> Role:
        """What it is now."""
        return self._role

    @property
    def environment(self) -> Environment:
        """The environment; another object after a change of roles.

        Raises:
            RefusedError: it is being recovered or restored at the moment.
        """
        if self._env is None:
            raise RefusedError("the node has no environment open at the moment", hint="try again")
        return self._env

    def start(self) -> None:
        """Open the environment, listen, and take up a role.

        Raises:
            JetoolError: as ``Environment``; StorageError when the address cannot be listened on. RefusedError: it took
                part in elections, and is started without.
        """
        if self.config.election is None:
            refuse_voter(self._storage)
        try:
            self._env = Environment(self._storage, replica_config(self.config.environment), self._listener)
        except RefusedError:
            # A network restore that was cut off left its marker: it begins again with the first master.
            if not self.config.restore or self._storage.stat(MARKER) is None:
                raise
        if self._env is not None and not self._env.replicated:
            self._env.close()
            raise UsageError("the environment is not replicated", file=self._storage.root)
        if self._env is not None and self._env.engine.log_version != WRITTEN_VERSION:
            self._env.close()
            raise UnsupportedError(
                "nodes exchange entries of one log version, and the environment is of another",
                file=self._storage.root,
                expected=f"log version {WRITTEN_VERSION} or earlier",
                found=str(self._env.engine.log_version),
                consequence="it cannot be a node here: entries would lose the times that later versions keep",
                hint="run it under the JE that wrote it; jetool recover, jetool verify and jetool put take it",
            )
        try:
            if self.config.election is not None:
                self._election = Elections(self, self.config, self.config.election, self._secret, self._storage)
            self._reception.start()
        except JetoolError:
            self._close_environment()
            raise
        self._thread = threading.Thread(target=self._main, name=f"{self.config.name} main", daemon=True)
        if self._election is not None:
            self._election.start()
        self._thread.start()

    def stop(self) -> None:
        """End all connections and close the environment."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._election is not None:
            self._election.stop()
        # Wakes the main thread, which may be waiting for its master.
        self._hang_up("the node is being stopped")
        self._reception.close()
        if self._thread is not None:
            self._thread.join()
        self._close_environment()

    def lead(self) -> None:
        """Become the master, whoever is it now; where masters are elected, stand at once.

        Raises:
            RefusedError: the node has nothing of the group's stream yet, or the others do not vote for it.
        """
        if self._election is not None and self.config.election is not None:
            self._election.stand(_STAND * self.config.election.timeout_s)
            return
        engine = self._env.engine if self._env is not None else None
        if engine is None or engine.stream_range.is_empty:
            raise RefusedError(
                f"{self.config.name!r} has no part of the stream", consequence="as master it would begin a new group"
            )
        with self._changed:
            if self._role is Role.MASTER:
                return
            self._wants_master = True
            self._changed.notify_all()
        self._hang_up("this node becomes the master")

    def give_way(self) -> None:
        """Stop being the master.

        Raises:
            RefusedError: masters are elected here; ``transfer`` names another one.
        """
        if self._election is not None:
            raise RefusedError(
                "masters are elected here", consequence="one that a majority does not follow gives way by itself",
                hint="jetool node transfer-master without --force, or with the address of the node that shall lead",
            )  # fmt: skip
        self.deposed()

    def await_role(self, role: Role, timeout_s: float) -> bool:
        """Wait until the node has a role, or has failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._role is role or self.failure is not None, timeout_s)
            return self._role is role

    def await_end(self, timeout_s: float) -> bool:
        """Wait until the node has failed; False when it has not in that time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.failure is not None, timeout_s)

    def await_vlsn(self, vlsn: int, timeout_s: float) -> bool:
        """Wait until this node has a VLSN: the consistency that a reader of a replica asks for."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            session = self._session
            if session is not None and session.replay is not None:
                if session.replay.await_vlsn(vlsn, min(left, self.config.heartbeat_s)):
                    return True
            elif self._role is Role.MASTER and self.status().last_vlsn >= vlsn:
                return True
            else:
                time.sleep(0.01)
        return False

    def transfer(self, node: str, timeout_s: float) -> None:
        """Make a connected replica the master; for the master.

        Raises:
            RefusedError: this is not the master, or the replica does not catch up in time; then nothing changes but
                commits that were refused meanwhile. NotFoundError: no such replica is connected.
        """
        term = self._term
        if self._role is not Role.MASTER or term is None:
            raise RefusedError("this node is not the master", hint="jetool node status names it")
        election = self._election
        if election is not None:
            # The election makes it the master; this node gives way when it hears of the new term.
            term.transfer(node, timeout_s, lambda: election.hand_over(node, timeout_s))
            return
        term.transfer(node, timeout_s)
        # PROMOTE is out: this node must not lead any more, whatever becomes of the other.
        self.deposed()

    def make_master(self, node: str, timeout_s: float, *, force: bool) -> None:
        """What an operator asks for; errors as ``transfer`` and ``lead``.

        Arguments:
            node: the node that shall be the master.
            force: this node takes the role when it is that node; otherwise it gives it up, whoever has it now.
        """
        if not force:
            self.transfer(node, timeout_s)
        elif node == self.config.name:
            self.lead()
        else:
            self.give_way()

    def status(self) -> NodeStatus:
        """What the node says of itself."""
        env, term, session = self._env, self._term, self._session
        found = env.engine.stream_range if env is not None else EMPTY_RANGE
        replicas, dtvlsn = (term.replicas(), term.gate.dtvlsn) if term is not None else ((), 0)
        if session is not None and session.replay is not None:
            dtvlsn = max(session.replay.dtvlsn, 0)
        election = self._election
        known = election.leader if election is not None else self._master
        master = self.config.listen if self._role is Role.MASTER else known
        members = self._members()
        group = members.group.name if members is not None else self.config.group
        return NodeStatus(
            group=group or "",
            node=self.config.name,
            role=self._role.value,
            master=address_text(master) if master else "",
            first_vlsn=found.first,
            last_vlsn=found.last,
            last_sync=found.last_sync,
            last_txn_end=found.last_txn_end,
            dtvlsn=dtvlsn,
            replicas=replicas,
            term=election.term if election is not None else 0,
            priority=election.priority if election is not None else -1,
        )

    # The main thread: one role after another.

    def _main(self) -> None:
        try:
            while not self._stopping and self.failure is None:
                if self._wants_master:
                    self._be_master()
                else:
                    self._be_replica()
        except Exception as error:  # A bug too must be told, and not leave a node that seems to run.
            if not self._stopping or not isinstance(error, JetoolError):
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        with self._changed:
            if self.failure is None:
                self.failure = error
            self._role = Role.UNKNOWN
            self._changed.notify_all()
        self._hang_up("the node has failed")
        if self._election is not None:
            self._election.stop()

    def _be_master(self) -> None:
        env = self._env
        index = env.engine.vlsn_index if env is not None else None
        if env is None or index is None:
            raise RefusedError("an environment that needs a network restore cannot lead", file=self._storage.root)
        elected, election = self._elected, self._election
        if index.range.is_empty and (self.config.master or election is not None):
            form_group(env, self.config.group, self.config.name, *self.config.listen)
        # Noted before the Matchpoint is logged; None when the term is over already.
        terms = NO_TERMS if election is None else election.begin_term(index.latest_allocated + 1)
        if terms is not None:
            term = Mastership(env, self.config, terms, election)
            with self._changed:
                self._term = term
                # A vote in a later term may have been given meanwhile, and found no term to close.
                late = terms.term < self._floor
            if late:
                term.close(_DEPOSED)
            self.problem = None
            self._become(Role.MASTER)
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopping or not self._wants_master or self._elected != elected or self.failure is not None
            )
        self._hang_up("another node is" if election is None else _DEPOSED)
        self._term = None
        self._become(Role.UNKNOWN)
        if self._stopping or terms is None:
            return
        self._env = None
        engine = env.engine
        # Not closed: an Abort that this node logs would part its stream from the next master's.
        engine.crash()
        self._env = Environment(engine.storage, engine.config, self._listener)

    def _be_replica(self) -> None:
        """One round over all peers."""
        refusals: list[PeerError] = []
        called = 0
        for address in self._candidates():
            if self._stopping or self._wants_master:
                return
            called += 1
            try:
                self._follow(address)
                return
            except NotMasterError as error:
                self.problem = error
                if error.master is not None and error.master != self.config.listen:
                    self._master = error.master
            except DisconnectedError as error:
                self.problem = error
            except PeerError as error:
                self.problem = error
                # Before the proof a stranger may have said it: who has followed a master goes on calling.
                if error.proved or not self._has_followed:
                    refusals.append(error)
            finally:
                self._leave_session()
        # Whoever can be reached turns this node away: calling again would not help.
        if refusals and len(refusals) == called and self._election is None:
            raise refusals[0]
        if not called and self._election is not None:
            self.problem = self._election.problem()
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._wants_master, self.config.retry_s)

    def _candidates(self) -> list[Address]:
        """Where the master may be."""
        election = self._election
        known = election.leader if election is not None else self._master
        others = self.config.peers if election is None else ()
        return list(dict.fromkeys([*([known] if known is not None else []), *others]))

    def _follow(self, address: Address) -> None:
        channel = call(address, self.identity(), Purpose.FEED, self._secret, _CALL_TIMEOUT_S)
        self._channel = channel
        # Whoever asked for that during the call found no connection to close.
        if self._stopping or self._wants_master:
            channel.close()
            return
        terms = hear_terms(channel, self.config.heartbeat_s)
        self._check_master(channel, terms)
        limits = JoinLimits(self.config.rollback_limit, self.config.restore, self.config.heartbeat_s)
        # A network restore was cut off: there is nothing to open before it is complete.
        if self._env is None:
            restore(self._storage, channel, self._listener)
            self._env = Environment(self._storage, replica_config(self.config.environment), self._listener)
        session = ReplicaSession(self._env, channel, limits, self._listener)
        # While the log changes it has no position: this node neither stands nor votes.
        self._syncing = True
        try:
            session.sync_up(terms, lambda: self._election.adopt(terms) if self._election is not None else None)
        finally:
            # Also after an error: syncup may have opened it again, or left none.
            self._env = session.env
            self._syncing = False
        self._session, self._master, self.problem, self._has_followed = session, address, None, True
        self._become(Role.REPLICA)
        ended = session.follow(lambda: self._stopping or self._wants_master)
        if ended is SessionEnd.PROMOTED and self._election is None:
            self._wants_master = True

    def _check_master(self, channel: Channel, terms: Terms) -> None:
        """Refuse a master of another kind, or of an earlier term than this node has voted in."""
        if (self._election is None) != (terms.term == 0):
            kinds = ("was elected", "with") if terms.term else ("was named by hand", "without")
            raise PeerError(
                f"{channel.peer} {kinds[0]}",
                consequence="nodes that elect and nodes that do not cannot follow each other",
                hint=f"start this node {kinds[1]} --elect",
            )
        # In one step: a vote that is given now finds this term to leave, or has raised the floor.
        with self._changed:
            if terms.term < self._floor:
                raise NotMasterError(f"{channel.peer} was the master in term {terms.term}; it is term {self._floor}")
            self._followed = terms.term

    def _leave_session(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = self._session = None
        self._followed = 0
        if self._role is Role.REPLICA:
            self._become(Role.UNKNOWN)

    def _become(self, role: Role) -> None:
        with self._changed:
            self._role = role
            self._changed.notify_all()

    # What the reception asks for.

    def feed(self, answerer: Answerer, hello: Hello, channel: Channel) -> None:
        """Feed a replica until it is gone, or turn it away."""
        term = self._term
        if self._role is not Role.MASTER or term is None:
            raise answerer.refusal("", self._master)
        if hello.identity.node == self.config.name:
            raise answerer.refusal(f"there is a node {self.config.name!r} already: this one")
        answerer.welcome()
        term.feed(channel, hello.identity)

    def hear_voter(self, answerer: Answerer, hello: Hello, channel: Channel) -> None:
        """Hear another voter until it is gone, or turn it away."""
        if self._election is None:
            raise answerer.refusal("this node was started without --elect: its master is named by hand")
        self._election.answer(answerer, hello, channel)

    # What the election asks for.

    def position(self) -> Position | None:
        """How far its log goes; None while that is being changed, and when it cannot be written."""
        engine = self._env.engine if self._env is not None else None
        if engine is None or engine.vlsn_index is None or self._syncing or self.failure is not None:
            return None
        try:
            engine.check_log()
        except JetoolError:
            return None
        found = engine.stream_range
        # Only a member can lead: its id is in every Commit.
        if not found.is_empty and not self._is_member:
            with contextlib.suppress(JetoolError):
                members = read_membership(engine)
                self._is_member = members is not None and members.node(self.config.name) is not None
        return Position(max(found.last, 0), max(found.last_txn_end, 0), found.is_empty or self._is_member)

    def leave_masters_before(self, term: int) -> None:
        """Acknowledge nothing more, and get nothing more acknowledged, in terms before this one."""
        with self._changed:
            # The floor first: what begins after it is refused, what began before is closed below.
            self._floor = max(self._floor, term)
            mine, channel, followed = self._term, self._channel, self._followed
        if mine is not None and mine.terms.term < term:
            mine.close(_DEPOSED)
        if channel is not None and followed < term:
            channel.close()

    def elected(self, term: int) -> None:
        """It is the master of a term."""
        with self._changed:
            self._elected, self._wants_master = term, True
            self._changed.notify_all()
        # Wakes the main thread, which is still fed by the old master.
        if self._channel is not None:
            self._channel.close()

    def deposed(self) -> None:
        """It no longer is the master."""
        with self._changed:
            self._wants_master = False
            self._changed.notify_all()

    def fail(self, error: Exception) -> None:
        """Stop for good; ``failure`` says why."""
        self._fail(error)

    def identity(self) -> Identity:
        """Who this node is, as it tells others."""
        members = self._members()
        if members is None:
            return Identity(self.config.group, NO_UUID, self.config.name, *self.config.listen)
        mask = (1 << 64) - 1
        uuid = (members.group.uuid_high & mask) << 64 | members.group.uuid_low & mask
        return Identity(members.group.name or "", uuid.to_bytes(16, "big"), self.config.name, *self.config.listen)

    def _members(self) -> Membership | None:
        """The group, as soon as its database has come."""
        env = self._env
        if self._membership is None and env is not None:
            self._membership = read_membership(env.engine)
        return self._membership

    def _hang_up(self, why: str) -> None:
        """End every connection that depends on the role."""
        term, channel = self._term, self._channel
        if term is not None:
            term.close(why)
        if channel is not None:
            channel.close()

    def _close_environment(self) -> None:
        env, self._env = self._env, None
        if env is None:
            return
        index = env.engine.vlsn_index
        if index is not None and not env.engine.leads:
            index.close(flush=False)
        env.close()
