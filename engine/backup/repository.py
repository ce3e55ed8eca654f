"""A directory of backups.

::

    DEST/
        files/0000001f-SHA256.jdb    a log file, or the beginning of one, stored once however many backups need it
        backups/ID.json              the manifest of one backup (``manifest``)
        lock                         byte 0 is locked while backups are added or removed

A manifest is written when all its files are durable, so a backup is either complete or absent. Files are written under
a name that ends in ``.part`` and renamed; a file that no manifest names was left by a run that was killed, and the next
``prune`` removes it. If the content of a log file changed, because a restored environment was continued in it or a
rollback marked entries in it, it has another digest and so another name. So a file that a backup names is never
overwritten.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Final, NamedTuple

from engine.backup.manifest import ID, MOST_BYTES, BackupFile, Manifest, decode_manifest, encode_manifest, stored_path
from engine.errors import DamageError, JetoolError, NotFoundError
from engine.storage.base import ReadFile, Storage, WriteFile

FILES: Final = "files"
BACKUPS: Final = "backups"
_LOCK: Final = "lock"
_PART: Final = ".part"
_PIECE_BYTES: Final = 1 << 18
_GRACE_MS: Final = 86_400_000
_SYNCS_AT_ONCE: Final = 2
_MOST_UNSETTLED: Final = 8
_MOST_SUMS: Final = 8


class StoredFile(NamedTuple):
    """A file that was put into a repository: its digest, its size, and whether it was already stored."""

    sha256: str
    size_bytes: int
    was_there: bool


class RepositoryBackup(NamedTuple):
    """A backup of a repository; if its manifest cannot be read, ``manifest`` is None and ``problem`` is the reason."""

    id: str
    manifest: Manifest | None
    problem: str


class Repository:
    """A directory of backups.

    Arguments:
        storage: the directory; it is created when the first file is stored.
        is_remote: reading it is slow, and it has no locks.
    """

    def __init__(self, storage: Storage, *, is_remote: bool = False) -> None:
        self.storage = storage
        self.is_remote = is_remote

    @property
    def root(self) -> str:
        """What messages call it."""
        return self.storage.root

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock that allows adding and removing backups.

        Raises:
            RefusedError: another process does. StorageError: the directory cannot be written.
        """
        for path in ("", FILES, BACKUPS):
            found = self.storage.stat(path)
            if found is None or not found.is_directory:
                self.storage.make_directory(path)
        self.storage.open_rw(_LOCK, create=True).close()
        self.storage.sync_directory()
        lock = self.storage.lock(_LOCK, 0, exclusive=True)
        try:
            yield
        finally:
            lock.release()

    def new_id(self) -> str:
        """A name for a backup that begins now; it sorts after all existing names."""
        now_ms = time.time_ns() // 1_000_000
        while True:
            stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now_ms // 1000))
            made = f"{stamp}.{now_ms % 1000:03d}Z"
            if self.storage.stat(f"{BACKUPS}/{made}.json") is None:
                return made
            now_ms += 1

    def stored(self, number: int) -> list[StoredFile]:
        """The stored files with the number of a log file, even if no backup names them."""
        if self.storage.stat(FILES) is None:
            return []
        beginning, ending, found = f"{number:08x}-", ".jdb", []
        for name in self.storage.names(FILES):
            stat = (
                self.storage.stat(f"{FILES}/{name}") if name.startswith(beginning) and name.endswith(ending) else None
            )
            if stat is not None:
                found.append(StoredFile(name[len(beginning) : -len(ending)], stat.size_bytes, True))
        return found

    def holds(self, file: BackupFile) -> bool:
        """Whether a file exists with the right length; ``backup verify`` checks its content."""
        found = self.storage.stat(file.stored)
        return found is not None and not found.is_directory and found.size_bytes == file.size_bytes

    @contextmanager
    def storing(self) -> Iterator[LogFileStore]:
        """A store for log files, as a context: at its end all files are durable, or an error is raised.

        Raises:
            StorageError: there is no room, or the directory cannot be written.
        """
        # Stores that need no sync gain nothing from threads.
        with ThreadPoolExecutor(1) as summing, ThreadPoolExecutor(_SYNCS_AT_ONCE) as pool:
            storing = LogFileStore(self, summing, None if self.is_remote else pool)
            try:
                yield storing
            finally:
                storing.settle()

    def put_file(self, number: int, pieces: Iterable[bytes]) -> StoredFile:
        """Store the content of one log file, durably; see ``LogFileStore.put``."""
        with self.storing() as storing:
            return storing.put(number, pieces)

    def add(self, manifest: Manifest) -> None:
        """Add a backup whose files are all stored. The backup is durable on return.

        Raises:
            NotFoundError: a file of the backup is not stored.
        """
        for file in manifest.files:
            if not self.holds(file):
                raise NotFoundError("a file of the backup is not stored", file=f"{self.root}/{file.stored}")
        # Make the names of the files durable before the manifest that needs them.
        self.storage.sync_directory(FILES)
        path = self._path(manifest.id)
        target = self.storage.open_rw(path + _PART, create=True)
        try:
            target.truncate(0)
            target.write(0, encode_manifest(manifest))
            target.sync()
        finally:
            target.close()
        self.storage.rename(path + _PART, path)
        self.storage.sync_directory(BACKUPS)

    def ids(self) -> list[str]:
        """Names of all backups, the oldest first.

        Raises:
            NotFoundError: there is no directory of backups.
        """
        if self.storage.stat(BACKUPS) is None:
            raise NotFoundError(
                "no directory of backups", file=self.root, hint="jetool backup ENV DEST creates a backup"
            )
        names = [name.removesuffix(".json") for name in self.storage.names(BACKUPS) if name.endswith(".json")]
        # Other files in the directory are left alone.
        return [name for name in names if ID.fullmatch(name)]

    def backups(self) -> list[RepositoryBackup]:
        """All backups, the oldest first.

        Raises:
            NotFoundError: there is no directory of backups.
        """
        return [self.listed(made) for made in self.ids()]

    def listed(self, made: str) -> RepositoryBackup:
        """One backup, or why its manifest cannot be read."""
        try:
            return RepositoryBackup(made, self.read(made), "")
        except JetoolError as error:
            return RepositoryBackup(made, None, str(error))

    def latest(self, source: str | None = None) -> Manifest | None:
        """The newest readable backup, of ``source`` if that is given; None if there is no such backup."""
        if self.storage.stat(BACKUPS) is None:
            return None
        # There may be hundreds of manifests: read the newest first, and only as far as needed.
        manifests = (self.listed(made).manifest for made in reversed(self.ids()))
        return next((one for one in manifests if one is not None and source in (None, one.source)), None)

    def read(self, made: str) -> Manifest:
        """The manifest of one backup.

        Raises:
            NotFoundError: no backup has that name. DamageError, UnsupportedError: as ``decode_manifest``.
        """
        path = self._path(made)
        if ID.fullmatch(made) is None or self.storage.stat(path) is None:
            raise NotFoundError(f"no backup {made!r}", file=self.root, hint="jetool backup list shows the backups")
        file = self.storage.open(path)
        try:
            if file.size() > MOST_BYTES:
                raise DamageError("the manifest is too large", file=f"{self.root}/{path}")
            manifest = decode_manifest(file.read(0, file.size()), f"{self.root}/{path}")
        finally:
            file.close()
        if manifest.id != made:
            raise DamageError(
                "the manifest is that of another backup", file=f"{self.root}/{path}", expected=made, found=manifest.id
            )
        return manifest

    def open(self, file: BackupFile) -> ReadFile:
        """A stored file, to read."""
        return self.storage.open(file.stored)

    def remove(self, made: str) -> None:
        """Remove a backup; its files stay until ``sweep``."""
        self.storage.remove(self._path(made))
        self.storage.sync_directory(BACKUPS)

    def unused(self, without: Collection[str] = ()) -> list[str]:
        """Paths of stored files that no backup needs, and of leftovers of killed runs.

        Without locks another run may be storing files that its manifest will name, so files of the last day are kept.

        Arguments:
            without: backups that are about to be removed and do not count.

        Raises:
            DamageError: a manifest cannot be read, so the files that it names are unknown.
        """
        listed = [self.listed(made) for made in self.ids() if made not in without]
        for one in listed:
            if one.manifest is None:
                raise DamageError(
                    f"the manifest of backup {one.id} cannot be read",
                    file=self.root,
                    found=one.problem,
                    consequence="its files cannot be distinguished from unneeded files; nothing was removed",
                    hint="remove this manifest if you can do without the backup",
                )
        used = {file.stored for one in listed if one.manifest is not None for file in one.manifest.files}
        paths = [f"{FILES}/{name}" for name in self.storage.names(FILES)] if self.storage.stat(FILES) else []
        left = [f"{BACKUPS}/{name}" for name in self.storage.names(BACKUPS) if name.endswith(_PART)]
        found = [path for path in paths if path not in used] + left
        return [path for path in found if self._is_left(path)] if self.is_remote else found

    def _is_left(self, path: str) -> bool:
        stat = self.storage.stat(path)
        return stat is not None and stat.modified_ms < time.time_ns() // 1_000_000 - _GRACE_MS

    def sweep(self) -> None:
        """Remove stored files that no backup needs; the caller holds the lock.

        Raises:
            DamageError: as ``unused``.
        """
        # The manifests of removed backups are already gone, so no backup needs these files, even if this run is killed.
        for path in self.unused():
            self.storage.remove(path)
        for directory in (FILES, BACKUPS):
            if self.storage.stat(directory) is not None:
                self.storage.sync_directory(directory)

    def _path(self, made: str) -> str:
        return f"{BACKUPS}/{made}.json"


