"""Saved bytes: what a repair overwrites is kept first, so that the repair can be undone.

A ``SavingStorage`` stands between the engine and the database. Before bytes are overwritten, cut off, or lost with a
removed file, they go to a journal in the backup directory, and the journal is synced. So at any moment the journal can
bring back the state before the run; after an interrupted run too.

Backup directory:

==============  =================================================================================================
file            content
==============  =================================================================================================
saved.journal   entries in the order of the changes, see below
manifest.json   database, what was done, state (``running`` or ``done``), and the digest of every changed file
==============  =================================================================================================

Entry: byte kind (1 = bytes of a file, 2 = file created, 3 = file removed), int length of the path, long offset, long
length of the file before the change, int number of bytes, the path, the bytes, int CRC-32 of everything in front. A torn
entry at the end belongs to a change that was never made. Blocks are saved once, in units of 4096 bytes. Undo goes
through the entries from the last to the first.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from engine.errors import DamageError, NotFoundError, RefusedError
from engine.storage.base import Lock, ReadFile, Stat, Storage, WriteFile

JOURNAL = "saved.journal"
MANIFEST = "manifest.json"
RUNNING = "running"
DONE = "done"

BYTES = 1
CREATED = 2
REMOVED = 3

_BLOCK = 4096
_PIECE = 1 << 20
_ENTRY = struct.Struct(">BiqqI")
_CRC = struct.Struct(">I")


class Entry(NamedTuple):
    """One entry of the journal; ``length`` is the length of the file before the change."""

    kind: int
    path: str
    offset: int
    length: int
    data: bytes


class SavingStorage:
    """A storage that saves what it is about to destroy.

    Arguments:
        base: the database directory.
        backup: the backup directory; it must not hold a journal yet.

    Raises: RefusedError when the backup directory is in use.
    """

    __slots__ = ("_backup", "_base", "_end", "_journal", "_lengths", "_saved", "touched")

    def __init__(self, base: Storage, backup: Storage) -> None:
        if backup.stat(JOURNAL) is not None:
            raise RefusedError(
                "the backup directory holds saved bytes already",
                file=backup.root,
                hint="name another directory, or run undo first",
            )
        self._base = base
        self._backup = backup
        self._journal = backup.open_rw(JOURNAL, create=True)
        self._end = 0
        # Blocks saved, and the length of each file when it was first touched (None: it was not there).
        self._saved: set[tuple[str, int]] = set()
        self._lengths: dict[str, int | None] = {}
        self.touched: set[str] = set()
        write_manifest(backup, {"database": base.root, "state": RUNNING})
        backup.sync_directory()

    @property
    def root(self) -> str:
        """What the database directory is called."""
        return self._base.root

    @property
    def saved_bytes(self) -> int:
        """Bytes in the journal."""
        return self._end

    def finish(self, what: dict[str, object]) -> None:
        """Close the journal and say in the manifest what was done, with the digest of every changed file."""
        self._journal.sync()
        self._journal.close()
        digests = {path: digest_of(self._base, path) for path in sorted(self.touched)}
        content = {"database": self._base.root, "state": DONE, **what, "files": digests}
        write_manifest(self._backup, content)

    def protect(self, ranges: list[tuple[str, int, int]]) -> None:
        """Save the old bytes of ranges (path, offset, length), with one sync for all."""
        before = self._end
        for path, offset, length in ranges:
            self._save(path, offset, length)
        if self._end != before:
            self._journal.sync()

    def names(self, path: str = "") -> list[str]:
        """Names in a directory."""
        return self._base.names(path)

    def stat(self, path: str = "") -> Stat | None:
        """What is at ``path``."""
        return self._base.stat(path)

    def open(self, path: str) -> ReadFile:
        """Open for reading."""
        return self._base.open(path)

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        """Open for writing; a creation is noted first."""
        if create and self._base.stat(path) is None:
            self._note_created(path)
        return _SavingFile(self, self._base.open_rw(path, create=create))

    def make_directory(self, path: str) -> None:
        """Make a directory; undo leaves it."""
        self._base.make_directory(path)

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

    def sync_directory(self, path: str = "") -> None:
        """Sync a directory."""
        self._base.sync_directory(path)

    def lock(self, path: str, byte: int, *, exclusive: bool) -> Lock:
        """Lock a byte."""
        return self._base.lock(path, byte, exclusive=exclusive)

    def lock_holder(self, path: str, byte: int) -> int | None:
        """The holder of a lock."""
        return self._base.lock_holder(path, byte)

    def _save(self, path: str, offset: int, length: int) -> None:
        """Append the old bytes of every block of a range that is not saved yet."""
        old_length = self._length_of(path)
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
                # A block behind the old end has no bytes, but its entry makes undo cut the file again.
                data = file.read(number * _BLOCK, max(0, min(_BLOCK, old_length - number * _BLOCK)))
                if data or number == wanted[-1]:
                    self._append(Entry(BYTES, path, number * _BLOCK, old_length, data))
        finally:
            file.close()

    def _note_created(self, path: str) -> None:
        self._lengths.setdefault(path, None)
        self.touched.add(path)
        self._append(Entry(CREATED, path, 0, 0, b""))
        self._journal.sync()

    def _note_removed(self, path: str) -> None:
        self.touched.add(path)
        stat = self._base.stat(path)
        if stat is None:
            return
        file = self._base.open(path)
        try:
            for offset in range(0, max(stat.size_bytes, 1), _PIECE):
                self._append(Entry(REMOVED, path, offset, stat.size_bytes, file.read(offset, _PIECE)))
        finally:
            file.close()
        self._journal.sync()
        # Whatever is made under this name later is new.
        self._lengths[path] = None

    def _length_of(self, path: str) -> int | None:
        if path not in self._lengths:
            stat = self._base.stat(path)
            self._lengths[path] = None if stat is None else stat.size_bytes
        return self._lengths[path]

    def _append(self, entry: Entry) -> None:
        data = encode_entry(entry)
        self._journal.write(self._end, data)
        self._end += len(data)


class _SavingFile:
    """A file whose old bytes are saved before they go."""

    __slots__ = ("_file", "_storage")

    def __init__(self, storage: SavingStorage, file: WriteFile) -> None:
        self._storage = storage
        self._file = file

    @property
    def path(self) -> str:
        """The path that the file was opened by."""
        return self._file.path

    def size(self) -> int:
        """Length in bytes."""
        return self._file.size()

    def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``."""
        return self._file.read(offset, length)

    def write(self, offset: int, data: bytes) -> None:
        """Save what is there, then put ``data`` at ``offset``."""
        self._storage.protect([(self.path, offset, len(data))])
        self._file.write(offset, data)

    def truncate(self, length: int) -> None:
        """Save what is cut off, then cut."""
        size = self._file.size()
        if length < size:
            self._storage.protect([(self.path, length, size - length)])
        self._file.truncate(length)

    def sync(self) -> None:
        """Sync the file."""
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def encode_entry(entry: Entry) -> bytes:
    """The bytes of an entry."""
    path = entry.path.encode("utf-8")
    front = _ENTRY.pack(entry.kind, len(path), entry.offset, entry.length, len(entry.data)) + path + entry.data
    return front + _CRC.pack(zlib.crc32(front))


