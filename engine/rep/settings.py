"""How a node takes part in its group."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from engine.db.config import EnvironmentConfig
from engine.rep.acks import AckPolicy
from engine.rep.handshake import DEFAULT_MAX_SKEW_MS
from engine.rep.syncup import DEFAULT_ROLLBACK_LIMIT

Address = tuple[str, int]


class Role(Enum):
    """What a node is at a moment."""

    UNKNOWN = "unknown"
    REPLICA = "replica"
    MASTER = "master"


@dataclass(frozen=True, slots=True)
class ElectionConfig:
    """How a node takes part in elections.

    Attributes:
        priority: of two nodes whose logs are equally new the one with the higher number is elected; with 0 none is.
        timeout_s: a master that is silent for so long is given up; one that hears no majority for so long gives up.
    """

    priority: int = 1
    timeout_s: float = 5.0


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """How a node takes part.

    Attributes:
        name, group: of the node, and of the group that it makes or joins.
        listen: where it listens; the address by which the others call it.
        peers: addresses of the others.
        secret: shared by all nodes, at least 16 bytes.
        master: lead from the start.
        election: the master is elected; all nodes name the same peers then. None: it is named by hand.
        policy, ack_timeout_s: for the commits of a master.
        rollback_limit: durable commits that this node may give up to join.
        restore: replace its files by the master's when nothing else helps.
        heartbeat_s: longest silence of a master; after fifteen times that it is given up.
        retry_s: pause between two rounds of calling the peers.
        max_skew_ms: largest difference of clocks.
        environment: how the environment is opened.
    """

    name: str
    listen: Address
    peers: tuple[Address, ...]
    secret: bytes
    group: str = "jetool"
    master: bool = False
    election: ElectionConfig | None = None
    policy: AckPolicy = AckPolicy.SIMPLE_MAJORITY
    ack_timeout_s: float = 5.0
    rollback_limit: int = DEFAULT_ROLLBACK_LIMIT
    restore: bool = False
    heartbeat_s: float = 1.0
    retry_s: float = 0.3
    max_skew_ms: int = DEFAULT_MAX_SKEW_MS
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
