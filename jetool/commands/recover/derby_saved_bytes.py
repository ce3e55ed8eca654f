"""Where the old bytes of a Derby database go before they are changed.

Without ``--backup-dir`` that is ``DATABASE.jetool-saved/20261121T140101Z`` beside the database: inside of it a copy of
the database would carry them along. A run that changes nothing leaves no directory.
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
    """The backup directory of a run, made if need be; None when nothing is to be saved.

    Arguments:
        storage: the database directory.
        asked: ``--backup-dir``: a directory, ``none``, or None for the default.
        dry_run: make nothing.

    Raises:
        StorageError: the directory cannot be made.
    """
    if dry_run or asked == _NONE:
        yield None
        return
    path = Path(asked) if asked else _unused(_parent(storage) / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    # A user who may not read the database may not read its old bytes.
    made = make_directories(path, access_of(storage.root))
    try:
        yield DirectoryBeside(path, storage.root)
    finally:
        # From the inside out, and only those that this run has made.
        for directory in reversed(made):
            with suppress(OSError):  # it holds something
                directory.rmdir()


def last_backup(storage: DiskStorage, asked: str | None) -> DiskStorage:
    """The backup directory that ``undo`` goes by: the one asked for, that of an interrupted repair, or the newest.

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
    # Beside the database itself, not beside a link to it, so that undo finds it by either name.
    root = os.path.realpath(storage.root)
    return Path(root + _SUFFIX)


def _unused(path: Path) -> Path:
    """The path, or one with a number after it when two runs fall into the same second."""
    names = itertools.chain((path,), (path.with_name(f"{path.name}-{number}") for number in itertools.count(2)))
    return next(name for name in names if not name.exists())
