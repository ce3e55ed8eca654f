"""The page store: opened with recovery, closed with a checkpoint.

Opening locks the directory as a JVM does, recovers it if needed (``engine.derby.recovery``), and appends after the last
record. A read-only store works on an overlay in memory: recovery happens there, and nothing is locked or changed.

Closing rolls back open transactions and takes a checkpoint, so the next opening has nothing to recover. ``crash``
leaves the files as if the process had died. A checkpoint is also taken after a commit when more log than the checkpoint
interval has been written since the last one (R-DRB-20).

The page-LSN variant of textbook ARIES, and where this store differs, are described in ``engine.derby.textbook``.

Example, a new store with one table, one record (log switch interval 1 MiB)::

    (1,61)     T1: begin, create container 32, its pages, descriptor row; end     the catalogue
    ...        checkpoint: begin, checkpoint record, end; log.ctrl names it
    ...        T5: begin; create containers 48 and 49, with their pages (nested transactions); row of the catalogue; end
    ...        T10: begin; insert into container 48 page 1; insert into container 49 page 1, logical; end, flushed
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

from engine.arguments import BytesLike
from engine.derby.cache import PageCache
from engine.derby.checkpoint import (
    ARCHIVE_PROPERTY,
    CheckpointResult,
    DerbyCheckpointer,
    TruncationPoint,
    archive_point,
)
from engine.derby.containers import Containers
from engine.derby.database import DerbyDatabase
from engine.derby.database_info import analyse
from engine.derby.format.control import Control
from engine.derby.log import DerbyLogFiles
from engine.derby.log_writer import DEFAULT_BUFFER_BYTES, DEFAULT_SWITCH_BYTES, DerbyLogWriter
from engine.derby.page_copies import PageCopies
from engine.derby.recovery.manager import DerbyRecoveryResult, RecoveryOptions, recover_locked, unlock
from engine.derby.recovery.redo import Redo
from engine.derby.recovery.undo import Undo
from engine.derby.service_properties import read_properties
from engine.derby.store.commits import DerbyGroupCommit
from engine.derby.store.layout import make_files, require_store, switch_bytes, write_properties
from engine.derby.store.locks import Locks
from engine.derby.store.tables import CATALOGUE, DEFAULT_PAGE_BYTES, StoreTables, TablePlace, make_heap
from engine.derby.store.transaction import StoreParts, StoreTransaction
from engine.derby.store.write_path import Core
from engine.events import SILENT, Listener
from engine.storage.base import Lock, Storage
from engine.storage.overlay import OverlayStorage

# A structure change uses a few pages at once.
_FEWEST_PAGES = 40


class StoreOptions(NamedTuple):
    """How a store works.

    Attributes:
        cache_pages: pages kept in memory, at least 40.
        buffer_bytes: log buffer; decides where checksum groups end.
        checkpoint_bytes: log written between automatic checkpoints; 0 for none.
        lock_timeout_s: how long a transaction waits for a key.
        accept_loss: recover even if committed transactions lie after the end of the log.
    """

    cache_pages: int = 4096
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    checkpoint_bytes: int = 10_485_760
    lock_timeout_s: float = 10.0
    accept_loss: bool = False


DEFAULTS = StoreOptions()


class PageStore:
    """An open store.

    Arguments:
        storage: the directory of the store.
        options: see ``StoreOptions``.
        read_only: recover and work on a view in memory; nothing is locked or changed.
        backup: directory where recovery saves the bytes that it overwrites; None saves nothing.
        listener: receives progress of the steps of recovery and of checkpoints.

    Attributes:
        recovered: the result of recovery at opening.

    Raises:
        NotFoundError: no database there.
        UsageError: a database with an SQL catalogue.
        RefusedError: another process has it open, or committed transactions would be lost.
        UnsupportedError, DamageError: as ``recover``.
    """

    def __init__(
        self,
        storage: Storage,
        options: StoreOptions = DEFAULTS,
        *,
        read_only: bool = False,
        backup: Storage | None = None,
        listener: Listener = SILENT,
    ) -> None:
        self._storage = OverlayStorage(storage) if read_only else storage
        self._options = options
        self._appended = 0
        self._truncation_points: dict[str, int] = {}
        self._closed = False
        self._listener = listener
        self._database = DerbyDatabase(self._storage)
        require_store(self._database)
        # Lock the directory before recovery reads anything: another process may be writing.
        self._lock: Lock | None = None if read_only else self._database.lock()
        try:
            how = RecoveryOptions(accept_loss=options.accept_loss, switch_bytes=switch_bytes(self._database))
            self.recovered: DerbyRecoveryResult = recover_locked(self._storage, how, backup, listener)
            self._open()
        except BaseException:
            # An opening that fails must not keep the directory locked.
            self._release()
            raise

    @classmethod
    def create(
        cls,
        storage: Storage,
        options: StoreOptions = DEFAULTS,
        *,
        log_file_bytes: int = DEFAULT_SWITCH_BYTES,
        archive: bool = False,
        listener: Listener = SILENT,
    ) -> PageStore:
        """Make a store and open it.

        Arguments:
            storage: a directory that is empty or does not exist.
            options: see ``StoreOptions``.
            log_file_bytes: log switch interval, 100 000 to 134 217 728.
            archive: keep every log file (R-DRB-73).
            listener: as above.

        Raises: RefusedError when the directory is not empty; UsageError when the interval is not possible.
        """
        make_files(storage, log_file_bytes, archive=archive)
        return cls(storage, options, listener=listener)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<PageStore {self._storage.root!r}, {'closed' if self._closed else 'open'}>"

    @property
    def archive(self) -> bool:
        """Whether every log file is kept."""
        return self._database.properties.get(ARCHIVE_PROPERTY, "").lower() == "true"

    @property
    def end(self) -> int:
        """Instant of the next record."""
        return self._core.writer.end

    @property
    def core(self) -> Core:
        """Log and pages of the open store, for operations that were added to the registry."""
        return self._core

    @property
    def commits(self) -> DerbyGroupCommit:
        """The group commit of the store, which counts its flushes."""
        return self._parts.commits

    def begin(self) -> StoreTransaction:
        """A new transaction."""
        return StoreTransaction(self._parts)

    def tables(self) -> list[str]:
        """Names of the tables, sorted, including those created by open transactions."""
        with self._core.latch:
            return self._parts.tables.names()

    def places(self) -> list[TablePlace]:
        """Location and size of each table, by name."""
        with self._core.latch:
            self._core.require_whole()
            return [self._parts.tables.place(name) for name in self._parts.tables.names()]

    def create_table(self, name: str, page_bytes: int = DEFAULT_PAGE_BYTES) -> None:
        """Create a table in a transaction of its own; errors as ``StoreTransaction.create_table``."""
        with self.begin() as txn:
            txn.create_table(name, page_bytes)

    def put(self, name: str, key: BytesLike, value: BytesLike) -> None:
        """Write a record in a transaction of its own; errors as ``StoreTransaction.put``."""
        with self.begin() as txn:
            txn.put(name, key, value)

    def get(self, name: str, key: BytesLike) -> bytes | None:
        """The value of a key, or None. NotFoundError if the table does not exist."""
        with self.begin() as txn:
            return txn.get(name, key)

    def delete(self, name: str, key: BytesLike) -> bool:
        """Delete a record in a transaction of its own; False if the key does not exist."""
        with self.begin() as txn:
            return txn.delete(name, key)

    def scan(
        self, name: str, start: BytesLike | None = None, stop: BytesLike | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Records in the order of their keys, from ``start`` on and before ``stop``."""
        with self.begin() as txn:
            yield from txn.scan(name, start, stop, reverse=reverse)

    def flush(self) -> None:
        """Make everything appended durable, including records of open transactions."""
        with self._core.latch, self._core.stopping():
            self._core.writer.flush()

    def checkpoint(self) -> CheckpointResult:
        """Take a checkpoint (R-DRB-21); no other operation runs meanwhile."""
        core = self._core
        with core.latch, core.stopping():
            # The checkpoint transaction logs nothing before step 5.
            number = core.begin().number
            points = [TruncationPoint(*one) for one in self._truncation_points.items()]
            if self.archive:
                points.append(archive_point(self._log))
            checkpointer = DerbyCheckpointer(
                self._database,
                self._log,
                core.writer,
                core.cache,
                truncation_points=tuple(points),
                listener=self._listener,
            )
            done = checkpointer.take(number, list(core.open.values()), self._database.controls().chosen or Control())
            # As long as nothing is appended after this place, closing needs no checkpoint.
            self._settled, self._appended = core.writer.end, core.writer.appended_bytes
            return done

    def set_truncation_point(self, client: str, at: int | None) -> None:
        """Keep the log from an instant on for a client, while the store is open; None releases it."""
        with self._core.latch:
            self._truncation_points.pop(client, None)
            if at is not None:
                self._truncation_points[client] = at

    def set_archive(self, *, keep: bool) -> None:
        """Keep every log file from now on, or stop doing so; the next checkpoint deletes what is not needed."""
        with self._core.latch:
            properties = {**self._database.properties, ARCHIVE_PROPERTY: "true" if keep else "false"}
            write_properties(self._storage, properties)
            self._database.service = read_properties(self._database.storage)

    def close(self) -> None:
        """Roll back open transactions, take a checkpoint and unlock the directory. Closing twice is harmless."""
        if self._closed:
            return
        try:
            with self._core.latch:
                # If the store is broken, its state in memory cannot be trusted; the next opening recovers.
                if self._core.broken:
                    return
                if self._core.writer.end != self._settled:
                    self._core.abort_all()
                    self.checkpoint()
                # Every page is durable in its container after the checkpoint.
                self._copies.remove()
        finally:
            self.crash()

    def crash(self) -> None:
        """Unlock the directory and leave it as if the process had died."""
        if self._closed:
            return
        self._closed = True
        self._core.stop("it is closed")
        self._core.writer.close()
        self._core.containers.close()
        self._copies.close()
        self._log.forget()
        self._release()

    def _open(self) -> None:
        options = self._options
        self._log = DerbyLogFiles(self._database)
        analysis = analyse(self._log, self._database.controls())
        writer = DerbyLogWriter(
            self._log, analysis.end.append, buffer_bytes=options.buffer_bytes, switch_bytes=switch_bytes(self._database)
        )
        containers = Containers(self._database)
        # Register the stubs on disk: the next checkpoint deletes them, since their containers were removed before it.
        containers.adopt_stubs()
        self._copies = PageCopies(self._storage)
        cache = PageCache(containers, writer, max(options.cache_pages, _FEWEST_PAGES), copies=self._copies)
        redo = Redo(self._log, cache)
        self._core = Core(writer, cache, Undo(self._log, writer, cache, redo), analysis.next_transaction)
        self._settled = writer.end
        if self._core.containers.find(CATALOGUE) is None:
            # The store is new, or its creation was interrupted after the files were made.
            with self._core.latch, self._core.nested(internal=False) as running:
                make_heap(self._core, running, CATALOGUE, DEFAULT_PAGE_BYTES)
            self.checkpoint()
        self._parts = StoreParts(
            self._core,
            Locks(options.lock_timeout_s),
            DerbyGroupCommit(self._core),
            StoreTables(self._core),
            redo,
            self._checkpoint_if_due,
        )

    def _checkpoint_if_due(self) -> None:
        interval = self._options.checkpoint_bytes
        with self._core.latch:
            if interval and self._core.writer.appended_bytes > self._appended + interval:
                self.checkpoint()

    def _release(self) -> None:
        if self._lock is not None:
            unlock(self._storage, self._lock)
            self._lock = None
