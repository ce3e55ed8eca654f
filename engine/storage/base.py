"""The protocol of files and directories.

Rules that every implementation keeps:

* A path is relative to the root of the storage, with ``/`` between parts; ``""`` is the root itself.
* A read returns fewer bytes than asked for only at the end of the file.
* ``write`` may extend a file; bytes between the old end and the offset are zero.
* Nothing that was written is durable before ``sync`` of the file, and no creation, rename or removal before
  ``sync_directory`` of the directory that holds the name.
* Failures of the operating system are raised as ``StorageError``; a path that does not exist as ``NotFoundError``; a
  lock that is already held as ``RefusedError``, with the holder's pid if the system reports it.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

# The file whose byte WRITER_BYTE is locked by a writer of an environment, or of a Derby database.
JE_LOCK_FILE: Final = "je.lck"
DERBY_LOCK_FILE: Final = "dbex.lck"
WRITER_BYTE: Final = 0


class Stat(NamedTuple):
    """The properties of a file in its directory.

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
        """The path by which the file was opened."""

    def size(self) -> int:
        """Current length in bytes (it may grow while a writer is active)."""

    def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end of the file."""

    def close(self) -> None:
        """Close the file. Closing twice is harmless."""


class WriteFile(ReadFile, Protocol):
    """A file opened for reading and writing."""

    def write(self, offset: int, data: bytes) -> None:
        """Write all of ``data`` at ``offset``."""

    def truncate(self, length: int) -> None:
        """Cut or extend (with zeros) to ``length`` bytes."""

    def sync(self) -> None:
        """Make content and length durable before returning."""


def descriptor_of(file: ReadFile) -> int:
    """The descriptor from which a thread may read what ``read`` returns; -1 for a file that has no such descriptor."""
    return int(getattr(file, "descriptor", -1))


class Lock(Protocol):
    """A range lock on one byte of a file, held until released."""

    def release(self) -> None:
        """Release the lock. Releasing twice is harmless."""


class Storage(Protocol):
    """A tree of files."""

    @property
    def root(self) -> str:
        """The name of the root in messages (a directory path, or a made-up name in memory)."""

    def names(self, path: str = "") -> list[str]:
        """Names in a directory, sorted. NotFoundError if there is no such directory."""

    def stat(self, path: str = "") -> Stat | None:
        """The properties of ``path``, or None if it does not exist."""

    def open(self, path: str) -> ReadFile:
        """Open an existing file for reading."""

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        """Open a file for reading and writing; with ``create``, an absent file is created empty."""

    def make_directory(self, path: str) -> None:
        """Create a directory, unless it exists. The parent must exist."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing an existing one atomically."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def sync_directory(self, path: str = "") -> None:
        """Make the names in the directory durable before returning."""

    def free_bytes(self) -> int | None:
        """Bytes that may still be written to the disk; None if not known."""

    def lock(self, path: str, byte: int, *, exclusive: bool) -> Lock:
        """Lock one byte of an existing file without waiting; RefusedError if it is already locked."""

    def lock_holder(self, path: str, byte: int) -> int | None:
        """The pid of another process that holds a lock on the byte, or None. Changes nothing.

        If the system does not report the holder, the result is 0.
        """


def write_synced(storage: Storage, path: str, data: bytes) -> None:
    """Make a file hold exactly these bytes, and sync it; the caller renames it, and syncs the directory of its name.

    A crash on the way may leave any part of the bytes under this path, and an earlier crash may have left such a file.
    """
    file = storage.open_rw(path, create=True)
    try:
        file.truncate(0)
        file.write(0, data)
        file.sync()
    finally:
        file.close()
