"""The write path of the store: log a change, then do it; transactions as the log sees them.

Rules:

* Order of a change (R-DRB-2): the operation is made for the current version of the page, encoded, appended to the log,
  then applied from the encoded data by the code that redo uses. If applying fails, the store is marked broken and
  stops: the log then has a change that is on no page. Recovery decides what holds.
* The begin of a transaction is written before its first change; a reader never appears in the log (R-DRB-3).
* A begin with its table entry, and an end with its removal, are one step under the latch, so a checkpoint sees a
  transaction before or after, never between (R-DRB-5).
* Internal transactions (structure changes, work after a commit) and nested allocation transactions end without a flush
  (R-DRB-6, 10); their records carry no logical undo.

One latch guards log buffer, pages and tables. It is held for one operation on a row, not while a transaction waits for
a lock or for the disk.

Example: T inserts a row whose page must be split. ``T: begin, insert into the heap``; ``I (internal): begin, N (new
page): begin, init page, allocate, end; I: insert, copy rows, purge, update, end``; ``T: insert into the index``. A
rollback of T leaves the split; a crash before I's end undoes I before T (R-DRB-51).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from engine.derby import loggable
from engine.derby.cache import PageCache
from engine.derby.containers import Container, Containers
from engine.derby.format.operations import container as container_operations
from engine.derby.format.operations import registry
from engine.derby.format.operations.transaction import INTERNAL
from engine.derby.format.record import NEED_LOCK, RAW_STORE
from engine.derby.log_writer import DerbyLogWriter
from engine.derby.pages import Page
from engine.derby.recovery.undo import Undo
from engine.derby.xact_table import Xact
from engine.errors import DamageError, JetoolError, RefusedError

_PAGE = RAW_STORE | NEED_LOCK


class RunningXact:
    """A transaction of the running store.

    Attributes:
        number: number of the transaction.
        internal: whether recovery would undo the transaction before all others.
        entry: begin record and further records of the transaction; None while it has written nothing.
    """

    __slots__ = ("entry", "internal", "number")

    def __init__(self, number: int, *, internal: bool) -> None:
        self.number = number
        self.internal = internal
        self.entry: Xact | None = None

    @property
    def records(self) -> int:
        """Number of records that the transaction has written; savepoints use this number as a position."""
        return 0 if self.entry is None else len(self.entry.instants)


class Core:
    """The write path that all parts of the store share.

    Arguments:
        writer: the log.
        cache: the pages.
        undo: rolls transactions back.
        next_number: number of the next transaction (R-DRB-61).

    Attributes:
        latch: guards everything here.
        open: transactions that have begun and not ended, by number.
    """

    def __init__(self, writer: DerbyLogWriter, cache: PageCache, undo: Undo, next_number: int) -> None:
        self.latch = RLock()
        self.writer = writer
        self.cache = cache
        self.undo = undo
        self.open: dict[int, Xact] = {}
        self.next_number = next_number
        self._broken: str | None = None

    @property
    def broken(self) -> bool:
        """Whether the store has stopped after a failure."""
        return self._broken is not None

    @property
    def containers(self) -> Containers:
        """The container files."""
        return self.cache.containers

    def require_whole(self) -> None:
        """RefusedError when the store has stopped after a failure."""
        if self._broken is not None:
            raise RefusedError(
                f"the store has stopped: {self._broken}",
                consequence="nothing more is read or written",
                hint="close it and open it again; recovery keeps what was committed",
            )

    def stop(self, why: str) -> None:
        """Stop the store: refuse all further operations."""
        self._broken = self._broken or why

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """An exception in this block stops the store."""
        self.require_whole()
        try:
            yield
        except BaseException as error:
            # Even an interrupt stops the store: the log may have a change that is on no page.
            self.stop(error.what if isinstance(error, JetoolError) else type(error).__name__)
            raise

    def begin(self, *, internal: bool = False) -> RunningXact:
        """A new transaction; nothing is logged yet."""
        with self.latch:
            self.require_whole()
            number, self.next_number = self.next_number, self.next_number + 1
            return RunningXact(number, internal=internal)

    def page(self, found: Container, number: int) -> Page:
        """A page that must exist. DamageError if it is missing."""
        target = self.cache.get(found, number)
        if target is None:
            raise DamageError(
                f"page {number} of {found.key} is not there",
                file=found.path,
                consequence="the store cannot go on",
                hint="run verify; restore from a backup and roll forward",
            )
        return target

    def change(
        self,
        running: RunningXact,
        found: Container,
        number: int,
        make: Callable[..., Any],
        *fields: Any,
        data: bytes = b"",
    ) -> None:
        """Log a page operation and do it.

        Arguments:
            running: the transaction.
            found: the container.
            number: the page.
            make: the class of the operation; called with segment, container, page and version, then ``fields``.
            data: the optional data of the operation.
        """
        with self.stopping():
            target = self.page(found, number)
            # R-DRB-2: the operation is made for the current version of the page, logged, then applied by the code that
            # redo uses.
            operation: registry.PageOperation = make(*found.key, number, target.version, *fields)
            self._append(running, _PAGE, operation, data)
            loggable.do(target, operation, data)
            target.version += loggable.raised_by(operation)
            self.cache.changed(found, number)

    def log_container(self, running: RunningXact, operation: container_operations.ContainerOperation) -> int:
        """Log an operation on a container, durably, before the files change; its instant (R-DRB-8)."""
        with self.stopping():
            at = self._append(running, RAW_STORE, operation, b"")
            # R-DRB-8: the record is durable before the caller touches a file.
            self.writer.flush()
            return at

    def end(self, running: RunningXact, *, committed: bool) -> int:
        """Append the end of a transaction; return the instant after it, 0 if nothing was written. Flushes nothing."""
        if running.entry is None:
            return 0
        with self.stopping():
            self.writer.finish(running.number, committed=committed)
            del self.open[running.number]
            running.entry = None
            return self.writer.end

    def roll_back(self, running: RunningXact, keep: int = 0) -> int:
        """Undo a transaction down to a savepoint; return the number of CLRs.

        Afterwards the transaction continues with ordinary records (R-DRB-9).
        """
        if running.entry is None or running.records <= keep:
            return 0
        with self.stopping():
            # Write out the log: undo reads the records of the transaction from the file.
            self.writer.write_out()
            return self.undo.roll_back(running.entry, keep)

    def abort_all(self) -> None:
        """Roll every open transaction back, the youngest first."""
        with self.stopping():
            self.writer.write_out()
            # R-DRB-51: the order of recovery's undo.
            for number in sorted(self.open, reverse=True):
                self.undo.roll_back(self.open[number])
                self.writer.finish(number, committed=False)
                del self.open[number]

    @contextmanager
    def nested(self, *, internal: bool) -> Iterator[RunningXact]:
        """A short transaction that ends with this block, without a flush."""
        running = self.begin(internal=internal)
        with self.stopping():
            yield running
            self.end(running, committed=True)

    def _append(self, running: RunningXact, group: int, operation: registry.Operation, data: bytes) -> int:
        if running.entry is None:
            first = self.writer.begin(running.number, INTERNAL if running.internal else 0)
            running.entry = Xact(running.number, first, internal=running.internal, global_id=None)
            self.open[running.number] = running.entry
        at = self.writer.append(group, running.number, operation, data)
        running.entry.instants.append(at)
        return at
