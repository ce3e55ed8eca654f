"""The protocol of files and directories.

Rules that every implementation keeps:

* A path is relative to the root of the storage, with ``/`` between parts; ``""`` is the root itself.
* A read returns fewer bytes than asked for only at the end of the file.
* ``write`` may extend a file; bytes between the old end and the offset are zero.
* Nothing that was written is durable before ``sync`` of the file, and no creation, rename or removal before
  ``sync_directory`` of the directory that holds the name.
* Failures of the operating system are raised as ``StorageError``; a path that does not exist as ``NotFoundError``; a
  lock that somebody holds as ``RefusedError`` naming the holder's pid where the system tells it.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

# The file whose byte WRITER_BYTE a writer of an environment, or of a Derby database, locks.
JE_LOCK_FILE: Final = "je.lck"
DERBY_LOCK_FILE: Final = "dbex.lck"
WRITER_BYTE: Final = 0


class Stat(NamedTuple):
    """What a directory says of a file.

    Attributes:
        size_bytes: length in bytes (0 for a directory).
        modified_ms: time of the last change, milliseconds since 1970-01-01 UTC.
        is_directory: whether the path is a directory.
    """

    size_bytes: int
    modified_ms: int
    is_directory: bool


class ReadFile(Protocol):
    """A file opened for reading."""

    @property
    def path(self) -> str:
        """The path that the file was opened by."""

    def size(self) -> int:
        """Length in bytes now (it may grow while a writer is at work)."""

    def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end of the file."""

    def close(self) -> None:
        """Give the file back. Closing twice is harmless."""


class WriteFile(ReadFile, Protocol):
    """A file opened for reading and writing."""

    def write(self, offset: int, data: bytes) -> None:
        """Put all of ``data`` at ``offset``."""

    def truncate(self, length: int) -> None:
        """Cut or extend (with zeros) to ``length`` bytes."""

    def sync(self) -> None:
        """Return when the content and the length are durable."""


class Lock(Protocol):
    """A range lock on one byte of a file, held until released."""

    def release(self) -> None:
        """Give the lock back. Releasing twice is harmless."""


class Storage(Protocol):
    """A tree of files."""

    @property
    def root(self) -> str:
        """What a message calls the root (a directory path, or a made-up name in memory)."""

    def names(self, path: str = "") -> list[str]:
        """Names in a directory, sorted. NotFoundError when there is no such directory."""

    def stat(self, path: str = "") -> Stat | None:
        """What is at ``path``, or None when nothing is."""

    def open(self, path: str) -> ReadFile:
        """Open an existing file for reading."""

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        """Open a file for reading and writing; with ``create`` an absent file is made, empty."""

    def make_directory(self, path: str) -> None:
        """Make a directory; an existing one is fine. The parent must exist."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing an existing one atomically."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def sync_directory(self, path: str = "") -> None:
        """Return when the names in the directory are durable."""

    def free_bytes(self) -> int | None:
        """Bytes that may still be written to the disk; None where that is not known."""

    def lock(self, path: str, byte: int, *, exclusive: bool) -> Lock:
        """Lock one byte of an existing file without waiting; RefusedError when somebody else holds it."""

    def lock_holder(self, path: str, byte: int) -> int | None:
        """The pid of another process that holds a lock on the byte, or None. Changes nothing.

        A holder that the system does not name is reported as 0.
        """
