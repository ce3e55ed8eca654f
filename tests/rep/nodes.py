"""Nodes on loopback, in this process."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from engine.rep.acks import AckPolicy
from engine.rep.node import Node
from engine.rep.settings import NodeConfig, Role
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage
from tests.db.workload import SMALL

SECRET = b"a secret of the tests, long enough"
Address = tuple[str, int]


def free_ports(count: int) -> list[Address]:
    """Addresses on loopback that nobody uses at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [sock.getsockname()[:2] for sock in sockets]
    for sock in sockets:
        sock.close()
    return addresses


def config_of(number: int, addresses: list[Address], **changes: Any) -> NodeConfig:
    """The settings of the node of a number."""
    peers = tuple(address for at, address in enumerate(addresses) if at != number)
    plain = NodeConfig(
        f"node{number + 1}", addresses[number], peers, SECRET, "GROUP", heartbeat_s=0.2, retry_s=0.05,
        policy=AckPolicy.SIMPLE_MAJORITY, ack_timeout_s=5, environment=replace(SMALL, lock_timeout_ms=1000),
    )  # fmt: skip
    return replace(plain, **changes)


def started(storage: Storage, config: NodeConfig) -> Node:
    """A running node."""
    node = Node(storage, config)
    node.start()
    return node


@contextmanager
def group_of(count: int, **changes: Any) -> Iterator[list[Node]]:
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


def eventually(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.01)
