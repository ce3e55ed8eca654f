"""Files after a simulated crash: synced data survives, and a chosen part of the unsynced changes.

``CrashStorage`` is a storage in memory that records every change since the last sync. It counts writes, syncs and
changes of names. At a chosen operation it stops: this operation and all later ones fail with ``SimulatedCrashError``.
``image`` then gives the files that a restart would find, as a ``MemoryStorage``:

=============  =============================================================================
NO_FSYNC       nothing but what was synced
LOST_TAIL      also the first n of the later changes, in the order in which they were made
TORN_WRITE     the same, and the first bytes of the write that follows
=============  =============================================================================

Names behave like contents: a file created after the last ``sync_directory`` is missing unless its creation is among the
surviving changes.

Example: ``write A | sync | write B | write C``, crash. NO_FSYNC leaves A; LOST_TAIL A, AB or ABC; TORN_WRITE A, AB or
ABC with the first bytes of the next one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from engine.errors import StorageError
from engine.storage.base import WriteFile
from engine.storage.memory import MemoryStorage
from engine.storage.overlay import WrappedFile, WrappedStorage

COUNTED: Final = ("write", "truncate", "sync", "create", "rename", "remove", "sync_directory")


class CrashMode(Enum):
    """Which unsynced changes survive."""

    NO_FSYNC = "no-fsync"
    LOST_TAIL = "lost-tail"
    TORN_WRITE = "torn-write"


class SimulatedCrashError(StorageError):
    """The storage has stopped; nothing is written to the files any more."""


class UnsyncedChange(NamedTuple):
    """One change that is not durable yet.

    Attributes:
        kind: write, truncate, create, rename or remove.
        path: the file.
        offset: of a write; for a truncate the length.
        data: of a write; for a rename the new name, encoded.
    """

    kind: str
    path: str
    offset: int
    data: bytes


class CrashStorage(WrappedStorage):
    """A storage that can stop at any counted operation.

    Arguments:
        files: durable contents at the start.
        stop_at: number of the first operation that fails, from 1; 0 for none.
        listener: called with kind and path of each counted operation, before it is done.
    """

    def __init__(
        self,
        files: dict[str, bytes] | None = None,
        *,
        stop_at: int = 0,
        listener: Callable[[str, str], None] | None = None,
    ) -> None:
        self._durable = {path: bytes(data) for path, data in (files or {}).items()}
        self._now = MemoryStorage(files, "crash:")
        super().__init__(self._now)
        self._changes: list[UnsyncedChange] = []
        self._listener = listener
        self.stop_at = stop_at
        self.operations = 0
        self.crashed = False

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        if create and self._base.stat(path) is None:
            self.count("create", path)
            self.changed(UnsyncedChange("create", path, 0, b""))
        return _CrashFile(self, self._base.open_rw(path, create=create))

    def rename(self, old: str, new: str) -> None:
        self.count("rename", old)
        self._base.rename(old, new)
        self.changed(UnsyncedChange("rename", old, 0, new.encode()))

    def remove(self, path: str) -> None:
        self.count("remove", path)
        self._base.remove(path)
        self.changed(UnsyncedChange("remove", path, 0, b""))

    def sync_directory(self, path: str = "") -> None:
        """Make creations, renames and removals durable, but not contents."""
        self.count("sync_directory", path)
        # Names become durable without contents, as on a file system that writes metadata first.
        self._settle(lambda change: change.kind in ("create", "rename", "remove"))

    def image(self, mode: CrashMode, seed: int = 0) -> MemoryStorage:
        """The files that a restart would find.

        Arguments:
            mode: which changes survive.
            seed: determines how many later changes survive, and how much of a torn write.
        """
        files = {path: bytearray(data) for path, data in self._durable.items()}
        chosen = random.Random(seed)
        keep = 0 if mode is CrashMode.NO_FSYNC else chosen.randint(0, len(self._changes))
        # Changes survive in their order: a later change survives only with all earlier ones.
        for change in self._changes[:keep]:
            _apply(files, change)
        if mode is CrashMode.TORN_WRITE and keep < len(self._changes):
            torn = self._changes[keep]
            # Other changes happen completely or not at all.
            if torn.kind == "write":
                _apply(files, torn._replace(data=torn.data[: chosen.randint(0, len(torn.data))]))
        return MemoryStorage({path: bytes(data) for path, data in files.items()}, "crash:")

    def pending(self) -> tuple[dict[str, bytes], list[UnsyncedChange]]:
        """The durable files, and the changes since in order; for images of other kinds than those of ``CrashMode``."""
        return dict(self._durable), list(self._changes)

    def image_of(self, path: str) -> bytes:
        """The durable content of a file; empty if the file has no durable content."""
        return self._durable.get(path, b"")

    def contents(self) -> dict[str, bytes]:
        """Every file as a process that did not crash sees it."""
        return self._now.contents()

    # The methods that open files call.

    def count(self, kind: str, path: str) -> None:
        """Count an operation; stop at the chosen one.

        Raises:
            SimulatedCrashError: the operation is the chosen operation, or a later operation.
        """
        if self._listener is not None:
            self._listener(kind, path)
        self.operations += 1
        if self.crashed or (self.stop_at and self.operations >= self.stop_at):
            self.crashed = True
            raise SimulatedCrashError("simulated crash", file=path, consequence="nothing is written any more")

    def changed(self, change: UnsyncedChange) -> None:
        """Record a change that is not durable yet."""
        self._changes.append(change)

    def synced(self, path: str) -> None:
        """Make the contents of a file durable. A new name becomes durable only with ``sync_directory``."""
        self._settle(lambda change: change.path == path and change.kind in ("write", "truncate", "create"))

    def _settle(self, settles: Callable[[UnsyncedChange], bool]) -> None:
        files = {path: bytearray(data) for path, data in self._durable.items()}
        rest = []
        for change in self._changes:
            if settles(change):
                _apply(files, change)
            else:
                rest.append(change)
        self._durable = {path: bytes(data) for path, data in files.items()}
        self._changes = rest


class _CrashFile(WrappedFile):
    """An open file that reports its changes to the storage."""

    def __init__(self, storage: CrashStorage, file: WriteFile) -> None:
        super().__init__(file)
        self._storage = storage

    def write(self, offset: int, data: bytes) -> None:
        """Write all of ``data`` at ``offset``. A write interrupted by the crash may survive in part."""
        change = UnsyncedChange("write", self.path, offset, bytes(data))
        try:
            self._storage.count("write", self.path)
        except SimulatedCrashError:
            # This is the write in progress at the crash; later ones were never started.
            if self._storage.operations == self._storage.stop_at:
                self._storage.changed(change)
            raise
        self._file.write(offset, data)
        self._storage.changed(change)

    def truncate(self, length: int) -> None:
        self._storage.count("truncate", self.path)
        self._file.truncate(length)
        self._storage.changed(UnsyncedChange("truncate", self.path, length, b""))

    def sync(self) -> None:
        self._storage.count("sync", self.path)
        self._storage.synced(self.path)

    def close(self) -> None:
        """Do nothing."""


def _apply(files: dict[str, bytearray], change: UnsyncedChange) -> None:
    if change.kind == "create":
        files.setdefault(change.path, bytearray())
    elif change.kind == "remove":
        files.pop(change.path, None)
    elif change.kind == "rename":
        content = files.pop(change.path, None)
        if content is not None:
            files[change.data.decode()] = content
    elif change.path in files:
        # A write to a file whose creation did not survive is lost with it.
        data = files[change.path]
        if change.kind == "truncate":
            del data[change.offset :]
            data.extend(bytes(max(0, change.offset - len(data))))
        else:
            data.extend(bytes(max(0, change.offset - len(data))))
            data[change.offset : change.offset + len(change.data)] = change.data
