"""Repairs that open an environment, change something, and can be undone.

Order: lock; recover; change; checkpoint; write a digest of the changes to the backup directory. Every overwrite, cut or
append is recorded before it happens. A repair that fails or is killed leaves a marker, and the next command undoes it
(``interrupted``). A dry run is the same on a view whose changes stay in memory: it takes no lock and makes no file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.log.files import LOCK_FILE
from engine.rescue.repair.access import (
    backup_directory,
    full_backup_named,
    leaving_no_lock_file,
    wait_for_writer,
    writer_of,
)
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
from engine.storage.saved_bytes import SavingStorage
from jetool.frame.environments import with_orders
from jetool.frame.kinds import require_je
from jetool.frame.options import Run


class Repair:
    """An environment under repair.

    Attributes:
        environment: open for writing.
        backup, saved_bytes: directory and number of saved bytes, after the repair; None and 0 if nothing was saved.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.backup: str | None = None
        self.saved_bytes = 0


@contextmanager
def repairing(run: Run, env: str, command: str, config: EnvironmentConfig) -> Iterator[Repair]:
    """Open an environment for a repair.

    Arguments:
        run: gives dry run, lock timeout and backup directory.
        env: the directory of the environment.
        command: the name of the repair for ``undo``.
        config: how it is opened.

    Raises:
        JetoolError: as ``Environment``.
    """
    disk = DiskStorage(env)
    require_je(disk)
    # Only ``recover`` may discard intact entries after a bad one.
    config = replace(with_orders(run, disk, config), halt_on_record_after_bad=True)
    if run.dry_run:
        with Environment(OverlayStorage(disk), config, run.listener) as opened:
            yield Repair(opened)
        return
    wait_for_writer(disk, run.lock_timeout_s)
    with leaving_no_lock_file(disk):
        yield from _for_good(run, env, disk, command, config)


def _for_good(run: Run, env: str, disk: DiskStorage, command: str, config: EnvironmentConfig) -> Iterator[Repair]:
    """Run the repair on the real files."""
    if writer_of(disk) is None:
        # Create the lock file first, so that undo does not remove it.
        disk.open_rw(LOCK_FILE, create=True).close()
    backup = backup_directory(env, run.backup_dir)
    if backup is None:
        with Environment(disk, config, run.listener) as opened:
            yield Repair(opened)
        return
    saving = SavingStorage(disk, backup, command)
    try:
        with full_backup_named(backup), Environment(saving, config, run.listener) as opened:
            repair = Repair(opened)
            yield repair
    except BaseException:
        # The marker stays, because the repair is incomplete until undo or the next command handles it.
        saving.interrupt()
        raise
    # Do this after closing the environment, because its last checkpoint is part of the repair.
    saving.finish({})
    if saving.saved_bytes:
        repair.backup, repair.saved_bytes = backup.root, saving.saved_bytes
        run.messages.notice(
            f"the old bytes were saved in {repair.backup}", hint=f"jetool undo {env} reverts the change"
        )
