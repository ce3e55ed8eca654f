"""The checkpoint: the eight steps, in the order that keeps the database recoverable at every moment (R-DRB-21).

====  =====================================================================================================
step  what happens
====  =====================================================================================================
1     switch to a new log file when the position is above the switch interval
2     take a number for the checkpoint transaction; its begin is logged in step 5
3     gather: redoLWM = end of the log now; undoLWM = begin of the oldest open transaction, prepared ones
      included, else redoLWM; repPoint = the earliest of the truncation points that clients have set
4     write every changed page, then every changed container header, and sync the containers
5     log begin (internal), the checkpoint record and flush; log the end
6     write log.ctrl, sync, then logmirror.ctrl, sync (R-DRB-40)
7     it is the current checkpoint now; this step writes nothing
8     delete log files below the file of undoLWM or repPoint, whichever is earlier, then stubs of containers
      removed before redoLWM
====  =====================================================================================================

A crash after step 5 and before step 6 leaves the old checkpoint in force; the new transaction is an internal loser with
nothing to undo (R-DRB-25). A crash between the two control files leaves a mirror that is one checkpoint behind, which
is safe because truncation comes later. The end record is flushed here, in a group of its own, after step 6: Derby
leaves it in its buffer until something else is logged.

*Truncation points.* A client of the store may need log that recovery does not, such as a backup that copies it or a
replica that follows. The client sets a point, and step 8 keeps the log from this point on. Derby itself has one such
client, log archiving, which keeps everything. Its checkpoint record has 0 in the place of truncation points and no
repPoint (R-DRB-21), so this program does not log repPoint either.

Example, recovery of ``crash-five-transactions``: redoLWM = undoLWM = (1,43101), the place of the checksum record; begin
(1,43138), checkpoint record (1,43174), end after it; the control files name (1,43174).
"""

from __future__ import annotations

from typing import NamedTuple

from engine.derby.cache import PageCache
from engine.derby.database import CONTROL, LOG_DIRECTORY, MIRROR, DerbyDatabase
from engine.derby.format import control, instant
from engine.derby.format.control import Control
from engine.derby.format.log_file import HEADER_SIZE
from engine.derby.format.operations.transaction import INTERNAL, PREPARED, CheckpointRecord, TableEntry
from engine.derby.format.record import RAW_STORE
from engine.derby.log import DerbyLogFiles
from engine.derby.log_writer import DerbyLogWriter
from engine.derby.xact_table import Xact
from engine.events import SILENT, Listener
from engine.storage.base import Storage

STEPS = (
    "checkpoint.switch",
    "checkpoint.transaction",
    "checkpoint.gather",
    "checkpoint.clean",
    "checkpoint.log",
    "checkpoint.control",
    "checkpoint.current",
    "checkpoint.truncate",
)
ARCHIVE_PROPERTY = "derby.storage.logArchiveMode"
KEEP_PROPERTY = "derby.storage.keepTransactionLog"
ARCHIVE = "log archive"


class TruncationPoint(NamedTuple):
    """The first log record that a client of the store still needs."""

    client: str
    at: int


class CheckpointResult(NamedTuple):
    """What a checkpoint did.

    Attributes:
        at: instant of the checkpoint record.
        redo_lwm, undo_lwm: the low water marks of the checkpoint.
        truncation_points: the first log records that clients of the store still need.
        transaction: number of the checkpoint transaction.
        pages: pages written in step 4.
        log_files_removed: numbers of the log files deleted in step 8.
        stubs_removed: paths of the stubs deleted in step 8.
    """

    at: int
    redo_lwm: int
    undo_lwm: int
    truncation_points: tuple[TruncationPoint, ...]
    transaction: int
    pages: int
    log_files_removed: tuple[int, ...]
    stubs_removed: tuple[str, ...]


