"""The storage engine under jetool: Berkeley DB JE's log format, read and written without a JVM.

Packages, bottom up: each imports only from packages above it in this list (see ARCHITECTURE.md):

* ``engine.errors``, ``engine.events``, ``engine.verdict``, ``engine.version``: the error classes, the progress
  listener, the words of verdicts, the version.
* ``engine.arguments``: keys and data that callers pass, as bytes.
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
* ``engine.changelog``: the replication changelog of OpenDJ, in files of its own.
* ``engine.verify``: checks that collect findings.
* ``engine.rescue``: truncating a log at a chosen point, salvage, and recovery and other repairs that can be undone.
* ``engine.backup``: directories of backups.
* ``engine.rep``: nodes of replication groups.
* ``engine.diagnosis``: the state of directories: what each is, whether it can start, what is lost, what to run next.
* ``engine.monitor``: samples of running nodes, and of environments beside their writers.
* ``engine.pipeline``: loads, exports, data sources and fleets on Spark.
* ``engine.derby``: the page store for Apache Derby's files; apart from the packages above, it imports only storage,
  errors, events and arguments.

The public names below are imported on first use, so that dumping a log does not load the engine. Every error that the
library raises is one of them. No module of this package prints or depends on the command line.
``engine/doc/python.md`` shows the library by examples, and beside lmdb, plyvel, ZODB and berkeleydb.

Example::

    from engine import Environment, EnvironmentConfig

    with Environment("/data/env", EnvironmentConfig(create=True)) as env:
        with env.create_database("orders") as orders, env.begin() as txn:
            orders.put(b"4711", b"three crates", txn)

Threads may share environments, databases, secondaries and sequences; a transaction and its cursors belong to one thread
at a time. Nothing here is asyncio: calls block.

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
    from engine.arguments import BytesLike
    from engine.catalog.name_operations import DatabaseOptions
    from engine.cleaner.disk_limits import DiskLimitError
    from engine.contents.frontend_images import UnknownImageError
    from engine.db.config import EnvironmentConfig
    from engine.db.cursor import Cursor
    from engine.db.database import Database
    from engine.db.environment import Environment
    from engine.db.key_range import RecordRange
    from engine.db.secondary import (
        DeleteConstraintError,
        ForeignConstraintError,
        ForeignKeyDelete,
        SecondaryConfig,
        SecondaryDatabase,
        UniqueConstraintError,
    )
    from engine.db.secondary_cursor import SecondaryCursor, SecondaryRecord, join
    from engine.db.sequence import Sequence, SequenceConfig
    from engine.db.transaction import Transaction
    from engine.derby.store.page_store import PageStore, StoreOptions
    from engine.derby.store.transaction import StoreTransaction
    from engine.errors import (
        ArgumentError,
        ClosedError,
        DamageError,
        DatabaseNotFoundError,
        ExistsError,
        FormatError,
        InUseError,
        JetoolError,
        JobError,
        NotFoundError,
        ReadOnlyError,
        RefusedError,
        StorageError,
        TransactionAbortedError,
        TransactionStateError,
        UnsupportedError,
        UsageError,
    )
    from engine.rep.acks import InsufficientAcksError, InsufficientReplicasError
    from engine.rep.changes.feed import BehindError, LongHistoryError, LostPositionError, RewrittenError
    from engine.rep.changes.subscriber import NoMasterError, StalledError
    from engine.rep.client.call import AnswerError, ServiceError, TurnedAwayError
    from engine.rep.client.handshake import NameInUseError
    from engine.rep.client.hot_copy import CutError
    from engine.rep.master.membership import ConflictError
    from engine.rep.peers import DisconnectedError, PeerError, SilentError
    from engine.rep.records import CommittedError, NotMasterError
    from engine.rep.remote import UnknownOutcomeError
    from engine.rep.rollback import RollbackProhibitedError
    from engine.storage.crash import SimulatedCrashError
    from engine.storage.memory import MemoryStorage
    from engine.tree.keys import UnknownOrderError
    from engine.txn.lock_errors import (
        DeadlockError,
        LockConflictError,
        LockPreemptedError,
        LockTimeoutError,
        TransactionTimeoutError,
    )
    from engine.txn.payload import PutMode
    from engine.txn.txn import Durability, Isolation, LockMode
    from engine.vlsn.entry_waiters import WaitTimeoutError

__all__ = [
    "AnswerError",
    "ArgumentError",
    "BehindError",
    "BytesLike",
    "ClosedError",
    "CommittedError",
    "ConflictError",
    "Cursor",
    "CutError",
    "DamageError",
    "Database",
    "DatabaseNotFoundError",
    "DatabaseOptions",
    "DeadlockError",
    "DeleteConstraintError",
    "DisconnectedError",
    "DiskLimitError",
    "Durability",
    "Environment",
    "EnvironmentConfig",
    "ExistsError",
    "ForeignConstraintError",
    "ForeignKeyDelete",
    "FormatError",
    "InUseError",
    "InsufficientAcksError",
    "InsufficientReplicasError",
    "Isolation",
    "JetoolError",
    "JobError",
    "LockConflictError",
    "LockMode",
    "LockPreemptedError",
    "LockTimeoutError",
    "LongHistoryError",
    "LostPositionError",
    "MemoryStorage",
    "NameInUseError",
    "NoMasterError",
    "NotFoundError",
    "NotMasterError",
    "PageStore",
    "PeerError",
    "PutMode",
    "ReadOnlyError",
    "RecordRange",
    "RefusedError",
    "RewrittenError",
    "RollbackProhibitedError",
    "SecondaryConfig",
    "SecondaryCursor",
    "SecondaryDatabase",
    "SecondaryRecord",
    "Sequence",
    "SequenceConfig",
    "ServiceError",
    "SilentError",
    "SimulatedCrashError",
    "StalledError",
    "StorageError",
    "StoreOptions",
    "StoreTransaction",
    "Transaction",
    "TransactionAbortedError",
    "TransactionStateError",
    "TransactionTimeoutError",
    "TurnedAwayError",
    "UniqueConstraintError",
    "UnknownImageError",
    "UnknownOrderError",
    "UnknownOutcomeError",
    "UnsupportedError",
    "UsageError",
    "WaitTimeoutError",
    "join",
]

_NAMES = {
    "engine.catalog.name_operations": ("DatabaseOptions",),
    "engine.cleaner.disk_limits": ("DiskLimitError",),
    "engine.arguments": ("BytesLike",),
    "engine.db.config": ("EnvironmentConfig",),
    "engine.db.cursor": ("Cursor",),
    "engine.db.database": ("Database",),
    "engine.db.environment": ("Environment",),
    "engine.db.key_range": ("RecordRange",),
    "engine.db.secondary": (
        "DeleteConstraintError",
        "ForeignConstraintError",
        "ForeignKeyDelete",
        "SecondaryConfig",
        "SecondaryDatabase",
        "UniqueConstraintError",
    ),
    "engine.db.secondary_cursor": (
        "SecondaryCursor",
        "SecondaryRecord",
        "join",
    ),
    "engine.db.sequence": (
        "Sequence",
        "SequenceConfig",
    ),
    "engine.db.transaction": ("Transaction",),
    "engine.derby.store.page_store": (
        "PageStore",
        "StoreOptions",
    ),
    "engine.derby.store.transaction": ("StoreTransaction",),
    "engine.errors": (
        "ArgumentError",
        "ClosedError",
        "DamageError",
        "DatabaseNotFoundError",
        "ExistsError",
        "FormatError",
        "InUseError",
        "JetoolError",
        "JobError",
        "NotFoundError",
        "ReadOnlyError",
        "RefusedError",
        "StorageError",
        "TransactionAbortedError",
        "TransactionStateError",
        "UnsupportedError",
        "UsageError",
    ),
    "engine.rep.acks": (
        "InsufficientAcksError",
        "InsufficientReplicasError",
    ),
    "engine.rep.changes.feed": (
        "BehindError",
        "LongHistoryError",
        "LostPositionError",
        "RewrittenError",
    ),
    "engine.rep.changes.subscriber": (
        "NoMasterError",
        "StalledError",
    ),
    "engine.rep.client.call": (
        "AnswerError",
        "ServiceError",
        "TurnedAwayError",
    ),
    "engine.contents.frontend_images": ("UnknownImageError",),
    "engine.rep.client.handshake": ("NameInUseError",),
    "engine.rep.client.hot_copy": ("CutError",),
    "engine.rep.master.membership": ("ConflictError",),
    "engine.rep.peers": (
        "DisconnectedError",
        "PeerError",
        "SilentError",
    ),
    "engine.rep.records": (
        "CommittedError",
        "NotMasterError",
    ),
    "engine.rep.remote": ("UnknownOutcomeError",),
    "engine.rep.rollback": ("RollbackProhibitedError",),
    "engine.storage.crash": ("SimulatedCrashError",),
    "engine.storage.memory": ("MemoryStorage",),
    "engine.tree.keys": ("UnknownOrderError",),
    "engine.txn.lock_errors": (
        "DeadlockError",
        "LockConflictError",
        "LockPreemptedError",
        "LockTimeoutError",
        "TransactionTimeoutError",
    ),
    "engine.txn.payload": ("PutMode",),
    "engine.txn.txn": (
        "Durability",
        "Isolation",
        "LockMode",
    ),
    "engine.vlsn.entry_waiters": ("WaitTimeoutError",),
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _WHERE:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    """The public names, and the modules that have been imported."""
    return sorted({*globals(), *__all__})
