"""Masters of a group of JE in this process, and replicas that are played."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.format.entry.txn_end import TxnEnd
from engine.rep.acks import AckPolicy
from engine.rep.client.call import Call
from engine.rep.client.connection import Address, Network, SocketNetwork
from engine.rep.client.handshake import ELECTABLE, EXTERNAL, NodeIdentity, join
from engine.rep.master.term import LeadConfig
from engine.rep.member.node import JoinedNode
from engine.rep.wire import feeder as f
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.feeder import FEEDER
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage
from tests.support.groups.nodes import free_ports, leader
from tests.support.waiting import PATIENCE_S

GROUP = "WIREGRP"


@contextmanager
def leading(
    storage: Storage | None = None, network: Network | None = None, policy: AckPolicy = AckPolicy.SIMPLE_MAJORITY,
    **changes: Any,
) -> Iterator[JoinedNode]:  # fmt: skip
    """A running master, stopped at the end."""
    lead = LeadConfig(policy=policy, ack_timeout_s=changes.pop("ack_timeout_s", PATIENCE_S))
    listen = changes.pop("listen", None) or free_ports(1)[0]
    who = changes.pop("name", "n1"), listen, changes.pop("group", GROUP)
    node = leader(storage or MemoryStorage(), *who, network, lead=lead, **changes)
    try:
        yield node
    finally:
        node.stop()


class PlayedReplica:
    """A replica that says what the test wants, and believes everything.

    Arguments:
        address: of the master.
        name, node_type: who it is.
        port: where it says that it listens.
        network: how it gets to the master.
        log_version: of its log.
    """

    def __init__(
        self, address: Address, name: str, node_type: str = ELECTABLE, port: int = 7011, network: Network | None = None,
        log_version: int = 17,
    ) -> None:  # fmt: skip
        self._joined = join(
            network or SocketNetwork(),
            address,
            GROUP,
            PATIENCE_S,
            force=False,
            joining=NodeIdentity(name, "localhost", port, node_type, log_version),
        )
        self.id = self._joined.node_id
        self.call: Call = self._joined.call
        self.version = self._joined.version
        self.entries: list[WireEntry] = []
        self.awaited: list[f.Commit] = []
        self.beats: list[f.Heartbeat] = []

    def send(self, message: Any) -> None:
        self.call.send(FEEDER, self.version, message)

    def ask(self, vlsn: int, kind: int = f.DEFAULT) -> Any:
        """The answer to a request for an entry."""
        self.send(f.EntryRequest(vlsn=vlsn, kind=kind))
        return self.call.receive(FEEDER, self.version, f.Entry, f.AlternateMatchpoint, f.EntryNotFound)

    def start(self, vlsn: int = 1) -> None:
        self.ask(vlsn)
        self.send(f.StartStream(vlsn=vlsn, filter=b""))

    def read(self) -> None:
        """Take what comes next."""
        for one in self.call.stream(self.version, PATIENCE_S):
            if isinstance(one, f.Heartbeat):
                self.beats.append(one)
            elif isinstance(one, f.Commit):
                self.awaited.append(one)
                self.entries.append(one.entry)
            else:
                assert isinstance(one, WireEntry)
                self.entries.append(one)

    def read_to(self, vlsn: int) -> None:
        while not self.entries or self.entries[-1].vlsn < vlsn:
            self.read()

    @contextmanager
    def acknowledging(self) -> Iterator[None]:
        """Take what comes, and acknowledge it, meanwhile."""
        over = threading.Event()

        def go_on() -> None:
            done = len(self.awaited)
            while not over.is_set():
                self.read()
                for commit in self.awaited[done:]:
                    ended = commit.entry.record()
                    assert isinstance(ended, TxnEnd)
                    self.send(f.Ack(txn_id=ended.id))
                done = len(self.awaited)

        thread = threading.Thread(target=go_on, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def close(self) -> None:
        self.call.close()


def follower(node: JoinedNode, name: str = "n2", node_type: str = ELECTABLE, port: int = 7011) -> PlayedReplica:
    """A replica that follows from the beginning."""
    replica = PlayedReplica(node.config.listen, name, node_type, port)
    replica.start()
    replica.read_to(1)
    return replica


__all__ = ["ELECTABLE", "EXTERNAL", "GROUP", "PATIENCE_S", "PlayedReplica", "follower", "leading"]
