"""Opening an environment for reading, and the locks of readers and writers.

Readers create and change nothing, and block no writer: they find the end of the log and recover in memory. If there is
a ``je.lck``, its byte 1 is locked in shared mode: while a reader holds it, no cleaner deletes a file, neither ours nor
JE's (R-LOG-28). A writer locks byte 0 exclusively; ``engine.db.read_write.startup`` opens for writing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from engine.cleaner.tracker import UtilizationTracker
from engine.db.config import EnvironmentConfig
from engine.db.memory import maps_bytes
from engine.db.parts import EnvironmentParts, make_context
from engine.errors import InUseError, NotFoundError, RefusedError, StorageError
from engine.events import Listener
from engine.evictor.evictor import Evictor
from engine.log.access import LogAccess
from engine.log.files import LOCK_FILE, READERS_BYTE, WRITER_BYTE, LogFiles, list_log_files
from engine.log.tail import Tail, find_end
from engine.recovery.hooks import RecoveryHook
from engine.recovery.manager import Recovery
from engine.storage.base import Lock, Storage
from engine.storage.disk import DiskStorage, allow_maps
from engine.tree.context import TreeContext

# Number of attempts while another process deletes files.
_DELETION_WAITS: Final = 50
_DELETION_WAIT_S: Final = 0.02
# Share of the cache for nodes during recovery; the rest is for the state of transactions and for the checkpoint.
_RECOVERY_PART: Final = 0.6

# POSIX locks do not exclude threads of the same process, so writers of this process are recorded here.
_open_for_writing: set[str] = set()
_open_mutex = threading.Lock()


class WriterLock:
    """The exclusive right to change an environment: it excludes other writers in all processes, including this process.

    Arguments:
        storage: the environment; the lock file is created if it is missing.

    Raises:
        InUseError: another process or thread has it.
    """

    def __init__(self, storage: Storage) -> None:
        # Storages in memory exclude other writers by their own locks.
        self._root = os.path.realpath(storage.root) if isinstance(storage, DiskStorage) else ""
        with _open_mutex:
            if self._root and self._root in _open_for_writing:
                raise InUseError("the environment is open for writing in this process", file=storage.root)
            storage.open_rw(LOCK_FILE, create=True).close()
            self._lock: Lock | None = storage.lock(LOCK_FILE, WRITER_BYTE, exclusive=True)
            if self._root:
                _open_for_writing.add(self._root)

    def release(self) -> None:
        """Release the lock. Releasing twice is harmless."""
        if self._lock is None:
            return
        # Release the file lock before removing the entry in ``_open_for_writing``, which refuses writers until then.
        self._lock.release()
        self._lock = None
        with _open_mutex:
            _open_for_writing.discard(self._root)


def lock_for_writing(storage: Storage, config: EnvironmentConfig) -> WriterLock:
    """Lock an environment that exists or is about to be created.

    Raises:
        NotFoundError: the environment does not exist, and ``create`` is not set.
    """
    if not is_directory(storage):
        if not config.create:
            raise NotFoundError("no such directory", file=storage.root, hint="check the path of the environment")
        storage.make_directory("")
    if not config.create:
        # Refuse before a lock file is left in a directory that is not an environment.
        list_log_files(storage)
    return WriterLock(storage)


def lock_for_reading(storage: Storage) -> Lock | None:
    """Keep other processes' cleaners from deleting files; None if there is no lock file, which is not created here.

    If a cleaner is just deleting files, this waits up to a second. A cleaner deletes only while no reader holds the
    lock.
    """
    for _ in range(_DELETION_WAITS if storage.stat(LOCK_FILE) is not None else 0):
        try:
            return storage.lock(LOCK_FILE, READERS_BYTE, exclusive=False)
        except RefusedError:
            time.sleep(_DELETION_WAIT_S)
        except (NotFoundError, StorageError):
            break
    return None


@contextmanager
def files_kept(storage: Storage) -> Iterator[None]:
    """Keep the cleaner of another process from deleting files while the block runs."""
    lock = lock_for_reading(storage)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def is_directory(storage: Storage) -> bool:
    """Whether the directory exists."""
    found = storage.stat()
    return found is not None and found.is_directory


def open_for_reading(storage: Storage, config: EnvironmentConfig, listener: Listener) -> EnvironmentParts:
    """Recover an environment in memory.

    Raises:
        NotFoundError, DamageError, UnsupportedError: see ``Environment``.
    """
    files = list_log_files(storage)
    tail = find_end(storage, files, listener)
    with context_over(storage, files, config) as ctx:
        recovery = recovery_for(ctx, tail, config, listener, hook=None)
        parts = EnvironmentParts(config, ctx, recovery.run(), UtilizationTracker(ctx), recovery.result, listener)
        parts.tail = tail
    return parts


@contextmanager
def context_over(storage: Storage, files: LogFiles, config: EnvironmentConfig) -> Iterator[TreeContext]:
    """Empty trees over a log, for recovery; an error closes the files, success allows maps of them."""
    ctx = make_context(config, LogAccess(storage, files.files))
    try:
        yield ctx
    except BaseException:
        ctx.access.close()
        if ctx.spill is not None:
            ctx.spill.close()
        raise
    # Allow maps only after recovery, which may use all of the memory.
    allow_maps(maps_bytes(config.cache_bytes))


def recovery_for(
    ctx: TreeContext, tail: Tail, config: EnvironmentConfig, listener: Listener, hook: RecoveryHook | None
) -> Recovery:
    """The recovery for a configuration.

    Arguments:
        hook: receives the entries of the recovery range, if the environment is opened for writing.
    """
    return Recovery(
        ctx,
        tail,
        config.comparators,
        listener,
        resurrect=not config.read_only,
        hook=hook,
        refuse_changed=not config.read_only and config.halt_on_commit_after_bad,
        # Recovery takes no checkpoint: changed nodes go to the scratch file.
        keeper=Evictor(ctx, int(config.cache_bytes * _RECOVERY_PART)),
        for_writing=not config.read_only and not config.guess_orders,
        check_orders=True,
        read_ahead_bytes=config.read_ahead_bytes,
    )
