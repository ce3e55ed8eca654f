"""Nodes on loopback, in this process."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from engine.errors import JetoolError
from engine.rep.acks import AckPolicy
from engine.rep.node import RepNode
from engine.rep.settings import ElectionConfig, NodeConfig, Role
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage
from tests.db.workload import SMALL
from tests.rep.proxy import Network

SECRET = b"a secret of the tests, long enough"
# The longest that anything may take on a busy machine, and the election timeout: short, but above its pauses.
PATIENCE_S = 40
TIMEOUT_S = 0.8
_PORTS_EACH = 1500
_PORTS_FROM = 10_000 + _PORTS_EACH * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 12)
_SEEDED = random.Random(os.getpid())
Address = tuple[str, int]


def free_ports(count: int) -> list[Address]:
    """Addresses on loopback that nobody uses at the moment.

    They lie below the ports that systems give to those who call, and each test process has its own.
    """
    found: set[int] = set()
    while len(found) < count:
        port = _PORTS_FROM + _SEEDED.randrange(_PORTS_EACH)
        with contextlib.suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            found.add(port)
    return [("127.0.0.1", port) for port in sorted(found)]


def config_of(number: int, addresses: list[Address], **changes: Any) -> NodeConfig:
    """The settings of the node of a number."""
    peers = tuple(address for at, address in enumerate(addresses) if at != number)
    plain = NodeConfig(
        f"node{number + 1}", addresses[number], peers, SECRET, "GROUP", heartbeat_s=0.2, retry_s=0.05,
        policy=AckPolicy.SIMPLE_MAJORITY, ack_timeout_s=5, environment=replace(SMALL, lock_timeout_ms=1000),
    )  # fmt: skip
    return replace(plain, **changes)


def started(storage: Storage, config: NodeConfig) -> RepNode:
    """A running node."""
    node = RepNode(storage, config)
    node.start()
    return node


@contextmanager
def group_of(count: int, **changes: Any) -> Iterator[list[RepNode]]:
    """Running nodes in memory, the first one master, all connected."""
    addresses = free_ports(count)
    nodes = [started(MemoryStorage(), config_of(n, addresses, master=n == 0, **changes)) for n in range(count)]
    try:
        assert nodes[0].await_role(Role.MASTER, 10), nodes[0].failure
        for node in nodes[1:]:
            assert node.await_role(Role.REPLICA, 10), node.failure or node.problem
        eventually(lambda: len(nodes[0].status().replicas) == count - 1)
        yield nodes
    finally:
        for node in nodes:
            node.stop()


class ElectedGroup:
    """Nodes in memory that elect their master, and the network between them.

    Arguments:
        priorities: of the nodes; one of each.
        changes: other settings of all.
    """

    def __init__(self, priorities: Sequence[int], **changes: Any) -> None:
        self.addresses = free_ports(len(priorities))
        self.storages: list[Storage] = [MemoryStorage() for _ in priorities]
        self.network = Network([port for _, port in self.addresses])
        self._priorities = list(priorities)
        self._changes = changes
        self.nodes: dict[int, RepNode] = {}

    def start(self, *numbers: int, **changes: Any) -> None:
        """Start nodes that do not run."""
        for n in numbers:
            election = ElectionConfig(self._priorities[n], TIMEOUT_S)
            seen = [self.addresses[n] if n == b else ("127.0.0.1", self.network.port(n, b)) for b in self._all]
            self.nodes[n] = started(
                self.storages[n], config_of(n, seen, **{"election": election, **self._changes, **changes})
            )

    def crash(self, n: int) -> None:
        """End a node without a checkpoint."""
        node = self.nodes.pop(n)
        with contextlib.suppress(JetoolError):
            node.environment.engine.crash()
        node.stop()

    def master(self, *among: int) -> int:
        """Wait until one of the nodes, all when none is named, is the master; which it is."""
        numbers = among or tuple(self.nodes)
        eventually(lambda: any(self.nodes[n].role is Role.MASTER for n in numbers), PATIENCE_S)
        return next(n for n in numbers if self.nodes[n].role is Role.MASTER)

    def settled(self) -> int:
        """Wait until the nodes that run are members, and have one master that all others follow; which it is."""

        def settled() -> bool:
            roles = sorted(node.role.value for node in self.nodes.values())
            master = next((node for node in self.nodes.values() if node.role is Role.MASTER), None)
            if master is None or roles[1:] != ["replica"] * (len(roles) - 1):
                return False
            last = master.status().last_vlsn
            positions = [node.position() for node in self.nodes.values()]
            return all(found is not None and found.may_lead and found.last_vlsn == last for found in positions)

        eventually(settled, PATIENCE_S)
        return self.master()

    def close(self) -> None:
        """Stop everything."""
        for node in self.nodes.values():
            node.stop()
        self.network.close()

    @property
    def _all(self) -> range:
        return range(len(self.addresses))


@contextmanager
def elected_group(*priorities: int, **changes: Any) -> Iterator[ElectedGroup]:
    """A group whose nodes all run and follow an elected master."""
    group = ElectedGroup(priorities, **changes)
    try:
        group.start(*range(len(priorities)))
        group.settled()
        yield group
    finally:
        group.close()


def eventually(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.01)
