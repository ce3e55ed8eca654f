"""What a node is at a moment, and what it says of itself."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Role(Enum):
    """What a node is at a moment."""

    UNKNOWN = "unknown"
    REPLICA = "replica"
    MASTER = "master"


class ReplicaProgress(NamedTuple):
    """A replica as its master sees it."""

    node: str
    connected: bool
    acked_vlsn: int


class NodeStatus(NamedTuple):
    """What a node says of itself.

    Attributes:
        role: master, replica, or unknown while it looks for the master.
        master: address of the master that it knows, or empty.
        dtvlsn: the highest VLSN that it knows to be durable on a majority.
    """

    group: str
    node: str
    role: str
    master: str
    first_vlsn: int
    last_vlsn: int
    last_sync: int
    last_txn_end: int
    dtvlsn: int
    replicas: tuple[ReplicaProgress, ...]
