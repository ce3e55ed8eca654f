"""A storage that counts changes and stops at the n-th: every crash point, counted.

Rules: a change is a write, a truncation, a creation, a rename or a removal. At the chosen change the storage raises
``StorageError``; a write may leave a part of its bytes after first. After that every change is refused, as after the
death of the process. Reads always work. Nothing in the engine knows of it.
"""

from __future__ import annotations

from engine.errors import StorageError
from engine.storage.base import Storage, WriteFile
from engine.storage.overlay import WrappedFile, WrappedStorage

NEVER = -1


class StoppingStorage(WrappedStorage):
    """A storage that fails at one change and at every later one.

    Arguments:
        base: where the changes go.
        fail_at: number of the change that fails, counted from 0; ``NEVER`` only counts.
        torn_bytes: bytes of a failing write that still reach the file.

    Attributes:
        changes: changes that were made.
        failed: whether the failure has happened.
    """

    def __init__(self, base: Storage, fail_at: int = NEVER, torn_bytes: int = 0) -> None:
        super().__init__(base)
        self._fail_at = fail_at
        self._torn_bytes = torn_bytes
        self.changes = 0
        self.failed = False

    def count(self, what: str) -> None:
        """Count a change; StorageError when it is the one that fails, or comes after it."""
        if self.failed or self.changes == self._fail_at:
            self.failed = True
            raise StorageError(f"fault injected: {what} (change {self._fail_at})", consequence="the run stops here")
        self.changes += 1

    def write(self, file: WriteFile, offset: int, data: bytes) -> None:
        """Write through; the failing write leaves its first bytes."""
        if not self.failed and self.changes == self._fail_at and self._torn_bytes:
            file.write(offset, data[: self._torn_bytes])
        self.count(f"write to {file.path}")
        file.write(offset, data)

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        """Open for writing; creating a file is a change."""
        if create and self._base.stat(path) is None:
            self.count(f"creation of {path}")
        return _StoppingFile(self, self._base.open_rw(path, create=create))

    def make_directory(self, path: str) -> None:
        """Make a directory."""
        self.count(f"creation of {path}")
        self._base.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        """Rename."""
        self.count(f"renaming of {old}")
        self._base.rename(old, new)

    def remove(self, path: str) -> None:
        """Remove."""
        self.count(f"removal of {path}")
        self._base.remove(path)


class _StoppingFile(WrappedFile):
    """A file whose changes are counted."""

    def __init__(self, storage: StoppingStorage, file: WriteFile) -> None:
        super().__init__(file)
        self._storage = storage

    def write(self, offset: int, data: bytes) -> None:
        """Put all of ``data`` at ``offset``, if the fault allows."""
        self._storage.write(self._file, offset, data)

    def truncate(self, length: int) -> None:
        """Cut or extend to ``length`` bytes."""
        self._storage.count(f"truncation of {self.path}")
        self._file.truncate(length)
