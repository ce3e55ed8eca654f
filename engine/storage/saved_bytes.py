"""Saves the bytes that a repair is about to overwrite, so that the repair can be undone.

A ``SavingStorage`` is placed between the engine and its files. Before bytes are overwritten, cut off, or lost with a
removed file, they are written to a journal in the backup directory, and the journal is synced. So at any moment the
journal can restore the state before the run, even if the run is interrupted. A run that ends with an error counts as
interrupted.

The format of the journal, its manifest, the marker and undo are in ``journal``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from engine.errors import RefusedError
from engine.storage.base import Storage, WriteFile
from engine.storage.journal import (
    BYTES,
    CREATED,
    DONE,
    JOURNAL,
    PIECE,
    REMOVED,
    RUNNING,
    WRITTEN,
    JournalEntry,
    PendingRepair,
    digest_of,
    encode_entry,
    log_lengths,
    mark,
    sync_files,
    unmark,
    write_manifest,
)
from engine.storage.overlay import WrappedFile, WrappedStorage

_BLOCK = 4096


class SavingStorage(WrappedStorage):
    """A storage that saves data before it is destroyed.

    Arguments:
        base: the directory of the environment or database.
        backup: the backup directory; it must not hold a journal yet.
        command: the name of the command, for the manifest.
        undoable: this is a repair that can be undone as a whole: appended data and created files are recorded too, and
            a marker is in the environment while the repair runs. Otherwise only bytes that are overwritten, cut off or
            removed are saved.

    Raises: RefusedError if the backup directory is in use, or if a log file is a link, which undo would not follow.
    """

    def __init__(self, base: Storage, backup: Storage, command: str, *, undoable: bool = True) -> None:
        require_unused(backup)
        if undoable:
            _require_files(base)
        super().__init__(base)
        self._backup = backup
        self._command = command
        self._undoable = undoable
        # Created when the first byte is saved, so that a run without changes leaves no files.
        self._journal: WriteFile | None = None
        self._marked = False
        self._end = 0
        # Saved blocks, and the length of each file at the first access (None: it did not exist).
        self._saved: set[tuple[str, int]] = set()
        self._lengths: dict[str, int | None] = {}
        self._manifest: dict[str, object] = {}
        self.touched: set[str] = set()

    @property
    def saved_bytes(self) -> int:
        """Bytes in the journal."""
        return self._end

    def finish(self, what: dict[str, object]) -> None:
        """Mark the run as complete in the manifest, with the digest of every changed file."""
        if self._journal is None:
            return
        self.interrupt()
        sync_files(self._base, self.touched)
        # Undo compares these digests, so that it never mixes old and new bytes.
        digests = {path: digest_of(self._base, path) for path in sorted(self.touched)}
        write_manifest(
            self._backup, {**self._manifest, **what, "state": DONE, "files": digests, "after": log_lengths(self._base)}
        )
        if self._marked:
            unmark(self._base)

    def interrupt(self) -> None:
        """End a run that will not be completed: the journal and the marker stay for the next command."""
        if self._journal is not None:
            self._journal.sync()
            self._journal.close()

    def protect(self, ranges: list[tuple[str, int, int]], new: tuple[str, int, bytes] | None = None) -> None:
        """Save the old bytes of ranges (path, offset, length), with one sync for all.

        Arguments:
            ranges: the ranges that will be overwritten or cut off.
            new: path, offset and bytes that will be written there. Undo does not need them, so they cause no additional
                sync.
        """
        before = self._end
        for path, offset, length in ranges:
            self._save(path, offset, length)
        saved = self._end != before
        if new is not None and self._undoable:
            path, offset, data = new
            for at in range(0, max(len(data), 1), PIECE):
                self._append(JournalEntry(WRITTEN, path, offset + at, 0, data[at : at + PIECE]))
        if saved:
            self._sync()

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        """Open for writing; a creation is recorded first."""
        if create and self._base.stat(path) is None:
            self._note_created(path)
        return _SavingFile(self, self._base.open_rw(path, create=create))

    def rename(self, old: str, new: str) -> None:
        """Rename; both names are recorded, as a removal and a creation."""
        self._note_removed(old)
        if self._base.stat(new) is None:
            self._note_created(new)
        else:
            self._note_removed(new)
        self._note_content(old, new)
        self._base.rename(old, new)

    def remove(self, path: str) -> None:
        """Remove a file, after saving its content."""
        self._note_removed(path)
        self._base.remove(path)

    def _save(self, path: str, offset: int, length: int) -> None:
        """Append the old bytes of every block in a range that is not saved yet."""
        if path not in self._lengths:
            stat = self._base.stat(path)
            self._lengths[path] = None if stat is None else stat.size_bytes
        old_length = self._lengths[path]
        # An append destroys nothing.
        if not self._undoable and (old_length is None or offset >= old_length):
            return
        self.touched.add(path)
        if old_length is None:
            return
        blocks = range(offset // _BLOCK, (offset + length + _BLOCK - 1) // _BLOCK)
        wanted = [n for n in blocks if (path, n) not in self._saved]
        if not wanted:
            return
        file = self._base.open(path)
        try:
            for first, count in _runs(wanted):
                self._saved.update((path, number) for number in range(first, first + count))
                # A block after the old end has no bytes, but its entry makes undo cut the file again.
                data = file.read(first * _BLOCK, max(0, min(count * _BLOCK, old_length - first * _BLOCK)))
                if data or first + count > wanted[-1]:
                    self._append(JournalEntry(BYTES, path, first * _BLOCK, old_length, data))
        finally:
            file.close()

    def _note_created(self, path: str) -> None:
        self._lengths.setdefault(path, None)
        if not self._undoable:
            return
        self.touched.add(path)
        self._append(JournalEntry(CREATED, path, 0, 0, b""))
        self._sync()

    def _note_removed(self, path: str) -> None:
        # The file was created in this run, so its removal loses no earlier data.
        if not self._undoable and self._lengths.get(path, 0) is None:
            return
        self.touched.add(path)
        stat = self._base.stat(path)
        if stat is None:
            return
        file = self._base.open(path)
        try:
            # An empty file needs an entry too.
            for offset in range(0, max(stat.size_bytes, 1), PIECE):
                self._append(JournalEntry(REMOVED, path, offset, stat.size_bytes, file.read(offset, PIECE)))
        finally:
            file.close()
        self._sync()
        # A file created under this name later is new.
        self._lengths[path] = None

    def _note_content(self, old: str, new: str) -> None:
        """Record the content that a file gets by a rename."""
        if not self._undoable or self._base.stat(old) is None:
            return
        file = self._base.open(old)
        try:
            for offset in range(0, file.size(), PIECE):
                self._append(JournalEntry(WRITTEN, new, offset, 0, file.read(offset, PIECE)))
        finally:
            file.close()

    def _append(self, entry: JournalEntry) -> None:
        if self._journal is None:
            before = log_lengths(self._base)
            root = os.path.realpath(self._base.root)
            self._manifest = {"database": root, "command": self._command, "state": RUNNING, "before": before}
            write_manifest(self._backup, self._manifest)
            self._journal = self._backup.open_rw(JOURNAL, create=True)
            self._backup.sync_directory()
        data = encode_entry(entry)
        self._journal.write(self._end, data)
        self._end += len(data)

    def _sync(self) -> None:
        """Make the entries durable, and before the first change also the marker."""
        if self._journal is not None:
            self._journal.sync()
            if self._undoable and not self._marked:
                mark(self._base, PendingRepair(os.path.realpath(self._backup.root), self._command))
                self._marked = True


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as runs (first, count); no run has more blocks than an entry can hold."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1 or number - first == PIECE // _BLOCK:
            yield first, last - first + 1
            first = number
        last = number
    yield first, last - first + 1


def require_unused(backup: Storage) -> None:
    """Refuse a backup directory that already contains saved bytes."""
    if backup.stat(JOURNAL) is not None:
        raise RefusedError(
            "the backup directory holds the saved bytes of another run",
            file=backup.root,
            consequence="they would be mixed up",
            hint="name another directory, or one that is not there yet",
        )


def _require_files(base: Storage) -> None:
    """Refuse log files that are links: a repair must not change files elsewhere."""
    for path in log_lengths(base):
        if os.path.islink(f"{base.root}/{path}"):
            raise RefusedError(
                "a log file is a symbolic link",
                file=f"{base.root}/{path}",
                consequence="nothing was changed: undo would not follow it",
                hint="put the file itself in its place, or work on a copy of the directory",
            )


class _SavingFile(WrappedFile):
    """A file whose old bytes are saved before they are overwritten or cut off."""

    def __init__(self, storage: SavingStorage, file: WriteFile) -> None:
        super().__init__(file)
        self._storage = storage

    def write(self, offset: int, data: bytes) -> None:
        """Save the old bytes, then write ``data`` at ``offset``."""
        # The journal must be durable before the old bytes are lost.
        self._storage.protect([(self.path, offset, len(data))], (self.path, offset, data))
        self._file.write(offset, data)

    def truncate(self, length: int) -> None:
        """Save the bytes after the new end, then cut."""
        size = self._file.size()
        if length < size:
            self._storage.protect([(self.path, length, size - length)])
        elif length > size:
            self._storage.protect([(self.path, size, length - size)], (self.path, length, b""))
        self._file.truncate(length)
