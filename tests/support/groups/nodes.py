"""Addresses for nodes on loopback, and nodes in this process."""

from __future__ import annotations

import atexit
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from engine.rep.acks import AckPolicy, GroupGate
from engine.rep.client.connection import Address, Network, SocketNetwork
from engine.rep.client.handshake import ELECTABLE
from engine.rep.intervals import NodeIntervals
from engine.rep.master.term import LeadConfig
from engine.rep.member.config import JoinConfig
from engine.rep.member.node import JoinedNode
from engine.rep.status import Role
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage
from tests.support.environments.workload import SMALL
from tests.support.waiting import PATIENCE_S, eventually

# Sockets that keep ports for the nodes of the latest tests.
_KEPT: deque[socket.socket] = deque()
_MOST_KEPT = 64
# Nodes of the tests do not wait a second for anything.
QUICK = NodeIntervals(first_pause_s=0.01, voter_pause_s=0.05, heartbeat_s=0.05)


def free_ports(count: int, host: str = "127.0.0.1") -> list[Address]:
    """Addresses on loopback that are the caller's: nobody else gets them while it starts, stops and restarts nodes.

    A bound socket that does not listen keeps each. The system gives such a port to nobody; it lets a server have it all
    the same, since both allow addresses to be used again.
    """
    found: list[Address] = []
    for _ in range(count):
        kept = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        _KEPT.append(kept)
        kept.bind((host, 0))
        # Only now: the port was to be one that nobody has.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.append((host, kept.getsockname()[1]))
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
) -> Iterator[tuple[JoinedNode, JoinedNode]]:
    """A master in memory, and an electable replica there or in ``storage``."""
    ours, theirs = free_ports(2)
    environment = replace(SMALL, lock_timeout_ms=1000)
    lead = LeadConfig(policy=policy, ack_timeout_s=PATIENCE_S)
    master = leader(MemoryStorage(), "node1", ours, "GROUP", lead=lead, environment=environment)
    try:
        config = JoinConfig("node2", theirs, (ours,), ELECTABLE, environment=environment, intervals=QUICK)
        replica = JoinedNode(storage or MemoryStorage(), config, SocketNetwork())
        replica.start()
        try:
            eventually(lambda: replica.role is Role.REPLICA and has_replica(master))
            yield master, replica
        finally:
            replica.stop()
    finally:
        master.stop()


def leader(
    storage: Storage, name: str, listen: Address, group: str | None, network: Network | None = None, **changes: Any
) -> JoinedNode:  # fmt: skip
    """A node that makes its group, or is elected in that of its environment; it leads."""
    config = JoinConfig(name, listen, (), ELECTABLE, 1, forms=True, group=group, environment=SMALL, intervals=QUICK)
    node = JoinedNode(storage, replace(config, **changes), network or SocketNetwork())
    try:
        node.start()
        eventually(lambda: node.role is Role.MASTER or node.failure is not None)
        if node.failure is not None:
            raise node.failure
    except BaseException:
        node.stop()
        raise
    return node


def gate_of(master: JoinedNode) -> GroupGate:
    """The gate of its commits."""
    gate = master.environment.engine.txns.gate
    assert isinstance(gate, GroupGate)
    return gate


@contextmanager
def waiting_for(master: JoinedNode, seconds: float) -> Iterator[None]:
    """Commits wait only so long meanwhile."""
    gate = gate_of(master)
    usual, gate.timeout_s = gate.timeout_s, seconds
    try:
        yield
    finally:
        gate.timeout_s = usual


def has_replica(master: JoinedNode) -> bool:
    """Whether a replica is connected."""
    return any(replica.connected for replica in master.status().replicas)
