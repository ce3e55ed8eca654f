"""Storages on top of another storage.

A ``WrappedStorage`` passes all operations to the storage below, and subclasses override the operations that concern
them. Fault rules, counted stops, crash images and saved bytes are such storages.

An ``OverlayStorage`` is a writable view of a storage that is never written: changes stay in this process. Reads see the
changes; the storage below is not changed, not even by a lock file. Changed files are kept in blocks of 4096 bytes, so
room grows with the changes, not with the size of the files. The latest blocks are in memory; if there are many, earlier
ones move to a nameless file of the temporary directory. A dry run is the real run on an overlay.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from engine.errors import NotFoundError
from engine.storage.base import Lock, ReadFile, Stat, Storage, WriteFile, descriptor_of
from engine.storage.scratch import nameless_file, read_kept


class WrappedStorage:
    """A storage that passes every operation to the storage below.

    Arguments:
        base: the storage below.
    """

    def __init__(self, base: Storage) -> None:
        self._base = base

    @property
    def root(self) -> str:
        """The name of the storage below."""
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

    def free_bytes(self) -> int | None:
        return self._base.free_bytes()

    def lock(self, path: str, byte: int, *, exclusive: bool) -> Lock:
        return self._base.lock(path, byte, exclusive=exclusive)

    def lock_holder(self, path: str, byte: int) -> int | None:
        return self._base.lock_holder(path, byte)


class WrappedFile:
    """A file that passes every operation to the file below.

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


BLOCK: Final = 4096
_ZEROS: Final = bytes(BLOCK)
_MOST_IN_MEMORY_BYTES: Final = 16 << 20


