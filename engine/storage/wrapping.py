"""Storages that stand over another one: everything goes through, and a subclass changes what it is about.

Fault rules, counted stops, crash images and saved bytes are such storages; each overrides the operations that it
watches.
"""

from __future__ import annotations

from engine.storage.base import Lock, ReadFile, Stat, Storage, WriteFile


class WrappedStorage:
    """A storage that passes every operation on.

    Arguments:
        base: the storage below.
    """

    def __init__(self, base: Storage) -> None:
        self._base = base

    @property
    def root(self) -> str:
        """What the storage below is called."""
        return self._base.root

    def names(self, path: str = "") -> list[str]:
        return self._base.names(path)

    def stat(self, path: str = "") -> Stat | None:
        return self._base.stat(path)

    def open(self, path: str) -> ReadFile:
        return self._base.open(path)

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        return self._base.open_rw(path, create=create)

    def make_directory(self, path: str) -> None:
        self._base.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self._base.rename(old, new)

    def remove(self, path: str) -> None:
        self._base.remove(path)

    def sync_directory(self, path: str = "") -> None:
        self._base.sync_directory(path)

    def lock(self, path: str, byte: int, *, exclusive: bool) -> Lock:
        return self._base.lock(path, byte, exclusive=exclusive)

    def lock_holder(self, path: str, byte: int) -> int | None:
        return self._base.lock_holder(path, byte)


class WrappedFile:
    """A file that passes every operation on.

    Arguments:
        file: the file below.
    """

    def __init__(self, file: WriteFile) -> None:
        self._file = file

    @property
    def path(self) -> str:
        return self._file.path

    def size(self) -> int:
        return self._file.size()

    def read(self, offset: int, length: int) -> bytes:
        return self._file.read(offset, length)

    def write(self, offset: int, data: bytes) -> None:
        self._file.write(offset, data)

    def truncate(self, length: int) -> None:
        self._file.truncate(length)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()
