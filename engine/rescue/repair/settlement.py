"""Interrupted repairs.

A repair writes a marker into the environment before its first change (``engine.storage.journal``), and removes it at
the end. A remaining marker means that the repair was interrupted:

* ``settle`` undoes the repair, or finishes its undo, under the lock of the environment. Afterwards every byte is as
  before the repair, so that the same repair can be started again, and can be undone as a whole.
* ``as_before`` gives the same state as a view in memory.
* If another process has written since, nothing is undone: the call is refused, and the operator decides.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from engine.errors import RefusedError
from engine.rescue.repair.access import writer_locked
from engine.storage import journal, undo
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.journal import MARKER, PendingRepair
from engine.storage.overlay import OverlayStorage
from engine.storage.sidecar import DirectoryBeside

# Makes a context in which the lock of an environment is held.
HoldLock = Callable[[DiskStorage], AbstractContextManager[None]]


class SettledRepair(NamedTuple):
    """A repair that was undone.

    Attributes:
        command: the repair.
        was_undoing: the undo had begun earlier, and was finished now.
    """

    command: str
    was_undoing: bool


def settle(env: str, hold: HoldLock = writer_locked) -> SettledRepair | None:
    """Undo an interrupted repair, or finish its undo; None if no repair was interrupted.

    Arguments:
        env: the directory of the environment.
        hold: makes the context that holds the lock of the environment during the undo; the default is for JE
            environments.

    Raises:
        RefusedError: the repair is still running, another process has written since, or the saved bytes are missing.
    """
    disk = DirectoryBeside(env, env)
    with hold(disk):
        pending = journal.pending_in(disk)
        if pending is None:
            # The repair ended before the lock was acquired; at most its marker is left.
            journal.unmark(disk)
            return None
        # Under the lock, so that no other process undoes the same repair.
        state = undo.settle(disk, saved_by(disk, pending))
    return None if state is None else SettledRepair(pending.command, was_undoing=state != journal.RUNNING)


def pending_repair(env: str) -> PendingRepair | None:
    """The repair whose marker is in an environment."""
    # A link in the environment must not lead to files elsewhere.
    return journal.pending_in(DiskStorage(env, follow=False))


def is_at_work(env: str) -> bool:
    """Whether a process holds the lock of a writer: then a pending repair is still running."""
    return journal.is_at_work(DiskStorage(env, follow=False))


def as_before(disk: DiskStorage) -> Storage:
    """The environment as a writing command would find it: a view in memory if a repair was interrupted."""
    pending = journal.pending_in(disk)
    if pending is None:
        return disk
    view, backup = OverlayStorage(disk), saved_by(disk, pending)
    # The backup gets an overlay too, since settling records its progress there.
    undo.settle(view, OverlayStorage(backup))
    return view


def saved_by(disk: DiskStorage, pending: PendingRepair) -> DiskStorage:
    """The backup directory that a marker names.

    Raises:
        RefusedError: the directory is missing, or belongs to another environment.
    """
    backup = DiskStorage(pending.backup, follow=False)
    owner = journal.read_manifest(backup).get("database")
    if owner is None:
        raise RefusedError(
            f"a repair ({pending.command}) was interrupted, and its saved bytes are not there",
            file=pending.backup,
            consequence="its changes cannot be determined; nothing was changed",
            hint=f"make the directory available again; without {disk.root}/{MARKER} the files count as they are",
        )
    # A copied environment contains the marker, but the saved bytes belong to the original.
    if owner != os.path.realpath(disk.root):
        raise RefusedError(
            f"a repair ({pending.command}) was interrupted, and its saved bytes are those of another directory",
            file=pending.backup,
            expected=os.path.realpath(disk.root),
            found=str(owner),
            consequence="nothing was changed",
            hint=f"if this is a moved copy of it: jetool undo {disk.root} --backup-dir {pending.backup}",
        )
    return backup


def last_backup(disk: DiskStorage, asked: str | None, beside: Path) -> DiskStorage | None:
    """The backup directory for undo: the requested one, that of an interrupted repair, or the newest.

    Arguments:
        disk: the environment.
        asked: the directory given by the user.
        beside: the directory of its backup directories. A directory that was already undone is used only if there is no
            other, so that an undo killed at its very end can be repeated.

    Raises:
        RefusedError: as ``saved_by``.
    """
    if asked is not None:
        return DiskStorage(asked, follow=False)
    pending = journal.pending_in(disk)
    if pending is not None:
        return saved_by(disk, pending)
    undone = None
    # Names are times in UTC, so they sort in the order of runs.
    for path in sorted(beside.iterdir(), reverse=True) if beside.is_dir() else ():
        found = DiskStorage(path, follow=False)
        state = journal.read_manifest(found).get("state")
        if state == journal.UNDONE:
            undone = undone or found
        elif state is not None or found.stat(journal.JOURNAL) is not None:
            return found
    return undone
