"""Creating, removing, renaming and truncating databases (R-TREE-3, R-TREE-4, je-log-format.md 9.3).

The NameLN is written under the transaction. The MapLN is not transactional. It is written when a database is created,
when its root has been logged, and when the outcome of a naming operation is known: the MapLN of a removed database is
deleted at the commit, that of a created database at an abort. A crash leaves at most an unused MapLN of an operation
that had not committed: recovery undoes the NameLN, and then no name leads to the id.

Names are locked like records. Opening a database waits for a transaction that creates, removes or renames it. Removing
or renaming waits for the lock on the NameLN and is refused while the database is open.

Example, create ``orders``: ``NameLN_TX (op create, id 6) | MapLN (key "6", no root) | Commit``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from engine.catalog.catalog import Catalog
from engine.errors import DamageError, DatabaseNotFoundError, ExistsError, InUseError, UsageError
from engine.format.entry.db_tree import (
    DB_NOT_REPLICATED,
    DB_REPLICATED,
    DUPLICATES,
    ENV_REPLICATED,
    KEY_PREFIXING,
    TEMPORARY,
    TWO_PART_KEYS,
    DatabaseImpl,
    encode_db_tree,
)
from engine.format.entry.ln_content import DatabaseConfig, MapLN, NameLN, NameOperation
from engine.format.entry_types import DB_TREE
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.tree.context import TreeContext
from engine.tree.database_state import DEFAULT_MAX_ENTRIES, INTERNAL_PREFIX, DatabaseState
from engine.tree.keys import UnknownOrderError, serialized_comparator
from engine.txn.lock_types import LockType
from engine.txn.manager import TxnManager
from engine.txn.payload import MAP, NAME, Payload, PutMode
from engine.txn.records import Records
from engine.txn.txn import Durability, Txn

# Ids are signed numbers of eight bytes.
_MOST_ID: Final = (1 << 63) - 1
_NONE, _CREATE, _REMOVE, _TRUNCATE, _RENAME = range(5)


class DatabaseOptions(NamedTuple):
    """Options of a new database.

    Attributes:
        duplicates: sorted duplicates: a key may have several data items.
        key_prefixing: nodes store the common prefix of their keys once; duplicates always do.
        max_entries: slots of a node (``je.nodeMaxEntries``).
        deferred_write: records stay in memory until a checkpoint or eviction logs them; no transactions.
        temporary: deferred-write, never part of a checkpoint, and gone when the environment is opened again.
        comparator, duplicate_comparator: Java classes that order keys, and data items; None: byte order. Their orders
            must be registered (``EnvironmentConfig.comparators``), and JE must be able to load the classes.
    """

    duplicates: bool = False
    key_prefixing: bool = False
    max_entries: int = DEFAULT_MAX_ENTRIES
    deferred_write: bool = False
    temporary: bool = False
    comparator: str | None = None
    duplicate_comparator: str | None = None


class NamingOperations:
    """Naming operations of one environment.

    Arguments:
        ctx, catalog, records, txns: the parts of the environment.

    Attributes:
        removed: called with a database that is about to lose its MapLN, so that its records are counted obsolete.
    """

    def __init__(
        self, ctx: TreeContext, catalog: Catalog, records: Records, txns: TxnManager, root_lsn: int = NULL_LSN
    ) -> None:
        self._ctx = ctx
        self._catalog = catalog
        self._records = records
        self._txns = txns
        self.root_lsn = root_lsn
        self.removed: Callable[[DatabaseState], None] | None = None

    @property
    def log_version(self) -> int:
        """The log version of new entries."""
        return self._ctx.log_version

    def create(self, name: str, options: DatabaseOptions, txn: Txn, *, internal: bool = False) -> DatabaseState:
        """Make a database.

        Raises:
            ExistsError: the name is taken. UsageError: the name is reserved.
        """
        if not internal:
            _check_name(name)
        catalog = self._catalog
        if options.duplicate_comparator is not None and not options.duplicates:
            raise UsageError(f"database {name} has no duplicates that a comparator could order")
        state = DatabaseState(self._impl(self._next_id(txn), name, options), catalog.comparators)
        if state.order.learned is not None:
            raise UnknownOrderError(state.order.learned)
        # The latch is not held here: a transaction that has the name locked may need the latch to end.
        if not self._write_name(name, state.id, _CREATE, txn, PutMode.INSERT_ONLY, state):
            raise ExistsError(f"there is a database {name!r} already")
        with self._ctx.latch:
            state.deferred = options.deferred_write or options.temporary
            catalog.add(state)
            # The MapLN needs no undo: without the name the id cannot be found.
            self.write_map_ln(state)
        return state

    def find(self, name: str, locker: Txn) -> DatabaseState | None:
        """The database of a name, under a READ lock on the name, so that only committed names are found."""
        self._records.get(self._catalog.naming, _key(name), locker, LockType.READ)
        with self._ctx.latch:
            return self._catalog.by_name(name)

    def remove(self, name: str, txn: Txn) -> DatabaseState:
        """Remove a database; its MapLN goes when the transaction has committed (``finish_removal``).

        Raises:
            DatabaseNotFoundError: no database has that name. InUseError: it is open.
        """
        state = self._existing(name, txn)
        self.remove_name(name, state.id, txn)
        return state

    def remove_name(self, name: str, db_id: int, txn: Txn) -> None:
        """Remove a name, whatever database it leads to."""
        payload = Payload(None, NAME, 0, NameLN(db_id, 1), NameOperation(_REMOVE, None, None))
        self._records.delete(self._catalog.naming, _key(name), txn, payload)

    def rename(self, old: str, new: str, txn: Txn) -> DatabaseState:
        """Give a database another name; its MapLN follows when the transaction has committed (``finish_rename``).

        Raises:
            DatabaseNotFoundError: no database has that name. InUseError: the database is open.
            ExistsError: the new name is taken.
            UsageError: the new name is reserved.
        """
        _check_name(new)
        state = self._existing(old, txn)
        # Write the new name first: if it is taken, the old name is still untouched.
        if not self._write_name(new, state.id, _RENAME, txn, PutMode.INSERT_ONLY, None):
            raise ExistsError(f"there is a database {new!r} already")
        self.drop_name(old, state.id, txn)
        return state

    def drop_name(self, name: str, db_id: int, txn: Txn) -> None:
        """Delete the old name of a renamed database, outside the stream: the stream carries only the new name."""
        vlsn, txn.vlsn = txn.vlsn, NULL_VLSN
        try:
            self._records.delete(self._catalog.naming, _key(name), txn, gone_name(db_id))
        finally:
            txn.vlsn = vlsn

    def truncate(self, name: str, txn: Txn) -> tuple[DatabaseState, DatabaseState]:
        """Give a name a new, empty database. Returns the old and the new database.

        Raises:
            DatabaseNotFoundError: no database has that name. InUseError: it is open.
        """
        old = self._existing(name, txn)
        catalog = self._catalog
        with self._ctx.latch:
            # The name gets a new id: the old records stay until the commit, and are found again after an abort.
            state = self.make_state(self.emptied(old, self._next_id(txn), name))
            self.write_map_ln(state)
        payload = Payload(b"", NAME, 0, NameLN(state.id, 0), NameOperation(_TRUNCATE, None, old.id))
        self._records.put(catalog.naming, _key(name), payload, txn, PutMode.UPDATE_ONLY)
        return old, state

    @property
    def catalog(self) -> Catalog:
        """The databases."""
        return self._catalog

    def names_of(self, db_id: int) -> list[str]:
        """The names that lead to an id: one, or none."""
        with self._ctx.latch:
            return [name for name, found in self._catalog.names(internal=True) if found == db_id]

    def make_state(self, impl: DatabaseImpl) -> DatabaseState:
        """Create the state of a database whose name is written in the same transaction."""
        with self._ctx.latch:
            state = DatabaseState(impl, self._catalog.comparators)
            self._catalog.note_id(impl.db_id)
            self._catalog.add(state)
        return state

    def emptied(self, old: DatabaseState, db_id: int, name: str) -> DatabaseImpl:
        """The configuration of a database, without its records, for the database that replaces it."""
        return old.to_impl()._replace(
            db_id=db_id,
            name=name,
            root_exists=False,
            root_key=None,
            root_lsn=NULL_LSN,
            created_at_version=self._ctx.log_version,
        )

    def put_name(self, name: str, payload: Payload, txn: Txn, *, replaces: bool) -> bool:
        """Write a NameLN unchanged; False if the name exists (or, with ``replaces``, if it does not)."""
        mode = PutMode.UPDATE_ONLY if replaces else PutMode.INSERT_ONLY
        return self._records.put(self._catalog.naming, _key(name), payload, txn, mode)

    def delete_name(self, name: str, payload: Payload, txn: Txn) -> bool:
        """Delete a NameLN; False when the name is not there."""
        return self._records.delete(self._catalog.naming, _key(name), txn, payload)

    def finish_removal(self, state: DatabaseState) -> None:
        """The removal has committed: delete the MapLN (R-REC-61)."""
        with self._ctx.latch:
            # Called while the tree can still be read: its records have to be counted obsolete.
            if self.removed is not None:
                self.removed(state)
            locker = self._txns.begin(transactional=False, durability=Durability.NO_SYNC)
            impl = state.to_impl()
            payload = Payload(None, MAP, 0, MapLN(impl, 1), None)
            self._records.delete(self._catalog.mapping, b"%d" % state.id, locker, payload)
            self._txns.end_operation(locker)
            self._catalog.drop(state.id)

    def finish_rename(self, state: DatabaseState, name: str) -> None:
        """The rename has committed: the next version of the MapLN will hold the new name (R-REC-62)."""
        with self._ctx.latch:
            state.name = name
            state.dirty = True

    def configure(self, state: DatabaseState, config: DatabaseConfig) -> None:
        """Change the properties of a database and log its MapLN; no abort undoes this.

        The duplicates property cannot change. A new comparator must give the same order: nodes in memory keep the old
        one, and the new one is used when the environment is opened again.
        """
        with self._ctx.latch:
            state.impl = state.impl._replace(
                flags=state.impl.flags & ~KEY_PREFIXING | config.flags & KEY_PREFIXING,
                max_entries=config.max_entries,
                btree_comparator=config.btree_comparator or b"",
                duplicate_comparator=config.duplicate_comparator or b"",
                triggers=config.triggers,
            )
            state.max_entries = config.max_entries
            state.prefixing = bool(config.flags & KEY_PREFIXING)
            self.write_map_ln(state)

    def write_map_ln(self, state: DatabaseState) -> int:
        """Log a database's state (R-TREE-3); the root entry for the mapping and the naming database."""
        # The mapping and the naming database have no MapLN: their state is in the root entry.
        if state.id in (self._catalog.mapping.id, self._catalog.naming.id):
            return self.write_root()
        with self._ctx.latch:
            locker = self._txns.begin(transactional=False, durability=Durability.NO_SYNC)
            if state.name is None:
                # The state came from a MapLN of an old log version, which has no name.
                named = (name for name, found in self._catalog.names(internal=True) if found == state.id)
                state.name = next(named, "")
            payload = Payload(b"", MAP, 0, MapLN(state.to_impl(), 0), None)
            self._records.put(self._catalog.mapping, b"%d" % state.id, payload, locker, PutMode.OVERWRITE)
            self._txns.end_operation(locker)
            state.dirty = False
        return NULL_LSN

    def write_root(self) -> int:
        """Log the root of the environment (DbTree)."""
        writer = self._ctx.writer
        assert writer is not None
        with self._ctx.latch:
            body = encode_db_tree(self._catalog.root_record(), writer.version)
            self.root_lsn = writer.log(DB_TREE, body)
            self._catalog.mapping.dirty = self._catalog.naming.dirty = False
        return self.root_lsn

    def _write_name(
        self, name: str, db_id: int, operation: int, txn: Txn, mode: PutMode, state: DatabaseState | None
    ) -> bool:
        config = None
        if state is not None:
            impl = state.impl
            config = DatabaseConfig(
                impl.flags, impl.max_entries, 0, impl.btree_comparator, impl.duplicate_comparator, impl.triggers
            )
        payload = Payload(b"", NAME, 0, NameLN(db_id, 0), NameOperation(operation, config, None))
        return self._records.put(self._catalog.naming, _key(name), payload, txn, mode)

    def _existing(self, name: str, txn: Txn) -> DatabaseState:
        """A database that is not open, with its name locked for writing, so that it cannot be opened until the
        transaction ends.
        """
        self._records.get(self._catalog.naming, _key(name), txn, LockType.WRITE)
        with self._ctx.latch:
            state = self._catalog.by_name(name)
        if state is None:
            raise DatabaseNotFoundError(f"no database {name!r}", hint="jetool dbs ENV lists them")
        # Checked under the lock on the name: the database cannot be opened from here on.
        if state.handles:
            raise InUseError(f"database {name!r} is open", hint="close it first")
        return state

    def _impl(self, db_id: int, name: str, options: DatabaseOptions) -> DatabaseImpl:
        flags = DUPLICATES | KEY_PREFIXING if options.duplicates else KEY_PREFIXING if options.key_prefixing else 0
        flags |= TWO_PART_KEYS if options.duplicates else 0
        flags |= TEMPORARY if options.temporary else 0
        if self._catalog.flags & ENV_REPLICATED:
            flags |= DB_REPLICATED if db_id < 0 else DB_NOT_REPLICATED
        return DatabaseImpl(
            db_id=db_id,
            name=name,
            root_exists=False,
            root_key=None,
            root_lsn=NULL_LSN,
            root_state=0,
            flags=flags,
            btree_comparator=serialized_comparator(options.comparator),
            duplicate_comparator=serialized_comparator(options.duplicate_comparator),
            max_entries=options.max_entries,
            max_dup_entries=0,
            created_at_version=self._ctx.log_version,
            utilization=(),
            triggers=(),
        )

    def _next_id(self, txn: Txn) -> int:
        """A new id, never reused. Ids of replicated databases descend (je-log-format.md 9.4)."""
        catalog = self._catalog
        with self._ctx.latch:
            replicated = txn.vlsn != NULL_VLSN
            db_id = catalog.last_replicated_db_id - 1 if replicated else catalog.last_local_db_id + 1
            if not -_MOST_ID <= db_id <= _MOST_ID:
                raise DamageError(
                    "an entry of the log has given out the last id of a database that there is",
                    expected=f"-{_MOST_ID} to {_MOST_ID}",
                    found=str(db_id),
                    consequence="no database can be created, neither here nor by JE",
                    hint="jetool salvage takes the records into a new environment",
                )
            # Allocated for good, even when the transaction aborts: in one log an id must not stand for two databases.
            catalog.note_id(db_id)
            return db_id


def gone_name(db_id: int) -> Payload:
    """The payload that deletes the old name of a renamed database."""
    return Payload(None, NAME, 0, NameLN(db_id, 1), NameOperation(_NONE, None, None))


def _key(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _check_name(name: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        # JE stores names as UTF-8, so this name would change in JE.
        shown = name.encode("utf-8", "backslashreplace").decode()
        raise UsageError("a database name is UTF-8", found=shown) from None
    if name.startswith(INTERNAL_PREFIX):
        raise UsageError(f"database names may not begin with {INTERNAL_PREFIX}", found=name)
