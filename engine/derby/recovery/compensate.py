"""Compensation: the CLR that undoes a record, and the page and row where it does so.

Rules (R-DRB-50 to 54):

* Insert, delete and update field get a *logical* CLR, which names page, version and record id. When the record allows
  logical undo (its row is in a B-tree) the row may have moved: if the page still has the record id, with all columns
  equal to those in the record, the row has not moved; otherwise the index is searched for it.
* The other page operations get a *physical* CLR for their own page.
* Creation and drop of a container get a container CLR.
* Begin, prepare, checkpoint, set reserved space, removal of a container or a file: nothing.

A moved row is looked for by its stored bytes (R-DRB-55, ``moved_rows``).

Example, ``crash-mixed``: transaction 207 inserted the index row of (1,82042) as record 59 on page 2 of container 1201;
splits moved it. Its CLR (1,213865) names page 7, record 24.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.derby import loggable
from engine.derby.cache import PageCache
from engine.derby.containers import Container
from engine.derby.format import describe, row
from engine.derby.format.operations import container as container_operations
from engine.derby.format.operations import page as operations
from engine.derby.format.operations.registry import Operation, PageOperation
from engine.derby.format.record import Record
from engine.derby.pages import LivePage
from engine.derby.recovery.moved_rows import MovedRows, columns_of
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


def place_of(cache: PageCache, moved: MovedRows, found: Container, one: Record, operation: PageOperation) -> UndoPlace:
    """Find where a page record is undone.

    Arguments:
        cache: the pages.
        moved: finds rows that splits have moved.
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
    place = moved.find(found, operation.page, wanted)
    if place is None:
        raise DamageError(
            f"a row of an open transaction is in no leaf of {found.key}",
            file=found.path,
            expected=f"the row of record {operation.record_id} of page {operation.page}",
            consequence="the transaction cannot be rolled back",
            hint="restore from a backup and roll forward",
        )
    return UndoPlace(place.page, place.record_id)
