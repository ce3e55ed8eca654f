"""The staging directory of a load, and the step that moves its files into the environment.

A load writes everything to ``.jetool-load`` in the environment, which JE and every reader ignore. Only the
last step changes the environment: the log files are renamed into place in ascending order, the one with the checkpoint
last. Before that every file is durable, and ``commit.json`` lists the files.

A load that dies before that step leaves the directory, and the next load removes it. A load that dies during the step
leaves files in the environment that recovery ignores: their nodes are provisional and their LNs belong to a database
without a root. ``clean`` removes them, unless something was written after them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.errors import StorageError
from engine.log.files import list_log_files
from engine.storage.base import Storage

DIRECTORY: Final = ".jetool-load"
_COMMIT: Final = "commit.json"


class Move(NamedTuple):
    """A file for the environment: its name in the staging directory, its path in the environment, its size."""

    name: str
    path: str
    size: int


def clean(storage: Storage) -> bool:
    """Remove the remains of an earlier load. The caller holds the environment's lock.

    Returns:
        Whether there was something.

    Raises:
        StorageError: the directory cannot be removed.
    """
    if storage.stat(DIRECTORY) is None:
        return False
    moves = _moves(storage)
    # Renames are in order, with the checkpoint last, so a file left here shows that the step did not finish.
    left = [move for move in moves if storage.stat(f"{DIRECTORY}/{move.name}") is not None]
    if left:
        _take_back(storage, [move for move in moves if move not in left])
    remove(storage)
    return True


def make(storage: Storage) -> Path:
    """Create the directory and return its path."""
    storage.make_directory(DIRECTORY)
    storage.sync_directory()
    return path_of(storage)


def path_of(storage: Storage) -> Path:
    """The directory's path, as tasks see it."""
    return Path(storage.root).resolve() / DIRECTORY


def commit(storage: Storage, moves: list[Move]) -> None:
    """Move durable files into the environment, in the given order; the last one must hold the checkpoint."""
    plan = storage.open_rw(f"{DIRECTORY}/{_COMMIT}", create=True)
    plan.truncate(0)
    plan.write(0, json.dumps([list(move) for move in moves]).encode())
    # The plan is durable before the first rename: ``clean`` needs it to find the files to remove.
    plan.sync()
    plan.close()
    storage.sync_directory(DIRECTORY)
    for move in moves[:-1]:
        storage.rename(f"{DIRECTORY}/{move.name}", move.path)
    # All other renames must be durable before the file with the checkpoint is renamed.
    _sync_directories(storage, moves)
    storage.rename(f"{DIRECTORY}/{moves[-1].name}", moves[-1].path)
    _sync_directories(storage, moves)


def remove(storage: Storage) -> None:
    """Remove the directory and its content."""
    try:
        shutil.rmtree(path_of(storage))
    except OSError as error:
        raise StorageError(
            "cannot remove the staging directory of a load",
            file=str(path_of(storage)),
            found=error.strerror,
            hint="remove it by hand; nothing in it belongs to the environment",
        ) from error


def _moves(storage: Storage) -> list[Move]:
    path = f"{DIRECTORY}/{_COMMIT}"
    if storage.stat(path) is None:
        return []
    file = storage.open(path)
    try:
        found: list[Any] = json.loads(file.read(0, file.size()))
    except ValueError:  # the step had not begun
        return []
    finally:
        file.close()
    return [Move(*entry) for entry in found]


def _take_back(storage: Storage, moved: list[Move]) -> None:
    """Remove files that reached the environment, unless the log was written since."""
    sizes = {file.path: file.size_bytes for file in list_log_files(storage).files}
    last = list_log_files(storage).files[-1].path
    # Entries written since follow these files in the log, so the files stay.
    if not moved or moved[-1].path != last or any(sizes.get(move.path) != move.size for move in moved):
        return
    # Remove the last file first, so that a crash here leaves no gap in the log.
    for move in reversed(moved):
        storage.remove(move.path)
    _sync_directories(storage, moved)


def _sync_directories(storage: Storage, moves: list[Move]) -> None:
    for directory in sorted({move.path.rpartition("/")[0] for move in moves}):
        storage.sync_directory(directory)
