"""Recovers an environment that was not closed once for all tasks that read it.

Tasks share no memory, so each recovers the environment that it reads. If the log ends with a checkpoint, recovery takes
no time; otherwise it reads all of the log after the last checkpoint. In the latter case the driver recovers the
environment and takes a checkpoint, with all writes in a directory of Spark (``engine.storage.copy_on_write``), and
tasks read log and directory as one environment. The environment itself is not changed. The directory is removed when
the application ends; until then later queries reuse it as long as the log is unchanged.

Executors on other machines, which cannot see the directory, recover by themselves. All tasks do so if the environment
cannot be opened for writing, for example because its log is damaged, or if Spark names no directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.startup import files_kept
from engine.errors import JetoolError
from engine.format.lsn import NULL_LSN, file_of, offset_of
from engine.log.access import LogAccess
from engine.log.files import LogFiles, list_log_files
from engine.log.tail import find_end, find_last_checkpoint
from engine.rescue.points import as_of
from engine.storage.base import Storage
from engine.storage.copy_on_write import CoverStorage
from engine.storage.disk import DiskStorage

# Less log is recovered in a fraction of a second.
_LEAST_BYTES: Final = 8 << 20
_PREFIX: Final = "jetool-recovered-"


class RecoveredView(NamedTuple):
    """How an environment is read.

    Attributes:
        env: the directory of the environment.
        end_lsn: where the log ends for this read; None for the real end.
        cover: directory with the changes made by recovery; None if each task recovers.
    """

    env: str
    end_lsn: int | None
    cover: str | None


def opened_view(view: RecoveredView) -> Environment:
    """The environment, for reading."""
    storage = _storage(view.env, view.end_lsn)
    if view.cover is not None and Path(view.cover).is_dir():
        storage = CoverStorage(storage, DiskStorage(view.cover))
    return Environment(storage, EnvironmentConfig(read_only=True))


def recovered_once(env: str, end_lsn: int | None, least_bytes: int = _LEAST_BYTES) -> RecoveredView:
    """Recover an environment for all tasks, if recovery has much to read and there is a directory for the result.

    Arguments:
        env: the directory of the environment.
        end_lsn: where the log ends for this read; None for the real end.
        least_bytes: how much recovery has to read for this to be worth it.
    """
    plain = RecoveredView(env, end_lsn, None)
    # Spark's own directory of this application.
    parent = Path(os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or "/nowhere")
    storage = _storage(env, end_lsn)
    try:
        files = list_log_files(storage)
        if not parent.is_dir() or _redone_bytes(storage, files) < least_bytes:
            return plain
        shown = {file.path: file.size_bytes for file in files.with_marker()}
        # Includes the times of all files, since rollbacks and repairs change entries in place.
        stats = [(path, storage.stat(path)) for path in sorted(shown)]
        name = hashlib.sha256(repr((env, end_lsn, stats)).encode()).hexdigest()[:24]
        target = parent / f"{_PREFIX}{name}"
        if not target.is_dir():
            # Several processes may begin at once; the first to finish moves its copy into place.
            with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent) as made:
                inner = Path(made) / "cover"
                inner.mkdir()
                _recover(storage, CoverStorage(storage, DiskStorage(inner), shown))
                with contextlib.suppress(OSError):
                    inner.rename(target)
        return RecoveredView(env, end_lsn, str(target))
    except (JetoolError, OSError):
        # Errors of the log are found, and reported, by the reader of the log itself.
        return plain


def _storage(env: str, end_lsn: int | None) -> Storage:
    storage = DiskStorage(env)
    return storage if end_lsn is None else as_of(storage, end_lsn)


def _redone_bytes(storage: Storage, files: LogFiles) -> int:
    """Number of bytes of log that recovery has to read."""
    access = LogAccess(storage, files.files)
    try:
        tail = find_end(storage, files)
        checkpoint = find_last_checkpoint(access, tail).ckpt_end_lsn
    finally:
        access.close()
    if checkpoint == NULL_LSN:
        return sum(file.size_bytes for file in files.files)
    after = sum(file.size_bytes for file in files.files if file.number >= file_of(checkpoint))
    return after - offset_of(checkpoint)


def _recover(storage: Storage, cover: CoverStorage) -> None:
    # While a reader has the environment open, no cleaner deletes a file.
    with files_kept(storage):
        # Write to a new log file, so that the last one need not be copied; refuse to lose commits after damage.
        config = EnvironmentConfig(halt_on_commit_after_bad=True, force_new_file=True, guess_orders=True)
        Environment(cover, config).close()
        cover.finish()
