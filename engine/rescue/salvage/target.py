"""A new environment with salvaged records.

Databases are created with the properties of the old ones: duplicates, key prefixing, slots per node. Records keep their
expiration. Records come in key order, so they are appended (``txn.bulk_append``) and nodes are filled; in databases
that do not support this, they are put in transactions without a sync. The checkpoint of the close makes everything
durable.

A database whose keys are ordered by a Java class cannot be created here: JE would search the records in another order.
``accepts`` excludes such databases.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.rescue.salvage.results import SalvagedDatabase, SalvagedRecord
from engine.rescue.salvage.sources import CACHE_BYTES
from engine.storage.base import Storage
from engine.txn.bulk_append import append, can_append
from engine.txn.txn import Durability


class NewEnvironment:
    """An environment that takes records in the order of database and key.

    Arguments:
        storage: an empty directory.
    """

    def __init__(self, storage: Storage) -> None:
        self._env = Environment(storage, EnvironmentConfig(create=True, cache_bytes=CACHE_BYTES))
        self._db: tuple[str, Database] | None = None
        # Whether the open database supports appending.
        self._appends = False

    def accepts(self, database: SalvagedDatabase) -> bool:
        """Whether the database can be created."""
        return not database.db.comparator

    def put(self, database: SalvagedDatabase, records: Sequence[SalvagedRecord]) -> None:
        """Add records; the batch must be small compared with the cache."""
        db = self._database(database)
        engine = self._env.engine
        if self._appends:
            engine.check_writes()
            append(engine.ctx, db.state, [record[1:4] for record in records])
            engine.keep_budget()
            return
        with self._env.begin(durability=Durability.NO_SYNC) as txn:
            for record in records:
                db.put(record.key, record.data, txn, expiration=record.expiration, update_expiration=True)

    def make(self, database: SalvagedDatabase) -> None:
        """Create a database, which may stay empty."""
        self._database(database)

    def close(self) -> None:
        """Finish: everything is durable."""
        if self._db is not None:
            self._db[1].close()
        self._env.close()

    def _database(self, database: SalvagedDatabase) -> Database:
        name = database.db.name
        if self._db is not None and self._db[0] == name:
            return self._db[1]
        if self._db is not None:
            self._db[1].close()
        options = DatabaseOptions(
            duplicates=database.db.duplicates,
            key_prefixing=database.db.key_prefixing,
            max_entries=database.db.max_entries,
        )
        there = name in self._env.database_names()
        db = self._env.open_database(name) if there else self._env.create_database(name, options)
        self._db = name, db
        # Existing records may have later keys.
        self._appends = not there and can_append(self._env.engine.ctx, db.state)
        return db
