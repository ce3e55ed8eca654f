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
        """Names in a directory, sorted."""
        return self._base.names(path)

    def stat(self, path: str = "") -> Stat | None:
        """What is at ``path``, or None."""
        return self._base.stat(path)

    def open(self, path: str) -> ReadFile:
        """Open an existing file for reading."""
        return self._base.open(path)

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        """Open a file for reading and writing."""
        return self._base.open_rw(path, create=create)

    def make_directory(self, path: str) -> None:
        """Make a directory."""
        self._base.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name."""
        self._base.rename(old, new)

    def remove(self, path: str) -> None:
        """Remove a file."""
        self._base.remove(path)

    def sync_directory(self, path: str = "") -> None:
        """Make the names in the directory durable."""
        self._base.sync_directory(path)

    def lock(self, path: str, byte: int, *, exclusive: bool) -> Lock:
        """Lock one byte."""
        return self._base.lock(path, byte, exclusive=exclusive)

    def lock_holder(self, path: str, byte: int) -> int | None:
        """Who holds a lock on the byte."""
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
        """The path that the file was opened by."""
        return self._file.path

    def size(self) -> int:
        """Length in bytes."""
        return self._file.size()

    def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``."""
        return self._file.read(offset, length)

    def write(self, offset: int, data: bytes) -> None:
        """Put all of ``data`` at ``offset``."""
        self._file.write(offset, data)

    def truncate(self, length: int) -> None:
        """Cut or extend to ``length`` bytes."""
        self._file.truncate(length)

    def sync(self) -> None:
        """Make content and length durable."""
        self._file.sync()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()
