"""Recovery of a database after a crash: redo, undo, checkpoint.

Order (duties of section J of the behaviour document):

1. Analysis without effects: where to start, where the log ends, which transactions are open, and what follows the end.
2. Interlock. Derby takes any damage for the end of the log and zeroes what follows; when committed transactions follow,
   this program refuses. It also refuses where Derby would start an empty log, and where the log ends before its own
   checkpoint. A next log file that keeps Derby from starting is refused if it holds a record.
3. Redo pass from the redo low water mark (``redo``).
4. The tail after the append position is zeroed, even if Derby would leave bytes that it cannot decode.
5. Undo pass (``undo``): losers one after the other, internal ones first; prepared transactions are kept.
6. The closing checkpoint (``checkpoint``), unless the database was clean (R-DRB-62). Derby also leaves it out when
   there is little to redo and nothing to undo (R-DRB-60); here nothing may be left to redo (duty 6).

A dry run does the same on an overlay in memory. With a backup directory every byte is saved before it is overwritten,
and ``take_back`` restores the old state, even after an interrupted run that left a torn page. Without it an
interrupted run can simply be started again: its records are in the log, and the new run does the rest.

Example, ``crash-five-transactions``: scan from (1,40674), redo of 9 records from (1,41652), end at (1,42645); loser 196
gets nine CLRs from (1,42682) on and an abort end; checkpoint at (1,43174). Derby writes the same bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.derby.cache import DEFAULT_PAGES, PageCache
from engine.derby.catalog import keeps_log
from engine.derby.checkpoint import CheckpointResult, DerbyCheckpointer, TruncationPoint, archive_point, write_controls
from engine.derby.containers import Containers
from engine.derby.database import (
    LOCK_BYTE,
    LOCK_FILE,
    NEWEST_RECOVERED,
    OLDEST_WITH_CHECKSUMS,
    OWNER_FILE,
    DerbyDatabase,
)
from engine.derby.database_info import DerbyAnalysis, analyse
from engine.derby.format import instant
from engine.derby.format.control import Control
from engine.derby.interlock import check, usable_controls
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.derby.log_writer import DEFAULT_BUFFER_BYTES, DEFAULT_SWITCH_BYTES, DerbyLogWriter, clear_tail
from engine.derby.page_copies import PageCopies, mend
from engine.derby.recovery.redo import Redo
from engine.derby.recovery.undo import Undo, UndoResult
from engine.derby.xact_table import XactTable
from engine.errors import plural
from engine.events import SILENT, Listener
from engine.storage.base import Lock, Storage
from engine.storage.overlay import OverlayStorage
from engine.storage.saved_bytes import SavingStorage
from engine.storage.undo import undo

_STEP = 256


class RecoveryOptions(NamedTuple):
    """How recovery is to be done.

    Attributes:
        accept_loss: continue although committed transactions lie after the end of the log, or the next log file does
            not continue it.
        derby_default: behave as Derby: no interlock, and without ``log.ctrl`` no mirror and no checksum records.
        force_checkpoint: take a checkpoint even if the database is clean.
        cache_pages: pages kept in memory.
        buffer_bytes: log buffer, decides where checksum groups end.
        switch_bytes: log switch interval.
    """

    accept_loss: bool = False
    derby_default: bool = False
    force_checkpoint: bool = False
    cache_pages: int = DEFAULT_PAGES
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    switch_bytes: int = DEFAULT_SWITCH_BYTES


DEFAULTS = RecoveryOptions()


class DerbyRecoveryResult(NamedTuple):
    """The result of recovery (of a dry run: what it would be).

    Attributes:
        analysis: the state that was found.
        clean: whether nothing had to be redone or undone.
        redo_seen, redo_applied, redo_skipped: numbers of page and container records in the redo pass.
        undone: transactions rolled back, in order.
        undo_from, undo_to: the part of the log written by the undo pass.
        in_doubt: numbers of the prepared transactions that were kept.
        zeroed_bytes: bytes after the append position that were zeroed although they were not all zero.
        pages_written: number of pages written, including evicted ones.
        checkpoint: the closing checkpoint, None when none was needed.
        lost_commits: number of committed transactions after the end of the log that were given up.
        notes: remarks for the operator, one clause each.
        changed: bytes of each file that a dry run would write, empty in a real run.
    """

    analysis: DerbyAnalysis
    clean: bool
    redo_seen: int
    redo_applied: int
    redo_skipped: int
    undone: tuple[UndoResult, ...]
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
    options: RecoveryOptions = DEFAULTS,
    *,
    dry_run: bool = False,
    backup: Storage | None = None,
    listener: Listener = SILENT,
) -> DerbyRecoveryResult:
    """Recover a database.

    Arguments:
        storage: the database directory.
        options: see ``RecoveryOptions``.
        dry_run: change nothing and report what would happen.
        backup: directory for saved bytes; None saves nothing.
        listener: receives progress of the steps ``redo`` (bytes), ``undo`` (transactions) and those of the checkpoint.

    Raises:
        NotFoundError: no Derby database there.
        UnsupportedError: encrypted, or of a release that was not verified for recovery.
        RefusedError: a JVM has it open; committed transactions would be lost; the next log file does not continue the
            log.
        DamageError: a needed log file or record is missing, or a page does not fit its record.
    """
    if dry_run:
        overlay = OverlayStorage(storage)
        run = _Recovery(DerbyDatabase(overlay), options, listener)
        if overlay.lock_holder(LOCK_FILE, LOCK_BYTE) is not None:
            run.notes.append("the database is open in another process; the preview may be out of date")
        return run.run()._replace(changed=overlay.changed())
    lock = DerbyDatabase(storage).lock()
    try:
        return recover_locked(storage, options, backup, listener)
    finally:
        unlock(storage, lock)


def take_back(storage: Storage, backup: Storage, *, force: bool = False) -> int:
    """Restore the state before the recovery that wrote a backup directory; return the number of entries undone.

    Arguments:
        storage: the database directory.
        backup: the backup directory.
        force: continue although files were changed since.

    Raises: NotFoundError if there are no saved bytes; RefusedError if a JVM has the database open, and without
    ``force``.
    """
    lock = DerbyDatabase(storage).lock()
    try:
        return undo(storage, backup, force=force)
    finally:
        unlock(storage, lock)


def recover_locked(
    storage: Storage, options: RecoveryOptions, backup: Storage | None, listener: Listener
) -> DerbyRecoveryResult:
    """Same as ``recover``, for a caller that holds the lock."""
    if backup is None:
        return _Recovery(DerbyDatabase(storage), options, listener).run()
    saving = SavingStorage(storage, backup, "recover")
    try:
        result = _Recovery(DerbyDatabase(saving), options, listener, saving).run()
    except BaseException:
        saving.interrupt()
        raise
    saving.finish({"undone": [one.transaction for one in result.undone]})
    return result


def unlock(storage: Storage, lock: Lock) -> None:
    """Release the lock; a lock file that no JVM created is removed."""
    try:
        # A JVM creates both files; if there is only one, this program made it.
        if storage.stat(OWNER_FILE) is None and storage.stat(LOCK_FILE) is not None:
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
        "_copies",
        "_database",
        "_listener",
        "_log",
        "_options",
        "_redo",
        "_table",
        "_writer",
        "notes",
    )

    def __init__(
        self, database: DerbyDatabase, options: RecoveryOptions, listener: Listener, saving: SavingStorage | None = None
    ) -> None:
        database.require_clear()
        database.require_start()
        self._database = database
        self._options = options
        self._listener = listener
        self.notes: list[str] = []
        self._controls = usable_controls(database, self.notes, derby_default=options.derby_default)
        database.require_version(self._controls, NEWEST_RECOVERED)
        self._log = DerbyLogFiles(database)
        self._analysis = analyse(self._log, self._controls, listener)
        checksums = self._controls.primary.present or not options.derby_default
        # Derby 10.0 does not know checksum records, and does not start a database whose log has one (R-DRB-79).
        checksums = checksums and database.likely_release(self._controls) >= OLDEST_WITH_CHECKSUMS
        self._writer = DerbyLogWriter(
            self._log,
            self._analysis.end.append,
            buffer_bytes=options.buffer_bytes,
            switch_bytes=options.switch_bytes,
            checksums=checksums,
        )
        self._containers = Containers(database)
        self._copies = PageCopies(database.storage) if database.is_page_store else None
        self._cache = PageCache(self._containers, self._writer, options.cache_pages, saving, self._copies)
        self._redo = Redo(self._log, self._cache)
        self._table = XactTable(self._analysis.start.redo_lwm)

    def run(self) -> DerbyRecoveryResult:
        """All steps; open files are closed in any case."""
        try:
            if self._analysis.after.torn_commits:
                torn = plural(self._analysis.after.torn_commits, "commit is", "commits are")
                self.notes.append(f"the last write to the log is torn; {torn} undone that was not acknowledged")
            loss = self._options.accept_loss or self._options.derby_default
            check(self._log, self._analysis, self.notes, accept_loss=loss, accept_file=self._options.accept_loss)
            # Nothing is written before the interlock above. Only a page store of jetool has copies for repairing torn
            # pages.
            mended = mend(self._database.storage) if self._copies is not None else 0
            if mended:
                self.notes.append(
                    f"{plural(mended, 'page was', 'pages were')} torn by an interrupted write and mended from copies"
                )
            # Stale bytes after the end of a clean log are zeroed too: after the next crash they might be taken for
            # records.
            forced = self._options.force_checkpoint or self._analysis.after.other_bytes
            done = self._already_clean() if self._analysis.clean and not forced else self._run()
            if self._copies is not None:
                self._copies.remove()
            return done
        finally:
            if self._copies is not None:
                self._copies.close()
            self._containers.close()
            self._writer.close()
            self._redo.close()
            self._log.forget()

    def _run(self) -> DerbyRecoveryResult:
        end = self._analysis.end
        # R-DRB-8: the log to be applied is durable before any page is written.
        first = instant.file_of(self._analysis.start.redo_lwm)
        for number in range(first, instant.file_of(end.append) + 1):
            file = self._database.storage.open_rw(self._log.path(number))
            try:
                file.sync()
            finally:
                file.close()
        self._redo_pass()
        zeroed = clear_tail(self._log, end.append) if self._analysis.after.other_bytes or end.fuzzy else 0
        # The tail is zeroed before the first CLR: after a shorter record, old bytes could look like valid records.
        undone = Undo(self._log, self._writer, self._cache, self._redo).run(self._table, self._listener)
        undo_to = self._writer.end
        # A clean database whose tail was zeroed needs no checkpoint: the old one describes the same state.
        needed = not self._analysis.clean or self._options.force_checkpoint
        checkpoint = self._checkpoint() if needed else None
        return self._result(undone, undo_to, zeroed, checkpoint)

    def _result(
        self, undone: list[UndoResult], undo_to: int, zeroed: int, checkpoint: CheckpointResult | None
    ) -> DerbyRecoveryResult:
        return DerbyRecoveryResult(
            analysis=self._analysis,
            clean=self._analysis.clean,
            redo_seen=self._redo.seen,
            redo_applied=self._redo.applied,
            redo_skipped=self._redo.skipped,
            undone=tuple(undone),
            undo_from=self._analysis.end.append,
            undo_to=undo_to,
            in_doubt=tuple(one.number for one in self._table.in_doubt()),
            zeroed_bytes=zeroed,
            pages_written=self._cache.written,
            checkpoint=checkpoint,
            lost_commits=self._analysis.after.commits,
            notes=tuple(self.notes),
            changed={},
        )

    def _already_clean(self) -> DerbyRecoveryResult:
        """Nothing to redo or undo; an invalid control file is rewritten."""
        primary, mirror = self._controls.primary.control, self._controls.mirror.control
        # After a crash between the two writes, or damage to one copy, the valid copy is written to both.
        if primary != mirror and self._controls.chosen is not None:
            write_controls(self._database.storage, self._controls.chosen)
            self.notes.append("both control files were written again")
        return self._result([], self._analysis.end.append, 0, None)

    def _redo_pass(self) -> None:
        start = self._analysis.start
        scan = ForwardScan(self._log, start.undo_lwm)
        scanned = 0
        for count, one in enumerate(scan):
            self._table.see(one)
            # Older records are on disk already; they are read for the transaction table only (R-DRB-31).
            if one.instant >= start.redo_lwm:
                self._redo.redo(one)
            scanned += one.end - one.instant
            if count % _STEP == 0:
                self._listener.step("redo", scanned, self._analysis.bytes)

    def _checkpoint(self) -> CheckpointResult:
        release = self._database.likely_release(self._database.controls())
        # If both control files are damaged, the release is guessed from their remains.
        base = self._controls.chosen or Control(major=release[0], minor=release[1])
        # Register the stubs on disk: this checkpoint may delete them, since their containers were removed before it.
        self._containers.adopt_stubs()
        points: tuple[TruncationPoint, ...] = ()
        # The pages are current now, so the database's own property table can be read like any other.
        if keeps_log(self._database, self._cache):
            points = (archive_point(self._log),)
            self.notes.append("log archiving is on: old log files are kept")
        checkpointer = DerbyCheckpointer(
            self._database,
            self._log,
            self._writer,
            self._cache,
            truncation_points=points,
            listener=self._listener,
        )
        return checkpointer.take(self._table.highest + 1, list(self._table.open.values()), base)
