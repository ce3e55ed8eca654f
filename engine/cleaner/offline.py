"""Cleaning as much as is worth it while no other process has the environment open (JE's batchClean, R-UTIL-42).

Files are chosen by the cleaner's own rules. A checkpoint follows when so much was cleaned that its work is worth it, or
when the disk would not hold the next file's records otherwise: then what was cleaned is deleted first. Files that this
run has written are left alone, so it comes to an end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from engine.checkpoint.checkpointer import Checkpointer
from engine.cleaner.cleaner import Cleaner
from engine.cleaner.file_report import FileReport
from engine.cleaner.selection import Choice, CleaningLimits, FileUsage
from engine.errors import StorageError, plural
from engine.events import SILENT, Listener
from engine.log.files import log_file_name

# Beside the records of a file its nodes have to be written: no counter says how large these will be.
_NODES_FACTOR: Final = 2
_LEAST_ROOM_BYTES: Final = 1 << 20
_BATCH_BYTES: Final = 20_000_000
# Above that a file gives next to nothing, also where space is needed.
_FULL_PERCENT: Final = 95

NOTHING_LEFT: Final = "nothing more is worth it"
ENOUGH: Final = "the goal is reached"
STOPPED: Final = "interrupted"


class Goal(NamedTuple):
    """When to end: nothing is left that is worth it, or one of these.

    Attributes:
        limits: which files are worth it; None for those of the environment.
        free_bytes: bytes to give back; files are cleaned for it that would not be otherwise.
        max_files: the largest number of files to clean.
        copies: how often each written and deleted byte is written besides: 1 with saved bytes on the same disk.
    """

    limits: CleaningLimits | None = None
    free_bytes: int | None = None
    max_files: int | None = None
    copies: int = 0


class CleanedFile(NamedTuple):
    """A file that was cleaned: what was thought of it, and what was found."""

    facts: FileUsage
    report: FileReport


class OfflineReport(NamedTuple):
    """What a run did.

    Attributes:
        cleaned: in the order in which they were chosen.
        deleted: numbers of the files that are gone.
        bytes_before, bytes_after: of all log files.
        utilization_before, utilization_after: per cent, as far as it is counted.
        why: why it ended.
    """

    cleaned: list[CleanedFile]
    deleted: set[int]
    bytes_before: int
    bytes_after: int
    utilization_before: int
    utilization_after: int
    why: str


class OfflineCleaner:
    """One run.

    Arguments:
        cleaner, checkpointer: of an environment that no other process uses.
        goal: when to end.
        stop: asked between two files.
        heard: told of each file that was cleaned.
        listener: hears what has to be read before the first file is chosen.
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
            StorageError: there is no room for the next file, and nothing that could be deleted first.
            UnsupportedError: nothing can be cleaned in this environment.
        """
        cleaner = self._cleaner
        files = cleaner.facts(self._listener)
        before, utilization = cleaner.deletion.use().total, cleaner.select().current_max
        numbers = {facts.number for facts in files} | set(cleaner.states.reserved())
        # What earlier runs have left goes first: it costs nothing.
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
            # What was cleaned goes, whatever has ended the run.
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
            # What waits for the next checkpoint is as good as gone.
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
            # Nothing better is left, and this one would only be copied.
            return None, None
        return choice, found

    def _make_room(self, facts: FileUsage) -> None:
        """See to it that there is room for what is written next, by deleting first where there is not."""
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
        """Take the checkpoint after which the files can be deleted."""
        self._waiting = 0
        self._checkpointer.run("cleaner", force=True)
        self._cleaner.deletion.manage(everything=True)
