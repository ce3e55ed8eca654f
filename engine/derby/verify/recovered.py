"""Compares indexes with their tables after recovery, for containers that recovery would change.

On disk these are between two states: a table may hold a row whose index entry is only in the log. So recovery runs on
an overlay in memory, as in a dry run, and its result is compared (``agreement``). Only pairs of table and index with a
changed container are read again.

Example: a crash left 3 rows of ``T`` on disk and their index entries in the log. An entry that was damaged before the
crash is DRB-IDX-002, although the pages on disk could not show it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from engine.derby.database import DerbyDatabase
from engine.derby.format import btree, container, page
from engine.derby.format import row as rows
from engine.derby.format.btree import ROOT_PAGE
from engine.derby.format.container import ContainerKey
from engine.derby.recovery.manager import DEFAULTS, recover_locked
from engine.derby.verify.agreement import Agreement
from engine.derby.verify.findings import DerbyFinding, finding
from engine.derby.verify.page_checks import check_pages
from engine.errors import DamageError, FormatError, JetoolError
from engine.events import SILENT
from engine.storage.overlay import OverlayStorage


class RecoveredCheck(NamedTuple):
    """The result.

    Attributes:
        findings: the differences.
        uncompared: as in ``Agreement``.
        problem: why nothing could be compared, in one clause; else None.
        stop: the damage where recovery stops.
    """

    findings: list[DerbyFinding]
    uncompared: int
    problem: str | None
    stop: DerbyFinding | None


def check_recovered(
    database: DerbyDatabase,
    changing: Collection[ContainerKey],
    damaged: Collection[ContainerKey],
    unused: Collection[ContainerKey],
    base_columns: Mapping[int, Sequence[int]],
) -> RecoveredCheck:
    """Recover in memory, and compare the indexes and tables that recovery changes.

    Arguments:
        database: the database; it is only read.
        changing: the containers that recovery changes.
        damaged: containers to skip, since errors on their pages are already reported.
        unused: containers that neither log nor catalogue names.
        base_columns: as in ``Agreement``.
    """
    overlay = OverlayStorage(database.storage)
    try:
        recover_locked(overlay, DEFAULTS, None, SILENT)
    except DamageError as error:
        return RecoveredCheck([], 0, "recovery stops", finding("DRB-REC-003", str(error)))
    except JetoolError as error:
        return RecoveredCheck([], 0, error.what, None)
    recovered = DerbyDatabase(overlay)
    pairs = {index: table for index, table in _pairs(recovered) if index not in unused}
    touched = {index for index, table in pairs.items() if index in changing or table in changing}
    agreement = Agreement(damaged, base_columns)
    only = touched | {pairs[index] for index in touched}
    # Faults of pages were already reported for the pages on disk.
    check_pages(recovered, None, SILENT, agreement, only=only)
    findings = list(agreement.findings())
    return RecoveredCheck(findings, agreement.uncompared, None, None)


def _pairs(database: DerbyDatabase) -> Iterator[tuple[ContainerKey, ContainerKey]]:
    """Each index with its table, as page 1 of the index has it; pages that cannot be read are left out."""
    for key, is_stub in sorted(database.containers().items()):
        if is_stub:
            continue
        file = database.storage.open(container.path_of(key))
        try:
            size = container.header_in(file.read(0, container.HEADER_END)).page_size
            decoded = page.decode(file.read(ROOT_PAGE * size, size))
            control = btree.control_row(rows.decode_row(decoded.rows[0].record)) if decoded.rows else None
            if control is not None:
                table = btree.decode_descriptor(control.descriptor or b"").table
                yield key, ContainerKey(key.segment, table)
        except (FormatError, IndexError):
            continue
        finally:
            file.close()
