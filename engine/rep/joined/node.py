"""A node that follows the master of a group of JE, as a SECONDARY: its environment is what any member has.

A round: look at the group, go to its master, find where both logs agree, roll back what this node alone has, and replay
the stream until the connection ends; then the next round, which may find another master. What cannot be mended by
waiting (another group, a name that is taken, damage, a rollback that is not allowed) stops the node; ``failure`` says
why.

* An empty directory is filled by a copy of a node's log files where there is much to copy, and by replaying from VLSN 1
  where there is little. A replica is copied rather than the master.
* Commits are given up only when a majority of the electable members follows the master for which that is done.
* Nothing is written in the group: the master knows a SECONDARY as long as its connection lasts.

Example, after a fork: the master has no VLSN 120 and names its Commit 100, which is another one here; 96 agrees. Where
only LNs follow 96 they are rolled back in the log. Where a Commit or Abort follows, the log is cut at 96 and opened
again, and a second round begins the stream.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from engine.db.environment import Environment
from engine.errors import JetoolError, NotFoundError, RefusedError, UnsupportedError, UsageError, plural
from engine.events import SILENT, Listener
from engine.format.versions import WRITTEN_VERSION
from engine.log.marker import MARKER
from engine.rep.client.call import ServiceError, ask
from engine.rep.client.connection import Address, Network
from engine.rep.client.copying import choose
from engine.rep.client.handshake import NEW_NODE, UNKNOWN_UUID, Joining, NameInUseError, join
from engine.rep.client.looking import GroupLook, NodeLook, check_group, look
from engine.rep.client.tls import server_context
from engine.rep.frames import DisconnectedError, PeerError, address_text
from engine.rep.group import ELECTABLE, Membership, check_name, committed_members, read_membership
from engine.rep.joined.config import JoinConfig
from engine.rep.joined.link import MasterLink
from engine.rep.joined.restoring import NetworkRestore
from engine.rep.messages import NodeStatus
from engine.rep.replay import Replay
from engine.rep.replica import replica_config
from engine.rep.restore import holds_log
from engine.rep.rollback import SoftRollback, hard_recover
from engine.rep.serving.copies import EngineFiles, FileList, LogFileServer
from engine.rep.serving.port import Port
from engine.rep.serving.questions import NodeFacts, Questions
from engine.rep.settings import Role
from engine.rep.syncup import (
    Action,
    SyncupPlan,
    check_rollback_limit,
    find_plan,
    refuse_without_restore,
)
from engine.rep.wire.election_lines import LEARNER, MasterAnswer, MasterQuery
from engine.rep.wire.group_lines import Members
from engine.storage.base import Storage
from engine.vlsn.vlsn_range import EMPTY_RANGE, VLSNRange

_FOLLOWING: Final = ("MASTER", "REPLICA")
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 8.0
# A master drops a silent node after 30 s: a name that is in use for longer is another node's.
_NAME_PATIENCE_S: Final = 60.0
# Copying files takes less time than replaying more than this.
_MOST_REPLAYED: Final = 20_000
_SYNC_INTERVAL_S: Final = 0.05
# The master has gone, or is none yet: another round may find it.
_PASSING: Final = (DisconnectedError, ServiceError)


class JoinedNode:
    """A running node; ``start`` begins, ``stop`` ends.

    Arguments:
        storage: the directory of the environment.
        config: how it joins.
        network: how to get to the nodes of the group.
        listener: hears the steps of recovery, rollback and restore.

    Attributes:
        role: replica while the stream comes, unknown while there is no master.
        failure: what stopped the node, or None.
        problem: why it has no master at the moment, or None.
    """

    def __init__(self, storage: Storage, config: JoinConfig, network: Network, listener: Listener = SILENT) -> None:
        check_name("node", config.name)
        if config.group is not None:
            check_group(config.group)
        self.config = config
        self._storage = storage
        self._network = network
        self._listener = listener
        self._addresses = list(config.addresses)
        self._env: Environment | None = None
        self._link: MasterLink | None = None
        self._replay: Replay | None = None
        self._membership: Membership | None = None
        self._restore = NetworkRestore(storage, network, config.timeout_s, listener, lambda: self._stopping)
        self._changed = threading.Condition()
        self._stopping = False
        self._has_followed = False
        self._taken_since = 0.0
        self._master = self._master_name = ""
        self._role_since = time.time()
        self._master_vlsn = 0
        self._group = config.group or ""
        self._node_id = NEW_NODE
        self._elected: MasterAnswer | None = None
        self._copies = LogFileServer(self)
        services = {**Questions(self.facts).services, **self._copies.services}
        tls = server_context(config.tls) if config.tls is not None else None
        self._port = Port(config.listen, lambda: services, tls) if config.answers else None
        self._thread = threading.Thread(target=self._main, name=f"{config.name} main", daemon=True)
        self.role = Role.UNKNOWN
        self.failure: Exception | None = None
        self.problem: JetoolError | None = None

    @property
    def environment(self) -> Environment | None:
        """The environment; another object after a rollback or restore, None where there is none yet."""
        return self._env

    def start(self) -> None:
        """Open the environment if there is one, and look for the master.

        Raises:
            JetoolError: as ``Environment``. RefusedError: it belongs to another group. UsageError: it is not
                replicated. UnsupportedError: its log version is a later one than entries of the stream have here.
        """
        # A network restore that was cut off left its marker: there is nothing to open before it is complete.
        if holds_log(self._storage) and self._storage.stat(MARKER) is None:
            self._open()
        try:
            if self._port is not None:
                self._port.start()
        except JetoolError:
            self._close()
            raise
        self._thread.start()

    def stop(self) -> None:
        """Leave the group, and close the environment."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._link is not None:
            self._link.close()
        if self._thread.is_alive():
            self._thread.join()
        if self._port is not None:
            self._port.close()
        self._copies.end_all()
        self._close()

    def _close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            index = env.engine.vlsn_index
            if index is not None:
                index.close(flush=False)
            env.close()

    def await_end(self, timeout_s: float) -> bool:
        """Wait until the node has failed; False when it has not in that time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.failure is not None, timeout_s)

    def await_vlsn(self, vlsn: int, timeout_s: float) -> bool:
        """Wait until this node has a VLSN, durable; False when it has not in that time."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0 and self.failure is None:
            replay = self._replay
            if replay is None:
                self.await_end(min(left, _SYNC_INTERVAL_S))
            elif replay.await_vlsn(vlsn, min(left, 1.0)):
                return True
        return False

    def status(self) -> NodeStatus:
        """What the node says of itself."""
        replay, members, found = self._replay, self._membership, self.stream_range()
        return NodeStatus(
            group=(members.group.name if members is not None else self.config.group) or "",
            node=self.config.name,
            role=self.role.value,
            master=self._master,
            first_vlsn=found.first,
            last_vlsn=found.last,
            last_sync=found.last_sync,
            last_txn_end=found.last_txn_end,
            dtvlsn=max(replay.dtvlsn, 0) if replay is not None else 0,
            replicas=(),
        )

    def facts(self) -> NodeFacts:
        """What the node answers to others."""
        env, found = self._env, self.stream_range()
        members = committed_members(env.engine) if env is not None else None
        return NodeFacts(
            group=self._group,
            node=self.config.name,
            master=self._master_name,
            state=self.role.value.upper(),
            joined_ms=int(self._role_since * 1000),
            commit_vlsn=found.last_txn_end,
            master_commit_vlsn=self._master_vlsn,
            members=Members(*members) if members is not None else None,
            node_id=self._node_id,
            elected=self._elected,
        )

    def node_id(self) -> int:
        """Its id, while it follows a master."""
        return self._node_id

    def feeders(self) -> int:
        """It feeds nobody."""
        return 0

    def stream_range(self) -> VLSNRange:
        """What part of the stream it has."""
        env = self._env
        return env.engine.stream_range if env is not None else EMPTY_RANGE

    def begin_copy(self) -> FileList:
        """Begin a copy of the log files."""
        env = self._env
        if env is None:
            raise RefusedError("this node has no log yet")
        return EngineFiles(env.engine, lambda: self._env.engine if self._env is not None else None)

    # The main thread.

    def _main(self) -> None:
        pause = _FIRST_PAUSE_S
        try:
            while not self._stopping:
                try:
                    self._round()
                    pause = _FIRST_PAUSE_S
                except _PASSING as error:
                    pause = _FIRST_PAUSE_S if self.role is Role.REPLICA else min(2 * pause, _LONGEST_PAUSE_S)
                    self.problem = error
                except NameInUseError as error:
                    self._wait_for_name(error)
                finally:
                    self._leave()
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, pause)
        except Exception as error:  # A bug too must be told, and not leave a node that seems to run.
            if not self._stopping or not isinstance(error, JetoolError):
                with self._changed:
                    self.failure = error
                    self._changed.notify_all()

    def _round(self) -> None:
        """Follow the master that is there now until it is gone; return when another round is needed."""
        found = self._look()
        address = found.master_address
        master = next((node for node in found.nodes if node.address == address), None)
        if address is None or master is None:
            raise DisconnectedError(f"group {found.group} has no master now")
        if self._env is None:
            self._begin(found, master)
        env = self._env
        if env is None or self._stopping:
            return
        self._link = link = self._joined(address, found.group)
        plan = find_plan(env.engine, link.ask)
        if plan.action is Action.SOFT_ROLLBACK and plan.matchpoint is not None:
            rollback = SoftRollback(env.engine, plan.matchpoint, self._listener)
            if self.stream_range().last > plan.matchpoint.vlsn:
                with self._copies.log_changes():
                    rollback.run()
        if plan.action not in (Action.START, Action.SOFT_ROLLBACK):
            # The next questions would not be for lower VLSNs: they need a connection of their own.
            link.close()
            with self._copies.log_changes():
                self._begin_again(env, plan, found, master)
            return
        self._replay = replay = Replay(env.engine, of_je=True)
        link.start(plan.start)
        self._has_followed, self.problem = True, None
        self._master, self._master_name = address_text(address), master.name
        self._elected = self._learned(address, found.group)
        self._follow(env, link, replay)

    def _look(self) -> GroupLook:
        members = self._members()
        known = members.group.name if members is not None else None
        wanted = self.config.group or known
        if known is not None and wanted != known:
            raise RefusedError(
                "the environment is of another group", file=self._storage.root, expected=wanted, found=known,
                consequence="it has not joined; nothing was changed",
                hint="a node of one group joins another with an empty directory only",
            )  # fmt: skip
        try:
            found = look(self._network, self._addresses, wanted, self.config.timeout_s)
        except (NotFoundError, PeerError) as error:
            # At the beginning somebody may have mistyped; later all nodes may be down, or start, or say nothing yet.
            if not self._has_followed and members is None:
                raise
            raise DisconnectedError(f"group {wanted} cannot be looked at", found=str(error)) from error
        self._group = found.group
        # Any of them leads back, whichever was named; this node itself does not.
        known_now = [*self._addresses, *(node.address for node in found.nodes)]
        self._addresses = [address for address in dict.fromkeys(known_now) if address != self.config.listen]
        return found

    def _joined(self, address: Address, group: str) -> MasterLink:
        members = self._members()
        uuid = (members.group.uuid_high, members.group.uuid_low) if members is not None else UNKNOWN_UUID
        joining = Joining(self.config.name, *self.config.listen, self.config.node_type)
        config = self.config
        joined = join(
            self._network, address, group, config.timeout_s, force=config.force, uuid=uuid, joining=joining
        )  # fmt: skip
        self._taken_since, self._node_id = 0.0, joined.node_id
        if abs(joined.clock_ms) > config.max_skew_ms:
            joined.call.close()
            raise RefusedError(
                f"the clock of {joined.call.peer} is {abs(joined.clock_ms)} ms"
                f" {'ahead of' if joined.clock_ms > 0 else 'after'} the one here",
                expected=f"at most {config.max_skew_ms} ms",
                consequence="it has not joined; nothing was changed",
                hint="set the clocks of both machines by the same server, then start the node again",
            )
        return MasterLink(joined)

    def _learned(self, address: Address, group: str) -> MasterAnswer | None:
        """The result of the election of a master, as it names itself; others will ask this node for it."""
        try:
            answer = ask(self._network, address, LEARNER, group, MasterQuery(), self.config.timeout_s)
        except PeerError:
            return None
        said = answer[1] if answer is not None else None
        return said if isinstance(said, MasterAnswer) and said.value.node == self._master_name else None

    def _follow(self, env: Environment, link: MasterLink, replay: Replay) -> None:
        """Replay until the master is gone."""
        synced = 0.0
        self._become(Role.REPLICA)
        while not self._stopping:
            heard = link.heartbeats
            for entry in link.receive():
                replay.redo(entry)
            replay.master_vlsn = self._master_vlsn = link.master_vlsn
            now = time.monotonic()
            # One fsync for all that has come; what is left comes with the next heartbeat.
            if now - synced > _SYNC_INTERVAL_S or link.heartbeats > heard:
                replay.sync()
                synced = now
            if link.heartbeats > heard:
                here = env.engine.stream_range
                link.report(max(here.last_txn_end, 0))

    def _begin(self, found: GroupLook, master: NodeLook) -> None:
        """The first environment: a copy where there is much to copy or a copy was cut off, a new one otherwise."""
        said = master.said
        # Entries of a later log version can be replayed in the form of this one; files cannot be taken over.
        worth = said is not None and said.commit_vlsn > _MOST_REPLAYED and said.log_version <= WRITTEN_VERSION
        if worth or self._storage.stat(MARKER) is not None:
            self._copy(found)
        self._open()

    def _begin_again(self, env: Environment, plan: SyncupPlan, found: GroupLook, master: NodeLook) -> None:
        """Cut the log or replace it, and open what is then there."""
        engine = env.engine
        if plan.action is Action.HARD_RECOVERY and plan.matchpoint is not None:
            check_rollback_limit(engine, plan, self.config.rollback_limit)
            _confirm(found, master)
            self._env = None
            self._env = hard_recover(engine, plan.matchpoint, self._listener)
            return
        # Where there is nothing of a stream, there is nothing to lose.
        if not self.config.restore and not engine.stream_range.is_empty:
            refuse_without_restore(plan, env.home)
        _confirm(found, master)
        # A checkpoint would be of no use: the files are about to be replaced.
        engine.crash()
        self._env = None
        self._copy(found)
        self._open()

    def _copy(self, found: GroupLook) -> None:
        node = choose(
            self._network, found, None, self.config.timeout_s, allow_master=True, force=self.config.force
        )  # fmt: skip
        assert node.said is not None
        if node.said.log_version > WRITTEN_VERSION:
            raise _later_version(node.name, node.said.log_version)
        self._restore.run(node.address)

    def _open(self) -> None:
        env = Environment(self._storage, replica_config(self.config.environment), self._listener)
        if not env.replicated:
            env.close()
            raise UsageError("the environment is not replicated", file=self._storage.root)
        if env.engine.log_version > WRITTEN_VERSION:
            env.close()
            raise _later_version(self._storage.root, env.engine.log_version)
        self._env = env

    def _members(self) -> Membership | None:
        """The group, as soon as its database has come."""
        if self._membership is None and self._env is not None:
            self._membership = read_membership(self._env.engine)
        return self._membership

    def _wait_for_name(self, error: NameInUseError) -> None:
        """After a cut the master may take the old connection for alive; a name that stays taken is another node's."""
        now = time.monotonic()
        self._taken_since = self._taken_since or now
        if now - self._taken_since > _NAME_PATIENCE_S:
            raise NameInUseError(
                f"the group has an active node {self.config.name!r} already",
                found=error.found,
                consequence="it has not joined; nothing was changed",
                hint="give this one another --node",
            )
        self.problem = error

    def _leave(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = self._replay = None
        self._become(Role.UNKNOWN)

    def _become(self, role: Role) -> None:
        with self._changed:
            if role is not self.role:
                self._role_since = time.time()
            self.role = role
            self._changed.notify_all()


def _confirm(found: GroupLook, master: NodeLook) -> None:
    """Give nothing up for a master that a majority of the electable members does not follow.

    Raises:
        DisconnectedError: they do not, or not yet.
    """
    voters = [node for node in found.nodes if node.member is not None and node.member.type == ELECTABLE]
    followers = [
        node for node in voters
        if node.said is not None and node.said.state in _FOLLOWING and node.said.master == master.name
    ]  # fmt: skip
    if 2 * len(followers) <= len(voters):
        raise DisconnectedError(
            f"{master.name} is not known to be followed by a majority",
            expected=f"more than half of {plural(len(voters), 'electable member')}",
            found=str(len(followers)),
            consequence="this node gives up nothing of its log for it, and waits",
        )


def _later_version(where: str, version: int) -> UnsupportedError:
    return UnsupportedError(
        "a node of this log version cannot be followed by copying its files",
        file=where,
        expected=f"log version {WRITTEN_VERSION} or earlier",
        found=str(version),
        consequence="entries would lose the times that later versions keep; nothing was changed",
        hint="an empty directory follows such a group from VLSN 1, as long as its master still has that",
    )
