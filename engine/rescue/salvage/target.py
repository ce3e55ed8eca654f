"""A new environment with salvaged records.

Databases are made as the old ones were: duplicates, key prefixing, slots of a node. Records keep their expiration. They
come in key order, so that they are appended (``txn.bulk_append``) and nodes fill up; those of databases that take no
appending go in transactions without a sync. The checkpoint of the close makes all of it durable.

A database whose keys are in the order of a Java class cannot be made here: the records would stand in another order
than JE looks for them in. ``accepts`` says which those are.
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
    """An environment that takes records, by database and key in order.

    Arguments:
        storage: an empty directory.
    """

    def __init__(self, storage: Storage) -> None:
        self._env = Environment(storage, EnvironmentConfig(create=True, cache_bytes=CACHE_BYTES))
        self._db: tuple[str, Database] | None = None
        # The open database takes records at its end.
        self._appends = False

    def accepts(self, database: SalvagedDatabase) -> bool:
        """Whether the database can be made."""
        return not database.db.comparator

    def put(self, database: SalvagedDatabase, records: Sequence[SalvagedRecord]) -> None:
        """Records more; of a batch that is small beside the cache."""
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
        """Make a database that may get no record."""
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
        # What is there already may have later keys.
        self._appends = not there and can_append(self._env.engine.ctx, db.state)
        return db
