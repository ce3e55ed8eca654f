"""How full the files of a log are, and how many files the cleaner is behind.

The counters are those of the last checkpoint, from the tree of ``_jeUtilization`` and the FileSummaryLNs after it. What
was made obsolete since is not counted, and neither are records that have expired.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from engine.cleaner.file_summary import obsolete_bytes
from engine.cleaner.selection import CleaningLimits, FileUsage, backlog, last_candidate, percent
from engine.format.entry.db_tree import DbTree
from engine.format.entry.ln_content import FileSummary
from engine.format.lsn import file_of
from engine.inspect.checkpoint_interval import decoded_as
from engine.inspect.database_name import file_summaries, reserved_files
from engine.log.files import LogFiles
from engine.log.scan import LogScan
from engine.monitor.log_tally import LogTally


class LogUtilization:
    """The counters of the log files, kept up to date from sample to sample."""

    def __init__(self) -> None:
        self._summaries: dict[int, FileSummary] = {}
        self._reserved: set[int] = set()
        self._has_tree = False
        self._counted: tuple[int, int] | None = None

    def update(self, log: LogScan, whole: LogTally, new: LogTally) -> None:
        """Apply what was read.

        Arguments:
            log: the environment.
            whole: all that was read since the start.
            new: what was read just now.

        Raises:
            StorageError: a file cannot be read.
        """
        if not self._has_tree and whole.checkpoint is not None:
            self._has_tree = True
            entry = log.entry_at(whole.checkpoint.record.root_lsn)
            root = None if entry is None else decoded_as(entry, DbTree)
            if root is not None:
                self._summaries = file_summaries(log, root)
                self._reserved = reserved_files(log, root)
            # What was logged since that checkpoint began is newer than its trees.
            new = whole
        for number, summary in new.summaries.items():
            if summary is None:
                self._summaries.pop(number, None)
            else:
                self._summaries[number] = summary
        for number, reserved in new.reserved.items():
            (self._reserved.add if reserved else self._reserved.discard)(number)
        if new.summaries or new.reserved:
            self._counted = None

    def reserved(self) -> Collection[int]:
        """Numbers of files that are cleaned and still kept, or were kept."""
        return self._reserved

    def counted(self, files: LogFiles, first_active: int, limits: CleaningLimits) -> tuple[int, int] | None:
        """Utilization of the log in per cent, and the cleaner's backlog in files; None if no counters are known."""
        if self._counted is None:
            self._counted = _counted(self._summaries, self._reserved, files, first_active, limits)
        return self._counted


def _counted(
    summaries: Mapping[int, FileSummary],
    reserved: Collection[int],
    files: LogFiles,
    first_active: int,
    limits: CleaningLimits,
) -> tuple[int, int] | None:
    usages = []
    for file in files.files:
        summary = summaries.get(file.number)
        if summary is None or file.number in reserved or summary.total_size <= 0:
            continue
        # Counters in a damaged log may have any value.
        obsolete = min(max(obsolete_bytes(summary), 0), summary.total_size)
        usages.append(FileUsage(number=file.number, total=summary.total_size, obsolete=obsolete))
    if not usages:
        return None
    newest = last_candidate(files.files[-1].number, file_of(first_active), limits.min_age)
    used = percent(sum(one.obsolete for one in usages), sum(one.total for one in usages))
    return used, backlog(usages, limits, newest)
