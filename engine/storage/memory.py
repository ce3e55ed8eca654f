"""Files in memory, for tests, overlays and crash images.

Durability is not modelled: ``sync`` does nothing. A directory exists if it was created, or if an initial file is below
it.
"""

from __future__ import annotations

from engine.errors import InUseError, NotFoundError
from engine.storage.base import Lock, ReadFile, Stat, WriteFile


class MemoryStorage:
    """A tree of files, stored as byte arrays.

    Arguments:
        files: initial contents by path.
        root: the name of the root in messages.
    """

    __slots__ = ("_directories", "_files", "_locks", "_root")

    def __init__(self, files: dict[str, bytes] | None = None, root: str = "memory:") -> None:
        self._files = {path: bytearray(data) for path, data in (files or {}).items()}
        self._directories = {"", *(parent for path in self._files for parent in _parents(path))}
        self._locks: dict[tuple[str, int], list[bool]] = {}
        self._root = root

    @property
    def root(self) -> str:
        return self._root

    def names(self, path: str = "") -> list[str]:
        if not self._is_directory(path):
            raise self._absent(path)
        prefix = f"{path}/" if path else ""
        # Only the first component of a path below a subdirectory is a name in this directory.
        below = [p[len(prefix) :] for p in (*self._files, *self._directories) if p and p.startswith(prefix)]
        return sorted({p.split("/", 1)[0] for p in below if p})

    def stat(self, path: str = "") -> Stat | None:
        if path in self._files:
            return Stat(len(self._files[path]), 0, False)
        return Stat(0, 0, True) if self._is_directory(path) else None

    def open(self, path: str) -> ReadFile:
        return self.open_rw(path)

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        if path not in self._files:
            if not create or not self._has_parent(path):
                raise self._absent(path)
            self._files[path] = bytearray()
        return _MemoryFile(path, self._files[path])

    def make_directory(self, path: str) -> None:
        if not self._has_parent(path):
            raise self._absent(path)
        self._directories.add(path)

    def rename(self, old: str, new: str) -> None:
        if not self._has_parent(new):
            raise self._absent(new)
        self._files[new] = self._taken(old)

    def remove(self, path: str) -> None:
        self._taken(path)

    def sync_directory(self, path: str = "") -> None:
        """Do nothing."""

    def free_bytes(self) -> int | None:
        return None

    def lock(self, path: str, byte: int, *, exclusive: bool) -> Lock:
        """Lock one byte; locks exclude each other within this object."""
        if path not in self._files:
            raise self._absent(path)
        held = self._locks.setdefault((path, byte), [])
        # Shared locks are compatible with each other; an exclusive one with none.
        if held and (exclusive or True in held):
            raise InUseError("the environment is in use", file=self._name(path), expected=f"no lock on byte {byte}")
        held.append(exclusive)
        return _MemoryLock(held, exclusive)

    def lock_holder(self, path: str, byte: int) -> int | None:
        """0 if a lock is held, else None."""
        return 0 if self._locks.get((path, byte)) else None

    def contents(self) -> dict[str, bytes]:
        """A copy of every file by path."""
        return {path: bytes(data) for path, data in self._files.items()}

    def _taken(self, path: str) -> bytearray:
        if path not in self._files:
            raise self._absent(path)
        return self._files.pop(path)

    def _is_directory(self, path: str) -> bool:
        return path in self._directories

    def _has_parent(self, path: str) -> bool:
        return path.rpartition("/")[0] in self._directories

    def _absent(self, path: str) -> NotFoundError:
        return NotFoundError(f"cannot open {self._name(path)}: no such file or directory", file=self._name(path))

    def _name(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root


def _parents(path: str) -> list[str]:
    """The directories above a path, ``a/b/c`` -> ``a``, ``a/b``."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


class _MemoryFile:
    """A view of one byte array; every opener sees the same bytes."""

    __slots__ = ("_data", "_path")

    def __init__(self, path: str, data: bytearray) -> None:
        self._path = path
        self._data = data

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return len(self._data)

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._data[offset : offset + length])

    def write(self, offset: int, data: bytes) -> None:
        # By the protocol, bytes between the old end and the offset are zero.
        if data and offset > len(self._data):
            self._data.extend(bytes(offset - len(self._data)))
        self._data[offset : offset + len(data)] = data

    def truncate(self, length: int) -> None:
        if length > len(self._data):
            self._data.extend(bytes(length - len(self._data)))
        else:
            del self._data[length:]

    def sync(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _MemoryLock:
    """One entry in the list of holders of a byte."""

    __slots__ = ("_exclusive", "_held")

    def __init__(self, held: list[bool], exclusive: bool) -> None:
        self._held: list[bool] | None = held
        self._exclusive = exclusive

    def release(self) -> None:
        if self._held is not None:
            self._held.remove(self._exclusive)
            self._held = None
