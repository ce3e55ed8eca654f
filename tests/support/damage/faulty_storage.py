"""A storage that fails on purpose: the n-th matching operation fails, is cut short, or flips a bit.

Rules are tried in order; the first that matches an operation and whose count is reached acts on it.

Example: ``FaultyStorage(DiskStorage("/data"), [Rule("write", Effect.SHORTEN, nth=3)])`` writes half of what the third
write asks for and then fails it, as a full disk would.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from enum import Enum

from engine.errors import StorageError
from engine.storage.base import ReadFile, Storage, WriteFile
from engine.storage.overlay import WrappedStorage


class Effect(Enum):
    """What happens to the operation."""

    FAIL = "fail"
    SHORTEN = "shorten"
    FLIP = "flip"


@dataclass(slots=True)
class Rule:
    """When to act, and how.

    Attributes:
        operation: read, write, sync, truncate, open, create, rename, remove or sync_directory.
        effect: what happens; SHORTEN and FLIP only mean something for reads and writes.
        nth: which matching operation, from 1; 0 is every one.
        path: pattern of file names, such as ``*.jdb``.
        bit: which bit FLIP changes, counted from the middle byte.
        seen: how many have matched so far.
    """

    operation: str
    effect: Effect
    nth: int = 1
    path: str = "*"
    bit: int = 0
    seen: int = 0

    def acts_on(self, operation: str, path: str) -> bool:
        """Count a matching operation and say whether it is the one."""
        if operation != self.operation or not fnmatch.fnmatch(path, self.path):
            return False
        self.seen += 1
        return self.nth in (0, self.seen)


class FaultyStorage(WrappedStorage):
    """A storage over another one.

    Arguments:
        inner: where operations go.
        rules: what goes wrong.
    """

    def __init__(self, inner: Storage, rules: list[Rule]) -> None:
        super().__init__(inner)
        self._rules = rules

    def open(self, path: str) -> ReadFile:
        """Open an existing file for reading."""
        self.check("open", path)
        return _FaultyFile(self, self._base.open(path), None)

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        """Open a file for reading and writing."""
        self.check("create" if create and self._base.stat(path) is None else "open", path)
        file = self._base.open_rw(path, create=create)
        return _FaultyFile(self, file, file)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name."""
        self.check("rename", old)
        self._base.rename(old, new)

    def remove(self, path: str) -> None:
        """Remove a file."""
        self.check("remove", path)
        self._base.remove(path)

    def sync_directory(self, path: str = "") -> None:
        """Make names durable."""
        self.check("sync_directory", path)
        self._base.sync_directory(path)

    def effect_on(self, operation: str, path: str) -> Rule | None:
        """The rule that acts on an operation, or None."""
        return next((rule for rule in self._rules if rule.acts_on(operation, path)), None)

    def check(self, operation: str, path: str) -> None:
        """Fail an operation that has no data if a rule says so.

        Raises:
            StorageError: the injected failure.
        """
        if self.effect_on(operation, path) is not None:
            raise injected(operation, path)


class _FaultyFile:
    """An open file under the rules."""

    __slots__ = ("_file", "_storage", "_writable")

    def __init__(self, storage: FaultyStorage, file: ReadFile, writable: WriteFile | None) -> None:
        self._storage = storage
        self._file = file
        self._writable = writable

    @property
    def path(self) -> str:
        """The path that the file was opened by."""
        return self._file.path

    def size(self) -> int:
        """Length in bytes."""
        return self._file.size()

    def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``, fewer or other ones if a rule says so."""
        rule = self._storage.effect_on("read", self.path)
        data = self._file.read(offset, length)
        if rule is None:
            return data
        if rule.effect is Effect.FAIL:
            raise injected("read", self.path)
        return data[: len(data) // 2] if rule.effect is Effect.SHORTEN else flipped(data, rule.bit)

    def write(self, offset: int, data: bytes) -> None:
        """Put ``data`` at ``offset``, or half of it, or with a bit flipped."""
        rule = self._storage.effect_on("write", self.path)
        file = self._file_to_write()
        if rule is None or rule.effect is Effect.FLIP:
            file.write(offset, data if rule is None else flipped(data, rule.bit))
            return
        if rule.effect is Effect.SHORTEN:
            file.write(offset, data[: len(data) // 2])
        raise injected("write", self.path)

    def truncate(self, length: int) -> None:
        """Cut or extend."""
        self._storage.check("truncate", self.path)
        self._file_to_write().truncate(length)

    def sync(self) -> None:
        """Make content and length durable."""
        self._storage.check("sync", self.path)
        self._file_to_write().sync()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def _file_to_write(self) -> WriteFile:
        if self._writable is None:
            raise injected("write", self.path)
        return self._writable


def injected(operation: str, path: str) -> StorageError:
    """The failure that a rule causes."""
    return StorageError(f"cannot {operation} {path}: injected failure", file=path)


def flipped(data: bytes, bit: int) -> bytes:
    """The bytes with one bit of the middle byte flipped."""
    if not data:
        return data
    middle = len(data) // 2
    return data[:middle] + bytes((data[middle] ^ 1 << bit % 8,)) + data[middle + 1 :]