class DerbyCheckpointer:
    """Takes checkpoints.

    Arguments:
        database: the database.
        log: the log files of the database.
        writer: where records are appended.
        cache: the pages.
        truncation_points: the first log records that clients of the store still need.
        listener: is called with the name of each of the eight steps.
    """

    __slots__ = ("_cache", "_database", "_listener", "_log", "_truncation_points", "_writer")

    def __init__(
        self,
        database: DerbyDatabase,
        log: DerbyLogFiles,
        writer: DerbyLogWriter,
        cache: PageCache,
        *,
        truncation_points: tuple[TruncationPoint, ...] = (),
        listener: Listener = SILENT,
    ) -> None:
        self._database = database
        self._log = log
        self._writer = writer
        self._cache = cache
        self._truncation_points = truncation_points
        self._listener = listener

    def take(self, number: int, opened: list[Xact], base: Control) -> CheckpointResult:
        """Take a checkpoint.

        Arguments:
            number: number of the checkpoint transaction.
            opened: transactions that have begun and not ended.
            base: the control data to carry on (release, flags).
        """
        self._writer.flush()
        self._step(0)
        self._writer.switch_if_due()
        self._step(1)
        self._step(2)
        redo_lwm = self._writer.end
        undo_lwm = min((one.first for one in opened), default=redo_lwm)
        self._step(3)
        pages = self._cache.write_all()
        self._step(4)
        first = self._writer.begin(number, INTERNAL)
        # The table names the checkpoint transaction too, without a last record.
        entries = [table_entry(one) for one in opened]
        entries.append(TableEntry(number, None, first, instant.NONE, 0))
        at = self._writer.append(RAW_STORE, number, CheckpointRecord(redo_lwm, undo_lwm, 0, tuple(entries)))
        # The record must be durable before a control file names it; the end record may wait in the buffer.
        self._writer.flush()
        self._writer.finish(number, committed=True)
        self._step(5)
        write_controls(self._database.storage, base._replace(checkpoint=at))
        self._step(6)
        self._writer.flush()
        self._step(7)
        removed = truncate(self._log, earliest_useful(undo_lwm, self._truncation_points))
        stubs = self._cache.containers.drop_stubs(redo_lwm)
        return CheckpointResult(
            at=at,
            redo_lwm=redo_lwm,
            undo_lwm=undo_lwm,
            truncation_points=self._truncation_points,
            transaction=number,
            pages=pages,
            log_files_removed=removed,
            stubs_removed=tuple(stubs),
        )

    def _step(self, index: int) -> None:
        self._listener.step(STEPS[index], index, len(STEPS))


def table_entry(one: Xact) -> TableEntry:
    """The entry of an open transaction; a prepared one is listed without its last record."""
    last = instant.NONE if one.prepared else one.instants[-1]
    return TableEntry(one.number, one.global_id, one.first, last, PREPARED if one.prepared else 0)


def write_controls(storage: Storage, content: Control) -> None:
    """Write log.ctrl, sync, then the mirror, sync: at any moment at least one of them is intact (R-DRB-40)."""
    data = control.encode(content)
    for path in (CONTROL, MIRROR):
        is_new = storage.stat(path) is None
        file = storage.open_rw(path, create=True)
        try:
            if file.size() > len(data):
                file.truncate(len(data))
            file.write(0, data)
            file.sync()
        finally:
            file.close()
        if is_new:
            storage.sync_directory(LOG_DIRECTORY)


def archive_point(log: DerbyLogFiles) -> TruncationPoint:
    """The truncation point of log archiving: it keeps every existing log file."""
    return TruncationPoint(ARCHIVE, instant.make(log.numbers()[0], HEADER_SIZE))


def rep_point(points: tuple[TruncationPoint, ...]) -> int:
    """The earliest truncation point; 0 if no client has set a truncation point."""
    return min((one.at for one in points), default=instant.NONE)


def earliest_useful(undo_lwm: int, points: tuple[TruncationPoint, ...]) -> int:
    """The earliest log record that is still needed: repPoint or undoLWM, whichever is earlier."""
    return min((undo_lwm, *(one.at for one in points)))


def truncate(log: DerbyLogFiles, before: int) -> tuple[int, ...]:
    """Delete log files below the file of an instant, oldest first; return their numbers (R-DRB-24)."""
    removed = tuple(number for number in log.numbers() if number < instant.file_of(before))
    log.forget()
    for number in removed:
        log.database.storage.remove(log.path(number))
    if removed:
        log.database.storage.sync_directory(LOG_DIRECTORY)
    return removed
