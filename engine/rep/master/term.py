"""One term of a master of a group of JE: the commit gate, the group database, and the connected replicas.

* The DTVLSN continues from the last value in the log, and never falls: replicas of JE treat a lower value as damage. If
  it has been ahead of the last DTVLSN in the log for some seconds, a commit without an LN carries it to all nodes.
* Transactions left open by an earlier master are aborted; these Aborts are part of the stream.
* Since log version 22 Commits and Aborts carry the term, elections compare logs by it, and a Commit without an LN marks
  the start of a term. Before, as in JE 18.3, no entry marks it.
* If a replica reconnects while its old connection exists, the master tests that connection. If it is dead, the new
  connection replaces it; otherwise the replica gets the error that its name is in use.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from engine.db.environment import Environment
from engine.errors import JetoolError, RefusedError
from engine.format.entry.group_db import NODE_TYPES, GroupNode, RepGroup
from engine.format.versions import MASTER_TERM
from engine.format.vlsn import NULL_VLSN
from engine.rep.acks import AckPolicy, GroupGate
from engine.rep.client.connection import Address
from engine.rep.group import ELECTABLE, Membership, committed_members
from engine.rep.intervals import USUAL_INTERVALS, NodeIntervals
from engine.rep.master.arbiter_feed import ArbiterFeed
from engine.rep.master.feeder import ReplicaFeed
from engine.rep.master.feeder_session import FeederSession
from engine.rep.master.handshake import FedNode, greet
from engine.rep.master.membership import ConflictError, GroupDatabase
from engine.rep.peers import DisconnectedError
from engine.rep.services.caller import Caller
from engine.rep.services.port import Service
from engine.rep.status import ReplicaProgress
from engine.rep.stream import last_end
from engine.rep.wire.feeder import FEEDER, SYNC
from engine.rep.wire.values import NameIdPair
from engine.vlsn.vlsn_range import VLSNRange

_PLACES: Final = 64
# Ids of nodes without a stored record, assigned downward from the highest id.
_LAST_ID: Final = (1 << 31) - 1
_GUESTS: Final = 1024
_PAUSE_S: Final = 0.02
_SECONDARY: Final = NODE_TYPES.index("secondary")


@dataclass(frozen=True, slots=True)
class LeadConfig:
    """How a master leads.

    Attributes:
        policy, ack_timeout_s: acknowledgement policy and timeout of its commits.
        replica_sync: sync policy on replicas for commits that await their acknowledgement.
    """

    policy: AckPolicy = AckPolicy.SIMPLE_MAJORITY
    ack_timeout_s: float = 5.0
    replica_sync: int = SYNC


class Leadership:
    """One term of a master; it begins when this object is constructed.

    Arguments:
        env: detached; this node is a member of its group.
        name, listen: name and address of this node.
        config: how it leads.
        failed: called once if the environment fails: no node may follow a master that cannot log.
        changed: called for added and removed members, see ``GroupDatabase``.
        intervals: its pauses and patience.
        began_ms: time of the proposal that elected the node, which is its term; 0: now.

    Raises:
        RefusedError: the node is no electable member of the group at this address.

    Attributes:
        services: the services of a master, by name.
        began_ms: when the term began, milliseconds since 1970.
    """

    def __init__(
        self,
        env: Environment,
        name: str,
        listen: Address,
        config: LeadConfig,
        failed: Callable[[JetoolError], None] = lambda _: None,
        changed: Callable[[str, str], None] = lambda *_: None,
        intervals: NodeIntervals = USUAL_INTERVALS,
        began_ms: int = 0,
    ) -> None:
        engine = env.engine
        mine = check_member(env, name, listen)
        assert engine.vlsn_index is not None
        self._env = env
        self._config = config
        self._intervals = intervals
        self._failed = failed
        self._mutex = threading.Lock()
        self._sessions: dict[str, FeederSession] = {}
        # By connection, since a node has an id even if it ends during the handshake.
        self._guests: dict[Caller, GroupNode] = {}
        self._over = threading.Event()
        self.pair = NameIdPair(name, mine.id)
        self.problem: JetoolError | None = None
        end, has_terms = last_end(engine), engine.log_version >= MASTER_TERM
        durable = max(end.dtvlsn, 0) if end is not None else 0
        inherited = max(stream_of(env).last, 0) if has_terms else 0
        self.gate = GroupGate(engine.vlsn_index, mine.id, config.policy, config.ack_timeout_s, durable, inherited)
        self.began_ms = max(began_ms or engine.now_ms(), end.master_term if end is not None else 0)
        self._cache_bytes = engine.config.cache_bytes
        engine.lead(self.gate, self.began_ms)
        if has_terms:
            engine.commit_nothing()
        self._database = GroupDatabase(env, self.gate, changed)
        self.services = {FEEDER.service: Service(self._feed, _PLACES)}
        self._ticker = threading.Thread(target=self._tick, name=f"{name} ticks", daemon=True)
        self._ticker.start()

    def close(self, why: str) -> None:
        """Refuse commits and feeder connections from now on."""
        self.gate.close(why)
        self._over.set()
        with self._mutex:
            sessions = list(self._sessions.values())
        for session in sessions:
            session.close()
        self._ticker.join()

    @property
    def feeders(self) -> int:
        """Number of connected replicas, the arbiter included, as JE counts."""
        return len(self._sessions)

    def replicas(self) -> tuple[ReplicaProgress, ...]:
        """The positions of connected replicas, and of members that were connected."""
        with self._mutex:
            fed = {name: one.reached_vlsn for name, one in self._sessions.items() if not one.fed.arbitrates}
        found = {name: ReplicaProgress(name, True, reached) for name, reached in fed.items()}
        for name, (_, vlsn) in self.gate.progress().items():
            found.setdefault(name, ReplicaProgress(name, False, vlsn))
        return tuple(found[name] for name in sorted(found))

    # The host of handshakes.

    @property
    def log_version(self) -> int:
        """The version of the log."""
        return self._env.engine.log_version

    @property
    def cache_bytes(self) -> int:
        """The size of the cache."""
        return self._cache_bytes

    @property
    def group(self) -> RepGroup:
        """The group's record."""
        return self._database.members.group

    @property
    def members(self) -> Membership:
        """The group, including temporary nodes and removed members."""
        found = self._database.members
        return found._replace(nodes=(*found.nodes, *self._guests_by_name().values()))

    def is_in_use(self, name: str) -> bool:
        """Whether a node of that name is being fed, or is this node."""
        with self._mutex:
            session = self._sessions.get(name)
        if session is None:
            return name == self.pair.name
        # The replica has reconnected, so its old connection is dead, although TCP may not have detected it yet. A node
        # of JE that gets the error that its name is in use stops for good, so messages received before now do not prove
        # that the old connection is alive.
        asked, intervals = time.monotonic(), self._intervals
        while self._sessions.get(name) is session and time.monotonic() < asked + intervals.dead_s:
            if session.heard > asked + intervals.transit_s:
                return True
            time.sleep(_PAUSE_S)
        session.close()
        deadline = time.monotonic() + intervals.leave_s
        while name in self._sessions and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        return name in self._sessions

    def known(self, name: str) -> GroupNode | None:
        """The record of a node, or a temporary one."""
        return self._database.node(name) or self._guests_by_name().get(name)

    def admit_member(self, node: GroupNode) -> GroupNode:
        """Make it a member."""
        return self._database.ensure(node)

    def admit_guest(self, caller: Caller, node: GroupNode) -> GroupNode:
        """Assign an id to a node for the time of its connection."""
        with self._mutex:
            taken = {guest.id for guest in self._guests.values()}
            free = next((one for one in range(_LAST_ID, _LAST_ID - _GUESTS, -1) if one not in taken), None)
            known = next((guest for guest in self._guests.values() if guest.name == node.name), None)
            if known is None and free is None:
                raise ConflictError("too many nodes are connected that are no members")
            node = node._replace(id=known.id if known is not None else free or 0, quorum_ack=True)
            self._guests[caller] = node
        return node

    def _guests_by_name(self) -> dict[str, GroupNode]:
        with self._mutex:
            return {guest.name or "": guest for guest in self._guests.values()}

    def remove_member(self, name: str, *, forget: bool) -> None:
        """Remove a member from the group; errors as ``GroupDatabase.remove``."""
        self._database.remove(name, forget=forget)

    def move_member(self, name: str, host: str, port: int) -> None:
        """Change the address of a member.

        Raises:
            NotFoundError: there is no such member. ConflictError: another member has this address. RefusedError: as
                ``ensure``.
        """
        self._database.move(name, host, port)

    def is_fed(self, name: str) -> bool:
        """Whether a replica of that name is connected."""
        return name in self._sessions

    def fed_voter(self, name: str) -> GroupNode | None:
        """The record of an electable replica that is connected."""
        with self._mutex:
            session = self._sessions.get(name)
        return session.fed.node if session is not None and session.fed.acknowledges else None

    def has_all(self, name: str) -> bool:
        """Whether a replica has every Commit and Abort of the log."""
        with self._mutex:
            session = self._sessions.get(name)
        return session is not None and session.reached_vlsn >= stream_of(self._env).last_txn_end

    def note_release(self, node: GroupNode) -> None:
        """Record that a member now runs another release of JE."""
        # Do not wait for acknowledgements: if they are missing, that is no reason to refuse the node.
        with contextlib.suppress(RefusedError):
            self._database.update(node)

    def _feed(self, caller: Caller) -> None:
        """One connection."""
        try:
            self._feed_as(greet(caller, self), caller)
        finally:
            with self._mutex:
                self._guests.pop(caller, None)

    def _feed_as(self, fed: FedNode, caller: Caller) -> None:
        engine = self._env.engine
        sync, heartbeat_s = self._config.replica_sync, self._intervals.heartbeat_s
        session = FeederSession(engine, caller, fed, heartbeat_s)
        feed = (
            ArbiterFeed(engine, self.gate, session)
            if fed.arbitrates
            else ReplicaFeed(engine, self.gate, session, self._providers, sync)
        )
        with self._mutex:
            taken = fed.name in self._sessions or self._over.is_set()
            if not taken:
                self._sessions[fed.name] = session
        if taken:
            return
        try:
            feed.run()
        except JetoolError as error:
            if session.problem is not None and not isinstance(error, DisconnectedError):
                self.problem = error
            raise
        finally:
            with self._mutex:
                del self._sessions[fed.name]

    def _providers(self) -> list[GroupNode]:
        """The nodes that have log files."""
        return [node for node in self.members.nodes if not node.removed and node.type in (ELECTABLE, _SECONDARY)]

    # Commits of nothing.

    def _tick(self) -> None:
        """Runs with every heartbeat, until the term or the environment ends."""
        engine = self._env.engine
        assert engine.writer is not None
        stable_since, seen, own = time.monotonic(), NULL_VLSN, NULL_VLSN
        try:
            while not self._over.wait(self._intervals.heartbeat_s):
                if engine.writer.failure is not None:
                    raise engine.writer.failure
                durable = self.gate.dtvlsn
                if durable != seen:
                    stable_since, seen = time.monotonic(), durable
                elif (
                    self.gate.electable > 1
                    and durable > self.gate.stamped
                    # No commit is needed if the replicas have only acknowledged the previous empty commit, whose VLSN
                    # is ``own``.
                    and durable != own
                    and time.monotonic() - stable_since >= self._intervals.stable_s
                ):
                    own = engine.commit_nothing()
        except JetoolError as error:
            self.problem = error
            if not self._over.is_set():
                self._failed(error)


def check_member(env: Environment, name: str, listen: Address) -> GroupNode:
    """The record of this node.

    Raises:
        RefusedError: the node is not an electable member of the group at this address.
    """
    members = committed_members(env.engine)
    mine = members.node(name) if members is not None else None
    if mine is None or mine.removed or mine.type != ELECTABLE or (mine.host, mine.port) != listen:
        where = f"{mine.host}:{mine.port} {NODE_TYPES[mine.type]}" if mine is not None else "no member"
        raise RefusedError(
            f"{name!r} is no electable member of the group at {listen[0]}:{listen[1]}",
            file=env.home,
            found=where + (", removed" if mine is not None and mine.removed else ""),
            consequence="it cannot lead; nothing was changed",
            hint="give the name and the address under which it joined; jetool group show ENV lists the members",
        )
    return mine


def stream_of(env: Environment) -> VLSNRange:
    """The part of the stream that an environment has."""
    return env.engine.stream_range
