"""Finds the containers that recovery needs, and those of them without a file.

A container is needed

* if a record from the redo low water mark on changes it, or an earlier record that must be undone, unless a stub or a
  later record shows that the container was removed. An earlier record that a CLR compensates is not undone again: after
  a rollback to a savepoint and a checkpoint, a table that the open transaction had created has neither file nor stub
  (R-DRB-56). Redo recreates a container whose creation is in the log, page by page (R-DRB-33), but not the rows that
  Derby put there without logging (R-DRB-74);
* if the SQL catalogue names it after redo and undo (``catalog``), or if it is the property table, which the catalogue
  does not name. Derby does not boot without the containers of the catalogue itself. Without any other container of the
  catalogue Derby boots, and every use of that container fails.

The scan for open transactions also collects the facts used here, so the check costs almost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.derby import catalog
from engine.derby.database import DerbyDatabase
from engine.derby.format import container as container_format
from engine.derby.format import instant
from engine.derby.format.container import ContainerKey
from engine.derby.format.operations import container, registry
from engine.derby.format.record import Record
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.derby.page_versions import PageVersions
from engine.derby.recovery.start import Start
from engine.derby.service_properties import PROPERTIES
from engine.derby.xact_table import XactTable
from engine.errors import DamageError, JetoolError, RefusedError, plural

STOPS, CERTAIN, POSSIBLE, UNREADABLE = "stops", "certain", "possible", "unreadable"
# Losses that must be accepted before recovery continues.
GIVEN_UP = (CERTAIN, UNREADABLE)


class MissingContainer(NamedTuple):
    """A container without a file, or the catalogue when it cannot be read.

    Attributes:
        key: name of the container.
        at: the first record that needs the container; 0 if only the catalogue names it.
        loss: ``STOPS``: redo cannot continue without the container; ``CERTAIN``: its content is lost; ``POSSIBLE``:
            redo recreates it, without rows that Derby may have put there without logging. ``UNREADABLE``: the file
            exists and is damaged.
        why: one clause.
    """

    key: ContainerKey
    at: int
    loss: str
    why: str


class Presence(NamedTuple):
    """The containers of a database compared with its files.

    Attributes:
        lost: containers that recovery or Derby needs and that have no file.
        catalogue: the result of ``catalog.conglomerates``; None if it cannot be used.
        base_columns: as in ``catalog.Catalogue``.
        misnamed: service properties that name no container of the catalogue, so that Derby does not start.
        misnamed_later: service properties that name no container of the catalogue, but with which Derby starts:
            statements that need the container fail.
    """

    lost: tuple[MissingContainer, ...]
    catalogue: set[int] | None
    base_columns: Mapping[int, tuple[int, ...]]
    misnamed: tuple[str, ...]
    misnamed_later: tuple[str, ...]


class Creation(NamedTuple):
    """A container whose creation is in the log."""

    at: int
    transaction: int | None


class ContainerNotes:
    """What a scan notes.

    Arguments:
        database: the database.
        redo_lwm: records from here on are redone.

    Attributes:
        named: the first record from the redo low water mark on that names a container.
        before: for each transaction the first earlier record that names it, unless a CLR before the redo low water
            mark compensates it; undo needs these.
        created: creations in the log.
        removed: containers that the log removes.
        of_catalogue: instants of all records of the catalogue in the scan.
    """

    __slots__ = ("_catalogue", "_redo_lwm", "before", "created", "named", "of_catalogue", "removed")

    def __init__(self, database: DerbyDatabase, redo_lwm: int) -> None:
        self._catalogue = catalog.number_of(database)
        self._redo_lwm = redo_lwm
        self.named: dict[ContainerKey, int] = {}
        self.before: dict[tuple[ContainerKey, int], int] = {}
        self.created: dict[ContainerKey, Creation] = {}
        self.removed: set[ContainerKey] = set()
        self.of_catalogue: list[int] = []

    def see(self, one: Record) -> None:
        """Account for a record, in log order."""
        operation = one.operation
        if registry.is_page_operation(operation):
            if operation.container == self._catalogue:
                self.of_catalogue.append(one.instant)
        elif not isinstance(operation, (container.ContainerOperation, container.ContainerUndo)):
            return
        key = ContainerKey(operation.segment, operation.container)
        if one.instant < self._redo_lwm:
            if one.transaction is None:
                return
            if one.undo_instant is None:
                self.before.setdefault((key, one.transaction), one.instant)
            # A transaction is undone backwards, so that nothing of it remains once its first record is compensated.
            elif self.before.get((key, one.transaction)) == one.undo_instant:
                del self.before[key, one.transaction]
            return
        # Whether a creation is undone later makes no difference: redo needs the container, or its stub.
        if isinstance(operation, container.ContainerUndo):
            return
        if key not in self.named:
            self.named[key] = one.instant
        if isinstance(operation, container.ContainerOperation):
            if operation.kind == container.CREATE:
                self.created[key] = Creation(one.instant, one.transaction)
            elif operation.kind == container.REMOVE:
                self.removed.add(key)


def containers_present(log: DerbyLogFiles, start: Start, table: XactTable, noted: ContainerNotes) -> Presence:
    """Compare the containers that the log and the catalogue name with the files.

    Arguments:
        log: the log files.
        start: where recovery starts.
        table: the transactions that are open at the end of the scan.
        noted: the facts that the scan has collected.
    """
    database = log.database
    found = database.containers()
    losers = {one.number for one in table.losers()}
    named = {key: at for (key, number), at in noted.before.items() if number in losers} | noted.named
    gone = {key for key in named if key not in found and key not in noted.removed}
    lost = [
        MissingContainer(key, named[key], STOPS, f"container {key.container} is named in the log and missing")
        for key in sorted(gone - noted.created.keys())
    ]
    # Undo removes the containers that an open transaction has created.
    remade = {key for key in gone & noted.created.keys() if noted.created[key].transaction not in losers}
    if remade:
        lost += _not_whole(log, start, noted, remade)
    read = catalog.conglomerates(
        database, catalog.PendingCatalogChanges(log, start.redo_lwm, noted.of_catalogue, table.losers())
    )
    catalogue = read.numbers
    home = catalog.number_of(database)
    if read.problem is not None and home is not None:
        why = f"the catalogue cannot be read: {read.problem}"
        lost.append(MissingContainer(ContainerKey(0, home), instant.NONE, UNREADABLE, why))
    for number in sorted(catalogue or ()):
        key = ContainerKey(0, number)
        # A stub shows that the file was removed; the catalogue does not record that.
        if found.get(key, True) and key not in noted.created and key not in gone:
            what = "is in the catalogue" if number != catalog.properties_container(database) else "holds the properties"
            lost.append(
                MissingContainer(key, instant.NONE, CERTAIN, f"container {number} {what} and its file is missing")
            )
    # Without its file the catalogue names only its own container.
    whole = catalogue is not None and home is not None and found.get(ContainerKey(0, home), True) is False
    wrong = database.service.misnamed(catalogue) if catalogue is not None and whole else []
    return Presence(
        lost=tuple(lost),
        catalogue=(catalogue or None) if whole else None,
        base_columns=read.base_columns,
        misnamed=tuple(name for name, at_once in wrong if at_once),
        misnamed_later=tuple(name for name, at_once in wrong if not at_once),
    )


def _not_whole(
    log: DerbyLogFiles, start: Start, noted: ContainerNotes, remade: set[ContainerKey]
) -> list[MissingContainer]:
    """Containers that redo recreates although the log may lack some of their rows."""
    versions = PageVersions(log, start.redo_lwm)
    for one in ForwardScan(log, start.undo_lwm):
        versions.see(one)
    lost = []
    for key in sorted(remade):
        pages = key.segment, key.container
        at, missing = noted.created[key].at, f"container {key.container} is missing"
        if versions.needs_pages(pages):
            why = f"{missing}, and the log has its creation but not all of its pages"
            lost.append(MissingContainer(key, at, STOPS, why))
        elif versions.may_lack_rows(pages):
            why = f"{missing}; recovery makes it again, without rows that Derby may have put there unlogged"
            lost.append(MissingContainer(key, at, POSSIBLE, why))
    return lost


def unused_containers(database: DerbyDatabase, catalogue: set[int], noted: ContainerNotes) -> set[ContainerKey]:
    """Container files that neither the catalogue nor a record of the scan names: leftovers, mostly of dropped tables.

    Derby ignores them, whatever their content. The header of such a file need not be marked as dropped: a restore into
    a directory that was not empty brings back containers of an older catalogue.

    Arguments:
        database: the database.
        catalogue: the containers in use, as they are after recovery.
        noted: the facts that the scan has collected.
    """
    named = {*noted.named, *(key for key, _ in noted.before)}
    return {
        key for key in database.containers() if key.segment == 0 and key.container not in catalogue and key not in named
    }


def require_properties(database: DerbyDatabase, misnamed: tuple[str, ...]) -> None:
    """RefusedError when the service properties name containers that are not in the catalogue."""
    if misnamed:
        raise RefusedError(
            misnamed_clause(misnamed),
            file=database.name(database.service.path or PROPERTIES),
            consequence="Derby does not start, or finds no table; nothing was changed",
            hint="bring the file back from a copy of this database",
        )


def misnamed_clause(misnamed: tuple[str, ...]) -> str:
    """A description of the fault in the properties."""
    more = f"; {plural(len(misnamed) - 1, 'more')}" if len(misnamed) > 1 else ""
    return f"the service properties name a container that is not in the catalogue: {misnamed[0]}{more}"


def require_containers(database: DerbyDatabase, lost: tuple[MissingContainer, ...], *, accept_loss: bool) -> None:
    """Raise when a container is missing: DamageError when redo would stop, else RefusedError unless accepted."""
    needed = [one for one in lost if one.loss == STOPS or (one.loss in GIVEN_UP and not accept_loss)]
    if not needed:
        return
    # A loss that cannot be accepted is reported first.
    first = min(needed, key=lambda one: one.loss != STOPS)
    kind: type[JetoolError] = DamageError if first.loss == STOPS else RefusedError
    accept = "" if first.loss == STOPS else "; recover --accept-loss continues without it"
    raise kind(
        first.why
        + (
            f"; {plural(len(needed) - 1, 'more container is', 'more containers are')} missing"
            if len(needed) > 1
            else ""
        ),
        file=database.name(container_format.path_of(first.key)),
        lsn=instant.show(first.at) if first.at else None,
        consequence="Derby does not start, or starts and fails where the table or index is used; nothing was changed",
        hint=f"bring the file back, or restore from a backup{accept}",
    )
