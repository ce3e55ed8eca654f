"""The only table of the SQL catalogue that checks need: SYSCONGLOMERATES, which names every container in use.

The container number of the table is in ``service.properties`` (``SysconglomeratesIdentifier``). Its columns begin with
schema id, table id and conglomerate number (long); the sixth describes an index. A conglomerate number is the container
number of a table or of an index; several constraints may share one index. After a crash the rows on disk may be older
or newer than those after recovery. So the records of this table are redone, and those of losers undone, on pages in
memory; the rest of recovery is left out. That is enough, since rows of a heap are undone in place (R-DRB-52, 53); only
rows of indexes move.

The table of properties is not in the catalogue; its number is in ``service.properties`` too. Only one property is read
from it: whether old log files are kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from engine.derby import loggable
from engine.derby.cache import NoLog, PageCache
from engine.derby.checkpoint import ARCHIVE_PROPERTY, KEEP_PROPERTY
from engine.derby.containers import Containers
from engine.derby.database import DerbyDatabase
from engine.derby.format import index_descriptor, page
from engine.derby.format.container import ContainerKey
from engine.derby.format.operations import registry
from engine.derby.format.row import FIELD_OVERFLOW
from engine.derby.log import DerbyLogFiles
from engine.derby.pages import LivePage
from engine.derby.recovery.compensate import place_of, undoable
from engine.derby.recovery.moved_rows import MovedRows
from engine.derby.recovery.redo import Redo
from engine.derby.service_properties import CATALOGUE, PROPERTIES_ID
from engine.derby.xact_table import Xact
from engine.errors import DamageError, FormatError
from engine.storage.overlay import OverlayStorage

# The numbers in every database made by Derby; used if the properties are missing.
_CATALOGUE_CONTAINER = 32
_PROPERTIES_CONTAINER = 16
_NUMBER_COLUMN = 2
_NUMBER_BYTES = 8
_DESCRIPTOR_COLUMN = 5


class PendingCatalogChanges(NamedTuple):
    """The changes that recovery would make to the catalogue.

    Attributes:
        log: the log files.
        redo_lwm: records from here on are redone.
        changes: instants of the catalogue's records in the scan, in log order.
        losers: transactions to roll back, in the order of undo.
    """

    log: DerbyLogFiles
    redo_lwm: int
    changes: list[int]
    losers: list[Xact]


def number_of(database: DerbyDatabase) -> int | None:
    """The container of the catalogue, or None: a page store.

    Without usable properties, the container has the number that Derby always uses.
    """
    if database.is_page_store:
        return None
    return database.service.number(CATALOGUE) or _CATALOGUE_CONTAINER


def properties_container(database: DerbyDatabase) -> int:
    """The container of the database's property table."""
    return database.service.number(PROPERTIES_ID) or _PROPERTIES_CONTAINER


class ContainerCatalog(NamedTuple):
    """The containers that the catalogue names.

    Attributes:
        numbers: container numbers of all tables and indexes, the catalogue itself and the property table included. None
            when there is no catalogue, or it is damaged. Empty if the properties name a wrong container, since the
            catalogue must contain its own number.
        base_columns: for each index its columns as positions in the table, counted from 0. Indexes with an unreadable
            description are left out.
        problem: why the catalogue cannot be read; None if it can be read, or does not exist.
    """

    numbers: set[int] | None
    base_columns: Mapping[int, tuple[int, ...]]
    problem: str | None


def conglomerates(database: DerbyDatabase, pending: PendingCatalogChanges) -> ContainerCatalog:
    """Container numbers of all tables and indexes as they are after recovery."""
    number = number_of(database)
    if number is None:
        return ContainerCatalog(None, {}, None)
    known = {number, properties_container(database)}
    stated = database.service.number(CATALOGUE) is not None
    # Nothing reaches the disk, not even an evicted page.
    containers = Containers(DerbyDatabase(OverlayStorage(database.storage)))
    cache = PageCache(containers, NoLog())
    try:
        _bring_up_to_date(cache, pending)
        home = containers.find(ContainerKey(0, number))
        if home is None:
            # A page store has no catalogue, even if its properties are missing.
            return ContainerCatalog(known if stated else None, {}, None)
        named: dict[int, tuple[int, ...] | None] = {}
        # Page 0 is the allocation page.
        for page_number in range(1, cache.page_count(home)):
            target = cache.get(home, page_number)
            if isinstance(target, LivePage) and target.header.status == page.VALID and not target.header.overflow:
                named.update(_named_on(target))
        if number not in named:
            return ContainerCatalog(set() if stated else None, {}, None)
        columns = {index: found for index, found in named.items() if found is not None}
        return ContainerCatalog(named.keys() | known, columns, None)
    except (DamageError, FormatError) as error:
        return ContainerCatalog(None, {}, error.what)
    finally:
        containers.close()


def keeps_log(database: DerbyDatabase, cache: PageCache) -> bool:
    """Whether old log files are kept (archive mode): a service property, or one in the database's property table."""
    names = ARCHIVE_PROPERTY, KEEP_PROPERTY
    if any(database.properties.get(name, "").lower() == "true" for name in names):
        return True
    home = cache.containers.find(ContainerKey(0, properties_container(database)))
    if home is None:
        return False
    pages = (cache.get(home, number) for number in range(1, cache.page_count(home)))
    rows = (one for target in pages if isinstance(target, LivePage) for one in target.rows if not one.deleted)
    # Name and value are text in the record, so its columns need not be separated.
    return any(b"true" in one.record and any(name.encode() in one.record for name in names) for one in rows)


def _bring_up_to_date(cache: PageCache, pending: PendingCatalogChanges) -> None:
    """Redo the changes, and undo the changes of losers."""
    redo, moved = Redo(pending.log, cache), MovedRows(cache)
    try:
        for at in pending.changes:
            if at >= pending.redo_lwm:
                redo.redo(pending.log.record(at))
    finally:
        redo.close()
    changed = set(pending.changes)
    for loser in pending.losers:
        own = [pending.log.record(at) for at in loser.instants if at in changed]
        compensated = {one.undo_instant for one in own if one.undo_instant is not None}
        for one in reversed(own):
            operation = one.operation
            if one.undo_instant is not None or one.instant in compensated or not undoable(operation):
                continue
            assert registry.is_page_operation(operation)
            home = cache.containers.find(ContainerKey(operation.segment, operation.container))
            target = cache.get(home, operation.page) if home is not None else None
            if home is None or target is None:
                raise FormatError("a page of the catalogue is not there")
            loggable.undo(target, operation, one.data, place_of(cache, moved, home, one, operation).record_id)
            cache.changed(home, operation.page)


def _named_on(target: LivePage) -> Iterator[tuple[int, tuple[int, ...] | None]]:
    """The conglomerate numbers of the rows of one page; for an index also its columns, if they can be read."""
    for one in target.rows:
        fields = one.decoded().fields
        if one.deleted or len(fields) <= _NUMBER_COLUMN:
            continue
        value = fields[_NUMBER_COLUMN].data
        if value is None or len(value) != _NUMBER_BYTES:
            continue
        columns = None
        if len(fields) > _DESCRIPTOR_COLUMN and not fields[_DESCRIPTOR_COLUMN].status & FIELD_OVERFLOW:
            with contextlib.suppress(FormatError):
                columns = index_descriptor.base_columns(fields[_DESCRIPTOR_COLUMN].data or b"")
        yield int.from_bytes(value, "big", signed=True), columns
