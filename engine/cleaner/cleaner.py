"""The cleaner: chooses files, cleans them, and releases them at checkpoints (R-CLN-15 to R-CLN-45).

``select`` gives the next file, ``clean_file`` cleans one file, ``clean`` cleans all files that are worth it. A cleaned
file is released by the first checkpoint that begins when nothing in it is pending: as a participant of checkpoints the
cleaner selects such files at the start (R-CKPT-6) and reserves them when CkptEnd is durable (R-CLN-33); ``deletion``
does the rest.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from engine.cleaner.deletion import DeletionSettings, FileDeletion, FileProtector, Protection, StreamHead
from engine.cleaner.expiration import ExpirationProfile, expired_bytes
from engine.cleaner.file_processor import CleaningParts, process_file, process_pending
from engine.cleaner.file_records import FileRecords
from engine.cleaner.file_report import FileReport
from engine.cleaner.file_states import FileState
from engine.cleaner.file_summary import obsolete_bytes
from engine.cleaner.selection import Choice, CleaningLimits, FileChoice, FileUsage, choose, last_candidate
from engine.errors import DamageError, FormatError, NotFoundError, UnsupportedError, plural
from engine.events import SILENT, Listener
from engine.format.entry.db_tree import ENV_PRESERVES_VLSN
from engine.format.entry.internal_db import ReservedFile
from engine.format.expiration import HOUR_MS
from engine.format.lsn import NULL_LSN, file_of
from engine.log.files import LogFile
from engine.log.latch import Latch

# Fields of the reports of files that the statistics sum up.
_SUMMED: Final = (
    "total_bytes",
    "lns_obsolete",
    "lns_dead",
    "lns_expired",
    "lns_extinct",
    "nodes_dead",
    "lns_migrated",
    "written_bytes",
    "nodes_dirtied",
    "lns_locked",
)


class CleanerSettings(NamedTuple):
    """Settings of the cleaner.

    Attributes:
        limits: limits for the choice of files.
        forced: files that are cleaned whatever their contents.
        reactivated: reserved files that belong to the live log.
        gradual: je.cleaner.gradualExpiration.
        records_db_ids: the records of reserved files list the databases in them; JE writes that until v17.
    """

    limits: CleaningLimits
    forced: tuple[tuple[int, int], ...]
    reactivated: frozenset[int]
    gradual: bool
    deletion: DeletionSettings
    records_db_ids: bool


class KeptFile(NamedTuple):
    """A log file, its utilization, and why it still exists; ``size_bytes`` is its current length."""

    file: LogFile
    size_bytes: int
    facts: FileUsage | None
    state: FileState | None
    reason: str


class CleanerStats(NamedTuple):
    """The cleaner's counters since the environment was opened, and its remaining work.

    Attributes:
        files_cleaned, files_deleted: number of files.
        files_in_progress, files_reserved, files_unusable: numbers of files that are being cleaned or wait for a
            checkpoint; that are reserved and not deleted; and that cannot be cleaned.
        read_bytes, deleted_bytes: size of the entries in cleaned files; size of deleted files.
        lns_obsolete, lns_dead, lns_expired, lns_extinct, nodes_dead: entries that were not needed.
        lns_migrated, migrated_bytes, nodes_dirtied: entries that were needed, and are logged again.
        lns_locked, lns_pending: LNs that were left for later because they were locked: in total, and those still left.
    """

    files_cleaned: int
    files_deleted: int
    files_in_progress: int
    files_reserved: int
    files_unusable: int
    read_bytes: int
    deleted_bytes: int
    lns_obsolete: int
    lns_dead: int
    lns_expired: int
    lns_extinct: int
    nodes_dead: int
    lns_migrated: int
    migrated_bytes: int
    nodes_dirtied: int
    lns_locked: int
    lns_pending: int


class _Revision(NamedTuple):
    """The result of the first pass over a file, and the hour of that pass: later more records may have expired."""

    hour: int
    live_bytes: int


class Cleaner:
    """The cleaner of one environment that is open for writing; a checkpoint participant.

    Arguments:
        parts: the parts that it uses.
        records: the internal databases.
        expiration: gives the expiration of files without a record.
        settings: settings.

    Attributes:
        records: the internal databases.
        states: the states of the files.
        stream: the VLSN index, in a replicated environment.
        files_cleaned: number of files since the environment was opened.
    """

    def __init__(
        self, parts: CleaningParts, records: FileRecords, expiration: ExpirationProfile, settings: CleanerSettings
    ) -> None:
        self._parts = parts
        self.records = records
        self._expiration = expiration
        self._settings = settings
        self.states = parts.states
        # One thread at a time cleans a file or processes pending LNs.
        self._cleaning = Latch()
        self._cleaning.unexpected = parts.ctx.fail
        self._settling = threading.Lock()
        self._making = threading.Lock()
        self._handed_over: list[int] = []
        self._revised: dict[int, _Revision] = {}
        self._histograms: dict[int, dict[int, int]] = {}
        self._may_be_stale = True
        self._deletion: FileDeletion | None = None
        self.stream: StreamHead | None = None
        self.files_cleaned = 0
        self._done: Counter[str] = Counter()

    @property
    def limits(self) -> CleaningLimits:
        """The limits by which it chooses files."""
        return self._settings.limits

    @property
    def deletion(self) -> FileDeletion:
        """The deletion of files; created on first use."""
        with self._making:
            if self._deletion is None:
                self._deletion = FileDeletion(
                    self._parts.ctx, self.states, self.records, self._left, self._settings.deletion, lambda: self.stream
                )
            return self._deletion

    @property
    def protector(self) -> FileProtector:
        """The protections of files."""
        return self.deletion.protector

    def protect_from(self, name: str, first: int) -> Protection:
        """Protect all files from a number on (R-CLN-41), including files that become reserved later; the caller
        releases it.
        """
        return self.protector.protect_from(name, first)

    def load(self) -> None:
        """Read which files are reserved; call this before anything is counted, logged or cleaned."""
        for number, record in self.records.reserved().items():
            if number in self._settings.reactivated:
                continue
            self._parts.utilization.leave(number)
            self.states.reserve(number, self.deletion.size_of(number), record.last_vlsn)

    def reactivate(self) -> list[int]:
        """Remove the records of the files that the settings put back into the live log; returns their numbers.

        Without a summary such a file counts as not in use, so it is cleaned soon, and what leads into it is logged
        again.
        """
        found = sorted(self.records.reserved().keys() & self._settings.reactivated)
        for number in found:
            self.records.remove_reserved(number)
        return found

    def stats(self) -> CleanerStats:
        """The counters of the cleaner."""
        done = self._done
        return CleanerStats(
            files_cleaned=self.files_cleaned,
            files_deleted=self.deletion.deleted_files,
            files_in_progress=len(self.states.in_progress()),
            files_reserved=len(self.states.reserved()),
            files_unusable=len(self.states.unusable),
            read_bytes=done["total_bytes"],
            deleted_bytes=self.deletion.deleted_bytes,
            lns_obsolete=done["lns_obsolete"],
            lns_dead=done["lns_dead"],
            lns_expired=done["lns_expired"],
            lns_extinct=done["lns_extinct"],
            nodes_dead=done["nodes_dead"],
            lns_migrated=done["lns_migrated"],
            migrated_bytes=done["written_bytes"],
            nodes_dirtied=done["nodes_dirtied"],
            lns_locked=done["lns_locked"],
            lns_pending=len(self.states.pending()),
        )

    # Choosing.

    def facts(self, listener: Listener = SILENT) -> list[FileUsage]:
        """The utilization of the files of the live log, ascending.

        Arguments:
            listener: receives the step ``count files``, which takes long if files have to be read.
        """
        in_progress = self.states.in_progress()
        now_ms = self._parts.now_ms()
        files = [file for file in self._parts.ctx.access.files() if not self.states.is_reserved(file.number)]
        found = []
        for file in files:
            found.append(self._facts_of(file, now_ms, in_progress=file.number in in_progress))
            listener.step("count files", len(found), len(files))
        return found

    def select(
        self, limits: CleaningLimits | None = None, *, anything: bool = False, newest: int | None = None
    ) -> FileChoice:
        """The file that would be cleaned next.

        Arguments:
            limits: limits that replace those of the environment.
            anything: choose the best file even if enough of the log is in use.
            newest: number of the newest file that may be chosen.
        """
        limits = limits or self._settings.limits
        facts = self.facts()
        bound = self.newest(facts, limits)
        return choose(
            facts,
            limits,
            bound if newest is None else min(bound, newest),
            forced=self._forced(facts),
            anything=anything,
            excluded=self.states.unusable,
        )

    def kept(self, limits: CleaningLimits | None = None, listener: Listener = SILENT) -> list[KeptFile]:
        """Every log file, and why it still exists; the listener receives the step of ``facts``."""
        limits = limits or self._settings.limits
        by_number = {facts.number: facts for facts in self.facts(listener)}
        newest = self.newest(list(by_number.values()), limits)
        in_progress = self.states.in_progress()
        found = []
        for file in self._parts.ctx.access.files():
            facts = by_number.get(file.number)
            state = FileState.RESERVED if facts is None else in_progress.get(file.number)
            found.append(
                KeptFile(
                    file,
                    self.deletion.size_of(file.number),
                    facts,
                    state,
                    self._reason(file.number, facts, state, newest),
                )
            )
        return found

    # Cleaning.

    def clean(
        self,
        *,
        limits: CleaningLimits | None = None,
        stop: Callable[[], bool] = lambda: False,
        done: Callable[[FileReport], None] | None = None,
    ) -> int:
        """Clean files while one is worth it; returns the number cleaned (R-CLN-15).

        Arguments:
            stop: called before each file; True ends the loop.
            done: called with the report of each file.
        """
        most, cleaned = len(self._parts.ctx.access.files()), 0
        # Cleaning creates files too, so this is limited to the number of files at the start.
        for _ in range(most):
            self.deletion.manage()
            if stop() or self.deletion.violation is not None:
                break
            self.process_pending()
            choice = self.select(limits).choice
            if choice is None:
                break
            report = self.clean_file(choice)
            if report is not None:
                cleaned += 1
                if done is not None:
                    done(report)
        return cleaned

    def clean_file(self, choice: Choice) -> FileReport | None:
        """Clean one file.

        Returns:
            The result; None if it was not cleaned: more of it is in use than expected, or it is damaged or gone.

        Raises:
            UnsupportedError: nothing can be cleaned in this environment. StorageError: the log cannot be written.
        """
        if self._parts.catalog.flags & ENV_PRESERVES_VLSN:
            raise UnsupportedError(
                "the environment preserves record versions (je.rep.preserveRecordVersion)",
                consequence="its records cannot be logged again without losing them, and nothing was cleaned",
            )
        with self._cleaning:
            access, number = self._parts.ctx.access, choice.number
            file = next(file for file in access.files() if file.number == number)
            if choice.required is not None and not self._is_worth_it(file, choice.required):
                return None
            self.states.begin(number)
            finished = False
            try:
                report = process_file(self._parts, file)
                finished = True
            except NotFoundError:
                self._forget_missing(number)
                return None
            except (DamageError, FormatError, UnsupportedError) as error:
                # Record that this file cannot be cleaned; the other files are still cleaned.
                self.states.unusable[number] = str(error)
                return None
            finally:
                if not finished:
                    self.states.put_back(number)
            self.files_cleaned += 1
            self._done.update({name: getattr(report, name) for name in _SUMMED})
            return report

    def process_pending(self) -> None:
        """Process again the LNs that were locked when their file was cleaned; one thread at a time."""
        if self.states.pending() and self._settling.acquire(blocking=False):
            try:
                process_pending(self._parts)
            except BaseException as error:
                self._parts.ctx.fail(error)
                raise
            finally:
                self._settling.release()

    def reads_ahead(self, number: int) -> FileReport:
        """Determine what is needed of a file; nothing is changed."""
        file = next(file for file in self._parts.ctx.access.files() if file.number == number)
        return process_file(self._parts, file, count_only=True)

    # The checkpoint participant.

    def checkpoint_begins(self) -> bool:
        """Select the files that this checkpoint can release (R-CKPT-6)."""
        self.process_pending()
        self._handed_over = self.states.ready()
        return bool(self._handed_over)

    def checkpoint_started(self) -> None:
        """Nothing has to be made consistent."""

    def before_checkpoint_end(self) -> None:
        """The records of reserved files are written after CkptEnd is durable."""

    def checkpoint_ended(self) -> None:
        """Reserve the selected files, into which nothing leads any more (R-CLN-33), and delete what can be deleted."""
        handed_over, self._handed_over = self._handed_over, []
        for number in handed_over:
            found = self.states.facts_of(number)
            db_ids = found.db_ids if self._settings.records_db_ids else ()
            self.records.put_reserved(number, ReservedFile(0, found.first_vlsn, found.last_vlsn, db_ids))
        for number in handed_over:
            found = self.states.facts_of(number)
            # Stop counting the entries of the file; otherwise new summaries would be logged for it.
            self._left(number)
            self.records.remove_summaries(number)
            self.states.reserve(number, self.deletion.size_of(number), found.last_vlsn)
        limits = self._settings.deletion.limits
        if self.states.reserved() or limits.max_disk or limits.free_disk:
            self.deletion.manage()
        if self._may_be_stale:
            self._may_be_stale = False
            self._remove_stale()

    def _remove_stale(self) -> None:
        """Remove the records of files that are missing (R-CLN-14)."""
        has_file = self._parts.ctx.access.has_file
        for number in [number for number in self.states.reserved() if not has_file(number)]:
            self.records.remove_reserved(number)
            self.states.deleted(number)
        for number in self.records.summarized():
            if not has_file(number):
                self.records.remove_summaries(number)

    def _left(self, number: int) -> None:
        self._parts.utilization.leave(number)
        self._revised.pop(number, None)
        self._histograms.pop(number, None)

    def _forget_missing(self, number: int) -> None:
        """Handle a file that has vanished. Whether something leads there is not checked here; ``verify`` does that."""
        with self._parts.ctx.latch:
            self._parts.ctx.access.forget(number)
        self._left(number)
        self.records.remove_summaries(number)

    def _is_worth_it(self, file: LogFile, required: int) -> bool:
        """Do the first of two passes (R-CLN-22)."""
        try:
            report = process_file(self._parts, file, count_only=True)
        except NotFoundError:
            self._forget_missing(file.number)
            return False
        except (DamageError, FormatError, UnsupportedError) as error:
            self.states.unusable[file.number] = str(error)
            return False
        counters = self._parts.utilization.counters(file.number)
        if not counters.total_size:
            # The file has no counts yet: it comes from a restore, a load, or a JE release without summaries.
            counters.set(report.summary())
            counters.changed = True
        self._revised[file.number] = _Revision(self._parts.now_ms() // HOUR_MS, report.live_bytes)
        total = report.total_bytes
        return total == 0 or int(100 * report.live_bytes / total + 0.5) <= required

    def _facts_of(self, file: LogFile, now_ms: int, *, in_progress: bool) -> FileUsage:
        counters = self._parts.utilization.files().get(file.number)
        if counters is None or not counters.total_size:
            # Without counts the range of utilization is as wide as possible, so a first pass determines the value.
            size = max(self.deletion.size_of(file.number), 1)
            return FileUsage(file.number, size, 0, size, size, in_progress)
        summary = counters.summary()
        total, obsolete = summary.total_size, obsolete_bytes(summary)
        revised = self._revised.get(file.number)
        if revised is not None and revised.hour == now_ms // HOUR_MS:
            return FileUsage(file.number, total, max(obsolete, total - revised.live_bytes), in_progress=in_progress)
        found = expired_bytes(self._histogram(file.number), now_ms)
        gradual = found.gradual if self._settings.gradual else found.expired
        return FileUsage(file.number, total, obsolete, min(found.expired, total), min(gradual, total), in_progress)

    def _histogram(self, number: int) -> dict[int, int]:
        hours = self._expiration.hours(number)
        if hours is not None:
            return hours
        known = self._histograms.get(number)
        if known is None:
            known = self.records.histogram(number)
            known = self._histograms[number] = self._expiration.read(number) if known is None else known
        return known

    def newest(self, facts: list[FileUsage], limits: CleaningLimits) -> int:
        """The newest file that may be cleaned now (R-CLN-18)."""
        last = facts[-1].number if facts else 0
        first_active = self._parts.txns.first_active_lsn()
        return last_candidate(last, last if first_active == NULL_LSN else file_of(first_active), limits.min_age)

    def _forced(self, facts: list[FileUsage]) -> Collection[int]:
        forced = self._settings.forced
        return [one.number for one in facts if any(first <= one.number <= last for first, last in forced)]

    def _reason(self, number: int, facts: FileUsage | None, state: FileState | None, newest: int) -> str:
        if facts is None:
            return self.deletion.why_kept(number) or self.deletion.refused or "kept for replicas"
        if number in self.states.unusable:
            return self.states.unusable[number]
        if state is FileState.CLEANED:
            locked = self.states.pending_in(number)
            return (
                f"{plural(locked, 'record is', 'records are')} locked by open transactions"
                if locked
                else "waits for a checkpoint"
            )
        if state is not None:
            return "is being cleaned"
        if number > newest:
            return "too new: among the last files, or an open transaction began before it"
        return f"{facts.average_utilization} % of it is in use"
