"""Explains why recovery applies or ignores each record.

The decisions are taken by the redo pass itself, run on an overlay in memory, and by the transaction table at its end;
so the explanation is what recovery would do.

===================  ==================================================================================
action               meaning
===================  ==================================================================================
``unread``           before the undo low water mark: not read (R-DRB-30)
``bookkeeping``      begin, end or prepare: the transaction table only (R-DRB-31)
``in front``         before the redo low water mark: on disk already, not looked at (R-DRB-31)
``redo``             page version = record version: done again (R-DRB-34)
``skip``             page version > record version, or the container is gone: not done again
``guard``            checksum record: compared, nothing to do
``none``             checkpoint, removal of a stored file: nothing to do
``after-end``        after the place where the log ends: Derby drops it
===================  ==================================================================================

``undone``: the record belongs to a loser and is compensated afterwards. Records that were compensated before are not
undone a second time (R-DRB-57).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from engine.derby.cache import NoLog, PageCache
from engine.derby.containers import Containers
from engine.derby.database import DerbyDatabase
from engine.derby.format import instant
from engine.derby.format.operations import registry
from engine.derby.format.operations.transaction import Begin, Checksum, End
from engine.derby.format.record import Record
from engine.derby.log import DerbyLogFiles, ForwardScan, ScanEnd
from engine.derby.log_walk import DerbyDamage, walk
from engine.derby.recovery.compensate import undoable
from engine.derby.recovery.redo import Redo
from engine.derby.recovery.start import Start, find_start
from engine.derby.xact_table import Xact, XactTable
from engine.errors import plural
from engine.storage.base import Storage
from engine.storage.overlay import OverlayStorage

UNREAD = "unread"
BOOKKEEPING = "bookkeeping"
IN_FRONT = "in front"
REDO = "redo"
SKIP = "skip"
GUARD = "guard"
NONE = "none"
AFTER_END = "after-end"


class RecordExplanation(NamedTuple):
    """What recovery does with one record; ``reason`` is a clause for the user."""

    record: Record
    action: str
    undone: bool
    reason: str


def explain(storage: Storage) -> Iterator[RecordExplanation]:
    """What recovery would do with every record of the log, in log order; nothing is changed.

    Arguments:
        storage: the database directory.

    Raises the errors of recovery; DamageError at the record where redo would stop.
    """
    database = DerbyDatabase(OverlayStorage(storage))
    database.require_clear()
    log = DerbyLogFiles(database)
    start = find_start(log, database.controls())
    decided, table, end = _decide(database, log, start)
    undone = {at for one in table.losers() for at in to_undo(log, one)}
    for one in walk(log):
        if isinstance(one, DerbyDamage):
            continue
        if one.instant >= end.append:
            reason = f"the log ends at {instant.show(end.append)}: {end.reason}"
            yield RecordExplanation(one, AFTER_END, False, reason)
        else:
            yield _explained(one, start, decided.get(one.instant), undone=one.instant in undone)


def to_undo(log: DerbyLogFiles, one: Xact) -> list[int]:
    """Instants of the records that a rollback of the transaction compensates, in the order of undo."""
    found = []
    index = len(one.instants) - 1
    while index >= 0:
        record = log.record(one.instants[index])
        if record.undo_instant is not None:
            # R-DRB-57: the record that the CLR has undone, and all later ones, are compensated already.
            index = bisect_left(one.instants, record.undo_instant) - 1
            continue
        if undoable(record.operation):
            found.append(record.instant)
        index -= 1
    return found


def _decide(database: DerbyDatabase, log: DerbyLogFiles, start: Start) -> tuple[dict[int, bool], XactTable, ScanEnd]:
    """Run the redo pass on the overlay; return which records were applied, the transaction table, the log's end."""
    containers = Containers(database)
    redo = Redo(log, PageCache(containers, NoLog()))
    table = XactTable(start.redo_lwm)
    decided = {}
    scan = ForwardScan(log, start.undo_lwm)
    for one in scan:
        table.see(one)
        # The redo pass itself decides, on an overlay, so the result is not a guess.
        if one.instant >= start.redo_lwm and registry.type_of(one.operation).family != registry.TRANSACTION:
            before = redo.applied
            redo.redo(one)
            decided[one.instant] = redo.applied > before
    redo.close()
    containers.close()
    assert scan.end is not None
    return decided, table, scan.end


def _explained(one: Record, start: Start, applied: bool | None, *, undone: bool) -> RecordExplanation:
    operation = one.operation
    # Tests are in the order of recovery: the first that holds decides.
    if one.instant < start.undo_lwm:
        return RecordExplanation(one, UNREAD, False, f"in front of undoLWM {instant.show(start.undo_lwm)}")
    if isinstance(operation, Checksum):
        return RecordExplanation(one, GUARD, False, f"guards {plural(operation.length, 'byte')}")
    if isinstance(operation, Begin | End):
        return RecordExplanation(one, BOOKKEEPING, False, "changes the transaction table only")
    then = "; its transaction is a loser, compensated afterwards" if undone else ""
    if one.instant < start.redo_lwm:
        return RecordExplanation(one, IN_FRONT, undone, f"in front of redoLWM {instant.show(start.redo_lwm)}{then}")
    if applied is None:
        return RecordExplanation(one, NONE, False, "recovery does nothing with it")
    if not applied:
        return RecordExplanation(one, SKIP, undone, f"the page has it already, or its container is gone{then}")
    return RecordExplanation(one, REDO, undone, f"the page has the version in front of it{then}")
