"""Crash points by name, and copies of environments, for ``jetool crash``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from engine.db.config import PROPERTIES_FILE
from engine.errors import NotFoundError, RefusedError, UsageError
from engine.format.entry_types import BY_NAME
from engine.format.lsn import parse_lsn
from engine.inspect.crash_points import CrashPoint
from engine.log.files import LogFiles
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage

STEPS: Final = {
    "checkpoint": "CkptEnd",
    "commit": "Commit",
    "abort": "Abort",
    "rollback": "RollbackEnd",
    "file-flip": "FileHeader",
    "utilization": "FileSummaryLN",
    "reserve": "ReservedFileLN",
}
_NUMBERED: Final = re.compile(r"(entry|type|step):([A-Za-z_-]+|\d+)(?::(\d+))?")
_PIECE: Final = 1 << 20


def find_point(points: list[CrashPoint], place: str) -> CrashPoint:
    """The crash point given by ``--at``.

    Arguments:
        points: every entry of the log.
        place: ``0xFILE/0xOFFSET``, ``end``, ``entry:N``, ``type:NAME[:n]`` or ``step:NAME[:n]``; without n the last.

    Raises:
        UsageError: the text is not a place. NotFoundError: the log has no such entry.
    """
    if not points:
        raise NotFoundError("the log holds no entry")
    if place == "end":
        return points[-1]
    found = _NUMBERED.fullmatch(place)
    if found is None:
        lsn = parse_lsn(place)
        chosen = [point for point in points if point.lsn == lsn]
    elif found[1] == "entry":
        if not found[2].isdigit():
            raise UsageError(f"{place!r} names no place", expected="entry:N", found=place)
        number = int(found[2])
        # Places are counted from 1; without this check 0 would give the last one.
        chosen = points[number - 1 : number] if number else []
    else:
        name = _type_name(found[1], found[2])
        chosen = [point for point in points if point.type_name == name]
        if found[3] is not None:
            chosen = chosen[int(found[3]) - 1 : int(found[3])] if int(found[3]) else []
    if not chosen:
        raise NotFoundError(f"the log has no entry for {place!r}", hint="jetool dump-log lists the entries")
    # Without a number, choose the last place of this kind: the place nearest to the end of the log.
    return chosen[-1]


def case_count(matrix: str) -> int | None:
    """The number of cases for ``--matrix``; None for all of them. UsageError if it is not a number."""
    if matrix == "all":
        return None
    if not matrix.isdigit() or int(matrix) == 0:
        raise UsageError("--matrix takes a number of places, or all", found=matrix)
    return int(matrix)


def _type_name(kind: str, name: str) -> str:
    if kind == "step":
        if name not in STEPS:
            raise UsageError(f"{name!r} is no step", expected=" or ".join(STEPS), found=name)
        return STEPS[name]
    known = BY_NAME.get(name.lower())
    if known is None:
        raise UsageError(f"{name!r} is no entry type", hint="jetool dump-log ENV --type list")
    return known.name


def copy_environment(storage: Storage, files: LogFiles, target: str) -> DiskStorage:
    """Copy log files and ``je.properties`` into a new directory, durably.

    Raises:
        RefusedError: the directory is not empty.
    """
    copy = DiskStorage(target)
    if copy.stat() is not None and copy.names():
        raise RefusedError(
            "the directory for the copy is not empty",
            file=target,
            hint="name another directory with --out, or remove it",
        )
    Path(target).mkdir(parents=True, exist_ok=True)
    # Copy the restore marker too: without it JE would open the copy although it refuses the original.
    paths = [file.path for file in files.with_marker()]
    # The properties may set the file size, and the copy must recover like the original.
    if storage.stat(PROPERTIES_FILE) is not None:
        paths.append(PROPERTIES_FILE)
    for path in paths:
        directory = path.rpartition("/")[0]
        if directory:
            copy.make_directory(directory)
        _copy_file(storage, copy, path)
        copy.sync_directory(directory)
    return copy


def _copy_file(source: Storage, target: Storage, path: str) -> None:
    old, new = source.open(path), target.open_rw(path, create=True)
    try:
        offset = 0
        while piece := old.read(offset, _PIECE):
            new.write(offset, piece)
            offset += len(piece)
        # Sync the copy: it represents a disk after a crash, and a real crash must not change it.
        new.sync()
    finally:
        old.close()
        new.close()
