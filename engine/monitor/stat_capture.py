"""Statistics of an open environment in JE's form: a row in ``je.stat.csv`` beside the log, now and then.

The columns are those of JE that this engine has figures for, under JE's names. As in JE a counter holds what happened
since the row before, a size is that at the time of the row, and 0 is blank. Rows are appended; a file with other
columns, such as JE's own, or with ``most_rows`` rows is renamed first, to the names that JE gives: ``je.stat.0.csv``
and so on. Nothing depends on these files, so they are not synced, and a failure to write one ends the capture only.

Example: a row after a minute with 1,200 commits that shared 300 syncs::

    time,Cache:cacheTotalBytes,Checkpoints:lastCheckpointId,...,I/O:nLogFSyncs,Locks:nWaits
    2026-11-28 12:45:27.284 UTC,3159893,7,...,300,
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from engine.db.engine import EnvironmentStats
from engine.errors import JetoolError, StorageError
from engine.log.files import list_log_files
from engine.monitor.stat_file import CACHE_BYTES, STAT_FILE, TIME
from engine.storage.base import Storage

_COUNTERS: Final = ("Checkpoints:nCheckpoints", "I/O:nLogFSyncs", "Locks:nWaits")
COLUMNS: Final = (
    CACHE_BYTES,
    "Checkpoints:lastCheckpointId",
    "Checkpoints:nCheckpoints",
    "Cleaning:totalLogSize",
    "I/O:endOfLog",
    "I/O:nLogFSyncs",
    "Locks:nWaits",
)
_HEAD: Final = ",".join((TIME, *COLUMNS)) + "\n"
_MOST_ROWS: Final = 1440
# A file of that size has rows of another program.
_MOST_BYTES: Final = 1 << 20
# JE keeps ten files.
_MOST_FILES: Final = 10


class StatCapture:
    """Writes a row for an environment each time it is asked to.

    Arguments:
        storage: the environment.
        clock: the time in seconds since 1970.
        most_rows: rows of a file.
    """

    def __init__(
        self, storage: Storage, clock: Callable[[], float] = time.time, *, most_rows: int = _MOST_ROWS
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._most_rows = most_rows
        self._before: dict[str, int] = {}

    def write(self, stats: EnvironmentStats) -> None:
        """Append a row. Raises StorageError."""
        found = self._figures(stats)
        shown = dict(found)
        for name in _COUNTERS:
            since = found[name] - self._before.get(name, 0)
            # After a rollback or a restore the environment is another one, whose counters begin at 0.
            shown[name] = since if since >= 0 else found[name]
        self._before = found
        now = datetime.fromtimestamp(self._clock(), UTC)
        cells = [f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1000:03d} UTC"]
        cells += [str(shown[name] or "") for name in COLUMNS]
        self._append(",".join(cells) + "\n")

    def _figures(self, stats: EnvironmentStats) -> dict[str, int]:
        figures = (
            stats.cache_bytes,
            stats.checkpoints,
            stats.checkpoints,
            sum(file.size_bytes for file in list_log_files(self._storage).files),
            stats.end_lsn,
            stats.syncs,
            stats.lock_waits,
        )
        return dict(zip(COLUMNS, figures, strict=True))

    def _append(self, line: str) -> None:
        file = self._storage.open_rw(STAT_FILE, create=True)
        try:
            size = file.size()
            text = file.read(0, min(size, _MOST_BYTES))
            is_other = not text.startswith(_HEAD.encode()) or size > _MOST_BYTES
            if size and (is_other or text.count(b"\n") > self._most_rows):
                file.close()
                self._set_aside()
                file = self._storage.open_rw(STAT_FILE, create=True)
                size = 0
            file.write(size, (line if size else _HEAD + line).encode())
        finally:
            file.close()

    def _set_aside(self) -> None:
        """Rename the file; the oldest one goes when there are ten."""
        taken = [number for number in range(_MOST_FILES) if self._storage.stat(_name(number)) is not None]
        for number in reversed(taken):
            if number + 1 < _MOST_FILES:
                self._storage.rename(_name(number), _name(number + 1))
        self._storage.rename(STAT_FILE, _name(0))


def _name(number: int) -> str:
    return f"{STAT_FILE.removesuffix('.csv')}.{number}.csv"


def capture_until(
    stopping: threading.Event, capture: StatCapture, stats: Callable[[], EnvironmentStats], interval_s: float
) -> JetoolError | None:
    """Write a row every ``interval_s`` seconds until the event is set.

    Arguments:
        stats: the counters now; an error of it, such as that no environment is open, leaves the row out.

    Returns:
        The error that ended the capture; None if the event did.
    """
    while not stopping.wait(interval_s):
        try:
            found = stats()
        except JetoolError:
            continue
        try:
            capture.write(found)
        except StorageError as error:
            return error
    return None
