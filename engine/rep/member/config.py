"""How a node joins a group of JE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.db.config import EnvironmentConfig
from engine.rep.client.connection import Address
from engine.rep.client.handshake import ELECTABLE, SECONDARY
from engine.rep.client.tls import TlsFiles
from engine.rep.master.term import LeadConfig
from engine.vlsn.syncup_decision import DEFAULT_ROLLBACK_LIMIT

# je.rep.maxClockDelta.
DEFAULT_MAX_SKEW_MS: Final = 2000


@dataclass(frozen=True, slots=True)
class JoinConfig:
    """How a node joins.

    Attributes:
        name: of the node; the group must not have a member of that name.
        listen: the address that the group is told, and at which the node answers.
        addresses: nodes of the group; the others are found. Without any there are those that the environment names.
        node_type: what it is there: ``SECONDARY``, or ``ELECTABLE``.
        priority: of an electable node: of those whose logs are equally late the highest is elected; with 0 never.
        lead: how it leads when it is elected.
        forms: make the group when the directory has none and none of the addresses answers.
        unelected: of an electable node: lead also when too few members answer to elect it, until it has led or
            followed; never beside another master, or where a log is later.
        group: its name; None to take it from the environment or the nodes.
        rollback_limit: durable commits that this node may give up to join.
        restore: replace its files by copies when nothing else helps.
        timeout_s: the longest that each step before the stream may take.
        max_skew_ms: largest difference of clocks.
        force: also with a release of JE that was never tried.
        answers: whether others may ask the node at its address.
        environment: how the environment is opened.
        tls: what callers are shown, and which are trusted; None: without TLS.
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

    @property
    def votes(self) -> bool:
        """Whether it is an electable member."""
        return self.node_type == ELECTABLE
