"""Access of a repair to an environment: the writer's lock, and the directory for overwritten bytes.

A writer locks byte 0 of ``je.lck`` (R-LOG-28). Each repair of ``/data/env`` gets a directory of its own,
``/data/env.jetool-backup/20261121T103000.123Z``, with ``saved.journal`` and ``manifest.json``
(``engine.storage.journal``).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from engine.errors import NotFoundError, RefusedError, StorageError, UnsupportedError, UsageError
from engine.log.files import LOCK_FILE, WRITER_BYTE
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.sidecar import DirectoryBeside

# Given instead of a directory: save nothing.
NOTHING_SAVED: Final = "none"
_ENDING: Final = ".jetool-backup"
_POLL_S: Final = 0.05


def backup_directory(env: str, asked: str | None = None) -> DirectoryBeside | None:
    """The directory for the old bytes of one repair.

    Arguments:
        asked: the requested directory; None: a new directory beside the environment; ``NOTHING_SAVED``: no directory.
    """
    if asked == NOTHING_SAVED:
        return None
    return DirectoryBeside(asked or stamped_beside(env, _ENDING), env)


def backups_of(env: str) -> str:
    """The directory that holds the backup directories of an environment."""
    return os.path.realpath(env) + _ENDING


def stamped_beside(env: str, ending: str) -> str:
    """A directory beside an environment for the files of one run: ``ENV<ending>/20261121T103000.123Z``."""
    now_ms = time.time_ns() // 1_000_000
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_ms // 1000))
    return os.path.join(os.path.realpath(env) + ending, f"{stamp}.{now_ms % 1000:03d}Z")


@contextmanager
def full_backup_named(backup: DirectoryBeside | None) -> Iterator[None]:
    """Add a hint to an error of the backup directory: the user can name another directory, on another disk."""
    try:
        yield
    except StorageError as error:
        if backup is not None and (error.file or "").startswith(backup.root):
            error.consequence = "bytes that could not be saved were not overwritten"
            error.hint = "make room there, or give a directory on another disk with --backup-dir"
        raise


def writer_of(storage: Storage) -> int | None:
    """The pid of the process that has an environment open for writing; 0 if it is unknown, None if there is none."""
    return storage.lock_holder(LOCK_FILE, WRITER_BYTE) if storage.stat(LOCK_FILE) is not None else None


def wait_for_writer(storage: Storage, timeout_s: float) -> None:
    """Wait until no process has the environment open for writing, up to the timeout."""
    deadline = time.monotonic() + timeout_s
    # Polled, since the engine takes the lock itself and reports its holder.
    while writer_of(storage) is not None and time.monotonic() < deadline:
        time.sleep(_POLL_S)


@contextmanager
def writer_locked(disk: DiskStorage, timeout_s: float = 0.0) -> Iterator[None]:
    """Hold the lock of a writer.

    Raises:
        RefusedError: another process still holds it after the timeout.
    """
    wait_for_writer(disk, timeout_s)
    # Create the lock file: an environment that JE never opened for writing has none.
    disk.open_rw(LOCK_FILE, create=True).close()
    lock = disk.lock(LOCK_FILE, WRITER_BYTE, exclusive=True)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def leaving_no_lock_file(disk: DiskStorage) -> Iterator[None]:
    """Remove the lock file created by a refused run: a refusal leaves no trace."""
    made = disk.stat(LOCK_FILE) is None
    try:
        yield
    except (RefusedError, UnsupportedError, UsageError, NotFoundError):
        # Another process may hold the lock by now; then the file stays.
        if made and disk.stat(LOCK_FILE) is not None:
            with contextlib.suppress(RefusedError):
                lock = disk.lock(LOCK_FILE, WRITER_BYTE, exclusive=True)
                disk.remove(LOCK_FILE)
                lock.release()
        raise
