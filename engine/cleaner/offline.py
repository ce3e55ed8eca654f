"""Cleaning as much as is worthwhile while no other process has the environment open (JE's batchClean, R-UTIL-42).

Files are chosen by the cleaner's own rules. A checkpoint is taken when enough was cleaned to justify its cost, or when
the disk would otherwise not have room for the next file's records: the cleaned files are then deleted first. Files that
this run has written are not cleaned, so the run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from engine.checkpoint.checkpointer import Checkpointer
from engine.cleaner.cleaner import Cleaner
from engine.cleaner.file_report import FileReport
from engine.cleaner.selection import Choice, CleaningLimits, FileUsage
from engine.errors import StorageError, plural
from engine.events import SILENT, Listener
from engine.log.files import log_file_name

# Nodes have to be written besides the records of a file; no counter gives their size.
_NODES_FACTOR: Final = 2
_LEAST_ROOM_BYTES: Final = 1 << 20
_BATCH_BYTES: Final = 20_000_000
# Above this utilization cleaning a file gains almost nothing, even if space is needed.
_FULL_PERCENT: Final = 95

NO_MORE_RESERVED: Final = "no other reserved file may be deleted"
NOTHING_LEFT: Final = "nothing more is worth it"
ENOUGH: Final = "the goal is reached"
STOPPED: Final = "interrupted"


class Goal(NamedTuple):
    """When to end: if no file is worth cleaning any more, or at one of these limits.

    Attributes:
        limits: limits that decide which files are worth cleaning; None for the environment's limits.
        free_bytes: bytes to free; for this, files are cleaned that otherwise would not be.
        max_files: maximum number of files to clean.
        copies: additional copies of each written and deleted byte: 1 with saved bytes on the same disk.
    """

    limits: CleaningLimits | None = None
    free_bytes: int | None = None
    max_files: int | None = None
    copies: int = 0


class CleanedFile(NamedTuple):
    """A cleaned file: its expected utilization, and the result of cleaning it."""

    facts: FileUsage
    report: FileReport


class OfflineReport(NamedTuple):
    """The result of a run.

    Attributes:
        cleaned: the cleaned files, in the order of choice.
        deleted: numbers of the deleted files.
        bytes_before, bytes_after: of all log files.
        utilization_before, utilization_after: percentages, as counted.
        why: the reason why the run ended.
    """

    cleaned: list[CleanedFile]
    deleted: set[int]
    bytes_before: int
    bytes_after: int
    utilization_before: int
    utilization_after: int
    why: str


def delete_reserved(cleaner: Cleaner, free_bytes: int | None, sizes: Mapping[int, int]) -> OfflineReport:
    """Delete reserved files and clean nothing, the oldest first.

    Their VLSNs leave the VLSN index before them, so a file that the index has to keep stays, with all after it. Opening
    a stand-alone environment for writing has deleted all of them already; they count too.

    Arguments:
        cleaner: of an environment that no other process uses.
        free_bytes: bytes to free, by whole files; None for all that may be deleted.
        sizes: bytes of all log files by number, before the environment was opened.
    """
    utilization = cleaner.select().current_max
    left = {one.file.number for one in cleaner.kept()}
    freed = sum(size for number, size in sizes.items() if number not in left)
    if free_bytes is None or freed < free_bytes:
        cleaner.deletion.free(None if free_bytes is None else free_bytes - freed)
        left = {one.file.number for one in cleaner.kept()}
        freed = sum(size for number, size in sizes.items() if number not in left)
    before = sum(sizes.values())
    return OfflineReport(
        cleaned=[],
        deleted=sizes.keys() - left,
        bytes_before=before,
        bytes_after=before - freed,
        utilization_before=utilization,
        utilization_after=cleaner.select().current_max,
        why=ENOUGH if free_bytes is not None and freed >= free_bytes else NO_MORE_RESERVED,
    )


class OfflineCleaner:
    """One run.

    Arguments:
        cleaner, checkpointer: of an environment that no other process uses.
        goal: when to end.
        stop: called between two files; True ends the run.
        heard: called with each cleaned file.
        listener: receives the progress of reading files before the first one is chosen.
    """

    def __init__(
        self,
        cleaner: Cleaner,
        checkpointer: Checkpointer,
        goal: Goal,
        *,
        stop: Callable[[], bool],
        heard: Callable[[CleanedFile], None],
        listener: Listener = SILENT,
    ) -> None:
        self._cleaner = cleaner
        self._listener = listener
        self._checkpointer = checkpointer
        self._goal = goal
        self._stop = stop
        self._heard = heard
        self._cleaned: list[CleanedFile] = []
        self._waiting = 0

    def run(self) -> OfflineReport:
        """Clean until the goal is reached.

        Raises:
            StorageError: there is no room for the next file, and nothing can be deleted first.
            UnsupportedError: the environment cannot be cleaned.
        """
        cleaner = self._cleaner
        files = cleaner.facts(self._listener)
        before, utilization = cleaner.deletion.use().total, cleaner.select().current_max
        numbers = {facts.number for facts in files} | set(cleaner.states.reserved())
        # Files left by earlier runs are deleted first: that costs nothing.
        cleaner.deletion.manage(everything=True)
        newest = max(numbers, default=-1)
        try:
            while True:
                why = self._why_end(before)
                choice, facts = (None, None) if why else self._next(newest)
                if choice is None or facts is None:
                    why = why or NOTHING_LEFT
                    break
                self._make_room(facts)
                report = cleaner.clean_file(choice)
                if report is not None:
                    self._done(CleanedFile(facts, report))
        finally:
            # Delete the cleaned files, whatever has ended the run.
            if self._waiting:
                self._let_go()
        left = {one.file.number for one in cleaner.kept()}
        after = cleaner.deletion.use().total
        return OfflineReport(
            cleaned=self._cleaned,
            deleted=numbers - left,
            bytes_before=before,
            bytes_after=after,
            utilization_before=utilization,
            utilization_after=cleaner.select().current_max,
            why=why,
        )

    def _why_end(self, before: int) -> str:
        goal = self._goal
        if self._stop():
            return STOPPED
        if goal.max_files is not None and len(self._cleaned) >= goal.max_files:
            return ENOUGH
        if goal.free_bytes is not None:
            # Files that wait for the next checkpoint count as freed.
            freed = before - self._cleaner.deletion.use().total + self._waiting
            if freed >= goal.free_bytes:
                return ENOUGH
        return ""

    def _next(self, newest: int) -> tuple[Choice | None, FileUsage | None]:
        needs_space = self._goal.free_bytes is not None
        choice = self._cleaner.select(self._goal.limits, anything=needs_space, newest=newest).choice
        facts = {one.number: one for one in self._cleaner.facts()}
        found = None if choice is None else facts[choice.number]
        if found is not None and found.max_utilization >= _FULL_PERCENT:
            # No better file is left, and this file would only be copied.
            return None, None
        return choice, found

    def _make_room(self, facts: FileUsage) -> None:
        """Make sure that there is room for the next writes; delete files first if there is not."""
        needed = self._needed(facts)
        free = self._free()
        if free is not None and free < needed and self._waiting:
            self._let_go()
            free = self._free()
        if free is not None and free < needed:
            saved = " (saved bytes included; --backup-dir on another disk, or none, needs less)"
            raise StorageError(
                "there is no room to clean the next file",
                file=log_file_name(facts.number),
                expected=f"{plural(needed, 'byte')} free{saved if self._goal.copies else ''}",
                found=plural(free, "byte"),
                consequence="what was cleaned before is kept",
                hint="make room, then run the command again",
            )

    def _needed(self, facts: FileUsage) -> int:
        live = facts.total - max(facts.obsolete, facts.expired)
        written = live * _NODES_FACTOR + _LEAST_ROOM_BYTES
        return written * (1 + self._goal.copies) + (facts.total + self._waiting) * self._goal.copies

    def _free(self) -> int | None:
        return self._cleaner.deletion.use().free

    def _done(self, found: CleanedFile) -> None:
        self._cleaned.append(found)
        self._heard(found)
        self._waiting += found.report.total_bytes
        if self._waiting >= _BATCH_BYTES:
            self._let_go()

    def _let_go(self) -> None:
        """Take a checkpoint, after which the cleaned files can be deleted."""
        self._waiting = 0
        self._checkpointer.run("cleaner", force=True)
        self._cleaner.deletion.manage(everything=True)
