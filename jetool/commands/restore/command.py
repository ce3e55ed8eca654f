"""``jetool restore``: restore an environment from a backup, completely or as of a point."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, ParamSpec

import click

from engine.backup.point_lookup import Chosen, choose
from engine.backup.repository import Repository
from engine.backup.restore import (
    RestorePlan,
    finish,
    is_in_place,
    plan_restore,
    put_files,
    require_place,
    without_marker,
)
from engine.db.environment import Environment
from engine.errors import RefusedError, UsageError, plural
from engine.format.lsn import format_lsn
from engine.log.files import LOCK_FILE, WRITER_BYTE
from engine.rep.group import check_name
from engine.rep.reset import reset_group
from engine.rescue.points import LSN, TIME, TXN, VLSN, Point
from engine.rescue.repair.access import backup_directory, wait_for_writer
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.journal import MARKER as REPAIR_MARKER
from engine.storage.saved_bytes import SavingStorage
from jetool.commands.backup.repository_lookup import DEST_HELP, chosen_id, open_repository
from jetool.commands.restore.rows import ALONE, MEMBER, NEW, RestoreResult, restored
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command
from jetool.frame.environments import config_of, with_orders
from jetool.frame.interrupted import preview, settle
from jetool.frame.kinds import JE, require
from jetool.frame.options import Run
from jetool.output.shape import time_text

COMMAND: Final = "restore"
P = ParamSpec("P")


def _check(_run: Run, *, standing: str, group: str | None, node: str | None, address: Any, **options: Any) -> None:
    points = [f"--to-{kind}" for kind in (TIME, LSN, VLSN, TXN) if options[f"to_{kind}"] is not None]
    if len(points) > 1:
        raise UsageError("one point can be restored", found=" and ".join(points), hint="leave out all but one")
    given = {"--group": group, "--node": node, "--address": address}
    if standing == NEW:
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise UsageError("--as new needs the names of the new group and its node", expected=", ".join(missing))
        check_name("group", str(group))
        check_name("node", str(node))
    elif any(value is not None for value in given.values()):
        words = ", ".join(name for name, value in given.items() if value is not None)
        raise UsageError("these name a new group, which is for --as new", found=words)


def _points(function: Callable[P, int]) -> Callable[P, int]:
    """The options for a point in the log."""
    for name, kind, text in (
        ("--to-txn", click.INT, "Restore the log up to the Commit or Abort of this transaction."),
        ("--to-vlsn", params.VLSN, "Restore the log up to this VLSN."),
        ("--to-lsn", params.LSN, "Restore the log before the entry at this LSN."),
        ("--to-time", params.TIME, "Restore everything committed up to this time."),
    ):
        function = click.option(name, type=kind, help=text)(function)
    return function


@command(
    COMMAND,
    check=_check,
    outputs=lambda: Outputs("document", (RestoreResult,)),
    features=("fields", "progress", "times", "lock", "cache", "order", "write"),
    examples=(
        ("The newest backup, into a new directory", "jetool restore /backup/env /data/env"),
        (
            "Preview the state before a mistake",
            "jetool restore /backup/env /data/env --to-time 2026-11-21T14:00:00Z -n",
        ),
        ("Replace a damaged log, keeping undamaged files", "jetool restore /backup/env /data/env --delta --yes"),
        (
            "As the only member of a new group",
            "jetool restore /backup/fe /data/fe --as new --group FE2 --node fe9 --address fe9:9010",
        ),
    ),
    exits={
        exits.DONE: "restored, or would be",
        exits.REFUSED: (
            "the directory is not empty, or in use; files would be removed and --yes is missing; no backup has the "
            "files that were in use at the point"
        ),
        exits.NOT_FOUND: "no directory of backups, no such backup, no backup that reaches the point",
        exits.UNSUPPORTED: "a log version that this program does not read",
        exits.INCOMPLETE: (
            "a stored file is damaged or cannot be read, or there is no room: run the command again to continue"
        ),
    },
)
@click.argument("dest", type=click.Path(), metavar="DEST", help=DEST_HELP)
@click.argument(
    "target",
    type=params.DIRECTORY,
    metavar="ENV",
    help="The new environment: a directory that does not exist, or is empty.",
)
@click.option(
    "--backup",
    "made",
    metavar="ID",
    help="A backup by name, or latest.  [default: the newest; for a point, the oldest that reaches it]",
)
@_points
@click.option("--delta", is_flag=True, help="Restore over an existing log: files with the right digest stay.")
@click.option(
    "--as",
    "standing",
    type=click.Choice((MEMBER, NEW)),
    default=MEMBER,
    help="A replicated environment becomes the member that it was, or the only member of a new group."
    "  [default: member]",
)
@click.option("--group", metavar="NAME", help="With --as new, name of the new group.")
@click.option("--node", metavar="NAME", help="With --as new, name of the node in it.")
@click.option("--address", type=params.HOST, metavar="HOST:PORT", help="With --as new, the address of the node.")
def restore(
    run: Run,
    /,
    dest: str,
    target: str,
    made: str | None,
    delta: bool,
    standing: str,
    group: str | None,
    node: str | None,
    address: tuple[str, int] | None,
    **points: Any,
) -> int:
    """Restore an environment from a backup in the directory DEST, whole or as of a point.

    The log is cut where a transaction ends, at the given point or before it, never within a rollback. The result is
    recovered in memory before anything is written. Every file is compared with its SHA-256 while it is copied. The last
    one ends with a marker that forces the next writer to begin a new file, so that no file of the backup ever grows.

    While files are copied, a marker keeps JE and jetool from opening the environment. A restore that was stopped
    continues when it is run again. With --delta the bytes to be removed are saved first, and jetool undo restores them.

    A replicated environment becomes the member that its configuration names. Under its old name it is the same member
    as before, which catches up with its group or rolls back what the group lacks. Under another name it is a new
    member. With --as new it becomes the only member of a new group, as with jetool group reset.
    """
    repository, disk = open_repository(dest), DiskStorage(target, follow=False)
    require(JE, disk, COMMAND)
    if os.path.lexists(os.path.join(target, REPAIR_MARKER)):
        (preview if run.dry_run else settle)(run, target)
    point = _point(points)
    chosen = choose(repository, chosen_id(repository, made) if made is not None else None, point, run.listener)
    standing, name = _standing(chosen, standing, group)
    asked = point.text if point is not None else None
    if _is_there(repository, chosen, disk, standing, delta=delta):
        run.messages.notice("the directory already holds the complete backup", file=target)
        delta = True
    _tell(run, chosen, target)
    if run.dry_run:
        plan = plan_restore(repository, chosen, disk, delta=delta, listener=run.listener)
        run.out.document(restored(target, asked, plan, dry_run=True, standing=(standing, name), saved_in=None))
        return exits.DONE
    if disk.stat() is None:
        # Plan before creating the directory, so that a refusal leaves no empty directory.
        plan_restore(repository, chosen, disk, delta=delta, listener=run.listener)
    disk.make_directory("")
    with _saving(run, target, disk) as saving:
        with _locked(run, disk):
            plan = plan_restore(repository, chosen, disk, delta=delta, listener=run.listener)
            _require_consent(run, target, plan, delta=delta)
            storage = saving(plan)
            put_files(repository, plan, storage, listener=run.listener)
        # The reset takes the lock itself; the marker keeps other processes from opening the environment.
        if standing == NEW and address is not None:
            _reset(run, without_marker(storage), str(group), str(node), address)
        with _locked(run, disk):
            finish(storage)
    run.out.document(restored(target, asked, plan, dry_run=False, standing=(standing, name), saved_in=saving.root))
    _tell_standing(run, chosen, target, standing)
    return exits.DONE


def _is_there(repository: Repository, chosen: Chosen, disk: DiskStorage, standing: str, *, delta: bool) -> bool:
    """Whether the directory already holds the complete result.

    Raises:
        RefusedError: the directory holds other files, and ``delta`` is not set.
    """
    # A run that was killed after its last step has left the complete result.
    if not delta and standing != NEW and is_in_place(repository, chosen, disk):
        return True
    require_place(disk, delta=delta)
    return False


def _point(options: dict[str, Any]) -> Point | None:
    for kind in (TIME, LSN, VLSN, TXN):
        value = options[f"to_{kind}"]
        if value is None:
            continue
        if kind == LSN:
            if value.lsn is None:
                raise UsageError("--to-lsn needs an LSN", found=str(value.symbol), hint="write 0xFILE/0xOFFSET")
            value = value.lsn
        shown = format_lsn(value) if kind == LSN else time_text(value) if kind == TIME else value
        return Point(kind, value, f"{kind}:{shown}")
    return None


def _standing(chosen: Chosen, asked: str, group: str | None) -> tuple[str, str | None]:
    """The role of the environment in a group, and the name of the group."""
    found = chosen.manifest.group
    if found is None and asked == NEW:
        raise UsageError(
            "--as new is for replicated environments, and the backup is of an environment without replication",
            found=chosen.manifest.id,
        )
    if asked == NEW:
        return NEW, group
    return (ALONE, None) if found is None else (MEMBER, found.name)


def _tell(run: Run, chosen: Chosen, target: str) -> None:
    for made, error in chosen.passed_over:
        run.messages.notice(f"backup {made} was skipped", found=str(error))
    cut = chosen.cut.cut if chosen.cut is not None else None
    if cut is not None and cut.snapped:
        run.messages.notice(f"the point is {cut.snapped}", file=target, lsn=format_lsn(cut.end_lsn))


def _tell_standing(run: Run, chosen: Chosen, target: str, standing: str) -> None:
    group = chosen.manifest.group
    if standing == MEMBER and group is not None:
        run.messages.notice(
            f"it is the member of group {group.name} that its configuration names",
            file=target,
            consequence="under the name of the node that was backed up the same one: never start both",
            hint="restore it with --as new for a group of its own",
        )


def _reset(run: Run, storage: Storage, group: str, node: str, address: tuple[str, int]) -> None:
    """Make the environment the only member of a new group."""
    with Environment(storage, with_orders(run, storage, config_of(run)), run.listener) as opened:
        reset_group(opened, group, node, *address)


def _require_consent(run: Run, target: str, plan: RestorePlan, *, delta: bool) -> None:
    coming = [one.file.path for one in plan.files if not one.is_there] if delta and not plan.resumes else []
    if not run.yes and delta and not plan.resumes and (plan.removed or coming):
        raise RefusedError(
            f"the log that is there would be replaced: {plural(len(plan.removed), 'file')} removed, "
            f"{plural(len(coming), 'file')} copied from the backup",
            file=target,
            consequence="nothing was changed",
            hint="preview it with -n; add --yes to do it",
        )


class _Saving:
    """Saves the previous files of the directory; ``root`` is the place, None if nothing was saved."""

    def __init__(self, run: Run, target: str, disk: DiskStorage) -> None:
        self._run = run
        self._target = target
        self._disk = disk
        self.storage: SavingStorage | None = None
        self.root: str | None = None

    def __call__(self, plan: RestorePlan) -> Storage:
        """The storage that the restore writes to."""
        replaced = any(self._disk.stat(one.file.path) is not None for one in plan.files if not one.is_there)
        backup = backup_directory(self._target, self._run.backup_dir) if plan.removed or replaced else None
        # Files of a killed restore were never in use, so they need not be saved for undo.
        if backup is None or plan.resumes:
            return self._disk
        self.storage, self.root = SavingStorage(self._disk, backup, COMMAND), backup.root
        return self.storage


@contextmanager
def _saving(run: Run, target: str, disk: DiskStorage) -> Iterator[_Saving]:
    saving = _Saving(run, target, disk)
    try:
        yield saving
    except BaseException:
        if saving.storage is not None:
            # The marker stays until undo or the next command removes it.
            saving.storage.interrupt()
        raise
    if saving.storage is not None:
        saving.storage.finish({})
        run.messages.notice(
            f"the previous files are saved in {saving.root}", hint=f"jetool undo {target} restores them"
        )


@contextmanager
def _locked(run: Run, disk: DiskStorage) -> Iterator[None]:
    wait_for_writer(disk, run.lock_timeout_s)
    disk.open_rw(LOCK_FILE, create=True).close()
    lock = disk.lock(LOCK_FILE, WRITER_BYTE, exclusive=True)
    try:
        yield
    finally:
        lock.release()
