"""Allocating and returning the pages of a container.

Each allocation page maps a range of pages; they are chained. Allocation takes the first free page in the maps, else the
next page that was never used, else makes a new allocation page after the range of the last one. The init record of the
page and the record on the allocation page belong to a nested transaction that ends at once, so that others can use the
same allocation page (R-DRB-10). A reused page continues its version count.

A page is returned after a commit or a rollback (``reclaim``): it is marked invalid and free. The container file is not
shortened.
"""

from __future__ import annotations

from engine.derby.containers import Container
from engine.derby.format import allocation, container, page
from engine.derby.format.operations import page as operations
from engine.derby.pages import LiveAllocation, LivePage
from engine.derby.store.write_path import Core, RunningXact
from engine.errors import DamageError

ALLOCATION_PAGE = 0


def allocate(core: Core, found: Container, *, overflow: bool = False) -> int:
    """Allocate a page in a nested transaction; return its number.

    Arguments:
        core: the write path.
        found: the container.
        overflow: whether it will hold pieces of rows.
    """
    with core.nested(internal=False) as running:
        own, target = ALLOCATION_PAGE, _map(core, found, ALLOCATION_PAGE)
        while True:
            number = _usable(target)
            if number is not None:
                # A crash between the two undoes both: they belong to one nested transaction.
                _initialise(core, running, found, number, operations.INIT_OVERFLOW if overflow else 0)
                status = operations.ALLOCATED, operations.FREE
                core.change(running, found, own, operations.AllocatePage, number, *status)
                return number
            if target.content.next_page == allocation.NO_PAGE:
                _chain(core, running, found, own, target.content.extent.last_page + 1)
            own = _map(core, found, own).content.next_page
            target = _map(core, found, own)


def initialise_container(core: Core, found: Container) -> None:
    """Initialise the first allocation page and the first page of a new container."""
    with core.nested(internal=False) as running:
        fields = page.FIRST_RECORD_ID, 0, 0, page.ALLOCATION
        core.change(running, found, ALLOCATION_PAGE, operations.InitPage, *fields)
    allocate(core, found)


def give_back(core: Core, running: RunningXact, found: Container, number: int) -> None:
    """Mark a page invalid and free, in an internal transaction."""
    own, target = ALLOCATION_PAGE, _map(core, found, ALLOCATION_PAGE)
    while number > target.content.extent.last_page:
        own = target.content.next_page
        target = _map(core, found, own)
    # The page is invalid before the map marks it as free.
    core.change(running, found, number, operations.InvalidatePage)
    core.change(running, found, own, operations.AllocatePage, number, operations.DEALLOCATED, operations.ALLOCATED)


def highest_page(core: Core, found: Container) -> int:
    """The highest page that was ever used."""
    target = _map(core, found, ALLOCATION_PAGE)
    while target.content.next_page != allocation.NO_PAGE:
        target = _map(core, found, target.content.next_page)
    extent = target.content.extent
    return extent.first_page + extent.allocated - 1


def _usable(target: LiveAllocation) -> int | None:
    """A free page in the map, or the next unused one; None if the range is full."""
    extent = target.content.extent
    if extent.status & allocation.HAS_FREE:
        for at, byte in enumerate(target.content.free.data):
            if byte:
                # The most significant bit of a byte is its first page.
                return extent.first_page + at * 8 + 8 - byte.bit_length()
    number = extent.first_page + extent.allocated
    return number if number <= extent.last_page else None


def _initialise(core: Core, running: RunningXact, found: Container, number: int, flags: int) -> None:
    known = core.cache.get(found, number)
    next_id = page.FIRST_RECORD_ID
    if known is None:
        core.cache.make(found, number, page.STORED)
    elif isinstance(known, LivePage) and known.version > 0:
        # The version of a reused page continues, so that older records of the page cannot match it again.
        flags |= operations.INIT_REUSE
        # A heap must not assign a record id twice, since undo finds rows by their ids.
        if not found.header.status & container.REUSABLE_IDS:
            next_id = known.next_record_id
    offset = number * found.header.page_size
    core.change(running, found, number, operations.InitPage, next_id, flags, offset, page.STORED)


def _chain(core: Core, running: RunningXact, found: Container, own: int, number: int) -> None:
    """Make the next allocation page and link it."""
    if core.cache.get(found, number) is None:
        core.cache.make(found, number, page.ALLOCATION)
    fields = page.FIRST_RECORD_ID, 0, number, page.ALLOCATION
    core.change(running, found, number, operations.InitPage, *fields)
    core.change(running, found, own, operations.ChainAllocationPage, number, number * found.header.page_size)


def _map(core: Core, found: Container, number: int) -> LiveAllocation:
    target = core.page(found, number)
    if not isinstance(target, LiveAllocation):
        raise DamageError(
            f"page {number} of {found.key} is no allocation page",
            file=found.path,
            consequence="the store cannot go on",
            hint="run verify; restore from a backup and roll forward",
        )
    return target
