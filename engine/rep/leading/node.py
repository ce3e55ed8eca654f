"""A node that leads a group of JE."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError, RefusedError
from engine.events import SILENT, Listener
from engine.rep.client.connection import Address
from engine.rep.group import check_name
from engine.rep.leading.membership import form_group
from engine.rep.leading.term import LeadConfig, Leadership
from engine.rep.messages import NodeStatus
from engine.rep.replica import replica_config
from engine.rep.serving.copies import EngineFiles, FileList, LogFileServer
from engine.rep.serving.port import Port
from engine.rep.serving.questions import NodeFacts, Questions
from engine.rep.settings import Role
from engine.rep.wire.election_lines import MasterAnswer, Proposal, Suggestion
from engine.rep.wire.group_lines import Members
from engine.storage.base import Storage
from engine.vlsn.vlsn_range import VLSNRange


@dataclass(frozen=True)
class LeaderConfig:
    name: str
    listen: Address
    group: str
    lead: LeadConfig = LeadConfig()
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)


class LeadingNode:
    def __init__(self, storage: Storage, config: LeaderConfig, listener: Listener = SILENT) -> None:
        check_name("node", config.name)
        self.config = config
        self._storage = storage
        self._listener = listener
        self.env: Environment | None = None
        self.term: Leadership | None = None
        self._since = time.time()
        self._copies = LogFileServer(self)
        self._questions = Questions(self.facts)
        self._port = Port(config.listen, self._services)
        self.failure: Exception | None = None
        self.problem: JetoolError | None = None
        self._changed = threading.Condition()
        self._elected: MasterAnswer | None = None

    def start(self) -> None:
        config = self.config
        self.env = env = Environment(self._storage, replica_config(config.environment), self._listener)
        if env.engine.stream_range.is_empty:
            form_group(env, config.group, config.name, config.listen)
        self._port.start()
        self.term = Leadership(env, config.name, config.listen, config.lead)
        value = Suggestion(*config.listen, config.name, self.term.pair.id)
        self._elected = MasterAnswer(proposal=Proposal(int(time.time() * 1000), 1, 1), value=value)

    def stop(self) -> None:
        if self.term is not None:
            self.term.close("the node is being stopped")
        self._port.close()
        self._copies.end_all()
        if self.env is not None:
            self.env.close()

    def _services(self):
        found = {**self._questions.services, **self._copies.services}
        return {**found, **self.term.services} if self.term is not None else found

    def facts(self) -> NodeFacts:
        found, term = self.stream_range(), self.term
        return NodeFacts(
            group=self.config.group, node=self.config.name, master=self.config.name if term else "", state="MASTER" if term else "UNKNOWN",
            joined_ms=int(self._since * 1000), commit_vlsn=found.last_txn_end, master_commit_vlsn=0,
            members=Members(*term.members) if term else None, node_id=term.pair.id if term else -1, elected=self._elected, feeders=self.feeders(),
        )

    def node_id(self) -> int:
        return self.term.pair.id if self.term else -1

    def feeders(self) -> int:
        return self.term.feeders if self.term else 0

    def stream_range(self) -> VLSNRange:
        assert self.env is not None
        return self.env.engine.stream_range

    def begin_copy(self) -> FileList:
        env = self.env
        if env is None:
            raise RefusedError("this node has no log yet")
        return EngineFiles(env.engine, lambda: self.env.engine if self.env is not None else None)
