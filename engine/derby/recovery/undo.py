"""The undo pass: rolls losers back, one at a time.

Rules:

* Order: internal losers first, then the others; within each kind by descending number (R-DRB-51). Prepared transactions
  are kept (R-DRB-58). Each loser is rolled back completely, and its abort end flushed, before the next rollback begins.
* The records of one loser are read backward. A CLR leads to the record that it undid, and undo continues *before* that,
  so nothing is undone twice (R-DRB-50, 57).
* The CLR of a record is made for the current version of the page, appended to the log, then applied to the page.
* The removal of a container is logged before its file is deleted (R-DRB-8).

Example, ``crash-mixed``: losers 251 and 207, in this order. 207 had rolled back to a savepoint: its last four records
are undone, then the CLR (1,211500) leads to (1,204939), and undo continues before that with (1,83758). 45 CLRs in all.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from engine.derby import loggable
from engine.derby.cache import PageCache
from engine.derby.format import instant
from engine.derby.format.container import ContainerKey
from engine.derby.format.operations import container as container_operations
from engine.derby.format.operations import page as operations
from engine.derby.format.operations import registry
from engine.derby.format.record import COMPENSATION, NEED_LOCK, RAW_STORE, Record
from engine.derby.log import DerbyLogFiles
from engine.derby.log_writer import DerbyLogWriter
from engine.derby.recovery.compensate import place_of, undoable
from engine.derby.recovery.moved_rows import MovedRows
from engine.derby.recovery.redo import Redo, undrop
from engine.derby.xact_table import Xact, XactTable
from engine.errors import DamageError, FormatError, caused_by
from engine.events import Listener

PAGE_CLR = RAW_STORE | NEED_LOCK | COMPENSATION
CONTAINER_CLR = RAW_STORE | COMPENSATION


class UndoResult(NamedTuple):
    """A transaction that was rolled back, with the number of CLRs written in this run."""

    transaction: int
    internal: bool
    clrs: int


class Undo:
    """Rolls transactions back.

    Arguments:
        log: read for the records to undo.
        writer: where CLRs go.
        cache: the pages.
        redo: removes containers, as in the redo pass.
    """

    __slots__ = ("_cache", "_log", "_redo", "_writer")

    def __init__(self, log: DerbyLogFiles, writer: DerbyLogWriter, cache: PageCache, redo: Redo) -> None:
        self._log = log
        self._writer = writer
        self._cache = cache
        self._redo = redo

    def run(self, table: XactTable, listener: Listener) -> list[UndoResult]:
        """Roll back every loser of a table; only the prepared transactions remain in it."""
        undone = []
        losers, moved = table.losers(), MovedRows(self._cache)
        for done, one in enumerate(losers):
            listener.step("undo", done, len(losers))
            clrs = self.roll_back(one, moved=moved)
            # The end is durable before the next loser begins, so a crash does not repeat this rollback.
            self._writer.finish(one.number, committed=False)
            self._writer.flush()
            del table.open[one.number]
            undone.append(UndoResult(one.number, one.internal, clrs))
        return undone

    def roll_back(self, one: Xact, keep: int = 0, moved: MovedRows | None = None) -> int:
        """Undo the records of a transaction, last first, down to a savepoint (R-DRB-9).

        Arguments:
            one: the transaction; its CLRs are added to its records.
            keep: number of records at the start of the transaction that are kept.
            moved: finds rows that splits have moved; what it learns serves later transactions too.

        Returns: the number of CLRs written.
        """
        moved = moved or MovedRows(self._cache)
        index = len(one.instants) - 1
        clrs = 0
        while index >= keep:
            found = self._log.record(one.instants[index])
            if found.undo_instant is not None:
                # R-DRB-57: this CLR was written before the crash; the record that it undid is skipped.
                index = bisect_left(one.instants, found.undo_instant) - 1
                continue
            if undoable(found.operation):
                try:
                    one.instants.append(self._compensate(found, one.number, moved))
                except FormatError as error:
                    damage = DamageError(
                        f"undo stops: {error.what}",
                        lsn=instant.show(found.instant),
                        found=error.found,
                        consequence="an open transaction cannot be rolled back; "
                        "the log holds its compensation up to here",
                        hint="run verify; restore from a backup and roll forward",
                    )
                    raise caused_by(damage, error) from error
                clrs += 1
            index -= 1
        return clrs

    def _compensate(self, found: Record, number: int, moved: MovedRows) -> int:
        """Write the CLR of a record and apply it; return its instant."""
        operation = found.operation
        if isinstance(operation, container_operations.ContainerOperation):
            return self._compensate_container(found, operation, number)
        if not registry.is_page_operation(operation):
            raise FormatError("the record cannot be undone")
        key = ContainerKey(operation.segment, operation.container)
        home = self._cache.containers.find(key)
        if home is None:
            raise FormatError(f"{key} has vanished")
        place = place_of(self._cache, moved, home, found, operation)
        target = self._cache.get(home, place.page)
        if target is None:
            raise FormatError(f"page {place.page} of {key} is not there")
        # The CLR names the page that holds the row now, which may not be the page of the record.
        where = (key.segment, key.container, place.page, target.version)
        clr: registry.PageOperation = operations.PhysicalUndo(*where)
        if place.record_id is not None:
            clr = operations.LogicalUndo(*where, place.record_id)
        # R-DRB-2: log first, then the page; redo applies the CLR in the same way.
        at = self._writer.append(PAGE_CLR, number, clr, undo_instant=found.instant)
        loggable.undo(target, operation, found.data, place.record_id)
        target.version += loggable.raised_by_undo(operation)
        self._cache.changed(home, place.page)
        return at

    def _compensate_container(
        self, found: Record, operation: container_operations.ContainerOperation, number: int
    ) -> int:
        key = ContainerKey(operation.segment, operation.container)
        home = self._cache.containers.find(key)
        # If the crash came after a removal, the file may be gone; the CLR is still written.
        version = home.header.version if home is not None else operation.version
        clr = container_operations.ContainerUndo(key.segment, key.container, version)
        at = self._writer.append(CONTAINER_CLR, number, clr, undo_instant=found.instant)
        if operation.kind == container_operations.CREATE:
            # The removal must be in the log before the file is deleted (R-DRB-8).
            self._writer.flush()
            self._redo.remove(key, at)
        elif home is not None:
            undrop(home)
        return at
