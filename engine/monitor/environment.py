"""Samples of an environment that another process may be writing.

A sample lists the directory, asks who holds the writer's lock, and reads what was appended to the log and to JE's
statistics since the sample before. The first one reads the end of the log back to its last checkpoint, and the counters
of the files. Nothing is opened for writing, and no lock is taken: the cleaner of the writer may delete any file at any
moment, so a file that is gone between two steps is no error.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.cleaner.disk_limits import DiskUse, available
from engine.errors import JetoolError, NotFoundError
from engine.format.lsn import NULL_LSN
from engine.log.files import LOCK_FILE, WRITER_BYTE, LogFiles, list_log_files
from engine.log.scan import scan_file
from engine.monitor.appended_log import AppendedLog, bytes_between, small_reads
from engine.monitor.log_tally import LogTally
from engine.monitor.sample import CLOSED, OPEN, NodeSample, rate
from engine.monitor.settings import MonitorSettings, read_settings
from engine.monitor.stat_file import CACHE_BYTES, STAT_FILE, LastRow
from engine.monitor.utilization import LogUtilization
from engine.storage.base import Storage


class EnvironmentMeter:
    """Takes samples of one environment.

    Arguments:
        storage: the environment.
        clock: gives milliseconds since 1970.
        timer: gives seconds, for rates.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._timer = timer
        self._progress = AppendedLog(storage)
        self._whole: LogTally | None = None
        self._utilization = LogUtilization()
        self._statistics = LastRow(storage, STAT_FILE)
        self._settings: MonitorSettings | None = None
        self._appended = self._first_commits = 0
        self._before: tuple[float, NodeSample] | None = None

    def check(self) -> None:
        """Whether there is an environment of a version that can be read.

        Raises:
            NotFoundError: no environment. UnsupportedError: a log version that this program does not read.
        """
        files = list_log_files(self._storage)
        self._settings_of(files)

    def sample(self) -> list[NodeSample]:
        """One sample. It raises nothing: what cannot be read is its ``problem``."""
        now = self._timer()
        made = NodeSample(time=self._clock(), node=self._storage.root, place=self._storage.root, group=None)
        try:
            found = self._read(made, now)
        except (JetoolError, OSError) as error:
            # A file that the cleaner deleted meanwhile; the next sample lists the directory again.
            return [made._replace(problem=str(error))]
        self._before = now, found
        return [found]

    def _read(self, made: NodeSample, now: float) -> NodeSample:
        files = list_log_files(self._storage)
        settings = self._settings_of(files)
        new = self._read_log(files)
        assert self._whole is not None
        whole, end = self._whole, self._progress.end
        writer = self._storage.lock_holder(LOCK_FILE, WRITER_BYTE)
        checkpoint = None if whole.checkpoint is None else whole.checkpoint.record
        self._utilization.update(small_reads(self._storage, files), whole, new)
        counted = self._utilization.counted(
            files, NULL_LSN if checkpoint is None else checkpoint.first_active_lsn, settings.cleaning
        )
        reserved = sum(file.size_bytes for file in files.files if file.number in self._utilization.reserved())
        log_bytes = sum(file.size_bytes for file in files.files)
        free = self._storage.free_bytes()
        row = self._statistics.read()
        cache = None if row is None else row.number(CACHE_BYTES)
        seconds, before = self._since(now)
        commits = whole.commits - self._first_commits
        return made._replace(
            state=CLOSED if writer is None else OPEN,
            writer=writer,
            vlsn=whole.vlsn,
            vlsn_rate=rate(whole.vlsn, before.vlsn, seconds) if before is not None and before.vlsn > 0 else None,
            commits=commits,
            commit_rate=None if before is None else rate(commits, before.commits, seconds),
            last_commit=None if whole.last_end is None else whole.last_end.time,
            end_of_log=end,
            log_files=len(files.files),
            log_bytes=log_bytes,
            appended_bytes=self._appended,
            append_rate=None if before is None else rate(self._appended, before.appended_bytes, seconds),
            utilization=None if counted is None else counted[0],
            cleaner_backlog=None if counted is None else counted[1],
            reserved_bytes=reserved,
            cache_bytes=None if cache is None else int(cache),
            cache_limit=settings.cache_bytes,
            cache_time=None if row is None else row.time,
            checkpoint=None if checkpoint is None else checkpoint.time,
            checkpoint_age=None if checkpoint is None else max(made.time - checkpoint.time, 0) / 1000,
            recovery_bytes=(None if checkpoint is None else bytes_between(files, checkpoint.first_active_lsn, end)),
            disk_free=free,
            disk_left=available(DiskUse(log_bytes - reserved, reserved, 0, free), settings.disk),
            problem=_problem(files, whole, settings),
        )

    def _read_log(self, files: LogFiles) -> LogTally:
        """Read what is new; the whole and the counts go on."""
        start = self._progress.end
        try:
            new = self._progress.read(files)
        except JetoolError:
            # Without a first reading there is nothing to go on from.
            if self._whole is None:
                self._progress.end = NULL_LSN
            raise
        if self._whole is None or start == NULL_LSN or self._progress.end < start:
            # The first time, or another log: it was rolled back or replaced.
            self._whole, self._utilization = LogTally(), LogUtilization()
            self._whole.join_later(new)
            self._first_commits, self._appended = self._whole.commits, 0
            self._before = None
        else:
            self._whole.join_later(new)
            self._appended += bytes_between(files, start, self._progress.end)
        return new

    def _since(self, now: float) -> tuple[float, NodeSample | None]:
        """Seconds since the sample before, and that sample."""
        return (0, None) if self._before is None else (now - self._before[0], self._before[1])

    def _settings_of(self, files: LogFiles) -> MonitorSettings:
        if self._settings is None:
            file = files.files[-1] if files.files else None
            if file is None:
                raise NotFoundError("no log file", file=self._storage.root)
            version = scan_file(self._storage, file, is_last=True).head().version
            self._settings = read_settings(self._storage, version)
        return self._settings


def _problem(files: LogFiles, whole: LogTally, settings: MonitorSettings) -> str | None:
    if files.marker is not None:
        return "the restore marker keeps JE from opening it"
    if whole.damages:
        return "damage in the log: jetool verify names it"
    return settings.problem or None
