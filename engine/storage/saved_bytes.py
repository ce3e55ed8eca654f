"""Saved bytes: what a repair overwrites is kept first, so that the repair can be undone.

A ``SavingStorage`` stands between the engine and its files. Before bytes are overwritten, cut off, or lost with a
removed file, they go to a journal in the backup directory, and the journal is synced. So at any moment the journal can
bring back the state before the run; after an interrupted run too.

The journal itself, its manifest and undo are in ``journal``.
"""

from __future__ import annotations

from engine.errors import RefusedError
from engine.storage.base import Storage, WriteFile
from engine.storage.journal import (
    BYTES,
    CREATED,
    DONE,
    JOURNAL,
    REMOVED,
    RUNNING,
    JournalEntry,
    digest_of,
    encode_entry,
    write_manifest,
)
from engine.storage.wrapping import WrappedFile, WrappedStorage

_BLOCK = 4096
_PIECE = 1 << 20


class SavingStorage(WrappedStorage):
    """A storage that saves what it is about to destroy.

    Arguments:
        base: the directory of the environment or database.
        backup: the backup directory; it must not hold a journal yet.
        appends: also note what is appended and created, so that undo removes it; otherwise only bytes that are
            overwritten, cut off or removed are kept.

    Raises: RefusedError when the backup directory is in use.
    """

    def __init__(self, base: Storage, backup: Storage, *, appends: bool = True) -> None:
        if backup.stat(JOURNAL) is not None:
            raise RefusedError(
                "the backup directory holds the saved bytes of another run",
                file=backup.root,
                consequence="they would be mixed up",
                hint="name another directory; after an interrupted run, undo that one first if it left a torn page",
            )
        super().__init__(base)
        self._backup = backup
        self._appends = appends
        # Made when the first byte is saved, so that a run that changes nothing leaves nothing.
        self._journal: WriteFile | None = None
        self._end = 0
        # Blocks saved, and the length of each file when it was first touched (None: it was not there).
        self._saved: set[tuple[str, int]] = set()
        self._lengths: dict[str, int | None] = {}
        self.touched: set[str] = set()

    @property
    def saved_bytes(self) -> int:
        """Bytes in the journal."""
        return self._end

    def finish(self, what: dict[str, object]) -> None:
        """Close the journal and say in the manifest what was done, with the digest of every changed file."""
        if self._journal is None:
            return
        self._journal.sync()
        self._journal.close()
        # Undo compares them, so that it never mixes old and new bytes.
        digests = {path: digest_of(self._base, path) for path in sorted(self.touched)}
        content = {"database": self._base.root, "state": DONE, **what, "files": digests}
        write_manifest(self._backup, content)

    def protect(self, ranges: list[tuple[str, int, int]]) -> None:
        """Save the old bytes of ranges (path, offset, length), with one sync for all."""
        before = self._end
        for path, offset, length in ranges:
            self._save(path, offset, length)
        if self._end != before:
            self._sync()

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        """Open for writing; a creation is noted first."""
        if create and self._base.stat(path) is None:
            self._note_created(path)
        return _SavingFile(self, self._base.open_rw(path, create=create))

    def rename(self, old: str, new: str) -> None:
        """Rename; both names are saved as a removal and a creation."""
        self._note_removed(old)
        if self._base.stat(new) is None:
            self._note_created(new)
        else:
            self._note_removed(new)
        self._base.rename(old, new)

    def remove(self, path: str) -> None:
        """Remove a file; its content is saved first."""
        self._note_removed(path)
        self._base.remove(path)

    def _save(self, path: str, offset: int, length: int) -> None:
        """Append the old bytes of every block of a range that is not saved yet."""
        if path not in self._lengths:
            stat = self._base.stat(path)
            self._lengths[path] = None if stat is None else stat.size_bytes
        old_length = self._lengths[path]
        # An append destroys nothing.
        if not self._appends and (old_length is None or offset >= old_length):
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
            for number in wanted:
                self._saved.add((path, number))
                # A block after the old end has no bytes, but its entry makes undo cut the file again.
                data = file.read(number * _BLOCK, max(0, min(_BLOCK, old_length - number * _BLOCK)))
                if data or number == wanted[-1]:
                    self._append(JournalEntry(BYTES, path, number * _BLOCK, old_length, data))
        finally:
            file.close()

    def _note_created(self, path: str) -> None:
        self._lengths.setdefault(path, None)
        if not self._appends:
            return
        self.touched.add(path)
        self._append(JournalEntry(CREATED, path, 0, 0, b""))
        self._sync()

    def _note_removed(self, path: str) -> None:
        self.touched.add(path)
        stat = self._base.stat(path)
        if stat is None:
            return
        file = self._base.open(path)
        try:
            # An empty file needs an entry too.
            for offset in range(0, max(stat.size_bytes, 1), _PIECE):
                self._append(JournalEntry(REMOVED, path, offset, stat.size_bytes, file.read(offset, _PIECE)))
        finally:
            file.close()
        self._sync()
        # Whatever is made under this name later is new.
        self._lengths[path] = None

    def _append(self, entry: JournalEntry) -> None:
        if self._journal is None:
            self._journal = self._backup.open_rw(JOURNAL, create=True)
            # Says RUNNING until ``finish``: undo asks for --force after a run that did not get there.
            write_manifest(self._backup, {"database": self._base.root, "state": RUNNING})
            self._backup.sync_directory()
        data = encode_entry(entry)
        self._journal.write(self._end, data)
        self._end += len(data)

    def _sync(self) -> None:
        if self._journal is not None:
            self._journal.sync()


class _SavingFile(WrappedFile):
    """A file whose old bytes are saved before they go."""

    def __init__(self, storage: SavingStorage, file: WriteFile) -> None:
        super().__init__(file)
        self._storage = storage

    def write(self, offset: int, data: bytes) -> None:
        """Save what is there, then put ``data`` at ``offset``."""
        # The journal is durable before the old bytes go.
        self._storage.protect([(self.path, offset, len(data))])
        self._file.write(offset, data)

    def truncate(self, length: int) -> None:
        """Save what is cut off, then cut."""
        size = self._file.size()
        if length < size:
            self._storage.protect([(self.path, length, size - length)])
        self._file.truncate(length)
