"""The journal of a repair: the old bytes, the written bytes, and the progress of the repair.

Backup directory:

==============  =================================================================================================
file            content
==============  =================================================================================================
manifest.json   ``database``, ``command``, ``state``, ``before`` (length of every log file when the repair began),
                and, once it is done, ``after`` (the same) and ``files`` (the digest of every changed file)
saved.journal   entries in the order of the changes, see below; ``saved.journal.undone`` after an undo
==============  =================================================================================================

While its files are in an intermediate state, the environment contains the marker ``jetool.repair``, which names the
backup directory.

Entry: byte kind, int length of the path, long offset, long length of the file before the change, int number of bytes,
the path, the bytes, int CRC-32 of all preceding fields. A torn entry at the end belongs to a change that was never
made.

=======  =====================================================================================
kind     bytes
=======  =====================================================================================
BYTES    the blocks that are about to be overwritten or cut off; a block is saved once
CREATED  none: the file was not there
REMOVED  a piece of the file that is about to be removed or renamed
WRITTEN  what is about to be written. Undo does not need it; it identifies the repair's own bytes
=======  =====================================================================================

Order of the steps; each is durable before the next:

1. repair: manifest ``running``; entry; marker; change; (entry; change;) ... manifest ``done``; remove the marker.
2. undo: marker; manifest ``undoing``; all entries from the last to the first; manifest ``undone``; rename the journal;
   remove the marker.

So without a marker the files are consistent: as before the repair, or as the repair left them. With a marker, the
manifest states what was in progress. Undo, which only writes given bytes at given places, can be run again from the
start.

``undo`` reads the journal; ``repair_audit`` determines for it whether another program has written since.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.errors import DamageError, NotFoundError
from engine.storage.base import DERBY_LOCK_FILE, JE_LOCK_FILE, WRITER_BYTE, ReadFile, Storage, write_synced

JOURNAL: Final = "saved.journal"
MANIFEST: Final = "manifest.json"
MARKER: Final = "jetool.repair"

RUNNING: Final = "running"
DONE: Final = "done"
UNDOING: Final = "undoing"
UNDONE: Final = "undone"

BYTES: Final = 1
CREATED: Final = 2
REMOVED: Final = 3
WRITTEN: Final = 4

PIECE: Final = 1 << 20
_LONGEST_PATH: Final = 1024
_LONGEST_FILE: Final = 1 << 40
_LONGEST_MANIFEST: Final = 1 << 24
_LONGEST_MARKER: Final = 1 << 16
_ENTRY: Final = struct.Struct(">BiqqI")
_CRC: Final = struct.Struct(">I")
_LOG_DIRECTORY: Final = re.compile(r"log|data\d{3}")


class JournalEntry(NamedTuple):
    """One entry of the journal; ``length`` is the length of the file before the change."""

    kind: int
    path: str
    offset: int
    length: int
    data: bytes


class Place(NamedTuple):
    """An entry without its bytes: ``at`` is their position in the journal, ``size`` their number."""

    kind: int
    path: str
    offset: int
    length: int
    at: int
    size: int


class PendingRepair(NamedTuple):
    """The content of a marker: the backup directory and the command of a repair that is running, or was interrupted."""

    backup: str
    command: str


def encode_entry(entry: JournalEntry) -> bytes:
    """The bytes of an entry."""
    path = entry.path.encode("utf-8")
    front = _ENTRY.pack(entry.kind, len(path), entry.offset, entry.length, len(entry.data)) + path + entry.data
    return front + _CRC.pack(zlib.crc32(front))


def places_of(backup: Storage) -> list[Place]:
    """The complete entries of a journal, in order; everything after the first torn one is ignored.

    Raises:
        NotFoundError: there is no journal. DamageError: an entry that no repair writes.
    """
    file = opened(backup)
    try:
        return list(_places(file, f"{backup.root}/{JOURNAL}"))
    finally:
        file.close()


def opened(backup: Storage) -> ReadFile:
    """Open the journal for reading. NotFoundError if there is no journal."""
    if backup.stat(JOURNAL) is None:
        raise NotFoundError("no saved bytes", file=backup.root, hint="name the backup directory")
    return backup.open(JOURNAL)


def mark(storage: Storage, pending: PendingRepair) -> None:
    """Put the marker of an intermediate state into the environment, durably."""
    data = json.dumps(pending._asdict()).encode("utf-8") + b"\n"
    write_synced(storage, MARKER, data)
    storage.sync_directory()


def unmark(storage: Storage) -> None:
    """Remove the marker, durably."""
    if storage.stat(MARKER) is not None:
        storage.remove(MARKER)
        storage.sync_directory()


def pending_in(storage: Storage) -> PendingRepair | None:
    """The content of an environment's marker; None without a marker.

    An incomplete marker does not count: a marker is durable before the first change, and is removed after the last one.
    """
    if storage.stat(MARKER) is None:
        return None
    file = storage.open(MARKER)
    try:
        found = json.loads(file.read(0, _LONGEST_MARKER).decode("utf-8"))
        return PendingRepair(str(found["backup"]), str(found["command"]))
    except (ValueError, LookupError, TypeError):
        return None
    finally:
        file.close()


def is_at_work(storage: Storage) -> bool:
    """Whether a process holds the lock of a writer: then a pending repair is still running."""
    return any(
        storage.stat(path) is not None and storage.lock_holder(path, WRITER_BYTE) is not None
        for path in (JE_LOCK_FILE, DERBY_LOCK_FILE)
    )


def read_manifest(backup: Storage) -> dict[str, object]:
    """The manifest of a backup directory. DamageError if it is not JSON."""
    if backup.stat(MANIFEST) is None:
        return {}
    file = backup.open(MANIFEST)
    try:
        found = json.loads(file.read(0, _LONGEST_MANIFEST).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamageError("the manifest of the saved bytes cannot be read", file=f"{backup.root}/{MANIFEST}") from error
    finally:
        file.close()
    return found if isinstance(found, dict) else {}


def write_manifest(backup: Storage, content: dict[str, object]) -> None:
    """Replace the manifest atomically."""
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
    """SHA-256 of a file; None if it is absent."""
    if storage.stat(path) is None:
        return None
    import hashlib

    digest = hashlib.sha256()
    file = storage.open(path)
    try:
        offset = 0
        while piece := file.read(offset, PIECE):
            digest.update(piece)
            offset += len(piece)
    finally:
        file.close()
    return digest.hexdigest()


def log_lengths(storage: Storage) -> dict[str, int]:
    """Length of every log file, of JE or of Derby: every write of a program extends a log file, or adds one."""
    found = {}
    names = storage.names()
    for directory in ("", *(name for name in names if _LOG_DIRECTORY.fullmatch(name))):
        stat = storage.stat(directory)
        for name in storage.names(directory) if stat is not None and stat.is_directory else ():
            path = f"{directory}/{name}" if directory else name
            stat = storage.stat(path) if name.endswith((".jdb", ".dat")) else None
            if stat is not None and not stat.is_directory:
                found[path] = stat.size_bytes
    return found


def sync_files(storage: Storage, touched: set[str]) -> None:
    """Make files, and the directories that contain them, durable."""
    for path in sorted(touched):
        if storage.stat(path) is not None:
            file = storage.open_rw(path)
            file.sync()
            file.close()
    for directory in sorted({path.rpartition("/")[0] for path in touched}):
        storage.sync_directory(directory)


def _places(file: ReadFile, name: str) -> Iterator[Place]:
    """All complete entries, up to the first torn one."""
    at, size = 0, file.size()
    while at + _ENTRY.size <= size:
        kind, path_length, offset, old_length, count = _ENTRY.unpack(file.read(at, _ENTRY.size))
        length = _ENTRY.size + path_length + count + _CRC.size
        # The journal is synced before the corresponding change, so a torn entry protects nothing.
        if not 0 < path_length <= _LONGEST_PATH or count > PIECE or at + length > size:
            return
        raw = file.read(at, length)
        if _CRC.unpack(raw[-_CRC.size :])[0] != zlib.crc32(raw[: -_CRC.size]):
            return
        path = raw[_ENTRY.size : _ENTRY.size + path_length].decode("utf-8", "replace")
        place = Place(kind, path, offset, old_length, at + _ENTRY.size + path_length, count)
        _require_sane(place, name)
        yield place
        at += length


def _require_sane(place: Place, name: str) -> None:
    """Refuse an entry with a path outside the environment, or with an impossible file size.

    A user who can write to a backup directory must not be able to choose the files that undo writes.
    """
    parts = place.path.split("/")
    leaves = len(parts) > 2 or any(part in ("", ".", "..") for part in parts)
    printable = place.path.isprintable() and "\ufffd" not in place.path
    within = 0 <= place.offset <= _LONGEST_FILE and 0 <= place.length <= _LONGEST_FILE
    if leaves or not printable or not within or not BYTES <= place.kind <= WRITTEN:
        raise DamageError(
            "the journal of saved bytes has an entry that no repair writes",
            file=name,
            found=f"kind {place.kind}, path {place.path!r}, offset {place.offset}, length {place.length}",
            consequence="nothing was changed",
            hint="the backup directory is damaged, or somebody else has written to it",
        )
