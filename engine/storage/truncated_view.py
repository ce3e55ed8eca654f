"""A view of a storage in which files are shorter or missing, as the environment was earlier.

Nothing is changed, below or in memory; to write, put an overlay on top.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.errors import NotFoundError
from engine.storage.base import ReadFile, Stat, Storage, descriptor_of
from engine.storage.overlay import WrappedStorage


class CutStorage(WrappedStorage):
    """A storage in which some files are cut.

    Arguments:
        base: the storage below.
        lengths: by path, the visible length of a file in bytes; None hides it.
    """

    def __init__(self, base: Storage, lengths: Mapping[str, int | None]) -> None:
        super().__init__(base)
        self._lengths = lengths

    def names(self, path: str = "") -> list[str]:
        prefix = f"{path}/" if path else ""
        hidden = {name for name, length in self._lengths.items() if length is None}
        return [name for name in self._base.names(path) if prefix + name not in hidden]

    def stat(self, path: str = "") -> Stat | None:
        found = self._base.stat(path)
        if path not in self._lengths or found is None:
            return found
        length = self._lengths[path]
        return None if length is None else found._replace(size_bytes=min(length, found.size_bytes))

    def open(self, path: str) -> ReadFile:
        length = self._lengths.get(path, -1)
        if length is None:
            raise NotFoundError(f"cannot open {self.root}/{path}: it is cut away", file=f"{self.root}/{path}")
        file = self._base.open(path)
        return file if length < 0 else _CutFile(file, length)


class _CutFile:
    """A file with an earlier end."""

    __slots__ = ("_file", "_length")

    def __init__(self, file: ReadFile, length: int) -> None:
        self._file = file
        self._length = length

    @property
    def path(self) -> str:
        return self._file.path

    def size(self) -> int:
        return min(self._file.size(), self._length)

    def read(self, offset: int, length: int) -> bytes:
        return self._file.read(offset, max(0, min(length, self._length - offset)))

    @property
    def descriptor(self) -> int:
        """That of the file below, if nothing is cut off."""
        return descriptor_of(self._file) if self._file.size() <= self._length else -1

    def close(self) -> None:
        self._file.close()
