"""A node of a replication group: one environment, one address, one role at a time.

* A node that is told to be the master leads its environment and feeds whoever comes. Any other node looks for the
  master among its peers, syncs up, and replays; when the master goes, it looks again.
* Who is master is decided outside (``lead``, ``transfer``). Two masters at a time part the stream; the one that has to
  give way loses, at its next syncup, what it alone has.
* When the master is made a replica its environment is recovered first: transactions that were open are left to the new
  master, as after a crash.
* What cannot be mended by waiting (damage, a full disk, a refused rollback) stops the node; ``failure`` says why.

Example, three nodes: A leads at VLSN 40; ``transfer("b")``: A refuses commits, waits until b has 40, sends PROMOTE and
steps down; b writes Matchpoint 41 with its own id; A and c find b, agree at 40, and replay 41.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError, NotFoundError, RefusedError, StorageError, UsageError
from engine.events import SILENT, Listener
from engine.format.entry.rollback import Matchpoint, encode_matchpoint
from engine.format.versions import WRITTEN_VERSION
from engine.format.vlsn import NEXT_VLSN
from engine.rep import messages
from engine.rep.acks import AckPolicy, GroupGate
from engine.rep.feeder import FeederSession
from engine.rep.group import Membership, add_member, check_name, form_group, read_membership
from engine.rep.handshake import (
    DEFAULT_MAX_SKEW_MS,
    NO_UUID,
    Answerer,
    Hello,
    Identity,
    NotMasterError,
    Purpose,
    call,
    check_secret,
)
from engine.rep.messages import Message, NodeStatus, ReplicaProgress
from engine.rep.replica import Ended, Limits, ReplicaSession, replica_config, restore
from engine.rep.restore import MARKER
from engine.rep.stream import MATCHPOINT
from engine.rep.syncup import DEFAULT_ROLLBACK_LIMIT
from engine.rep.wire import Channel, DisconnectedError, PeerError
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage

Address = tuple[str, int]
_MOST_CONNECTIONS: Final = 64
_CALL_TIMEOUT_S: Final = 3.0


class Role(Enum):
    """What a node is at a moment."""

    UNKNOWN = "unknown"
    REPLICA = "replica"
    MASTER = "master"


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """How a node takes part.

    Attributes:
        name, group: of the node, and of the group that it makes or joins.
        listen: where it listens; the address by which the others call it.
        peers: addresses of the others.
        secret: shared by all nodes, at least 16 bytes.
        master: lead from the start.
        policy, ack_timeout_s: for the commits of a master.
        rollback_limit: durable commits that this node may give up to join.
        restore: replace its files by the master's when nothing else helps.
        heartbeat_s: longest silence of a master; after five times that it is given up.
        retry_s: pause between two rounds of calling the peers.
        max_skew_ms: largest difference of clocks.
        environment: how the environment is opened.
    """

    name: str
    listen: Address
    peers: tuple[Address, ...]
    secret: bytes
    group: str = "jetool"
    master: bool = False
    policy: AckPolicy = AckPolicy.SIMPLE_MAJORITY
    ack_timeout_s: float = 5.0
    rollback_limit: int = DEFAULT_ROLLBACK_LIMIT
    restore: bool = False
    heartbeat_s: float = 1.0
    retry_s: float = 0.3
    max_skew_ms: int = DEFAULT_MAX_SKEW_MS
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)


class Node:
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
        self._secret = check_secret(config.secret)
        self.config = config
        self._storage: Storage = DiskStorage(home) if isinstance(home, (str, Path)) else home
        self._listener = listener
        self._env: Environment | None = None
        self._membership: Membership | None = None
        self._changed = threading.Condition()
        self._role = Role.UNKNOWN
        self._wants_master = config.master
        self._stopping = False
        self._gate: GroupGate | None = None
        self._feeders: dict[str, FeederSession] = {}
        self._session: ReplicaSession | None = None
        self._channel: Channel | None = None
        self._master: Address | None = None
        self._threads: list[threading.Thread] = []
        self._connections: set[Channel] = set()
        self._socket: socket.socket | None = None
        self.failure: JetoolError | None = None
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
            JetoolError: as ``Environment``; StorageError when the address cannot be listened on.
        """
        try:
            self._env = Environment(self._storage, replica_config(self.config.environment), self._listener)
        except RefusedError:
            if not self.config.restore or self._storage.stat(MARKER) is None:
                raise
        if self._env is not None and not self._env.replicated:
            self._env.close()
            raise UsageError("the environment is not replicated", file=self._storage.root)
        try:
            self._socket = socket.create_server(self.config.listen, backlog=16, reuse_port=False)
        except OSError as error:
            self._close_environment()
            raise StorageError(
                f"cannot listen on {_text(self.config.listen)}", found=error.strerror or str(error)
            ) from error
        self._membership = read_membership(self._env) if self._env is not None else None
        for target in (self._listen, self._main):
            thread = threading.Thread(target=target, name=f"{self.config.name} {target.__name__}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End all connections and close the environment."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._hang_up("the node is being stopped")
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # Wakes the thread that listens; closing alone does not.
            self._socket.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._close_environment()

    def lead(self) -> None:
        """Become the master, whoever is it now.

        Raises:
            RefusedError: the node has nothing of the group's stream yet.
        """
        env = self._env
        if env is None or env.vlsn_index is None or env.vlsn_index.range.is_empty:
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
        """Stop being the master."""
        with self._changed:
            self._wants_master = False
            self._changed.notify_all()

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
        env, gate = self._env, self._gate
        if self._role is not Role.MASTER or env is None or gate is None or env.vlsn_index is None:
            raise RefusedError("this node is not the master", hint="jetool node status names it")
        feeder = self._feeders.get(node)
        if feeder is None or not feeder.fed:
            raise NotFoundError(f"no replica {node!r} is connected", hint="jetool node status lists them")
        gate.hold(timeout_s)
        try:
            last = env.vlsn_index.range.last_txn_end
            if not gate.await_acked(node, last, timeout_s):
                raise RefusedError(
                    f"{node!r} did not catch up within {timeout_s:g} s", consequence="this node is still the master"
                )
            feeder.promote()
        except JetoolError:
            gate.go_on()
            raise
        self.give_way()

    def status(self) -> NodeStatus:
        """What the node says of itself."""
        env, gate, session = self._env, self._gate, self._session
        found = env.vlsn_index.range if env is not None and env.vlsn_index is not None else None
        replicas: tuple[ReplicaProgress, ...] = ()
        dtvlsn = 0
        if self._role is Role.MASTER and gate is not None:
            replicas = tuple(ReplicaProgress(name, *progress) for name, progress in gate.progress().items())
            dtvlsn = gate.dtvlsn
        elif session is not None and session.replay is not None:
            dtvlsn = max(session.replay.dtvlsn, 0)
        master = self.config.listen if self._role is Role.MASTER else self._master
        members = self._members()
        group = members.group.name if members is not None else self.config.group
        ends = found if found is not None else (-1, -1, -1, -1)
        return NodeStatus(
            group or "",
            self.config.name,
            self._role.value,
            _text(master) if master else "",
            *ends[:4],
            dtvlsn,
            replicas,
        )

    # The main thread: one role after another.

    def _main(self) -> None:
        try:
            while not self._stopping:
                if self._wants_master:
                    self._be_master()
                else:
                    self._be_replica()
        except JetoolError as error:
            if not self._stopping:
                self._fail(error)

    def _fail(self, error: JetoolError) -> None:
        with self._changed:
            self.failure, self._role = error, Role.UNKNOWN
            self._changed.notify_all()
        self._hang_up("the node has failed")

    def _be_master(self) -> None:
        env = self._env
        if env is None or env.vlsn_index is None:
            raise RefusedError("an environment that needs a network restore cannot lead", file=self._storage.root)
        if env.vlsn_index.range.is_empty and self.config.master:
            form_group(env, self.config.group, self.config.name, *self.config.listen)
        self._membership = read_membership(env)
        mine = self._membership.node(self.config.name) if self._membership is not None else None
        if self._membership is None or mine is None:
            raise RefusedError(
                f"{self.config.name!r} is no member of the group", file=self._storage.root,
                hint="give the name under which it joined, or let it join a running master first",
            )  # fmt: skip
        gate = GroupGate(env.vlsn_index, mine.id, self.config.policy, self.config.ack_timeout_s)
        gate.electable = len(self._membership.electable)
        env.lead(gate)
        assert env.writer is not None
        env.writer.log_in_stream(
            MATCHPOINT, encode_matchpoint(Matchpoint(env.now_ms(), mine.id), WRITTEN_VERSION), NEXT_VLSN
        )
        env.sync()
        self._gate = gate
        self._become(Role.MASTER)
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or not self._wants_master or self.failure is not None)
        gate.close("another node is")
        self._hang_up("this node is no longer the master")
        self._gate = None
        self._become(Role.UNKNOWN)
        if self._stopping:
            return
        self._env = None
        env.crash()
        self._env = Environment(env.storage, env.config, self._listener)

    def _be_replica(self) -> None:
        """One round over all peers."""
        refusals: list[PeerError] = []
        called = 0
        candidates = [*([self._master] if self._master is not None else []), *self.config.peers]
        for address in dict.fromkeys(candidates):
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
                refusals.append(error)
            finally:
                self._leave_session()
        if refusals and len(refusals) == called:
            raise refusals[0]
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._wants_master, self.config.retry_s)

    def _follow(self, address: Address) -> None:
        channel = call(address, self._identity(), Purpose.FEED, self._secret, _CALL_TIMEOUT_S)
        self._channel = channel
        if self._stopping or self._wants_master:
            channel.close()
            return
        limits = Limits(self.config.rollback_limit, self.config.restore, self.config.heartbeat_s)
        if self._env is None:
            restore(self._storage, channel, self._listener)
            self._env = Environment(self._storage, replica_config(self.config.environment), self._listener)
        session = ReplicaSession(self._env, channel, limits, self._listener)
        try:
            session.sync_up()
        finally:
            self._env = session.env
        self._session, self._master, self.problem = session, address, None
        self._become(Role.REPLICA)
        ended = session.follow(lambda: self._stopping or self._wants_master)
        if ended is Ended.PROMOTED:
            self._wants_master = True

    def _leave_session(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = self._session = None
        if self._role is Role.REPLICA:
            self._become(Role.UNKNOWN)

    def _become(self, role: Role) -> None:
        with self._changed:
            self._role = role
            self._changed.notify_all()

    # Those who call.

    def _listen(self) -> None:
        assert self._socket is not None
        while not self._stopping:
            try:
                sock, address = self._socket.accept()
            except OSError:
                return
            if len(self._connections) >= _MOST_CONNECTIONS:
                sock.close()
                continue
            channel = Channel(sock, _text(address[:2]))
            self._connections.add(channel)
            threading.Thread(target=self._answer, args=(channel,), name=f"{channel.peer} calls", daemon=True).start()

    def _answer(self, channel: Channel) -> None:
        """One connection; what goes wrong with it is the caller's business, and is told it."""
        try:
            answerer = Answerer(channel, self._secret)
            hello = answerer.listen()
            answerer.check(hello, self._identity(), self.config.max_skew_ms)
            if hello.purpose == Purpose.FEED:
                self._feed(answerer, hello, channel)
            elif hello.purpose in (Purpose.STATUS, Purpose.TRANSFER):
                answerer.welcome()
                self._serve(channel)
            else:
                raise answerer.refusal(f"purpose {hello.purpose} is not known here")
        except JetoolError as error:
            self.problem = self.problem or error
        finally:
            channel.close()
            self._connections.discard(channel)

    def _feed(self, answerer: Answerer, hello: Hello, channel: Channel) -> None:
        env, gate = self._env, self._gate
        who = hello.identity
        if self._role is not Role.MASTER or env is None or gate is None:
            raise answerer.refusal("", self._master)
        if who.node == self.config.name:
            raise answerer.refusal(f"there is a node {who.node!r} already: this one")
        answerer.welcome()
        try:
            check_name("node", who.node)
            members = read_membership(env)
            known = members is not None and members.node(who.node) is not None
            self._membership = members if known else add_member(env, who.node, who.host, who.port)
        except JetoolError as error:
            channel.send(Message.FAILED, messages.encode_text(str(error)))
            raise
        assert self._membership is not None
        gate.electable = len(self._membership.electable)
        earlier = self._feeders.get(who.node)
        if earlier is not None:
            earlier.close()
        session = FeederSession(
            env, gate, channel, who.node, self.config.heartbeat_s, lambda: self._note_address(env, who)
        )
        self._feeders[who.node] = session
        try:
            session.run()
        finally:
            if self._feeders.get(who.node) is session:
                del self._feeders[who.node]

    def _note_address(self, env: Environment, who: Identity) -> None:
        """A member that is being fed may have moved. A thread of its own: the commit waits for acknowledgements."""

        def note() -> None:
            with contextlib.suppress(JetoolError):
                self._membership = add_member(env, who.node, who.host, who.port)

        threading.Thread(target=note, name=f"address of {who.node}", daemon=True).start()

    def _serve(self, channel: Channel) -> None:
        """Requests of an operator."""
        frame = channel.receive(_CALL_TIMEOUT_S)
        if frame.type == Message.STATUS:
            channel.send(Message.STATUS, messages.encode_status(self.status()))
            return
        if frame.type != Message.TRANSFER:
            raise messages.nonsense(channel.peer, f"message {frame.type}")
        node, force, timeout_s = messages.decode_transfer(frame.payload)
        try:
            if force and node == self.config.name:
                self.lead()
            else:
                self.transfer(node, timeout_s)
        except JetoolError as error:
            channel.send(Message.FAILED, messages.encode_text(str(error)))
            return
        channel.send(Message.DONE)

    def _members(self) -> Membership | None:
        """The group, as soon as its database has come."""
        env = self._env
        if self._membership is None and env is not None:
            self._membership = read_membership(env)
        return self._membership

    def _identity(self) -> Identity:
        members = self._members()
        if members is None:
            return Identity(self.config.group, NO_UUID, self.config.name, *self.config.listen)
        mask = (1 << 64) - 1
        uuid = (members.group.uuid_high & mask) << 64 | members.group.uuid_low & mask
        return Identity(members.group.name or "", uuid.to_bytes(16, "big"), self.config.name, *self.config.listen)

    def _hang_up(self, why: str) -> None:
        """End every connection that depends on the role."""
        gate, channel = self._gate, self._channel
        if gate is not None:
            gate.close(why)
        if channel is not None:
            channel.close()
        for feeder in list(self._feeders.values()):
            feeder.close()
        if self._stopping:
            for open_channel in list(self._connections):
                open_channel.close()

    def _close_environment(self) -> None:
        env, self._env = self._env, None
        if env is None:
            return
        if env.vlsn_index is not None and not env.leads:
            env.vlsn_index.close(flush=False)
        env.close()


def _text(address: Sequence[object]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
