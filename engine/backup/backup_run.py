"""Taking a backup of an environment, at rest or while JE or jetool writes to it.

A log only grows. So a copy of its files in ascending order, with the last one up to its last whole entry, equals the
state after a crash at that moment, and recovery makes an environment of it. No lock is taken, so the writer is not
delayed and may delete files. Changes during the copy, and how they are handled:

* A listed file is deleted before it was copied. The cleaner has moved its live records to later files, perhaps to files
  that are not listed yet, so the list is made again, and the copy continues to the new end. A file that is deleted
  after it was copied stays in the backup, since the log may still need it at the end of the copy.
* A rollback marks entries in files that were copied already, or a syncup or a recovery cuts the log. Each copied file
  that has changed since is copied again. The time or length of a file shows that it has changed. For the last file,
  which changes all the time, the digest of the copied part shows it.

A file whose length and time are those noted in the newest backup of the same environment is not read again. A file
modified within two seconds before that backup is read again, since it may change twice within the resolution of its
timestamp.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import closing
from typing import Final, NamedTuple

from engine.backup.log_facts import end_of
from engine.backup.manifest import BackupFile, Manifest
from engine.backup.manifest_builder import CopiedFile, Origin, describe, view_of
from engine.backup.repository import LogFileStore, Repository, StoredFile, pieces_of
from engine.errors import DamageError, JetoolError, NotFoundError, RefusedError
from engine.events import SILENT, Listener
from engine.log.files import LogFile, list_log_files
from engine.storage.base import ReadFile, Stat, Storage
from engine.storage.truncated_view import CutStorage

_MOST_ATTEMPTS: Final = 20
_RACY_MS: Final = 2000
_STEP: Final = "backup"
# The writer may be in the middle of a write: an entry that looks damaged is complete a moment later.
_LOOKS: Final = 3
_PAUSE_S: Final = 0.05


class Taken(NamedTuple):
    """A backup that was taken.

    Attributes:
        manifest: the manifest of the backup.
        copied_files, copied_bytes: the part that had to be read.
        stored_bytes: bytes that were new in the repository.
        attempts: number of times that the list of files was made.
        gone: listed files that were deleted before they were copied.
        lost: first and last number of the files that were written and deleted since the newest backup without being
            backed up in full; None if there are no such files.
        given_up_bytes, commits_after: bytes after the end of the log in its last file, and valid Commits among them.
        problem: why the copy cannot be recovered; None when it can.
    """

    manifest: Manifest
    copied_files: int
    copied_bytes: int
    stored_bytes: int
    attempts: int
    gone: tuple[str, ...]
    lost: tuple[int, int] | None
    given_up_bytes: int
    commits_after: int
    problem: JetoolError | None


class BackupPlan(NamedTuple):
    """What a backup would copy now.

    Attributes:
        files: log files of the backup.
        size_bytes: their total length; the last file counts up to its last whole entry.
        to_copy: files that would be read.
        to_copy_bytes: length of the files to read.
        end_lsn: where the log ends.
    """

    files: int
    size_bytes: int
    to_copy: int
    to_copy_bytes: int
    end_lsn: int


class _ChangedError(Exception):
    """The environment has changed since the list was made; ``path`` is the file that shows it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class _Place(NamedTuple):
    """A listed file, how much of it belongs to the log, and its directory entry."""

    file: LogFile
    length: int
    stat: Stat


def plan(storage: Storage, repository: Repository, source: str) -> BackupPlan:
    """What a backup would do; nothing is changed.

    Raises:
        NotFoundError: there is no environment. RefusedError: the environment must not be used.
        UnsupportedError, StorageError: a file cannot be read.
    """
    taking = _Taking(storage, repository, Origin(source, None, 0), SILENT)
    places = taking.listed()
    to_copy = [place for place in places if taking.unchanged(place) is None]
    return BackupPlan(
        files=len(places),
        size_bytes=sum(place.length for place in places),
        to_copy=len(to_copy),
        to_copy_bytes=sum(place.length for place in to_copy),
        end_lsn=places[-1].file.number << 32 | places[-1].length,
    )


