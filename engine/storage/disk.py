"""Files on the local file system, through unbuffered positional reads and writes.

Files are read with ``O_RDONLY``, and reading creates, modifies and locks nothing, so it works on a read-only mount and
beside a live writer. Locks are POSIX range locks (``posix_locks``), as a JVM takes them, so JE and this
program exclude each other.

Records and tree nodes are read by the hundred thousand, a few hundred bytes each. In the native build such reads use a
map of the file (``engine.native``), if memory for maps was allowed (``allow_maps``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as stat_module
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from engine.errors import InUseError, JetoolError, NotFoundError, StorageError
from engine.native import extension
from engine.storage.base import Lock, ReadFile, Stat, WriteFile

if TYPE_CHECKING:
    from engine.native import core

# Longer reads gain nothing from a map.
_MAPPED_READ_BYTES: Final = 32 << 10
_LARGE_READ_BYTES: Final = 4 << 20
# After this number of reads that no map could serve, a map is made, or renewed if the file has grown.
_READS_TO_MAP: Final = 64


def allow_maps(size_bytes: int) -> None:
    """Set the memory limit for all file maps of the process; a higher limit set before stays."""
    if extension is not None and size_bytes > extension.most_bytes():
        extension.keep_at_most(size_bytes)


@contextlib.contextmanager
def maps_shared_by(processes: int) -> Iterator[None]:
    """Divide the memory limit of file maps by the number of processes that are forked meanwhile, this one included."""
    before = extension.most_bytes() if extension is not None else 0
    if extension is not None:
        extension.keep_at_most(before // processes)
    try:
        yield
    finally:
        if extension is not None:
            extension.keep_at_most(before)


def map_of(file: ReadFile) -> core.FileMap | None:
    """The map that serves small reads of a file, if there is one."""
    return file.map if isinstance(file, _DiskFile) else None


class DiskStorage:
    """The files under one directory.

    Arguments:
        root: the directory.
        follow: open files through symbolic links. Without it, for places where other users may have created links, a
            link is an error, and new files are accessible only to their owner.
    """

    def __init__(self, root: str | os.PathLike[str], *, follow: bool = True) -> None:
        # Normalized where this does not change the meaning: ``./env//`` becomes ``env``.
        named = os.fspath(root)
        parts = [part for part in named.split("/") if part not in ("", ".")]
        self._root = ("/" if named.startswith("/") else "") + "/".join(parts) or "."
        self._flags = os.O_CLOEXEC if follow else os.O_CLOEXEC | os.O_NOFOLLOW
        self._mode = 0o644 if follow else 0o600

    @property
    def root(self) -> str:
        """The directory as given by the user."""
        return self._root

    def names(self, path: str = "") -> list[str]:
        try:
            return sorted(os.listdir(self._full(path)))
        except OSError as error:
            raise _translated(error, self._name(path)) from error

    def stat(self, path: str = "") -> Stat | None:
        try:
            found = os.stat(self._full(path))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return None
            raise _translated(error, self._name(path)) from error
        return Stat(found.st_size, found.st_mtime_ns // 1_000_000, stat_module.S_ISDIR(found.st_mode))

    def open(self, path: str) -> ReadFile:
        return self._open(path, os.O_RDONLY)

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        return self._open(path, os.O_RDWR | (os.O_CREAT if create else 0))

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(self._full(path))
        except FileExistsError:
            # Another process may have created the directory meanwhile, which is fine.
            if not os.path.isdir(self._full(path)):
                raise StorageError(
                    f"cannot make {self._name(path)}: a file is in the way", file=self._name(path)
                ) from None
        except OSError as error:
            raise _translated(error, self._name(path)) from error

    def rename(self, old: str, new: str) -> None:
        try:
            os.replace(self._full(old), self._full(new))
        except OSError as error:
            raise _translated(error, self._name(old)) from error

    def remove(self, path: str) -> None:
        try:
            os.unlink(self._full(path))
        except OSError as error:
            raise _translated(error, self._name(path)) from error

    def sync_directory(self, path: str = "") -> None:
        try:
            # A directory is synced through a separate descriptor.
            handle = os.open(self._full(path), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise _translated(error, self._name(path)) from error

    def free_bytes(self) -> int | None:
        place = os.path.abspath(self._full(""))
        # A directory that does not exist yet will be on the disk of its parent.
        while not os.path.lexists(place) and place != os.path.dirname(place):
            place = os.path.dirname(place)
        try:
            found = os.statvfs(place)
        except OSError:
            return None
        return found.f_bavail * found.f_frsize

    def lock(self, path: str, byte: int, *, exclusive: bool) -> Lock:
        # Imported here since readers do not need it.
        from engine.storage import posix_locks

        try:
            return posix_locks.take(self._full(path), byte, exclusive=exclusive)
        except posix_locks.BlockedError as error:
            raise InUseError(
                "the environment is in use",
                file=self._name(path),
                expected=f"no lock on byte {byte}",
                found=f"a lock held by {posix_locks.holder_in_words(error.holder)}",
                hint="stop that process, or wait with --lock-timeout",
            ) from error
        except OSError as error:
            raise _translated(error, self._name(path)) from error

    def lock_holder(self, path: str, byte: int) -> int | None:
        from engine.storage import posix_locks

        return posix_locks.holder_of(self._full(path), byte)

    def _open(self, path: str, flags: int) -> _DiskFile:
        try:
            return _DiskFile(path, os.open(self._full(path), flags | self._flags, self._mode), self._name(path))
        except OSError as error:
            raise _translated(error, self._name(path)) from error

    def _full(self, path: str) -> str:
        return os.path.join(self._root, path) if path else self._root

    def _name(self, path: str) -> str:
        return self._full(path)


class _DiskFile:
    """An open file descriptor with positional reads and writes."""

    __slots__ = ("_handle", "_map", "_name", "_path", "_small_reads")

    def __init__(self, path: str, handle: int, name: str) -> None:
        self._path = path
        self._handle = handle
        self._name = name
        self._map: core.FileMap | None = None
        self._small_reads = 0

    @property
    def path(self) -> str:
        return self._path

    @property
    def descriptor(self) -> int:
        """The descriptor; -1 after ``close``."""
        return self._handle

    @property
    def map(self) -> core.FileMap | None:
        """The map that serves small reads."""
        return self._map

    def size(self) -> int:
        return os.fstat(self._handle).st_size

    def read(self, offset: int, length: int) -> bytes:
        if length <= _MAPPED_READ_BYTES:
            if self._map is not None:
                mapped = self._map.read(offset, length)
                if mapped is not None:
                    return mapped
            self._small_reads += 1
            if self._small_reads % _READS_TO_MAP == 0:
                self._map_again(offset + length)
        try:
            # The length may come from a damaged file: limit it to the file's size before the buffer is allocated.
            if length > _LARGE_READ_BYTES:
                length = min(length, max(os.fstat(self._handle).st_size - offset, 0))
            data = os.pread(self._handle, length, offset)
            # One call may return less than requested (signals, 2 GiB limit): continue up to the end of the file.
            while len(data) < length:
                more = os.pread(self._handle, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise _translated(error, self._name) from error
        return data

    def write(self, offset: int, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                # One call may write less than requested.
                written = os.pwrite(self._handle, view, offset)
                view = view[written:]
                offset += written
        except OSError as error:
            raise _translated(error, self._name) from error

    def truncate(self, length: int) -> None:
        # A map would show zeros in the page of the new end if the file grew again.
        self._unmap()
        try:
            os.ftruncate(self._handle, length)
        except OSError as error:
            raise _translated(error, self._name) from error

    def sync(self) -> None:
        try:
            os.fsync(self._handle)
        except OSError as error:
            raise _translated(error, self._name) from error

    def _map_again(self, end: int) -> None:
        """Map the file, unless the current map already extends to ``end``."""
        if extension is not None and extension.most_bytes() and (self._map is None or self._map.size < end):
            # If the system cannot map the file (out of address space, a special file), reads continue without a map.
            self._unmap()
            with contextlib.suppress(OSError):
                self._map = extension.FileMap(self._handle)

    def _unmap(self) -> None:
        """Close the map, which others may have, too: it reads by this file's descriptor."""
        if self._map is not None:
            self._map.close()
            self._map = None

    def close(self) -> None:
        self._unmap()
        if self._handle >= 0:
            os.close(self._handle)
            # A second close must not close a descriptor that was reused in between.
            self._handle = -1

    def __del__(self) -> None:
        # An error may prevent the regular close: the descriptor is closed with its last user, as for Python's own
        # files.
        self.close()


_MAKE_ROOM: Final = "make room, then run the command again"
_NO_ROOM: Final = {
    errno.ENOSPC: _MAKE_ROOM,
    errno.EDQUOT: _MAKE_ROOM,
    errno.EFBIG: "raise the limit of the size of files (ulimit -f), then run the command again",
}


def _translated(error: OSError, name: str) -> JetoolError:
    reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NotFoundError(f"cannot open {name}: {reason}", file=name)
    if error.errno == errno.ELOOP:
        return StorageError(
            "a symbolic link stands where a file should be",
            file=name,
            consequence="it was not followed",
            hint="find out who made it; replace it by the file if it belongs there",
        )
    # A full disk, or a limit of the process, may interrupt a write.
    if error.errno in _NO_ROOM:
        return StorageError(
            reason,
            file=name,
            consequence="what was being written is not complete; what was committed before is there",
            hint=_NO_ROOM[error.errno],
        )
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StorageError(
            reason,
            file=name,
            consequence="nothing was changed in it",
            hint="check the owner, the permissions and how the file system is mounted",
        )
    return StorageError(
        reason,
        file=name,
        consequence="its contents are not known",
        hint="check the disk, then run the command again",
    )
