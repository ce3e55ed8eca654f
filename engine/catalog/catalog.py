"""Databases by id and by name (R-TREE-3 to R-TREE-5, je-log-format.md 9.2, 9.3).

The mapping tree (database 0) maps the id, as decimal text, to a MapLN; the naming tree (database 1) maps the name to an
id. A database exists if its name does. A state is created on first use and kept; it is marked ``dirty`` while it
differs from its MapLN in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from engine.errors import DamageError
from engine.format.entry.db_tree import MAPPING_DB_ID, NAMING_DB_ID, DatabaseImpl, DbTree
from engine.format.entry.ln_content import MapLN, NameLN
from engine.format.lsn import NULL_LSN, format_lsn
from engine.format.versions import WRITTEN_VERSION
from engine.tree.comparators import SortKey
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.order import check_order, learn_order
from engine.tree.tree import bins, find_bin, read_ln

NULL_REPLICATED_DB_ID: Final = -256
FIRST_LOCAL_DB_ID: Final = 1
DB_TREE_FLAGS: Final = 4


class Catalog:
    """The databases of an environment.

    Arguments:
        ctx: the trees of the environment.
        root: the DbTree entry from which recovery or creation starts.
        comparators: sort keys by class name.
        for_writing: nodes will be logged, so no order of keys may be guessed.
        check_orders: check the orders of ``comparators`` against the nodes of their databases.

    Attributes:
        logged_nodes: by database, the LSNs of the nodes that recovery is about to put into its tree.
    """

    def __init__(
        self,
        ctx: TreeContext,
        root: DbTree,
        comparators: Mapping[str, SortKey],
        *,
        for_writing: bool = False,
        check_orders: bool = False,
    ) -> None:
        self._ctx = ctx
        self._check_orders = check_orders
        self._for_writing = for_writing
        self._comparators = comparators
        self.logged_nodes: Callable[[int], Iterable[int]] = lambda _: ()
        self.flags = root.flags
        self.initial_log_version = root.initial_log_version
        self.last_local_db_id = root.last_local_db_id
        self.last_replicated_db_id = root.last_replicated_db_id
        self.mapping = DatabaseState(root.mapping_db, comparators)
        self.naming = DatabaseState(root.naming_db, comparators)
        self._by_id: dict[int, DatabaseState] = {MAPPING_DB_ID: self.mapping, NAMING_DB_ID: self.naming}

    @property
    def comparators(self) -> Mapping[str, SortKey]:
        """Sort keys by class name."""
        return self._comparators

    def root_record(self) -> DbTree:
        """The DbTree entry that describes the current state."""
        return DbTree(
            self.last_local_db_id,
            self.last_replicated_db_id,
            self.mapping.to_impl(),
            self.naming.to_impl(),
            self.flags,
            self.initial_log_version,
        )

    def by_id(self, db_id: int) -> DatabaseState | None:
        """The database of an id; None when it does not exist."""
        known = self._by_id.get(db_id)
        if known is not None:
            # The state stays for code that still holds it; the id is never reused.
            return None if known.deleted else known
        impl = self._stored_impl(db_id)
        if impl is None:
            return None
        state = DatabaseState(impl, self._comparators)
        learned = state.order.learned
        if learned is not None:
            learned.db_id, learned.database = db_id, state.name or ""
            learned.may_guess = not self._for_writing
            learn_order(self._ctx, state, self.logged_nodes(db_id))
        elif self._check_orders and state.order.given and not state.old_duplicates:
            check_order(self._ctx, state, self.logged_nodes(db_id))
        self._by_id[db_id] = state
        return state

    def note_id(self, db_id: int) -> None:
        """Note that an id was allocated, here or by the master of the group."""
        self.last_local_db_id = max(self.last_local_db_id, db_id)
        # Ids of replicated databases descend from -256.
        self.last_replicated_db_id = min(self.last_replicated_db_id, db_id)

    def add(self, state: DatabaseState) -> None:
        """Add a database that was just created."""
        self._by_id[state.id] = state

    def drop(self, db_id: int) -> None:
        """Forget a removed database; its nodes leave memory."""
        state = self._by_id.get(db_id)
        if state is not None:
            state.deleted = True
            for node in [node for node in self._ctx.nodes.values() if node.db is state]:
                # The cache would evict them later and log unreachable nodes.
                self._ctx.nodes.pop(id(node))
                self._ctx.used_bytes -= node.accounted
            state.root = None

    def forget(self, db_id: int) -> None:
        """Read the database's MapLN again when the database is next looked up."""
        self._by_id.pop(db_id, None)

    def loaded(self) -> list[DatabaseState]:
        """States in memory, ascending by id, deleted ones left out."""
        return [self._by_id[db_id] for db_id in sorted(self._by_id) if not self._by_id[db_id].deleted]

    def id_of(self, name: str) -> int | None:
        """The id that a name has; None when there is no such name."""
        key = name.encode("utf-8", "surrogateescape")
        node = find_bin(self._ctx, self.naming, key)
        if node is None:
            return None
        index, exact = node.find(key)
        return self._named_id(node.lsns[index]) if exact and node.is_live(index) else None

    def by_name(self, name: str) -> DatabaseState | None:
        """The database of a name; None when no database has it."""
        db_id = self.id_of(name)
        state = None if db_id is None else self.by_id(db_id)
        if state is not None and state.name is None:
            state.name = name
            if state.order.learned is not None:
                state.order.learned.database = name
        if state is not None:
            # Where MapLNs hold no names, only the name shows that this is one of JE's own databases.
            state.check_internal()
        return state

    def is_named_outside_transactions(self, name: str) -> bool:
        """Whether the record of a name belongs to no transaction, as those of temporary databases do."""
        key = name.encode("utf-8", "surrogateescape")
        node = find_bin(self._ctx, self.naming, key)
        if node is None:
            return False
        index, exact = node.find(key)
        return exact and node.is_live(index) and read_ln(self._ctx, self.naming, node.lsns[index]).txn_id is None

    def names(self, *, internal: bool = False) -> Iterator[tuple[str, int]]:
        """Names and ids in the order of the naming tree.

        Arguments:
            internal: JE's own databases too.
        """
        for node in bins(self._ctx, self.naming):
            for index in range(len(node)):
                if not node.is_live(index):
                    continue
                name = node.keys[index].decode("utf-8", "surrogateescape")
                db_id = self._named_id(node.lsns[index])
                # A deleted NameLN in a live slot: its transaction has not ended.
                if db_id is not None and (internal or not name.startswith("_je")):
                    yield name, db_id

    def ids(self) -> list[int]:
        """Every id that has a live MapLN, ascending."""
        found = []
        for node in bins(self._ctx, self.mapping):
            found += [int(node.keys[i]) for i in range(len(node)) if node.is_live(i)]
        return sorted(found)

    def _named_id(self, lsn: int) -> int | None:
        record = read_ln(self._ctx, self.naming, lsn)
        content = record.content
        if not isinstance(content, NameLN):
            raise DamageError("a slot of the naming database does not lead to a NameLN", lsn=format_lsn(lsn))
        return None if content.deleted or record.data is None else content.db_id

    def _stored_impl(self, db_id: int) -> DatabaseImpl | None:
        node = find_bin(self._ctx, self.mapping, b"%d" % db_id)
        if node is None:
            return None
        index, exact = node.find(b"%d" % db_id)
        if not exact or not node.is_live(index):
            return None
        record = read_ln(self._ctx, self.mapping, node.lsns[index])
        content = record.content
        if not isinstance(content, MapLN):
            raise DamageError(
                "a slot of the mapping database does not lead to a MapLN", lsn=format_lsn(node.lsns[index])
            )
        return None if content.deleted or record.data is None else content.database


def empty_root(*, replicated: bool = False, version: int = WRITTEN_VERSION) -> DbTree:
    """The root of a new environment (je-log-format.md 9.6)."""
    plain = DatabaseImpl(
        db_id=0,
        name=None,
        root_exists=False,
        root_key=None,
        root_lsn=NULL_LSN,
        root_state=0,
        flags=0,
        btree_comparator=b"",
        duplicate_comparator=b"",
        max_entries=128,
        max_dup_entries=0,
        created_at_version=version,
        utilization=(),
        triggers=(),
    )
    mapping = plain._replace(flags=0x08 if replicated else 0)
    naming = plain._replace(db_id=NAMING_DB_ID, flags=0x04 if replicated else 0)
    flags = DB_TREE_FLAGS | (1 if replicated else 0)
    return DbTree(FIRST_LOCAL_DB_ID, NULL_REPLICATED_DB_ID, mapping, naming, flags, version)
