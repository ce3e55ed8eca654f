"""A read-only view of a backup as an environment: its files under their original names.

The view never writes; use an overlay above it for changes.
"""

from __future__ import annotations

from typing import NoReturn

from engine.backup.manifest import BackupFile
from engine.backup.repository import Repository
from engine.errors import NotFoundError, RefusedError
from engine.storage.base import Lock, ReadFile, Stat, WriteFile


class BackupView:
    """The files of a backup.

    Arguments:
        repository: where the files are kept.
        files: the files, by their paths in the environment.
        name: the name of the backup in messages.
    """

    def __init__(self, repository: Repository, files: tuple[BackupFile, ...], name: str) -> None:
        self._repository = repository
        self._files = {file.path: file for file in files}
        self._directories = {path.rpartition("/")[0] for path in self._files} | {""}
        self._name = name

    @property
    def root(self) -> str:
        return f"{self._repository.root}/{self._name}"

    def names(self, path: str = "") -> list[str]:
        if path not in self._directories:
            raise self._absent(path)
        prefix = f"{path}/" if path else ""
        below = [one[len(prefix) :] for one in self._files if one.startswith(prefix)]
        return sorted({one.split("/", 1)[0] for one in below})

    def stat(self, path: str = "") -> Stat | None:
        file = self._files.get(path)
        if file is not None:
            return Stat(file.size_bytes, file.modified_ms, False)
        return Stat(0, 0, True) if path in self._directories else None

    def open(self, path: str) -> ReadFile:
        file = self._files.get(path)
        if file is None:
            raise self._absent(path)
        return _StoredFile(path, self._repository.open(file))

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        self._refuse()

    def make_directory(self, path: str) -> None:
        self._refuse()

    def rename(self, old: str, new: str) -> None:
        self._refuse()

    def remove(self, path: str) -> None:
        self._refuse()

    def sync_directory(self, path: str = "") -> None:
        """Nothing was changed."""

    def free_bytes(self) -> int | None:
        return None

    def lock(self, path: str, byte: int, *, exclusive: bool) -> Lock:
        self._refuse()

    def lock_holder(self, path: str, byte: int) -> int | None:
        return None

    def _absent(self, path: str) -> NotFoundError:
        return NotFoundError("no such file in the backup", file=f"{self.root}/{path}")

    def _refuse(self) -> NoReturn:
        raise RefusedError("a backup is not written to", file=self.root)


class _StoredFile:
    """A stored file under the name that it has in the environment."""

    def __init__(self, path: str, file: ReadFile) -> None:
        self._path = path
        self._file = file

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return self._file.size()

    def read(self, offset: int, length: int) -> bytes:
        return self._file.read(offset, length)

    def close(self) -> None:
        self._file.close()
