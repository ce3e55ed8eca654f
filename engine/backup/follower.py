"""Repeated backups of an environment while it is written.

Every round is a backup of its own (``backup_run``), so the previous backup survives if the program is killed. The new
backup replaces the previous one if it contains every file of the previous one, and the last of these files is not
shorter. If files were deleted or changed in between, both are kept, so every point in time that could be restored still
can be.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from engine.backup.backup_run import Taken, take
from engine.backup.manifest import Manifest
from engine.backup.repository import Repository, beginning_digest
from engine.errors import JetoolError
from engine.events import SILENT, Listener
from engine.format.lsn import file_of
from engine.log.files import list_log_files
from engine.storage.base import Stat, Storage


class Round(NamedTuple):
    """One round.

    Attributes:
        taken: the new backup.
        replaced: the id of the backup that the new one replaced; None if no backup was replaced.
        lag_bytes: bytes by which the log had grown when the backup was complete.
        lag_ms: time from the search for the end of the log until the backup was complete. Commits after that search are
            in no backup.
    """

    taken: Taken
    replaced: str | None
    lag_bytes: int
    lag_ms: int


class Follower:
    """Takes backups of one environment as it grows.

    Arguments:
        storage: the environment.
        source: the name of the environment in manifests.
    """

    def __init__(self, storage: Storage, repository: Repository, source: str, listener: Listener = SILENT) -> None:
        self._storage = storage
        self._repository = repository
        self._source = source
        self._listener = listener
        # The last backup of this run. A backup that a user took explicitly is never replaced, so it does not count.
        self._last: Manifest | None = None
        self._seen: dict[str, Stat | None] = {}

    def round(self) -> Round | None:
        """Take a backup if the log has changed; else None.

        Raises:
            JetoolError: as ``take``.
        """
        before, files = self._last, list_log_files(self._storage).files
        seen = {file.path: self._storage.stat(file.path) for file in files}
        if before is not None and seen == self._seen:
            return None
        # Note the state of the files before the copy: later changes belong to the next round.
        self._seen = seen
        taken = take(self._storage, self._repository, self._source, listener=self._listener)
        found = self._last = taken.manifest
        replaced = None
        if before is not None and self._has_all(before, found):
            with self._repository.locked():
                self._repository.remove(before.id)
                self._repository.sweep()
            replaced = before.id
        return Round(taken, replaced, self._grown(found), time.time_ns() // 1_000_000 - found.began_ms)

    def _has_all(self, before: Manifest, now: Manifest) -> bool:
        """Whether a backup contains every byte of an earlier one."""
        files = {file.path: file for file in now.files}
        for file in before.files[:-1]:
            if file.path not in files or files[file.path].sha256 != file.sha256:
                return False
        last = before.files[-1]
        grown = files.get(last.path)
        if grown is None or grown.size_bytes < last.size_bytes:
            return False
        same = grown.sha256 == last.sha256
        return same or beginning_digest(self._repository, grown, last.size_bytes) == last.sha256

    def _grown(self, manifest: Manifest) -> int:
        try:
            files = list_log_files(self._storage).files
        except JetoolError:
            return 0
        last = file_of(manifest.end_lsn)
        now = sum(file.size_bytes for file in files if file.number >= last)
        return max(0, now - manifest.files[-1].size_bytes)
