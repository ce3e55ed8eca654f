"""Compares Derby's recovery with the page-LSN variant of textbook ARIES, on the records of the same log.

Textbook ARIES (Mohan and others, 1992), as far as it differs from what ``recovery`` does:

* *Page LSN.* A page carries the LSN of the last record applied to it. Redo applies a record when page LSN < its LSN.
  Derby's page carries a version, and so does the record: equal is redo, greater is skip, less is an error. Both skip
  the same records; only Derby detects a missing record.
* *Dirty page table.* A checkpoint writes no pages. It logs which pages are dirty, each with its recLSN, the first
  record that is not on disk, and the transaction table. Derby's checkpoint writes every dirty page and logs two low
  water marks; its redoLWM is the place where the dirty page table was empty.
* *Analysis pass.* A first pass from the checkpoint brings both tables up to the end of the log; redo then starts at the
  smallest recLSN. Derby has no such pass: one scan from undoLWM builds the transaction table while it redoes.
* *prevLSN and UndoNxtLSN.* Each record names the previous one of its transaction, a CLR the next one to be undone. Undo
  follows the chain. Derby has no chain: its CLR names the record that it undid, and undo goes on before that.
* *Nested top actions.* A split belongs to the user's transaction. A dummy CLR at its end jumps over it, so a rollback
  does not undo it. Derby gives the split an internal transaction of its own; if it is a loser, it is rolled back before
  all others.

The output of ``compare`` for each record:

============  =========================================================================================
textbook      meaning
============  =========================================================================================
``unread``    before the checkpoint: analysis starts there. Undo may come back to it by prevLSN
``analysis``  begin, end, prepare: changes the transaction table
``redo``      its page is in the dirty page table, recLSN <= LSN, and page LSN < LSN
``skip``      page LSN >= LSN: the page was written after the change, or its container is gone
``redo file`` creates, drops or removes a container: there is no page LSN
``none``      checkpoint and checksum records
``behind``    after the end of the log
============  =========================================================================================

``undo`` is ``undone`` (reached by prevLSN), ``jumped`` (a CLR's UndoNxtLSN leads past it) or None (not a loser's).

Example, ``crash-five-transactions``: checkpoint at (1,41725), redoLWM (1,41652). (1,40710) of T2: Derby reads it and
skips it, since it is before redoLWM; textbook ARIES never reads it. (1,41924): the page has version 14, so its page LSN
is (1,41609), and 41609 < 41924: redo, in both. (1,41034) of the loser T4 is before the checkpoint: it is not read in
analysis or redo, and undo reaches it by prevLSN.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.derby import explain
from engine.derby.containers import Containers
from engine.derby.database import DerbyDatabase
from engine.derby.explain import RecordExplanation
from engine.derby.format import instant
from engine.derby.format.container import ContainerKey
from engine.derby.format.operations import registry
from engine.derby.format.operations.transaction import INTERNAL, Begin, CheckpointRecord, End
from engine.derby.format.record import LAST, Record
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.derby.loggable import raised_by, raised_by_undo
from engine.derby.recovery.start import Start, find_start
from engine.derby.xact_table import XactTable
from engine.storage.base import Storage
from engine.storage.overlay import OverlayStorage

UNREAD, ANALYSIS, REDO, SKIP, REDO_FILE, NONE, AFTER_END = (
    "unread",
    "analysis",
    "redo",
    "skip",
    "redo file",
    "none",
    "after-end",
)
UNDONE, JUMPED = "undone", "jumped"
_VERSION_AT = slice(6, 14)

PageKey = tuple[int, int, int]


class TextbookComparison(NamedTuple):
    """One record: what Derby's recovery does with it, and what textbook ARIES would.

    Attributes:
        derby: as ``explain`` says.
        textbook: see the table above.
        undo: ``undone``, ``jumped`` or None.
        page_lsn: the page LSN when recovery begins; 0 if it is unknown or does not matter.
        reason: a clause for the user.
    """

    derby: RecordExplanation
    textbook: str
    undo: str | None
    page_lsn: int
    reason: str


def compare(storage: Storage) -> Iterator[TextbookComparison]:
    """Every record of the log with both verdicts, in log order; nothing is changed. Errors as ``explain.explain``.

    Arguments:
        storage: the database directory.
    """
    database = DerbyDatabase(OverlayStorage(storage))
    log = DerbyLogFiles(database)
    tables = _Tables(log, find_start(log, database.controls()))
    page_lsns = _page_lsns(database, tables)
    for one in explain.explain(storage):
        yield _compared(one, tables, page_lsns)


class _Tables:
    """The result of the analysis pass, and the start of Derby's own scan.

    Attributes:
        start: the checkpoint and its marks.
        undo: the action of undo for each record of a loser, by instant.
        nested: numbers of internal transactions, which are nested top actions in textbook ARIES.
        changes: instant of each record and page version after it, by page.
    """

    def __init__(self, log: DerbyLogFiles, start: Start) -> None:
        self.start = start
        self.changes: dict[PageKey, list[tuple[int, int]]] = {}
        self.nested: set[int] = set()
        table = XactTable(start.redo_lwm)
        # A reader of its own for the records that CLRs compensate keeps the window of the scan.
        undone = DerbyLogFiles(log.database)
        for one in ForwardScan(log, start.undo_lwm):
            table.see(one)
            if isinstance(one.operation, Begin) and one.operation.status & INTERNAL and one.transaction is not None:
                self.nested.add(one.transaction)
            # A checkpoint runs in an internal transaction too, but is not a nested top action.
            if isinstance(one.operation, CheckpointRecord) and one.transaction is not None:
                self.nested.discard(one.transaction)
            key = _page_of(one)
            if key is not None:
                self.changes.setdefault(key, []).append((one.instant, _version_after(undone, one)))
        self.undo: dict[int, str] = {}
        for loser in table.losers():
            # Mark all records except the begin as jumped; the next line corrects those that undo reaches.
            self.undo |= dict.fromkeys(loser.instants[1:], JUMPED)
            self.undo |= dict.fromkeys(explain.to_undo(log, loser), UNDONE)


def _page_of(one: Record) -> PageKey | None:
    operation = one.operation
    return (*operation[:3],) if registry.is_page_operation(operation) else None


def _version_after(log: DerbyLogFiles, one: Record) -> int:
    operation = one.operation
    assert registry.is_page_operation(operation)
    if one.undo_instant is None:
        return operation.version + raised_by(operation)
    return operation.version + raised_by_undo(log.record(one.undo_instant).operation)


def _page_lsns(database: DerbyDatabase, tables: _Tables) -> dict[PageKey, int]:
    """The LSN that each page on disk would carry: that of the last record that its version includes."""
    containers = Containers(database)
    found = {}
    for key, changes in tables.changes.items():
        segment, container, page = key
        home = containers.find(ContainerKey(segment, container))
        image = home.read_page(page) if home is not None else b""
        # Only the version is read, so a page with a wrong checksum can be used too.
        version = int.from_bytes(image[_VERSION_AT], "big")
        found[key] = max((at for at, after in changes if after <= version), default=instant.NONE)
    containers.close()
    return found


def _compared(one: RecordExplanation, tables: _Tables, page_lsns: dict[PageKey, int]) -> TextbookComparison:
    record, operation = one.record, one.record.operation
    at, undo = record.instant, tables.undo.get(record.instant)
    if one.action == explain.AFTER_END:
        return TextbookComparison(one, AFTER_END, None, instant.NONE, one.reason)
    # Textbook analysis would start at a checkpoint; here redoLWM is its place, where the dirty page table was empty.
    if at < tables.start.redo_lwm:
        later = "; undo reaches it by prevLSN" if undo == UNDONE else ""
        reason = f"analysis starts at the checkpoint, {instant.show(tables.start.redo_lwm)}{later}"
        return TextbookComparison(one, UNREAD, undo, instant.NONE, reason)
    if isinstance(operation, Begin | End):
        ended = record.group & LAST and record.transaction in tables.nested
        reason = "a dummy CLR: a rollback jumps over the action" if ended else "changes the transaction table"
        return TextbookComparison(one, ANALYSIS, None, instant.NONE, reason)
    key = _page_of(record)
    if key is None:
        is_file = registry.type_of(operation).family == registry.CONTAINER
        reason = "a file has no page LSN" if is_file else "changes nothing"
        return TextbookComparison(one, REDO_FILE if is_file else NONE, undo, instant.NONE, reason)
    lsn = page_lsns[key]
    if one.action == explain.SKIP or at <= lsn:
        why = f"page LSN {instant.show(lsn)} is not below it" if at <= lsn else "its container is gone"
        return TextbookComparison(one, SKIP, undo, lsn, why)
    first = next(change for change, _ in tables.changes[key] if change >= tables.start.redo_lwm)
    return TextbookComparison(one, REDO, undo, lsn, f"recLSN {instant.show(first)}, page LSN {instant.show(lsn)}")
