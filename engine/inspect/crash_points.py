"""Crash drills on an existing log: the state that a crash or a failing disk would leave.

=============  ======================================================================================
lost-tail      the entry and everything after it is gone
torn-write     the same, but the first bytes of the entry are there
no-fsync       only what is known to have been synced: the log up to the last CkptEnd before the entry
bit-flip       one bit of the entry has changed
zero-page      the page of 4096 bytes that the entry begins in reads as zeros
missing-file   the file that holds the entry is gone
=============  ======================================================================================

Example: ``100 CkptEnd | 200 INS | 300 Commit``, crash at 300: lost-tail ends at 300, torn-write somewhere in the
Commit, no-fsync after the CkptEnd.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from engine.errors import NotFoundError, UsageError
from engine.format.entry_types import CKPT_END
from engine.format.header import HEADER_BYTES
from engine.format.lsn import NULL_LSN, file_of, format_lsn, offset_of
from engine.log.entry import LogEntry
from engine.log.files import LogFiles
from engine.log.scan import scan_log
from engine.storage.base import Storage

MODES: Final = ("lost-tail", "torn-write", "no-fsync", "bit-flip", "zero-page", "missing-file")
PAGE: Final = 4096


class CrashPoint(NamedTuple):
    """The entry that a crash hits.

    Attributes:
        lsn, type_name, size: LSN, type and size of the entry; the size is in bytes and includes the header.
        synced_lsn: the end of the last CkptEnd before the entry; NULL_LSN without a CkptEnd.
    """

    lsn: int
    type_name: str
    size: int
    synced_lsn: int


class CrashEffect(NamedTuple):
    """The changes made to the files.

    Attributes:
        cut_bytes: bytes that were cut off or removed with files.
        changed_bytes: bytes that were overwritten.
        removed: removed files.
        end_lsn: where the log was cut; NULL_LSN when it was not.
    """

    cut_bytes: int
    changed_bytes: int
    removed: tuple[str, ...]
    end_lsn: int


def crash_points(storage: Storage, files: LogFiles) -> list[CrashPoint]:
    """Every good entry of a log as a crash point, in log order."""
    found: list[CrashPoint] = []
    synced = NULL_LSN
    for item in scan_log(storage, files).entries():
        if isinstance(item, LogEntry):
            found.append(CrashPoint(item.lsn, item.type_name, item.total_bytes, synced))
            if item.type_number == CKPT_END:
                # A CkptEnd is fsynced: everything up to its end has survived.
                synced = item.lsn + item.total_bytes
    return found


def apply_crash(storage: Storage, files: LogFiles, point: CrashPoint, mode: str, seed: int) -> CrashEffect:
    """Change the files as a crash at the point would.

    Arguments:
        storage: a copy, or a view.
        files: the log files.
        point: where.
        mode: one of ``MODES``.
        seed: chooses the torn length and the flipped bit.

    Raises:
        UsageError: the whole log would be lost.
        NotFoundError: no-fsync without a checkpoint before the point.
    """
    chosen = random.Random(seed)
    path = next(file.path for file in files.files if file.number == file_of(point.lsn))
    if mode == "missing-file":
        return _remove(storage, files, path)
    if mode == "bit-flip":
        # Flip a bit in the body, where only the checksum detects the change; in the header if the entry has no body.
        start = min(HEADER_BYTES, point.size - 1) if point.size > HEADER_BYTES else 0
        return _flip(storage, path, offset_of(point.lsn) + chosen.randrange(start, point.size), chosen.randrange(8))
    if mode == "zero-page":
        return _zero(storage, path, offset_of(point.lsn) // PAGE * PAGE)
    if mode == "no-fsync":
        if point.synced_lsn == NULL_LSN:
            raise NotFoundError(
                "no checkpoint ended before this place", lsn=format_lsn(point.lsn), hint="use --mode lost-tail"
            )
        return cut_log(storage, files, point.synced_lsn)
    torn = chosen.randrange(1, point.size) if mode == "torn-write" and point.size > 1 else 0
    return cut_log(storage, files, point.lsn + torn)


def cut_log(storage: Storage, files: LogFiles, lsn: int) -> CrashEffect:
    """Truncate a log before an LSN.

    Raises:
        UsageError: the whole log would be lost.
    """
    number, offset = file_of(lsn), offset_of(lsn)
    gone = [file for file in files.files if file.number > number or (file.number == number and offset == 0)]
    if len(gone) == len(files.files):
        raise UsageError("nothing would be left of the log", found=format_lsn(lsn), hint="choose a later place")
    cut = sum(file.size_bytes for file in gone)
    # Remove the last file first, so that no step leaves a gap.
    for file in reversed(gone):
        storage.remove(file.path)
    for file in files.files:
        if file.number == number and offset:
            opened = storage.open_rw(file.path)
            cut += opened.size() - offset
            opened.truncate(offset)
            opened.sync()
            opened.close()
    storage.sync_directory()
    return CrashEffect(cut, 0, tuple(file.path for file in gone), lsn)


def _remove(storage: Storage, files: LogFiles, path: str) -> CrashEffect:
    if len(files.files) == 1:
        raise UsageError("nothing would be left of the log", found=path, hint="use another mode")
    size = next(file.size_bytes for file in files.files if file.path == path)
    storage.remove(path)
    storage.sync_directory()
    return CrashEffect(size, 0, (path,), NULL_LSN)


def _flip(storage: Storage, path: str, offset: int, bit: int) -> CrashEffect:
    file = storage.open(path)
    old = file.read(offset, 1)[0]
    file.close()
    return _overwrite(storage, path, offset, bytes((old ^ 1 << bit,)))


def _zero(storage: Storage, path: str, offset: int) -> CrashEffect:
    found = storage.stat(path)
    size = 0 if found is None else found.size_bytes
    return _overwrite(storage, path, offset, bytes(min(PAGE, size - offset)))


def _overwrite(storage: Storage, path: str, offset: int, data: bytes) -> CrashEffect:
    file = storage.open_rw(path)
    file.write(offset, data)
    file.sync()
    file.close()
    return CrashEffect(0, len(data), (), NULL_LSN)
