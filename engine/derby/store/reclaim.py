"""Work after a commit or a rollback, in internal transactions of its own (R-DRB-6).

Rows that a committed transaction has marked deleted are purged. Unneeded pieces of long values and empty pages are
returned, bytes that an update left reserved are freed, and the files of dropped tables are removed. After a rollback
the overflow pages that the transaction took are returned.

All of this happens under the latch right after the locks were released, before another transaction can use the purged
rows. A
crash in between leaves marked rows and unused pages: it wastes space, but loses no data. ``purge_key`` and
``purge_row`` check that the mark still exists, since the transaction may have written the key again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from engine.derby.containers import Container
from engine.derby.format import page
from engine.derby.format.column import Location
from engine.derby.format.container import ContainerKey
from engine.derby.format.operations import container as container_operations
from engine.derby.pages import LivePage
from engine.derby.recovery.redo import Redo
from engine.derby.store.heap import FIRST_PAGE, Heap
from engine.derby.store.space import give_back
from engine.derby.store.tables import StoreTable, StoreTables
from engine.derby.store.write_path import Core, RunningXact

Work: TypeAlias = Callable[[Core, RunningXact], None]


def run(core: Core, works: Sequence[Work]) -> None:
    """Do several pieces of work in one internal transaction; called with the latch held."""
    if works:
        with core.nested(internal=True) as running:
            for work in works:
                work(core, running)


def purge_key(table: StoreTable, key: bytes) -> Work:
    """Purge a marked row of the index."""

    def work(_: Core, running: RunningXact) -> None:
        entry = table.index.find(key)
        # The key may have been written again in the same transaction.
        if entry is not None and entry.deleted:
            table.index.purge(running, entry)

    return work


def purge_row(table: StoreTable, at: Location) -> Work:
    """Purge a marked row of the heap, with the pieces of its value."""

    def work(core: Core, running: RunningXact) -> None:
        heap = table.heap
        # The chain is read before the row that points to it is purged.
        pieces = heap.pieces_of(at)
        if heap.purge(running, at) and at.page != FIRST_PAGE:
            give_back(core, running, heap.container, at.page)
            heap.forget(at.page)
        if pieces is not None:
            _give_back_pieces(core, running, heap, pieces)

    return work


def purge_catalogue_row(tables: StoreTables, at: Location) -> Work:
    """Remove the row of a dropped table from the catalogue."""

    def work(_: Core, running: RunningXact) -> None:
        tables.purge_row(running, at)

    return work


def free_pieces(heap: Heap, first: Location) -> Work:
    """Return the pages of a replaced value."""

    def work(core: Core, running: RunningXact) -> None:
        _give_back_pieces(core, running, heap, first)

    return work


def free_slack(heap: Heap, at: Location) -> Work:
    """Free the bytes that an update left reserved, if the row still exists."""

    def work(_: Core, running: RunningXact) -> None:
        if heap.page(at.page).slot_of(at.record_id) is not None:
            heap.free_slack(running, at)

    return work


def remove_container(redo: Redo, key: ContainerKey) -> Work:
    """Remove the files of a dropped table: stub, then file, when the record is durable."""

    def work(core: Core, running: RunningXact) -> None:
        found = core.containers.find(key)
        if found is not None:
            where = *key, found.header.version, container_operations.REMOVE, None
            # R-DRB-8: the record is durable before the file is removed.
            redo.remove(key, core.log_container(running, container_operations.ContainerOperation(*where)))

    return work


def give_back_taken(found: Container, number: int) -> Work:
    """Return an overflow page that a rollback has left empty."""

    def work(core: Core, running: RunningXact) -> None:
        # The rollback may have undone the creation of the whole container.
        target = core.cache.get(found, number) if core.containers.find(found.key) is found else None
        if isinstance(target, LivePage) and target.header.status == page.VALID and not target.rows:
            give_back(core, running, found, number)

    return work


def _give_back_pieces(core: Core, running: RunningXact, heap: Heap, first: Location) -> None:
    # The whole chain is read first: a returned page no longer points to the next.
    for at in [at for at, _ in heap.pieces(first)]:
        give_back(core, running, heap.container, at.page)
