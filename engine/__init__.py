"""The storage engine under jetool: Berkeley DB JE's log format, read and written without a JVM.

Packages, bottom up: each imports only from packages above it in this list (see ARCHITECTURE.md):

* ``engine.errors``, ``engine.events``, ``engine.verdict``, ``engine.version``: the error classes, the progress
  listener, the words of verdicts, the version.
* ``engine.native``: the inner loops in C, and whether this is the native build.
* ``engine.fields``: results as records; each field declares its kind, unit and help.
* ``engine.format``: pure codecs, bytes to frozen records and back; no I/O.
* ``engine.storage``: all access to files.
* ``engine.workers``: forked worker processes, their queue and spill file.
* ``engine.contents``: what records mean to the applications that wrote them; no I/O.
* ``engine.log``: log files of an environment, readers, end of log, resynchronisation past damage, the writer.
* ``engine.tree``: B+trees in memory, splits, deltas, redo and undo of one record.
* ``engine.txn``: transactions, locks, chains of a transaction's entries.
* ``engine.catalog``: databases by id and by name.
* ``engine.checkpoint``, ``engine.recovery``: checkpoints, which bound the work of recovery, and recovery itself.
* ``engine.cleaner``, ``engine.evictor``, ``engine.vlsn``: log cleaning, the cache budget, the VLSN index.
* ``engine.db``: environments, databases, transactions, cursors; ``engine.db.engine`` for code that needs the internals.
* ``engine.inspect``: analyses for tools only: surveys, selections, fates, crash points.
* ``engine.journals``: the journals of Doris and StarRocks frontends.
* ``engine.verify``: checks that collect findings.
* ``engine.rescue``: truncating a log at a chosen point, salvage, and recovery and other repairs that can be undone.
* ``engine.backup``: directories of backups.
* ``engine.rep``: nodes of replication groups.
* ``engine.diagnosis``: the state of directories: what each is, whether it can start, what is lost, what to run next.
* ``engine.pipeline``: loads, exports, data sources and fleets on Spark.
* ``engine.derby``: the page store for Apache Derby's files; apart from the packages above, it imports only storage,
  errors and events.

The public names below are imported on first use, so that dumping a log does not load the engine. No module of this
package prints or depends on the command line.

Example::

    from engine import Environment, EnvironmentConfig

    with Environment("/data/env", EnvironmentConfig(create=True)) as env:
        with env.create_database("orders") as orders, env.begin() as txn:
            orders.put(b"4711", b"three crates", txn)

Also available: cursors (``engine.db.cursor``), secondaries with foreign keys and joins (``engine.db.secondary``),
sequences (``engine.db.sequence``), scans in disk order, preloading and statistics (``engine.db.whole_tree``), and
databases ordered by a Java class (``EnvironmentConfig.comparators``). All of them are stored in JE's format.

A long-running process opens its environment with ``EnvironmentConfig(...).with_background()``: then checkpoints,
cleaning, eviction, compression and flushing run in background threads (``engine.db.daemons``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.catalog.name_operations import DatabaseOptions
    from engine.db.config import EnvironmentConfig
    from engine.db.cursor import Cursor
    from engine.db.database import Database
    from engine.db.environment import Environment
    from engine.db.secondary import ForeignKeyDelete, SecondaryConfig, SecondaryDatabase
    from engine.db.sequence import Sequence, SequenceConfig
    from engine.db.transaction import Transaction
    from engine.derby.store.page_store import PageStore, StoreOptions
    from engine.txn.payload import PutMode
    from engine.txn.txn import Durability, Isolation, LockMode

__all__ = [
    "Cursor",
    "Database",
    "DatabaseOptions",
    "Durability",
    "Environment",
    "EnvironmentConfig",
    "ForeignKeyDelete",
    "Isolation",
    "LockMode",
    "PageStore",
    "PutMode",
    "SecondaryConfig",
    "SecondaryDatabase",
    "Sequence",
    "SequenceConfig",
    "StoreOptions",
    "Transaction",
]

_WHERE = {
    "Cursor": "engine.db.cursor",
    "Database": "engine.db.database",
    "DatabaseOptions": "engine.catalog.name_operations",
    "Durability": "engine.txn.txn",
    "Environment": "engine.db.environment",
    "EnvironmentConfig": "engine.db.config",
    "ForeignKeyDelete": "engine.db.secondary",
    "Isolation": "engine.txn.txn",
    "LockMode": "engine.txn.txn",
    "PageStore": "engine.derby.store.page_store",
    "PutMode": "engine.txn.payload",
    "SecondaryConfig": "engine.db.secondary",
    "SecondaryDatabase": "engine.db.secondary",
    "Sequence": "engine.db.sequence",
    "SequenceConfig": "engine.db.sequence",
    "StoreOptions": "engine.derby.store.page_store",
    "Transaction": "engine.db.transaction",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _WHERE:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
