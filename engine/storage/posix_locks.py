"""POSIX range locks on single bytes of files, as a JVM takes them.

The system keeps these locks per process and file, not per descriptor, which has two consequences:

* Closing *any* descriptor of a file drops all locks that the process has on it. So this module never closes a
  descriptor of a locked file: it keeps a list of the files on which this process has locks, and reuses their
  descriptors.
* The system lets locks of one process coexist. This module uses the same list to make them exclude each other.

Example (R-LOG-28): a writer holds byte 0 of ``je.lck`` and, while it deletes log files, byte 1 too. Releasing byte 1
must not release byte 0, and asking for the holder of a byte must release nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
from pathlib import Path
from typing import Final

# struct flock on Linux: l_type, l_whence, l_start, l_len, l_pid. Other systems use another order; if a query cannot be
# made there, the result is "no holder known".
_MOST_WORDS: Final = 160
_FLOCK: Final = struct.Struct("hhqqi4x")


class BlockedError(Exception):
    """A conflicting lock exists; ``holder`` is the pid of its owner, 0 or None if the system does not report it."""

    def __init__(self, holder: int | None) -> None:
        super().__init__(f"locked by process {holder}")
        self.holder = holder


class _LockedFile:
    """The locks of this process on one file.

    Attributes:
        holders: for each byte a list of its locks; True stands for an exclusive lock.
        handles: descriptors, closed together when the last lock is released.
        writable: a descriptor that can carry an exclusive lock, or -1.
    """

    __slots__ = ("handles", "holders", "key", "writable")

    def __init__(self, key: tuple[int, int]) -> None:
        self.key = key
        self.holders: dict[int, list[bool]] = {}
        self.handles: list[int] = []
        self.writable = -1

    def handle(self, path: str, *, exclusive: bool) -> int:
        """A descriptor for a lock; a new descriptor is opened if no existing descriptor is suitable."""
        if self.writable >= 0 or (self.handles and not exclusive):
            return self.writable if exclusive else self.handles[0]
        opened = os.open(path, os.O_RDWR if exclusive else os.O_RDONLY)
        self.handles.append(opened)
        if exclusive:
            self.writable = opened
        return opened

    def close_if_free(self) -> None:
        """Close the descriptors if no lock needs them any more."""
        if not any(self.holders.values()):
            _locked.pop(self.key, None)
            for handle in self.handles:
                os.close(handle)
            self.handles = []


_locked: Final[dict[tuple[int, int], _LockedFile]] = {}
_guard: Final = threading.Lock()
# A child process does not inherit its parent's locks.
os.register_at_fork(after_in_child=_locked.clear)


class PosixLock:
    """A lock on one byte."""

    __slots__ = ("_byte", "_exclusive", "_file")

    def __init__(self, file: _LockedFile, byte: int, exclusive: bool) -> None:
        self._file: _LockedFile | None = file
        self._byte = byte
        self._exclusive = exclusive

    def release(self) -> None:
        """Release the lock."""
        with _guard:
            file, self._file = self._file, None
            if file is None:
                return
            holders = file.holders[self._byte]
            holders.remove(self._exclusive)
            # The system keeps a single lock for all locks of this process on the byte; release it with the last one.
            if not holders:
                fcntl.lockf(file.handles[0], fcntl.LOCK_UN, 1, self._byte, os.SEEK_SET)
            file.close_if_free()


def take(path: str, byte: int, *, exclusive: bool) -> PosixLock:
    """Lock one byte of an existing file without waiting.

    Raises:
        BlockedError: a lock of this process or of another process conflicts.
        OSError: the file cannot be opened or locked.
    """
    with _guard:
        found = os.stat(path)
        key = (found.st_dev, found.st_ino)
        # Identified by device and inode: two paths may lead to the same file.
        file = _locked.get(key) or _LockedFile(key)
        holders = file.holders.setdefault(byte, [])
        # The system would grant this lock: for the system, locks of one process never exclude each other.
        if holders and (exclusive or True in holders):
            raise BlockedError(os.getpid())
        try:
            handle = file.handle(path, exclusive=exclusive)
            try:
                kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
                fcntl.lockf(handle, kind | fcntl.LOCK_NB, 1, byte, os.SEEK_SET)
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    raise BlockedError(_query(handle, byte)) from error
                raise
        except (OSError, BlockedError):
            file.close_if_free()
            raise
        holders.append(exclusive)
        _locked[key] = file
        return PosixLock(file, byte, exclusive)


def holder_of(path: str, byte: int) -> int | None:
    """The pid of another process that holds a lock on the byte; 0 if the system does not report it; None if the byte is
    free.
    """
    with _guard:
        try:
            found = os.stat(path)
            ours = _locked.get((found.st_dev, found.st_ino))
            if ours is not None:
                # Opening and closing the file here would drop the locks of this process.
                return _query(ours.handles[0], byte)
            handle = os.open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            return _query(handle, byte)
        finally:
            os.close(handle)


def holder_in_words(holder: int | None) -> str:
    """A description of a lock's holder, with the command line if available: ``process 17 (java -jar server.jar)``."""
    if not holder:
        return "another process"
    try:
        line = Path(f"/proc/{holder}/cmdline").read_bytes()
    except OSError:
        # The process has ended, is not accessible, or this is not Linux.
        return f"process {holder}"
    # Words are separated by zero bytes, and there may be pages of them.
    words = line.replace(b"\0", b" ").decode(errors="replace").strip()
    shown = words if len(words) <= _MOST_WORDS else words[:_MOST_WORDS] + "..."
    return f"process {holder} ({shown})" if shown else f"process {holder}"


def _query(handle: int, byte: int) -> int | None:
    try:
        # A query for a write lock conflicts with every lock of other processes, including shared ones.
        query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        answer = _FLOCK.unpack(fcntl.fcntl(handle, fcntl.F_GETLK, query))
    except (OSError, struct.error):
        return None
    return None if answer[0] == fcntl.F_UNLCK else max(int(answer[4]), 0)
