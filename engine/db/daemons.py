"""Background threads of an environment: checkpointer, cleaner, evictor, INCompressor and log flusher.

A thread runs only if it is configured (``EnvironmentConfig``). Otherwise the threads that write take checkpoints and
evict when that is due; short commands and tests rely on this. A background thread does the same work without delaying a
caller:

============  ===========================  =======================================================================
thread        enabled by                   works
============  ===========================  =======================================================================
checkpointer  je.env.runCheckpointer       when a writer sees that enough was logged (R-CKPT-2), or by time
cleaner       je.env.runCleaner            when a writer sees that enough was logged (R-CLN-15), and every
                                           je.cleaner.wakeupInterval
evictor       je.env.runEvictor            when the cache is over its budget; far over it, callers evict too (R-EVT-1)
compressor    je.env.runINCompressor       every je.compressor.wakeupInterval, if something was deleted (R-TREE-50)
flusher       the two intervals            every je.log.flushNoSyncInterval writes out, every je.log.flushSyncInterval
                                           syncs, each only if a transaction has committed since (R-LOG-27)
============  ===========================  =======================================================================

A thread that fails makes the environment invalid: the next write is refused with the error of the thread as its cause,
and ``close`` raises the error. ``stop`` waits until the current work is done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from engine.db.compressor import Compressor
from engine.db.config import EnvironmentConfig
from engine.db.parts import EnvironmentParts
from engine.errors import JetoolError
from engine.format.lsn import NULL_LSN
from engine.log.writer import LogWriter

_NAME: Final = "jetool-"
# How many times per interval the checkpointer checks whether the interval has passed.
_LOOKS: Final = 4


class Work(Protocol):
    """The work of a thread, done each time it wakes up."""

    def __call__(self) -> object:
        """Do it once."""


class Daemon:
    """One thread that works when it is woken, and also once per period.

    Arguments:
        name: shown by debuggers and in messages.
        work: called in each round.
        period_s: seconds between two rounds; with None it only works when woken.
        failed: called with the error that the work has raised; the thread then ends.
    """

    def __init__(
        self, name: str, work: Work, period_s: float | None, failed: Callable[[str, BaseException], None]
    ) -> None:
        self.name = name
        self.rounds = 0
        self._work = work
        self._period_s = period_s
        self._failed = failed
        self._stopping = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=_NAME + name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Start a round now, or another one after the current round."""
        self._woken.set()

    def ask_to_stop(self) -> None:
        """End after the current round."""
        self._stopping = True
        self._woken.set()

    def wait(self) -> None:
        """Wait for the end; does nothing when called from the thread itself."""
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._woken.wait(self._period_s)
            if self._stopping:
                return
            # Clear before the work, so that a wake-up during the work triggers another round.
            self._woken.clear()
            try:
                self._work()
                self.rounds += 1
            # No caller waits for this thread: an error that is not reported here is lost.
            except BaseException as error:
                self._failed(self.name, error)
                return


class Daemons:
    """The threads of one environment.

    Arguments:
        config: which threads run, and how often.
        parts: the environment; without a writer no thread runs.

    Attributes:
        failure: the error of the first thread that failed.
    """

    def __init__(self, config: EnvironmentConfig, parts: EnvironmentParts) -> None:
        self._parts = parts
        self._running: list[Daemon] = []
        self._stopping = False
        self._cleaning: CleanerWork | None = None
        self.failure: JetoolError | None = None
        self.checkpointer: Daemon | None = None
        self.cleaner: Daemon | None = None
        self.evictor: Daemon | None = None
        self.compressor: Daemon | None = None
        self.flusher: Daemon | None = None
        writer = parts.writer
        if writer is None:
            return
        if config.run_checkpointer:
            by_time = config.checkpoint_interval_ms if not config.checkpoint_bytes else 0
            self.checkpointer = self._make("checkpointer", self._checkpoint, by_time / _LOOKS)
        if config.run_cleaner and parts.cleaner is not None:
            self._cleaning = CleanerWork(parts, lambda: self._stopping)
            self.cleaner = self._make("cleaner", self._cleaning, config.cleaner_interval_ms)
        if config.run_evictor:
            self.evictor = self._make("evictor", parts.evictor.run, 0)
        if config.run_compressor:
            self.compressor = self._make("compressor", CompressorWork(parts.compressor), config.compressor_interval_ms)
        if config.flush_sync_ms or config.flush_no_sync_ms:
            flusher = Flusher(writer, lambda: parts.txns.commits, config.flush_sync_ms, config.flush_no_sync_ms)
            self.flusher = self._make("flusher", flusher, flusher.period_ms)

    def cleaning_is_due(self) -> bool:
        """Whether the cleaner should check for work."""
        return self._cleaning is not None and self._cleaning.is_due()

    def start(self) -> None:
        """Start all configured threads."""
        for daemon in self._running:
            daemon.start()

    def stop(self) -> None:
        """End all threads, after their current work. Stopping twice is harmless."""
        self._stopping = True
        for daemon in self._running:
            daemon.ask_to_stop()
        for daemon in self._running:
            daemon.wait()
        self._running = []

    def _make(self, name: str, work: Work, period_ms: float) -> Daemon:
        daemon = Daemon(name, work, period_ms / 1000 if period_ms else None, self._failed)
        self._running.append(daemon)
        return daemon

    def _checkpoint(self) -> None:
        checkpointer = self._parts.checkpointer
        # A writer may have called ``wake`` just as a checkpoint ended.
        if checkpointer.is_due():
            self._parts.compressor.run()
            checkpointer.run("daemon", wait=False)

    def _failed(self, name: str, error: BaseException) -> None:
        # The first failure is the cause; the others are consequences.
        if self.failure is None:
            self.failure = error if isinstance(error, JetoolError) else _bug(name, error)
        if self._parts.writer is not None:
            self._parts.writer.invalidate(self.failure)


