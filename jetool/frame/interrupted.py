"""How the next command handles an interrupted repair (``engine.rescue.repair.settlement``).

* A command that writes first undoes the repair completely, or finishes its undo, and prints a message.
* A command that reads changes nothing: it warns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from engine.errors import JetoolError
from engine.rescue.repair import settlement
from engine.rescue.repair.access import writer_locked
from engine.storage import journal
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from jetool.frame import kinds
from jetool.frame.options import Run


def settle(run: Run, env: str) -> None:
    """Undo an interrupted repair, or finish its undo, while holding the lock of the environment.

    Arguments:
        run: receives a warning about the action.
        env: the directory of the environment.

    Raises:
        RefusedError: as ``settlement.settle``.
    """
    settled = settlement.settle(env, partial(locked, run))
    if settled is None:
        return
    done = "had been taken back in part, the rest was done now" if settled.was_undoing else "was taken back"
    run.messages.warning(
        f"an interrupted repair ({settled.command}) {done}",
        file=env,
        consequence="the environment is as it was before that repair; this command continues from there",
    )


def preview(run: Run, env: str) -> None:
    """Warn that a real run would first undo a repair, or that the data being read is between two states."""
    pending = settlement.pending_repair(env)
    if pending is None:
        return
    if run.dry_run:
        what = "a real run first restores the state before it"
    else:
        what = "the output is neither the state before it nor the state after it"
    if settlement.is_at_work(env):
        run.messages.notice(f"a repair ({pending.command}) is running", file=env, consequence=what)
        return
    run.messages.warning(
        f"a repair ({pending.command}) was interrupted", file=env, consequence=what, hint=f"jetool undo {env}"
    )


def note_undone(run: Run, backup: Storage) -> None:
    """Print a notice if the changes of a backup directory are already undone."""
    if journal.read_manifest(backup).get("state") == journal.UNDONE:
        say_undone(run, backup.root)


def say_undone(run: Run, backup: str) -> None:
    """Print a notice that the changes of a backup directory were already undone."""
    run.messages.notice("already undone", file=backup, consequence="the environment was left as it is")


@contextmanager
def locked(run: Run, disk: DiskStorage) -> Iterator[None]:
    """Hold the writer's lock of an environment of either kind.

    Raises:
        RefusedError: another process still holds it after ``--lock-timeout``.
    """
    if kinds.kind_of(disk) != kinds.DERBY:
        with writer_locked(disk, run.lock_timeout_s):
            yield
        return
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


def stopped(run: Run, env: str, error: BaseException) -> None:
    """Handle the marker of this run's own repair: after an error undo the repair, otherwise print what to do next.

    After an interrupt the process should end quickly, so the next command undoes the repair.
    """
    pending = settlement.pending_repair(env)
    if pending is not None and not _is_taken_back(run, env, error):
        run.messages.warning(
            f"the repair ({pending.command}) is not finished",
            file=env,
            consequence=f"the old bytes are saved in {pending.backup}",
            hint=f"jetool undo {env} reverts it; the same command again starts from the beginning",
        )


def _is_taken_back(run: Run, env: str, error: BaseException) -> bool:
    # After an interrupt the process should end; after a bug it must not write any more.
    if not isinstance(error, JetoolError):
        return False
    try:
        settle(run, env)
    except JetoolError:
        # The first error is reported; the warning describes the remaining steps.
        return False
    return True
