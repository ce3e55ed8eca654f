"""Deleting reserved files (R-CLN-40 to R-CLN-44).

A stand-alone environment deletes every reserved file at once. An environment of a replication group keeps them, to feed
replicas, until a disk limit is reached; then the oldest are deleted first. Before a file is deleted, its VLSNs are
removed from the VLSN index, durably: no index ever leads into a missing file.

A file stays as long as a protection covers it (R-CLN-41); the name of the protection is shown as the reason. It also
stays if the VLSN index must not lose its VLSNs (R-VLSN-52). While another process has the environment open for reading
all files stay: that process holds byte 1 of ``je.lck`` (R-LOG-28). Files of the live log need no protection. A
protection from a file number on also covers files that become reserved later, and may move forward, as for a feeder
that follows the stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

from engine.cleaner.disk_limits import DiskLimitError, DiskLimits, DiskUse, needed, violation
from engine.cleaner.file_records import FileRecords
from engine.cleaner.file_states import FileStates
from engine.errors import NotFoundError, RefusedError, StorageError
from engine.format.vlsn import NULL_VLSN
from engine.log.files import LOCK_FILE, READERS_BYTE
from engine.storage.base import Lock
from engine.tree.context import TreeContext

DELETED_SUFFIX: Final = ".del"


class Protection:
    """One protection; release it when done, or use it as a context.

    Arguments:
        owner: the protector that the protection belongs to.
        name: a name for the user of the files.
        first: all files from this number on; -1 for none.
        files: these files.
    """

    def __init__(self, owner: FileProtector, name: str, first: int, files: Collection[int]) -> None:
        self._owner = owner
        self.name = name
        self.first = first
        self.files = frozenset(files)

    def covers(self, number: int) -> bool:
        """Whether the protection covers a file."""
        return number in self.files or 0 <= self.first <= number

    def move_to(self, first: int) -> None:
        """Release the files before this number."""
        self.first = max(self.first, first)

    def release(self) -> None:
        """End the protection. Releasing twice is harmless."""
        self._owner.remove(self)

    def __enter__(self) -> Protection:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class FileProtector:
    """All protections of an environment."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._protections: list[Protection] = []

    def protect_from(self, name: str, first: int) -> Protection:
        """Protect all files from a number on."""
        return self._add(Protection(self, name, first, ()))

    def protect(self, name: str, files: Collection[int]) -> Protection:
        """Protect some files."""
        return self._add(Protection(self, name, -1, files))

    def remove(self, protection: Protection) -> None:
        """Remove a protection."""
        with self._mutex:
            if protection in self._protections:
                self._protections.remove(protection)

    def holders(self, number: int) -> list[str]:
        """The names of the protections that cover a file."""
        with self._mutex:
            return [protection.name for protection in self._protections if protection.covers(number)]

    def _add(self, protection: Protection) -> Protection:
        with self._mutex:
            self._protections.append(protection)
        return protection


class StreamRange(Protocol):
    """A range of VLSNs."""

    @property
    def first(self) -> int:
        """The first VLSN; NULL_VLSN if the range is empty."""


class StreamHead(Protocol):
    """The VLSN index as used by deletion."""

    @property
    def range(self) -> StreamRange:
        """The range of the index."""

    def head_limit(self, min_index_size: int) -> int:
        """The last VLSN that may be removed; NULL_VLSN if no VLSN may be removed."""

    def truncate_head(self, delete_end: int, next_file: int) -> bool:
        """Remove VLSNs, durably."""


class DeletionSettings(NamedTuple):
    """How files are deleted.

    Attributes:
        expunge: je.cleaner.expunge: delete the files; otherwise rename them to ``.del``.
        deletes: whether reserved files are deleted at all.
        ahead_bytes: bytes that may be written before the limits are checked again.
        min_index_size: je.rep.minVLSNIndexSize.
        replicated: whether the environment belongs to a group.
    """

    expunge: bool
    deletes: bool
    limits: DiskLimits
    ahead_bytes: int
    min_index_size: int
    replicated: bool


