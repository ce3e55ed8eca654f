"""An environment as applications see it: the databases in it, transactions, checkpoints, closing.

The environment wraps ``engine.db.engine.Engine``; ``engine.db.startup`` describes how it is opened, ``engine.db.parts``
its parts.

Example::

    with Environment("/data/env", EnvironmentConfig(create=True)) as env:
        orders = env.create_database("orders")
        with env.begin() as txn:
            orders.put(b"4711", b"three crates", txn=txn)
        print(orders[b"4711"])
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from engine.arguments import BytesLike, bytes_of
from engine.catalog.name_operations import DatabaseOptions
from engine.db.arguments import check_options, name_of
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.engine import Engine, EnvironmentStats
from engine.db.transaction import Transaction, inner_of
from engine.db.write_operation import write_operation
from engine.db.writes import Dependents
from engine.errors import ArgumentError, DatabaseNotFoundError, JetoolError, UsageError
from engine.events import SILENT, Listener
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.tree.database_state import DatabaseState
from engine.tree.keys import LearnedOrder, UnknownOrderError, comparator_name
from engine.txn.txn import Durability, Isolation, TxnState

if TYPE_CHECKING:
    # Of operations that few programs call; readers do not load them.
    from engine.checkpoint.checkpointer import CheckpointReport
    from engine.cleaner.cleaner import CleanerStats
    from engine.db.extinction import Extinctions
    from engine.db.secondary import SecondaryConfig, SecondaryDatabase
    from engine.format.entry.internal_db import RecordExtinction


class Environment:
    """An open environment. Threads may share it; a transaction is for one thread at a time.

    Arguments:
        home: the directory of the environment, or a storage that holds its files.
        config: how it is opened.
        listener: receives the steps of recovery and checkpoints.

    Attributes:
        engine: the parts of the environment, for code that needs the internals; see ``engine.db.engine``.

    Raises:
        NotFoundError: there is no environment, and ``create`` is not set.
        InUseError: another writer has it open. RefusedError: a restore marker is there; or commits follow a bad entry.
        DamageError: the log cannot be recovered.
        UnsupportedError: the log has a version that cannot be read.
    """

    def __init__(
        self,
        home: str | os.PathLike[str] | Storage,
        config: EnvironmentConfig | None = None,
        listener: Listener = SILENT,
    ) -> None:
        if home is None or isinstance(home, (bytes, bytearray)):
            raise ArgumentError(
                "wrong type for the home of an environment",
                expected="str, Path or a storage",
                found="None" if home is None else type(home).__name__,
            )
        storage: Storage = DiskStorage(home) if isinstance(home, (str, os.PathLike)) else home
        self.engine = Engine(storage, config or EnvironmentConfig(), listener)
        # The dependents by database id: all handles of a primary share them and maintain the same secondaries.
        self._dependents: dict[int, Dependents] = {}

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except JetoolError:
            # The caller has to get the first error.
            if kind is None:
                raise

    def __repr__(self) -> str:
        state = "closed" if self.engine.stopped else "read-only" if self.engine.read_only else "open"
        return f"<Environment {self.home!r}, {state}>"

    @property
    def home(self) -> str:
        """The directory, as messages name it."""
        return self.engine.home

    @property
    def config(self) -> EnvironmentConfig:
        """How it was opened."""
        return self.engine.config

    @property
    def end_lsn(self) -> int:
        """The current end of the log."""
        return self.engine.end_lsn

    @property
    def read_only(self) -> bool:
        """Whether it is open for reading only."""
        return self.engine.read_only

    @property
    def unseen(self) -> str | None:
        """The part of the log that recovery could not read; records may be missing or wrong because of it."""
        return self.engine.unseen

    @property
    def replicated(self) -> bool:
        """Whether it belongs to a replication group."""
        return self.engine.replicated

    def database_names(self, *, internal: bool = False) -> list[str]:
        """Names of the databases, in the order of the naming tree."""
        catalog = self.engine.catalog
        with self.engine.latch:
            found = [(name, catalog.by_id(db_id)) for name, db_id in list(catalog.names(internal=internal))]
            return [name for name, state in found if state is not None and not state.temporary]

    def open_database(self, name: str, txn: Transaction | None = None) -> Database:
        """A handle of a database; close it when done.

        Arguments:
            txn: the transaction that may have created or renamed it; None sees only committed databases.

        Raises:
            DatabaseNotFoundError: no database has that name.
            LockConflictError: a transaction that creates, removes or renames it does not end.
        """
        engine, name = self.engine, name_of(name)
        given = None if txn is None else inner_of(txn, engine)
        engine.check_open()
        with engine.latch:
            if engine.locks.is_idle():
                # No lock is held, so every name is committed, and the latch prevents new locks.
                return self._handle(name, engine.catalog.by_name(name))
        locker = given or engine.passing_locker()
        try:
            return self._handle(name, engine.naming.find(name, locker))
        finally:
            if txn is None:
                engine.txns.end_operation(locker)

    def create_database(
        self, name: str, options: DatabaseOptions | None = None, txn: Transaction | None = None
    ) -> Database:
        """Create a database and open it.

        Arguments:
            options: of the new database.
            txn: the transaction that creates it; otherwise it is created in a transaction of its own.

        Raises:
            ExistsError: a database of that name exists. ReadOnlyError: the environment is read-only.
        """
        engine, name = self.engine, name_of(name)
        options = options or DatabaseOptions(max_entries=engine.config.node_max_entries)
        if engine.replicated and (options.deferred_write or options.temporary):
            raise UsageError(
                "databases of a replication group are transactional", found="a deferred-write or temporary database"
            )
        check_options(options)
        if options.temporary and txn is not None:
            raise UsageError(f"database {name} is temporary and takes no transactions")
        # The name of a temporary database is not transactional either: recovery removes the database by its name
        # (R-REC-60).
        with write_operation(engine, inner_of(txn, engine), transactional=not options.temporary) as locker:
            state = engine.naming.create(name, options, locker)
            # The MapLN is not transactional: an abort undoes only the name (R-TREE-4).
            engine.ends.at_end(locker, aborted=lambda: engine.naming.finish_removal(state))
        return self._handle(name, state)

    def open_secondary(
        self, name: str, primary: Database, config: SecondaryConfig, txn: Transaction | None = None
    ) -> SecondaryDatabase:
        """Open a secondary of a database; the secondary is maintained from now on. See ``engine.db.secondary``.

        Arguments:
            config: the key creator of the secondary, and whether to create and fill it.
            txn: the transaction that creates and fills it; None uses one transaction for each of the two steps.

        Raises:
            DatabaseNotFoundError: no database has that name, and ``create`` is not set.
            UsageError: the configuration makes no sense.
            UniqueConstraintError, ForeignConstraintError: the primary's records violate a constraint.
        """
        from engine.db.secondary import SecondaryDatabase

        try:
            database = self.open_database(name, txn)
        except DatabaseNotFoundError:
            if not config.create:
                raise
            options = DatabaseOptions(
                duplicates=config.duplicates,
                max_entries=self.engine.config.node_max_entries,
                deferred_write=primary.state.deferred and not primary.state.temporary,
                temporary=primary.state.temporary,
            )
            database = self.create_database(name, options, txn)
        try:
            secondary = SecondaryDatabase(database, primary, config)
        except UsageError:
            database.close()
            raise
        try:
            secondary.populate(txn)
        except BaseException:
            secondary.close()
            raise
        return secondary

    def remove_database(self, name: str, txn: Transaction | None = None) -> None:
        """Remove a database and its records."""
        engine, name = self.engine, name_of(name)
        self._prepare_extinction(name)
        with write_operation(engine, inner_of(txn, engine)) as locker:
            state = engine.naming.remove(name, locker)
            # The records are removed only after the commit, because an abort must restore them.
            engine.ends.at_end(locker, committed=lambda: engine.naming.finish_removal(state))

    def rename_database(self, old: str, new: str, txn: Transaction | None = None) -> None:
        """Give a database another name."""
        engine, old, new = self.engine, name_of(old), name_of(new)
        with write_operation(engine, inner_of(txn, engine)) as locker:
            state = engine.naming.rename(old, new, locker)
            engine.ends.at_end(locker, committed=lambda: engine.naming.finish_rename(state, new))

    def truncate_database(self, name: str, txn: Transaction | None = None) -> None:
        """Remove all records of a database."""
        engine, name = self.engine, name_of(name)
        self._prepare_extinction(name)
        with write_operation(engine, inner_of(txn, engine)) as locker:
            old, new = engine.naming.truncate(name, locker)
            engine.ends.at_end(
                locker,
                committed=lambda: engine.naming.finish_removal(old),
                aborted=lambda: engine.naming.finish_removal(new),
            )

    def comparator_classes(self, name: str) -> tuple[str | None, str | None] | None:
        """The Java classes that order the keys and the duplicates of a database; None if there is no such database.

        A class is None for byte order.
        """
        with self.engine.latch:
            state = self.engine.catalog.by_name(name_of(name))
        if state is None:
            return None
        return comparator_name(state.impl.btree_comparator), comparator_name(state.impl.duplicate_comparator)

    def unknown_orders(self) -> list[LearnedOrder]:
        """Orders of unknown Java classes that recovery would have needed."""
        orders = [state.order.learned for state in self.engine.catalog.loaded()]
        return [learned for learned in orders if learned is not None and (learned.guessed or learned.skipped)]

    def discard_extinct(
        self,
        databases: Collection[str],
        *,
        begin: BytesLike | None = None,
        end: BytesLike | None = None,
        label: str = "",
        txn: Transaction | None = None,
    ) -> int:
        """Discard all records with ``begin <= key < end``, at the cost of a scan of the nodes.

        The keys must never be used again: reading or writing a record of the range afterwards is undefined. Records
        that other transactions have locked are discarded when these transactions have ended. In a group only the master
        may call this; all nodes then discard their copies. See ``engine.db.extinction``.

        Arguments:
            databases: by name.
            begin, end: None for the first record, and for no upper bound.
            label: a description that is stored in the log.

        Returns:
            The id of the task. ``extinctions`` lists the task until it is finished, which takes two checkpoints at
            most.

        Raises:
            RefusedError: the environment belongs to a replication group, and this node is not its master.
            UnknownOrderError: the order of a database is not registered.
        """
        from engine.format.entry.internal_db import RecordExtinction

        engine, extinctions = self.engine, self._extinctions()
        if not isinstance(label, str):
            raise ArgumentError("wrong type for the label", expected="str", found=type(label).__name__)
        low, high = (None if bound is None else bytes_of(bound, "bound") for bound in (begin, end))
        for name in databases:
            self._prepare_extinction(name_of(name))
        with write_operation(engine, inner_of(txn, engine)) as locker:
            db_ids = []
            for name in databases:
                with self.open_database(name, txn) as db:
                    learned = db.state.order.learned
                    if learned is not None:
                        raise UnknownOrderError(learned)
                    db_ids.append(db.state.id)
            found = RecordExtinction(
                version=0,
                count_complete=False,
                db_ids=tuple(sorted(set(db_ids))),
                begin_key=low,
                end_key=high,
                filter=None,
                label=label,
                flushed_db_id=0,
                flushed_key=None,
            )
            task_id = extinctions.add(found, locker)
            engine.ends.at_end(locker, committed=extinctions.run)
        return task_id

    def extinctions(self) -> dict[int, RecordExtinction]:
        """The tasks of ``discard_extinct``, and those of JE, that have committed and are not finished, by id."""
        return self._extinctions().tasks()

    def begin(
        self, *, isolation: Isolation = Isolation.REPEATABLE_READ, durability: Durability = Durability.SYNC
    ) -> Transaction:
        """Begin a transaction. As a context manager it commits at the end, or aborts on an error."""
        return Transaction(self.engine, self.engine.begin(isolation=isolation, durability=durability))

    def prepared(self) -> dict[tuple[int, bytes, bytes], Transaction]:
        """Prepared transactions by XID (format id, gtrid, bqual), to be committed or aborted (R-TXN-44)."""
        found, resurrected = {}, self.engine.recovery.resurrected
        for txn in self.engine.open_transactions():
            # The XID is in the Prepare entry, which only recovery has read.
            left = resurrected.get(txn.id)
            if txn.state is TxnState.PREPARED and left is not None and left.prepare is not None:
                xid = (left.prepare.format_id, left.prepare.gtrid or b"", left.prepare.bqual or b"")
                found[xid] = Transaction(self.engine, txn)
        return found

    def checkpoint(
        self, *, force: bool = False, minimize: bool = False, kbytes: int = 0, minutes: int = 0, invoker: str = "api"
    ) -> CheckpointReport | None:
        """Take a checkpoint if one is due; see ``Checkpointer.run``."""
        return self.engine.checkpoint(force=force, minimize=minimize, kbytes=kbytes, minutes=minutes, invoker=invoker)

    def clean_log(self) -> int:
        """Clean log files that are worth it; returns how many were cleaned. The next checkpoints delete them."""
        return self.engine.clean()

    def compress(self) -> int:
        """Remove deleted slots and empty branches; returns the number of slots removed."""
        return self.engine.compress()

    def sync(self) -> None:
        """Make everything logged so far durable."""
        self.engine.sync()

    def stats(self) -> EnvironmentStats:
        """The counters of the environment."""
        return self.engine.stats()

    def cleaner_stats(self) -> CleanerStats:
        """The cleaner's counters since the environment was opened for writing."""
        self.engine.check_writable()
        assert self.engine.cleaner is not None
        return self.engine.cleaner.stats()

    def close(self) -> None:
        """Close: abort open transactions, take a checkpoint if something was logged, release the lock (R-TXN-46).

        Raises:
            RefusedError: transactions were open; they have been aborted, except prepared ones, which stay open.
            JetoolError: the error of a background thread that has failed; then no closing checkpoint was taken.
        """
        self.engine.close()

    def _extinctions(self) -> Extinctions:
        self.engine.check_writable()
        found = self.engine.parts.extinctions
        assert found is not None
        return found

    def _prepare_extinction(self, name: str) -> None:
        """In a group, create the database of extinctions: a JE replica stops if it lacks that database."""
        from engine.db.extinction import DATABASE_NAME as EXTINCT_SCANS

        engine = self.engine
        if not engine.replicated or engine.database(EXTINCT_SCANS) is not None or engine.database(name) is None:
            return
        # Create it in a transaction of its own, as JE's masters do, so that it stays if the removal aborts.
        with write_operation(engine, None) as locker:
            engine.naming.create(EXTINCT_SCANS, DatabaseOptions(), locker, internal=True)

    def _handle(self, name: str, state: DatabaseState | None) -> Database:
        if state is None:
            raise DatabaseNotFoundError(
                f"no database {name!r}", file=self.home, hint=f"jetool dbs {self.home} lists them"
            )
        return Database(self.engine, state, self._dependents.setdefault(state.id, Dependents()))
