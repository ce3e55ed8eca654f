"""Compensation: the CLR that undoes a record, and the page and row where it does so.

Rules (R-DRB-50 to 54):

* Insert, delete and update field get a *logical* CLR, which names page, version and record id. When the record allows
  logical undo (its row is in a B-tree) the row may have moved: if the page still has the record id, with all columns
  equal to those in the record, the row has not moved; otherwise the index is searched for it.
* The other page operations get a *physical* CLR for their own page.
* Creation and drop of a container get a container CLR.
* Begin, prepare, checkpoint, set reserved space, removal of a container or a file: nothing.

Searching (R-DRB-55): a moved row is copied byte for byte, so stored bytes are compared, not SQL values, and no order of
keys is needed. Only the *unique columns* that the root page's descriptor names are compared: in a unique index the
record being undone may itself have replaced the row location. Splits move rows to the right, so the search goes from
the page of the record along the right siblings, then through all other leaf pages.

Example, ``crash-mixed``: transaction 207 inserted the index row of (1,82042) as record 59 on page 2 of container 1201;
splits moved it. Its CLR (1,213865) names page 7, record 24.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.derby import loggable
from engine.derby.cache import PageCache
from engine.derby.containers import Container
from engine.derby.format import btree, describe, page, row
from engine.derby.format.operations import container as container_operations
from engine.derby.format.operations import page as operations
from engine.derby.format.operations.registry import Operation, PageOperation
from engine.derby.format.record import Record
from engine.derby.pages import LivePage
from engine.errors import DamageError, FormatError


class UndoPlace(NamedTuple):
    """The place where a compensation is applied; ``record_id`` is None for a physical one."""

    page: int
    record_id: int | None


def undoable(operation: Operation) -> bool:
    """Whether rolling back the operation writes a CLR."""
    if isinstance(operation, container_operations.ContainerOperation):
        return operation.kind != container_operations.REMOVE
    return loggable.clr_of(operation) != loggable.NOT_UNDONE


def place_of(cache: PageCache, found: Container, one: Record, operation: PageOperation) -> UndoPlace:
    """Find where a page record is undone.

    Arguments:
        cache: the pages.
        found: the record's container.
        one: the record.
        operation: the operation of the record.

    Raises: DamageError when the row is nowhere to be found.
    """
    if not isinstance(operation, operations.Insert | operations.Delete | operations.UpdateField):
        return UndoPlace(operation.page, None)
    if not operation.logical:
        return UndoPlace(operation.page, operation.record_id)
    # The last image is the row; of an update field record it is the old row (see ``describe.images``).
    image = describe.images(one)[-1]
    if not isinstance(image, row.DecodedRow):
        raise FormatError("a record with logical undo carries no row")
    wanted = [field.data for field in image.fields]
    original = cache.get(found, operation.page)
    if isinstance(original, LivePage):
        slot = original.slot_of(operation.record_id)
        # R-DRB-54: record ids are reused, so the id alone does not identify the row.
        if slot is not None and columns_of(original, slot) == wanted:
            return UndoPlace(operation.page, operation.record_id)
    return _search(cache, found, operation, wanted[: unique_columns(cache, found)])


def columns_of(target: LivePage, slot: int) -> list[bytes | None]:
    """The stored bytes of the columns of a row."""
    return [field.data for field in target.rows[slot].decoded().fields]


def unique_columns(cache: PageCache, found: Container) -> int:
    """Number of columns that identify a row of an index."""
    root = cache.get(found, btree.ROOT_PAGE)
    control = control_row_of(root) if isinstance(root, LivePage) else None
    if control is None or control.descriptor is None:
        raise DamageError(
            f"the root page of {found.key} has no index descriptor",
            file=found.path,
            consequence="the rows of open transactions cannot be found in it",
            hint="restore from a backup and roll forward",
        )
    return btree.decode_descriptor(control.descriptor).unique_columns


def control_row_of(target: LivePage) -> btree.ControlRow | None:
    """The control row of a valid index page, or None."""
    if target.header.status != page.VALID or not target.rows:
        return None
    try:
        return btree.control_row(target.rows[btree.CONTROL_SLOT].decoded())
    except FormatError:
        return None


def _search(
    cache: PageCache,
    found: Container,
    operation: operations.Insert | operations.Delete | operations.UpdateField,
    wanted: list[bytes | None],
) -> UndoPlace:
    for number, leaf in _leaves(cache, found, operation.page):
        for slot in range(btree.CONTROL_SLOT + 1, len(leaf.rows)):
            if columns_of(leaf, slot)[: len(wanted)] == wanted:
                return UndoPlace(number, leaf.rows[slot].record_id)
    raise DamageError(
        f"a row of an open transaction is in no leaf of {found.key}",
        file=found.path,
        expected=f"the row of record {operation.record_id} of page {operation.page}",
        consequence="the transaction cannot be rolled back",
        hint="restore from a backup and roll forward",
    )


def _leaves(cache: PageCache, found: Container, first: int) -> Iterator[tuple[int, LivePage]]:
    """Leaf pages: the first one, its right siblings, then all others in the order of their numbers."""
    seen: set[int] = set()
    # Splits move rows to the right, so the siblings come first; ``seen`` ends a damaged chain.
    number = first
    while number > 0 and number not in seen:
        seen.add(number)
        target = cache.get(found, number)
        control = control_row_of(target) if isinstance(target, LivePage) else None
        if control is None or control.kind != btree.LEAF:
            break
        assert isinstance(target, LivePage)
        yield number, target
        number = control.right
    # The chain is broken, or the record's page is no longer a leaf: the row may be on any other leaf.
    for number in range(btree.ROOT_PAGE, cache.page_count(found)):
        if number in seen:
            continue
        target = cache.get(found, number)
        if isinstance(target, LivePage):
            control = control_row_of(target)
            if control is not None and control.kind == btree.LEAF:
                yield number, target
