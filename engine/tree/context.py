"""The environment as seen by the trees.

``TreeContext`` holds what a tree needs of the environment: the latch, entries by LSN, the writer (None if read-only:
then nothing is logged and LSNs of changed nodes are NULL), the node id sequence, the list of nodes in memory. The
protocols here define what the trees call in the layers above; ``engine.db.parts`` connects them.
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
    """Shows whether a transaction has a record version locked."""

    def is_locked(self, lsn: int) -> bool:
        """Whether any transaction holds a lock on it."""


class ExpirationListener(Protocol):
    """Called for expiring data as it is logged (R-CLN-51)."""

    def expires(self, lsn: int, expiration: int, size: int) -> None:
        """``size`` bytes of the entry at an LSN expire; ``expiration`` in days, or negative hours, since 1970."""


class SplitWatcher(Protocol):
    """Called with new level-2 siblings while a checkpoint builds its dirty map (R-TREE-17)."""

    def split(self, sibling: IN) -> None:
        """A node has been split; ``sibling`` is the new one."""


class TreeContext:
    """The environment as seen by the trees.

    Attributes:
        latch: held during every access to a tree.
        access: entries by LSN.
        writer: logs entries; None in a read-only environment.
        nodes: every node in memory, by identity (the INList, R-TREE-8).
        max_embedded: largest data, in bytes, that is embedded in a BIN.
        delta_percent: je.tree.binDelta.
        blind_puts: je.tree.binDeltaBlindPuts: deltas get bloom filters.
        locks: shows which record versions are locked; None while there are no transactions.
        spill: the scratch file for changed nodes that exceed the cache while nothing can be logged; None otherwise.
        root_logged: writes the MapLN of a database whose root has grown by a level (R-TREE-11).
        splits_watch: called for splits.
        log_version: log version of new entries; it determines the fields of nodes and slots
            (``engine.format.versions``).
        used_bytes: estimated memory of all nodes.
        expiring: counts expiring bytes; None while they are not counted.
        may_be_extinct: returns whether a record whose file is gone may have been discarded, so that it is not missing
            (R-CLN-53).
        ticks: counts searches; a node stores the number of the last search that used it.
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
        """Handle an exception that ended a change: after an unexpected one the state may be inconsistent (see
        ``Latch``).
        """
        if self.writer is not None and is_unexpected(error):
            self.writer.interrupted(error)
            self.latch.refusal = self.writer.check

    def transient_lsn(self) -> int:
        """An LSN for a record that is in memory only (file number 0xffffffff, R-TREE-60)."""
        self.last_transient += 1
        return _TRANSIENT + self.last_transient

    def account(self, node: IN) -> None:
        """Update the memory account of a node."""
        now = node.memory_bytes()
        self.used_bytes += now - node.accounted
        node.accounted = now
