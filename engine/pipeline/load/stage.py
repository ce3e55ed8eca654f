"""The staging directory of a load, and the step that makes it part of the environment.

Everything that a load writes goes to ``.jetool-load`` in the environment, which JE and every reader ignore. Only the
last step touches the environment: the log files are renamed into place in ascending order, the one with the checkpoint
last. Before it every file is durable, and ``commit.json`` says which files go.

A load that dies before that step leaves the directory, and the next one removes it. One that dies within the step
leaves files in the environment that recovery ignores: their nodes are provisional and their LNs belong to a database
without a root. ``clean`` takes them back, as long as nothing was written after them.
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
    """A file that goes into the environment: its name in the staging directory, its path there, its size."""

    name: str
    path: str
    size: int


def clean(storage: Storage) -> bool:
    """Remove what an earlier load has left. The caller holds the environment's lock.

    Returns:
        Whether there was something.

    Raises:
        StorageError: it cannot be removed.
    """
    if storage.stat(DIRECTORY) is None:
        return False
    moves = _moves(storage)
    # Renames go in order and the checkpoint's is last: a file left here means that the step did not end.
    left = [move for move in moves if storage.stat(f"{DIRECTORY}/{move.name}") is not None]
    if left:
        _take_back(storage, [move for move in moves if move not in left])
    remove(storage)
    return True


def make(storage: Storage) -> Path:
    """Make the directory; its path."""
    storage.make_directory(DIRECTORY)
    storage.sync_directory()
    return path_of(storage)


def path_of(storage: Storage) -> Path:
    """The directory's path, as tasks see it."""
    return Path(storage.root).resolve() / DIRECTORY


def commit(storage: Storage, moves: list[Move]) -> None:
    """Make the files part of the environment. Each is durable; ascending, the last one holds the checkpoint."""
    plan = storage.open_rw(f"{DIRECTORY}/{_COMMIT}", create=True)
    plan.truncate(0)
    plan.write(0, json.dumps([list(move) for move in moves]).encode())
    # The plan is durable before the first rename: ``clean`` must know what to take back.
    plan.sync()
    plan.close()
    storage.sync_directory(DIRECTORY)
    for move in moves[:-1]:
        storage.rename(f"{DIRECTORY}/{move.name}", move.path)
    # All other names must be durable before the file with the checkpoint has one.
    _sync_directories(storage, moves)
    storage.rename(f"{DIRECTORY}/{moves[-1].name}", moves[-1].path)
    _sync_directories(storage, moves)


def remove(storage: Storage) -> None:
    """Remove the directory and what is in it."""
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
    """Remove files that reached the environment, unless somebody has written there since."""
    sizes = {file.path: file.size_bytes for file in list_log_files(storage).files}
    last = list_log_files(storage).files[-1].path
    # Entries written since come after these files in the log, which therefore stay.
    if not moved or moved[-1].path != last or any(sizes.get(move.path) != move.size for move in moved):
        return
    # From the last one on, so that a crash here leaves no gap before a file.
    for move in reversed(moved):
        storage.remove(move.path)
    _sync_directories(storage, moved)


def _sync_directories(storage: Storage, moves: list[Move]) -> None:
    for directory in sorted({move.path.rpartition("/")[0] for move in moves}):
        storage.sync_directory(directory)
