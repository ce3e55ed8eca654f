"""An environment that was not closed, recovered once for all tasks that read it.

A task shares no memory with others, so it recovers what it reads. After a checkpoint that takes no time. Without one it
takes as long as the log that follows the last one: then the driver recovers the environment and takes the checkpoint
that it lacks, into a directory of Spark's (``engine.storage.copy_on_write``), and tasks read log and directory as one
environment. The environment itself is not changed. The directory goes when the application ends; a later query finds it
again as long as the log is the same.

Executors that do not see the directory, since they are other machines, recover by themselves as before; so does
everybody where the environment may not be opened for writing, such as with a damaged log, or Spark names no directory.
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

# Less than that is recovered in a fraction of a second.
_LEAST_BYTES: Final = 8 << 20
_PREFIX: Final = "jetool-recovered-"


class RecoveredView(NamedTuple):
    """An environment as it is read.

    Attributes:
        env: its directory.
        end_lsn: where its log ends for this read; None for its end.
        cover: directory with what recovery has changed; None where each task recovers.
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


def recovered_once(env: str, end_lsn: int | None) -> RecoveredView:
    """Recover an environment for all who read it, where recovery has much to read and there is a place for it.

    Arguments:
        env: its directory.
        end_lsn: where its log ends; None for its end.
    """
    plain = RecoveredView(env, end_lsn, None)
    # Spark's own directory of this application.
    parent = Path(os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or "/nowhere")
    storage = _storage(env, end_lsn)
    try:
        files = list_log_files(storage)
        if not parent.is_dir() or _redone_bytes(storage, files) < _LEAST_BYTES:
            return plain
        shown = {file.path: file.size_bytes for file in files.with_marker()}
        # With the times of all of them: rollbacks and repairs change entries where they stand.
        stats = [(path, storage.stat(path)) for path in sorted(shown)]
        name = hashlib.sha256(repr((env, end_lsn, stats)).encode()).hexdigest()[:24]
        target = parent / f"{_PREFIX}{name}"
        if not target.is_dir():
            # Several may begin at once; the first that is done puts its copy there.
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
    """How much of the log recovery has to read."""
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
    # As long as somebody reads no cleaner deletes a file.
    with files_kept(storage):
        # A new file: the last one need not be copied. Commits after damage must not be given up here.
        config = EnvironmentConfig(halt_on_commit_after_bad=True, force_new_file=True, guess_orders=True)
        Environment(cover, config).close()
        cover.finish()