def take(
    storage: Storage,
    repository: Repository,
    source: str,
    *,
    node: str | None = None,
    listener: Listener = SILENT,
    most_attempts: int = _MOST_ATTEMPTS,
) -> Taken:
    """Add a backup of an environment to a repository.

    Arguments:
        storage: the environment.
        source: the name of the environment in the manifest.
        node: the name of the node, where it is known.
        listener: receives progress of ``backup`` in bytes.
        most_attempts: how often an environment may change while it is copied.

    Raises:
        NotFoundError: there is no environment. RefusedError: the environment must not be used or keeps changing, or
            another process adds or removes backups. UnsupportedError, StorageError: a file cannot be read or written.
    """
    # Read the environment before anything is created, so that a mistyped path leaves no directory of backups.
    list_log_files(storage)
    with repository.locked():
        origin = Origin(source, node, time.time_ns() // 1_000_000)
        return _Taking(storage, repository, origin, listener).run(most_attempts)


class _Taking:
    """One backup."""

    def __init__(self, storage: Storage, repository: Repository, origin: Origin, listener: Listener) -> None:
        self._storage = storage
        self._repository = repository
        self._origin = origin
        self._listener = listener
        self._previous = repository.latest(origin.source)
        self._known = {file.path: file for file in self._previous.files} if self._previous is not None else {}
        # By path: the copied file, and its directory entry when it was copied.
        self._copied: dict[str, tuple[CopiedFile, Stat]] = {}
        self._read: dict[str, int] = {}
        self._stored_bytes = 0
        self.given_up_bytes = self._commits_after = 0

    def run(self, most_attempts: int) -> Taken:
        """Copy until no copied file changes any more, and write the manifest."""
        gone: list[str] = []
        for attempt in range(1, most_attempts + 1):
            places = self.listed()
            try:
                self._copy_all(places)
                self._require_unchanged(places)
            except _ChangedError as error:
                if self._storage.stat(error.path) is None:
                    gone.append(error.path)
                continue
            return self._finish(places, attempt, tuple(gone))
        raise RefusedError(
            "the environment does not hold still",
            file=self._storage.root,
            found=f"its files have changed {most_attempts} times while they were copied",
            consequence="no backup was added; what was copied is kept",
            hint="run it again: it continues with the copied files",
        )

    def listed(self) -> list[_Place]:
        """The current files of the log."""
        files = list_log_files(self._storage)
        if files.marker is not None:
            raise RefusedError(
                "the environment holds a restore marker: its log is incomplete",
                file=f"{self._storage.root}/{files.marker.path}",
                consequence="nothing was copied",
                hint="jetool salvage saves the readable records; restore an earlier backup",
            )
        last = files.end_file()
        places = []
        for file in files.files:
            stat = self._storage.stat(file.path)
            # Files after the end hold a header at most: the next writer removes them (R-LOG-16).
            if stat is None or file.number > last:
                continue
            places.append(_Place(file, stat.size_bytes, stat))
        if not places:
            raise NotFoundError("the log files are missing", file=self._storage.root)
        places[-1] = self._with_end(places[-1])
        return places

    def _with_end(self, place: _Place) -> _Place:
        """The last file, up to its last whole entry."""
        found = end_of(self._storage, place.file)
        for _ in range(_LOOKS):
            if not found.commits_after:
                break
            time.sleep(_PAUSE_S)
            found = end_of(self._storage, place.file)
        self.given_up_bytes = max(0, place.stat.size_bytes - found.end_offset)
        self._commits_after = found.commits_after
        return place._replace(length=found.end_offset)

    def unchanged(self, place: _Place) -> BackupFile | None:
        """The file in the newest backup, if it has not changed since."""
        before = self._known.get(place.file.path)
        if before is None or self._previous is None or not 0 < before.modified_ms < self._previous.began_ms - _RACY_MS:
            return None
        same = (before.size_bytes, before.modified_ms) == (place.length, place.stat.modified_ms)
        return before if same and self._repository.holds(before) else None

    def _copy_all(self, places: list[_Place]) -> None:
        total, done = sum(place.length for place in places), 0
        with self._repository.storing() as storing:
            for place in places:
                self._listener.step(_STEP, done, total)
                self._copy(place, storing)
                done += place.length
        self._listener.step(_STEP, total, total)

    def _copy(self, place: _Place, storing: LogFileStore) -> None:
        path, number = place.file.path, place.file.number
        copied, stat = self._copied.get(path, (None, None))
        if copied is not None and stat == place.stat and copied.size_bytes == place.length:
            return
        before = self.unchanged(place)
        if before is not None:
            kept = CopiedFile(path, number, before.size_bytes, before.sha256, before.modified_ms)
            self._copied[path] = (kept, place.stat)
            return
        try:
            with closing(self._storage.open(path)) as source:
                stored = self._stored_remotely(place, source)
                if stored is None:
                    stored = storing.put(number, pieces_of(source, place.length))
        except (NotFoundError, DamageError) as error:
            # The file was deleted, or cut shorter, since the list was made.
            raise _ChangedError(path) from error
        self._read[path] = stored.size_bytes
        self._stored_bytes += 0 if stored.was_there else stored.size_bytes
        made = CopiedFile(path, number, stored.size_bytes, stored.sha256, place.stat.modified_ms)
        self._copied[path] = (made, place.stat)

    def _stored_remotely(self, place: _Place, source: ReadFile) -> StoredFile | None:
        """The stored file with the same content, which need not be sent; reading a file twice costs less than sending
        it. None for a local repository, or if the content is not stored.
        """
        if not self._repository.is_remote:
            return None
        digest = hashlib.sha256()
        for piece in pieces_of(source, place.length):
            digest.update(piece)
        known = self._repository.stored(place.file.number)
        return next((one for one in known if one.sha256 == digest.hexdigest() and one.size_bytes == place.length), None)

    def _require_unchanged(self, places: list[_Place]) -> None:
        """Begin another round if a file changed after it was copied."""
        for place in places[:-1]:
            now = self._storage.stat(place.file.path)
            if now is not None and now != place.stat:
                raise _ChangedError(place.file.path)
        last = places[-1]
        if self._storage.stat(last.file.path) == last.stat:
            return
        # The last file may have grown, which does no harm; its copied part must be unchanged.
        digest = hashlib.sha256()
        try:
            with closing(self._storage.open(last.file.path)) as source:
                for piece in pieces_of(source, last.length):
                    digest.update(piece)
        except (NotFoundError, DamageError) as error:
            raise _ChangedError(last.file.path) from error
        if digest.hexdigest() != self._copied[last.file.path][0].sha256:
            raise _ChangedError(last.file.path)

    def _finish(self, places: list[_Place], attempts: int, gone: tuple[str, ...]) -> Taken:
        # Includes files of earlier lists that have been deleted since.
        copied = sorted((one for one, _ in self._copied.values()), key=lambda one: one.number)
        copied = [one for one in copied if one.number <= places[-1].file.number]
        described = describe(
            self._repository.new_id(), self._view(copied), copied, self._origin, self._previous, self._listener
        )
        self._repository.add(described.manifest)
        paths = {one.path for one in copied}
        return Taken(
            manifest=described.manifest,
            copied_files=sum(path in paths for path in self._read),
            copied_bytes=sum(self._read.values()),
            stored_bytes=self._stored_bytes,
            attempts=attempts,
            gone=gone,
            lost=self._lost(described.manifest),
            given_up_bytes=self.given_up_bytes,
            commits_after=self._commits_after,
            problem=described.problem,
        )

    def _lost(self, made: Manifest) -> tuple[int, int] | None:
        """First and last number of the files that were deleted between two backups; points in time that need these
        files cannot be restored.
        """
        if self._previous is None or not self._previous.files:
            return None
        # Begin with the last file of the previous backup: the log may have grown in that file before it was deleted.
        expected, gaps = self._previous.files[-1].number, []
        for file in made.files:
            if file.number > expected:
                gaps.append((expected, file.number - 1))
            expected = max(expected, file.number + 1)
        return (gaps[0][0], gaps[-1][1]) if gaps else None

    def _view(self, copied: list[CopiedFile]) -> Storage:
        """The copy as an environment."""
        if not self._repository.is_remote:
            return view_of(self._repository, copied)
        # The original files have the same bytes, so nothing is fetched from the repository.
        there: dict[str, int | None] = {file.path: None for file in list_log_files(self._storage).with_marker()}
        return CutStorage(self._storage, {**there, **{one.path: one.size_bytes for one in copied}})
