"""Repairs that open an environment, change something, and can be undone.

Order: lock; recover; change; checkpoint; the digest of what was changed goes to the backup directory. Every byte that
is overwritten, cut off or added is noted before it happens. A repair that ends with an error, or not at all, leaves a
marker, and the next command takes it back (``interrupted``). A dry run is the same on a view whose changes stay in
memory: it takes no lock and makes no file.
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
        backup, saved_bytes: where the old bytes are, once the repair is over; None and 0 when nothing was saved.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.backup: str | None = None
        self.saved_bytes = 0


@contextmanager
def repairing(run: Run, env: str, command: str, config: EnvironmentConfig) -> Iterator[Repair]:
    """Open an environment for a repair.

    Arguments:
        run: says whether this is a dry run, how long to wait for the lock, where old bytes go.
        env: its directory.
        command: what ``undo`` will call it.
        config: how it is opened.

    Raises:
        JetoolError: as ``Environment``.
    """
    disk = DiskStorage(env)
    require_je(disk)
    # Only recover gives up what stands intact after a bad entry.
    config = replace(with_orders(run, disk, config), halt_on_record_after_bad=True)
    if run.dry_run:
        with Environment(OverlayStorage(disk), config, run.listener) as opened:
            yield Repair(opened)
        return
    wait_for_writer(disk, run.lock_timeout_s)
    with leaving_no_lock_file(disk):
        yield from _for_good(run, env, disk, command, config)


def _for_good(run: Run, env: str, disk: DiskStorage, command: str, config: EnvironmentConfig) -> Iterator[Repair]:
    """The repair on the files themselves."""
    if writer_of(disk) is None:
        # The lock file is no data: made first, it is not among what undo takes back.
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
        # The marker stays: what was written is half a repair until undo or the next command settles it.
        saving.interrupt()
        raise
    # Only after the environment was closed: its last checkpoint is part of the repair.
    saving.finish({})
    if saving.saved_bytes:
        repair.backup, repair.saved_bytes = backup.root, saving.saved_bytes
        run.messages.notice(
            f"the old bytes were saved in {repair.backup}", hint=f"jetool undo {env} takes the change back"
        )
