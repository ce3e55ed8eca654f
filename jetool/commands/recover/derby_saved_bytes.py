"""The backup directory for old bytes of a Derby database.

The default is ``DATABASE.jetool-saved/20261121T140101Z`` beside the database, so that copies of the database do not
include it. A run that changes nothing leaves no directory.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from engine.errors import NotFoundError
from engine.rescue.repair import settlement
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.journal import JOURNAL
from engine.storage.sidecar import DirectoryBeside, access_of, make_directories

_SUFFIX: Final = ".jetool-saved"
_NONE: Final = "none"


@contextmanager
def backup_of(storage: Storage, asked: str | None, *, dry_run: bool) -> Iterator[DiskStorage | None]:
    """The backup directory of a run, created if needed; None if nothing is to be saved.

    Arguments:
        storage: the database directory.
        asked: ``--backup-dir``: a directory, ``none``, or None for the default.
        dry_run: make nothing.

    Raises:
        StorageError: the directory cannot be created.
    """
    if dry_run or asked == _NONE:
        yield None
        return
    path = Path(asked) if asked else _unused(_parent(storage) / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    # Users without read access to the database must not be able to read its old bytes.
    made = make_directories(path, access_of(storage.root))
    try:
        yield DirectoryBeside(path, storage.root)
    finally:
        # Remove inner directories first, and only those that this run created.
        for directory in reversed(made):
            with suppress(OSError):  # it holds something
                directory.rmdir()


def last_backup(storage: DiskStorage, asked: str | None) -> DiskStorage:
    """The backup directory for ``undo``: the given one, that of an interrupted repair, or the newest.

    Raises:
        NotFoundError: there are no saved bytes.
    """
    found = settlement.last_backup(storage, asked, _parent(storage))
    if found is None:
        raise NotFoundError(
            "no saved bytes of this database",
            file=str(_parent(storage)),
            hint="name their directory with --backup-dir, if they were saved elsewhere",
        )
    return found


def has_saved(backup: DiskStorage | None) -> bool:
    """Whether old bytes were saved."""
    return backup is not None and backup.stat(JOURNAL) is not None


def _parent(storage: Storage) -> Path:
    # Use the real path of the database, so that undo finds the backup through links too.
    root = os.path.realpath(storage.root)
    return Path(root + _SUFFIX)


def _unused(path: Path) -> Path:
    """The path, with a number appended if two runs start in the same second."""
    names = itertools.chain((path,), (path.with_name(f"{path.name}-{number}") for number in itertools.count(2)))
    return next(name for name in names if not name.exists())
