"""The state of a node at a moment, and how it is reported."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Role(Enum):
    """The state of a node at a moment."""

    UNKNOWN = "unknown"
    REPLICA = "replica"
    MASTER = "master"


class ReplicaProgress(NamedTuple):
    """A replica, from the view of its master."""

    node: str
    connected: bool
    acked_vlsn: int


class NodeStatus(NamedTuple):
    """The state that a node reports about itself.

    Attributes:
        role: master, replica, or unknown while it searches for the master.
        master: address of the master that the node knows, or empty.
        dtvlsn: the highest VLSN known to be durable on a majority.
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