def entries_of(backup: Storage) -> list[Entry]:
    """The whole entries of a journal, in order; what follows the first torn one is ignored."""
    if backup.stat(JOURNAL) is None:
        raise NotFoundError(f"no saved bytes in {backup.root}", file=backup.root, hint="name the backup directory")
    file = backup.open(JOURNAL)
    try:
        return list(_read_entries(file))
    finally:
        file.close()


def undo(storage: Storage, backup: Storage, *, force: bool = False) -> int:
    """Bring back the state before the run that a backup directory belongs to; the number of entries undone.

    Arguments:
        storage: the database directory.
        backup: the backup directory.
        force: go on although files were changed since.

    Raises: NotFoundError without a journal; RefusedError when files were changed since the run.
    """
    manifest = read_manifest(backup)
    entries = entries_of(backup)
    if not force:
        _require_unchanged(storage, manifest)
    touched = set()
    for entry in reversed(entries):
        _undo_entry(storage, entry)
        touched.add(entry.path)
    for path in sorted(touched):
        if storage.stat(path) is not None:
            file = storage.open_rw(path)
            file.sync()
            file.close()
    for directory in sorted({path.rpartition("/")[0] for path in touched}):
        storage.sync_directory(directory)
    write_manifest(backup, {**manifest, "state": "undone"})
    backup.rename(JOURNAL, f"{JOURNAL}.undone")
    backup.sync_directory()
    return len(entries)