class OverlayStorage:
    """A storage whose changes stay in this process.

    Arguments:
        base: the storage below.
        most_bytes: bytes of changes that are kept in memory.
    """

    __slots__ = ("_base", "_blocks", "_directories", "_files", "_gone")

    def __init__(self, base: Storage, most_bytes: int = _MOST_IN_MEMORY_BYTES) -> None:
        self._base = base
        self._blocks = _Blocks(most_bytes // BLOCK)
        self._files: dict[str, _Content] = {}
        self._gone: set[str] = set()
        self._directories: set[str] = set()

    @property
    def root(self) -> str:
        """The name of the storage below."""
        return self._base.root

    def changed(self) -> dict[str, int]:
        """Bytes of changed blocks of each file that was opened for writing and changed."""
        return {path: content.kept() for path, content in self._files.items() if content.kept()}

    def names(self, path: str = "") -> list[str]:
        prefix = f"{path}/" if path else ""
        made = {p[len(prefix) :].split("/", 1)[0] for p in (*self._files, *self._directories) if p.startswith(prefix)}
        try:
            below = {name for name in self._base.names(path) if prefix + name not in self._gone}
        except NotFoundError:
            # The directory may exist only in the overlay.
            if not made and path not in self._directories:
                raise
            below = set()
        return sorted(below | made - {""})

    def stat(self, path: str = "") -> Stat | None:
        content = self._files.get(path)
        if content is not None:
            return Stat(content.length, 0, False)
        if path in self._directories:
            return Stat(0, 0, True)
        return None if path in self._gone else self._base.stat(path)

    def open(self, path: str) -> ReadFile:
        content = self._files.get(path)
        if content is not None:
            return _OverlayFile(path, content)
        if path in self._gone:
            raise self._absent(path)
        # The file may be changed later, and readers must see the changes.
        return _LookingThrough(path, self._base.open(path), self._files)

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        """Open a file for reading and writing; written data stays in the overlay."""
        content = self._files.get(path)
        if content is None:
            exists = path not in self._gone and self._base.stat(path) is not None
            if not exists and not create:
                raise self._absent(path)
            content = _Content(self._base.open(path) if exists else None, self._blocks)
            self._files[path] = content
        return _OverlayFile(path, content)

    def make_directory(self, path: str) -> None:
        self._directories.add(path)

    def rename(self, old: str, new: str) -> None:
        # Opening for writing puts the file into the overlay, where its content can get the new name.
        self.open_rw(old)
        self._files[new] = self._files.pop(old)
        self._gone.discard(new)
        self._gone.add(old)

    def remove(self, path: str) -> None:
        if self.stat(path) is None:
            raise self._absent(path)
        self._files.pop(path, None)
        self._gone.add(path)

    def sync_directory(self, path: str = "") -> None:
        """Do nothing."""

    def free_bytes(self) -> int | None:
        """The free bytes if these changes were written."""
        free = self._base.free_bytes()
        if free is None:
            return None
        taken = sum(content.length for content in list(self._files.values()))
        before = [self._base.stat(path) for path in {*self._files, *self._gone}]
        return max(0, free - taken + sum(found.size_bytes for found in before if found is not None))

    def lock(self, path: str, byte: int, *, exclusive: bool) -> Lock:  # noqa: ARG002
        """Take no lock: no other process sees the changes."""
        return NoLock()

    def lock_holder(self, path: str, byte: int) -> int | None:
        """The holder of a lock in the storage below."""
        return self._base.lock_holder(path, byte)

    def _absent(self, path: str) -> NotFoundError:
        name = f"{self.root}/{path}"
        return NotFoundError(f"cannot open {name}: no such file or directory", file=name)


class _Blocks:
    """Changed blocks by number: the latest ones in memory, earlier ones in a file that is made when it is needed.

    Bytes of the file are never changed, so that a forked process can read the blocks that it knows. Such a process, or
    one without room in the temporary directory, keeps further blocks in memory.

    Arguments:
        most: number of blocks in memory.

    Attributes:
        dropped: numbers of blocks that are no longer read.
    """

    __slots__ = ("_handle", "_latest", "_lock", "_most", "_next", "_owner", "_places", "_size", "dropped")

    def __init__(self, most: int) -> None:
        self._most = max(most, 1)
        # Ordered by the time of the last change.
        self._latest: dict[int, bytes] = {}
        self._places: dict[int, int] = {}
        # A bare descriptor: the collector may end a file object before this one.
        self._handle = -1
        self._size = self._next = 0
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self.dropped: list[int] = []

    def __del__(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)

    def new(self, block: bytes) -> int:
        """Keep a block; returns its number."""
        with self._lock:
            self._next += 1
            number = self._next
        self.put(number, block)
        return number

    def get(self, number: int) -> bytes:
        """A block.

        Raises:
            StorageError: it cannot be read from the temporary file.
        """
        with self._lock:
            block = self._latest.get(number)
            if block is None:
                block = read_kept(self._handle, BLOCK, self._places[number])
            return block

    def put(self, number: int, block: bytes) -> None:
        """Change a block."""
        with self._lock:
            self._forget(number)
            while self.dropped:
                self._forget(self.dropped.pop())
            self._latest[number] = block
            while len(self._latest) > self._most and os.getpid() == self._owner:
                if not self._move(next(iter(self._latest))):
                    self._most *= 2

    def _forget(self, number: int) -> None:
        self._latest.pop(number, None)
        self._places.pop(number, None)

    def _move(self, number: int) -> bool:
        """Move a block from memory to the file; False if that has no room."""
        try:
            if self._handle < 0:
                with nameless_file() as file:
                    self._handle = os.dup(file.fileno())
            if os.pwrite(self._handle, self._latest[number], self._size) != BLOCK:
                return False
        except OSError:
            return False
        self._places[number] = self._size
        self._size += BLOCK
        del self._latest[number]
        return True


class _Content:
    """The content of one file: written blocks, and the file below for the others."""

    __slots__ = ("_base", "_base_length", "_blocks", "_changed", "length")

    def __init__(self, base: ReadFile | None, blocks: _Blocks) -> None:
        self._base = base
        self._base_length = base.size() if base is not None else 0
        self._blocks = blocks
        # By the position of a changed block, in blocks, its number in the overlay.
        self._changed: dict[int, int] = {}
        self.length = self._base_length

    def kept(self) -> int:
        """Bytes of changed blocks."""
        return len(self._changed) * BLOCK

    def __del__(self) -> None:
        # Without the lock, since the collector may run while it is held.
        self._blocks.dropped.extend(self._changed.values())

    def read(self, offset: int, length: int) -> bytes:
        end = min(offset + length, self.length)
        parts = []
        while offset < end:
            number, start = divmod(offset, BLOCK)
            stop = min(BLOCK, start + end - offset)
            parts.append(self._block(number)[start:stop])
            offset += stop - start
        return b"".join(parts)

    def write(self, offset: int, data: bytes) -> None:
        """Put the bytes into their blocks."""
        end = offset + len(data)
        at = offset
        while at < end:
            number, start = divmod(at, BLOCK)
            stop = min(BLOCK, start + end - at)
            part = data[at - offset : at - offset + stop - start]
            # A part of a block is changed, so the rest of it must be there.
            block = self._block(number)
            self._put(number, block[:start] + part + block[stop:])
            at += stop - start
        self.length = max(self.length, end)

    def truncate(self, length: int) -> None:
        """Cut or extend the file; bytes after a cut read as zero if the file grows again."""
        if length < self.length:
            for number in [n for n in self._changed if n * BLOCK >= length]:
                self._blocks.dropped.append(self._changed.pop(number))
            number, start = divmod(length, BLOCK)
            if start:
                self._put(number, self._block(number)[:start] + bytes(BLOCK - start))
            # Bytes below that were cut off must read as zero if the file grows again.
            self._base_length = min(self._base_length, length)
        self.length = length

    def _put(self, number: int, block: bytes) -> None:
        known = self._changed.get(number)
        if known is None:
            self._changed[number] = self._blocks.new(block)
        else:
            self._blocks.put(known, block)

    def _block(self, number: int) -> bytes:
        """A whole block; bytes after the end of the file are zero."""
        known = self._changed.get(number)
        if known is not None:
            return self._blocks.get(known)
        left = self._base_length - number * BLOCK
        if self._base is None or left <= 0:
            return _ZEROS
        return self._base.read(number * BLOCK, min(left, BLOCK)).ljust(BLOCK, b"\0")


class _LookingThrough:
    """A file that was unchanged when it was opened; later changes are visible through it too."""

    __slots__ = ("_base", "_changed", "_path")

    def __init__(self, path: str, base: ReadFile, changed: dict[str, _Content]) -> None:
        self._path = path
        self._base = base
        self._changed = changed

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        content = self._changed.get(self._path)
        return self._base.size() if content is None else content.length

    def read(self, offset: int, length: int) -> bytes:
        content = self._changed.get(self._path)
        return self._base.read(offset, length) if content is None else content.read(offset, length)

    @property
    def descriptor(self) -> int:
        """That of the file below, as long as it is unchanged."""
        return descriptor_of(self._base) if self._path not in self._changed else -1

    def close(self) -> None:
        self._base.close()


class _OverlayFile:
    """An open file; all openers see the same content."""

    __slots__ = ("_content", "_path")

    def __init__(self, path: str, content: _Content) -> None:
        self._path = path
        self._content = content

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return self._content.length

    def read(self, offset: int, length: int) -> bytes:
        return self._content.read(offset, length)

    def write(self, offset: int, data: bytes) -> None:
        self._content.write(offset, data)

    def truncate(self, length: int) -> None:
        self._content.truncate(length)

    def sync(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class NoLock:
    """A lock object that locks nothing."""

    __slots__ = ()

    def release(self) -> None:
        """Do nothing."""
