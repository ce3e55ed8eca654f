"""The state of one database that the trees use.

``DatabaseState`` is the mutable counterpart of the ``DatabaseImpl`` of a MapLN. Its ``dirty`` flag means that the MapLN
in the log is out of date (R-TREE-3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.errors import DamageError
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
from engine.tree.comparators import SortKey
from engine.tree.keys import KeyOrder, key_order

DEFAULT_MAX_ENTRIES: Final = 128
# A split needs at least two slots; JE requires more for ``je.nodeMaxEntries``.
LEAST_ENTRIES: Final = 2
MOST_ENTRIES: Final = 32_767
INTERNAL_PREFIX: Final = "_je"


class Node:
    """A node of a tree, as an opaque base class for the database; ``engine.tree.in_node`` defines it."""

    __slots__ = ()


class DatabaseState:
    """One database in memory.

    Attributes:
        impl: persistent state of the database, without the root.
        name: from the MapLN (since v16) or the naming tree; None while unknown.
        root: the root node if it is in memory; see ``engine.tree.in_node.root_in_memory``.
        root_lsn: last logged LSN of the root; NULL_LSN if it was never logged.
        deferred: a deferred-write database: no LNs until sync (R-TREE-60).
        transactional: operations without a transaction get one of their own.
        dirty: the MapLN has to be written again.
        deleted: the database was removed.
        old_duplicates: the database holds duplicates in the form of v6 and v7.
        unlogged_splits: nodes were split in recovery, where nothing could be logged.
    """

    __slots__ = (
        "deferred", "deleted", "dirty", "handles", "id", "impl", "max_entries", "name", "old_duplicates", "order",
        "prefixing", "root", "root_lsn", "transactional", "unlogged_splits",
    )  # fmt: skip

    def __init__(self, impl: DatabaseImpl, comparators: Mapping[str, SortKey]) -> None:
        self.id = impl.db_id
        self.impl = impl
        self.name = impl.name
        self.root: Node | None = None
        self.root_lsn = impl.root_lsn
        self.old_duplicates = is_old_duplicates(impl)
        self.check_internal()
        self.order: KeyOrder = key_order(
            bool(impl.flags & DUPLICATES), impl.btree_comparator, impl.duplicate_comparator, comparators
        )
        self.prefixing = bool(impl.flags & KEY_PREFIXING)
        self.max_entries = capacity(impl.max_entries, DEFAULT_MAX_ENTRIES)
        self.deferred = impl.temporary
        self.transactional = False
        self.dirty = False
        self.deleted = False
        self.unlogged_splits = False
        self.handles = 0

    def check_internal(self) -> None:
        """Check that one of JE's internal databases has no impossible properties.

        Raises:
            DamageError: the database has the flag for sorted duplicates, or a comparator.
        """
        impl = self.impl
        if self.internal and (impl.flags & DUPLICATES or impl.btree_comparator or impl.duplicate_comparator):
            raise DamageError(
                f"{self.label} of JE's own has the flag of sorted duplicates, or a comparator",
                expected="a database without either",
                found=f"flags {impl.flags:#x}",
                consequence="its keys cannot be read",
                hint="jetool verify shows what is damaged; restore the file from a backup",
            )

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
        """Whether the database has a tree."""
        return self.root is not None or self.root_lsn != NULL_LSN

    @property
    def label(self) -> str:
        """The name of the database in messages."""
        return self.name if self.name is not None else f"database {self.id}"

    def to_impl(self) -> DatabaseImpl:
        """The current persistent state, in the form of the version that is written."""
        return self.impl._replace(
            # The mapping and the naming database are stored in DbTree, without names (R-TREE-3).
            name=None if self.id in (MAPPING_DB_ID, NAMING_DB_ID) else self.name or "",
            root_exists=self.root_lsn != NULL_LSN,
            root_key=b"" if self.root_lsn != NULL_LSN else None,
            root_lsn=self.root_lsn,
            root_state=0,
            utilization=(),
            max_dup_entries=0,
        )

    def converted(self) -> None:
        """Mark the duplicates as stored in two-part keys from now on, as in JE 5 and later."""
        self.impl = self.impl._replace(
            flags=self.impl.flags | TWO_PART_KEYS | KEY_PREFIXING, created_at_version=WRITTEN_VERSION
        )
        self.prefixing = True
        self.old_duplicates = False
        self.dirty = True


def capacity(claimed: int, otherwise: int) -> int:
    """The number of slots of a node: ``claimed``, the number in the log, if it is valid (``je.nodeMaxEntries``)."""
    return claimed if LEAST_ENTRIES <= claimed <= MOST_ENTRIES else otherwise


def is_old_duplicates(impl: DatabaseImpl) -> bool:
    """Whether a database keeps duplicates in separate trees, as in v6 and v7 (je-log-format.md 9.1)."""
    return bool(
        impl.flags & DUPLICATES and not impl.flags & TWO_PART_KEYS and impl.created_at_version < TWO_PART_DUPLICATES
    )
