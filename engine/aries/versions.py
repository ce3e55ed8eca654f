"""How far a record raises the version of its page (R-DRB-4).

By 1 for each elementary action on a row: purge of n rows by n; copy of n rows by n, and 1 more for each row with
reserved bytes; everything else by 1. Undo of a purge or of a copy of n rows by n, every other undo by 1.
"""

from __future__ import annotations

from engine.aries.format.operations import page, registry


def raised_by(operation: registry.PageOperation) -> int:
    """By how much doing the operation raises the page version."""
    if isinstance(operation, page.Purge):
        return len(operation.record_ids)
    if isinstance(operation, page.CopyRows):
        return len(operation.rows) + sum(1 for row in operation.rows if row.reserved_bytes > 0)
    return 1


def raised_by_undo(operation: registry.Operation) -> int:
    """By how much undoing the operation raises the page version."""
    if isinstance(operation, page.Purge):
        return len(operation.record_ids)
    if isinstance(operation, page.CopyRows):
        return len(operation.rows)
    return 1