def read_manifest(backup: Storage) -> dict[str, object]:
    """The manifest of a backup directory. DamageError when it is no JSON object."""
    if backup.stat(MANIFEST) is None:
        return {}
    file = backup.open(MANIFEST)
    try:
        found = json.loads(file.read(0, file.size()).decode("utf-8"))
    except ValueError as error:
        raise DamageError("the manifest of the saved bytes cannot be read", file=f"{backup.root}/{MANIFEST}") from error
    finally:
        file.close()
    return found if isinstance(found, dict) else {}


def write_manifest(backup: Storage, content: dict[str, object]) -> None:
    """Replace the manifest in one step."""
    data = json.dumps(content, indent=1, sort_keys=True).encode("utf-8") + b"\n"
    temporary = f"{MANIFEST}.new"
    file = backup.open_rw(temporary, create=True)
    file.truncate(0)
    file.write(0, data)
    file.sync()
    file.close()
    backup.rename(temporary, MANIFEST)
    backup.sync_directory()


def digest_of(storage: Storage, path: str) -> str | None:
    """SHA-256 of a file, None when it is absent."""
    if storage.stat(path) is None:
        return None
    digest = hashlib.sha256()
    file = storage.open(path)
    try:
        offset = 0
        while piece := file.read(offset, _PIECE):
            digest.update(piece)
            offset += len(piece)
    finally:
        file.close()
    return digest.hexdigest()


def _require_unchanged(storage: Storage, manifest: dict[str, object]) -> None:
    files = manifest.get("files")
    if manifest.get("state") != DONE or not isinstance(files, dict):
        return
    for path, digest in files.items():
        if digest_of(storage, path) != digest:
            raise RefusedError(
                "the database was changed since the run that would be undone",
                file=f"{storage.root}/{path}",
                consequence="undo would mix old and new bytes",
                hint="restore from a backup instead, or force the undo of a copy",
            )


def _read_entries(file: ReadFile) -> Iterator[Entry]:
    at, size = 0, file.size()
    while at + _ENTRY.size <= size:
        kind, path_length, offset, length, count = _ENTRY.unpack(file.read(at, _ENTRY.size))
        total = _ENTRY.size + path_length + count + _CRC.size
        if path_length < 0 or at + total > size:
            return
        raw = file.read(at, total)
        if _CRC.unpack(raw[-_CRC.size :])[0] != zlib.crc32(raw[: -_CRC.size]):
            return
        path = raw[_ENTRY.size : _ENTRY.size + path_length].decode("utf-8", "replace")
        yield Entry(kind, path, offset, length, raw[_ENTRY.size + path_length : -_CRC.size])
        at += total


def _undo_entry(storage: Storage, entry: Entry) -> None:
    if entry.kind == CREATED:
        if storage.stat(entry.path) is not None:
            storage.remove(entry.path)
        return
    file = storage.open_rw(entry.path, create=True)
    try:
        if entry.data:
            file.write(entry.offset, entry.data)
        if file.size() != entry.length:
            file.truncate(entry.length)
    finally:
        file.close()