class LogFileStore:
    """Stores log files: a file is written while earlier ones are synced.

    Arguments:
        repository: where to.
        summing: a thread that adds pieces to a digest.
        pool: runs the syncs; None: each file is finished before the next.
    """

    def __init__(self, repository: Repository, summing: Executor, pool: Executor | None) -> None:
        self._storage = repository.storage
        self._summing = summing
        self._pool = pool
        self._unsettled: deque[Future[None]] = deque()

    def put(self, number: int, pieces: Iterable[bytes]) -> StoredFile:
        """Store the content of a log file; it is durable after ``settle``.

        Arguments:
            number: number of the log file.
            pieces: the bytes of the file, in order.

        Raises:
            StorageError: there is no room, or the directory cannot be written; for this file or one before it.
        """
        temporary = f"{FILES}/{number:08x}{_PART}"
        digest, at = hashlib.sha256(), 0
        target = self._storage.open_rw(temporary, create=True)
        try:
            # A killed run may have left a longer file of this name.
            target.truncate(0)
            sums: deque[Future[None]] = deque()
            for piece in pieces:
                # One thread computes the digest, in the order of the pieces, while they are written.
                sums.append(self._summing.submit(digest.update, piece))
                if len(sums) > _MOST_SUMS:
                    sums.popleft().result()
                target.write(at, piece)
                at += len(piece)
            while sums:
                sums.popleft().result()
        except BaseException:
            target.close()
            raise
        name = stored_path(number, digest.hexdigest())
        found = self._storage.stat(name)
        if found is not None and found.size_bytes == at:
            target.close()
            self._storage.remove(temporary)
            return StoredFile(digest.hexdigest(), at, True)
        if self._pool is None:
            self._finish(target, temporary, name)
        else:
            # Each unsettled file is open, so limit their number.
            if len(self._unsettled) == _MOST_UNSETTLED:
                self._unsettled.popleft().result()
            self._unsettled.append(self._pool.submit(self._finish, target, temporary, name))
        return StoredFile(digest.hexdigest(), at, False)

    def settle(self) -> None:
        """Wait until every file is durable and has its name.

        Raises:
            StorageError: a file cannot be written.
        """
        while self._unsettled:
            self._unsettled.popleft().result()

    def _finish(self, target: WriteFile, temporary: str, name: str) -> None:
        try:
            target.sync()
        finally:
            target.close()
        self._storage.rename(temporary, name)


def pieces_of(file: ReadFile, size: int) -> Iterator[bytes]:
    """The first ``size`` bytes of a file.

    Raises:
        DamageError: the file is shorter.
    """
    at = 0
    while at < size:
        piece = file.read(at, min(_PIECE_BYTES, size - at))
        if not piece:
            raise DamageError("a file became shorter while it was read", file=file.path)
        yield piece
        at += len(piece)


def beginning_digest(repository: Repository, file: BackupFile, length: int) -> str:
    """The SHA-256 of the first bytes of a stored file, in hex.

    Raises:
        DamageError: the file is shorter. NotFoundError, StorageError: it cannot be read.
    """
    digest = hashlib.sha256()
    with closing(repository.open(file)) as stored:
        for piece in pieces_of(stored, length):
            digest.update(piece)
    return digest.hexdigest()
