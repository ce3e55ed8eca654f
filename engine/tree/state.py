"""What the trees know of one database, and the environment as the trees see it.

``DatabaseState`` is the mutable counterpart of the ``DatabaseImpl`` of a MapLN. Its ``dirty`` flag means: the MapLN in
the log no longer says what is here (R-TREE-3).

``TreeContext`` is what a tree needs from the environment: the latch, entries by LSN, the writer (None: read-only, then
nothing is logged and LSNs of changed nodes are NULL), the node id sequence, the list of nodes in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from engine.format.entry.db_tree import (
    DUPLICATES,
    KEY_PREFIXING,
    MAPPING_DB_ID,
    NAMING_DB_ID,
    TEMPORARY,
    TWO_PART_KEYS,
    DatabaseImpl,
)
from engine.format.lsn import NULL_LSN
from engine.format.versions import TWO_PART_DUPLICATES, WRITTEN_VERSION
from engine.log.access import LogAccess
from engine.tree.keys import KeyOrder, SortKey, key_order

if TYPE_CHECKING:
    from engine.log.writer import LogWriter
    from engine.tree.compress import SlotLocks
    from engine.tree.in_node import IN
    from engine.tree.spill import Spill

DEFAULT_MAX_ENTRIES: Final = 128
DEFAULT_MAX_EMBEDDED: Final = 16
DEFAULT_BIN_DELTA_PERCENT: Final = 25
INTERNAL_PREFIX: Final = "_je"
_TRANSIENT: Final = -(1 << 32)


class DatabaseState:
    """One database in memory.

    Attributes:
        impl: its persistent state without the root.
        name: from the MapLN (since v16) or the naming tree; None while unknown.
        root: the root node when in memory.
        root_lsn: where the root was last logged; NULL_LSN when never.
        deferred: a deferred-write database: no LNs until sync (R-TREE-60).
        transactional: operations without a transaction get one of their own.
        dirty: the MapLN has to be written again.
        deleted: the database is gone.
        old_duplicates: it holds duplicates in the form of v6 and v7.
    """

    __slots__ = (
        "deferred", "deleted", "dirty", "handles", "id", "impl", "max_entries", "name", "old_duplicates", "order",
        "prefixing", "root", "root_lsn", "transactional",
    )  # fmt: skip

    def __init__(self, impl: DatabaseImpl, comparators: Mapping[str, SortKey]) -> None:
        self.id = impl.db_id
        self.impl = impl
        self.name = impl.name
        self.root: IN | None = None
        self.root_lsn = impl.root_lsn
        self.old_duplicates = is_old_duplicates(impl)
        self.order: KeyOrder = key_order(
            bool(impl.flags & DUPLICATES), impl.btree_comparator, impl.duplicate_comparator, comparators
        )
        self.prefixing = bool(impl.flags & KEY_PREFIXING)
        self.max_entries = impl.max_entries or DEFAULT_MAX_ENTRIES
        self.deferred = impl.temporary
        self.transactional = False
        self.dirty = False
        self.deleted = False
        self.handles = 0

    @property
    def duplicates(self) -> bool:
        """Whether it holds sorted duplicates."""
        return self.order.duplicates

    @property
    def temporary(self) -> bool:
        """Whether recovery removes it."""
        return bool(self.impl.flags & TEMPORARY)

    @property
    def internal(self) -> bool:
        """Whether it is one of JE's own databases."""
        return self.id in (MAPPING_DB_ID, NAMING_DB_ID) or (self.name or "").startswith(INTERNAL_PREFIX)

    @property
    def has_root(self) -> bool:
        """Whether there is a tree."""
        return self.root is not None or self.root_lsn != NULL_LSN

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.name if self.name is not None else f"database {self.id}"

    def to_impl(self) -> DatabaseImpl:
        """The persistent state now, in the form of the version that is written."""
        return self.impl._replace(
            name=None if self.id in (MAPPING_DB_ID, NAMING_DB_ID) else self.name or "",
            root_exists=self.root_lsn != NULL_LSN,
            root_key=b"" if self.root_lsn != NULL_LSN else None,
            root_lsn=self.root_lsn,
            root_state=0,
            utilization=(),
            max_dup_entries=0,
        )

    def converted(self) -> None:
        """From now on the duplicates are in two-part keys, as JE 5 and later keep them."""
        self.impl = self.impl._replace(
            flags=self.impl.flags | TWO_PART_KEYS | KEY_PREFIXING, created_at_version=WRITTEN_VERSION
        )
        self.prefixing = True
        self.old_duplicates = False
        self.dirty = True


def is_old_duplicates(impl: DatabaseImpl) -> bool:
    """Whether a database keeps duplicates in trees of their own, as v6 and v7 did (je-log-format.md 9.1)."""
    return bool(
        impl.flags & DUPLICATES and not impl.flags & TWO_PART_KEYS and impl.created_at_version < TWO_PART_DUPLICATES
    )


class NodeIds:
    """The sequence of local node ids (R-REC-15)."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        """A new id."""
        self.last += 1
        return self.last


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
        expiring: told of bytes that expire; None while nobody counts them.
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
        "node_ids",
        "nodes",
        "root_logged",
        "spill",
        "splits_watch",
        "ticks",
        "used_bytes",
        "writer",
    )  # fmt: skip

    def __init__(self, access: LogAccess) -> None:
        self.latch = threading.RLock()
        self.access = access
        self.writer: LogWriter | None = None
        self.log_version = WRITTEN_VERSION
        self.node_ids = NodeIds()
        self.nodes: dict[int, IN] = {}
        self.max_embedded = DEFAULT_MAX_EMBEDDED
        self.delta_percent = DEFAULT_BIN_DELTA_PERCENT
        self.blind_puts = False
        self.expiring: ExpirationListener | None = None
        self.splits_watch: list[SplitWatcher] = []
        self.locks: SlotLocks | None = None
        self.root_logged: Callable[[DatabaseState], None] | None = None
        self.spill: Spill | None = None
        self.used_bytes = 0
        self.ticks = 0
        self.last_transient = 0

    def transient_lsn(self) -> int:
        """An LSN for a record that is in memory only (file number 0xffffffff, R-TREE-60)."""
        self.last_transient += 1
        return _TRANSIENT + self.last_transient

    def account(self, node: IN) -> None:
        """Take a node's size into account again."""
        now = node.memory_bytes()
        self.used_bytes += now - node.accounted
        node.accounted = now


class ExpirationListener(Protocol):
    """Told of what expires while it is logged (R-CLN-51)."""

    def expires(self, lsn: int, expiration: int, size: int) -> None:
        """So many bytes of an entry expire; ``expiration`` in days, or negative hours, since 1970."""


class SplitWatcher(Protocol):
    """Told of new level-2 siblings while a checkpoint builds its dirty map (R-TREE-17)."""

    def split(self, sibling: IN) -> None:
        """A node has been split; ``sibling`` is the new one."""
