"""Repairs that were interrupted: what the next command does about one (``engine.rescue.repair.settlement``).

* A command that writes takes the repair back first, whole, or finishes its undo, and says so.
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
    """Take back what an interrupted repair did, or finish its undo, under the lock of the environment.

    Arguments:
        run: gets a warning that says what was done.
        env: its directory.

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
        consequence="the environment is as it was before that repair; this command goes on from there",
    )


def preview(run: Run, env: str) -> None:
    """Say that the real run would take something back first, or that what is read is between two states."""
    pending = settlement.pending_repair(env)
    if pending is None:
        return
    if run.dry_run:
        what = "a real run first brings back what was there before it"
    else:
        what = "what is shown is neither the state before it nor the state after it"
    if settlement.is_at_work(env):
        run.messages.notice(f"a repair ({pending.command}) is at work", file=env, consequence=what)
        return
    run.messages.warning(
        f"a repair ({pending.command}) was interrupted", file=env, consequence=what, hint=f"jetool undo {env}"
    )


def note_undone(run: Run, backup: Storage) -> None:
    """Say so when the changes of a backup directory are already undone."""
    if journal.read_manifest(backup).get("state") == journal.UNDONE:
        say_undone(run, backup.root)


def say_undone(run: Run, backup: str) -> None:
    """Say that the changes of a backup directory were undone before."""
    run.messages.notice("already undone", file=backup, consequence="the environment was left as it is")


@contextmanager
def locked(run: Run, disk: DiskStorage) -> Iterator[None]:
    """Hold the writer's lock of an environment of either kind.

    Raises:
        RefusedError: another process has it, also after the time of ``--lock-timeout``.
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
    """What a repair does that has left its marker: take back after an error, say what comes next otherwise.

    After an interrupt the process is to go, and the next command has all the time it needs.
    """
    pending = settlement.pending_repair(env)
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
