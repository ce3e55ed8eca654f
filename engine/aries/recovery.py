"""Recovery of a database after a crash: redo, undo, checkpoint.

Order (duties of section J of the behaviour document):

1. Analysis without effects: where to start, where the log ends, which transactions are open, what lies behind the end.
2. Interlock. Derby takes any damage for the end of the log and zeroes what follows; when committed transactions follow,
   this program refuses. It also refuses where Derby would start an empty log, and where the log ends in front of its
   own checkpoint. A next log file that keeps Derby from starting is refused unless it holds no record.
3. Redo pass from the redo low water mark (``redo``).
4. The tail behind the append position is zeroed, even where Derby would leave bytes that it does not understand.
5. Undo pass: losers one after the other, internal ones first, each by descending number (R-DRB-51). Within one the
   records are read backward; a CLR leads to the record that it undid, and undo goes on in front of that (R-DRB-50, 57).
   An abort end is flushed. Prepared transactions are left alone (R-DRB-58).
6. The closing checkpoint (``checkpoint``), unless nothing was done at all (R-DRB-60, 62).

A dry run is the same on an overlay in memory. With a backup directory every byte is saved before it is overwritten; a
run that was interrupted is rolled back from there before the new one starts, so that not even a torn page is left.

Example, ``crash-mixed``: losers 251 and 207, in this order. 207 had rolled back to a savepoint: undo of its last four
records, then the CLR (1,211500), from there to (1,204939), and on in front of it with (1,83758). 45 CLRs in all.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from engine.aries import apply, saved
from engine.aries.cache import DEFAULT_PAGES, PageCache
from engine.aries.checkpoint import (
    ARCHIVE_PROPERTY,
    KEEP_PROPERTY,
    Checkpointer,
    CheckpointResult,
    write_controls,
)
from engine.aries.compensate import place_of, undoable
from engine.aries.containers import Containers
from engine.aries.database import LOCK_FILE, LOG_DIRECTORY, NEWEST_RECOVERED, Controls, Database
from engine.aries.format import instant
from engine.aries.format.container import ContainerKey
from engine.aries.format.control import Control
from engine.aries.format.log_file import HEADER_SIZE
from engine.aries.format.operations import container as container_operations
from engine.aries.format.operations import page as operations
from engine.aries.format.operations import registry
from engine.aries.format.record import COMPENSATION, NEED_LOCK, RAW_STORE, Record
from engine.aries.info import Analysis, analyse
from engine.aries.log import ForwardScan, LogFiles
from engine.aries.log_writer import DEFAULT_BUFFER_BYTES, DEFAULT_SWITCH_BYTES, LogWriter, clear_tail
from engine.aries.pages import LivePage
from engine.aries.redo import Redo, undrop
from engine.aries.versions import raised_by_undo
from engine.aries.xact import Transaction, TransactionTable
from engine.errors import DamageError, FormatError, RefusedError
from engine.events import SILENT, Listener
from engine.storage.base import Lock, Storage
from engine.storage.overlay import OverlayStorage

PAGE_CLR = RAW_STORE | NEED_LOCK | COMPENSATION
CONTAINER_CLR = RAW_STORE | COMPENSATION

# R-DRB-60: with less log than this behind redoLWM, and nothing undone, Derby takes no checkpoint.
_LITTLE_LOG_BYTES = 1000
_PROPERTIES_CONTAINER = 16
_STEP = 256


class Options(NamedTuple):
    """How recovery is to be done.

    Attributes:
        accept_loss: go on although committed transactions lie behind the end of the log, or a next log file is foreign.
        derby_default: behave as Derby: no interlock, and without ``log.ctrl`` no mirror and no checksum records.
        cache_pages: pages kept in memory.
        buffer_bytes: log buffer, decides where checksum groups end.
        switch_bytes: log switch interval.
    """

    accept_loss: bool = False
    derby_default: bool = False
    cache_pages: int = DEFAULT_PAGES
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    switch_bytes: int = DEFAULT_SWITCH_BYTES


class Undone(NamedTuple):
    """A transaction that was rolled back, with the number of CLRs written for it now."""

    transaction: int
    internal: bool
    clrs: int


class Recovered(NamedTuple):
    """What recovery did (or, in a dry run, would do).

    Attributes:
        analysis: the state that was found.
        clean: whether there was nothing to do.
        redo_seen, redo_applied, redo_skipped: page and container records of the redo pass.
        undone: transactions rolled back, in order.
        undo_from, undo_to: the part of the log written by the undo pass.
        in_doubt: numbers of the prepared transactions that were kept.
        zeroed_bytes: bytes behind the append position that were zeroed although they were not all zero.
        pages_written: pages written, those that left the cache early included.
        checkpoint: the closing checkpoint, None when none was needed.
        lost_commits: committed transactions given up behind the end of the log.
        notes: what an operator should know, one clause each.
        changed: bytes of each file that a dry run would write, empty in a real run.
    """

    analysis: Analysis
    clean: bool
    redo_seen: int
    redo_applied: int
    redo_skipped: int
    undone: tuple[Undone, ...]
    undo_from: int
    undo_to: int
    in_doubt: tuple[int, ...]
    zeroed_bytes: int
    pages_written: int
    checkpoint: CheckpointResult | None
    lost_commits: int
    notes: tuple[str, ...]
    changed: dict[str, int]


def recover(
    storage: Storage,
    options: Options = Options(),
    *,
    dry_run: bool = False,
    backup: Storage | None = None,
    listener: Listener = SILENT,
) -> Recovered:
    """Recover a database.

    Arguments:
        storage: the database directory.
        options: see ``Options``.
        dry_run: leave everything as it is and say what would happen.
        backup: directory for saved bytes; None saves nothing.
        listener: hears the steps ``redo`` (bytes), ``undo`` (transactions) and those of the checkpoint.

    Raises:
        NotFoundError: no Derby database there.
        UnsupportedError: encrypted, or of a release that was not verified for recovery.
        RefusedError: a JVM has it open; committed transactions would be lost; the next log file is foreign.
        DamageError: a log file or a record that is needed is missing, or a page does not fit its record.
    """
    if dry_run:
        overlay = OverlayStorage(storage)
        result = _Recovery(Database(overlay), options, listener).run()
        return result._replace(changed=overlay.changed())
    database = Database(storage)
    made = storage.stat(LOCK_FILE) is None
    lock = database.lock()
    try:
        return _recover_saved(storage, options, backup, listener)
    finally:
        _unlock(storage, lock, remove=made)


def _recover_saved(storage: Storage, options: Options, backup: Storage | None, listener: Listener) -> Recovered:
    """Recover with the old bytes saved, after an interrupted run has been taken back."""
    if backup is None:
        return _Recovery(Database(storage), options, listener).run()
    interrupted = backup.stat(saved.JOURNAL) is not None
    if interrupted and saved.read_manifest(backup).get("state") != saved.DONE:
        saved.undo(storage, backup)
    saving = saved.SavingStorage(storage, backup)
    result = _Recovery(Database(saving), options, listener, saving).run()
    saving.finish({"operation": "recover", "undone": [one.transaction for one in result.undone]})
    return result


def _unlock(storage: Storage, lock: Lock, *, remove: bool) -> None:
    """Give the lock back; a lock file that was made for it goes away."""
    try:
        if remove:
            storage.remove(LOCK_FILE)
    finally:
        lock.release()


class _Recovery:
    """One run of recovery."""

    __slots__ = (
        "_analysis",
        "_cache",
        "_containers",
        "_controls",
        "_database",
        "_listener",
        "_log",
        "_notes",
        "_options",
        "_redo",
        "_table",
        "_writer",
    )

    def __init__(
        self, database: Database, options: Options, listener: Listener, saving: saved.SavingStorage | None = None
    ) -> None:
        database.require_clear()
        self._database = database
        self._options = options
        self._listener = listener
        self._notes: list[str] = []
        self._controls = self._usable_controls()
        database.require_version(self._controls, NEWEST_RECOVERED)
        self._log = LogFiles(database)
        self._analysis = analyse(self._log, self._controls, listener)
        checksums = self._controls.primary.present or not options.derby_default
        self._writer = LogWriter(
            self._log,
            self._analysis.end.append,
            buffer_bytes=options.buffer_bytes,
            switch_bytes=options.switch_bytes,
            checksums=checksums,
        )
        self._containers = Containers(database)
        self._cache = PageCache(self._containers, self._writer, options.cache_pages, saving)
        self._redo = Redo(self._log, self._cache)
        self._table = TransactionTable(self._analysis.start.redo_lwm)

    def run(self) -> Recovered:
        """All steps; whatever is open is closed in any case."""
        try:
            self._check()
            if self._analysis.clean and not self._analysis.behind.other_bytes:
                return self._already_clean()
            return self._run()
        finally:
            self._containers.close()
            self._writer.close()
            self._log.forget()

    def _run(self) -> Recovered:
        end = self._analysis.end
        self._sync_log()
        self._redo_pass()
        zeroed = clear_tail(self._log, end.append) if self._analysis.behind.other_bytes or end.fuzzy else 0
        undone = self._undo_pass()
        undo_to = self._writer.end
        checkpoint = self._checkpoint() if self._needs_checkpoint(undone) else None
        return self._result(undone, undo_to, zeroed, checkpoint)

    def _result(
        self, undone: list[Undone], undo_to: int, zeroed: int, checkpoint: CheckpointResult | None
    ) -> Recovered:
        return Recovered(
            self._analysis,
            False,
            self._redo.seen,
            self._redo.applied,
            self._redo.skipped,
            tuple(undone),
            self._analysis.end.append,
            undo_to,
            tuple(one.number for one in self._table.in_doubt()),
            zeroed,
            self._cache.written,
            checkpoint,
            self._analysis.behind.commits,
            tuple(self._notes),
            {},
        )

    def _already_clean(self) -> Recovered:
        """Nothing to redo or undo; a control file that is not right is written again."""
        primary, mirror = self._controls.primary.control, self._controls.mirror.control
        if primary != mirror and self._controls.chosen is not None:
            write_controls(self._database.storage, self._controls.chosen)
            self._notes.append("both control files were written again")
        result = self._result([], self._analysis.end.append, 0, None)
        return result._replace(clean=True)

    def _usable_controls(self) -> Controls:
        """The control files as recovery uses them, with notes on what is wrong."""
        controls = self._database.controls()
        if not controls.primary.present and controls.mirror.control is not None:
            if self._options.derby_default:
                return Controls(controls.primary, controls.mirror, None, None)
            self._notes.append("log.ctrl is missing, its mirror is used; Derby would read the whole log")
        elif controls.primary.control is None:
            self._notes.append(f"log.ctrl cannot be used: {controls.primary.problem or 'it is missing'}")
        if controls.mirror.control is None:
            self._notes.append(f"logmirror.ctrl cannot be used: {controls.mirror.problem or 'it is missing'}")
        return controls

    def _check(self) -> None:
        """The interlock."""
        analysis = self._analysis
        end, start, behind = analysis.end, analysis.start, analysis.behind
        if start.problem is not None:
            self._notes.append(f"the checkpoint record cannot be used: {start.problem}")
        if start.checkpoint is not None and end.append <= start.checkpoint_at:
            raise DamageError(
                f"the log ends in front of its last checkpoint: {end.reason}",
                file=self._name(end.stopped_at),
                lsn=instant.show(end.stopped_at),
                expected=f"records to {instant.show(start.checkpoint_at)} at least",
                found=f"an end at {instant.show(end.append)}",
                consequence="changes that are on the pages already would be taken for uncommitted ones",
                hint="restore the log file from a copy, or the database from a backup",
            )
        if end.obstacle is not None:
            self._step_over(end.obstacle)
        if behind.commits and not (self._options.accept_loss or self._options.derby_default):
            raise RefusedError(
                f"the log seems to end, but {behind.commits} committed transactions follow: {end.reason}",
                file=self._name(end.stopped_at),
                lsn=instant.show(end.stopped_at),
                expected="nothing valid behind the end",
                found=f"{behind.records} records from {instant.show(behind.first)} to {instant.show(behind.last)}",
                consequence="Derby would drop them without a word",
                hint="copy the database first; then recover --accept-loss gives them up, their bytes are saved",
            )
        if end.derby_fails:
            self._notes.append(f"Derby itself would fail at {instant.show(end.stopped_at)}: {end.reason}")

    def _step_over(self, obstacle: str) -> None:
        """A next log file that keeps Derby from starting is put aside when that loses nothing."""
        number = instant.file_of(self._analysis.end.stopped_at) + 1
        path = self._log.path(number)
        if self._log.size(number) >= HEADER_SIZE and not self._options.accept_loss:
            raise RefusedError(
                f"the next log file is not usable: {obstacle}",
                file=self._database.name(path),
                consequence="Derby refuses to start with it",
                hint="find out where the file comes from; recover --accept-loss puts it aside",
            )
        self._log.forget()
        self._database.storage.rename(path, f"{path}.aside")
        self._database.storage.sync_directory(LOG_DIRECTORY)
        self._notes.append(f"{path} was put aside as {path}.aside: {obstacle}")

    def _sync_log(self) -> None:
        """Make the log that will be applied durable, before any page is written (R-DRB-8)."""
        first = instant.file_of(self._analysis.start.redo_lwm)
        for number in range(first, instant.file_of(self._analysis.end.append) + 1):
            file = self._database.storage.open_rw(self._log.path(number))
            try:
                file.sync()
            finally:
                file.close()

    def _redo_pass(self) -> None:
        start = self._analysis.start
        scan = ForwardScan(self._log, start.undo_lwm)
        scanned = count = 0
        for one in scan:
            self._table.see(one)
            if one.instant >= start.redo_lwm:
                self._redo.redo(one)
            scanned += one.end - one.instant
            count += 1
            if count % _STEP == 0:
                self._listener.step("redo", scanned, self._analysis.bytes)

    def _undo_pass(self) -> list[Undone]:
        undone: list[Undone] = []
        losers = self._table.losers()
        for done, one in enumerate(losers):
            self._listener.step("undo", done, len(losers))
            clrs = self._roll_back(one)
            self._writer.finish(one.number, committed=False)
            self._writer.flush()
            del self._table.open[one.number]
            undone.append(Undone(one.number, one.internal, clrs))
        return undone

    def _roll_back(self, one: Transaction) -> int:
        """Undo the records of a transaction, last first; the number of CLRs written."""
        index = len(one.instants) - 1
        clrs = 0
        while index >= 0:
            found = self._log.record(one.instants[index])
            if found.undo_instant is not None:
                index = bisect_left(one.instants, found.undo_instant) - 1
                continue
            if undoable(found.operation):
                try:
                    self._compensate(found, one.number)
                except FormatError as error:
                    raise _not_undone(found, error) from error
                clrs += 1
            index -= 1
        return clrs

    def _compensate(self, found: Record, number: int) -> None:
        """Write the CLR of a record and apply it."""
        operation = found.operation
        if isinstance(operation, container_operations.ContainerOperation):
            self._compensate_container(found, operation, number)
            return
        if not registry.is_page_operation(operation):
            raise FormatError("the record cannot be undone")
        key = ContainerKey(operation.segment, operation.container)
        home = self._containers.find(key)
        if home is None:
            raise FormatError(f"{key} has vanished")
        place = place_of(self._cache, home, found, operation)
        target = self._cache.get(home, place.page)
        if target is None:
            raise FormatError(f"page {place.page} of {key} is not there")
        where = (key.segment, key.container, place.page, target.version)
        clr: registry.PageOperation = operations.PhysicalUndo(*where)
        if place.record_id is not None:
            clr = operations.LogicalUndo(*where, place.record_id)
        self._writer.append(PAGE_CLR, number, clr, undo_instant=found.instant)
        apply.undo(target, operation, found.data, place.record_id)
        target.set_version(target.version + raised_by_undo(operation))
        self._cache.changed(home, place.page)

    def _compensate_container(
        self, found: Record, operation: container_operations.ContainerOperation, number: int
    ) -> None:
        key = ContainerKey(operation.segment, operation.container)
        home = self._containers.find(key)
        version = home.header.version if home is not None else operation.version
        clr = container_operations.ContainerUndo(key.segment, key.container, version)
        at = self._writer.append(CONTAINER_CLR, number, clr, undo_instant=found.instant)
        if operation.kind == container_operations.CREATE:
            # The removal must be in the log before the file goes (R-DRB-8).
            self._writer.flush()
            self._redo.remove(key, at)
        elif home is not None:
            undrop(home)

    def _needs_checkpoint(self, undone: list[Undone]) -> bool:
        """R-DRB-60, and whenever a page, a stub or a control file is to be brought up to date."""
        start, end = self._analysis.start, self._writer.end
        files = {instant.file_of(at) for at in (start.redo_lwm, start.undo_lwm, end)}
        little = len(files) == 1 and end - start.redo_lwm < _LITTLE_LOG_BYTES
        controls = self._controls
        whole = controls.primary.control is not None and controls.primary.control == controls.mirror.control
        nothing = not undone and start.checkpoint is not None and little and whole
        return not nothing or self._cache.dirty > 0 or self._cache.written > 0 or bool(self._containers.stubs)

    def _checkpoint(self) -> CheckpointResult:
        release = self._database.likely_release(self._database.controls())
        base = self._controls.chosen or Control(major=release[0], minor=release[1])
        checkpointer = Checkpointer(
            self._database,
            self._log,
            self._writer,
            self._cache,
            keep_log=self._keeps_log(),
            listener=self._listener,
        )
        return checkpointer.take(self._table.highest + 1, list(self._table.open.values()), base)

    def _keeps_log(self) -> bool:
        """Whether log archiving is on: in the service properties, or in the database's own property table."""
        properties = self._database.properties
        if any(properties.get(name, "").lower() == "true" for name in (ARCHIVE_PROPERTY, KEEP_PROPERTY)):
            return True
        number = int(properties.get("derby.storage.propertiesId", str(_PROPERTIES_CONTAINER)))
        found = self._containers.find(ContainerKey(0, number))
        if found is None:
            return False
        for page_number in range(1, self._cache.page_count(found)):
            target = self._cache.get(found, page_number)
            if isinstance(target, LivePage):
                for one in target.rows:
                    if not one.deleted and _switches_archiving_on(one.record):
                        self._notes.append("log archiving is on: old log files are kept")
                        return True
        return False

    def _name(self, at: int) -> str:
        return self._database.name(self._log.path(instant.file_of(at)))


def _switches_archiving_on(record: bytes) -> bool:
    return (ARCHIVE_PROPERTY.encode() in record or KEEP_PROPERTY.encode() in record) and b"true" in record


def _not_undone(found: Record, error: FormatError) -> DamageError:
    return DamageError(
        f"undo stops: {error.what}",
        lsn=instant.show(found.instant),
        found=error.found,
        consequence="an open transaction cannot be rolled back; the log holds its compensation up to here",
        hint="run verify; restore from a backup and roll forward",
    )
