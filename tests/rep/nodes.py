"""Addresses for nodes on loopback, and nodes in this process."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from engine.rep.acks import AckPolicy
from engine.rep.client.connection import Address, SocketNetwork
from engine.rep.joined.config import JoinConfig
from engine.rep.joined.node import JoinedNode
from engine.rep.leading.node import LeadingConfig, LeadingNode
from engine.rep.leading.term import LeadConfig
from engine.rep.status import Role
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage
from tests.db.workload import SMALL

# The longest that anything may take on a busy machine.
PATIENCE_S = 40
_PORTS_EACH = 1500
_PORTS_FROM = 10_000 + _PORTS_EACH * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 12)
_SEEDED = random.Random(os.getpid())


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


@contextmanager
def group_of_two(
    policy: AckPolicy = AckPolicy.SIMPLE_MAJORITY, storage: Storage | None = None
) -> Iterator[tuple[LeadingNode, JoinedNode]]:
    """A master in memory, and an electable replica there or in ``storage``."""
    ours, theirs = free_ports(2)
    environment = replace(SMALL, lock_timeout_ms=1000)
    lead = LeadConfig(policy=policy, ack_timeout_s=PATIENCE_S)
    master = LeadingNode(
        MemoryStorage(), LeadingConfig("node1", ours, "GROUP", lead, environment=environment), SocketNetwork()
    )
    master.start()
    try:
        config = JoinConfig("node2", theirs, (ours,), "ELECTABLE", environment=environment)
        replica = JoinedNode(storage or MemoryStorage(), config, SocketNetwork())
        replica.start()
        try:
            eventually(lambda: replica.role is Role.REPLICA and has_replica(master))
            yield master, replica
        finally:
            replica.stop()
    finally:
        master.stop()


def has_replica(master: LeadingNode) -> bool:
    """Whether a replica is connected."""
    return any(replica.connected for replica in master.status().replicas)


def eventually(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.01)
