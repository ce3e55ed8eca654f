"""The journal of saved bytes: entries, the manifest, and undo.

Backup directory:

==============  =================================================================================================
file            content
==============  =================================================================================================
saved.journal   entries in the order of the changes, see below
manifest.json   directory, what was done, state (``running`` or ``done``), and the digest of every changed file
==============  =================================================================================================

Entry: byte kind (1 = bytes of a file, 2 = file created, 3 = file removed), int length of the path, long offset, long
length of the file before the change, int number of bytes, the path, the bytes, int CRC-32 of everything in front. A
torn entry at the end belongs to a change that was never made. Blocks are saved once, in units of 4096 bytes. Undo goes
through the entries from the last to the first.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from typing import NamedTuple

from engine.errors import DamageError, NotFoundError, RefusedError
from engine.storage.base import ReadFile, Storage

JOURNAL = "saved.journal"
MANIFEST = "manifest.json"
RUNNING = "running"
DONE = "done"
UNDONE = "undone"

BYTES = 1
CREATED = 2
REMOVED = 3

_PIECE = 1 << 20
_ENTRY = struct.Struct(">BiqqI")
_CRC = struct.Struct(">I")


class JournalEntry(NamedTuple):
    """One entry of the journal; ``length`` is the length of the file before the change."""

    kind: int
    path: str
    offset: int
    length: int
    data: bytes


def encode_entry(entry: JournalEntry) -> bytes:
    """The bytes of an entry."""
    path = entry.path.encode("utf-8")
    front = _ENTRY.pack(entry.kind, len(path), entry.offset, entry.length, len(entry.data)) + path + entry.data
    return front + _CRC.pack(zlib.crc32(front))


def entries_of(backup: Storage) -> list[JournalEntry]:
    """The whole entries of a journal, in order; what follows the first torn one is ignored."""
    file = _opened(backup)
    try:
        return [_read_entry(file, at, length) for at, length in _places(file)]
    finally:
        file.close()


def undo(storage: Storage, backup: Storage, *, force: bool = False) -> int:
    """Bring back the state before the run that a backup directory belongs to; the number of entries undone.

    Arguments:
        storage: the directory of the environment or database.
        backup: the backup directory.
        force: go on although the run was interrupted or files were changed since.

    Raises: NotFoundError without a journal; without ``force`` RefusedError when the run was interrupted, since then
    nobody can tell whether the files were used afterwards, and when files were changed since.
    """
    manifest = read_manifest(backup)
    file = _opened(backup)
    try:
        # Read to the end before anything is undone: a torn journal must not stop an undo half-way.
        places = _places(file)
        if not force:
            _require_unchanged(storage, manifest)
        touched = set()
        # The first entry of a file holds its oldest state, so it is written last.
        for at, length in reversed(places):
            entry = _read_entry(file, at, length)
            _undo_entry(storage, entry)
            touched.add(entry.path)
    finally:
        file.close()
    for path in sorted(touched):
        if storage.stat(path) is not None:
            restored = storage.open_rw(path)
            restored.sync()
            restored.close()
    for directory in sorted({path.rpartition("/")[0] for path in touched}):
        storage.sync_directory(directory)
    # Only now may the journal go: until everything is durable, a crash is met by undoing once more.
    write_manifest(backup, {**manifest, "state": UNDONE})
    # The name is free for the next run; the bytes stay.
    backup.rename(JOURNAL, f"{JOURNAL}.undone")
    backup.sync_directory()
    return len(places)


def read_manifest(backup: Storage) -> dict[str, object]:
    """The manifest of a backup directory. DamageError when it is not JSON."""
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
    # A crash leaves the old manifest or the new one.
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
        raise RefusedError(
            "the run that would be undone was interrupted",
            file=storage.root,
            consequence="whatever was done to the files since would be lost",
            hint="when nothing has opened it since, undo with --force, then recover again",
        )
    for path, digest in files.items():
        if digest_of(storage, path) != digest:
            raise RefusedError(
                "files were changed since the run that would be undone",
                file=f"{storage.root}/{path}",
                consequence="undo would mix old and new bytes",
                hint="restore from a backup instead, or force the undo of a copy",
            )


def _opened(backup: Storage) -> ReadFile:
    if backup.stat(JOURNAL) is None:
        raise NotFoundError(f"no saved bytes in {backup.root}", file=backup.root, hint="name the backup directory")
    return backup.open(JOURNAL)


def _places(file: ReadFile) -> list[tuple[int, int]]:
    """Offset and length of every whole entry, to the first one that is torn."""
    found = []
    at, size = 0, file.size()
    while at + _ENTRY.size <= size:
        _, path_length, _, _, count = _ENTRY.unpack(file.read(at, _ENTRY.size))
        length = _ENTRY.size + path_length + count + _CRC.size
        # The journal is synced before the change it precedes: a torn entry protects nothing.
        if path_length < 0 or at + length > size:
            break
        raw = file.read(at, length)
        if _CRC.unpack(raw[-_CRC.size :])[0] != zlib.crc32(raw[: -_CRC.size]):
            break
        found.append((at, length))
        at += length
    return found


def _read_entry(file: ReadFile, at: int, length: int) -> JournalEntry:
    raw = file.read(at, length)
    kind, path_length, offset, old_length, _ = _ENTRY.unpack_from(raw)
    path = raw[_ENTRY.size : _ENTRY.size + path_length].decode("utf-8", "replace")
    return JournalEntry(kind, path, offset, old_length, raw[_ENTRY.size + path_length : -_CRC.size])


def _undo_entry(storage: Storage, entry: JournalEntry) -> None:
    if entry.kind == CREATED:
        if storage.stat(entry.path) is not None:
            storage.remove(entry.path)
        return
    # A removed file comes back with the first of its entries.
    file = storage.open_rw(entry.path, create=True)
    try:
        if entry.data:
            file.write(entry.offset, entry.data)
        if file.size() != entry.length:
            file.truncate(entry.length)
    finally:
        file.close()
