"""How a node joins a group of JE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.db.config import EnvironmentConfig
from engine.rep.client.connection import Address
from engine.rep.client.handshake import ELECTABLE, SECONDARY
from engine.rep.client.tls import TlsFiles
from engine.rep.intervals import USUAL_INTERVALS, NodeIntervals
from engine.rep.master.term import LeadConfig
from engine.vlsn.syncup_decision import DEFAULT_ROLLBACK_LIMIT

# je.rep.maxClockDelta.
DEFAULT_MAX_SKEW_MS: Final = 2000
# Above this VLSN copying files is faster than replaying.
DEFAULT_MOST_REPLAYED: Final = 20_000


@dataclass(frozen=True, slots=True)
class JoinConfig:
    """How a node joins.

    Attributes:
        name: name of the node; it must be unused in the group.
        listen: the address at which the node listens, and which it reports to the group.
        addresses: nodes of the group; the others are found from them. The default is the nodes named in the
            environment.
        node_type: the type of the node in the group: ``SECONDARY``, or ``ELECTABLE``.
        priority: priority of an electable node. Among nodes with equal logs the node with the highest priority is
            elected; a node with priority 0 is never elected.
        lead: settings for leading.
        forms: create a group if the environment belongs to none and none of the addresses answers.
        unelected: an electable node may lead even if too few members answer to elect it, until it has led or followed
            once; never beside another master, or if another member's log goes further.
        group: the name of the group; None to take it from the environment or the nodes.
        rollback_limit: most durable commits that this node may give up to join.
        restore: allow a network restore if nothing else helps.
        timeout_s: timeout of each step before the stream.
        max_skew_ms: largest allowed difference of clocks.
        force: accept an untested release of JE.
        answers: whether the node serves others at its address.
        environment: how the environment is opened.
        tls: certificates for callers; None: without TLS.
        most_replayed: an empty directory replays a stream up to this VLSN from its beginning, instead of copying files.
        intervals: its pauses and patience.
    """

    name: str
    listen: Address
    addresses: tuple[Address, ...]
    node_type: str = SECONDARY
    priority: int = 0
    lead: LeadConfig = field(default_factory=LeadConfig)
    forms: bool = False
    group: str | None = None
    rollback_limit: int = DEFAULT_ROLLBACK_LIMIT
    restore: bool = False
    timeout_s: float = 10.0
    max_skew_ms: int = DEFAULT_MAX_SKEW_MS
    force: bool = False
    unelected: bool = False
    answers: bool = True
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    tls: TlsFiles | None = None
    most_replayed: int = DEFAULT_MOST_REPLAYED
    intervals: NodeIntervals = USUAL_INTERVALS

    @property
    def votes(self) -> bool:
        """Whether the node is an electable member."""
        return self.node_type == ELECTABLE
