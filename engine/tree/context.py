"""The environment as the trees see it.

``TreeContext`` is what a tree needs from the environment: the latch, entries by LSN, the writer (None: read-only, then
nothing is logged and LSNs of changed nodes are NULL), the node id sequence, the list of nodes in memory. What the trees
ask of the layers above is said by the protocols here; ``engine.db.parts`` connects them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from engine.format.versions import WRITTEN_VERSION
from engine.log.access import LogAccess
from engine.log.latch import Latch, is_unexpected
from engine.log.writer import LogWriter
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.keys import Key
from engine.tree.spill import Spill

DEFAULT_MAX_EMBEDDED: Final = 16
DEFAULT_BIN_DELTA_PERCENT: Final = 25
_TRANSIENT: Final = -(1 << 32)


class NodeIds:
    """The sequence of local node ids (R-REC-15)."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        """A new id."""
        self.last += 1
        return self.last


class SlotLocks(Protocol):
    """Says whether a record version is locked by a transaction."""

    def is_locked(self, lsn: int) -> bool:
        """Whether anybody holds a lock on it."""


class ExpirationListener(Protocol):
    """Told of what expires while it is logged (R-CLN-51)."""

    def expires(self, lsn: int, expiration: int, size: int) -> None:
        """So many bytes of an entry expire; ``expiration`` in days, or negative hours, since 1970."""


class SplitWatcher(Protocol):
    """Told of new level-2 siblings while a checkpoint builds its dirty map (R-TREE-17)."""

    def split(self, sibling: IN) -> None:
        """A node has been split; ``sibling`` is the new one."""


class TreeContext:
    """The environment as the trees see it.

    Attributes:
        latch: held during every access to a tree.
        access: entries by LSN.
        writer: where entries are logged; None in a read-only environment.
        nodes: every node in memory, by identity (the INList, R-TREE-8).
        max_embedded: largest data, in bytes, that is embedded in a BIN.
        delta_percent: je.tree.binDelta.
        blind_puts: je.tree.binDeltaBlindPuts: deltas get bloom filters.
        locks: who holds a lock on a record version; None while there are no transactions.
        spill: where changed nodes go that neither fit nor can be logged; None where they are logged, or stay.
        root_logged: writes the MapLN of a database whose root has grown by a level (R-TREE-11).
        splits_watch: told of splits.
        log_version: of what is logged; it decides what nodes and slots keep (``engine.format.versions``).
        used_bytes: estimate of the memory that nodes take.
        expiring: counts bytes that expire; None while they are not counted.
        may_be_extinct: asked whether a record whose file is gone was discarded, so that it is not missing (R-CLN-53).
        ticks: counts searches; a node notes the last one that came by.
    """

    __slots__ = (
        "access",
        "blind_puts",
        "delta_percent",
        "expiring",
        "last_transient",
        "latch",
        "locks",
        "log_version",
        "max_embedded",
        "may_be_extinct",
        "node_ids",
        "nodes",
        "root_logged",
        "spill",
        "splits_watch",
        "ticks",
        "used_bytes",
        "writer",
    )

    def __init__(
        self,
        access: LogAccess,
        *,
        max_embedded: int = DEFAULT_MAX_EMBEDDED,
        delta_percent: int = DEFAULT_BIN_DELTA_PERCENT,
        blind_puts: bool = False,
        spill: Spill | None = None,
    ) -> None:
        self.latch = Latch()
        self.access = access
        self.writer: LogWriter | None = None
        self.log_version = WRITTEN_VERSION
        self.node_ids = NodeIds()
        self.nodes: dict[int, IN] = {}
        self.max_embedded = max_embedded
        self.delta_percent = delta_percent
        self.blind_puts = blind_puts
        self.expiring: ExpirationListener | None = None
        self.may_be_extinct: Callable[[DatabaseState, Key], bool] | None = None
        self.splits_watch: list[SplitWatcher] = []
        self.locks: SlotLocks | None = None
        self.root_logged: Callable[[DatabaseState], None] | None = None
        self.spill = spill
        self.used_bytes = 0
        self.ticks = 0
        self.last_transient = 0

    def fail(self, error: BaseException) -> None:
        """A change has ended with an exception: of one that is not ours nothing is known to be whole (``Latch``)."""
        if self.writer is not None and is_unexpected(error):
            self.writer.interrupted(error)
            self.latch.refusal = self.writer.check

    def transient_lsn(self) -> int:
        """An LSN for a record that is in memory only (file number 0xffffffff, R-TREE-60)."""
        self.last_transient += 1
        return _TRANSIENT + self.last_transient

    def account(self, node: IN) -> None:
        """Take a node's size into account again."""
        now = node.memory_bytes()
        self.used_bytes += now - node.accounted
        node.accounted = now
