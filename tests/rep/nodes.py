"""Addresses for nodes on loopback, and nodes in this process."""

from __future__ import annotations

import atexit
import socket
from collections import deque
from collections.abc import Iterator
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
from tests.support.waiting import PATIENCE_S, eventually

# Sockets that keep ports for the nodes of the latest tests.
_KEPT: deque[socket.socket] = deque()
_MOST_KEPT = 64


def free_ports(count: int) -> list[Address]:
    """Addresses on loopback that are the caller's: nobody else gets them while it starts, stops and restarts nodes.

    A bound socket that does not listen keeps each. The system gives such a port to nobody; it lets a server have it all
    the same, since both allow addresses to be used again.
    """
    found: list[Address] = []
    for _ in range(count):
        kept = socket.socket()
        _KEPT.append(kept)
        kept.bind(("127.0.0.1", 0))
        # Only now: the port was to be one that nobody has.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.append(("127.0.0.1", kept.getsockname()[1]))
    while len(_KEPT) > _MOST_KEPT:
        _KEPT.popleft().close()
    return found


@atexit.register
def _close_kept() -> None:
    for kept in _KEPT:
        kept.close()


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
