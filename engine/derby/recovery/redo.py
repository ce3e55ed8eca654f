"""The redo pass: repeat history from the redo low water mark.

There is no analysis pass; one forward scan is enough (R-DRB-30). For each record:

* Page record: the container is found, then the page, then versions are compared (R-DRB-34). Page version = record
  version: redo. Greater: already there, skip. Less: a record is missing; stop.
* If only a stub of the container is left, it was removed later: skip. A missing container is recreated by its create
  record; for any other record it is an error. A page after the end of the file, or never formatted, is created by its
  init record (R-DRB-33).
* CLR: the record at its undo instant is undone, on the page and the row that the CLR names (R-DRB-36).
* Container record: create does nothing if the file exists, drop sets the mark, remove writes the stub and deletes the
  file (R-DRB-35).
* A checkpoint record is not repeated, and stored files are not removed: skipping both is harmless (R-DRB-32).

Example, ``crash-five-transactions``: page 1 of 0x490 is on disk at version 14. (1,41609), version 13, lies before
redoLWM and is ignored. (1,41924), version 14: redo, the page becomes 15.
"""

from __future__ import annotations

from typing import Final

from engine.derby import loggable
from engine.derby.cache import PageCache
from engine.derby.containers import Container
from engine.derby.format import container, instant
from engine.derby.format.container import ContainerKey
from engine.derby.format.operations import container as container_operations
from engine.derby.format.operations import page as operations
from engine.derby.format.operations import registry
from engine.derby.format.record import Record
from engine.derby.log import DerbyLogFiles
from engine.derby.pages import Page
from engine.errors import DamageError, FormatError, caused_by

_new_tuple: Final = tuple.__new__


class Redo:
    """Applies records to pages and containers.

    Arguments:
        log: the log files.
        cache: the pages.

    Attributes:
        seen: number of page and container records read.
        applied: number of records that changed a page or a container.
        skipped: number of records that were already applied, or whose container was removed.
    """

    __slots__ = ("_cache", "_containers", "_log", "applied", "seen", "skipped")

    def __init__(self, log: DerbyLogFiles, cache: PageCache) -> None:
        # The records that CLRs compensate lie far before them. A reader of their own keeps the window of the scan.
        self._log = DerbyLogFiles(log.database)
        self._cache = cache
        self._containers = cache.containers
        self.seen = 0
        self.applied = 0
        self.skipped = 0

    def close(self) -> None:
        """Close the log file that was read last."""
        self._log.forget()

    def redo(self, one: Record) -> None:
        """Apply one record again. DamageError if that is impossible."""
        operation = one.operation
        try:
            if registry.is_page_operation(operation):
                done = self._redo_page(one, operation)
            elif isinstance(operation, container_operations.ContainerOperation):
                done = self._redo_container(one, operation)
            elif isinstance(operation, container_operations.ContainerUndo):
                done = self._redo_container_undo(one, operation)
            else:
                return
        except FormatError as error:
            raise caused_by(_stopped(one, str(error)), error) from error
        self.seen += 1
        if done:
            self.applied += 1
        else:
            self.skipped += 1

    def _redo_page(self, one: Record, operation: registry.PageOperation) -> bool:
        key = _new_tuple(ContainerKey, (operation.segment, operation.container))
        found = self._containers.find(key)
        if found is None:
            # The stub shows that a later record has removed the container (R-DRB-35).
            if self._containers.has_stub(key):
                return False
            raise _stopped(one, f"{key} has vanished", "the container file is missing, and its creation is not logged")
        target = self._cache.get(found, operation.page)
        if target is None:
            # R-DRB-33: only the init record can make a page from nothing.
            if not isinstance(operation, operations.InitPage):
                raise _stopped(one, f"page {operation.page} of {key} is not there", "it was never initialised")
            target = self._cache.make(found, operation.page, operation.page_format)
        # R-DRB-34: the page was written after this record.
        if target.version > operation.version:
            return False
        if target.version < operation.version:
            what = f"page {operation.page} of {key} has version {target.version}, the record is for {operation.version}"
            raise _stopped(one, what, "a log record in front of it is missing")
        # Equal versions: the page is exactly as it was when the record was written.
        raised = self._apply(one, operation, target)
        target.version = operation.version + raised
        self._cache.changed(found, operation.page)
        return True

    def _apply(self, one: Record, operation: registry.PageOperation, target: Page) -> int:
        """Apply the operation, or the undo described by the CLR; return the increase of the page version."""
        if one.undo_instant is None:
            loggable.do(target, operation, one.data)
            return loggable.raised_by(operation)
        # R-DRB-36: a CLR carries no data; the data is in the record that it undoes.
        undone = self._log.record(one.undo_instant)
        if not registry.is_page_operation(undone.operation):
            raise FormatError("a CLR compensates a record that changes no page", found=instant.show(one.undo_instant))
        record_id = operation.record_id if isinstance(operation, operations.LogicalUndo) else None
        loggable.undo(target, undone.operation, undone.data, record_id)
        return loggable.raised_by_undo(undone.operation)

    def _redo_container(self, one: Record, operation: container_operations.ContainerOperation) -> bool:
        key = ContainerKey(operation.segment, operation.container)
        if operation.kind == container_operations.REMOVE:
            return self.remove(key, one.instant)
        found = self._containers.find(key)
        if found is None:
            # A stub shows that the container was removed later: recreating it would bring it back for good.
            if operation.kind == container_operations.CREATE and not self._containers.has_stub(key):
                assert operation.header is not None
                self._containers.create(key, container.decode_header(operation.header))
                return True
            return False
        # Drop raises the version, so another version means that the drop was applied before.
        if operation.kind == container_operations.CREATE or found.header.version != operation.version:
            return False
        drop(found)
        return True

    def _redo_container_undo(self, one: Record, operation: container_operations.ContainerUndo) -> bool:
        if one.undo_instant is None:
            raise FormatError("a container CLR does not say what it compensates")
        undone = self._log.record(one.undo_instant).operation
        if not isinstance(undone, container_operations.ContainerOperation):
            raise FormatError("a container CLR compensates another record", found=instant.show(one.undo_instant))
        key = ContainerKey(operation.segment, operation.container)
        if undone.kind == container_operations.CREATE:
            return self.remove(key, one.instant)
        found = self._containers.find(key)
        if found is None or found.header.version != operation.version:
            return False
        undrop(found)
        return True

    def remove(self, key: ContainerKey, at: int) -> bool:
        """Remove a container; return whether its file still existed."""
        there = self._containers.find(key) is not None
        # Drop the changed pages of the container: they must not be written after the file is removed.
        self._cache.forget(key)
        self._containers.remove(key, at)
        return there


def drop(found: Container) -> None:
    """Mark a container dropped and raise its version."""
    found.change_header(status=found.header.status | container.DROPPED, version=found.header.version + 1)


def undrop(found: Container) -> None:
    """Clear the dropped mark and raise the version."""
    found.change_header(status=found.header.status & ~container.DROPPED, version=found.header.version + 1)


def _stopped(one: Record, what: str, why: str | None = None) -> DamageError:
    return DamageError(
        f"redo stops: {what}",
        lsn=instant.show(one.instant),
        found=why,
        consequence="the database cannot be recovered to its last commit; nothing was written to the log",
        hint="restore from a backup and roll forward with all log files since",
    )
