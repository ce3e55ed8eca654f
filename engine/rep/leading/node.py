"""A node that leads a group of JE: it is told to stand, and leads when it is elected, or not at all.

* In an empty directory it makes a new group, whose only member it is. Nodes of JE join it as they join any master.
* In the environment of a group it stands for election by the other electable members (``engine.rep.leading.voting``):
  no commit that was acknowledged is lost, and no other node is master. A group of which it is the only electable member
  needs nobody else.
* The electable members elect another master when this one is gone, as they do for a master of JE; while it is there
  their elections end with it (``engine.rep.leading.voting``). When they have elected another one while it was cut off,
  it hears of that, acknowledges nothing any more, and stops: ``failure`` says so. Commits that need a majority were not
  acknowledged meanwhile.

Example: ``LeadingNode`` with group ``G`` in an empty directory logs VLSN 1 to 11; a JVM that has it as its helper joins
as ELECTABLE, and is a member with VLSN 16.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Final

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError, NotFoundError, RefusedError, UnsupportedError, UsageError
from engine.events import SILENT, Listener
from engine.format.versions import WRITTEN_VERSION
from engine.rep.client.connection import Address, Network
from engine.rep.client.looking import MASTER, check_group, look
from engine.rep.client.tls import TlsFiles, server_context
from engine.rep.group import ELECTABLE, check_name, committed_members
from engine.rep.leading.group_changes import GroupChanges
from engine.rep.leading.membership import form_group
from engine.rep.leading.term import LeadConfig, Leadership, check_member, logged_dtvlsn, stream_of
from engine.rep.leading.voting import (
    Acceptor,
    Herald,
    Standing,
    TooFewVotersError,
    new_proposal,
    running_master,
    stand,
)
from engine.rep.peers import PeerError, address_text
from engine.rep.restore import holds_log, replica_config
from engine.rep.serving.copies import EngineFiles, FileList, LogFileServer
from engine.rep.serving.port import Port, Service
from engine.rep.serving.questions import NodeFacts, Questions
from engine.rep.serving.record_requests import RecordRequests
from engine.rep.status import NodeStatus, Role
from engine.rep.wire.election_lines import MasterAnswer, Proposal, Result, Suggestion
from engine.rep.wire.group_lines import Members
from engine.rep.wire.lines import TextMessage
from engine.storage.base import Storage
from engine.vlsn.vlsn_range import EMPTY_RANGE, VLSNRange

_PAUSE_S: Final = 0.01
_ACTIVE: Final = (MASTER, "REPLICA")


@dataclass(frozen=True, slots=True)
class LeadingConfig:
    """How a node leads a group of JE.

    Attributes:
        name: of the node.
        listen: where it listens; the address that the group knows.
        group: its name; None to take it from the environment.
        lead: the policy of its commits.
        force: lead also when too few members answer to compare them; never beside another master.
        timeout_s: the longest wait for each answer of another member.
        tls: what callers are shown, and which are trusted; None: without TLS.
        environment: how the environment is opened.
    """

    name: str
    listen: Address
    group: str | None = None
    lead: LeadConfig = field(default_factory=LeadConfig)
    force: bool = False
    timeout_s: float = 5.0
    tls: TlsFiles | None = None
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)


class LeadingNode:
    """A running node; ``start`` begins, ``stop`` ends.

    Arguments:
        storage: the directory of the environment, made when it is missing.
        config: how it leads.
        network: how to get to other members.
        listener: hears the steps of recovery.

    Attributes:
        failure: what stopped the node, or None.
        problem: what went wrong with a replica last, or None.
    """

    def __init__(self, storage: Storage, config: LeadingConfig, network: Network, listener: Listener = SILENT) -> None:
        check_name("node", config.name)
        if config.group is not None:
            check_group(config.group)
        self.config = config
        self._storage = storage
        self._network = network
        self._listener = listener
        self._env: Environment | None = None
        self._term: Leadership | None = None
        self._elected: MasterAnswer | None = None
        self._acceptor: Acceptor | None = None
        self._herald: Herald | None = None
        self._since = time.time()
        self._changed = threading.Condition()
        self._copies = LogFileServer(self)
        self._questions = Questions(self.facts, self._heard, self._change)
        self._records = RecordRequests(self)
        tls = server_context(config.tls) if config.tls is not None else None
        self._port = Port(config.listen, self._services, tls)
        self.failure: Exception | None = None

    # What callers use.

    @property
    def role(self) -> Role:
        """What it is now."""
        return Role.MASTER if self._term is not None and self.failure is None else Role.UNKNOWN

    @property
    def problem(self) -> JetoolError | None:
        """What went wrong with a replica last."""
        return self._term.problem if self._term is not None else None

    @property
    def environment(self) -> Environment:
        """The environment, to read and to write.

        Raises:
            RefusedError: the node is not running.
        """
        if self._env is None:
            raise RefusedError("the node is not running")
        return self._env

    def start(self) -> None:
        """Open or make the environment, and lead.

        Raises:
            JetoolError: as ``Environment``; StorageError when the address cannot be listened on. RefusedError: it may
                not lead; nothing was changed. UsageError: the environment is not replicated, or a new group has no
                name.
        """
        config = self.config
        if config.group is None and not holds_log(self._storage):
            raise UsageError("a new group needs a name", hint="give --group")
        # First of all: where the address is taken nothing is to be made.
        self._port.start()
        try:
            env = Environment(self._storage, replica_config(config.environment), self._listener)
        except JetoolError:
            self._port.close()
            raise
        try:
            elected = self._check(env)
            if stream_of(env).is_empty:
                form_group(env, config.group or "", config.name, config.listen)
            term = Leadership(env, config.name, config.listen, config.lead, self._failed)
        except JetoolError:
            self._port.close()
            env.close()
            raise
        self._env, self._term = env, term
        value = Suggestion(*config.listen, config.name, term.pair.id)
        # Alone it is elected by itself: later than before, on whatever machine.
        proposal = elected or new_proposal()
        self._elected = MasterAnswer(proposal=proposal, value=value)
        self._acceptor = Acceptor(self.facts, lambda: running_master(value), proposal, value)
        group, timeout_s = term.group.name or "", config.timeout_s
        self._herald = Herald(
            self._network, group, config.listen, lambda: term.members.nodes, self._own_election, timeout_s
        )  # fmt: skip
        self._herald.start()

    def stop(self) -> None:
        """End all connections and close the environment."""
        if self._herald is not None:
            self._herald.close()
        if self._term is not None:
            self._term.close("the node is being stopped")
        self._port.close()
        self._copies.end_all()
        env, self._env = self._env, None
        if env is not None and self.failure is None:
            env.close()
        elif env is not None:
            # What another master has may part from here on: nothing more is logged.
            env.engine.crash()

    def await_end(self, timeout_s: float) -> bool:
        """Wait until the node has failed; False when it has not in that time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.failure is not None, timeout_s)

    def await_vlsn(self, vlsn: int, timeout_s: float) -> bool:
        """Wait until the node has a VLSN."""
        deadline = time.monotonic() + timeout_s
        while self.stream_range().last < vlsn:
            if time.monotonic() > deadline:
                return False
            time.sleep(_PAUSE_S)
        return True

    def status(self) -> NodeStatus:
        """What the node says of itself."""
        found, term = self.stream_range(), self._term
        return NodeStatus(
            group=term.group.name or "" if term is not None else self.config.group or "",
            node=self.config.name,
            role=self.role.value,
            master=address_text(self.config.listen) if self.role is Role.MASTER else "",
            first_vlsn=found.first,
            last_vlsn=found.last,
            last_sync=found.last_sync,
            last_txn_end=found.last_txn_end,
            dtvlsn=term.gate.dtvlsn if term is not None else 0,
            replicas=term.replicas() if term is not None else (),
        )

    # What others ask for.

    def facts(self) -> NodeFacts:
        """What the node answers to others."""
        found, term = self.stream_range(), self._term
        leads = term is not None and self.role is Role.MASTER
        return NodeFacts(
            group=term.group.name or "" if term is not None else self.config.group or "",
            node=self.config.name,
            master=self.config.name if leads else "",
            state=MASTER if leads else "UNKNOWN",
            joined_ms=int(self._since * 1000),
            commit_vlsn=max(found.last_txn_end, 0),
            master_commit_vlsn=0,
            members=Members(*term.members) if term is not None else None,
            node_id=self.node_id(),
            elected=self._elected,
            feeders=self.feeders(),
        )

    def node_id(self) -> int:
        """Its id in the group."""
        return self._term.pair.id if self._term is not None else -1

    def feeders(self) -> int:
        """How many replicas it feeds."""
        return self._term.feeders if self._term is not None else 0

    def stream_range(self) -> VLSNRange:
        """What part of the stream it has."""
        return stream_of(self._env) if self._env is not None else EMPTY_RANGE

    def begin_copy(self) -> FileList:
        """Begin a copy of the log files."""
        engine = self.environment.engine
        return EngineFiles(engine, lambda: self._env.engine if self._env is not None else None)

    def _services(self) -> dict[str, Service]:
        term = self._term
        found = {**self._questions.services, **self._copies.services, **self._records.services}
        if term is None or self._acceptor is None or self.role is not Role.MASTER:
            return found
        return {**found, **term.services, **self._acceptor.services}

    def _change(self, message: TextMessage) -> TextMessage:
        assert self._term is not None
        return GroupChanges(self._term, self._announce).answer(message)

    def _announce(self, result: Result) -> None:
        """Another node is master from now on: it hears that first, and this one last."""
        if self._herald is not None:
            self._herald.close()
            self._herald.tell(result)
        self._heard(result)

    def _own_election(self) -> MasterAnswer | None:
        return self._elected if self.role is Role.MASTER else None

    def _heard(self, result: Result) -> None:
        """The result of an election: of a later one than the term of this node it ends that."""
        with self._changed:
            elected = self._elected
            if elected is None or result.proposal <= elected.proposal:
                return
            self._elected = MasterAnswer(proposal=result.proposal, value=result.value)
            if result.value.node == self.config.name:
                return
            self.failure = RefusedError(
                f"{result.value.node} at {result.value.host}:{result.value.port} is the master now",
                consequence="this node leads no more, and has stopped; commits without an acknowledgement may be lost",
                hint="jetool group show names the master; node run --join --type electable goes on as this member",
            )
            self._changed.notify_all()
        self._end_term("another node was elected")

    def _failed(self, error: JetoolError) -> None:
        """The environment takes nothing more: the others elect a master, as soon as this one says nothing."""
        with self._changed:
            self.failure = self.failure or error
            self._changed.notify_all()
        self._end_term("its environment has failed")

    def _end_term(self, why: str) -> None:
        """Its threads end one after the other; who tells of the end may be one of them."""
        if self._term is not None:
            self._term.gate.close(why)
            threading.Thread(target=self._term.close, args=(why,), daemon=True).start()

    # Whether it may lead.

    def _check(self, env: Environment) -> Proposal | None:
        """Refuse what cannot be; be elected where there are others that vote, and give the proposal."""
        config = self.config
        if not env.replicated:
            raise UsageError("the environment is not replicated", file=self._storage.root)
        if env.engine.log_version > WRITTEN_VERSION:
            raise UnsupportedError(
                "a group cannot be led from a log of this version", file=self._storage.root,
                expected=f"log version {WRITTEN_VERSION} or earlier", found=str(env.engine.log_version),
                consequence="entries would lose the times that later versions keep; nothing was changed",
            )  # fmt: skip
        members = committed_members(env.engine)
        if members is None:
            return None
        if config.group is not None and config.group != members.group.name:
            raise RefusedError(
                "the environment is of another group", file=self._storage.root, expected=config.group,
                found=members.group.name, consequence="it does not lead; nothing was changed",
            )  # fmt: skip
        mine = check_member(env, config.name, config.listen)
        voters = [node for node in members.nodes if node.type == ELECTABLE and not node.removed]
        others = tuple((node.host or "", node.port) for node in voters if node.name != config.name)
        if not others:
            return None
        group = members.group.name or ""
        self._refuse_beside_another(env, group, others)
        value = Suggestion(*config.listen, config.name, mine.id)
        standing = Standing(group, value, (logged_dtvlsn(env), max(stream_of(env).last, 0)), others)
        try:
            return stand(self._network, standing, config.timeout_s, env.home)
        except TooFewVotersError:
            if config.force:
                return None
            raise

    def _refuse_beside_another(self, env: Environment, group: str, others: tuple[Address, ...]) -> None:
        """Before anybody is asked to vote: a running master would have to answer that, too."""
        try:
            found = look(self._network, others, group, self.config.timeout_s)
        except (NotFoundError, PeerError):
            return
        for node in found.nodes:
            # The master itself, or who follows one that cannot be reached from here.
            if node.said is not None and node.state in _ACTIVE and node.said.master != self.config.name:
                raise RefusedError(
                    f"{node.said.master} is the master of the group", file=env.home,
                    consequence="it does not lead; nothing was changed",
                    hint="jetool node run --join --type electable goes on as this member",
                )  # fmt: skip
