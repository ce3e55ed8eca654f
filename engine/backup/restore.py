"""Restore an environment from a backup, in full or as it was at a point of its log.

In this order:

1. The plan: which files, how many bytes of each, and which are already in place. Nothing is changed.
2. The marker ``7fffffff.jdb`` (R-LOG-37), which keeps JE and jetool from opening a half-restored environment. It names
   the backup, so that the same command, run again after it was killed, recognises its own files and continues.
3. Log files that are not in the plan are removed; each of the others is written under a temporary name while its digest
   is tested, synced, and renamed.
4. The marker is removed, and the environment is complete. Changes that must precede its first opening, such as a new
   group, are made before this step, on a view without the marker.

The restored log must never continue in a file of the backup: the next backup would then have a longer file under the
same name, and the directory of backups would hold two timelines. So the last file ends with an ImmutableFile entry, as
in JE's own backups, and the next writer begins a new file. Log versions below 11 lack that entry: for them a new file
with one Trace entry follows.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import closing
from typing import Final, NamedTuple

from engine.backup.manifest import BackupFile
from engine.backup.point_lookup import Chosen
from engine.backup.repository import Repository, beginning_digest, pieces_of
from engine.backup.view import BackupView
from engine.errors import DamageError, FormatError, NotFoundError, RefusedError
from engine.events import SILENT, Listener
from engine.format.entry.file_header import FileHeader, encode_file_header
from engine.format.entry.markers import ImmutableFile, RestoreRequired, encode_immutable_file
from engine.format.entry.trace import Trace, encode_trace
from engine.format.entry_types import FILE_HEADER, IMMUTABLE_FILE, RESTORE_REQUIRED, TRACE
from engine.format.header import EntryHeader, encode_entry
from engine.format.lsn import file_of, make_lsn, offset_of
from engine.format.versions import PACKED_NUMBERS
from engine.format.vlsn import NULL_VLSN
from engine.log.files import LOCK_FILE, MARKER_FILE_NUMBER, LogFile, list_log_files, log_file_path, new_file_name
from engine.log.marker import MARKER, write_marker
from engine.log.scan import scan_file
from engine.storage.base import Storage, write_synced
from engine.storage.room import require_room
from engine.storage.truncated_view import CutStorage

_FILLER: Final = 42
_OLDEST_WITH_IMMUTABLE: Final = 11
_MARK: Final = "jetool restore "
_STEP: Final = "restore"
# Besides files, a restore writes a marker and directories.
_ROOM_BYTES: Final = 1 << 16


class PlannedFile(NamedTuple):
    """A file of the restored environment.

    Attributes:
        file: the original of the file.
        length: how many bytes of it.
        tail: bytes after them: the entry that closes the last file; empty for other files.
        is_there: the file is already in place.
    """

    file: BackupFile
    length: int
    tail: bytes
    is_there: bool


class NewFile(NamedTuple):
    """A log file that no backup has; it comes after the last file of the backup."""

    path: str
    content: bytes


class RestorePlan(NamedTuple):
    """What a restore does.

    Attributes:
        chosen: the backup, and the cut.
        files: in ascending order.
        new_file: an additional file that closes the log, for log versions without ImmutableFile; else None.
        removed: paths of log files to remove.
        end_lsn: where the log ends, not counting the entry that closes its last file.
        resumes: this run continues one that was killed.
    """

    chosen: Chosen
    files: tuple[PlannedFile, ...]
    new_file: NewFile | None
    removed: tuple[str, ...]
    end_lsn: int
    resumes: bool

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(one.length + len(one.tail) for one in self.files)

    @property
    def missing_bytes(self) -> int:
        """Bytes that have to be written."""
        return sum(one.length + len(one.tail) for one in self.files if not one.is_there)


def plan_restore(
    repository: Repository, chosen: Chosen, target: Storage, *, delta: bool, listener: Listener = SILENT
) -> RestorePlan:
    """What a restore would do; nothing is changed.

    Arguments:
        target: the directory of the environment, which need not exist.
        delta: the directory may hold an environment; its files are kept if their content is right.

    Raises:
        RefusedError: the directory is not empty. DamageError: the end of the backup's log is damaged.
        StorageError: there is no room, or a file cannot be read.
    """
    there = require_place(target, delta=delta)
    manifest, cut = chosen.manifest, chosen.cut
    end_lsn = manifest.end_lsn if cut is None else cut.cut.end_lsn
    wanted = [file for file in manifest.files if file.number <= file_of(end_lsn)]
    if not wanted or wanted[-1].number != file_of(end_lsn) or offset_of(end_lsn) > wanted[-1].size_bytes:
        raise DamageError("the manifest names an end of its log that is in no file", file=repository.root)
    tail, new_file = _ending(repository, chosen, wanted[-1], offset_of(end_lsn))
    planned = []
    for at, file in enumerate(wanted):
        is_last = at == len(wanted) - 1
        length = offset_of(end_lsn) if is_last else file.size_bytes
        one = PlannedFile(file, length, tail if is_last else b"", is_there=False)
        listener.step("compare", at, len(wanted))
        planned.append(one._replace(is_there=file.path in there and _is_same(repository, target, one)))
    paths = {one.file.path for one in planned} | ({new_file.path} if new_file is not None else set())
    plan = RestorePlan(
        chosen=chosen,
        files=tuple(planned),
        new_file=new_file,
        removed=tuple(path for path in there if path not in paths),
        end_lsn=end_lsn,
        resumes=_is_ours(target),
    )
    require_room(
        target,
        plan.missing_bytes + _ROOM_BYTES,
        "the environment",
        consequence="nothing was changed",
        hint="make room, or restore to another disk",
    )
    return plan


def is_in_place(repository: Repository, chosen: Chosen, target: Storage) -> bool:
    """Whether a directory holds the finished restore of a backup: no file is missing, and the marker is gone."""
    found = target.stat()
    if found is None or not found.is_directory or not any(name.endswith(".jdb") for name in target.names()):
        return False
    plan = plan_restore(repository, chosen, target, delta=True)
    extra = plan.new_file
    there = extra is None or target.stat(extra.path) is not None
    return there and not plan.missing_bytes and not plan.removed and target.stat(MARKER) is None


def put_files(repository: Repository, plan: RestorePlan, target: Storage, *, listener: Listener = SILENT) -> None:
    """Put all files in place; the marker stays until ``finish``.

    Arguments:
        target: the existing directory, locked by the caller.

    Raises:
        DamageError: a stored file does not match its digest; the marker stays.
        StorageError: there is no room, or a file cannot be written; the marker stays.
    """
    made = plan.chosen.manifest.id
    write_marker(target, RestoreRequired("NETWORK_RESTORE", time.time_ns() // 1_000_000, f"#{_MARK}{made}\n"))
    for path in plan.removed:
        target.remove(path)
    directories = {one.file.path.rpartition("/")[0] for one in plan.files}
    for directory in sorted(directories - {""}):
        target.make_directory(directory)
    done = plan.size_bytes - plan.missing_bytes
    for one in plan.files:
        listener.step(_STEP, done, plan.size_bytes)
        if not one.is_there:
            _copy(repository, target, one)
            done += one.length + len(one.tail)
    listener.step(_STEP, done, plan.size_bytes)
    if plan.new_file is not None:
        _put(target, plan.new_file.path, plan.new_file.content)
    # Make the file names durable before ``finish`` removes the marker, which shows that the restore is not complete.
    for directory in sorted(directories | {""}):
        target.sync_directory(directory)


def without_marker(target: Storage) -> Storage:
    """The restored environment, for the one process that may open it."""
    return CutStorage(target, {MARKER: None})


def finish(target: Storage) -> None:
    """Remove the marker: the environment is complete."""
    target.remove(MARKER)
    target.sync_directory()


def require_place(target: Storage, *, delta: bool) -> tuple[str, ...]:
    """Log files in the directory, by path; empty for a new one.

    Raises:
        RefusedError: the directory is not empty, ``delta`` is not set, and no killed restore left the files.
    """
    found = target.stat()
    if found is None:
        return ()
    if not found.is_directory:
        raise RefusedError("a file is in the place of the environment's directory", file=target.root)
    names = [name for name in target.names() if name != LOCK_FILE]
    # A run that was killed before its marker was complete has left nothing else.
    if not names or names == [MARKER]:
        return ()
    if not delta and not _is_ours(target):
        raise RefusedError(
            "the directory is not empty",
            file=target.root,
            found=f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0],
            consequence="nothing was restored",
            hint="name a directory that does not exist; --delta replaces the existing log by the backup",
        )
    try:
        files = list_log_files(target)
    except NotFoundError:
        return ()
    # Partial files of a killed run: none of them belongs to a log.
    unfinished = [path for path in files.set_aside if path.endswith(".tmp")]
    return (*(file.path for file in files.files), *files.twice, *unfinished)


def _is_ours(target: Storage) -> bool:
    """Whether a restore by jetool began here and was killed."""
    stat = target.stat(MARKER)
    if stat is None or stat.is_directory:
        return False
    marker = LogFile(MARKER_FILE_NUMBER, MARKER, stat.size_bytes)
    entry = next(scan_file(target, marker, is_last=True, types=frozenset((RESTORE_REQUIRED,))).good_entries(), None)
    try:
        record = entry.record() if entry is not None else None
    except (FormatError, IndexError, ValueError):
        return False
    return isinstance(record, RestoreRequired) and _MARK in record.properties


def _is_same(repository: Repository, target: Storage, one: PlannedFile) -> bool:
    """Whether a file in place has the right content."""
    stat = target.stat(one.file.path)
    if stat is None or stat.is_directory or stat.size_bytes != one.length + len(one.tail):
        return False
    digest, expected = hashlib.sha256(), one.file.sha256
    if one.length != one.file.size_bytes:
        # Manifests have no digest of a part of a file, so compute it.
        expected = beginning_digest(repository, one.file, one.length)
    with closing(target.open(one.file.path)) as file:
        for piece in pieces_of(file, one.length):
            digest.update(piece)
        return digest.hexdigest() == expected and file.read(one.length, len(one.tail)) == one.tail


def _copy(repository: Repository, target: Storage, one: PlannedFile) -> None:
    digest, at = hashlib.sha256(), 0
    temporary = new_file_name(one.file.path)
    with closing(repository.open(one.file)) as source, closing(target.open_rw(temporary, create=True)) as file:
        file.truncate(0)
        # The whole file is read even if only part of it is kept, since only the whole has a digest.
        for piece in pieces_of(source, one.file.size_bytes):
            digest.update(piece)
            kept = piece[: max(0, one.length - at)]
            if kept:
                file.write(at, kept)
            at += len(piece)
        if digest.hexdigest() != one.file.sha256:
            raise DamageError(
                "the SHA-256 of a stored file differs from the manifest of its backup",
                file=f"{repository.root}/{one.file.stored}",
                expected=one.file.sha256,
                found=digest.hexdigest(),
                consequence="the environment is incomplete, and its marker keeps JE from opening it",
                hint="jetool backup verify shows which backups are undamaged; restore one of them",
            )
        if one.tail:
            file.write(one.length, one.tail)
        file.sync()
    target.rename(temporary, one.file.path)


def _put(target: Storage, path: str, content: bytes) -> None:
    temporary = new_file_name(path)
    write_synced(target, temporary, content)
    target.rename(temporary, path)


def _ending(repository: Repository, chosen: Chosen, file: BackupFile, length: int) -> tuple[bytes, NewFile | None]:
    """The end that makes the next writer begin a new log file: an ImmutableFile entry or, in old versions, a new file.

    Neither the entry nor the file is needed if the log already ends with that entry.
    """
    cut = BackupView(repository, (file,), chosen.manifest.id)
    view = CutStorage(cut, {file.path: length})
    # In the view the file ends at the cut; with its real size the scan could read beyond the cut.
    scan = scan_file(view, LogFile(file.number, file.path, length), is_last=True)
    found = scan.check(with_sizes=False)
    last = scan.entry_at(make_lsn(file.number, found.last_offset)) if found.last_offset >= 0 else None
    if found.end_offset != length or last is None:
        raise DamageError(
            "the last file of the backup is damaged",
            file=f"{repository.root}/{file.stored}",
            consequence="nothing was restored",
            hint="jetool backup verify shows which backups are undamaged",
        )
    if last.type_number == IMMUTABLE_FILE:
        return b"", None
    version = found.version
    if version >= _OLDEST_WITH_IMMUTABLE:
        body = encode_immutable_file(ImmutableFile(_FILLER), version)
        header = EntryHeader(0, IMMUTABLE_FILE, 0, found.last_offset, len(body), NULL_VLSN)
        return encode_entry(header, body, version), None
    number = file.number + 1
    now_ms = chosen.manifest.ended_ms
    body = encode_file_header(FileHeader(now_ms, number, found.last_offset, version), version)
    # Log version 6 repeats the version in the flags of each entry.
    flags = version if version == PACKED_NUMBERS else 0
    content = encode_entry(EntryHeader(0, FILE_HEADER, flags, 0, len(body), NULL_VLSN), body, version)
    body = encode_trace(Trace(now_ms, f"restored from backup {chosen.manifest.id}"), version)
    content += encode_entry(EntryHeader(0, TRACE, flags, 0, len(body), NULL_VLSN), body, version)
    directories = {one.path.rpartition("/")[0] for one in chosen.manifest.files} - {""}
    return b"", NewFile(log_file_path(number, len(directories)), content)