class FileDeletion:
    """Deletes reserved files.

    Arguments:
        ctx, states, records: the parts.
        left: called with each deleted file.
        settings: how files are deleted.
        stream: returns the VLSN index, which is opened last.

    Attributes:
        protector: the protections of files.
        refused: why the last attempt deleted nothing (a reader), or None.
        failed: files that could not be deleted, and why.
        violation: why writes are refused; None if they are not.
        deleted_files, deleted_bytes: totals since the environment was opened.
    """

    def __init__(
        self,
        ctx: TreeContext,
        states: FileStates,
        records: FileRecords,
        left: Callable[[int], None],
        settings: DeletionSettings,
        stream: Callable[[], StreamHead | None],
    ) -> None:
        self._ctx = ctx
        self._states = states
        self._records = records
        self._left = left
        self._settings = settings
        self._mutex = threading.Lock()
        self._stream = stream
        self.protector = FileProtector()
        self.refused: str | None = None
        self.failed: dict[int, str] = {}
        self.violation: DiskLimitError | None = None
        self.deleted_files = self.deleted_bytes = 0

    def use(self) -> DiskUse:
        """The disk space that the log takes."""
        access = self._ctx.access
        reserved = self._states.reserved()
        sizes = {file.number: self.size_of(file.number) for file in access.files()}
        protected = sum(sizes.get(number, 0) for number in reserved if self.why_kept(number) is not None)
        held = sum(sizes.get(number, 0) for number in reserved)
        return DiskUse(sum(sizes.values()) - held, held, protected, access.storage.free_bytes())

    def size_of(self, number: int) -> int:
        """The current size of a log file; 0 if it is missing."""
        access = self._ctx.access
        path = next((file.path for file in access.files() if file.number == number), None)
        found = None if path is None else access.storage.stat(path)
        return 0 if found is None else found.size_bytes

    def manage(self, *, everything: bool = False) -> list[int]:
        """Delete the files that may and should be deleted; returns their numbers.

        Arguments:
            everything: delete all that may be deleted, even if replicas might still need them.
        """
        # Another thread is deleting files already.
        if not self._settings.deletes or not self._mutex.acquire(blocking=False):
            return []
        try:
            limits = self._settings.limits
            everything = everything or not self._settings.replicated
            gone: list[int] = []
            if self._states.reserved():
                wanted = None if everything else needed(self.use(), limits, self._settings.ahead_bytes)
                if wanted is None or wanted > 0:
                    gone = self._delete(wanted)
            # Free space also depends on other programs, so it is checked even if no file was deleted.
            if limits.max_disk or limits.free_disk:
                self.violation = violation(self.use(), limits)
            return gone
        finally:
            self._mutex.release()

    def free(self, wanted_bytes: int | None) -> list[int]:
        """Delete the oldest reserved files that may be deleted, until enough is freed; returns their numbers.

        Arguments:
            wanted_bytes: bytes to free, by whole files; None for all that may be deleted.
        """
        with self._mutex:
            return self._delete(wanted_bytes)

    def why_kept(self, number: int) -> str | None:
        """Why a reserved file must stay; None if it may be deleted."""
        holders = self.protector.holders(number)
        if holders:
            return f"needed by {', '.join(holders)}"
        last = self._states.reserved()[number].last_vlsn
        stream = self._stream()
        if stream is None and last != NULL_VLSN and self._settings.replicated:
            return "there is no VLSN index that could let go of its VLSNs"
        if stream is not None and last != NULL_VLSN and last >= stream.range.first:
            limit = stream.head_limit(self._settings.min_index_size)
            if limit == NULL_VLSN or last > limit:
                return "the VLSN index has to keep its VLSNs"
        return self.failed.get(number)

    def _delete(self, wanted: int | None) -> list[int]:
        lock = self._lock_readers_out()
        if lock is None:
            return []
        gone = []
        try:
            for number, state in self._states.reserved().items():
                if wanted is not None and wanted <= 0:
                    break
                self.failed.pop(number, None)
                if self.why_kept(number) is not None:
                    # A file keeps its VLSNs, so all later VLSNs must stay in the index too.
                    if state.last_vlsn != NULL_VLSN:
                        break
                    continue
                if self._delete_one(number, state.last_vlsn):
                    gone.append(number)
                    self.deleted_files += 1
                    self.deleted_bytes += state.size_bytes
                    wanted = None if wanted is None else wanted - state.size_bytes
        finally:
            lock.release()
        for number in gone:
            # Remove the records after the file: a record of a missing file is harmless, but a file without its record
            # would be cleaned again.
            self._records.remove_reserved(number)
            self._records.remove_expiration(number)
        return gone

    def _delete_one(self, number: int, last_vlsn: int) -> bool:
        access = self._ctx.access
        file = next((file for file in access.files() if file.number == number), None)
        try:
            if file is not None:
                self._cut_stream(number, last_vlsn)
                self._remove(file.path)
        except NotFoundError:
            # Another process has deleted the file; the result is the same.
            pass
        except StorageError as error:
            self.failed[number] = f"it cannot be deleted: {error.what}"
            return False
        with self._ctx.latch:
            self._ctx.access.forget(number)
        self._states.deleted(number)
        self._left(number)
        return True

    def _cut_stream(self, number: int, last_vlsn: int) -> None:
        stream = self._stream()
        if stream is not None and last_vlsn != NULL_VLSN and last_vlsn >= stream.range.first:
            following = next(file.number for file in self._ctx.access.files() if file.number > number)
            stream.truncate_head(last_vlsn, following)

    def _remove(self, path: str) -> None:
        storage = self._ctx.access.storage
        if self._settings.expunge:
            storage.remove(path)
        else:
            storage.rename(path, path.rpartition(".")[0] + DELETED_SUFFIX)
        storage.sync_directory(path.rpartition("/")[0])

    def _lock_readers_out(self) -> Lock | None:
        """The exclusive lock on the readers' byte; None while a process reads (R-CLN-42)."""
        storage = self._ctx.access.storage
        self.refused = None
        try:
            # The lock file exists: this process has held byte 0 since it opened the environment.
            return storage.lock(LOCK_FILE, READERS_BYTE, exclusive=True)
        except RefusedError as error:
            self.refused = f"another process reads the environment ({error.found})"
            return None