class CleanerWork:
    """Cleans the files that are worth cleaning. In an idle environment it also takes a checkpoint, so that the cleaned
    files can be deleted.

    Before cleaning, a round discards the records of committed extinction tasks.

    Arguments:
        parts: the parts of the environment.
        stopping: called before each file; True ends the round.

    Attributes:
        began_at: the end of the log when the last round began.
    """

    def __init__(self, parts: EnvironmentParts, stopping: Callable[[], bool]) -> None:
        self._parts = parts
        self._stopping = stopping
        self.began_at = NULL_LSN

    def is_due(self) -> bool:
        """Whether enough was logged since the last round (R-CLN-15)."""
        writer = self._parts.writer
        return writer is not None and writer.distance_from(self.began_at) >= self._parts.config.cleaner_interval_bytes

    def __call__(self) -> object:
        """One round."""
        parts = self._parts
        cleaner, writer = parts.cleaner, parts.writer
        assert cleaner is not None
        assert writer is not None
        idle = writer.next_lsn == self.began_at
        self.began_at = writer.next_lsn
        if parts.extinctions is not None:
            parts.extinctions.run()
        cleaned = cleaner.clean(stop=self._stopping)
        if idle and not cleaned and cleaner.states.ready() and not self._stopping():
            # Nothing is being written, so no other checkpoint will follow. Cleaned files are deleted after a checkpoint
            # (R-CKPT-3).
            parts.checkpointer.run("cleaner", force=True, wait=False)
        return cleaned


class CompressorWork:
    """Processes the compressor's queue if it is not empty."""

    def __init__(self, compressor: Compressor) -> None:
        self._compressor = compressor

    def __call__(self) -> object:
        """One round."""
        return self._compressor.run() if len(self._compressor) else 0


class Flusher:
    """Writes out, and syncs, the buffered commits that were made without sync (R-LOG-27).

    Arguments:
        writer: the log writer.
        commits: gives the number of transactions committed so far.
        sync_ms, no_sync_ms: je.log.flushSyncInterval and je.log.flushNoSyncInterval; 0 for never.
    """

    def __init__(self, writer: LogWriter, commits: Callable[[], int], sync_ms: int, no_sync_ms: int) -> None:
        self._writer = writer
        self._commits = commits
        self._sync_ms = sync_ms
        self._no_sync_ms = no_sync_ms
        self._synced = self._written = commits()
        self._last_sync = self._last_write = time.monotonic()
        self.period_ms = min(interval for interval in (sync_ms, no_sync_ms) if interval)

    def __call__(self) -> object:
        """One round: sync if that is due; else write out if that is due."""
        now, commits = time.monotonic(), self._commits()
        if _is_due(now, self._last_sync, self._sync_ms):
            self._last_sync = self._last_write = now
            if commits != self._synced:
                self._writer.flush(sync=True)
                # The count was read before the flush, so the next round covers commits since then.
                self._synced = self._written = commits
        elif _is_due(now, self._last_write, self._no_sync_ms):
            self._last_write = now
            if commits != self._written:
                self._writer.flush(sync=False)
                self._written = commits
        return None


def _is_due(now: float, last: float, interval_ms: int) -> bool:
    # A thread may wake a little early.
    return bool(interval_ms) and (now - last) * 1000 >= interval_ms * 0.95


def _bug(name: str, error: BaseException) -> JetoolError:
    """An unexpected error in a thread, wrapped for the report, since no caller would see it."""
    found = JetoolError(f"the {name} has failed", found=f"{type(error).__name__}: {error}")
    found.__cause__ = error
    return found
