"""The state of a Derby database, for an operator who decides what to do with it.

The state is found from the control files, one scan from the undo low water mark, and the bytes after the end of the
log. Nothing is changed and no lock is taken.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.derby.cache import NoLog, PageCache
from engine.derby.catalog import keeps_log
from engine.derby.checkpoint import TruncationPoint, archive_point
from engine.derby.containers import Containers
from engine.derby.database import Controls, DerbyDatabase
from engine.derby.format import instant
from engine.derby.format.operations import registry
from engine.derby.format.operations.layout import GlobalId
from engine.derby.format.record import Record
from engine.derby.log import DerbyLogFiles, ForwardScan, ScanEnd
from engine.derby.log_tail import RecordsAfterEnd, look_after_end
from engine.derby.presence import ContainerNotes, Presence, containers_present
from engine.derby.recovery.start import Start, find_start
from engine.derby.xact_table import Xact, XactTable
from engine.errors import DamageError
from engine.events import SILENT, Listener
from engine.storage.overlay import OverlayStorage

_STEP = 1024


class LogFileInfo(NamedTuple):
    """One log file; ``previous_end`` is an instant, ``problem`` the reason why the header cannot be used."""

    number: int
    size_bytes: int
    previous_end: int
    problem: str | None


class OpenTransaction(NamedTuple):
    """A transaction without an end record.

    Attributes:
        number: its number.
        first: instant of the begin record.
        last: instant of the last record.
        records: number of records of the transaction, including the begin record.
        internal: whether the transaction is rolled back before ordinary transactions.
        prepared: whether the transaction is kept for the transaction manager.
        global_id: the global name of the transaction, or None.
    """

    number: int
    first: int
    last: int
    records: int
    internal: bool
    prepared: bool
    global_id: GlobalId | None


class DerbyAnalysis(NamedTuple):
    """The scan that recovery would make, without its effects.

    Attributes:
        start: where it starts.
        end: where the log ends.
        records: records scanned, checksum records included.
        bytes: bytes scanned.
        to_redo: page and container records at or after the redo low water mark.
        losers: transactions to roll back, in Derby's order.
        in_doubt: prepared transactions, oldest first.
        next_transaction: number that the next transaction gets (R-DRB-61).
        after: valid records after the end.
        clean: whether recovery would do nothing (R-DRB-62).
        presence: the containers named by the log and the catalogue, compared with the files.
    """

    start: Start
    end: ScanEnd
    records: int
    bytes: int
    to_redo: int
    losers: tuple[OpenTransaction, ...]
    in_doubt: tuple[OpenTransaction, ...]
    next_transaction: int
    after: RecordsAfterEnd
    clean: bool
    presence: Presence


class DatabaseSurvey(NamedTuple):
    """The state of a database.

    Attributes:
        root: the database directory.
        release: major and minor number, None when both control files are bad.
        encrypted: whether only envelopes could be read; then there is no analysis.
        controls: both control files.
        log_files: the log files that exist.
        containers: number of container files.
        stubs: number of stubs of removed containers.
        lock_holder: pid of the JVM that has the database open (0 = unknown), or None.
        truncation_points: the first log records that clients still need, according to the pages on disk.
        analysis: what recovery would find; None if it was not requested or is impossible.
        problem: why the analysis is impossible, else None.
        start_problem: why Derby would not find or start the database, apart from its log; else None.
    """

    root: str
    release: tuple[int, int] | None
    encrypted: bool
    controls: Controls
    log_files: tuple[LogFileInfo, ...]
    containers: int
    stubs: int
    lock_holder: int | None
    truncation_points: tuple[TruncationPoint, ...]
    analysis: DerbyAnalysis | None
    problem: str | None
    start_problem: str | None


def gather(database: DerbyDatabase, *, quick: bool = False, listener: Listener = SILENT) -> DatabaseSurvey:
    """The state of a database.

    Arguments:
        database: the database; it is only read.
        quick: skip the scan of the log.
        listener: receives progress of the step ``scan`` in bytes.

    Raises: UnsupportedError when the release is not known.
    """
    controls = database.controls()
    database.require_version(controls)
    log = DerbyLogFiles(database)
    known = controls.chosen
    kinds = list(database.containers().values())
    analysis, problem = None, None
    # Bodies of an encrypted log cannot be decoded, so there is nothing to scan.
    if not quick and not database.encrypted:
        try:
            analysis = analyse(log, controls, listener)
        except DamageError as error:
            problem = str(error)
    return DatabaseSurvey(
        root=database.storage.root,
        release=(known.major, known.minor) if known else None,
        encrypted=database.encrypted,
        controls=controls,
        log_files=tuple(_log_file(log, number) for number in log.numbers()),
        containers=kinds.count(False),
        stubs=kinds.count(True),
        lock_holder=database.lock_holder(),
        truncation_points=_truncation_points(database, log),
        analysis=analysis,
        problem=problem,
        start_problem=database.start_problem(),
    )


def _truncation_points(database: DerbyDatabase, log: DerbyLogFiles) -> tuple[TruncationPoint, ...]:
    # Pages of an encrypted database cannot be read.
    if database.encrypted or not log.numbers():
        return ()
    containers = Containers(DerbyDatabase(OverlayStorage(database.storage)))
    try:
        return (archive_point(log),) if keeps_log(database, PageCache(containers, NoLog())) else ()
    except DamageError:
        # A page is damaged; ``verify`` reports it.
        return ()
    finally:
        containers.close()


def analyse(log: DerbyLogFiles, controls: Controls, listener: Listener = SILENT) -> DerbyAnalysis:
    """Scan as recovery would. DamageError if the start cannot be found or a transaction is inconsistent."""
    start = find_start(log, controls)
    scan = ForwardScan(log, start.undo_lwm)
    table = XactTable(start.redo_lwm)
    notes = ContainerNotes(log.database, start.redo_lwm)
    counted = _Counter(start)
    for one in scan:
        table.see(one)
        counted.see(one)
        notes.see(one)
        if counted.records % _STEP == 0:
            listener.step("scan", counted.bytes, 0)
    end = scan.end
    assert end is not None
    losers, in_doubt = table.losers(), table.in_doubt()
    clean = is_clean(start, end, counted.others, table)
    return DerbyAnalysis(
        start=start,
        end=end,
        records=counted.records,
        bytes=counted.bytes,
        to_redo=counted.to_redo,
        losers=tuple(_open(one) for one in losers),
        in_doubt=tuple(_open(one) for one in in_doubt),
        next_transaction=table.highest + 1,
        after=look_after_end(log, end),
        clean=clean,
        presence=containers_present(log, start, table, notes),
    )


def is_clean(start: Start, end: ScanEnd, others: int, table: XactTable) -> bool:
    """Whether recovery has nothing to do: only the ended checkpoint transaction follows redoLWM (R-DRB-62).

    Prepared transactions hold undoLWM back and stay as they are, so they do not make a database unclean.

    Arguments:
        start: where recovery starts.
        end: where the log ends.
        others: number of records from redoLWM on, without checksum records and those of the checkpoint transaction.
        table: the transaction table after the scan.
    """
    # Without a checkpoint the database is not clean: the whole log must be applied, however short it is.
    quiet = start.checkpoint is not None and others == 0 and not table.losers()
    return quiet and not end.fuzzy and end.obstacle is None


class _Counter:
    """Counts the records of a scan by the action that recovery takes."""

    __slots__ = ("_start", "_transaction", "bytes", "others", "records", "to_redo")

    def __init__(self, start: Start) -> None:
        self._start = start
        # In the table of a checkpoint, the entry that began last is the transaction that wrote the checkpoint.
        table = start.checkpoint.table if start.checkpoint is not None else None
        self._transaction = max(table, key=lambda entry: entry.first).transaction if table else None
        self.records = 0
        self.bytes = 0
        self.to_redo = 0
        self.others = 0

    def see(self, one: Record) -> None:
        self.records += 1
        self.bytes += one.end - one.instant
        # Changes before redoLWM are already on disk (R-DRB-31).
        if one.instant < self._start.redo_lwm or one.transaction is None:
            return
        if one.transaction != self._transaction:
            self.others += 1
        if registry.type_of(one.operation).family != registry.TRANSACTION:
            self.to_redo += 1


def _open(one: Xact) -> OpenTransaction:
    count = len(one.instants)
    return OpenTransaction(
        number=one.number,
        first=one.first,
        last=one.instants[-1],
        records=count,
        internal=one.internal,
        prepared=one.prepared,
        global_id=one.global_id,
    )


def _log_file(log: DerbyLogFiles, number: int) -> LogFileInfo:
    size = log.size(number)
    try:
        return LogFileInfo(number, size, log.header(number).previous_end, None)
    except DamageError as error:
        return LogFileInfo(number, size, instant.NONE, str(error))
