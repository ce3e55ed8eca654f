"""Repairs that were interrupted: what the next command does about one.

* A command that writes takes it back first, whole, or finishes its undo, and says so. So every command finds the
  environment as it was before, or as a finished repair left it; and a repair that is run again begins anew, counts what
  is given up as the first run did, and can be taken back as a whole.
* A command that reads changes nothing: it warns.
* Where somebody else has written since, nothing is taken back: the command is refused, and the operator decides.

A marker in the environment says that one was begun (``engine.storage.journal``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import JetoolError, RefusedError
from engine.log.files import LOCK_FILE, WRITER_BYTE
from engine.storage import journal, undo
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.journal import MARKER, PendingRepair
from engine.storage.overlay import OverlayStorage
from engine.storage.sidecar import DirectoryBeside
from jetool.frame import kinds
from jetool.frame.options import Run


def settle(run: Run, env: str) -> None:
    """Take back what an interrupted repair did, or finish its undo, under the lock of the environment.

    Arguments:
        run: gets a warning that says what was done.
        env: its directory.

    Raises:
        RefusedError: the repair is at work; somebody has written since; its saved bytes are not there.
    """
    disk = DirectoryBeside(env, env)
    with locked(run, disk):
        pending = journal.pending_in(disk)
        if pending is None:
            # It ended before the lock was ours; at most its marker is left.
            journal.unmark(disk)
            return
        # Under the lock: nobody else takes the same repair back.
        backup = saved_by(disk, pending)
        state = undo.settle(disk, backup)
    if state is None:
        return
    done = "was taken back" if state == journal.RUNNING else "had been taken back in part, the rest was done now"
    run.messages.warning(
        f"an interrupted repair ({pending.command}) {done}",
        file=env,
        consequence="the environment is as it was before that repair; this command goes on from there",
    )


def preview(run: Run, env: str) -> None:
    """Say that the real run would take something back first, or that what is read is between two states."""
    # A link in the environment must not lead the undo to files elsewhere.
    disk = DiskStorage(env, follow=False)
    pending = journal.pending_in(disk)
    if pending is None:
        return
    if run.dry_run:
        what = "a real run first brings back what was there before it"
    else:
        what = "what is shown is neither the state before it nor the state after it"
    # A lock that is held means that the repair is still running, not that it died.
    if _is_locked(disk):
        run.messages.notice(f"a repair ({pending.command}) is at work", file=env, consequence=what)
        return
    run.messages.warning(
        f"a repair ({pending.command}) was interrupted", file=env, consequence=what, hint=f"jetool undo {env}"
    )


def as_before(disk: DiskStorage) -> Storage:
    """The environment as a command that writes would find it: a view in memory when a repair was interrupted."""
    pending = journal.pending_in(disk)
    if pending is None:
        return disk
    view, backup = OverlayStorage(disk), saved_by(disk, pending)
    # Over the backup too: settling notes its progress there.
    undo.settle(view, OverlayStorage(backup))
    return view


def saved_by(disk: DiskStorage, pending: PendingRepair) -> DiskStorage:
    """The backup directory that a marker names.

    Raises:
        RefusedError: it is not there, or holds the bytes of another environment.
    """
    backup = DiskStorage(pending.backup, follow=False)
    owner = journal.read_manifest(backup).get("database")
    if owner is None:
        raise RefusedError(
            f"a repair ({pending.command}) was interrupted, and its saved bytes are not there",
            file=pending.backup,
            consequence="nobody can tell what it had done; nothing was changed",
            hint=f"make the directory available again; without {disk.root}/{MARKER} the files count as they are",
        )
    # A copied environment carries its marker along, but the bytes belong to the original.
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
    """The backup directory that undo goes by: the one asked for, that of an interrupted repair, or the newest.

    Arguments:
        disk: the environment.
        asked: ``--backup-dir``.
        beside: the directory of its backup directories. One that is already undone is the answer only when no other
            is left: an undo that was killed at its very end can be run again.

    Raises:
        RefusedError: as ``saved_by``.
    """
    if asked is not None:
        return DiskStorage(asked, follow=False)
    pending = journal.pending_in(disk)
    if pending is not None:
        return saved_by(disk, pending)
    undone = None
    # Names are times in UTC, so the order of names is that of runs.
    for path in sorted(beside.iterdir(), reverse=True) if beside.is_dir() else ():
        found = DiskStorage(path, follow=False)
        state = journal.read_manifest(found).get("state")
        if state == journal.UNDONE:
            undone = undone or found
        elif state is not None or found.stat(journal.JOURNAL) is not None:
            return found
    return undone


def note_undone(run: Run, backup: Storage) -> None:
    """Tell the operator when the changes of a backup directory are already undone."""
    if journal.read_manifest(backup).get("state") == journal.UNDONE:
        run.messages.notice("already undone", file=backup.root, consequence="the environment was left as it is")


@contextmanager
def locked(run: Run, disk: DiskStorage) -> Iterator[None]:
    """Hold the writer's lock of an environment of either kind.

    Raises:
        RefusedError: somebody else has it, also after the time of ``--lock-timeout``.
    """
    if kinds.kind_of(disk) == kinds.DERBY:
        from engine.derby.database import DerbyDatabase
        from engine.derby.recovery.manager import unlock

        database = DerbyDatabase(disk)
        if not run.dry_run:
            database.wait_unlocked(run.lock_timeout_s)
        lock = database.lock()
        try:
            yield
        finally:
            unlock(disk, lock)
        return
    from jetool.frame import environments

    environments.wait_for_lock(run, disk)
    # A lock needs a file; an environment that JE never opened for writing has none.
    disk.open_rw(LOCK_FILE, create=True).close()
    lock = disk.lock(LOCK_FILE, WRITER_BYTE, exclusive=True)
    try:
        yield
    finally:
        lock.release()


def stopped(run: Run, env: str, error: BaseException) -> None:
    """What a repair does that has left its marker: take back after an error, say what comes next otherwise.

    After an interrupt the process is to go, and the next command has all the time it needs.
    """
    pending = journal.pending_in(DiskStorage(env, follow=False))
    if pending is not None and not _is_taken_back(run, env, error):
        run.messages.warning(
            f"the repair ({pending.command}) is not finished",
            file=env,
            consequence=f"the old bytes are saved in {pending.backup}",
            hint=f"jetool undo {env} takes it back; the same command again begins anew",
        )


def _is_taken_back(run: Run, env: str, error: BaseException) -> bool:
    # An interrupt wants the process gone; a bug is not to be trusted with more writing.
    if not isinstance(error, JetoolError):
        return False
    try:
        settle(run, env)
    except JetoolError:
        # The first error is the one to be shown; the warning says what is left to do.
        return False
    return True


def _is_locked(disk: DiskStorage) -> bool:
    for name in (LOCK_FILE, "dbex.lck"):
        if disk.stat(name) is not None and disk.lock_holder(name, WRITER_BYTE) is not None:
            return True
    return False
